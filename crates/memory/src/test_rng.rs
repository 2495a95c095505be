//! Chance for the randomized tests of this crate. The seed is printed; `DARTER_SEED` repeats a run.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A random number generator for tests: xorshift*.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(what: &str) -> Rng {
        let seed = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one(0)) | 1;
        println!("{what}: DARTER_SEED={seed}");
        Rng(seed)
    }

    pub(crate) fn seeded(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % u64::from(n)) as u32
    }
}
