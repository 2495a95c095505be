//! What a command function gets: the shards that were entered for it, the time, chance and limits.
//!
//! HOT: no allocation, no lock, no syscall, no log on the way of a single-key command.

use command::{CommandError, Effect, Record};
use resp::Args;
use stdx::hash::Seed;
use stdx::rng::Rng;
use types::{Slot, Storage, Type, View};

use crate::ShardId;
use crate::access::{self, Access};
use crate::data::{Counters, ShardData, field_record, key_record};
use crate::keyspace::{Entry, Key, Keyspace, Place, Value};
use crate::latch::Entered;
use crate::notify::{Class, Events};
use crate::settings::Settings;

/// Buckets of a large hash of which a command that uses it removes the expired fields: about 10 us.
const FIELD_BUCKETS: u32 = 8;

/// How keys map to hashes and shards; the same for the whole process.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Seed of the keys' hashes: random per process, so that nobody can flood a bucket.
    pub seed: &'static Seed,
    /// Number of shards - 1; the number is a power of two.
    pub mask: u16,
    /// Number of databases.
    pub databases: u16,
}

impl Layout {
    /// The key with its hash and its shard.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: stdx::hash::hash64(self.seed, bytes), shard: self.shard_of(bytes) }
    }

    /// The shard of a key.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        stdx::slot::slot_of(key) & self.mask
    }
}

/// The shards that are entered.
pub enum Held<'a> {
    None,
    One(ShardId, &'a mut ShardData),
    Several(Entered<'a, ShardData>),
}

impl Held<'_> {
    /// The data of an entered shard; a shard that was not entered is our own bug.
    #[inline]
    pub fn shard(&mut self, id: ShardId) -> &mut ShardData {
        match self {
            Held::One(held, data) if *held == id => data,
            Held::Several(entered) => entered.get(id),
            _ => panic!("shard {id} was not entered for this command"),
        }
    }

    /// Whether a shard was entered.
    #[inline]
    pub fn holds(&self, id: ShardId) -> bool {
        match self {
            Held::None => false,
            Held::One(held, _) => *held == id,
            Held::Several(entered) => entered.contains(id),
        }
    }

    /// Calls `f` with the data of each, ascending.
    pub fn each(&mut self, mut f: impl FnMut(&mut ShardData)) {
        match self {
            Held::None => {}
            Held::One(_, data) => f(data),
            Held::Several(entered) => entered.iter_mut().for_each(|(_, data)| f(data)),
        }
    }

    /// The identifiers of the shards that were entered, ascending.
    pub fn ids(&self) -> Vec<ShardId> {
        match self {
            Held::None => Vec::new(),
            Held::One(id, _) => vec![*id],
            Held::Several(entered) => entered.ids().collect(),
        }
    }

    /// The same shards for a shorter time.
    pub fn reborrow(&mut self) -> Held<'_> {
        match self {
            Held::None => Held::None,
            Held::One(id, data) => Held::One(*id, data),
            Held::Several(entered) => Held::Several(entered.reborrow()),
        }
    }
}

/// What a command function works with.
pub struct Exec<'a> {
    /// Unix time in ms; stands still for the whole command, in a transaction for all of its commands.
    pub now_ms: u64,
    /// The client's selected database.
    pub db: u16,
    pub layout: Layout,
    pub settings: &'a Settings,
    pub rng: &'a mut Rng,
    pub counters: &'a mut Counters,
    /// False for a client in CLIENT NO-TOUCH mode: reads leave the LRU/LFU metadata alone.
    pub touch: bool,
    /// Whether a journal listens, so that rewritten effects are worth building.
    pub journaling: bool,
    /// The key at word `hint.0`, hashed before the shard was entered.
    pub hint: Option<(usize, u64, ShardId)>,
    /// Number of keys per database over all shards, as published (DBSIZE).
    pub keys_published: &'a dyn Fn(u16) -> u64,
    /// Set when a database other than `db` was entered.
    pub elsewhere: bool,
    /// A waiting command is tried again: what it may not look at or has become of another type it passes over.
    pub retrying: bool,
    /// What those who listen to keyspace events are to be told before the shards are left.
    pub events: Events,
    pub held: Held<'a>,
}

