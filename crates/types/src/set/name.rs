//! HOT: how a member is named in a table: an integer by its fewest bytes, a string by itself.
//!
//! ```text
//! FF | integer, two's complement, little-endian      FE | a string that begins with FE or FF      any other string as it is
//! ```
//!
//! No text in UTF-8 begins with FE or FF, so few strings are longer for it, and an integer of ten digits takes 6 bytes.

use memory::Integer;
use stdx::num::{I64_LEN_MAX, parse_i64};

use crate::packed::Piece;

const INTEGER: u8 = 0xFF;
const ESCAPED: u8 = 0xFE;

/// The name of a member.
pub(super) enum Name<'a> {
    Plain(&'a [u8]),
    Integer([u8; 9], usize),
    Escaped(Vec<u8>),
}

impl<'a> Name<'a> {
    #[inline]
    pub(super) fn of(piece: Piece<'a>) -> Name<'a> {
        match piece {
            Piece::Int(integer) => {
                let integer = Integer::new(integer);
                let mut bytes = [INTEGER; 9];
                let len = integer.as_bytes().len();
                bytes[1..=len].copy_from_slice(integer.as_bytes());
                Name::Integer(bytes, len + 1)
            }
            Piece::Bytes(string) if string.first().is_some_and(|first| *first >= ESCAPED) => {
                let mut bytes = Vec::with_capacity(string.len() + 1);
                bytes.push(ESCAPED);
                bytes.extend_from_slice(string);
                Name::Escaped(bytes)
            }
            Piece::Bytes(string) => Name::Plain(string),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Name::Plain(string) => string,
            Name::Integer(bytes, len) => &bytes[..*len],
            Name::Escaped(bytes) => bytes,
        }
    }
}

/// The member that has this name.
#[inline]
pub(super) fn member(name: &[u8]) -> Piece<'_> {
    match name {
        [INTEGER, integer @ ..] => {
            let mut bytes = [0; 8];
            bytes[..integer.len()].copy_from_slice(integer);
            let unused = 64 - 8 * integer.len() as u32;
            Piece::Int(i64::from_le_bytes(bytes) << unused >> unused)
        }
        [ESCAPED, string @ ..] => Piece::Bytes(string),
        string => Piece::Bytes(string),
    }
}

/// The member that a string is.
#[inline]
pub fn piece(string: &[u8]) -> Piece<'_> {
    let integer = if string.len() <= I64_LEN_MAX { parse_i64(string) } else { None };
    integer.map_or(Piece::Bytes(string), Piece::Int)
}
