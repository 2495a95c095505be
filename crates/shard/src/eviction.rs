//! Which entry `maxmemory` evicts next: the worst of a few samples, remembered in a small pool, as Redis has done since 3.0.
//!
//! A thread samples one shard at a time, drawn by its number of keys, and keeps the 16 worst candidates it has seen. Keys are spread
//! over the shards by hash, so that the samples of a few shards stand for the whole keyspace.

use stdx::rng::Rng;

use crate::access;
use crate::data::ShardData;
use crate::keyspace::{Entry, Keyspace};
use crate::settings::{Policy, Settings};
use crate::{ShardId, exec::Layout};

/// Candidates that a thread remembers.
const POOL_MAX: usize = 16;

/// A key that may be evicted.
#[derive(Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The higher, the sooner it goes.
    score: u64,
    pub shard: ShardId,
    pub db: u16,
    pub key: Vec<u8>,
}

/// The worst candidates that a thread has seen, best last to go first.
#[derive(Debug, Default)]
pub struct Pool(Vec<Candidate>);

impl Pool {
    /// Draws `samples` entries of a shard that the caller holds.
    pub fn sample(
        &mut self,
        data: &mut ShardData,
        settings: &Settings,
        samples: u32,
        now_ms: u64,
        rng: &mut Rng,
    ) {
        let shard = data.id;
        for _ in 0..samples {
            let Some((db, keyspace)) = draw_database(data, settings.policy, rng) else { return };
            if let Some(entry) = draw(keyspace, settings.policy, rng) {
                let score = score(entry, settings, now_ms);
                self.offer(score, shard, db, entry.key());
            }
        }
    }

    /// Takes the candidate that should go first.
    pub fn take(&mut self) -> Option<Candidate> {
        self.0.pop()
    }

    /// Forgets all candidates: another policy judges them differently.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn offer(&mut self, score: u64, shard: ShardId, db: u16, key: &[u8]) {
        if self.0.len() == POOL_MAX && self.0[0].score >= score {
            return;
        }
        if self.0.iter().any(|known| known.shard == shard && known.db == db && known.key == key) {
            return;
        }
        // The memory of the candidate that falls out serves the new one.
        let mut bytes = if self.0.len() == POOL_MAX { self.0.remove(0).key } else { Vec::new() };
        bytes.clear();
        bytes.extend_from_slice(key);
        let at = self.0.partition_point(|known| known.score <= score);
        self.0.insert(at, Candidate { score, shard, db, key: bytes });
    }
}

/// A database of the shard, drawn by its number of keys that the policy may evict.
fn draw_database<'d>(
    data: &'d mut ShardData,
    policy: Policy,
    rng: &mut Rng,
) -> Option<(u16, &'d mut Keyspace)> {
    let keys =
        |keyspace: &Keyspace| if policy.is_volatile() { keyspace.volatile_len() } else { keyspace.len() };
    let all: u64 = data.in_use().map(|(_, keyspace)| keys(keyspace)).sum();
    if all == 0 {
        return None;
    }
    let mut drawn = rng.below(all);
    data.in_use().find(|(_, keyspace)| {
        let here = keys(keyspace);
        let found = drawn < here;
        drawn = drawn.saturating_sub(here);
        found
    })
}

fn draw<'k>(keyspace: &'k Keyspace, policy: Policy, rng: &mut Rng) -> Option<Entry<'k>> {
    if policy.is_volatile() { keyspace.sample_volatile(rng) } else { keyspace.sample(rng) }
}

fn score(entry: Entry<'_>, settings: &Settings, now_ms: u64) -> u64 {
    match settings.policy {
        Policy::AllkeysLru | Policy::VolatileLru => {
            entry.access().map_or(u64::MAX, |access| access::idle_ms(access, now_ms))
        }
        Policy::AllkeysLfu | Policy::VolatileLfu => entry.access().map_or(u64::MAX, |access| {
            u64::from(u8::MAX - access::frequency(access, now_ms, settings.lfu_decay_time))
        }),
        Policy::VolatileTtl => u64::MAX - entry.deadline().unwrap_or(u64::MAX),
        Policy::AllkeysRandom | Policy::VolatileRandom | Policy::NoEviction => 0,
    }
}

/// Evicts a candidate from its shard, which the caller holds: the bytes of the entry, none if it has gone or is none any more.
pub fn evict(data: &mut ShardData, layout: Layout, candidate: &Candidate, policy: Policy) -> Option<u64> {
    let keyspace = data.existing(candidate.db)?;
    let key = layout.key(&candidate.key);
    let entry = keyspace.find(key)?;
    if policy.is_volatile() && entry.deadline().is_none() {
        return None;
    }
    let bytes = entry.size() as u64;
    keyspace.remove(key);
    Some(bytes)
}

/// The shards by their number of keys, to draw one of them.
#[derive(Debug, Default)]
pub struct Weights {
    /// Keys of all shards up to and including this one.
    sums: Vec<u64>,
}

impl Weights {
    /// Takes the shards' present numbers of keys.
    pub fn refresh(&mut self, keys: impl Iterator<Item = u64>) {
        self.sums.clear();
        let mut sum = 0;
        self.sums.extend(keys.map(|keys| {
            sum += keys;
            sum
        }));
    }

    /// Whether there are no keys at all.
    pub fn is_empty(&self) -> bool {
        self.sums.last().is_none_or(|sum| *sum == 0)
    }

    /// A shard, each with the chance of its keys; none while there are no keys.
    pub fn draw(&self, rng: &mut Rng) -> Option<ShardId> {
        let all = *self.sums.last()?;
        if all == 0 {
            return None;
        }
        let drawn = rng.below(all);
        ShardId::try_from(self.sums.partition_point(|sum| *sum <= drawn)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_keeps_the_worst_and_gives_the_worst_first() {
        let mut pool = Pool::default();
        for score in 0..100_u64 {
            let key = (score * 37 % 100).to_string();
            pool.offer(score * 37 % 100, 0, 0, key.as_bytes());
            pool.offer(score * 37 % 100, 0, 0, key.as_bytes());
        }
        let taken: Vec<u64> = std::iter::from_fn(|| pool.take()).map(|candidate| candidate.score).collect();
        assert_eq!(taken, (84..100).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn shards_are_drawn_by_their_keys() {
        let mut weights = Weights::default();
        let mut rng = Rng::new(3);
        assert_eq!(weights.draw(&mut rng), None);
        weights.refresh([0, 10, 0, 30].into_iter());
        let mut drawn = [0; 4];
        for _ in 0..4_000 {
            drawn[usize::from(weights.draw(&mut rng).expect("there are keys"))] += 1;
        }
        assert_eq!((drawn[0], drawn[2]), (0, 0));
        assert!((850..1150).contains(&drawn[1]), "{drawn:?}");
    }
}
