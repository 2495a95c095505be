//! HOT: a small sorted set, packed: four rows of cells, sorted by score and member. Not when it becomes a tree: the owner decides.
//!
//! ```text
//! tag 1 | count 2 | cells 2 | scores w x cells | fingerprints 1 x cells | ends 2 x cells | members, one after another | room
//!
//! tag: bits 7-4 say how a score is kept: 0, 1, 2: an integer of 1, 2 or 4 bytes; 3: a double
//! ends: where each member ends behind the ends
//! ```
//!
//! All numbers are little-endian. A member is found by its fingerprint, a score by halving. There are a few more cells than members (a 16th), and
//! as many more bytes, so that most insertions move bytes only inside the blob.

use std::ops::Range;

use super::score::{as_integer, order};
use crate::slot::Slot;

/// Bytes before the scores.
pub(super) const HEADER_BYTES: usize = 5;
const COUNT_AT: usize = 1;
const CELLS_AT: usize = 3;
const WIDTH_SHIFT: u8 = 4;
/// Bytes of a fingerprint and an end.
const FINGERPRINT_BYTES: usize = 1;
const END_BYTES: usize = 2;
/// Blobs have at most 64 KiB, or an end would not fit.
const BYTES_MAX: usize = 1 << 16;

/// How scores are kept: the integers are the tag's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
enum Width {
    Byte = 0,
    Short = 1,
    Word = 2,
    Double = 3,
}

impl Width {
    fn of_tag(tag: u8) -> Width {
        match tag >> WIDTH_SHIFT {
            0 => Width::Byte,
            1 => Width::Short,
            2 => Width::Word,
            _ => Width::Double,
        }
    }

    /// The narrowest that keeps `score` exactly.
    fn of_score(score: f64) -> Width {
        match as_integer(score) {
            Some(integer) if i8::try_from(integer).is_ok() => Width::Byte,
            Some(integer) if i16::try_from(integer).is_ok() => Width::Short,
            Some(integer) if i32::try_from(integer).is_ok() => Width::Word,
            _ => Width::Double,
        }
    }

    const fn bytes(self) -> usize {
        1 << self as usize
    }

    #[inline(always)]
    fn read(self, cells: &[u8], at: usize) -> f64 {
        let start = at * self.bytes();
        match self {
            Width::Byte => f64::from(cells[start] as i8),
            Width::Short => i16::from_le_bytes(array(&cells[start..])).into(),
            Width::Word => i32::from_le_bytes(array(&cells[start..])).into(),
            Width::Double => f64::from_le_bytes(array(&cells[start..])),
        }
    }

    /// Writes a score that this width keeps exactly.
    #[inline(always)]
    fn write(self, cells: &mut [u8], at: usize, score: f64) {
        let to = &mut cells[at * self.bytes()..][..self.bytes()];
        match self {
            Width::Byte => to[0] = score as i8 as u8,
            Width::Short => to.copy_from_slice(&(score as i16).to_le_bytes()),
            Width::Word => to.copy_from_slice(&(score as i32).to_le_bytes()),
            Width::Double => to.copy_from_slice(&score.to_le_bytes()),
        }
    }
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes[..N].try_into().expect("a slice of N bytes")
}

