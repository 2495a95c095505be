//! The hash of the shards' indexes: rapidhash v3 with secrets drawn from a seed, so that a client cannot
//! choose colliding keys. Not for anything that leaves the process.
//!
//! HOT: no allocation. Keys of up to 16 bytes take one path without a loop.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The secrets behind one seed: 64 bytes, meant to be kept beside the table that uses them.
#[derive(Clone, Copy, Debug)]
pub struct Seed(RapidSecrets);

impl Seed {
    /// Derives the secrets. Takes some ten multiplications: do it once per table.
    pub const fn new(seed: u64) -> Seed {
        Seed(RapidSecrets::seed(seed))
    }
}

/// Hash of `bytes`: all 64 bits are well mixed, so a caller may take any of them.
#[inline]
pub fn hash64(seed: &Seed, bytes: &[u8]) -> u64 {
    rapidhash_v3_seeded(bytes, &seed.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn same_seed_same_hash_other_seed_other_hash() {
        let seed = Seed::new(1);
        assert_eq!(hash64(&seed, b"key"), hash64(&Seed::new(1), b"key"));
        assert_ne!(hash64(&seed, b"key"), hash64(&Seed::new(2), b"key"));
        assert_ne!(hash64(&seed, b""), hash64(&seed, b"\0"));
    }

    #[test]
    fn every_window_of_bits_is_spread() {
        let seed = Seed::new(7);
        for shift in [0, 8, 24, 40, 48] {
            let seen: HashSet<u64> = (0..65536_u32)
                .map(|number| hash64(&seed, format!("key:{number}").as_bytes()) >> shift & 0xffff)
                .collect();
            // 65536 balls in 65536 bins leave 1/e = 36.8 % of the bins empty.
            assert!((40700..42200).contains(&seen.len()), "shift {shift}: {} values", seen.len());
        }
    }
}
