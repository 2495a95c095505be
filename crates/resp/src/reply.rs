//! Replies of one connection, encoded as they are written: RESP2 or RESP3.
//!
//! HOT: appends to one buffer; large values are referred to, not copied.
//!
//! ```text
//! bytes   ...$20000\r\n|\r\n:1\r\n...
//! shared               ^ (position, value): its bytes are sent here
//! ```

use std::sync::Arc;

use stdx::longdouble::LongDouble;
use stdx::num::{F64_LEN_MAX, I64_LEN_MAX, format_f64, format_i64, format_u64};

/// Bytes that live elsewhere and do not change while a reply refers to them.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The dialect a connection has chosen with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proto {
    /// Every connection starts with it.
    #[default]
    Resp2,
    /// Maps, sets, doubles, nulls and pushes have types of their own.
    Resp3,
}

/// The output of one connection that has not been handed to the reactor yet.
#[derive(Default)]
pub struct Reply {
    /// Encoded replies.
    pub bytes: Vec<u8>,
    /// Large values: each is to be sent when `bytes` has been sent up to the position. Positions ascend.
    pub shared: Vec<(usize, SharedBytes)>,
    /// How replies are encoded from now on.
    pub proto: Proto,
    /// How many errors have been written.
    pub errors: u64,
}

/// The place of a header whose count is not known yet. Finish the inner one of two nested ones first.
#[derive(Debug)]
#[must_use = "without its header the reply is malformed"]
pub struct Deferred(usize);

/// Bytes reserved for a deferred header: right for up to 9 elements; else what follows is moved once.
const DEFERRED_LEN: usize = b"*0\r\n".len();

/// The end of a reply at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    bytes: usize,
    shared: usize,
    errors: u64,
}

impl Reply {
    /// An empty output.
    pub fn new(proto: Proto) -> Reply {
        Reply { proto, ..Reply::default() }
    }

