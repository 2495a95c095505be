//! A B+tree of fixed-size records in the blocks of a heap, ordered by a key of 128 bits: what streams find their blocks and pending entries by.
//! HOT: no allocation but a node of the heap now and then. Not counted: nobody asks it for a rank.
//!
//! ```text
//! node:   count 2 | capacity 2 | keys 16 x capacity | values V x capacity
//! inner:  a key is a lower bound of all keys below its child; the value is the child's handle, 8 bytes
//! ```
//!
//! Keys mostly come in ascending order and go in the same order: a node that is full at the right edge is left full and the record begins the next
//! one, and a node that has become empty is freed at once. A tree of one leaf has a small leaf.

use std::cmp::Ordering;

use memory::{Handle, Heap};

/// Records of a node that is not the only one: 64 x (16 + 8) is 1.5 KiB, of which a search touches 6 lines.
const NODE_RECORDS: usize = 64;
/// Records of the first leaf when it is made; it doubles.
const FIRST_RECORDS: usize = 4;
/// A node with fewer records is merged with a neighbour, if both together fill at most three quarters of a node.
const MERGE_BELOW: usize = NODE_RECORDS / 4;
const MERGED_MAX: usize = NODE_RECORDS / 4 * 3;
/// Levels at most: a level comes when the root is split, which takes 32 splits below it, whatever was removed meanwhile: 32^13 = 2^65 insertions.
const LEVELS_MAX: usize = 14;

const HEADER_BYTES: usize = 4;
const KEY_BYTES: usize = 16;
/// Bytes of the value of an inner node: a handle.
const CHILD_BYTES: usize = 8;

/// See the head of this file. `V` is the number of bytes of a value. The heap is the caller's, and the same for each call.
#[derive(Debug, Default)]
pub struct Tree<const V: usize> {
    root: Option<Handle>,
    /// Levels above the leaves.
    height: usize,
    len: u64,
    nodes: u64,
}

/// The way from the root to a leaf: at each level the node and the place in it.
struct Path {
    steps: [(Handle, usize); LEVELS_MAX],
    len: usize,
}

impl Path {
    fn push(&mut self, node: Handle, at: usize) {
        self.steps[self.len] = (node, at);
        self.len += 1;
    }
}

/// Bytes of [`Tree::state`].
pub const STATE_BYTES: usize = 25;

impl<const V: usize> Tree<V> {
    /// The tree from its state: what it was when that was told.
    pub fn load(state: &[u8; STATE_BYTES]) -> Tree<V> {
        let number = |at: usize| u64::from_le_bytes(state[at..at + 8].try_into().expect("8 bytes"));
        Tree {
            root: Handle::from_raw(number(0)),
            height: usize::from(state[24]),
            len: number(8),
            nodes: number(16),
        }
    }

    /// What the tree is beside its nodes, to be kept somewhere.
    pub fn state(&self) -> [u8; STATE_BYTES] {
        let mut state = [0; STATE_BYTES];
        state[..8].copy_from_slice(&self.root.map_or(0, Handle::raw).to_le_bytes());
        state[8..16].copy_from_slice(&self.len.to_le_bytes());
        state[16..24].copy_from_slice(&self.nodes.to_le_bytes());
        state[24] = self.height as u8;
        state
    }

    /// An empty tree, which owns nothing.
    pub const fn new() -> Tree<V> {
        Tree { root: None, height: 0, len: 0, nodes: 0 }
    }

