//! What the latch of a shard protects: its databases, and the counters a thread keeps while it runs commands.

use std::sync::Arc;

use memory::IndexHint;

use crate::ShardId;
use crate::keyspace::{Key, Keyspace, Storage};
use crate::lazyfree::LazyFree;
use crate::tracking::{Reader, Readers, Tracking};

/// The hints of every shard's databases, shard-major: what others may prefetch without entering.
pub type Hints = Arc<[Arc<IndexHint>]>;

/// Everything one shard owns.
pub struct ShardData {
    pub id: ShardId,
    storage: Storage,
    databases: Box<[Option<Box<Keyspace>>]>,
    hints: Hints,
    /// Changes of keys are noted, for those who track them.
    tracked: bool,
    tracking: Option<Box<Tracking>>,
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
            tracked: false,
            tracking: None,
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
        let Self { id, storage, databases, hints, tracked, .. } = self;
        let number = usize::from(*id) * databases.len() + usize::from(db);
        databases[usize::from(db)].get_or_insert_with(|| {
            let mut keyspace = Box::new(Keyspace::new(*storage));
            keyspace.set_hint(Some(Arc::clone(&hints[number])));
            if *tracked {
                keyspace.note_changes(true);
            }
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

    /// Whether changes of keys are noted.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// From now on changes of keys are noted, or no longer; then readers are forgotten.
    pub fn track(&mut self, wanted: bool) {
        self.tracked = wanted;
        self.databases.iter_mut().flatten().for_each(|keyspace| keyspace.note_changes(wanted));
        if !wanted {
            self.tracking = None;
        }
    }

    /// Somebody has read `key` and wants to know when it changes.
    pub fn remember(&mut self, key: Key<'_>, reader: Reader) {
        if !self.tracked {
            self.track(true);
        }
        let seed = self.storage.seed;
        self.tracking.get_or_insert_with(|| Box::new(Tracking::new(seed))).remember(key.bytes, reader);
    }

    /// The keys of database `db`, or of all, that have changed since changes were last taken, with those who have read them.
    pub fn take_changes(&mut self, db: Option<u16>) -> Vec<(Box<[u8]>, Option<Readers>)> {
        let Self { databases, tracking, .. } = self;
        let databases = match db {
            Some(db) => &mut databases[usize::from(db)..=usize::from(db)],
            None => &mut databases[..],
        };
        let changed = databases.iter_mut().flatten().flat_map(|keyspace| keyspace.take_changes());
        let mut readers = |key: &[u8]| tracking.as_mut().and_then(|tracking| tracking.take(key));
        changed.map(|key| (readers(&key), key)).map(|(readers, key)| (key, readers)).collect()
    }

    /// Forgets up to `count` arbitrary keys that were read: those who read them are to be told, as if they had changed.
    pub fn take_readers(&mut self, count: usize) -> Vec<(Box<[u8]>, Readers)> {
        self.tracking.as_mut().map(|tracking| tracking.take_some(count)).unwrap_or_default()
    }

    /// Forgets who has read what; whoever calls it tells them all.
    pub fn forget_readers(&mut self) {
        self.tracking = None;
    }

    /// Keys that somebody has read, and how many readers they have.
    #[inline]
    pub fn tracking_counts(&self) -> (u64, u64) {
        self.tracking.as_ref().map_or((0, 0), |tracking| tracking.counts())
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
