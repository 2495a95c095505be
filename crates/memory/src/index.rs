//! HOT: the index of a keyspace: from a key's hash to the handle of its entry. It knows no key and no entry, only handles; the caller compares.
//!
//! Linear hashing (Litwin, VLDB 1980) over cache lines of ten slots (`index/line.rs` draws them), with half-lines for what a bucket cannot hold.
//! With `n` buckets, 2^l <= n < 2^(l+1), a hash belongs to bucket `hash mod 2^(l+1)`, or if there is none such yet to `hash mod 2^l`:
//!
//! ```text
//! bucket    0 ...  s-1  |  s ... 2^l-1  |  2^l ... n-1          s = n - 2^l
//!           split, l+1  |  not yet, l   |  split off, l+1       bits of the hash that all entries share
//! ```
//!
//! An insert splits at most one bucket, bucket `s` into `s` and `n`; a removal merges at most one pair. Nothing is ever rehashed as a whole:
//! the worst insert moves the entries of one bucket. The load is nine entries per bucket, 8.4 bytes per entry in the mean.
//!
//! An empty index owns no memory. The first insert takes a chunk of 64 buckets, and as they are there anyway, splits early until all are in use.

#![allow(unsafe_code, reason = "lines are reached through raw pointers into the arena")]

mod chunks;
mod hint;
mod line;
#[cfg(test)]
mod tests;
mod walk;

pub use hint::IndexHint;

use crate::arena::Arena;
use crate::handle::Handle;
use chunks::{CHUNK_BYTES, Directory, Overflow};
use line::{BUCKET_SLOTS, Bucket, Item, OVERFLOW_SLOTS, OverflowLine, fingerprint};
use std::sync::Arc;

/// Buckets of a chunk: 4096 / 64.
const BUCKETS_PER_CHUNK: u32 = (CHUNK_BYTES / size_of::<Bucket>()) as u32;
/// Entries per bucket at which an index that has outgrown its first chunk splits: 0.9 x 10 slots.
const LOAD: u64 = 9;
/// Inserts before a split at which its bucket, and at which the bucket's entries are asked for: the split then waits for no memory.
const BUCKET_AHEAD: u64 = 6;
const ENTRIES_AHEAD: u64 = 3;
/// The same while the first chunk has unused buckets.
const LOAD_FIRST_CHUNK: u64 = 4;
/// Where an entry's slot is. Good until the next insert or removal; after that it may name another slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    line: Line,
    slot: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line {
    Bucket(u32),
    Overflow(u32),
}

/// See the head of this file.
pub struct Index {
    arena: &'static Arena,
    bucket_count: u32,
    count: u64,
    count_with_deadline: u64,
    buckets: Directory,
    overflow: Overflow,
    hint: Option<Arc<IndexHint>>,
}

impl Index {
    /// An empty index that will take its chunks from `arena`.
    pub fn new(arena: &'static Arena) -> Index {
        Index {
            arena,
            bucket_count: 0,
            count: 0,
            count_with_deadline: 0,
            buckets: Directory::default(),
            overflow: Overflow::default(),
            hint: None,
        }
    }

    /// Entries.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Entries whose deadline bit is set.
    pub fn count_with_deadline(&self) -> u64 {
        self.count_with_deadline
    }

    /// Buckets, 0 for an index that never had an entry.
    pub fn bucket_count(&self) -> u32 {
        self.bucket_count
    }

    /// Bytes of chunks.
    pub fn chunk_bytes(&self) -> usize {
        (self.buckets.chunks() + self.overflow.chunks()) as usize * CHUNK_BYTES
    }

    /// Bytes of chunks and of the tables that lead to them.
    pub fn bytes(&self) -> usize {
        self.chunk_bytes()
            + self.buckets.table_bytes()
            + self.overflow.directory().table_bytes()
            + self.overflow.free_map_bytes()
    }

    /// From now on keeps `hint` up to date instead of the hint it had, which it returns; that one goes on to describe nothing.
    pub fn set_hint(&mut self, hint: Option<Arc<IndexHint>>) -> Option<Arc<IndexHint>> {
        if let Some(old) = &self.hint {
            old.publish_count(0);
        }
        let old = std::mem::replace(&mut self.hint, hint);
        self.publish_tables();
        self.publish_count();
        old
    }

    /// The slot of the entry with `hash` for which `eq` is true. `eq` is asked only about entries whose fingerprint fits (1 in 255 others does).
    #[inline]
    pub fn find(&self, hash: u64, mut eq: impl FnMut(Handle) -> bool) -> Option<(Position, Handle)> {
        self.find_item(hash, |item| eq(item.handle())).map(|(at, item)| (at, item.handle()))
    }

