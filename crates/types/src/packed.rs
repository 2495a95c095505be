//! HOT: a sequence of strings in one stretch of bytes, to be walked from either end. Not a collection: who owns the bytes, how many elements
//! there are and what they mean is the business of the types.
//!
//! ```text
//! sequence  mark | data | mark | data | mark             one mark more than elements; one mark (0) if there is none
//! mark      code of the element before XOR code of the element behind; beyond an end the code counts as 0
//! code      0-127    a string of that many bytes         data: the string
//!           128-239  the integer 0 to 111                no data
//!           240-247  an integer of 1 to 8 bytes          data: two's complement in the fewest bytes, little-endian
//!           248-250  a longer string                     data: length | string | length; 1 (less 128), 2, 4 bytes each
//! ```
//!
//! Whoever comes from one side knows the code on that side, and the mark gives it the other one: so one byte per element serves both directions.
//! An integer is a string in canonical decimal form; it is always kept as an integer, so that equal strings are equal in code and data.

use std::ops::Range;

use memory::Integer;
use stdx::num::{I64_LEN_MAX, digits_u64, format_i64, parse_i64};

use crate::Slot;

const STRING_MAX: usize = 127;
const INTEGER_IN_CODE: u8 = 128;
const INTEGER_IN_CODE_MAX: i64 = 111;
/// The code of an integer of n bytes is this and n - 1.
const INTEGER_MIN: u8 = 240;
const STRING_1: u8 = 248;
const STRING_2: u8 = 249;
const STRING_4: u8 = 250;
/// The shortest string with a length of its own, and the first whose length takes two bytes and four.
const LONG_MIN: usize = STRING_MAX + 1;
const LONG_2_MIN: usize = LONG_MIN + 256;
const LONG_4_MIN: usize = 1 << 16;

/// The sequence without an element.
pub const EMPTY: &[u8] = &[0];

/// Room for the text of an integer.
pub type IntText = [u8; I64_LEN_MAX];

/// An element as it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    Bytes(&'a [u8]),
    /// A string in canonical decimal form.
    Int(i64),
}

impl<'a> Piece<'a> {
    /// Bytes of the string.
    #[expect(clippy::len_without_is_empty, reason = "an empty element is nothing special")]
    #[inline]
    pub fn len(self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Int(integer) => digits_u64(integer.unsigned_abs()) + usize::from(integer < 0),
        }
    }

    /// The string; an integer is written out in `text`.
    #[inline]
    pub fn to_bytes(self, text: &'a mut IntText) -> &'a [u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Int(integer) => format_i64(integer, text),
        }
    }

    /// Appends the string to `to`.
    pub fn write_to(self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.to_bytes(&mut [0; I64_LEN_MAX]));
    }

    /// The string, owned.
    pub fn to_vec(self) -> Vec<u8> {
        self.to_bytes(&mut [0; I64_LEN_MAX]).to_vec()
    }
}

/// An element to be written or looked for.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    code: u8,
    data: Data<'a>,
}

#[derive(Clone, Copy)]
enum Data<'a> {
    String(&'a [u8]),
    Integer(Integer),
    None,
}

impl<'a> Element<'a> {
    /// The element with this string: below 4 GiB.
    #[inline]
    pub fn new(string: &'a [u8]) -> Element<'a> {
        if string.len() <= I64_LEN_MAX
            && let Some(integer) = parse_i64(string)
        {
            return Element::of_integer(integer);
        }
        let code = match string.len() {
            0..LONG_MIN => string.len() as u8,
            LONG_MIN..LONG_2_MIN => STRING_1,
            LONG_2_MIN..LONG_4_MIN => STRING_2,
            _ => STRING_4,
        };
        Element { code, data: Data::String(string) }
    }

    /// The element whose string is the canonical text of `integer`.
    #[inline]
    pub fn of_integer(integer: i64) -> Element<'a> {
        if (0..=INTEGER_IN_CODE_MAX).contains(&integer) {
            return Element { code: INTEGER_IN_CODE + integer as u8, data: Data::None };
        }
        let integer = Integer::new(integer);
        Element { code: INTEGER_MIN + integer.as_bytes().len() as u8 - 1, data: Data::Integer(integer) }
    }

