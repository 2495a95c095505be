//! Ids of streams as clients write them and replies tell them.

use command::CommandError;
use resp::Reply;
use stdx::num::{I64_LEN_MAX, format_u64, parse_i64};
use types::stream::Id;

pub(super) const INVALID_ID: CommandError =
    CommandError::fixed("ERR Invalid stream ID specified as stream command argument");

/// A longer word is no id.
const ID_LEN_MAX: usize = 127;

/// The id that an entry to be added shall get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// `*`
    Any,
    /// `ms-*`
    AnyOf(u64),
    /// `ms-seq`, or `ms` alone for `ms-0`.
    This(Id),
}

/// An id of an entry; `seq` is what its second part is if there is none.
pub(super) fn strict(word: &[u8], seq: u64) -> Result<Id, CommandError> {
    match parse(word, seq, false)? {
        Wanted::This(id) if !matches!(text(word), b"-" | b"+") => Ok(id),
        _ => Err(INVALID_ID),
    }
}

/// The same, `-` for the lowest and `+` for the highest.
pub(super) fn or_edge(word: &[u8], seq: u64) -> Result<Id, CommandError> {
    match parse(word, seq, false)? {
        Wanted::This(id) => Ok(id),
        _ => Err(INVALID_ID),
    }
}

/// The id for XADD.
pub(super) fn wanted(word: &[u8]) -> Result<Wanted, CommandError> {
    if word == b"*" {
        return Ok(Wanted::Any);
    }
    if matches!(text(word), b"-" | b"+") {
        return Err(INVALID_ID);
    }
    parse(word, 0, true)
}

/// A bound of a range; true if it begins with `(`, for the id itself not to belong to it.
pub(super) fn bound(word: &[u8], seq: u64) -> Result<(Id, bool), CommandError> {
    match word {
        [b'(', rest @ ..] if !rest.is_empty() => Ok((strict(rest, seq)?, true)),
        _ => Ok((or_edge(word, seq)?, false)),
    }
}

/// Both bounds of a range, exclusive ones made inclusive.
pub(super) fn interval(start: &[u8], end: &[u8]) -> Result<(Id, Id), CommandError> {
    let (mut first, exclusive) = bound(start, 0)?;
    if exclusive {
        first = first.next().ok_or(CommandError::fixed("ERR invalid start ID for the interval"))?;
    }
    let (mut last, exclusive) = bound(end, u64::MAX)?;
    if exclusive {
        last = last.previous().ok_or(CommandError::fixed("ERR invalid end ID for the interval"))?;
    }
    Ok((first, last))
}

/// What the peers see of a word: up to its first zero byte.
fn text(word: &[u8]) -> &[u8] {
    &word[..word.iter().position(|byte| *byte == 0).unwrap_or(word.len())]
}

fn parse(word: &[u8], missing: u64, partial: bool) -> Result<Wanted, CommandError> {
    if word.len() > ID_LEN_MAX {
        return Err(INVALID_ID);
    }
    let word = text(word);
    match word {
        b"-" => return Ok(Wanted::This(Id::ZERO)),
        b"+" => return Ok(Wanted::This(Id::MAX)),
        _ => {}
    }
    let Some(dash) = word.iter().position(|byte| *byte == b'-') else {
        return Ok(Wanted::This(Id { ms: number(word)?, seq: missing }));
    };
    let ms = number(&word[..dash])?;
    match &word[dash + 1..] {
        b"*" if partial => Ok(Wanted::AnyOf(ms)),
        seq => Ok(Wanted::This(Id { ms, seq: number(seq)? })),
    }
}

/// An unsigned number as the peers read it: canonical text, or whatever `strtoull` takes.
fn number(text: &[u8]) -> Result<u64, CommandError> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).map_err(|_| INVALID_ID);
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let rest = &text[text.iter().take_while(|byte| blank(byte)).count()..];
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(INVALID_ID);
    }
    let mut number = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        let next = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(digit)));
        number = next.filter(|_| digit <= 9).ok_or(INVALID_ID)?;
    }
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// Room for the text of an id.
pub(super) type IdText = [u8; 2 * I64_LEN_MAX + 1];

/// The text of an id.
pub(super) fn id_text(id: Id, text: &mut IdText) -> &[u8] {
    let mut part = [0; I64_LEN_MAX];
    let ms = format_u64(id.ms, &mut part);
    let dash = ms.len();
    text[..dash].copy_from_slice(ms);
    text[dash] = b'-';
    let seq = format_u64(id.seq, &mut part);
    let end = dash + 1 + seq.len();
    text[dash + 1..end].copy_from_slice(seq);
    &text[..end]
}

/// Replies with an id.
#[inline]
pub(super) fn reply_id(reply: &mut Reply, id: Id) {
    reply.bulk(id_text(id, &mut [0; 2 * I64_LEN_MAX + 1]));
}
