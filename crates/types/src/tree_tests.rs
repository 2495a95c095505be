//! The tree against a map of the standard library.

use std::collections::BTreeMap;

use memory::{Arena, Heap};
use stdx::rng::Rng;

use super::Tree;

fn heap() -> Heap {
    Heap::new(Box::leak(Box::new(Arena::reserve(1 << 30).unwrap())))
}

fn compare(tree: &Tree<8>, heap: &Heap, model: &BTreeMap<u128, u64>, rng: &mut Rng) {
    assert_eq!(tree.check(heap), model.len() as u64);
    for _ in 0..20 {
        let key = u128::from(rng.below(3000));
        let pair =
            |found: Option<(u128, [u8; 8])>| found.map(|(key, value)| (key, u64::from_le_bytes(value)));
        let own = |found: Option<(&u128, &u64)>| found.map(|(key, value)| (*key, *value));
        assert_eq!(pair(tree.floor(heap, key)), own(model.range(..=key).next_back()));
        assert_eq!(pair(tree.ceil(heap, key)), own(model.range(key..).next()));
        assert_eq!(tree.get(heap, key).map(|value| u64::from_le_bytes(*value)), model.get(&key).copied());
        let mut iter = tree.iter(heap, key);
        for expected in model.range(key..).take(150) {
            assert_eq!(pair(iter.next()), own(Some(expected)));
        }
    }
    let ends = (tree.first(heap).map(|r| r.0), tree.last(heap).map(|r| r.0));
    assert_eq!(ends, (model.keys().next().copied(), model.keys().next_back().copied()));
}

#[test]
fn it_behaves_like_an_ordered_map() {
    for seed in 1..=8 {
        let mut rng = Rng::new(seed);
        let (mut heap, mut tree) = (heap(), Tree::<8>::new());
        let mut model = BTreeMap::new();
        for step in 0..20_000_u64 {
            // Phases of growth and of shrinking, at random places or at the ends.
            let growing = step / 3000 % 2 == 0;
            let key = u128::from(if seed % 2 == 0 { rng.below(3000) } else { step % 3000 });
            if rng.below(10) < if growing { 8 } else { 2 } {
                let inserted = tree.insert(&mut heap, key, &step.to_le_bytes());
                assert_eq!(inserted, model.insert(key, step).is_none(), "seed {seed} step {step}");
            } else {
                let removed = tree.remove(&mut heap, key).map(u64::from_le_bytes);
                assert_eq!(removed, model.remove(&key), "seed {seed} step {step}");
            }
            if let Some(value) = tree.get_mut(&mut heap, key) {
                let changed = u64::from_le_bytes(*value) + 1;
                *value = changed.to_le_bytes();
                model.insert(key, changed);
            }
            if rng.one_in(500) {
                compare(&tree, &heap, &model, &mut rng);
            }
        }
        compare(&tree, &heap, &model, &mut rng);
        while !tree.release(&mut heap, 3) {}
        assert_eq!((tree.check(&heap), heap.live_bytes()), (0, 0), "seed {seed}");
    }
}

#[test]
fn records_in_ascending_order_fill_their_nodes() {
    let (mut heap, mut tree) = (heap(), Tree::<0>::new());
    for key in 0..64 * 64 {
        tree.insert(&mut heap, key, &[]);
    }
    assert_eq!(tree.nodes(), 64 + 1);
    for key in 0..64 * 64 {
        assert!(tree.remove(&mut heap, key).is_some());
        let leaves = (64 * 64 - key as u64).div_ceil(64);
        assert!(tree.nodes() <= leaves + 1, "{} nodes at {key}", tree.nodes());
    }
}
