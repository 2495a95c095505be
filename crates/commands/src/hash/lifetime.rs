//! When fields expire: asking.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use stdx::num::parse_i64;
use types::Type;
use types::hash::Hash;

use crate::string::Unit;

/// Replies for a field that is not there, and for one that never expires.
const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;

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

/// The fields of `NAME key FIELDS numfields field [field ...]`; `mismatch` is the error if the number is another one.
fn named(args: Args<'_>, mismatch: CommandError) -> Result<Args<'_>, CommandError> {
    if !args[2].eq_ignore_ascii_case(b"FIELDS") {
        return Err(CommandError::SYNTAX);
    }
    let count = parse_i64(&args[3]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let names = args.from(4);
    if usize::try_from(count) == Ok(names.len()) { Ok(names) } else { Err(mismatch) }
}
