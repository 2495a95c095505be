//! The heap against a model: random entries, changes, frees and compaction, with the structure checked as a whole.

use std::collections::HashMap;

use super::*;
use crate::compact::Step;
use crate::entry::Integer;
use crate::test_rng::Rng;

fn arena() -> &'static Arena {
    Arena::reserve(4 << 30).unwrap()
}

fn parts<'a>(key: &'a [u8], value: &'a [u8]) -> EntryParts<'a> {
    EntryParts { key, kind: Kind::Bytes, value, deadline: None, access: None }
}

/// Walks all pages: blocks fill them, free neighbours are merged, the bits are right, and the lists hold what they should.
fn check(heap: &Heap) {
    let table = heap.arena.table();
    // SAFETY: the bins belong to this heap.
    let mut linked = heap.bins.as_ref().map(|bins| unsafe { bins.linked(heap.base) }).unwrap_or_default();
    let (mut in_use, mut page_bytes) = (0, 0);
    for (position, &first) in heap.pages.iter().enumerate() {
        assert_eq!(table.position(first) as usize, position);
        let page = heap.page_of(heap.base.0.wrapping_add(first as usize * PAGE_BYTES)).unwrap();
        page_bytes += page.bytes() as u64;
        let (mut at, mut used, mut previous_free) = (page.start, 0, false);
        while at < page.end {
            // SAFETY: blocks follow each other; that is what is being checked.
            unsafe {
                let free = is_free(at);
                if free {
                    let size = free_size(at);
                    assert!(size > 0 && !previous_free, "free neighbours are merged");
                    assert_eq!(
                        free_before(at.add(size as usize * 4)).1,
                        size,
                        "the size stands at both ends"
                    );
                    let hidden = size < LINKED_GRANULES_MIN || heap.victim.hides(page, at);
                    assert_eq!(linked.remove(&at.addr()), (!hidden).then_some(size));
                    at = at.add(size as usize * GRANULE_BYTES);
                } else {
                    assert_eq!(*at & PREV_FREE != 0, previous_free);
                    let size = granules(block_bytes(at));
                    used += size;
                    at = at.add(size as usize * GRANULE_BYTES);
                }
                previous_free = free;
            }
        }
        assert_eq!(at, page.end);
        assert_eq!(table.used(first), used);
        in_use += u64::from(used) * 4;
    }
    assert!(linked.is_empty(), "the lists hold free blocks of the heap's pages only");
    assert_eq!((heap.block_bytes, heap.page_bytes), (in_use, page_bytes));
}

/// What an entry should be.
#[derive(Clone, Debug)]
struct Model {
    handle: Handle,
    kind: Kind,
    value: Vec<u8>,
    deadline: Option<u64>,
    access: Option<[u8; 3]>,
    big: bool,
}

fn compare(heap: &Heap, key: &[u8], model: &Model) {
    let entry = heap.entry(model.handle);
    assert_eq!(entry.key(), key);
    assert_eq!((entry.deadline(), entry.access()), (model.deadline, model.access));
    if model.big {
        assert_eq!(entry.kind(), Kind::Big);
        assert!(entry.bytes().unwrap() == model.value && entry.big().unwrap().as_ref() == model.value);
    } else {
        assert_eq!(entry.kind(), model.kind);
        assert!(entry.value() == model.value);
    }
}

struct World {
    heap: Heap,
    rng: Rng,
    model: HashMap<Vec<u8>, Model>,
    /// By handle, as the index would find it: from the entry's key.
    moves: u64,
}

