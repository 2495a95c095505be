//! Active expiry: removes entries whose deadline has passed though nobody asks for them. Not expiry on access: whoever looks an entry up
//! compares its deadline itself.
//!
//! A keyspace knows a moment before which nothing in it expires: the lowest deadline that the last walk saw or that was set since. Until
//! then it costs nothing. After it, a walk goes through the index by scan cursor, so that entries may come, go and move meanwhile; it looks
//! only at slots whose deadline bit is set. The walk is cut into slices of at most `SLICE_US`, and `Pace` says how long a thread rests between
//! them: the more of what was looked at had expired, the less, up to a quarter of a core. Time comes in as an argument.

use crate::keyspace::{Key, Keyspace};

/// A slice ends after this long: 100 us.
pub const SLICE_US: u64 = 100;
/// Buckets between two looks at the clock. One bucket is at most about 20 entries: 20 x 0.3 us when all of them have to be removed.
const BUCKETS_PER_LOOK: u32 = 2;

/// What a keyspace remembers between slices.
pub(crate) struct Expiry {
    /// Nothing expires before this unix time in ms.
    bound_ms: u64,
    /// The lowest deadline that the present walk has seen or that was set while it goes on.
    bound_next_ms: u64,
    /// Where the present walk goes on.
    cursor: u64,
    walking: bool,
}

impl Default for Expiry {
    fn default() -> Expiry {
        Expiry { bound_ms: u64::MAX, bound_next_ms: u64::MAX, cursor: 0, walking: false }
    }
}

impl Expiry {
    /// An entry has got this deadline.
    #[inline]
    pub(crate) fn note(&mut self, deadline: Option<u64>) {
        if let Some(deadline) = deadline {
            self.bound_ms = self.bound_ms.min(deadline);
            self.bound_next_ms = self.bound_next_ms.min(deadline);
        }
    }
}

/// What a slice did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Entries whose deadline was read.
    pub examined: u32,
    /// Buckets that were visited.
    pub buckets: u32,
    /// Entries that were removed.
    pub expired: u32,
    /// When there is something to do again, in unix ms: 0 if the walk is not at its end, `u64::MAX` if nothing has a deadline.
    pub again_ms: u64,
}

impl Keyspace {
    /// Unix time in ms before which `expire_slice` finds nothing to do; 0 while a walk goes on. Reading it is all that an idle keyspace costs.
    #[inline]
    pub fn expiry_due_ms(&self) -> u64 {
        if self.expiry.walking { 0 } else { self.expiry.bound_ms }
    }
}

/// Removes entries that have expired at `now_ms`, until the walk ends or `clock_us` (any clock, in us) has advanced by `budget_us`. Calls `on_expired`
/// with each key just before it is removed; its watchers' flags are raised.
pub fn expire_slice(
    keyspace: &mut Keyspace,
    now_ms: u64,
    budget_us: u64,
    mut clock_us: impl FnMut() -> u64,
    mut on_expired: impl FnMut(&[u8]),
) -> Outcome {
    let mut outcome = Outcome { examined: 0, buckets: 0, expired: 0, again_ms: 0 };
    if keyspace.volatile_len() == 0 {
        keyspace.expiry = Expiry::default();
    }
    if keyspace.expiry_due_ms() >= now_ms {
        outcome.again_ms = keyspace.expiry_due_ms();
        return outcome;
    }
    if !keyspace.expiry.walking {
        keyspace.expiry.walking = true;
        keyspace.expiry.bound_next_ms = u64::MAX;
    }
    let start_us = clock_us();
    // Keys of the entries of one bucket that have expired, one after the other, each behind its length.
    let mut expired = Vec::new();
    loop {
        expire_bucket(keyspace, now_ms, &mut expired, &mut outcome, &mut on_expired);
        if keyspace.expiry.cursor == 0 {
            keyspace.expiry.walking = false;
            keyspace.expiry.bound_ms = keyspace.expiry.bound_next_ms;
            outcome.again_ms = keyspace.expiry.bound_ms;
            return outcome;
        }
        if outcome.buckets.is_multiple_of(BUCKETS_PER_LOOK) && clock_us() - start_us >= budget_us {
            return outcome;
        }
    }
}

fn expire_bucket(
    keyspace: &mut Keyspace,
    now_ms: u64,
    expired: &mut Vec<u8>,
    outcome: &mut Outcome,
    on_expired: &mut impl FnMut(&[u8]),
) {
    expired.clear();
    let mut lowest_ms = u64::MAX;
    let cursor = keyspace.scan_deadlines(keyspace.expiry.cursor, |entry| {
        outcome.examined += 1;
        if entry.is_expired(now_ms) {
            expired.extend_from_slice(&(entry.key().len() as u64).to_le_bytes());
            expired.extend_from_slice(entry.key());
        } else if let Some(deadline) = entry.deadline() {
            lowest_ms = lowest_ms.min(deadline);
        }
    });
    outcome.buckets += 1;
    keyspace.expiry.cursor = cursor;
    keyspace.expiry.bound_next_ms = keyspace.expiry.bound_next_ms.min(lowest_ms);
    // Removing may move other entries (compaction), so they are found by key again; the lines are still in the cache.
    let mut rest = &expired[..];
    while let Some((length, tail)) = rest.split_first_chunk() {
        let (bytes, tail) = tail.split_at(u64::from_le_bytes(*length) as usize);
        on_expired(bytes);
        let removed = keyspace.remove(Key { bytes, hash: keyspace.hash(bytes), shard: 0 });
        debug_assert!(removed, "nobody else changes the keyspace meanwhile");
        outcome.expired += 1;
        rest = tail;
    }
}

/// How much of one thread's time expiry may take. One per thread; its keyspaces take turns.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Part of what was looked at that had expired, smoothed over some slices: 0 to 1.
    stale: f64,
}

/// Most of a core's time that expiry takes: a quarter.
const SHARE_MAX: f64 = 0.25;
/// The least while a walk goes on.
const SHARE_MIN: f64 = 0.005;
/// Part of expired entries from which on it takes the most.
const STALE_MUCH: f64 = 0.1;
/// Weight of the last slice in the smoothed part.
const SMOOTHING: f64 = 0.2;
/// Visiting a bucket costs about a quarter of reading a deadline.
const BUCKETS_PER_ENTRY: f64 = 4.0;
/// Longest rest, so that a slice that was interrupted for long does not stop expiry for minutes: 50 ms.
const REST_US_MAX: f64 = 50_000.0;

impl Default for Pace {
    fn default() -> Pace {
        Pace { stale: STALE_MUCH }
    }
}

impl Pace {
    /// How long the thread should rest, in us, after a slice that took `spent_us`.
    pub fn rest_us(&mut self, outcome: &Outcome, spent_us: u64) -> u64 {
        let seen = f64::from(outcome.examined) + f64::from(outcome.buckets) / BUCKETS_PER_ENTRY;
        if seen > 0.0 {
            self.stale += SMOOTHING * (f64::from(outcome.expired) / seen - self.stale);
        }
        let share = (SHARE_MAX * self.stale / STALE_MUCH).clamp(SHARE_MIN, SHARE_MAX);
        (spent_us as f64 * (1.0 / share - 1.0)).min(REST_US_MAX) as u64
    }
}

#[cfg(test)]
mod tests;
