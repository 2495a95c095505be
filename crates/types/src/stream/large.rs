//! A stream with memory of its own: blocks in a heap, found by a tree of their first ids. Not what is in a block: see `block.rs`.
//!
//! The last block has room for entries to come; when the next one begins it is cut to what it holds. Blocks are never moved by compaction: they are
//! freed mostly in the order in which they came, which empties pages.

use memory::{Handle, Heap, Large};

use super::block::{self, Fit};
use super::groups::Doomed;
use super::{BLOCK_BYTES_MAX, Head, Id, Pairs, Place, Room, earlier, handle, room};
use crate::tree::Tree;
use crate::{Limits, Storage};

/// Bytes to spare of the last block of a stream that begins.
const SPARE_MIN: usize = 128;
/// A block is cut when it ends with more bytes to spare than a 32nd of its own.
const CUT_SHARE: usize = 32;

/// See the head of this file.
pub struct LargeStream {
    pub(super) storage: Storage,
    pub(super) head: Head,
    pub(super) heap: Heap,
    /// First id of a block to its handle.
    pub(super) tree: Tree<8>,
    /// The last block.
    tail: Option<Handle>,
    /// Nodes that the peers would have.
    pub(super) nodes: u64,
    /// Names of groups to their blocks.
    pub(super) groups: Tree<8>,
    /// Groups that were removed and are being freed.
    pub(super) doomed: Vec<Doomed>,
}

impl LargeStream {
    /// A stream without entries.
    pub(super) fn new(storage: Storage) -> LargeStream {
        let heap = Heap::new(storage.arena);
        LargeStream {
            storage,
            head: Head::default(),
            heap,
            tree: Tree::new(),
            tail: None,
            nodes: 0,
            groups: Tree::new(),
            doomed: Vec::new(),
        }
    }

    pub(super) fn block(&self, place: Place) -> &[u8] {
        self.heap.block(handle(place))
    }

    pub(super) fn block_mut(&mut self, place: Place) -> &mut [u8] {
        self.heap.block_mut(handle(place))
    }

    pub(super) fn floor(&self, id: Id) -> Option<Place> {
        if let Some(tail) = self.tail
            && block::base(self.heap.block(tail)) <= id
        {
            return Some(Place(tail.raw()));
        }
        self.tree.floor(&self.heap, id.key()).map(|(_, handle)| Place(u64::from_le_bytes(handle)))
    }

    /// The first block whose first id is not below `id`.
    pub(super) fn above(&self, id: Id) -> Option<Place> {
        self.tree.ceil(&self.heap, id.key()).map(|(_, handle)| Place(u64::from_le_bytes(handle)))
    }

    /// Adds a block behind all others, as it is.
    pub(super) fn add_block(&mut self, bytes: &[u8]) {
        let handle = self.heap.alloc_block(bytes.len());
        self.heap.block_mut(handle)[..bytes.len()].copy_from_slice(bytes);
        self.enter(handle);
    }

    /// Makes a block the last one.
    fn enter(&mut self, handle: Handle) {
        let block = self.heap.block(handle);
        let (base, starts_node) = (block::base(block), block::starts_node(block));
        self.tree.insert(&mut self.heap, base.key(), &handle.raw().to_le_bytes());
        self.tail = Some(handle);
        self.nodes += u64::from(starts_node);
    }

    /// Removes a block with whatever is in it, and perhaps the node of the peers that it was.
    pub(super) fn remove_block(&mut self, place: Place, node: bool) {
        let handle = handle(place);
        let base = block::base(self.heap.block(handle));
        self.tree.remove(&mut self.heap, base.key());
        self.heap.free(handle);
        self.nodes -= u64::from(node);
        if self.tail == Some(handle) {
            self.tail = self.floor_of_tree();
        }
    }

    fn floor_of_tree(&self) -> Option<Handle> {
        let (_, raw) = self.tree.last(&self.heap)?;
        Some(handle(Place(u64::from_le_bytes(raw))))
    }

