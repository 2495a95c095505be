//! What a thread does between commands: expiry and memory of the shards it is home to, clients that idle too long, pauses that end.
//!
//! Every duty works in slices of at most 100 us, so that no command waits longer for it, and rests between its slices.
//!
//! ```text
//!   tick, every 100 ms   look what is due in each home shard; idle clients; a pause's end
//!   slices, when due     expiry (`shard::expiry`) | compaction | freeing what was flushed | RAM of free pages back to the kernel
//! ```

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reactor::clock;
use router::published::counts;
use router::task::Ticket;
use shard::ShardId;
use shard::data::{field_record, key_record};
use shard::exec::Layout;
use shard::expiry::{Gone, Pace, SLICE_US, expire_slice};
use shard::keyspace::Keyspace;
use shard::lazyfree::LazyFree;
use shard::notify::{Class, Events};

use crate::connection::Waiting;
use crate::lifetimes::Draws;
use crate::populate::Populate;
use crate::worker::Worker;

/// Time between two looks at what is due, in us.
const TICK_US: u64 = crate::stats::SAMPLE_INTERVAL_MS * 1000;

/// Ticks after which the largest buffer of a client is forgotten: 8 s.
const RECENT_TICKS: u64 = 80;

/// Ticks between two looks at clients that leave replies unread: 1 s, the unit of the soft limit.
const UNREAD_TICKS: u64 = 10;

/// Steps of compaction of one slice: one moves an entry in about 0.5 us.
const TIDY_STEPS: u32 = 64;

/// A duty other than expiry rests this many times as long as its slice took: a fifth of a core at most.
const REST_FACTOR: u64 = 4;

/// RAM of free pages that is kept for the next growth: a 32nd of what is used, at least 4 MiB.
const TRIM_KEEP_SHARE: u64 = 32;
const TRIM_KEEP_MIN: u64 = 4 << 20;

/// RAM returned to the kernel per slice: 256 KiB take about 30 us.
const TRIM_BYTES: u64 = 256 << 10;

/// What happens in the background is done by no client.
pub(crate) const NOBODY: Ticket = Ticket { thread: u16::MAX, connection: u64::MAX };

/// The duties of one thread. Times are of the monotonic clock, in us.
#[derive(Default)]
pub struct Background {
    tick_us: u64,
    expiry_us: u64,
    memory_us: u64,
    pace: Pace,
    /// When something expires next in each home shard, in unix ms; 0 if a walk is under way.
    due_ms: Vec<u64>,
    ticks: u64,
    /// DEBUG SET-ACTIVE-EXPIRE 0: keys that nobody asks for do not expire.
    pub(crate) expiry_off: bool,
    /// What DEBUG POPULATE has still to make.
    pub(crate) populating: VecDeque<Populate>,
    /// The home shard whose turn it is, for expiry and for compaction.
    expiry_turn: usize,
    tidy_turn: usize,
    /// Home shards in a row in which there was nothing to compact.
    tidy_idle: usize,
    /// What FLUSHDB and FLUSHALL left behind.
    flushed: LazyFree,
}

impl Background {
    /// How long the loop may sleep.
    pub fn wait(&self) -> Duration {
        if !self.populating.is_empty() {
            return Duration::ZERO;
        }
        let due_us = self.tick_us.min(self.expiry_us).min(self.memory_us);
        Duration::from_micros(due_us.saturating_sub(clock::monotonic_us()))
    }
}

/// Runs what is due. Called once per turn of the loop.
pub(crate) fn run(worker: &mut Worker) {
    if worker.pause.until_ms != 0 && worker.pause.until_ms <= worker.now_ms {
        worker.end_pause();
    }
    let now_us = clock::monotonic_us();
    if now_us >= worker.background.tick_us {
        tick(worker);
        worker.background.tick_us = now_us + TICK_US;
    }
    if now_us >= worker.background.expiry_us {
        let rest_us = if worker.background.expiry_off { TICK_US } else { expire(worker) };
        worker.background.expiry_us = clock::monotonic_us() + rest_us;
    }
    crate::populate::slice(worker);
    if now_us >= worker.background.memory_us {
        let busy = reclaim(worker);
        let spent_us = clock::monotonic_us() - now_us;
        worker.background.memory_us = now_us + if busy { spent_us * (REST_FACTOR + 1) } else { TICK_US };
    }
}

/// The home shards of a thread: every n-th one.
fn home(worker: &Worker, turn: usize) -> ShardId {
    let turn = u16::try_from(turn).expect("there are fewer shards than fit");
    worker.id() + turn * worker.threads()
}

