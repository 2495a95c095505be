//! Members by chance.

use command::{CommandError, Effect, Record};
use resp::{Args, Reply};
use shard::exec::Exec;
use stdx::num::parse_i64;
use stdx::rng::Rng;
use types::Type;
use types::set::{self, Set};

use super::one::after;
use super::reply_member;
use crate::effects::record;

const NOT_POSITIVE: CommandError = CommandError::fixed("ERR value is out of range, must be positive");
const COUNT_MIN: CommandError = CommandError::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// `SPOP key [count]`
pub(super) fn spop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    match args.len() {
        2 => pop_one(cx, args, reply),
        3 => pop_several(cx, args, reply),
        _ => Err(CommandError::SYNTAX),
    }
}

fn pop_one(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let (mut rng, journaling) = (Rng::new(cx.rng.next_u64()), cx.journaling);
    let Some(mut slot) = cx.slot(key, Type::Set)? else {
        reply.null();
        return Ok(Effect::None);
    };
    let mut popped = Vec::new();
    set::pop(&mut slot, &mut rng, |member| {
        reply_member(reply, member);
        if journaling {
            member.write_to(&mut popped);
        }
    });
    let emptied = Set::of(slot.view()).len() == 0;
    drop(slot);
    after(cx, key, emptied, "spop");
    Ok(cx.rewritten(|| vec![record(&[b"SREM", key.bytes, &popped])]))
}

fn pop_several(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let count = parse_i64(&args[2]).and_then(|count| u64::try_from(count).ok()).ok_or(NOT_POSITIVE)?;
    let key = cx.key(args, 1);
    let limits = cx.settings.limits;
    let (mut rng, journaling) = (Rng::new(cx.rng.next_u64()), cx.journaling);
    let Some(mut slot) = cx.slot(key, Type::Set)?.filter(|_| count > 0) else {
        reply.set(0);
        return Ok(Effect::None);
    };
    let set = Set::of(slot.view());
    let len = set.len();
    if count >= len as u64 {
        reply.set(len);
        set.for_each(|member| reply_member(reply, member));
        drop(slot);
        after(cx, key, true, "spop");
        return Ok(cx.rewritten(|| vec![record(&[b"UNLINK", key.bytes])]));
    }
    reply.set(count as usize);
    let mut popped: Record = record(&[b"SREM", key.bytes]);
    set::pop_several(&mut slot, &mut rng, count as usize, &limits, |member| {
        reply_member(reply, member);
        if journaling {
            popped.push(member.to_vec());
        }
    });
    drop(slot);
    after(cx, key, false, "spop");
    Ok(cx.rewritten(|| vec![popped]))
}

/// `SRANDMEMBER key [count]`
pub(super) fn srandmember(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let count = match args.len() {
        2 => None,
        3 => Some(parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?),
        _ => return Err(CommandError::SYNTAX),
    };
    if count == Some(i64::MIN) {
        return Err(COUNT_MIN);
    }
    let mut rng = Rng::new(cx.rng.next_u64());
    let set = cx.view(cx.key(args, 1), Type::Set)?.map(Set::of);
    match (set, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => match set.random(&mut rng) {
            Some(member) => reply_member(reply, member),
            None => reply.null(),
        },
        (Some(set), Some(count)) if count < 0 => {
            let count = count.unsigned_abs() as usize;
            reply.array(count);
            set.random_repeating(&mut rng, count, |member| reply_member(reply, member));
        }
        (Some(set), Some(count)) => {
            let count = set.len().min(count as usize);
            reply.array(count);
            set.random_distinct(&mut rng, count, |member| reply_member(reply, member));
        }
    }
    Ok(Effect::None)
}
