//! XTRIM, and the options that XADD shares with it.

use command::{CommandError, Effect, Record};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::stream::{Stream, StreamMut, Trim, TrimTo};
use types::{Limits, Type};

use super::ids::{self, IdText, Wanted};

const BOTH: CommandError =
    CommandError::fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const MAXLEN_NEGATIVE: CommandError = CommandError::fixed("ERR The MAXLEN argument must be >= 0.");
const LIMIT_NEGATIVE: CommandError = CommandError::fixed("ERR The LIMIT argument must be >= 0.");
const LIMIT_ALONE: CommandError =
    CommandError::fixed("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const LIMIT_EXACT: CommandError =
    CommandError::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");
const NO_STRATEGY: CommandError =
    CommandError::fixed("ERR syntax error, XTRIM must be called with a trimming strategy");

/// Nodes that an approximate trim removes at most, unless LIMIT says otherwise; and entries in any case.
const NODES_PER_TRIM: u64 = 100;
const ENTRIES_PER_TRIM_DEFAULT: u64 = 10_000;
const ENTRIES_PER_TRIM_MAX: u64 = 1_000_000;

/// The options of XADD and XTRIM.
pub(super) struct Options {
    pub(super) trim: Option<Trim>,
    pub(super) no_mkstream: bool,
    /// XADD: the id, and the word in which it stands.
    pub(super) id: Option<(usize, Wanted)>,
}

impl Options {
    /// Reads the words after the key.
    pub(super) fn parse(args: Args<'_>, limits: &Limits, xadd: bool) -> Result<Options, CommandError> {
        let mut options = Options { trim: None, no_mkstream: false, id: None };
        let (mut to, mut approximate, mut limit) = (None, false, None);
        let mut at = 2;
        while at < args.len() {
            let word = &args[at];
            let more = args.len() - 1 - at;
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if xadd && word == b"*" {
                options.id = Some((at, Wanted::Any));
                break;
            } else if more > 0 && (is("MAXLEN") || is("MINID")) {
                if to.is_some() {
                    return Err(BOTH);
                }
                approximate = more >= 2 && &args[at + 1] == b"~";
                at += 1 + usize::from(approximate || more >= 2 && &args[at + 1] == b"=");
                to = Some(if is("MAXLEN") {
                    let max = parse_i64(&args[at]).ok_or(CommandError::NOT_AN_INTEGER)?;
                    TrimTo::Len(u64::try_from(max).map_err(|_| MAXLEN_NEGATIVE)?)
                } else {
                    TrimTo::MinId(ids::strict(&args[at], 0)?)
                });
            } else if more > 0 && is("LIMIT") {
                at += 1;
                let max = parse_i64(&args[at]).ok_or(CommandError::NOT_AN_INTEGER)?;
                limit = Some(u64::try_from(max).map_err(|_| LIMIT_NEGATIVE)?);
            } else if xadd && is("NOMKSTREAM") {
                options.no_mkstream = true;
            } else if xadd {
                options.id = Some((at, ids::wanted(word)?));
                break;
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        match to {
            None if limit.is_some_and(|limit| limit > 0) => return Err(LIMIT_ALONE),
            None if !xadd => return Err(NO_STRATEGY),
            Some(_) | None if limit.is_some() && !approximate => return Err(LIMIT_EXACT),
            _ => {}
        }
        let limit = if approximate { limit.unwrap_or(limit_default(limits)) } else { 0 };
        options.trim = to.map(|to| Trim { to, approximate, limit });
        Ok(options)
    }
}

fn limit_default(limits: &Limits) -> u64 {
    match NODES_PER_TRIM.saturating_mul(limits.stream_node_max_entries) {
        0 => ENTRIES_PER_TRIM_DEFAULT,
        entries => entries.min(ENTRIES_PER_TRIM_MAX),
    }
}

/// What an approximate trim has come to, as an exact one: where nodes end may be another time another place.
pub(super) fn as_exact(stream: Stream<'_>, trim: &Trim) -> [Vec<u8>; 3] {
    let bound = |name: &[u8], bound: Vec<u8>| [name.to_vec(), b"=".to_vec(), bound];
    match trim.to {
        // An id tells nothing of a stream without entries.
        _ if stream.head().len == 0 => bound(b"MAXLEN", b"0".to_vec()),
        TrimTo::Len(_) => bound(b"MAXLEN", stream.head().len.to_string().into_bytes()),
        TrimTo::MinId(_) => {
            let mut text: IdText = [0; size_of::<IdText>()];
            bound(b"MINID", ids::id_text(stream.first_id(), &mut text).to_vec())
        }
    }
}

/// `XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]`
pub(super) fn xtrim(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let trim = Options::parse(args, &cx.settings.limits, false)?.trim.ok_or(NO_STRATEGY)?;
    let (key, journaling) = (cx.key(args, 1), cx.journaling);
    let Some(mut slot) = cx.slot(key, Type::Stream)? else {
        reply.int(0);
        return Ok(Effect::None);
    };
    let mut stream = StreamMut::new(&mut slot);
    let removed = stream.trim(&trim);
    reply.int(removed as i64);
    if removed == 0 {
        return Ok(Effect::None);
    }
    let exact = (trim.approximate && journaling).then(|| as_exact(stream.read(), &trim));
    drop(slot);
    cx.changed(key);
    cx.notify(Class::STREAM, "xtrim", key);
    Ok(exact.map_or(Effect::AsIs, |exact| cx.rewritten(|| vec![record(key.bytes, exact)])))
}

fn record(key: &[u8], trim: [Vec<u8>; 3]) -> Record {
    [b"XTRIM".to_vec(), key.to_vec()].into_iter().chain(trim).collect()
}