    /// Records.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nodes, each a block of the heap.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// The value of `key`. O(log n).
    pub fn get<'h>(&self, heap: &'h Heap, key: u128) -> Option<&'h [u8; V]> {
        let (node, at) = self.at_or_below(heap, key)?;
        let node = heap.block(node);
        (key_at(node, at) == key).then(|| value_at(node, at))
    }

    /// The same, to be changed.
    pub fn get_mut<'h>(&self, heap: &'h mut Heap, key: u128) -> Option<&'h mut [u8; V]> {
        let (node, at) = self.at_or_below(heap, key)?;
        let node = heap.block_mut(node);
        (key_at(node, at) == key).then(|| {
            let from = value_offset(node, at, V);
            (&mut node[from..from + V]).try_into().expect("a value has V bytes")
        })
    }

    /// The last record at or below `key`. O(log n).
    pub fn floor(&self, heap: &Heap, key: u128) -> Option<(u128, [u8; V])> {
        let (node, at) = self.at_or_below(heap, key)?;
        Some(record(heap.block(node), at))
    }

    /// The first record at or above `key`. O(log n).
    pub fn ceil(&self, heap: &Heap, key: u128) -> Option<(u128, [u8; V])> {
        let (node, at) = self.at_or_above(heap, key)?;
        Some(record(heap.block(node), at))
    }

    /// The first record.
    pub fn first(&self, heap: &Heap) -> Option<(u128, [u8; V])> {
        self.ceil(heap, 0)
    }

    /// The last record.
    pub fn last(&self, heap: &Heap) -> Option<(u128, [u8; V])> {
        self.floor(heap, u128::MAX)
    }

    /// The records from `key` on, ascending. O(log n) for the first of each node.
    pub fn iter<'h>(&'h self, heap: &'h Heap, key: u128) -> Iter<'h, V> {
        Iter { tree: self, heap, at: self.at_or_above(heap, key) }
    }

    /// Adds a record; false if there is one of this key, whose value is then the new one. O(log n).
    pub fn insert(&mut self, heap: &mut Heap, key: u128, value: &[u8; V]) -> bool {
        let Some(root) = self.root else {
            let leaf = self.new_node(heap, FIRST_RECORDS, V);
            insert_at(heap.block_mut(leaf), 0, key, value);
            (self.root, self.len) = (Some(leaf), 1);
            return true;
        };
        let mut path = Path { steps: [(root, 0); LEVELS_MAX], len: 0 };
        let rank = self.descend(heap, key, &mut path);
        let leaf = path.steps[path.len - 1].0;
        if rank > 0 {
            let node = heap.block_mut(leaf);
            if key_at(node, rank - 1) == key {
                let from = value_offset(node, rank - 1, V);
                node[from..from + V].copy_from_slice(value);
                return false;
            }
        }
        path.steps[path.len - 1].1 = rank;
        if rank == 0 {
            lower_bounds(heap, &path, key);
        }
        self.len += 1;
        self.insert_record(heap, &path, key, value);
        true
    }

    /// Removes a record; its value. O(log n).
    pub fn remove(&mut self, heap: &mut Heap, key: u128) -> Option<[u8; V]> {
        let mut path = Path { steps: [(self.root?, 0); LEVELS_MAX], len: 0 };
        let rank = self.descend(heap, key, &mut path);
        let leaf = path.steps[path.len - 1].0;
        let node = heap.block_mut(leaf);
        if rank == 0 || key_at(node, rank - 1) != key {
            return None;
        }
        let value = *value_at(node, rank - 1);
        remove_at(node, rank - 1, V);
        self.len -= 1;
        self.after_removal(heap, &mut path);
        Some(value)
    }

    /// Frees at most about `nodes_max` nodes with all their records, for a tree that nobody will ask any more; true when nothing is left.
    pub fn release(&mut self, heap: &mut Heap, nodes_max: usize) -> bool {
        // Each step frees a leaf; what it holds is not counted one by one.
        self.len = 0;
        for _ in 0..nodes_max {
            let Some(root) = self.root else { break };
            let mut path = Path { steps: [(root, 0); LEVELS_MAX], len: 0 };
            self.descend(heap, u128::MAX, &mut path);
            set_count(heap.block_mut(path.steps[path.len - 1].0), 0);
            self.after_removal(heap, &mut path);
        }
        self.root.is_none()
    }

    /// Walks to the leaf in which `key` is or would be; the number of its keys that are not above `key`.
    fn descend(&self, heap: &Heap, key: u128, path: &mut Path) -> usize {
        let mut handle = path.steps[0].0;
        for _ in 0..self.height {
            let node = heap.block(handle);
            let at = rank_of(node, key).saturating_sub(1);
            path.push(handle, at);
            handle = child_at(node, at);
        }
        path.push(handle, 0);
        rank_of(heap.block(handle), key)
    }

    fn at_or_below(&self, heap: &Heap, key: u128) -> Option<(Handle, usize)> {
        let mut path = Path { steps: [(self.root?, 0); LEVELS_MAX], len: 0 };
        let rank = self.descend(heap, key, &mut path);
        if rank > 0 {
            return Some((path.steps[path.len - 1].0, rank - 1));
        }
        // The last record of the subtree on the left.
        let level = (0..path.len - 1).rev().find(|level| path.steps[*level].1 > 0)?;
        let (node, at) = path.steps[level];
        let mut handle = child_at(heap.block(node), at - 1);
        for _ in level + 1..self.height {
            let node = heap.block(handle);
            handle = child_at(node, count(node) - 1);
        }
        Some((handle, count(heap.block(handle)) - 1))
    }

    fn at_or_above(&self, heap: &Heap, key: u128) -> Option<(Handle, usize)> {
        let mut path = Path { steps: [(self.root?, 0); LEVELS_MAX], len: 0 };
        let rank = self.descend(heap, key, &mut path);
        let leaf = path.steps[path.len - 1].0;
        let node = heap.block(leaf);
        if rank > 0 && key_at(node, rank - 1) == key {
            return Some((leaf, rank - 1));
        }
        if rank < count(node) {
            return Some((leaf, rank));
        }
        let level = (0..path.len - 1).rev().find(|level| {
            let (node, at) = path.steps[*level];
            at + 1 < count(heap.block(node))
        })?;
        let (node, at) = path.steps[level];
        let mut handle = child_at(heap.block(node), at + 1);
        for _ in level + 1..self.height {
            handle = child_at(heap.block(handle), 0);
        }
        Some((handle, 0))
    }

    fn new_node(&mut self, heap: &mut Heap, capacity: usize, value_bytes: usize) -> Handle {
        self.nodes += 1;
        let handle = heap.alloc_block(HEADER_BYTES + capacity * (KEY_BYTES + value_bytes));
        let node = heap.block_mut(handle);
        set_count(node, 0);
        node[2..4].copy_from_slice(&(capacity as u16).to_le_bytes());
        handle
    }

    fn free_node(&mut self, heap: &mut Heap, node: Handle) {
        self.nodes -= 1;
        heap.free(node);
    }

    /// Puts a record into the leaf at the end of `path`, making room where there is none.
    fn insert_record(&mut self, heap: &mut Heap, path: &Path, key: u128, value: &[u8; V]) {
        let (leaf, at) = path.steps[path.len - 1];
        let node = heap.block(leaf);
        if count(node) < capacity(node) {
            return insert_at(heap.block_mut(leaf), at, key, value);
        }
        if capacity(node) < NODE_RECORDS {
            let grown = self.new_node(heap, (capacity(heap.block(leaf)) * 2).min(NODE_RECORDS), V);
            move_records(heap, leaf, 0, grown, V);
            self.free_node(heap, leaf);
            self.root = Some(grown);
            return insert_at(heap.block_mut(grown), at, key, value);
        }
        let (right, moved) = self.split(heap, leaf, at, V);
        match right_place(at, moved) {
            Some(at) => insert_at(heap.block_mut(right), at, key, value),
            None => insert_at(heap.block_mut(leaf), at, key, value),
        }
        self.insert_child(heap, path, path.len - 1, right);
    }

    /// Splits a full node in which something will be put at `at`: the new node on the right, and how many records stay on the left.
    fn split(&mut self, heap: &mut Heap, node: Handle, at: usize, value_bytes: usize) -> (Handle, usize) {
        let right = self.new_node(heap, NODE_RECORDS, value_bytes);
        let stay = if at == NODE_RECORDS { NODE_RECORDS } else { NODE_RECORDS / 2 };
        move_records(heap, node, stay, right, value_bytes);
        (right, stay)
    }

    /// Makes `right`, which is not empty, the right neighbour of the node at `level` of `path`.
    fn insert_child(&mut self, heap: &mut Heap, path: &Path, level: usize, right: Handle) {
        let (mut level, mut right) = (level, right);
        let mut key = key_at(heap.block(right), 0);
        loop {
            let value = right.raw().to_le_bytes();
            if level == 0 {
                let left = path.steps[0].0;
                let root = self.new_node(heap, NODE_RECORDS, CHILD_BYTES);
                let left_key = key_at(heap.block(left), 0);
                let node = heap.block_mut(root);
                insert_at(node, 0, left_key, &left.raw().to_le_bytes());
                insert_at(node, 1, key, &value);
                self.root = Some(root);
                self.height += 1;
                return;
            }
            level -= 1;
            let (parent, at) = path.steps[level];
            let at = at + 1;
            if count(heap.block(parent)) < NODE_RECORDS {
                return insert_at(heap.block_mut(parent), at, key, &value);
            }
            let (added, stay) = self.split(heap, parent, at, CHILD_BYTES);
            match right_place(at, stay) {
                Some(at) => insert_at(heap.block_mut(added), at, key, &value),
                None => insert_at(heap.block_mut(parent), at, key, &value),
            }
            right = added;
            key = key_at(heap.block(added), 0);
        }
    }

    /// A record of the node at the end of `path` was removed: frees nodes that are empty, merges those that are nearly.
    fn after_removal(&mut self, heap: &mut Heap, path: &mut Path) {
        for level in (0..path.len).rev() {
            let handle = path.steps[level].0;
            let left = count(heap.block(handle));
            if level == 0 {
                self.lower_root(heap, handle, left);
                return;
            }
            let (parent, at) = path.steps[level - 1];
            if left == 0 {
                self.free_node(heap, handle);
                remove_at(heap.block_mut(parent), at, CHILD_BYTES);
            } else if left >= MERGE_BELOW || !self.merge(heap, parent, at, level + 1 < path.len) {
                return;
            }
        }
    }

    fn lower_root(&mut self, heap: &mut Heap, root: Handle, left: usize) {
        let mut root = root;
        if left == 0 {
            self.free_node(heap, root);
            (self.root, self.height) = (None, 0);
            return;
        }
        while self.height > 0 && count(heap.block(root)) == 1 {
            let child = child_at(heap.block(root), 0);
            self.free_node(heap, root);
            root = child;
            self.height -= 1;
        }
        self.root = Some(root);
    }

    /// Merges child `at` of a node, an inner node or a leaf, with its right or left neighbour, if they fit together.
    fn merge(&mut self, heap: &mut Heap, parent: Handle, at: usize, inner: bool) -> bool {
        let node = heap.block(parent);
        let fits = |left: usize, right: usize| {
            count(heap.block(child_at(node, left))) + count(heap.block(child_at(node, right))) <= MERGED_MAX
        };
        let right = if at + 1 < count(node) && fits(at, at + 1) {
            at + 1
        } else if at > 0 && fits(at - 1, at) {
            at
        } else {
            return false;
        };
        let (keep, gone) = (child_at(node, right - 1), child_at(node, right));
        let bound = key_at(node, right);
        let kept = count(heap.block(keep));
        move_records(heap, gone, 0, keep, if inner { CHILD_BYTES } else { V });
        if inner {
            // What is below may have been lowered since; the bound that the parent knows is lower than all.
            set_key(heap.block_mut(keep), kept, bound);
        }
        self.free_node(heap, gone);
        remove_at(heap.block_mut(parent), right, CHILD_BYTES);
        true
    }

    /// Panics unless the structure is whole; the number of records.
    #[cfg(test)]
    pub(crate) fn check(&self, heap: &Heap) -> u64 {
        fn walk<const V: usize>(
            heap: &Heap,
            node: Handle,
            height: usize,
            bounds: (u128, u128),
        ) -> (u64, u64) {
            let node = heap.block(node);
            let n = count(node);
            assert!(n > 0 && n <= capacity(node));
            for at in 0..n {
                assert!(at == 0 || key_at(node, at - 1) < key_at(node, at));
                assert!(key_at(node, at) >= bounds.0);
                assert!(key_at(node, at) <= bounds.1);
            }
            if height == 0 {
                return (n as u64, 1);
            }
            let (mut records, mut nodes) = (0, 1);
            for at in 0..n {
                let low = key_at(node, at);
                let high = if at + 1 < n { key_at(node, at + 1) - 1 } else { bounds.1 };
                let (more, below) = walk::<V>(heap, child_at(node, at), height - 1, (low, high));
                (records, nodes) = (records + more, nodes + below);
            }
            (records, nodes)
        }
        let Some(root) = self.root else {
            assert_eq!((self.len, self.nodes, self.height), (0, 0, 0));
            return 0;
        };
        let (records, nodes) = walk::<V>(heap, root, self.height, (0, u128::MAX));
        assert_eq!((records, nodes), (self.len, self.nodes));
        records
    }
}

