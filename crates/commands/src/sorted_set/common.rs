//! What the sorted set commands share: looking a set up, reading scores and ranges, replying with members.

use std::ops::Range;

use command::{CommandError, Effect};
use resp::{Proto, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use stdx::num::{parse_f64, parse_i64, parse_score_bound};
use types::zset::{LexBound, LexRange, ScoreRange, SortedSet};
use types::{Slot, Type, zset};

/// A bound of scores cannot be read.
pub(super) const NOT_SCORES: CommandError = CommandError::fixed("ERR min or max is not a float");
/// A bound of members cannot be read.
const NOT_MEMBERS: CommandError = CommandError::fixed("ERR min or max not valid string range item");

/// The set at a key, to be read: counts a hit or a miss.
#[inline]
pub(crate) fn read<'c>(cx: &'c mut Exec<'_>, key: Key<'_>) -> Result<Option<SortedSet<'c>>, CommandError> {
    Ok(cx.view(key, Type::SortedSet)?.map(SortedSet::new))
}

/// A score that a client has sent.
#[inline]
pub(crate) fn parse_score(word: &[u8]) -> Result<f64, CommandError> {
    parse_f64(word).ok_or(CommandError::NOT_A_FLOAT)
}

pub(super) fn parse_integer(word: &[u8]) -> Result<i64, CommandError> {
    parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)
}

/// `min max`, each perhaps behind a `(`.
pub(super) fn parse_scores(min: &[u8], max: &[u8]) -> Result<ScoreRange, CommandError> {
    let bound = |word: &[u8]| {
        let (text, excluded) = match word {
            [b'(', text @ ..] => (text, true),
            _ => (word, false),
        };
        parse_score_bound(text).map(|score| (score, excluded)).ok_or(NOT_SCORES)
    };
    let ((min, min_excluded), (max, max_excluded)) = (bound(min)?, bound(max)?);
    Ok(ScoreRange { min, max, min_excluded, max_excluded })
}

/// `min max`, each `-`, `+`, or a member behind `[` or `(`.
pub(super) fn parse_members<'a>(min: &'a [u8], max: &'a [u8]) -> Result<LexRange<'a>, CommandError> {
    let bound = |word: &'a [u8]| match word {
        // A zero byte ends the word, as in the peers.
        [b'-'] | [b'-', 0, ..] => Ok(LexBound::Least),
        [b'+'] | [b'+', 0, ..] => Ok(LexBound::Greatest),
        [b'[', member @ ..] => Ok(LexBound::Included(member)),
        [b'(', member @ ..] => Ok(LexBound::Excluded(member)),
        _ => Err(NOT_MEMBERS),
    };
    Ok(LexRange { min: bound(min)?, max: bound(max)? })
}

/// The ranks from `start` to `stop`, both included and from the end if negative, of a set of `len` members.
pub(super) fn ranks(len: u64, start: i64, stop: i64) -> Range<u64> {
    let len = len as i64;
    let from_end = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    if start > stop { 0..0 } else { start as u64..stop as u64 + 1 }
}

/// The same ranks, counted from the other end of a set of `len` members.
pub(super) fn mirrored(len: u64, ranks: Range<u64>) -> Range<u64> {
    if ranks.is_empty() { ranks } else { len - ranks.end..len - ranks.start }
}

/// Replies with members, or members and scores: in RESP3 as pairs, which RESP2 has in one row.
pub(super) fn reply_members<'m>(
    reply: &mut Reply,
    count: usize,
    members: impl Iterator<Item = (&'m [u8], f64)>,
    with_scores: bool,
) {
    reply_count(reply, count, with_scores);
    for (member, score) in members {
        reply_member(reply, member, with_scores.then_some(score));
    }
}

/// The head of a reply with so many members.
pub(super) fn reply_count(reply: &mut Reply, count: usize, with_scores: bool) {
    reply.array(if with_scores && reply.proto == Proto::Resp2 { count * 2 } else { count });
}

/// One member of such a reply.
#[inline]
pub(super) fn reply_member(reply: &mut Reply, member: &[u8], score: Option<f64>) {
    if score.is_some() && reply.proto == Proto::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if let Some(score) = score {
        reply.double(score);
    }
}

/// Removes some ranks of the set at a key, and the key with the last member. `choose` tells which.
pub(super) fn remove_ranks(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    event: &'static str,
    choose: impl FnOnce(SortedSet<'_>) -> Range<u64>,
) -> Result<u64, CommandError> {
    let Some(mut slot) = cx.slot(key, Type::SortedSet)? else { return Ok(0) };
    let ranks = choose(SortedSet::new(slot.view()));
    let removed = ranks.end.saturating_sub(ranks.start);
    if removed == 0 {
        return Ok(0);
    }
    zset::remove_ranks(&mut slot, ranks);
    drop(slot);
    removed_from(cx, key, event);
    Ok(removed)
}

/// The set at a key has lost members, as `event` tells: the key goes with the last.
pub(super) fn removed_from(cx: &mut Exec<'_>, key: Key<'_>, event: &'static str) {
    cx.changed(key);
    cx.notify(Class::SORTED_SET, event, key);
    let is_empty = cx.keyspace(key).find(key).and_then(|entry| entry.collection());
    if is_empty.is_some_and(|view| SortedSet::new(view).is_empty()) {
        cx.keyspace(key).remove(key);
        cx.notify(Class::GENERIC, "del", key);
    }
}

/// Makes a key the set of these members, which come in order, each once; without members it is removed. Whatever it was is gone.
pub(crate) fn store(cx: &mut Exec<'_>, key: Key<'_>, sorted: &[(&[u8], f64)], event: &'static str) -> Effect {
    let was = cx.find(key).is_some() && cx.keyspace(key).remove(key);
    if sorted.is_empty() {
        if !was {
            return Effect::None;
        }
        cx.notify(Class::GENERIC, "del", key);
        return Effect::AsIs;
    }
    let limits = cx.settings.limits;
    let mut slot: Slot<'_> = cx.create_over(key, &zset::EMPTY, was);
    zset::fill(&mut slot, &limits, sorted);
    drop(slot);
    cx.changed(key);
    cx.notify(Class::SORTED_SET, event, key);
    Effect::AsIs
}