    /// The slot with `hash` that holds `handle`; reads no entry.
    pub fn position_of(&self, hash: u64, handle: Handle) -> Option<Position> {
        self.find_item(hash, |item| item.handle() == handle).map(|(at, _)| at)
    }

    #[inline]
    fn find_item(&self, hash: u64, mut eq: impl FnMut(Item) -> bool) -> Option<(Position, Item)> {
        if self.bucket_count == 0 {
            return None;
        }
        let number = bucket_of(hash, self.bucket_count);
        let wanted = fingerprint(hash);
        let bucket = self.bucket(number);
        let mut matches = bucket.matches(wanted);
        while matches != 0 {
            let slot = matches.trailing_zeros();
            let item = bucket.item(slot as usize);
            if eq(item) {
                return Some((Position { line: Line::Bucket(number), slot: slot as u8 }, item));
            }
            matches &= matches - 1;
        }
        let mut link = bucket.link();
        while link != 0 {
            let line = self.line(link);
            let mut matches = line.matches(wanted);
            while matches != 0 {
                let slot = matches.trailing_zeros();
                let item = line.item(slot as usize);
                if eq(item) {
                    return Some((Position { line: Line::Overflow(link), slot: slot as u8 }, item));
                }
                matches &= matches - 1;
            }
            link = line.next();
        }
        None
    }

    /// Adds an entry, which must not be there yet. Splits at most one bucket, for which it asks `hash_of` each of its entries.
    pub fn insert(&mut self, hash: u64, handle: Handle, deadline: bool, hash_of: impl Fn(Handle) -> u64) {
        if self.bucket_count == 0 {
            self.buckets.push(self.arena);
            self.bucket_count = 1;
            self.publish_tables();
            self.publish_count();
        }
        self.append(bucket_of(hash, self.bucket_count), Item::new(fingerprint(hash), handle, deadline));
        self.count += 1;
        self.count_with_deadline += u64::from(deadline);
        let above = split_above(self.bucket_count);
        if self.count > above {
            self.split(hash_of);
        } else if above - self.count == BUCKET_AHEAD {
            prefetch(std::ptr::from_ref(self.bucket(self.next_split())).cast());
        } else if above - self.count == ENTRIES_AHEAD {
            self.for_each(self.next_split(), |item| prefetch(self.entry_address(item)));
        }
    }

    /// Removes the entry with `hash` at `at`. Merges at most one pair of buckets.
    pub fn remove(&mut self, hash: u64, at: Position) {
        let removed = self.item(at);
        let number = bucket_of(hash, self.bucket_count);
        let (last, item) = self.last(number).expect("the bucket of an entry is not empty");
        if last != at {
            self.set_item(at, item);
        }
        self.drop_last(number);
        self.count -= 1;
        self.count_with_deadline -= u64::from(removed.has_deadline());
        if self.count < merge_below(self.bucket_count) {
            self.merge();
        }
    }

    /// Replaces what the slot at `at` holds: the entry has moved, or has got or lost its deadline.
    pub fn set(&mut self, at: Position, handle: Handle, deadline: bool) {
        let old = self.item(at);
        self.count_with_deadline += u64::from(deadline);
        self.count_with_deadline -= u64::from(old.has_deadline());
        self.set_item(at, old.with_handle(handle, deadline));
    }

    /// Handle and deadline bit of the slot at `at`.
    pub fn get(&self, at: Position) -> (Handle, bool) {
        let item = self.item(at);
        (item.handle(), item.has_deadline())
    }

    /// Gives back at most `limit` chunks and forgets every entry. True when nothing is left; until then the index must not be used.
    pub fn release(&mut self, limit: u32) -> bool {
        self.bucket_count = 0;
        self.count = 0;
        self.count_with_deadline = 0;
        self.publish_count();
        let done = self.overflow.release(self.arena, limit) && self.buckets.release(self.arena, limit);
        if done {
            self.publish_tables();
        }
        done
    }

    /// Gives back what an empty index still holds: it keeps a chunk or two, for whoever adds and removes the same key in turns.
    pub fn trim(&mut self) {
        if self.count == 0 && self.bucket_count > 0 {
            self.release(u32::MAX);
        }
    }

    fn publish_tables(&self) {
        if let Some(hint) = &self.hint {
            hint.publish_tables(self.buckets.table(), self.overflow.directory().table());
        }
    }

    #[inline]
    fn publish_count(&self) {
        if let Some(hint) = &self.hint {
            hint.publish_count(self.bucket_count);
        }
    }

    /// Bits of the hash that all entries of bucket `number` share.
    fn hash_bits(&self, number: u32) -> u32 {
        let level = level(self.bucket_count);
        let first_split_off = 1 << level;
        if number >= self.bucket_count - first_split_off && number < first_split_off {
            level
        } else {
            level + 1
        }
    }