/// Records in ascending order.
pub struct Iter<'h, const V: usize> {
    tree: &'h Tree<V>,
    heap: &'h Heap,
    at: Option<(Handle, usize)>,
}

impl<const V: usize> Iterator for Iter<'_, V> {
    type Item = (u128, [u8; V]);

    fn next(&mut self) -> Option<(u128, [u8; V])> {
        let (handle, at) = self.at?;
        let node = self.heap.block(handle);
        let found = record(node, at);
        self.at = if at + 1 < count(node) {
            Some((handle, at + 1))
        } else {
            found.0.checked_add(1).and_then(|key| self.tree.at_or_above(self.heap, key))
        };
        Some(found)
    }
}

/// A key comes that is below all that are in its leaf: the bounds on the way there must not be above it.
fn lower_bounds(heap: &mut Heap, path: &Path, key: u128) {
    for (node, _) in path.steps[..path.len - 1].iter().filter(|(_, at)| *at == 0) {
        let node = heap.block_mut(*node);
        if key < key_at(node, 0) {
            set_key(node, 0, key);
        }
    }
}

/// Where what was to be put at `at` belongs on the right of a node that was split after `stay` records; None if on the left.
fn right_place(at: usize, stay: usize) -> Option<usize> {
    // At the border: on the left if there is room, which there is unless the node was left full.
    (at > stay || at == stay && stay == NODE_RECORDS).then(|| at - stay)
}