/// Eight bits that tell most members apart.
#[inline]
fn fingerprint(member: &[u8]) -> u8 {
    let mut mixed = member.len() as u64;
    let mut chunks = member.chunks_exact(8);
    for chunk in chunks.by_ref() {
        mixed =
            (mixed ^ u64::from_le_bytes(array(chunk))).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    let mut rest = [0; 8];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    ((mixed ^ u64::from_le_bytes(rest)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Where the rows lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    width: Width,
    cells: usize,
}

impl Layout {
    fn fingerprints(self) -> usize {
        HEADER_BYTES + self.cells * self.width.bytes()
    }

    fn ends(self) -> usize {
        self.fingerprints() + self.cells * FINGERPRINT_BYTES
    }

    fn members(self) -> usize {
        self.ends() + self.cells * END_BYTES
    }
}

/// A packed sorted set, to be read.
#[derive(Clone, Copy)]
pub(super) struct Flat<'a> {
    bytes: &'a [u8],
    count: usize,
    layout: Layout,
}

impl<'a> Flat<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Flat<'a> {
        let number = |at: usize| usize::from(u16::from_le_bytes(array(&bytes[at..])));
        let layout = Layout { width: Width::of_tag(bytes[0]), cells: number(CELLS_AT) };
        Flat { bytes, count: number(COUNT_AT), layout }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.count
    }

    /// Bytes of all members.
    #[inline]
    pub(super) fn member_bytes(self) -> usize {
        self.end(self.count)
    }

    /// Bytes that the blob would take with one more member, at least: without room to spare.
    pub(super) fn bytes_with(self, member: &[u8], score: f64) -> usize {
        let width = self.layout.width.max(Width::of_score(score));
        Layout { width, cells: self.count + 1 }.members() + self.member_bytes() + member.len()
    }

    #[inline]
    pub(super) fn score(self, rank: usize) -> f64 {
        self.layout.width.read(&self.bytes[HEADER_BYTES..], rank)
    }

    #[inline]
    pub(super) fn member(self, rank: usize) -> &'a [u8] {
        &self.bytes[self.layout.members()..][self.end(rank)..self.end(rank + 1)]
    }

    #[inline]
    pub(super) fn get(self, rank: usize) -> (&'a [u8], f64) {
        (self.member(rank), self.score(rank))
    }

    /// Bytes of the first `count` members.
    #[inline(always)]
    fn end(self, count: usize) -> usize {
        match count {
            0 => 0,
            _ => {
                u16::from_le_bytes(array(&self.bytes[self.layout.ends() + (count - 1) * END_BYTES..])).into()
            }
        }
    }

    /// The rank of a member. O(n), eight fingerprints at a time.
    #[inline]
    pub(super) fn find(self, member: &[u8]) -> Option<usize> {
        const ONES: u64 = u64::MAX / 255;
        const HIGHS: u64 = ONES << 7;
        let wanted = u64::from(fingerprint(member)) * ONES;
        let row = &self.bytes[self.layout.fingerprints()..][..self.count];
        // A byte of `differing` that is 0 sets its high bit; a byte above it may too, by the borrow, and is compared in vain.
        let matches = |word: u64| {
            let differing = word ^ wanted;
            differing.wrapping_sub(ONES) & !differing & HIGHS
        };
        let mut chunks = row.chunks_exact(8);
        let mut base = 0;
        for chunk in chunks.by_ref() {
            let found = self.check(matches(u64::from_le_bytes(array(chunk))), base, member);
            if found.is_some() {
                return found;
            }
            base += 8;
        }
        let rest = chunks.remainder();
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        let inside = if rest.is_empty() { 0 } else { u64::MAX >> (64 - 8 * rest.len()) };
        self.check(matches(u64::from_le_bytes(word)) & inside, base, member)
    }

    /// The first of the ranks from `base` on, a byte of `matches` each, that has this member.
    #[inline(always)]
    fn check(self, mut matches: u64, base: usize, member: &[u8]) -> Option<usize> {
        while matches != 0 {
            let rank = base + matches.trailing_zeros() as usize / 8;
            if self.member(rank) == member {
                return Some(rank);
            }
            matches &= matches - 1;
        }
        None
    }

    /// How many members, from the first on, are `before`.
    #[inline]
    fn partition(self, mut before: impl FnMut(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// How many members have a score before this order.
    #[inline]
    pub(super) fn rank_of_order(self, bound: u64) -> usize {
        self.partition(|rank| order(self.score(rank)) < bound)
    }

    /// How many members stand before this one.
    #[inline]
    pub(super) fn rank_of_pair(self, score: f64, member: &[u8]) -> usize {
        let wanted = order(score);
        self.partition(|rank| {
            let found = order(self.score(rank));
            found < wanted || found == wanted && self.member(rank) < member
        })
    }

    /// How many members, from the first on, are `before`, which must tell them in order.
    pub(super) fn rank_of_member(self, before: impl Fn(&[u8]) -> bool) -> usize {
        self.partition(|rank| before(self.member(rank)))
    }
}

/// Adds a member that is not there yet. The blob must stay below [`BYTES_MAX`] with it.
pub(super) fn insert(slot: &mut Slot<'_>, member: &[u8], score: f64) {
    let flat = Flat::new(slot.packed());
    let rank = flat.rank_of_pair(score, member);
    make_room(slot, 1, member.len(), Width::of_score(score));
    insert_at(slot.packed_mut(), rank, member, score);
}

/// Removes the members of these ranks.
pub(super) fn remove(slot: &mut Slot<'_>, ranks: Range<usize>) {
    remove_at(slot.packed_mut(), ranks);
    give_room(slot);
}

/// Gives the member of a rank another score.
pub(super) fn set_score(slot: &mut Slot<'_>, rank: usize, member: &[u8], score: f64) {
    let flat = Flat::new(slot.packed());
    let bound = order(score);
    let follows = |rank: usize| {
        let found = order(flat.score(rank));
        found < bound || found == bound && flat.member(rank) < member
    };
    let stays = (rank == 0 || follows(rank - 1)) && (rank + 1 == flat.len() || !follows(rank + 1));
    let width = Width::of_score(score);
    if stays && width <= flat.layout.width {
        let layout = flat.layout;
        return layout.width.write(&mut slot.packed_mut()[HEADER_BYTES..], rank, score);
    }
    make_room(slot, 0, 0, width);
    let bytes = slot.packed_mut();
    remove_at(bytes, rank..rank + 1);
    let rank = Flat::new(bytes).rank_of_pair(score, member);
    insert_at(bytes, rank, member, score);
}

/// Appends to `bytes`, which begins with a tag, the packed form of what `sorted` gives in order: exactly as long as needed.
pub(super) fn pack<'m>(bytes: &mut Vec<u8>, sorted: impl Iterator<Item = (&'m [u8], f64)> + Clone) {
    let (mut count, mut member_bytes, mut width) = (0, 0, Width::Byte);
    for (member, score) in sorted.clone() {
        count += 1;
        member_bytes += member.len();
        width = width.max(Width::of_score(score));
    }
    let layout = Layout { width, cells: count };
    assert!(layout.members() + member_bytes < BYTES_MAX, "what is packed is small");
    bytes.truncate(1);
    bytes.resize(layout.members() + member_bytes, 0);
    bytes[0] = bytes[0] & 0x0F | (width as u8) << WIDTH_SHIFT;
    set_number(bytes, COUNT_AT, count);
    set_number(bytes, CELLS_AT, count);
    let mut end = 0;
    for (rank, (member, score)) in sorted.enumerate() {
        width.write(&mut bytes[HEADER_BYTES..], rank, score);
        bytes[layout.fingerprints() + rank] = fingerprint(member);
        bytes[layout.members() + end..][..member.len()].copy_from_slice(member);
        end += member.len();
        set_number(bytes, layout.ends() + rank * END_BYTES, end);
    }
}

