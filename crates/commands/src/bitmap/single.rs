//! One bit, counting bits, finding one.

use std::ops::Range;

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::IntText;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::bits::{self, BYTE_BITS};

use super::offset;
use crate::text::string_or_empty;

const NOT_A_BIT: CommandError = CommandError::fixed("ERR bit is not an integer or out of range");
const BIT_ARGUMENT: CommandError = CommandError::fixed("ERR The bit argument must be 1 or 0.");

/// `GETBIT key offset`
pub(super) fn getbit(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let at = offset(cx, &args[2])?;
    let string = string_or_empty(cx.read(cx.key(args, 1)))?;
    reply.int(i64::from(bits::get(string.to_bytes(&mut IntText::default()), at)));
    Ok(Effect::None)
}

/// `SETBIT key offset value`
pub(super) fn setbit(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let at = offset(cx, &args[2])?;
    let one = match &args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(NOT_A_BIT),
    };
    let key = cx.key(args, 1);
    let string = string_or_empty(cx.find(key))?;
    let len = string.len();
    let needed = bits::bytes_for(at + 1);
    let before = bits::get(string.to_bytes(&mut IntText::default()), at);
    reply.int(i64::from(before));
    if before == one && needed <= len {
        cx.keyspace(key).make_raw(key);
        return Ok(Effect::None);
    }
    let access = cx.access_new();
    bits::set(cx.keyspace(key).string_resize(key, len.max(needed), access), at, one);
    cx.notify(Class::STRING, "setbit", key);
    Ok(Effect::AsIs)
}

/// `BITCOUNT key [start [end [BYTE | BIT]]]`
pub(super) fn bitcount(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let part = Part::parse(args, 2)?;
    let string = string_or_empty(cx.read(cx.key(args, 1)))?;
    let mut text = IntText::default();
    let bytes = string.to_bytes(&mut text);
    // Two ends counted from the end in the wrong order count nothing; BITPOS first brings them into the string.
    let nothing = part.start < 0 && part.end.is_some_and(|end| end < 0 && part.start > end);
    let range = if nothing { 0..0 } else { part.range(bytes.len()) };
    reply.int(bits::ones_in(bytes, range) as i64);
    Ok(Effect::None)
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
pub(super) fn bitpos(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let one = match parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)? {
        0 => false,
        1 => true,
        _ => return Err(BIT_ARGUMENT),
    };
    let part = Part::parse(args, 3)?;
    let Some(entry) = cx.read(cx.key(args, 1)) else {
        reply.int(if one { -1 } else { 0 });
        return Ok(Effect::None);
    };
    let string = string_or_empty(Some(entry))?;
    let mut text = IntText::default();
    let bytes = string.to_bytes(&mut text);
    let range = part.range(bytes.len());
    reply.int(match bits::find(bytes, one, range.clone()) {
        Some(at) => at as i64,
        // Behind a string without an end of the search, zeroes go on.
        None if !one && part.end.is_none() && !range.is_empty() => range.end as i64,
        None => -1,
    });
    Ok(Effect::None)
}

/// A part of a string as a client tells it.
struct Part {
    start: i64,
    /// The last one included; none is the end of the string.
    end: Option<i64>,
    in_bits: bool,
}

impl Part {
    /// `[start [end [BYTE | BIT]]]` from word `from` to the end.
    fn parse(args: Args<'_>, from: usize) -> Result<Part, CommandError> {
        let mut part = Part { start: 0, end: None, in_bits: false };
        if args.len() > from + 3 {
            return Err(CommandError::SYNTAX);
        }
        let integer = |word: &[u8]| parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER);
        if let Some(start) = args.get(from) {
            part.start = integer(start)?;
        }
        if let Some(unit) = args.get(from + 2) {
            part.in_bits = match () {
                () if unit.eq_ignore_ascii_case(b"BIT") => true,
                () if unit.eq_ignore_ascii_case(b"BYTE") => false,
                () => return Err(CommandError::SYNTAX),
            };
        }
        if let Some(end) = args.get(from + 1) {
            part.end = Some(integer(end)?);
        }
        Ok(part)
    }

    /// Its bits in a string of `bytes` bytes.
    fn range(&self, bytes: usize) -> Range<usize> {
        let len = i64::try_from(if self.in_bits { bytes * BYTE_BITS } else { bytes });
        let len = len.expect("a string is below 2^60 bytes");
        let end = self.end.unwrap_or(len - 1);
        let from_start = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
        let (start, end) = (from_start(self.start), from_start(end).min(len - 1));
        if start > end {
            return 0..0;
        }
        let unit = if self.in_bits { 1 } else { BYTE_BITS };
        start as usize * unit..(end as usize + 1) * unit
    }
}
