//! Where a command's keys stand among its words, and what it does with each: the key specifications of COMMAND INFO.

use resp::Args;

/// What a command does with the keys of one specification; the names are those of COMMAND INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFlags(u16);

impl KeyFlags {
    pub const RO: Self = Self(1);
    pub const RW: Self = Self(1 << 1);
    pub const OW: Self = Self(1 << 2);
    pub const RM: Self = Self(1 << 3);
    pub const ACCESS: Self = Self(1 << 4);
    pub const UPDATE: Self = Self(1 << 5);
    pub const INSERT: Self = Self(1 << 6);
    pub const DELETE: Self = Self(1 << 7);
    pub const NOT_KEY: Self = Self(1 << 8);
    pub const INCOMPLETE: Self = Self(1 << 9);
    pub const VARIABLE_FLAGS: Self = Self(1 << 10);
    const NAMES: [&'static str; 11] = [
        "RO",
        "RW",
        "OW",
        "RM",
        "access",
        "update",
        "insert",
        "delete",
        "not_key",
        "incomplete",
        "variable_flags",
    ];

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the flags that are set, in COMMAND INFO's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().enumerate().filter(move |(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| *name)
    }
}

/// Where a specification's search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this word; the command's name is word 0.
    Index(u16),
    /// After this keyword, looked for from word `start` on (from the end when negative).
    Keyword {
        word: &'static str,
        start: i16,
    },
    Unknown,
}

/// Which words from the beginning on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`-th word up to `last`: relative to the beginning, or from the end of the command when negative (-1 is the last
    /// word). With `last` -1 a `limit` of n above 1 means only the first n-th part of the remaining words.
    Range {
        last: i16,
        step: u16,
        limit: u16,
    },
    /// The word at `count_at` (relative to the beginning) holds the number of keys, the first stands at `first`.
    Count {
        count_at: u16,
        first: u16,
        step: u16,
    },
    Unknown,
    /// The word behind the last STORE of SORT, which may stand among the options in any place. COMMAND INFO says that it is unknown.
    SortStore,
}

/// One group of keys of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    pub begin: Begin,
    pub find: Find,
    pub flags: KeyFlags,
    pub notes: &'static str,
}

impl KeySpec {
    /// A single key at word 1, the commonest case.
    pub const fn first(flags: KeyFlags) -> Self {
        Self { begin: Begin::Index(1), find: Find::Range { last: 0, step: 1, limit: 0 }, flags, notes: "" }
    }

    /// The words from 1 to the end, every `step`-th of them.
    pub const fn all_from_first(step: u16, flags: KeyFlags) -> Self {
        Self { begin: Begin::Index(1), find: Find::Range { last: -1, step, limit: 0 }, flags, notes: "" }
    }

    /// Calls `each` with the index of every key of this group in `args`; the name is word 0. Words that are missing or counts
    /// that are no numbers give fewer keys, never an index out of range: the command itself then answers with its error.
    pub fn each(&self, args: Args<'_>, mut each: impl FnMut(usize)) -> Result<(), InvalidKeys> {
        let words = args.len();
        let begin = match self.begin {
            Begin::Index(at) => usize::from(at),
            Begin::Keyword { word, start } => match find_keyword(args, word, start) {
                Some(at) => at + 1,
                None => return Ok(()),
            },
            Begin::Unknown => {
                if let Some(at) = sort_store(args).filter(|_| self.find == Find::SortStore) {
                    each(at);
                }
                return Ok(());
            }
        };
        match self.find {
            Find::Range { last, step, limit } => {
                if begin >= words {
                    return Ok(());
                }
                let end = match usize::try_from(last) {
                    Ok(last) => begin + last,
                    Err(_) if limit > 1 => {
                        begin + (words - begin) / usize::from(limit) + usize::from(last != -1) - 1
                    }
                    Err(_) => words.saturating_sub(usize::from(last.unsigned_abs())),
                };
                for index in (begin..=end.min(words - 1)).step_by(usize::from(step)) {
                    each(index);
                }
            }
            Find::Count { count_at, first, step } => {
                let word = args.get(begin + usize::from(count_at)).ok_or(InvalidKeys)?;
                let count = stdx::num::parse_i64(word).ok_or(InvalidKeys)?;
                let count = usize::try_from(count).map_err(|_| InvalidKeys)?;
                let begin = begin + usize::from(first);
                let fits = words.saturating_sub(begin).div_ceil(usize::from(step));
                if count > fits {
                    return Err(InvalidKeys);
                }
                (0..count).for_each(|n| each(begin + n * usize::from(step)));
            }
            Find::Unknown | Find::SortStore => {}
        }
        Ok(())
    }
}