impl World {
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let byte = self.rng.below(256) as u8;
        (0..length).map(|index| byte.wrapping_add(index as u8)).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.rng.below(100) {
            0..70 => self.rng.below(140),
            70..90 => self.rng.below(700),
            90..98 => self.rng.below(5000),
            _ => self.rng.below(16384),
        };
        self.bytes(length as usize)
    }

    fn deadline(&mut self) -> Option<u64> {
        match self.rng.below(4) {
            0 => Some(1_704_067_200_000 + u64::from(self.rng.below(u32::MAX))),
            1 => Some(u64::from(self.rng.below(1000)) << 52),
            _ => None,
        }
    }

    fn access(&mut self) -> Option<[u8; 3]> {
        (self.rng.below(3) == 0).then(|| [self.rng.below(256) as u8, 2, 3])
    }

    fn kind(&mut self) -> Kind {
        [Kind::Bytes, Kind::Raw, Kind::Collection][self.rng.below(3) as usize]
    }

    fn set(&mut self, key: Vec<u8>) {
        let (kind, value, deadline, access) = (self.kind(), self.value(), self.deadline(), self.access());
        let big = self.rng.below(40) == 0;
        let meta = Meta { kind, deadline, access };
        let arena = self.heap.arena;
        let handle = match (self.model.get(&key).map(|model| model.handle), big) {
            (Some(old), true) => self.heap.replace_big(old, &meta, BigRef::new(arena, &value)),
            (Some(old), false) => self.heap.replace(old, &meta, &value),
            (None, big) => {
                let parts = EntryParts { key: &key, kind, value: &value, deadline, access };
                if big {
                    self.heap.insert_big(&EntryParts { value: &[], ..parts }, BigRef::new(arena, &value))
                } else {
                    self.heap.insert(&parts)
                }
            }
        };
        let model = Model { handle, kind, value, deadline, access, big };
        compare(&self.heap, &key, &model);
        self.model.insert(key, model);
    }

    fn change(&mut self, key: &[u8]) {
        let Some(mut model) = self.model.remove(key) else { return };
        compare(&self.heap, key, &model);
        match self.rng.below(4) {
            0 => {
                (model.deadline, model.access) = (self.deadline(), self.access());
                let same = self.heap.entry_mut(model.handle).set_deadline(model.deadline);
                if !same
                    || !model
                        .access
                        .is_some_and(|access| self.heap.entry_mut(model.handle).set_access(access))
                {
                    model.handle = self.heap.set_meta(model.handle, model.deadline, model.access);
                }
            }
            1 if model.big => {
                let length = self.rng.below(60_000) as usize;
                model.value.resize(length, 0);
                let before = self.heap.entry(model.handle).big().unwrap();
                let old = before.as_ref().to_vec();
                self.heap.with_big(model.handle, |big| {
                    big.make_mut(length).iter_mut().take(1).for_each(|byte| *byte = 77);
                });
                model.value.iter_mut().take(1).for_each(|byte| *byte = 77);
                assert!(before.as_ref() == old, "a reply in flight keeps its bytes");
            }
            1 | 2 if !model.big => {
                model.kind = self.kind();
                let length = self.value().len();
                model.value.resize(length, 0);
                model.handle = self.heap.resize_value(model.handle, model.kind, length);
            }
            _ if !model.big => {
                model.value.iter_mut().for_each(|byte| *byte = !*byte);
                self.heap.entry_mut(model.handle).value_mut().iter_mut().for_each(|byte| *byte = !*byte);
            }
            _ => {}
        }
        compare(&self.heap, key, &model);
        self.model.insert(key.to_vec(), model);
    }

    fn compact(&mut self) -> Step {
        let (model, moves) = (&mut self.model, &mut self.moves);
        self.heap.compact_step(|entry, old, new| {
            let model = model.get_mut(entry.key()).expect("only entries that are there move");
            assert_eq!(model.handle, old);
            model.handle = new;
            *moves += 1;
        })
    }

    fn check(&self) {
        check(&self.heap);
        for (key, model) in &self.model {
            compare(&self.heap, key, model);
        }
        let mut met = 0;
        for entry in self.heap.entries() {
            assert_eq!(self.heap.handle_of(entry), self.model[entry.key()].handle);
            met += 1;
        }
        assert_eq!(met, self.model.len(), "every entry is met once");
    }
}

#[test]
fn random_entries_against_a_model() {
    let (rounds, steps) = if cfg!(miri) { (2, 600) } else { (6, 30_000) };
    for round in 0..rounds {
        let mut world =
            World { heap: Heap::new(arena()), rng: Rng::new("heap"), model: HashMap::new(), moves: 0 };
        let keys = [20, 200, 2000][round % 3];
        for step in 0..steps {
            let key = world.rng.below(keys);
            // One key in a hundred is long, one of those too long for a block.
            let key: Vec<u8> = match key % 100 {
                7 if key % 200 == 7 => key.to_le_bytes().repeat(5000),
                7 => key.to_le_bytes().repeat(100),
                _ => key.to_string().into_bytes(),
            };
            // Phases that grow, and phases that shrink.
            let grows = step / (steps / 10) % 2 == 0;
            match world.rng.below(10) {
                0..4 if grows => world.set(key),
                0..1 => world.set(key),
                1..6 if !grows => {
                    if let Some(model) = world.model.remove(&key) {
                        compare(&world.heap, &key, &model);
                        world.heap.free(model.handle);
                    }
                }
                9 => {
                    for _ in 0..world.rng.below(100) {
                        world.compact();
                    }
                }
                _ => world.change(&key),
            }
            if step % (steps / 60) == 0 {
                world.check();
            }
        }
        assert!(
            keys < 2000 || world.moves > 100 || cfg!(miri),
            "compaction was at work: {} moves",
            world.moves
        );
        world.check();
        for (_, model) in world.model.drain() {
            world.heap.free(model.handle);
        }
        check(&world.heap);
        assert_eq!(world.heap.live_bytes(), 0);
        while world.compact() != Step::Idle {}
        assert_eq!((world.heap.page_bytes(), world.heap.arena.bytes_used()), (0, 0));
        world.set(b"again".to_vec());
        let arena = world.heap.arena;
        drop(world);
        assert_eq!(arena.bytes_used(), 0, "a dropped heap gives back pages, runs and big values");
    }
}

