//! The journal is right if replaying it gives the same data: random commands, then what they returned as their effects, into an empty world.

use command::Record;
use stdx::rng::Rng;

use crate::harness::{NOW_MS, World, records};

const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "{t}1", "{t}2", "{t}3", "n1", "n2", "n3", ""];
const VALUES: [&str; 9] =
    ["", "0", "1", "-17", "9223372036854775807", "3.25", "hello", "hello world", "\u{0}\u{7f}"];

/// Words of a random command; `K` is a key, `V` a value, `I` a small integer, `S` seconds, `T` a time near now, `D` a database, `Z` a sorted set.
const SHAPES: &[&str] = &[
    "SET K V",
    "SET K V",
    "SET K V NX",
    "SET K V XX GET",
    "SET K V IFEQ V",
    "SET K V IFEQ V GET",
    "SET K V EX S",
    "SET K V PX I",
    "SET K V PXAT T",
    "SET K V EX S NX GET",
    "SET K V KEEPTTL",
    "SET K V KEEPTTL GET XX",
    "SETNX K V",
    "SETEX K S V",
    "PSETEX K I V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K EX S",
    "GETEX K PXAT T",
    "GETEX K PERSIST",
    "DELIFEQ K V",
    "APPEND K V",
    "SETRANGE K 3 V",
    "SETRANGE K 20000 V",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "INCRBYFLOAT K 0.1",
    "INCRBYFLOAT K I",
    "MSET K V K V",
    "MSETNX K V K V",
    "MSETEX 2 K V K V EX S",
    "MSETEX 2 K V K V NX PXAT T",
    "MSETEX 1 K V KEEPTTL",
    "DEL K K",
    "UNLINK K",
    "EXPIRE K S",
    "EXPIRE K S NX",
    "EXPIRE K S GT",
    "PEXPIRE K I LT",
    "PEXPIREAT K T XX",
    "EXPIRE K -1",
    "PERSIST K",
    "COPY K K",
    "COPY K K REPLACE",
    "COPY K K DB D REPLACE",
    "RENAME K K",
    "RENAME K K",
    "RENAMENX K K",
    "MOVE K D",
    "SWAPDB D D",
    "FLUSHDB",
    "TOUCH K",
    "SETBIT K 5 0",
    "SETBIT K 77 1",
    "BITFIELD K INCRBY u7 3 I OVERFLOW FAIL INCRBY i4 9 3 GET u8 0",
    "BITFIELD K OVERFLOW SAT SET i6 77 I",
    "BITOP XOR K K K",
    "BITOP AND K K K",
    "BITOP NOT K K",
    "BITCOUNT K",
    "PFADD K V V I",
    "PFADD K",
    "PFCOUNT K",
    "PFCOUNT K K",
    "PFMERGE K K",
    "PFDEBUG TODENSE K",
    "GEOADD K 13.4 38.1 V 15 37.5 b",
    "GEOADD K XX 13.5 38 V",
    "GEOSEARCHSTORE K K FROMLONLAT 14 38 BYRADIUS 70 km",
    "GEOSEARCHSTORE K K BYPOLYGON 3 12 38 14 39 14 37 STOREDIST",
    "GEORADIUS K 14 38 200 km STORE K STOREDIST K COUNT 1",
    "ZADD Z I V I V",
    "ZADD Z GT CH I V -1.5 V",
    "ZADD Z NX I V I V I I",
    "ZADD Z XX INCR 0.1 V",
    "ZINCRBY Z 0.3 V",
    "ZREM Z V V",
    "ZPOPMIN Z",
    "ZPOPMAX Z 2",
    "ZMPOP 2 Z Z MAX COUNT 2",
    "ZREMRANGEBYRANK Z -2 -1",
    "ZREMRANGEBYSCORE Z 3 5",
    "ZREMRANGEBYLEX Z [0 (1",
    "ZRANGESTORE Z Z 0 3 REV",
    "ZUNIONSTORE Z 2 Z Z WEIGHTS 1 0.5",
    "ZINTERSTORE Z 2 Z Z AGGREGATE MAX",
    "ZDIFFSTORE Z 2 Z Z",
    "RENAME Z Z",
    "COPY Z Z REPLACE",
    "DEL Z",
    "SORT K ALPHA STORE K",
    "SORT K BY *->f ALPHA GET # GET * STORE K",
    "LPUSH L V V I",
    "RPUSH L V I",
    "LPUSHX L V",
    "LPOP L",
    "RPOP L 2",
    "LMOVE L L LEFT RIGHT",
    "RPOPLPUSH L L",
    "LMPOP 2 L L RIGHT COUNT 2",
    "LINSERT L AFTER V I",
    "LSET L 1 V",
    "LREM L -1 V",
    "LTRIM L 0 -2",
    "SADD E V V I",
    "SADD E I I I I I",
    "SREM E V I",
    "SMOVE E E V",
    "SPOP E",
    "SPOP E 2",
    "SPOP E 9",
    "SINTERSTORE E E E",
    "SUNIONSTORE E E E",
    "SDIFFSTORE E E E",
    "COPY L L REPLACE",
    "COPY E E REPLACE",
    "RENAME E E",
    "GET K",
    "SCAN 0",
    "OBJECT ENCODING K",
];

