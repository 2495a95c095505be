//! Hashes against a simple model, small and large, with deadlines, through all changes of how they are kept.

use std::collections::{BTreeMap, HashMap};

use memory::{Arena, EntryParts, Heap, Index, Kind};
use stdx::hash::{Seed, hash64};
use stdx::rng::Rng;

use super::{EMPTY, Field, Hash, Lifetime, PACKED_FIELDS_MAX, Rules, stored};
use crate::table::Table;
use crate::{Form, Limits, Slot, Storage, View, Volatile, hash};

static SEED: Seed = Seed::new(6);
const NOW_MS: u64 = 1_790_000_000_000;
const KEY: &[u8] = b"key";
/// How many different names a hash has whose names begin alike.
const NAMES_ALIKE: u64 = 2000;

/// A hash in an entry of a heap, as a keyspace keeps it.
struct Kept {
    storage: Storage,
    heap: Heap,
    index: Index,
    volatile: Volatile,
}

impl Kept {
    fn new(storage: Storage) -> Kept {
        let (mut heap, mut index) = (Heap::new(storage.arena), Index::new(storage.arena));
        let parts =
            EntryParts { key: KEY, kind: Kind::Collection, value: EMPTY, deadline: None, access: None };
        let handle = heap.insert(&parts);
        index.insert(hash64(storage.seed, KEY), handle, false, |_| 0);
        Kept { storage, heap, index, volatile: Volatile::default() }
    }

    fn slot(&mut self) -> Slot<'_> {
        let (at, handle) = self.index.find(hash64(self.storage.seed, KEY), |_| true).expect("it is there");
        let Kept { storage, heap, index, volatile } = self;
        Slot::new(*storage, heap, index, at, handle).counting(volatile)
    }

    fn view(&self) -> View<'_> {
        let (_, handle) = self.index.find(hash64(self.storage.seed, KEY), |_| true).expect("it is there");
        View::of(self.heap.entry(handle)).expect("it is a collection")
    }
}

fn storage() -> Storage {
    Storage { arena: Arena::reserve(4 << 30).expect("addresses are free"), seed: &SEED }
}

fn rng(what: &str) -> Rng {
    let seed = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0)
    });
    println!("{what}: DARTER_SEED={seed}");
    Rng::new(seed)
}

