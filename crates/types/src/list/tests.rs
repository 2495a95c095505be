//! Lists against a deque of strings, short and long, through all changes of how they are kept.

use std::collections::VecDeque;

use memory::{Arena, EntryParts, Heap, Index, Kind, Large};
use stdx::hash::Seed;
use stdx::rng::Rng;

use super::*;
use crate::Storage;
use crate::packed::tests::random_string;

static SEED: Seed = Seed::new(7);

/// A list in an entry of a heap, as a keyspace keeps it.
struct Kept {
    storage: Storage,
    heap: Heap,
    index: Index,
}

impl Kept {
    fn new(storage: Storage) -> Kept {
        let (mut heap, mut index) = (Heap::new(storage.arena), Index::new(storage.arena));
        let parts =
            EntryParts { key: b"key", kind: Kind::Collection, value: NEW, deadline: None, access: None };
        let handle = heap.insert(&parts);
        index.insert(1, handle, false, |_| 1);
        Kept { storage, heap, index }
    }

    fn slot(&mut self) -> Slot<'_> {
        let (at, handle) = self.index.find(1, |_| true).expect("it is there");
        Slot::new(self.storage, &mut self.heap, &mut self.index, at, handle)
    }

    fn view(&self) -> View<'_> {
        let (_, handle) = self.index.find(1, |_| true).expect("it is there");
        View::of(self.heap.entry(handle)).expect("it is a collection")
    }
}

fn storage() -> Storage {
    Storage { arena: Arena::reserve(4 << 30).expect("addresses are free"), seed: &SEED }
}

fn limits(rng: &mut Rng) -> Limits {
    let sizes = [-2, -2, -1, -3, -5, 1, 2, 3, 8, 128];
    Limits {
        list_max_listpack_size: *rng.pick(&sizes).expect("there are some"),
        list_compress_depth: rng.below(4) as u32,
        ..Limits::default()
    }
}

fn contents(view: View<'_>, range: Range<u64>, backwards: bool) -> Vec<Vec<u8>> {
    let mut contents = Vec::new();
    visit(view, range, backwards, |item| {
        contents.push(item.to_vec());
        ControlFlow::Continue(())
    });
    contents
}

struct Pair {
    kept: Kept,
    model: VecDeque<Vec<u8>>,
    limits: Limits,
    /// Longest string of a push, and most strings.
    long: bool,
    most: u64,
}

impl Pair {
    fn string(&self, rng: &mut Rng) -> Vec<u8> {
        match rng.below(20) {
            0 if self.long => vec![b'x'; rng.below(40_000) as usize],
            1..8 => rng.below(10).to_string().into_bytes(),
            _ => loop {
                let string = random_string(rng);
                if self.long || string.len() < 1000 {
                    break string;
                }
            },
        }
    }

    fn side(rng: &mut Rng) -> Side {
        if rng.one_in(2) { Side::Left } else { Side::Right }
    }

    fn step(&mut self, rng: &mut Rng) {
        let (limits, len) = (self.limits, self.model.len() as u64);
        let side = Pair::side(rng);
        match rng.below(12) {
            0..4 => {
                let strings: Vec<_> = (0..=rng.below(self.most)).map(|_| self.string(rng)).collect();
                push(&mut self.kept.slot(), side, strings.iter().map(Vec::as_slice), &limits);
                for string in strings {
                    match side {
                        Side::Left => self.model.push_front(string),
                        Side::Right => self.model.push_back(string),
                    }
                }
            }
            4 if len > 0 => {
                let taken = pop(&mut self.kept.slot(), side, |item| item.to_vec());
                let expected =
                    if side == Side::Left { self.model.pop_front() } else { self.model.pop_back() };
                assert_eq!(Some(taken), expected);
            }
            5 if len > 0 => {
                let most = if rng.one_in(8) { 2 * len } else { self.most };
                let count = rng.below(most);
                cut(&mut self.kept.slot(), side, count);
                let count = count.min(len) as usize;
                match side {
                    Side::Left => self.model.drain(..count),
                    Side::Right => self.model.drain(len as usize - count..),
                };
            }
            6 | 7 if len > 0 => {
                let (index, string) = (rng.below(len), self.string(rng));
                prepare(&mut self.kept.slot(), std::iter::once(string.as_slice()), &limits);
                set(&mut self.kept.slot(), index, &string, &limits);
                self.model[index as usize] = string;
            }
            8 | 9 if len > 0 => {
                let (pivot, string) = (self.model[rng.below(len) as usize].clone(), self.string(rng));
                assert!(insert(&mut self.kept.slot(), &pivot, side, &string, &limits));
                let index = self.model.iter().position(|string| *string == pivot).expect("it is there");
                self.model.insert(if side == Side::Left { index } else { index + 1 }, string);
            }
            10 if len > 0 => {
                let wanted = self.model[rng.below(len) as usize].clone();
                self.remove(side, 1 + rng.below(4), &wanted);
            }
            _ => assert!(!insert(&mut self.kept.slot(), b"nobody has this", side, b"x", &limits)),
        }
        shrink(&mut self.kept.slot(), &limits);
        self.check(rng);
    }

