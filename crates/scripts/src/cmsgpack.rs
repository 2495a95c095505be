//! The library `cmsgpack`: Lua's values as MessagePack and back.
//!
//! Strings are raw bytes; MessagePack's bin, ext and timestamp formats are not read, as in Valkey. Whole numbers are packed as integers, others as
//! 4 bytes where that loses nothing.

use std::borrow::Cow;

use crate::stack::{Fail, Kind, Results, Stack};
use crate::state::State;

/// Tables within tables deeper than this are packed as nil.
const NESTING_MAX: usize = 16;
/// Arrays and maps within others deeper than this are refused: reading them takes the thread's stack. Lua's stack sets Valkey a limit of thousands.
const NESTING_READ_MAX: usize = 1000;
/// A packed value never takes more than its length beyond 9 bytes of format and number.
const HEADER_BYTES_MAX: usize = 9;

/// Pushes the table.
pub(crate) fn push(state: &mut State) {
    let mut stack = state.stack();
    stack.push_table(0, 8).expect("a new state is far from its limit");
    stack.push_function(pack);
    stack.set_field(-2, "pack");
    stack.push_function(|stack: &mut Stack<'_>| unpack(stack, 0, 0));
    stack.set_field(-2, "unpack");
    stack.push_function(|stack: &mut Stack<'_>| {
        let offset = optional_integer(stack, 2)?;
        unpack(stack, 1, offset)
    });
    stack.set_field(-2, "unpack_one");
    stack.push_function(|stack: &mut Stack<'_>| {
        let limit = stack.number_argument(2)? as i64;
        let offset = optional_integer(stack, 3)?;
        unpack(stack, limit, offset)
    });
    stack.set_field(-2, "unpack_limit");
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_DESCRIPTION", "MessagePack for Lua scripts"),
    ] {
        stack.push_short(text.as_bytes());
        stack.set_field(-2, name);
    }
}

/// An integer, 0 where the argument is not there.
fn optional_integer(stack: &mut Stack<'_>, at: i32) -> Result<i64, Fail> {
    match stack.kind(at) {
        Kind::None | Kind::Nil => Ok(0),
        _ => Ok(stack.number_argument(at)? as i64),
    }
}

/// All arguments, packed one after another.
fn pack(stack: &mut Stack<'_>) -> Results {
    let count = stack.top();
    if count == 0 {
        return Err(Fail::Argument(0, Cow::Borrowed(b"MessagePack pack needs input.")));
    }
    let mut out = Vec::new();
    for at in 1..=count {
        if !stack.reserve(1) {
            return Err(Fail::text("stack overflow (in function mp_check)"));
        }
        stack.push_copy(at);
        pack_top(stack, &mut out, 0)?;
    }
    stack.push_string(&out)?;
    Ok(1)
}

/// Packs the value on top of the stack, and drops it.
fn pack_top(stack: &mut Stack<'_>, out: &mut Vec<u8>, level: usize) -> Result<(), Fail> {
    match stack.kind(-1) {
        Kind::String => {
            let text = stack.string(-1).expect("the kind says so");
            stack.room_for(out.len() + text.len() + HEADER_BYTES_MAX)?;
            pack_length(out, text.len(), 0xa0, 32, Some(0xd9), 0xda, 0xdb);
            out.extend_from_slice(text);
        }
        Kind::Bool => out.push(0xc2 + u8::from(stack.truth(-1))),
        Kind::Number => pack_number(out, stack.number(-1).expect("the kind says so")),
        Kind::Table if level < NESTING_MAX => {
            stack.room_for(out.len() + HEADER_BYTES_MAX)?;
            pack_table(stack, out, level + 1)?;
        }
        _ => out.push(0xc0),
    }
    stack.drop_top(1);
    Ok(())
}

/// Format and length of what has one: in the low bits of `fixed` below `fixed_end`, else behind a format of its own in 1, 2 or 4 bytes.
fn pack_length(
    out: &mut Vec<u8>,
    len: usize,
    fixed: u8,
    fixed_end: usize,
    one: Option<u8>,
    two: u8,
    four: u8,
) {
    match (len, one) {
        (_, _) if len < fixed_end => out.push(fixed | len as u8),
        (0..=0xff, Some(one)) => out.extend([one, len as u8]),
        (0..=0xffff, _) => {
            out.push(two);
            out.extend((len as u16).to_be_bytes());
        }
        _ => {
            out.push(four);
            out.extend((len as u32).to_be_bytes());
        }
    }
}

