//! When fields expire: asking, setting, and that they shall not.

use command::{CommandError, Effect, Record};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use stdx::num::parse_i64;
use types::Type;
use types::hash::{self, Hash};

use super::fields::finish;
use crate::effects::record;
use crate::generic::Conditions;
use crate::string::Unit;

/// Replies for a field that is not there, and for one that never expires.
const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;
/// Replies of HEXPIRE and its kin.
const CONDITION_FAILED: i64 = 0;
const SET: i64 = 1;
const REMOVED: i64 = 2;

pub(super) const NUMFIELDS: CommandError =
    CommandError::fixed("ERR numfields should be greater than 0 and match the provided number of fields");

/// `HTTL key FIELDS numfields field [field ...]`
pub(super) fn httl(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    ask(cx, args, reply, Unit::SECONDS)
}

/// `HPTTL key FIELDS numfields field [field ...]`
pub(super) fn hpttl(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    ask(cx, args, reply, Unit::MILLISECONDS)
}

/// `HEXPIRETIME key FIELDS numfields field [field ...]`
pub(super) fn hexpiretime(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    ask(cx, args, reply, Unit::UNIX_SECONDS)
}

/// `HPEXPIRETIME key FIELDS numfields field [field ...]`
pub(super) fn hpexpiretime(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    ask(cx, args, reply, Unit::UNIX_MILLISECONDS)
}

fn ask(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply, unit: Unit) -> Result<Effect, CommandError> {
    let names = named(args, CommandError::SYNTAX)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.view(key, Type::Hash)?;
    let since_ms = if unit.relative { now_ms } else { 0 };
    reply.array(names.len());
    let Some(view) = view else {
        names.iter().for_each(|_| reply.int(NO_FIELD));
        return Ok(Effect::None);
    };
    Hash::of(view, now_ms).get_each(names.iter(), |field| {
        reply.int(match field.map(|field| field.deadline) {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => in_unit(deadline.saturating_sub(since_ms), unit),
        });
    });
    Ok(Effect::None)
}

/// Milliseconds in a unit, to the nearest.
fn in_unit(ms: u64, unit: Unit) -> i64 {
    let scale = unit.scale_ms.unsigned_abs();
    i64::try_from(ms.saturating_add(scale / 2) / scale).unwrap_or(i64::MAX)
}

/// `HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub(super) fn hexpire(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::SECONDS, "hexpire")
}

/// `HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub(super) fn hpexpire(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::MILLISECONDS, "hpexpire")
}

/// `HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub(super) fn hexpireat(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::UNIX_SECONDS, "hexpireat")
}

/// `HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`
pub(super) fn hpexpireat(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::UNIX_MILLISECONDS, "hpexpireat")
}

fn expire_at(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    unit: Unit,
    command: &str,
) -> Result<Effect, CommandError> {
    let behind = fields_word(args, 3).ok_or(NUMFIELDS)?;
    let conditions = Conditions::parse(args.first(behind).from(3))?;
    let names = numbered(args.from(behind + 1), NUMFIELDS)?;
    let deadline = deadline(&args[2], unit, cx.now_ms, command)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let Some(mut slot) = cx.slot(key, Type::Hash)? else {
        reply.array(names.len());
        names.iter().for_each(|_| reply.int(NO_FIELD));
        return Ok(Effect::None);
    };
    reply.array(names.len());
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    for name in names.iter() {
        let before = Hash::of(slot.view(), now_ms).get(name).map(|field| field.deadline);
        reply.int(match before {
            None => NO_FIELD,
            Some(before) if !conditions.hold(before, deadline.cast_signed()) => CONDITION_FAILED,
            Some(_) if deadline <= now_ms => {
                hash::remove(&mut slot, now_ms, name);
                removed.push(name);
                REMOVED
            }
            Some(_) => {
                hash::set_deadline(&mut slot, name, Some(deadline));
                set.push(name);
                SET
            }
        });
    }
    let empty = Hash::of(slot.view(), now_ms).is_empty();
    drop(slot);
    // All have one deadline, so that either none or all of them go.
    let event = if removed.is_empty() { "hexpire" } else { "hexpired" };
    finish(cx, key, !set.is_empty() || !removed.is_empty(), empty, event);
    Ok(changes(cx, key, deadline, &set, &removed))
}

