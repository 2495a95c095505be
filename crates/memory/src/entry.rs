//! The bytes of an entry: one block holds the key, the value, the deadline and the access metadata.
//! HOT: no allocation, no lock, no syscall, no log. Not the block heap: it only knows the two bits that the heap keeps in the flags.
//!
//! ```text
//! flags 1 | key length 1,2,3,5 | value length 1,2,3,5 | deadline 0,5,8 | access 0,3 | key | value
//!
//! flags: bit 7  PREV_FREE: the block before this one is free       (the heap's)
//!        bit 6  FREE: this block is free, its layout is the heap's (the heap's)
//!        bit 5  access metadata present
//!        bits 4-3  deadline: 0 none, 1 in 5 bytes (ms since 2024-01-01 UTC, 34 years), 2 in 8 bytes (unix ms)
//!        bits 2-0  kind
//! length: below 252 one byte; 252 and one byte: 252 + it; 253 and two bytes; 254 and four bytes
//! plain block (kind 7): flags 1 | bytes of the whole block, 3 | contents
//! ```
//!
//! All numbers are little-endian.

#![allow(unsafe_code, reason = "the island of data: reads and writes entries through pointers")]

use std::marker::PhantomData;
use std::ptr;
use std::slice;

/// The block before this one is free; its last two bytes are its size.
pub(crate) const PREV_FREE: u8 = 1 << 7;
/// This block is free.
pub(crate) const FREE: u8 = 1 << 6;
const ACCESS: u8 = 1 << 5;
const DEADLINE_SHIFT: u8 = 3;
const DEADLINE_MASK: u8 = 3 << DEADLINE_SHIFT;
const DEADLINE_5: u8 = 1 << DEADLINE_SHIFT;
const DEADLINE_8: u8 = 2 << DEADLINE_SHIFT;
const KIND_MASK: u8 = 7;
/// Header of a plain block: flags and its bytes.
pub(crate) const PLAIN_HEADER_BYTES: usize = 4;

/// 2024-01-01T00:00:00Z in unix milliseconds: 19,723 days of 86,400,000 ms.
const DEADLINE_EPOCH_MS: u64 = 19_723 * 86_400_000;
/// Five bytes of milliseconds.
const DEADLINE_5_SPAN_MS: u64 = 1 << 40;
const ACCESS_BYTES: usize = 3;
/// Lengths below it take one byte.
const LENGTH_1_MAX: usize = 252;

/// What the value of an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A string, as its bytes.
    Bytes = 0,
    /// A string that is an integer: two's complement, little-endian, in the fewest bytes.
    Integer = 1,
    /// A string that was modified in place: reported as encoding `raw`.
    Raw = 2,
    /// A string in a run of its own: the value is a [`crate::BigRef`], owned by the entry.
    Big = 3,
    /// A collection; the first byte of the value is its type.
    Collection = 4,
    /// A collection with memory of its own: the value is its type byte and a [`crate::Large`], owned by the entry.
    Large = 5,
    /// Not an entry: a block that belongs to another structure.
    Plain = 7,
}

impl Kind {
    /// Whether the value is the address of something that the entry owns.
    #[inline(always)]
    pub(crate) fn owns(self) -> bool {
        matches!(self, Kind::Big | Kind::Large)
    }

    #[inline(always)]
    fn from_flags(flags: u8) -> Kind {
        match flags & KIND_MASK {
            0 => Kind::Bytes,
            1 => Kind::Integer,
            2 => Kind::Raw,
            3 => Kind::Big,
            4 => Kind::Collection,
            5 => Kind::Large,
            7 => Kind::Plain,
            kind => panic!("an entry of kind {kind}"),
        }
    }
}

/// What an entry is made of, before it has a block.
#[derive(Clone, Copy, Debug)]
pub struct EntryParts<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What the value is.
    pub kind: Kind,
    /// The value's bytes; see [`Kind`].
    pub value: &'a [u8],
    /// Unix time in ms when the entry expires.
    pub deadline: Option<u64>,
    /// Eviction metadata.
    pub access: Option<[u8; 3]>,
}

