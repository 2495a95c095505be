//! What of a keyspace expires: keys, and fields of hashes. The slots of both have the same bit; this file tells them apart. Not when to look: that is
//! `expiry.rs` and, for a key that somebody asks for, `exec.rs`.

use stdx::rng::Rng;
use types::hash::{self, Hash};
use types::table::Expired;

use super::{Entry, Key, Keyspace};

/// Draws for an entry with a deadline among entries of which only fields have one.
const SAMPLE_TRIES: usize = 16;

impl Keyspace {
    /// Entries that have a deadline.
    #[inline]
    pub fn volatile_len(&self) -> u64 {
        self.index.count_with_deadline() - self.volatile.with_fields_only()
    }

    /// Entries of which some fields have a deadline.
    #[inline]
    pub fn volatile_fields_len(&self) -> u64 {
        self.volatile.with_fields()
    }

    /// Unix time in ms before which no field expires whose deadline was set since [`Keyspace::take_fields_due`].
    #[inline]
    pub(crate) fn fields_due_ms(&self) -> u64 {
        self.volatile.due_ms()
    }

    /// The same, and forgets it: the walk over all deadlines knows it from then on.
    pub(crate) fn take_fields_due(&mut self) -> u64 {
        self.volatile.take_due()
    }

    /// Whether nothing expires, neither entries nor fields.
    #[inline]
    pub(crate) fn is_lasting(&self) -> bool {
        self.index.count_with_deadline() == 0
    }

    /// An entry with a deadline by chance. None when there is none, and now and then when they are very rare (fewer than one in a thousand, or a small
    /// part of the hashes whose fields expire).
    pub fn sample_volatile(&self, rng: &mut Rng) -> Option<Entry<'_>> {
        if self.volatile_len() == 0 {
            return None;
        }
        (0..SAMPLE_TRIES).find_map(|_| {
            let handle = self.index.sample_with_deadline(|| rng.next_u64())?;
            Some(Entry(self.heap.entry(handle))).filter(|entry| entry.deadline().is_some())
        })
    }

    /// Removes fields of the hash at `key` that have expired before `now_ms`, and the key with the last one; see [`hash::expire`]. Not for a key that
    /// holds anything else.
    pub fn expire_fields(
        &mut self,
        key: Key<'_>,
        now_ms: u64,
        buckets_max: u32,
        expired: impl FnMut(&[u8]),
    ) -> Expired {
        let Some(place) = self.place(key) else { return Expired { done: true, ..Expired::default() } };
        let mut slot = self.slot(place);
        let outcome = hash::expire(&mut slot, now_ms, buckets_max, expired);
        let empty = Hash::of(slot.view(), now_ms).is_empty();
        drop(slot);
        if empty {
            self.remove(key);
        } else if outcome.removed > 0 {
            self.changed(key);
            self.make_tidy();
        }
        outcome
    }
}
