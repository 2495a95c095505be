//! HOT: elements found by their names: the members of a large set, the fields of a large hash, the members that a sorted set's tree points to. A
//! heap and an index of their own, as a keyspace has, so that every element is one block and nothing is ever rehashed as a whole.
//!
//! Not a type: which names and values there are, and what they mean, is the owner's. Knows no clock: an element whose deadline has passed is an
//! element like any other until [`Table::expire`] is called with a later time.
//!
//! ```text
//! Table   index: 64-byte buckets -> handle -> block of the heap: flags | lengths | deadline, if any | name | value
//! ```
//!
//! A handle names an element until it is removed or moves. It moves when [`Table::replace`] or [`Table::set_deadline`] say so, and by
//! [`Table::compact`], which tells. Whoever writes calls `compact` once per write.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory::{
    BigRef, EntryParts, EntryRef, Handle, Heap, INLINE_BYTES_MAX, Index, Integer, Kind, Large, Meta, Step,
};
use stdx::hash::hash64;
use stdx::rng::Rng;

use crate::Storage;

/// Lookups of [`Table::find_each`] that are under way at the same time.
const WINDOW: usize = 16;

/// What an element holds beside its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// Any bytes; none at all for an element that is only a name.
    Bytes(&'a [u8]),
    /// An integer, kept in the fewest bytes.
    Int(i64),
}

impl Value<'_> {
    /// No value.
    pub const NONE: Value<'static> = Value::Bytes(b"");
}

/// An element, while its table is borrowed.
#[derive(Clone, Copy)]
pub struct Element<'a>(EntryRef<'a>);

impl<'a> Element<'a> {
    /// The name.
    #[inline]
    pub fn name(self) -> &'a [u8] {
        self.0.key()
    }

    /// The value.
    #[inline]
    pub fn value(self) -> Value<'a> {
        match self.0.integer() {
            Some(integer) => Value::Int(integer),
            None => Value::Bytes(self.0.bytes().expect("what is not an integer has bytes")),
        }
    }

    /// A counted reference to a value of more than [`INLINE_BYTES_MAX`], for a reply that need not copy it.
    pub fn big(self) -> Option<BigRef> {
        self.0.big()
    }

    /// Unix time in ms when the element expires.
    #[inline]
    pub fn deadline(self) -> Option<u64> {
        self.0.deadline()
    }

    /// Whether the deadline has passed. At its very millisecond an element still lives.
    #[inline]
    pub fn is_expired(self, now_ms: u64) -> bool {
        self.0.has_deadline() && self.0.deadline().is_some_and(|deadline| deadline < now_ms)
    }
}

/// What a step of [`Table::expire`] did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Expired {
    /// Elements whose deadline was read.
    pub examined: u32,
    /// Buckets that were visited.
    pub buckets: u32,
    /// Elements that were removed.
    pub removed: u32,
    /// Whether nothing that has expired is left.
    pub done: bool,
}

/// See the head of this file.
pub struct Table {
    storage: Storage,
    /// Makes each table spread names differently. Without it, what is copied from one table to another in the order of a scan would come in
    /// the order of its buckets there, and fill a few of them with thousands before the others get any.
    salt: u64,
    heap: Heap,
    index: Index,
    /// No element expires before this unix time in ms.
    due_ms: u64,
    /// The same, as far as the present walk over the deadlines has come.
    due_next_ms: u64,
    /// Where that walk goes on; 0 between walks.
    cursor: u64,
    /// What the owner leaves out of names.
    prefix: Box<[u8]>,
}

impl Table {
    /// An empty table; it owns no memory of the arena.
    pub fn new(storage: Storage) -> Table {
        Table::with_prefix(storage, b"")
    }

    /// An empty table whose owner leaves a beginning out of names, and asks here what it was.
    pub fn with_prefix(storage: Storage, prefix: &[u8]) -> Table {
        static TABLES: AtomicU64 = AtomicU64::new(0);
        Table {
            storage,
            salt: Rng::new(TABLES.fetch_add(1, Relaxed)).next_u64(),
            heap: Heap::new(storage.arena),
            index: Index::new(storage.arena),
            due_ms: u64::MAX,
            due_next_ms: u64::MAX,
            cursor: 0,
            prefix: prefix.into(),
        }
    }

    /// What the owner leaves out of names.
    #[inline]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Elements, those included that have expired and were not removed yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.index.count() as usize
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements that have a deadline.
    #[inline]
    pub fn volatile_len(&self) -> usize {
        self.index.count_with_deadline() as usize
    }