    fn remove(&mut self, side: Side, most: u64, wanted: &[u8]) {
        let mut removed = 0;
        while removed < most {
            let found = match side {
                Side::Left => self.model.iter().position(|string| string == wanted),
                Side::Right => self.model.iter().rposition(|string| string == wanted),
            };
            let Some(index) = found else { break };
            self.model.remove(index);
            removed += 1;
        }
        assert_eq!(remove(&mut self.kept.slot(), side, most, wanted, &self.limits), removed);
    }

    fn check(&self, rng: &mut Rng) {
        let (view, count) = (self.kept.view(), self.model.len() as u64);
        assert_eq!(len(view), count);
        if let Some(chain) = view.large::<Chain>() {
            chain.check();
        }
        let start = rng.below(count + 1);
        let end = start + rng.below(count + 2 - start);
        let expected: Vec<_> = self.model.range(start as usize..end.min(count) as usize).cloned().collect();
        assert_eq!(contents(view, start..end, false), expected);
        let mut backwards = contents(view, start..end.min(count), true);
        backwards.reverse();
        assert_eq!(backwards, expected);
        let wanted = rng.pick(&expected).cloned().unwrap_or_default();
        for backwards in [false, true] {
            let mut found = Vec::new();
            positions(view, &wanted, backwards, u64::MAX, |index| {
                found.push(index);
                ControlFlow::Continue(())
            });
            if backwards {
                found.reverse();
            }
            let model = self.model.iter().enumerate().filter(|(_, string)| **string == wanted);
            assert!(model.map(|(index, _)| index as u64).eq(found));
        }
    }
}

#[test]
fn random_changes_give_what_a_deque_gives() {
    let seed = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| std::process::id().into());
    println!("DARTER_SEED={seed}");
    let mut rng = Rng::new(seed);
    let storage = storage();
    for round in 0..48 {
        let (kept, limits) = (Kept::new(storage), limits(&mut rng));
        let (long, most) = (round % 3 == 0, if round % 2 == 0 { 3 } else { 60 });
        let mut pair = Pair { kept, model: VecDeque::new(), limits, long, most };
        for _ in 0..150 {
            pair.step(&mut rng);
        }
        let view = pair.kept.view();
        if let Some(chain) = view.large::<Chain>() {
            duplicate_is_apart(&pair, chain);
        }
    }
}

/// A copy stays as it is while the original changes.
fn duplicate_is_apart(pair: &Pair, chain: &Chain) {
    let copy = chain.duplicate();
    let mut original = chain.duplicate();
    let changed = original.downcast_mut::<Chain>().expect("it is a chain");
    changed.push(Side::Left, b"new", Some(&Bounds::of(&pair.limits)));
    changed.cut(Side::Right, 1);
    let view = View::Large(pair.kept.view().tag(), &*copy);
    assert!(contents(view, 0..u64::MAX, false).iter().eq(pair.model.iter()));
}

#[test]
fn a_long_list_is_freed_in_slices() {
    let storage = storage();
    let mut chain = Chain::new(storage.arena);
    let bounds = Bounds::of(&Limits::default());
    for number in 0..200_000_u64 {
        chain.push(Side::Right, format!("element {number}").as_bytes(), Some(&bounds));
    }
    chain.check();
    let bytes = chain.bytes();
    // An element and its mark take 14 or 15 bytes; runs and their heads take a tenth more at most.
    assert!((2_800_000..3_400_000).contains(&bytes), "{bytes}");
    let mut slices = 0;
    while !chain.release(8) {
        slices += 1;
    }
    assert!(slices > 40, "{slices}");
    assert_eq!((chain.bytes(), storage.arena.bytes_used()), (0, 0));
}

/// Inner blocks of a list that can be compressed are, as the setting says, and are as they were when they come to an end.
#[test]
fn inner_blocks_are_squeezed() {
    let mut kept = Kept::new(storage());
    let limits = Limits { list_compress_depth: 1, ..Limits::default() };
    let strings: Vec<_> =
        (0..5_000).map(|number| format!("{{\"name\": \"element {number}\"}}").into_bytes()).collect();
    let plain = Limits::default();
    push(&mut kept.slot(), Side::Right, strings.iter().map(Vec::as_slice), &plain);
    let chain = |kept: &Kept| kept.view().large::<Chain>().map(|chain| (chain.squeezed(), chain.bytes()));
    let (squeezed, before) = chain(&kept).expect("the list is long");
    assert_eq!(squeezed, 0);
    set(&mut kept.slot(), 0, &strings[0], &limits);
    let (squeezed, after) = chain(&kept).expect("the list is long");
    assert!(squeezed > 10 && after < before * 2 / 3, "{squeezed} squeezed, {before} then {after} bytes");
    assert_eq!(contents(kept.view(), 0..5_000, false), strings);
    for string in strings.iter().rev() {
        let taken = pop(&mut kept.slot(), Side::Right, |item| item.to_vec());
        assert_eq!(&taken, string);
        shrink(&mut kept.slot(), &limits);
    }
    assert_eq!(len(kept.view()), 0);
}
