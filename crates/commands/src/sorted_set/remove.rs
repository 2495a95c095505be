//! Removing members that are named, and all of a range.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use types::{Type, zset};

use super::common::{parse_integer, parse_members, parse_scores, ranks, remove_ranks, removed_from};

/// `ZREM key member [member ...]`
pub(super) fn zrem(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let Some(mut slot) = cx.slot(key, Type::SortedSet)? else {
        reply.int(0);
        return Ok(Effect::None);
    };
    let members = args.from(2).iter();
    let removed = members.filter(|member| zset::remove(&mut slot, member).is_some()).count();
    drop(slot);
    if removed > 0 {
        removed_from(cx, key, "zrem");
    }
    Ok(answer(reply, removed as u64))
}

/// `ZREMRANGEBYRANK key start stop`
pub(super) fn zremrangebyrank(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let (start, stop) = (parse_integer(&args[2])?, parse_integer(&args[3])?);
    let key = cx.key(args, 1);
    let removed = remove_ranks(cx, key, "zremrangebyrank", |set| ranks(set.len(), start, stop))?;
    Ok(answer(reply, removed))
}

/// `ZREMRANGEBYSCORE key min max`
pub(super) fn zremrangebyscore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let range = parse_scores(&args[2], &args[3])?;
    let key = cx.key(args, 1);
    let removed = remove_ranks(cx, key, "zremrangebyscore", |set| set.ranks_by_score(&range))?;
    Ok(answer(reply, removed))
}

/// `ZREMRANGEBYLEX key min max`
pub(super) fn zremrangebylex(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let range = parse_members(&args[2], &args[3])?;
    let key = cx.key(args, 1);
    let removed = remove_ranks(cx, key, "zremrangebylex", |set| set.ranks_by_lex(&range, false))?;
    Ok(answer(reply, removed))
}

fn answer(reply: &mut Reply, removed: u64) -> Effect {
    reply.int(removed as i64);
    if removed > 0 { Effect::AsIs } else { Effect::None }
}
