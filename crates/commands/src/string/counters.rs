//! Strings as numbers.
//!
//! HOT: INCR and its kin: no allocation, one walk through the index where possible.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{Deadline, IntText};
use shard::notify::Class;
use stdx::longdouble::LongDouble;
use stdx::num::parse_i64;

use crate::effects::record;
use crate::text::{integer_or_zero, put, string};

const DECREMENT_OVERFLOW: CommandError = CommandError::fixed("ERR decrement would overflow");
const NOT_FINITE: CommandError = CommandError::fixed("ERR increment would produce NaN or Infinity");

/// `INCR key`
pub(super) fn incr(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    add(cx, args, reply, 1)
}

/// `DECR key`
pub(super) fn decr(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    add(cx, args, reply, -1)
}

/// `INCRBY key increment`
pub(super) fn incrby(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let increment = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    add(cx, args, reply, increment)
}

/// `DECRBY key decrement`
pub(super) fn decrby(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let decrement = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    add(cx, args, reply, decrement.checked_neg().ok_or(DECREMENT_OVERFLOW)?)
}

fn add(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply, increment: i64) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let place = cx.place(key);
    let access = cx.access_new();
    let keyspace = cx.keyspace(key);
    let value = integer_or_zero(place.map(|place| keyspace.entry(place)))?;
    let sum = value.checked_add(increment).ok_or(CommandError::OVERFLOW)?;
    match place {
        Some(place) => keyspace.set_int(key, place, sum),
        None => keyspace.put_int(key, sum, Deadline::Clear, access),
    }
    cx.notify(Class::STRING, "incrby", key);
    reply.int(sum);
    Ok(Effect::AsIs)
}

/// `INCRBYFLOAT key increment`
pub(super) fn incrbyfloat(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let value = match cx.find(key) {
        Some(entry) => LongDouble::parse(string(entry)?.to_bytes(&mut IntText::default())),
        None => LongDouble::parse(b"0"),
    };
    let value = value.ok_or(CommandError::NOT_A_FLOAT)?;
    let increment = LongDouble::parse(&args[2]).ok_or(CommandError::NOT_A_FLOAT)?;
    let mut sum = Vec::new();
    value.checked_add(increment).ok_or(NOT_FINITE)?.format(&mut sum);
    put(cx, key, &sum, Deadline::Keep);
    cx.notify(Class::STRING, "incrbyfloat", key);
    reply.bulk(&sum);
    Ok(cx.rewritten(|| vec![record(&[b"SET", key.bytes, &sum, b"KEEPTTL"])]))
}
