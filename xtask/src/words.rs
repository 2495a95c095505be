//! A command line as words, with the quoting of `redis-cli`: `SET "a b" "\x00"`, `'it''s'` is not joined, `''` is the empty word.
//! And the way back: a byte string as the text between quotes.

/// The words of a line; an error says what is wrong with its quotes.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let bytes = line.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if at == bytes.len() {
            return Ok(words);
        }
        let (word, next) = one(bytes, at).ok_or_else(|| format!("unbalanced quotes in: {line}"))?;
        words.push(word);
        at = next;
    }
}

/// The word that begins at `at` and where it ends; None when a quote is not closed or a closing quote is not followed by a space.
fn one(bytes: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => {
                at = quoted(bytes, at + 1, byte, &mut word)?;
                return bytes.get(at).is_none_or(u8::is_ascii_whitespace).then_some((word, at));
            }
            _ if byte.is_ascii_whitespace() => break,
            _ => word.push(byte),
        }
        at += 1;
    }
    Some((word, at))
}

/// Reads up to the closing quote; returns the place after it.
fn quoted(bytes: &[u8], mut at: usize, quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        if byte == quote {
            return Some(at);
        }
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        let next = *bytes.get(at)?;
        if quote == b'\'' {
            if next == b'\'' {
                at += 1;
            }
            word.push(if next == b'\'' { b'\'' } else { b'\\' });
            continue;
        }
        at += 1;
        match (next, bytes.get(at..at + 2).and_then(hex)) {
            (b'x', Some(value)) => {
                word.push(value);
                at += 2;
            }
            (b'n', _) => word.push(b'\n'),
            (b'r', _) => word.push(b'\r'),
            (b't', _) => word.push(b'\t'),
            (b'b', _) => word.push(8),
            (b'a', _) => word.push(7),
            (other, _) => word.push(other),
        }
    }
}

fn hex(two: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()
}

/// The bytes between double quotes, every byte that does not print escaped.
pub fn quote(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for &byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            0x20..0x7f => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

/// A word as it may stand in a command line: without quotes where it needs none.
pub fn plain_or_quoted(word: &[u8]) -> String {
    let plain = !word.is_empty() && word.iter().all(|b| b.is_ascii_graphic() && !b"\"'\\".contains(b));
    if plain { String::from_utf8_lossy(word).into_owned() } else { quote(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words = split(line).unwrap();
        words.into_iter().map(|w| String::from_utf8(w).unwrap()).collect()
    }

    #[test]
    fn splits_as_redis_cli_does() {
        assert_eq!(words("SET a 1"), ["SET", "a", "1"]);
        assert_eq!(words(r#"  SET "a b"  '' "" "#), ["SET", "a b", "", ""]);
        assert_eq!(words(r#""\x41\n\q" 'a\'b\n'"#), ["A\nq", "a'b\\n"]);
        assert!(split("\"open").is_err());
        assert!(split("\"a\"b").is_err());
    }

    #[test]
    fn every_byte_survives_quoting() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split(&quote(&all)).unwrap(), [all]);
        assert_eq!(plain_or_quoted(b"abc"), "abc");
        assert_eq!(plain_or_quoted(b""), "\"\"");
        assert_eq!(plain_or_quoted(b"a b"), "\"a b\"");
    }
}
