//! HOT: one database of one shard: the heap with its entries, the index that finds them, the watches on its keys, who waits for them,
//! its deadlines.
//! No allocation (but the heap's pages and big values), no lock, no syscall, no log.
//!
//! Not the commands: it knows no clock, no policy and no reply. An entry whose deadline has passed is an entry like any other here; whoever
//! looks it up decides. Every change raises the flags of those who watch the key. After a change the heap may move one entry (compaction), so
//! a `Place` is good until the next change only.

mod entry;
#[cfg(test)]
pub(crate) mod tests;
mod value;
mod volatile;
mod waits;
mod watch;

pub use entry::{BigString, Entry, IntText, StringRef};
pub use types::Storage;
pub use value::Value;
pub use waits::{Change, Ready, Waiting, Waits};
pub use watch::Dirty;

use std::sync::Arc;

use memory::{
    Arena, BigRef, EntryParts, Handle, Heap, INLINE_BYTES_MAX, Index, IndexHint, Integer, Kind, Large, Meta,
    Position, Step,
};
use stdx::hash::hash64;
use stdx::num::{I64_LEN_MAX, parse_i64};
use stdx::rng::Rng;

use types::{Expires, Slot, Volatile};

use crate::expiry::Expiry;
use value::Content;
use watch::Watches;

/// Pages of collections whose keys are gone that each write frees, until a background slice takes them over.
const ORPHAN_PAGES: usize = 4;

/// A key with what is known of it from outside.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// `hash64` of the bytes under the keyspaces' seed.
    pub hash: u64,
    /// The shard that the key belongs to.
    pub shard: u16,
}

/// What a write does to the deadline of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// It stays: an entry that has one keeps it.
    Keep,
    /// The entry has none.
    Clear,
    /// Unix time in ms.
    At(u64),
}

/// Where an entry is, until the next change of its keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    at: Position,
    handle: Handle,
}

/// Memory of a keyspace.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Bytes {
    /// Entries and big values.
    pub live: u64,
    /// Pages and runs that hold them.
    pub pages: u64,
    /// The index.
    pub index: u64,
}

/// See the head of this file.
pub struct Keyspace {
    storage: Storage,
    heap: Heap,
    index: Index,
    watches: Watches,
    waits: Waits,
    volatile: Volatile,
    pub(crate) expiry: Expiry,
}

/// What a write stores.
enum New<'v> {
    Inline(Kind, &'v [u8]),
    Big(BigRef),
    Large(u8, Box<dyn Large>),
}

impl Keyspace {
    /// An empty keyspace; it owns no memory of the arena.
    pub fn new(storage: Storage) -> Keyspace {
        Keyspace {
            storage,
            heap: Heap::new(storage.arena),
            index: Index::new(storage.arena),
            watches: Watches::default(),
            waits: Waits::default(),
            volatile: Volatile::default(),
            expiry: Expiry::default(),
        }
    }

