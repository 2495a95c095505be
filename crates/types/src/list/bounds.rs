//! When the peers would begin another block, and by which encoding they would keep a list. Not how long our own bytes are: theirs are computed
//! from each element, so that OBJECT ENCODING changes at the same moments.
//!
//! ```text
//! list-max-listpack-size   -1 to -5: 4 to 64 KiB of their bytes; above 0: that many elements, and 8 KiB; 0: one element
//! their block              6 | element ... | 1        element: header 1,2,3,4,5,9 with integer or length | string | size backwards 1 to 5
//! ```

use crate::Limits;
use crate::packed::Piece;

/// Their block without an element.
pub(super) const EMPTY_BYTES: usize = 7;
/// What they expect an element to take beside its string.
const ELEMENT_OVERHEAD: usize = 8;
/// The bound of bytes where elements are counted.
const SAFE_BYTES: usize = 8 << 10;
const BYTES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Bounds of a block.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    bytes: usize,
    count: Option<u64>,
}

impl Bounds {
    pub(super) fn of(limits: &Limits) -> Bounds {
        match limits.list_max_listpack_size {
            size @ ..0 => {
                let level = (size.unsigned_abs() as usize - 1).min(BYTES.len() - 1);
                Bounds { bytes: BYTES[level], count: None }
            }
            count => Bounds { bytes: SAFE_BYTES, count: Some(u64::from(count.unsigned_abs().max(1))) },
        }
    }

    /// Whether a block of so many of their bytes, and elements, is too long.
    #[inline]
    pub(super) fn exceeded(&self, bytes: usize, count: u64) -> bool {
        bytes > self.bytes || self.count.is_some_and(|most| count > most)
    }

    /// Whether an element of so many bytes gets a block to itself.
    #[inline]
    pub(super) fn is_large(&self, len: usize) -> bool {
        len > self.bytes
    }

    /// Whether an element of `len` bytes may be added to a block of so many of their bytes, and elements.
    #[inline]
    pub(super) fn allow(&self, bytes: usize, count: u64, len: usize) -> bool {
        !self.is_large(len) && !self.exceeded(bytes + len + ELEMENT_OVERHEAD, count + 1)
    }

    /// Whether a list that has shrunk to one block of so many of their bytes, and elements, is kept as a short one again.
    pub(super) fn is_short(&self, bytes: usize, count: u64) -> bool {
        match self.count {
            None => bytes <= self.bytes / 2,
            Some(most) => count <= most / 2,
        }
    }
}

/// Bytes that an element takes in their block.
#[inline]
pub(super) fn element_bytes(piece: Piece<'_>) -> usize {
    let size = match piece {
        Piece::Int(0..=127) => 1,
        Piece::Int(-4096..=4095) => 2,
        Piece::Int(-0x8000..=0x7FFF) => 3,
        Piece::Int(-0x80_0000..=0x7F_FFFF) => 4,
        Piece::Int(-0x8000_0000..=0x7FFF_FFFF) => 5,
        Piece::Int(_) => 9,
        Piece::Bytes(bytes) => {
            bytes.len()
                + match bytes.len() {
                    0..64 => 1,
                    64..4096 => 2,
                    _ => 5,
                }
        }
    };
    size + match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}
