//! What golden files cannot tell of hashes: effects, the passing of time, scans while fields come and go.

use std::collections::HashSet;

use crate::harness::{NOW_MS, World, records};

fn effect(world: &mut World, command: &str) -> String {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let effect = world.run(&words).effect;
    let records = records(&words, effect);
    let texts = records.iter().map(|record| String::from_utf8(record.join(&b' ')).expect("plain words"));
    texts.collect::<Vec<_>>().join("; ")
}

#[test]
fn effects_name_fields_and_moments() {
    let mut world = World::new(4);
    let in_10_s = NOW_MS + 10_000;
    for (command, expected) in [
        ("HSET h a 1 b 2", "HSET h a 1 b 2".to_string()),
        ("HSETNX h a 1", String::new()),
        ("HSETNX h c 3", "HSETNX h c 3".into()),
        ("HDEL h x", String::new()),
        ("HDEL h c x", "HDEL h c x".into()),
        ("HINCRBY h a 1", "HINCRBY h a 1".into()),
        ("HINCRBYFLOAT h a 0.5", "HSET h a 2.5".into()),
        ("HEXPIRE h 10 FIELDS 3 a b x", format!("HPEXPIREAT h {in_10_s} FIELDS 2 a b")),
        ("HINCRBYFLOAT h a 0.5", "HSETEX h KEEPTTL FIELDS 1 a 3".into()),
        ("HPEXPIRE h 10000 NX FIELDS 1 a", String::new()),
        ("HPERSIST h FIELDS 2 a x", "HPERSIST h FIELDS 2 a x".into()),
        ("HPERSIST h FIELDS 2 a x", String::new()),
        ("HGETEX h FIELDS 1 a", String::new()),
        ("HGETEX h PX 10000 FIELDS 2 a x", format!("HPEXPIREAT h {in_10_s} FIELDS 1 a")),
        ("HGETEX h PERSIST FIELDS 2 x a", "HPERSIST h FIELDS 1 a".into()),
        ("HGETEX h PERSIST FIELDS 1 a", String::new()),
        ("HSETEX h EX 10 FIELDS 1 c 1", format!("HSETEX h PXAT {in_10_s} FIELDS 1 c 1")),
        ("HSETEX h FNX EX 10 FIELDS 1 c 1", String::new()),
        ("HSETEX h KEEPTTL FIELDS 1 c 2", "HSETEX h KEEPTTL FIELDS 1 c 2".into()),
        ("HSETEX h PXAT 1 FIELDS 1 c 1", "HDEL h c".into()),
        ("HSETEX h PXAT 1 FIELDS 1 c 1", String::new()),
        ("HGETDEL h FIELDS 2 x b", "HDEL h b".into()),
        ("HGETDEL h FIELDS 1 b", String::new()),
        ("HEXPIREAT h 1 FIELDS 1 a", "HDEL h a".into()),
        ("EXISTS h", String::new()),
    ] {
        assert_eq!(effect(&mut world, command), expected, "{command}");
    }
}

