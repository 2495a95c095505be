//! What the latch of a shard protects: its databases, and the counters a thread keeps while it runs commands.

use std::sync::Arc;

use memory::IndexHint;

use crate::ShardId;
use crate::keyspace::{Keyspace, Storage};
use crate::lazyfree::LazyFree;

/// The hints of every shard's databases, shard-major: what others may prefetch without entering.
pub type Hints = Arc<[Arc<IndexHint>]>;

/// Everything one shard owns.
pub struct ShardData {
    pub id: ShardId,
    storage: Storage,
    databases: Box<[Option<Box<Keyspace>>]>,
    hints: Hints,
    /// Keyspaces that FLUSHDB and FLUSHALL detached, and large collections; freed in slices by the shard's home thread.
    pub detached: LazyFree,
    /// What expired or was evicted since the last write that was journaled, as records; only filled while a journal listens. They come
    /// before that write's own records, so that a replay finds what the write found.
    pub removed: Vec<(u16, command::Record)>,
    /// Stamp of the last write to this shard: see `docs/journal.md`.
    pub stamp_last: u64,
}

impl ShardData {
    /// `hints` has an element for each database of each shard.
    pub fn new(id: ShardId, databases: u16, storage: Storage, hints: Hints) -> Self {
        let databases = (0..databases).map(|_| None).collect();
        Self {
            id,
            storage,
            databases,
            hints,
            detached: LazyFree::default(),
            removed: Vec::new(),
            stamp_last: 0,
        }
    }

    /// What all values of the process share.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Database `db` of this shard, made on first use.
    #[inline]
    pub fn keyspace(&mut self, db: u16) -> &mut Keyspace {
        let Self { id, storage, databases, hints, .. } = self;
        let number = usize::from(*id) * databases.len() + usize::from(db);
        databases[usize::from(db)].get_or_insert_with(|| {
            let mut keyspace = Box::new(Keyspace::new(*storage));
            keyspace.set_hint(Some(Arc::clone(&hints[number])));
            keyspace
        })
    }

    /// Database `db`, if anything was ever written to it.
    #[inline]
    pub fn existing(&mut self, db: u16) -> Option<&mut Keyspace> {
        self.databases[usize::from(db)].as_deref_mut()
    }

    /// The same, to be read.
    #[inline]
    pub fn peek(&self, db: u16) -> Option<&Keyspace> {
        self.databases[usize::from(db)].as_deref()
    }

    /// Every database in use with its number.
    pub fn in_use(&mut self) -> impl Iterator<Item = (u16, &mut Keyspace)> {
        (0..).zip(self.databases.iter_mut()).filter_map(|(db, keyspace)| Some((db, keyspace.as_deref_mut()?)))
    }

    /// Whether a key that somebody waits for has changed since those who wait were last served.
    pub fn has_ready(&mut self) -> bool {
        self.in_use().any(|(_, keyspace)| keyspace.waits().has_ready())
    }

    /// The removals that the journal does not know yet, as its records.
    pub fn take_removed(&mut self) -> impl Iterator<Item = (u16, command::Record)> + use<> {
        std::mem::take(&mut self.removed).into_iter()
    }

    /// Unix time in ms before which nothing in this shard expires; 0 while a walk goes on.
    pub fn expiry_due_ms(&mut self) -> u64 {
        self.in_use().map(|(_, keyspace)| keyspace.expiry_due_ms()).min().unwrap_or(u64::MAX)
    }

    /// Takes what waits to be freed: detached keyspaces, and large collections whose keys are gone.
    pub fn take_detached(&mut self) -> LazyFree {
        let Self { databases, detached, storage, .. } = self;
        for keyspace in databases.iter_mut().flatten() {
            for large in keyspace.take_orphans() {
                detached.push_large(large, storage.arena);
            }
        }
        std::mem::take(detached)
    }

    /// Bytes of holes in the pages of this shard.
    pub fn waste_bytes(&mut self) -> u64 {
        self.in_use()
            .map(|(_, keyspace)| {
                let bytes = keyspace.bytes();
                bytes.pages.saturating_sub(bytes.live)
            })
            .sum()
    }

    /// Exchanges what two databases hold. Watched keys of both that are there before or after count as changed.
    pub fn swap(&mut self, a: u16, b: u16) {
        if a == b || self.existing(a).is_none() && self.existing(b).is_none() {
            return;
        }
        self.keyspace(a);
        self.keyspace(b);
        let Ok([a, b]) = self.databases.get_disjoint_mut([usize::from(a), usize::from(b)]) else {
            panic!("two different databases below their number")
        };
        if let (Some(a), Some(b)) = (a, b) {
            a.touch_watched(Some(b));
            b.touch_watched(Some(a));
            a.swap(b);
        }
    }

    /// Empties a database: what it held waits in `detached` to be freed in slices. Gives the number of keys that it held.
    pub fn detach(&mut self, db: u16) -> u64 {
        let Some(keyspace) = self.existing(db) else { return 0 };
        let keys = keyspace.len();
        if keys > 0 {
            keyspace.touch_watched(None);
            let detached = Box::new(keyspace.detach());
            self.detached.push(detached);
        }
        keys
    }
}

/// The record of a key that expired or was evicted.
pub fn key_record(key: &[u8]) -> command::Record {
    vec![b"UNLINK".to_vec(), key.to_vec()]
}

/// The record of a field that expired.
pub fn field_record(key: &[u8], field: &[u8]) -> command::Record {
    vec![b"HDEL".to_vec(), key.to_vec(), field.to_vec()]
}

/// What a thread counts while it runs data commands; each thread has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub keyspace_hits: u64,
    pub keyspace_misses: u64,
    pub expired_keys: u64,
    pub expired_fields: u64,
    pub evicted_keys: u64,
}

impl Counters {
    /// Adds what was counted elsewhere, by a command that another thread ran for this one.
    pub fn add(&mut self, other: Self) {
        self.keyspace_hits += other.keyspace_hits;
        self.keyspace_misses += other.keyspace_misses;
        self.expired_keys += other.expired_keys;
        self.expired_fields += other.expired_fields;
        self.evicted_keys += other.evicted_keys;
    }
}