impl EntryParts<'_> {
    /// Bytes of the entry, not yet rounded up to granules.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.shape(self.value.len()).bytes()
    }

    #[inline]
    pub(crate) fn shape(&self, value_bytes: usize) -> Shape {
        Shape {
            flags: self.kind as u8
                | deadline_flags(self.deadline)
                | if self.access.is_some() { ACCESS } else { 0 },
            key_bytes: self.key.len(),
            value_bytes,
        }
    }

    /// Writes the entry into a block; the heap's bits in its flags stay.
    ///
    /// # Safety
    /// `to` must be a block of at least `self.bytes()` bytes that nobody else uses, and key and value must not lie in it.
    #[inline]
    pub(crate) unsafe fn write(&self, to: *mut u8) {
        let shape = self.shape(self.value.len());
        // SAFETY: the caller vouches for the block; header, key and value take the shape's bytes.
        unsafe {
            let key = write_header(to, &shape, self.deadline, self.access);
            ptr::copy_nonoverlapping(self.key.as_ptr(), key, self.key.len());
            ptr::copy_nonoverlapping(self.value.as_ptr(), key.add(self.key.len()), self.value.len());
        }
    }
}

/// Writes what stands before the key; the address of the key.
///
/// # Safety
/// `to` must be a block of at least `shape.bytes()` bytes that nobody else uses; deadline and access must be those of the shape.
#[inline]
pub(crate) unsafe fn write_header(
    to: *mut u8,
    shape: &Shape,
    deadline: Option<u64>,
    access: Option<[u8; 3]>,
) -> *mut u8 {
    // SAFETY: the caller vouches for the block; the offsets lie in it by the shape's arithmetic.
    unsafe {
        *to = (*to & PREV_FREE) | shape.flags;
        let mut at = write_length(to.add(1), shape.key_bytes);
        at = write_length(at, shape.value_bytes);
        at = write_deadline(at, shape.flags, deadline);
        if let Some(access) = access {
            ptr::copy_nonoverlapping(access.as_ptr(), at, ACCESS_BYTES);
            at = at.add(ACCESS_BYTES);
        }
        at
    }
}

/// The form of an entry: with it all sizes and offsets are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Kind, deadline form and access bit; without the heap's bits.
    pub(crate) flags: u8,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
}

impl Shape {
    #[inline]
    pub(crate) fn new(
        kind: Kind,
        key_bytes: usize,
        value_bytes: usize,
        deadline: Option<u64>,
        access: Option<[u8; 3]>,
    ) -> Shape {
        let access = if access.is_some() { ACCESS } else { 0 };
        Shape { flags: kind as u8 | deadline_flags(deadline) | access, key_bytes, value_bytes }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        1 + length_bytes(self.key_bytes)
            + length_bytes(self.value_bytes)
            + deadline_bytes(self.flags)
            + access_bytes(self.flags)
            + self.key_bytes
            + self.value_bytes
    }
}

/// A view of an entry in a heap. It is a pointer: cheap to copy, valid while the heap is borrowed.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    at: *const u8,
    heap: PhantomData<&'a ()>,
}

/// Where the parts of an entry lie, as offsets from its start.
#[derive(Clone, Copy)]
struct Layout {
    key_bytes: usize,
    value_bytes: usize,
    /// Of the deadline, or of what stands in its place.
    deadline: usize,
    key: usize,
}