#[test]
fn an_empty_heap_owns_nothing() {
    let arena = arena();
    let mut heap = Heap::new(arena);
    assert!(size_of::<Heap>() <= 256, "{} bytes", size_of::<Heap>());
    assert!(size_of::<Bins>() <= 1024, "{} bytes", size_of::<Bins>());
    assert_eq!((arena.bytes_used(), heap.page_bytes()), (0, 0));
    let handle = heap.insert(&parts(b"k", b"v"));
    assert_eq!(arena.bytes_used(), 8192, "the first page");
    heap.free(handle);
    assert_eq!(arena.bytes_used(), 8192, "kept for entries that come and go");
    assert!(heap.wants_compaction());
    heap.compact_step(|_, _, _| unreachable!());
    assert_eq!((arena.bytes_used(), heap.wants_compaction()), (0, false));
}

#[test]
fn sixteen_byte_keys_and_64_byte_values_take_84_bytes() {
    let arena = arena();
    let mut heap = Heap::new(arena);
    let entries = if cfg!(miri) { 500 } else { 200_000u32 };
    for number in 0..entries {
        let key = format!("key:{number:012}");
        heap.insert(&parts(key.as_bytes(), &[7; 64]));
    }
    assert_eq!(heap.live_bytes(), 84 * u64::from(entries), "16 + 64 + 3 of header, in granules of 4");
    assert!(arena.bytes_used() <= 845 * 20_000 || cfg!(miri), "{} bytes of pages", arena.bytes_used());
    for number in 0..entries / 200 {
        let key = format!("ttl:{number:012}");
        let deadline = Some(1_800_000_000_000);
        let before = heap.live_bytes();
        heap.insert(&EntryParts { deadline, ..parts(key.as_bytes(), &[7; 64]) });
        assert_eq!(heap.live_bytes() - before, 88, "a deadline takes 5 more");
    }
}

#[test]
fn pages_come_back_after_mass_deletion() {
    let arena = arena();
    let mut heap = Heap::new(arena);
    let mut rng = Rng::new("mass deletion");
    let mut handles: HashMap<Vec<u8>, Handle> = HashMap::new();
    for number in 0..if cfg!(miri) { 500 } else { 100_000u32 } {
        let key = number.to_string().into_bytes();
        let value = vec![1; 20 + rng.below(180) as usize];
        handles.insert(key.clone(), heap.insert(&parts(&key, &value)));
    }
    let full = arena.bytes_used();
    handles.retain(|_, handle| {
        let keep = rng.below(10) == 0;
        if !keep {
            heap.free(*handle);
        }
        keep
    });
    let mut steps = 0;
    while heap.wants_compaction() && steps < 200_000 {
        heap.compact_step(|entry, old, new| {
            let handle = handles.get_mut(entry.key()).unwrap();
            assert_eq!(*handle, old);
            *handle = new;
        });
        steps += 1;
    }
    check(&heap);
    let share = arena.bytes_used() as f64 / heap.live_bytes() as f64;
    println!("{full} -> {} bytes of pages in {steps} steps, {share:.3} of live", arena.bytes_used());
    assert!(share < 1.15 || cfg!(miri), "pages over live bytes: {share:.3}");
    arena.trim(0, u64::MAX);
    assert_eq!(arena.bytes_dirty(), 0);
    handles.iter().for_each(|(key, handle)| assert_eq!(heap.entry(*handle).key(), key));
}

#[test]
fn a_plain_block_stays_where_it_is() {
    let arena = arena();
    let mut heap = Heap::new(arena);
    let mut handles = HashMap::new();
    let mut blocks = Vec::new();
    let entries = if cfg!(miri) { 200 } else { 2000u32 };
    for number in 0..entries {
        let key = number.to_le_bytes();
        handles.insert(key, heap.insert(&parts(&key, &[2; 100])));
        if number % 100 == 0 {
            let bytes = [10, 1000, 16_380, 16_381, 100_000][number as usize / 100 % 5];
            let block = heap.alloc_block(bytes);
            heap.block_mut(block)[..bytes].fill(number as u8);
            blocks.push((block, bytes, number as u8));
        }
    }
    for number in (0..entries).filter(|number| number % 8 != 0) {
        heap.free(handles.remove(&number.to_le_bytes()).unwrap());
    }
    for _ in 0..10 * entries {
        heap.compact_step(|entry, _, new| {
            *handles.get_mut(entry.key()).unwrap() = new;
        });
    }
    check(&heap);
    for (block, bytes, fill) in blocks {
        assert!(heap.block(block)[..bytes].iter().all(|&byte| byte == fill));
        heap.free(block);
    }
    check(&heap);
    handles.iter().for_each(|(key, handle)| assert_eq!(heap.entry(*handle).key(), key));
}

