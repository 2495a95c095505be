//! HOT: the two kinds of line an index is made of. No allocation, no lock, no call out of this file.
//!
//! A bucket is one cache line, an overflow line is half of one:
//!
//! ```text
//! bucket, 64 bytes                                    overflow line, 32 bytes
//!  0      10      20     24                     64     0     5     10   11  12              32
//!  +-------+-------+------+----------------------+     +-----+-----+----+---+---------------+
//!  | 10 fp | 10 hi | word |     10 x u32 low     |     | 5 fp| 5 hi|flag| - |  5 x u32 low  |
//!  +-------+-------+------+----------------------+     +-----+-----+----+---+---------------+
//! fp   8 bits of the hash, never 0; 0 says that the slot is free. Used slots come first, without a gap.
//! hi   bit 7: the entry has a deadline; bits 0-6: bits 32-38 of the handle
//! low  bits 0-31 of the handle
//! word bits 0-27: number of the first overflow line, 0 = none; bits 28-31: snapshot epoch
//! flag 1: the last slot is no entry, its low is the number of the next overflow line
//! ```
//!
//! Both may be read while another thread, the one that holds the shard, writes them (see `hint.rs`). So every write here is a relaxed
//! atomic store of the same unit that such a reader loads. The holder itself may read in any unit, for nobody else writes.

#![allow(unsafe_code, reason = "the SIMD match loads 16 bytes of a line at once")]

use crate::handle::{GRANULE_BYTES, Handle};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Slots of a bucket.
pub(super) const BUCKET_SLOTS: usize = 10;
/// Slots of an overflow line.
pub(super) const OVERFLOW_SLOTS: usize = 5;
/// Number of the largest overflow line: 28 bits of link.
pub(super) const LINK_MAX: u32 = (1 << 28) - 1;

const DEADLINE: u64 = 1 << Handle::BITS;
const HANDLE_MASK: u64 = DEADLINE - 1;
const BUCKET_MASK: u32 = (1 << BUCKET_SLOTS) - 1;

