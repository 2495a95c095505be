//! `cjson.decode`. A zero byte ends the text, as it always has for scripts.

use super::{Settings, settings};
use crate::number::read_prefix;
use crate::stack::{Fail, Results, Stack};

pub(crate) fn decode(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(Fail::Argument(1, b"expected 1 argument".into()));
    }
    let text = stack.text_argument(1)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Fail::text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let own = *settings(stack);
    let mut parser = Parser { text, at: 0, own, depth: 0, string: Vec::new() };
    let token = parser.next();
    parser.value(stack, &token)?;
    let token = parser.next();
    if token.kind != TokenKind::End {
        return Err(parser.expected("the end", &token));
    }
    Ok(1)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TokenKind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// Its bytes are in the parser.
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl TokenKind {
    fn name(self) -> &'static str {
        match self {
            TokenKind::ObjectBegin => "T_OBJ_BEGIN",
            TokenKind::ObjectEnd => "T_OBJ_END",
            TokenKind::ArrayBegin => "T_ARR_BEGIN",
            TokenKind::ArrayEnd => "T_ARR_END",
            TokenKind::String => "T_STRING",
            TokenKind::Number(_) => "T_NUMBER",
            TokenKind::Boolean(_) => "T_BOOLEAN",
            TokenKind::Null => "T_NULL",
            TokenKind::Colon => "T_COLON",
            TokenKind::Comma => "T_COMMA",
            TokenKind::End => "T_END",
            TokenKind::Error(text) => text,
        }
    }
}

struct Token {
    kind: TokenKind,
    /// Where it begins, or where the error is.
    at: usize,
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    own: Settings,
    depth: i32,
    string: Vec<u8>,
}

