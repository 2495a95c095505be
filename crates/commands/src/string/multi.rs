//! Several strings at one moment.
//!
//! HOT: MGET and MSET: no allocation, one walk through the index per key where possible.

use command::{CommandError, Effect, Record};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Deadline;
use shard::notify::Class;

use super::expiry::{Accepts, Condition, Lifetime, Options};
use crate::effects::record;
use crate::text::{put, reply_string};

const INVALID_NUMKEYS: CommandError = CommandError::fixed("ERR invalid numkeys value or out of range");

/// `MGET key [key ...]`
pub(super) fn mget(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply.array(args.len() - 1);
    for index in 1..args.len() {
        let found = cx.read(cx.key(args, index)).map(|entry| reply_string(reply, entry));
        // A key of another type is no error here.
        if !matches!(found, Some(Ok(()))) {
            reply.null();
        }
    }
    Ok(Effect::None)
}

/// `MSET key value [key value ...]`
pub(super) fn mset(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::arity("mset"));
    }
    put_pairs(cx, args, 1);
    reply.ok();
    Ok(Effect::AsIs)
}

/// `MSETNX key value [key value ...]`
pub(super) fn msetnx(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::arity("msetnx"));
    }
    let missing = (1..args.len()).step_by(2).all(|index| cx.find(cx.key(args, index)).is_none());
    reply.int(i64::from(missing));
    if !missing {
        return Ok(Effect::None);
    }
    put_pairs(cx, args, 1);
    Ok(Effect::AsIs)
}

fn put_pairs(cx: &mut Exec<'_>, args: Args<'_>, start: usize) {
    for index in (start..args.len()).step_by(2) {
        let key = cx.key(args, index);
        put(cx, key, &args[index + 1], Deadline::Clear);
        cx.notify(Class::STRING, "set", key);
    }
}

/// `MSETEX numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT time | PXAT time | KEEPTTL]`
pub(super) fn msetex(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let pairs =
        stdx::num::parse_i64(&args[1]).and_then(|pairs| i32::try_from(pairs).ok()).filter(|pairs| *pairs > 0);
    let pairs = pairs.ok_or(INVALID_NUMKEYS)? as usize;
    let end = 2 + 2 * pairs;
    if end > args.len() {
        return Err(CommandError::SYNTAX);
    }
    let options = Options::parse(args, end, Accepts::SetMany)?;
    let deadline = options.deadline(cx.now_ms, "msetex")?;
    let mut keys = (2..end).step_by(2);
    let holds = match options.condition {
        Condition::Missing => keys.all(|index| cx.find(cx.key(args, index)).is_none()),
        Condition::Exists => keys.all(|index| cx.find(cx.key(args, index)).is_some()),
        Condition::Always | Condition::Equals(_) => true,
    };
    reply.int(i64::from(holds));
    if !holds {
        return Ok(Effect::None);
    }
    if deadline.is_some_and(|deadline| deadline <= cx.now_ms) {
        return Ok(remove_all(cx, args.first(end)));
    }
    let keep = options.lifetime == Lifetime::Keep;
    for index in (2..end).step_by(2) {
        let key = cx.key(args, index);
        if keep {
            // Looked up first, so that the deadline of an entry that has expired is not kept.
            cx.find(key);
            put(cx, key, &args[index + 1], Deadline::Keep);
        } else {
            put(cx, key, &args[index + 1], deadline.map_or(Deadline::Clear, Deadline::At));
        }
        cx.notify(Class::STRING, "set", key);
        if deadline.is_some() {
            cx.notify(Class::GENERIC, "expire", key);
        }
    }
    Ok(match deadline {
        None => Effect::AsIs,
        Some(deadline) => cx.rewritten(|| vec![timed_record(args.first(end), deadline)]),
    })
}

/// MSETEX with the deadline that the client's time has become.
fn timed_record(pairs: Args<'_>, deadline: u64) -> Record {
    let mut words: Record = pairs.iter().map(<[u8]>::to_vec).collect();
    words.push(b"PXAT".to_vec());
    words.push(deadline.to_string().into_bytes());
    words
}

/// What remains of keys that are set with a deadline in the past.
fn remove_all(cx: &mut Exec<'_>, pairs: Args<'_>) -> Effect {
    let mut records = Vec::new();
    for index in (2..pairs.len()).step_by(2) {
        let key = cx.key(pairs, index);
        // The peers set it, and then it expires.
        let found = cx.find(key).is_some();
        if !found {
            cx.notify(Class::NEW, "new", key);
        }
        cx.notify(Class::STRING, "set", key);
        cx.notify(Class::GENERIC, "expire", key);
        cx.notify(Class::EXPIRED, "expired", key);
        if found {
            cx.keyspace(key).remove(key);
            records.push(record(&[b"UNLINK", key.bytes]));
        }
    }
    if records.is_empty() { Effect::None } else { Effect::Rewritten(records.into_boxed_slice()) }
}
