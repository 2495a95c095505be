//! What golden files cannot see: effects, counters, the passing of time, walks over many shards, what is shared and what is copied.

use std::collections::BTreeSet;

use shard::settings::Policy;
use stdx::rng::Rng;

use crate::harness::{NOW_MS, World, records};

/// The records of a command as text.
fn effect(world: &mut World, line: &str) -> String {
    let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
    let effect = world.run(&words).effect;
    let record = |record: Vec<Vec<u8>>| {
        record.iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect::<Vec<_>>().join(" ")
    };
    records(&words, effect).into_iter().map(record).collect::<Vec<_>>().join("; ")
}

#[test]
fn effects_are_those_that_the_reference_server_propagates() {
    let mut world = World::new(4);
    let in_10_s = NOW_MS + 10_000;
    for (command, expected) in [
        ("SET a 1", "SET a 1".to_string()),
        ("SET a 1 EX 10", format!("SET a 1 PXAT {in_10_s}")),
        ("SET a 1 NX", String::new()),
        ("SET a 1 PX 10000 GET", format!("SET a 1 PXAT {in_10_s}")),
        ("SET a 1 KEEPTTL", "SET a 1 KEEPTTL".into()),
        ("SET a 1 PXAT 1", "UNLINK a".into()),
        ("SET a 1 PXAT 1", String::new()),
        ("SET a 3 GET", "SET a 3".into()),
        ("SET a 4 XX EX 10", format!("SET a 4 PXAT {in_10_s}")),
        ("SETEX a 10 1", format!("SET a 1 PXAT {in_10_s}")),
        ("PSETEX a 10000 1", format!("SET a 1 PXAT {in_10_s}")),
        ("GETEX a", String::new()),
        ("GETEX a PERSIST", "PERSIST a".into()),
        ("GETEX a PERSIST", String::new()),
        ("GETEX a EX 10", format!("PEXPIREAT a {in_10_s}")),
        ("GETEX a EXAT 1", "UNLINK a".into()),
        ("INCRBYFLOAT a 1.5", "SET a 1.5 KEEPTTL".into()),
        ("GETSET a 5", "SET a 5".into()),
        ("GETDEL a", "DEL a".into()),
        ("GETDEL a", String::new()),
        ("SETNX a 1", "SETNX a 1".into()),
        ("SETNX a 1", String::new()),
        ("MSETNX a 1 b 2", String::new()),
        ("MSETNX c 1 d 2", "MSETNX c 1 d 2".into()),
        ("MSETEX 2 a 1 b 2 EX 10", format!("MSETEX 2 a 1 b 2 PXAT {in_10_s}")),
        ("MSETEX 2 a 1 b 2 NX EX 10", String::new()),
        ("MSETEX 3 a 1 b 2 nokey 3 EXAT 1", "UNLINK a; UNLINK b".into()),
        ("SET a b", "SET a b".into()),
        ("DELIFEQ a c", String::new()),
        ("DELIFEQ a b", "DEL a".into()),
        ("SET a 1", "SET a 1".into()),
        ("EXPIRE a 10", format!("PEXPIREAT a {in_10_s}")),
        ("EXPIRE a 10 GT", String::new()),
        ("EXPIRE a -1", "UNLINK a".into()),
        ("EXPIRE a -1", String::new()),
        ("PERSIST a", String::new()),
        ("DEL c nokey", "DEL c nokey".into()),
        ("DEL c nokey", String::new()),
        ("RENAME d e", "RENAME d e".into()),
        ("RENAME e e", String::new()),
        ("RENAMENX e f", "RENAMENX e f".into()),
        ("COPY f g", "COPY f g".into()),
        ("COPY f g", String::new()),
        ("MOVE f 1", "MOVE f 1".into()),
        ("SETRANGE g 0 x", "SETRANGE g 0 x".into()),
        ("APPEND g x", "APPEND g x".into()),
        ("INCR n", "INCR n".into()),
        ("TOUCH g", String::new()),
        ("SWAPDB 0 1", "SWAPDB 0 1".into()),
        ("FLUSHALL", "FLUSHALL".into()),
    ] {
        assert_eq!(effect(&mut world, command), expected, "{command}");
    }
}

