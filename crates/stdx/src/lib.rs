//! Small pure helpers that know nothing of Darter: glob, slots, hashes, numbers, random bits.
//!
//! Nothing here keeps state between calls, reads a clock or allocates on a hot path.

mod big;
pub mod crc64;
pub mod glob;
pub mod hash;
pub mod human;
pub mod longdouble;
pub mod lzf;
pub mod num;
pub mod quote;
pub mod rng;
pub mod sha1;
pub mod slot;
