//! Setting, reading and removing fields that are named.
//!
//! HOT: no allocation where a hash exists; a new one is put together in one buffer.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use types::Type;
use types::hash::{self, Hash, Lifetime};

use super::{reply_value_or_null, rules};

/// `HSET key field value [field value ...]`
pub(super) fn hset(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let added = set_pairs(cx, args, "hset")?;
    reply.int(added as i64);
    Ok(Effect::AsIs)
}

/// `HMSET key field value [field value ...]`
pub(super) fn hmset(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    set_pairs(cx, args, "hmset")?;
    reply.ok();
    Ok(Effect::AsIs)
}

fn set_pairs(cx: &mut Exec<'_>, args: Args<'_>, command: &str) -> Result<usize, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::arity(command));
    }
    let key = cx.key(args, 1);
    let added = set_all(cx, key, pairs(args.from(2)), Lifetime::Clear)?;
    cx.notify(Class::HASH, "hset", key);
    Ok(added)
}

/// Words as names and values.
pub(super) fn pairs<'k>(words: Args<'k>) -> impl ExactSizeIterator<Item = (&'k [u8], &'k [u8])> + Clone {
    (0..words.len()).step_by(2).map(move |index| {
        let word = |index| words.get(index).expect("the words are pairs");
        (word(index), word(index + 1))
    })
}

/// Sets fields of the hash at `key`, which is made if it is missing; how many of them are new.
pub(super) fn set_all<'k>(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    pairs: impl ExactSizeIterator<Item = (&'k [u8], &'k [u8])> + Clone,
    lifetime: Lifetime,
) -> Result<usize, CommandError> {
    let rules = rules(cx);
    let added = if let Some(mut slot) = cx.slot(key, Type::Hash)? {
        hash::set_all(&mut slot, rules, pairs, lifetime)
    } else if let Some((bytes, added)) = hash::pack(rules, pairs.clone(), lifetime) {
        cx.create(key, &bytes);
        added
    } else {
        hash::set_all(&mut cx.create(key, hash::EMPTY), rules, pairs, lifetime)
    };
    cx.changed(key);
    Ok(added)
}

/// `HSETNX key field value`
pub(super) fn hsetnx(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.find_view(key, Type::Hash)?;
    if view.is_some_and(|view| Hash::of(view, now_ms).get(&args[2]).is_some()) {
        reply.int(0);
        return Ok(Effect::None);
    }
    set_all(cx, key, pairs(args.from(2)), Lifetime::Clear)?;
    cx.notify(Class::HASH, "hset", key);
    reply.int(1);
    Ok(Effect::AsIs)
}

/// `HGET key field`
pub(super) fn hget(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.view(key, Type::Hash)?;
    let field = view.and_then(|view| Hash::of(view, now_ms).get(&args[2]));
    reply_value_or_null(reply, field.as_ref());
    Ok(Effect::None)
}

/// `HMGET key field [field ...]`
pub(super) fn hmget(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.view(key, Type::Hash)?;
    let names = args.from(2);
    reply.array(names.len());
    match view {
        None => (0..names.len()).for_each(|_| reply.null()),
        Some(view) => {
            Hash::of(view, now_ms).get_each(names.iter(), |field| reply_value_or_null(reply, field.as_ref()))
        }
    }
    Ok(Effect::None)
}

/// `HEXISTS key field`
pub(super) fn hexists(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.view(key, Type::Hash)?;
    let found = view.is_some_and(|view| Hash::of(view, now_ms).get(&args[2]).is_some());
    reply.int(i64::from(found));
    Ok(Effect::None)
}

/// `HSTRLEN key field`
pub(super) fn hstrlen(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.view(key, Type::Hash)?;
    let field = view.and_then(|view| Hash::of(view, now_ms).get(&args[2]));
    reply.int(field.map_or(0, |field| field.value.len() as i64));
    Ok(Effect::None)
}

/// `HLEN key`
pub(super) fn hlen(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms);
    let view = cx.view(key, Type::Hash)?;
    reply.int(view.map_or(0, |view| Hash::of(view, now_ms).len() as i64));
    Ok(Effect::None)
}

/// `HDEL key field [field ...]`
pub(super) fn hdel(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let removed = remove_all(cx, key, args.from(2).iter(), "hdel")?;
    reply.int(removed as i64);
    Ok(if removed == 0 { Effect::None } else { Effect::AsIs })
}

/// Removes fields, and the key with the last one; how many there were.
pub(super) fn remove_all<'k>(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    names: impl Iterator<Item = &'k [u8]>,
    event: &'static str,
) -> Result<usize, CommandError> {
    let now_ms = cx.now_ms;
    let Some(mut slot) = cx.slot(key, Type::Hash)? else { return Ok(0) };
    let removed = names.filter(|name| hash::remove(&mut slot, now_ms, name)).count();
    let empty = Hash::of(slot.view(), now_ms).is_empty();
    drop(slot);
    finish(cx, key, removed > 0, empty, event);
    Ok(removed)
}

/// What every removal of fields, and every other change of them, ends with. The `event` is told if there was a change.
pub(super) fn finish(cx: &mut Exec<'_>, key: Key<'_>, changed: bool, empty: bool, event: &'static str) {
    if empty {
        cx.keyspace(key).remove(key);
    } else if changed {
        cx.changed(key);
    }
    if changed {
        cx.notify(Class::HASH, event, key);
    }
    if empty {
        cx.notify(Class::GENERIC, "del", key);
    }
}