/// Shapes of hashes; `F` is a field, `P` up to eighty pairs.
const HASHES: [&str; 34] = [
    "HSET K F V",
    "HSET K F V F V F V",
    "HSET K P",
    "HMSET K F V F I",
    "HSETNX K F V",
    "HDEL K F F F",
    "HINCRBY K F I",
    "HINCRBYFLOAT K F 0.1",
    "HINCRBYFLOAT K F I",
    "HEXPIRE K S FIELDS 2 F F",
    "HEXPIRE K S NX FIELDS 2 F F",
    "HPEXPIRE K I FIELDS 1 F",
    "HPEXPIRE K I GT FIELDS 2 F F",
    "HPEXPIREAT K T FIELDS 3 F F F",
    "HPEXPIREAT K T XX FIELDS 2 F F",
    "HEXPIREAT K 1 FIELDS 1 F",
    "HPERSIST K FIELDS 2 F F",
    "HGETEX K FIELDS 1 F",
    "HGETEX K EX S FIELDS 2 F F",
    "HGETEX K PXAT T FIELDS 2 F F",
    "HGETEX K PERSIST FIELDS 2 F F",
    "HGETDEL K FIELDS 2 F F",
    "HSETEX K PX I FIELDS 2 F V F V",
    "HSETEX K PXAT T FIELDS 2 F V F V",
    "HSETEX K FNX EX S FIELDS 1 F V",
    "HSETEX K XX FXX KEEPTTL FIELDS 1 F V",
    "HSETEX K FIELDS 2 F V F V",
    "EXPIRE K S",
    "DEL K",
    "COPY K K REPLACE",
    "RENAME K K",
    "HGETALL K",
    "HRANDFIELD K 2",
    "HLEN K",
];

/// Shapes of streams; `G` is a group, `U` a consumer.
const STREAMS: [&str; 43] = [
    "XADD K * a I b V",
    "XADD K * a I b V",
    "XADD K * a I b V",
    "XADD K * f V",
    "XADD K NOMKSTREAM * a I b I",
    "XADD K MAXLEN 20 * a I b V",
    "XADD K MAXLEN ~ 120 * a I b V",
    "XADD K MAXLEN ~ 0 LIMIT 200 * a I b V",
    "XADD K MINID ~ T * a I b V",
    "XADD K MINID T * a I b V",
    "XADD K T-* a I b V",
    "XADD K T a I b V",
    "XTRIM K MAXLEN ~ 150",
    "XTRIM K MAXLEN I",
    "XTRIM K MINID ~ T",
    "XDEL K T T-1 T",
    "XSETID K T",
    "XGROUP CREATE K G 0 MKSTREAM",
    "XGROUP CREATE K G $",
    "XGROUP SETID K G T ENTRIESREAD 7",
    "XGROUP SETID K G 0",
    "XGROUP CREATECONSUMER K G U",
    "XGROUP DELCONSUMER K G U",
    "XGROUP DESTROY K G",
    "XREADGROUP GROUP G U STREAMS K >",
    "XREADGROUP GROUP G U COUNT 3 STREAMS K >",
    "XREADGROUP GROUP G U COUNT 3 STREAMS K >",
    "XREADGROUP GROUP G U COUNT 2 NOACK STREAMS K >",
    "XREADGROUP GROUP G U COUNT 3 STREAMS K 0",
    "XREADGROUP GROUP G U STREAMS K T",
    "XREADGROUP GROUP G U COUNT 3 STREAMS K K > 0",
    "XACK K G T T-1 T",
    "XCLAIM K G U 0 T T-1 T",
    "XCLAIM K G U 10 T T-1 T JUSTID",
    "XCLAIM K G U 0 T T FORCE",
    "XCLAIM K G U 0 T IDLE I RETRYCOUNT I LASTID T",
    "XAUTOCLAIM K G U 0 0 COUNT 5",
    "XAUTOCLAIM K G U 30 T COUNT 5 JUSTID",
    "COPY K K REPLACE",
    "RENAME K K",
    "DEL K",
    "XRANGE K - +",
    "XPENDING K G",
];

fn words(rng: &mut Rng, now_ms: u64) -> Vec<Vec<u8>> {
    let mut shape = match rng.below(6) {
        0 | 1 => *rng.pick(&HASHES).unwrap(),
        2 => *rng.pick(&STREAMS).unwrap(),
        _ => *rng.pick(SHAPES).unwrap(),
    };
    while shape == "FLUSHDB" && !rng.one_in(20) {
        shape = rng.pick(SHAPES).unwrap();
    }
    filled(shape, rng, now_ms)
}

