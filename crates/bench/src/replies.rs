//! Counts replies in a stream of bytes without building them: RESP2 and RESP3, however the stream is cut. Looks at the first bytes of
//! each element and steps over the rest. Knows nothing of commands.
//!
//! HOT: one call per arrival of data. Allocates only where a line (not a value) is cut in two.

use memchr::memchr;

/// A line longer than this is no reply of a server: error texts have a few hundred bytes, lengths 20.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The commonest reply of all.
const OK: &[u8] = b"+OK\r\n";

/// How many times [`OK`] stands at the beginning of `bytes`.
#[inline]
fn leading_oks(bytes: &[u8]) -> u32 {
    let mut count = 0;
    let mut rest = bytes;
    while let Some(behind) = rest.strip_prefix(OK) {
        rest = behind;
        count += 1;
    }
    count
}

/// Longest header of [`leading_bulks`]: `$`, five digits, line end.
const HEADER_BYTES_MAX: usize = 8;

/// How many bulk strings of one length stand whole at the beginning of `bytes`, and how many bytes one takes. The first header is read,
/// the others are compared with it as words.
#[inline]
fn leading_bulks(bytes: &[u8]) -> (u32, usize) {
    let Some((&first, _)) = bytes.split_first_chunk::<HEADER_BYTES_MAX>() else { return (0, 0) };
    let digits = first[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let header = digits + 3;
    if first[0] != b'$' || digits == 0 || header > HEADER_BYTES_MAX || first[digits + 1..header] != *b"\r\n" {
        return (0, 0);
    }
    let length = first[1..=digits].iter().fold(0, |value, digit| value * 10 + usize::from(digit - b'0'));
    let each = header + length + 2;
    let mask = u64::MAX >> (64 - 8 * header);
    let wanted = u64::from_le_bytes(first) & mask;
    let mut count = 0;
    let mut rest = bytes;
    while let (Some((head, _)), Some(end)) =
        (rest.split_first_chunk::<HEADER_BYTES_MAX>(), rest.get(each.wrapping_sub(2)..each))
        && u64::from_le_bytes(*head) & mask == wanted
        && end == b"\r\n"
    {
        count += 1;
        rest = &rest[each..];
    }
    (count, each)
}

/// One reply, as far as it was looked at.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// Neither of the others.
    Value,
    /// A null of any kind.
    Nil,
    /// An error with its text, without the minus.
    Error(&'a [u8]),
}

/// The stream is not RESP: what was found where an element should begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(pub String);

/// What the reply that is being read will be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Top {
    /// Its first element has not come.
    Unknown,
    Value,
    Nil,
    /// An error whose text is in `error`.
    Error,
    /// Out of band: not counted.
    Push,
}

/// Where a stream of replies stands.
#[derive(Clone, Debug)]
pub struct Skipper {
    /// Elements until the reply is complete.
    open: u64,
    /// Bytes of a bulk string (with its line end) still to come.
    skip: u64,
    top: Top,
    /// The beginning of a line that was cut.
    line: Vec<u8>,
    error: Vec<u8>,
    /// Values are told of one by one, because somebody looks into them.
    singly: bool,
}

impl Default for Skipper {
    fn default() -> Skipper {
        Skipper { open: 1, skip: 0, top: Top::Unknown, line: Vec::new(), error: Vec::new(), singly: false }
    }
}

impl Skipper {
    /// One that tells of each bulk string by itself.
    pub fn singly() -> Skipper {
        Skipper { singly: true, ..Skipper::default() }
    }