    /// The element that was read.
    #[inline]
    pub fn of(piece: Piece<'a>) -> Element<'a> {
        match piece {
            Piece::Bytes(string) => Element::new(string),
            Piece::Int(integer) => Element::of_integer(integer),
        }
    }

    /// The element as it will be read.
    #[inline]
    pub fn piece(&self) -> Piece<'a> {
        match &self.data {
            Data::String(string) => Piece::Bytes(string),
            Data::Integer(integer) => Piece::Int(decode_integer(integer.as_bytes())),
            Data::None => Piece::Int(i64::from(self.code - INTEGER_IN_CODE)),
        }
    }

    /// Bytes that it takes in a sequence, its mark included.
    #[inline]
    pub fn size(&self) -> usize {
        1 + self.data_size()
    }

    #[inline]
    fn data_size(&self) -> usize {
        self.data().len() + 2 * length_size(self.code)
    }

    /// Integer or string, without the lengths around it.
    #[inline]
    fn data(&self) -> &[u8] {
        match &self.data {
            Data::String(string) => string,
            Data::Integer(integer) => integer.as_bytes(),
            Data::None => &[],
        }
    }

    #[inline]
    fn write(&self, to: &mut [u8]) {
        let data = self.data();
        let length = length_size(self.code);
        if length != 0 {
            let bytes = encode_length(self.code, data.len());
            to[..length].copy_from_slice(&bytes[..length]);
            to[length + data.len()..][..length].copy_from_slice(&bytes[..length]);
        }
        to[length..][..data.len()].copy_from_slice(data);
    }
}

/// A place between two elements, or at an end: at a mark, with the code of the element before it. Good until the sequence changes before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    at: usize,
    before: u8,
}

impl Cursor {
    /// Before the first element.
    pub const START: Cursor = Cursor { at: 0, before: 0 };

    /// Bytes from the start of the sequence to the mark.
    #[inline]
    pub fn offset(self) -> usize {
        self.at
    }
}

