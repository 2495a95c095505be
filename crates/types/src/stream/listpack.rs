//! How long the peers' nodes would be: the bytes that an element takes in a listpack. No listpack is ever made.

use stdx::num::parse_i64;

/// Bytes of an integer, with the length that follows it for walks backwards.
#[inline]
pub(super) fn integer_bytes(integer: i64) -> usize {
    match integer {
        0..=127 => 2,
        -4096..=4095 => 3,
        -0x8000..=0x7FFF => 4,
        -0x80_0000..=0x7F_FFFF => 5,
        -0x8000_0000..=0x7FFF_FFFF => 6,
        _ => 10,
    }
}

/// Bytes of a string, which is kept as an integer if it is the text of one.
#[inline]
pub(super) fn item_bytes(text: &[u8]) -> usize {
    if let Some(integer) = parse_i64(text) {
        return integer_bytes(integer);
    }
    let bytes = text.len()
        + match text.len() {
            0..64 => 1,
            64..4096 => 2,
            _ => 5,
        };
    bytes
        + match bytes {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        }
}