    /// Takes the next bytes of the stream and calls `each` for every reply that they complete, or once for several `+OK` or bulk strings of
    /// one length in a row, with how many replies these are and the number of bytes of `bytes` up to their end.
    #[inline]
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Reply<'_>, u32, usize),
    ) -> Result<(), Malformed> {
        let mut at = 0;
        if self.skip > 0 {
            let step = self.skip.min(bytes.len() as u64);
            self.skip -= step;
            at = step as usize;
            if self.skip > 0 {
                return Ok(());
            }
            self.finish(at, &mut each);
        }
        while at < bytes.len() {
            if self.open == 1 && self.top == Top::Unknown && self.line.is_empty() {
                let run = leading_oks(&bytes[at..]);
                if run > 0 {
                    at += run as usize * OK.len();
                    each(Reply::Value, run, at);
                    continue;
                }
                if !self.singly {
                    let (run, bytes_each) = leading_bulks(&bytes[at..]);
                    if run > 0 {
                        at += run as usize * bytes_each;
                        each(Reply::Value, run, at);
                        continue;
                    }
                }
            }
            let Some(next) = self.next_element(bytes, at)? else { return Ok(()) };
            at = next;
            self.finish(at, &mut each);
        }
        Ok(())
    }

    /// Takes one element that begins at `at`, or goes on there. Returns where the next one begins; nothing if the bytes are used up.
    #[inline]
    fn next_element(&mut self, bytes: &[u8], at: usize) -> Result<Option<usize>, Malformed> {
        let Some(end) = memchr(b'\n', &bytes[at..]) else {
            self.line.extend_from_slice(&bytes[at..]);
            return if self.line.len() > LINE_BYTES_MAX { Err(malformed(&self.line)) } else { Ok(None) };
        };
        let next = at + end + 1;
        let body = if self.line.is_empty() {
            self.element(&bytes[at..next - 1])?
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&bytes[at..next - 1]);
            let body = self.element(&line);
            line.clear();
            self.line = line;
            body?
        };
        let here = body.min((bytes.len() - next) as u64);
        self.skip = body - here;
        Ok((self.skip == 0).then_some(next + here as usize))
    }

    /// Tells of the reply if its last element has come.
    #[inline]
    fn finish(&mut self, at: usize, each: &mut impl FnMut(Reply<'_>, u32, usize)) {
        if self.open > 0 {
            return;
        }
        self.open = 1;
        match std::mem::replace(&mut self.top, Top::Unknown) {
            Top::Unknown | Top::Value => each(Reply::Value, 1, at),
            Top::Nil => each(Reply::Nil, 1, at),
            Top::Error => each(Reply::Error(&self.error), 1, at),
            Top::Push => {}
        }
    }

    /// Takes the line that begins an element, without its line feed. Returns how many bytes of content follow it.
    #[inline]
    fn element(&mut self, line: &[u8]) -> Result<u64, Malformed> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some((&kind, rest)) = line.split_first() else { return Err(malformed(line)) };
        let first = self.open == 1 && self.top == Top::Unknown;
        let number = |rest| count(rest).ok_or_else(|| malformed(line));
        self.open -= 1;
        let (top, body) = match kind {
            b'$' => match number(rest)? {
                None => (Top::Nil, 0),
                Some(length) => (Top::Value, length.saturating_add(2)),
            },
            b'+' | b':' | b',' | b'#' | b'(' => (Top::Value, 0),
            b'-' => {
                if first {
                    self.error.clear();
                    self.error.extend_from_slice(rest);
                }
                (Top::Error, 0)
            }
            b'_' => (Top::Nil, 0),
            b'*' | b'~' => match number(rest)? {
                None => (Top::Nil, 0),
                Some(elements) => {
                    self.open = self.open.saturating_add(elements);
                    (Top::Value, 0)
                }
            },
            b'%' => {
                self.open = self.open.saturating_add(number(rest)?.unwrap_or(0).saturating_mul(2));
                (Top::Value, 0)
            }
            b'>' => {
                self.open = self.open.saturating_add(number(rest)?.unwrap_or(0));
                (Top::Push, 0)
            }
            b'=' => (Top::Value, number(rest)?.unwrap_or(0).saturating_add(2)),
            b'!' => {
                if first {
                    self.error.clear();
                    self.error.extend_from_slice(b"(a long error)");
                }
                (Top::Error, number(rest)?.unwrap_or(0).saturating_add(2))
            }
            b'|' => {
                // Attributes come before the element that they belong to, and are none themselves.
                let elements = number(rest)?.unwrap_or(0).saturating_mul(2);
                self.open = self.open.saturating_add(1).saturating_add(elements);
                return Ok(0);
            }
            _ => return Err(malformed(line)),
        };
        if first {
            self.top = top;
        }
        Ok(body)
    }
}

/// The number behind a type byte: nothing for a negative one, which stands for a null; outer nothing if it is no number.
#[inline]
fn count(text: &[u8]) -> Option<Option<u64>> {
    if text.first() == Some(&b'-') {
        return Some(None);
    }
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    let mut value = 0_u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(Some(value))
}

#[cold]
fn malformed(line: &[u8]) -> Malformed {
    let mut shown = Vec::new();
    stdx::quote::repr(&line[..line.len().min(40)], &mut shown);
    Malformed(String::from_utf8_lossy(&shown).into_owned())
}

