//! The blocks of a long list in their order, found by the number of an element. Not what is in a block.
//!
//! ```text
//! groups   [ elements | block block ... ]  [ elements | block block ... ]  ...      up to 128 blocks each
//! ```
//!
//! Two levels, so that adding one never moves more than a few KiB, and finding an element looks at a few hundred numbers even in a list of many
//! millions.

use std::collections::VecDeque;

use super::Side;
use super::block::Block;

const GROUP_BLOCKS_MAX: usize = 128;

#[derive(Clone, Default)]
struct Group {
    elements: u64,
    blocks: VecDeque<Block>,
}

/// The place of a block, until one comes or goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    group: usize,
    block: usize,
}

/// See the head of this file. There is no empty group.
#[derive(Clone, Default)]
pub(super) struct Blocks {
    groups: VecDeque<Group>,
    len: usize,
    elements: u64,
    bytes: u64,
}

impl Blocks {
    /// Blocks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Elements of all blocks.
    #[inline]
    pub(super) fn elements(&self) -> u64 {
        self.elements
    }

    /// Bytes of the arena.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The block at an end.
    #[inline]
    pub(super) fn end(&self, side: Side) -> Option<&Block> {
        match side {
            Side::Left => self.groups.front()?.blocks.front(),
            Side::Right => self.groups.back()?.blocks.back(),
        }
    }

    /// The place of the block at an end.
    #[inline]
    pub(super) fn end_spot(&self, side: Side) -> Option<Spot> {
        let group = self.groups.len().checked_sub(1)?;
        Some(match side {
            Side::Left => Spot { group: 0, block: 0 },
            Side::Right => Spot { group, block: self.groups[group].blocks.len() - 1 },
        })
    }

    pub(super) fn get(&self, spot: Spot) -> &Block {
        &self.groups[spot.group].blocks[spot.block]
    }

    /// Changes a block; what it gains or loses is counted.
    #[inline]
    pub(super) fn change<T>(&mut self, spot: Spot, change: impl FnOnce(&mut Block) -> T) -> T {
        let group = &mut self.groups[spot.group];
        let block = &mut group.blocks[spot.block];
        let (count, bytes) = (block.count(), block.bytes());
        let result = change(block);
        let (count_after, bytes_after) = (block.count(), block.bytes());
        group.elements = group.elements - count + count_after;
        self.elements = self.elements - count + count_after;
        self.bytes = self.bytes - bytes + bytes_after;
        result
    }

    /// The place behind.
    pub(super) fn next(&self, spot: Spot) -> Option<Spot> {
        if spot.block + 1 < self.groups[spot.group].blocks.len() {
            return Some(Spot { block: spot.block + 1, ..spot });
        }
        (spot.group + 1 < self.groups.len()).then(|| Spot { group: spot.group + 1, block: 0 })
    }

    /// The place before.
    pub(super) fn previous(&self, spot: Spot) -> Option<Spot> {
        if spot.block > 0 {
            return Some(Spot { block: spot.block - 1, ..spot });
        }
        let group = spot.group.checked_sub(1)?;
        Some(Spot { group, block: self.groups[group].blocks.len() - 1 })
    }

    /// The place on that side.
    pub(super) fn beside(&self, spot: Spot, side: Side) -> Option<Spot> {
        match side {
            Side::Left => self.previous(spot),
            Side::Right => self.next(spot),
        }
    }

    /// The block with element `index`, and the number of the element in it. Looks from the nearer end.
    pub(super) fn locate(&self, index: u64) -> Option<(Spot, u64)> {
        if index >= self.elements {
            return None;
        }
        if index < self.elements / 2 {
            let mut left = index;
            let group = position(self.groups.iter(), |group| group.elements, &mut left)?;
            let block = position(self.groups[group].blocks.iter(), Block::count, &mut left)?;
            return Some((Spot { group, block }, left));
        }
        let mut left = self.elements - 1 - index;
        let group = position(self.groups.iter().rev(), |group| group.elements, &mut left)?;
        let group = self.groups.len() - 1 - group;
        let blocks = &self.groups[group].blocks;
        let block = position(blocks.iter().rev(), Block::count, &mut left)?;
        let block = blocks.len() - 1 - block;
        Some((Spot { group, block }, blocks[block].count() - 1 - left))
    }

