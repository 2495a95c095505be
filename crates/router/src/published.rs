//! What shards let others see without entering them: the number of keys of each of their databases.

use std::sync::atomic::{AtomicU64, Ordering};

use shard::ShardId;

/// Number of keys per shard and database. Written by whoever holds the shard, read by anybody.
pub struct Published {
    databases: u16,
    /// Shard-major; a shard's counts begin on their own cache line.
    keys: Box<[AtomicU64]>,
    stride: usize,
}

/// Counts per cache line of 64 bytes.
const LINE: usize = 64 / size_of::<AtomicU64>();

impl Published {
    pub fn new(shards: u16, databases: u16) -> Self {
        let stride = usize::from(databases).next_multiple_of(LINE);
        let keys = (0..usize::from(shards) * stride).map(|_| AtomicU64::new(0)).collect();
        Self { databases, keys, stride }
    }

    pub fn databases(&self) -> u16 {
        self.databases
    }

    /// Publishes the number of keys of a database of a shard that the caller holds.
    #[inline]
    pub fn set(&self, shard: ShardId, db: u16, keys: u64) {
        let cell = &self.keys[usize::from(shard) * self.stride + usize::from(db)];
        // Relaxed: a count that stands alone; nothing is read because of it. The comparison spares the line a write.
        if cell.load(Ordering::Relaxed) != keys {
            cell.store(keys, Ordering::Relaxed);
        }
    }

    /// Keys of a database in one shard.
    pub fn keys_in(&self, shard: ShardId, db: u16) -> u64 {
        self.keys[usize::from(shard) * self.stride + usize::from(db)].load(Ordering::Relaxed)
    }

    /// Keys of a database in all shards.
    pub fn keys(&self, db: u16) -> u64 {
        self.keys
            .iter()
            .skip(usize::from(db))
            .step_by(self.stride)
            .map(|cell| cell.load(Ordering::Relaxed))
            .sum()
    }
}
