//! From bytes to words: multibulk and inline requests, resumable at every byte.
//!
//! HOT: a complete command allocates nothing, and its bytes are looked at once: only the two lines of lengths
//! are read, the words are skipped over.
//!
//! ```text
//! multibulk   *<words>\r\n  then per word  $<bytes>\r\n<bytes>\r\n
//! inline      word "quoted word" ...\n
//! ```
//!
//! What a length line promises is never allocated: memory follows the bytes that have arrived.

use std::fmt;

use memchr::{memchr, memchr2};
use stdx::num::parse_i64;
use stdx::quote::{Part, is_space, split_args_into};

use crate::args::Span;

/// Words that a client may send in one command before it has authenticated.
const ARGS_MAX_UNAUTHENTICATED: u64 = 10;

/// Bytes of one word that a client may send before it has authenticated.
const BULK_LEN_MAX_UNAUTHENTICATED: u64 = 16 * 1024;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    /// Longest word in bytes (`proto-max-bulk-len`).
    pub bulk_len_max: u64,
    /// Longest inline request, and longest length line, that may lack its end, in bytes.
    pub inline_len_max: usize,
    /// Most words in one command.
    pub args_max: u32,
    /// False restricts the lengths to what a client needs to authenticate.
    pub authenticated: bool,
}

impl Default for ParseLimits {
    fn default() -> ParseLimits {
        ParseLimits {
            bulk_len_max: 512 * 1024 * 1024,
            inline_len_max: 64 * 1024,
            args_max: i32::MAX as u32,
            authenticated: true,
        }
    }
}

/// What is known of a command that has arrived in part. Its default is empty and owns no memory.
#[derive(Debug, Default)]
pub struct Partial {
    cursor: Cursor,
    /// Length of the buffer when it was parsed last; 0 if no command has begun.
    buffer_len: usize,
    /// The words found so far: kept here, not at the caller, until the command is complete.
    spans: Vec<Span>,
    unquoted: Option<Vec<u8>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Cursor {
    /// Everything before this offset is understood.
    at: usize,
    /// No line end lies in `at..searched`.
    searched: usize,
    /// Words still to come; 0 while the header is unread.
    words_left: u32,
    /// Length of the word that starts at `at`, once its length line is read.
    bulk_len: Option<u32>,
}

impl Partial {
    /// True if no command has begun.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer_len == 0
    }

    /// How many bytes the word that is arriving still lacks, its line end included; 0 if that is not known.
    /// The client's claim: reserve it in bounded steps.
    #[inline]
    pub fn bytes_wanted(&self) -> usize {
        match self.cursor.bulk_len {
            Some(len) => (self.cursor.at + len as usize + 2).saturating_sub(self.buffer_len),
            None => 0,
        }
    }

    /// Number of words known of the command that is arriving.
    pub fn words(&self) -> usize {
        self.spans.len()
    }

    /// After an inline command that used quotes: its words unquoted. The spans of that command count into
    /// these bytes, not into the buffer that was parsed. To be taken before the next command is parsed.
    #[inline]
    pub fn take_unquoted(&mut self) -> Option<Vec<u8>> {
        self.unquoted.take()
    }

    /// Bytes that this state occupies on the heap.
    pub fn bytes_allocated(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.unquoted.as_ref().map_or(0, Vec::capacity)
    }

    fn clear(&mut self) {
        self.cursor = Cursor::default();
        self.buffer_len = 0;
        self.spans = Vec::new();
    }
}

/// A request that breaks the protocol: the client gets [`ProtocolError::reply_text`] and is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline request without an end.
    InlineTooBig,
    /// The line after `*` has no end.
    MultibulkCountTooBig,
    /// The line after `$` has no end.
    BulkCountTooBig,
    /// The number of words is not an integer, or above the limit.
    InvalidMultibulkLen,
    /// The number of words is above what is allowed before authentication.
    UnauthenticatedMultibulkLen,
    /// A word starts with this byte instead of `$`.
    ExpectedDollar(u8),
    /// The length of a word is not an integer, negative or above the limit.
    InvalidBulkLen,
    /// The length of a word is above what is allowed before authentication.
    UnauthenticatedBulkLen,
    /// A length line or a word does not end with `\r\n`.
    InvalidCrlf,
    /// Quotes in an inline request.
    UnbalancedQuotes,
    /// The whole command exceeds 4 GiB.
    CommandTooBig,
}

