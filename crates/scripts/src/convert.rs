//! Between replies and Lua's values, as scripts know it.
//!
//! | RESP | Lua |
//! |---|---|
//! | integer, bulk string | number, string |
//! | status, error | `{ok=..}`, `{err=..}` |
//! | array | table from 1 on |
//! | null of RESP2, of RESP3 | false, nil |
//! | boolean | boolean |
//! | double, big number | `{double=..}`, `{big_number=..}` |
//! | verbatim string | `{verbatim_string={string=.., format=..}}` |
//! | map, set | `{map={..}}`, `{set={element=true, ..}}` |
//!
//! And back; a number loses its fraction, `true` is 1 and `false` null unless the script speaks RESP3, an array ends before
//! its first nil.
//!
//! HOT: GET's reply becomes a value with one allocation, in Lua.

use resp::{Deferred, Proto, Reply, SharedBytes};
use stdx::num::{parse_f64, parse_i64};

use crate::stack::{Fail, Kind, Stack};

/// Aggregates in aggregates: no command answers nearly as deep.
const DEPTH_MAX: usize = 64;

/// The reply to a command, while it is read.
struct Reader<'r> {
    bytes: &'r [u8],
    at: usize,
    shared: &'r [(usize, SharedBytes)],
}

/// What a command's reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// A value.
    Value,
    /// An error as a table; `redis.call` raises it.
    Error,
}

/// Pushes the value of the one reply in `reply`.
pub(crate) fn push_reply(stack: &mut Stack<'_>, reply: &Reply) -> Result<Pushed, Fail> {
    let mut reader = Reader { bytes: &reply.bytes, at: 0, shared: &reply.shared };
    if reply.bytes.first() == Some(&b'-') {
        let line = reader.line();
        push_error(stack, &line[1..], true)?;
        return Ok(Pushed::Error);
    }
    reader.push(stack, DEPTH_MAX)?;
    Ok(Pushed::Value)
}

/// Pushes `{err=..}`. `line` is an error with its code in front, or "-" and such, or only a description.
pub(crate) fn push_error(stack: &mut Stack<'_>, line: &[u8], coded: bool) -> Result<(), Fail> {
    let end = line.len() - line.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let text = &line[..end];
    stack.push_table(0, 2)?;
    if coded && text.contains(&b' ') {
        stack.push_string(text)?;
    } else {
        stack.push_string(&[b"ERR ", text].concat())?;
    }
    stack.set_field(-2, "err");
    stack.push_bool(true);
    stack.set_field(-2, "ignore_error_stats_update");
    Ok(())
}

