//! The library `cjson`: JSON to Lua's values and back, with the settings that scripts know.
//!
//! Settings belong to an instance (`cjson.new`) and to one run: the next script finds the defaults again, whichever thread
//! runs it.

mod decode;
mod encode;

use std::ffi::c_int;

use crate::stack::{Fail, Kind, Results, Stack};
use crate::state::State;

pub(crate) use decode::decode;
pub(crate) use encode::encode;

/// Instances that one script may make.
const INSTANCES_MAX: usize = 1_000;

/// What to do with numbers that JSON has no form for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// An error.
    Refuse,
    /// As C prints or reads them.
    Allow,
    /// `null`
    Null,
}

/// What the functions of one instance have been told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth_max: i32,
    decode_depth_max: i32,
    precision: i32,
    keep_buffer: bool,
    encode_invalid: Invalid,
    decode_invalid: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1_000,
            decode_depth_max: 1_000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Refuse,
            decode_invalid: true,
        }
    }
}

/// Pushes the table of the first instance.
pub(crate) fn push(state: &mut State) {
    push_instance(&mut state.stack(), 0).expect("a new state is far from its limit");
}

fn push_instance(stack: &mut Stack<'_>, number: usize) -> Result<(), Fail> {
    stack.push_table(0, 14)?;
    macro_rules! functions {
        ($($name:literal => $function:expr),* $(,)?) => {
            $(
                stack.push_number(number as f64);
                stack.push_closure($function);
                stack.set_field(-2, $name);
            )*
        };
    }
    functions! {
        "encode" => encode,
        "decode" => decode,
        "encode_sparse_array" => encode_sparse_array,
        "encode_max_depth" => |stack: &mut Stack<'_>| integer_setting(stack, i32::MAX, |own| &mut own.encode_depth_max),
        "decode_max_depth" => |stack: &mut Stack<'_>| integer_setting(stack, i32::MAX, |own| &mut own.decode_depth_max),
        "encode_number_precision" => |stack: &mut Stack<'_>| integer_setting(stack, 14, |own| &mut own.precision),
        "encode_keep_buffer" => encode_keep_buffer,
        "encode_invalid_numbers" => encode_invalid_numbers,
        "decode_invalid_numbers" => decode_invalid_numbers,
        "new" => new,
    }
    stack.push_light(0);
    stack.set_field(-2, "null");
    stack.push_short(b"cjson");
    stack.set_field(-2, "_NAME");
    stack.push_short(b"2.1.0");
    stack.set_field(-2, "_VERSION");
    Ok(())
}

/// The settings of the instance whose function runs.
fn settings<'a>(stack: &'a mut Stack<'_>) -> &'a mut Settings {
    let number = stack.upvalue_number() as usize;
    let instances = &mut stack.shared().cjson;
    // An instance that a library has kept finds the defaults again in the next run.
    if instances.len() <= number {
        instances.resize(number + 1, Settings::default());
    }
    &mut instances[number]
}

fn new(stack: &mut Stack<'_>) -> Results {
    let instances = &mut stack.shared().cjson;
    if instances.len() >= INSTANCES_MAX {
        return Err(Fail::text("too many instances of cjson"));
    }
    instances.push(Settings::default());
    let number = instances.len() - 1;
    push_instance(stack, number)?;
    Ok(1)
}

/// No more than `count` arguments.
fn arguments(stack: &Stack<'_>, count: c_int) -> Result<(), Fail> {
    if stack.top() > count {
        return Err(Fail::Argument(count + 1, b"found too many arguments".into()));
    }
    Ok(())
}

/// An argument that may be missing.
fn integer(stack: &mut Stack<'_>, at: c_int, min: i32, max: i32) -> Result<Option<i32>, Fail> {
    if matches!(stack.kind(at), Kind::None | Kind::Nil) {
        return Ok(None);
    }
    let value = stack.number_argument(at)? as i64;
    match i32::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(Some(value)),
        _ => Err(Fail::Argument(1, format!("expected integer between {min} and {max}").into_bytes().into())),
    }
}

fn integer_setting(stack: &mut Stack<'_>, max: i32, place: fn(&mut Settings) -> &mut i32) -> Results {
    arguments(stack, 1)?;
    let value = integer(stack, 1, 1, max)?;
    let place = place(settings(stack));
    *place = value.unwrap_or(*place);
    let value = *place;
    stack.push_number(value.into());
    Ok(1)
}

fn encode_sparse_array(stack: &mut Stack<'_>) -> Results {
    arguments(stack, 3)?;
    let convert = choice(stack, &["off", "on"])?;
    let ratio = integer(stack, 2, 0, i32::MAX)?;
    let safe = integer(stack, 3, 0, i32::MAX)?;
    let own = settings(stack);
    own.sparse_convert = convert.map_or(own.sparse_convert, |index| index == 1);
    own.sparse_ratio = ratio.unwrap_or(own.sparse_ratio);
    own.sparse_safe = safe.unwrap_or(own.sparse_safe);
    let now = *own;
    stack.push_bool(now.sparse_convert);
    stack.push_number(now.sparse_ratio.into());
    stack.push_number(now.sparse_safe.into());
    Ok(3)
}

fn encode_keep_buffer(stack: &mut Stack<'_>) -> Results {
    arguments(stack, 1)?;
    let keep = choice(stack, &["off", "on"])?;
    let own = settings(stack);
    own.keep_buffer = keep.map_or(own.keep_buffer, |index| index == 1);
    let now = own.keep_buffer;
    stack.push_bool(now);
    Ok(1)
}

fn encode_invalid_numbers(stack: &mut Stack<'_>) -> Results {
    arguments(stack, 1)?;
    let choice = choice(stack, &["off", "on", "null"])?;
    let own = settings(stack);
    match choice {
        None => {}
        Some(0) => own.encode_invalid = Invalid::Refuse,
        Some(1) => own.encode_invalid = Invalid::Allow,
        Some(_) => own.encode_invalid = Invalid::Null,
    }
    match own.encode_invalid {
        Invalid::Refuse => stack.push_bool(false),
        Invalid::Allow => stack.push_bool(true),
        Invalid::Null => stack.push_short(b"null"),
    }
    Ok(1)
}

fn decode_invalid_numbers(stack: &mut Stack<'_>) -> Results {
    arguments(stack, 1)?;
    let choice = choice(stack, &["off", "on"])?;
    let own = settings(stack);
    own.decode_invalid = choice.map_or(own.decode_invalid, |index| index == 1);
    let now = own.decode_invalid;
    stack.push_bool(now);
    Ok(1)
}

/// The first argument as one of several words, or as a truth value.
fn choice(stack: &mut Stack<'_>, options: &[&str]) -> Result<Option<usize>, Fail> {
    match stack.kind(1) {
        Kind::None | Kind::Nil => Ok(None),
        Kind::Bool => Ok(Some(stack.truth(1).into())),
        _ => {
            let text = stack.text_argument(1)?;
            match options.iter().position(|option| option.as_bytes() == text) {
                Some(index) => Ok(Some(index)),
                None => Err(Fail::Argument(1, [b"invalid option '", text, b"'"].concat().into())),
            }
        }
    }
}