/// The content of the bulk string that a whole reply consists of, or nothing for any other reply.
#[must_use]
pub fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let rest = reply.strip_prefix(b"$")?;
    let end = memchr(b'\n', rest)?;
    let length = count(rest[..end].strip_suffix(b"\r")?)??;
    rest.get(end + 1..)?.get(..usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::rng::Rng;

    fn seen(chunks: &[&[u8]]) -> Result<Vec<String>, Malformed> {
        let (mut skipper, mut seen) = (Skipper::default(), Vec::new());
        for chunk in chunks {
            skipper.feed(chunk, |reply, count, _| {
                let text = match reply {
                    Reply::Value => "value".to_string(),
                    Reply::Nil => "nil".to_string(),
                    Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
                };
                (0..count).for_each(|_| seen.push(text.clone()));
            })?;
        }
        Ok(seen)
    }

    const STREAM: &[u8] = b"+OK\r\n+OK\r\n+OK\r\n$-1\r\n$5\r\nhe\r\no\r\n:12\r\n*2\r\n$1\r\na\r\n*1\r\n-ERR inside\r\n-ERR no\r\n*-1\r\n*0\r\n_\r\n%1\r\n+a\r\n:1\r\n\
        >2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n|1\r\n+ttl\r\n:5\r\n$2\r\nxx\r\n#t\r\n,1.5\r\n(123\r\n=7\r\ntxt:abc\r\n!4\r\nERR!\r\n~1\r\n+x\r\n$0\r\n\r\n+PONG\r\n";
    const WANTED: &[&str] = &[
        "value",
        "value",
        "value",
        "nil",
        "value",
        "value",
        "value",
        "ERR no",
        "nil",
        "value",
        "nil",
        "value",
        "value",
        "value",
        "value",
        "value",
        "value",
        "(a long error)",
        "value",
        "value",
        "value",
    ];

    #[test]
    fn every_kind_of_reply_is_counted_once() {
        assert_eq!(seen(&[STREAM]).unwrap(), WANTED);
    }

    #[test]
    fn bulk_strings_of_one_length_are_counted_together() {
        let stream =
            b"$3\r\nabc\r\n$3\r\nabd\r\n$3\r\n$3\r\r\n$4\r\nabcd\r\n$0\r\n\r\n$0\r\n\r\n$-1\r\n$100000\r\n";
        let runs = |mut skipper: Skipper| {
            let mut runs = Vec::new();
            skipper.feed(stream, |reply, count, end| runs.push((reply == Reply::Value, count, end))).unwrap();
            runs
        };
        let together = runs(Skipper::default());
        assert_eq!(together[..2], [(true, 3, 27), (true, 1, 37)]);
        assert_eq!(together.last(), Some(&(false, 1, 54)));
        assert_eq!(together.iter().map(|run| run.1).sum::<u32>(), 7);
        assert!(runs(Skipper::singly()).iter().all(|run| run.1 == 1));
        // Only what is whole, and what has a line end where it should.
        assert_eq!(leading_bulks(b"$3\r\nabc\r\n$3\r\nabc\r"), (1, 9));
        assert_eq!(leading_bulks(b"$3\r\nabcd\r\n").0, 0);
        for other in [&b"$-1\r\nxxxxx"[..], b"$123456\r\nx", b"+OK\r\n+OK\r\n", b"$1", b""] {
            assert_eq!(leading_bulks(other).0, 0);
        }
    }

    #[test]
    fn cuts_do_not_matter() {
        for cut in 0..STREAM.len() {
            let (left, right) = STREAM.split_at(cut);
            assert_eq!(seen(&[left, right]).unwrap(), WANTED, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(seen(&bytes).unwrap(), WANTED);
    }

    #[test]
    fn ends_of_replies_are_told() {
        let mut ends = Vec::new();
        Skipper::default().feed(b"+OK\r\n$3\r\nabc\r\n:1\r\n$2", |_, _, end| ends.push(end)).unwrap();
        assert_eq!(ends, [5, 14, 18]);
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in
            [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"\r\n", b"$x\r\n", b"*99999999999999999999\r\n", b"$\r\n"]
        {
            assert!(seen(&[bytes]).is_err(), "{bytes:?}");
        }
        assert!(seen(&[&[b'+'; LINE_BYTES_MAX + 1]]).is_err());
    }

    #[test]
    fn random_bytes_never_panic() {
        let seed = 0x5eed_u64;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        for _ in 0..20_000 {
            let length = rng.range(1..40);
            let bytes: Vec<u8> =
                (0..length).map(|_| b"$*+-:_%|>~!=,#(0123456789\r\n\r\n"[rng.range(0..29)]).collect();
            let _ = seen(&[&bytes[..length / 2], &bytes[length / 2..]]);
        }
    }

    #[test]
    fn contents_of_bulk_strings() {
        assert_eq!(bulk(b"$3\r\nabc\r\n"), Some(&b"abc"[..]));
        assert_eq!(bulk(b"$-1\r\n"), None);
        assert_eq!(bulk(b"+OK\r\n"), None);
        assert_eq!(bulk(b"$9\r\nabc\r\n"), None);
    }
}
