//! Small pure helpers that know nothing of Darter: glob, slots, hashes, numbers, random bits.
