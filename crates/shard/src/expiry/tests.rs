//! Active expiry against a map of deadlines, under a clock of the test's own.

use super::*;
use crate::keyspace::Deadline;
use crate::keyspace::tests::{key, rng, storage};
use std::collections::{HashMap, HashSet};
use stdx::rng::Rng;
use types::Limits;
use types::hash::{self, Hash, Lifetime, Rules};

const NOW: u64 = 1_800_000_000_000;

fn put(keyspace: &mut Keyspace, number: u64, deadline: Deadline) {
    keyspace.put_string(key(&number.to_le_bytes()), b"value", deadline, None);
}

fn number(gone: Gone<'_>) -> u64 {
    let Gone::Key(name) = gone else { panic!("no hash is here") };
    u64::from_le_bytes(name.try_into().unwrap())
}

#[test]
fn a_keyspace_without_anything_due_is_not_walked() {
    let mut keyspace = Keyspace::new(storage());
    let idle = |again_ms| Outcome { examined: 0, buckets: 0, expired: 0, again_ms };
    let slice = |keyspace: &mut Keyspace, now_ms| {
        expire_slice(keyspace, now_ms, SLICE_US, || panic!("no clock is read"), |_| panic!("nothing expires"))
    };
    assert_eq!(keyspace.expiry_due_ms(), u64::MAX);
    (0..1_000).for_each(|n| put(&mut keyspace, n, Deadline::Clear));
    assert_eq!(slice(&mut keyspace, NOW), idle(u64::MAX));
    put(&mut keyspace, 5, Deadline::At(NOW + 50));
    put(&mut keyspace, 6, Deadline::At(NOW + 20));
    assert_eq!(keyspace.expiry_due_ms(), NOW + 20);
    // At its very millisecond an entry still lives.
    assert_eq!(slice(&mut keyspace, NOW + 20), idle(NOW + 20));
    let outcome = expire_slice(&mut keyspace, NOW + 21, SLICE_US, || 0, |name| assert_eq!(number(name), 6));
    assert_eq!((outcome.examined, outcome.expired, outcome.again_ms), (2, 1, NOW + 50));
    assert_eq!(slice(&mut keyspace, NOW + 50), idle(NOW + 50));
    assert!(keyspace.set_deadline(key(&5u64.to_le_bytes()), None));
    assert_eq!(slice(&mut keyspace, NOW + 1_000), idle(u64::MAX));
    assert_eq!(keyspace.expiry_due_ms(), u64::MAX);
}

#[test]
fn a_slice_ends_with_its_budget() {
    let mut keyspace = Keyspace::new(storage());
    (0..20_000).for_each(|n| put(&mut keyspace, n, Deadline::At(NOW)));
    let (mut clock, mut gone, mut slices) = (0, HashSet::new(), 0);
    loop {
        let outcome = expire_slice(
            &mut keyspace,
            NOW + 1,
            10,
            || {
                clock += 5;
                clock
            },
            |name| assert!(gone.insert(number(name))),
        );
        assert!(outcome.buckets <= 2 * BUCKETS_PER_LOOK && outcome.expired <= outcome.examined);
        slices += 1;
        if outcome.again_ms == u64::MAX {
            break;
        }
    }
    assert!(slices > 100, "{slices} slices");
    assert_eq!((gone.len(), keyspace.len(), keyspace.expiry_due_ms()), (20_000, 0, u64::MAX));
}

#[test]
fn whatever_changes_meanwhile_nothing_is_forgotten() {
    let mut rng = rng("expiry");
    let mut keyspace = Keyspace::new(storage());
    let mut model: HashMap<u64, Option<u64>> = HashMap::new();
    let (mut now, mut walks) = (NOW, 0);
    for step in 0..60_000 {
        // Grows for a while and shrinks for a while, so that buckets split and merge behind and before the walk.
        let grow = step / 6_000 % 2 == 0;
        for _ in 0..rng.below(6) {
            let n = rng.below(15_000);
            let at = now - 20 + rng.below(4_000);
            match rng.below(10) {
                0..6 if grow => {
                    put(&mut keyspace, n, Deadline::At(at));
                    model.insert(n, Some(at));
                }
                0..6 => assert_eq!(keyspace.remove(key(&n.to_le_bytes())), model.remove(&n).is_some()),
                6..8 => {
                    put(&mut keyspace, n, Deadline::Keep);
                    model.entry(n).or_insert(None);
                }
                _ => {
                    let deadline = rng.one_in(2).then_some(at);
                    keyspace.set_deadline(key(&n.to_le_bytes()), deadline);
                    model.entry(n).and_modify(|old| *old = deadline);
                }
            }
        }
        now += rng.below(3);
        if !rng.one_in(3) {
            continue;
        }
        let mut looks = 0;
        let outcome = expire_slice(
            &mut keyspace,
            now,
            1 + rng.below(8),
            || {
                looks += 1;
                looks
            },
            |name| assert!(model.remove(&number(name)).flatten().is_some_and(|at| at < now)),
        );
        let lowest = model.values().flatten().min().copied().unwrap_or(u64::MAX);
        assert!(keyspace.expiry_due_ms() <= lowest, "step {step}: an entry expires at {lowest} unseen");
        walks += u32::from(outcome.again_ms != 0);
        assert_eq!(keyspace.volatile_len(), model.values().flatten().count() as u64);
    }
    assert!(walks > 10, "{walks} walks came to their end");
}

