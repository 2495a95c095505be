//! The library `struct`: numbers and strings as bytes in a format that the script describes.
//!
//! | option | is |
//! |---|---|
//! | `<` `>` `!n` | little-endian, big-endian, alignment |
//! | `b h l T i` and in capitals | integers of 1, 2, 8, 8, 4 (or `in`: n) bytes; capitals and `T` are unsigned |
//! | `f d` | floating point |
//! | `cn s x` | n characters (`c0`: as many as the number before says), characters up to a zero, a byte of padding |

use crate::stack::{Fail, Kind, Results, Stack};
use crate::state::State;

/// Bytes of the largest integer that can be written.
const INTEGER_BYTES_MAX: usize = 32;

/// Alignment of `!` without a number.
const ALIGN_MAX: usize = 8;

/// Pushes the table.
pub(crate) fn push(state: &mut State) {
    let mut stack = state.stack();
    stack.push_table(0, 4).expect("a new state is far from its limit");
    stack.push_function(pack);
    stack.set_field(-2, "pack");
    stack.push_function(unpack);
    stack.set_field(-2, "unpack");
    stack.push_function(size);
    stack.set_field(-2, "size");
}

/// A format, while it is read.
struct Format<'f> {
    rest: &'f [u8],
    little: bool,
    align: usize,
}

/// One option and how many bytes it stands for; none for those that only change what follows.
struct Item {
    option: u8,
    bytes: usize,
}

impl<'f> Format<'f> {
    fn new(stack: &mut Stack<'f>) -> Result<Format<'f>, Fail> {
        let text = stack.text_argument(1)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(Format { rest: &text[..end], little: true, align: 1 })
    }

    fn next(&mut self) -> Result<Option<Item>, Fail> {
        let Some((option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let bytes = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let bytes = self.number(4)?;
                if bytes > INTEGER_BYTES_MAX {
                    let text = format!("integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(Fail::Text(text.into_bytes().into()));
                }
                bytes
            }
            _ => 0,
        };
        Ok(Some(Item { option: *option, bytes }))
    }

    /// The decimal number that follows, if one does.
    fn number(&mut self, otherwise: usize) -> Result<usize, Fail> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return Ok(otherwise);
        }
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i32>().ok());
        match number {
            Some(number) => Ok(number as usize),
            None => Err(Fail::text("integral size overflow")),
        }
    }

    /// Bytes of padding before an item at `position`.
    fn padding(&self, position: usize, item: &Item) -> usize {
        if item.bytes == 0 || item.option == b'c' {
            return 0;
        }
        let align = item.bytes.min(self.align).max(1);
        align.wrapping_sub(position & (align - 1)) & (align - 1)
    }

    /// An option that changes what follows.
    fn control(&mut self, option: u8) -> Result<(), Fail> {
        match option {
            b' ' => {}
            b'<' => self.little = true,
            b'>' => self.little = false,
            b'!' => {
                let align = self.number(ALIGN_MAX)?;
                if !align.is_power_of_two() {
                    let text = format!("alignment {align} is not a power of 2");
                    return Err(Fail::Text(text.into_bytes().into()));
                }
                self.align = align;
            }
            _ => {
                return Err(Fail::Argument(
                    1,
                    [b"invalid format option '".as_slice(), &[option], b"'"].concat().into(),
                ));
            }
        }
        Ok(())
    }
}

fn pack(stack: &mut Stack<'_>) -> Results {
    let mut format = Format::new(stack)?;
    let (mut out, mut at) = (Vec::new(), 2);
    // What is missing is nil, as scripts know the message.
    stack.push_nil();
    while let Some(item) = format.next()? {
        let padding = format.padding(out.len(), &item);
        out.resize(out.len() + padding, 0);
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                pack_integer(stack.number_argument(at)?, item.bytes, format.little, &mut out);
                at += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                let bytes = (stack.number_argument(at)? as f32).to_le_bytes();
                append(&bytes, format.little, &mut out);
                at += 1;
            }
            b'd' => {
                let bytes = stack.number_argument(at)?.to_le_bytes();
                append(&bytes, format.little, &mut out);
                at += 1;
            }
            b'c' | b's' => {
                let text = stack.text_argument(at)?;
                at += 1;
                let len = if item.bytes == 0 { text.len() } else { item.bytes };
                let text = text.get(..len).ok_or(Fail::Argument(at, b"string too short".into()))?;
                stack.room_for(out.len() + len)?;
                out.extend_from_slice(text);
                if item.option == b's' {
                    out.push(0);
                }
            }
            option => format.control(option)?,
        }
    }
    stack.push_string(&out)?;
    Ok(1)
}

