//! The options that SET, GETEX and MSETEX share: a condition, a deadline, GET. Not their meaning: that is with the commands.

use command::CommandError;
use resp::Args;

/// Milliseconds of a second.
pub(crate) const SECOND_MS: i64 = 1000;

/// What must hold before a key is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Condition<'a> {
    #[default]
    Always,
    /// NX: the key does not exist.
    Missing,
    /// XX: the key exists.
    Exists,
    /// IFEQ: the key holds this string.
    Equals(&'a [u8]),
}

/// What is said about the key's deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime<'a> {
    /// Nothing.
    #[default]
    Unsaid,
    /// KEEPTTL
    Keep,
    /// PERSIST
    Persist,
    /// EX, PX, EXAT, PXAT with its word, which may still be no number.
    Timed(Unit, &'a [u8]),
}

/// How a time is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Milliseconds of one unit: 1 or 1000.
    pub(crate) scale_ms: i64,
    /// Counted from now instead of from 1970.
    pub(crate) relative: bool,
}

impl Unit {
    pub(crate) const SECONDS: Self = Self { scale_ms: SECOND_MS, relative: true };
    pub(crate) const MILLISECONDS: Self = Self { scale_ms: 1, relative: true };
    pub(crate) const UNIX_SECONDS: Self = Self { scale_ms: SECOND_MS, relative: false };
    pub(crate) const UNIX_MILLISECONDS: Self = Self { scale_ms: 1, relative: false };

    /// EX, PX, EXAT or PXAT.
    pub(crate) fn named(word: &[u8]) -> Option<Self> {
        const UNITS: [(&[u8], Unit); 4] = [
            (b"EX", Unit::SECONDS),
            (b"PX", Unit::MILLISECONDS),
            (b"EXAT", Unit::UNIX_SECONDS),
            (b"PXAT", Unit::UNIX_MILLISECONDS),
        ];
        UNITS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, unit)| *unit)
    }
}

/// Which of the options a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// NX XX IFEQ GET, times, KEEPTTL
    Set,
    /// NX XX, times, KEEPTTL
    SetMany,
    /// times, PERSIST
    Get,
}

/// The options of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options<'a> {
    pub(crate) condition: Condition<'a>,
    pub(crate) lifetime: Lifetime<'a>,
    /// GET: the reply is the value from before.
    pub(crate) get: bool,
}

impl<'a> Options<'a> {
    /// Reads the words from `start` on: in any order and case; an option may be repeated but not contradicted.
    pub(crate) fn parse(args: Args<'a>, start: usize, accepts: Accepts) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut index = start;
        while let Some(word) = args.get(index) {
            index += 1 + options.read(word, args.get(index + 1), accepts).ok_or(CommandError::SYNTAX)?;
        }
        Ok(options)
    }

    /// Reads one option; gives how many words after it belong to it.
    fn read(&mut self, word: &'a [u8], next: Option<&'a [u8]>, accepts: Accepts) -> Option<usize> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let conditional = accepts != Accepts::Get;
        if conditional && is("NX") && matches!(self.condition, Condition::Always | Condition::Missing) {
            self.condition = Condition::Missing;
            Some(0)
        } else if conditional && is("XX") && matches!(self.condition, Condition::Always | Condition::Exists) {
            self.condition = Condition::Exists;
            Some(0)
        } else if accepts == Accepts::Set && is("IFEQ") && self.condition == Condition::Always {
            self.condition = Condition::Equals(next?);
            Some(1)
        } else if accepts == Accepts::Set && is("GET") {
            self.get = true;
            Some(0)
        } else if conditional && is("KEEPTTL") && matches!(self.lifetime, Lifetime::Unsaid | Lifetime::Keep) {
            self.lifetime = Lifetime::Keep;
            Some(0)
        } else if !conditional
            && is("PERSIST")
            && matches!(self.lifetime, Lifetime::Unsaid | Lifetime::Persist)
        {
            self.lifetime = Lifetime::Persist;
            Some(0)
        } else {
            let unit = Unit::named(word)?;
            match self.lifetime {
                Lifetime::Unsaid => {}
                Lifetime::Timed(before, _) if before == unit => {}
                _ => return None,
            }
            self.lifetime = Lifetime::Timed(unit, next?);
            Some(1)
        }
    }

    /// The deadline that the options name, if they name a time.
    pub(crate) fn deadline(&self, now_ms: u64, command: &str) -> Result<Option<u64>, CommandError> {
        match self.lifetime {
            Lifetime::Timed(unit, word) => deadline(word, unit, now_ms, command).map(Some),
            _ => Ok(None),
        }
    }
}

