//! The library `bit`: operations on 32-bit integers. Numbers wrap around; results are signed.

use crate::stack::{Results, Stack};
use crate::state::State;

/// Pushes the table.
pub(crate) fn push(state: &mut State) {
    let mut stack = state.stack();
    stack.push_table(0, 16).expect("a new state is far from its limit");
    macro_rules! functions {
        ($($name:literal => $function:expr),* $(,)?) => {
            $(stack.push_function($function); stack.set_field(-2, $name);)*
        };
    }
    functions! {
        "tobit" => |stack: &mut Stack<'_>| one(stack, |bits| bits),
        "bnot" => |stack: &mut Stack<'_>| one(stack, |bits| !bits),
        "bswap" => |stack: &mut Stack<'_>| one(stack, u32::swap_bytes),
        "band" => |stack: &mut Stack<'_>| all(stack, |bits, more| bits & more),
        "bor" => |stack: &mut Stack<'_>| all(stack, |bits, more| bits | more),
        "bxor" => |stack: &mut Stack<'_>| all(stack, |bits, more| bits ^ more),
        "lshift" => |stack: &mut Stack<'_>| shift(stack, |bits, by| bits << by),
        "rshift" => |stack: &mut Stack<'_>| shift(stack, |bits, by| bits >> by),
        "arshift" => |stack: &mut Stack<'_>| shift(stack, |bits, by| (bits as i32 >> by) as u32),
        "rol" => |stack: &mut Stack<'_>| shift(stack, u32::rotate_left),
        "ror" => |stack: &mut Stack<'_>| shift(stack, u32::rotate_right),
        "tohex" => tohex,
    }
}

/// The low 32 bits of an argument, rounded to the nearest integer.
fn argument(stack: &mut Stack<'_>, at: i32) -> Result<u32, crate::stack::Fail> {
    let number = stack.number_argument(at)?;
    // Adding 2^52 + 2^51 leaves the rounded integer in the low bits of the mantissa.
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn push_bits(stack: &mut Stack<'_>, bits: u32) -> Results {
    stack.push_number(f64::from(bits as i32));
    Ok(1)
}

fn one(stack: &mut Stack<'_>, change: fn(u32) -> u32) -> Results {
    let bits = argument(stack, 1)?;
    push_bits(stack, change(bits))
}

fn all(stack: &mut Stack<'_>, join: fn(u32, u32) -> u32) -> Results {
    let mut bits = argument(stack, 1)?;
    for at in 2..=stack.top() {
        bits = join(bits, argument(stack, at)?);
    }
    push_bits(stack, bits)
}

fn shift(stack: &mut Stack<'_>, change: fn(u32, u32) -> u32) -> Results {
    let bits = argument(stack, 1)?;
    let by = argument(stack, 2)? & 31;
    push_bits(stack, change(bits, by))
}

fn tohex(stack: &mut Stack<'_>) -> Results {
    let bits = argument(stack, 1)?;
    let wanted = if stack.top() < 2 { 8 } else { argument(stack, 2)? as i32 };
    let digits = match wanted.unsigned_abs() {
        0 => String::new(),
        count => {
            let text = if wanted < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
            text[8 - count.min(8) as usize..].to_owned()
        }
    };
    stack.push_short(digits.as_bytes());
    Ok(1)
}
