//! Streams against a map of the standard library, and the bytes they take.

use std::collections::BTreeMap;

use memory::{Arena, EntryParts, Heap, Index, Kind};
use stdx::hash::Seed;
use stdx::rng::Rng;

use super::*;
use crate::Storage;

static SEED: Seed = Seed::new(7);

pub(super) type Pair = (Vec<u8>, Vec<u8>);
type Model = BTreeMap<Id, Vec<Pair>>;

/// A key with a stream.
pub(super) struct Key {
    storage: Storage,
    heap: Heap,
    index: Index,
}

impl Key {
    pub(super) fn new() -> Key {
        let arena = Box::leak(Box::new(Arena::reserve(1 << 30).unwrap()));
        let (mut heap, mut index) = (Heap::new(arena), Index::new(arena));
        let parts = EntryParts {
            key: b"stream",
            kind: Kind::Collection,
            value: &StreamMut::EMPTY,
            deadline: None,
            access: None,
        };
        let handle = heap.insert(&parts);
        index.insert(1, handle, false, |_| 1);
        Key { storage: Storage { arena, seed: &SEED }, heap, index }
    }

    pub(super) fn slot(&mut self) -> Slot<'_> {
        let (at, handle) = self.index.find(1, |_| true).unwrap();
        Slot::new(self.storage, &mut self.heap, &mut self.index, at, handle)
    }

    pub(super) fn with<T>(&mut self, change: impl FnOnce(&mut StreamMut<'_, '_>) -> T) -> T {
        let mut slot = self.slot();
        change(&mut StreamMut::new(&mut slot))
    }
}

impl Pairs for &[Pair] {
    fn count(&self) -> usize {
        self.len()
    }

    fn field(&self, n: usize) -> &[u8] {
        &self[n].0
    }

    fn value(&self, n: usize) -> &[u8] {
        &self[n].1
    }
}

fn owned(entry: Entry<'_>) -> (Id, Vec<Pair>) {
    let id = entry.id;
    let text = |item: Item<'_>| match item {
        Item::Bytes(bytes) => bytes.to_vec(),
        Item::Integer(integer) => integer.to_string().into_bytes(),
    };
    (id, entry.map(|(field, item)| (field.to_vec(), text(item))).collect())
}

fn pairs(rng: &mut Rng) -> Vec<Pair> {
    let text = |rng: &mut Rng| match rng.below(8) {
        0 => Vec::new(),
        1 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        2 => vec![b'x'; rng.below(300) as usize],
        3 if rng.one_in(20) => vec![b'y'; rng.below(20_000) as usize],
        _ => format!("{:08x}", rng.next_u32()).into_bytes(),
    };
    match rng.below(10) {
        0 => (0..1 + rng.below(4)).map(|_| (text(rng), text(rng))).collect(),
        1 => vec![(b"a".to_vec(), text(rng)), (b"b".to_vec(), text(rng))],
        _ => ["a", "b"].map(|field| (field.into(), format!("{:06x}", rng.next_u32() >> 8).into())).to_vec(),
    }
}

fn compare(stream: Stream<'_>, model: &Model, rng: &mut Rng, seed: u64) {
    let bound = |rng: &mut Rng| match rng.below(5) {
        0 => Id::ZERO,
        1 => Id::MAX,
        _ => Id { ms: rng.below(stream.head().last.ms + 2), seq: rng.below(4) },
    };
    let (start, end) = (bound(rng), bound(rng));
    let expected: Vec<_> = model.iter().filter(|(id, _)| (start..=end).contains(*id)).collect();
    let up: Vec<_> = stream.range(start, end, false).map(owned).collect();
    assert!(up.iter().map(|(id, pairs)| (id, pairs)).eq(expected.iter().copied()), "seed {seed}");
    let down: Vec<_> = stream.range(start, end, true).map(owned).collect();
    assert!(down.iter().map(|(id, pairs)| (id, pairs)).eq(expected.iter().rev().copied()), "seed {seed}");
    assert_eq!(stream.head().len, model.len() as u64, "seed {seed}");
    let edges = (model.keys().next(), model.keys().next_back());
    let edges = (edges.0.copied().unwrap_or(Id::ZERO), edges.1.copied().unwrap_or(Id::ZERO));
    assert_eq!((stream.first_id(), stream.top_id()), edges, "seed {seed}");
    if let Source::Large(large) = stream.0 {
        large.check();
    }
}

fn random_id(model: &Model, rng: &mut Rng) -> Id {
    let nth = rng.below(model.len() as u64 + 1) as usize;
    model.keys().nth(nth).copied().unwrap_or(Id { ms: rng.below(1000), seq: 0 })
}

