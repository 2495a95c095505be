//! Keyspace events: what a command tells those who listen to `__keyspace@..` and `__keyevent@..`. Not who listens, nor how they are told: the
//! router hands events over before the shards of the command are left.
//!
//! HOT: while `notify-keyspace-events` is empty an event costs one branch on a word of the settings.

use crate::keyspace::Key;

/// The kinds of events; those that are wanted are a set of them (`notify-keyspace-events`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class(u16);

impl Class {
    pub const NONE: Self = Self(0);
    /// `K`: messages to `__keyspace@<db>__:<key>`.
    pub const KEYSPACE: Self = Self(1);
    /// `E`: messages to `__keyevent@<db>__:<event>`.
    pub const KEYEVENT: Self = Self(1 << 1);
    pub const GENERIC: Self = Self(1 << 2);
    pub const STRING: Self = Self(1 << 3);
    pub const LIST: Self = Self(1 << 4);
    pub const SET: Self = Self(1 << 5);
    pub const HASH: Self = Self(1 << 6);
    pub const SORTED_SET: Self = Self(1 << 7);
    pub const EXPIRED: Self = Self(1 << 8);
    pub const EVICTED: Self = Self(1 << 9);
    pub const STREAM: Self = Self(1 << 10);
    /// What modules tell; there are none.
    pub const MODULE: Self = Self(1 << 11);
    /// A key was looked up and is not there; not in `A`.
    pub const KEY_MISS: Self = Self(1 << 12);
    /// A key has come; not in `A`.
    pub const NEW: Self = Self(1 << 13);

    /// The letters of the setting, in the order in which they are shown.
    pub const LETTERS: [(u8, Self); 14] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::SORTED_SET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
        (b'n', Self::NEW),
        (b'K', Self::KEYSPACE),
        (b'E', Self::KEYEVENT),
        (b'm', Self::KEY_MISS),
    ];

    /// The set that letters stand for; `A` stands for the first ten. None if there is a letter without a meaning.
    pub fn parse(letters: &[u8]) -> Option<Self> {
        letters.iter().try_fold(Self::NONE, |set, letter| {
            let class = match letter {
                b'A' => Self::LETTERS[..10].iter().fold(Self::NONE, |all, (_, class)| all.with(*class)),
                letter => Self::LETTERS.iter().find(|(known, _)| known == letter)?.1,
            };
            Some(set.with(class))
        })
    }

    /// The set as `notify-keyspace-events` is obeyed: nothing is told if neither `K` nor `E` is in it.
    #[must_use]
    pub const fn told(self) -> Self {
        if self.0 & (Self::KEYSPACE.0 | Self::KEYEVENT.0) == 0 { Self::NONE } else { self }
    }

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of `other` is in the set.
    #[inline]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Something that happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub db: u16,
    pub name: &'static str,
    pub key: Box<[u8]>,
}

/// What happened, in its order, since events were last handed over.
#[derive(Debug, Default)]
pub struct Events {
    pub list: Vec<Event>,
    /// Databases were emptied or exchanged.
    pub flushed: bool,
}

impl Events {
    /// Whether there is nothing to hand over.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.flushed
    }

    /// Adds an event.
    #[cold]
    pub fn push(&mut self, db: u16, name: &'static str, key: Key<'_>) {
        self.list.push(Event { db, name, key: key.bytes.into() });
    }

    /// A key has come.
    pub fn created(&mut self, db: u16, key: Box<[u8]>) {
        self.list.push(Event { db, name: "new", key });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_sets() {
        let all = Class::parse(b"g$lshzxetd").unwrap();
        assert_eq!(Class::parse(b"A"), Some(all));
        assert!(!all.any(Class::NEW.with(Class::KEY_MISS).with(Class::KEYSPACE)));
        assert_eq!(Class::parse(b"Ao"), None);
        assert_eq!(all.told(), Class::NONE);
        assert!(Class::parse(b"El").unwrap().told().any(Class::LIST));
    }
}
