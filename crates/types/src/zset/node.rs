//! HOT: the bytes of a tree's nodes. Not the tree: what goes where is decided in `tree.rs`.
//!
//! ```text
//! leaf    count 2 | shift 1 | 0 | base 8 | coarse scores 2 x 127 | handles 5 x 127                          904 bytes
//! inner   count 2 | orders 8 x 78 | first members 5 x 78 | children 5 x 78 | members below 5 x 78          1812 bytes
//! ```
//!
//! All numbers are little-endian. With its block's header of 4 bytes, 72 leaves fill a page of 64 KiB but for 160 bytes, and an inner node takes the
//! place of two leaves.
//!
//! A coarse score is how far the order of the score (`score.rs`) lies above the leaf's base, shifted to the right; what is further away
//! than 16 bits tell has the last, what is below has the first. So coarse scores are in order, but equal ones say nothing.
//! Of the first child of an inner node neither order nor first member is kept.

use memory::Handle;

/// Elements of a leaf.
pub(super) const LEAF_SLOTS: usize = 127;
/// Children of an inner node.
pub(super) const INNER_SLOTS: usize = 78;
pub(super) const LEAF_BYTES: usize = 904;
pub(super) const INNER_BYTES: usize = 1812;

const SHIFT_AT: usize = 2;
const BASE_AT: usize = 4;
const COARSE_AT: usize = BASE_AT + 8;
const HANDLES_AT: usize = COARSE_AT + 2 * LEAF_SLOTS;
const _: () =
    assert!(HANDLES_AT + 5 * LEAF_SLOTS + 3 == LEAF_BYTES, "a handle is read with three more bytes");

const ORDERS_AT: usize = 2;
const FIRSTS_AT: usize = ORDERS_AT + 8 * INNER_SLOTS;
const CHILDREN_AT: usize = FIRSTS_AT + 5 * INNER_SLOTS;
const BELOW_AT: usize = CHILDREN_AT + 5 * INNER_SLOTS;
const _: () = assert!(BELOW_AT + 5 * INNER_SLOTS + 3 <= INNER_BYTES);

/// What an unused coarse score is: not below any other.
const COARSE_MAX: u16 = u16::MAX;

#[inline(always)]
fn get_2(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

#[inline(always)]
fn get_5(bytes: &[u8], at: usize) -> u64 {
    get_8(bytes, at) & ((1 << 40) - 1)
}

#[inline(always)]
fn get_8(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline(always)]
fn set_5(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 5].copy_from_slice(&value.to_le_bytes()[..5]);
}

#[inline(always)]
fn get_handle(bytes: &[u8], at: usize) -> Handle {
    Handle::from_raw(get_5(bytes, at)).expect("nodes hold handles")
}

/// Moves the cells from `from` on, of a row of `count` cells of `width` bytes at `row`, to `to`.
#[inline(always)]
fn shift(bytes: &mut [u8], row: usize, width: usize, from: usize, to: usize, count: usize) {
    bytes.copy_within(row + from * width..row + count * width, row + to * width);
}

/// How the orders of a leaf's scores become coarse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Scale {
    pub(super) base: u64,
    pub(super) shift: u32,
}

impl Scale {
    /// For a leaf whose scores have orders from `first` to `last`, with half as much again for those that will come beside them.
    pub(super) fn spanning(first: u64, last: u64) -> Scale {
        let margin = (last - first) / 4;
        let span = (last - first).saturating_add(2 * margin);
        Scale { base: first.saturating_sub(margin), shift: 48_u32.saturating_sub(span.leading_zeros()) }
    }

    #[inline(always)]
    pub(super) fn coarse(self, order: u64) -> u16 {
        let above = order.saturating_sub(self.base) >> self.shift;
        above.min(COARSE_MAX.into()) as u16
    }
}

/// A leaf, to be read.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a>(&'a [u8; LEAF_BYTES]);

impl<'a> Leaf<'a> {
    #[inline(always)]
    pub(super) fn new(block: &'a [u8]) -> Leaf<'a> {
        Leaf(block.first_chunk().expect("the block of a leaf"))
    }

    pub(super) fn bytes(self) -> &'a [u8; LEAF_BYTES] {
        self.0
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        get_2(self.0, 0).into()
    }

    #[inline(always)]
    pub(super) fn scale(self) -> Scale {
        Scale { base: get_8(self.0, BASE_AT), shift: self.0[SHIFT_AT].into() }
    }