/// The words of a shape.
fn filled(shape: &str, rng: &mut Rng, now_ms: u64) -> Vec<Vec<u8>> {
    let mut word = |word: &str| -> Vec<u8> {
        match word {
            "G" => format!("g{}", rng.below(2)).into_bytes(),
            "U" => format!("c{}", rng.below(3)).into_bytes(),
            "T-*" => format!("{}-*", now_ms + rng.below(5)).into_bytes(),
            "T-1" => format!("{}-1", now_ms - rng.below(400)).into_bytes(),
            "K" => rng.pick(&KEYS).unwrap().as_bytes().to_vec(),
            "V" => rng.pick(&VALUES).unwrap().as_bytes().to_vec(),
            "I" => (1 + rng.below(200)).to_string().into_bytes(),
            "S" => (1 + rng.below(3)).to_string().into_bytes(),
            "T" => (now_ms + rng.below(400) - 100).to_string().into_bytes(),
            "Z" => rng.pick(&[b"z1".as_slice(), b"z2", b"{t}z"]).unwrap().to_vec(),
            "L" => rng.pick(&[b"l1".as_slice(), b"l2", b"{t}l"]).unwrap().to_vec(),
            "E" => rng.pick(&[b"s1".as_slice(), b"s2", b"{t}s"]).unwrap().to_vec(),
            "D" => rng.below(3).to_string().into_bytes(),
            "F" => format!("f{}", rng.below(8)).into_bytes(),
            other => other.as_bytes().to_vec(),
        }
    };
    let mut words: Vec<Vec<u8>> = shape.split(' ').map(&mut word).collect();
    if words.last().is_some_and(|word| word == b"P") {
        words.pop();
        let pairs = 1 + rng.below(80);
        words.extend((0..2 * pairs).map(|_| format!("f{}", rng.below(100)).into_bytes()));
    }
    words
}

#[test]
fn replaying_the_effects_gives_the_same_data() {
    for seed in 1..=40 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(4);
        let mut journal: Vec<(u64, u16, Record)> = Vec::new();
        for _ in 0..2_000 {
            world.now_ms += rng.below(30);
            world.db = rng.below(3) as u16;
            let words = words(&mut rng, world.now_ms);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let effect = world.run(&words).effect;
            journal
                .extend(records(&words, effect).into_iter().map(|record| (world.now_ms, world.db, record)));
        }
        let mut replayed = World::new(4);
        replayed.journaling = false;
        for (now_ms, db, record) in &journal {
            (replayed.now_ms, replayed.db) = (*now_ms, *db);
            let words: Vec<&[u8]> = record.iter().map(Vec::as_slice).collect();
            let reply = replayed.run(&words).bytes;
            assert_ne!(reply[0], b'-', "seed {seed}: {words:?} was refused");
        }
        replayed.now_ms = world.now_ms;
        assert_eq!(replayed.contents(), world.contents(), "seed {seed}");
    }
}

/// What the journal gets of streams may be replayed at another time.
#[test]
fn streams_are_the_same_whenever_they_are_replayed() {
    for seed in 1..=30 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(1);
        let mut journal: Vec<Record> = Vec::new();
        for _ in 0..1_500 {
            world.now_ms += rng.below(5);
            let shape = rng.pick(&STREAMS).unwrap();
            if matches!(*shape, "DEL K" | "XGROUP DESTROY K G" | "XTRIM K MAXLEN I") && !rng.one_in(10) {
                continue;
            }
            let mut words = filled(shape, &mut rng, world.now_ms);
            let keys = [b"a", b"b"];
            words.iter_mut().zip(shape.split(' ')).filter(|(_, of)| *of == "K").for_each(|(word, _)| {
                *word = rng.pick(&keys).unwrap().to_vec();
            });
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let effect = world.run(&words).effect;
            journal.extend(records(&words, effect));
        }
        let mut replayed = World::new(1);
        (replayed.journaling, replayed.now_ms) = (false, world.now_ms);
        for record in &journal {
            let words: Vec<&[u8]> = record.iter().map(Vec::as_slice).collect();
            let reply = replayed.run(&words).bytes;
            assert_ne!(reply[0], b'-', "seed {seed}: {words:?} was refused");
        }
        assert_eq!(replayed.contents(), world.contents(), "seed {seed}");
    }
}

/// Every record is free of clock and chance: no relative times, no INCRBYFLOAT.
#[test]
fn records_name_moments_not_spans() {
    let mut rng = Rng::new(99);
    let mut world = World::new(4);
    for _ in 0..5_000 {
        world.now_ms += rng.below(30);
        let words = words(&mut rng, world.now_ms);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let effect = world.run(&words).effect;
        for record in records(&words, effect) {
            assert!(!matches!(
                record[0].as_slice(),
                b"INCRBYFLOAT"
                    | b"EXPIRE"
                    | b"PEXPIRE"
                    | b"SETEX"
                    | b"PSETEX"
                    | b"GETEX"
                    | b"HINCRBYFLOAT"
                    | b"HEXPIRE"
                    | b"HPEXPIRE"
                    | b"HGETEX"
            ));
            let relative = |word: &Vec<u8>| matches!(word.as_slice(), b"EX" | b"PX");
            assert!(!record.iter().any(relative), "{record:?}");
        }
    }
    assert!(world.now_ms > NOW_MS);
}
