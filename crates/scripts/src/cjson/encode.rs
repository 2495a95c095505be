//! `cjson.encode`: a table whose keys are all positive integers is an array, unless it has too many holes.

use std::ffi::c_int;

use super::{Invalid, Settings, arguments, settings};
use crate::number::format_general;
use crate::stack::{Fail, Kind, Results, Stack};

pub(crate) fn encode(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(Fail::Argument(1, b"expected 1 argument".into()));
    }
    arguments(stack, 1)?;
    let own = *settings(stack);
    let mut out = Vec::new();
    append(stack, &own, 0, &mut out)?;
    stack.push_string(&out)?;
    Ok(1)
}

fn refuse(kind: Kind, why: &str) -> Fail {
    Fail::Text(format!("Cannot serialise {}: {why}", kind.name()).into_bytes().into())
}

/// Appends the value on top of the stack, which stays there.
fn append(stack: &mut Stack<'_>, own: &Settings, depth: i32, out: &mut Vec<u8>) -> Result<(), Fail> {
    match stack.kind(-1) {
        Kind::String => append_string(stack.string(-1).unwrap_or_default(), out),
        Kind::Number => append_number(stack.number(-1).unwrap_or_default(), own, out)?,
        Kind::Bool => out.extend_from_slice(if stack.truth(-1) { b"true" } else { b"false" }),
        Kind::Nil => out.extend_from_slice(b"null"),
        Kind::Light if stack.light(-1) == Some(0) => out.extend_from_slice(b"null"),
        Kind::Table => {
            let depth = depth + 1;
            if depth > own.encode_depth_max || !stack.reserve(8) {
                let text = format!("Cannot serialise, excessive nesting ({depth})");
                return Err(Fail::Text(text.into_bytes().into()));
            }
            // The text must fit into the limit as a string in the end; checked here, it cannot grow far beyond.
            stack.room_for(out.len())?;
            match array_len(stack, own)? {
                Some(len) => append_array(stack, own, depth, len, out)?,
                None => append_object(stack, own, depth, out)?,
            }
        }
        kind => return Err(refuse(kind, "type not supported")),
    }
    Ok(())
}

/// The highest index, if the table on top is an array with at least one element.
fn array_len(stack: &mut Stack<'_>, own: &Settings) -> Result<Option<c_int>, Fail> {
    let (mut max, mut items) = (0.0_f64, 0_u32);
    stack.push_nil();
    while stack.next(-2) {
        let index = if stack.kind(-2) == Kind::Number { stack.number(-2) } else { None };
        let Some(index) =
            index.filter(|index| (1.0..=f64::from(c_int::MAX)).contains(index) && index.floor() == *index)
        else {
            stack.drop_top(2);
            return Ok(None);
        };
        max = max.max(index);
        items += 1;
        stack.drop_top(1);
    }
    let (ratio, safe) = (f64::from(own.sparse_ratio), f64::from(own.sparse_safe));
    if ratio > 0.0 && max > f64::from(items) * ratio && max > safe {
        if own.sparse_convert {
            return Ok(None);
        }
        return Err(refuse(Kind::Table, "excessively sparse array"));
    }
    Ok((items > 0).then_some(max as c_int))
}

fn append_array(
    stack: &mut Stack<'_>,
    own: &Settings,
    depth: i32,
    len: c_int,
    out: &mut Vec<u8>,
) -> Result<(), Fail> {
    out.push(b'[');
    for index in 1..=len {
        if index > 1 {
            out.push(b',');
        }
        // Holes cost nothing in the table, but five bytes each here.
        if index % 65_536 == 0 {
            stack.room_for(out.len())?;
        }
        stack.get_index(-1, index);
        append(stack, own, depth, out)?;
        stack.drop_top(1);
    }
    out.push(b']');
    Ok(())
}

fn append_object(stack: &mut Stack<'_>, own: &Settings, depth: i32, out: &mut Vec<u8>) -> Result<(), Fail> {
    out.push(b'{');
    stack.push_nil();
    let mut first = true;
    while stack.next(-2) {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        match stack.kind(-2) {
            Kind::Number => {
                out.push(b'"');
                append_number(stack.number(-2).unwrap_or_default(), own, out)?;
                out.push(b'"');
            }
            Kind::String => append_string(stack.string(-2).unwrap_or_default(), out),
            kind => return Err(refuse(kind, "table key must be a number or string")),
        }
        out.push(b':');
        append(stack, own, depth, out)?;
        stack.drop_top(1);
    }
    out.push(b'}');
    Ok(())
}

fn append_number(number: f64, own: &Settings, out: &mut Vec<u8>) -> Result<(), Fail> {
    if !number.is_finite() {
        match own.encode_invalid {
            Invalid::Refuse => return Err(refuse(Kind::Number, "must not be NaN or Inf")),
            Invalid::Null => {
                out.extend_from_slice(b"null");
                return Ok(());
            }
            Invalid::Allow if number.is_nan() => {
                out.extend_from_slice(b"nan");
                return Ok(());
            }
            Invalid::Allow => {}
        }
    }
    format_general(number, own.precision as usize, out);
    Ok(())
}

fn append_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..32 | 127 => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}