    #[inline(always)]
    pub(super) fn coarse(self, slot: usize) -> u16 {
        get_2(self.0, COARSE_AT + 2 * slot)
    }

    #[inline(always)]
    pub(super) fn handle(self, slot: usize) -> Handle {
        get_handle(self.0, HANDLES_AT + 5 * slot)
    }

    /// Slots whose coarse score is below this one.
    #[inline(always)]
    pub(super) fn below(self, coarse: u16) -> usize {
        self.count(|found| found < coarse)
    }

    /// Slots whose coarse score is not above this one.
    #[inline(always)]
    pub(super) fn not_above(self, coarse: u16) -> usize {
        // What is unused counts for the greatest.
        self.count(|found| found <= coarse).min(self.len())
    }

    #[inline(always)]
    fn count(self, is: impl Fn(u16) -> bool) -> usize {
        let row: &[u8; 2 * LEAF_SLOTS] = self.0[COARSE_AT..HANDLES_AT].try_into().expect("a row");
        let mut count = 0_u16;
        for cell in row.chunks_exact(2) {
            count += u16::from(is(u16::from_le_bytes([cell[0], cell[1]])));
        }
        count.into()
    }
}

/// A leaf, to be changed.
pub(super) struct LeafMut<'a>(&'a mut [u8; LEAF_BYTES]);

impl<'a> LeafMut<'a> {
    #[inline(always)]
    pub(super) fn new(block: &'a mut [u8]) -> LeafMut<'a> {
        LeafMut(block.first_chunk_mut().expect("the block of a leaf"))
    }

    pub(super) fn clear(&mut self, scale: Scale) {
        self.0[..2].fill(0);
        self.0[COARSE_AT..HANDLES_AT].fill(0xFF);
        self.set_scale(scale);
    }

    #[inline(always)]
    pub(super) fn view(&self) -> Leaf<'_> {
        Leaf(self.0)
    }

    pub(super) fn set_scale(&mut self, scale: Scale) {
        self.0[SHIFT_AT] = scale.shift as u8;
        self.0[BASE_AT..BASE_AT + 8].copy_from_slice(&scale.base.to_le_bytes());
    }

    #[inline(always)]
    fn set_len(&mut self, len: usize) {
        self.0[..2].copy_from_slice(&(len as u16).to_le_bytes());
    }

    #[inline(always)]
    pub(super) fn set_coarse(&mut self, slot: usize, coarse: u16) {
        self.0[COARSE_AT + 2 * slot..][..2].copy_from_slice(&coarse.to_le_bytes());
    }

    #[inline(always)]
    pub(super) fn set_handle(&mut self, slot: usize, handle: Handle) {
        set_5(self.0, HANDLES_AT + 5 * slot, handle.raw());
    }

    /// Puts an element before the one at `slot`. The leaf must not be full.
    #[inline]
    pub(super) fn insert(&mut self, slot: usize, coarse: u16, handle: Handle) {
        let len = self.view().len();
        assert!(slot <= len && len < LEAF_SLOTS);
        shift(self.0, COARSE_AT, 2, slot, slot + 1, len);
        shift(self.0, HANDLES_AT, 5, slot, slot + 1, len);
        self.set_coarse(slot, coarse);
        self.set_handle(slot, handle);
        self.set_len(len + 1);
    }

    /// Takes out the elements of these slots.
    pub(super) fn remove(&mut self, slots: std::ops::Range<usize>) {
        let len = self.view().len();
        shift(self.0, COARSE_AT, 2, slots.end, slots.start, len);
        shift(self.0, HANDLES_AT, 5, slots.end, slots.start, len);
        let left = len - slots.len();
        self.0[COARSE_AT + 2 * left..COARSE_AT + 2 * len].fill(0xFF);
        self.set_len(left);
    }

    /// Puts the elements of some slots of another leaf, whose scale is the same, before `slot`. They must fit.
    pub(super) fn insert_from(&mut self, slot: usize, from: Leaf<'_>, slots: std::ops::Range<usize>) {
        let (len, added) = (self.view().len(), slots.len());
        assert!(len + added <= LEAF_SLOTS);
        for (row, width) in [(COARSE_AT, 2), (HANDLES_AT, 5)] {
            shift(self.0, row, width, slot, slot + added, len);
            let cells = &from.0[row + slots.start * width..row + slots.end * width];
            self.0[row + slot * width..][..cells.len()].copy_from_slice(cells);
        }
        self.set_len(len + added);
    }
}

