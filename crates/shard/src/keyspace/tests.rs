//! Keyspaces against maps.

use stdx::hash::Seed;

use super::*;
use crate::expiry::{Gone, expire_slice};
use crate::lazyfree::LazyFree;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static SEED: Seed = Seed::new(0x0DA2_7E25);

pub(crate) fn storage() -> Storage {
    Storage { arena: Arena::reserve(4 << 30).unwrap(), seed: &SEED }
}

pub(crate) fn key(bytes: &[u8]) -> Key<'_> {
    Key { bytes, hash: hash64(&SEED, bytes), shard: 0 }
}

/// Seeded by the clock unless DARTER_SEED is set; printed, so that a failure can be repeated.
pub(crate) fn rng(test: &str) -> Rng {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now);
    println!("{test}: DARTER_SEED={seed}");
    Rng::new(seed)
}

#[derive(Clone, PartialEq, Eq)]
struct Expected {
    value: Vec<u8>,
    raw: bool,
    deadline: Option<u64>,
    access: Option<[u8; 3]>,
}

impl std::fmt::Debug for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Expected { value, raw, deadline, access } = self;
        let start = &value[..value.len().min(20)];
        write!(f, "{} bytes {start:?}, raw {raw}, deadline {deadline:?}, access {access:?}", value.len())
    }
}

struct Pair {
    keyspace: Keyspace,
    model: HashMap<Vec<u8>, Expected>,
}

const NOW: u64 = 1_800_000_000_000;

impl Pair {
    fn new(storage: Storage) -> Pair {
        Pair { keyspace: Keyspace::new(storage), model: HashMap::new() }
    }

    fn same(&self, name: &[u8]) {
        let found = self.keyspace.find(key(name));
        let mut expected = self.model.get(name).cloned();
        if let (Some(entry), Some(expected)) = (found, &mut expected) {
            let string = entry.string().unwrap();
            assert_eq!((entry.key(), string.len()), (name, expected.value.len()));
            // A big value has one kind only, and keeps it when it becomes shorter.
            expected.raw &= entry.kind() != Kind::Big;
            match entry.kind() {
                Kind::Integer => assert!(parse_i64(&expected.value).is_some()),
                Kind::Bytes => assert!(parse_i64(&expected.value).is_none()),
                _ => {}
            }
            assert!(entry.kind() == Kind::Big || string.len() <= INLINE_BYTES_MAX);
        }
        assert_eq!(found.map(seen), expected, "key {}", name.escape_ascii());
    }

    fn check(&self) {
        assert_eq!(self.keyspace.len(), self.model.len() as u64);
        assert_eq!(
            self.keyspace.volatile_len(),
            self.model.values().filter(|expected| expected.deadline.is_some()).count() as u64
        );
        let (mut seen, mut cursor) = (HashSet::new(), 0);
        loop {
            cursor = self.keyspace.scan(cursor, 10, |entry| assert!(seen.insert(entry.key().to_vec())));
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, self.model.keys().cloned().collect());
        self.model.keys().for_each(|name| self.same(name));
    }

    fn put(&mut self, name: &[u8], value: Vec<u8>, deadline: Deadline, access: Option<[u8; 3]>) {
        self.keyspace.put_string(key(name), &value, deadline, access);
        let deadline = match deadline {
            Deadline::Keep => self.model.get(name).and_then(|old| old.deadline),
            Deadline::Clear => None,
            Deadline::At(at) => Some(at),
        };
        self.model.insert(name.to_vec(), Expected { value, raw: false, deadline, access });
    }

    fn resize(&mut self, name: &[u8], rng: &mut Rng) {
        let expected = self.model.entry(name.to_vec()).or_insert(Expected {
            value: Vec::new(),
            raw: true,
            deadline: None,
            access: Some([7; 3]),
        });
        let old = expected.value.len();
        let new = if rng.one_in(20) { rng.range(0..60_000) } else { old + rng.range(0..100) };
        let bytes = self.keyspace.string_resize(key(name), new, Some([7; 3]));
        let kept = old.min(new);
        assert_eq!(bytes.len(), new);
        assert_eq!(bytes[..kept], expected.value[..kept]);
        assert!(bytes[kept..].iter().all(|byte| *byte == 0));
        rng.fill(&mut bytes[kept..]);
        expected.value = bytes.to_vec();
        expected.raw = true;
    }
}