#[test]
fn effects_of_sorted_sets_are_those_that_the_reference_server_propagates() {
    let mut world = World::new(4);
    for (command, expected) in [
        ("ZADD z 1 a 2 b 3 c", "ZADD z 1 a 2 b 3 c"),
        ("ZADD z 1 a", ""),
        ("ZADD z NX 5 a", ""),
        ("ZADD z GT 0 a", ""),
        ("ZADD z CH 1.5 a", "ZADD z CH 1.5 a"),
        ("ZADD z INCR 0 a", ""),
        ("ZADD z INCR 1 a", "ZADD z INCR 1 a"),
        ("ZADD no XX 1 a", ""),
        ("ZINCRBY z 2 d", "ZINCRBY z 2 d"),
        ("ZREM z nobody", ""),
        ("ZREM z d nobody", "ZREM z d nobody"),
        ("ZRANGESTORE y z 0 1", "ZRANGESTORE y z 0 1"),
        ("ZRANGESTORE no z 7 8", ""),
        ("ZUNIONSTORE y 2 y z", "ZUNIONSTORE y 2 y z"),
        ("ZINTERSTORE y 2 no z", "ZINTERSTORE y 2 no z"),
        ("ZINTERSTORE y 2 no z", ""),
        ("ZPOPMIN z 1", "ZPOPMIN z 1"),
        ("ZPOPMIN z 0", ""),
        ("ZMPOP 2 no z MAX COUNT 9", "ZPOPMAX z 2"),
        ("ZPOPMAX z", ""),
        ("ZREMRANGEBYRANK z 0 -1", ""),
    ] {
        assert_eq!(effect(&mut world, command), expected, "{command}");
    }
}

/// The guarantee of a walk: what is there from its start to its end is seen, while the set becomes large and packed again.
#[test]
fn a_walk_over_a_sorted_set_sees_what_stays() {
    for seed in 1..=20 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(1);
        let add = |world: &mut World, from: u64, to: u64| {
            (from..to).for_each(|n| _ = world.text(&format!("ZADD z {} m{n}", n % 7)));
        };
        let stays = 100 + rng.below(300);
        add(&mut world, 0, stays + rng.below(1500));
        let mut seen = BTreeSet::new();
        let (mut cursor, mut calls) = (String::from("0"), 0);
        loop {
            let reply = world.text(&format!("ZSCAN z {cursor} NOSCORES COUNT 20"));
            let mut words = reply.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
            cursor = words.next().expect("a cursor").to_string();
            seen.extend(words.map(str::to_string));
            calls += 1;
            match rng.below(6) {
                0 => _ = world.text(&format!("ZREMRANGEBYRANK z {stays} -1")),
                1 => add(&mut world, 2000, 2000 + rng.below(1000)),
                2 => (stays..2000).for_each(|n| _ = world.text(&format!("ZREM z m{n}"))),
                _ => {}
            }
            add(&mut world, 0, stays);
            if cursor == "0" || calls > 10_000 {
                break;
            }
        }
        assert!((0..stays).all(|n| seen.contains(&format!("m{n}"))), "seed {seed}");
    }
}

