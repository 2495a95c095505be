//! A shard: latch, inbox, keyspace, waiters, expiry, eviction, journal.

pub mod access;
pub mod data;
pub mod eviction;
pub mod exec;
pub mod expiry;
pub mod keyspace;
pub mod latch;
#[cfg(test)]
#[path = "latch/model/mod.rs"]
mod latch_model;
#[cfg(test)]
#[path = "latch/stress.rs"]
mod latch_stress;
#[cfg(test)]
#[path = "latch/tests.rs"]
mod latch_tests;
pub mod lazyfree;
pub mod notify;
pub mod plan;
pub mod settings;
mod settle;
mod sync;
pub mod tracking;
pub mod waiter;

/// The number of a shard.
pub type ShardId = u16;