impl ProtocolError {
    /// The error reply's text with its code. Not UTF-8 where the client's byte is none.
    pub fn reply_text(self) -> Vec<u8> {
        let mut text = b"ERR Protocol error: ".to_vec();
        match self {
            ProtocolError::ExpectedDollar(byte) => {
                text.extend_from_slice(b"expected '$', got '");
                text.extend_from_slice(&[byte, b'\'']);
            }
            other => text.extend_from_slice(other.text().as_bytes()),
        }
        text
    }

    fn text(self) -> &'static str {
        match self {
            ProtocolError::InlineTooBig => "too big inline request",
            ProtocolError::MultibulkCountTooBig => "too big mbulk count string",
            ProtocolError::BulkCountTooBig => "too big bulk count string",
            ProtocolError::InvalidMultibulkLen => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLen => "unauthenticated multibulk length",
            ProtocolError::ExpectedDollar(_) => "expected '$'",
            ProtocolError::InvalidBulkLen => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLen => "unauthenticated bulk length",
            ProtocolError::InvalidCrlf => "invalid CRLF in request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::CommandTooBig => "too big command",
        }
    }
}

impl fmt::Display for ProtocolError {
    /// The text behind `-ERR Protocol error: `.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::ExpectedDollar(byte) => write!(f, "expected '$', got '{}'", char::from(*byte)),
            other => f.write_str(other.text()),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Appends the words of the next command to `spans` and returns how many bytes of `buf` it took; none if more
/// bytes are needed. An empty command (a blank line, `*0`, `*-1`) takes bytes and has no words.
///
/// After none, call again with the same bytes and more behind them: `partial` keeps what is known, so nothing is
/// read twice. Spans count from the start of `buf`, whatever `spans` held before. After an error the
/// connection is of no further use.
#[inline]
pub fn parse(
    buf: &[u8],
    partial: &mut Partial,
    spans: &mut Vec<Span>,
    limits: &ParseLimits,
) -> Result<Option<usize>, ProtocolError> {
    if !partial.is_empty() {
        return resume(buf, partial, spans, limits);
    }
    match buf.first() {
        Some(b'*') => begin(buf, partial, spans, limits),
        Some(_) => inline(buf, partial, spans, limits),
        None => Ok(None),
    }
}

#[inline]
fn begin(
    buf: &[u8],
    partial: &mut Partial,
    spans: &mut Vec<Span>,
    limits: &ParseLimits,
) -> Result<Option<usize>, ProtocolError> {
    let spans_before = spans.len();
    let mut cursor = Cursor::default();
    let complete = multibulk(buf, &mut cursor, spans, limits)?;
    if complete {
        return Ok(Some(cursor.at));
    }
    partial.cursor = cursor;
    partial.buffer_len = buf.len();
    partial.spans.extend(spans.drain(spans_before..));
    Ok(None)
}

#[cold]
fn resume(
    buf: &[u8],
    partial: &mut Partial,
    spans: &mut Vec<Span>,
    limits: &ParseLimits,
) -> Result<Option<usize>, ProtocolError> {
    debug_assert!(buf.len() >= partial.buffer_len, "a partial command's bytes were dropped");
    if buf.first() != Some(&b'*') {
        return inline(buf, partial, spans, limits);
    }
    partial.buffer_len = buf.len();
    if !multibulk(buf, &mut partial.cursor, &mut partial.spans, limits)? {
        return Ok(None);
    }
    let taken = partial.cursor.at;
    spans.append(&mut partial.spans);
    partial.clear();
    Ok(Some(taken))
}

/// Goes on at `cursor`; true if the command is complete.
#[inline]
fn multibulk(
    buf: &[u8],
    cursor: &mut Cursor,
    spans: &mut Vec<Span>,
    limits: &ParseLimits,
) -> Result<bool, ProtocolError> {
    let Cursor { mut at, mut words_left, mut bulk_len, .. } = *cursor;
    if words_left == 0 {
        let (words, next) = match short_length(buf, at + 1) {
            Some(line) => line,
            None => match long_words_line(buf, cursor, limits)? {
                Some(line) => line,
                None => return Ok(false),
            },
        };
        check_words(u64::from(words), limits)?;
        (at, words_left) = (next, words);
    }
    while words_left > 0 {
        let len = match bulk_len.take() {
            Some(len) => len,
            None => {
                let line = if buf.get(at) == Some(&b'$') { short_length(buf, at + 1) } else { None };
                let (len, next) = match line {
                    Some(line) => line,
                    None => {
                        *cursor = Cursor { at, words_left, bulk_len: None, searched: cursor.searched };
                        match long_bulk_line(buf, cursor, limits)? {
                            Some(line) => line,
                            None => return Ok(false),
                        }
                    }
                };
                check_bulk(next, len, limits)?;
                at = next;
                len
            }
        };
        let end = at + len as usize + 2;
        let Some(word_and_end) = buf.get(at..end) else {
            *cursor = Cursor { at, words_left, bulk_len: Some(len), searched: 0 };
            return Ok(false);
        };
        if !word_and_end.ends_with(b"\r\n") {
            return Err(ProtocolError::InvalidCrlf);
        }
        spans.push(Span { start: at as u32, len });
        at = end;
        words_left -= 1;
    }
    cursor.at = at;
    Ok(true)
}

#[inline]
fn check_words(words: u64, limits: &ParseLimits) -> Result<(), ProtocolError> {
    if words > u64::from(limits.args_max) {
        return Err(ProtocolError::InvalidMultibulkLen);
    }
    if !limits.authenticated && words > ARGS_MAX_UNAUTHENTICATED {
        return Err(ProtocolError::UnauthenticatedMultibulkLen);
    }
    Ok(())
}

#[inline]
fn check_bulk(at: usize, len: u32, limits: &ParseLimits) -> Result<(), ProtocolError> {
    if u64::from(len) > limits.bulk_len_max {
        return Err(ProtocolError::InvalidBulkLen);
    }
    if !limits.authenticated && u64::from(len) > BULK_LEN_MAX_UNAUTHENTICATED {
        return Err(ProtocolError::UnauthenticatedBulkLen);
    }
    // Offsets in a span are 32 bits wide.
    if at as u64 + u64::from(len) > u64::from(u32::MAX) {
        return Err(ProtocolError::CommandTooBig);
    }
    Ok(())
}

/// The number at `at` and the offset behind its line, if it is a complete, plain, short one. Everything else
/// is for the slow way to judge.
#[inline]
fn short_length(buf: &[u8], at: usize) -> Option<(u32, usize)> {
    /// With nine digits a number cannot exceed 32 bits.
    const DIGITS_MAX: usize = 9;
    let line = buf.get(at..)?;
    let mut value = 0_u32;
    for (index, &byte) in line.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let complete = byte == b'\r' && index > 0 && line.get(index + 1) == Some(&b'\n');
            return complete.then_some((value, at + index + 2));
        }
        // A leading zero must be the only digit.
        if index == DIGITS_MAX || index > 0 && value == 0 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    None
}

