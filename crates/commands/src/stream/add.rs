//! What comes into a stream and goes from it by its id.
//!
//! HOT: XADD: no allocation but for what grows.

use command::{CommandError, Effect, Record};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::stream::{Id, Pairs, Stream, StreamMut, Trim};
use types::{Limits, Slot, Type};

use super::ids::{self, IdText, Wanted, id_text, reply_id};
use super::trim::{Options, as_exact};

const ID_ZERO: CommandError = CommandError::fixed("ERR The ID specified in XADD must be greater than 0-0");
const ID_TOO_SMALL: CommandError =
    CommandError::fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: CommandError =
    CommandError::fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: CommandError = CommandError::fixed("ERR Elements are too large to be stored");

/// Bytes of the fields and values of an entry.
const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Words as fields and values in turn.
struct Words<'a>(Args<'a>);

impl Pairs for Words<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.0.len() / 2
    }

    #[inline]
    fn field(&self, n: usize) -> &[u8] {
        &self.0[2 * n]
    }

    #[inline]
    fn value(&self, n: usize) -> &[u8] {
        &self.0[2 * n + 1]
    }
}

/// `XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value [field value ...]`
pub(super) fn xadd(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let limits = &cx.settings.limits;
    let options = Options::parse(args, limits, true)?;
    let Some((id_at, wanted)) = options.id else { return Err(CommandError::arity("xadd")) };
    let words = args.from(id_at + 1);
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(CommandError::arity("xadd"));
    }
    if wanted == Wanted::This(Id::ZERO) {
        return Err(ID_ZERO);
    }
    let key = cx.key(args, 1);
    let new = New { wanted, now_ms: cx.now_ms, words, trim: options.trim, journaling: cx.journaling };
    let existing = match cx.slot(key, Type::Stream)? {
        Some(mut slot) => Some(new.add_to(&mut slot, limits)?),
        None => None,
    };
    let Added { id, trimmed, exact } = match existing {
        Some(added) => added,
        None if options.no_mkstream => {
            reply.null();
            return Ok(Effect::None);
        }
        None => {
            // Before the key is made, for it must not stay if there is no entry.
            new.id_behind(Id::ZERO)?;
            new.add_to(&mut cx.create(key, &StreamMut::EMPTY), limits)?
        }
    };
    cx.changed(key);
    cx.ready(key);
    cx.notify(Class::STREAM, "xadd", key);
    if trimmed {
        cx.notify(Class::STREAM, "xtrim", key);
    }
    reply_id(reply, id);
    Ok(match (wanted, &options.trim) {
        (Wanted::This(_), None) => Effect::AsIs,
        _ => cx.rewritten(|| vec![record(args, id_at, id, exact)]),
    })
}

/// The id of a new entry, and as an exact trim what an approximate one has come to.
struct Added {
    id: Id,
    /// Whether a trim removed anything.
    trimmed: bool,
    exact: Option<[Vec<u8>; 3]>,
}

/// An entry to be added.
struct New<'a> {
    wanted: Wanted,
    now_ms: u64,
    words: Args<'a>,
    trim: Option<Trim>,
    journaling: bool,
}

impl New<'_> {
    /// Adds the entry and trims the stream.
    #[inline]
    fn add_to(&self, slot: &mut Slot<'_>, limits: &Limits) -> Result<Added, CommandError> {
        let mut stream = StreamMut::new(slot);
        let id = self.id_behind(stream.read().head().last)?;
        stream.append(limits, id, &Words(self.words));
        let Some(trim) = self.trim else { return Ok(Added { id, trimmed: false, exact: None }) };
        let trimmed = stream.trim(&trim) > 0;
        let exact = (trim.approximate && self.journaling).then(|| as_exact(stream.read(), &trim));
        Ok(Added { id, trimmed, exact })
    }

    /// The id that the entry gets in a stream with this last one.
    fn id_behind(&self, last: Id) -> Result<Id, CommandError> {
        let id = next_id(last, self.wanted, self.now_ms)?;
        if self.words.iter().map(<[u8]>::len).sum::<usize>() > ENTRY_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        Ok(id)
    }
}

