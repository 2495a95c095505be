//! What reads a stream by its ids, without groups.
//!
//! HOT: entries go from their blocks into the reply; a walk upwards allocates nothing.

use command::{CommandError, Effect};
use resp::{Args, OwnedArgs, Reply};
use shard::exec::Exec;
use shard::plan::{Attempted, Blocking, Wait};
use stdx::num::parse_i64;
use types::Type;
use types::stream::{Entry, Id, Item, Stream};

use super::ids::{self, reply_id};
use crate::blocking::has;

/// `XRANGE key start end [COUNT count]`
pub(super) fn xrange(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    range(cx, args, reply, false)
}

/// `XREVRANGE key end start [COUNT count]`
pub(super) fn xrevrange(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    range(cx, args, reply, true)
}

fn range(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    descending: bool,
) -> Result<Effect, CommandError> {
    let (start, end) = if descending { (&args[3], &args[2]) } else { (&args[2], &args[3]) };
    let (start, end) = ids::interval(start, end)?;
    let mut count = None;
    let mut options = args.from(4).iter();
    while let Some(word) = options.next() {
        match options.next() {
            Some(value) if word.eq_ignore_ascii_case(b"COUNT") => count = parse_count(value)?,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    match cx.view(cx.key(args, 1), Type::Stream)?.map(Stream::new) {
        None => reply.array(0),
        Some(_) if count == Some(0) => reply.null_array(),
        Some(stream) => {
            reply_entries(reply, stream.range(start, end, descending), count.unwrap_or(u64::MAX));
        }
    }
    Ok(Effect::None)
}

/// A COUNT of a range: negative ones are 0, but -1 is none.
fn parse_count(word: &[u8]) -> Result<Option<u64>, CommandError> {
    match parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)? {
        -1 => Ok(Some(0)),
        count => Ok(Some(count.max(0) as u64)),
    }
}

/// Replies with entries, `count` at most; how many.
pub(super) fn reply_entries<'a>(
    reply: &mut Reply,
    entries: impl Iterator<Item = Entry<'a>>,
    count: u64,
) -> usize {
    let header = reply.defer_array();
    let mut replied = 0;
    for entry in entries.take(usize::try_from(count).unwrap_or(usize::MAX)) {
        reply_entry(reply, entry);
        replied += 1;
    }
    reply.finish_array(header, replied);
    replied
}

/// Replies with an entry: its id, then its fields and values.
#[inline]
pub(super) fn reply_entry(reply: &mut Reply, entry: Entry<'_>) {
    reply.array(2);
    reply_id(reply, entry.id);
    reply.array(entry.len() * 2);
    for (field, value) in entry {
        reply.bulk(field);
        match value {
            Item::Bytes(bytes) => reply.bulk(bytes),
            Item::Integer(integer) => reply.bulk_int(integer),
        }
    }
}

/// The options of XREAD and XREADGROUP.
pub(super) struct Options<'a> {
    /// Entries per stream; 0: all.
    pub(super) count: u64,
    /// Milliseconds to wait, 0: for ever; none: not at all.
    pub(super) block_ms: Option<u64>,
    pub(super) group: Option<(&'a [u8], &'a [u8])>,
    pub(super) no_ack: bool,
    /// The first key's word; the ids follow the keys.
    pub(super) keys_at: usize,
    pub(super) streams: usize,
}

const TIMEOUT_INVALID: CommandError = CommandError::fixed("ERR timeout is not an integer or out of range");
const TIMEOUT_NEGATIVE: CommandError = CommandError::fixed("ERR timeout is negative");
const TIMEOUT_TOO_LONG: CommandError = CommandError::fixed("ERR timeout is out of range");

