//! HOT: a long list: blocks with memory of their own. Where blocks begin, are split and joined follows the peers' rules, because OBJECT ENCODING
//! tells of them; see `bounds.rs`.

use std::ops::{ControlFlow, Range};

use memory::{Arena, Large};

use super::block::{Block, is, walk_back_from, walk_from};
use super::blocks::{Blocks, Spot};
use super::bounds::Bounds;
use super::{Item, Side};
use crate::packed::Element;

/// See the head of this file.
#[derive(Clone)]
pub(super) struct Chain {
    arena: &'static Arena,
    blocks: Blocks,
    /// Whether a block may be squeezed.
    squeezes: bool,
}

impl Large for Chain {
    fn bytes(&self) -> u64 {
        self.blocks.bytes()
    }

    fn release(&mut self, pages_max: usize) -> bool {
        for _ in 0..pages_max {
            let Some(spot) = self.blocks.end_spot(Side::Right) else { return true };
            self.blocks.remove(spot);
        }
        self.blocks.len() == 0
    }

    fn duplicate(&self) -> Box<dyn Large> {
        Box::new(self.clone())
    }
}

impl Chain {
    pub(super) fn new(arena: &'static Arena) -> Chain {
        Chain { arena, blocks: Blocks::default(), squeezes: false }
    }

    /// Adds a block of these elements, with their number and the bytes that they would take in a block of the peers'.
    pub(super) fn push_block(&mut self, sequence: &[u8], count: usize, peer_bytes: usize) {
        self.blocks.push(Side::Right, Block::of(self.arena, sequence, count, peer_bytes));
    }