fn seen(entry: Entry<'_>) -> Expected {
    let raw = entry.kind() == Kind::Raw;
    Expected {
        value: entry.string().unwrap().to_vec(),
        raw,
        deadline: entry.deadline(),
        access: entry.access(),
    }
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let bytes = match rng.below(20) {
        0..6 => return (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        6 => {
            return [&b"007"[..], b"-0", b"+1", b"9223372036854775808", b"", b" 1"][rng.range(0..6)].to_vec();
        }
        7 => rng.range(INLINE_BYTES_MAX - 10..INLINE_BYTES_MAX + 10),
        8 if rng.one_in(4) => rng.range(0..100_000),
        9..12 => rng.range(0..2_000),
        _ => rng.range(0..150),
    };
    let mut value = vec![0; bytes];
    rng.fill(&mut value);
    value
}

fn random_name(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(3_000);
    // A few names are long: some need two or three bytes of length, some a run of their own.
    let pad = match number {
        0..5 => 20_000,
        5..50 => 300,
        50..100 => 250,
        _ => number as usize % 7,
    };
    format!("key:{number:0pad$}").into_bytes()
}

fn random_deadline(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => NOW + rng.below(1 << 50),
        1 => rng.below(1_000_000),
        _ => NOW - 5_000 + rng.below(10_000),
    }
}

fn random_access(rng: &mut Rng) -> Option<[u8; 3]> {
    rng.one_in(2).then(|| [rng.next_u64() as u8, 2, 3])
}

fn step(pairs: &mut [Pair; 2], rng: &mut Rng, grow: bool) {
    let which = rng.range(0..2);
    let pair = &mut pairs[which];
    let name = random_name(rng);
    pair.same(&name);
    match rng.below(if grow { 12 } else { 16 }) {
        0..5 => {
            let deadline =
                [Deadline::Keep, Deadline::Clear, Deadline::At(random_deadline(rng))][rng.range(0..3)];
            let access = random_access(rng);
            pair.put(&name, random_value(rng), deadline, access);
        }
        5 => {
            let integer = rng.next_u64() as i64 >> rng.below(64);
            pair.keyspace.put_int(key(&name), integer, Deadline::Keep, None);
            let deadline = pair.model.get(&name).and_then(|old| old.deadline);
            pair.model.insert(
                name.clone(),
                Expected { value: integer.to_string().into_bytes(), raw: false, deadline, access: None },
            );
        }
        6 => pair.resize(&name, rng),
        7 => {
            let deadline = rng.one_in(2).then(|| random_deadline(rng));
            assert_eq!(pair.keyspace.set_deadline(key(&name), deadline), pair.model.contains_key(&name));
            pair.model.entry(name.clone()).and_modify(|expected| expected.deadline = deadline);
        }
        8 => {
            if let Some(place) = pair.keyspace.place(key(&name)) {
                let place = pair.keyspace.set_access(place, [9, 9, 9]);
                assert_eq!(pair.keyspace.entry(place).access(), Some([9, 9, 9]));
                pair.model.get_mut(&name).unwrap().access = Some([9, 9, 9]);
            }
        }
        9 => {
            // RENAME or MOVE: to another name, perhaps in the other keyspace.
            let to = random_name(rng);
            if let Some(value) = pair.keyspace.take(key(&name)) {
                let expected = pair.model.remove(&name).unwrap();
                let target = rng.range(0..2);
                pairs[target].keyspace.put_value(key(&to), value);
                pairs[target].model.insert(to.clone(), expected);
                pairs[target].same(&to);
            }
        }
        10 => {
            let copied = pair.keyspace.copy(key(&name)).zip(pair.model.get(&name).cloned());
            if let Some((value, expected)) = copied {
                pairs[1 - which].keyspace.put_value(key(&name), value);
                pairs[1 - which].model.insert(name.clone(), expected);
                pairs[1 - which].same(&name);
            }
        }
        _ => {
            assert_eq!(pair.keyspace.remove(key(&name)), pair.model.remove(&name).is_some());
        }
    }
    pairs[which].same(&name);
}