/// An inner node, to be read.
#[derive(Clone, Copy)]
pub(super) struct Inner<'a>(&'a [u8; INNER_BYTES]);

/// What an inner node says about a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child {
    /// Order of the score of the first member below it.
    pub(super) order: u64,
    /// That member.
    pub(super) first: Handle,
    pub(super) node: Handle,
    /// Members below it.
    pub(super) below: u64,
}

impl<'a> Inner<'a> {
    #[inline(always)]
    pub(super) fn new(block: &'a [u8]) -> Inner<'a> {
        Inner(block.first_chunk().expect("the block of an inner node"))
    }

    pub(super) fn bytes(self) -> &'a [u8; INNER_BYTES] {
        self.0
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        get_2(self.0, 0).into()
    }

    #[inline(always)]
    pub(super) fn order(self, at: usize) -> u64 {
        get_8(self.0, ORDERS_AT + 8 * at)
    }

    #[inline(always)]
    pub(super) fn first(self, at: usize) -> Handle {
        get_handle(self.0, FIRSTS_AT + 5 * at)
    }

    #[inline(always)]
    pub(super) fn node(self, at: usize) -> Handle {
        get_handle(self.0, CHILDREN_AT + 5 * at)
    }

    #[inline(always)]
    pub(super) fn below(self, at: usize) -> u64 {
        get_5(self.0, BELOW_AT + 5 * at)
    }

    pub(super) fn child(self, at: usize) -> Child {
        Child { order: self.order(at), first: self.first(at), node: self.node(at), below: self.below(at) }
    }

    /// Members below the first `count` children.
    #[inline]
    pub(super) fn below_first(self, count: usize) -> u64 {
        (0..count).map(|at| self.below(at)).sum()
    }

    /// Children from the second to `end` whose first order is before `bound`, and the first child: where to go on, by orders alone.
    #[inline]
    pub(super) fn orders_before(self, bound: u64) -> usize {
        let (mut low, mut size) = (1, self.len() - 1);
        while size > 0 {
            let half = size / 2;
            let before = self.order(low + half) < bound;
            low = if before { low + half + 1 } else { low };
            size = if before { size - half - 1 } else { half };
        }
        low
    }
}

/// An inner node, to be changed.
pub(super) struct InnerMut<'a>(&'a mut [u8; INNER_BYTES]);

impl<'a> InnerMut<'a> {
    #[inline(always)]
    pub(super) fn new(block: &'a mut [u8]) -> InnerMut<'a> {
        InnerMut(block.first_chunk_mut().expect("the block of an inner node"))
    }

    pub(super) fn clear(&mut self) {
        self.0[..2].fill(0);
    }

    #[inline(always)]
    pub(super) fn view(&self) -> Inner<'_> {
        Inner(self.0)
    }

    fn set_len(&mut self, len: usize) {
        self.0[..2].copy_from_slice(&(len as u16).to_le_bytes());
    }

    pub(super) fn set_first(&mut self, at: usize, order: u64, first: Handle) {
        self.0[ORDERS_AT + 8 * at..][..8].copy_from_slice(&order.to_le_bytes());
        set_5(self.0, FIRSTS_AT + 5 * at, first.raw());
    }

    #[inline(always)]
    pub(super) fn set_below(&mut self, at: usize, below: u64) {
        set_5(self.0, BELOW_AT + 5 * at, below);
    }

    /// Puts a child before the one at `at`. The node must not be full.
    pub(super) fn insert(&mut self, at: usize, child: Child) {
        let len = self.view().len();
        assert!(at <= len && len < INNER_SLOTS);
        for (row, width) in [(ORDERS_AT, 8), (FIRSTS_AT, 5), (CHILDREN_AT, 5), (BELOW_AT, 5)] {
            shift(self.0, row, width, at, at + 1, len);
        }
        self.set_first(at, child.order, child.first);
        set_5(self.0, CHILDREN_AT + 5 * at, child.node.raw());
        self.set_below(at, child.below);
        self.set_len(len + 1);
    }

    /// Takes out the children at these places.
    pub(super) fn remove(&mut self, places: std::ops::Range<usize>) {
        let len = self.view().len();
        for (row, width) in [(ORDERS_AT, 8), (FIRSTS_AT, 5), (CHILDREN_AT, 5), (BELOW_AT, 5)] {
            shift(self.0, row, width, places.end, places.start, len);
        }
        self.set_len(len - places.len());
    }
}