/// The fingerprint of a hash: its top byte, with 0 (which marks a free slot) folded into 1.
pub(super) fn fingerprint(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

/// What one slot holds, with its fingerprint: bits 0-38 handle, bit 39 "has a deadline", bits 40-47 fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Item(u64);

impl Item {
    pub(super) fn new(fingerprint: u8, handle: Handle, deadline: bool) -> Item {
        Item(handle.raw() | if deadline { DEADLINE } else { 0 } | u64::from(fingerprint) << 40)
    }

    #[inline(always)]
    pub(super) fn handle(self) -> Handle {
        Handle::from_raw(self.0 & HANDLE_MASK).expect("a used slot holds a handle")
    }

    /// Bytes from the base of the arena; for an address that is only prefetched, whatever the slot held.
    #[inline(always)]
    pub(super) fn offset(self) -> usize {
        (self.0 & HANDLE_MASK) as usize * GRANULE_BYTES
    }

    pub(super) fn has_deadline(self) -> bool {
        self.0 & DEADLINE != 0
    }

    fn fingerprint(self) -> u64 {
        self.0 >> 40
    }

    fn hi(self) -> u64 {
        self.0 >> 32 & 0xFF
    }

    fn low(self) -> u32 {
        self.0 as u32
    }

    fn from_parts(fingerprint: u64, hi: u64, low: u32) -> Item {
        Item(fingerprint << 40 | hi << 32 | u64::from(low))
    }

    pub(super) fn with_handle(self, handle: Handle, deadline: bool) -> Item {
        Item(self.0 & 0xFF << 40 | handle.raw() | if deadline { DEADLINE } else { 0 })
    }
}

/// One cache line of ten slots.
#[repr(C, align(64))]
pub(super) struct Bucket {
    head: [AtomicU64; 3],
    low: [AtomicU32; BUCKET_SLOTS],
}

/// Half a cache line of five slots, for what a bucket cannot hold.
#[repr(C, align(32))]
pub(super) struct OverflowLine {
    head: AtomicU64,
    tail: AtomicU32,
    low: [AtomicU32; OVERFLOW_SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64 && size_of::<OverflowLine>() == 32);

impl Bucket {
    /// A bit for each slot whose fingerprint is `wanted`; `wanted` = 0 gives the free slots.
    #[inline]
    pub(super) fn matches(&self, wanted: u8) -> u32 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            sse2::equal_bytes(self, wanted) & BUCKET_MASK
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            self.matches_shared(wanted)
        }
    }

    /// The same, sound beside a writer: loads in the units that writers store.
    #[inline]
    pub(super) fn matches_shared(&self, wanted: u8) -> u32 {
        swar::equal_bytes(self.head[0].load(Relaxed), wanted)
            | (swar::equal_bytes(self.head[1].load(Relaxed), wanted) & 3) << 8
    }

    /// A bit for each slot whose entry has a deadline.
    #[inline]
    pub(super) fn deadlines(&self) -> u32 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            sse2::top_bits(self) & BUCKET_MASK
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            let head = [self.head[1].load(Relaxed), self.head[2].load(Relaxed)];
            swar::top_bits(head[0] >> 16) & 0x3F | (swar::top_bits(head[1]) & 0xF) << 6
        }
    }

    /// Used slots; they are the first ones.
    #[inline]
    pub(super) fn len(&self) -> usize {
        BUCKET_SLOTS - self.matches(0).count_ones() as usize
    }

    #[inline]
    pub(super) fn item(&self, slot: usize) -> Item {
        Item::from_parts(self.byte(slot), self.byte(BUCKET_SLOTS + slot), self.low[slot].load(Relaxed))
    }

    #[inline]
    fn byte(&self, at: usize) -> u64 {
        self.head[at / 8].load(Relaxed) >> (at % 8 * 8) & 0xFF
    }

    #[inline]
    fn set_byte(&self, at: usize, value: u64) {
        set_byte(&self.head[at / 8], at % 8, value);
    }

    #[inline]
    pub(super) fn set(&self, slot: usize, item: Item) {
        self.low[slot].store(item.low(), Relaxed);
        self.set_byte(BUCKET_SLOTS + slot, item.hi());
        self.set_byte(slot, item.fingerprint());
    }

    pub(super) fn clear(&self, slot: usize) {
        self.set_byte(slot, 0);
        self.set_byte(BUCKET_SLOTS + slot, 0);
    }

    /// Replaces all slots at once; `items` has at most ten. The word stays.
    pub(super) fn fill(&self, items: &[Item]) {
        let word = self.head[2].load(Relaxed) >> 32 << 32;
        let mut fingerprints = 0u128;
        let mut hi = 0u128;
        for (slot, item) in items.iter().enumerate() {
            self.low[slot].store(item.low(), Relaxed);
            fingerprints |= u128::from(item.fingerprint()) << (slot * 8);
            hi |= u128::from(item.hi()) << (slot * 8);
        }
        self.head[0].store(fingerprints as u64, Relaxed);
        self.head[1].store((fingerprints >> 64) as u64 | (hi as u64) << 16, Relaxed);
        self.head[2].store((hi >> 48) as u64 | word, Relaxed);
    }

    /// Number of the first overflow line; 0 = none.
    #[inline]
    pub(super) fn link(&self) -> u32 {
        (self.head[2].load(Relaxed) >> 32) as u32 & LINK_MAX
    }

    pub(super) fn set_link(&self, link: u32) {
        debug_assert!(link <= LINK_MAX);
        let word = self.head[2].load(Relaxed);
        self.head[2].store(word & !(u64::from(LINK_MAX) << 32) | u64::from(link) << 32, Relaxed);
    }

    /// The snapshot epoch, 4 bits.
    pub(super) fn epoch(&self) -> u32 {
        (self.head[2].load(Relaxed) >> 60) as u32
    }

    pub(super) fn set_epoch(&self, epoch: u32) {
        let word = self.head[2].load(Relaxed);
        self.head[2].store(word & !(0xF << 60) | u64::from(epoch & 0xF) << 60, Relaxed);
    }
}

impl OverflowLine {
    /// A bit for each slot whose fingerprint is `wanted`.
    #[inline]
    pub(super) fn matches(&self, wanted: u8) -> u32 {
        let mask = if self.next() == 0 { 0x1F } else { 0xF };
        swar::equal_bytes(self.head.load(Relaxed), wanted) & mask
    }

