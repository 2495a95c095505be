//! The x87 extended double (64-bit mantissa, 15-bit exponent) in software: what INCRBYFLOAT and HINCRBYFLOAT
//! compute in on x86-64, so that their results agree to the last digit on every machine.
//!
//! Reading, adding and printing are exact and then rounded once, half to even, as C's `strtold`, `+` and
//! `%.17Lf` do. Infinity exists, NaN does not: what would give one gives none.

use crate::big::Big;

/// Exponent of the last mantissa bit of the largest numbers: 16383 - 63.
const EXPONENT_MAX: i32 = 16_383 - 63;

/// The same of the smallest normal and of all subnormal numbers: -16382 - 63.
const EXPONENT_MIN: i32 = -16_382 - 63;

/// Longer texts are refused unread.
const TEXT_LEN_MAX: usize = 5 * 1024 - 1;

/// Digits behind the point that are printed.
const FRACTION_DIGITS: u32 = 17;

/// sign * mantissa * 2^exponent. Normal numbers have the top bit of the mantissa set; subnormal ones and zero
/// have the smallest exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Finite { mantissa: u64, exponent: i32 },
    Infinite,
}

use Magnitude::{Finite, Infinite};

impl LongDouble {
    /// The number that `text` writes as a whole: decimal or hexadecimal (`0x1.8p3`), or `inf` or `infinity` in
    /// any case. None for anything else, for a NaN, for what is too large, and for what is not zero but rounds
    /// to it.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() > TEXT_LEN_MAX {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let magnitude = match unsigned {
            [b'0', b'x' | b'X', hex @ ..] => parse_hexadecimal(hex)?,
            [b'i' | b'I', ..] => {
                let infinite = unsigned.eq_ignore_ascii_case(b"inf");
                return (infinite || unsigned.eq_ignore_ascii_case(b"infinity"))
                    .then_some(LongDouble { negative, magnitude: Infinite });
            }
            _ => parse_decimal(unsigned)?,
        };
        (magnitude != Infinite).then_some(LongDouble { negative, magnitude })
    }

    /// The sum, rounded; none if it is not finite.
    pub fn checked_add(self, other: LongDouble) -> Option<LongDouble> {
        let (
            Finite { mantissa: mut large, exponent: large_exponent },
            Finite { mantissa: mut small, exponent: small_exponent },
        ) = (self.magnitude, other.magnitude)
        else {
            return None;
        };
        let (mut negative, mut small_negative) = (self.negative, other.negative);
        let (mut exponent, mut distance) = (large_exponent, large_exponent - small_exponent);
        // The number with the larger exponent comes first; zero, which has the smallest, always second.
        if distance < 0 {
            std::mem::swap(&mut large, &mut small);
            std::mem::swap(&mut negative, &mut small_negative);
            (exponent, distance) = (small_exponent, -distance);
        }
        // 63 bits of room below, one above for the carry.
        let large = u128::from(large) << 63;
        let below = u128::from(small) << 63;
        let (aligned, sticky) = match distance {
            0..128 => (below >> distance, below >> distance << distance != below),
            _ => (0, small != 0),
        };
        let sum = if negative == small_negative {
            large + aligned
        } else if aligned > large {
            negative = small_negative;
            aligned - large
        } else {
            // What was cut off is subtracted too: the result lies just below the difference.
            large - aligned - u128::from(sticky)
        };
        if sum == 0 {
            negative = self.negative && other.negative;
        }
        let magnitude = round(sum, exponent - 63, sticky);
        (magnitude != Infinite).then_some(LongDouble { negative, magnitude })
    }

    /// True for the two infinities.
    pub fn is_infinite(self) -> bool {
        self.magnitude == Infinite
    }

    /// The product with `factor`, rounded as a long double, and then up to a whole number. None if it is too large for an `i64`; what is too
    /// small gives `i64::MIN`.
    pub fn times_rounded_up(self, factor: u32) -> Option<i64> {
        let beyond = if self.negative { Some(i64::MIN) } else { None };
        let Finite { mantissa, exponent } = self.magnitude else { return beyond };
        let Finite { mantissa, exponent } = round(u128::from(mantissa) * u128::from(factor), exponent, false)
        else {
            return beyond;
        };
        let whole = match exponent {
            0..=63 => u128::from(mantissa) << exponent,
            64.. => return if mantissa == 0 { Some(0) } else { beyond },
            ..0 => {
                let shift = exponent.unsigned_abs().min(64);
                let whole = u128::from(mantissa) >> shift;
                // Up is away from zero above it, and toward zero below it.
                whole + u128::from(!self.negative && whole << shift != u128::from(mantissa))
            }
        };
        match (self.negative, i64::try_from(whole)) {
            (false, whole) => whole.ok(),
            (true, whole) => Some(whole.map_or(i64::MIN, |whole| -whole)),
        }
    }

    /// Appends the number in decimal: at most 17 digits behind the point, rounded, without trailing zeros;
    /// never an exponent, never `-0`.
    pub fn format(self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.negative {
            out.push(b'-');
        }
        match self.magnitude {
            Infinite => out.extend_from_slice(b"inf"),
            Finite { mantissa, exponent: exponent @ 0.. } => {
                let mut whole = Big::new(mantissa);
                whole.shl(exponent as usize);
                whole.write_decimal(out);
            }
            Finite { mantissa, exponent } => format_fraction(mantissa, exponent.unsigned_abs(), out),
        }
        if out[start..] == *b"-0" {
            out.remove(start);
        }
    }
}

