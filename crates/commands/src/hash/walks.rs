//! All fields of a hash, some of them in turn, some by chance.

use command::{CommandError, Effect};
use resp::{Args, Proto, Reply};
use shard::exec::Exec;
use stdx::num::parse_i64;
use stdx::rng::Rng;
use types::Type;
use types::hash::{Field, Hash};

use super::{reply_name, reply_value};
use crate::element_scan::{self, Options};

const COUNT_RANGE: CommandError = CommandError::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// `HGETALL key`
pub(super) fn hgetall(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let Some(view) = cx.view(key, Type::Hash)? else {
        reply.map(0);
        return Ok(Effect::None);
    };
    let hash = Hash::of(view, now_ms);
    reply.map(hash.count_alive());
    hash.for_each(|field| {
        reply_name(reply, field.name);
        reply_value(reply, &field);
    });
    Ok(Effect::None)
}

/// `HKEYS key`
pub(super) fn hkeys(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    list(cx, args, reply, |reply, field| reply_name(reply, field.name))
}

/// `HVALS key`
pub(super) fn hvals(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    list(cx, args, reply, |reply, field| reply_value(reply, &field))
}

fn list(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    mut one: impl FnMut(&mut Reply, Field<'_>),
) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let Some(view) = cx.view(key, Type::Hash)? else {
        reply.array(0);
        return Ok(Effect::None);
    };
    let hash = Hash::of(view, now_ms);
    reply.array(hash.count_alive());
    hash.for_each(|field| one(reply, field));
    Ok(Effect::None)
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
pub(super) fn hscan(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let cursor = element_scan::cursor(args)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let Some(view) = cx.view(key, Type::Hash)? else {
        element_scan::nothing(reply);
        return Ok(Effect::None);
    };
    let options = Options::parse(args, Some("NOVALUES"))?;
    let mut found = Vec::new();
    let next = Hash::of(view, now_ms).scan(cursor, options.count, |field| {
        if field.name.with(|name| options.matches(name)) {
            found.push(field);
        }
    });
    element_scan::head(reply, next);
    reply.array(if options.names_only { found.len() } else { 2 * found.len() });
    for field in found {
        reply_name(reply, field.name);
        if !options.names_only {
            reply_value(reply, &field);
        }
    }
    Ok(Effect::None)
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub(super) fn hrandfield(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let wanted = wanted(args)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let mut rng = Rng::new(cx.rng.next_u64());
    let view = cx.view(key, Type::Hash)?;
    match (view, wanted) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(view), None) => match Hash::of(view, now_ms).random(&mut rng) {
            Some(field) => reply_name(reply, field.name),
            None => reply.null(),
        },
        (Some(view), Some((count, with_values))) => {
            let hash = Hash::of(view, now_ms);
            let alive = hash.count_alive();
            let number = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            let drawn = match (alive, count < 0) {
                (0, _) => 0,
                (_, true) => number,
                (alive, false) => number.min(alive),
            };
            // As RESP3, pairs are arrays of their own.
            let pairs = with_values && reply.proto == Proto::Resp3;
            reply.array(if with_values && !pairs { drawn * 2 } else { drawn });
            let one = |field: Field<'_>| {
                if pairs {
                    reply.array(2);
                }
                reply_name(reply, field.name);
                if with_values {
                    reply_value(reply, &field);
                }
            };
            match count < 0 {
                true => hash.random_repeating(&mut rng, drawn, one),
                false => hash.random_distinct(&mut rng, drawn, one),
            }
        }
    }
    Ok(Effect::None)
}

/// How many fields are wanted, repeated ones if negative, and whether with their values; None for one field that is no array.
fn wanted(args: Args<'_>) -> Result<Option<(i64, bool)>, CommandError> {
    let Some(count) = args.get(2) else { return Ok(None) };
    let count = parse_i64(count).ok_or(CommandError::NOT_AN_INTEGER)?;
    if count == i64::MIN {
        return Err(COUNT_RANGE);
    }
    let Some(option) = args.get(3) else { return Ok(Some((count, false))) };
    if args.len() > 4 || !option.eq_ignore_ascii_case(b"WITHVALUES") {
        return Err(CommandError::SYNTAX);
    }
    if count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::OUT_OF_RANGE);
    }
    Ok(Some((count, true)))
}
