//! `maxmemory`: room is made before a write enters its shards, so that nothing is evicted under a latch that the write holds.
//!
//! What counts is memory as the kernel sees it: pages, index, buffers. Evicting an entry frees a hole in a page, which the next
//! write of that shard fills or compaction closes; so holes that compaction is about to give back are not counted against the limit, and every
//! write evicts as much as it brings while the limit is passed.

use command::CommandError;
use shard::data::key_record;
use shard::eviction::{Pool, Weights, evict};
use shard::notify::{Class, Events};
use shard::settings::Policy;

use router::published::counts;

use crate::background::NOBODY;
use crate::worker::Worker;

/// Waste that compaction leaves alone: a 20th of what is used.
const WASTE_KEPT_SHARE: u64 = 20;

/// Bytes that a write needs beside its words: entry header, index slot, rounding.
const OVERHEAD_BYTES: u64 = 32;

/// Evictions of one write at most; what is still missing is left to the next ones and to the background.
const EVICTIONS_MAX: u32 = 64;

/// Draws in a row that find nothing to evict before a write is refused.
const MISSES_MAX: u32 = 32;

/// What a thread needs to choose what to evict.
#[derive(Default)]
pub struct Room {
    pool: Pool,
    weights: Weights,
    policy: Option<Policy>,
    /// Bytes of buffers and of holes in pages, of all threads and shards, as of the last tick.
    buffers: u64,
    waste: u64,
}

impl Worker {
    /// Memory that counts against `maxmemory`, in bytes: pages of entries and index, buffers of clients.
    pub fn used_memory(&self) -> u64 {
        self.shared.arena.bytes_used() + self.shared.buffer_bytes()
    }

    /// Bytes above `maxmemory`, without the holes that compaction gives back.
    fn memory_excess(&self) -> u64 {
        let arena = self.shared.arena;
        // What was flushed comes back on its own.
        let used = (arena.bytes_used() + self.room.buffers).saturating_sub(arena.bytes_condemned());
        if used <= self.config.maxmemory {
            return 0;
        }
        let holes = self.room.waste.saturating_sub(used / WASTE_KEPT_SHARE);
        used.saturating_sub(holes).saturating_sub(self.config.maxmemory)
    }

    /// Makes room for a write of `bytes`, or says that there is none.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Result<(), CommandError> {
        let excess = self.memory_excess();
        if excess == 0 {
            return Ok(());
        }
        if self.engine.surroundings.settings.policy == Policy::NoEviction {
            return self.no_room();
        }
        // As much as the write brings, and up to as much again of what is owed.
        let needed = bytes + OVERHEAD_BYTES;
        let goal = needed + needed.min(excess);
        let mut freed = 0;
        for _ in 0..EVICTIONS_MAX {
            match self.evict_one() {
                Some(more) => freed += more + OVERHEAD_BYTES / 2,
                None if freed == 0 => return self.no_room(),
                None => break,
            }
            if freed >= goal {
                break;
            }
        }
        Ok(())
    }

    /// There is no room, unless clients have given some back since the last tick.
    fn no_room(&mut self) -> Result<(), CommandError> {
        self.room.buffers = self.shared.buffer_bytes();
        if self.memory_excess() == 0 { Ok(()) } else { Err(CommandError::OUT_OF_MEMORY) }
    }

    /// Evicts for at most `budget_us` if the limit is passed by more than writes can make up for. Whether there is more to do.
    pub(crate) fn evict_slice(&mut self, budget_us: u64) -> bool {
        let policy = self.engine.surroundings.settings.policy;
        if self.config.maxmemory == 0 || policy == Policy::NoEviction {
            return false;
        }
        let started_us = reactor::clock::monotonic_us();
        let mut excess = self.memory_excess() / u64::from(self.threads());
        while excess > 0 {
            let Some(freed) = self.evict_one() else { return false };
            excess = excess.saturating_sub(freed);
            self.room.waste += freed;
            if reactor::clock::monotonic_us() - started_us >= budget_us {
                return true;
            }
        }
        false
    }

    /// Evicts the worst key that this thread knows of: its bytes, none if there is nothing to evict.
    fn evict_one(&mut self) -> Option<u64> {
        let settings = std::sync::Arc::clone(&self.engine.surroundings.settings);
        if self.room.policy != Some(settings.policy) {
            self.room.policy = Some(settings.policy);
            self.room.pool.clear();
            self.refresh_room();
        }
        let layout = self.engine.surroundings.layout;
        for _ in 0..MISSES_MAX {
            let Self { engine, room, now_ms, config, .. } = self;
            let Some(shard) = room.weights.draw(&mut engine.rng) else {
                // There were no keys at the last tick; there may be some now.
                self.refresh_room();
                if self.room.weights.is_empty() {
                    return None;
                }
                continue;
            };
            let samples = config.maxmemory_samples;
            let (pool, rng) = (&mut room.pool, &mut engine.rng);
            // A busy shard is passed over: another one is as good.
            let _ = engine.shards.with_one(shard, &mut engine.duty, |data| {
                pool.sample(data, &settings, samples, *now_ms, rng);
            });
            while let Some(candidate) = self.room.pool.take() {
                let published = &self.shared.published;
                let engine = &mut self.engine;
                let surroundings = &engine.surroundings;
                let journaling = surroundings.journaling;
                let evicted = engine.shards.with_one(candidate.shard, &mut engine.duty, |data| {
                    let bytes = evict(data, layout, &candidate, settings.policy)?;
                    if journaling {
                        data.removed.push((candidate.db, key_record(&candidate.key)));
                    }
                    let left = counts(data.existing(candidate.db));
                    published.set(candidate.shard, candidate.db, left);
                    let mut events = Events::default();
                    if surroundings.settings.notify.any(Class::EVICTED) {
                        events.push(candidate.db, "evicted", layout.key(&candidate.key));
                    }
                    surroundings.conclude_shard(data, &events, NOBODY);
                    Some(bytes)
                });
                if let Ok(Some(bytes)) = evicted {
                    self.engine.counters.evicted_keys += 1;
                    return Some(bytes);
                }
            }
        }
        None
    }

    /// Looks anew at how many keys the shards have and at what buffers and holes there are. Once per tick.
    pub(crate) fn refresh_room(&mut self) {
        let shared = &self.shared;
        let databases = shared.layout.databases;
        let keys = |shard| (0..databases).map(|db| shared.published.keys_in(shard, db)).sum::<u64>();
        self.room.weights.refresh((0..=shared.layout.mask).map(keys));
        self.room.buffers = shared.buffer_bytes();
        self.room.waste = shared.peers.iter().map(|peer| peer.stats.waste_bytes.get()).sum();
    }
}
