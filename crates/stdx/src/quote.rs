//! Quoted words: how inline commands and configuration lines are split, and how arbitrary bytes are shown.
//!
//! Inside `"..."` a backslash starts an escape: `\n \r \t \b \a`, `\xHH`, or any other byte for itself. Inside
//! `'...'` only `\'` is one. Quotes open and close anywhere in a word (`a"b c"'d'e` is the word `ab cde`), as
//! since Valkey 9.1. A backslash with only one byte of the line behind it stands for itself, so `"\"` is one
//! backslash. Valkey 9.1.2 loses a raw byte 0xff; here it is kept.

/// A quote of the line is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Splits `line` into words, each unquoted. An empty or blank line has none. A NUL byte ends the line, as it
/// ends a C string.
pub fn split_args(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut words = Vec::new();
    split_args_into(line, |part| match part {
        Part::Begin => words.push(Vec::new()),
        Part::Byte(byte) => words.last_mut().expect("a word was begun").push(byte),
    })?;
    Ok(words)
}

/// What [`split_args_into`] reports: a word begins, or a byte of the word begun last.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A word begins, perhaps an empty one.
    Begin,
    /// The next byte of that word, unescaped.
    Byte(u8),
}

/// [`split_args`] without storage of its own.
pub fn split_args_into(line: &[u8], mut each: impl FnMut(Part)) -> Result<(), UnbalancedQuotes> {
    let line = &line[..line.iter().position(|&byte| byte == 0).unwrap_or(line.len())];
    let mut rest = line;
    loop {
        rest = &rest[rest.iter().take_while(|&&byte| is_space(byte)).count()..];
        if rest.is_empty() {
            return Ok(());
        }
        each(Part::Begin);
        rest = split_word(rest, &mut each)?;
    }
}

/// Reports one word and returns what follows it.
fn split_word<'a>(mut rest: &'a [u8], each: &mut impl FnMut(Part)) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match *rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [quote @ (b'"' | b'\''), ref inside @ ..] => split_quoted(quote, inside, each)?,
            [byte, ref behind @ ..] => {
                each(Part::Byte(byte));
                behind
            }
        };
    }
}

/// Reports the bytes up to the closing quote and returns what follows that.
fn split_quoted<'a>(
    quote: u8,
    mut rest: &'a [u8],
    each: &mut impl FnMut(Part),
) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        let (byte, used) = match *rest {
            [] => return Err(UnbalancedQuotes),
            [byte, ref behind @ ..] if byte == quote => return Ok(behind),
            [b'\\', b'\'', _, ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex_value(high) * 16 + hex_value(low), 4)
            }
            [b'\\', escaped, _, ..] if quote == b'"' => (unescape(escaped), 2),
            [byte, ..] => (byte, 1),
        };
        each(Part::Byte(byte));
        rest = &rest[used..];
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// C's `isspace`: unlike `is_ascii_whitespace` it knows the vertical tab.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Appends `bytes` in double quotes, with escapes for what does not print: `"\x00\n\"` and so on.
/// [`split_args`] reads it back unchanged.
pub fn repr(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn split(line: &str) -> Option<Vec<String>> {
        let words = split_args(line.as_bytes()).ok()?;
        Some(words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    }

    fn words(words: &[&str]) -> Option<Vec<String>> {
        Some(words.iter().map(|word| word.to_string()).collect())
    }

    #[test]
    fn splits_and_unquotes() {
        assert_eq!(split(""), words(&[]));
        assert_eq!(split(" \t\x0b\x0c "), words(&[]));
        assert_eq!(split("  get  key "), words(&["get", "key"]));
        assert_eq!(split(r#"set "a b" 'c d'"#), words(&["set", "a b", "c d"]));
        assert_eq!(split(r#""" ''"#), words(&["", ""]));
        assert_eq!(split(r#"a"b c" d'e f'"#), words(&["ab c", "de f"]));
        assert_eq!(split(r#""\x41\x6a\n\r\t\\\"\q\xzz\x4""#), words(&["Aj\n\r\t\\\"qxzzx4"]));
        assert_eq!(split(r"'it\'s \n'"), words(&[r"it's \n"]));
        assert_eq!(split("a\x0bb\x0c"), words(&["a\x0bb\x0c"]));
        assert_eq!(split("a b\0c d"), words(&["a", "b"]));
        assert_eq!(split(r#""a""b"'c'd"e f"g"#), words(&["abcde fg"]));
        assert_eq!(split("'a'\x0bb \"c\" d"), words(&["a\x0bb", "c", "d"]));
        // Only with a byte behind it is the escaped quote an escaped one.
        assert_eq!(split(r#""\""#), words(&["\\"]));
        assert_eq!(split(r"'\'"), words(&["\\"]));
        assert_eq!(split(r#""\"""#), words(&["\""]));
        assert_eq!(split_args(b"a\xffb \"\xff\"").unwrap(), [&b"a\xffb"[..], b"\xff"]);
    }

    #[test]
    fn refuses_unbalanced_quotes() {
        for line in [
            r#"""#, "'", r#"a""#, "'a", r#""a"b""#, "'a'b'", r#""a\"#, r#""\" "#, r#""\"b"#, r"'\'b",
            "\"a\0\"",
        ] {
            assert_eq!(split(line), None, "{line}");
        }
    }

    #[test]
    fn repr_round_trips() {
        let mut shown = Vec::new();
        repr(b"a\0\xff\"\\\n\r\t\x07\x08~", &mut shown);
        assert_eq!(shown, br#""a\x00\xff\"\\\n\r\t\a\b~""#);
        let mut rng = Rng::new(0x77);
        for _ in 0..2000 {
            let mut bytes = vec![0; rng.range(0..40)];
            rng.fill(&mut bytes);
            shown.clear();
            repr(&bytes, &mut shown);
            assert_eq!(split_args(&shown).unwrap(), [bytes]);
        }
    }
}