fn pack_integer(number: f64, bytes: usize, little: bool, out: &mut Vec<u8>) {
    // As a C cast on the machines that scripts know.
    let value = if number < 0.0 {
        if number >= -9_223_372_036_854_775_808.0 { number as i64 as u64 } else { 1 << 63 }
    } else if number < 18_446_744_073_709_551_616.0 {
        number as u64
    } else {
        0
    };
    let mut wide = [0; INTEGER_BYTES_MAX];
    wide[..8].copy_from_slice(&value.to_le_bytes());
    append(&wide[..bytes], little, out);
}

/// Appends bytes that are little-endian in the wanted order.
fn append(bytes: &[u8], little: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(bytes);
    if !little {
        out[start..].reverse();
    }
}

fn unpack(stack: &mut Stack<'_>) -> Results {
    let mut format = Format::new(stack)?;
    let data = stack.text_argument(2)?;
    let start = match stack.kind(3) {
        Kind::None | Kind::Nil => 1,
        _ => stack.number_argument(3)? as i64,
    };
    if start == 0 {
        return Err(Fail::Argument(3, b"offset must be 1 or greater".into()));
    }
    let short = || Fail::Argument(2, b"data string too short".into());
    // A negative start is far behind the end.
    let mut at = usize::try_from(start - 1).map_err(|_| short())?;
    let before = stack.top();
    while let Some(item) = format.next()? {
        at = at.saturating_add(format.padding(at, &item));
        let mut bytes = data.get(at..at.saturating_add(item.bytes)).ok_or_else(short)?;
        if !stack.reserve(4) {
            return Err(Fail::text("stack overflow (too many results)"));
        }
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                stack.push_number(integer(bytes, format.little, item.option.is_ascii_lowercase()));
            }
            b'x' => {}
            b'f' => {
                let bits = integer_bits(bytes, format.little) as u32;
                stack.push_number(f32::from_bits(bits).into());
            }
            b'd' => stack.push_number(f64::from_bits(integer_bits(bytes, format.little))),
            b'c' => {
                if item.bytes == 0 {
                    let len = (stack.top() > before).then(|| stack.number(-1)).flatten();
                    let Some(len) = len else { return Err(Fail::text("format 'c0' needs a previous size")) };
                    stack.drop_top(1);
                    let len = if len < 0.0 { usize::MAX } else { len as usize };
                    bytes = data.get(at..at.saturating_add(len)).ok_or_else(short)?;
                }
                stack.push_string(bytes)?;
            }
            b's' => {
                let rest = &data[at..];
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or(Fail::text("unfinished string in data"))?;
                stack.push_string(&rest[..end])?;
                bytes = &rest[..=end];
            }
            option => format.control(option)?,
        }
        at += bytes.len();
    }
    stack.push_number((at + 1) as f64);
    Ok(stack.top() - before)
}

/// The low 64 bits of an integer.
fn integer_bits(bytes: &[u8], little: bool) -> u64 {
    let join = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
    if little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) }
}

fn integer(bytes: &[u8], little: bool, signed: bool) -> f64 {
    let bits = integer_bits(bytes, little);
    if !signed {
        return bits as f64;
    }
    // All bits from the sign on. Sizes above eight wrap around, as the shift of the machines that scripts know.
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    let bits = if bits & mask != 0 { bits | mask } else { bits };
    bits as i64 as f64
}

fn size(stack: &mut Stack<'_>) -> Results {
    let mut format = Format::new(stack)?;
    let mut at = 0_usize;
    while let Some(item) = format.next()? {
        at = at.saturating_add(format.padding(at, &item));
        match item.option {
            b's' => return Err(Fail::Argument(1, b"option 's' has no fixed size".into())),
            b'c' if item.bytes == 0 => {
                return Err(Fail::Argument(1, b"option 'c0' has no fixed size".into()));
            }
            option if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        at = at.saturating_add(item.bytes);
    }
    stack.push_number(at as f64);
    Ok(1)
}