    /// Entries.
    pub fn len(&self) -> u64 {
        self.index.count()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory in use.
    pub fn bytes(&self) -> Bytes {
        Bytes {
            live: self.heap.live_bytes(),
            pages: self.heap.page_bytes(),
            index: self.index.bytes() as u64,
        }
    }

    /// The entry of `key`. Asks for no deadline and leaves no trace.
    #[inline]
    pub fn find(&self, key: Key<'_>) -> Option<Entry<'_>> {
        self.place(key).map(|place| self.entry(place))
    }

    /// Where the entry of `key` is: to look at it and to change it with one lookup.
    #[inline]
    pub fn place(&self, key: Key<'_>) -> Option<Place> {
        let found = self.index.find(key.hash, |handle| self.heap.entry(handle).key() == key.bytes);
        found.map(|(at, handle)| Place { at, handle })
    }

    /// The entry at `place`.
    #[inline]
    pub fn entry(&self, place: Place) -> Entry<'_> {
        Entry(self.heap.entry(place.handle))
    }

    /// Makes `value` the string of `key`, as an integer if it is the canonical text of one, apart if it is longer than 16 KiB. A new entry, or
    /// one of any kind that is overwritten; its eviction metadata become `access`.
    pub fn put_string(&mut self, key: Key<'_>, value: &[u8], deadline: Deadline, access: Option<[u8; 3]>) {
        if value.len() > INLINE_BYTES_MAX {
            return self.put(key, New::Big(BigRef::new(self.storage.arena, value)), deadline, access);
        }
        let integer = if value.len() <= I64_LEN_MAX { parse_i64(value) } else { None };
        match integer {
            Some(integer) => self.put_int(key, integer, deadline, access),
            None => self.put(key, New::Inline(Kind::Bytes, value), deadline, access),
        }
    }

    /// Makes `integer` the value of `key`.
    pub fn put_int(&mut self, key: Key<'_>, integer: i64, deadline: Deadline, access: Option<[u8; 3]>) {
        self.put(key, New::Inline(Kind::Integer, Integer::new(integer).as_bytes()), deadline, access);
    }

    /// Makes `integer` the value of the entry at `place`, which is `key`'s: deadline and eviction metadata stay. One lookup serves for asking
    /// and changing.
    #[inline]
    pub fn set_int(&mut self, key: Key<'_>, place: Place, integer: i64) {
        self.watches.touch(key.bytes);
        if !self.heap.entry_mut(place.handle).set_integer(integer) {
            let entry = self.entry(place);
            let (deadline, access) = (entry.deadline(), entry.access());
            let integer = Integer::new(integer);
            self.overwrite(place, New::Inline(Kind::Integer, integer.as_bytes()), deadline, access);
        }
        self.compact();
    }

    /// Gives the string of `key` the length `bytes`, at most 4 GiB - 1, and returns its bytes to be changed: what was there, then zeroes. Makes an
    /// entry with metadata `access` if there is none; else deadline and metadata stay. From then on its encoding is raw. A string that grows
    /// beyond 16 KiB grows by doubling.
    pub fn string_resize(&mut self, key: Key<'_>, bytes: usize, access: Option<[u8; 3]>) -> &mut [u8] {
        // Before the change, for its end hands out a place in the heap.
        self.compact();
        self.watches.touch(key.bytes);
        let place = self.place(key).unwrap_or_else(|| {
            self.put(key, New::Inline(Kind::Raw, &[]), Deadline::Clear, access);
            self.place(key).expect("the entry has just been made")
        });
        let entry = self.entry(place);
        let meta = Meta { kind: Kind::Raw, deadline: entry.deadline(), access: entry.access() };
        let string = entry.string().expect("only strings are resized");
        let handle = match string {
            StringRef::Big(_) => place.handle,
            _ if bytes > INLINE_BYTES_MAX => {
                let mut big = BigRef::with_capacity(self.storage.arena, bytes);
                big.make_mut(string.len()).copy_from_slice(string.to_bytes(&mut IntText::default()));
                self.heap.replace_big(place.handle, &meta, big)
            }
            StringRef::Int(_) => {
                let text = string.to_vec();
                let handle = self.heap.replace(place.handle, &meta, &text);
                self.heap.resize_value(handle, Kind::Raw, bytes)
            }
            StringRef::Bytes(_) => self.heap.resize_value(place.handle, Kind::Raw, bytes),
        };
        self.index.set(place.at, handle, meta.deadline.is_some());
        match self.heap.entry(handle).kind() {
            Kind::Big => self.heap.resize_big(handle, bytes),
            _ => self.heap.entry_mut(handle).value_mut(),
        }
    }

    /// Makes the encoding of the string of `key` raw, if there is one, as if it had been changed in place. Not a change of the key: nobody's flag is
    /// raised.
    pub fn make_raw(&mut self, key: Key<'_>) {
        let Some(place) = self.place(key) else { return };
        let entry = self.entry(place);
        let meta = Meta { kind: Kind::Raw, deadline: entry.deadline(), access: entry.access() };
        match entry.string() {
            Some(StringRef::Bytes(_)) => self.heap.entry_mut(place.handle).set_kind(Kind::Raw),
            Some(string @ StringRef::Int(_)) => {
                let text = string.to_vec();
                let handle = self.heap.replace(place.handle, &meta, &text);
                self.index.set(place.at, handle, meta.deadline.is_some());
                self.compact();
            }
            Some(StringRef::Big(_)) | None => {}
        }
    }

    /// Removes `key`. Whether it was there.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        let Some(place) = self.place(key) else { return false };
        self.watches.touch(key.bytes);
        self.waits.gone(key.bytes);
        self.volatile.changed(Expires::of(self.heap.entry(place.handle)), None);
        self.index.remove(key.hash, place.at);
        self.heap.free(place.handle);
        self.compact();
        true
    }

