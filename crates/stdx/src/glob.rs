//! Glob patterns as KEYS, SCAN, PSUBSCRIBE and ACL rules use them: `*`, `?`, `[abc]`, `[a-z]`, `[^x]`, `\x`.
//!
//! HOT: runs for every key that a scan visits. No allocation.
//!
//! The odd corners are Valkey's: no pattern but the empty one matches the empty text, an unclosed class is
//! closed by the end of the pattern, an escaped byte in a class minds its case even where the rest does not, and
//! bounds of a range are signed bytes.

/// How many `*` may wait for their match at a time; a pattern that needs more matches nothing.
const NESTING_MAX: u32 = 1000;

/// True if `pattern` matches the whole of `text`. `nocase` treats ASCII letters of both cases as equal.
///
/// A `*` is tried at ever later places, but once what follows the last `*` is found nowhere, earlier ones are not
/// moved: the work is at most proportional to the two lengths multiplied.
#[inline]
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if pattern == b"*" && !text.is_empty() {
        return true;
    }
    // Most keys differ from the literal beginning of a pattern at once.
    if let (Some(&wanted), Some(&byte)) = (pattern.first(), text.first())
        && wanted.is_ascii_alphanumeric()
        && fold(wanted, nocase) != fold(byte, nocase)
    {
        return false;
    }
    match_from(pattern, text, nocase, NESTING_MAX) == Outcome::Match
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Match,
    NoMatch,
    /// A `*` was tried to the end of the text in vain: moving an earlier one would not help.
    Hopeless,
}

fn match_from(mut pattern: &[u8], mut text: &[u8], nocase: bool, nesting: u32) -> Outcome {
    while let (&[first, ref rest @ ..], &[byte, ref text_rest @ ..]) = (pattern, text) {
        (pattern, text) = match first {
            b'*' => return match_star(rest, text, nocase, nesting),
            b'?' => (rest, text_rest),
            b'[' => match match_class(rest, byte, nocase) {
                Some(behind) => (behind, text_rest),
                None => return Outcome::NoMatch,
            },
            _ => {
                let (wanted, rest) = match *rest {
                    [escaped, ref behind @ ..] if first == b'\\' => (escaped, behind),
                    _ => (first, rest),
                };
                if fold(wanted, nocase) != fold(byte, nocase) {
                    return Outcome::NoMatch;
                }
                (rest, text_rest)
            }
        };
        if text.is_empty() {
            pattern = skip_stars(pattern);
        }
    }
    if pattern.is_empty() && text.is_empty() { Outcome::Match } else { Outcome::NoMatch }
}

/// `rest` is what follows the `*`; `text` is not empty.
fn match_star(rest: &[u8], text: &[u8], nocase: bool, nesting: u32) -> Outcome {
    let rest = skip_stars(rest);
    if rest.is_empty() {
        return Outcome::Match;
    }
    if nesting == 0 {
        return Outcome::Hopeless;
    }
    for start in 0..text.len() {
        match match_from(rest, &text[start..], nocase, nesting - 1) {
            Outcome::NoMatch => {}
            settled => return settled,
        }
    }
    Outcome::Hopeless
}

fn skip_stars(pattern: &[u8]) -> &[u8] {
    &pattern[pattern.iter().take_while(|&&byte| byte == b'*').count()..]
}

/// `class` is what follows the `[`. Returns what follows the class if `byte` belongs to it.
fn match_class(class: &[u8], byte: u8, nocase: bool) -> Option<&[u8]> {
    let (inverted, mut class) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    loop {
        class = match *class {
            [] => break,
            [b']', ref behind @ ..] => {
                class = behind;
                break;
            }
            [b'\\', escaped, ref behind @ ..] => {
                found |= escaped == byte;
                behind
            }
            [from, b'-', to, ref behind @ ..] => {
                // Signed, as C's plain char; the order of the bounds is that before case is folded.
                let (from, to) = if from as i8 > to as i8 { (to, from) } else { (from, to) };
                let fold = |byte| fold(byte, nocase) as i8;
                found |= (fold(from)..=fold(to)).contains(&fold(byte));
                behind
            }
            [member, ref behind @ ..] => {
                found |= fold(member, nocase) == fold(byte, nocase);
                behind
            }
        };
    }
    (found != inverted).then_some(class)
}

#[inline]
fn fold(byte: u8, nocase: bool) -> u8 {
    if nocase { byte.to_ascii_lowercase() } else { byte }
}

#[cfg(test)]
mod tests;