#[inline]
fn count(node: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([node[0], node[1]]))
}

fn set_count(node: &mut [u8], count: usize) {
    node[0..2].copy_from_slice(&(count as u16).to_le_bytes());
}

#[inline]
fn capacity(node: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([node[2], node[3]]))
}

#[inline]
fn key_at(node: &[u8], at: usize) -> u128 {
    let from = HEADER_BYTES + at * KEY_BYTES;
    u128::from_le_bytes(node[from..from + KEY_BYTES].try_into().expect("a key has 16 bytes"))
}

fn set_key(node: &mut [u8], at: usize, key: u128) {
    let from = HEADER_BYTES + at * KEY_BYTES;
    node[from..from + KEY_BYTES].copy_from_slice(&key.to_le_bytes());
}

#[inline]
fn value_offset(node: &[u8], at: usize, value_bytes: usize) -> usize {
    HEADER_BYTES + capacity(node) * KEY_BYTES + at * value_bytes
}

fn value_at<const V: usize>(node: &[u8], at: usize) -> &[u8; V] {
    let from = value_offset(node, at, V);
    node[from..from + V].try_into().expect("a value has V bytes")
}

fn record<const V: usize>(node: &[u8], at: usize) -> (u128, [u8; V]) {
    (key_at(node, at), *value_at(node, at))
}