impl Parser<'_> {
    /// Pushes the value that begins with `token`.
    fn value(&mut self, stack: &mut Stack<'_>, token: &Token) -> Result<(), Fail> {
        match token.kind {
            TokenKind::String => stack.push_string(&self.string)?,
            TokenKind::Number(number) => stack.push_number(number),
            TokenKind::Boolean(value) => stack.push_bool(value),
            TokenKind::Null => stack.push_light(0),
            TokenKind::ObjectBegin => self.object(stack)?,
            TokenKind::ArrayBegin => self.array(stack)?,
            _ => return Err(self.expected("value", token)),
        }
        Ok(())
    }

    fn descend(&mut self, stack: &mut Stack<'_>) -> Result<(), Fail> {
        self.depth += 1;
        if self.depth > self.own.decode_depth_max || !stack.reserve(8) {
            let text =
                format!("Found too many nested data structures ({}) at character {}", self.depth, self.at);
            return Err(Fail::Text(text.into_bytes().into()));
        }
        stack.push_table(0, 0)
    }

    fn array(&mut self, stack: &mut Stack<'_>) -> Result<(), Fail> {
        self.descend(stack)?;
        let mut token = self.next();
        if token.kind != TokenKind::ArrayEnd {
            for index in 1.. {
                self.value(stack, &token)?;
                stack.set_index(-2, index);
                stack.room_for(0)?;
                token = self.next();
                if token.kind == TokenKind::ArrayEnd {
                    break;
                }
                if token.kind != TokenKind::Comma {
                    return Err(self.expected("comma or array end", &token));
                }
                token = self.next();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self, stack: &mut Stack<'_>) -> Result<(), Fail> {
        self.descend(stack)?;
        let mut token = self.next();
        if token.kind != TokenKind::ObjectEnd {
            loop {
                if token.kind != TokenKind::String {
                    return Err(self.expected("object key string", &token));
                }
                stack.push_string(&self.string)?;
                token = self.next();
                if token.kind != TokenKind::Colon {
                    return Err(self.expected("colon", &token));
                }
                token = self.next();
                self.value(stack, &token)?;
                stack.set(-3);
                stack.room_for(0)?;
                token = self.next();
                if token.kind == TokenKind::ObjectEnd {
                    break;
                }
                if token.kind != TokenKind::Comma {
                    return Err(self.expected("comma or object end", &token));
                }
                token = self.next();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn expected(&self, wanted: &str, token: &Token) -> Fail {
        let text = format!("Expected {wanted} but found {} at character {}", token.kind.name(), token.at + 1);
        Fail::Text(text.into_bytes().into())
    }

    /// The byte `ahead` of the place; zero beyond the end.
    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Token {
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let single = match self.byte(0) {
            b'{' => TokenKind::ObjectBegin,
            b'}' => TokenKind::ObjectEnd,
            b'[' => TokenKind::ArrayBegin,
            b']' => TokenKind::ArrayEnd,
            b':' => TokenKind::Colon,
            b',' => TokenKind::Comma,
            0 => return Token { kind: TokenKind::End, at },
            _ => return self.word(at),
        };
        self.at += 1;
        Token { kind: single, at }
    }

    fn word(&mut self, at: usize) -> Token {
        let rest = &self.text[at..];
        let kind = match rest[0] {
            b'"' => return self.quoted(at),
            b'-' | b'0'..=b'9' if !self.own.decode_invalid && is_invalid_number(rest) => {
                TokenKind::Error("invalid number")
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ if rest.starts_with(b"true") => self.skip(4, TokenKind::Boolean(true)),
            _ if rest.starts_with(b"false") => self.skip(5, TokenKind::Boolean(false)),
            _ if rest.starts_with(b"null") => self.skip(4, TokenKind::Null),
            b'+' | b'i' | b'I' | b'n' | b'N' if self.own.decode_invalid && is_invalid_number(rest) => {
                self.number()
            }
            _ => TokenKind::Error("invalid token"),
        };
        Token { kind, at }
    }

    fn skip(&mut self, len: usize, kind: TokenKind) -> TokenKind {
        self.at += len;
        kind
    }

    fn number(&mut self) -> TokenKind {
        match read_prefix(&self.text[self.at..]) {
            Some((number, len)) => self.skip(len, TokenKind::Number(number)),
            None => TokenKind::Error("invalid number"),
        }
    }

    /// A string, from its quote on; its bytes go to `self.string`.
    fn quoted(&mut self, start: usize) -> Token {
        self.at += 1;
        self.string.clear();
        loop {
            let byte = match self.byte(0) {
                b'"' => break,
                0 => return Token { kind: TokenKind::Error("unexpected end of string"), at: self.at },
                b'\\' => match self.byte(1) {
                    b'u' => match self.unicode() {
                        Some(len) => {
                            self.at += len;
                            continue;
                        }
                        None => {
                            return Token {
                                kind: TokenKind::Error("invalid unicode escape code"),
                                at: self.at,
                            };
                        }
                    },
                    other => {
                        let byte = match other {
                            b'"' | b'\\' | b'/' => other,
                            b'b' => 8,
                            b'f' => 12,
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            _ => return Token { kind: TokenKind::Error("invalid escape code"), at: self.at },
                        };
                        self.at += 1;
                        byte
                    }
                },
                byte => byte,
            };
            self.string.push(byte);
            self.at += 1;
        }
        self.at += 1;
        Token { kind: TokenKind::String, at: start }
    }

    /// Appends the character of `\uXXXX`, of two of them if it takes a pair; the length of the escape.
    fn unicode(&mut self) -> Option<usize> {
        let (mut code, mut len) = (self.hex4(2)?, 6);
        if code & 0xf800 == 0xd800 {
            let low =
                if self.byte(6) == b'\\' && self.byte(7) == b'u' { self.hex4(8)? } else { return None };
            if code & 0x400 != 0 || low & 0xfc00 != 0xdc00 {
                return None;
            }
            code = ((code & 0x3ff) << 10 | low & 0x3ff) + 0x1_0000;
            len = 12;
        }
        let character = char::from_u32(code)?;
        self.string.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Some(len)
    }

    fn hex4(&self, ahead: usize) -> Option<u32> {
        (0..4).try_fold(0, |code, digit| Some(code << 4 | char::from(self.byte(ahead + digit)).to_digit(16)?))
    }
}

/// What JSON does not allow, but C reads: signs, hexadecimal, leading zeros, infinity, NaN.
fn is_invalid_number(text: &[u8]) -> bool {
    if text[0] == b'+' {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    match byte(0) {
        b'0' => matches!(byte(1), b'x' | b'X' | b'0'..=b'9'),
        0..=b'9' => false,
        _ => text
            .get(..3)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")),
    }
}
