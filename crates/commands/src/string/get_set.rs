//! Whole strings at one key: GET and SET with their kin.
//!
//! HOT: GET and SET: no allocation, one walk through the index where possible.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{Deadline, Key};
use shard::notify::Class;

use super::expiry::{Accepts, Condition, Lifetime, Options, Unit, deadline};
use crate::effects::{deadline_set, record, removed};
use crate::text::{equals, put, reply_string, reply_string_or_null};

/// `GET key`
pub(super) fn get(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply_string_or_null(reply, cx.read(cx.key(args, 1)))?;
    Ok(Effect::None)
}

/// `GETDEL key`
pub(super) fn getdel(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let Some(entry) = cx.read(key) else {
        reply.null();
        return Ok(Effect::None);
    };
    reply_string(reply, entry)?;
    cx.keyspace(key).remove(key);
    cx.notify(Class::GENERIC, "del", key);
    Ok(cx.rewritten(|| vec![record(&[b"DEL", key.bytes])]))
}

/// `GETSET key value`
pub(super) fn getset(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    reply_string_or_null(reply, cx.read(key))?;
    put(cx, key, &args[2], Deadline::Clear);
    cx.notify(Class::STRING, "set", key);
    Ok(cx.rewritten(|| vec![record(&[b"SET", key.bytes, &args[2]])]))
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT time | PXAT time | PERSIST]`
pub(super) fn getex(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let options = Options::parse(args, 2, Accepts::Get)?;
    let deadline = options.deadline(cx.now_ms, "getex")?;
    let key = cx.key(args, 1);
    let Some(entry) = cx.read(key) else {
        reply.null();
        return Ok(Effect::None);
    };
    reply_string(reply, entry)?;
    let had_deadline = entry.deadline().is_some();
    match deadline {
        Some(deadline) => Ok(deadline_set(cx, key, deadline)),
        None if options.lifetime == Lifetime::Persist && had_deadline => {
            cx.keyspace(key).set_deadline(key, None);
            cx.notify(Class::GENERIC, "persist", key);
            Ok(cx.rewritten(|| vec![record(&[b"PERSIST", key.bytes])]))
        }
        None => Ok(Effect::None),
    }
}

/// `SET key value [NX | XX | IFEQ comparison] [GET] [EX seconds | PX milliseconds | EXAT time | PXAT time | KEEPTTL]`
pub(super) fn set(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    if args.len() == 3 {
        let key = cx.key(args, 1);
        put(cx, key, &args[2], Deadline::Clear);
        cx.notify(Class::STRING, "set", key);
        reply.ok();
        return Ok(Effect::AsIs);
    }
    let options = Options::parse(args, 3, Accepts::Set)?;
    let deadline = options.deadline(cx.now_ms, "set")?;
    let key = cx.key(args, 1);
    if options.get {
        reply_string_or_null(reply, cx.read(key))?;
    }
    if !holds(cx, key, options.condition)? {
        if !options.get {
            reply.null();
        }
        return Ok(Effect::None);
    }
    if !options.get {
        reply.ok();
    }
    if options.lifetime == Lifetime::Keep {
        // Looked up first, so that the deadline of an entry that has expired is not kept.
        cx.find(key);
        put(cx, key, &args[2], Deadline::Keep);
        cx.notify(Class::STRING, "set", key);
        return Ok(cx.rewritten(|| vec![record(&[b"SET", key.bytes, &args[2], b"KEEPTTL"])]));
    }
    Ok(put_until(cx, key, &args[2], deadline))
}

/// Whether a key is as a condition wants it.
fn holds(cx: &mut Exec<'_>, key: Key<'_>, condition: Condition<'_>) -> Result<bool, CommandError> {
    Ok(match condition {
        Condition::Always => true,
        Condition::Missing => cx.find(key).is_none(),
        Condition::Exists => cx.find(key).is_some(),
        Condition::Equals(wanted) => match cx.find(key) {
            Some(entry) => equals(entry, wanted)?,
            None => false,
        },
    })
}

/// Sets a key that expires at a deadline or never. A deadline that has passed leaves nothing, not even the old value.
fn put_until(cx: &mut Exec<'_>, key: Key<'_>, value: &[u8], deadline: Option<u64>) -> Effect {
    let Some(deadline) = deadline else {
        put(cx, key, value, Deadline::Clear);
        cx.notify(Class::STRING, "set", key);
        return cx.rewritten(|| vec![record(&[b"SET", key.bytes, value])]);
    };
    if deadline <= cx.now_ms {
        return removed(cx, key);
    }
    put(cx, key, value, Deadline::At(deadline));
    cx.notify(Class::STRING, "set", key);
    cx.notify(Class::GENERIC, "expire", key);
    cx.rewritten(|| vec![record(&[b"SET", key.bytes, value, b"PXAT", deadline.to_string().as_bytes()])])
}

/// `SETEX key seconds value`
pub(super) fn setex(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    set_timed(cx, args, reply, Unit::SECONDS, "setex")
}

/// `PSETEX key milliseconds value`
pub(super) fn psetex(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    set_timed(cx, args, reply, Unit::MILLISECONDS, "psetex")
}

fn set_timed(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    unit: Unit,
    command: &str,
) -> Result<Effect, CommandError> {
    let deadline = deadline(&args[2], unit, cx.now_ms, command)?;
    let key = cx.key(args, 1);
    reply.ok();
    Ok(put_until(cx, key, &args[3], Some(deadline)))
}

/// `SETNX key value`
pub(super) fn setnx(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let missing = cx.find(key).is_none();
    reply.int(i64::from(missing));
    if !missing {
        return Ok(Effect::None);
    }
    put(cx, key, &args[2], Deadline::Clear);
    cx.notify(Class::STRING, "set", key);
    Ok(Effect::AsIs)
}

/// `DELIFEQ key value`
pub(super) fn delifeq(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let equal = holds(cx, key, Condition::Equals(&args[2]))?;
    reply.int(i64::from(equal));
    if !equal {
        return Ok(Effect::None);
    }
    cx.keyspace(key).remove(key);
    cx.notify(Class::GENERIC, "del", key);
    Ok(cx.rewritten(|| vec![record(&[b"DEL", key.bytes])]))
}
