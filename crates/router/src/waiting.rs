//! Commands that wait: how they enter the queues of their keys, and how those in the queues are served before a shard is left. Not the
//! queues ([`shard::keyspace::Waits`]), not the end of a wait by time or by the client, which are the session's.
//!
//! ```text
//!   attempt, nothing there --> queue of each key, all under the latches of the attempt
//!   a command changes a key somebody waits for --> the key is noted as ready
//!   before its shards are left: for each ready key, from the first in its queue on
//!       claim (one compare-and-swap) --> the command again, in the shards that are held --> its reply to its thread
//!       a shard that it needs is not held, another thread is serving it, or enough were tried: deferred
//!           --> Work::Retry over all its shards, in the thread's next turn; those behind it, and who comes anew, wait for that
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use command::{CommandError, Effect, KeySpec, Record};
use resp::{Args, OwnedArgs, Proto, Reply};
use shard::data::Counters;
use shard::exec::{Exec, Held};
use shard::keyspace::{Change, Entry, Ready, Waiting};
use shard::plan::{Attempted, Blocking, Wait};
use shard::waiter::{Claim, Settle, Waiter, next_order};
use stdx::rng::Rng;

use crate::outbound::Caching;
use crate::published::Published;
use crate::task::{End, Home, Outcome, Stamped, Surroundings, Task, Ticket, Work, record};

/// Those who wait that are tried before shards are left: as many as posted visits. A try takes one or two microseconds.
const TRIES_MAX: u32 = 32;

/// A command that has begun to wait.
#[derive(Clone)]
pub struct Blocked {
    pub waiter: Arc<Waiter>,
    /// Unix time in ms at which its wait ends; none: never.
    pub until_ms: Option<u64>,
}

/// What is known of a command that may wait, besides its shards.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub blocking: &'static Blocking,
    pub keys: &'static [KeySpec],
    pub args: Args<'a>,
    pub ticket: Ticket,
    pub proto: Proto,
    pub caching: Option<Caching>,
}

/// The first attempt of a command: its effect, and its wait if it begins one.
pub(crate) fn attempt(
    cx: &mut Exec<'_>,
    candidate: Candidate<'_>,
    published: &Published,
    reply: &mut Reply,
) -> Result<(Effect, Option<Blocked>), CommandError> {
    match (candidate.blocking.attempt)(cx, candidate.args, reply)? {
        Attempted::Done(effect) => Ok((effect, None)),
        Attempted::Wait(Wait { until_ms, words, effect }) => {
            let waiter = enter(cx, candidate, words, published);
            Ok((effect, Some(Blocked { waiter, until_ms })))
        }
    }
}

/// Puts a command into the queues of its keys, whose shards are all held.
fn enter(
    cx: &mut Exec<'_>,
    candidate: Candidate<'_>,
    words: Option<OwnedArgs>,
    published: &Published,
) -> Arc<Waiter> {
    let Candidate { blocking, keys, args, ticket, proto, caching } = candidate;
    let mut places: Vec<u32> = Vec::new();
    command::key_positions(keys, args, |at, _| {
        if !places.iter().any(|known| args[*known as usize] == args[at]) {
            places.push(u32::try_from(at).expect("a command has fewer words"));
        }
    })
    .expect("a command that waits has keys");
    let waiter = Arc::new(Waiter {
        thread: ticket.thread,
        connection: ticket.connection,
        db: cx.db,
        proto,
        touch: cx.touch,
        tracked: caching.map(|caching| caching.command),
        blocking,
        words: words.unwrap_or_else(|| OwnedArgs::from(args)),
        keys: places.into(),
        order: next_order(),
        settle: Settle::new(),
        refused: AtomicBool::new(false),
    });
    for bytes in waiter.awaited() {
        let key = cx.layout.key(bytes);
        published.waits_changed(cx.keyspace(key).waits().enter(bytes, &waiter));
    }
    waiter
}

