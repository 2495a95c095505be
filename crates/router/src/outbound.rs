//! What a command causes for clients other than its own, besides replies: keyspace events, and changes of keys that somebody tracks. It is handed
//! over before the shards of the command are left, so that what concerns one key goes out in the order in which it happened, and nobody
//! can read a value before those who cached the old one are about to be told. Not who listens: that is `session`'s.
//!
//! HOT: after every command; two branches while nobody listens and nobody tracks.

use command::KeySpec;
use resp::Args;
use shard::ShardId;
use shard::data::ShardData;
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::{Class, Event, Events};
use shard::tracking::{Reader, Readers};
use shard::waiter::Waiter;

use crate::task::{Surroundings, Ticket};

/// The way to those who listen. Called while shards are held: it must not wait for one.
pub trait Outbound: Send + Sync {
    /// Things that happened to keys, in their order; `wanted` says where they are told.
    fn notify(&self, wanted: Class, events: &[Event]);

    /// Keys have changed. Readers have read them since their last change and track them; others may want to know of keys that they have not
    /// read.
    fn changed(&self, changes: &[Changed], by: Ticket);

    /// All keys have changed.
    fn flushed(&self, by: Ticket);

    /// Whether anybody wants to know of changes of keys that nobody has read.
    fn wants_changes(&self) -> bool;
}

/// A key that has changed, and who has read it.
pub type Changed = (Box<[u8]>, Option<Readers>);

/// Nobody listens.
pub struct Nobody;

impl Outbound for Nobody {
    fn notify(&self, _: Class, _: &[Event]) {}

    fn changed(&self, _: &[Changed], _: Ticket) {}

    fn flushed(&self, _: Ticket) {}

    fn wants_changes(&self) -> bool {
        false
    }
}

/// A command whose client wants to know when what it reads changes.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    /// The number of the command.
    pub command: u32,
    /// Its row of keys.
    pub keys: &'static [KeySpec],
}

/// Beyond its share of `tracking-table-max-keys` a shard remembers this many times as many keys, and some, until the background comes by.
const SHARE_FACTOR: u64 = 2;
const SHARE_SPARE: u64 = 128;

impl Surroundings {
    /// After each command, while its shards are held: tells what has happened, and remembers what was read.
    #[inline]
    pub fn conclude(&self, cx: &mut Exec<'_>, args: Args<'_>, caching: Option<Caching>, by: Ticket) {
        let events = cx.take_events();
        if !events.is_empty() {
            self.tell(&events, by);
        }
        // A script, which has no words here, may have worked in several databases.
        let db = (!cx.elsewhere && !args.is_empty()).then_some(cx.db);
        let mut changes = Vec::new();
        cx.held.each(|data| {
            if data.is_tracked() {
                self.take_changes(data, db, &mut changes);
            }
        });
        if !changes.is_empty() {
            self.outbound.changed(&changes, by);
        }
        if let Some(caching) = caching {
            self.remember(cx, args, caching, by);
        }
    }

    /// As [`Self::conclude`], for a command that waited: the keys that it waited for, whose shards are held, are what it has read.
    pub(crate) fn conclude_waiting(&self, cx: &mut Exec<'_>, waiter: &Waiter, by: Ticket) {
        self.conclude(cx, waiter.words.as_args(), None, by);
        let Some(command) = waiter.tracked else { return };
        let reader = Reader { connection: by.connection, thread: by.thread, command };
        for bytes in waiter.keys() {
            let key = cx.layout.key(bytes);
            if cx.holds(key) {
                self.remember_key(cx, key, reader);
            }
        }
    }

    /// Tells what has happened in a shard outside of commands (expiry, eviction), while it is held.
    pub fn conclude_shard(&self, data: &mut ShardData, events: &Events, by: Ticket) {
        self.tell(events, by);
        if data.is_tracked() {
            let mut changes = Vec::new();
            self.take_changes(data, None, &mut changes);
            self.outbound.changed(&changes, by);
        }
    }

    #[cold]
    fn tell(&self, events: &Events, by: Ticket) {
        if !events.list.is_empty() {
            self.outbound.notify(self.settings.notify, &events.list);
        }
        if events.flushed {
            self.outbound.flushed(by);
        }
    }

    fn take_changes(&self, data: &mut ShardData, db: Option<u16>, changes: &mut Vec<Changed>) {
        let before = changes.len();
        changes.extend(data.take_changes(db));
        if changes.len() == before {
            return;
        }
        if data.tracking_counts().0 == 0 && !self.outbound.wants_changes() {
            data.track(false);
        }
        self.published.set_tracked(data.id, data.tracking_counts());
    }

    /// The client of `by` has read the keys of a command: whoever changes one tells it. After what has changed until then was told.
    #[inline(never)]
    pub(crate) fn remember(&self, cx: &mut Exec<'_>, args: Args<'_>, caching: Caching, by: Ticket) {
        let reader = Reader { connection: by.connection, thread: by.thread, command: caching.command };
        if let Some((at, hash, shard)) = cx.hint {
            return self.remember_key(cx, Key { bytes: &args[at], hash, shard }, reader);
        }
        let layout = cx.layout;
        // A word that makes no sense as a count of keys: the command has answered with its error.
        let _ = command::key_positions(caching.keys, args, |at, flags| {
            let key = layout.key(&args[at]);
            if !flags.has(command::KeyFlags::NOT_KEY) && cx.holds(key) {
                self.remember_key(cx, key, reader);
            }
        });
    }

    #[inline]
    fn remember_key(&self, cx: &mut Exec<'_>, key: Key<'_>, reader: Reader) {
        let data = cx.shard(key.shard);
        data.remember(key, reader);
        let (max, shards) = (self.settings.tracking_keys_max, u64::from(self.layout.mask) + 1);
        if max != 0 && data.tracking_counts().0 > max / shards * SHARE_FACTOR + SHARE_SPARE {
            self.forget_some(data, 1);
        }
        self.published.set_tracked(key.shard, data.tracking_counts());
    }

    /// Forgets some of the keys of a shard that is held that were read; their readers are told.
    pub fn forget_some(&self, data: &mut ShardData, count: usize) {
        const NOBODY: Ticket = Ticket { thread: u16::MAX, connection: u64::MAX };
        let forgotten = data.take_readers(count).into_iter().map(|(key, readers)| (key, Some(readers)));
        self.outbound.changed(&forgotten.collect::<Vec<_>>(), NOBODY);
        self.published.set_tracked(data.id, data.tracking_counts());
    }

    /// How many keys of a shard are to be forgotten for `tracking-table-max-keys` to hold: its part of what is too much.
    pub fn tracked_too_many(&self, shard: ShardId) -> usize {
        let (all, max) = (self.published.tracked().0, self.settings.tracking_keys_max);
        if max == 0 || all <= max {
            return 0;
        }
        let here = self.published.tracked_in(shard).0;
        usize::try_from(((all - max) * here).div_ceil(all)).unwrap_or(usize::MAX)
    }
}
