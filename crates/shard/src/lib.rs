//! A shard: latch, inbox, keyspace, expiry, eviction, journal.

pub mod expiry;
pub mod keyspace;
pub mod latch;
#[cfg(test)]
#[path = "latch/tests.rs"]
mod latch_tests;
pub mod lazyfree;
mod sync;

/// The number of a shard.
pub type ShardId = u16;