/// What serving has brought about.
#[derive(Default)]
pub struct Served {
    pub records: Vec<(u16, Record)>,
    /// Those who must be tried again with all their shards: [`Work::Retry`].
    pub deferred: Vec<Arc<Waiter>>,
    /// Those who were tried.
    tries: u32,
}

/// Serves those who wait for ready keys of shards that are held.
pub(crate) struct Server<'a> {
    pub surroundings: &'a Surroundings,
    pub rng: &'a mut Rng,
    pub counters: &'a mut Counters,
    pub home: &'a Home,
    pub served: Served,
}

/// What became of one who waits.
enum Tried {
    /// It has left the queue.
    Left,
    /// It waits on.
    Waits,
    /// It and those behind it wait for a task.
    Deferred,
}

impl Server<'_> {
    /// Serves until no key of the held shards is ready, or enough were tried: what is served may make others ready.
    #[cold]
    pub(crate) fn serve(mut self, held: &mut Held<'_>) -> Served {
        loop {
            let ready = take_ready(held);
            if ready.is_empty() {
                return self.served;
            }
            for (db, Ready { key, from, .. }) in ready {
                self.serve_key(held, db, &key, from);
            }
        }
    }

    /// Serves those who wait for one key, in their order, from one of them on, as long as there is something for them.
    fn serve_key(&mut self, held: &mut Held<'_>, db: u16, bytes: &[u8], from: u64) {
        let key = self.surroundings.layout.key(bytes);
        let now_ms = self.surroundings.now_ms;
        let waits = held.shard(key.shard).existing(db).map(|keyspace| keyspace.waits());
        let mut at = waits.map_or(0, |waits| waits.place_from(bytes, from));
        loop {
            let Some(keyspace) = held.shard(key.shard).existing(db) else { return };
            let Some(Waiting { waiter, deferred }) = keyspace.waits().at(bytes, at) else { return };
            let on_nokey = keyspace.waits().on_nokey(bytes);
            let entry = keyspace.find(key).filter(|entry| !entry.is_expired(now_ms));
            if entry.is_none() && !on_nokey {
                return;
            }
            let found = entry.and_then(Entry::collection).map(|view| view.form().type_of());
            self.served.tries += 1;
            let tried = if waiter.settle.is_settled() {
                leave(self.surroundings, held, &waiter);
                Tried::Left
            } else if self.served.tries > TRIES_MAX && !deferred {
                Tried::Deferred
            } else if !waiter.blocking.on_nokey && found != Some(waiter.blocking.wants) {
                Tried::Waits
            } else if deferred {
                return;
            } else {
                self.serve_one(held, &waiter)
            };
            match tried {
                Tried::Left => {}
                Tried::Waits => at += 1,
                Tried::Deferred => {
                    held.shard(key.shard).keyspace(db).waits().set_deferred(bytes, &waiter, true);
                    self.served.deferred.push(waiter);
                    return;
                }
            }
        }
    }

    /// Tries a command again whose key may have something for it.
    fn serve_one(&mut self, held: &mut Held<'_>, waiter: &Arc<Waiter>) -> Tried {
        let layout = self.surroundings.layout;
        if waiter.blocking.whole && !waiter.keys().all(|key| held.holds(layout.shard_of(key))) {
            return Tried::Deferred;
        }
        match waiter.settle.claim() {
            Claim::Mine => {}
            Claim::Busy => return Tried::Deferred,
            Claim::Settled => {
                leave(self.surroundings, held, waiter);
                return Tried::Left;
            }
        }
        let started = (self.surroundings.ticks)();
        let mut reply = Reply::new(waiter.proto);
        let published = &self.surroundings.published;
        let keys_published = |db| published.keys(db);
        let mut cx =
            self.surroundings.exec(waiter.db, self.rng, self.counters, &keys_published, held.reborrow());
        (cx.touch, cx.retrying) = (waiter.touch, true);
        let args = waiter.words.as_args();
        // Relaxed: it may as well have been refused a moment later.
        let attempted = if waiter.refused.load(Ordering::Relaxed) {
            Err(CommandError::fixed("NOPERM No permissions to access a key"))
        } else {
            (waiter.blocking.attempt)(&mut cx, args, &mut reply)
        };
        let ticket = Ticket { thread: waiter.thread, connection: waiter.connection };
        self.surroundings.conclude_waiting(&mut cx, waiter, ticket);
        let (effect, outcome) = match attempted {
            Ok(Attempted::Done(effect)) => (effect, Outcome::Done),
            Ok(Attempted::Wait(wait)) => {
                record(&mut self.served.records, self.surroundings, waiter.db, args, wait.effect);
                if waiter.settle.release() {
                    return Tried::Waits;
                }
                leave(self.surroundings, held, waiter);
                return Tried::Left;
            }
            Err(error) => {
                reply = Reply::new(waiter.proto);
                reply.error(error.text());
                (Effect::None, Outcome::Failed)
            }
        };
        record(&mut self.served.records, self.surroundings, waiter.db, args, effect);
        waiter.settle.settle();
        let elsewhere = leave(self.surroundings, held, waiter);
        let ticks = (self.surroundings.ticks)().wrapping_sub(started);
        let end = End { mark: reply.mark(), ticks };
        (self.home)(Box::new(Task {
            ticket,
            home: Arc::clone(self.home),
            surroundings: self.surroundings.clone(),
            rng: Rng::new(self.rng.next_u64()),
            work: Work::Served { waiter: Arc::clone(waiter), elsewhere },
            outcome,
            reply,
            ends: vec![end],
            counters: Counters::default(),
            stamped: Stamped::default(),
            deferred: Vec::new(),
        }));
        Tried::Left
    }
}