fn child_at(node: &[u8], at: usize) -> Handle {
    Handle::from_raw(u64::from_le_bytes(*value_at::<CHILD_BYTES>(node, at)))
        .expect("inner nodes hold handles")
}

/// Keys that are not above `key`.
#[inline]
fn rank_of(node: &[u8], key: u128) -> usize {
    let n = count(node);
    // What is added or asked for most is behind all that is there.
    if n == 0 || key_at(node, n - 1) <= key {
        return n;
    }
    let (mut low, mut high) = (0, n - 1);
    while low < high {
        let middle = (low + high) / 2;
        match key_at(node, middle).cmp(&key) {
            Ordering::Greater => high = middle,
            Ordering::Less | Ordering::Equal => low = middle + 1,
        }
    }
    low
}

fn insert_at(node: &mut [u8], at: usize, key: u128, value: &[u8]) {
    let n = count(node);
    let keys = HEADER_BYTES + at * KEY_BYTES;
    node.copy_within(keys..HEADER_BYTES + n * KEY_BYTES, keys + KEY_BYTES);
    set_key(node, at, key);
    let from = value_offset(node, at, value.len());
    let end = value_offset(node, n, value.len());
    node.copy_within(from..end, from + value.len());
    node[from..from + value.len()].copy_from_slice(value);
    set_count(node, n + 1);
}

fn remove_at(node: &mut [u8], at: usize, value_bytes: usize) {
    let n = count(node);
    let keys = HEADER_BYTES + at * KEY_BYTES;
    node.copy_within(keys + KEY_BYTES..HEADER_BYTES + n * KEY_BYTES, keys);
    let from = value_offset(node, at, value_bytes);
    let end = value_offset(node, n, value_bytes);
    node.copy_within(from + value_bytes..end, from);
    set_count(node, n - 1);
}

/// Moves the records of a node from `from` on to the end of another one.
fn move_records(heap: &mut Heap, source: Handle, from: usize, target: Handle, value_bytes: usize) {
    // Through the stack, for both lie in the same heap.
    let mut records = [0; NODE_RECORDS * KEY_BYTES];
    let node = heap.block_mut(source);
    let (end, capacity) = (count(node), capacity(node));
    let moved = end - from;
    let mut copy = |heap: &mut Heap, base_from: usize, bytes: usize, base_to: fn(usize) -> usize| {
        let mut done = 0;
        while done < moved {
            let part = (moved - done).min(records.len() / bytes.max(1));
            let start = base_from + (from + done) * bytes;
            records[..part * bytes].copy_from_slice(&heap.block(source)[start..start + part * bytes]);
            let node = heap.block_mut(target);
            let start = base_to(self::capacity(node)) + (count(node) + done) * bytes;
            node[start..start + part * bytes].copy_from_slice(&records[..part * bytes]);
            done += part;
        }
    };
    copy(heap, HEADER_BYTES, KEY_BYTES, |_| HEADER_BYTES);
    copy(heap, HEADER_BYTES + capacity * KEY_BYTES, value_bytes, |capacity| {
        HEADER_BYTES + capacity * KEY_BYTES
    });
    set_count(heap.block_mut(source), from);
    let node = heap.block_mut(target);
    let n = count(node);
    set_count(node, n + moved);
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