impl<'r> Reader<'r> {
    /// The bytes up to the next line end, which is skipped.
    fn line(&mut self) -> &'r [u8] {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|byte| *byte == b'\r').expect("a reply's lines end");
        self.at += len + 2;
        &rest[..len]
    }

    /// The value that a header counts, or the next one if it is kept elsewhere.
    fn counted(&mut self, len: usize) -> &'r [u8] {
        if let Some(((at, value), others)) = self.shared.split_first()
            && *at == self.at
        {
            self.shared = others;
            self.at += 2;
            return (**value).as_ref();
        }
        let start = self.at;
        self.at += len + 2;
        &self.bytes[start..start + len]
    }

    fn push(&mut self, stack: &mut Stack<'_>, depth: usize) -> Result<(), Fail> {
        let line = self.line();
        let (sigil, text) = line.split_first().expect("a reply begins with its type");
        let number = || parse_i64(text).expect("a count or an integer");
        match sigil {
            b':' => stack.push_number(number() as f64),
            b'$' if text == b"-1" => stack.push_bool(false),
            b'*' if text == b"-1" => stack.push_bool(false),
            b'$' => {
                let value = self.counted(number() as usize);
                stack.push_string(value)?;
            }
            b'+' => push_field(stack, "ok", |stack| stack.push_string(text))?,
            b'-' => push_field(stack, "err", |stack| stack.push_string(text))?,
            b'_' => stack.push_nil(),
            b'#' => stack.push_bool(text == b"t"),
            b',' => push_field(stack, "double", |stack| {
                stack.push_number(parse_f64(text).unwrap_or(f64::NAN));
                Ok(())
            })?,
            b'(' => push_field(stack, "big_number", |stack| stack.push_string(text))?,
            b'=' => {
                let value = self.counted(number() as usize);
                let (format, value) = value.split_at(4.min(value.len()));
                push_field(stack, "verbatim_string", |stack| {
                    stack.push_table(0, 2)?;
                    stack.push_string(value)?;
                    stack.set_field(-2, "string");
                    stack.push_string(&format[..3.min(format.len())])?;
                    stack.set_field(-2, "format");
                    Ok(())
                })?;
            }
            b'*' | b'>' | b'%' | b'~' => self.push_aggregate(stack, *sigil, number() as usize, depth)?,
            _ => unreachable!("no reply begins with {sigil}"),
        }
        Ok(())
    }

    fn push_aggregate(
        &mut self,
        stack: &mut Stack<'_>,
        sigil: u8,
        count: usize,
        depth: usize,
    ) -> Result<(), Fail> {
        if depth == 0 || !stack.reserve(8) {
            return Err(Fail::text("reply is nested too deeply"));
        }
        match sigil {
            b'%' => push_field(stack, "map", |stack| {
                stack.push_table(0, count)?;
                for _ in 0..count {
                    self.push(stack, depth - 1)?;
                    self.push(stack, depth - 1)?;
                    stack.set(-3);
                }
                Ok(())
            }),
            b'~' => push_field(stack, "set", |stack| {
                stack.push_table(0, count)?;
                for _ in 0..count {
                    self.push(stack, depth - 1)?;
                    stack.push_bool(true);
                    stack.set(-3);
                }
                Ok(())
            }),
            _ => {
                stack.push_table(count, 0)?;
                for index in 1..=count {
                    self.push(stack, depth - 1)?;
                    stack.set_index(-2, index as i32);
                }
                Ok(())
            }
        }
    }
}

/// Pushes `{name=..}` with the value that `push` pushes.
fn push_field<'s>(
    stack: &mut Stack<'s>,
    name: &str,
    push: impl FnOnce(&mut Stack<'s>) -> Result<(), Fail>,
) -> Result<(), Fail> {
    stack.push_table(0, 1)?;
    push(stack)?;
    stack.set_field(-2, name);
    Ok(())
}

/// A table that is being answered. It lies on the stack, then, for a map or set, the key it has come to.
enum Open {
    /// The index of the next element.
    Array(Deferred, i32),
    /// Pairs so far, and whether the value of the present key is still to come, on top of the stack.
    Map(Deferred, usize, bool),
    /// Elements so far.
    Set(Deferred, usize),
}

/// Answers the value on top of the stack, and pops it. `proto` is the script's dialect, `reply` has the client's.
pub(crate) fn write_value(stack: &mut Stack<'_>, proto: Proto, reply: &mut Reply) {
    let mut open = Vec::new();
    write_one(stack, proto, reply, &mut open);
    while let Some(table) = open.pop() {
        match table {
            Open::Array(head, index) => {
                stack.get_index(-1, index);
                if stack.kind(-1) == Kind::Nil {
                    stack.drop_top(2);
                    reply.finish_array(head, index as usize - 1);
                } else {
                    open.push(Open::Array(head, index + 1));
                    write_one(stack, proto, reply, &mut open);
                }
            }
            Open::Map(head, pairs, true) => {
                open.push(Open::Map(head, pairs + 1, false));
                write_one(stack, proto, reply, &mut open);
            }
            Open::Map(head, pairs, false) => {
                if stack.next(-2) {
                    open.push(Open::Map(head, pairs, true));
                    stack.push_copy(-2);
                    write_one(stack, proto, reply, &mut open);
                } else {
                    stack.drop_top(1);
                    reply.finish_map(head, pairs);
                }
            }
            Open::Set(head, count) => {
                if stack.next(-2) {
                    stack.drop_top(1);
                    stack.push_copy(-1);
                    open.push(Open::Set(head, count + 1));
                    write_one(stack, proto, reply, &mut open);
                } else {
                    stack.drop_top(1);
                    reply.finish_set(head, count);
                }
            }
        }
    }
}

