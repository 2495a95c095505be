//! HOT: from an element to a register and a value for it.

use super::INDEX_BITS;

/// What adding an element means to a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// 0 to 16383.
    pub register: usize,
    /// One more than the zeroes behind the register's number in the hash: 1 to 51.
    pub rank: u8,
}

impl Position {
    /// Where an element belongs.
    #[inline]
    pub fn of(element: &[u8]) -> Position {
        let hash = murmur64a(element, SEED);
        let register = (hash & ((1 << INDEX_BITS) - 1)) as usize;
        // A one behind the last bit ends the count.
        let rest = hash >> INDEX_BITS | 1 << (u64::BITS - INDEX_BITS);
        Position { register, rank: rest.trailing_zeros() as u8 + 1 }
    }
}

/// The peers' seed; another one would give other registers.
const SEED: u64 = 0xadc8_3b19;

/// MurmurHash64A (Appleby 2008).
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, tail) = bytes.as_chunks();
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        hash = (hash ^ (word ^ word >> SHIFT).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}