fn set_number(bytes: &mut [u8], at: usize, number: usize) {
    let number = u16::try_from(number).expect("a packed set is below 64 KiB");
    bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
}

/// Sees to it that so many more members, of so many bytes, and a score of that width find room.
#[inline]
fn make_room(slot: &mut Slot<'_>, members: usize, member_bytes: usize, width: Width) {
    let flat = Flat::new(slot.packed());
    let (old, used) = (flat.layout, flat.member_bytes());
    let room = flat.bytes.len() - old.members() - used;
    let fits = flat.count + members <= old.cells;
    if fits && room >= member_bytes && width <= old.width {
        return;
    }
    let cells = if fits { old.cells } else { with_room(flat.count + members) };
    let new = Layout { width: width.max(old.width), cells };
    let wanted = if room >= member_bytes { used + room } else { with_room(used + member_bytes) };
    let count = flat.count;
    let bytes = slot.resize(new.members() + wanted);
    // From the last row to the first, for each moves towards the end.
    bytes.copy_within(old.members()..old.members() + used, new.members());
    bytes.copy_within(old.ends()..old.ends() + count * END_BYTES, new.ends());
    bytes.copy_within(old.fingerprints()..old.fingerprints() + count, new.fingerprints());
    if new.width != old.width {
        for rank in (0..count).rev() {
            let score = old.width.read(&bytes[HEADER_BYTES..], rank);
            new.width.write(&mut bytes[HEADER_BYTES..], rank, score);
        }
    }
    bytes[0] = bytes[0] & 0x0F | (new.width as u8) << WIDTH_SHIFT;
    set_number(bytes, CELLS_AT, new.cells);
}