/// The line of the number of words, whatever it holds.
#[cold]
fn long_words_line(
    buf: &[u8],
    cursor: &mut Cursor,
    limits: &ParseLimits,
) -> Result<Option<(u32, usize)>, ProtocolError> {
    let Some(end) = line_end(buf, cursor, limits, ProtocolError::MultibulkCountTooBig)? else {
        return Ok(None);
    };
    check_line_feed(buf, end)?;
    let words = parse_i64(&buf[cursor.at + 1..end]).ok_or(ProtocolError::InvalidMultibulkLen)?;
    check_words(words.max(0) as u64, limits)?;
    // A negative number of words is no command, like 0; what passed the check fits.
    Ok(Some((words.max(0) as u32, end + 2)))
}

/// The line of a word's length, whatever it holds.
#[cold]
fn long_bulk_line(
    buf: &[u8],
    cursor: &mut Cursor,
    limits: &ParseLimits,
) -> Result<Option<(u32, usize)>, ProtocolError> {
    let Some(end) = line_end(buf, cursor, limits, ProtocolError::BulkCountTooBig)? else {
        return Ok(None);
    };
    if buf[cursor.at] != b'$' {
        return Err(ProtocolError::ExpectedDollar(buf[cursor.at]));
    }
    check_line_feed(buf, end)?;
    let len = parse_i64(&buf[cursor.at + 1..end]).ok_or(ProtocolError::InvalidBulkLen)?;
    let len = u64::try_from(len).map_err(|_| ProtocolError::InvalidBulkLen)?;
    if len > limits.bulk_len_max {
        return Err(ProtocolError::InvalidBulkLen);
    }
    match u32::try_from(len) {
        Ok(len) => Ok(Some((len, end + 2))),
        Err(_) => Err(ProtocolError::CommandTooBig),
    }
}

