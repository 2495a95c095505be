//! Tables against a simple model: every operation at random, with a second owner of the handles that follows all moves.

use std::collections::{BTreeMap, HashMap, HashSet};

use memory::{Arena, Handle};
use stdx::hash::Seed;
use stdx::rng::Rng;

use super::{Table, Value};
use crate::Storage;

static SEED: Seed = Seed::new(5);
/// Any time.
const NOW_MS: u64 = 1_790_000_000_000;

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

#[derive(Clone, PartialEq, Debug)]
enum Owned {
    Bytes(Vec<u8>),
    Int(i64),
}

impl Owned {
    fn by_chance(rng: &mut Rng) -> Owned {
        match rng.below(40) {
            0 => Owned::Bytes(vec![rng.next_u32() as u8; 16_000 + rng.below(40_000) as usize]),
            1..10 => Owned::Int(rng.next_u64() as i64 >> rng.below(64)),
            10..14 => Owned::Bytes(Vec::new()),
            _ => Owned::Bytes(vec![rng.next_u32() as u8; rng.below(60) as usize]),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Owned::Bytes(bytes) => Value::Bytes(bytes),
            Owned::Int(integer) => Value::Int(*integer),
        }
    }
}

/// A table, what should be in it, and a second owner of its handles.
struct Pair {
    table: Table,
    model: BTreeMap<Vec<u8>, (Owned, Option<u64>)>,
    handles: HashMap<Handle, Vec<u8>>,
    now_ms: u64,
}

impl Pair {
    fn new(storage: Storage) -> Pair {
        Pair { table: Table::new(storage), model: BTreeMap::new(), handles: HashMap::new(), now_ms: NOW_MS }
    }

    fn deadline(&self, rng: &mut Rng) -> Option<u64> {
        match rng.below(4) {
            0 => Some(self.now_ms + rng.below(1000)),
            // Beyond what fits into five bytes.
            1 if rng.one_in(8) => Some(self.now_ms + (1 << 41)),
            _ => None,
        }
    }

    fn step(&mut self, rng: &mut Rng, names: u64) {
        let name = format!("name:{}", rng.below(names)).into_bytes();
        let value = Owned::by_chance(rng);
        let deadline = self.deadline(rng);
        let found = self.table.find(&name);
        assert_eq!(found.is_some(), self.model.contains_key(&name));
        match (rng.below(8), found) {
            (0..4, None) => {
                let handle = self.table.insert(&name, value.value(), deadline);
                self.handles.insert(handle, name.clone());
                self.model.insert(name, (value, deadline));
            }
            (0..4, Some(handle)) => {
                self.handles.remove(&handle);
                let handle = self.table.replace(handle, value.value(), deadline);
                self.handles.insert(handle, name.clone());
                self.model.insert(name, (value, deadline));
            }
            (4, Some(handle)) => {
                self.handles.remove(&handle);
                let handle = self.table.set_deadline(handle, deadline);
                self.handles.insert(handle, name.clone());
                self.model.get_mut(&name).expect("it is there").1 = deadline;
            }
            (5, Some(handle)) => {
                self.table.remove_element(handle);
                self.handles.remove(&handle);
                self.model.remove(&name);
            }
            (6, found) => {
                assert_eq!(self.table.remove(&name), found.is_some());
                found.map(|handle| self.handles.remove(&handle));
                self.model.remove(&name);
            }
            _ => self.expire(rng),
        }
        for _ in 0..rng.below(4) {
            let handles = &mut self.handles;
            self.table.compact(|element, old, new| {
                let name = handles.remove(&old).expect("the second owner knows every element");
                assert_eq!(element.name(), name);
                handles.insert(new, name);
            });
        }
    }

    fn expire(&mut self, rng: &mut Rng) {
        self.now_ms += rng.below(5);
        let (handles, model, now_ms) = (&mut self.handles, &mut self.model, self.now_ms);
        self.table.expire(now_ms, 1 + rng.below(20) as u32, |_, handle, element| {
            assert!(element.is_expired(now_ms));
            assert_eq!(handles.remove(&handle).as_deref(), Some(element.name()));
            model.remove(element.name()).expect("it was there");
        });
        let due_ms = self.table.due_ms();
        assert!(model.values().all(|(_, deadline)| deadline.is_none_or(|deadline| deadline >= due_ms)));
    }

    fn check(&self) {
        let Pair { table, model, handles, .. } = self;
        assert_eq!(table.len(), model.len());
        assert_eq!(table.volatile_len(), model.values().filter(|(_, deadline)| deadline.is_some()).count());
        let mut seen = HashSet::new();
        table.for_each(|element| {
            let (value, deadline) = &model[element.name()];
            assert_eq!((element.value(), element.deadline()), (value.value(), *deadline));
            assert!(seen.insert(element.name().to_vec()));
        });
        assert_eq!(seen.len(), model.len());
        for (handle, name) in handles {
            assert_eq!(table.element(*handle).name(), name);
        }
        assert!(table.bytes() >= table.live_bytes());
    }
}

