//! How long keys still have to live on average: INFO's `avg_ttl`. Each thread draws one key with a deadline of every database of every
//! home shard per tick and lets the mean follow slowly.

use shard::data::ShardData;
use stdx::rng::Rng;

use crate::shared::{Peer, Shared};

/// A new mean counts one part, the old one the rest.
const INERTIA: u64 = 8;

/// What was drawn in one tick: sum and number of the remaining milliseconds, by database.
pub(crate) struct Draws(Vec<(u64, u64)>);

impl Draws {
    pub fn new(databases: u16) -> Self {
        Self(vec![(0, 0); usize::from(databases)])
    }

    /// Draws from a shard.
    pub fn draw(&mut self, data: &mut ShardData, now_ms: u64, rng: &mut Rng) {
        for (db, keyspace) in data.in_use() {
            if keyspace.volatile_len() == 0 {
                continue;
            }
            let deadline = keyspace.sample_volatile(rng).and_then(|entry| entry.deadline());
            if let Some(left_ms) = deadline.and_then(|deadline| deadline.checked_sub(now_ms)) {
                let (sum, count) = &mut self.0[usize::from(db)];
                *sum += left_ms;
                *count += 1;
            }
        }
    }

    /// Lets the thread's means follow.
    pub fn publish(&self, peer: &Peer) {
        for ((sum, count), mean) in self.0.iter().zip(&peer.average_ttl_ms) {
            let before = mean.get();
            mean.set(match sum.checked_div(*count) {
                None => 0,
                Some(now) if before == 0 => now,
                Some(now) => (before * (INERTIA - 1) + now) / INERTIA,
            });
        }
    }
}

impl Shared {
    /// The mean over the threads that have such keys; 0 if there are none.
    pub fn average_ttl_ms(&self, db: u16) -> u64 {
        if self.published.volatile(db) == 0 {
            return 0;
        }
        let means = self.peers.iter().filter_map(|peer| peer.average_ttl_ms.get(usize::from(db)));
        let (sum, count) = means
            .map(|mean| mean.get())
            .filter(|mean| *mean > 0)
            .fold((0_u64, 0_u64), |(sum, count), mean| (sum + mean, count + 1));
        sum.checked_div(count).unwrap_or(0)
    }
}