#[test]
fn random_operations_equal_two_maps() {
    let mut rng = rng("keyspace model");
    let storage = storage();
    let mut pairs = [Pair::new(storage), Pair::new(storage)];
    for round in 0..12 {
        for _ in 0..12_000 {
            step(&mut pairs, &mut rng, round % 4 < 2);
        }
        pairs.iter().for_each(Pair::check);
        if round == 5 {
            let [a, b] = &mut pairs;
            a.keyspace.swap(&mut b.keyspace);
            std::mem::swap(&mut a.model, &mut b.model);
        }
        if round % 4 == 3 {
            for pair in &mut pairs {
                let mut gone = HashSet::new();
                let outcome = expire_slice(
                    &mut pair.keyspace,
                    NOW,
                    u64::MAX,
                    || 0,
                    |expired| {
                        let Gone::Key(name) = expired else { panic!("no hash is here") };
                        gone.insert(name.to_vec());
                    },
                );
                let expected = pair
                    .model
                    .extract_if(|_, expected| expected.deadline.is_some_and(|at| at < NOW))
                    .map(|(name, _)| name);
                assert_eq!(gone, expected.collect());
                assert_eq!(outcome.expired as usize, gone.len());
                let lowest = pair.model.values().filter_map(|expected| expected.deadline).min();
                assert_eq!(outcome.again_ms, lowest.unwrap_or(u64::MAX));
                pair.check();
            }
        }
    }
    let bytes = pairs
        .iter()
        .map(|pair| pair.keyspace.bytes())
        .fold((0, 0), |sum, bytes| (sum.0 + bytes.pages + bytes.index, sum.1 + bytes.live));
    assert!(storage.arena.bytes_used() <= bytes.0 && bytes.1 <= bytes.0, "{bytes:?}");
    drop(pairs);
    assert_eq!(storage.arena.bytes_used(), 0);
}

#[test]
fn encodings_are_those_of_valkey() {
    let mut keyspace = Keyspace::new(storage());
    // Key bytes, value bytes, with a deadline; measured with OBJECT ENCODING on Valkey 9.1.2.
    let measured = [
        (1, 112, false, "embstr"),
        (1, 113, false, "raw"),
        (31, 82, false, "embstr"),
        (32, 79, false, "embstr"),
        (32, 80, false, "raw"),
        (110, 1, false, "embstr"),
        (111, 1, false, "raw"),
        (1, 104, true, "embstr"),
        (1, 105, true, "raw"),
        (32, 71, true, "embstr"),
        (32, 72, true, "raw"),
        (103, 1, true, "raw"),
        (107, 1, true, "raw"),
        (108, 3, true, "embstr"),
        (108, 4, true, "raw"),
    ];
    for (key_bytes, value_bytes, deadline, encoding) in measured {
        let name = vec![b'k'; key_bytes];
        let deadline = if deadline { Deadline::At(NOW) } else { Deadline::Clear };
        keyspace.put_string(key(&name), &vec![b'x'; value_bytes], deadline, None);
        assert_eq!(
            keyspace.find(key(&name)).unwrap().encoding(),
            encoding,
            "{key_bytes} {value_bytes} {deadline:?}"
        );
    }
    for (value, encoding) in [
        ("12", "int"),
        ("-9223372036854775808", "int"),
        ("007", "embstr"),
        ("-0", "embstr"),
        ("9223372036854775808", "embstr"),
        ("", "embstr"),
    ] {
        keyspace.put_string(key(b"k"), value.as_bytes(), Deadline::Clear, None);
        assert_eq!(keyspace.find(key(b"k")).unwrap().encoding(), encoding, "{value}");
    }
    keyspace.string_resize(key(b"k"), 3, None);
    assert_eq!(keyspace.find(key(b"k")).unwrap().encoding(), "raw");
    keyspace.put_string(key(b"k"), &[b'1'; 20_000], Deadline::Clear, None);
    assert_eq!(keyspace.find(key(b"k")).unwrap().encoding(), "raw");
}

