//! Who has read which key of one shard and wants to know when it changes (CLIENT TRACKING). Not how they are told, and not those who want to
//! know of every key with a prefix: both are `session`'s.
//!
//! HOT: `remember`, once per tracked read: one lookup; memory is allocated for a key that nobody had read before.
//!
//! A key is remembered by its name alone, whatever its database, as with the peers. When it changes its readers are told and forgotten. So are those
//! of an arbitrary key when there are too many keys.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use stdx::hash::{Seed, hash64};

/// Somebody who has read a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// A connection of a thread, by the thread's own name for it.
    pub connection: u64,
    pub thread: u16,
    /// The number of its last command that read the key: what is told about the key belongs before the reply of any later command.
    pub command: u32,
}

/// The readers of one key. Nearly always there is one.
#[derive(Debug)]
pub struct Readers {
    first: Reader,
    /// Ascending by their names: a key that everybody reads is looked up by all of them.
    others: Vec<Reader>,
}

impl Reader {
    fn name(&self) -> (u16, u64) {
        (self.thread, self.connection)
    }
}

impl Readers {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Reader> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Adds a reader, or notes that it has read again. Whether it is new.
    #[inline]
    fn add(&mut self, reader: Reader) -> bool {
        if self.first.name() == reader.name() {
            self.first.command = reader.command;
            return false;
        }
        match self.others.binary_search_by_key(&reader.name(), Reader::name) {
            Ok(at) => self.others[at].command = reader.command,
            Err(at) => {
                self.others.insert(at, reader);
                return true;
            }
        }
        false
    }
}

/// The keys of one shard that somebody has read.
pub struct Tracking {
    keys: HashMap<Box<[u8]>, Readers, Hashing>,
    /// Readers of all keys.
    items: u64,
}

impl Tracking {
    pub fn new(seed: &'static Seed) -> Self {
        Self { keys: HashMap::with_hasher(Hashing(seed)), items: 0 }
    }

    /// Keys that somebody has read, and their readers.
    pub fn counts(&self) -> (u64, u64) {
        (self.keys.len() as u64, self.items)
    }

    /// Whether nobody has read anything.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// `key` was read.
    #[inline]
    pub fn remember(&mut self, key: &[u8], reader: Reader) {
        if let Some(readers) = self.keys.get_mut(key) {
            self.items += u64::from(readers.add(reader));
        } else {
            self.keys.insert(key.into(), Readers { first: reader, others: Vec::new() });
            self.items += 1;
        }
    }

    /// Takes the readers of a key, which are to be told.
    pub fn take(&mut self, key: &[u8]) -> Option<Readers> {
        let readers = self.keys.remove(key)?;
        self.items -= readers.len() as u64;
        Some(readers)
    }

    /// Takes up to `count` arbitrary keys with their readers.
    pub fn take_some(&mut self, count: usize) -> Vec<(Box<[u8]>, Readers)> {
        let taken: Vec<_> = self.keys.extract_if(|_, _| true).take(count).collect();
        self.items -= taken.iter().map(|(_, readers)| readers.len() as u64).sum::<u64>();
        taken
    }
}

/// The hash of keys, which nobody can foresee.
#[derive(Clone, Copy)]
struct Hashing(&'static Seed);

impl BuildHasher for Hashing {
    type Hasher = Hash;

    fn build_hasher(&self) -> Hash {
        Hash { seed: self.0, hash: 0 }
    }
}

struct Hash {
    seed: &'static Seed,
    hash: u64,
}

impl Hasher for Hash {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.hash = hash64(self.seed, bytes);
    }

    /// A slice tells its length before its bytes, whose hash holds it already.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SEED: Seed = Seed::new(5);

    #[test]
    fn readers_are_remembered_once_and_taken_once() {
        let mut tracking = Tracking::new(&SEED);
        let reader = |connection, command| Reader { connection, thread: 1, command };
        tracking.remember(b"a", reader(1, 1));
        tracking.remember(b"a", reader(2, 1));
        tracking.remember(b"a", reader(1, 7));
        tracking.remember(b"b", reader(1, 8));
        assert_eq!(tracking.counts(), (2, 3));
        let told: Vec<Reader> = tracking.take(b"a").unwrap().iter().collect();
        assert_eq!(told, [reader(1, 7), reader(2, 1)]);
        assert!(tracking.take(b"a").is_none());
        let some = tracking.take_some(5);
        assert_eq!(some.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), [b"b"]);
        assert_eq!(tracking.counts(), (0, 0));
        assert!(tracking.is_empty() && tracking.take_some(1).is_empty());
    }
}