fn homes(worker: &Worker) -> usize {
    let shards = usize::from(worker.shared.layout.mask) + 1;
    (shards - usize::from(worker.id()).min(shards)).div_ceil(usize::from(worker.threads()))
}

fn tick(worker: &mut Worker) {
    if worker.id() == 0 {
        worker.shared.sample_rates(clock::monotonic_us());
        worker.shared.memory_peak.fetch_max(worker.used_memory(), Ordering::Relaxed);
    }
    close_idle(worker);
    let homes = homes(worker);
    worker.background.due_ms.resize(homes, u64::MAX);
    let mut waste = 0;
    let now_ms = worker.now_ms;
    let mut draws = Draws::new(worker.shared.layout.databases);
    for turn in 0..homes {
        let id = home(worker, turn);
        let engine = &mut worker.engine;
        let (rng, surroundings) = (&mut engine.rng, &engine.surroundings);
        let looked = engine.shards.with_one(id, &mut engine.duty, |data| {
            draws.draw(data, now_ms, rng);
            match surroundings.tracked_too_many(id) {
                0 => {}
                keys => surroundings.forget_some(data, keys),
            }
            (data.expiry_due_ms(), data.take_detached(), data.waste_bytes(), data.has_ready())
        });
        // A busy shard is looked at with the next tick.
        let Ok((due_ms, detached, waste_here, has_ready)) = looked else { continue };
        if has_ready {
            // A key that somebody waits for has expired or was evicted.
            engine.serve(id);
        }
        waste += waste_here;
        worker.background.due_ms[turn] = due_ms;
        worker.background.flushed.append(detached);
    }
    worker.stats().waste_bytes.set(waste);
    draws.publish(worker.me());
    look_at_limits(worker);
    if worker.config.maxmemory != 0 {
        worker.refresh_room();
    }
    worker.background.expiry_us = worker.background.expiry_us.min(clock::monotonic_us());
    worker.background.tidy_idle = 0;
    worker.background.memory_us = 0;
}

/// What INFO tells about limits: how long memory has been above its own, and how large buffers have been lately.
fn look_at_limits(worker: &mut Worker) {
    if worker.id() == 0 && worker.config.maxmemory != 0 && worker.used_memory() > worker.config.maxmemory {
        worker.stats().eviction_exceeded_us.add(TICK_US);
    }
    worker.background.ticks += 1;
    if worker.background.ticks.is_multiple_of(UNREAD_TICKS) {
        worker.close_unread();
    }
    if worker.background.ticks.is_multiple_of(RECENT_TICKS) {
        worker.stats().client_input_recent_max.set(0);
        worker.stats().client_output_recent_max.set(0);
    }
}

/// One slice of expiry in the next home shard where something is due. Gives the rest until the next slice, in us.
fn expire(worker: &mut Worker) -> u64 {
    let now_ms = worker.now_ms;
    let homes = worker.background.due_ms.len();
    let from = worker.background.expiry_turn;
    let due =
        (from..from + homes).map(|turn| turn % homes).find(|turn| worker.background.due_ms[*turn] < now_ms);
    let Some(turn) = due else { return TICK_US };
    worker.background.expiry_turn = turn + 1;
    let id = home(worker, turn);
    let published = &worker.shared.published;
    let engine = &mut worker.engine;
    let counters = &mut engine.counters;
    let surroundings = &engine.surroundings;
    let journaling = surroundings.journaling;
    let notify = surroundings.settings.notify;
    let started_us = clock::monotonic_us();
    let sliced = engine.shards.with_one(id, &mut engine.duty, |data| {
        let (mut outcome, mut removed, mut told) = (None, Vec::new(), Vec::new());
        let mut events = Events::default();
        for (db, keyspace) in data.in_use() {
            if keyspace.expiry_due_ms() < now_ms {
                let slice = expire_slice(keyspace, now_ms, SLICE_US, clock::monotonic_us, |gone| {
                    note_gone(&mut told, notify, &gone);
                    let record = match gone {
                        Gone::Key(key) => {
                            counters.expired_keys += 1;
                            journaling.then(|| key_record(key))
                        }
                        Gone::Field { key, field } => {
                            counters.expired_fields += 1;
                            journaling.then(|| field_record(key, field))
                        }
                    };
                    removed.extend(record.map(|record| (db, record)));
                });
                published.set(id, db, counts(Some(keyspace)));
                events = events_of(told, db, keyspace, &surroundings.layout, notify);
                outcome = Some(slice);
                break;
            }
        }
        data.removed.append(&mut removed);
        surroundings.conclude_shard(data, &events, NOBODY);
        (outcome, data.expiry_due_ms())
    });
    let Ok((outcome, due_ms)) = sliced else { return SLICE_US };
    worker.background.due_ms[turn] = due_ms;
    let spent_us = clock::monotonic_us() - started_us;
    worker.stats().expire_cycle_us.add(spent_us);
    held(worker, spent_us);
    outcome.map_or(0, |outcome| worker.background.pace.rest_us(&outcome, spent_us))
}