impl<'a> Exec<'a> {
    /// Word `index` of the command as a key.
    #[inline]
    pub fn key<'k>(&self, args: Args<'k>, index: usize) -> Key<'k> {
        let bytes = args.get(index).expect("the command's arity was checked");
        match self.hint {
            Some((at, hash, shard)) if at == index => Key { bytes, hash, shard },
            _ => self.layout.key(bytes),
        }
    }

    /// The data of an entered shard; a shard that was not entered is our own bug.
    #[inline]
    pub fn shard(&mut self, id: ShardId) -> &mut ShardData {
        self.held.shard(id)
    }

    /// Whether the shard of a key was entered. Always, but for a waiting command that is tried again: it then sees only the shards that have
    /// something new, and passes over its keys in others, for which nothing has come.
    #[inline]
    pub fn holds(&self, key: Key<'_>) -> bool {
        self.held.holds(key.shard)
    }

    /// Whether what is in a key belongs to others: those who wait for it are being served, some in each turn. Never for one of them.
    #[inline]
    pub fn is_promised(&mut self, key: Key<'_>) -> bool {
        !self.retrying && self.existing(key).is_some_and(|keyspace| keyspace.waits().is_promised(key.bytes))
    }

    /// There is more in `key` for those who wait for it, although it neither came nor changed its type (XADD). They are served before the
    /// shard is left. One branch while nobody waits.
    #[inline]
    pub fn ready(&mut self, key: Key<'_>) {
        if let Some(keyspace) = self.held.shard(key.shard).existing(self.db) {
            keyspace.waits().changed(key.bytes);
        }
    }

    /// Tells those who listen that something happened to `key`. One branch while nobody wants to know.
    #[inline]
    pub fn notify(&mut self, class: Class, event: &'static str, key: Key<'_>) {
        self.notify_in(self.db, class, event, key);
    }

    /// As [`Self::notify`], for a key of database `db`.
    #[inline]
    pub fn notify_in(&mut self, db: u16, class: Class, event: &'static str, key: Key<'_>) {
        if self.settings.notify.any(class) {
            self.tell(db, event, key);
        }
    }

    #[cold]
    fn tell(&mut self, db: u16, event: &'static str, key: Key<'_>) {
        self.tell_created();
        self.events.push(db, event, key);
    }

    /// Keys that have come since the last event are told before it.
    fn tell_created(&mut self) {
        if !self.settings.notify.any(Class::NEW) {
            return;
        }
        let events = &mut self.events;
        self.held.each(|data| {
            for (db, keyspace) in data.in_use() {
                keyspace.take_created().into_iter().for_each(|key| events.created(db, key));
            }
        });
    }

    /// Takes what happened since events were last taken. The shards must still be held.
    #[inline]
    pub fn take_events(&mut self) -> Events {
        if self.settings.notify.any(Class::NEW) {
            self.tell_created();
        }
        std::mem::take(&mut self.events)
    }

    /// Databases were emptied or exchanged, in all shards: whoever tracks keys is told that all have changed.
    pub fn flushed(&mut self) {
        self.events.flushed = true;
        self.held.each(ShardData::forget_readers);
    }

    /// The identifiers of the shards that were entered, ascending.
    pub fn shards(&self) -> Vec<ShardId> {
        self.held.ids()
    }

    /// The keyspace of `key` in the client's database.
    #[inline]
    pub fn keyspace(&mut self, key: Key<'_>) -> &mut Keyspace {
        self.keyspace_in(self.db, key)
    }

    /// The keyspace of `key` in database `db`, which must be below `layout.databases`.
    #[inline]
    pub fn keyspace_in(&mut self, db: u16, key: Key<'_>) -> &mut Keyspace {
        self.elsewhere |= db != self.db;
        let note_created = self.settings.notify.any(Class::NEW);
        let keyspace = self.shard(key.shard).keyspace(db);
        if note_created {
            keyspace.note_created();
        }
        keyspace
    }

    /// Looks a key up for reading: counts a hit or a miss, notes the access for LRU/LFU. An expired key is removed and not found.
    #[inline]
    pub fn read(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        match self.place(key) {
            None => {
                self.missed(key);
                None
            }
            Some(place) => {
                self.counters.keyspace_hits += 1;
                Some(self.keyspace(key).entry(place))
            }
        }
    }

    /// A key was asked for that is not there.
    #[inline]
    pub fn missed(&mut self, key: Key<'_>) {
        self.counters.keyspace_misses += 1;
        self.notify(Class::KEY_MISS, "keymiss", key);
    }

    /// Looks a key up before a write: as [`Self::read`], without counting hits and misses.
    #[inline]
    pub fn find(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        let place = self.place(key)?;
        Some(self.keyspace(key).entry(place))
    }

    /// Looks a key up in database `db` without noting the access (OBJECT, TTL, TYPE, EXISTS of another database).
    pub fn peek_in(&mut self, db: u16, key: Key<'_>) -> Option<Entry<'_>> {
        let place = self.alive(db, key)?;
        Some(self.keyspace_in(db, key).entry(place))
    }

    /// As [`Self::peek_in`], in the client's database.
    pub fn peek(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        self.peek_in(self.db, key)
    }

    /// The access metadata that a new entry gets under the current policy.
    #[inline]
    pub fn access_new(&self) -> Option<Access> {
        access::new(self.settings.policy, self.now_ms)
    }

    /// As [`Self::find`]: where the key is, so that one lookup serves for asking and changing.
    #[inline]
    pub fn place(&mut self, key: Key<'_>) -> Option<Place> {
        let place = self.alive(self.db, key)?;
        if self.settings.policy.keeps_access() && self.touch {
            Some(self.note_access(key, place))
        } else {
            Some(place)
        }
    }

    /// Where a key is that has not expired; an expired one is removed.
    #[inline]
    fn alive(&mut self, db: u16, key: Key<'_>) -> Option<Place> {
        let now_ms = self.now_ms;
        self.elsewhere |= db != self.db;
        let keyspace = self.shard(key.shard).existing(db)?;
        let place = keyspace.place(key)?;
        let entry = keyspace.entry(place);
        if !entry.is_expired(now_ms) {
            return if entry.has_due_fields(now_ms) { self.expire_fields(db, key) } else { Some(place) };
        }
        keyspace.remove(key);
        if self.journaling {
            self.shard(key.shard).removed.push((db, key_record(key.bytes)));
        }
        self.counters.expired_keys += 1;
        self.notify_in(db, Class::EXPIRED, "expired", key);
        None
    }

    /// Removes fields that have expired from the hash at `key`: all of a small one, some of a large one. Where the key is then, if it still is.
    #[cold]
    fn expire_fields(&mut self, db: u16, key: Key<'_>) -> Option<Place> {
        let (now_ms, journaling) = (self.now_ms, self.journaling);
        let mut records = Vec::new();
        let keyspace = self.shard(key.shard).existing(db)?;
        let outcome = keyspace.expire_fields(key, now_ms, FIELD_BUCKETS, |field| {
            if journaling {
                records.push((db, field_record(key.bytes, field)));
            }
        });
        let place = keyspace.place(key);
        self.shard(key.shard).removed.append(&mut records);
        self.counters.expired_fields += u64::from(outcome.removed);
        if outcome.removed > 0 {
            self.notify_in(db, Class::HASH, "hexpired", key);
            if place.is_none() {
                self.notify_in(db, Class::GENERIC, "del", key);
            }
        }
        place
    }

    /// The collection at `key`, to be read: counts a hit or a miss, notes the access. An error if the key holds another type.
    #[inline]
    pub fn view(&mut self, key: Key<'_>, wanted: Type) -> Result<Option<View<'_>>, CommandError> {
        of_type(self.read(key), wanted)
    }

    /// As [`Self::view`], without counting hits and misses: before a write.
    #[inline]
    pub fn find_view(&mut self, key: Key<'_>, wanted: Type) -> Result<Option<View<'_>>, CommandError> {
        of_type(self.find(key), wanted)
    }

    /// The entry of `key` as it is, expired or not, to be read together with those of other keys: after [`Self::view`] or the like has looked
    /// at each of them. Leaves no trace.
    pub fn glance(&self, key: Key<'_>) -> Option<Entry<'_>> {
        let data = match &self.held {
            Held::One(held, data) if *held == key.shard => data,
            Held::Several(entered) => entered.peek(key.shard),
            _ => panic!("shard {} was not entered for this command", key.shard),
        };
        data.peek(self.db)?.find(key)
    }

    /// What all values share: for one that is made before it gets a key. At least one shard must have been entered.
    pub fn storage(&self) -> Storage {
        match &self.held {
            Held::One(_, data) => data.storage(),
            Held::Several(entered) => {
                entered.peek(entered.ids().next().expect("a shard was entered")).storage()
            }
            Held::None => panic!("no shard was entered for this command"),
        }
    }

    /// The collection at `key`, to be changed; None if there is no such key, an error if it holds another type. Whoever changes it calls
    /// [`Self::changed`], and removes the key when it has become empty.
    #[inline]
    pub fn slot(&mut self, key: Key<'_>, wanted: Type) -> Result<Option<Slot<'_>>, CommandError> {
        // Now, for it may move the entry.
        if let Some(keyspace) = self.existing(key) {
            keyspace.make_tidy();
        }
        let Some(place) = self.place(key) else { return Ok(None) };
        let keyspace = self.keyspace(key);
        match keyspace.entry(place).collection() {
            Some(view) if view.form().type_of() == wanted => Ok(Some(keyspace.slot(place))),
            _ => Err(CommandError::WRONG_TYPE),
        }
    }

    /// As [`Self::slot`]; a key that is missing becomes a collection: its tag and what follows.
    #[inline]
    pub fn slot_or_create(
        &mut self,
        key: Key<'_>,
        wanted: Type,
        packed: &[u8],
    ) -> Result<Slot<'_>, CommandError> {
        if let Some(keyspace) = self.existing(key) {
            keyspace.make_tidy();
        }
        let Some(place) = self.place(key) else { return Ok(self.create(key, packed)) };
        let keyspace = self.keyspace(key);
        match keyspace.entry(place).collection() {
            Some(view) if view.form().type_of() == wanted => Ok(keyspace.slot(place)),
            _ => Err(CommandError::WRONG_TYPE),
        }
    }

    /// Makes `key`, which must not be there, a collection: its tag and what follows.
    #[inline]
    pub fn create(&mut self, key: Key<'_>, packed: &[u8]) -> Slot<'_> {
        let access = self.access_new();
        let keyspace = self.keyspace(key);
        keyspace.make_tidy();
        keyspace.create(key, packed, access)
    }

    /// As [`Self::create`]; `replaced` says that the key has just been removed to be overwritten, so that it does not count as a new one.
    pub fn create_over(&mut self, key: Key<'_>, packed: &[u8], replaced: bool) -> Slot<'_> {
        let access = self.access_new();
        let keyspace = self.keyspace_over(key, replaced);
        keyspace.make_tidy();
        keyspace.create(key, packed, access)
    }

    /// As [`Self::keyspace`]; `replaced` as for [`Self::create_over`].
    pub fn keyspace_over(&mut self, key: Key<'_>, replaced: bool) -> &mut Keyspace {
        if !replaced {
            return self.keyspace(key);
        }
        self.tell_created();
        let db = self.db;
        self.shard(key.shard).keyspace(db)
    }

    /// Makes `value` what `key` of database `db` holds; what it held is removed, so that it counts as a new one.
    pub fn replace_value(&mut self, db: u16, key: Key<'_>, value: Value) {
        let known = self.settings.notify.any(Class::NEW) && self.keyspace_in(db, key).place(key).is_some();
        self.keyspace_in(db, key).put_value(key, value);
        if known {
            self.notify_in(db, Class::NEW, "new", key);
        }
    }

    /// The collection at `key` was changed: whoever watches the key is told.
    #[inline]
    pub fn changed(&mut self, key: Key<'_>) {
        self.keyspace(key).changed(key);
    }

    #[inline]
    fn existing(&mut self, key: Key<'_>) -> Option<&mut Keyspace> {
        let db = self.db;
        self.shard(key.shard).existing(db)
    }

    fn note_access(&mut self, key: Key<'_>, place: Place) -> Place {
        let (settings, now_ms) = (self.settings, self.now_ms);
        let before = self.keyspace(key).entry(place).access();
        match access::used(settings, before, now_ms, self.rng) {
            Some(access) => self.keyspace(key).set_access(place, access),
            None => place,
        }
    }

    /// An effect that is not the command itself: `build` gives the records and is only called while a journal listens.
    pub fn rewritten(&self, build: impl FnOnce() -> Vec<Record>) -> Effect {
        if self.journaling { Effect::Rewritten(build().into_boxed_slice()) } else { Effect::AsIs }
    }
}

/// The collection of an entry, which must be of this type.
#[inline]
fn of_type(entry: Option<Entry<'_>>, wanted: Type) -> Result<Option<View<'_>>, CommandError> {
    match entry.map(Entry::collection) {
        None => Ok(None),
        Some(Some(view)) if view.form().type_of() == wanted => Ok(Some(view)),
        Some(_) => Err(CommandError::WRONG_TYPE),
    }
}