    /// Elements.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.blocks.elements()
    }

    /// The only block, if it is not an element by itself.
    pub(super) fn only_block(&self) -> Option<&Block> {
        let block = self.blocks.end(Side::Left)?;
        (self.blocks.len() == 1 && !block.is_alone()).then_some(block)
    }

    /// Changes a block.
    #[inline]
    fn change<T>(&mut self, spot: Spot, change: impl FnOnce(&mut Block) -> T) -> T {
        self.blocks.change(spot, |block| {
            block.open();
            change(block)
        })
    }

    /// Brings the blocks at both ends in order after elements came or went there: `depth` of them are open, and one always, those that have come
    /// to lie further inside are squeezed, unless `depth` is 0. O(blocks that have come or gone).
    pub(super) fn settle(&mut self, depth: u32) {
        if depth == 0 && !self.squeezes {
            return;
        }
        self.squeezes = true;
        let (depth, len) = (depth as usize, self.blocks.len());
        for rank in 0..depth.max(1).min(len) {
            self.at_rank(rank, Block::open);
            self.at_rank(len - 1 - rank, Block::open);
        }
        if depth == 0 {
            return;
        }
        let inner = depth..len.saturating_sub(depth).max(depth);
        for rank in inner.clone() {
            if self.at_rank(rank, squeeze_if_open) {
                break;
            }
        }
        for rank in inner.rev() {
            if self.at_rank(rank, squeeze_if_open) {
                break;
            }
        }
    }

    /// The same after elements came or went anywhere. O(blocks).
    pub(super) fn settle_all(&mut self, depth: u32) {
        self.settle(depth);
        let depth = depth as usize;
        if depth > 0 {
            for rank in depth..self.blocks.len().saturating_sub(depth) {
                self.at_rank(rank, squeeze_if_open);
            }
        }
    }

    fn at_rank<T>(&mut self, rank: usize, change: impl FnOnce(&mut Block) -> T) -> T {
        let spot = self.blocks.at_rank(rank).expect("the rank is below the number of blocks");
        self.blocks.change(spot, change)
    }

    /// Adds an element at an end; without bounds, to the one block there is.
    #[inline]
    pub(super) fn push(&mut self, side: Side, string: &[u8], bounds: Option<&Bounds>) {
        if let Some(end) = self.blocks.end_spot(side)
            && bounds.is_none_or(|bounds| self.blocks.get(end).allows(string.len(), bounds))
        {
            return self.change(end, |block| block.push(side, string));
        }
        self.push_new(side, string, bounds);
    }

    #[inline(never)]
    fn push_new(&mut self, side: Side, string: &[u8], bounds: Option<&Bounds>) {
        if bounds.is_some_and(|bounds| bounds.is_large(string.len())) {
            return self.blocks.push(side, Block::alone(self.arena, string));
        }
        // As long as its neighbour: what has filled that will fill this one.
        let room =
            self.blocks.end(side).filter(|block| !block.is_alone()).map_or(0, |block| block.sequence().len());
        let mut block = Block::new(self.arena, room.max(string.len()), side);
        block.push(side, string);
        self.blocks.push(side, block);
    }

    /// The element at an end.
    #[inline]
    pub(super) fn end(&self, side: Side) -> Option<Item<'_>> {
        Some(self.blocks.end(side)?.end(side))
    }

    /// Takes `count` elements away at an end, or all there are. O(blocks + elements of one block).
    pub(super) fn cut(&mut self, side: Side, count: u64) {
        let mut left = count;
        while left > 0
            && let Some(end) = self.blocks.end_spot(side)
        {
            let here = self.blocks.get(end).count();
            if here <= left {
                self.blocks.remove(end);
                left -= here;
            } else {
                self.change(end, |block| block.cut(side, left));
                left = 0;
            }
        }
    }

    /// Calls `visit` with the elements of a range, from its end if `backwards`, until it breaks.
    pub(super) fn visit(
        &self,
        range: Range<u64>,
        backwards: bool,
        mut visit: impl FnMut(Item<'_>) -> ControlFlow<()>,
    ) {
        let mut left = range.end.min(self.len()).saturating_sub(range.start);
        let first = if backwards { range.start + left.saturating_sub(1) } else { range.start };
        let Some((mut spot, mut index)) = self.blocks.locate(first) else { return };
        while left > 0 {
            let block = self.blocks.get(spot);
            let here = if backwards { index + 1 } else { block.count() - index }.min(left);
            if visit_block(block, index, here, backwards, &mut visit).is_break() {
                return;
            }
            left -= here;
            let side = if backwards { Side::Left } else { Side::Right };
            let Some(next) = self.blocks.beside(spot, side) else { return };
            spot = next;
            index = if backwards { self.blocks.get(spot).count() - 1 } else { 0 };
        }
    }

    /// The number of the first element equal to `wanted`.
    fn find(&self, wanted: &Element<'_>) -> Option<(Spot, u64)> {
        let mut spot = self.blocks.end_spot(Side::Left)?;
        let mut buffer = Vec::new();
        loop {
            let block = self.blocks.get(spot);
            if block.is_alone() {
                if is(block.end(Side::Left), wanted) {
                    return Some((spot, 0));
                }
            } else if let Some((_, index)) = block.read(&mut buffer).find(wanted, 1) {
                return Some((spot, index as u64));
            }
            spot = self.blocks.next(spot)?;
        }
    }

    /// Puts an element beside the first one equal to `pivot`. Whether there is one.
    pub(super) fn insert(
        &mut self,
        pivot: &Element<'_>,
        side: Side,
        string: &[u8],
        bounds: Option<&Bounds>,
    ) -> bool {
        let Some((spot, index)) = self.find(pivot) else { return false };
        self.insert_at(spot, index, side, string, bounds);
        true
    }

    /// Puts an element beside element `index` of a block.
    fn insert_at(&mut self, spot: Spot, index: u64, side: Side, string: &[u8], bounds: Option<&Bounds>) {
        let block = self.blocks.get(spot);
        // Of the elements of the block, as many come before the new one.
        let before = if side == Side::Left { index } else { index + 1 };
        let Some(bounds) = bounds else {
            return self.change(spot, |block| block.replace(before, 0, string));
        };
        let at_edge = before == if side == Side::Left { 0 } else { block.count() };
        if bounds.is_large(string.len()) {
            let beside = if at_edge { (spot, side) } else { (self.split(spot, before), Side::Left) };
            self.blocks.insert(beside.0, beside.1, Block::alone(self.arena, string));
        } else if block.allows(string.len(), bounds) {
            self.change(spot, |block| block.replace(before, 0, string));
        } else if !at_edge {
            let behind = self.split(spot, before);
            let rank = self.blocks.rank(behind);
            // The new element goes to the part that begins, or ends, with it; the other part is where joining begins.
            if side == Side::Right {
                self.change(behind, |block| block.push(Side::Left, string));
                self.merge_around(rank - 1, bounds);
            } else {
                let front = self.blocks.previous(behind).expect("the block was split in two");
                self.change(front, |block| block.push(Side::Right, string));
                self.merge_around(rank, bounds);
            }
        } else if let Some(beside) = self.blocks.beside(spot, side)
            && self.blocks.get(beside).allows(string.len(), bounds)
        {
            self.change(beside, |block| block.push(side.opposite(), string));
        } else {
            let mut block = Block::new(self.arena, string.len(), side);
            block.push(side, string);
            self.blocks.insert(spot, side, block);
        }
    }

    /// Replaces element `index`, which must be there.
    pub(super) fn set(&mut self, index: u64, string: &[u8], bounds: Option<&Bounds>) {
        let (spot, index) = self.blocks.locate(index).expect("the element is there");
        let block = self.blocks.get(spot);
        let large = bounds.is_some_and(|bounds| bounds.is_large(string.len()));
        if block.is_alone() && large {
            let block = Block::alone(self.arena, string);
            self.change(spot, |old| *old = block);
        } else if block.is_alone() {
            let rank = self.blocks.rank(spot);
            self.insert_at(spot, 0, Side::Right, string, bounds);
            let spot = self.blocks.at_rank(rank).expect("the block is where it was");
            self.blocks.remove(spot);
        } else if let Some(bounds) = bounds.filter(|_| large) {
            self.set_apart(spot, index, string, bounds);
        } else {
            self.change(spot, |block| block.replace(index, 1, string));
        }
    }

    /// Replaces element `index` of a block by one that is a block by itself.
    fn set_apart(&mut self, spot: Spot, index: u64, string: &[u8], bounds: &Bounds) {
        let rank = self.blocks.rank(spot);
        if index + 1 < self.blocks.get(spot).count() {
            self.split(spot, index + 1);
        }
        let spot = self.blocks.at_rank(rank).expect("the block is where it was");
        self.blocks.insert(spot, Side::Right, Block::alone(self.arena, string));
        let spot = self.blocks.at_rank(rank).expect("the block is where it was");
        if index == 0 {
            self.blocks.remove(spot);
        } else {
            self.change(spot, |block| block.cut(Side::Right, 1));
            self.merge_around(rank + 1, bounds);
        }
    }

    /// Takes elements equal to `wanted` away, at most `most`, from one end on; how many it were.
    pub(super) fn remove(&mut self, from: Side, most: u64, wanted: &Element<'_>) -> u64 {
        let mut removed = 0;
        let mut buffer = Vec::new();
        let mut next = self.blocks.end_spot(from);
        while let Some(spot) = next
            && removed < most
        {
            let block = self.blocks.get(spot);
            let here = if block.is_alone() {
                u64::from(is(block.end(Side::Left), wanted))
            } else if block.read(&mut buffer).find(wanted, 1).is_none() {
                0
            } else {
                let left = most - removed;
                self.change(spot, |block| block.remove(from, left, wanted))
            };
            removed += here;
            let block = self.blocks.get(spot);
            if block.count() == 0 || block.is_alone() && here == 1 {
                let rank = self.blocks.rank(spot);
                self.blocks.remove(spot);
                next = match from {
                    Side::Left => self.blocks.at_rank(rank),
                    Side::Right => rank.checked_sub(1).and_then(|rank| self.blocks.at_rank(rank)),
                };
            } else {
                next = self.blocks.beside(spot, from.opposite());
            }
        }
        removed
    }

    /// Splits a block before element `index`; the place of the second part.
    fn split(&mut self, spot: Spot, index: u64) -> Spot {
        let arena = self.arena;
        let tail = self.change(spot, |block| block.split_off(arena, index));
        self.blocks.insert(spot, Side::Right, tail)
    }

    /// Joins blocks around the one of this rank, in the peers' order.
    fn merge_around(&mut self, rank: usize, bounds: &Bounds) {
        let mut rank = rank;
        if rank >= 2 && self.merge(rank - 2, bounds) {
            rank -= 1;
        }
        self.merge(rank + 1, bounds);
        if rank >= 1 && self.merge(rank - 1, bounds) {
            rank -= 1;
        }
        self.merge(rank, bounds);
    }

    /// Joins the block of this rank and the one behind it, if there is one and the bounds allow it.
    fn merge(&mut self, rank: usize, bounds: &Bounds) -> bool {
        let (Some(first), Some(second)) = (self.blocks.at_rank(rank), self.blocks.at_rank(rank + 1)) else {
            return false;
        };
        if !self.blocks.get(first).may_merge(self.blocks.get(second), bounds) {
            return false;
        }
        let second = self.blocks.remove(second);
        self.change(first, |block| block.append(second));
        true
    }
}

/// Squeezes a block that is open; whether there was nothing to do.
fn squeeze_if_open(block: &mut Block) -> bool {
    let settled = block.is_settled();
    block.squeeze();
    settled
}

/// Calls `visit` with `count` elements of a block from `index` on.
fn visit_block(
    block: &Block,
    index: u64,
    count: u64,
    backwards: bool,
    visit: &mut impl FnMut(Item<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if let Some(big) = block.big() {
        return visit(Item::Big(big));
    }
    let mut buffer = Vec::new();
    let (packed, all) = (block.read(&mut buffer), block.count());
    if backwards {
        let mut walk = walk_back_from(packed, all, index);
        for _ in 0..count {
            visit(Item::Piece(walk.next_back().expect("the elements are there")))?;
        }
    } else {
        let mut walk = walk_from(packed, all, index);
        for _ in 0..count {
            visit(Item::Piece(walk.next().expect("the elements are there")))?;
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
impl Chain {
    pub(super) fn check(&self) {
        self.blocks.check();
    }

    pub(super) fn squeezed(&self) -> usize {
        let spots = (0..self.blocks.len()).filter_map(|rank| self.blocks.at_rank(rank));
        spots.filter(|spot| self.blocks.get(*spot).is_squeezed()).count()
    }
}
