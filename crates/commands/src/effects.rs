//! Effects that several families share: what the journal records instead of the command that the client sent.

use command::{Effect, Record};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;

/// One command of an effect.
pub(crate) fn record(words: &[&[u8]]) -> Record {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Removes a key whose deadline was set into the past.
pub(crate) fn removed(cx: &mut Exec<'_>, key: Key<'_>) -> Effect {
    if cx.find(key).is_none() {
        return Effect::None;
    }
    cx.keyspace(key).remove(key);
    cx.notify(Class::EXPIRED, "expired", key);
    cx.rewritten(|| vec![record(&[b"UNLINK", key.bytes])])
}

/// Gives a key that exists another deadline; one that has passed removes it.
pub(crate) fn deadline_set(cx: &mut Exec<'_>, key: Key<'_>, deadline: u64) -> Effect {
    if deadline <= cx.now_ms {
        return removed(cx, key);
    }
    cx.keyspace(key).set_deadline(key, Some(deadline));
    cx.notify(Class::GENERIC, "expire", key);
    cx.rewritten(|| vec![record(&[b"PEXPIREAT", key.bytes, deadline.to_string().as_bytes()])])
}