/// A sequence to be read; a pointer, cheap to copy.
#[derive(Clone, Copy)]
pub struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    /// The sequence that is exactly these bytes; at least one.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Packed<'a> {
        debug_assert!(!bytes.is_empty(), "a sequence has a mark at least");
        Packed(bytes)
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.len() == 1
    }

    /// How many elements there are. O(elements).
    pub fn count(self) -> usize {
        self.iter().count()
    }

    /// Behind the last element.
    #[inline]
    pub fn end(self) -> Cursor {
        let at = self.0.len() - 1;
        Cursor { at, before: self.0[at] }
    }

    /// The element behind the cursor; None at the end.
    #[inline]
    pub fn get(self, cursor: Cursor) -> Option<Piece<'a>> {
        (cursor.at + 1 < self.0.len()).then(|| {
            let code = self.0[cursor.at] ^ cursor.before;
            let data = cursor.at + 1;
            self.piece(code, data, data_size(self.0, code, data))
        })
    }

    /// Behind the element that follows; None at the end.
    #[inline]
    pub fn next(self, cursor: Cursor) -> Option<Cursor> {
        if cursor.at + 1 >= self.0.len() {
            return None;
        }
        let code = self.0[cursor.at] ^ cursor.before;
        let data = cursor.at + 1;
        Some(Cursor { at: data + data_size(self.0, code, data), before: code })
    }

    /// Before the element that precedes; None at the start.
    #[inline]
    pub fn previous(self, cursor: Cursor) -> Option<Cursor> {
        if cursor.at == 0 {
            return None;
        }
        let code = cursor.before;
        let at = cursor.at - 1 - data_size_before(self.0, code, cursor.at);
        Some(Cursor { at, before: self.0[at] ^ code })
    }

    /// Before the element at `index`, counted from the front; the end if `index` is the count, None beyond it. O(index).
    pub fn nth(self, index: usize) -> Option<Cursor> {
        let mut cursor = Cursor::START;
        for _ in 0..index {
            cursor = self.next(cursor)?;
        }
        Some(cursor)
    }

    /// Before the element that has `index` elements behind it; None if there are not so many. O(index).
    pub fn nth_back(self, index: usize) -> Option<Cursor> {
        let mut cursor = self.previous(self.end())?;
        for _ in 0..index {
            cursor = self.previous(cursor)?;
        }
        Some(cursor)
    }

    /// All elements, from either end.
    #[inline]
    pub fn iter(self) -> Walk<'a> {
        Walk { packed: self, front: Cursor::START, back: self.end() }
    }

    /// The elements behind a cursor.
    #[inline]
    pub fn iter_from(self, front: Cursor) -> Walk<'a> {
        Walk { packed: self, front, back: self.end() }
    }

    /// The elements before a cursor.
    #[inline]
    pub fn iter_to(self, back: Cursor) -> Walk<'a> {
        Walk { packed: self, front: Cursor::START, back }
    }

    /// How many elements are equal to `wanted`. O(elements).
    pub fn count_equal(self, wanted: &Element<'_>) -> usize {
        let mut count = 0;
        let mut cursor = Cursor::START;
        while let Some(next) = self.next(cursor) {
            count += usize::from(self.is_at(cursor, wanted));
            cursor = next;
        }
        count
    }

    /// Looks for an element among the first, and every `step`th behind it (2 for the fields of pairs). Before it, and its place
    /// in steps. O(elements), without a look at the bytes of elements of another length.
    #[inline]
    pub fn find(self, wanted: &Element<'_>, step: usize) -> Option<(Cursor, usize)> {
        self.find_or_count(wanted, step).ok()
    }

    /// As [`Packed::find`]; if the element is not there, the number of steps to the end.
    #[inline]
    pub fn find_or_count(self, wanted: &Element<'_>, step: usize) -> Result<(Cursor, usize), usize> {
        let (bytes, data) = (self.0, wanted.data());
        let skipped = length_size(wanted.code);
        let mut cursor = Cursor::START;
        let mut place = 0;
        while cursor.at + 1 < bytes.len() {
            let code = bytes[cursor.at] ^ cursor.before;
            let start = cursor.at + 1;
            let size = data_size(bytes, code, start);
            if code == wanted.code
                && size == data.len() + 2 * skipped
                && equal(&bytes[start + skipped..][..data.len()], data)
            {
                return Ok((cursor, place));
            }
            cursor = Cursor { at: start + size, before: code };
            for _ in 1..step {
                cursor = self.next(cursor).ok_or(place + 1)?;
            }
            place += 1;
        }
        Err(place)
    }

    /// Whether the element behind the cursor is `wanted`.
    #[inline]
    pub fn is_at(self, cursor: Cursor, wanted: &Element<'_>) -> bool {
        if cursor.at + 1 >= self.0.len() || self.0[cursor.at] ^ cursor.before != wanted.code {
            return false;
        }
        let start = cursor.at + 1;
        let (data, skipped) = (wanted.data(), length_size(wanted.code));
        data_size(self.0, wanted.code, start) == data.len() + 2 * skipped
            && equal(&self.0[start + skipped..][..data.len()], data)
    }

    #[inline]
    fn piece(self, code: u8, data: usize, size: usize) -> Piece<'a> {
        let data = &self.0[data..][..size];
        match code {
            0..INTEGER_IN_CODE => Piece::Bytes(data),
            INTEGER_IN_CODE..INTEGER_MIN => Piece::Int(i64::from(code - INTEGER_IN_CODE)),
            INTEGER_MIN..STRING_1 => Piece::Int(decode_integer(data)),
            _ => {
                let length = length_size(code);
                Piece::Bytes(&data[length..size - length])
            }
        }
    }
}

/// The elements of a sequence, from either end.
#[derive(Clone)]
pub struct Walk<'a> {
    packed: Packed<'a>,
    front: Cursor,
    back: Cursor,
}

