//! Active expiry: removes entries, and fields of hashes, whose deadline has passed though nobody asks for them. Not expiry on access: whoever looks an
//! entry up compares its deadline itself.
//!
//! A keyspace knows a moment before which nothing in it expires: the lowest deadline that the last walk saw or that was set since. Until
//! then it costs nothing. After it, a walk goes through the index by scan cursor, so that entries may come, go and move meanwhile; it looks
//! only at slots whose deadline bit is set: those of entries with a deadline, and of hashes of which some fields have one. A hash knows such a moment
//! for its fields, and a large one is walked in the same manner; the walk of the keyspace waits at its bucket until that is done. The walk is cut into slices of at most `SLICE_US`, and `Pace` says how long a thread rests between
//! them: the more of what was looked at had expired, the less, up to a quarter of a core. Time comes in as an argument.

use crate::keyspace::{Key, Keyspace};

/// A slice ends after this long: 100 us.
pub const SLICE_US: u64 = 100;
/// Buckets between two looks at the clock. One bucket is at most about 20 entries: 20 x 0.3 us when all of them have to be removed.
const BUCKETS_PER_LOOK: u32 = 2;
/// Buckets of a large hash between two looks at the clock.
const FIELD_BUCKETS_PER_LOOK: u32 = 4;

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
    /// Entries and fields whose deadline was read.
    pub examined: u32,
    /// Buckets that were visited, those of large hashes included.
    pub buckets: u32,
    /// Entries and fields that were removed.
    pub expired: u32,
    /// When there is something to do again, in unix ms: 0 if the walk is not at its end, `u64::MAX` if nothing has a deadline.
    pub again_ms: u64,
}

/// What expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone<'a> {
    Key(&'a [u8]),
    /// A field of the hash at `key`. The key goes with its last field, without being told.
    Field {
        key: &'a [u8],
        field: &'a [u8],
    },
}

impl Keyspace {
    /// Unix time in ms before which `expire_slice` finds nothing to do; 0 while a walk goes on. Reading it is all that an idle keyspace costs.
    #[inline]
    pub fn expiry_due_ms(&self) -> u64 {
        if self.expiry.walking { 0 } else { self.expiry.bound_ms.min(self.fields_due_ms()) }
    }
}

/// Removes entries and fields that have expired at `now_ms`, until the walk ends or `clock_us` (any clock, in us) has advanced by `budget_us`. Calls
/// `on_expired` with each just before it is removed; its watchers' flags are raised.
pub fn expire_slice(
    keyspace: &mut Keyspace,
    now_ms: u64,
    budget_us: u64,
    mut clock_us: impl FnMut() -> u64,
    mut on_expired: impl FnMut(Gone<'_>),
) -> Outcome {
    let mut outcome = Outcome { examined: 0, buckets: 0, expired: 0, again_ms: 0 };
    let fields_due_ms = keyspace.take_fields_due();
    keyspace.expiry.note(Some(fields_due_ms));
    if keyspace.is_lasting() {
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
    let mut over = || clock_us() - start_us >= budget_us;
    let mut due = Due::default();
    loop {
        let next = look_at_bucket(keyspace, now_ms, &mut due, &mut outcome);
        expire_keys(keyspace, &due.keys, &mut outcome, &mut on_expired);
        if !expire_hashes(keyspace, now_ms, &due.hashes, &mut outcome, &mut over, &mut on_expired) {
            // The rest of the bucket's hashes is found again with the next slice.
            return outcome;
        }
        keyspace.expiry.cursor = next;
        if next == 0 {
            let fields_due_ms = keyspace.take_fields_due();
            let bound_ms = keyspace.expiry.bound_next_ms.min(fields_due_ms);
            (keyspace.expiry.walking, keyspace.expiry.bound_ms) = (false, bound_ms);
            outcome.again_ms = bound_ms;
            return outcome;
        }
        if outcome.buckets.is_multiple_of(BUCKETS_PER_LOOK) && over() {
            return outcome;
        }
    }
}

/// Keys of one bucket, one after the other, each behind its length.
#[derive(Default)]
struct Keys(Vec<u8>);

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.0.extend_from_slice(&(key.len() as u64).to_le_bytes());
        self.0.extend_from_slice(key);
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first_chunk()?;
            let (key, tail) = tail.split_at(u64::from_le_bytes(*length) as usize);
            rest = tail;
            Some(key)
        })
    }
}

/// What is due in one bucket.
#[derive(Default)]
struct Due {
    keys: Keys,
    /// Hashes of which fields are due.
    hashes: Keys,
}

/// Looks at the deadlines of the walk's bucket; the cursor of the next.
fn look_at_bucket(keyspace: &mut Keyspace, now_ms: u64, due: &mut Due, outcome: &mut Outcome) -> u64 {
    due.keys.0.clear();
    due.hashes.0.clear();
    let mut lowest_ms = u64::MAX;
    let next = keyspace.scan_deadlines(keyspace.expiry.cursor, |entry| {
        outcome.examined += 1;
        if entry.is_expired(now_ms) {
            return due.keys.push(entry.key());
        }
        let fields_due_ms = entry.fields_due_ms();
        if fields_due_ms < now_ms {
            due.hashes.push(entry.key());
        }
        // A hash whose fields are due tells the keyspace its new bound when they are gone.
        let fields_due_ms = if fields_due_ms < now_ms { u64::MAX } else { fields_due_ms };
        lowest_ms = lowest_ms.min(entry.deadline().unwrap_or(u64::MAX)).min(fields_due_ms);
    });
    outcome.buckets += 1;
    keyspace.expiry.bound_next_ms = keyspace.expiry.bound_next_ms.min(lowest_ms);
    next
}

/// Removes keys. That may move other entries (compaction), so they are found by key again; the lines are still in the cache.
fn expire_keys(
    keyspace: &mut Keyspace,
    keys: &Keys,
    outcome: &mut Outcome,
    on_expired: &mut impl FnMut(Gone<'_>),
) {
    for bytes in keys.iter() {
        on_expired(Gone::Key(bytes));
        let removed = keyspace.remove(Key { bytes, hash: keyspace.hash(bytes), shard: 0 });
        debug_assert!(removed, "nobody else changes the keyspace meanwhile");
        outcome.expired += 1;
    }
}

/// Removes fields of hashes. False if the time was over before all were gone.
fn expire_hashes(
    keyspace: &mut Keyspace,
    now_ms: u64,
    hashes: &Keys,
    outcome: &mut Outcome,
    over: &mut impl FnMut() -> bool,
    on_expired: &mut impl FnMut(Gone<'_>),
) -> bool {
    for bytes in hashes.iter() {
        let key = Key { bytes, hash: keyspace.hash(bytes), shard: 0 };
        loop {
            let step = keyspace.expire_fields(key, now_ms, FIELD_BUCKETS_PER_LOOK, |field| {
                on_expired(Gone::Field { key: bytes, field });
            });
            outcome.examined += step.examined;
            outcome.buckets += step.buckets;
            outcome.expired += step.removed;
            if over() && !step.done {
                return false;
            }
            if step.done {
                break;
            }
        }
    }
    true
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
