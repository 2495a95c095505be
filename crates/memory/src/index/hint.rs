//! HOT: looking ahead. A thread that is about to enter a shard asks for the cache lines its commands will need, before it holds the shard.
//!
//! All of it may be outdated by the time it is read: the numbers, the table, even the chunk, which may by now be something else. A hint
//! therefore only ever loads from memory that stays mapped (tables are never freed, pages of the arena never unmapped), in the atomic units
//! in which an index is written, and does nothing with what it finds but prefetch an address. A wrong hint costs a cache line.

#![allow(unsafe_code, reason = "prefetching, and loading from lines that another thread owns")]

use crate::arena::Arena;

use super::chunks::{CHUNK_BYTES, Directory};
use super::line::{Bucket, fingerprint};
use super::{bucket_of, prefetch};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

/// The place of one index as other threads see it. One stays with each (shard, database) for good; the index that is there keeps it up to date.
#[repr(align(64))]
pub struct IndexHint {
    arena: &'static Arena,
    table: AtomicPtr<AtomicU32>,
    bucket_count: AtomicU32,
}

impl IndexHint {
    /// A hint for an index that is empty yet.
    pub fn new(arena: &'static Arena) -> IndexHint {
        IndexHint { arena, table: AtomicPtr::default(), bucket_count: AtomicU32::new(0) }
    }

    pub(super) fn publish_table(&self, buckets: &Directory) {
        let table = buckets.table();
        self.table
            .store(if table.is_empty() { std::ptr::null_mut() } else { table.as_ptr().cast_mut() }, Release);
    }

    #[inline]
    pub(super) fn publish_count(&self, bucket_count: u32) {
        self.bucket_count.store(bucket_count, Relaxed);
    }

    #[inline]
    fn bucket(&self, hash: u64) -> Option<*const Bucket> {
        let count = self.bucket_count.load(Relaxed);
        let table = self.table.load(Acquire).cast_const();
        if count == 0 || table.is_null() {
            return None;
        }
        let bucket = bucket_of(hash, count) as usize;
        let per_chunk = CHUNK_BYTES / size_of::<Bucket>();
        // SAFETY: a published table lives forever and has at least its first word; `Acquire` makes that word visible.
        let words = unsafe { (*table).load(Relaxed) } as usize;
        let word = 1 + bucket / per_chunk;
        if word >= words {
            return None;
        }
        // SAFETY: below the number of words that the table itself names.
        let page = unsafe { (*table.add(word)).load(Relaxed) } as usize;
        (page != 0).then(|| {
            self.arena
                .base()
                .as_ptr()
                .cast_const()
                .wrapping_add(page * CHUNK_BYTES + bucket % per_chunk * size_of::<Bucket>())
                .cast()
        })
    }

    /// Asks for the bucket of `hash`. Stage one of a window.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        if let Some(bucket) = self.bucket(hash) {
            prefetch(bucket.cast());
        }
    }

    /// Asks for the entries that may be the one with `hash`. Stage two: by now the bucket should have arrived.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        let Some(bucket) = self.bucket(hash) else { return };
        // SAFETY: page numbers in a table are always pages of the arena, which stays mapped; the bucket lies aligned inside one. Only atomic
        // loads follow, in the units in which the holder of the index stores.
        let bucket = unsafe { &*bucket };
        let mut matches = bucket.matches_shared(fingerprint(hash));
        while matches != 0 {
            let item = bucket.item(matches.trailing_zeros() as usize);
            let entry = self.arena.base().as_ptr().cast_const().wrapping_add(item.offset());
            prefetch(entry);
            // Most entries of 64 and more bytes lie on two lines.
            prefetch(entry.wrapping_add(64));
            matches &= matches - 1;
        }
    }
}
