//! Consumer groups: what each has delivered to which consumer, and what of it is pending. Not the commands, and no clock.
//!
//! All of it lies in the stream's own heap, so that it is freed with the stream's pages:
//!
//! ```text
//! groups, of a stream       hash of the name, number -> block: last id 16 | entries read 8 | pending | consumers | name
//! consumers, of a group     hash of the name, number -> block: seen 8 | active 8 | pending | name
//! pending, of a group       id -> consumer's block 8 | delivered at 8 | count 8
//! pending, of a consumer    id
//! ```
//!
//! Blocks are not moved, so that a pending entry knows its consumer by its block.

use memory::{Handle, Heap};
use stdx::hash::hash64;

use super::large::LargeStream;
use super::{Head, Id, Source, Stream, StreamMut};
use crate::tree::{Iter, STATE_BYTES, Tree};

/// Nodes of what is gone that each change frees, and that the removal of a group frees itself: 0.3 ms.
const DOOMED_NODES: usize = 64;
const DOOMED_NODES_AT_ONCE: usize = 4096;

const CONSUMER_HEADER: usize = 16 + STATE_BYTES;
const GROUP_HEADER: usize = 24 + 2 * STATE_BYTES;
const PENDING_BYTES: usize = 24;

/// Pending entries of a group.
type PendingTree = Tree<PENDING_BYTES>;
/// Names to the blocks of what they name.
type Names = Tree<8>;

/// How often a pending entry was delivered, when last, and to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// To whom: good as long as the consumer is there.
    pub consumer: ConsumerId,
    /// Unix time in ms.
    pub delivered_ms: i64,
    pub count: i64,
}

impl Pending {
    fn to_bytes(self) -> [u8; PENDING_BYTES] {
        let mut bytes = [0; PENDING_BYTES];
        bytes[..8].copy_from_slice(&self.consumer.0.raw().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.delivered_ms.to_le_bytes());
        bytes[16..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; PENDING_BYTES]) -> Pending {
        Pending {
            consumer: ConsumerId(handle_at(bytes, 0)),
            delivered_ms: number_at(bytes, 8) as i64,
            count: number_at(bytes, 16) as i64,
        }
    }
}

/// A consumer of a group, as long as it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumerId(Handle);

/// A group as its block keeps it.
struct Group {
    last: Id,
    read: i64,
    pending: PendingTree,
    consumers: Names,
}

impl Group {
    fn load(block: &[u8]) -> Group {
        Group {
            last: Id { ms: number_at(block, 0), seq: number_at(block, 8) },
            read: number_at(block, 16) as i64,
            pending: Tree::load(state_at(block, 24)),
            consumers: Tree::load(state_at(block, 24 + STATE_BYTES)),
        }
    }

    fn store(&self, block: &mut [u8]) {
        block[..8].copy_from_slice(&self.last.ms.to_le_bytes());
        block[8..16].copy_from_slice(&self.last.seq.to_le_bytes());
        block[16..24].copy_from_slice(&self.read.to_le_bytes());
        block[24..24 + STATE_BYTES].copy_from_slice(&self.pending.state());
        block[24 + STATE_BYTES..GROUP_HEADER].copy_from_slice(&self.consumers.state());
    }
}

/// A consumer as its block keeps it.
struct Consumer {
    seen_ms: i64,
    active_ms: i64,
    pending: Tree<0>,
}

impl Consumer {
    fn load(block: &[u8]) -> Consumer {
        Consumer {
            seen_ms: number_at(block, 0) as i64,
            active_ms: number_at(block, 8) as i64,
            pending: Tree::load(state_at(block, 16)),
        }
    }

    fn store(&self, block: &mut [u8]) {
        block[..8].copy_from_slice(&self.seen_ms.to_le_bytes());
        block[8..16].copy_from_slice(&self.active_ms.to_le_bytes());
        block[16..CONSUMER_HEADER].copy_from_slice(&self.pending.state());
    }
}

/// A group that was removed, while it is being freed.
pub(super) struct Doomed {
    pending: PendingTree,
    consumers: Names,
}

