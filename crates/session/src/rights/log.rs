//! ACL LOG: what was denied lately, newest first; the same thing again within a minute is counted instead of told again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries among which the same incident is looked for.
const LOOKED_AT: usize = 10;

/// Milliseconds after which the same incident is told again.
const TOGETHER_MS: u64 = 60_000;

/// Bytes of a key or a name that are kept.
pub const OBJECT_BYTES_MAX: usize = 4096;

/// What was denied.
#[derive(Clone, Copy, Debug)]
pub struct Incident<'a> {
    /// `command`, `key`, `channel`, `database` or `auth`.
    pub reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    pub object: &'a [u8],
    pub username: &'a [u8],
}

/// One entry.
pub struct Entry {
    pub count: u64,
    pub reason: &'static str,
    pub context: &'static str,
    pub object: Box<[u8]>,
    pub username: Box<[u8]>,
    /// The client as CLIENT LIST describes it.
    pub client: Vec<u8>,
    pub id: u64,
    /// Unix times in ms.
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// The log.
#[derive(Default)]
pub struct AclLog {
    entries: VecDeque<Entry>,
    next_id: u64,
    /// Incidents since the start, by reason.
    counts: [u64; COUNTED.len()],
}

/// The reasons, as INFO counts them.
const COUNTED: [&str; 5] = ["auth", "command", "key", "channel", "database"];

/// Locks the log.
pub fn lock(log: &Mutex<AclLog>) -> MutexGuard<'_, AclLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AclLog {
    /// Adds an incident, keeping at most `max` entries.
    pub fn add(&mut self, incident: Incident<'_>, client: Vec<u8>, now_ms: u64, max: usize) {
        if let Some(at) = COUNTED.iter().position(|reason| *reason == incident.reason) {
            self.counts[at] += 1;
        }
        let object = &incident.object[..incident.object.len().min(OBJECT_BYTES_MAX)];
        let username = &incident.username[..incident.username.len().min(OBJECT_BYTES_MAX)];
        let same = self.entries.iter().take(LOOKED_AT).position(|entry| {
            (entry.reason, entry.context) == (incident.reason, incident.context)
                && *entry.object == *object
                && *entry.username == *username
                && now_ms.saturating_sub(entry.updated_ms) <= TOGETHER_MS
        });
        if let Some(mut entry) = same.and_then(|at| self.entries.remove(at)) {
            entry.count += 1;
            entry.updated_ms = now_ms;
            entry.client = client;
            self.entries.push_front(entry);
        } else {
            self.entries.push_front(Entry {
                count: 1,
                reason: incident.reason,
                context: incident.context,
                object: object.into(),
                username: username.into(),
                client,
                id: self.next_id,
                created_ms: now_ms,
                updated_ms: now_ms,
            });
            self.next_id += 1;
        }
        self.entries.truncate(max);
    }

    /// The newest `count` entries.
    pub fn newest(&self, count: usize) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter().take(count)
    }

    /// How often logging in, commands, keys, channels and databases were denied. CONFIG RESETSTAT leaves them as they are, as in Valkey.
    pub fn counts(&self) -> [u64; COUNTED.len()] {
        self.counts
    }

    /// ACL LOG RESET
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_again_is_counted() {
        let mut log = AclLog::default();
        let incident = |object| Incident { reason: "key", context: "toplevel", object, username: b"u" };
        log.add(incident(b"a"), Vec::new(), 1000, 128);
        log.add(incident(b"b"), Vec::new(), 2000, 128);
        log.add(incident(b"a"), b"later".to_vec(), 61_000, 128);
        let shown: Vec<_> = log.newest(9).map(|entry| (&*entry.object, entry.count, entry.id)).collect();
        assert_eq!(shown, [(&b"a"[..], 2, 0), (&b"b"[..], 1, 1)]);
        assert_eq!((log.newest(1).len(), &*log.entries[0].client), (1, &b"later"[..]));
        log.add(incident(b"a"), Vec::new(), 121_001, 2);
        let shown: Vec<_> = log.newest(9).map(|entry| (&*entry.object, entry.count, entry.id)).collect();
        assert_eq!(shown, [(&b"a"[..], 1, 2), (&b"a"[..], 2, 0)]);
        log.add(incident(b"a"), Vec::new(), 121_002, 0);
        assert_eq!(log.newest(9).len(), 0);
    }
}
