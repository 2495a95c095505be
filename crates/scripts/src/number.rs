//! Numbers as C prints and reads them (`%.14g`, `strtod`), which is how JSON in scripts has them.

/// Appends `number` with up to `digits` significant digits, as `%.*g`.
pub(crate) fn format_general(number: f64, digits: usize, out: &mut Vec<u8>) {
    if !number.is_finite() {
        let text: &[u8] = match (number.is_nan(), number.is_sign_negative()) {
            (true, false) => b"nan",
            (true, true) => b"-nan",
            (false, false) => b"inf",
            (false, true) => b"-inf",
        };
        out.extend_from_slice(text);
        return;
    }
    // A small integer is the usual case.
    if number.fract() == 0.0
        && number.abs() < 1e9
        && digits >= 10
        && (number != 0.0 || number.is_sign_positive())
    {
        out.extend_from_slice(stdx::num::format_i64(number as i64, &mut [0; stdx::num::I64_LEN_MAX]));
        return;
    }
    let digits = digits.max(1);
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if exponent < -4 || exponent >= digits as i32 {
        out.extend_from_slice(trim_zeros(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else {
        let decimals = (digits as i32 - 1 - exponent) as usize;
        out.extend_from_slice(trim_zeros(&format!("{number:.decimals$}")).as_bytes());
    }
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The number at the start of `text`, and its length.
pub(crate) fn read_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let signed = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let rest = &text[signed..];
    let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if begins(b"infinity") {
        return Some((sign * f64::INFINITY, signed + 8));
    }
    if begins(b"inf") {
        return Some((sign * f64::INFINITY, signed + 3));
    }
    if begins(b"nan") {
        return Some((f64::NAN.copysign(sign), signed + 3));
    }
    if begins(b"0x")
        && let Some((number, len)) = hexadecimal(&rest[2..])
    {
        return Some((sign * number, signed + 2 + len));
    }
    let len = decimal_len(rest)?;
    let number: f64 = std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
    Some((sign * number, signed + len))
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Digits with a point somewhere and an exponent, which counts only if it has digits itself.
fn decimal_len(text: &[u8]) -> Option<usize> {
    let mut len = count_digits(text);
    let mut digits = len;
    if text.get(len) == Some(&b'.') {
        let decimals = count_digits(&text[len + 1..]);
        digits += decimals;
        len += 1 + decimals;
    }
    if digits == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = count_digits(text.get(len + 1 + signed..).unwrap_or(&[]));
        if exponent > 0 {
            len += 1 + signed + exponent;
        }
    }
    Some(len)
}

/// What follows "0x": digits, a point, an exponent of two.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut number, mut len, mut digits, mut scale, mut point) = (0.0_f64, 0, 0, 0_i32, false);
    for byte in text {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                number = number * 16.0 + f64::from(digit);
                digits += 1;
                scale = scale.saturating_sub(if point { 4 } else { 0 });
            }
            None if *byte == b'.' && !point => point = true,
            None => break,
        }
        len += 1;
    }
    if digits == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'p' | b'P')) {
        let signed = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let count = count_digits(text.get(len + 1 + signed..).unwrap_or(&[]));
        if count > 0 {
            let end = len + 1 + signed + count;
            let exponent = std::str::from_utf8(&text[len + 1..end]).ok()?.parse::<i32>();
            let limit = if text[len + 1] == b'-' { -5_000 } else { 5_000 };
            scale = scale.saturating_add(exponent.unwrap_or(limit).clamp(-5_000, 5_000));
            len = end;
        }
    }
    Some((number * 2.0_f64.powi(scale), len))
}
