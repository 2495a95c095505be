//! HGETEX, HSETEX and HGETDEL: reading and setting fields together with when they expire.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::Type;
use types::hash::{self, Hash, Lifetime};

use super::fields::{finish, pairs, remove_all, set_all};
use super::lifetime::{NUMFIELDS, changes, deadline, fields_word, numbered, with_fields};
use super::reply_value_or_null;
use crate::string::Unit;

/// What an option says about deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expiration<'a> {
    #[default]
    Unsaid,
    /// PERSIST of HGETEX, KEEPTTL of HSETEX.
    Word,
    /// EX, PX, EXAT, PXAT with its word, which may still be no number.
    At(Unit, &'a [u8]),
}

/// The options between key and FIELDS. One may be repeated but not contradicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options<'a> {
    expiration: Expiration<'a>,
    /// XX (true) or NX of the key.
    key_exists: Option<bool>,
    /// FXX (true) or FNX of all fields.
    fields_exist: Option<bool>,
}

impl<'a> Options<'a> {
    /// Reads the options of HGETEX, or of HSETEX (`sets`).
    fn parse(words: Args<'a>, sets: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            options.read(word, &mut words, sets).ok_or(CommandError::SYNTAX)?;
        }
        Ok(options)
    }

    fn read(&mut self, word: &'a [u8], rest: &mut impl Iterator<Item = &'a [u8]>, sets: bool) -> Option<()> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is(if sets { "KEEPTTL" } else { "PERSIST" }) {
            self.expiration = agree(self.expiration, Expiration::Word)?;
        } else if sets && (is("NX") || is("XX")) {
            self.key_exists =
                Some(is("XX")).filter(|exists| self.key_exists.is_none_or(|old| old == *exists));
            self.key_exists?;
        } else if sets && (is("FNX") || is("FXX")) {
            self.fields_exist =
                Some(is("FXX")).filter(|exist| self.fields_exist.is_none_or(|old| old == *exist));
            self.fields_exist?;
        } else {
            let unit = Unit::named(word)?;
            self.expiration = agree(self.expiration, Expiration::At(unit, rest.next()?))?;
        }
        Some(())
    }

    /// The deadline that the options name, if they name a time.
    fn deadline(&self, now_ms: u64, command: &str) -> Result<Option<u64>, CommandError> {
        match self.expiration {
            Expiration::At(unit, word) => deadline(word, unit, now_ms, command).map(Some),
            Expiration::Unsaid | Expiration::Word => Ok(None),
        }
    }
}

/// The later of two options, if they are of one kind.
fn agree<'a>(old: Expiration<'a>, new: Expiration<'a>) -> Option<Expiration<'a>> {
    let agrees = match (old, new) {
        (Expiration::Unsaid, _) | (Expiration::Word, Expiration::Word) => true,
        (Expiration::At(old, _), Expiration::At(new, _)) => old == new,
        _ => false,
    };
    agrees.then_some(new)
}

/// `HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS numfields field [field ...]`
pub(super) fn hgetex(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let behind = fields_word(args, 2).ok_or(NUMFIELDS)?;
    let options = Options::parse(args.first(behind).from(2), false)?;
    let names = numbered(args.from(behind + 1), NUMFIELDS)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    // A wrong type is told before a wrong time.
    cx.view(key, Type::Hash)?;
    let deadline = options.deadline(now_ms, "hgetex")?;
    let Some(mut slot) = cx.slot(key, Type::Hash)? else {
        reply.array(names.len());
        names.iter().for_each(|_| reply.null());
        return Ok(Effect::None);
    };
    reply.array(names.len());
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    for name in names.iter() {
        let hash = Hash::of(slot.view(), now_ms);
        let field = hash.get(name);
        reply_value_or_null(reply, field.as_ref());
        let Some(before) = field.map(|field| field.deadline) else { continue };
        match (options.expiration, deadline) {
            (Expiration::Word, _) if before.is_some() => {
                hash::set_deadline(&mut slot, name, None);
                set.push(name);
            }
            (_, Some(deadline)) if deadline <= now_ms => {
                hash::remove(&mut slot, now_ms, name);
                removed.push(name);
            }
            (_, Some(deadline)) => {
                hash::set_deadline(&mut slot, name, Some(deadline));
                set.push(name);
            }
            (_, None) => {}
        }
    }
    let empty = Hash::of(slot.view(), now_ms).is_empty();
    drop(slot);
    let event = match options.expiration {
        Expiration::Word => "hpersist",
        _ if removed.is_empty() => "hexpire",
        _ => "hexpired",
    };
    finish(cx, key, !set.is_empty() || !removed.is_empty(), empty, event);
    if options.expiration == Expiration::Word && !set.is_empty() {
        let count = set.len().to_string();
        let words = [b"HPERSIST", key.bytes, b"FIELDS", count.as_bytes()];
        return Ok(cx.rewritten(|| vec![with_fields(&words, &set)]));
    }
    Ok(changes(cx, key, deadline.unwrap_or(0), &set, &removed))
}

