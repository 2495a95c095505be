//! What a key holds, on its way from one key or keyspace to another (RENAME, MOVE, COPY).

use memory::{BigRef, EntryRef, Kind, Large};

/// A value with its deadline and metadata, without its key.
pub struct Value {
    pub(super) content: Content,
    /// Unix time in ms when the entry expires.
    pub deadline: Option<u64>,
    /// The eviction metadata.
    pub access: Option<[u8; 3]>,
}

/// The value itself.
pub(super) enum Content {
    /// As an entry stores it.
    Inline(Kind, Vec<u8>),
    Big(BigRef),
    /// With its tag.
    Large(u8, Box<dyn Large>),
}

impl Value {
    /// A copy of what an entry holds; a big string is shared.
    pub(super) fn of(entry: EntryRef<'_>) -> Value {
        let content = match (entry.big(), entry.large()) {
            (Some(big), _) => Content::Big(big),
            (_, Some(large)) => Content::Large(entry.value()[0], large.duplicate()),
            (None, None) => Content::Inline(entry.kind(), entry.value().to_vec()),
        };
        Value { content, deadline: entry.deadline(), access: entry.access() }
    }

    pub(super) fn large(
        tag: u8,
        large: Box<dyn Large>,
        deadline: Option<u64>,
        access: Option<[u8; 3]>,
    ) -> Value {
        Value { content: Content::Large(tag, large), deadline, access }
    }
}
