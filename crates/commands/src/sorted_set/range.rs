//! ZRANGE and all that it unites: ranges by rank, score or member, in either direction, replied or stored.

use std::ops::Range;

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use types::Type;
use types::zset::{LexRange, ScoreRange, SortedSet};

use super::common::{
    mirrored, parse_integer, parse_members, parse_scores, ranks, read, reply_members, store,
};

/// What the bounds are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// Bounds as they were read.
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexRange<'a>),
}

/// A question for a range.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// None: no limit.
    limit: Option<u64>,
}

/// Which of the options are fixed by the command's name.
#[derive(Clone, Copy, Default)]
struct Fixed {
    by: Option<By>,
    reverse: Option<bool>,
    /// Whether the range is stored: its bounds stand a word later and WITHSCORES is unknown.
    stores: bool,
}

impl<'a> Query<'a> {
    fn parse(args: Args<'a>, fixed: Fixed) -> Result<Query<'a>, CommandError> {
        let first = if fixed.stores { 3 } else { 2 };
        let (mut by, mut reverse) = (fixed.by, fixed.reverse);
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut index = first + 2;
        while let Some(word) = args.get(index) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match () {
                _ if !fixed.stores && is("WITHSCORES") => with_scores = true,
                _ if is("LIMIT") && args.len() > index + 2 => {
                    (offset, limit) = (parse_integer(&args[index + 1])?, parse_integer(&args[index + 2])?);
                    index += 2;
                }
                _ if reverse.is_none() && is("REV") => reverse = Some(true),
                _ if by.is_none() && is("BYLEX") => by = Some(By::Lex),
                _ if by.is_none() && is("BYSCORE") => by = Some(By::Score),
                _ => return Err(CommandError::SYNTAX),
            }
            index += 1;
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(CommandError::fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Lex {
            return Err(CommandError::fixed(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (a, b) = (args.get(first).unwrap_or_default(), args.get(first + 1).unwrap_or_default());
        let (min, max) = if reverse { (b, a) } else { (a, b) };
        let bounds = match by {
            By::Rank => Bounds::Ranks(parse_integer(a)?, parse_integer(b)?),
            By::Score => Bounds::Scores(parse_scores(min, max)?),
            By::Lex => Bounds::Members(parse_members(min, max)?),
        };
        Ok(Query { bounds, reverse, with_scores, offset, limit: u64::try_from(limit).ok() })
    }

    /// The ranks that the query asks for, counted from the first member.
    fn ranks(&self, set: SortedSet<'_>) -> Range<u64> {
        let found = match &self.bounds {
            Bounds::Ranks(start, stop) => {
                let found = ranks(set.len(), *start, *stop);
                return if self.reverse { mirrored(set.len(), found) } else { found };
            }
            Bounds::Scores(range) => set.ranks_by_score(range),
            Bounds::Members(range) => set.ranks_by_lex(range, self.reverse),
        };
        // A negative offset is behind the end.
        let skipped = u64::try_from(self.offset).unwrap_or(u64::MAX).min(found.end - found.start);
        let taken = self.limit.unwrap_or(u64::MAX).min(found.end - found.start - skipped);
        if self.reverse {
            found.end - skipped - taken..found.end - skipped
        } else {
            found.start + skipped..found.start + skipped + taken
        }
    }

    fn answer(&self, cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
        let key = cx.key(args, 1);
        let Some(set) = read(cx, key)? else {
            reply.array(0);
            return Ok(Effect::None);
        };
        let ranks = self.ranks(set);
        let count = (ranks.end - ranks.start) as usize;
        reply_members(reply, count, set.walk(ranks, self.reverse), self.with_scores);
        Ok(Effect::None)
    }
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub(super) fn zrange(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    Query::parse(args, Fixed::default())?.answer(cx, args, reply)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub(super) fn zrevrange(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    fixed(cx, args, reply, By::Rank, true)
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub(super) fn zrangebyscore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    fixed(cx, args, reply, By::Score, false)
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub(super) fn zrevrangebyscore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    fixed(cx, args, reply, By::Score, true)
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub(super) fn zrangebylex(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    fixed(cx, args, reply, By::Lex, false)
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub(super) fn zrevrangebylex(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    fixed(cx, args, reply, By::Lex, true)
}

fn fixed(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    by: By,
    reverse: bool,
) -> Result<Effect, CommandError> {
    let fixed = Fixed { by: Some(by), reverse: Some(reverse), stores: false };
    Query::parse(args, fixed)?.answer(cx, args, reply)
}

/// `ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub(super) fn zrangestore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let query = Query::parse(args, Fixed { stores: true, ..Fixed::default() })?;
    let (to, from) = (cx.key(args, 1), cx.key(args, 2));
    let mut members: Vec<(Box<[u8]>, f64)> = Vec::new();
    if let Some(view) = cx.view(from, Type::SortedSet)? {
        let set = SortedSet::new(view);
        members.extend(set.walk(query.ranks(set), false).map(|(member, score)| (member.into(), score)));
    }
    let sorted: Vec<(&[u8], f64)> = members.iter().map(|(member, score)| (&**member, *score)).collect();
    reply.int(sorted.len() as i64);
    Ok(store(cx, to, &sorted, "zrangestore"))
}
