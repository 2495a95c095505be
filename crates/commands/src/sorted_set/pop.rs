//! Taking members from the ends.

use command::{CommandError, Effect};
use resp::{Args, Proto, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use stdx::num::{format_u64, parse_i64};
use types::Type;
use types::zset::{self, SortedSet};

use super::common::removed_from;
use crate::effects::record;

/// The end from which members are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Lowest scores first.
    Min,
    /// Highest scores first.
    Max,
}

impl End {
    /// The word MIN or MAX.
    pub(crate) fn parse(word: &[u8]) -> Result<End, CommandError> {
        match () {
            _ if word.eq_ignore_ascii_case(b"MIN") => Ok(End::Min),
            _ if word.eq_ignore_ascii_case(b"MAX") => Ok(End::Max),
            _ => Err(CommandError::SYNTAX),
        }
    }
}

/// How the members that were taken are replied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// `member score member score ...` (ZPOPMIN).
    Row,
    /// `[member score] [member score] ...` (ZPOPMIN with a count, RESP3).
    Pairs,
    /// `key member score` (BZPOPMIN).
    KeyAndMember,
    /// `key [[member score] [member score] ...]` (ZMPOP).
    KeyAndPairs,
}

/// Takes up to `count` members from an end of the set at a key and replies with them. How many; if there are none, nothing has been written.
pub(crate) fn pop(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    end: End,
    count: u64,
    answer: Answer,
    reply: &mut Reply,
) -> Result<u64, CommandError> {
    let Some(mut slot) = cx.slot(key, Type::SortedSet)? else { return Ok(0) };
    let set = SortedSet::new(slot.view());
    let len = set.len();
    let count = count.min(len);
    if count == 0 {
        return Ok(0);
    }
    let ranks = if end == End::Min { 0..count } else { len - count..len };
    let members = count as usize;
    match answer {
        Answer::Row => reply.array(2 * members),
        Answer::Pairs => reply.array(members),
        Answer::KeyAndMember => {
            reply.array(1 + 2 * members);
            reply.bulk(key.bytes);
        }
        Answer::KeyAndPairs => {
            reply.array(2);
            reply.bulk(key.bytes);
            reply.array(members);
        }
    }
    for (member, score) in set.walk(ranks.clone(), end == End::Max) {
        if matches!(answer, Answer::Pairs | Answer::KeyAndPairs) {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(score);
    }
    zset::remove_ranks(&mut slot, ranks);
    drop(slot);
    removed_from(cx, key, if end == End::Min { "zpopmin" } else { "zpopmax" });
    Ok(count)
}

/// The effect of having taken so many members from an end of the set at a key, whatever command did it.
pub(crate) fn popped(cx: &Exec<'_>, key: Key<'_>, end: End, count: u64) -> Effect {
    let name: &[u8] = if end == End::Min { b"ZPOPMIN" } else { b"ZPOPMAX" };
    cx.rewritten(|| vec![record(&[name, key.bytes, format_u64(count, &mut [0; _])])])
}

/// `ZPOPMIN key [count]`
pub(super) fn zpopmin(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    pop_one_key(cx, args, reply, End::Min)
}

/// `ZPOPMAX key [count]`
pub(super) fn zpopmax(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    pop_one_key(cx, args, reply, End::Max)
}

fn pop_one_key(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    end: End,
) -> Result<Effect, CommandError> {
    const OUT_OF_RANGE: CommandError = CommandError::fixed("ERR value is out of range, must be positive");
    if args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let count = match args.get(2) {
        None => 1,
        Some(word) => parse_i64(word).and_then(|count| u64::try_from(count).ok()).ok_or(OUT_OF_RANGE)?,
    };
    let pairs = args.len() == 3 && reply.proto == Proto::Resp3;
    let key = cx.key(args, 1);
    let taken = pop(cx, key, end, count, if pairs { Answer::Pairs } else { Answer::Row }, reply)?;
    if taken == 0 {
        reply.array(0);
        return Ok(Effect::None);
    }
    Ok(Effect::AsIs)
}

/// The words `numkeys key [key ...] MIN|MAX [COUNT count]` from `start` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FromMany {
    /// Place of the first key.
    pub(crate) first: usize,
    /// How many keys.
    pub(crate) keys: usize,
    pub(crate) end: End,
    pub(crate) count: u64,
}

impl FromMany {
    /// Reads them.
    pub(crate) fn parse(args: Args<'_>, start: usize) -> Result<FromMany, CommandError> {
        const NO_KEYS: CommandError = CommandError::fixed("ERR numkeys should be greater than 0");
        const NO_COUNT: CommandError = CommandError::fixed("ERR count should be greater than 0");
        let positive = |word: &[u8]| parse_i64(word).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
        let keys = positive(&args[start]).ok_or(NO_KEYS)?;
        let first = start + 1;
        let keys = usize::try_from(keys).ok().filter(|keys| *keys < args.len() - first);
        let keys = keys.ok_or(CommandError::SYNTAX)?;
        let end = End::parse(&args[first + keys])?;
        let rest = args.from(first + keys + 1);
        let count = match rest.len() {
            0 => 1,
            2 if rest[0].eq_ignore_ascii_case(b"COUNT") => positive(&rest[1]).ok_or(NO_COUNT)?,
            _ => {
                let twice = rest.len() > 2 && rest[0].eq_ignore_ascii_case(b"COUNT");
                if twice {
                    positive(&rest[1]).ok_or(NO_COUNT)?;
                }
                return Err(CommandError::SYNTAX);
            }
        };
        Ok(FromMany { first, keys, end, count })
    }
}

/// `ZMPOP numkeys key [key ...] MIN|MAX [COUNT count]`
pub(super) fn zmpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let from = FromMany::parse(args, 1)?;
    for index in from.first..from.first + from.keys {
        let key = cx.key(args, index);
        let taken = pop(cx, key, from.end, from.count, Answer::KeyAndPairs, reply)?;
        if taken > 0 {
            return Ok(popped(cx, key, from.end, taken));
        }
    }
    reply.null_array();
    Ok(Effect::None)
}