/// What happened to a key in a slice of expiry.
struct Told {
    event: &'static str,
    key: Box<[u8]>,
}

/// Notes what expires for those who listen to keyspace events; several fields of a hash in a row are one event.
fn note_gone(told: &mut Vec<Told>, notify: Class, gone: &Gone<'_>) {
    let (class, event, key) = match *gone {
        Gone::Key(key) => (Class::EXPIRED, "expired", key),
        // `del`, if it is the last field, is told even if this is not.
        Gone::Field { key, .. } => (Class::HASH.with(Class::GENERIC), "hexpired", key),
    };
    let again =
        told.last().is_some_and(|last| event == "hexpired" && last.event == event && *last.key == *key);
    if notify.any(class) && !again {
        told.push(Told { event, key: key.into() });
    }
}

/// The events of a slice of expiry; a key that has gone with its last field is told, too.
fn events_of(told: Vec<Told>, db: u16, keyspace: &Keyspace, layout: &Layout, notify: Class) -> Events {
    let mut events = Events::default();
    for Told { event, key } in told {
        let key = layout.key(&key);
        if event != "hexpired" || notify.any(Class::HASH) {
            events.push(db, event, key);
        }
        if event == "hexpired" && notify.any(Class::GENERIC) && keyspace.find(key).is_none() {
            events.push(db, "del", key);
        }
    }
    events
}

/// One slice of giving memory back: what was flushed, then what is above `maxmemory`, then waste in the heaps, then RAM of free pages. Whether there is more.
fn reclaim(worker: &mut Worker) -> bool {
    if !worker.background.flushed.is_empty() {
        worker.background.flushed.slice(SLICE_US, clock::monotonic_us);
        return true;
    }
    if worker.evict_slice(SLICE_US) {
        return true;
    }
    let started_us = clock::monotonic_us();
    let homes = homes(worker);
    while worker.background.tidy_idle < homes {
        let turn = worker.background.tidy_turn % homes;
        worker.background.tidy_turn = turn + 1;
        let id = home(worker, turn);
        let slice_us = clock::monotonic_us();
        let engine = &mut worker.engine;
        let steps = engine.shards.with_one(id, &mut engine.duty, |data| {
            data.in_use().map(|(_, keyspace)| keyspace.tidy(TIDY_STEPS)).sum::<u32>()
        });
        worker.stats().entries_moved.add(u64::from(*steps.as_ref().unwrap_or(&0)));
        held(worker, clock::monotonic_us() - slice_us);
        worker.background.tidy_idle =
            if matches!(steps, Ok(0)) { worker.background.tidy_idle + 1 } else { 0 };
        if clock::monotonic_us() - started_us >= SLICE_US {
            return true;
        }
    }
    // One thread is enough for the arena, which all share.
    let arena = worker.shared.arena;
    let keep = (arena.bytes_used() / TRIM_KEEP_SHARE).max(TRIM_KEEP_MIN);
    worker.id() == 0 && arena.trim(keep, TRIM_BYTES) > 0
}

/// A slice of background work has held a shard for so long.
fn held(worker: &Worker, us: u64) {
    worker.stats().shard_hold_max_ticks.raise(clock::ns_to_ticks(us * 1000));
}

/// `timeout`: closes clients that have sent nothing and taken nothing of their replies for too long.
fn close_idle(worker: &mut Worker) {
    let timeout_ms = u64::from(worker.config.timeout) * 1000;
    if timeout_ms == 0 {
        return;
    }
    let now_ms = worker.now_ms;
    let idle: Vec<_> = worker
        .connections()
        .filter(|connection| matches!(connection.waiting, None | Some(Waiting::Output)))
        .filter(|connection| !connection.client.monitor && connection.client.subscriptions.is_none())
        .filter(|connection| now_ms.saturating_sub(connection.client.active_ms) > timeout_ms)
        .map(|connection| connection.reactor_id)
        .collect();
    for id in idle {
        let unread = worker.reactor.pending(id);
        let Some(mut connection) = worker.take(id) else { continue };
        let reads = std::mem::replace(&mut connection.unread_seen, unread) != unread;
        if reads {
            connection.client.active_ms = now_ms;
        }
        worker.put_back(connection);
        if !reads {
            worker.kill(id);
        }
    }
}
