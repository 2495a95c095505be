//! Adding members and changing scores.
//!
//! HOT: ZADD of one member and ZINCRBY: no allocation.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use types::zset::{self, Added, NotANumber, When};
use types::{Slot, Type};

use super::common::parse_score;

const NOT_A_NUMBER: CommandError = CommandError::fixed("ERR resulting score is not a number (NaN)");

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
struct Options {
    when: When,
    /// CH: reply with the changed members too.
    changed: bool,
    /// Where the scores and members begin.
    start: usize,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options { start: 2, ..Options::default() };
        while let Some(word) = args.get(options.start) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match () {
                _ if is("NX") => options.when.missing = true,
                _ if is("XX") => options.when.present = true,
                _ if is("GT") => options.when.greater = true,
                _ if is("LT") => options.when.less = true,
                _ if is("INCR") => options.when.increment = true,
                _ if is("CH") => options.changed = true,
                _ => break,
            }
            options.start += 1;
        }
        let words = args.len() - options.start;
        if words == 0 || !words.is_multiple_of(2) {
            return Err(CommandError::SYNTAX);
        }
        let When { missing, present, greater, less, increment } = options.when;
        if missing && present {
            return Err(CommandError::fixed("ERR XX and NX options at the same time are not compatible"));
        }
        if missing && (greater || less) || greater && less {
            return Err(CommandError::fixed(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if increment && words > 2 {
            return Err(CommandError::fixed("ERR INCR option supports a single increment-element pair"));
        }
        Ok(options)
    }
}

/// What became of the members of one command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Members that are new.
    pub(crate) new: u64,
    /// Members that have got another score.
    pub(crate) changed: u64,
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`
pub(super) fn zadd(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let options = Options::parse(args)?;
    let pairs = args.from(options.start);
    let key = cx.key(args, 1);
    if options.when.increment {
        let score = parse_score(&pairs[0])?;
        return add_one(cx, key, &pairs[1], score, options.when, reply);
    }
    // All are read before the first is added. One, as most commands have, is read once.
    let first = parse_score(&pairs[0])?;
    for at in (2..pairs.len()).step_by(2) {
        parse_score(&pairs[at])?;
    }
    let scored = (0..pairs.len()).step_by(2).map(|at| {
        let score = if at == 0 { first } else { parse_score(&pairs[at]).expect("it was read before") };
        (&pairs[at + 1], score)
    });
    let counts = add_all(cx, key, scored, options.when)?;
    reply.int((counts.new + if options.changed { counts.changed } else { 0 }) as i64);
    Ok(if counts.new + counts.changed > 0 { Effect::AsIs } else { Effect::None })
}

/// `ZINCRBY key increment member`
pub(super) fn zincrby(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    // Where an increment is an option of ZADD, the words are not pairs.
    let options = Options::parse(args)?;
    let score = parse_score(&args[2])?;
    let key = cx.key(args, 1);
    add_one(cx, key, &args[3], score, When { increment: true, ..options.when }, reply)
}

/// Adds members with their scores (no NaN), which are gone through twice, to the set at a key, or makes one; as ZADD without INCR.
pub(crate) fn add_all<'m>(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    scored: impl ExactSizeIterator<Item = (&'m [u8], f64)> + Clone,
    when: When,
) -> Result<Counts, CommandError> {
    let limits = cx.settings.limits;
    let longest = scored.clone().map(|(member, _)| member.len()).max().unwrap_or(0);
    let mut counts = Counts::default();
    let Some(mut slot) = slot(cx, key, when)? else { return Ok(counts) };
    zset::adapt_form(&mut slot, &limits, scored.len() as u64, longest as u64);
    if let Some(new) = zset::add_all_to_empty(&mut slot, &limits, scored.clone(), when) {
        counts.new = new as u64;
    } else {
        for (member, score) in scored {
            match zset::add(&mut slot, &limits, member, score, when) {
                Ok(Added::New(_)) => counts.new += 1,
                Ok(Added::Changed(_)) => counts.changed += 1,
                Ok(Added::Same(_) | Added::Refused) => {}
                Err(NotANumber) => panic!("a score that is set is a number"),
            }
        }
    }
    drop(slot);
    if counts.new + counts.changed > 0 {
        cx.changed(key);
        cx.notify(Class::SORTED_SET, "zadd", key);
    }
    Ok(counts)
}

/// Adds to the score of one member; replies with the sum, or null if nothing was to be done.
fn add_one(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    member: &[u8],
    score: f64,
    when: When,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let limits = cx.settings.limits;
    let Some(mut slot) = slot(cx, key, when)? else {
        reply.null();
        return Ok(Effect::None);
    };
    zset::adapt_form(&mut slot, &limits, 1, member.len() as u64);
    let added = zset::add(&mut slot, &limits, member, score, when).map_err(|NotANumber| NOT_A_NUMBER)?;
    drop(slot);
    match added {
        Added::New(score) | Added::Changed(score) => {
            reply.double(score);
            cx.changed(key);
            cx.notify(Class::SORTED_SET, "zincr", key);
            return Ok(Effect::AsIs);
        }
        Added::Same(score) => reply.double(score),
        Added::Refused => reply.null(),
    }
    Ok(Effect::None)
}

/// The set at a key, which is made if it is missing; None if it is and must not be.
#[inline]
fn slot<'c>(cx: &'c mut Exec<'_>, key: Key<'_>, when: When) -> Result<Option<Slot<'c>>, CommandError> {
    if when.present {
        cx.slot(key, Type::SortedSet)
    } else {
        cx.slot_or_create(key, Type::SortedSet, &zset::EMPTY).map(Some)
    }
}
