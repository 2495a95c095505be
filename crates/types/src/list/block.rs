//! HOT: one block of a long list: a packed sequence with room at its ends, or one element by itself. Not the order of blocks, nor when a new one
//! begins.
//!
//! ```text
//! open        | room | sequence | room |       a run of whole pages, shared with copies of the list until it changes
//! squeezed    | the sequence in LZ4 |          the same, shorter
//! ```
//!
//! A squeezed block is read by way of a buffer, and opened to be changed.

use std::ops::Range;

use memory::{Arena, BigRef};

use super::bounds::{Bounds, EMPTY_BYTES, element_bytes};
use super::{Item, Side};
use crate::packed::{self, Cursor, EMPTY, Element, Packed, Piece};

/// Runs are whole pages.
const PAGE_BYTES: usize = memory::PAGE_BYTES;

/// See the head of this file.
#[derive(Clone)]
pub(super) struct Block {
    store: BigRef,
    start: u32,
    end: u32,
    /// Elements.
    count: u32,
    /// Bytes that the elements would take in a block of the peers'; of an element by itself, its own.
    peer_bytes: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// As `Open`; squeezing it would not save a page.
    Stiff,
    /// The store is the sequence in LZ4; it has so many bytes.
    Squeezed(u32),
    /// One element by itself: the store is its bytes.
    Alone,
}

impl Block {
    /// An element by itself.
    pub(super) fn alone(arena: &'static Arena, bytes: &[u8]) -> Block {
        let len = u32::try_from(bytes.len()).expect("elements are below 4 GiB");
        Block {
            store: BigRef::new(arena, bytes),
            start: 0,
            end: len,
            count: 1,
            peer_bytes: len,
            state: State::Alone,
        }
    }

    /// A block without an element, with room for about `bytes` at one side.
    pub(super) fn new(arena: &'static Arena, bytes: usize, side: Side) -> Block {
        let mut block = Block {
            store: store(arena, bytes),
            start: 0,
            end: 0,
            count: 0,
            peer_bytes: EMPTY_BYTES as u32,
            state: State::Open,
        };
        block.place(EMPTY, side);
        block
    }

    /// A block of these elements, with their number and the bytes that they would take in a block of the peers'.
    pub(super) fn of(arena: &'static Arena, sequence: &[u8], count: usize, peer_bytes: usize) -> Block {
        let mut block = Block::new(arena, sequence.len(), Side::Right);
        block.rewrite(sequence, count, peer_bytes);
        block
    }