/// The id that an entry gets.
fn next_id(last: Id, wanted: Wanted, now_ms: u64) -> Result<Id, CommandError> {
    if last == Id::MAX {
        return Err(EXHAUSTED);
    }
    let id = match wanted {
        Wanted::This(id) => Some(id),
        Wanted::AnyOf(ms) if ms == last.ms => last.seq.checked_add(1).map(|seq| Id { ms, seq }),
        Wanted::AnyOf(ms) => Some(Id { ms, seq: 0 }),
        Wanted::Any if now_ms > last.ms => Some(Id { ms: now_ms, seq: 0 }),
        Wanted::Any => last.next(),
    };
    id.filter(|id| *id > last).ok_or(ID_TOO_SMALL)
}

/// XADD with the id that was given, and as an exact trim what an approximate one has come to.
fn record(args: Args<'_>, id_at: usize, id: Id, trimmed: Option<[Vec<u8>; 3]>) -> Record {
    let mut words: Record = vec![b"XADD".to_vec(), args[1].to_vec()];
    match trimmed {
        Some(trim) => words.extend(trim),
        None => words.extend((2..id_at).map(|at| args[at].to_vec())),
    }
    let mut text: IdText = [0; size_of::<IdText>()];
    words.push(id_text(id, &mut text).to_vec());
    words.extend((id_at + 1..args.len()).map(|at| args[at].to_vec()));
    words
}

/// `XLEN key`
pub(super) fn xlen(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let stream = cx.view(cx.key(args, 1), Type::Stream)?.map(Stream::new);
    reply.int(stream.map_or(0, |stream| stream.head().len as i64));
    Ok(Effect::None)
}

/// `XDEL key id [id ...]`
pub(super) fn xdel(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let Some(mut slot) = cx.slot(key, Type::Stream)? else {
        reply.int(0);
        return Ok(Effect::None);
    };
    for word in args.from(2).iter() {
        ids::strict(word, 0)?;
    }
    let mut stream = StreamMut::new(&mut slot);
    let mut removed = 0;
    for word in args.from(2).iter() {
        removed += i64::from(stream.remove(ids::strict(word, 0)?));
    }
    drop(slot);
    reply.int(removed);
    if removed == 0 {
        return Ok(Effect::None);
    }
    cx.changed(key);
    cx.notify(Class::STREAM, "xdel", key);
    Ok(Effect::AsIs)
}

/// `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`
pub(super) fn xsetid(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    const ADDED_NEGATIVE: CommandError = CommandError::fixed("ERR entries_added must be positive");
    const BELOW_GIVEN: CommandError = CommandError::fixed(
        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
    );
    const BELOW_DELETED: CommandError =
        CommandError::fixed("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
    const BELOW_TOP: CommandError =
        CommandError::fixed("ERR The ID specified in XSETID is smaller than the target stream top item");
    const ADDED_BELOW_LEN: CommandError = CommandError::fixed(
        "ERR The entries_added specified in XSETID is smaller than the target stream length",
    );
    let last = ids::strict(&args[2], 0)?;
    let (mut added, mut max_deleted) = (None, None);
    let mut at = 3;
    while at < args.len() {
        let value = args.get(at + 1);
        match value {
            Some(value) if args[at].eq_ignore_ascii_case(b"ENTRIESADDED") => {
                let number = parse_i64(value).ok_or(CommandError::NOT_AN_INTEGER)?;
                added = Some(u64::try_from(number).map_err(|_| ADDED_NEGATIVE)?);
            }
            Some(value) if args[at].eq_ignore_ascii_case(b"MAXDELETEDID") => {
                let id = ids::strict(value, 0)?;
                if last < id {
                    return Err(BELOW_GIVEN);
                }
                max_deleted = Some(id);
            }
            _ => return Err(CommandError::SYNTAX),
        }
        at += 2;
    }
    let key = cx.key(args, 1);
    let mut slot = cx.slot(key, Type::Stream)?.ok_or(CommandError::NO_SUCH_KEY)?;
    let mut stream = StreamMut::new(&mut slot);
    let mut head = stream.read().head();
    if last < head.max_deleted {
        return Err(BELOW_DELETED);
    }
    if head.len > 0 {
        if last < stream.read().top_id() {
            return Err(BELOW_TOP);
        }
        if added.is_some_and(|added| added < head.len) {
            return Err(ADDED_BELOW_LEN);
        }
    }
    head.last = last;
    head.added = added.unwrap_or(head.added);
    head.max_deleted = max_deleted.filter(|id| *id != Id::ZERO).unwrap_or(head.max_deleted);
    stream.set_head(head);
    drop(slot);
    cx.notify(Class::STREAM, "xsetid", key);
    reply.ok();
    // As with the peers, this is no change of the key for those who watch it.
    Ok(Effect::AsIs)
}