/// The moment that a word names: above 0 and not beyond 2^63 - 1 ms.
pub(crate) fn deadline(word: &[u8], unit: Unit, now_ms: u64, command: &str) -> Result<u64, CommandError> {
    let time = stdx::num::parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)?;
    let now = if unit.relative { i64::try_from(now_ms).expect("the clock is below 2^63 ms") } else { 0 };
    let ms = time.checked_mul(unit.scale_ms).filter(|_| time > 0).and_then(|ms| ms.checked_add(now));
    ms.and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| CommandError::invalid_expire(command))
}

#[cfg(test)]
mod tests {
    use resp::OwnedArgs;

    use super::*;

    fn parse(text: &str, accepts: Accepts) -> Option<OwnedArgs> {
        let args = OwnedArgs::from_words(text.split(' '));
        Options::parse(args.as_args(), 0, accepts).is_ok().then_some(args)
    }

    #[test]
    fn options_combine_in_any_order_and_contradict_in_any_order() {
        for good in [
            "NX EX 1",
            "ex 1 nx",
            "GET XX KEEPTTL",
            "IFEQ a GET PXAT 5",
            "NX NX GET GET",
            "EX 1 EX 2",
            "IFEQ NX",
        ] {
            assert!(parse(good, Accepts::Set).is_some(), "{good}");
        }
        for bad in
            ["NX XX", "XX IFEQ a", "IFEQ a IFEQ a", "IFEQ", "EX", "EX 1 PX 1", "KEEPTTL EX 1", "PERSIST", "x"]
        {
            assert!(parse(bad, Accepts::Set).is_none(), "{bad}");
        }
        assert!(parse("IFEQ a", Accepts::SetMany).is_none() && parse("GET", Accepts::SetMany).is_none());
        assert!(parse("NX", Accepts::Get).is_none() && parse("KEEPTTL", Accepts::Get).is_none());
        assert!(
            parse("PERSIST PERSIST", Accepts::Get).is_some() && parse("PERSIST EX 1", Accepts::Get).is_none()
        );
    }

    #[test]
    fn deadlines_are_positive_and_do_not_wrap() {
        let at = |word: &str, unit| {
            deadline(word.as_bytes(), unit, 1_000_000, "set").map_err(|e| e.text().to_string())
        };
        assert_eq!(at("5", Unit::SECONDS), Ok(1_005_000));
        assert_eq!(at("5", Unit::UNIX_SECONDS), Ok(5_000));
        assert_eq!(at("9223372036854775807", Unit::UNIX_MILLISECONDS), Ok(i64::MAX as u64));
        for (word, unit) in [
            ("0", Unit::SECONDS),
            ("-5", Unit::UNIX_MILLISECONDS),
            ("9223372036854775807", Unit::MILLISECONDS),
            ("9223372036854775807", Unit::UNIX_SECONDS),
            ("-9223372036854775808", Unit::SECONDS),
        ] {
            assert_eq!(at(word, unit), Err("ERR invalid expire time in 'set' command".to_string()), "{word}");
        }
        assert_eq!(at("x", Unit::SECONDS), Err("ERR value is not an integer or out of range".to_string()));
    }
}