#[test]
fn members_of_a_sorted_set_are_drawn_evenly() {
    for (members, count) in [(40, 7), (40, 30), (600, 20)] {
        let mut world = World::new(1);
        (0..members).for_each(|n| _ = world.text(&format!("ZADD z {n} {n}")));
        let mut drawn = vec![0_u32; members];
        let rounds = 3000;
        for _ in 0..rounds {
            let reply = world.text(&format!("ZRANDMEMBER z {count}"));
            let names: BTreeSet<&str> = reply
                .split("\r\n")
                .filter(|word| !word.is_empty() && !word.starts_with(['*', '$']))
                .collect();
            assert_eq!(names.len(), count);
            names.iter().for_each(|name| drawn[name.parse::<usize>().unwrap()] += 1);
        }
        let expected = f64::from(rounds) * count as f64 / members as f64;
        // Draws without replacement vary less than those of the chi-square law by 1 - count/members; 6 deviations above the mean are once in millions.
        let chi: f64 = drawn.iter().map(|times| (f64::from(*times) - expected).powi(2) / expected).sum();
        let bound = members as f64 + 6.0 * (2.0 * members as f64).sqrt();
        assert!(chi < bound, "{chi} of {members}");
    }
}

#[test]
fn a_key_is_gone_once_its_deadline_has_passed() {
    let mut world = World::new(4);
    world.text("SET a 1 PX 100");
    world.text("SET b 1 PX 100");
    world.now_ms += 100;
    assert_eq!(world.text("GET a"), "$1\r\n1\r\n");
    assert_eq!(world.text("PTTL a"), ":0\r\n");
    world.now_ms += 1;
    assert_eq!(world.text("TTL a"), ":-2\r\n");
    assert_eq!(world.text("SET a 2 KEEPTTL"), "+OK\r\n");
    assert_eq!(world.text("TTL a"), ":-1\r\n");
    assert_eq!(world.text("SETNX b 2"), ":1\r\n");
    assert_eq!(world.counters.expired_keys, 2);
    world.text("SET c 5 PX 100");
    world.now_ms += 101;
    assert_eq!(world.text("INCR c"), ":1\r\n");
    assert_eq!(world.text("TTL c"), ":-1\r\n");
    for (set, ask, reply) in [
        ("SET x 1 PX 1", "APPEND x ab", ":2\r\n"),
        ("SET x 1 PX 1", "SETRANGE x 1 b", ":2\r\n"),
        ("SET x 1 PX 1", "RENAME x y", "-ERR no such key\r\n"),
        ("SET x 1 PX 1", "COPY x y", ":0\r\n"),
        ("SET x 1 PX 1", "RENAMENX a x", ":1\r\n"),
        ("SET x 1 PX 1", "MOVE x 1", ":0\r\n"),
        ("SET x 1 PX 1", "EXPIRE x 100", ":0\r\n"),
        ("SET x 1 PX 1", "DEL x", ":0\r\n"),
        ("SET x 1 PX 1", "KEYS x", "*0\r\n"),
        ("SET x 1 PX 1", "MSETNX x 2 y 3", ":1\r\n"),
    ] {
        world.text("DEL x y");
        world.text(set);
        world.now_ms += 2;
        assert_eq!(world.text(ask), reply, "{ask}");
    }
}

#[test]
fn hits_and_misses_are_counted_for_reads_only() {
    let mut world = World::new(4);
    world.text("SET a 1");
    for (command, hits, misses) in [
        ("GET a", 1, 0),
        ("GET nokey", 0, 1),
        ("MGET a nokey a", 2, 1),
        ("EXISTS a nokey", 1, 1),
        ("TTL a", 1, 0),
        ("TYPE nokey", 0, 1),
        ("STRLEN a", 1, 0),
        ("TOUCH a", 1, 0),
        ("GETRANGE nokey 0 0", 0, 1),
        ("INCR a", 0, 0),
        ("APPEND nokey2 1", 0, 0),
        ("SETNX a 1", 0, 0),
        ("DEL nokey", 0, 0),
        ("EXPIRE a 100", 0, 0),
        ("OBJECT ENCODING a", 0, 0),
    ] {
        let before = world.counters;
        world.text(command);
        let counted = (
            world.counters.keyspace_hits - before.keyspace_hits,
            world.counters.keyspace_misses - before.keyspace_misses,
        );
        assert_eq!(counted, (hits, misses), "{command}");
    }
}