impl<'a> EntryRef<'a> {
    /// # Safety
    /// `at` must be the start of an entry that stays in place, unchanged, for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(at: *const u8) -> EntryRef<'a> {
        let entry = EntryRef { at, heap: PhantomData };
        debug_assert!(entry.flags() & FREE == 0, "the handle names a free block");
        entry
    }

    /// The key.
    #[inline(always)]
    pub fn key(self) -> &'a [u8] {
        let layout = self.layout();
        // SAFETY: the entry holds that many bytes of key there.
        unsafe { slice::from_raw_parts(self.at.add(layout.key), layout.key_bytes) }
    }

    /// The value's bytes as the entry stores them; see [`Kind`].
    #[inline(always)]
    pub fn value(self) -> &'a [u8] {
        let layout = self.layout();
        // SAFETY: the entry holds that many bytes of value behind its key.
        unsafe { slice::from_raw_parts(self.at.add(layout.key + layout.key_bytes), layout.value_bytes) }
    }

    /// What the value is.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        Kind::from_flags(self.flags())
    }

    /// Unix time in ms when the entry expires.
    #[inline(always)]
    pub fn deadline(self) -> Option<u64> {
        let flags = self.flags();
        if flags & DEADLINE_MASK == 0 {
            return None;
        }
        let at = self.layout().deadline;
        let mut bytes = [0; 8];
        let count = deadline_bytes(flags);
        // SAFETY: the flags say that so many bytes of deadline stand there.
        unsafe { ptr::copy_nonoverlapping(self.at.add(at), bytes.as_mut_ptr(), count) };
        let ms = u64::from_le_bytes(bytes);
        Some(if count == 8 { ms } else { ms + DEADLINE_EPOCH_MS })
    }

    /// Whether the entry has a deadline.
    #[inline(always)]
    pub fn has_deadline(self) -> bool {
        self.flags() & DEADLINE_MASK != 0
    }

    /// Eviction metadata, if the entry has any.
    #[inline(always)]
    pub fn access(self) -> Option<[u8; 3]> {
        if self.flags() & ACCESS == 0 {
            return None;
        }
        let at = self.layout().key - ACCESS_BYTES;
        // SAFETY: the flags say that the metadata stands before the key.
        Some(unsafe { self.at.add(at).cast::<[u8; 3]>().read() })
    }

    /// The integer of an entry of [`Kind::Integer`].
    #[inline]
    pub fn integer(self) -> Option<i64> {
        (self.kind() == Kind::Integer).then(|| decode_integer(self.value()))
    }

    /// The bytes of a string, wherever they are; None for integers and collections.
    #[inline]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self.kind() {
            Kind::Bytes | Kind::Raw => Some(self.value()),
            // SAFETY: the entry owns the big value and stays unchanged for `'a`, and so do the bytes of a value that is owned.
            Kind::Big => Some(unsafe { crate::big::borrow_raw(self.value()) }),
            Kind::Integer | Kind::Collection | Kind::Large | Kind::Plain => None,
        }
    }

    /// The collection of an entry of [`Kind::Large`].
    #[inline]
    pub fn large(self) -> Option<&'a dyn crate::Large> {
        // SAFETY: the entry owns the collection, which changes only through `&mut` of the heap.
        (self.kind() == Kind::Large).then(|| unsafe { crate::large::borrow_raw(self.value()) })
    }

    /// A counted reference to the value of an entry of [`Kind::Big`].
    pub fn big(self) -> Option<crate::BigRef> {
        // SAFETY: the entry owns the big value and stays unchanged for `'a`.
        (self.kind() == Kind::Big).then(|| unsafe { crate::big::clone_raw(self.value()) })
    }

    /// Bytes of the entry (without those of a big value), not rounded up to granules.
    #[inline]
    pub fn size(self) -> usize {
        let layout = self.layout();
        layout.key + layout.key_bytes + layout.value_bytes
    }

    /// Bytes before the key, of the key, and of the value.
    #[inline]
    pub(crate) fn extents(self) -> (usize, usize, usize) {
        let layout = self.layout();
        (layout.key, layout.key_bytes, layout.value_bytes)
    }

    /// The entry's parts, to build a changed copy of it.
    pub fn parts(self) -> EntryParts<'a> {
        EntryParts {
            key: self.key(),
            kind: self.kind(),
            value: self.value(),
            deadline: self.deadline(),
            access: self.access(),
        }
    }

    #[inline(always)]
    pub(crate) fn address(self) -> *const u8 {
        self.at
    }

    #[inline(always)]
    pub(crate) fn flags(self) -> u8 {
        // SAFETY: every block starts with its flags.
        unsafe { *self.at }
    }

    #[inline(always)]
    fn layout(self) -> Layout {
        debug_assert!(self.kind() != Kind::Plain, "a plain block is not an entry");
        // SAFETY: an entry starts with flags and two lengths.
        let (flags, key_bytes, value_bytes) = unsafe { (*self.at, *self.at.add(1), *self.at.add(2)) };
        let behind = deadline_bytes(flags) + access_bytes(flags);
        if usize::from(key_bytes.max(value_bytes)) < LENGTH_1_MAX {
            return Layout {
                key_bytes: usize::from(key_bytes),
                value_bytes: usize::from(value_bytes),
                deadline: 3,
                key: 3 + behind,
            };
        }
        self.layout_of_long_lengths(behind)
    }

    #[inline(never)]
    fn layout_of_long_lengths(self, behind: usize) -> Layout {
        // SAFETY: an entry starts with flags and two lengths; `read_length` reads the bytes that their first bytes announce.
        unsafe {
            let (key_bytes, at) = read_length(self.at.add(1));
            let (value_bytes, at) = read_length(at);
            let deadline = at.offset_from_unsigned(self.at);
            Layout { key_bytes, value_bytes, deadline, key: deadline + behind }
        }
    }
}

