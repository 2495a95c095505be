//! What SSCAN, HSCAN and ZSCAN have in common: their cursor and options. Not the walk: each type has its own.

use command::CommandError;
use resp::{Args, Reply};
use stdx::glob;
use stdx::num::parse_i64;

use crate::generic::parse_cursor;

/// COUNT when it is not told.
const COUNT_DEFAULT: usize = 10;

/// The options behind the cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    /// None matches everything.
    pattern: Option<&'a [u8]>,
    /// How many elements to look at, about.
    pub(crate) count: usize,
    /// NOVALUES, NOSCORES: reply with names alone.
    pub(crate) names_only: bool,
}

/// The cursor, word 2 of `NAME key cursor ...`. The peers look at it before they look at the key, and at the options afterwards.
pub(crate) fn cursor(args: Args<'_>) -> Result<u64, CommandError> {
    parse_cursor(&args[2]).ok_or(CommandError::fixed("ERR invalid cursor"))
}

impl<'a> Options<'a> {
    /// Reads the words behind the cursor, in any order. `names_only` is the word for "names alone", if the command takes one: NOVALUES, NOSCORES.
    pub(crate) fn parse(args: Args<'a>, names_only: Option<&str>) -> Result<Self, CommandError> {
        let mut options = Self { pattern: None, count: COUNT_DEFAULT, names_only: false };
        let mut index = 3;
        while let Some(word) = args.get(index) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match args.get(index + 1) {
                Some(count) if is("COUNT") => {
                    let count = parse_i64(count).ok_or(CommandError::NOT_AN_INTEGER)?;
                    let positive = usize::try_from(count).ok().filter(|count| *count > 0);
                    options.count = positive.ok_or(CommandError::SYNTAX)?;
                    index += 2;
                }
                Some(pattern) if is("MATCH") => {
                    options.pattern = Some(pattern).filter(|pattern| *pattern != b"*");
                    index += 2;
                }
                _ if names_only.is_some_and(is) => {
                    options.names_only = true;
                    index += 1;
                }
                _ if is("NOVALUES") => {
                    return Err(CommandError::fixed("ERR NOVALUES option can only be used in HSCAN"));
                }
                _ if is("NOSCORES") => {
                    return Err(CommandError::fixed("ERR NOSCORES option can only be used in ZSCAN"));
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(options)
    }

    /// Whether the reply should have an element of this name.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// The reply to a scan of a key that does not exist.
pub(crate) fn nothing(reply: &mut Reply) {
    head(reply, 0);
    reply.array(0);
}

/// The cursor to go on with; an array of what was found follows.
pub(crate) fn head(reply: &mut Reply, cursor: u64) {
    reply.array(2);
    reply.bulk_int(i64::try_from(cursor).expect("a cursor in a collection is below 2^63"));
}