    /// Sets or clears (None) the deadline of `key`. Whether the key is there.
    pub fn set_deadline(&mut self, key: Key<'_>, deadline: Option<u64>) -> bool {
        let Some(place) = self.place(key) else { return false };
        self.watches.touch(key.bytes);
        self.expiry.note(deadline);
        let access = self.entry(place).access();
        self.set_meta(place, deadline, access);
        self.compact();
        true
    }

    /// Sets the eviction metadata of the entry at `place`; its new place. An entry without room for them is rewritten with room. Not a change of
    /// the key: nobody's flag is raised.
    #[inline]
    pub fn set_access(&mut self, place: Place, access: [u8; 3]) -> Place {
        if self.heap.entry_mut(place.handle).set_access(access) {
            return place;
        }
        let deadline = self.entry(place).deadline();
        self.set_meta(place, deadline, Some(access))
    }

    fn set_meta(&mut self, place: Place, deadline: Option<u64>, access: Option<[u8; 3]>) -> Place {
        let before = Expires::of(self.heap.entry(place.handle));
        let handle = self.heap.set_meta(place.handle, deadline, access);
        self.settle(place.at, handle, before);
        Place { handle, ..place }
    }

    /// A copy of what `key` holds, for another key or keyspace. Big values are shared, not copied.
    pub fn copy(&self, key: Key<'_>) -> Option<Value> {
        self.find(key).map(|entry| Value::of(entry.0))
    }

    /// Removes `key` and returns what it held. A large collection changes hands; it is not copied.
    pub fn take(&mut self, key: Key<'_>) -> Option<Value> {
        let place = self.place(key)?;
        let entry = self.heap.entry(place.handle);
        let value = if entry.kind() == Kind::Large {
            let (tag, deadline, access) = (entry.value()[0], entry.deadline(), entry.access());
            Value::large(tag, self.heap.take_large(place.handle), deadline, access)
        } else {
            Value::of(entry)
        };
        self.remove(key);
        Some(value)
    }