/// Gives back cells and bytes when many are unused.
fn give_room(slot: &mut Slot<'_>) {
    let flat = Flat::new(slot.packed());
    let (old, used, count) = (flat.layout, flat.member_bytes(), flat.count);
    let room = flat.bytes.len() - old.members() - used;
    if old.cells <= with_room(count) + count / 8 + 8 && room <= used / 4 + 64 {
        return;
    }
    let new = Layout { cells: with_room(count).min(old.cells), ..old };
    let bytes = slot.packed_mut();
    // From the first row to the last, for each moves towards the beginning.
    bytes.copy_within(old.fingerprints()..old.fingerprints() + count, new.fingerprints());
    bytes.copy_within(old.ends()..old.ends() + count * END_BYTES, new.ends());
    bytes.copy_within(old.members()..old.members() + used, new.members());
    set_number(bytes, CELLS_AT, new.cells);
    slot.resize(new.members() + with_room(used).min(used + room));
}

/// So many, and a 16th more.
fn with_room(count: usize) -> usize {
    count + count / 16
}

/// Puts a member where there is room for it.
fn insert_at(bytes: &mut [u8], rank: usize, member: &[u8], score: f64) {
    let flat = Flat::new(bytes);
    let (count, layout) = (flat.count, flat.layout);
    let (start, used) = (flat.end(rank), flat.member_bytes());
    let at = layout.members() + start;
    bytes.copy_within(at..layout.members() + used, at + member.len());
    bytes[at..at + member.len()].copy_from_slice(member);
    let ends = &mut bytes[layout.ends()..][..(count + 1) * END_BYTES];
    ends.copy_within(rank * END_BYTES..count * END_BYTES, (rank + 1) * END_BYTES);
    let added = member.len() as u16;
    ends[rank * END_BYTES..][..END_BYTES].copy_from_slice(&(start as u16 + added).to_le_bytes());
    shift_ends(&mut ends[(rank + 1) * END_BYTES..], added);
    let fingerprints = &mut bytes[layout.fingerprints()..][..count + 1];
    fingerprints.copy_within(rank..count, rank + 1);
    fingerprints[rank] = fingerprint(member);
    let width = layout.width.bytes();
    let scores = &mut bytes[HEADER_BYTES..][..(count + 1) * width];
    scores.copy_within(rank * width..count * width, (rank + 1) * width);
    layout.width.write(scores, rank, score);
    set_number(bytes, COUNT_AT, count + 1);
}

fn remove_at(bytes: &mut [u8], ranks: Range<usize>) {
    let flat = Flat::new(bytes);
    let (count, layout) = (flat.count, flat.layout);
    let (start, end, used) = (flat.end(ranks.start), flat.end(ranks.end), flat.member_bytes());
    let members = layout.members();
    bytes.copy_within(members + end..members + used, members + start);
    let ends = &mut bytes[layout.ends()..][..count * END_BYTES];
    ends.copy_within(ranks.end * END_BYTES.., ranks.start * END_BYTES);
    let left = count - ranks.len();
    shift_ends(&mut ends[ranks.start * END_BYTES..left * END_BYTES], ((end - start) as u16).wrapping_neg());
    let fingerprints = layout.fingerprints();
    bytes.copy_within(fingerprints + ranks.end..fingerprints + count, fingerprints + ranks.start);
    let width = layout.width.bytes();
    let scores = &mut bytes[HEADER_BYTES..][..count * width];
    scores.copy_within(ranks.end * width.., ranks.start * width);
    set_number(bytes, COUNT_AT, left);
}

/// Adds to each end, modulo 2^16.
fn shift_ends(ends: &mut [u8], by: u16) {
    for end in ends.chunks_exact_mut(END_BYTES) {
        let shifted = u16::from_le_bytes([end[0], end[1]]).wrapping_add(by);
        end.copy_from_slice(&shifted.to_le_bytes());
    }
}