#[test]
fn a_field_is_gone_for_every_command_once_its_deadline_has_passed() {
    for (command, expected) in [
        ("HGET h a", "$-1\r\n"),
        ("HMGET h a b", "*2\r\n$-1\r\n$1\r\n2\r\n"),
        ("HEXISTS h a", ":0\r\n"),
        ("HSTRLEN h a", ":0\r\n"),
        ("HLEN h", ":1\r\n"),
        ("HGETALL h", "*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("HKEYS h", "*1\r\n$1\r\nb\r\n"),
        ("HVALS h", "*1\r\n$1\r\n2\r\n"),
        ("HSCAN h 0 NOVALUES", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n"),
        ("HRANDFIELD h 5", "*1\r\n$1\r\nb\r\n"),
        ("HRANDFIELD h -2", "*2\r\n$1\r\nb\r\n$1\r\nb\r\n"),
        ("HTTL h FIELDS 2 a b", "*2\r\n:-2\r\n:-1\r\n"),
        ("HPERSIST h FIELDS 1 a", "*1\r\n:-2\r\n"),
        ("HEXPIRE h 10 FIELDS 1 a", "*1\r\n:-2\r\n"),
        ("HDEL h a", ":0\r\n"),
        ("HSET h a 5", ":1\r\n"),
        ("HSETNX h a 5", ":1\r\n"),
        ("HINCRBY h a 5", ":5\r\n"),
        ("HINCRBYFLOAT h a 5", "$1\r\n5\r\n"),
        ("HGETDEL h FIELDS 1 a", "*1\r\n$-1\r\n"),
        ("HGETEX h FIELDS 1 a", "*1\r\n$-1\r\n"),
        ("HSETEX h FXX FIELDS 1 a 5", ":0\r\n"),
        ("HSETEX h FNX KEEPTTL FIELDS 1 a 5", ":1\r\n"),
    ] {
        let mut world = World::new(4);
        assert_eq!(world.text("HSET h a 1 b 2"), ":2\r\n");
        assert_eq!(world.text("HPEXPIRE h 10 FIELDS 1 a"), "*1\r\n:1\r\n");
        world.now_ms += 10;
        assert_eq!(world.text("HGET h a"), "$1\r\n1\r\n", "at its very millisecond a field still lives");
        world.now_ms += 1;
        assert_eq!(world.text(command), expected, "{command}");
        assert_eq!(world.counters.expired_fields, 1, "{command}");
        // What is set anew has no deadline of old.
        assert!(!world.text("HPTTL h FIELDS 1 a").contains(":1"));
    }
}

#[test]
fn a_hash_goes_with_the_last_field_that_expires() {
    for command in ["EXISTS h", "HLEN h", "TTL h", "COPY h i", "HSETNX h a 1", "SET h x NX", "DEL h"] {
        let mut world = World::new(4);
        world.text("HSETEX h PX 10 FIELDS 2 a 1 b 2");
        world.now_ms += 11;
        let mut without = World::new(4);
        without.now_ms = world.now_ms;
        assert_eq!(world.text(command), without.text(command), "{command}");
        assert_eq!(world.contents(), without.contents(), "{command}");
        assert_eq!((world.counters.expired_fields, world.counters.expired_keys), (2, 0));
    }
}

#[test]
fn fields_of_a_large_hash_are_gone_at_once_and_removed_little_by_little() {
    let mut world = World::new(4);
    for field in 0..3_000 {
        world.text(&format!("HSETEX h PX {} FIELDS 1 f{field} x", if field % 3 == 0 { 100_000 } else { 10 }));
    }
    world.now_ms += 11;
    assert_eq!(world.text("HGET h f1"), "$-1\r\n");
    assert_eq!(world.text("HGET h f3"), "$1\r\nx\r\n");
    assert!(world.text("HKEYS h").starts_with("*1000\r\n"));
    assert!(world.text("HGETALL h").starts_with("*2000\r\n"));
    assert!(world.text("HRANDFIELD h 5000").starts_with("*1000\r\n"));
    let removed_at_once = world.counters.expired_fields;
    assert!((1..2_000).contains(&removed_at_once), "{removed_at_once} fields were removed by a few commands");
    for _ in 0..1_000 {
        world.text("HEXISTS h f3");
    }
    assert_eq!((world.text("HLEN h").as_str(), world.counters.expired_fields), (":1000\r\n", 2_000));
}

#[test]
fn a_scan_gives_every_field_that_stays() {
    let mut world = World::new(4);
    let field = |number: usize| format!("f{number}");
    for number in 0..4_000 {
        world.text(&format!("HSET h {} x", field(number)));
    }
    let (mut cursor, mut seen, mut calls) = ("0".to_string(), HashSet::new(), 0);
    loop {
        let reply = world.text(&format!("HSCAN h {cursor} COUNT 20 NOVALUES"));
        let mut words = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$']) && !line.is_empty());
        cursor = words.next().expect("a cursor comes first").to_string();
        seen.extend(words.map(str::to_string));
        if cursor == "0" {
            break;
        }
        // Odd ones go, others come: the table shrinks, then grows.
        let first = calls * 60;
        for number in first..first + 60 {
            match calls < 60 {
                true if number % 2 == 1 => _ = world.text(&format!("HDEL h {}", field(number))),
                true => {}
                false => _ = world.text(&format!("HSET h new{number} x")),
            }
        }
        calls += 1;
    }
    assert!(calls > 60, "only {calls} calls");
    for number in (0..4_000).step_by(2) {
        assert!(seen.contains(&field(number)), "{} was not seen", field(number));
    }
}

#[test]
fn values_above_16_kib_are_sent_from_where_they_lie() {
    let mut world = World::new(4);
    let long = vec![b'x'; 100_000];
    world.run(&[b"HSET", b"h", b"a", &long, b"b", b"short"]);
    let ran = world.run(&[b"HGET", b"h", b"a"]);
    assert_eq!((ran.shared, ran.bytes.len()), (1, 100_000 + "$100000\r\n\r\n".len()));
    assert_eq!(world.run(&[b"HVALS", b"h"]).shared, 1);
    assert_eq!(world.text("HSTRLEN h a"), ":100000\r\n");
    assert_eq!(world.run(&[b"HGETDEL", b"h", b"FIELDS", b"1", b"a"]).shared, 1);
}
