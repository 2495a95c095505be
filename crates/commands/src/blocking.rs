//! What commands that wait have in common: their timeouts, and which of their keys have something. Not the waiting itself, which is the
//! router's.

use command::{Begin, CommandError, Effect, Find, KeyFlags, KeySpec};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::plan::{Attempted, Wait};
use stdx::longdouble::LongDouble;
use types::Type;

/// Something is taken out of the key.
pub(crate) const TAKEN: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);

/// `key [key ...] timeout`
pub(crate) const ALL_BUT_LAST: &[KeySpec] = &[KeySpec {
    begin: Begin::Index(1),
    find: Find::Range { last: -2, step: 1, limit: 0 },
    flags: TAKEN,
    notes: "",
}];

/// `timeout numkeys key [key ...]`
pub(crate) const COUNTED: &[KeySpec] = &[KeySpec {
    begin: Begin::Index(2),
    find: Find::Count { count_at: 0, first: 1, step: 1 },
    flags: TAKEN,
    notes: "",
}];

const NEGATIVE: CommandError = CommandError::fixed("ERR timeout is negative");
const OUT_OF_RANGE: CommandError = CommandError::fixed("ERR timeout is out of range");

/// When the wait of a command ends whose timeout is `word`, in seconds, a fraction allowed: unix time in ms, none for never (0).
pub(crate) fn until_seconds(cx: &Exec<'_>, word: &[u8]) -> Result<Option<u64>, CommandError> {
    let seconds =
        LongDouble::parse(word).ok_or(CommandError::fixed("ERR timeout is not a float or out of range"))?;
    until(cx, seconds.times_rounded_up(1000).ok_or(OUT_OF_RANGE)?)
}

/// When a wait of so many milliseconds ends; 0: never.
fn until(cx: &Exec<'_>, ms: i64) -> Result<Option<u64>, CommandError> {
    let ms = u64::try_from(ms).map_err(|_| NEGATIVE)?;
    if ms == 0 {
        return Ok(None);
    }
    let until_ms = cx.now_ms.saturating_add(ms);
    if i64::try_from(until_ms).is_ok() { Ok(Some(until_ms)) } else { Err(OUT_OF_RANGE) }
}

/// There is nothing for the command: it waits until then.
pub(crate) fn wait(until_ms: Option<u64>) -> Attempted {
    Attempted::Wait(Wait { effect: Effect::None, until_ms, words: None })
}

/// Whether `key` holds a collection of this type; another type is an error. What those who came before are about to get is not there. When a waiting command is tried again, keys of shards that are
/// not held count as empty, as nothing has come for them, and so do keys that have become of another type.
pub(crate) fn has(cx: &mut Exec<'_>, key: Key<'_>, wanted: Type) -> Result<bool, CommandError> {
    if !cx.holds(key) {
        return Ok(false);
    }
    let retrying = cx.retrying;
    match cx.find_view(key, wanted) {
        Ok(view) => Ok(view.is_some() && !cx.is_promised(key)),
        Err(_) if retrying => Ok(false),
        Err(error) => Err(error),
    }
}
