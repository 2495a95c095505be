//! Tests of large collections: who owns them, how they change hands, and that their pages go back.

use std::sync::Arc as Count;

use super::Large;
use crate::arena::Arena;
use crate::entry::{EntryParts, Kind};
use crate::heap::Heap;

/// A collection that is a heap of strings.
struct Strings {
    heap: Heap,
    _alive: Count<()>,
}

impl Strings {
    fn boxed(arena: &'static Arena, count: usize, alive: &Count<()>) -> Box<dyn Large> {
        let mut heap = Heap::new(arena);
        for number in 0..count {
            let parts = EntryParts {
                key: &number.to_le_bytes(),
                kind: Kind::Bytes,
                value: &[7; 90],
                deadline: None,
                access: None,
            };
            heap.insert(&parts);
        }
        Box::new(Strings { heap, _alive: Count::clone(alive) })
    }
}

impl Large for Strings {
    fn bytes(&self) -> u64 {
        self.heap.page_bytes()
    }

    fn release(&mut self, pages_max: usize) -> bool {
        self.heap.dismantle(pages_max)
    }

    fn duplicate(&self) -> Box<dyn Large> {
        panic!("not asked for here")
    }
}

fn parts(key: &[u8]) -> EntryParts<'_> {
    EntryParts { key, kind: Kind::Large, value: &[], deadline: Some(1_800_000_000_000), access: None }
}

#[test]
fn a_small_one_goes_with_its_entry_and_a_long_one_waits() {
    let arena = Arena::reserve(1 << 30).unwrap();
    let alive = Count::new(());
    let mut heap = Heap::new(arena);
    let small = heap.insert_large(&parts(b"small"), 3, Strings::boxed(arena, 10, &alive));
    let long = heap.insert_large(&parts(b"long"), 4, Strings::boxed(arena, 20_000, &alive));
    assert!(heap.live_bytes() > 20_000 * 100);
    assert_eq!((heap.entry(long).value()[0], heap.entry(long).deadline()), (4, Some(1_800_000_000_000)));
    heap.free(small);
    assert!(!heap.has_orphans());
    assert_eq!(Count::strong_count(&alive), 2);
    heap.free(long);
    assert!(heap.has_orphans());
    assert!(heap.live_bytes() < 1000);
    let mut slices = 0;
    while heap.release_orphans(4) {
        slices += 1;
    }
    assert!(slices > 3, "{slices} slices");
    assert_eq!(Count::strong_count(&alive), 1);
    drop(heap);
    assert_eq!(arena.bytes_used(), 0);
}

#[test]
fn it_changes_hands_without_a_copy() {
    let arena = Arena::reserve(1 << 30).unwrap();
    let alive = Count::new(());
    let mut heap = Heap::new(arena);
    let handle = heap.insert_large(&parts(b"from"), 3, Strings::boxed(arena, 5_000, &alive));
    let bytes = heap.live_bytes();
    let large = heap.take_large(handle);
    assert_eq!(
        (heap.entry(handle).kind(), heap.entry(handle).value()),
        (Kind::Collection, &[3, 0, 0, 0, 0, 0, 0, 0, 0][..])
    );
    let to = heap.insert_large(&parts(b"to"), 3, large);
    heap.free(handle);
    assert_eq!(heap.live_bytes(), bytes - 4, "the name is shorter by two, in steps of four");
    let strings = heap.large_mut(to).and_then(|large| large.downcast_mut::<Strings>()).unwrap();
    let (before, key) = (strings.bytes(), [9; 8]);
    for _ in 0..1_000 {
        let parts =
            EntryParts { key: &key, kind: Kind::Bytes, value: &[7; 90], deadline: None, access: None };
        strings.heap.insert(&parts);
    }
    let after = strings.bytes();
    heap.large_resized(before, after);
    let meta = crate::heap::Meta { kind: Kind::Bytes, deadline: None, access: None };
    heap.replace(to, &meta, b"a string now");
    assert!(heap.has_orphans());
    drop(heap);
    assert_eq!((Count::strong_count(&alive), arena.bytes_used()), (1, 0));
}
