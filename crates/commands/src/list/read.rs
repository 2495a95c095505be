//! Reading lists.

use std::ops::ControlFlow;

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use stdx::num::parse_i64;
use types::Type;
use types::list;

use super::{index, range, reply_item};

const RANK_ZERO: CommandError = CommandError::fixed(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
);
const RANK_MIN: CommandError = CommandError::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
const COUNT_NEGATIVE: CommandError = CommandError::fixed("ERR COUNT can't be negative");
const MAXLEN_NEGATIVE: CommandError = CommandError::fixed("ERR MAXLEN can't be negative");

/// `LLEN key`
pub(super) fn llen(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let view = cx.view(cx.key(args, 1), Type::List)?;
    reply.int(view.map_or(0, list::len) as i64);
    Ok(Effect::None)
}

/// `LINDEX key index`
pub(super) fn lindex(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let Some(view) = cx.view(cx.key(args, 1), Type::List)? else {
        reply.null();
        return Ok(Effect::None);
    };
    let at = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    match index(at, list::len(view)) {
        Some(at) => list::each(view, at..at + 1, |item| reply_item(reply, item)),
        None => reply.null(),
    }
    Ok(Effect::None)
}

/// `LRANGE key start stop`
pub(super) fn lrange(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let start = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let stop = parse_i64(&args[3]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let Some(view) = cx.view(cx.key(args, 1), Type::List)? else {
        reply.array(0);
        return Ok(Effect::None);
    };
    let range = range(start, stop, list::len(view));
    reply.array((range.end - range.start) as usize);
    list::each(view, range, |item| reply_item(reply, item));
    Ok(Effect::None)
}

/// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
pub(super) fn lpos(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let wanted = Wanted::parse(args)?;
    let Some(view) = cx.view(cx.key(args, 1), Type::List)? else {
        if wanted.count.is_some() {
            reply.array(0);
        } else {
            reply.null();
        }
        return Ok(Effect::None);
    };
    let mut found = Vec::new();
    let mut skip = wanted.rank.unsigned_abs() - 1;
    let most = match wanted.count {
        None => 1,
        Some(0) => u64::MAX,
        Some(count) => count,
    };
    list::positions(view, &args[2], wanted.rank < 0, wanted.within, |index| {
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        found.push(index);
        if found.len() as u64 == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if wanted.count.is_some() {
        reply.array(found.len());
        for index in found {
            reply.int(index as i64);
        }
    } else if let Some(index) = found.first() {
        reply.int(*index as i64);
    } else {
        reply.null();
    }
    Ok(Effect::None)
}

/// The options of LPOS.
struct Wanted {
    /// The first match that counts; negative: from the end.
    rank: i64,
    count: Option<u64>,
    /// Elements to look at.
    within: u64,
}

impl Wanted {
    fn parse(args: Args<'_>) -> Result<Wanted, CommandError> {
        let mut wanted = Wanted { rank: 1, count: None, within: u64::MAX };
        let mut at = 3;
        while let Some(option) = args.get(at) {
            let value = args.get(at + 1).ok_or(CommandError::SYNTAX)?;
            let not_negative = || parse_i64(value).and_then(|number| u64::try_from(number).ok());
            if option.eq_ignore_ascii_case(b"RANK") {
                wanted.rank = match parse_i64(value).ok_or(CommandError::NOT_AN_INTEGER)? {
                    i64::MIN => return Err(RANK_MIN),
                    0 => return Err(RANK_ZERO),
                    rank => rank,
                };
            } else if option.eq_ignore_ascii_case(b"COUNT") {
                wanted.count = Some(not_negative().ok_or(COUNT_NEGATIVE)?);
            } else if option.eq_ignore_ascii_case(b"MAXLEN") {
                wanted.within = match not_negative().ok_or(MAXLEN_NEGATIVE)? {
                    0 => u64::MAX,
                    len => len,
                };
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 2;
        }
        Ok(wanted)
    }
}