    pub(super) fn append(&mut self, limits: &Limits, id: Id, pairs: &impl Pairs) {
        self.release_doomed();
        let mut fit: Option<Fit> = None;
        let mut begins = Some(None);
        if let Some(tail) = self.tail {
            let last = self.heap.block(tail);
            let room = room(last, limits, id, pairs, || fit.insert(block::measure(last, id, pairs)).bytes);
            begins = (room != Room::Here).then(|| earlier(last, room));
        }
        match (begins, fit, self.tail) {
            (None, Some(fit), Some(tail)) => {
                let tail = self.with_room(tail, fit.bytes);
                block::push(self.heap.block_mut(tail), id, pairs, &fit);
            }
            (begins, ..) => self.begin_block(id, pairs, begins.flatten()),
        }
        self.head.len += 1;
        self.head.added += 1;
        self.head.last = id;
    }

    /// A new last block with its first entry.
    fn begin_block(&mut self, id: Id, pairs: &impl Pairs, earlier: Option<(usize, usize)>) {
        let fit = block::measure_new(pairs, earlier.is_none());
        let expected = self.cut_tail() + SPARE_MIN;
        let bytes = if fit.bytes < BLOCK_BYTES_MAX / 2 {
            (fit.bytes + SPARE_MIN).max(expected).min(BLOCK_BYTES_MAX)
        } else {
            fit.bytes
        };
        let handle = self.heap.alloc_block(bytes);
        let block = self.heap.block_mut(handle);
        block::start(block, id, pairs, earlier);
        block::push(block, id, pairs, &fit);
        self.enter(handle);
    }

    /// The last block, or a longer copy of it with room for `bytes` more.
    fn with_room(&mut self, tail: Handle, bytes: usize) -> Handle {
        let block = self.heap.block(tail);
        let wanted = block::used(block) + bytes;
        if wanted <= block.len() {
            return tail;
        }
        self.recut(tail, (wanted * 2).min(BLOCK_BYTES_MAX).max(wanted))
    }

    /// Takes from the last block what it has to spare; the bytes it keeps.
    fn cut_tail(&mut self) -> usize {
        let Some(tail) = self.tail else { return 0 };
        let block = self.heap.block(tail);
        let (used, bytes) = (block::used(block), block.len());
        if bytes - used > used / CUT_SHARE {
            self.recut(tail, used);
        }
        used
    }

    /// Copies the last block into one of another length.
    fn recut(&mut self, tail: Handle, bytes: usize) -> Handle {
        let to = self.heap.alloc_block(bytes);
        let used = block::used(self.heap.block(tail));
        let base = block::base(self.heap.block(tail));
        // Through the stack, for both lie in the same heap.
        let mut part = [0; BLOCK_BYTES_MAX];
        for at in (0..used).step_by(part.len()) {
            let end = used.min(at + part.len());
            part[..end - at].copy_from_slice(&self.heap.block(tail)[at..end]);
            self.heap.block_mut(to)[at..end].copy_from_slice(&part[..end - at]);
        }
        self.heap.free(tail);
        let value = self.tree.get_mut(&mut self.heap, base.key()).expect("the tree knows each block");
        *value = to.raw().to_le_bytes();
        self.tail = Some(to);
        to
    }

    /// Panics unless the structure is whole.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let blocks: Vec<_> = self.tree.iter(&self.heap, 0).collect();
        assert_eq!(self.tree.check(&self.heap), blocks.len() as u64);
        let mut nodes = 0;
        for (key, raw) in &blocks {
            let block = self.block(Place(u64::from_le_bytes(*raw)));
            assert_eq!(block::base(block).key(), *key);
            nodes += u64::from(block::starts_node(block));
        }
        assert_eq!(nodes, self.nodes);
        assert_eq!(self.tail.map(|tail| tail.raw().to_le_bytes()), blocks.last().map(|(_, raw)| *raw));
    }
}

impl Large for LargeStream {
    fn bytes(&self) -> u64 {
        self.heap.page_bytes() + size_of::<LargeStream>() as u64
    }

    fn release(&mut self, pages_max: usize) -> bool {
        self.heap.dismantle(pages_max)
    }

    fn duplicate(&self) -> Box<dyn Large> {
        let mut copy = LargeStream::new(self.storage);
        copy.head = self.head;
        for (_, raw) in self.tree.iter(&self.heap, 0) {
            let block = self.block(Place(u64::from_le_bytes(raw)));
            copy.add_block(&block[..block::used(block)]);
        }
        copy.copy_groups(self);
        Box::new(copy)
    }
}
