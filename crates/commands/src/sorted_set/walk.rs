//! Members by chance, and all members some at a time.

use std::collections::BTreeSet;

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Entry;
use stdx::num::{F64_LEN_MAX, format_f64, format_f64_17, parse_i64};
use stdx::rng::Rng;
use types::zset::SortedSet;
use types::{Form, View};

use super::common::{read, reply_count, reply_member, reply_members};
use crate::element_scan::{self, Options};

/// Members that one reply may repeat: more would fill all memory.
const REPEATS_MAX: u64 = 1 << 32;

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub(super) fn zrandmember(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let count = args.get(2).map(parse_count).transpose()?;
    let with_scores = match args.from(3).len() {
        0 => false,
        1 if args[3].eq_ignore_ascii_case(b"WITHSCORES") => true,
        _ => return Err(CommandError::SYNTAX),
    };
    let most = if with_scores { i64::MAX as u64 / 2 } else { i64::MAX as u64 };
    if count
        .is_some_and(|count| count.unsigned_abs() > most || count < 0 && count.unsigned_abs() > REPEATS_MAX)
    {
        return Err(CommandError::OUT_OF_RANGE);
    }
    let key = cx.key(args, 1);
    let mut rng = Rng::new(cx.rng.next_u64());
    match (read(cx, key)?, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => reply.bulk(set.random(&mut rng).0),
        (Some(set), Some(count)) if count < 0 => {
            let count = count.unsigned_abs() as usize;
            reply_count(reply, count, with_scores);
            for _ in 0..count {
                let (member, score) = set.random(&mut rng);
                reply_member(reply, member, with_scores.then_some(score));
            }
        }
        (Some(set), Some(count)) => reply_distinct(set, count as u64, with_scores, &mut rng, reply),
    }
    Ok(Effect::None)
}

fn parse_count(word: &[u8]) -> Result<i64, CommandError> {
    const OUT_OF_RANGE: CommandError = CommandError::fixed(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    match parse_i64(word) {
        None => Err(CommandError::NOT_AN_INTEGER),
        Some(i64::MIN) => Err(OUT_OF_RANGE),
        Some(count) => Ok(count),
    }
}

/// Replies with `count` members, no one twice, each choice of so many as likely as any other; in their order.
fn reply_distinct(set: SortedSet<'_>, count: u64, with_scores: bool, rng: &mut Rng, reply: &mut Reply) {
    let len = set.len();
    let count = count.min(len);
    // What is left out is chosen if that is less: Floyd's sampling without replacement (Bentley and Floyd, CACM 1987).
    let leaves_out = count > len / 2;
    let draws = if leaves_out { len - count } else { count };
    let mut chosen = BTreeSet::new();
    for last in len - draws..len {
        let rank = rng.below(last + 1);
        chosen.insert(if chosen.contains(&rank) { last } else { rank });
    }
    if leaves_out {
        let kept = (0..len).zip(set.walk(0..len, false)).filter(|(rank, _)| !chosen.contains(rank));
        return reply_members(reply, count as usize, kept.map(|(_, pair)| pair), with_scores);
    }
    let each = chosen.into_iter().flat_map(|rank| set.walk(rank..rank + 1, false));
    reply_members(reply, count as usize, each, with_scores);
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]`
pub(super) fn zscan(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let cursor = element_scan::cursor(args)?;
    let key = cx.key(args, 1);
    // What the peers keep in a skip list they print with all digits here, and only here.
    let form = cx.peek(key).and_then(Entry::collection).map(View::form);
    let all_digits = form == Some(Form::SortedSetSkiplist);
    let Some(set) = read(cx, key)? else {
        element_scan::nothing(reply);
        return Ok(Effect::None);
    };
    let options = Options::parse(args, Some("NOSCORES"))?;
    let mut found = Vec::new();
    let next = set.scan(cursor, options.count, |member, score| {
        if options.matches(member) {
            found.push((member, score));
        }
    });
    element_scan::head(reply, next);
    reply.array(if options.names_only { found.len() } else { 2 * found.len() });
    for (member, score) in found {
        reply.bulk(member);
        if !options.names_only {
            // A text in RESP3 too.
            if all_digits {
                reply.bulk(format_f64_17(score).as_bytes());
            } else {
                reply.bulk(format_f64(score, &mut [0; F64_LEN_MAX]));
            }
        }
    }
    Ok(Effect::None)
}