#[test]
fn values_above_16_kib_are_sent_from_where_they_lie() {
    let mut world = World::new(4);
    let small = vec![b'x'; 16 << 10];
    let big = vec![b'y'; (16 << 10) + 1];
    world.run(&[b"SET", b"small", &small]);
    world.run(&[b"SET", b"big", &big]);
    assert_eq!(world.run(&[b"GET", b"small"]).shared, 0);
    for command in [
        &[b"GET".as_slice(), b"big"][..],
        &[b"GETEX", b"big"],
        &[b"GETRANGE", b"big", b"0", b"-1"],
        &[b"MGET", b"big"],
    ] {
        let ran = world.run(command);
        assert_eq!(ran.shared, 1);
        assert!(ran.bytes.windows(big.len()).any(|window| window == big));
    }
    assert_eq!(world.run(&[b"GETRANGE", b"big", b"0", b"100"]).shared, 0);
    assert_eq!(world.run(&[b"MGET", b"big", b"small", b"big"]).shared, 2);
    assert_eq!(world.run(&[b"GETSET", b"big", b"1"]).shared, 1);
    world.run(&[b"SET", b"big", &big]);
    let ran = world.run(&[b"GETDEL", b"big"]);
    assert_eq!((ran.shared, ran.bytes.len()), (1, b"$16385\r\n\r\n".len() + big.len()));
}

/// The keys that a whole SCAN gives, and how many calls it took.
fn scan(world: &mut World, options: &str, mut between: impl FnMut(&mut World)) -> (Vec<String>, usize) {
    let mut keys = Vec::new();
    let mut cursor = "0".to_string();
    let mut calls = 0;
    loop {
        let reply = world.text(&format!("SCAN {cursor} {options}"));
        let mut lines = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$']) && !line.is_empty());
        cursor = lines.next().unwrap().to_string();
        assert!(cursor.parse::<u64>().unwrap() < 1 << 63);
        keys.extend(lines.map(str::to_string));
        calls += 1;
        if cursor == "0" {
            return (keys, calls);
        }
        between(world);
    }
}

#[test]
fn a_scan_goes_through_all_shards() {
    let mut world = World::new(64);
    for n in 0..5_000 {
        world.text(&format!("SET key:{n} {n}"));
    }
    let all: BTreeSet<String> = (0..5_000).map(|n| format!("key:{n}")).collect();
    for count in [1, 10, 100, 10_000] {
        let (keys, calls) = scan(&mut world, &format!("COUNT {count}"), |_| {});
        assert_eq!(keys.iter().cloned().collect::<BTreeSet<_>>(), all);
        assert_eq!(keys.len(), all.len(), "nothing changed meanwhile, so nothing comes twice");
        assert!(calls <= 5_000 / count + 1 && calls >= 5_000 / (count + 20), "COUNT {count}: {calls} calls");
    }
    let (keys, _) = scan(&mut world, "COUNT 50 MATCH key:1?", |_| {});
    assert_eq!(keys.len(), 10);
    assert_eq!(scan(&mut world, "COUNT 5000 TYPE list", |_| {}).0, Vec::<String>::new());
}

#[test]
fn a_small_database_is_scanned_in_one_call() {
    let mut world = World::new(64);
    world.text("MSET a 1 b 2 c 3 d 4 e 5");
    assert_eq!(scan(&mut world, "", |_| {}).1, 1);
}

#[test]
fn a_scan_gives_whatever_stays() {
    let mut world = World::new(16);
    for n in 0..3_000 {
        world.text(&format!("SET stays:{n} 1"));
        world.text(&format!("SET goes:{n} 1"));
    }
    let mut n = 0;
    let (keys, _) = scan(&mut world, "COUNT 37 MATCH stays*", |world| {
        for _ in 0..40 {
            world.text(&format!("DEL goes:{n}"));
            world.text(&format!("SET comes:{n} 1"));
            n += 1;
        }
    });
    assert!(n > 3_000);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 3_000);
}

