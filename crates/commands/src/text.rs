//! What the string commands share: reading a string value, replying with it, setting it. Not how an entry keeps it: see `shard::keyspace`.
//!
//! HOT: no allocation; an integer is written out on the stack, a value above 16 KiB is shared with the reply.

use std::borrow::Cow;
use std::sync::Arc;

use command::CommandError;
use resp::Reply;
use shard::access::Access;
use shard::exec::Exec;
use shard::keyspace::{Deadline, Entry, IntText, Key, StringRef};
use stdx::num::parse_i64;

/// A word of the client's as an error quotes it: up to the first zero byte, where the peers' C strings end.
pub(crate) fn quoted(word: &[u8]) -> Cow<'_, str> {
    let end = word.iter().position(|byte| *byte == 0).unwrap_or(word.len());
    String::from_utf8_lossy(&word[..end])
}

/// The string that an entry holds.
#[inline]
pub(crate) fn string(entry: Entry<'_>) -> Result<StringRef<'_>, CommandError> {
    entry.string().ok_or(CommandError::WRONG_TYPE)
}

/// The string that an entry holds; no entry counts as an empty string.
#[inline]
pub(crate) fn string_or_empty(entry: Option<Entry<'_>>) -> Result<StringRef<'_>, CommandError> {
    entry.map_or(Ok(StringRef::Bytes(b"")), string)
}

/// The integer that an entry holds; no entry counts as 0.
#[inline]
pub(crate) fn integer_or_zero(entry: Option<Entry<'_>>) -> Result<i64, CommandError> {
    match entry.map(string).transpose()? {
        None => Ok(0),
        Some(StringRef::Int(integer)) => Ok(integer),
        // A string that was modified in place may be the text of an integer.
        Some(string) => {
            parse_i64(string.to_bytes(&mut IntText::default())).ok_or(CommandError::NOT_AN_INTEGER)
        }
    }
}

/// Whether an entry holds exactly these bytes as a string.
pub(crate) fn equals(entry: Entry<'_>, bytes: &[u8]) -> Result<bool, CommandError> {
    Ok(string(entry)?.to_bytes(&mut IntText::default()) == bytes)
}

/// Replies with the string that an entry holds; a large one is not copied.
#[inline]
pub(crate) fn reply_string(reply: &mut Reply, entry: Entry<'_>) -> Result<(), CommandError> {
    match string(entry)? {
        StringRef::Bytes(bytes) => reply.bulk(bytes),
        StringRef::Int(integer) => reply.bulk_int(integer),
        StringRef::Big(big) => reply.bulk_shared(Arc::new(big.share())),
    }
    Ok(())
}

/// The same, or null if there is no entry.
#[inline]
pub(crate) fn reply_string_or_null(reply: &mut Reply, entry: Option<Entry<'_>>) -> Result<(), CommandError> {
    match entry {
        Some(entry) => reply_string(reply, entry),
        None => {
            reply.null();
            Ok(())
        }
    }
}

/// Sets a key to a string that a client has sent.
#[inline]
pub(crate) fn put(cx: &mut Exec<'_>, key: Key<'_>, bytes: &[u8], deadline: Deadline) {
    let access = access(cx, key);
    cx.keyspace(key).put_string(key, bytes, deadline, access);
}

/// The eviction metadata for what overwrites a key: setting a key is a use of it, and its history goes on.
#[inline]
pub(crate) fn access(cx: &mut Exec<'_>, key: Key<'_>) -> Option<Access> {
    if !cx.settings.policy.keeps_access() {
        return None;
    }
    let before = cx.find(key).and_then(|entry| entry.access());
    before.or(cx.access_new())
}
