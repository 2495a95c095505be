//! What rules look like as words: the reasons why one is refused, and selectors that are written over several words.

use std::borrow::Cow;

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    UnknownCommand,
    Syntax,
    AfterAllKeys,
    AfterAllChannels,
    NoSuchPassword,
    BadHash,
    FirstArgOfSubcommand,
    DatabaseOutOfRange,
}

impl RuleError {
    /// The text in replies and logs.
    pub fn text(self) -> &'static str {
        match self {
            Self::UnknownCommand => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::AfterAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to \
                 start with an empty list of patterns"
            }
            Self::AfterAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
                 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Self::DatabaseOutOfRange => "The provided database ID is out of range",
        }
    }
}

/// A parenthesis that is not closed: the index of the word with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmatched(pub usize);

/// Puts the words of each selector together: `(~a`, `+get)` becomes `(~a +get)`.
pub fn merge_selectors<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, Unmatched> {
    let mut merged: Vec<Cow<'a, [u8]>> = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, word) in words.iter().enumerate() {
        let closes = word.last() == Some(&b')');
        match &mut open {
            Some((_, text)) => {
                text.push(b' ');
                text.extend_from_slice(word);
                if closes && let Some((_, text)) = open.take() {
                    merged.push(Cow::Owned(text));
                }
            }
            None if word.first() == Some(&b'(') && !closes => open = Some((at, word.to_vec())),
            None => merged.push(Cow::Borrowed(word)),
        }
    }
    match open {
        Some((at, _)) => Err(Unmatched(at)),
        None => Ok(merged),
    }
}

/// Whether a text has a blank or a NUL, which neither names nor patterns may have.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'\x0b' || *byte == 0)
}

/// The databases of `db=0,3`, ascending, each once.
pub(crate) fn databases(list: &[u8]) -> Result<Vec<u32>, RuleError> {
    let mut found = Vec::new();
    for word in list.split(|byte| *byte == b',') {
        // As C's strtol reads a number: blanks and a sign may stand before it.
        let word = word.trim_ascii_start();
        let digits = word.strip_prefix(b"+").or(word.strip_prefix(b"-")).unwrap_or(word);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(RuleError::Syntax);
        }
        let value = digits
            .iter()
            .try_fold(0_i64, |value, digit| value.checked_mul(10)?.checked_add(i64::from(digit - b'0')));
        let value =
            value.filter(|value| *value == 0 || word[0] != b'-').ok_or(RuleError::DatabaseOutOfRange)?;
        let id = i32::try_from(value).ok().and_then(|id| u32::try_from(id).ok());
        found.push(id.ok_or(RuleError::DatabaseOutOfRange)?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
