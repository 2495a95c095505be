//! HOT: looking ahead. A thread that is about to enter a shard asks for the cache lines its commands will need, before it holds the shard.
//!
//! All of it may be outdated by the time it is read: the numbers, the table, even the chunk, which may by now be something else. A hint
//! therefore only ever loads from memory that stays mapped (tables are never freed, pages of the arena never unmapped), in the atomic units
//! in which an index is written, and does nothing with what it finds but prefetch an address. A wrong hint costs a cache line.

#![allow(unsafe_code, reason = "prefetching, and loading from lines that another thread owns")]

use crate::arena::Arena;

use super::chunks::{CHUNK_BYTES, Table};
use super::line::{Bucket, Item, OverflowLine, fingerprint};
use super::{bucket_of, prefetch};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

/// The place of one index as other threads see it. One stays with each (shard, database) for good; the index that is there keeps it up to date.
#[repr(align(64))]
pub struct IndexHint {
    arena: &'static Arena,
    buckets: AtomicPtr<AtomicU32>,
    overflow: AtomicPtr<AtomicU32>,
    bucket_count: AtomicU32,
}

impl IndexHint {
    /// A hint for an index that is empty yet.
    pub fn new(arena: &'static Arena) -> IndexHint {
        IndexHint {
            arena,
            buckets: AtomicPtr::default(),
            overflow: AtomicPtr::default(),
            bucket_count: AtomicU32::new(0),
        }
    }

    pub(super) fn publish_tables(&self, buckets: Table, overflow: Table) {
        let first = |table: Table| if table.is_empty() { ptr::null_mut() } else { table.as_ptr().cast_mut() };
        self.buckets.store(first(buckets), Release);
        self.overflow.store(first(overflow), Release);
    }

    #[inline]
    pub(super) fn publish_count(&self, bucket_count: u32) {
        self.bucket_count.store(bucket_count, Relaxed);
    }

    /// Stage one of a window: asks for the bucket of `hash`.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        if let Some(bucket) = self.bucket(hash) {
            prefetch(bucket.cast());
        }
    }

    /// Stage two, by now the bucket should have arrived: asks for the entries that may be the one with `hash`. If the bucket has none, it asks
    /// for the next line and returns true: then `prefetch_overflow` is worth a call. So it is for one entry in eight.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) -> bool {
        let Some(bucket) = self.bucket(hash) else { return false };
        // SAFETY: `bucket` lies in the arena, which stays mapped. Only atomic loads follow, in the units in which the holder of the index stores.
        let bucket = unsafe { &*bucket };
        let matches = bucket.matches_shared(fingerprint(hash));
        self.prefetch_items(matches, |slot| bucket.item(slot));
        if matches != 0 {
            return false;
        }
        let line = self.line(bucket.link());
        line.inspect(|line| prefetch(line.cast())).is_some()
    }

    /// Stage three, for hashes for which stage two said so: asks for the entries in the bucket's first overflow line.
    pub fn prefetch_overflow(&self, hash: u64) {
        let Some(bucket) = self.bucket(hash) else { return };
        // SAFETY: as in `prefetch_entry`.
        let Some(line) = self.line(unsafe { &*bucket }.link()) else { return };
        // SAFETY: as in `prefetch_entry`.
        let line = unsafe { &*line };
        self.prefetch_items(line.matches(fingerprint(hash)), |slot| line.item(slot));
    }

    #[inline]
    fn prefetch_items(&self, matches: u32, item: impl Fn(usize) -> Item) {
        let mut matches = matches;
        while matches != 0 {
            let offset = item(matches.trailing_zeros() as usize).offset();
            let entry = self.arena.base().as_ptr().cast_const().wrapping_add(offset);
            prefetch(entry);
            // Most entries of 64 and more bytes lie on two lines.
            prefetch(entry.wrapping_add(64));
            matches &= matches - 1;
        }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> Option<*const Bucket> {
        let count = self.bucket_count.load(Relaxed);
        if count == 0 {
            return None;
        }
        self.find(&self.buckets, bucket_of(hash, count))
    }

    #[inline]
    fn line(&self, number: u32) -> Option<*const OverflowLine> {
        self.find(&self.overflow, number.checked_sub(1)?)
    }

    /// Where `T` number `number` is, or was: an address inside the arena, aligned for a `T`.
    #[inline]
    fn find<T>(&self, table: &AtomicPtr<AtomicU32>, number: u32) -> Option<*const T> {
        let table = table.load(Acquire).cast_const();
        // The sanitizer cannot tell a look at a page that has just been given back, which is meant here, from a mistake.
        if table.is_null() || cfg!(darter_asan) {
            return None;
        }
        let per_chunk = CHUNK_BYTES / size_of::<T>();
        let (chunk, at) = (number as usize / per_chunk, number as usize % per_chunk);
        // SAFETY: a published table lives forever and has at least its first word; `Acquire` makes that word visible.
        let words = unsafe { (*table).load(Relaxed) } as usize;
        if 1 + chunk >= words {
            return None;
        }
        // SAFETY: below the number of words that the table itself names.
        let page = unsafe { (*table.add(1 + chunk)).load(Relaxed) } as usize;
        // A number of a page that is not 0 is one of the arena: the words of a table hold nothing else, whoever used it before.
        let base = self.arena.base().as_ptr().cast_const();
        (page != 0).then(|| base.wrapping_add(page * CHUNK_BYTES + at * size_of::<T>()).cast())
    }
}