impl Doomed {
    /// Frees a part; true when nothing is left.
    fn release(&mut self, heap: &mut Heap, nodes_max: usize) -> bool {
        if !self.pending.release(heap, nodes_max) {
            return false;
        }
        for _ in 0..nodes_max {
            let Some((key, raw)) = self.consumers.first(heap) else { return true };
            let at = handle_at(&raw, 0);
            let mut consumer = Consumer::load(heap.block(at));
            let done = consumer.pending.release(heap, nodes_max);
            consumer.store(heap.block_mut(at));
            if !done {
                return false;
            }
            heap.free(at);
            self.consumers.remove(heap, key);
        }
        self.consumers.is_empty()
    }
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn handle_at(bytes: &[u8], at: usize) -> Handle {
    Handle::from_raw(number_at(bytes, at)).expect("a handle was stored")
}

fn state_at(block: &[u8], at: usize) -> &[u8; STATE_BYTES] {
    block[at..at + STATE_BYTES].try_into().expect("the state of a tree")
}

/// The names of groups or consumers: where the one with this name is, and its key.
fn find(names: &Names, heap: &Heap, hash: u64, name: &[u8], header: usize) -> Result<(u128, Handle), u128> {
    let mut free = u128::from(hash) << 64;
    for (key, raw) in names.iter(heap, free) {
        if (key >> 64) as u64 != hash {
            break;
        }
        let at = handle_at(&raw, 0);
        if name_of(heap.block(at), header) == name {
            return Ok((key, at));
        }
        free = key.wrapping_add(1);
    }
    Err(free)
}

/// The name in a block: behind the header its length and its bytes, for a block may be longer than was asked for.
fn name_of(block: &[u8], header: usize) -> &[u8] {
    let bytes = u32::from_le_bytes(block[header..header + 4].try_into().expect("4 bytes")) as usize;
    &block[header + 4..header + 4 + bytes]
}

/// A block with a name behind its header.
fn named_block(heap: &mut Heap, header: usize, name: &[u8]) -> Handle {
    let at = heap.alloc_block(header + 4 + name.len());
    let block = heap.block_mut(at);
    block[header..header + 4].copy_from_slice(&(name.len() as u32).to_le_bytes());
    block[header + 4..header + 4 + name.len()].copy_from_slice(name);
    at
}

impl LargeStream {
    fn group_at(&self, name: &[u8]) -> Option<(u128, Handle)> {
        find(&self.groups, &self.heap, self.hash(name), name, GROUP_HEADER).ok()
    }

    fn hash(&self, name: &[u8]) -> u64 {
        hash64(self.storage.seed, name)
    }

    /// Frees a part of the groups that were removed.
    pub(super) fn release_doomed(&mut self) {
        if let Some(doomed) = self.doomed.last_mut()
            && doomed.release(&mut self.heap, DOOMED_NODES)
        {
            self.doomed.pop();
        }
    }

    /// Copies all groups of another stream.
    pub(super) fn copy_groups(&mut self, other: &LargeStream) {
        for (key, raw) in other.groups.iter(&other.heap, 0) {
            let block = other.heap.block(handle_at(&raw, 0));
            let from = Group::load(block);
            let mut group =
                Group { last: from.last, read: from.read, pending: Tree::new(), consumers: Tree::new() };
            let mut moved = std::collections::HashMap::new();
            for (key, raw) in from.consumers.iter(&other.heap, 0) {
                let old = handle_at(&raw, 0);
                let block = other.heap.block(old);
                let new = named_block(&mut self.heap, CONSUMER_HEADER, name_of(block, CONSUMER_HEADER));
                let from = Consumer::load(block);
                let mut pending = Tree::new();
                for (id, _) in from.pending.iter(&other.heap, 0) {
                    pending.insert(&mut self.heap, id, &[]);
                }
                Consumer { pending, ..from }.store(self.heap.block_mut(new));
                group.consumers.insert(&mut self.heap, key, &new.raw().to_le_bytes());
                moved.insert(old, new);
            }
            for (id, bytes) in from.pending.iter(&other.heap, 0) {
                let pending = Pending::of(&bytes);
                let consumer = ConsumerId(moved[&pending.consumer.0]);
                group.pending.insert(&mut self.heap, id, &Pending { consumer, ..pending }.to_bytes());
            }
            let at = named_block(&mut self.heap, GROUP_HEADER, name_of(block, GROUP_HEADER));
            group.store(self.heap.block_mut(at));
            self.groups.insert(&mut self.heap, key, &at.raw().to_le_bytes());
        }
    }
}

/// A group, to be read.
pub struct GroupRef<'a> {
    stream: &'a LargeStream,
    at: Handle,
    group: Group,
}

