//! Keyspace events on their way to channels, and changes on their way to those who track keys. Not what an event is (`shard::notify`) nor how a
//! message travels (`pubsub.rs`, `tracking.rs`).

use std::sync::atomic::Ordering;

use router::outbound::{Changed, Outbound};
use router::task::Ticket;
use shard::notify::{Class, Event};

use crate::pubsub::Kind;
use crate::shared::Shared;

impl Outbound for Shared {
    /// Called while shards are held, so that the messages about a key have the order in which things happened to it.
    fn notify(&self, wanted: Class, events: &[Event]) {
        if self.directory.count(Kind::Channel) + self.directory.count(Kind::Pattern) == 0 {
            return;
        }
        let mut channel = Vec::new();
        for Event { db, name, key } in events {
            if wanted.any(Class::KEYSPACE) {
                name_channel(&mut channel, "keyspace", *db, key);
                self.publish(Kind::Channel, &channel, name.as_bytes());
            }
            if wanted.any(Class::KEYEVENT) {
                name_channel(&mut channel, "keyevent", *db, name.as_bytes());
                self.publish(Kind::Channel, &channel, key);
            }
        }
    }

    fn changed(&self, changes: &[Changed], by: Ticket) {
        self.keys_changed(changes, by);
    }

    fn flushed(&self, by: Ticket) {
        self.all_changed(by);
    }

    fn wants_changes(&self) -> bool {
        // Relaxed: who began to want them before the caller entered the shard has held it since.
        self.trackers.broadcasts.load(Ordering::Relaxed) > 0
    }
}

/// `__keyspace@0__:key`
fn name_channel(to: &mut Vec<u8>, kind: &str, db: u16, last: &[u8]) {
    to.clear();
    to.extend_from_slice(b"__");
    to.extend_from_slice(kind.as_bytes());
    to.push(b'@');
    to.extend_from_slice(db.to_string().as_bytes());
    to.extend_from_slice(b"__:");
    to.extend_from_slice(last);
}
