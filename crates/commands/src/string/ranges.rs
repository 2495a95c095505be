//! Parts of strings: their length, reading and overwriting a range, adding at the end.

use std::ops::Range;
use std::sync::Arc;

use command::{CommandError, Effect};
use memory::{BigRef, INLINE_BYTES_MAX};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{Deadline, IntText, StringRef};
use shard::notify::Class;
use stdx::num::parse_i64;

use crate::text::{put, string, string_or_empty};

const OFFSET_OUT_OF_RANGE: CommandError = CommandError::fixed("ERR offset is out of range");

/// `STRLEN key`
pub(super) fn strlen(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply.int(string_or_empty(cx.read(cx.key(args, 1)))?.len() as i64);
    Ok(Effect::None)
}

/// `GETRANGE key start end`, of old `SUBSTR`
pub(super) fn getrange(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let start = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let end = parse_i64(&args[3]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let string = string_or_empty(cx.read(cx.key(args, 1)))?;
    let range = range(start, end, string.len());
    match string {
        StringRef::Big(big) if range.len() > INLINE_BYTES_MAX => {
            reply.bulk_shared(Arc::new(Part { whole: big.share(), range }));
        }
        _ => reply.bulk(&string.to_bytes(&mut IntText::default())[range]),
    }
    Ok(Effect::None)
}

/// A large part of a large value, to be sent from where it lies.
struct Part {
    whole: BigRef,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.whole.as_ref()[self.range.clone()]
    }
}

/// The bytes from `start` to `end`, both included and counted from the end when negative, of a string of `len` bytes.
fn range(start: i64, end: i64, len: usize) -> Range<usize> {
    // Two negative ends in the wrong order give nothing; this is asked before they are brought into the string.
    if len == 0 || (start < 0 && end < 0 && start > end) {
        return 0..0;
    }
    let len = i64::try_from(len).expect("a string is below 2^63 bytes");
    let from_start = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// `SETRANGE key offset value`
pub(super) fn setrange(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let offset = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let offset = u64::try_from(offset).map_err(|_| OFFSET_OUT_OF_RANGE)?;
    let key = cx.key(args, 1);
    let part = &args[3];
    let len = string_or_empty(cx.find(key))?.len();
    if part.is_empty() {
        reply.int(len as i64);
        return Ok(Effect::None);
    }
    let end = checked_len(cx, offset, part.len())?;
    let access = cx.access_new();
    let bytes = cx.keyspace(key).string_resize(key, len.max(end), access);
    bytes[end - part.len()..end].copy_from_slice(part);
    cx.notify(Class::STRING, "setrange", key);
    reply.int(len.max(end) as i64);
    Ok(Effect::AsIs)
}

/// `APPEND key value`
pub(super) fn append(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let part = &args[2];
    let Some(entry) = cx.find(key) else {
        put(cx, key, part, Deadline::Clear);
        cx.notify(Class::STRING, "append", key);
        reply.int(part.len() as i64);
        return Ok(Effect::AsIs);
    };
    let len = string(entry)?.len();
    let end = checked_len(cx, len as u64, part.len())?;
    let access = cx.access_new();
    cx.keyspace(key).string_resize(key, end, access)[len..].copy_from_slice(part);
    cx.notify(Class::STRING, "append", key);
    reply.int(end as i64);
    Ok(Effect::AsIs)
}

/// Where `len` more bytes after `offset` end, if a string may be so long.
fn checked_len(cx: &Exec<'_>, offset: u64, len: usize) -> Result<usize, CommandError> {
    let end = offset.checked_add(len as u64).filter(|end| *end <= cx.settings.proto_max_bulk_len);
    end.and_then(|end| usize::try_from(end).ok()).ok_or(CommandError::STRING_TOO_LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_the_peers_clip_them() {
        assert_eq!(range(0, 3, 16), 0..4);
        assert_eq!(range(-3, -1, 16), 13..16);
        assert_eq!(range(10, 100, 16), 10..16);
        assert_eq!(range(5, 2, 16), 0..0);
        assert_eq!(range(-1, -5, 16), 0..0);
        assert_eq!(range(-100, -50, 16), 0..1);
        assert_eq!(range(0, i64::MIN, 16), 0..1);
        assert_eq!(range(i64::MIN, i64::MAX, 16), 0..16);
        assert_eq!(range(i64::MAX, i64::MAX, 16), 0..0);
        assert_eq!(range(0, -1, 0), 0..0);
    }
}