impl<'a> Options<'a> {
    pub(super) fn parse(args: Args<'a>, now_ms: u64, with_group: bool) -> Result<Options<'a>, CommandError> {
        let mut options =
            Options { count: 0, block_ms: None, group: None, no_ack: false, keys_at: 0, streams: 0 };
        let mut at = 1;
        while at < args.len() {
            let more = args.len() - 1 - at;
            let is = |name: &str| args[at].eq_ignore_ascii_case(name.as_bytes());
            if is("BLOCK") && more > 0 {
                at += 1;
                options.block_ms = Some(timeout(&args[at], now_ms)?);
            } else if is("COUNT") && more > 0 {
                at += 1;
                let count = parse_i64(&args[at]).ok_or(CommandError::NOT_AN_INTEGER)?;
                options.count = count.max(0) as u64;
            } else if is("STREAMS") && more > 0 {
                options.keys_at = at + 1;
                options.streams = more / 2;
                if !more.is_multiple_of(2) {
                    return Err(unbalanced(with_group));
                }
                break;
            } else if is("GROUP") && more >= 2 {
                if !with_group {
                    return Err(not_supported("GROUP"));
                }
                options.group = Some((args.get(at + 1).unwrap_or(b""), args.get(at + 2).unwrap_or(b"")));
                at += 2;
            } else if is("NOACK") {
                if !with_group {
                    return Err(not_supported("NOACK"));
                }
                options.no_ack = true;
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        if options.keys_at == 0 {
            return Err(CommandError::SYNTAX);
        }
        Ok(options)
    }

    /// There is nothing: a wait if one was asked for, else null.
    pub(super) fn wait_or_null(
        &self,
        now_ms: u64,
        effect: Effect,
        words: Option<OwnedArgs>,
        reply: &mut Reply,
    ) -> Attempted {
        let Some(block_ms) = self.block_ms else {
            reply.null_array();
            return Attempted::Done(effect);
        };
        let until_ms = (block_ms > 0).then(|| now_ms + block_ms);
        Attempted::Wait(Wait { effect, until_ms, words })
    }

    /// The words of each key and its id.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let streams = self.streams;
        (self.keys_at..self.keys_at + streams).map(move |key| (key, key + streams))
    }
}

fn unbalanced(with_group: bool) -> CommandError {
    let (name, symbol) = if with_group { ("xreadgroup", '>') } else { ("xread", '$') };
    CommandError::new(format!(
        "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{symbol}' must be specified."
    ))
}

fn not_supported(option: &str) -> CommandError {
    CommandError::new(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

fn timeout(word: &[u8], now_ms: u64) -> Result<u64, CommandError> {
    let ms = parse_i64(word).ok_or(TIMEOUT_INVALID)?;
    let ms = u64::try_from(ms).map_err(|_| TIMEOUT_NEGATIVE)?;
    now_ms.checked_add(ms).filter(|until| i64::try_from(*until).is_ok()).ok_or(TIMEOUT_TOO_LONG)?;
    Ok(ms)
}

/// XREAD, which waits if asked to.
pub(super) const XREAD: Blocking =
    Blocking { attempt: xread, wants: Type::Stream, on_nokey: false, whole: false, null: Reply::null_array };

/// `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]`
fn xread(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    let options = Options::parse(args, cx.now_ms, false)?;
    if read(cx, args, &options, reply)? {
        return Ok(Attempted::Done(Effect::None));
    }
    let words = if cx.retrying { None } else { with_ids(cx, args, &options)? };
    Ok(options.wait_or_null(cx.now_ms, Effect::None, words, reply))
}

/// The same words with ids instead of `$` and `+`, which mean the end as it is now; none if there are no such words.
fn with_ids(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    options: &Options<'_>,
) -> Result<Option<OwnedArgs>, CommandError> {
    if !options.pairs().any(|(_, id)| matches!(&args[id], b"$" | b"+")) {
        return Ok(None);
    }
    let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
    for (key, id) in options.pairs() {
        let stream = cx.find_view(cx.key(args, key), Type::Stream)?.map(Stream::new);
        let Id { ms, seq } = behind(stream, &args[id])?;
        words[id] = format!("{ms}-{seq}").into_bytes();
    }
    Ok(Some(OwnedArgs::from_words(words)))
}

/// Replies with what is new in the streams; false, and nothing is written, if there is nothing. Tried again, it passes over streams for which
/// nothing has come.
fn read(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    options: &Options<'_>,
    reply: &mut Reply,
) -> Result<bool, CommandError> {
    let checked = if cx.retrying { None } else { Some(options.pairs()) };
    for (key, id) in checked.into_iter().flatten() {
        let found = cx.view(cx.key(args, key), Type::Stream)?.map(Stream::new);
        behind(found, &args[id])?;
    }
    let mark = reply.mark();
    let header = reply.defer_array();
    let count = if options.count == 0 { u64::MAX } else { options.count };
    let resp3 = reply.proto == resp::Proto::Resp3;
    let mut streams = 0;
    for (at, id) in options.pairs() {
        let key = cx.key(args, at);
        if !has(cx, key, Type::Stream)? {
            continue;
        }
        let Some(stream) = cx.find_view(key, Type::Stream)?.map(Stream::new) else { continue };
        let Some(start) = behind(Some(stream), &args[id])?.next() else { continue };
        let mut entries = stream.range(start, Id::MAX, false).peekable();
        if entries.peek().is_none() {
            continue;
        }
        if !resp3 {
            reply.array(2);
        }
        reply.bulk(key.bytes);
        reply_entries(reply, entries, count);
        streams += 1;
    }
    match streams {
        0 => reply.truncate_to(mark),
        _ if resp3 => reply.finish_map(header, streams),
        _ => reply.finish_array(header, streams),
    }
    Ok(streams > 0)
}

/// The id behind which a stream is read.
fn behind(stream: Option<Stream<'_>>, word: &[u8]) -> Result<Id, CommandError> {
    const ONLY_GROUPS: CommandError = CommandError::fixed(
        "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
    );
    let last = stream.map_or(Id::ZERO, |stream| stream.head().last);
    match word {
        b"$" => Ok(last),
        b"+" => Ok(last.previous().unwrap_or(Id::ZERO)),
        b">" => Err(ONLY_GROUPS),
        word => ids::strict(word, 0),
    }
}