/// An entry that may be changed in place, within its bytes.
pub struct EntryMut<'a> {
    at: *mut u8,
    heap: PhantomData<&'a mut ()>,
}

impl<'a> EntryMut<'a> {
    /// # Safety
    /// `at` must be the start of an entry that nobody else uses for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(at: *mut u8) -> EntryMut<'a> {
        EntryMut { at, heap: PhantomData }
    }

    /// The entry, to be read.
    #[inline(always)]
    pub fn view(&self) -> EntryRef<'_> {
        // SAFETY: the borrow of `self` keeps the entry unchanged meanwhile.
        unsafe { EntryRef::new(self.at) }
    }

    /// The bytes of the value. Panics for a kind that owns something, whose bytes are an address.
    #[inline]
    pub fn value_mut(self) -> &'a mut [u8] {
        assert!(!self.view().kind().owns(), "what an entry owns is changed through the heap");
        let layout = self.view().layout();
        // SAFETY: the entry holds that many bytes of value behind its key; `self` is the only view of them and is given up.
        unsafe { slice::from_raw_parts_mut(self.at.add(layout.key + layout.key_bytes), layout.value_bytes) }
    }

    /// Changes the deadline if that changes no size: to another deadline of the same form. Whether it did.
    #[inline]
    pub fn set_deadline(&mut self, deadline: Option<u64>) -> bool {
        let flags = self.view().flags();
        let wanted = deadline_flags(deadline);
        if flags & DEADLINE_MASK != wanted {
            return false;
        }
        let at = self.view().layout().deadline;
        // SAFETY: the flags say that the deadline stands there in this form.
        unsafe { write_deadline(self.at.add(at), flags, deadline) };
        true
    }

    /// Changes the eviction metadata of an entry that has room for it. Whether it has.
    #[inline]
    pub fn set_access(&mut self, access: [u8; 3]) -> bool {
        if self.view().flags() & ACCESS == 0 {
            return false;
        }
        let at = self.view().layout().key - ACCESS_BYTES;
        // SAFETY: the flags say that the metadata stands before the key.
        unsafe { ptr::copy_nonoverlapping(access.as_ptr(), self.at.add(at), ACCESS_BYTES) };
        true
    }

    /// Changes what the value is; neither from nor to a kind that owns something.
    #[inline]
    pub fn set_kind(&mut self, kind: Kind) {
        let flags = self.view().flags();
        assert!(
            !self.view().kind().owns() && !kind.owns() && kind != Kind::Plain,
            "what an entry owns changes hands elsewhere"
        );
        // SAFETY: every block starts with its flags; the heap's bits stay as they are.
        unsafe { *self.at = flags & !KIND_MASK | kind as u8 };
    }

    /// Changes the kind of an entry whose owned value has been taken out.
    #[inline]
    pub(crate) fn forget_owned(&mut self, kind: Kind) {
        let flags = self.view().flags();
        // SAFETY: every block starts with its flags; the heap's bits stay as they are.
        unsafe { *self.at = flags & !KIND_MASK | kind as u8 };
    }

    /// Changes the integer of an entry of [`Kind::Integer`] if it takes as many bytes as the old one. Whether it does.
    #[inline]
    pub fn set_integer(&mut self, integer: i64) -> bool {
        let encoded = Integer::new(integer);
        let view = self.view();
        if view.kind() != Kind::Integer || view.value().len() != encoded.as_bytes().len() {
            return false;
        }
        let layout = view.layout();
        // SAFETY: the value has exactly that many bytes.
        unsafe {
            ptr::copy_nonoverlapping(
                encoded.as_bytes().as_ptr(),
                self.at.add(layout.key + layout.key_bytes),
                layout.value_bytes,
            );
        }
        true
    }
}

/// An integer as the value of an entry: the fewest bytes of two's complement, little-endian, at least one.
#[derive(Clone, Copy)]
pub struct Integer {
    bytes: [u8; 8],
    count: u8,
}

impl Integer {
    /// Encodes `integer`.
    #[inline]
    pub fn new(integer: i64) -> Integer {
        // Bits that a two's complement needs: all but the copies of the sign, and one sign.
        let bits = 65 - (integer ^ (integer >> 63)).leading_zeros();
        Integer { bytes: integer.to_le_bytes(), count: bits.div_ceil(8) as u8 }
    }