/// Appends mantissa / 2^shift.
fn format_fraction(mantissa: u64, shift: u32, out: &mut Vec<u8>) {
    const SCALE: u64 = 10_u64.pow(FRACTION_DIGITS);
    let (mut whole, rest) = match shift {
        0..64 => (mantissa >> shift, mantissa & ((1 << shift) - 1)),
        _ => (0, mantissa),
    };
    // 64 + 57 bits: never beyond 128, and below half a unit if the shift reaches 128.
    let scaled = u128::from(rest) * u128::from(SCALE);
    let mut fraction = if shift < 128 { (scaled >> shift) as u64 } else { 0 };
    if shift < 128 {
        let cut = scaled & ((1 << shift) - 1);
        let half = 1 << (shift - 1);
        if cut > half || cut == half && fraction % 2 == 1 {
            fraction += 1;
        }
    }
    if fraction == SCALE {
        whole += 1;
        fraction = 0;
    }
    out.extend_from_slice(whole.to_string().as_bytes());
    if fraction > 0 {
        out.extend_from_slice(format!(".{fraction:017}").trim_end_matches('0').as_bytes());
    }
}

/// The nearest number to `bits` * 2^exponent, ties to even. `sticky` says that a little more than `bits` is
/// meant, which needs at least 66 bits to have its effect.
fn round(bits: u128, exponent: i32, sticky: bool) -> Magnitude {
    if bits == 0 {
        return Finite { mantissa: 0, exponent: EXPONENT_MIN };
    }
    let wanted = 64 - bits.leading_zeros() as i32;
    let shift = wanted.max(EXPONENT_MIN - exponent);
    let mut exponent = exponent + shift;
    let mut mantissa = match shift {
        ..=0 => bits << -shift,
        1..128 => {
            let cut = bits & ((1 << shift) - 1);
            let half = 1 << (shift - 1);
            let up = cut > half || cut == half && (sticky || bits >> shift & 1 == 1);
            (bits >> shift) + u128::from(up)
        }
        // Less than half of the smallest number, or half of it and a little more.
        _ => u128::from(shift == 128 && (bits > 1 << 127 || bits == 1 << 127 && sticky)),
    };
    if mantissa >> 64 != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    if exponent > EXPONENT_MAX { Infinite } else { Finite { mantissa: mantissa as u64, exponent } }
}

/// The parts of `digits [. digits] [e [sign] digits]`, the point and the digits before or behind it optional.
struct Literal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Clamped far beyond what can matter.
    exponent: i64,
}

fn split_literal(text: &[u8], is_digit: fn(&u8) -> bool, marker: u8) -> Option<Literal<'_>> {
    let split = |text: &'_ [u8]| text.iter().position(|byte| !is_digit(byte)).unwrap_or(text.len());
    let (whole, rest) = text.split_at(split(text));
    let (fraction, rest) = match rest {
        [b'.', behind @ ..] => behind.split_at(split(behind)),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [first, number @ ..] if first | 0x20 == marker => parse_exponent(number)?,
        _ => return None,
    };
    Some(Literal { whole, fraction, exponent })
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    const BEYOND: i64 = 1_000_000;
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(BEYOND));
    Some(if negative { -value } else { value })
}