    /// Unix time in ms before which [`Table::expire`] finds nothing; `u64::MAX` if no element has a deadline.
    #[inline]
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Bytes of blocks, rounded up to granules, and of what elements own.
    pub fn live_bytes(&self) -> u64 {
        self.heap.live_bytes()
    }

    /// Bytes of the arena that the table occupies. O(1).
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.heap.page_bytes() + self.index.bytes() as u64
    }

    /// The hash of `name` in this table, for [`Table::prefetch_bucket`] and the like.
    #[inline]
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.spread(hash64(self.storage.seed, name))
    }

    /// The same, from `hash64(storage.seed, name)`: who looks a name up in several tables hashes it once.
    #[inline]
    pub fn spread(&self, hash: u64) -> u64 {
        spread(self.salt, hash)
    }

    /// The element with `name`.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Handle> {
        self.find_hashed(self.hash(name), name)
    }

    /// The element with `name`, whose hash in this table is `hash`.
    #[inline]
    pub fn find_hashed(&self, hash: u64, name: &[u8]) -> Option<Handle> {
        self.index.find(hash, |handle| self.heap.entry(handle).key() == name).map(|(_, handle)| handle)
    }

    /// The element with `name`, to be read.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Element<'_>> {
        self.find(name).map(|handle| self.element(handle))
    }

    /// Whether there is an element with `name`.
    #[inline]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// The element with this handle, which must be one of this table's.
    #[inline]
    pub fn element(&self, handle: Handle) -> Element<'_> {
        Element(self.heap.entry(handle))
    }

    /// Asks for the element with this handle, so that it arrives while others are looked at.
    #[inline]
    pub fn prefetch(&self, handle: Handle) {
        self.heap.prefetch(handle);
    }

    /// Stage one of lookups in a batch: asks for the bucket of a hash.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch_bucket(hash);
    }

    /// Stage two: asks for the elements that may have this hash.
    #[inline]
    pub fn prefetch_element(&self, hash: u64) {
        self.index.prefetch_entry(hash);
    }

    /// Looks up many names, several at a time, so that their cache misses overlap: `found` gets each name with its element, in order.
    pub fn find_each<'t, N: AsRef<[u8]>>(
        &'t self,
        names: impl IntoIterator<Item = N>,
        mut found: impl FnMut(N, Option<Element<'t>>),
    ) {
        let mut names = names.into_iter();
        let mut window: [Option<(u64, N)>; WINDOW] = [const { None }; WINDOW];
        loop {
            let mut len = 0;
            while len < WINDOW
                && let Some(name) = names.next()
            {
                let hash = self.hash(name.as_ref());
                self.prefetch_bucket(hash);
                window[len] = Some((hash, name));
                len += 1;
            }
            window[..len].iter().flatten().for_each(|(hash, _)| self.prefetch_element(*hash));
            for (hash, name) in window[..len].iter_mut().filter_map(Option::take) {
                let element = self.find_hashed(hash, name.as_ref()).map(|handle| self.element(handle));
                found(name, element);
            }
            if len < WINDOW {
                return;
            }
        }
    }

    /// Adds an element whose name is not there yet.
    pub fn insert(&mut self, name: &[u8], value: Value<'_>, deadline: Option<u64>) -> Handle {
        self.insert_hashed(self.hash(name), name, value, deadline)
    }

    /// The same, with the hash of the name in this table.
    pub fn insert_hashed(
        &mut self,
        hash: u64,
        name: &[u8],
        value: Value<'_>,
        deadline: Option<u64>,
    ) -> Handle {
        debug_assert!(self.find_hashed(hash, name).is_none(), "the name is new");
        let mut parts = EntryParts { key: name, kind: Kind::Bytes, value: b"", deadline, access: None };
        let handle = match value {
            Value::Bytes(bytes) if bytes.len() > INLINE_BYTES_MAX => {
                self.heap.insert_big(&parts, BigRef::new(self.storage.arena, bytes))
            }
            Value::Bytes(bytes) => {
                parts.value = bytes;
                self.heap.insert(&parts)
            }
            Value::Int(integer) => {
                let integer = Integer::new(integer);
                (parts.kind, parts.value) = (Kind::Integer, integer.as_bytes());
                self.heap.insert(&parts)
            }
        };
        self.enter(hash, handle, deadline);
        handle
    }

    /// Makes `value` and `deadline` those of `name`, whether it is there or not. Whether it is new.
    pub fn put(&mut self, name: &[u8], value: Value<'_>, deadline: Option<u64>) -> bool {
        let hash = self.hash(name);
        let found = self.find_hashed(hash, name);
        match found {
            Some(handle) => _ = self.replace(handle, value, deadline),
            None => _ = self.insert_hashed(hash, name, value, deadline),
        }
        found.is_none()
    }

    /// Gives an element another value and deadline; its handle afterwards. It stays where it is if it takes as many granules as before.
    pub fn replace(&mut self, handle: Handle, value: Value<'_>, deadline: Option<u64>) -> Handle {
        let had_deadline = self.heap.entry(handle).has_deadline();
        let mut meta = Meta { kind: Kind::Bytes, deadline, access: None };
        let new = match value {
            Value::Bytes(bytes) if bytes.len() > INLINE_BYTES_MAX => {
                self.heap.replace_big(handle, &meta, BigRef::new(self.storage.arena, bytes))
            }
            Value::Bytes(bytes) => self.heap.replace(handle, &meta, bytes),
            Value::Int(integer) => {
                meta.kind = Kind::Integer;
                self.heap.replace(handle, &meta, Integer::new(integer).as_bytes())
            }
        };
        self.settle(handle, new, had_deadline, deadline);
        new
    }

    /// Gives an element another deadline, or none; its handle afterwards.
    pub fn set_deadline(&mut self, handle: Handle, deadline: Option<u64>) -> Handle {
        let had_deadline = self.heap.entry(handle).has_deadline();
        let new = if self.heap.entry_mut(handle).set_deadline(deadline) {
            handle
        } else {
            self.heap.set_meta(handle, deadline, None)
        };
        self.settle(handle, new, had_deadline, deadline);
        new
    }

    /// Removes the element with `name`. Whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        self.remove_if(name, |_| true)
    }

    /// Removes the element with `name` if `condition` holds of it. Whether it was there and did.
    pub fn remove_if(&mut self, name: &[u8], condition: impl FnOnce(Element<'_>) -> bool) -> bool {
        let hash = self.hash(name);
        let found = self.index.find(hash, |handle| self.heap.entry(handle).key() == name);
        let Some((at, handle)) = found.filter(|(_, handle)| condition(self.element(*handle))) else {
            return false;
        };
        self.index.remove(hash, at);
        self.heap.free(handle);
        true
    }

    /// Removes the element with this handle.
    pub fn remove_element(&mut self, handle: Handle) {
        let hash = self.hash(self.heap.entry(handle).key());
        let at = self.index.position_of(hash, handle).expect("every element is in the index");
        self.index.remove(hash, at);
        self.heap.free(handle);
    }

    /// Every element, in no order that means anything.
    pub fn for_each<'t>(&'t self, f: impl FnMut(Element<'t>)) {
        self.elements().for_each(f);
    }

    /// Every element in the order in which they lie in memory, which costs next to no cache miss.
    #[inline]
    pub fn elements(&self) -> impl Iterator<Item = Element<'_>> {
        self.heap.entries().map(Element)
    }

    /// Calls `f` with the elements of one bucket, the one at `cursor`; the cursor of the next, 0 at the end. Every element that is there from start
    /// (0) to end is seen, however the table changes between the calls; one may be seen twice. Cursors stay below 2^32.
    #[inline]
    pub fn scan_bucket(&self, cursor: u64, mut f: impl FnMut(Handle)) -> u64 {
        self.index.scan(cursor, |handle, _| f(handle))
    }

    /// As [`Table::scan_bucket`], whole buckets until `budget` elements have been seen, or as many empty buckets. These cursors stay below 2^63; one
    /// that another table has given, which spreads names differently, begins anew.
    pub fn scan<'t>(&'t self, cursor: u64, budget: usize, mut f: impl FnMut(Element<'t>)) -> u64 {
        // Above the cursor of the index, 31 bits that tell the table.
        let mark = self.salt >> 33 << 32;
        let mut cursor = if cursor & !u64::from(u32::MAX) == mark { cursor & u64::from(u32::MAX) } else { 0 };
        let (mut seen, mut buckets) = (0, 0);
        loop {
            cursor = self.scan_bucket(cursor, |handle| {
                seen += 1;
                f(self.element(handle));
            });
            buckets += 1;
            if cursor == 0 {
                return 0;
            }
            if seen >= budget || buckets >= budget {
                return mark | cursor;
            }
        }
    }

    /// An element by chance, each as likely. None only when there is none.
    pub fn random(&self, rng: &mut Rng) -> Option<Handle> {
        self.index.sample(|| rng.next_u64())
    }

    /// A small step of compaction, if too much memory is wasted: moves at most one element, and then tells `moved`, with its old and its new handle,
    /// so that a second owner of handles can follow. Whether there was something to do.
    #[inline]
    pub fn compact(&mut self, moved: impl FnOnce(Element<'_>, Handle, Handle)) -> bool {
        if !self.heap.wants_compaction() {
            return false;
        }
        let Table { storage, salt, heap, index, .. } = self;
        let step = heap.compact_step(|entry, old, new| {
            let hash = spread(*salt, hash64(storage.seed, entry.key()));
            let at = index.position_of(hash, old).expect("every element is in the index");
            index.set(at, new, entry.has_deadline());
            moved(Element(entry), old, new);
        });
        !matches!(step, Step::Idle)
    }

    /// Removes elements that have expired at `now_ms`, going on where the last call stopped, and visits at most `buckets_max` buckets. `expired` gets
    /// the prefix and each just before it is removed. Costs nothing before [`Table::due_ms`].
    pub fn expire(
        &mut self,
        now_ms: u64,
        buckets_max: u32,
        mut expired: impl FnMut(&[u8], Handle, Element<'_>),
    ) -> Expired {
        let mut outcome = Expired::default();
        if self.volatile_len() == 0 {
            (self.due_ms, self.cursor) = (u64::MAX, 0);
        }
        let mut due = Vec::new();
        while self.due_ms < now_ms && outcome.buckets < buckets_max {
            if self.cursor == 0 {
                self.due_next_ms = u64::MAX;
            }
            let mut next_ms = u64::MAX;
            self.cursor = self.index.scan_deadlines(self.cursor, |handle| {
                outcome.examined += 1;
                let element = Element(self.heap.entry(handle));
                match element.deadline() {
                    Some(_) if element.is_expired(now_ms) => due.push(handle),
                    deadline => next_ms = next_ms.min(deadline.unwrap_or(u64::MAX)),
                }
            });
            outcome.buckets += 1;
            self.due_next_ms = self.due_next_ms.min(next_ms);
            for handle in due.drain(..) {
                expired(&self.prefix, handle, Element(self.heap.entry(handle)));
                self.remove_element(handle);
                outcome.removed += 1;
            }
            if self.cursor == 0 {
                self.due_ms = self.due_next_ms;
            }
        }
        outcome.done = self.due_ms >= now_ms;
        outcome
    }

    /// Gives back at most about `pages_max` pages; see [`Large::release`].
    pub fn release(&mut self, pages_max: usize) -> bool {
        let chunks_max = u32::try_from(pages_max).unwrap_or(u32::MAX);
        self.index.release(chunks_max) && self.heap.dismantle(pages_max)
    }

    /// A copy with memory of its own; big values are shared. `copied` gets each element's handle here and there. O(elements).
    pub fn duplicate(&self, mut copied: impl FnMut(Handle, Handle)) -> Table {
        let mut copy = Table::with_prefix(self.storage, &self.prefix);
        self.heap.entries().for_each(|entry| {
            let parts = entry.parts();
            let new = match entry.big() {
                Some(big) => copy.heap.insert_big(&parts, big),
                None => copy.heap.insert(&parts),
            };
            copy.enter(copy.hash(parts.key), new, parts.deadline);
            copied(self.heap.handle_of(entry), new);
        });
        copy
    }

    /// Puts a new block into the index.
    #[inline]
    fn enter(&mut self, hash: u64, handle: Handle, deadline: Option<u64>) {
        self.note(deadline);
        let Table { storage, salt, heap, index, .. } = self;
        index.insert(hash, handle, deadline.is_some(), |handle| {
            spread(*salt, hash64(storage.seed, heap.entry(handle).key()))
        });
    }

    /// Tells the index what has become of an element that was rewritten.
    #[inline]
    fn settle(&mut self, old: Handle, new: Handle, had_deadline: bool, deadline: Option<u64>) {
        self.note(deadline);
        if old != new || had_deadline != deadline.is_some() {
            let hash = self.hash(self.heap.entry(new).key());
            let at = self.index.position_of(hash, old).expect("every element is in the index");
            self.index.set(at, new, deadline.is_some());
        }
    }

    #[inline]
    fn note(&mut self, deadline: Option<u64>) {
        if let Some(deadline) = deadline {
            self.due_ms = self.due_ms.min(deadline);
            self.due_next_ms = self.due_next_ms.min(deadline);
        }
    }
}

impl Large for Table {
    fn bytes(&self) -> u64 {
        Table::bytes(self)
    }

    fn release(&mut self, pages_max: usize) -> bool {
        Table::release(self, pages_max)
    }

    fn duplicate(&self) -> Box<dyn Large> {
        Box::new(Table::duplicate(self, |_, _| ()))
    }
}

/// The hash of a name in the table with `salt`: of any two tables the low bits, which choose the bucket, tell nothing about each other.
#[inline]
fn spread(salt: u64, hash: u64) -> u64 {
    (hash ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