    /// One to eight bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }
}

/// The integer in the value of an entry of [`Kind::Integer`].
#[inline]
fn decode_integer(value: &[u8]) -> i64 {
    debug_assert!((1..=8).contains(&value.len()));
    let mut bytes = [0; 8];
    bytes[..value.len()].copy_from_slice(value);
    let unused = 64 - 8 * value.len() as u32;
    i64::from_le_bytes(bytes) << unused >> unused
}

/// Bytes of the block that starts at `at`: what the heap asks about a block in use.
///
/// # Safety
/// `at` must be the start of a block in use.
#[inline(always)]
pub(crate) unsafe fn block_bytes(at: *const u8) -> usize {
    // SAFETY: every block starts with its flags.
    let flags = unsafe { *at };
    if flags & KIND_MASK == Kind::Plain as u8 {
        // SAFETY: a plain block starts with four bytes of header.
        let header = unsafe { at.cast::<u32>().read_unaligned() };
        return (u32::from_le(header) >> 8) as usize;
    }
    EntryRef { at, heap: PhantomData }.size()
}

#[inline(always)]
const fn deadline_bytes(flags: u8) -> usize {
    const BYTES: [u8; 4] = [0, 5, 8, 0];
    BYTES[((flags & DEADLINE_MASK) >> DEADLINE_SHIFT) as usize] as usize
}

#[inline(always)]
const fn access_bytes(flags: u8) -> usize {
    if flags & ACCESS != 0 { ACCESS_BYTES } else { 0 }
}

#[inline(always)]
fn deadline_flags(deadline: Option<u64>) -> u8 {
    match deadline {
        None => 0,
        Some(ms) if ms.wrapping_sub(DEADLINE_EPOCH_MS) < DEADLINE_5_SPAN_MS => DEADLINE_5,
        Some(_) => DEADLINE_8,
    }
}

/// # Safety
/// `at` must be writable for the bytes of the form that `flags` names.
#[inline(always)]
unsafe fn write_deadline(at: *mut u8, flags: u8, deadline: Option<u64>) -> *mut u8 {
    let Some(ms) = deadline else { return at };
    let ms = if flags & DEADLINE_MASK == DEADLINE_5 { ms - DEADLINE_EPOCH_MS } else { ms };
    let count = deadline_bytes(flags);
    // SAFETY: the caller vouches for `count` bytes.
    unsafe {
        ptr::copy_nonoverlapping(ms.to_le_bytes().as_ptr(), at, count);
        at.add(count)
    }
}

#[inline(always)]
const fn length_bytes(length: usize) -> usize {
    match length {
        0..LENGTH_1_MAX => 1,
        LENGTH_1_MAX..508 => 2,
        508..65536 => 3,
        _ => 5,
    }
}

/// # Safety
/// `at` must be writable for the bytes of the length, `length_bytes(length)`.
#[inline(always)]
unsafe fn write_length(at: *mut u8, length: usize) -> *mut u8 {
    // SAFETY: the caller vouches for the bytes.
    unsafe {
        match length_bytes(length) {
            1 => *at = length as u8,
            2 => at.cast::<[u8; 2]>().write([252, (length - LENGTH_1_MAX) as u8]),
            3 => {
                *at = 253;
                at.add(1).cast::<[u8; 2]>().write((length as u16).to_le_bytes());
            }
            _ => {
                *at = 254;
                let length = u32::try_from(length).expect("keys and values stay below 4 GiB");
                at.add(1).cast::<[u8; 4]>().write(length.to_le_bytes());
            }
        }
        at.add(length_bytes(length))
    }
}

/// # Safety
/// `at` must point to a length as [`write_length`] wrote it.
#[inline]
unsafe fn read_length(at: *const u8) -> (usize, *const u8) {
    // SAFETY: the caller vouches for the bytes that the first one announces.
    unsafe {
        match *at {
            252 => (LENGTH_1_MAX + usize::from(*at.add(1)), at.add(2)),
            253 => (usize::from(u16::from_le_bytes(at.add(1).cast::<[u8; 2]>().read())), at.add(3)),
            254 => (u32::from_le_bytes(at.add(1).cast::<[u8; 4]>().read()) as usize, at.add(5)),
            length => (usize::from(length), at.add(1)),
        }
    }
}
