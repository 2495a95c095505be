//! What a setting is: one row of the table, and how a value given as words becomes the text that CONFIG GET shows.

use std::borrow::Cow;

/// One row of [`super::table::SETTINGS`].
pub struct Setting {
    pub name: &'static str,
    /// A second name (`slave-read-only`), empty when there is none.
    pub alias: &'static str,
    /// In the form of CONFIG GET.
    pub default: &'static str,
    pub kind: Kind,
    pub change: Change,
    pub stance: Stance,
}

/// How a value is read and shown.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `yes` or `no`
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    /// A number of bytes, with a unit if wanted: k, kb, m, mb, g, gb.
    Bytes {
        min: u64,
        max: u64,
    },
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// Any bytes.
    Text,
    /// Any bytes, but not none.
    NonEmpty,
    /// One word with a rule of its own.
    Own(fn(&[u8]) -> Parsed),
    /// Several words; CONFIG SET gives them as one, separated by single spaces. The second argument is the value until now.
    Words(fn(&[&[u8]], &[u8]) -> Parsed),
}

/// A value in the form of CONFIG GET, or why it is none.
pub type Parsed = Result<Vec<u8>, Reason>;

/// Why a value is refused, as CONFIG SET's reply and the error at start say it.
pub type Reason = Cow<'static, str>;

/// When a setting may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Anytime,
    /// By CONFIG SET only where `enable-protected-configs` allows it.
    Protected,
    /// Only at the start.
    Never,
}

/// What Darter makes of a setting.
#[derive(Clone, Copy)]
pub enum Stance {
    /// It does what the name says.
    Obeyed,
    /// It tunes how Valkey is built inside; here it is kept and shown, but nothing depends on it.
    Tuning,
    /// Some values promise what Darter does not deliver. Only those that `harmless` accepts may be set.
    Promise { harmless: fn(&[u8]) -> bool, lacks: &'static str },
}

impl Setting {
    const fn new(name: &'static str, default: &'static str, kind: Kind) -> Self {
        Self { name, alias: "", default, kind, change: Change::Anytime, stance: Stance::Obeyed }
    }

    pub const fn flag(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::Bool)
    }

    pub const fn int(name: &'static str, default: &'static str, min: i64, max: i64) -> Self {
        Self::new(name, default, Kind::Int { min, max })
    }

    pub const fn bytes(name: &'static str, default: &'static str, min: u64, max: u64) -> Self {
        Self::new(name, default, Kind::Bytes { min, max })
    }

    pub const fn choice(name: &'static str, default: &'static str, words: &'static [&'static str]) -> Self {
        Self::new(name, default, Kind::Choice(words))
    }

    pub const fn text(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::Text)
    }

    pub const fn non_empty(name: &'static str, default: &'static str) -> Self {
        Self::new(name, default, Kind::NonEmpty)
    }

    pub const fn own(name: &'static str, default: &'static str, parse: fn(&[u8]) -> Parsed) -> Self {
        Self::new(name, default, Kind::Own(parse))
    }

    pub const fn words(
        name: &'static str,
        default: &'static str,
        parse: fn(&[&[u8]], &[u8]) -> Parsed,
    ) -> Self {
        Self::new(name, default, Kind::Words(parse))
    }

    pub const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = alias;
        self
    }

    /// Only settable at the start.
    pub const fn fixed(mut self) -> Self {
        self.change = Change::Never;
        self
    }

    pub const fn protected(mut self) -> Self {
        self.change = Change::Protected;
        self
    }

    pub const fn tuning(mut self) -> Self {
        self.stance = Stance::Tuning;
        self
    }

    pub const fn promise(mut self, harmless: fn(&[u8]) -> bool, lacks: &'static str) -> Self {
        self.stance = Stance::Promise { harmless, lacks };
        self
    }

    /// Whether this row is meant by `name`, in any case.
    pub fn is_named(&self, name: &[u8]) -> bool {
        self.name.as_bytes().eq_ignore_ascii_case(name)
            || (!self.alias.is_empty() && self.alias.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The value that these words of a configuration line give, in the form of CONFIG GET; `before` is the value until now.
    pub fn parse(&self, words: &[&[u8]], before: &[u8]) -> Parsed {
        let value = match (self.kind, words) {
            // Several words may also come as one, between quotes.
            (Kind::Words(parse), [word]) => {
                parse(&word.split(|&byte| byte == b' ').collect::<Vec<_>>(), before)?
            }
            (Kind::Words(parse), words) => parse(words, before)?,
            (kind, [word]) => self.parse_word(kind, word)?,
            _ => return Err("wrong number of arguments".into()),
        };
        match self.stance {
            Stance::Promise { harmless, lacks } if !harmless(&value) => Err(lacks.into()),
            _ => Ok(value),
        }
    }

    fn parse_word(&self, kind: Kind, word: &[u8]) -> Parsed {
        match kind {
            Kind::Bool => match word.to_ascii_lowercase().as_slice() {
                lower @ (b"yes" | b"no") => Ok(lower.to_vec()),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Kind::Int { min, max } => int(word, min, max).map(|value| value.to_string().into_bytes()),
            Kind::Bytes { min, max } => {
                let value = bytes(word).ok_or("argument must be a memory value")?;
                in_range(value, min, max)?;
                Ok(value.to_string().into_bytes())
            }
            Kind::Choice(known) => one_of(word, known).map(|choice| choice.as_bytes().to_vec()),
            Kind::Text => Ok(word.to_vec()),
            Kind::NonEmpty if word.is_empty() => Err(format!("{} can't be empty", self.name).into()),
            Kind::NonEmpty => Ok(word.to_vec()),
            Kind::Own(parse) => parse(word),
            Kind::Words(_) => unreachable!("settings of several words are parsed by their own rule"),
        }
    }
}

/// A whole number within bounds, written as Valkey writes it: no sign but `-`, no leading zeros or blanks.
pub(super) fn int(word: &[u8], min: i64, max: i64) -> Result<i64, Reason> {
    let value = stdx::num::parse_i64(word).ok_or("argument couldn't be parsed into an integer")?;
    in_range(value, min, max)?;
    Ok(value)
}

fn in_range<T: PartialOrd + std::fmt::Display>(value: T, min: T, max: T) -> Result<(), Reason> {
    if value < min || value > max {
        return Err(format!("argument must be between {min} and {max} inclusive").into());
    }
    Ok(())
}

/// A number of bytes with an optional unit. As in Valkey no digits at all mean 0; unlike there, what does not fit 64 bits
/// is refused instead of wrapping round.
pub(super) fn bytes(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = word.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let mut value = 0_u64;
    for digit in number {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    value.checked_mul(factor)
}

/// The member of `known` that `word` names in any case.
pub(super) fn one_of(word: &[u8], known: &[&'static str]) -> Result<&'static str, Reason> {
    known
        .iter()
        .find(|choice| choice.as_bytes().eq_ignore_ascii_case(word))
        .copied()
        .ok_or_else(|| format!("argument(s) must be one of the following: {}", known.join(", ")).into())
}
