//! HOT: how the name of a field stands in a table: without what the names of the table begin with, and an integer in its fewest bytes.
//!
//! ```text
//! FF | integer, two's complement, little-endian     the shared beginning and the text of an integer
//! FE | name                                         a name that begins otherwise, or whose rest begins with FE or FF
//! any other bytes                                   the shared beginning and these
//! ```
//!
//! No text in UTF-8 holds FE or FF. The beginning is chosen once, when a hash becomes a table.

use memory::Integer;
use stdx::num::{I64_LEN_MAX, parse_i64};

use super::{Name, common, is_worth_it};
use crate::packed::Piece;

const INTEGER: u8 = 0xFF;
const WHOLE: u8 = 0xFE;

/// See the head of this file.
pub(super) enum Stored<'a> {
    Rest(&'a [u8]),
    Integer([u8; 9], usize),
    Whole(Vec<u8>),
}

impl<'a> Stored<'a> {
    /// How `name` stands in a table whose names begin with `prefix`.
    #[inline]
    pub(super) fn of(prefix: &[u8], name: &'a [u8]) -> Stored<'a> {
        let Some(rest) = name.strip_prefix(prefix) else { return Stored::whole(name) };
        if rest.len() <= I64_LEN_MAX
            && let Some(integer) = parse_i64(rest)
        {
            let integer = Integer::new(integer);
            let len = integer.as_bytes().len();
            let mut bytes = [INTEGER; 9];
            bytes[1..=len].copy_from_slice(integer.as_bytes());
            return Stored::Integer(bytes, len + 1);
        }
        if rest.first().is_some_and(|first| *first >= WHOLE) {
            Stored::whole(name)
        } else {
            Stored::Rest(rest)
        }
    }

    #[cold]
    fn whole(name: &[u8]) -> Stored<'a> {
        let mut bytes = Vec::with_capacity(1 + name.len());
        bytes.push(WHOLE);
        bytes.extend_from_slice(name);
        Stored::Whole(bytes)
    }
}

impl AsRef<[u8]> for Stored<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Stored::Rest(rest) => rest,
            Stored::Integer(bytes, len) => &bytes[..*len],
            Stored::Whole(bytes) => bytes,
        }
    }
}

/// The name that stands in a table so.
#[inline]
pub(super) fn name<'a>(prefix: &'a [u8], stored: &'a [u8]) -> Name<'a> {
    match stored {
        [WHOLE, name @ ..] => Name { prefix: b"", rest: Piece::Bytes(name) },
        [INTEGER, integer @ ..] => {
            let mut bytes = [0; 8];
            bytes[..integer.len()].copy_from_slice(integer);
            let unused = 64 - 8 * integer.len() as u32;
            Name { prefix, rest: Piece::Int(i64::from_le_bytes(bytes) << unused >> unused) }
        }
        rest => Name { prefix, rest: Piece::Bytes(rest) },
    }
}

/// The beginning that the names of a table are likely to share, from what those before it have in common: without its last digits, which will count
/// on; of zeroes that fill up a number half stay.
pub(super) fn lasting(shared: &[u8]) -> &[u8] {
    let digits = shared.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (text, digits) = shared.split_at(shared.len() - digits);
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    let kept = &shared[..text.len() + zeros / 2];
    if is_worth_it(text) { kept } else { b"" }
}

/// What all of several names begin with.
pub(super) fn shared<'n>(names: impl Iterator<Item = &'n [u8]>) -> &'n [u8] {
    names.reduce(common).unwrap_or_default()
}