/// Answers the value on top of the stack. It is popped, unless it is a table to go through: that one is opened.
fn write_one(stack: &mut Stack<'_>, proto: Proto, reply: &mut Reply, open: &mut Vec<Open>) {
    match stack.kind(-1) {
        Kind::Number => reply.int(to_integer(stack.number(-1).unwrap_or_default())),
        Kind::String => reply.bulk(stack.string(-1).unwrap_or_default()),
        Kind::Bool if proto == Proto::Resp3 => {
            // A client that speaks RESP2 gets 1 and 0.
            reply.bool(stack.truth(-1));
        }
        Kind::Bool if stack.truth(-1) => reply.int(1),
        Kind::Table => return write_table(stack, reply, open),
        _ => reply.null(),
    }
    stack.drop_top(1);
}

/// As a C cast on the machines that scripts know: what does not fit is the smallest integer.
fn to_integer(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

fn write_table(stack: &mut Stack<'_>, reply: &mut Reply, open: &mut Vec<Open>) {
    if !stack.reserve(8) {
        stack.drop_top(1);
        return reply.error("ERR reached lua stack limit");
    }
    // A field is pushed, looked at, and popped again if it is not the one.
    let field = |stack: &mut Stack<'_>, name: &str, kind: Kind| {
        stack.get_field(-1, name);
        let found = stack.kind(-1) == kind;
        if !found {
            stack.drop_top(1);
        }
        found
    };
    if field(stack, "err", Kind::String) {
        write_error(reply, stack.string(-1).unwrap_or_default());
    } else if field(stack, "ok", Kind::String) {
        let text = stack.string(-1).unwrap_or_default();
        write_line(reply, b'+', text);
    } else if field(stack, "double", Kind::Number) {
        reply.double(stack.number(-1).unwrap_or_default());
    } else if field(stack, "big_number", Kind::String) {
        let digits = one_line(stack.string(-1).unwrap_or_default());
        if reply.proto == Proto::Resp3 { write_line(reply, b'(', &digits) } else { reply.bulk(&digits) }
    } else if field(stack, "verbatim_string", Kind::Table) {
        if write_verbatim(stack, reply) {
            return;
        }
        open.push(Open::Array(reply.defer_array(), 1));
        return;
    } else if field(stack, "map", Kind::Table) {
        stack.remove(-2);
        stack.push_nil();
        open.push(Open::Map(reply.defer_array(), 0, false));
        return;
    } else if field(stack, "set", Kind::Table) {
        stack.remove(-2);
        stack.push_nil();
        open.push(Open::Set(reply.defer_array(), 0));
        return;
    } else {
        open.push(Open::Array(reply.defer_array(), 1));
        return;
    }
    stack.drop_top(2);
}

/// Answers `{string=.., format=..}` on top and pops it with the table around it; false, with only itself gone, if it is not
/// made like that.
fn write_verbatim(stack: &mut Stack<'_>, reply: &mut Reply) -> bool {
    stack.get_field(-1, "format");
    stack.get_field(-2, "string");
    let parts = (stack.string(-2), stack.string(-1));
    let (Some(format), Some(text)) = parts else {
        stack.drop_top(3);
        return false;
    };
    let letter = |at: usize| format.get(at).copied().unwrap_or(b' ');
    if reply.proto == Proto::Resp3 {
        let head = [letter(0), letter(1), letter(2), b':'];
        reply.bytes.extend_from_slice(format!("={}\r\n", text.len() + 4).as_bytes());
        reply.bytes.extend_from_slice(&head);
        reply.bytes.extend_from_slice(text);
        reply.bytes.extend_from_slice(b"\r\n");
    } else {
        reply.bulk(text);
    }
    stack.drop_top(4);
    true
}

/// Line ends would end the reply.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

fn write_line(reply: &mut Reply, sigil: u8, text: &[u8]) {
    reply.bytes.push(sigil);
    reply.bytes.extend(one_line(text));
    reply.bytes.extend_from_slice(b"\r\n");
}

/// An error of any bytes, as it is.
pub(crate) fn write_error(reply: &mut Reply, text: &[u8]) {
    write_line(reply, b'-', text);
    reply.errors += 1;
}