fn parse_decimal(text: &[u8]) -> Option<Magnitude> {
    let literal = split_literal(text, u8::is_ascii_digit, b'e')?;
    let digits = literal.whole.iter().chain(literal.fraction).skip_while(|&&digit| digit == b'0');
    let count = digits.clone().count() as i64;
    let exponent = literal.exponent - literal.fraction.len() as i64;
    if count == 0 {
        return Some(Finite { mantissa: 0, exponent: EXPONENT_MIN });
    }
    // The number lies in 10^(count + exponent - 1 ..= count + exponent); the format spans 10^-4951 to 10^4932.
    if !(-4_960..4_940).contains(&(count + exponent)) {
        return None;
    }
    let magnitude = if count <= 19 && (-19..=19).contains(&exponent) {
        let number = digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        scale_small(number, exponent as i32)
    } else {
        scale_big(Big::from_digits(digits), exponent as i32)
    };
    match magnitude {
        Finite { mantissa: 0, .. } => None,
        magnitude => Some(magnitude),
    }
}

/// number * 10^exponent, with both in one limb.
fn scale_small(number: u64, exponent: i32) -> Magnitude {
    let power = u128::from(10_u64.pow(exponent.unsigned_abs()));
    if exponent >= 0 {
        return round(u128::from(number) * power, 0, false);
    }
    let shift = u128::from(number).leading_zeros();
    let dividend = u128::from(number) << shift;
    // The quotient has at least 64 bits; two more come from the remainder, which is below 2^64.
    let (quotient, remainder) = (dividend / power, dividend % power * 4);
    let bits = quotient.checked_mul(4).map(|bits| bits + remainder / power);
    match bits {
        Some(bits) => round(bits, -(shift as i32) - 2, remainder % power != 0),
        None => round(quotient, -(shift as i32), remainder != 0),
    }
}

/// number * 10^exponent
fn scale_big(mut number: Big, exponent: i32) -> Magnitude {
    /// Enough for `round`, whatever the quotient's first bit.
    const BITS: usize = 68;
    let power = exponent.unsigned_abs() as usize;
    if exponent >= 0 {
        number.mul_pow10(power);
        let from = number.bits().saturating_sub(BITS);
        let (bits, sticky) = number.bits_from(from, BITS);
        return round(bits, from as i32, sticky);
    }
    let mut divisor = Big::new(1);
    divisor.mul_pow10(power);
    // Scaled so that the quotient has BITS - 1 or BITS bits.
    let shift = BITS as i32 - 1 - (number.bits() as i32 - divisor.bits() as i32);
    if shift >= 0 {
        number.shl(shift as usize);
    } else {
        divisor.shl(shift.unsigned_abs() as usize);
    }
    let (quotient, remainder) = number.div(&divisor, BITS);
    round(quotient, -shift, remainder)
}

fn parse_hexadecimal(text: &[u8]) -> Option<Magnitude> {
    let literal = split_literal(text, u8::is_ascii_hexdigit, b'p')?;
    let (mut bits, mut exponent, mut sticky) = (0_u128, 0, false);
    for &digit in literal.whole.iter().chain(literal.fraction) {
        let value = char::from(digit).to_digit(16).expect("only hexadecimal digits were split off");
        if bits >> 120 == 0 {
            bits = bits << 4 | u128::from(value);
        } else {
            sticky |= value != 0;
            exponent += 4;
        }
    }
    exponent += literal.exponent - 4 * literal.fraction.len() as i64;
    match round(bits, exponent as i32, sticky) {
        Finite { mantissa: 0, .. } if bits != 0 => None,
        magnitude => Some(magnitude),
    }
}

impl From<i64> for LongDouble {
    /// Exact.
    fn from(value: i64) -> LongDouble {
        let magnitude = round(u128::from(value.unsigned_abs()), 0, false);
        LongDouble { negative: value < 0, magnitude }
    }
}

impl From<f64> for LongDouble {
    /// Exact. `value` must not be a NaN.
    fn from(value: f64) -> LongDouble {
        assert!(!value.is_nan(), "a NaN is no number");
        let bits = value.to_bits();
        let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
        let magnitude = match exponent {
            0x7ff => Infinite,
            0 => round(u128::from(fraction), -1074, false),
            _ => round(u128::from(fraction | 1 << 52), exponent - 1075, false),
        };
        LongDouble { negative: value.is_sign_negative(), magnitude }
    }
}

#[cfg(test)]
mod tests;