impl Walk<'_> {
    /// Before the next element from the front.
    #[inline]
    pub fn front(&self) -> Cursor {
        self.front
    }

    /// Behind the next element from the back.
    #[inline]
    pub fn back(&self) -> Cursor {
        self.back
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        if self.front.at == self.back.at {
            return None;
        }
        let bytes = self.packed.0;
        let code = bytes[self.front.at] ^ self.front.before;
        let data = self.front.at + 1;
        let size = data_size(bytes, code, data);
        self.front = Cursor { at: data + size, before: code };
        Some(self.packed.piece(code, data, size))
    }
}

impl DoubleEndedIterator for Walk<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front.at == self.back.at {
            return None;
        }
        let bytes = self.packed.0;
        let code = self.back.before;
        let size = data_size_before(bytes, code, self.back.at);
        let at = self.back.at - 1 - size;
        self.back = Cursor { at, before: bytes[at] ^ code };
        Some(self.packed.piece(code, at + 1, size))
    }
}

/// Bytes that contain a sequence and can be lengthened and shortened.
pub trait Region {
    /// All bytes.
    fn bytes(&self) -> &[u8];

    /// Replaces `remove` bytes at `at` by `insert` bytes of any content; all bytes.
    fn splice(&mut self, at: usize, remove: usize, insert: usize) -> &mut [u8];
}

impl Region for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn splice(&mut self, at: usize, remove: usize, insert: usize) -> &mut [u8] {
        let (before, tail) = (self.len(), at + remove);
        let after = before - remove + insert;
        if insert > remove {
            self.resize(after, 0);
        }
        if insert != remove {
            self.copy_within(tail..before, at + insert);
            self.truncate(after);
        }
        self
    }
}

/// The bytes of a packed collection, its tag included.
impl Region for Slot<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.packed()
    }

    #[inline]
    fn splice(&mut self, at: usize, remove: usize, insert: usize) -> &mut [u8] {
        Slot::splice(self, at, remove, insert)
    }
}

/// Puts elements, in their order, where the cursor is, in the sequence that begins `start` bytes into the region and ends with it. O(bytes
/// behind the cursor).
pub fn insert<'e>(
    region: &mut impl Region,
    start: usize,
    cursor: Cursor,
    elements: impl Iterator<Item = Element<'e>> + Clone,
) {
    replace(region, start, cursor, 0, elements);
}

/// Takes `count` elements behind the cursor away; there must be as many. O(bytes behind the cursor).
pub fn remove(region: &mut impl Region, start: usize, cursor: Cursor, count: usize) {
    replace(region, start, cursor, count, std::iter::empty());
}

/// Puts elements, in their order, in the place of `count` elements behind the cursor; there must be as many. In place if they take as many bytes,
/// else O(bytes behind the cursor).
pub fn replace<'e>(
    region: &mut impl Region,
    start: usize,
    cursor: Cursor,
    count: usize,
    elements: impl Iterator<Item = Element<'e>> + Clone,
) {
    let packed = Packed::new(&region.bytes()[start..]);
    let mut end = cursor;
    for _ in 0..count {
        end = packed.next(end).expect("the elements are there");
    }
    let after = packed.0[end.at] ^ end.before;
    let at = start + cursor.at;
    let removed = end.at - cursor.at;
    let added = elements.clone().map(|element| element.size()).sum();
    let bytes = region.splice(at, removed, added);
    let mut rest = &mut bytes[at..];
    let mut before = cursor.before;
    for element in elements {
        rest[0] = before ^ element.code;
        element.write(&mut rest[1..]);
        before = element.code;
        rest = &mut rest[element.size()..];
    }
    rest[0] = before ^ after;
}

/// Adds an element before the sequence `range` of a buffer, where there must be room for it; the sequence then. O(1).
#[inline]
pub fn grow_front(buffer: &mut [u8], range: Range<usize>, element: &Element<'_>) -> Range<usize> {
    let start = range.start - element.size();
    buffer[range.start] ^= element.code;
    buffer[start] = element.code;
    element.write(&mut buffer[start + 1..range.start]);
    start..range.end
}