/// The keys that have become ready in held shards, with their databases, in that order.
fn take_ready(held: &mut Held<'_>) -> Vec<(u16, Ready)> {
    let mut ready = Vec::new();
    for id in held.ids() {
        for (db, keyspace) in held.shard(id).in_use() {
            if keyspace.waits().has_ready() {
                ready.extend(keyspace.waits().take_ready().into_iter().map(|key| (db, key)));
            }
        }
    }
    ready.sort_unstable_by_key(|(_, ready)| ready.order);
    ready
}

/// Takes a waiter out of the queues of its keys whose shards are held. Whether it also stands in others.
pub(crate) fn leave(surroundings: &Surroundings, held: &mut Held<'_>, waiter: &Waiter) -> bool {
    let mut elsewhere = false;
    for bytes in waiter.awaited() {
        let shard = surroundings.layout.shard_of(bytes);
        if !held.holds(shard) {
            elsewhere = true;
        } else if let Some(keyspace) = held.shard(shard).existing(waiter.db) {
            let change = keyspace.waits().leave(bytes, waiter);
            if change != Change::default() {
                surroundings.published.waits_changed(change);
            }
        }
    }
    elsewhere
}

/// Before a waiter that was deferred is tried again: it is not deferred any more, and all its keys, whose shards are held, count as ready,
/// also for those behind it.
pub(crate) fn retry(surroundings: &Surroundings, held: &mut Held<'_>, waiter: &Waiter) {
    for bytes in waiter.awaited() {
        if let Some(keyspace) = held.shard(surroundings.layout.shard_of(bytes)).existing(waiter.db) {
            keyspace.waits().set_deferred(bytes, waiter, false);
            keyspace.waits().ready_from(bytes, waiter.order);
        }
    }
}

/// Whether a key of a held shard is ready.
pub(crate) fn has_ready(held: &mut Held<'_>) -> bool {
    match held {
        Held::None => false,
        Held::One(_, data) => data.has_ready(),
        Held::Several(entered) => entered.iter_mut().any(|(_, data)| data.has_ready()),
    }
}