#[test]
fn a_shared_big_value_stays_as_it_was() {
    let mut keyspace = Keyspace::new(storage());
    keyspace.put_string(key(b"big"), &[b'a'; 50_000], Deadline::At(NOW), None);
    let Some(StringRef::Big(big)) = keyspace.find(key(b"big")).unwrap().string() else {
        panic!("50,000 bytes are big")
    };
    let shared = big.share();
    keyspace.string_resize(key(b"big"), 50_001, None)[0] = b'b';
    assert_eq!(shared.as_ref(), &[b'a'; 50_000]);
    let entry = keyspace.find(key(b"big")).unwrap();
    assert_eq!(
        (entry.string().unwrap().to_vec()[0], entry.deadline(), entry.string().unwrap().len()),
        (b'b', Some(NOW), 50_001)
    );
    let value = keyspace.copy(key(b"big")).unwrap();
    keyspace.put_value(key(b"copy"), value);
    assert!(keyspace.remove(key(b"big")));
    assert_eq!(keyspace.find(key(b"copy")).unwrap().string().unwrap().len(), 50_001);
}

#[test]
fn appending_to_a_big_value_is_amortised() {
    let mut keyspace = Keyspace::new(storage());
    let started = std::time::Instant::now();
    for n in 1..=200_000 {
        keyspace.string_resize(key(b"log"), n * 40, None)[n * 40 - 1] = 1;
    }
    // Copying it all each time would move 800 GB.
    assert!(started.elapsed().as_secs() < 20);
    assert_eq!(
        keyspace
            .find(key(b"log"))
            .unwrap()
            .string()
            .unwrap()
            .to_vec()
            .iter()
            .map(|byte| u32::from(*byte))
            .sum::<u32>(),
        200_000
    );
}

#[test]
fn an_integer_is_changed_where_it_was_found() {
    let mut keyspace = Keyspace::new(storage());
    let name = key(b"counter");
    keyspace.put_string(name, b"12", Deadline::At(NOW), Some([1, 2, 3]));
    let dirty = flag();
    keyspace.watch(name.bytes, &dirty);
    // In place, then growing, shrinking, and from a string that is no integer yet.
    for integer in [13, 127, 128, i64::MAX, i64::MIN, -1] {
        let place = keyspace.place(name).unwrap();
        keyspace.set_int(name, place, integer);
        let expected = Expected {
            value: integer.to_string().into(),
            raw: false,
            deadline: Some(NOW),
            access: Some([1, 2, 3]),
        };
        assert_eq!(keyspace.find(name).map(seen), Some(expected));
    }
    assert!(dirty.load(Relaxed));
    keyspace.string_resize(name, 1, None)[0] = b'7';
    let place = keyspace.place(name).unwrap();
    keyspace.set_int(name, place, 8);
    assert!(matches!(keyspace.find(name).unwrap().string(), Some(StringRef::Int(8))));
    assert_eq!((keyspace.len(), keyspace.volatile_len()), (1, 1));
}

fn flag() -> Dirty {
    Arc::new(AtomicBool::new(false))
}

#[test]
fn every_change_raises_the_flags_of_those_who_watch() {
    type Change = fn(&mut Keyspace);
    let changes: [(&str, Change, bool); 12] = [
        ("put_string", |keyspace| keyspace.put_string(key(b"k"), b"2", Deadline::Keep, None), true),
        ("put_int", |keyspace| keyspace.put_int(key(b"k"), 1, Deadline::Keep, None), true),
        ("resize", |keyspace| keyspace.string_resize(key(b"k"), 9, None).fill(1), true),
        ("remove", |keyspace| assert!(keyspace.remove(key(b"k"))), true),
        ("deadline", |keyspace| assert!(keyspace.set_deadline(key(b"k"), Some(NOW))), true),
        ("take", |keyspace| assert!(keyspace.take(key(b"k")).is_some()), true),
        ("expiry", |keyspace| _ = expire_slice(keyspace, NOW, u64::MAX, || 0, |_| ()), true),
        ("flush", |keyspace| keyspace.touch_watched(None), true),
        ("all", Keyspace::mark_all_watched_dirty, true),
        ("another key", |keyspace| keyspace.put_string(key(b"l"), b"2", Deadline::Keep, None), false),
        (
            "no key",
            |keyspace| assert!(!keyspace.remove(key(b"l")) && !keyspace.set_deadline(key(b"l"), None)),
            false,
        ),
        ("access", |keyspace| _ = keyspace.set_access(keyspace.place(key(b"k")).unwrap(), [1, 2, 3]), false),
    ];
    for (name, change, raises) in changes {
        let mut keyspace = Keyspace::new(storage());
        keyspace.put_string(key(b"k"), b"1", Deadline::At(NOW - 1), None);
        let (one, two, other) = (flag(), flag(), flag());
        keyspace.watch(b"k", &one);
        keyspace.watch(b"k", &one);
        keyspace.watch(b"k", &two);
        keyspace.watch(b"k", &other);
        keyspace.unwatch(b"k", &other);
        change(&mut keyspace);
        assert_eq!(
            (one.load(Relaxed), two.load(Relaxed), other.load(Relaxed)),
            (raises, raises, false),
            "{name}"
        );
        assert_eq!(keyspace.watched_len(), usize::from(!raises), "{name}");
    }
}

