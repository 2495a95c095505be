//! HOT: going through an index without knowing a hash: scanning all of it in steps, and drawing entries by chance; and asking ahead for what
//! lookups of known hashes will read.

use crate::handle::Handle;

use super::line::{BUCKET_SLOTS, Item, fingerprint};
use super::{Index, bucket_of, level, prefetch};

/// A sample looks at this many random places before it walks.
const SAMPLE_TRIES: u32 = 32;
/// Buckets between the one that a scan visits and the one that it asks for: a visit takes a fraction of a cache miss.
const SCAN_AHEAD: usize = 4;
/// A walk for an entry with a deadline looks at this many buckets: 16 KiB of index.
const SAMPLE_WALK: u32 = 256;

impl Index {
    /// Calls `f` with each entry of the bucket at `cursor` (handle, deadline bit) and returns the cursor of the next; 0 starts and ends.
    ///
    /// Every entry that is there from start to end is seen, however the index grows and shrinks between the calls; one may be seen twice.
    /// The order is that of the bits of the hash, lowest first, reversed: a cursor says how far in that order everything has been seen, and both
    /// halves of a bucket that splits lie side by side in it. (Pieter Noordhuis' scan of a table of 2^n buckets, here for any number.)
    pub fn scan(&self, cursor: u64, mut f: impl FnMut(Handle, bool)) -> u64 {
        let Some((number, next)) = self.scan_step(cursor) else { return 0 };
        self.for_each(number, |item| prefetch(self.entry_address(item)));
        self.for_each(number, |item| f(item.handle(), item.has_deadline()));
        next
    }

    /// Like `scan`, only for the entries with a deadline. Other entries are not touched.
    pub fn scan_deadlines(&self, cursor: u64, mut f: impl FnMut(Handle)) -> u64 {
        let Some((number, next)) = self.scan_step(cursor) else { return 0 };
        self.for_each_deadline(number, |item| prefetch(self.entry_address(item)));
        self.for_each_deadline(number, |item| f(item.handle()));
        next
    }

    /// The bucket at `cursor`, and the cursor behind it. One further on is asked for.
    fn scan_step(&self, cursor: u64) -> Option<(u32, u64)> {
        if self.bucket_count == 0 {
            return None;
        }
        let (number, next) = self.scan_place(cursor);
        let ahead = (1..SCAN_AHEAD).fold(next, |cursor, _| self.scan_place(cursor).1);
        prefetch(std::ptr::from_ref(self.bucket(self.scan_place(ahead).0)).cast());
        Some((number, next))
    }

    /// The bucket at `cursor`, and the cursor behind it.
    fn scan_place(&self, cursor: u64) -> (u32, u64) {
        let number = bucket_of(cursor, self.bucket_count);
        let above = u64::MAX << self.hash_bits(number);
        (number, (cursor | above).reverse_bits().wrapping_add(1).reverse_bits())
    }

    /// An entry by chance, each as likely as any other. None only when there is none.
    pub fn sample(&self, mut draw: impl FnMut() -> u64) -> Option<Handle> {
        for _ in 0..SAMPLE_TRIES {
            if self.count == 0 {
                return None;
            }
            let (number, nth) = self.sample_place(draw(), |index, number| index.chain_len(number));
            if let Some(item) = self.nth(number, nth) {
                return Some(item.handle());
            }
        }
        let start = draw();
        (0..self.bucket_count).find_map(|step| {
            let number = self.wrap(start, step);
            let len = self.chain_len(number);
            if len == 0 { None } else { self.nth(number, draw() as usize % len).map(Item::handle) }
        })
    }