#[test]
fn a_pattern_with_a_hash_tag_visits_one_shard() {
    let mut world = World::new(64);
    for n in 0..100 {
        world.text(&format!("MSET {{tag}}:{n} 1 {{other}}:{n} 1 plain:{n} 1"));
    }
    let (keys, calls) = scan(&mut world, "COUNT 10 MATCH {tag}*", |_| {});
    assert_eq!(keys.len(), 100);
    assert!(calls <= 100, "{calls} calls: the shards without the tag were looked at, too");
    assert_eq!(
        world.text("KEYS {tag}:1?").split("\r\n").filter(|line| line.starts_with("{tag}")).count(),
        10
    );
    // Cursors of another pattern lead on or to the end, never astray.
    for cursor in [1_u64, 63, 64, 12_345, u64::MAX] {
        assert!(world.text(&format!("SCAN {cursor} MATCH {{tag}}* COUNT 1000")).starts_with("*2\r\n"));
    }
}

#[test]
fn random_keys_are_drawn_evenly() {
    let mut world = World::new(16);
    for n in 0..50 {
        world.text(&format!("SET key:{n} 1"));
    }
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..20_000 {
        *counts.entry(world.text("RANDOMKEY")).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 50);
    // 400 expected, standard deviation 20.
    assert!(counts.values().all(|count| (300..500).contains(count)), "{counts:?}");
    world.text("FLUSHALL");
    world.text("SET gone 1 PX 1");
    world.text("SET {x}stays 1");
    world.now_ms += 2;
    assert_eq!(world.text("RANDOMKEY"), "$8\r\n{x}stays\r\n");
}

#[test]
fn idle_times_and_frequencies() {
    let mut world = World::new(4);
    world.text("SET before 1");
    assert!(world.text("OBJECT IDLETIME before").starts_with("-ERR An LRU maxmemory policy is not selected"));
    world.settings.policy = Policy::VolatileLru;
    assert_eq!(world.text("OBJECT IDLETIME before"), ":4194304\r\n");
    world.text("SET a 1");
    world.now_ms += 90_000;
    assert_eq!(world.text("OBJECT IDLETIME a"), ":90\r\n");
    assert_eq!(world.text("TTL a"), ":-1\r\n");
    assert_eq!(world.text("OBJECT IDLETIME a"), ":90\r\n");
    world.touch = false;
    world.text("GET a");
    assert_eq!(world.text("OBJECT IDLETIME a"), ":90\r\n");
    world.text("TOUCH a");
    assert_eq!(world.text("OBJECT IDLETIME a"), ":0\r\n");
    world.touch = true;
    world.text("GET before");
    assert_eq!(world.text("OBJECT IDLETIME before"), ":0\r\n");
}

#[test]
fn flushing_and_swapping_reach_every_shard() {
    let mut world = World::new(16);
    let fill = |world: &mut World| {
        for n in 0..200 {
            world.text(&format!("SET key:{n} 1"));
        }
    };
    for flush in ["FLUSHDB", "FLUSHDB SYNC", "FLUSHALL ASYNC", "FLUSHALL SYNC"] {
        fill(&mut world);
        assert_eq!(world.text("DBSIZE"), ":200\r\n");
        world.text(flush);
        assert_eq!(world.text("DBSIZE"), ":0\r\n");
    }
    fill(&mut world);
    world.text("SWAPDB 0 3");
    assert_eq!(world.text("DBSIZE"), ":0\r\n");
    world.db = 3;
    assert_eq!(world.text("DBSIZE"), ":200\r\n");
    assert_eq!(world.text("EXISTS key:0 key:199"), ":2\r\n");
    world.text("FLUSHDB");
    assert!(world.contents().is_empty());
}