#[test]
fn the_pace_follows_the_backlog() {
    let outcome = |examined, expired| Outcome { examined, buckets: examined / 9, expired, again_ms: 0 };
    let after = |outcome: Outcome| {
        let mut pace = Pace::default();
        (0..50).map(|_| pace.rest_us(&outcome, 100)).last().unwrap()
    };
    // A quarter of a core: three times as much rest as work; from a tenth on that is expired.
    assert_eq!(after(outcome(1_000, 1_000)), 300);
    assert_eq!(after(outcome(1_000, 150)), 300);
    let (some, few, none) = (after(outcome(1_000, 20)), after(outcome(1_000, 1)), after(outcome(1_000, 0)));
    assert!((1_500..3_000).contains(&some), "{some} us of rest with two of a hundred expired");
    assert!(few > 15_000 && none > 15_000, "{few} and {none} us of rest with next to nothing expired");
    // It turns within a few slices when a backlog appears.
    let mut pace = Pace::default();
    (0..100).for_each(|_| _ = pace.rest_us(&outcome(1_000, 0), 100));
    let turned = (0..10).position(|_| pace.rest_us(&outcome(1_000, 500), 100) == 300);
    assert!(turned.is_some_and(|slices| slices <= 2));
    // An interrupted slice does not put it to sleep for long.
    assert!(pace.rest_us(&outcome(0, 0), 10_000_000) <= 50_000);
}

/// Fields of hashes and their deadlines, and the deadline of the key.
type Fields = HashMap<u64, Option<u64>>;

/// Hashes of a keyspace beside a model: small and large ones, of which fields and keys expire.
struct Hashes {
    keyspaces: [Keyspace; 2],
    models: [HashMap<u64, (Fields, Option<u64>)>; 2],
    now: u64,
}

impl Hashes {
    fn set(&mut self, db: usize, name: u64, field: u64, lifetime: Lifetime) {
        let bytes = name.to_le_bytes();
        let (key, keyspace) = (key(&bytes), &mut self.keyspaces[db]);
        let rules = Rules { limits: &Limits::default(), now_ms: self.now };
        let mut slot = match keyspace.place(key) {
            Some(place) => keyspace.slot(place),
            None => keyspace.create(key, hash::EMPTY, None),
        };
        hash::set(&mut slot, rules, &field.to_le_bytes(), b"value", lifetime);
        let (fields, _) = self.models[db].entry(name).or_default();
        let deadline = match lifetime {
            Lifetime::At(deadline) => Some(deadline),
            Lifetime::Keep => fields.get(&field).copied().flatten(),
            Lifetime::Clear => None,
        };
        fields.insert(field, deadline);
    }

