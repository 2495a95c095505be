//! What a command causes for clients other than its own, besides replies: keyspace events. It is handed over before the shards of the command
//! are left, so that what concerns one key goes out in the order in which it happened. Not who is told: that is `session`'s.

use shard::notify::{Class, Event, Events};

use crate::task::Surroundings;

/// The way to those who listen. Called while shards are held: it must not wait for one.
pub trait Outbound: Send + Sync {
    /// Things that happened to keys, in their order; `wanted` says where they are told.
    fn notify(&self, wanted: Class, events: &[Event]);
}

/// Nobody listens.
pub struct Nobody;

impl Outbound for Nobody {
    fn notify(&self, _: Class, _: &[Event]) {}
}

impl Surroundings {
    /// Tells what happened in shards that are still held.
    #[inline]
    pub fn hand_over(&self, events: Events) {
        if !events.is_empty() {
            self.tell(&events);
        }
    }

    #[cold]
    fn tell(&self, events: &Events) {
        if !events.list.is_empty() {
            self.outbound.notify(self.settings.notify, &events.list);
        }
    }
}
