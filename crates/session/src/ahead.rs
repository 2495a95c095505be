//! Looking ahead over the connections of a turn: a few events are taken from the reactor together, and the memory of the first key of each
//! is asked for before the first one is served, so that the misses of clients without a pipeline overlap too. Within one connection's
//! input the window of commands does the same (`worker.rs`).
//!
//! HOT: runs once per event. No allocation once the queue has grown, no lock, no system call of its own.

use reactor::Event;

use crate::worker::Worker;

/// Events taken together: as many misses as a core can have in flight, and few enough that what was fetched first is still in the cache.
const AHEAD: usize = 12;

/// More input than this is a pipeline, whose own window looks ahead.
const SHORT_BYTES_MAX: usize = 512;

impl Worker {
    /// The next event; those of one turn in the order in which the reactor tells them.
    pub(crate) fn gathered_event(&mut self) -> Option<Event> {
        if self.gathered.is_empty() {
            self.gather_events();
        }
        self.gathered.pop_front()
    }

    fn gather_events(&mut self) {
        while self.gathered.len() < AHEAD
            && let Some(event) = self.reactor.next_event()
        {
            let is_long = matches!(&event, Event::Data { input, .. } if input.len() > SHORT_BYTES_MAX);
            self.gathered.push_back(event);
            if is_long {
                break;
            }
        }
        if self.gathered.len() < 2 {
            // Nothing would overlap.
            return;
        }
        let layout = self.engine.surroundings.layout;
        let mut keys = [None; AHEAD];
        for (event, key) in self.gathered.iter().zip(&mut keys) {
            let Event::Data { conn, input } = event else { continue };
            let Some(connection) = self.connections.get(conn.index()).and_then(Option::as_deref) else {
                continue;
            };
            // What goes on with a command that has begun before is found by the window.
            let Some(first) = first_key(input).filter(|_| connection.input.is_empty()) else { continue };
            let found = layout.key(first);
            self.engine.prefetch_bucket(found.shard, connection.client.db, found.hash);
            *key = Some((found.shard, connection.client.db, found.hash));
        }
        for key in &mut keys {
            *key = key.take_if(|(shard, db, hash)| self.engine.prefetch_entry(*shard, *db, *hash));
        }
        for (shard, db, hash) in keys.into_iter().flatten() {
            self.engine.prefetch_overflow(shard, db, hash);
        }
    }
}

/// The second word of a command in the form of an array, whole or not: nearly always its first key. A guess, good enough for a hint.
fn first_key(input: &[u8]) -> Option<&[u8]> {
    let words = input.strip_prefix(b"*")?;
    let name = &words[words.iter().take(WORD_HEADER_MAX).position(|byte| *byte == b'$')?..];
    let (name_bytes, rest) = word(name)?;
    let (key_bytes, rest) = word(rest.get(name_bytes + 2..)?)?;
    rest.get(..key_bytes)
}

/// Longest `*` or `$` line that is looked at.
const WORD_HEADER_MAX: usize = 12;

/// The length that a `$` line tells, and what follows the line.
#[inline]
fn word(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let bytes = bytes.strip_prefix(b"$")?;
    let mut length = 0;
    for (at, byte) in bytes.iter().enumerate().take(WORD_HEADER_MAX) {
        match byte {
            b'0'..=b'9' => length = length * 10 + usize::from(byte - b'0'),
            _ => return Some((length, bytes.get(at + 2..)?)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_word_is_found_or_nothing() {
        assert_eq!(first_key(b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n"), Some(&b"key:1"[..]));
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nabc";
        assert_eq!(first_key(set), Some(&b"k"[..]));
        for cut in 0..18 {
            assert_eq!(first_key(&set[..cut]), None, "{cut}");
        }
        for other in [
            &b"PING\r\n"[..],
            b"*1\r\n$4\r\nPING\r\n",
            b"*2\r\n$99999999999\r\nGET",
            b"*2\r\n$3\r\nGET\r\n$99\r\nk\r\n",
            b"*\r\n",
            b"*2\r\n$x\r\n",
            b"*99999999999999999999999\r\n$",
        ] {
            assert_eq!(first_key(other), None, "{}", other.escape_ascii());
        }
    }
}