/// `HGETDEL key FIELDS numfields field [field ...]`
pub(super) fn hgetdel(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    if !args[2].eq_ignore_ascii_case(b"FIELDS") {
        return Err(CommandError::SYNTAX);
    }
    let names = numbered(args.from(3), NUMFIELDS)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let Some(mut slot) = cx.slot(key, Type::Hash)? else {
        reply.array(names.len());
        names.iter().for_each(|_| reply.null());
        return Ok(Effect::None);
    };
    reply.array(names.len());
    let mut removed = Vec::new();
    for name in names.iter() {
        let field = Hash::of(slot.view(), now_ms).get(name);
        reply_value_or_null(reply, field.as_ref());
        if field.is_some() {
            hash::remove(&mut slot, now_ms, name);
            removed.push(name);
        }
    }
    let empty = Hash::of(slot.view(), now_ms).is_empty();
    drop(slot);
    finish(cx, key, !removed.is_empty(), empty, "hdel");
    Ok(changes(cx, key, 0, &[], &removed))
}

/// `HSETEX key [NX | XX] [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS numfields field value [field value ...]`
pub(super) fn hsetex(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let behind = fields_word(args, 2).ok_or(NUMFIELDS)?;
    let options = Options::parse(args.first(behind).from(2), true)?;
    let count = parse_i64(&args[behind + 1]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let words = args.from(behind + 2);
    if count <= 0 || !words.len().is_multiple_of(2) || usize::try_from(count) != Ok(words.len() / 2) {
        return Err(NUMFIELDS);
    }
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let exists = cx.find_view(key, Type::Hash)?.is_some();
    if options.key_exists.is_some_and(|wanted| wanted != exists) {
        reply.int(0);
        return Ok(Effect::None);
    }
    let deadline = options.deadline(now_ms, "hsetex")?;
    if !fields_are_as_wanted(cx, key, words, options.fields_exist)? {
        reply.int(0);
        return Ok(Effect::None);
    }
    reply.int(1);
    match (options.expiration, deadline) {
        (_, Some(deadline)) if deadline <= now_ms => remove_pairs(cx, key, words),
        (_, Some(deadline)) => {
            set_all(cx, key, pairs(words), Lifetime::At(deadline))?;
            cx.notify(Class::HASH, "hset", key);
            cx.notify(Class::HASH, "hexpire", key);
            Ok(cx.rewritten(|| {
                let (deadline, count) = (deadline.to_string(), (words.len() / 2).to_string());
                let head = [b"HSETEX", key.bytes, b"PXAT", deadline.as_bytes(), b"FIELDS", count.as_bytes()];
                vec![with_fields(&head, &words.iter().collect::<Vec<_>>())]
            }))
        }
        (expiration, None) => {
            let keeps = expiration == Expiration::Word;
            set_all(cx, key, pairs(words), if keeps { Lifetime::Keep } else { Lifetime::Clear })?;
            cx.notify(Class::HASH, "hset", key);
            Ok(Effect::AsIs)
        }
    }
}

/// Whether all fields exist (true), or none does (false).
fn fields_are_as_wanted(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    words: Args<'_>,
    wanted: Option<bool>,
) -> Result<bool, CommandError> {
    let Some(wanted) = wanted else { return Ok(true) };
    let now_ms = cx.now_ms;
    let Some(view) = cx.find_view(key, Type::Hash)? else { return Ok(!wanted) };
    let hash = Hash::of(view, now_ms);
    Ok(pairs(words).all(|(name, _)| hash.get(name).is_some() == wanted))
}

/// What remains of fields that are set with a deadline in the past.
fn remove_pairs(cx: &mut Exec<'_>, key: Key<'_>, words: Args<'_>) -> Result<Effect, CommandError> {
    let names: Vec<&[u8]> = pairs(words).map(|(name, _)| name).collect();
    // The peers set them, and then they expire.
    let found = cx.find_view(key, Type::Hash)?.is_some();
    if !found {
        cx.notify(Class::NEW, "new", key);
    }
    cx.notify(Class::HASH, "hset", key);
    cx.notify(Class::HASH, "hexpire", key);
    if remove_all(cx, key, names.iter().copied(), "hexpired")? == 0 {
        cx.notify(Class::HASH, "hexpired", key);
        if !found {
            cx.notify(Class::GENERIC, "del", key);
        }
        return Ok(Effect::None);
    }
    Ok(cx.rewritten(|| vec![with_fields(&[b"HDEL", key.bytes], &names)]))
}