    /// The collection at `place`, to be changed; the entry there must hold one. Whoever changes it calls [`Self::changed`].
    #[inline]
    pub fn slot(&mut self, place: Place) -> Slot<'_> {
        let Keyspace { storage, heap, index, volatile, .. } = self;
        Slot::new(*storage, heap, index, place.at, place.handle).counting(volatile)
    }

    /// Makes an entry for `key`, which must not be there, with a packed collection: its tag and what follows. To be changed; nobody's flag
    /// is raised yet.
    pub fn create(&mut self, key: Key<'_>, packed: &[u8], access: Option<[u8; 3]>) -> Slot<'_> {
        debug_assert!(self.place(key).is_none());
        self.waits.changed(key.bytes);
        self.insert(key, New::Inline(Kind::Collection, packed), None, access);
        let place = self.place(key).expect("the entry has just been made");
        self.slot(place)
    }

    /// The collection of `key` has changed: raises the flags of those who watch the key.
    #[inline]
    pub fn changed(&mut self, key: Key<'_>) {
        self.watches.touch(key.bytes);
    }

    /// A small step of compaction before a place is looked up, for a change that does not end with one.
    #[inline]
    pub fn make_tidy(&mut self) {
        self.compact();
    }

    /// Large collections whose keys are gone, to be freed in slices.
    pub fn take_orphans(&mut self) -> Vec<Box<dyn Large>> {
        self.heap.take_orphans()
    }

    /// Makes `value` (kind, value, deadline, metadata) what `key` holds, whatever it held.
    pub fn put_value(&mut self, key: Key<'_>, value: Value) {
        let deadline = value.deadline.map_or(Deadline::Clear, Deadline::At);
        match value.content {
            Content::Big(big) => self.put(key, New::Big(big), deadline, value.access),
            Content::Large(tag, large) => self.put(key, New::Large(tag, large), deadline, value.access),
            Content::Inline(kind, bytes) => {
                self.put(key, New::Inline(kind, &bytes), deadline, value.access);
            }
        }
    }

    /// Calls `f` with entries from `cursor` on, whole buckets until `budget` entries have been seen (or as many empty buckets); returns the cursor to
    /// go on with, 0 at the end. Every key that is there from start (0) to end is seen, one may be seen twice. Cursors stay below 2^32.
    pub fn scan(&self, cursor: u64, budget: usize, mut f: impl FnMut(Entry<'_>)) -> u64 {
        let mut cursor = cursor;
        let (mut seen, mut buckets) = (0, 0);
        loop {
            cursor = self.index.scan(cursor, |handle, _| {
                seen += 1;
                f(Entry(self.heap.entry(handle)));
            });
            buckets += 1;
            if cursor == 0 || seen >= budget || buckets >= budget {
                return cursor;
            }
        }
    }

    /// An entry by chance, each as likely. None only when the keyspace is empty.
    pub fn sample(&self, rng: &mut Rng) -> Option<Entry<'_>> {
        self.index.sample(|| rng.next_u64()).map(|handle| Entry(self.heap.entry(handle)))
    }

    /// Raises `dirty` when `key` changes, comes or goes.
    pub fn watch(&mut self, key: &[u8], dirty: &Dirty) {
        self.watches.add(key, dirty);
    }

    /// From now on keys that change are noted, until [`Self::take_changes`], or no longer.
    pub(crate) fn note_changes(&mut self, wanted: bool) {
        self.watches.note_changes(wanted);
    }

    /// The keys that have changed since changes were last taken, in their order; some may come twice.
    pub(crate) fn take_changes(&mut self) -> Vec<Box<[u8]>> {
        if self.watches.has_changes() { self.watches.take_changes() } else { Vec::new() }
    }

    /// From now on keys that come are noted, until [`Self::take_created`].
    pub fn note_created(&mut self) {
        self.watches.note_created();
    }

    /// The keys that have come since it was asked to note them.
    pub fn take_created(&mut self) -> Vec<Box<[u8]>> {
        self.watches.take_created()
    }

    /// Undoes `watch`; no harm if it is not there (any more).
    pub fn unwatch(&mut self, key: &[u8], dirty: &Dirty) {
        self.watches.remove(key, dirty);
    }

    /// Keys that somebody watches.
    pub fn watched_len(&self) -> usize {
        self.watches.len()
    }

    /// Every key, watched or waited for, that exists here, or in `other`, which takes this keyspace's place (SWAPDB), changes; for FLUSHDB
    /// `other` is None.
    pub fn touch_watched(&mut self, other: Option<&Keyspace>) {
        let seed = self.storage.seed;
        let (mut watches, mut waits) = (std::mem::take(&mut self.watches), std::mem::take(&mut self.waits));
        let changes = |bytes: &[u8]| {
            let key = Key { bytes, hash: hash64(seed, bytes), shard: 0 };
            self.place(key).is_some() || other.is_some_and(|other| other.place(key).is_some())
        };
        watches.touch_where(changes);
        waits.changed_where(changes);
        (self.watches, self.waits) = (watches, waits);
    }

    /// Who waits for keys of this keyspace.
    #[inline]
    pub fn waits(&mut self) -> &mut Waits {
        &mut self.waits
    }

    /// Every watched key changes, whether it exists or not.
    pub fn mark_all_watched_dirty(&mut self) {
        self.watches.touch_where(|_| true);
    }

    /// Exchanges what two keyspaces hold. Watches, waiters and hints stay, for they belong to the database, not to its contents.
    pub fn swap(&mut self, other: &mut Keyspace) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.watches, &mut other.watches);
        std::mem::swap(&mut self.waits, &mut other.waits);
        let (hint, other_hint) = (self.index.set_hint(None), other.index.set_hint(None));
        self.index.set_hint(other_hint);
        other.index.set_hint(hint);
    }

    /// Takes everything out, to be freed elsewhere (`lazyfree`). Watches, waiters and hint stay here.
    pub fn detach(&mut self) -> Keyspace {
        let mut detached = Keyspace::new(self.storage);
        self.swap(&mut detached);
        detached
    }

    /// From now on keeps `hint` up to date; the hint it kept before.
    pub fn set_hint(&mut self, hint: Option<Arc<IndexHint>>) -> Option<Arc<IndexHint>> {
        self.index.set_hint(hint)
    }

    /// Background: gives back what an empty keyspace still holds, else compacts, at most `steps` steps; how many there were.
    pub fn tidy(&mut self, steps: u32) -> u32 {
        self.index.trim();
        (0..steps).take_while(|_| self.compact()).count() as u32
    }

    fn put(&mut self, key: Key<'_>, new: New<'_>, deadline: Deadline, access: Option<[u8; 3]>) {
        self.watches.touch(key.bytes);
        self.waits.changed(key.bytes);
        let found = self.place(key);
        let deadline = match deadline {
            Deadline::Keep => found.and_then(|place| self.entry(place).deadline()),
            Deadline::Clear => None,
            Deadline::At(unix_ms) => Some(unix_ms),
        };
        self.expiry.note(deadline);
        match found {
            Some(place) => self.overwrite(place, new, deadline, access),
            None => self.insert(key, new, deadline, access),
        }
        self.compact();
    }

    fn overwrite(&mut self, place: Place, new: New<'_>, deadline: Option<u64>, access: Option<[u8; 3]>) {
        let before = Expires::of(self.heap.entry(place.handle));
        let handle = match new {
            New::Inline(kind, value) => {
                self.heap.replace(place.handle, &Meta { kind, deadline, access }, value)
            }
            New::Big(big) => {
                self.heap.replace_big(place.handle, &Meta { kind: Kind::Big, deadline, access }, big)
            }
            New::Large(tag, large) => self.heap.replace_large(place.handle, deadline, access, tag, large),
        };
        self.settle(place.at, handle, before);
    }

    /// Tells the index, and who counts what expires, of an entry that was rewritten.
    #[inline]
    fn settle(&mut self, at: Position, handle: Handle, before: Expires) {
        let entry = self.heap.entry(handle);
        self.index.set(at, handle, Expires::of(entry).any());
        self.volatile.changed(before, Some(entry));
    }

    fn insert(&mut self, key: Key<'_>, new: New<'_>, deadline: Option<u64>, access: Option<[u8; 3]>) {
        self.watches.created(key.bytes);
        let Keyspace { storage, heap, index, volatile, .. } = self;
        let mut parts = EntryParts { key: key.bytes, kind: Kind::Bytes, value: &[], deadline, access };
        let handle = match new {
            New::Inline(kind, value) => {
                (parts.kind, parts.value) = (kind, value);
                heap.insert(&parts)
            }
            New::Big(big) => heap.insert_big(&parts, big),
            New::Large(tag, large) => heap.insert_large(&parts, tag, large),
        };
        let entry = heap.entry(handle);
        volatile.changed(Expires::default(), Some(entry));
        index.insert(key.hash, handle, Expires::of(entry).any(), |handle| {
            hash64(storage.seed, heap.entry(handle).key())
        });
    }

    /// A small step of compaction, if too much memory is wasted: moves at most one entry. Whether there was something to do.
    #[inline]
    fn compact(&mut self) -> bool {
        if self.heap.has_orphans() {
            self.heap.release_orphans(ORPHAN_PAGES);
        }
        if !self.heap.wants_compaction() {
            return false;
        }
        let Keyspace { storage, heap, index, .. } = self;
        let step = heap.compact_step(|entry, old, new| {
            let hash = hash64(storage.seed, entry.key());
            let at = index.position_of(hash, old).expect("every entry of the heap is in the index");
            index.set(at, new, Expires::of(entry).any());
        });
        !matches!(step, Step::Idle)
    }

    /// The next bucket of a walk over the entries of which something expires; see `expiry.rs`.
    pub(crate) fn scan_deadlines(&self, cursor: u64, mut f: impl FnMut(Entry<'_>)) -> u64 {
        self.index.scan_deadlines(cursor, |handle| f(Entry(self.heap.entry(handle))))
    }

    /// Where the memory comes from.
    pub(crate) fn arena(&self) -> &'static Arena {
        self.storage.arena
    }

    /// The hash of a key that lies in an entry.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash64(self.storage.seed, key)
    }

    /// Frees some of a keyspace that nobody will use any more: at most `pages_max` pages each of the index and the heap. True when all is free.
    pub(crate) fn dismantle(&mut self, pages_max: u32) -> bool {
        if self.heap.has_orphans() {
            self.heap.release_orphans(pages_max as usize);
            return false;
        }
        self.index.release(pages_max) && self.heap.dismantle(pages_max as usize) && !self.heap.has_orphans()
    }
}