impl<'a> Stream<'a> {
    fn large(self) -> Option<&'a LargeStream> {
        match self.0 {
            Source::Large(large) => Some(large),
            // A stream with groups is large.
            Source::Packed(_) => None,
        }
    }

    /// Groups.
    pub fn groups_len(self) -> u64 {
        self.large().map_or(0, |large| large.groups.len())
    }

    /// The group with this name.
    pub fn group(self, name: &[u8]) -> Option<GroupRef<'a>> {
        let stream = self.large()?;
        let (_, at) = stream.group_at(name)?;
        Some(GroupRef { stream, at, group: Group::load(stream.heap.block(at)) })
    }

    /// All groups, by their names. O(n log n)
    pub fn groups(self) -> Vec<GroupRef<'a>> {
        let Some(stream) = self.large() else { return Vec::new() };
        let found = stream.groups.iter(&stream.heap, 0).map(|(_, raw)| {
            let at = handle_at(&raw, 0);
            GroupRef { stream, at, group: Group::load(stream.heap.block(at)) }
        });
        let mut groups: Vec<_> = found.collect();
        groups.sort_by(|a, b| a.name().cmp(b.name()));
        groups
    }

    /// Entries that were added up to the one with this id, as far as that can be told without counting.
    fn added_up_to(self, id: Id, first: Id) -> Option<i64> {
        let head = self.head();
        if head.added == 0 {
            return Some(0);
        }
        if head.len == 0 && id <= head.last {
            return Some(head.added as i64);
        }
        if id != Id::ZERO && id < head.max_deleted {
            return None;
        }
        if id == head.last {
            return Some(head.added as i64);
        }
        if id > head.last {
            return None;
        }
        if head.max_deleted == Id::ZERO || head.max_deleted < first {
            if id < first {
                return Some((head.added - head.len) as i64);
            } else if id == first {
                return Some((head.added - head.len) as i64 + 1);
            }
        }
        None
    }
}

/// Whether an entry behind `id` may have been removed by its id.
fn has_gaps_behind(head: &Head, id: Id) -> bool {
    head.len > 0 && head.max_deleted != Id::ZERO && id <= head.max_deleted
}

