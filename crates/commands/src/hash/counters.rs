//! Fields as numbers.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::notify::Class;
use stdx::longdouble::LongDouble;
use stdx::num::{I64_LEN_MAX, format_i64, parse_i64};
use types::Type;
use types::hash::{self, Hash, Lifetime};
use types::packed::{IntText, Piece};

use super::fields::set_all;
use super::rules;
use crate::effects::record;

const NOT_AN_INTEGER: CommandError = CommandError::fixed("ERR hash value is not an integer");
const NOT_A_FLOAT: CommandError = CommandError::fixed("ERR hash value is not a float");
const NOT_FINITE: CommandError = CommandError::fixed("ERR increment would produce NaN or Infinity");
const INFINITE: CommandError = CommandError::fixed("ERR value is NaN or Infinity");

/// `HINCRBY key field increment`
pub(super) fn hincrby(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let increment = parse_i64(&args[3]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let (key, rules) = (cx.key(args, 1), rules(cx));
    let mut text = [0; I64_LEN_MAX];
    let Some(mut slot) = cx.slot(key, Type::Hash)? else {
        set(cx, args, format_i64(increment, &mut text))?;
        cx.notify(Class::HASH, "hincrby", key);
        reply.int(increment);
        return Ok(Effect::AsIs);
    };
    let value = match Hash::of(slot.view(), rules.now_ms).get(&args[2]).map(|field| field.value) {
        None => 0,
        Some(Piece::Int(integer)) => integer,
        Some(Piece::Bytes(_)) => return Err(NOT_AN_INTEGER),
    };
    let sum = value.checked_add(increment).ok_or(CommandError::OVERFLOW)?;
    hash::set(&mut slot, rules, &args[2], format_i64(sum, &mut text), Lifetime::Keep);
    drop(slot);
    cx.changed(key);
    cx.notify(Class::HASH, "hincrby", key);
    reply.int(sum);
    Ok(Effect::AsIs)
}

/// `HINCRBYFLOAT key field increment`
pub(super) fn hincrbyfloat(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let increment = LongDouble::parse(&args[3]).ok_or(CommandError::NOT_A_FLOAT)?;
    if increment.is_infinite() {
        return Err(INFINITE);
    }
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.find_view(key, Type::Hash)?;
    let field = view.and_then(|view| Hash::of(view, now_ms).get(&args[2]));
    let value = field.map_or(Piece::Int(0), |field| field.value);
    let lasting = field.is_none_or(|field| field.deadline.is_none());
    let value = LongDouble::parse(value.to_bytes(&mut IntText::default())).ok_or(NOT_A_FLOAT)?;
    let mut sum = Vec::new();
    value.checked_add(increment).filter(|sum| !sum.is_infinite()).ok_or(NOT_FINITE)?.format(&mut sum);
    set(cx, args, &sum)?;
    cx.notify(Class::HASH, "hincrbyfloat", key);
    reply.bulk(&sum);
    Ok(cx.rewritten(|| {
        if lasting {
            return vec![record(&[b"HSET", key.bytes, &args[2], &sum])];
        }
        vec![record(&[b"HSETEX", key.bytes, b"KEEPTTL", b"FIELDS", b"1", &args[2], &sum])]
    }))
}

/// Sets the field that a command names; its deadline stays.
fn set(cx: &mut Exec<'_>, args: Args<'_>, value: &[u8]) -> Result<(), CommandError> {
    let key = cx.key(args, 1);
    set_all(cx, key, std::iter::once((&args[2], value)), Lifetime::Keep)?;
    Ok(())
}
