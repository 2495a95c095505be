//! Active expiry against a map of deadlines, under a clock of the test's own.

use super::*;
use crate::keyspace::Deadline;
use crate::keyspace::tests::{key, rng, storage};
use std::collections::{HashMap, HashSet};

const NOW: u64 = 1_800_000_000_000;

fn put(keyspace: &mut Keyspace, number: u64, deadline: Deadline) {
    keyspace.put_string(key(&number.to_le_bytes()), b"value", deadline, None);
}

fn number(name: &[u8]) -> u64 {
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