fn text(rng: &mut Rng, long: bool) -> Vec<u8> {
    match rng.below(12) {
        0 => Vec::new(),
        1..4 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        4 if long => vec![rng.next_u32() as u8; rng.below(30_000) as usize],
        _ => vec![rng.next_u32() as u8; rng.below(20) as usize],
    }
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

struct Pair {
    kept: Kept,
    model: Model,
    limits: Limits,
    now_ms: u64,
    names: u64,
    long: bool,
}

impl Pair {
    fn forget_expired(&mut self) {
        let now_ms = self.now_ms;
        self.model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline >= now_ms));
    }

    fn name(&self, rng: &mut Rng) -> Vec<u8> {
        let number = rng.below(self.names);
        let name = match number % 3 {
            // Some hashes have names that begin alike, but for a rare one.
            _ if self.names < 1000 && number != 3 => {
                format!("{}field:{number}", "long".repeat(number as usize % 40))
            }
            _ if self.names < 1000 => "long".to_string(),
            // The names of the largest begin alike, too, but for rare ones.
            _ if self.names == NAMES_ALIKE => match number % 50 {
                0 => return [b"\xFE\xFF"[..1 + number as usize % 100 / 50].to_vec(), vec![7]].concat(),
                1 => return [b"field:\xFF", &number.to_le_bytes()[..]].concat(),
                2..20 => format!("field:{number}"),
                _ => format!("field:{number:07}"),
            },
            0 => number.to_string(),
            _ => format!("field:{number}"),
        };
        name.into_bytes()
    }

    fn lifetime(&self, rng: &mut Rng) -> Lifetime {
        match rng.below(8) {
            0 => Lifetime::At(self.now_ms + 1 + rng.below(300)),
            1 => Lifetime::At(self.now_ms + (1 << 43)),
            2 | 3 => Lifetime::Keep,
            _ => Lifetime::Clear,
        }
    }

    fn set(&mut self, rng: &mut Rng, pairs: usize) {
        let lifetime = self.lifetime(rng);
        let pairs: Vec<_> = (0..pairs).map(|_| (self.name(rng), text(rng, self.long))).collect();
        let mut added = 0;
        for (name, value) in &pairs {
            let before = self.model.get(name).and_then(|(_, deadline)| *deadline);
            let deadline = match lifetime {
                Lifetime::At(deadline) => Some(deadline),
                Lifetime::Keep => before,
                Lifetime::Clear => None,
            };
            added += usize::from(self.model.insert(name.clone(), (value.clone(), deadline)).is_none());
        }
        let rules = Rules { limits: &self.limits, now_ms: self.now_ms };
        let words = pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        let mut slot = self.kept.slot();
        assert_eq!(hash::set_all(&mut slot, rules, words, lifetime), added);
    }

    fn step(&mut self, rng: &mut Rng) {
        self.now_ms += rng.below(3);
        self.forget_expired();
        match rng.below(16) {
            0..8 => self.set(rng, 1),
            8 => {
                let pairs = 1 + rng.below(100) as usize;
                self.set(rng, pairs);
            }
            9..12 => {
                let name = self.name(rng);
                let removed = hash::remove(&mut self.kept.slot(), self.now_ms, &name);
                assert_eq!(removed, self.model.remove(&name).is_some());
            }
            12 | 13 => {
                let name = self.name(rng);
                let deadline = (!rng.one_in(3)).then(|| self.now_ms + 1 + rng.below(300));
                if let Some((_, before)) = self.model.get_mut(&name) {
                    *before = deadline;
                    hash::set_deadline(&mut self.kept.slot(), &name, deadline);
                }
            }
            14 => {
                let due_ms = hash::due_ms(self.kept.view());
                let earliest = self.model.values().filter_map(|(_, deadline)| *deadline).min();
                assert!(earliest.is_none_or(|earliest| due_ms <= earliest));
                let outcome = hash::expire(&mut self.kept.slot(), self.now_ms, 4, |_| ());
                assert!(!outcome.done || hash::due_ms(self.kept.view()) >= self.now_ms);
            }
            // Down to little, so that it is packed again.
            _ if rng.one_in(40) => {
                for name in self.model.keys().skip(20) {
                    assert!(hash::remove(&mut self.kept.slot(), self.now_ms, name));
                }
                self.model = self.model.split_off(&[][..]).into_iter().take(20).collect();
            }
            _ => {}
        }
    }

    fn check(&self, rng: &mut Rng) {
        let hash = Hash::of(self.kept.view(), self.now_ms);
        assert_eq!(hash.count_alive(), self.model.len());
        assert!(hash.len() >= self.model.len());
        let mut seen = 0;
        let mut cursor = 0;
        loop {
            cursor = hash.scan(cursor, 1 + rng.below(20) as usize, |field| {
                seen += 1;
                self.compare(&field);
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, self.model.len());
        let name = self.name(rng);
        assert_eq!(hash.get(&name).is_some(), self.model.contains_key(&name));
        assert_eq!(hash.random(rng).is_some(), !self.model.is_empty());
        let mut names = self.model.keys().map(Vec::as_slice);
        hash.get_each(names.clone(), |field| {
            let field = field.expect("it is there");
            assert_eq!(field.name.to_vec(), names.next().expect("in the order of the names"));
            self.compare(&field);
        });
        let volatile = self.model.values().any(|(_, deadline)| deadline.is_some());
        assert!(hash::is_volatile(self.kept.view().tag()) || !volatile);
        if volatile {
            assert_eq!(self.kept.view().form(), Form::HashHashtable);
        }
    }

    fn compare(&self, field: &Field<'_>) {
        let (value, deadline) = &self.model[&field.name.to_vec()];
        assert_eq!(field.value.to_vec(), *value);
        assert_eq!(field.deadline, *deadline);
    }
}

#[test]
fn a_hash_is_what_the_model_is() {
    let mut rng = rng("hash");
    let storage = storage();
    for (names, long) in [(4, false), (30, true), (300, false), (1500, false), (NAMES_ALIKE, true)] {
        let mut pair = Pair {
            kept: Kept::new(storage),
            model: Model::new(),
            limits: Limits::default(),
            now_ms: NOW_MS,
            names,
            long,
        };
        let (mut packed, mut large) = (0, 0);
        for step in 0..4000 {
            pair.step(&mut rng);
            pair.forget_expired();
            if step % 20 == 0 || names < 10 {
                pair.check(&mut rng);
            }
            match pair.kept.view() {
                View::Packed(_) => packed += 1,
                View::Large(..) => large += 1,
            }
        }
        assert!(packed > 0 && (large > 0 || names < 400), "{names} names: packed {packed}, large {large}");
    }
}

#[test]
fn a_table_keeps_once_what_its_names_begin_with() {
    let lasting =
        |shared: &str| String::from_utf8(stored::lasting(shared.as_bytes()).to_vec()).expect("text");
    assert_eq!(lasting("field:0000000"), "field:000");
    assert_eq!(lasting("user:12"), "user:");
    assert_eq!(lasting("user:"), "user:");
    assert_eq!(lasting("0012"), "");
    let mut kept = Kept::new(storage());
    let limits = Limits::default();
    let rules = Rules { limits: &limits, now_ms: NOW_MS };
    let before = {
        for number in 0..20_000 {
            let name = format!("field:{number:010}");
            hash::set(&mut kept.slot(), rules, name.as_bytes(), b"12345678", Lifetime::Clear);
        }
        kept.view().large::<Table>().expect("it is large").live_bytes()
    };
    // A header of 3, seven digits, a value of four bytes.
    assert_eq!(before, 20_000 * 16, "bytes of the fields");
    assert_eq!(
        Hash::of(kept.view(), NOW_MS).get(b"field:0000012345").map(|field| field.name.to_vec()),
        Some(b"field:0000012345".to_vec())
    );
    assert!(Hash::of(kept.view(), NOW_MS).get(b"0012345").is_none());
}

#[test]
fn a_hash_is_packed_up_to_its_bound_and_again_when_it_has_shrunk() {
    let mut kept = Kept::new(storage());
    let limits = Limits { hash_max_listpack_entries: 4, ..Limits::default() };
    let rules = Rules { limits: &limits, now_ms: NOW_MS };
    let set = |kept: &mut Kept, number: usize| {
        let name = number.to_string();
        assert!(hash::set(&mut kept.slot(), rules, name.as_bytes(), b"value", Lifetime::Clear));
    };
    for number in 0..PACKED_FIELDS_MAX {
        set(&mut kept, number);
        let form = if number < 4 { Form::HashListpack } else { Form::HashHashtable };
        assert_eq!((kept.view().form(), kept.slot().is_large()), (form, false));
    }
    set(&mut kept, PACKED_FIELDS_MAX);
    assert!(kept.slot().is_large());
    for number in 10..=PACKED_FIELDS_MAX {
        assert!(hash::remove(&mut kept.slot(), NOW_MS, number.to_string().as_bytes()));
    }
    assert!(!kept.slot().is_large());
    assert_eq!((kept.view().form(), Hash::of(kept.view(), NOW_MS).len()), (Form::HashHashtable, 10));
}

#[test]
fn what_names_begin_with_is_kept_once() {
    let mut kept = Kept::new(storage());
    let limits = Limits::default();
    let rules = Rules { limits: &limits, now_ms: NOW_MS };
    let set = |kept: &mut Kept, name: &str| {
        assert!(hash::set(&mut kept.slot(), rules, name.as_bytes(), b"value", Lifetime::Clear));
    };
    (0..3).for_each(|number| set(&mut kept, &format!("field{number}")));
    // Tag, three times two marks, name and value, a mark.
    assert_eq!(kept.slot().packed().len(), 1 + 3 * (2 + 6 + 5) + 1);
    set(&mut kept, "field3");
    // The rests are small integers, which take no byte beside their marks.
    assert_eq!(kept.slot().packed().len(), 1 + 6 + 4 * (2 + 5) + 1);
    set(&mut kept, "fi");
    set(&mut kept, "fiel");
    assert_eq!(kept.slot().packed().len(), 1 + 3 + 4 * (2 + 4 + 5) + (2 + 5) + (2 + 2 + 5) + 1);
    set(&mut kept, "other");
    let hash = Hash::of(kept.view(), NOW_MS);
    let names = ["field0", "field1", "field2", "field3", "fi", "fiel", "other"];
    assert!(names.iter().all(|name| hash.get(name.as_bytes()).is_some()));
    assert!(["", "f", "field", "field00", "othe"].iter().all(|name| hash.get(name.as_bytes()).is_none()));
    let mut listed = Vec::new();
    hash.for_each(|field| listed.push(String::from_utf8(field.name.to_vec()).expect("it is text")));
    assert_eq!(listed, names);
}

#[test]
fn the_last_deadline_takes_its_room_with_it() {
    let mut kept = Kept::new(storage());
    let limits = Limits::default();
    let rules = Rules { limits: &limits, now_ms: NOW_MS };
    for name in [b"a", b"b", b"c"] {
        hash::set(&mut kept.slot(), rules, name, b"1", Lifetime::Clear);
    }
    let bytes = kept.slot().packed().len();
    hash::set_deadline(&mut kept.slot(), b"a", Some(NOW_MS + 5));
    hash::set_deadline(&mut kept.slot(), b"b", Some(NOW_MS + 9));
    assert!(hash::is_volatile(kept.view().tag()) && hash::due_ms(kept.view()) == NOW_MS + 5);
    hash::set_deadline(&mut kept.slot(), b"b", None);
    hash::expire(&mut kept.slot(), NOW_MS + 6, 1, |name| assert_eq!(name, b"a"));
    assert!(!hash::is_volatile(kept.view().tag()) && hash::due_ms(kept.view()) == u64::MAX);
    // The tag, two marks and a letter per field, one mark behind them.
    assert_eq!((bytes, kept.slot().packed().len()), (2 + 3 * 3, 2 + 2 * 3));
}

#[test]
fn every_field_and_every_set_of_fields_is_drawn_as_often() {
    let mut rng = rng("hash, chance");
    for fields in [6, 600] {
        let mut kept = Kept::new(storage());
        let limits = Limits::default();
        let rules = Rules { limits: &limits, now_ms: NOW_MS };
        for number in 0..fields {
            let name = format!("f{number}");
            hash::set(&mut kept.slot(), rules, name.as_bytes(), b"x", Lifetime::Clear);
            // As many that have expired, which are never drawn.
            let name = format!("gone{number}");
            hash::set(&mut kept.slot(), rules, name.as_bytes(), b"x", Lifetime::At(NOW_MS - 1));
        }
        let hash = Hash::of(kept.view(), NOW_MS);
        for distinct in [0, 3, fields * 3 / 4] {
            let mut drawn = HashMap::<Vec<u8>, f64>::new();
            let rounds = if distinct > 3 { 200 } else { 100 * fields / distinct.max(1) };
            for _ in 0..rounds {
                let count = |field: Field<'_>| *drawn.entry(field.name.to_vec()).or_default() += 1.0;
                match distinct {
                    0 => hash.random_repeating(&mut rng, 1, count),
                    _ => hash.random_distinct(&mut rng, distinct, count),
                }
            }
            let expected = (rounds * distinct.max(1)) as f64 / fields as f64;
            let chi_square: f64 = drawn.values().map(|seen| (seen - expected).powi(2) / expected).sum();
            let freedom = (fields - 1) as f64;
            assert!(drawn.len() == fields && chi_square < freedom + 8.0 * (2.0 * freedom).sqrt());
        }
    }
}