/// Adds an element behind the sequence `range` of a buffer, where there must be room for it; the sequence then. O(1).
#[inline]
pub fn grow_back(buffer: &mut [u8], range: Range<usize>, element: &Element<'_>) -> Range<usize> {
    let end = range.end + element.size();
    buffer[range.end - 1] ^= element.code;
    buffer[end - 1] = element.code;
    element.write(&mut buffer[range.end..end - 1]);
    range.start..end
}

/// Takes what is before the cursor away from the sequence `range` of a buffer; the sequence then. O(1).
#[inline]
pub fn cut_front(buffer: &mut [u8], range: Range<usize>, cursor: Cursor) -> Range<usize> {
    let start = range.start + cursor.at;
    buffer[start] ^= cursor.before;
    start..range.end
}

/// Takes what is behind the cursor away from the sequence `range` of a buffer; the sequence then. O(1).
#[inline]
pub fn cut_back(buffer: &mut [u8], range: Range<usize>, cursor: Cursor) -> Range<usize> {
    let last = range.start + cursor.at;
    buffer[last] = cursor.before;
    range.start..last + 1
}

/// Makes a sequence of elements at the end of `to`.
pub fn write<'e>(to: &mut Vec<u8>, elements: impl Iterator<Item = Element<'e>>) {
    let mut before = 0;
    for element in elements {
        to.push(before ^ element.code);
        let at = to.len();
        to.resize(at + element.data_size(), 0);
        element.write(&mut to[at..]);
        before = element.code;
    }
    to.push(before);
}

/// Whether two strings of the same length are equal; without a call for short ones.
#[inline]
fn equal(left: &[u8], right: &[u8]) -> bool {
    match (left.first_chunk::<8>(), right.first_chunk::<8>()) {
        (Some(a), Some(b)) if left.len() <= 16 => a == b && left.last_chunk::<8>() == right.last_chunk::<8>(),
        _ => left == right,
    }
}

/// Bytes of each of the lengths around a string with this code.
#[inline]
fn length_size(code: u8) -> usize {
    match code {
        STRING_1 => 1,
        STRING_2 => 2,
        STRING_4 => 4,
        _ => 0,
    }
}

fn encode_length(code: u8, length: usize) -> [u8; 4] {
    let length = if code == STRING_1 { length - LONG_MIN } else { length };
    u32::try_from(length).expect("an element is below 4 GiB").to_le_bytes()
}

/// Bytes of the data that begins at `data`.
#[inline]
fn data_size(bytes: &[u8], code: u8, data: usize) -> usize {
    match code {
        0..INTEGER_IN_CODE => usize::from(code),
        INTEGER_IN_CODE..INTEGER_MIN => 0,
        INTEGER_MIN..STRING_1 => usize::from(code - INTEGER_MIN) + 1,
        _ => long_size(code, &bytes[data..]),
    }
}

/// Bytes of the data that ends before `end`.
#[inline]
fn data_size_before(bytes: &[u8], code: u8, end: usize) -> usize {
    match code {
        0..INTEGER_IN_CODE => usize::from(code),
        INTEGER_IN_CODE..INTEGER_MIN => 0,
        INTEGER_MIN..STRING_1 => usize::from(code - INTEGER_MIN) + 1,
        _ => long_size(code, &bytes[end - length_size(code)..]),
    }
}

/// Bytes of the data of a long string, one of whose lengths stands at the start of `bytes`.
#[inline(never)]
fn long_size(code: u8, bytes: &[u8]) -> usize {
    let size = length_size(code);
    assert!(size != 0, "a code that nobody has written");
    let mut length = [0; 4];
    length[..size].copy_from_slice(&bytes[..size]);
    let length = u32::from_le_bytes(length) as usize;
    2 * size + length + if code == STRING_1 { LONG_MIN } else { 0 }
}

#[inline]
fn decode_integer(data: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    bytes[..data.len()].copy_from_slice(data);
    let unused = 64 - 8 * data.len() as u32;
    i64::from_le_bytes(bytes) << unused >> unused
}

#[cfg(test)]
pub(crate) mod tests;
