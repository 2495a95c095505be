//! What a key holds, on its way from one key or keyspace to another (RENAME, MOVE, COPY).

use memory::{BigRef, EntryRef, Kind};

/// A value with its deadline and metadata, without its key.
pub struct Value {
    pub(super) kind: Kind,
    /// The value as an entry stores it, unless it is big.
    pub(super) inline: Vec<u8>,
    pub(super) big: Option<BigRef>,
    /// Unix time in ms when the entry expires.
    pub deadline: Option<u64>,
    /// The eviction metadata.
    pub access: Option<[u8; 3]>,
}

impl Value {
    pub(super) fn of(entry: EntryRef<'_>) -> Value {
        let big = entry.big();
        let inline = if big.is_some() { Vec::new() } else { entry.value().to_vec() };
        Value { kind: entry.kind(), inline, big, deadline: entry.deadline(), access: entry.access() }
    }
}