/// The words do not follow the key specification: a count that is no number, or larger than the words that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeys;

/// The word behind the last STORE that is an option of SORT, not the argument of another one.
fn sort_store(args: Args<'_>) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while let Some(word) = args.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        at += match () {
            () if is("LIMIT") => 3,
            () if is("BY") || is("GET") => 2,
            () if is("STORE") && at + 1 < args.len() => {
                found = Some(at + 1);
                1
            }
            () => 1,
        };
    }
    found
}

fn find_keyword(args: Args<'_>, word: &str, start: i16) -> Option<usize> {
    let is_keyword =
        |index: &usize| args.get(*index).is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    match usize::try_from(start) {
        Ok(start) => (start..args.len()).find(is_keyword),
        Err(_) => (1..=args.len().saturating_sub(usize::from(start.unsigned_abs()))).rev().find(is_keyword),
    }
}

/// Calls `each` with the index and flags of every key of a command with these specifications.
pub fn key_positions(
    specs: &[KeySpec],
    args: Args<'_>,
    mut each: impl FnMut(usize, KeyFlags),
) -> Result<(), InvalidKeys> {
    for spec in specs {
        spec.each(args, |index| each(index, spec.flags))?;
    }
    Ok(())
}

/// What a call does with a key whose specification says `flags`: where options decide it (`VARIABLE_FLAGS`), what those of this call say.
pub fn call_flags(name: &str, args: Args<'_>, flags: KeyFlags) -> KeyFlags {
    if !flags.has(KeyFlags::VARIABLE_FLAGS) {
        return flags;
    }
    match name {
        "SET" => {
            let reads = args.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"get"));
            let base = if reads { KeyFlags::RW.with(KeyFlags::ACCESS) } else { KeyFlags::OW };
            base.with(KeyFlags::UPDATE)
        }
        "BITFIELD" if only_reads(args) => KeyFlags::RO.with(KeyFlags::ACCESS),
        "BITFIELD" => KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE),
        _ => flags,
    }
}

/// Whether a BITFIELD has nothing but GETs.
fn only_reads(args: Args<'_>) -> bool {
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let left = args.len() - at - 1;
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        at += match () {
            () if is("GET") && left >= 2 => 3,
            () if is("OVERFLOW") && left >= 1 => 2,
            () => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests;

/// First key, last key and step of COMMAND INFO, which can say less than specifications: one run of words that the specifications with an
/// index and a range make up together. 0, 0, 0 for a command without keys.
pub fn legacy_range(specs: &[KeySpec]) -> (i32, i32, i32) {
    let (mut first, mut last, mut step) = (0, 0, 0);
    for spec in specs {
        let (Begin::Index(at), Find::Range { last: relative, step: by, .. }) = (spec.begin, spec.find) else {
            continue;
        };
        let (at, by) = (i32::from(at), i32::from(by));
        let end = if relative >= 0 { at + i32::from(relative) } else { i32::from(relative) };
        if first == 0 {
            (first, last, step) = (at, end, by);
        } else if last + 1 == at && step == 1 && by == 1 {
            last = end;
        } else {
            break;
        }
    }
    (first, last, step)
}