fn pack_number(out: &mut Vec<u8>, number: f64) {
    // The upper end itself is no i64; a conversion would saturate and look equal.
    let whole = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    let integer = number as i64;
    if whole && integer as f64 == number {
        return pack_integer(out, integer);
    }
    if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend((number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(number.to_be_bytes());
    }
}

/// In the shortest format that holds it.
fn pack_integer(out: &mut Vec<u8>, integer: i64) {
    match integer {
        -32..=127 => out.push(integer as u8),
        128..=0xff => out.extend([0xcc, integer as u8]),
        -128..=-33 => out.extend([0xd0, integer as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((integer as u16).to_be_bytes());
        }
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend((integer as i16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((integer as u32).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend((integer as i32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend(integer.to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend(integer.to_be_bytes());
        }
    }
}

/// The table on top of the stack, which stays there: an array where its keys are 1 to their number, else a map.
fn pack_table(stack: &mut Stack<'_>, out: &mut Vec<u8>, level: usize) -> Result<(), Fail> {
    if !stack.reserve(4) {
        return Err(Fail::text("stack overflow (in function mp_encode_lua_table)"));
    }
    let table = stack.top();
    let (fields, is_array) = shape(stack, table);
    if is_array {
        pack_length(out, fields, 0x90, 16, None, 0xdc, 0xdd);
        for index in 1..=fields {
            stack.get_index(table, index as i32);
            pack_top(stack, out, level)?;
        }
        return Ok(());
    }
    pack_length(out, fields, 0x80, 16, None, 0xde, 0xdf);
    stack.push_nil();
    while stack.next(table) {
        stack.push_copy(-2);
        pack_top(stack, out, level)?;
        pack_top(stack, out, level)?;
    }
    Ok(())
}

/// How many fields a table has, and whether they are the elements of an array without gaps.
fn shape(stack: &mut Stack<'_>, table: i32) -> (usize, bool) {
    let (mut count, mut largest, mut positive) = (0_usize, 0.0_f64, true);
    stack.push_nil();
    while stack.next(table) {
        stack.drop_top(1);
        count += 1;
        // A string that reads as a number is a name.
        match stack.number(-1).filter(|_| stack.kind(-1) == Kind::Number) {
            Some(key) if key > 0.0 && key.fract() == 0.0 => largest = largest.max(key),
            _ => positive = false,
        }
    }
    (count, positive && largest == count as f64)
}

/// What is left of the input.
struct Input<'s> {
    bytes: &'s [u8],
}

impl<'s> Input<'s> {
    fn take(&mut self, count: usize) -> Result<&'s [u8], Fail> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(MISSING)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// An unsigned number of so many bytes, at most 8.
    fn unsigned(&mut self, count: usize) -> Result<u64, Fail> {
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A signed number of so many bytes, at most 8.
    fn signed(&mut self, count: usize) -> Result<i64, Fail> {
        let unused = 64 - 8 * count as u32;
        Ok((self.unsigned(count)? << unused) as i64 >> unused)
    }
}

const MISSING: Fail = Fail::Text(Cow::Borrowed(b"Missing bytes in input."));

/// Pushes values out of the string that is argument 1, from `offset` on and at most `limit` of them, below them where to go on (-1: nothing is left).
/// With neither limit nor offset: all values, and nothing else.
fn unpack(stack: &mut Stack<'_>, limit: i64, offset: i64) -> Results {
    let bytes = stack.text_argument(1)?;
    let len = bytes.len();
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(Fail::Text(text.into_bytes().into()));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else {
        let text = format!("Start offset {offset} greater than input length {len}.");
        return Err(Fail::Text(text.into_bytes().into()));
    };
    let all = limit == 0 && offset == 0;
    let before = stack.top();
    let mut input = Input { bytes: rest };
    let mut count = 0;
    while !input.bytes.is_empty() && (all || count < limit) {
        unpack_one(stack, &mut input, 0)?;
        count += 1;
    }
    if !all {
        reserve(stack, 1, MANY)?;
        let next = if input.bytes.is_empty() { -1.0 } else { (len - input.bytes.len()) as f64 };
        stack.push_number(next);
        stack.insert(before + 1);
    }
    Ok(stack.top() - before)
}

const MANY: &str = "too many return values at once; use unpack_one or unpack_limit instead.";

fn reserve(stack: &mut Stack<'_>, more: i32, what: &str) -> Result<(), Fail> {
    // Lua's own functions want some room left, too.
    let has_room = stack.reserve(more + 20);
    has_room.then_some(()).ok_or_else(|| Fail::Text(format!("stack overflow ({what})").into_bytes().into()))
}

/// Pushes the next value, which lies within `level` others.
fn unpack_one(stack: &mut Stack<'_>, input: &mut Input<'_>, level: usize) -> Result<(), Fail> {
    if level > NESTING_READ_MAX {
        return Err(Fail::text("stack overflow (in function mp_decode_to_lua_array)"));
    }
    reserve(stack, 1, MANY)?;
    let format = input.unsigned(1)? as u8;
    match format {
        0x00..=0x7f | 0xe0..=0xff => stack.push_number(f64::from(format as i8)),
        0xc0 => stack.push_nil(),
        0xc2 | 0xc3 => stack.push_bool(format == 0xc3),
        0xca => {
            let bits = input.unsigned(4)? as u32;
            stack.push_number(f64::from(f32::from_bits(bits)));
        }
        0xcb => {
            let bits = input.unsigned(8)?;
            stack.push_number(f64::from_bits(bits));
        }
        // The largest are negative in Valkey, too, which keeps them in signed integers.
        0xcc..=0xcf => stack.push_number(input.unsigned(1 << (format - 0xcc))? as i64 as f64),
        0xd0..=0xd3 => stack.push_number(input.signed(1 << (format - 0xd0))? as f64),
        0xa0..=0xbf => stack.push_string(input.take(usize::from(format & 31))?)?,
        0xd9..=0xdb => {
            let len = input.unsigned(1 << (format - 0xd9))? as usize;
            stack.push_string(input.take(len)?)?;
        }
        0x90..=0x9f => unpack_array(stack, input, u64::from(format & 15), level + 1)?,
        0xdc | 0xdd => {
            let count = input.unsigned(2 << (format - 0xdc))?;
            unpack_array(stack, input, count, level + 1)?;
        }
        0x80..=0x8f => unpack_map(stack, input, u64::from(format & 15), level + 1)?,
        0xde | 0xdf => {
            let count = input.unsigned(2 << (format - 0xde))?;
            unpack_map(stack, input, count, level + 1)?;
        }
        _ => return Err(Fail::text("Bad data format in input.")),
    }
    Ok(())
}

/// Pushes an array. What its length claims is believed only as far as there is input: an element takes at least a byte.
fn unpack_array(stack: &mut Stack<'_>, input: &mut Input<'_>, count: u64, level: usize) -> Result<(), Fail> {
    reserve(stack, 2, "in function mp_decode_to_lua_array")?;
    stack.push_table((count as usize).min(input.bytes.len()), 0)?;
    let table = stack.top();
    for index in 1..=count {
        unpack_one(stack, input, level)?;
        stack.room_for(16)?;
        stack.set_index(table, index as i32);
    }
    Ok(())
}

/// Pushes a map.
fn unpack_map(stack: &mut Stack<'_>, input: &mut Input<'_>, count: u64, level: usize) -> Result<(), Fail> {
    reserve(stack, 3, MANY)?;
    stack.push_table(0, (count as usize).min(input.bytes.len() / 2))?;
    let table = stack.top();
    for _ in 0..count {
        unpack_one(stack, input, level)?;
        unpack_one(stack, input, level)?;
        stack.room_for(40)?;
        let nothing = stack.kind(-2) == Kind::Nil;
        if !stack.set(table) {
            let text: &[u8] = if nothing { b"table index is nil" } else { b"table index is NaN" };
            return Err(Fail::Bare(Cow::Borrowed(text)));
        }
    }
    Ok(())
}