    /// What nobody can see any more counts as gone before it is changed, as `Exec` sees to it.
    fn settle(&mut self, db: usize, name: u64) {
        let bytes = name.to_le_bytes();
        let (key, keyspace, now) = (key(&bytes), &mut self.keyspaces[db], self.now);
        if keyspace.find(key).is_some_and(|entry| entry.is_expired(now)) {
            keyspace.remove(key);
            self.models[db].remove(&name);
        }
        while !keyspace.expire_fields(key, now, 8, |_| ()).done {}
        let Some((fields, _)) = self.models[db].get_mut(&name) else { return };
        fields.retain(|_, deadline| deadline.is_none_or(|deadline| deadline >= now));
        if fields.is_empty() {
            self.models[db].remove(&name);
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        let (db, name) = (rng.below(2) as usize, rng.below(40));
        self.settle(db, name);
        let bytes = name.to_le_bytes();
        let at = self.now + 1 + rng.below(2_000);
        match rng.below(20) {
            0..14 => {
                let lifetime = match rng.below(3) {
                    0 => Lifetime::Clear,
                    1 => Lifetime::Keep,
                    _ => Lifetime::At(at),
                };
                // One hash in four becomes large.
                let fields = if name.is_multiple_of(4) { 2_000 } else { 12 };
                (0..1 + rng.below(30)).for_each(|_| self.set(db, name, rng.below(fields), lifetime));
            }
            14 => {
                let deadline = rng.one_in(2).then_some(at);
                self.keyspaces[db].set_deadline(key(&bytes), deadline);
                self.models[db].entry(name).and_modify(|(_, old)| *old = deadline);
                self.models[db].retain(|_, (fields, _)| !fields.is_empty());
            }
            15 => {
                assert_eq!(self.keyspaces[db].remove(key(&bytes)), self.models[db].remove(&name).is_some());
            }
            16 => put(&mut self.keyspaces[db], name + 1_000, Deadline::At(at)),
            // COPY, MOVE and RENAME, SET over a hash.
            17 => {
                if let Some(value) = self.keyspaces[db].copy(key(&bytes)) {
                    let to = rng.below(40);
                    self.keyspaces[1 - db].put_value(key(&to.to_le_bytes()), value);
                    let model = self.models[db][&name].clone();
                    self.models[1 - db].insert(to, model);
                }
            }
            18 => {
                if let Some(value) = self.keyspaces[db].take(key(&bytes)) {
                    let to = rng.below(40);
                    self.keyspaces[1 - db].put_value(key(&to.to_le_bytes()), value);
                    let model = self.models[db].remove(&name).unwrap();
                    self.models[1 - db].insert(to, model);
                }
            }
            _ => {
                put(&mut self.keyspaces[db], name, Deadline::Clear);
                self.keyspaces[db].remove(key(&bytes));
                self.models[db].remove(&name);
            }
        }
    }

    /// One slice; what it says that is gone must have been due.
    fn expire(&mut self, rng: &mut Rng) -> Outcome {
        let db = rng.below(2) as usize;
        let (model, now) = (&mut self.models[db], self.now);
        let mut looks = 0;
        let clock = || {
            looks += 1;
            looks
        };
        let outcome = expire_slice(&mut self.keyspaces[db], now, 1 + rng.below(8), clock, |gone| {
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
            match gone {
                Gone::Key(name) if number(name) >= 1_000 => {}
                Gone::Key(name) => {
                    let (_, deadline) = model.remove(&number(name)).expect("the key was there");
                    assert!(deadline.is_some_and(|deadline| deadline < now));
                }
                Gone::Field { key, field } => {
                    let (fields, _) = model.get_mut(&number(key)).expect("the key was there");
                    let deadline = fields.remove(&number(field)).expect("the field was there");
                    assert!(deadline.is_some_and(|deadline| deadline < now));
                }
            }
        });
        model.retain(|_, (fields, _)| !fields.is_empty());
        outcome
    }

    fn check(&self) {
        for (keyspace, model) in self.keyspaces.iter().zip(&self.models) {
            let mut strings = 0;
            keyspace.scan(0, usize::MAX, |entry| {
                let name = u64::from_le_bytes(entry.key().try_into().unwrap());
                let Some(view) = entry.collection() else { return strings += 1 };
                let (fields, deadline) = &model[&name];
                assert_eq!(entry.deadline(), *deadline);
                let mut count = 0;
                Hash::of(view, 0).for_each(|field| {
                    let number = u64::from_le_bytes(field.name.to_vec().try_into().unwrap());
                    assert_eq!(field.deadline, fields[&number]);
                    count += 1;
                });
                assert_eq!(count, fields.len());
            });
            assert_eq!(keyspace.len() - strings, model.len() as u64);
            let volatile = model.values().filter(|(_, deadline)| deadline.is_some()).count() as u64;
            assert_eq!(keyspace.volatile_len() - strings, volatile);
            let has_deadlines = |fields: &Fields| fields.values().any(Option::is_some);
            let with_fields = model.values().filter(|(fields, _)| has_deadlines(fields)).count() as u64;
            assert_eq!(keyspace.volatile_fields_len(), with_fields);
            let fields = model.values().flat_map(|(fields, _)| fields.values());
            let lowest = fields.chain(model.values().map(|(_, deadline)| deadline)).flatten().min();
            assert!(lowest.is_none_or(|lowest| keyspace.expiry_due_ms() <= *lowest));
        }
    }
}

#[test]
fn fields_expire_wherever_their_hash_goes() {
    let mut rng = rng("expiry of fields");
    let storage = storage();
    let mut hashes = Hashes {
        keyspaces: [Keyspace::new(storage), Keyspace::new(storage)],
        models: Default::default(),
        now: NOW,
    };
    let (mut walks, mut gone) = (0, 0);
    for step in 0..20_000 {
        hashes.step(&mut rng);
        hashes.now += rng.below(4);
        if rng.one_in(3) {
            let outcome = hashes.expire(&mut rng);
            walks += u32::from(outcome.again_ms != 0);
            gone += outcome.expired;
        }
        if step % 100 == 0 {
            hashes.check();
        }
        if step % 5_000 == 0 {
            let [a, b] = &mut hashes.keyspaces;
            a.swap(b);
            hashes.models.swap(0, 1);
        }
    }
    assert!(walks > 100 && gone > 1_000, "{walks} walks came to their end, {gone} fields and keys went");
    hashes.now += 1 << 20;
    for _ in 0..1_000_000 {
        if hashes.keyspaces.iter().all(|keyspace| keyspace.expiry_due_ms() == u64::MAX) {
            break;
        }
        hashes.expire(&mut rng);
    }
    hashes.check();
    assert!(hashes.keyspaces.iter().all(|keyspace| keyspace.volatile_fields_len() == 0));
}
