//! A client connection: sends words, reads typed replies of RESP2 and RESP3. Small and strict rather than fast: a malformed reply
//! is an error, so that every test that talks to Darter also checks its framing.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::fail::Result;
use crate::words;

/// How long a reply may take before the test fails.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// Replies nested deeper than this are a broken server.
const DEPTH_MAX: u32 = 32;

/// A reply, with everything that tells it apart on the wire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    /// RESP2's `$-1`.
    NilBulk,
    /// RESP2's `*-1`.
    NilArray,
    /// RESP3's `_`.
    Null,
    Double(String),
    Bool(bool),
    BigNumber(String),
    /// The format (`txt`, `mkd`) and the text.
    Verbatim(String, Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    /// The server closed the connection instead of answering.
    Closed,
    /// A part that a comparison hides, as it renders.
    Masked(&'static str),
}

impl Value {
    /// The bytes of a string of any kind.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(b) | Self::Bulk(b) | Self::Verbatim(_, b) => Some(b),
            _ => None,
        }
    }

    /// A string of any kind as text.
    pub fn text(&self) -> String {
        self.bytes().map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default()
    }

    /// The elements of an array, set or push; a map's keys and values one after another.
    pub fn items(&self) -> Vec<&Self> {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items.iter().collect(),
            Self::Map(pairs) => pairs.iter().flat_map(|(k, v)| [k, v]).collect(),
            _ => Vec::new(),
        }
    }

    /// The value of a field in a map, or in an array of names and values.
    pub fn field(&self, name: &str) -> Option<&Self> {
        let items = self.items();
        items
            .chunks(2)
            .find(|pair| pair[0].text().eq_ignore_ascii_case(name))
            .and_then(|pair| pair.get(1).copied())
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The reply as typed text, as it stands in golden files.
    pub fn render(&self) -> String {
        let mut lines = Vec::new();
        self.render_into(&mut lines);
        lines.join("\n")
    }

    fn render_into(&self, lines: &mut Vec<String>) {
        let text = |bytes: &[u8]| words::quote(bytes);
        lines.push(match self {
            Self::Simple(b) => {
                let quoted = text(b);
                let bare = &quoted[1..quoted.len() - 1];
                let clear = b.first().is_some_and(u8::is_ascii_alphabetic) && bare.as_bytes() == b;
                if clear { bare.to_string() } else { format!("(simple) {quoted}") }
            }
            Self::Error(b) => {
                let quoted = text(b);
                format!("(error) {}", &quoted[1..quoted.len() - 1])
            }
            Self::Integer(n) => format!("(integer) {n}"),
            Self::Bulk(b) => text(b),
            Self::NilBulk => "(nil)".into(),
            Self::NilArray => "(nil array)".into(),
            Self::Null => "(null)".into(),
            Self::Double(d) => format!("(double) {d}"),
            Self::Bool(b) => format!("({b})"),
            Self::BigNumber(n) => format!("(big number) {n}"),
            Self::Verbatim(format, b) => format!("(verbatim {format}) {}", text(b)),
            Self::Closed => "(closed)".into(),
            Self::Masked(text) => (*text).into(),
            Self::Array(items) => return render_items("array", ')', items, lines),
            Self::Set(items) => return render_items("set", '~', items, lines),
            Self::Push(items) => return render_items("push", '>', items, lines),
            Self::Map(pairs) => return render_map(pairs, lines),
        });
    }
}

fn render_items(kind: &str, mark: char, items: &[Value], lines: &mut Vec<String>) {
    if items.is_empty() {
        lines.push(format!("(empty {kind})"));
    }
    let width = items.len().to_string().len();
    for (index, item) in items.iter().enumerate() {
        nest(&format!("{:>width$}{mark} ", index + 1), item, lines);
    }
}

fn render_map(pairs: &[(Value, Value)], lines: &mut Vec<String>) {
    if pairs.is_empty() {
        lines.push("(empty map)".into());
    }
    let width = pairs.len().to_string().len();
    for (index, (key, value)) in pairs.iter().enumerate() {
        nest(&format!("{:>width$}# ", index + 1), key, lines);
        nest(&format!("{:>width$}  => ", ""), value, lines);
    }
}

/// Renders an element with a prefix before its first line and as many blanks before the others.
fn nest(prefix: &str, item: &Value, lines: &mut Vec<String>) {
    let from = lines.len();
    item.render_into(lines);
    let blanks = " ".repeat(prefix.len());
    for (n, line) in lines[from..].iter_mut().enumerate() {
        line.insert_str(0, if n == 0 { prefix } else { &blanks });
    }
}

