//! Questions about single members and numbers of members.
//!
//! HOT: no allocation.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;

use super::common::{parse_members, parse_scores, read};

/// `ZCARD key`
pub(super) fn zcard(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    reply.int(read(cx, key)?.map_or(0, |set| set.len() as i64));
    Ok(Effect::None)
}

/// `ZSCORE key member`
pub(super) fn zscore(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    match read(cx, key)?.and_then(|set| set.score(&args[2])) {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(Effect::None)
}

/// `ZMSCORE key member [member ...]`
pub(super) fn zmscore(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let set = read(cx, key)?;
    reply.array(args.len() - 2);
    for member in args.from(2).iter() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    }
    Ok(Effect::None)
}

/// `ZRANK key member [WITHSCORE]`
pub(super) fn zrank(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    rank(cx, args, reply, false)
}

/// `ZREVRANK key member [WITHSCORE]`
pub(super) fn zrevrank(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    rank(cx, args, reply, true)
}

fn rank(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply, reverse: bool) -> Result<Effect, CommandError> {
    let with_score = match args.from(3).len() {
        0 => false,
        1 if args[3].eq_ignore_ascii_case(b"WITHSCORE") => true,
        1 => return Err(CommandError::SYNTAX),
        _ => return Err(CommandError::arity(if reverse { "zrevrank" } else { "zrank" })),
    };
    let key = cx.key(args, 1);
    let found = read(cx, key)?.and_then(|set| {
        let (rank, score) = set.rank(&args[2])?;
        Some((if reverse { set.len() - 1 - rank } else { rank }, score))
    });
    match found {
        Some((rank, score)) if with_score => {
            reply.array(2);
            reply.int(rank as i64);
            reply.double(score);
        }
        Some((rank, _)) => reply.int(rank as i64),
        None if with_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(Effect::None)
}

/// `ZCOUNT key min max`
pub(super) fn zcount(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let range = parse_scores(&args[2], &args[3])?;
    let key = cx.key(args, 1);
    let ranks = read(cx, key)?.map_or(0..0, |set| set.ranks_by_score(&range));
    reply.int((ranks.end - ranks.start) as i64);
    Ok(Effect::None)
}

/// `ZLEXCOUNT key min max`
pub(super) fn zlexcount(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let range = parse_members(&args[2], &args[3])?;
    let key = cx.key(args, 1);
    let ranks = read(cx, key)?.map_or(0..0, |set| set.ranks_by_lex(&range, false));
    reply.int((ranks.end - ranks.start) as i64);
    Ok(Effect::None)
}