    /// Elements.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        u64::from(self.count)
    }

    /// Bytes of the arena.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.store.memory_bytes() as u64
    }

    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.state == State::Alone
    }

    /// Whether it is as short as it can be.
    pub(super) fn is_settled(&self) -> bool {
        self.state != State::Open
    }

    /// Makes the sequence shorter if that saves a page.
    pub(super) fn squeeze(&mut self) {
        if self.state != State::Open {
            return;
        }
        let squeezed = lz4_flex::block::compress(self.sequence());
        let pages = (squeezed.len() + self.overhead()).div_ceil(PAGE_BYTES);
        if pages * PAGE_BYTES >= self.store.memory_bytes() {
            self.state = State::Stiff;
            return;
        }
        self.state = State::Squeezed(self.end - self.start);
        self.store = BigRef::new(self.store.arena(), &squeezed);
        self.set_range(0..squeezed.len());
    }

    /// Makes a squeezed sequence one that can be changed.
    pub(super) fn open(&mut self) {
        if let State::Squeezed(_) = self.state {
            let mut sequence = Vec::new();
            self.read(&mut sequence);
            self.store = store(self.store.arena(), sequence.len());
            self.state = State::Open;
            self.place(&sequence, Side::Right);
        } else if self.state == State::Stiff {
            self.state = State::Open;
        }
    }

    /// The sequence, by way of `buffer` if it is squeezed.
    pub(super) fn read<'b>(&'b self, buffer: &'b mut Vec<u8>) -> Packed<'b> {
        let State::Squeezed(bytes) = self.state else { return self.packed() };
        buffer.resize(bytes as usize, 0);
        lz4_flex::block::decompress_into(&self.store.as_ref()[self.range()], buffer)
            .expect("what was squeezed here can be read here");
        Packed::new(buffer)
    }

    #[inline]
    pub(super) fn peer_bytes(&self) -> usize {
        self.peer_bytes as usize
    }

    /// The element by itself.
    pub(super) fn big(&self) -> Option<&BigRef> {
        self.is_alone().then_some(&self.store)
    }

    /// Whether the peers would add an element of `len` bytes here.
    #[inline]
    pub(super) fn allows(&self, len: usize, bounds: &Bounds) -> bool {
        !self.is_alone() && bounds.allow(self.peer_bytes(), self.count(), len)
    }

    /// Whether the peers would make one block of two.
    pub(super) fn may_merge(&self, other: &Block, bounds: &Bounds) -> bool {
        let bytes = self.peer_bytes() + other.peer_bytes() - EMPTY_BYTES;
        !self.is_alone() && !other.is_alone() && !bounds.exceeded(bytes, self.count() + other.count())
    }

    /// The bytes of the sequence.
    #[inline]
    pub(super) fn sequence(&self) -> &[u8] {
        debug_assert!(matches!(self.state, State::Open | State::Stiff));
        &self.store.as_ref()[self.range()]
    }

    #[inline]
    pub(super) fn packed(&self) -> Packed<'_> {
        Packed::new(self.sequence())
    }

    /// Adds an element at an end.
    #[inline]
    pub(super) fn push(&mut self, side: Side, string: &[u8]) {
        let element = Element::new(string);
        let size = element.size();
        let room = match side {
            Side::Left => self.start as usize,
            Side::Right => self.capacity() - self.end as usize,
        };
        if size > room {
            self.make_room(side, size);
        }
        let range = self.range();
        let buffer = self.buffer();
        let range = match side {
            Side::Left => packed::grow_front(buffer, range, &element),
            Side::Right => packed::grow_back(buffer, range, &element),
        };
        self.set_range(range);
        self.count += 1;
        self.peer_bytes += element_bytes(element.piece()) as u32;
    }

    /// The element at an end.
    #[inline]
    pub(super) fn end(&self, side: Side) -> Item<'_> {
        if self.is_alone() {
            return Item::Big(&self.store);
        }
        let packed = self.packed();
        let cursor = match side {
            Side::Left => Some(Cursor::START),
            Side::Right => packed.previous(packed.end()),
        };
        Item::Piece(cursor.and_then(|cursor| packed.get(cursor)).expect("a block has an element"))
    }

    /// Takes `count` elements away at an end; others must remain.
    pub(super) fn cut(&mut self, side: Side, count: u64) {
        debug_assert!(count < self.count());
        let packed = self.packed();
        let mut walk = packed.iter();
        let mut peer_bytes = 0;
        for _ in 0..count {
            let piece = match side {
                Side::Left => walk.next(),
                Side::Right => walk.next_back(),
            };
            peer_bytes += element_bytes(piece.expect("the elements are there"));
        }
        let (front, back, range) = (walk.front(), walk.back(), self.range());
        let buffer = self.buffer();
        let range = match side {
            Side::Left => packed::cut_front(buffer, range, front),
            Side::Right => packed::cut_back(buffer, range, back),
        };
        self.set_range(range);
        self.count -= count as u32;
        self.peer_bytes -= peer_bytes as u32;
    }

    /// Replaces `remove` (0 or 1) elements at `index` by a new one.
    pub(super) fn replace(&mut self, index: u64, remove: usize, string: &[u8]) {
        let packed = self.packed();
        let cursor = if index * 2 > self.count() && index < self.count() {
            packed.nth_back((self.count() - 1 - index) as usize)
        } else {
            packed.nth(index as usize)
        };
        let cursor = cursor.expect("the index is in the block");
        let removed = if remove == 0 { 0 } else { packed.get(cursor).map_or(0, element_bytes) };
        let element = Element::new(string);
        let mut sequence = self.sequence().to_vec();
        packed::replace(&mut sequence, 0, cursor, remove, std::iter::once(element));
        let count = self.count as usize + 1 - remove;
        self.rewrite(&sequence, count, self.peer_bytes() - removed + element_bytes(element.piece()));
    }

    /// Takes elements equal to `wanted` away, at most `most`, from one end on; how many it were.
    pub(super) fn remove(&mut self, from: Side, most: u64, wanted: &Element<'_>) -> u64 {
        let Some((kept, removed)) = without(self.packed(), from, most, wanted) else { return 0 };
        let peer_bytes = self.peer_bytes() - removed as usize * element_bytes(wanted.piece());
        self.rewrite(&kept, (self.count() - removed) as usize, peer_bytes);
        removed
    }

    /// The block of the elements from `index` on, which leave this one.
    pub(super) fn split_off(&mut self, arena: &'static Arena, index: u64) -> Block {
        let mut tail = self.sequence().to_vec();
        let cursor = self.packed().nth(index as usize).expect("the index is in the block");
        packed::remove(&mut tail, 0, Cursor::START, index as usize);
        let count = self.count as usize - index as usize;
        let tail_bytes: usize = Packed::new(&tail).iter().map(element_bytes).sum();
        let range = self.range();
        let range = packed::cut_back(self.buffer(), range, cursor);
        self.set_range(range);
        self.count -= count as u32;
        self.peer_bytes -= tail_bytes as u32;
        Block::of(arena, &tail, count, tail_bytes + EMPTY_BYTES)
    }

    /// Adds the elements of the block behind this one.
    pub(super) fn append(&mut self, mut next: Block) {
        next.open();
        let mut sequence = self.sequence().to_vec();
        let end = Packed::new(&sequence).end();
        packed::insert(&mut sequence, 0, end, next.packed().iter().map(Element::of));
        let peer_bytes = self.peer_bytes() + next.peer_bytes() - EMPTY_BYTES;
        self.rewrite(&sequence, (self.count + next.count) as usize, peer_bytes);
    }

    /// Gives the block other elements.
    fn rewrite(&mut self, sequence: &[u8], count: usize, peer_bytes: usize) {
        let pages = |bytes: usize| (bytes + self.overhead()).div_ceil(PAGE_BYTES);
        // One page less is not worth a new run for what may grow again.
        if sequence.len() > self.capacity() || pages(sequence.len()) + 1 < pages(self.capacity()) {
            self.store = store(self.store.arena(), sequence.len());
        }
        self.place(sequence, Side::Right);
        (self.count, self.peer_bytes) = (count as u32, peer_bytes as u32);
    }

    /// Makes room for `size` bytes at an end: by moving the sequence, or in a longer run.
    #[cold]
    fn make_room(&mut self, side: Side, size: usize) {
        let sequence = self.sequence().to_vec();
        let needed = sequence.len() + size;
        // Less than an eighth of room would soon make it move again.
        if needed + needed / 8 > self.capacity() {
            self.store = store(self.store.arena(), needed + needed / 8);
        }
        // A quarter of the room stays at the other end, for what is pushed there.
        let room = self.capacity() - needed;
        let start = match side {
            Side::Left => size + room - room / 4,
            Side::Right => room / 4,
        };
        self.buffer()[start..][..sequence.len()].copy_from_slice(&sequence);
        self.set_range(start..start + sequence.len());
    }

    /// Puts a sequence to the end that leaves the room at `side`.
    fn place(&mut self, sequence: &[u8], side: Side) {
        let start = match side {
            Side::Left => self.capacity() - sequence.len(),
            Side::Right => 0,
        };
        self.buffer()[start..][..sequence.len()].copy_from_slice(sequence);
        self.set_range(start..start + sequence.len());
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.store.capacity()
    }

    fn overhead(&self) -> usize {
        self.store.memory_bytes() - self.store.capacity()
    }

    #[inline]
    fn buffer(&mut self) -> &mut [u8] {
        let capacity = self.capacity();
        self.store.make_mut(capacity)
    }

    #[inline]
    fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    #[inline]
    fn set_range(&mut self, range: Range<usize>) {
        (self.start, self.end) = (range.start as u32, range.end as u32);
    }
}

