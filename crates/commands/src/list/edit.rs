//! Changing lists elsewhere than at their ends.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::Type;
use types::list::{self, Side};

use super::pop::{after, settle};
use super::{index, range};

const COUNT_MIN: CommandError = CommandError::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// `LINSERT key BEFORE | AFTER pivot element`
pub(super) fn linsert(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let side = match () {
        () if args[2].eq_ignore_ascii_case(b"BEFORE") => Side::Left,
        () if args[2].eq_ignore_ascii_case(b"AFTER") => Side::Right,
        () => return Err(CommandError::SYNTAX),
    };
    let limits = cx.settings.limits;
    let key = cx.key(args, 1);
    let Some(mut slot) = cx.slot(key, Type::List)? else {
        reply.int(0);
        return Ok(Effect::None);
    };
    if !list::insert(&mut slot, &args[3], side, &args[4], &limits) {
        reply.int(-1);
        return Ok(Effect::None);
    }
    reply.int(list::len(slot.view()) as i64);
    drop(slot);
    cx.changed(key);
    cx.notify(Class::LIST, "linsert", key);
    Ok(Effect::AsIs)
}

/// `LSET key index element`
pub(super) fn lset(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let limits = cx.settings.limits;
    let key = cx.key(args, 1);
    let Some(mut slot) = cx.slot(key, Type::List)? else { return Err(CommandError::NO_SUCH_KEY) };
    let at = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    list::prepare(&mut slot, std::iter::once(&args[3]), &limits);
    let at = index(at, list::len(slot.view())).ok_or(CommandError::INDEX_OUT_OF_RANGE)?;
    list::set(&mut slot, at, &args[3], &limits);
    list::shrink(&mut slot, &limits);
    drop(slot);
    cx.changed(key);
    cx.notify(Class::LIST, "lset", key);
    reply.ok();
    Ok(Effect::AsIs)
}

/// `LREM key count element`
pub(super) fn lrem(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let count = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    if count == i64::MIN {
        return Err(COUNT_MIN);
    }
    let limits = cx.settings.limits;
    let key = cx.key(args, 1);
    let Some(mut slot) = cx.slot(key, Type::List)? else {
        reply.int(0);
        return Ok(Effect::None);
    };
    let from = if count < 0 { Side::Right } else { Side::Left };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let removed = list::remove(&mut slot, from, most, &args[3], &limits);
    reply.int(removed as i64);
    if removed == 0 {
        return Ok(Effect::None);
    }
    let emptied = settle(&mut slot, &limits);
    drop(slot);
    after(cx, key, emptied, "lrem");
    Ok(Effect::AsIs)
}

/// `LTRIM key start stop`
pub(super) fn ltrim(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let start = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let stop = parse_i64(&args[3]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let limits = cx.settings.limits;
    let key = cx.key(args, 1);
    let Some(mut slot) = cx.slot(key, Type::List)? else {
        reply.ok();
        return Ok(Effect::None);
    };
    reply.ok();
    let len = list::len(slot.view());
    let kept = range(start, stop, len);
    list::cut(&mut slot, Side::Right, len - kept.end);
    list::cut(&mut slot, Side::Left, kept.start);
    let emptied = settle(&mut slot, &limits);
    drop(slot);
    if kept.end - kept.start == len {
        // The peers tell it even if nothing was cut.
        cx.notify(Class::LIST, "ltrim", key);
        return Ok(Effect::None);
    }
    after(cx, key, emptied, "ltrim");
    Ok(Effect::AsIs)
}
