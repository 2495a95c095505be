//! Keyspace events on their way to channels. Not what an event is (`shard::notify`) nor how a message travels (`pubsub.rs`).

use router::outbound::Outbound;
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