    /// Used slots; the link is not counted.
    #[inline]
    pub(super) fn len(&self) -> usize {
        OVERFLOW_SLOTS - (swar::equal_bytes(self.head.load(Relaxed), 0) & 0x1F).count_ones() as usize
    }

    #[inline]
    pub(super) fn item(&self, slot: usize) -> Item {
        let head = u128::from(self.head.load(Relaxed)) | u128::from(self.tail.load(Relaxed)) << 64;
        Item::from_parts(
            (head >> (slot * 8)) as u64 & 0xFF,
            (head >> ((OVERFLOW_SLOTS + slot) * 8)) as u64 & 0xFF,
            self.low[slot].load(Relaxed),
        )
    }

    fn set_byte(&self, at: usize, value: u64) {
        if at < 8 {
            set_byte(&self.head, at, value);
        } else {
            let shift = (at - 8) * 8;
            let word = self.tail.load(Relaxed);
            self.tail.store(word & !(0xFF << shift) | (value as u32) << shift, Relaxed);
        }
    }

    #[inline]
    pub(super) fn set(&self, slot: usize, item: Item) {
        self.low[slot].store(item.low(), Relaxed);
        self.set_byte(OVERFLOW_SLOTS + slot, item.hi());
        self.set_byte(slot, item.fingerprint());
    }

    pub(super) fn clear(&self, slot: usize) {
        self.set_byte(slot, 0);
        self.set_byte(OVERFLOW_SLOTS + slot, 0);
    }

    /// Number of the next overflow line; 0 = none.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        if self.tail.load(Relaxed) >> 16 & 0xFF == 0 { 0 } else { self.low[OVERFLOW_SLOTS - 1].load(Relaxed) }
    }

    /// Makes the last slot, which must be free, the link to line `next`, or with 0 a free slot again.
    pub(super) fn set_next(&self, next: u32) {
        self.low[OVERFLOW_SLOTS - 1].store(next, Relaxed);
        self.set_byte(2 * OVERFLOW_SLOTS, u64::from(next != 0));
    }

    /// Replaces the whole line: `items` (at most five, four with a link) and the link.
    pub(super) fn fill(&self, items: &[Item], next: u32) {
        let mut head = u128::from(next != 0) << (2 * OVERFLOW_SLOTS * 8);
        for (slot, item) in items.iter().enumerate() {
            self.low[slot].store(item.low(), Relaxed);
            head |= u128::from(item.fingerprint()) << (slot * 8)
                | u128::from(item.hi()) << ((OVERFLOW_SLOTS + slot) * 8);
        }
        if next != 0 {
            self.low[OVERFLOW_SLOTS - 1].store(next, Relaxed);
        }
        self.head.store(head as u64, Relaxed);
        self.tail.store((head >> 64) as u32, Relaxed);
    }
}

#[inline]
fn set_byte(word: &AtomicU64, at: usize, value: u64) {
    let old = word.load(Relaxed);
    word.store(old & !(0xFF << (at * 8)) | value << (at * 8), Relaxed);
}

/// The portable bodies: eight bytes in one register.
mod swar {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW_7: u64 = 0x7F * ONES;

    /// A bit for each of the eight bytes of `bytes` that equals `wanted`. Exact: no carry from byte to byte.
    #[inline]
    pub(super) fn equal_bytes(bytes: u64, wanted: u8) -> u32 {
        let zero_where_equal = bytes ^ (ONES * u64::from(wanted));
        top_bits(!(((zero_where_equal & LOW_7) + LOW_7) | zero_where_equal))
    }

    /// The top bit of each of the eight bytes.
    #[inline]
    pub(super) fn top_bits(bytes: u64) -> u32 {
        // The multiplication moves bit 7 of byte k to bit 56 + k; no two partial products share a bit.
        ((bytes >> 7 & ONES).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    }
}

/// The x86-64 bodies: 16 bytes in one register. SSE2 is part of the architecture, so there is nothing to detect.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod sse2 {
    use super::{BUCKET_SLOTS, Bucket};
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

    #[inline]
    fn load<const AT: usize>(bucket: &Bucket) -> __m128i {
        const { assert!(AT + 16 <= size_of::<Bucket>()) };
        // SAFETY: the 16 bytes lie inside the bucket. Only the thread that holds the index by `&mut` writes a line, which excludes this `&`;
        // so the plain load races with no store.
        unsafe { _mm_loadu_si128(std::ptr::from_ref(bucket).cast::<u8>().add(AT).cast()) }
    }