/// Offset of the `\r` of the line at the cursor, if the byte behind it has arrived too.
fn line_end(
    buf: &[u8],
    cursor: &mut Cursor,
    limits: &ParseLimits,
    too_big: ProtocolError,
) -> Result<Option<usize>, ProtocolError> {
    let from = cursor.searched.max(cursor.at);
    match memchr(b'\r', &buf[from..]) {
        Some(offset) if from + offset + 1 < buf.len() => Ok(Some(from + offset)),
        Some(offset) => {
            cursor.searched = from + offset;
            Ok(None)
        }
        None if buf.len() - cursor.at > limits.inline_len_max => Err(too_big),
        None => {
            cursor.searched = buf.len();
            Ok(None)
        }
    }
}

fn check_line_feed(buf: &[u8], carriage_return: usize) -> Result<(), ProtocolError> {
    if buf.get(carriage_return + 1) == Some(&b'\n') { Ok(()) } else { Err(ProtocolError::InvalidCrlf) }
}

#[cold]
fn inline(
    buf: &[u8],
    partial: &mut Partial,
    spans: &mut Vec<Span>,
    limits: &ParseLimits,
) -> Result<Option<usize>, ProtocolError> {
    let from = partial.cursor.searched;
    let stop = memchr2(b'\n', 0, &buf[from..]).map_or(buf.len(), |offset| from + offset);
    // The request is read as a C string: behind a NUL byte its end is not found.
    if buf.get(stop) != Some(&b'\n') {
        if buf.len() > limits.inline_len_max {
            return Err(ProtocolError::InlineTooBig);
        }
        partial.cursor.searched = stop;
        partial.buffer_len = buf.len();
        return Ok(None);
    }
    let newline = stop;
    partial.clear();
    if newline > u32::MAX as usize {
        return Err(ProtocolError::CommandTooBig);
    }
    let line = &buf[..newline];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if memchr2(b'"', b'\'', line).is_some() {
        partial.unquoted = Some(unquote(line, spans)?);
    } else {
        split_plain(line, spans);
    }
    Ok(Some(newline + 1))
}

/// Splits a line that has no quotes: its words are where they are.
fn split_plain(line: &[u8], spans: &mut Vec<Span>) {
    let mut at = 0;
    while at < line.len() {
        if is_space(line[at]) {
            at += 1;
            continue;
        }
        // Within a word a vertical tab or a form feed is no blank.
        let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let len = line[at..].iter().position(ends).unwrap_or(line.len() - at);
        spans.push(Span { start: at as u32, len: len as u32 });
        at += len;
    }
}

fn unquote(line: &[u8], spans: &mut Vec<Span>) -> Result<Vec<u8>, ProtocolError> {
    let spans_before = spans.len();
    let mut words = Vec::with_capacity(line.len());
    let split = split_args_into(line, |part| match part {
        Part::Begin => spans.push(Span { start: words.len() as u32, len: 0 }),
        Part::Byte(byte) => {
            words.push(byte);
            spans.last_mut().expect("a word was begun").len += 1;
        }
    });
    if split.is_err() {
        spans.truncate(spans_before);
        return Err(ProtocolError::UnbalancedQuotes);
    }
    Ok(words)
}

#[cfg(test)]
mod tests;