    /// The bucket that is split next.
    fn next_split(&self) -> u32 {
        self.bucket_count - (1 << level(self.bucket_count))
    }

    fn split(&mut self, hash_of: impl Fn(Handle) -> u64) {
        let new = self.bucket_count;
        assert!(new < u32::MAX, "an index has fewer than 2^32 buckets");
        let from = self.next_split();
        if new.is_multiple_of(BUCKETS_PER_CHUNK) {
            self.buckets.push(self.arena);
            self.publish_tables();
        }
        self.bucket_count += 1;
        let mut items = self.collect(from);
        let moving =
            partition(items.as_mut_slice(), |item| bucket_of(hash_of(item.handle()), new + 1) == from);
        let (stay, go) = items.as_slice().split_at(moving);
        self.fill(from, stay);
        self.bucket(new).set_epoch(self.bucket(from).epoch());
        self.fill(new, go);
        self.publish_count();
    }

    fn merge(&mut self) {
        let last = self.bucket_count - 1;
        let into = last - (1 << level(last));
        let mut items = self.collect(into);
        for item in self.collect(last).as_slice() {
            items.push(*item);
        }
        self.fill(last, &[]);
        self.fill(into, items.as_slice());
        self.bucket_count = last;
        self.publish_count();
        if last.is_multiple_of(BUCKETS_PER_CHUNK) {
            self.buckets.pop(self.arena);
        }
    }

    /// A bucket's entries, copied.
    fn collect(&self, number: u32) -> Items {
        let mut items = Items::default();
        self.for_each(number, |item| items.push(item));
        items
    }

    /// Makes `items` the entries of bucket `number`, on the lowest overflow lines that are free.
    fn fill(&mut self, number: u32, items: &[Item]) {
        let mut link = self.bucket(number).link();
        while link != 0 {
            let next = self.line(link).next();
            self.overflow.give(self.arena, link);
            link = next;
        }
        let (first, rest) = items.split_at(items.len().min(BUCKET_SLOTS));
        self.bucket(number).fill(first);
        let link = self.fill_lines(rest);
        self.bucket(number).set_link(link);
    }

    fn fill_lines(&mut self, items: &[Item]) -> u32 {
        if items.is_empty() {
            return 0;
        }
        let chunks = self.overflow.chunks();
        let number = self.overflow.take(self.arena);
        if self.overflow.chunks() != chunks {
            self.publish_tables();
        }
        let fits = if items.len() <= OVERFLOW_SLOTS { items.len() } else { OVERFLOW_SLOTS - 1 };
        let (first, rest) = items.split_at(fits);
        let next = self.fill_lines(rest);
        self.line(number).fill(first, next);
        number
    }

    fn append(&mut self, number: u32, item: Item) {
        let bucket = self.bucket(number);
        let len = bucket.len();
        if len < BUCKET_SLOTS {
            return bucket.set(len, item);
        }
        let mut link = bucket.link();
        if link == 0 {
            let added = self.fill_lines(&[item]);
            return self.bucket(number).set_link(added);
        }
        while self.line(link).next() != 0 {
            link = self.line(link).next();
        }
        let len = self.line(link).len();
        if len < OVERFLOW_SLOTS {
            return self.line(link).set(len, item);
        }
        let displaced = self.line(link).item(OVERFLOW_SLOTS - 1);
        let added = self.fill_lines(&[displaced, item]);
        self.line(link).clear(OVERFLOW_SLOTS - 1);
        self.line(link).set_next(added);
    }

    /// The last entry of a bucket.
    fn last(&self, number: u32) -> Option<(Position, Item)> {
        let bucket = self.bucket(number);
        let mut link = bucket.link();
        if link == 0 {
            let slot = bucket.len().checked_sub(1)?;
            return Some((Position { line: Line::Bucket(number), slot: slot as u8 }, bucket.item(slot)));
        }
        while self.line(link).next() != 0 {
            link = self.line(link).next();
        }
        let slot = self.line(link).len() - 1;
        Some((Position { line: Line::Overflow(link), slot: slot as u8 }, self.line(link).item(slot)))
    }

    /// Frees the slot of the last entry, and a line that has become needless: an empty one, or one whose only entry fits where its link is.
    fn drop_last(&mut self, number: u32) {
        let bucket = self.bucket(number);
        let mut link = bucket.link();
        if link == 0 {
            return bucket.clear(bucket.len() - 1);
        }
        let mut parent = 0;
        while self.line(link).next() != 0 {
            parent = link;
            link = self.line(link).next();
        }
        let line = self.line(link);
        let len = line.len() - 1;
        line.clear(len);
        if parent == 0 && len == 0 {
            bucket.set_link(0);
            self.overflow.give(self.arena, link);
        } else if parent != 0 && len == 1 {
            let remaining = line.item(0);
            self.line(parent).set_next(0);
            self.line(parent).set(OVERFLOW_SLOTS - 1, remaining);
            self.overflow.give(self.arena, link);
        }
    }