impl<'a> GroupRef<'a> {
    pub fn name(&self) -> &'a [u8] {
        name_of(self.stream.heap.block(self.at), GROUP_HEADER)
    }

    /// The last id that was delivered.
    pub fn last(&self) -> Id {
        self.group.last
    }

    /// Entries of the stream up to that id, if that is known.
    pub fn entries_read(&self) -> Option<i64> {
        (self.group.read != NOT_KNOWN).then_some(self.group.read)
    }

    /// Entries that were not delivered yet, if that is known. O(entries removed at the start of the stream's first block)
    pub fn lag(&self) -> Option<i64> {
        let stream = Stream(Source::Large(self.stream));
        let head = stream.head();
        if head.added == 0 {
            return Some(0);
        }
        if self.group.read != NOT_KNOWN && !has_gaps_behind(&head, self.group.last) {
            return Some((head.added as i64).wrapping_sub(self.group.read));
        }
        stream
            .added_up_to(self.group.last, stream.first_id())
            .map(|read| (head.added as i64).wrapping_sub(read))
    }

    /// Pending entries.
    pub fn pending_len(&self) -> u64 {
        self.group.pending.len()
    }

    /// The first and the last pending entry.
    pub fn pending_ends(&self) -> Option<(Id, Id)> {
        let (pending, heap) = (&self.group.pending, &self.stream.heap);
        Some((Id::of(pending.first(heap)?.0), Id::of(pending.last(heap)?.0)))
    }

    /// Pending entries from an id on.
    pub fn pending(&self, from: Id) -> impl Iterator<Item = (Id, Pending)> {
        let records = self.group.pending.iter(&self.stream.heap, from.key());
        records.map(|(key, bytes)| (Id::of(key), Pending::of(&bytes)))
    }

    /// The pending entry with this id.
    pub fn pending_at(&self, id: Id) -> Option<Pending> {
        self.group.pending.get(&self.stream.heap, id.key()).map(Pending::of)
    }

    /// Consumers.
    pub fn consumers_len(&self) -> u64 {
        self.group.consumers.len()
    }

    /// The consumer with this name.
    pub fn consumer(&self, name: &[u8]) -> Option<ConsumerRef<'a>> {
        let (heap, hash) = (&self.stream.heap, self.stream.hash(name));
        let (_, at) = find(&self.group.consumers, heap, hash, name, CONSUMER_HEADER).ok()?;
        Some(self.consumer_at(ConsumerId(at)))
    }

    /// The consumer of a pending entry.
    pub fn consumer_at(&self, id: ConsumerId) -> ConsumerRef<'a> {
        ConsumerRef {
            heap: &self.stream.heap,
            at: id.0,
            consumer: Consumer::load(self.stream.heap.block(id.0)),
        }
    }

    /// All consumers, by their names. O(n log n)
    pub fn consumers(&self) -> Vec<ConsumerRef<'a>> {
        let records = self.group.consumers.iter(&self.stream.heap, 0);
        let mut consumers: Vec<_> =
            records.map(|(_, raw)| self.consumer_at(ConsumerId(handle_at(&raw, 0)))).collect();
        consumers.sort_by(|a, b| a.name().cmp(b.name()));
        consumers
    }
}

/// A consumer, to be read.
pub struct ConsumerRef<'a> {
    heap: &'a Heap,
    at: Handle,
    consumer: Consumer,
}

impl<'a> ConsumerRef<'a> {
    pub fn name(&self) -> &'a [u8] {
        name_of(self.heap.block(self.at), CONSUMER_HEADER)
    }

    /// Unix time in ms of its last attempt to read or claim.
    pub fn seen_ms(&self) -> i64 {
        self.consumer.seen_ms
    }

    /// Unix time in ms when it last got an entry; -1 if never.
    pub fn active_ms(&self) -> i64 {
        self.consumer.active_ms
    }

    /// Its pending entries.
    pub fn pending_len(&self) -> u64 {
        self.consumer.pending.len()
    }

    /// Ids of its pending entries from one on.
    pub fn pending(&self, from: Id) -> Ids<'_> {
        Ids(self.consumer.pending.iter(self.heap, from.key()))
    }
}

/// Ids in ascending order.
pub struct Ids<'h>(Iter<'h, 0>);

impl Iterator for Ids<'_> {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        self.0.next().map(|(key, _)| Id::of(key))
    }
}

/// Entries read when that is not known.
pub const NOT_KNOWN: i64 = -1;

/// A group, to be changed; what was changed is kept when it is given up.
pub struct GroupMut<'s> {
    stream: &'s mut LargeStream,
    at: Handle,
    group: Group,
}

impl StreamMut<'_, '_> {
    /// Makes a group that has delivered up to `last`, of which `read` entries; false if there is one of this name.
    pub fn create_group(&mut self, name: &[u8], last: Id, read: i64) -> bool {
        let large = self.make_large();
        large.release_doomed();
        let hash = large.hash(name);
        let Err(key) = find(&large.groups, &large.heap, hash, name, GROUP_HEADER) else { return false };
        let at = named_block(&mut large.heap, GROUP_HEADER, name);
        let group = Group { last, read, pending: Tree::new(), consumers: Tree::new() };
        group.store(large.heap.block_mut(at));
        large.groups.insert(&mut large.heap, key, &at.raw().to_le_bytes())
    }