#[test]
fn a_table_is_what_the_model_is() {
    let mut rng = rng("table");
    let storage = storage();
    for names in [3, 200, 3000] {
        let mut pair = Pair::new(storage);
        for step in 0..12_000 {
            pair.step(&mut rng, names);
            if step % 1000 == 0 {
                pair.check();
            }
        }
        pair.check();
        let copy = pair.table.duplicate(|old, new| assert_ne!(old, new));
        let copied = Pair { table: copy, handles: HashMap::new(), ..pair };
        copied.check();
    }
}

#[test]
fn what_has_expired_goes_and_the_rest_stays() {
    let mut table = Table::new(storage());
    for number in 0..5000_u64 {
        let deadline = (number % 3 == 0).then_some(NOW_MS + number);
        table.insert(&number.to_le_bytes(), Value::NONE, deadline);
    }
    assert_eq!(table.due_ms(), NOW_MS);
    assert!(table.expire(NOW_MS, u32::MAX, |_, _, _| panic!("nothing is due")).done);
    let mut removed = 0;
    let outcome = table.expire(NOW_MS + 3000, u32::MAX, |_, _, _| removed += 1);
    // Those of 0, 3, ... 2997.
    assert_eq!((outcome.removed, removed, outcome.done), (1000, 1000, true));
    assert_eq!((table.len(), table.due_ms()), (4000, NOW_MS + 3000));
    table.expire(NOW_MS + 10_000, u32::MAX, |_, _, _| ());
    assert_eq!((table.volatile_len(), table.due_ms()), (0, u64::MAX));
}

#[test]
fn lookups_in_a_batch_find_what_single_ones_find() {
    let mut table = Table::new(storage());
    let names: Vec<Vec<u8>> = (0..1000).map(|number| format!("n{number}").into_bytes()).collect();
    for (number, name) in (0..).zip(&names) {
        if number % 3 != 0 {
            table.insert(name, Value::Int(number), None);
        }
    }
    let mut asked = 0;
    table.find_each(names.iter().map(Vec::as_slice), |name, element| {
        assert_eq!(name, names[asked]);
        let expected = (asked % 3 != 0).then_some(Value::Int(asked as i64));
        assert_eq!(element.map(super::Element::value), expected);
        asked += 1;
    });
    assert_eq!(asked, 1000);
}

#[test]
fn what_is_copied_in_the_order_of_a_scan_does_not_crowd() {
    let storage = storage();
    let mut from = Table::new(storage);
    for number in 0..20_000_u64 {
        from.insert(&number.to_le_bytes(), Value::NONE, None);
    }
    let mut to = Table::new(storage);
    let mut fullest = 0;
    let mut cursor = 0;
    loop {
        cursor = from.scan(cursor, 50, |element| _ = to.insert(element.name(), Value::NONE, None));
        let mut longest = 0;
        let mut bucket = 0;
        loop {
            let mut here = 0;
            bucket = to.scan_bucket(bucket, |_| here += 1);
            longest = longest.max(here);
            if bucket == 0 || to.len() > 2000 {
                break;
            }
        }
        fullest = fullest.max(longest);
        if cursor == 0 {
            break;
        }
    }
    assert!(fullest < 50, "a bucket held {fullest} elements");
}

#[test]
fn every_element_is_drawn_as_often() {
    let mut rng = rng("table, chance");
    let mut table = Table::new(storage());
    const ELEMENTS: usize = 700;
    for number in 0..ELEMENTS {
        table.insert(&number.to_le_bytes(), Value::NONE, None);
    }
    let mut drawn = HashMap::<Handle, u64>::new();
    for _ in 0..ELEMENTS * 100 {
        *drawn.entry(table.random(&mut rng).expect("it is not empty")).or_default() += 1;
    }
    let chi_square: f64 = drawn.values().map(|count| (*count as f64 - 100.0).powi(2) / 100.0).sum();
    // 699 degrees of freedom: mean 699, standard deviation 37; six of them.
    assert!(drawn.len() == ELEMENTS && chi_square < 921.0, "chi-square {chi_square}");
}

#[test]
fn memory_goes_back() {
    let storage = storage();
    let mut table = Table::new(storage);
    for number in 0..50_000_u64 {
        table.insert(&number.to_le_bytes(), Value::Int(number as i64), None);
    }
    let full = table.bytes();
    // 3 bytes of header, 8 of name, 1 to 3 of value; 8.4 of index.
    assert!(full < 50_000 * 25, "{full} bytes");
    for number in 0..49_000_u64 {
        assert!(table.remove(&number.to_le_bytes()));
        table.compact(|_, _, _| ());
    }
    while table.compact(|_, _, _| ()) {}
    assert!(table.bytes() < full / 15, "{} of {full} bytes", table.bytes());
    while !table.release(4) {}
    assert_eq!(table.bytes(), 0);
    let used = storage.arena.bytes_used();
    assert_eq!(used, 0);
}
