//! What shards let others see without entering them: the number of keys of each of their databases, how many of them expire or have fields that do, and
//! how many keys are waited for.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use shard::ShardId;
use shard::keyspace::{Change, Keyspace};

/// Keys of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub keys: u64,
    /// Those of them that have a deadline.
    pub volatile: u64,
    /// Those of them of which some fields have a deadline.
    pub volatile_fields: u64,
}

/// The counts of a database that may never have been used.
#[inline]
pub fn counts(keyspace: Option<&mut Keyspace>) -> Counts {
    keyspace.map_or_else(Counts::default, |keyspace| Counts {
        keys: keyspace.len(),
        volatile: keyspace.volatile_len(),
        volatile_fields: keyspace.volatile_fields_len(),
    })
}

/// Counts per shard and database. Written by whoever holds the shard, read by anybody.
pub struct Published {
    databases: u16,
    /// Shard-major; a shard's counts begin on their own cache line.
    cells: Box<[Cell]>,
    stride: usize,
    /// Keys of all databases and shards that somebody waits for, and those where somebody wants to know when they go.
    waited_for: AtomicI64,
    waited_for_on_nokey: AtomicI64,
    /// Per shard: keys that somebody tracks, and their readers.
    tracked: Box<[[AtomicU64; 2]]>,
}

#[derive(Default)]
#[repr(align(32))]
struct Cell {
    keys: AtomicU64,
    volatile: AtomicU64,
    volatile_fields: AtomicU64,
}

/// Counts per cache line of 64 bytes.
const LINE: usize = 64 / size_of::<Cell>();

impl Published {
    pub fn new(shards: u16, databases: u16) -> Self {
        let stride = usize::from(databases).next_multiple_of(LINE);
        let cells = (0..usize::from(shards) * stride).map(|_| Cell::default()).collect();
        Self {
            databases,
            cells,
            stride,
            waited_for: AtomicI64::new(0),
            waited_for_on_nokey: AtomicI64::new(0),
            tracked: (0..shards).map(|_| Default::default()).collect(),
        }
    }

    pub fn databases(&self) -> u16 {
        self.databases
    }

    fn cell(&self, shard: ShardId, db: u16) -> &Cell {
        &self.cells[usize::from(shard) * self.stride + usize::from(db)]
    }

    /// Publishes the counts of a database of a shard that the caller holds.
    #[inline]
    pub fn set(&self, shard: ShardId, db: u16, counts: Counts) {
        let cell = self.cell(shard, db);
        let pairs = [
            (&cell.keys, counts.keys),
            (&cell.volatile, counts.volatile),
            (&cell.volatile_fields, counts.volatile_fields),
        ];
        for (cell, count) in pairs {
            // Relaxed: a count that stands alone; nothing is read because of it. The comparison spares the line a write.
            if cell.load(Ordering::Relaxed) != count {
                cell.store(count, Ordering::Relaxed);
            }
        }
    }

    /// Notes that somebody has begun or ceased to wait for a key.
    pub fn waits_changed(&self, change: Change) {
        // Relaxed: counts that stand alone.
        self.waited_for.fetch_add(change.keys, Ordering::Relaxed);
        self.waited_for_on_nokey.fetch_add(change.on_nokey, Ordering::Relaxed);
    }

    /// Keys that somebody waits for; those where somebody wants to know when they go.
    pub fn waited_for(&self) -> (u64, u64) {
        let count = |cell: &AtomicI64| u64::try_from(cell.load(Ordering::Relaxed)).unwrap_or(0);
        (count(&self.waited_for), count(&self.waited_for_on_nokey))
    }

    /// Publishes how many keys of a shard that the caller holds are tracked, and by how many readers.
    #[inline]
    pub fn set_tracked(&self, shard: ShardId, (keys, readers): (u64, u64)) {
        let cells = &self.tracked[usize::from(shard)];
        for (cell, count) in cells.iter().zip([keys, readers]) {
            // Relaxed, and compared before, as in `set`.
            if cell.load(Ordering::Relaxed) != count {
                cell.store(count, Ordering::Relaxed);
            }
        }
    }

    /// Keys of one shard that are tracked, and their readers.
    pub fn tracked_in(&self, shard: ShardId) -> (u64, u64) {
        let [keys, readers] = &self.tracked[usize::from(shard)];
        (keys.load(Ordering::Relaxed), readers.load(Ordering::Relaxed))
    }

    /// Keys of all shards that are tracked, and their readers.
    pub fn tracked(&self) -> (u64, u64) {
        let shards = 0..self.tracked.len() as ShardId;
        shards.map(|shard| self.tracked_in(shard)).fold((0, 0), |sum, here| (sum.0 + here.0, sum.1 + here.1))
    }

    /// Keys of a database in one shard.
    pub fn keys_in(&self, shard: ShardId, db: u16) -> u64 {
        self.cell(shard, db).keys.load(Ordering::Relaxed)
    }

    /// Keys of a database in all shards.
    pub fn keys(&self, db: u16) -> u64 {
        self.cells_of(db).map(|cell| cell.keys.load(Ordering::Relaxed)).sum()
    }

    /// Keys with a deadline of a database in all shards.
    pub fn volatile(&self, db: u16) -> u64 {
        self.cells_of(db).map(|cell| cell.volatile.load(Ordering::Relaxed)).sum()
    }

    /// Keys of a database in all shards of which some fields have a deadline.
    pub fn volatile_fields(&self, db: u16) -> u64 {
        self.cells_of(db).map(|cell| cell.volatile_fields.load(Ordering::Relaxed)).sum()
    }

    fn cells_of(&self, db: u16) -> impl Iterator<Item = &Cell> {
        self.cells.iter().skip(usize::from(db)).step_by(self.stride)
    }
}