/// Heaps on several threads take and give pages, share big values and compact, while another thread trims the arena under them.
#[test]
fn heaps_on_many_threads_share_an_arena() {
    let arena = arena();
    let shared = BigRef::new(arena, &[42; 50_000]);
    let seed = Rng::new("threads").below(u32::MAX);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                arena.trim(0, 1 << 20);
                std::thread::yield_now();
            }
        });
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let shared = &shared;
                scope.spawn(move || {
                    let mut world = World {
                        heap: Heap::new(arena),
                        rng: Rng::seeded(u64::from(seed) + worker),
                        model: HashMap::new(),
                        moves: 0,
                    };
                    for step in 0..if cfg!(miri) { 200 } else { 60_000 } {
                        let key = world.rng.below(3000).to_string().into_bytes();
                        match world.rng.below(8) {
                            0..4 if step / 10_000 % 2 == 0 => world.set(key),
                            0 => {
                                let parts = EntryParts { key: b"big", ..parts(b"", b"") };
                                let handle = world.heap.insert_big(&parts, shared.clone());
                                assert!(world.heap.entry(handle).bytes().unwrap() == [42; 50_000]);
                                world.heap.free(handle);
                            }
                            1..5 => {
                                if let Some(model) = world.model.remove(&key) {
                                    compare(&world.heap, &key, &model);
                                    world.heap.free(model.handle);
                                }
                            }
                            _ => drop((0..10).map(|_| world.compact()).last()),
                        }
                    }
                    world.check();
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        stop.store(true, Relaxed);
    });
    assert!(shared.is_unique() && shared.as_ref() == [42; 50_000]);
    drop(shared);
    assert_eq!(arena.bytes_used(), 0);
}

/// An empty heap keeps its last page. An entry that does not fit there takes another; compaction then chose the empty page, and
/// looked in it for an entry to move.
#[test]
fn an_empty_page_may_become_the_victim() {
    let mut heap = Heap::new(arena());
    let first = heap.insert(&parts(b"k", b"v"));
    heap.free(first);
    let mut long: Vec<Handle> = (0..3).map(|_| heap.insert(&parts(b"k", &[0; 15_000]))).collect();
    heap.free(long.remove(0));
    while heap.compact_step(|_, old, new| *long.iter_mut().find(|handle| **handle == old).unwrap() = new)
        != Step::Idle
    {
        check(&heap);
    }
    check(&heap);
    assert_eq!(heap.pages.len(), 1);
}

#[test]
fn a_string_grows_in_place_where_the_next_block_is_free() {
    let mut heap = Heap::new(arena());
    let first = heap.insert(&parts(b"k", &[1; 20]));
    assert_eq!(heap.resize_value(first, Kind::Raw, 200), first);
    assert_eq!(heap.entry(first).value(), [[1; 20].as_slice(), &[0; 180]].concat());
    let behind = heap.insert(&parts(b"l", &[1; 20]));
    let moved = heap.resize_value(first, Kind::Raw, 300);
    assert_ne!(moved, first);
    assert_eq!(heap.entry(moved).value().len(), 300);
    check(&heap);
    heap.free(behind);
    heap.free(moved);
    check(&heap);
}

#[test]
fn integers_take_few_bytes() {
    let mut heap = Heap::new(arena());
    let mut integers = vec![0, -1, i64::MIN, i64::MAX];
    integers
        .extend((0..63).flat_map(|bit| [1i64 << bit, (1i64 << bit) - 1, -(1i64 << bit), -(1i64 << bit) - 1]));
    for integer in integers {
        let encoded = Integer::new(integer);
        let handle = heap.insert(&EntryParts { kind: Kind::Integer, ..parts(b"n", encoded.as_bytes()) });
        assert_eq!(heap.entry(handle).integer(), Some(integer));
        let fits = heap.entry_mut(handle).set_integer(100);
        assert_eq!(fits, encoded.as_bytes().len() == 1);
        assert!(encoded.as_bytes().len() == 1 || i128::from(integer) + 128 > 255 || integer < -128);
    }
}
