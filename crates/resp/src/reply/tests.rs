//! Every type of reply in both dialects, deferred headers, shared values, replies that are taken back.

use super::*;

fn both(write: impl Fn(&mut Reply)) -> (String, String) {
    let mut two = Reply::new(Proto::Resp2);
    let mut three = Reply::new(Proto::Resp3);
    write(&mut two);
    write(&mut three);
    (String::from_utf8(two.bytes).unwrap(), String::from_utf8(three.bytes).unwrap())
}

#[track_caller]
fn check(write: impl Fn(&mut Reply), two: &str, three: &str) {
    assert_eq!(both(write), (two.to_string(), three.to_string()));
}

#[test]
fn every_type_in_both_dialects() {
    check(|r| r.ok(), "+OK\r\n", "+OK\r\n");
    check(|r| r.simple("QUEUED"), "+QUEUED\r\n", "+QUEUED\r\n");
    check(|r| r.error("ERR no"), "-ERR no\r\n", "-ERR no\r\n");
    check(|r| r.error("\nERR a\r\nb\r\n"), "-ERR a  b\r\n", "-ERR a  b\r\n");
    check(|r| r.int(0), ":0\r\n", ":0\r\n");
    check(|r| r.int(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n");
    check(|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
    check(|r| r.bulk_int(-5), "$2\r\n-5\r\n", "$2\r\n-5\r\n");
    check(|r| r.null(), "$-1\r\n", "_\r\n");
    check(|r| r.null_array(), "*-1\r\n", "_\r\n");
    check(|r| r.array(2), "*2\r\n", "*2\r\n");
    check(|r| r.map(6), "*12\r\n", "%6\r\n");
    check(|r| r.set(123), "*123\r\n", "~123\r\n");
    check(|r| r.push(3), "*3\r\n", ">3\r\n");
    check(|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
    check(|r| r.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n");
    check(|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(|r| r.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n");
    check(|r| r.bool(true), ":1\r\n", "#t\r\n");
    check(|r| r.bool(false), ":0\r\n", "#f\r\n");
    check(|r| r.verbatim("txt", b"a\nb"), "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n");
    check(
        |r| r.big_number("12345678901234567890"),
        "$20\r\n12345678901234567890\r\n",
        "(12345678901234567890\r\n",
    );
}

fn shared(bytes: &[u8]) -> SharedBytes {
    Arc::new(bytes.to_vec())
}

/// What is sent: `bytes` with the shared values put in.
fn sent(reply: &Reply) -> String {
    let mut out = Vec::new();
    let mut at = 0;
    for (position, value) in &reply.shared {
        out.extend_from_slice(&reply.bytes[at..*position]);
        out.extend_from_slice((**value).as_ref());
        at = *position;
    }
    out.extend_from_slice(&reply.bytes[at..]);
    assert_eq!(out.len(), reply.len());
    String::from_utf8(out).unwrap()
}

#[test]
fn headers_of_every_length() {
    for count in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12_345, 1 << 40] {
        check(|r| r.array(count), &format!("*{count}\r\n"), &format!("*{count}\r\n"));
        check(
            |r| r.int(-(count as i64)),
            &format!(":{}\r\n", -(count as i64)),
            &format!(":{}\r\n", -(count as i64)),
        );
        check(|r| r.int(count as i64), &format!(":{count}\r\n"), &format!(":{count}\r\n"));
    }
    for len in [0, 9, 10, 99, 100, 1000] {
        let value = vec![b'v'; len];
        let expected = format!("${len}\r\n{}\r\n", "v".repeat(len));
        check(|r| r.bulk(&value), &expected, &expected);
    }
}

#[test]
fn deferred_headers_nest_and_move_what_follows() {
    for count in [0, 5, 9, 10, 123, 100_000] {
        for proto in [Proto::Resp2, Proto::Resp3] {
            let mut reply = Reply::new(proto);
            reply.ok();
            let outer = reply.defer_array();
            reply.bulk_shared(shared(b"first"));
            let inner = reply.defer_array();
            reply.int(1);
            reply.bulk_shared(shared(b"second"));
            reply.finish_set(inner, count);
            reply.bulk(b"x");
            reply.finish_map(outer, count);
            reply.bulk_shared(shared(b""));
            let (map, set) = match proto {
                Proto::Resp2 => (format!("*{}", count * 2), format!("*{count}")),
                Proto::Resp3 => (format!("%{count}"), format!("~{count}")),
            };
            let expected = format!(
                "+OK\r\n{map}\r\n$5\r\nfirst\r\n{set}\r\n:1\r\n$6\r\nsecond\r\n$1\r\nx\r\n$0\r\n\r\n"
            );
            assert_eq!(sent(&reply), expected);
        }
    }
}

#[test]
fn a_half_written_reply_is_dropped() {
    let mut reply = Reply::new(Proto::Resp3);
    reply.bulk_shared(shared(b"kept"));
    reply.error("ERR kept");
    let mark = reply.mark();
    reply.array(3);
    reply.bulk_shared(shared(b"dropped"));
    reply.error("ERR dropped");
    assert_eq!(reply.errors, 2);
    reply.truncate_to(mark);
    assert_eq!((sent(&reply).as_str(), reply.errors), ("$4\r\nkept\r\n-ERR kept\r\n", 1));
    assert_eq!(reply.mark(), mark);
}

#[test]
fn appended_replies_keep_their_shared_values() {
    let mut first = Reply::default();
    first.bulk_shared(shared(b"one"));
    let mut second = Reply::default();
    second.ok();
    second.bulk_shared(shared(b"two"));
    second.error("ERR");
    first.append(&mut second);
    assert!(second.is_empty() && second.shared.is_empty() && second.errors == 0);
    assert_eq!((sent(&first).as_str(), first.errors), ("$3\r\none\r\n+OK\r\n$3\r\ntwo\r\n-ERR\r\n", 1));
}

#[test]
fn doubles_in_long_form() {
    let text = "13.36138933897018433";
    check(|r| r.human_double(13.361389338970184), &format!("$20\r\n{text}\r\n"), &format!(",{text}\r\n"));
    check(|r| r.human_double(2.5), "$3\r\n2.5\r\n", ",2.5\r\n");
}