    /// Bytes that will be sent, shared values included.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared.iter().map(|(_, value)| (**value).as_ref().len()).sum::<usize>()
    }

    /// Bytes of [`Reply::len`] that were written since `mark`.
    #[inline]
    pub fn len_since(&self, mark: Mark) -> usize {
        let shared = self.shared[mark.shared.min(self.shared.len())..].iter();
        self.bytes.len().saturating_sub(mark.bytes)
            + shared.map(|(_, value)| (**value).as_ref().len()).sum::<usize>()
    }

    /// True if nothing will be sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where the reply ends now.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), shared: self.shared.len(), errors: self.errors }
    }

    /// The code of the error that was written at `mark`, if that is what was written there.
    pub fn error_code_at(&self, mark: Mark) -> Option<&str> {
        let line = self.bytes.get(mark.bytes..)?.strip_prefix(b"-")?;
        let end = line.iter().position(|byte| matches!(byte, b' ' | b'\r'))?;
        std::str::from_utf8(&line[..end]).ok()
    }

    /// Drops everything written since `mark`.
    pub fn truncate_to(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.shared.truncate(mark.shared);
        self.errors = mark.errors;
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A status. Line ends in it become spaces.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: its code, a space, and what is wrong ("ERR syntax error"). Line ends at either end of it are
    /// dropped, others become spaces.
    #[inline]
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// [`Reply::error`] for a text that quotes what the client sent.
    pub fn error_bytes(&mut self, text: &[u8]) {
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = text.iter().take_while(|byte| is_line_end(byte)).count();
        let end = text.len() - text[start..].iter().rev().take_while(|byte| is_line_end(byte)).count();
        self.line(b'-', &text[start..end]);
        self.errors += 1;
    }

    fn line(&mut self, sigil: u8, text: &[u8]) {
        self.bytes.reserve(text.len() + 3);
        self.bytes.push(sigil);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        for byte in &mut self.bytes[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        if (0..10).contains(&value) {
            self.bytes.extend_from_slice(&[b':', b'0' + value as u8, b'\r', b'\n']);
        } else {
            self.header_text(b':', format_i64(value, &mut [0; I64_LEN_MAX]));
        }
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        self.bytes.reserve(value.len() + 1 + I64_LEN_MAX + 4);
        self.header(b'$', value.len());
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A string that is sent from where it lies.
    pub fn bulk_shared(&mut self, value: SharedBytes) {
        self.header(b'$', (*value).as_ref().len());
        self.shared.push((self.bytes.len(), value));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The decimal text of `value` as a string.
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(format_i64(value, &mut [0; I64_LEN_MAX]));
    }

    /// No value, where a string would stand.
    #[inline]
    pub fn null(&mut self) {
        match self.proto {
            Proto::Resp2 => self.bytes.extend_from_slice(b"$-1\r\n"),
            Proto::Resp3 => self.bytes.extend_from_slice(b"_\r\n"),
        }
    }

    /// No value, where an array would stand.
    #[inline]
    pub fn null_array(&mut self) {
        match self.proto {
            Proto::Resp2 => self.bytes.extend_from_slice(b"*-1\r\n"),
            Proto::Resp3 => self.bytes.extend_from_slice(b"_\r\n"),
        }
    }

    /// Header of an array: `count` replies follow.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count);
    }

    /// Header of a map: `pairs` times two replies follow.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        match self.proto {
            Proto::Resp2 => self.header(b'*', pairs * 2),
            Proto::Resp3 => self.header(b'%', pairs),
        }
    }

    /// Header of a set: `count` replies follow.
    #[inline]
    pub fn set(&mut self, count: usize) {
        self.header(if self.proto == Proto::Resp3 { b'~' } else { b'*' }, count);
    }

    /// Header of a push, which is out of band in RESP3: `count` replies follow.
    #[inline]
    pub fn push(&mut self, count: usize) {
        self.header(if self.proto == Proto::Resp3 { b'>' } else { b'*' }, count);
    }

    /// A double: its shortest text.
    pub fn double(&mut self, value: f64) {
        let mut buffer = [0; F64_LEN_MAX];
        let text = format_f64(value, &mut buffer);
        match self.proto {
            Proto::Resp2 => self.bulk(text),
            Proto::Resp3 => self.header_text(b',', text),
        }
    }

    /// A double with up to 17 digits behind the point, never an exponent: how coordinates are answered.
    /// `value` must not be a NaN.
    pub fn human_double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(F64_LEN_MAX);
        LongDouble::from(value).format(&mut text);
        match self.proto {
            Proto::Resp2 => self.bulk(&text),
            Proto::Resp3 => self.header_text(b',', &text),
        }
    }

    /// A truth value; 1 or 0 in RESP2.
    pub fn bool(&mut self, value: bool) {
        self.bytes.extend_from_slice(match (self.proto, value) {
            (Proto::Resp2, false) => b":0\r\n",
            (Proto::Resp2, true) => b":1\r\n",
            (Proto::Resp3, false) => b"#f\r\n",
            (Proto::Resp3, true) => b"#t\r\n",
        });
    }

    /// A text for people; `format` has three letters, "txt" or "mkd".
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        assert_eq!(format.len(), 3, "a verbatim format has three letters");
        match self.proto {
            Proto::Resp2 => self.bulk(text),
            Proto::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.bytes.extend_from_slice(format.as_bytes());
                self.bytes.push(b':');
                self.bytes.extend_from_slice(text);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An integer of any size, in decimal digits.
    pub fn big_number(&mut self, digits: &str) {
        match self.proto {
            Proto::Resp2 => self.bulk(digits.as_bytes()),
            Proto::Resp3 => self.header_text(b'(', digits.as_bytes()),
        }
    }

    /// Leaves room for a header whose count will be known later; one of the `finish_` functions writes it.
    pub fn defer_array(&mut self) -> Deferred {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; DEFERRED_LEN]);
        Deferred(at)
    }

    /// Writes the header of an array of `count` replies.
    pub fn finish_array(&mut self, deferred: Deferred, count: usize) {
        self.finish(deferred, b'*', count);
    }

    /// Writes the header of a map of `pairs` pairs.
    pub fn finish_map(&mut self, deferred: Deferred, pairs: usize) {
        match self.proto {
            Proto::Resp2 => self.finish(deferred, b'*', pairs * 2),
            Proto::Resp3 => self.finish(deferred, b'%', pairs),
        }
    }

    /// Writes the header of a set of `count` replies.
    pub fn finish_set(&mut self, deferred: Deferred, count: usize) {
        self.finish(deferred, if self.proto == Proto::Resp3 { b'~' } else { b'*' }, count);
    }

    fn finish(&mut self, Deferred(at): Deferred, sigil: u8, count: usize) {
        let mut number = [0; I64_LEN_MAX];
        let number = format_u64(count as u64, &mut number);
        let added = 1 + number.len() + 2 - DEFERRED_LEN;
        if added > 0 {
            let end = self.bytes.len();
            self.bytes.resize(end + added, 0);
            self.bytes.copy_within(at + DEFERRED_LEN..end, at + DEFERRED_LEN + added);
            for (position, _) in self.shared.iter_mut().rev().take_while(|(position, _)| *position > at) {
                *position += added;
            }
        }
        self.bytes[at] = sigil;
        self.bytes[at + 1..at + 1 + number.len()].copy_from_slice(number);
        self.bytes[at + 1 + number.len()..at + 3 + number.len()].copy_from_slice(b"\r\n");
    }

    /// Appends replies that are already encoded in this connection's dialect.
    pub fn append(&mut self, other: &mut Reply) {
        let offset = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        self.shared.extend(other.shared.drain(..).map(|(position, value)| (position + offset, value)));
        self.errors += std::mem::take(&mut other.errors);
    }

    /// Appends the part of other replies, encoded in this connection's dialect, that lies between two of their marks.
    pub fn append_between(&mut self, other: &Reply, from: Mark, to: Mark) {
        let offset = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes[from.bytes..to.bytes]);
        let shared = other.shared[from.shared..to.shared].iter();
        self.shared
            .extend(shared.map(|(position, value)| (position - from.bytes + offset, Arc::clone(value))));
        self.errors += to.errors - from.errors;
    }

    /// A sigil, a count and a line end.
    #[inline]
    fn header(&mut self, sigil: u8, count: usize) {
        match count {
            0..10 => self.bytes.extend_from_slice(&[sigil, b'0' + count as u8, b'\r', b'\n']),
            10..100 => {
                let (tens, ones) = (b'0' + (count / 10) as u8, b'0' + (count % 10) as u8);
                self.bytes.extend_from_slice(&[sigil, tens, ones, b'\r', b'\n']);
            }
            _ => self.header_text(sigil, format_u64(count as u64, &mut [0; I64_LEN_MAX])),
        }
    }

    #[inline]
    fn header_text(&mut self, sigil: u8, text: &[u8]) {
        self.bytes.reserve(text.len() + 3);
        self.bytes.push(sigil);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests;
