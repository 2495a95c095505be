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