/// One connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects; both directions time out after [`REPLY_TIMEOUT`].
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect_timeout(&address, REPLY_TIMEOUT).map_err(|e| format!("{address}: {e}"))?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::with_capacity(16 << 10, stream) })
    }

    /// The socket itself, for tests that send what is no command.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Keeps the connection without what reads its replies.
    pub fn into_socket(self) -> TcpStream {
        self.stream.into_inner()
    }

    /// Sends raw bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Sends a command and does not wait for its reply.
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<()> {
        let mut out = Vec::new();
        encode(words, &mut out);
        self.send_raw(&out)
    }

    /// Sends a command and reads its reply.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value> {
        match self.send(words) {
            Err(_) => self.receive_or_closed(),
            Ok(()) => self.receive_or_closed(),
        }
    }

    /// Sends a command written as one line, with the quoting of `redis-cli`, and reads its reply.
    pub fn line(&mut self, line: &str) -> Result<Value> {
        self.call(&words::split(line)?)
    }

    /// The next reply; a closed connection is [`Value::Closed`].
    pub fn receive_or_closed(&mut self) -> Result<Value> {
        match self.stream.fill_buf() {
            Ok([]) => return Ok(Value::Closed),
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return Ok(Value::Closed);
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err("no reply in time".into());
            }
            Err(e) => return Err(e.into()),
            Ok(_) => {}
        }
        self.receive()
    }

    /// The next reply.
    pub fn receive(&mut self) -> Result<Value> {
        read_value(&mut self.stream, DEPTH_MAX)
    }
}

/// Appends a command in the form of an array of bulk strings.
pub fn encode<W: AsRef<[u8]>>(words: &[W], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn read_line(stream: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.len() < 3 || !line.ends_with(b"\r\n") {
        return Err(format!("a reply line that does not end: {}", words::quote(&line)).into());
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

fn read_exactly(stream: &mut impl Read, len: i64) -> Result<Vec<u8>> {
    let len = usize::try_from(len)?;
    let mut bytes = vec![0; len + 2];
    stream.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") {
        return Err("a bulk string without its line end".into());
    }
    bytes.truncate(len);
    Ok(bytes)
}

fn read_value(stream: &mut impl BufRead, depth: u32) -> Result<Value> {
    let line = read_line(stream)?;
    let (kind, rest) = (line[0], &line[1..]);
    let text = || String::from_utf8_lossy(rest).into_owned();
    let number =
        || text().parse::<i64>().map_err(|_| format!("not a number in a reply: {}", words::quote(&line)));
    Ok(match kind {
        b'+' => Value::Simple(rest.to_vec()),
        b'-' => Value::Error(rest.to_vec()),
        b':' => Value::Integer(number()?),
        b'$' if rest == b"-1" => Value::NilBulk,
        b'*' if rest == b"-1" => Value::NilArray,
        b'$' => Value::Bulk(read_exactly(stream, number()?)?),
        b'_' => Value::Null,
        b',' => Value::Double(text()),
        b'#' if rest == b"t" || rest == b"f" => Value::Bool(rest == b"t"),
        b'(' => Value::BigNumber(text()),
        b'=' => {
            let bytes = read_exactly(stream, number()?)?;
            let (format, body) = bytes.split_at_checked(4).ok_or("a verbatim string without its format")?;
            Value::Verbatim(String::from_utf8_lossy(&format[..3]).into_owned(), body.to_vec())
        }
        b'*' | b'~' | b'>' | b'%' => read_aggregate(stream, kind, number()?, depth)?,
        _ => return Err(format!("not a reply: {}", words::quote(&line)).into()),
    })
}

fn read_aggregate(stream: &mut impl BufRead, kind: u8, count: i64, depth: u32) -> Result<Value> {
    let depth = depth.checked_sub(1).ok_or("a reply is nested too deep")?;
    let count = usize::try_from(count)?;
    if kind == b'%' {
        let pair = |stream: &mut _| Ok((read_value(stream, depth)?, read_value(stream, depth)?));
        return (0..count).map(|_| pair(stream)).collect::<Result<_>>().map(Value::Map);
    }
    let items = (0..count).map(|_| read_value(stream, depth)).collect::<Result<Vec<_>>>()?;
    Ok(match kind {
        b'~' => Value::Set(items),
        b'>' => Value::Push(items),
        _ => Value::Array(items),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(wire: &str) -> String {
        read_value(&mut wire.as_bytes(), DEPTH_MAX).unwrap().render()
    }

    #[test]
    fn every_type_renders_differently() {
        assert_eq!(rendered("+OK\r\n"), "OK");
        assert_eq!(rendered("+(nil)\r\n"), "(simple) \"(nil)\"");
        assert_eq!(rendered("-ERR no\r\n"), "(error) ERR no");
        assert_eq!(rendered("$2\r\na\n\r\n"), "\"a\\n\"");
        assert_eq!(rendered("*-1\r\n"), "(nil array)");
        assert_eq!(rendered("$-1\r\n"), "(nil)");
        assert_eq!(rendered("_\r\n"), "(null)");
        assert_eq!(rendered("*0\r\n"), "(empty array)");
        assert_eq!(rendered("*2\r\n:1\r\n*1\r\n+a\r\n"), "1) (integer) 1\n2) 1) a");
        assert_eq!(rendered("%1\r\n+a\r\n~2\r\n:1\r\n#t\r\n"), "1# a\n   => 1~ (integer) 1\n      2~ (true)");
        assert_eq!(rendered("=6\r\ntxt:ab\r\n"), "(verbatim txt) \"ab\"");
    }

    #[test]
    fn a_broken_frame_is_an_error() {
        for wire in ["$3\r\nab\r\n", "?1\r\n", ":x\r\n", "+OK\n", "*-2\r\n", "#x\r\n", "$2\r\nabcd"] {
            assert!(read_value(&mut wire.as_bytes(), DEPTH_MAX).is_err(), "{wire:?}");
        }
    }
}
