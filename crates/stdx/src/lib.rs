//! Small pure helpers that know nothing of Darter: glob, slots, hashes, numbers, random bits.
//!
//! Nothing here keeps state between calls, reads a clock or allocates on a hot path.

pub mod hash;
pub mod num;
pub mod quote;
pub mod rng;
pub mod slot;
