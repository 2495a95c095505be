//! Deadlines of keys: setting, removing and asking for them.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::notify::Class;
use stdx::num::parse_i64;

use super::ask;
use crate::effects::{deadline_set, record};
use crate::string::Unit;
use crate::text::quoted;

const NX_AND_OTHERS: CommandError =
    CommandError::fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_AND_LT: CommandError =
    CommandError::fixed("ERR GT and LT options at the same time are not compatible");

/// When EXPIRE and its kin change a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// NX: the key has no deadline.
    without: bool,
    /// XX: the key has a deadline.
    with: bool,
    /// GT: the new deadline is later.
    later: bool,
    /// LT: the new deadline is earlier.
    earlier: bool,
}

impl Conditions {
    pub(crate) fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut conditions = Self::default();
        for word in args.iter() {
            let named = [
                ("NX", &mut conditions.without),
                ("XX", &mut conditions.with),
                ("GT", &mut conditions.later),
                ("LT", &mut conditions.earlier),
            ];
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match named.into_iter().find(|(name, _)| is(name)) {
                Some((_, condition)) => *condition = true,
                None => {
                    return Err(CommandError::new(format!("ERR Unsupported option {}", quoted(word))));
                }
            }
        }
        if conditions.without && (conditions.with || conditions.later || conditions.earlier) {
            return Err(NX_AND_OTHERS);
        }
        if conditions.later && conditions.earlier { Err(GT_AND_LT) } else { Ok(conditions) }
    }

    /// Whether a deadline may become `new`; none counts as infinitely late.
    pub(crate) fn hold(self, old: Option<u64>, new: i64) -> bool {
        let old_ms = old.map(|old| i64::try_from(old).expect("a deadline is below 2^63 ms"));
        !(self.without && old.is_some()
            || self.with && old.is_none()
            || self.later && old_ms.is_none_or(|old| new <= old)
            || self.earlier && old_ms.is_some_and(|old| new >= old))
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub(super) fn expire(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::SECONDS, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub(super) fn pexpire(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::MILLISECONDS, "pexpire")
}

/// `EXPIREAT key unix-time [NX | XX | GT | LT]`
pub(super) fn expireat(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::UNIX_SECONDS, "expireat")
}

/// `PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]`
pub(super) fn pexpireat(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    expire_at(cx, args, reply, Unit::UNIX_MILLISECONDS, "pexpireat")
}

fn expire_at(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    unit: Unit,
    command: &str,
) -> Result<Effect, CommandError> {
    let conditions = Conditions::parse(args.from(3))?;
    let time = parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let now = if unit.relative { i64::try_from(cx.now_ms).expect("the clock is below 2^63 ms") } else { 0 };
    // A time before 1970, or before now, is a deadline that has passed.
    let deadline = time.checked_mul(unit.scale_ms).and_then(|ms| ms.checked_add(now));
    let deadline = deadline.ok_or_else(|| CommandError::invalid_expire(command))?;
    let key = cx.key(args, 1);
    let Some(old) = cx.find(key).map(|entry| entry.deadline()) else {
        reply.int(0);
        return Ok(Effect::None);
    };
    let changes = conditions.hold(old, deadline);
    reply.int(i64::from(changes));
    Ok(if changes { deadline_set(cx, key, u64::try_from(deadline).unwrap_or(0)) } else { Effect::None })
}

/// `PERSIST key`
pub(super) fn persist(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let has_deadline = cx.find(key).is_some_and(|entry| entry.deadline().is_some());
    reply.int(i64::from(has_deadline));
    if !has_deadline {
        return Ok(Effect::None);
    }
    cx.keyspace(key).set_deadline(key, None);
    cx.notify(Class::GENERIC, "persist", key);
    Ok(cx.rewritten(|| vec![record(&[b"PERSIST", key.bytes])]))
}

/// `TTL key`
pub(super) fn ttl(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let now_ms = cx.now_ms;
    tell_deadline(cx, args, reply, |deadline| to_seconds(deadline.saturating_sub(now_ms)))
}

/// `PTTL key`
pub(super) fn pttl(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let now_ms = cx.now_ms;
    tell_deadline(cx, args, reply, |deadline| deadline.saturating_sub(now_ms))
}

/// `EXPIRETIME key`
pub(super) fn expiretime(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    tell_deadline(cx, args, reply, to_seconds)
}

/// `PEXPIRETIME key`
pub(super) fn pexpiretime(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    tell_deadline(cx, args, reply, |deadline| deadline)
}

/// Milliseconds as seconds, rounded half up.
fn to_seconds(ms: u64) -> u64 {
    (ms + 500) / 1000
}

/// Replies -2 for no key, -1 for no deadline, else what `tell` makes of the deadline.
fn tell_deadline(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    tell: impl Fn(u64) -> u64,
) -> Result<Effect, CommandError> {
    reply.int(match ask(cx, cx.key(args, 1), |entry| entry.deadline()) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => i64::try_from(tell(deadline)).expect("a deadline is below 2^63 ms"),
    });
    Ok(Effect::None)
}

#[cfg(test)]
mod tests {
    use resp::OwnedArgs;

    use super::*;

    #[test]
    fn conditions() {
        let parse = |text: &str| Conditions::parse(OwnedArgs::from_words(text.split_whitespace()).as_args());
        let text = |text: &str| parse(text).map_err(|e| e.text().to_string());
        assert_eq!(text("nx Nx"), Ok(Conditions { without: true, ..Default::default() }));
        assert_eq!(text("NX GT"), Err(NX_AND_OTHERS.text().into()));
        assert_eq!(text("GT XX LT"), Err(GT_AND_LT.text().into()));
        assert_eq!(text("GT LT foo"), Err("ERR Unsupported option foo".into()));
        let hold = |text: &str, old, new| parse(text).unwrap().hold(old, new);
        assert!(hold("", None, 5) && hold("", Some(5), -5));
        assert!(hold("NX", None, 5) && !hold("NX", Some(1), 5));
        assert!(!hold("XX", None, 5) && hold("XX", Some(1), 5));
        assert!(!hold("GT", None, 5) && !hold("GT", Some(5), 5) && hold("GT", Some(4), 5));
        assert!(hold("LT", None, 5) && !hold("LT", Some(5), 5) && hold("LT", Some(6), 5));
        assert!(!hold("XX LT", None, 5));
    }

    #[test]
    fn seconds_are_rounded() {
        assert_eq!([0, 499, 500, 1499, 1500].map(to_seconds), [0, 0, 1, 1, 2]);
        assert_eq!(to_seconds(i64::MAX as u64), 9_223_372_036_854_776);
    }
}