#[test]
fn it_behaves_like_an_ordered_map() {
    for seed in 1..=12 {
        let mut rng = Rng::new(seed);
        let (mut key, mut model) = (Key::new(), Model::new());
        let limits = Limits {
            stream_node_max_entries: *rng.pick(&[100, 100, 0, 1, 7, 1000]).unwrap(),
            stream_node_max_bytes: *rng.pick(&[4096, 4096, 0, 1, 500, 40_000]).unwrap(),
            ..Limits::default()
        };
        for step in 0..3000_u64 {
            let last = key.slot_head().last;
            match rng.below(100) {
                0..80 => {
                    let id = match rng.below(4) {
                        0 => last.next().unwrap(),
                        1 => Id { ms: last.ms, seq: last.seq + 1 + rng.below(300) },
                        2 => Id { ms: last.ms + 1 + rng.below(3), seq: 0 },
                        _ => Id { ms: last.ms + 1 + rng.below(500), seq: rng.below(3) },
                    };
                    let pairs = pairs(&mut rng);
                    key.with(|stream| stream.append(&limits, id, &pairs.as_slice()));
                    model.insert(id, pairs);
                }
                80..97 => {
                    let id = random_id(&model, &mut rng);
                    let removed = key.with(|stream| stream.remove(id));
                    assert_eq!(removed, model.remove(&id).is_some(), "seed {seed} step {step}");
                }
                97 if rng.one_in(3) => {
                    // Ids may go back behind removed ones.
                    let top = key.with(|stream| stream.read().top_id());
                    key.with(|stream| stream.set_head(Head { last: top, ..stream.read().head() }));
                }
                98 => {
                    let max = (model.len() as u64).saturating_sub(rng.below(150));
                    let to = TrimTo::Len(max);
                    let trim = Trim { to, approximate: rng.one_in(2), limit: 0 };
                    let removed = key.with(|stream| stream.trim(&trim));
                    let wanted = model.len() as u64 - max;
                    assert!(
                        removed == wanted || trim.approximate && removed < wanted,
                        "seed {seed} step {step}"
                    );
                    (0..removed).for_each(|_| drop(model.pop_first()));
                }
                99 => {
                    let id = random_id(&model, &mut rng);
                    let trim =
                        Trim { to: TrimTo::MinId(id), approximate: rng.one_in(2), limit: rng.below(3) * 50 };
                    let removed = key.with(|stream| stream.trim(&trim));
                    let wanted = model.range(..id).count() as u64;
                    assert!(
                        removed == wanted || (trim.approximate || trim.limit > 0) && removed < wanted,
                        "seed {seed} step {step}"
                    );
                    (0..removed).for_each(|_| drop(model.pop_first()));
                }
                _ => {}
            }
            if rng.one_in(100) {
                key.with(|stream| compare(stream.read(), &model, &mut rng, seed));
            }
        }
        let slot = key.slot();
        compare(Stream::new(slot.view()), &model, &mut rng, seed);
        if let View::Large(tag, large) = slot.view() {
            let copy = large.duplicate();
            compare(Stream::new(View::Large(tag, &*copy)), &model, &mut rng, seed);
        }
    }
}

impl Key {
    fn slot_head(&mut self) -> Head {
        self.with(|stream| stream.read().head())
    }
}

/// Ids went back behind a block of which nothing but marks of removed entries was left.
#[test]
fn ids_may_begin_again_behind_removed_entries() {
    for entries in [3, 3000] {
        let mut key = Key::new();
        let pairs: [Pair; 1] = [(b"f".to_vec(), b"v".to_vec())];
        let limits = Limits { stream_node_max_entries: 0, stream_node_max_bytes: 0, ..Limits::default() };
        let first = 1000;
        key.with(|stream| {
            (first..first + entries)
                .for_each(|ms| stream.append(&limits, Id { ms, seq: 0 }, &pairs.as_slice()));
            let last = Id { ms: first + entries - 1, seq: 0 };
            assert!(stream.remove(last));
            let trim = Trim { to: TrimTo::MinId(last), approximate: false, limit: 0 };
            assert_eq!(stream.trim(&trim), entries - 1);
            stream.set_head(Head { last: Id::ZERO, ..stream.read().head() });
            for ms in 1..first {
                stream.append(&limits, Id { ms, seq: 0 }, &pairs.as_slice());
            }
            for ms in 1..first {
                assert!(stream.remove(Id { ms, seq: 0 }), "{ms}");
            }
            assert_eq!(stream.read().head().len, 0);
        });
    }
}

/// Values of one shape cost their bytes, and one byte for flags.
#[test]
fn entries_of_one_shape_have_no_headers() {
    let mut key = Key::new();
    let entry =
        |n: u64| [("user", n * 7919 % 10), ("item", n % 10)].map(|(f, v)| (f.into(), format!("k{v}").into()));
    for n in 1..=100 {
        let pairs: [Pair; 2] = entry(n);
        key.with(|stream| stream.append(&Limits::default(), Id { ms: 5, seq: n }, &pairs.as_slice()));
    }
    let slot = key.slot();
    let Source::Packed(packed) = Stream::new(slot.view()).0 else { panic!("it is small") };
    let block = packed.blocks().next().unwrap();
    assert_eq!(block.len(), 49 + 11 + (2 + 2 * 3) + 99 * 5);
}