/// A run with room for `bytes`, all of it in use.
fn store(arena: &'static Arena, bytes: usize) -> BigRef {
    let mut store = BigRef::with_capacity(arena, bytes);
    let capacity = store.capacity();
    store.make_mut(capacity);
    store
}

/// Bytes that the elements of a sequence would take in a block of the peers'.
pub(super) fn peer_bytes(packed: Packed<'_>) -> usize {
    EMPTY_BYTES + packed.iter().map(element_bytes).sum::<usize>()
}

/// The sequence without the elements equal to `wanted`, at most `most` of them, from one end on, and how many it were; None for none.
pub(super) fn without(
    packed: Packed<'_>,
    from: Side,
    most: u64,
    wanted: &Element<'_>,
) -> Option<(Vec<u8>, u64)> {
    let matches = packed.count_equal(wanted) as u64;
    let removed = most.min(matches);
    if removed == 0 {
        return None;
    }
    let first = if from == Side::Left { 0 } else { matches - removed };
    let mut seen = 0;
    let mut walk = packed.iter();
    let pieces = std::iter::from_fn(|| {
        loop {
            let cursor = walk.front();
            let piece = walk.next()?;
            if !packed.is_at(cursor, wanted) {
                return Some(piece);
            }
            seen += 1;
            if !(first..first + removed).contains(&(seen - 1)) {
                return Some(piece);
            }
        }
    });
    let mut kept = Vec::new();
    packed::write(&mut kept, pieces.map(Element::of));
    Some((kept, removed))
}

/// The elements from `index` on.
pub(super) fn walk_from(packed: Packed<'_>, count: u64, index: u64) -> packed::Walk<'_> {
    let cursor = if index * 2 > count && index < count {
        packed.nth_back((count - 1 - index) as usize)
    } else {
        packed.nth(index as usize)
    };
    packed.iter_from(cursor.expect("the index is in the block"))
}

/// The elements up to `index`, that one included: to be walked from the back.
pub(super) fn walk_back_from(packed: Packed<'_>, count: u64, index: u64) -> packed::Walk<'_> {
    let behind = walk_from(packed, count, index + 1).front();
    packed.iter_to(behind)
}

/// Whether an element of the list is this one.
pub(super) fn is(item: Item<'_>, wanted: &Element<'_>) -> bool {
    match item {
        Item::Piece(piece) => piece == wanted.piece(),
        Item::Big(big) => wanted.piece() == Piece::Bytes(big.as_ref()),
    }
}

#[cfg(test)]
impl Block {
    pub(super) fn check(&self) {
        if self.is_alone() {
            assert_eq!((self.count, self.store.len()), (1, self.end as usize));
        } else {
            let mut buffer = Vec::new();
            let packed = self.read(&mut buffer);
            assert!(self.count > 0);
            assert_eq!(self.count(), packed.count() as u64);
            assert_eq!(self.peer_bytes(), peer_bytes(packed));
        }
    }

    pub(super) fn is_squeezed(&self) -> bool {
        matches!(self.state, State::Squeezed(_))
    }
}