/// `HPERSIST key FIELDS numfields field [field ...]`
pub(super) fn hpersist(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let names = named(args, NUMFIELDS)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let Some(mut slot) = cx.slot(key, Type::Hash)? else {
        reply.array(names.len());
        names.iter().for_each(|_| reply.int(NO_FIELD));
        return Ok(Effect::None);
    };
    reply.array(names.len());
    let mut changed = false;
    for name in names.iter() {
        let before = Hash::of(slot.view(), now_ms).get(name).map(|field| field.deadline);
        reply.int(match before {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(_)) => {
                hash::set_deadline(&mut slot, name, None);
                changed = true;
                SET
            }
        });
    }
    drop(slot);
    finish(cx, key, changed, false, "hpersist");
    Ok(if changed { Effect::AsIs } else { Effect::None })
}

/// The effect of giving some fields a deadline and removing others.
pub(super) fn changes(
    cx: &Exec<'_>,
    key: Key<'_>,
    deadline: u64,
    set: &[&[u8]],
    removed: &[&[u8]],
) -> Effect {
    if set.is_empty() && removed.is_empty() {
        return Effect::None;
    }
    cx.rewritten(|| {
        let mut records = Vec::new();
        if !set.is_empty() {
            let (deadline, count) = (deadline.to_string(), set.len().to_string());
            let words = [b"HPEXPIREAT", key.bytes, deadline.as_bytes(), b"FIELDS", count.as_bytes()];
            records.push(with_fields(&words, set));
        }
        if !removed.is_empty() {
            records.push(with_fields(&[b"HDEL", key.bytes], removed));
        }
        records
    })
}

/// A record that ends with the names of fields.
pub(super) fn with_fields(words: &[&[u8]], names: &[&[u8]]) -> Record {
    let mut record = record(words);
    record.extend(names.iter().map(|name| name.to_vec()));
    record
}

/// The moment that a word names: not negative and not beyond 2^63 - 1 ms. 0 seconds from now is a moment that has passed.
pub(super) fn deadline(word: &[u8], unit: Unit, now_ms: u64, command: &str) -> Result<u64, CommandError> {
    let time = parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)?;
    let now = if unit.relative { i64::try_from(now_ms).expect("the clock is below 2^63 ms") } else { 0 };
    let ms = time.checked_mul(unit.scale_ms).filter(|_| time >= 0).and_then(|ms| ms.checked_add(now));
    ms.and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| CommandError::invalid_expire(command))
}

/// Where the word FIELDS stands, if it stands at `from` or later and something follows it.
pub(super) fn fields_word(args: Args<'_>, from: usize) -> Option<usize> {
    let last = args.len().saturating_sub(1);
    (from..last).find(|index| args[*index].eq_ignore_ascii_case(b"FIELDS"))
}

/// The fields of `NAME key FIELDS numfields field [field ...]`; `mismatch` is the error if the number is another one.
fn named(args: Args<'_>, mismatch: CommandError) -> Result<Args<'_>, CommandError> {
    if !args[2].eq_ignore_ascii_case(b"FIELDS") {
        return Err(CommandError::SYNTAX);
    }
    numbered(args.from(3), mismatch)
}

/// The fields of `numfields field [field ...]`.
pub(super) fn numbered(args: Args<'_>, mismatch: CommandError) -> Result<Args<'_>, CommandError> {
    let count = parse_i64(&args[0]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let names = args.from(1);
    if count > 0 && usize::try_from(count) == Ok(names.len()) { Ok(names) } else { Err(mismatch) }
}