    /// A bit for each of the first 16 bytes, the fingerprints first, that equals `wanted`.
    #[inline]
    pub(super) fn equal_bytes(bucket: &Bucket, wanted: u8) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            _mm_movemask_epi8(_mm_cmpeq_epi8(load::<0>(bucket), _mm_set1_epi8(wanted.cast_signed())))
                .cast_unsigned()
        }
    }

    /// The top bits of 16 bytes, the high bytes of the slots first.
    #[inline]
    pub(super) fn top_bits(bucket: &Bucket) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(load::<BUCKET_SLOTS>(bucket)).cast_unsigned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> Bucket {
        Bucket { head: Default::default(), low: Default::default() }
    }

    #[test]
    fn both_bodies_find_the_same_slots() {
        let mut random = 0x2545_F491_4F6C_DD1Du64;
        for _ in 0..20_000 {
            let bucket = bucket();
            let mut items = Vec::new();
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            for slot in 0..(random % 11) as usize {
                // Few fingerprints, among them neighbours by one bit and by sign, so that a carry would show.
                let fp = [1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF][(random >> (slot * 5) & 7) as usize];
                items.push(Item::new(
                    fp,
                    Handle::from_raw((random >> slot) & HANDLE_MASK | 1).unwrap(),
                    random >> (20 + slot) & 1 == 1,
                ));
                bucket.set(slot, items[slot]);
            }
            for wanted in [0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF] {
                let expected = (0..10)
                    .filter(|&i| items.get(i).map_or(0, |item| item.fingerprint()) == u64::from(wanted))
                    .fold(0, |m, i| m | 1 << i);
                assert_eq!(bucket.matches(wanted), expected);
                assert_eq!(bucket.matches_shared(wanted), expected);
            }
            let expected = items
                .iter()
                .enumerate()
                .filter(|(_, item)| item.has_deadline())
                .fold(0, |m, (i, _)| m | 1 << i);
            assert_eq!(bucket.deadlines(), expected);
            assert_eq!(bucket.len(), items.len());
        }
    }

    #[test]
    fn fill_equals_set_and_keeps_the_word() {
        let items: Vec<Item> = (1..=10)
            .map(|i| {
                Item::new(
                    i as u8 * 25,
                    Handle::from_raw((0x11_2233_4455 * i) & HANDLE_MASK).unwrap(),
                    i % 2 == 0,
                )
            })
            .collect();
        for n in 0..=10 {
            let one = bucket();
            one.set_link(LINK_MAX);
            one.set_epoch(9);
            one.fill(&items);
            one.fill(&items[..n]);
            assert_eq!((one.link(), one.epoch(), one.len()), (LINK_MAX, 9, n));
            for (slot, item) in items[..n].iter().enumerate() {
                assert_eq!(one.item(slot), *item);
            }
        }
    }

    #[test]
    fn an_overflow_line_holds_five_or_four_and_a_link() {
        let line = OverflowLine { head: AtomicU64::new(0), tail: AtomicU32::new(0), low: Default::default() };
        let items: Vec<Item> = (1..=5)
            .map(|i| {
                Item::new(
                    200 + i as u8,
                    Handle::from_raw((0x7F_0000_0001 * i) & HANDLE_MASK).unwrap(),
                    i % 2 == 1,
                )
            })
            .collect();
        for (slot, item) in items.iter().enumerate() {
            assert_eq!(line.len(), slot);
            line.set(slot, *item);
        }
        assert!((0..5).all(|slot| line.item(slot) == items[slot]));
        assert_eq!(line.matches(205), 1 << 4);
        line.clear(4);
        line.set_next(LINK_MAX);
        assert_eq!((line.len(), line.next(), line.matches(205), line.matches(203)), (4, LINK_MAX, 0, 4));
        line.set_next(0);
        line.set(4, items[4]);
        assert_eq!((line.len(), line.next()), (5, 0));
        line.fill(&items[..4], 77);
        assert!((0..4).all(|slot| line.item(slot) == items[slot]) && line.next() == 77 && line.len() == 4);
    }
}