    fn item(&self, at: Position) -> Item {
        match at.line {
            Line::Bucket(number) => self.bucket(number).item(at.slot.into()),
            Line::Overflow(number) => self.line(number).item(at.slot.into()),
        }
    }

    fn set_item(&mut self, at: Position, item: Item) {
        match at.line {
            Line::Bucket(number) => self.bucket(number).set(at.slot.into(), item),
            Line::Overflow(number) => self.line(number).set(at.slot.into(), item),
        }
    }

    #[inline]
    fn bucket(&self, number: u32) -> &Bucket {
        assert!(number < self.bucket_count);
        let page = self.buckets.page(number / BUCKETS_PER_CHUNK);
        let address = self.arena.base().as_ptr().wrapping_add(
            page as usize * CHUNK_BYTES + (number % BUCKETS_PER_CHUNK) as usize * size_of::<Bucket>(),
        );
        // SAFETY: the chunk of each bucket below `bucket_count` is held, zeroed when taken (zeroes are a valid bucket), and only ever used as
        // buckets; 64 chunks' worth of buckets of 64 bytes lie aligned in a page. It is given back only through `&mut self`.
        unsafe { &*address.cast::<Bucket>() }
    }

    #[inline]
    fn line(&self, number: u32) -> &OverflowLine {
        let (page, line) = self.overflow.place(number);
        assert!(page != 0, "overflow line {number} is not there");
        let address = self
            .arena
            .base()
            .as_ptr()
            .wrapping_add(page as usize * CHUNK_BYTES + line as usize * size_of::<OverflowLine>());
        // SAFETY: as above: a page of the directory is held and only ever used as overflow lines.
        unsafe { &*address.cast::<OverflowLine>() }
    }

    fn entry_address(&self, item: Item) -> *const u8 {
        self.arena.base().as_ptr().cast_const().wrapping_add(item.offset())
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.release(u32::MAX);
    }
}

/// Entries above which an index of `bucket_count` buckets splits one.
fn split_above(bucket_count: u32) -> u64 {
    u64::from(bucket_count) * if bucket_count < BUCKETS_PER_CHUNK { LOAD_FIRST_CHUNK } else { LOAD }
}

/// Entries below which it merges two: 5/6 of the load it grows at, so that it does not grow and shrink in turns. The first chunk stays as it is
/// down to half of that, for merging there frees no memory.
fn merge_below(bucket_count: u32) -> u64 {
    match bucket_count {
        0 | 1 => 0,
        2..=BUCKETS_PER_CHUNK => u64::from(bucket_count) * LOAD_FIRST_CHUNK / 2,
        _ => u64::from(bucket_count) * LOAD * 5 / 6,
    }
}

/// l, where 2^l <= `bucket_count` < 2^(l+1).
#[inline]
fn level(bucket_count: u32) -> u32 {
    31 - bucket_count.leading_zeros()
}

/// The bucket of `hash` among `bucket_count`, which is not 0.
#[inline]
fn bucket_of(hash: u64, bucket_count: u32) -> u32 {
    let mask = u32::MAX >> bucket_count.leading_zeros();
    let number = hash as u32 & mask;
    if number < bucket_count { number } else { number & mask >> 1 }
}

/// Reorders `items` so that those for which `first` is true come first; returns how many.
fn partition(items: &mut [Item], first: impl Fn(Item) -> bool) -> usize {
    let mut count = 0;
    for at in 0..items.len() {
        if first(items[at]) {
            items.swap(at, count);
            count += 1;
        }
    }
    count
}

/// A bucket's entries while they are redistributed. Chance puts more than 48 into one never in practice; a bad hash may.
struct Items {
    fixed: [Item; 48],
    len: usize,
    spilled: Vec<Item>,
}

impl Default for Items {
    fn default() -> Items {
        Items { fixed: [Item::default(); 48], len: 0, spilled: Vec::new() }
    }
}

impl Items {
    #[inline]
    fn push(&mut self, item: Item) {
        if self.len < self.fixed.len() {
            self.fixed[self.len] = item;
        } else {
            if self.spilled.is_empty() {
                self.spilled.extend_from_slice(&self.fixed);
            }
            self.spilled.push(item);
        }
        self.len += 1;
    }

    fn as_slice(&self) -> &[Item] {
        if self.spilled.is_empty() { &self.fixed[..self.len] } else { &self.spilled }
    }

    fn as_mut_slice(&mut self) -> &mut [Item] {
        if self.spilled.is_empty() { &mut self.fixed[..self.len] } else { &mut self.spilled }
    }
}

/// Asks for the cache line at `address`, any address.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults, whatever the address, and changes nothing but the cache.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    let _ = address;
}