#[test]
fn a_flush_or_swap_touches_only_keys_that_exist() {
    let storage = storage();
    let (mut a, mut b) = (Keyspace::new(storage), Keyspace::new(storage));
    a.put_string(key(b"in a"), b"1", Deadline::Clear, None);
    b.put_string(key(b"in b"), b"1", Deadline::Clear, None);
    let flags = [flag(), flag(), flag()];
    for (name, flag) in [&b"in a"[..], b"in b", b"nowhere"].iter().zip(&flags) {
        a.watch(name, flag);
    }
    let raised = || flags.each_ref().map(|flag| flag.load(Relaxed));
    a.touch_watched(None);
    assert_eq!(raised(), [true, false, false]);
    a.touch_watched(Some(&b));
    assert_eq!(raised(), [true, true, false]);
    a.swap(&mut b);
    assert!(a.find(key(b"in b")).is_some() && b.find(key(b"in a")).is_some());
    assert_eq!((a.watched_len(), b.watched_len()), (1, 0));
    let detached = a.detach();
    assert_eq!((a.len(), detached.len(), a.watched_len(), detached.watched_len()), (0, 1, 1, 0));
    a.put_string(key(b"nowhere"), b"1", Deadline::Clear, None);
    assert_eq!(raised(), [true, true, true]);
}

#[test]
fn a_detached_keyspace_is_freed_in_slices() {
    let storage = storage();
    let mut keyspace = Keyspace::new(storage);
    for n in 0..50_000u32 {
        let big = n % 1_000 == 0;
        keyspace.put_string(
            key(&n.to_le_bytes()),
            &vec![1; if big { 20_000 } else { 100 }],
            Deadline::Clear,
            None,
        );
    }
    let shared = match keyspace.find(key(&0u32.to_le_bytes())).unwrap().string() {
        Some(StringRef::Big(big)) => big.share(),
        _ => panic!("20,000 bytes are big"),
    };
    let mut lazy = LazyFree::default();
    lazy.push(Box::new(keyspace.detach()));
    lazy.push(Box::new(keyspace.detach()));
    assert_eq!((keyspace.len(), lazy.len()), (0, 1));
    keyspace.put_string(key(b"k"), b"v", Deadline::Clear, None);
    let (mut slices, mut clock) = (0, 0);
    let mut before = storage.arena.bytes_used();
    loop {
        let more = lazy.slice(3, || {
            clock += 1;
            clock
        });
        slices += 1;
        let after = storage.arena.bytes_used();
        assert!(before - after < 4 << 20, "a slice frees little");
        before = after;
        if !more {
            break;
        }
    }
    assert!(slices > 3);
    assert_eq!(shared.as_ref(), &[1; 20_000]);
    assert!(keyspace.find(key(b"k")).is_some());
    drop((shared, keyspace));
    assert_eq!(storage.arena.bytes_used(), 0);
}

#[test]
fn compaction_keeps_pages_near_what_lives() {
    let mut rng = rng("compaction");
    let mut keyspace = Keyspace::new(storage());
    for round in 0..6u64 {
        for _ in 0..60_000 {
            let number = rng.below(20_000).to_le_bytes();
            let bytes = rng.range(0..60) + if round % 2 == 0 { 20 } else { 90 };
            keyspace.put_string(key(&number), &vec![1; bytes], Deadline::Clear, None);
        }
        let Bytes { live, pages, .. } = keyspace.bytes();
        assert!(
            pages as f64 <= 1.15 * live as f64,
            "round {round}: {pages} bytes of pages for {live} that live"
        );
    }
}