    /// Adds a block at an end.
    pub(super) fn push(&mut self, side: Side, block: Block) {
        let end = match side {
            Side::Left => self.groups.front(),
            Side::Right => self.groups.back(),
        };
        if end.is_none_or(|group| group.blocks.len() >= GROUP_BLOCKS_MAX) {
            match side {
                Side::Left => self.groups.push_front(Group::default()),
                Side::Right => self.groups.push_back(Group::default()),
            }
        }
        let end = match side {
            Side::Left => self.groups.front_mut(),
            Side::Right => self.groups.back_mut(),
        };
        let group = end.expect("a group was added if there was none");
        self.len += 1;
        self.elements += block.count();
        self.bytes += block.bytes();
        group.elements += block.count();
        match side {
            Side::Left => group.blocks.push_front(block),
            Side::Right => group.blocks.push_back(block),
        }
    }

    /// Adds a block beside another one; its place.
    pub(super) fn insert(&mut self, spot: Spot, side: Side, block: Block) -> Spot {
        let Spot { group: mut at, block: beside } = spot;
        let mut place = if side == Side::Left { beside } else { beside + 1 };
        self.len += 1;
        self.elements += block.count();
        self.bytes += block.bytes();
        if self.groups[at].blocks.len() >= GROUP_BLOCKS_MAX {
            let blocks = self.groups[at].blocks.split_off(GROUP_BLOCKS_MAX / 2);
            let elements = blocks.iter().map(Block::count).sum();
            self.groups[at].elements -= elements;
            self.groups.insert(at + 1, Group { elements, blocks });
            if place > GROUP_BLOCKS_MAX / 2 {
                (at, place) = (at + 1, place - GROUP_BLOCKS_MAX / 2);
            }
        }
        let group = &mut self.groups[at];
        group.elements += block.count();
        group.blocks.insert(place, block);
        Spot { group: at, block: place }
    }

    /// Takes a block out.
    pub(super) fn remove(&mut self, spot: Spot) -> Block {
        let group = &mut self.groups[spot.group];
        let block = group.blocks.remove(spot.block).expect("the place is of a block");
        group.elements -= block.count();
        self.len -= 1;
        self.elements -= block.count();
        self.bytes -= block.bytes();
        if group.blocks.is_empty() {
            self.groups.remove(spot.group);
        }
        block
    }

    /// How many blocks are before this one.
    pub(super) fn rank(&self, spot: Spot) -> usize {
        self.groups.iter().take(spot.group).map(|group| group.blocks.len()).sum::<usize>() + spot.block
    }

    /// The place of the block that has so many before it.
    pub(super) fn at_rank(&self, rank: usize) -> Option<Spot> {
        let mut left = rank as u64;
        let group = position(self.groups.iter(), |group| group.blocks.len() as u64, &mut left)?;
        Some(Spot { group, block: left as usize })
    }
}

/// The first item whose weight is above what is `left` after those before it.
fn position<T>(items: impl Iterator<Item = T>, weight: impl Fn(T) -> u64, left: &mut u64) -> Option<usize> {
    for (place, item) in items.enumerate() {
        let weight = weight(item);
        if *left < weight {
            return Some(place);
        }
        *left -= weight;
    }
    None
}

#[cfg(test)]
impl Blocks {
    /// Checks the counts and that no block is empty.
    pub(super) fn check(&self) {
        assert!(self.groups.iter().all(|group| (1..=GROUP_BLOCKS_MAX).contains(&group.blocks.len())));
        for group in &self.groups {
            assert_eq!(group.elements, group.blocks.iter().map(Block::count).sum());
            group.blocks.iter().for_each(Block::check);
        }
        let blocks = || self.groups.iter().flat_map(|group| &group.blocks);
        assert_eq!((self.len, self.elements), (blocks().count(), blocks().map(Block::count).sum()));
        assert_eq!(self.bytes, blocks().map(Block::bytes).sum());
    }
}