    /// The same among the entries with a deadline. Looks at a bounded number of buckets, so it may find none where they are very rare.
    pub fn sample_with_deadline(&self, mut draw: impl FnMut() -> u64) -> Option<Handle> {
        if self.count_with_deadline == 0 {
            return None;
        }
        for _ in 0..SAMPLE_TRIES {
            let (number, nth) = self.sample_place(draw(), |index, number| index.chain_len(number));
            let found = self.nth(number, nth).filter(|item| item.has_deadline());
            if let Some(item) = found {
                return Some(item.handle());
            }
        }
        let start = draw();
        (0..self.bucket_count.min(SAMPLE_WALK)).find_map(|step| {
            let number = self.wrap(start, step);
            let mut chosen = None;
            let mut seen = 0;
            self.for_each_deadline(number, |item| {
                seen += 1;
                if draw().is_multiple_of(seen) {
                    chosen = Some(item.handle());
                }
            });
            chosen
        })
    }

    /// Stage one of a batch of lookups: asks for the bucket of `hash`.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        if self.bucket_count != 0 {
            prefetch(std::ptr::from_ref(self.bucket(bucket_of(hash, self.bucket_count))).cast());
        }
    }

    /// Stage two, by now the bucket should have arrived: asks for the entries in it that may be the one with `hash`.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        if self.bucket_count == 0 {
            return;
        }
        let bucket = self.bucket(bucket_of(hash, self.bucket_count));
        let mut matches = bucket.matches(fingerprint(hash));
        while matches != 0 {
            prefetch(self.entry_address(bucket.item(matches.trailing_zeros() as usize)));
            matches &= matches - 1;
        }
    }

    fn wrap(&self, start: u64, step: u32) -> u32 {
        ((start + u64::from(step)) % u64::from(self.bucket_count)) as u32
    }

    /// A bucket, likely in proportion to its share of all hashes, and a place in it among twice as many places if its share is double.
    /// So each entry has the same chance; those behind the last place of a bucket that is extremely full share the places there are.
    fn sample_place(&self, random: u64, len: impl FnOnce(&Index, u32) -> usize) -> (u32, usize) {
        let depth = level(self.bucket_count) + 1;
        let number = bucket_of(random & ((1 << depth) - 1), self.bucket_count);
        // The mean of a bucket of the smaller kind is 4.5 to 9. Of ten thousand such buckets one has 12 more than that.
        let mut places = (self.count >> depth) as usize + 12;
        if self.hash_bits(number) < depth {
            places *= 2;
        }
        let random = (random >> 32) as usize;
        let nth = random % places;
        if nth + 1 == places { (number, random % places.max(len(self, number))) } else { (number, nth) }
    }

    pub(super) fn for_each(&self, number: u32, mut f: impl FnMut(Item)) {
        let bucket = self.bucket(number);
        (0..bucket.len()).for_each(|slot| f(bucket.item(slot)));
        let mut link = bucket.link();
        while link != 0 {
            let line = self.line(link);
            (0..line.len()).for_each(|slot| f(line.item(slot)));
            link = line.next();
        }
    }

    pub(super) fn for_each_deadline(&self, number: u32, mut f: impl FnMut(Item)) {
        let bucket = self.bucket(number);
        let mut slots = bucket.deadlines();
        while slots != 0 {
            f(bucket.item(slots.trailing_zeros() as usize));
            slots &= slots - 1;
        }
        let mut link = bucket.link();
        while link != 0 {
            let line = self.line(link);
            (0..line.len()).map(|slot| line.item(slot)).filter(|item| item.has_deadline()).for_each(&mut f);
            link = line.next();
        }
    }

    fn chain_len(&self, number: u32) -> usize {
        let mut len = self.bucket(number).len();
        let mut link = self.bucket(number).link();
        while link != 0 {
            len += self.line(link).len();
            link = self.line(link).next();
        }
        len
    }

    /// The `nth` entry of a bucket.
    fn nth(&self, number: u32, nth: usize) -> Option<Item> {
        let bucket = self.bucket(number);
        if nth < BUCKET_SLOTS {
            return (nth < bucket.len()).then(|| bucket.item(nth));
        }
        let mut left = nth - BUCKET_SLOTS;
        let mut link = bucket.link();
        while link != 0 {
            let line = self.line(link);
            if left < line.len() {
                return Some(line.item(left));
            }
            left -= line.len();
            link = line.next();
        }
        None
    }
}
