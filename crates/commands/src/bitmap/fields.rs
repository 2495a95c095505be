//! BITFIELD: integers of any width at any bit.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{IntText, StringRef};
use shard::notify::Class;
use stdx::num::parse_i64;
use types::bits::{self, FieldType, Overflow};

use super::{OFFSET, offset, within};
use crate::text::{string, string_or_empty};

const INVALID_TYPE: CommandError = CommandError::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
const INVALID_OVERFLOW: CommandError = CommandError::fixed("ERR Invalid OVERFLOW type specified");
const ONLY_GET: CommandError = CommandError::fixed("ERR BITFIELD_RO only supports the GET subcommand");

/// What is done to a field.
#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

#[derive(Clone, Copy)]
struct Operation {
    action: Action,
    field: FieldType,
    /// The field's first bit.
    at: usize,
    overflow: Overflow,
}

/// What became of an operation.
struct Outcome {
    reply: Option<i64>,
    /// What the field holds from now on, if it is another integer than before.
    new: Option<i64>,
}

impl Operation {
    /// The number of bytes that the string must have for this operation.
    fn bytes_needed(&self) -> usize {
        match self.action {
            Action::Get => 0,
            Action::Set(_) | Action::Increment(_) => bits::bytes_for(self.at + self.field.width() as usize),
        }
    }

    fn outcome(&self, bytes: &[u8]) -> Outcome {
        let old = self.field.read(bytes, self.at);
        let new = match self.action {
            Action::Get => return Outcome { reply: Some(old), new: None },
            Action::Set(value) => self.field.fit(value, self.overflow),
            Action::Increment(by) => self.field.sum(old, by, self.overflow),
        };
        let reply = new.map(|new| if matches!(self.action, Action::Set(_)) { old } else { new });
        Outcome { reply, new: new.filter(|new| *new != old) }
    }
}

/// `BITFIELD key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | INCRBY encoding offset increment] ...`
pub(super) fn bitfield(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let operations = parse(cx, args)?;
    let bytes_needed = operations.iter().map(Operation::bytes_needed).max().unwrap_or(0);
    if bytes_needed == 0 {
        return read(cx, args, &operations, reply);
    }
    let key = cx.key(args, 1);
    let string = string_or_empty(cx.find(key))?;
    let len = string.len();
    // Up to the first operation that changes something the string is as it was, so looking at it tells whether there is one.
    let unchanged = bytes_needed <= len && {
        let mut text = IntText::default();
        let bytes = string.to_bytes(&mut text);
        operations.iter().all(|operation| operation.outcome(bytes).new.is_none())
    };
    if unchanged {
        reply_to_all(&operations, string, reply);
        cx.keyspace(key).make_raw(key);
        return Ok(Effect::None);
    }
    let access = cx.access_new();
    let bytes = cx.keyspace(key).string_resize(key, len.max(bytes_needed), access);
    reply.array(operations.len());
    for operation in &operations {
        let outcome = operation.outcome(bytes);
        if let Some(new) = outcome.new {
            operation.field.write(bytes, operation.at, new);
        }
        reply_to_one(&outcome, reply);
    }
    cx.notify(Class::STRING, "setbit", key);
    Ok(Effect::AsIs)
}

/// `BITFIELD_RO key [GET encoding offset ...]`
pub(super) fn bitfield_ro(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let operations = parse(cx, args)?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(ONLY_GET);
    }
    read(cx, args, &operations, reply)
}

fn read(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    operations: &[Operation],
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let entry = cx.read(cx.key(args, 1));
    let string = entry.map_or(Ok(StringRef::Bytes(b"")), string)?;
    reply_to_all(operations, string, reply);
    Ok(Effect::None)
}

fn reply_to_all(operations: &[Operation], string: StringRef<'_>, reply: &mut Reply) {
    let mut text = IntText::default();
    let bytes = string.to_bytes(&mut text);
    reply.array(operations.len());
    operations.iter().for_each(|operation| reply_to_one(&operation.outcome(bytes), reply));
}

fn reply_to_one(outcome: &Outcome, reply: &mut Reply) {
    match outcome.reply {
        Some(integer) => reply.int(integer),
        None => reply.null(),
    }
}

fn parse(cx: &Exec<'_>, args: Args<'_>) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < args.len() {
        let is = |name: &[u8], words: usize| args[at].eq_ignore_ascii_case(name) && at + words < args.len();
        let (writes, words) = match () {
            () if is(b"GET", 2) => (None, 3),
            () if is(b"SET", 3) => (Some(Action::Set as fn(i64) -> Action), 4),
            () if is(b"INCRBY", 3) => (Some(Action::Increment as fn(i64) -> Action), 4),
            () if is(b"OVERFLOW", 1) => {
                overflow = overflow_named(&args[at + 1])?;
                at += 2;
                continue;
            }
            () => return Err(CommandError::SYNTAX),
        };
        let field = field_type(&args[at + 1])?;
        let bit = field_offset(cx, &args[at + 2], field)?;
        let action = match writes {
            None => Action::Get,
            Some(action) => action(parse_i64(&args[at + 3]).ok_or(CommandError::NOT_AN_INTEGER)?),
        };
        operations.push(Operation { action, field, at: bit, overflow });
        at += words;
    }
    Ok(operations)
}

fn overflow_named(word: &[u8]) -> Result<Overflow, CommandError> {
    Ok(match word.to_ascii_uppercase().as_slice() {
        b"WRAP" => Overflow::Wrap,
        b"SAT" => Overflow::Saturate,
        b"FAIL" => Overflow::Fail,
        _ => return Err(INVALID_OVERFLOW),
    })
}

/// `i` or `u` and a number of bits.
fn field_type(word: &[u8]) -> Result<FieldType, CommandError> {
    let (signed, width) = match word {
        [b'i', width @ ..] => (true, width),
        [b'u', width @ ..] => (false, width),
        _ => return Err(INVALID_TYPE),
    };
    let width = parse_i64(width).and_then(|width| u32::try_from(width).ok());
    width.and_then(|width| FieldType::new(signed, width)).ok_or(INVALID_TYPE)
}

/// The first bit of a field; `#` counts in fields of this type.
fn field_offset(cx: &Exec<'_>, word: &[u8], field: FieldType) -> Result<usize, CommandError> {
    let Some(number) = word.strip_prefix(b"#") else { return offset(cx, word) };
    let at = parse_i64(number).and_then(|number| number.checked_mul(i64::from(field.width())));
    at.and_then(|at| within(cx, at)).ok_or(OFFSET)
}