    /// Removes a group; whether there was one. What it holds is freed bit by bit, by this and the next changes.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        let Some(large) = self.large() else { return false };
        let Some((key, at)) = large.group_at(name) else { return false };
        let group = Group::load(large.heap.block(at));
        large.groups.remove(&mut large.heap, key);
        large.heap.free(at);
        let mut doomed = Doomed { pending: group.pending, consumers: group.consumers };
        if !doomed.release(&mut large.heap, DOOMED_NODES_AT_ONCE) {
            large.doomed.push(doomed);
        }
        true
    }

    /// The group with this name, to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<GroupMut<'_>> {
        let stream = self.large()?;
        stream.release_doomed();
        let (_, at) = stream.group_at(name)?;
        let group = Group::load(stream.heap.block(at));
        Some(GroupMut { stream, at, group })
    }
}

impl GroupMut<'_> {
    /// The stream, to be read. Of the group it shows what was last kept.
    pub fn stream(&self) -> Stream<'_> {
        Stream(Source::Large(self.stream))
    }

    /// The last id that was delivered.
    pub fn last(&self) -> Id {
        self.group.last
    }

    /// Entries of the stream up to that id, -1 if that is not known.
    pub fn entries_read(&self) -> i64 {
        self.group.read
    }

    /// Sets the last id that was delivered, and how many entries that were.
    pub fn set_last(&mut self, last: Id, read: i64) {
        (self.group.last, self.group.read) = (last, read);
    }

    /// Entries with these ids, ascending, were delivered: those that are new move the group on.
    pub fn advance(&mut self, ids: impl Iterator<Item = Id>) {
        let stream = Stream(Source::Large(self.stream));
        let (head, first) = (stream.head(), stream.first_id());
        for id in ids {
            if id <= self.group.last {
                continue;
            }
            if self.group.read != NOT_KNOWN
                && self.group.last >= first
                && !has_gaps_behind(&head, self.group.last)
            {
                self.group.read = self.group.read.wrapping_add(1);
            } else if head.added > 0 {
                self.group.read = stream.added_up_to(id, first).unwrap_or(NOT_KNOWN);
            }
            self.group.last = id;
        }
    }

    /// The consumer with this name, which was seen now; made, and true, if there was none.
    pub fn consumer(&mut self, name: &[u8], now_ms: i64) -> (ConsumerId, bool) {
        let hash = self.stream.hash(name);
        let heap = &mut self.stream.heap;
        match find(&self.group.consumers, heap, hash, name, CONSUMER_HEADER) {
            Ok((_, at)) => {
                heap.block_mut(at)[..8].copy_from_slice(&now_ms.to_le_bytes());
                (ConsumerId(at), false)
            }
            Err(key) => {
                let at = named_block(heap, CONSUMER_HEADER, name);
                let consumer = Consumer { seen_ms: now_ms, active_ms: -1, pending: Tree::new() };
                consumer.store(heap.block_mut(at));
                self.group.consumers.insert(heap, key, &at.raw().to_le_bytes());
                (ConsumerId(at), true)
            }
        }
    }

    /// Whether there is a consumer with this name.
    pub fn has_consumer(&self, name: &[u8]) -> bool {
        let hash = self.stream.hash(name);
        find(&self.group.consumers, &self.stream.heap, hash, name, CONSUMER_HEADER).is_ok()
    }

    /// Removes a consumer; its pending entries are pending no more: how many they were. None if there is no such consumer.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<u64> {
        let hash = self.stream.hash(name);
        let heap = &mut self.stream.heap;
        let (key, at) = find(&self.group.consumers, heap, hash, name, CONSUMER_HEADER).ok()?;
        let mut consumer = Consumer::load(heap.block(at));
        let pending = consumer.pending.len();
        while let Some((id, _)) = consumer.pending.first(heap) {
            consumer.pending.remove(heap, id);
            self.group.pending.remove(heap, id);
        }
        self.group.consumers.remove(heap, key);
        heap.free(at);
        Some(pending)
    }

    /// The pending entry with this id.
    pub fn pending_at(&self, id: Id) -> Option<Pending> {
        self.group.pending.get(&self.stream.heap, id.key()).map(Pending::of)
    }

    /// Pending entries from an id on.
    pub fn pending(&self, from: Id) -> impl Iterator<Item = (Id, Pending)> {
        let records = self.group.pending.iter(&self.stream.heap, from.key());
        records.map(|(key, bytes)| (Id::of(key), Pending::of(&bytes)))
    }

    /// Ids of a consumer's pending entries from one on, `count` at most.
    pub fn pending_of(&self, consumer: ConsumerId, from: Id, count: u64) -> Vec<Id> {
        let consumer = Consumer::load(self.stream.heap.block(consumer.0));
        let ids = consumer.pending.iter(&self.stream.heap, from.key()).map(|(key, _)| Id::of(key));
        ids.take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
    }

    /// Entries with these ids are pending from now on, whoever had them before, delivered once to this consumer.
    pub fn deliver(&mut self, to: ConsumerId, ids: &[Id], now_ms: i64) {
        let mut consumer = Consumer::load(self.stream.heap.block(to.0));
        let pending = Pending { consumer: to, delivered_ms: now_ms, count: 1 };
        for id in ids {
            let heap = &mut self.stream.heap;
            // New ones are behind all others, mostly.
            if self.group.pending.last(heap).is_some_and(|(last, _)| last >= id.key())
                && let Some(before) = self.group.pending.get(heap, id.key()).map(Pending::of)
                && before.consumer != to
            {
                forget(heap, before.consumer, *id);
            }
            self.group.pending.insert(heap, id.key(), &pending.to_bytes());
            consumer.pending.insert(heap, id.key(), &[]);
        }
        if !ids.is_empty() {
            consumer.active_ms = now_ms;
        }
        consumer.store(self.stream.heap.block_mut(to.0));
    }

    /// Makes an entry pending, whoever had it before; whoever has it now is active.
    pub fn claim(&mut self, id: Id, pending: Pending, now_ms: i64) {
        let heap = &mut self.stream.heap;
        let before = self.group.pending.get(heap, id.key()).map(Pending::of);
        self.group.pending.insert(heap, id.key(), &pending.to_bytes());
        let mut consumer = Consumer::load(heap.block(pending.consumer.0));
        if before.is_none_or(|before| before.consumer != pending.consumer) {
            if let Some(before) = before {
                forget(heap, before.consumer, id);
            }
            consumer.pending.insert(heap, id.key(), &[]);
        }
        consumer.active_ms = now_ms;
        consumer.store(heap.block_mut(pending.consumer.0));
    }

    /// A pending entry was delivered once more to the consumer that has it.
    pub fn redeliver(&mut self, id: Id, now_ms: i64) {
        if let Some(bytes) = self.group.pending.get_mut(&mut self.stream.heap, id.key()) {
            let pending = Pending::of(bytes);
            let count = pending.count.wrapping_add(1);
            *bytes = Pending { delivered_ms: now_ms, count, ..pending }.to_bytes();
        }
    }

    /// An entry is pending no more; whether it was.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        let heap = &mut self.stream.heap;
        let Some(bytes) = self.group.pending.remove(heap, id.key()) else { return false };
        forget(heap, Pending::of(&bytes).consumer, id);
        true
    }
}

/// Takes an entry from a consumer.
fn forget(heap: &mut Heap, from: ConsumerId, id: Id) {
    let mut consumer = Consumer::load(heap.block(from.0));
    consumer.pending.remove(heap, id.key());
    consumer.store(heap.block_mut(from.0));
}

impl Drop for GroupMut<'_> {
    fn drop(&mut self) {
        self.group.store(self.stream.heap.block_mut(self.at));
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
