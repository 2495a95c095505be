//! Numbers as the protocol writes and reads them: stricter and odder than `str::parse`.
//!
//! HOT: no allocation; results are written to a buffer of the caller.

mod shortest;

/// Longest decimal text of an `i64`: a sign and 19 digits.
pub const I64_LEN_MAX: usize = 20;

/// Longest text that [`format_f64`] writes: sign, 17 digits, point, `e-308`.
pub const F64_LEN_MAX: usize = 32;

/// Pairs of digits "00" to "99".
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// The integer that `text` writes in its one canonical form: an optional `-`, then digits without a leading
/// zero (but "0" itself). No plus, no space, no "-0"; none when it does not fit.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // 19 digits stay below 10^19 < 2^64, so the magnitude cannot wrap.
    let mut magnitude = 0_u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative {
        // -2^63 has a magnitude of its own: one more than the largest positive number.
        (magnitude <= 1 << 63).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Decimal text of `value`.
#[inline]
pub fn format_i64(value: i64, buffer: &mut [u8; I64_LEN_MAX]) -> &[u8] {
    let mut start = write_u64(value.unsigned_abs(), buffer);
    if value < 0 {
        start -= 1;
        buffer[start] = b'-';
    }
    &buffer[start..]
}

/// Decimal text of `value`.
#[inline]
pub fn format_u64(value: u64, buffer: &mut [u8; I64_LEN_MAX]) -> &[u8] {
    let start = write_u64(value, buffer);
    &buffer[start..]
}

/// Writes `value` to the end of `buffer` and returns where it begins.
#[inline]
fn write_u64(mut value: u64, buffer: &mut [u8; I64_LEN_MAX]) -> usize {
    let mut start = buffer.len();
    while value >= 100 {
        start -= 2;
        buffer[start..start + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    if value >= 10 {
        start -= 2;
        buffer[start..start + 2].copy_from_slice(&PAIRS[value as usize]);
    } else {
        start -= 1;
        buffer[start] = b'0' + value as u8;
    }
    start
}

/// Decimal digits of `value`: 1 to 20.
#[inline]
pub fn digits_u64(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The double that `text` writes in decimal: an optional sign, digits with an optional point, an optional
/// exponent; or `inf` or `infinity` in any case. None for anything else, a NaN included, and for what is too large
/// for a double or, though not zero, rounds to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let value = parse_f64_saturating(text)?;
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let lost = if value == 0.0 {
        unsigned.iter().take_while(|&byte| byte | 0x20 != b'e').any(|byte| matches!(byte, b'1'..=b'9'))
    } else {
        value.is_infinite() && !unsigned.first().is_some_and(|first| first.is_ascii_alphabetic())
    };
    (!lost).then_some(value)
}

/// The bound of a range of scores, without its `(`: like [`parse_f64`], but what a double cannot hold becomes
/// infinity or zero, a NUL byte ends the text, and no text at all is 0.
pub fn parse_score_bound(text: &[u8]) -> Option<f64> {
    let text = &text[..text.iter().position(|&byte| byte == 0).unwrap_or(text.len())];
    if text.is_empty() { Some(0.0) } else { parse_f64_saturating(text) }
}

fn parse_f64_saturating(text: &[u8]) -> Option<f64> {
    // Small integers are what most scores and increments are.
    if text.len() <= 15
        && let Some(integer) = parse_i64(text)
    {
        return Some(integer as f64);
    }
    let value = std::str::from_utf8(text).ok()?.parse::<f64>().ok()?;
    (!value.is_nan()).then_some(value)
}

/// Text of `value` with 17 significant digits at most, without zeroes at their end: what C's `%.17g` prints. Some old replies carry doubles so.
pub fn format_f64_17(value: f64) -> String {
    const DIGITS: i32 = 17;
    if !value.is_finite() || value == 0.0 {
        let mut buffer = [0; F64_LEN_MAX];
        return String::from_utf8_lossy(format_f64(value, &mut buffer)).into_owned();
    }
    let scientific = format!("{value:.*e}", (DIGITS - 1) as usize);
    let (digits, exponent) = scientific.split_once('e').expect("the scientific form has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let without_zeroes = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeroes(digits), exponent.unsigned_abs());
    }
    without_zeroes(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize))
}

/// Text of `value` as replies carry it: an integer of up to 2^62 exactly; else few digits that read back as the
/// same double, plain where that is short, otherwise as `d.ddde+NN`; `inf`, `-inf`, `nan`, `-0`.
pub fn format_f64(value: f64, buffer: &mut [u8; F64_LEN_MAX]) -> &[u8] {
    if !value.is_finite() {
        return match value {
            f64::INFINITY => b"inf",
            f64::NEG_INFINITY => b"-inf",
            _ => b"nan",
        };
    }
    const INTEGER_MAX: f64 = (1_u64 << 62) as f64;
    if value.abs() <= INTEGER_MAX && value == value.trunc() && (value != 0.0 || value.is_sign_positive()) {
        let mut digits = [0; I64_LEN_MAX];
        let digits = format_i64(value as i64, &mut digits);
        buffer[..digits.len()].copy_from_slice(digits);
        return &buffer[..digits.len()];
    }
    let mut digits = [0; shortest::DIGITS_MAX];
    let (count, scale) = match value.abs() {
        0.0 => {
            digits[0] = b'0';
            (1, 0)
        }
        magnitude => shortest::digits(magnitude, &mut digits),
    };
    let len = place_digits(value.is_sign_negative(), &digits[..count], scale, buffer);
    &buffer[..len]
}

/// Writes the number digits * 10^scale, plain if that is short; returns the length.
fn place_digits(negative: bool, digits: &[u8], scale: i32, buffer: &mut [u8; F64_LEN_MAX]) -> usize {
    let count = digits.len();
    let exponent = scale + count as i32 - 1;
    let mut out = Writer { buffer, len: 0 };
    if negative {
        out.put(b"-");
    }
    if scale >= 0 && exponent.abs() < count as i32 + 7 {
        out.put(digits);
        out.zeros(scale as usize);
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        if exponent < 0 {
            out.put(b"0.");
            out.zeros((-1 - exponent) as usize);
            out.put(digits);
        } else {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            out.put(whole);
            out.put(b".");
            out.put(fraction);
        }
    } else {
        // No more than 18 digits and sign.
        let digits = &digits[..count.min(18 - usize::from(negative))];
        out.put(&digits[..1]);
        if digits.len() > 1 {
            out.put(b".");
            out.put(&digits[1..]);
        }
        out.put(if exponent < 0 { b"e-" } else { b"e+" });
        let mut number = [0; I64_LEN_MAX];
        out.put(format_u64(u64::from(exponent.unsigned_abs()), &mut number));
    }
    out.len
}

struct Writer<'a> {
    buffer: &'a mut [u8; F64_LEN_MAX],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn zeros(&mut self, count: usize) {
        self.buffer[self.len..self.len + count].fill(b'0');
        self.len += count;
    }
}

#[cfg(test)]
mod tests;
