//! Several sets: what they have in common, what one has and others have not, all of them; as a reply, counted, or stored.

use std::ops::{ControlFlow, Range};

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{Entry, Key};
use shard::notify::Class;
use stdx::num::parse_i64;
use types::set::{self, Loose, Set};
use types::{Form, Type};

use super::reply_member;

const NO_KEYS: CommandError = CommandError::fixed("ERR numkeys should be greater than 0");
const MORE_KEYS: CommandError =
    CommandError::fixed("ERR Number of keys can't be greater than number of args");
const LIMIT_NEGATIVE: CommandError = CommandError::fixed("ERR LIMIT can't be negative");

/// The keys of some words. Each is looked up, so that its type is checked and what has expired is gone.
fn keys<'k>(cx: &mut Exec<'_>, args: Args<'k>, words: Range<usize>) -> Result<Vec<Key<'k>>, CommandError> {
    let mut keys = Vec::with_capacity(words.len());
    for index in words {
        let key = cx.key(args, index);
        cx.view(key, Type::Set)?;
        keys.push(key);
    }
    Ok(keys)
}

/// The sets of keys that were looked up, all at once; None for a key that does not exist. With its form.
fn sets<'c>(cx: &'c Exec<'_>, keys: &[Key<'_>]) -> Vec<Option<(Form, Set<'c>)>> {
    let set = |key: &Key<'_>| {
        let view = cx.glance(*key).and_then(Entry::collection)?;
        Some((view.form(), Set::of(view)))
    };
    keys.iter().map(set).collect()
}

/// `SINTER key [key ...]`
pub(super) fn sinter(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let keys = keys(cx, args, 1..args.len())?;
    let header = reply.defer_array();
    let mut count = 0;
    intersect(cx, &keys, |member| {
        reply_member(reply, member);
        count += 1;
        ControlFlow::Continue(())
    });
    reply.finish_set(header, count);
    Ok(Effect::None)
}

/// Calls `found` with each member that all sets have, until it breaks; the form of the smallest set. None if a key does not exist.
fn intersect(
    cx: &Exec<'_>,
    keys: &[Key<'_>],
    found: impl FnMut(types::packed::Piece<'_>) -> ControlFlow<()>,
) -> Option<Form> {
    let mut sets: Vec<(Form, Set<'_>)> = sets(cx, keys).into_iter().collect::<Option<_>>()?;
    sets.sort_by_key(|(_, set)| set.len());
    let (form, first) = sets[0];
    let others: Vec<Set<'_>> = sets[1..].iter().map(|(_, set)| *set).collect();
    set::intersection(cx.storage(), first, &others, found);
    Some(form)
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
pub(super) fn sintercard(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let number = parse_i64(&args[1]).filter(|number| *number > 0).ok_or(NO_KEYS)?;
    let number = usize::try_from(number).ok().filter(|number| *number <= args.len() - 2).ok_or(MORE_KEYS)?;
    let mut most = 0;
    let mut at = 2 + number;
    while let Some(word) = args.get(at) {
        let limit =
            args.get(at + 1).filter(|_| word.eq_ignore_ascii_case(b"LIMIT")).ok_or(CommandError::SYNTAX)?;
        most = parse_i64(limit).and_then(|limit| u64::try_from(limit).ok()).ok_or(LIMIT_NEGATIVE)?;
        at += 2;
    }
    let keys = keys(cx, args, 2..2 + number)?;
    let mut count = 0;
    intersect(cx, &keys, |_| {
        count += 1;
        if count == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    reply.int(count as i64);
    Ok(Effect::None)
}

/// `SINTERSTORE destination key [key ...]`
pub(super) fn sinterstore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let keys = keys(cx, args, 2..args.len())?;
    let (limits, storage) = (cx.settings.limits, cx.storage());
    let smallest = sets(cx, &keys).into_iter().collect::<Option<Vec<_>>>();
    let smallest = smallest.and_then(|sets| sets.into_iter().min_by_key(|(_, set)| set.len()));
    let form = match smallest {
        Some((Form::SetIntset, _)) => Form::SetIntset,
        _ => Form::SetListpack,
    };
    let mut result = Loose::new(storage, form);
    intersect(cx, &keys, |member| {
        result.gather(member, &limits);
        ControlFlow::Continue(())
    });
    result.flush(&limits);
    result.settle_integers(&limits);
    Ok(store(cx, cx.key(args, 1), result, "sinterstore", reply))
}

/// Makes a set the value of a key, whatever that was; an empty one removes it.
fn store(cx: &mut Exec<'_>, key: Key<'_>, result: Loose, event: &'static str, reply: &mut Reply) -> Effect {
    reply.int(result.len() as i64);
    // Looked up first, so that one that has expired counts as none.
    let removed = cx.find(key).is_some() && cx.keyspace(key).remove(key);
    if result.is_empty() {
        if !removed {
            return Effect::None;
        }
        cx.notify(Class::GENERIC, "del", key);
        return Effect::AsIs;
    }
    let mut slot = cx.create_over(key, set::EMPTY, removed);
    result.store(&mut slot);
    drop(slot);
    cx.changed(key);
    cx.notify(Class::SET, event, key);
    Effect::AsIs
}

/// `SDIFF key [key ...]`
pub(super) fn sdiff(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let keys = keys(cx, args, 1..args.len())?;
    let header = reply.defer_array();
    let mut count = 0;
    if let Some((first, others)) = minuend(cx, &keys) {
        set::difference(cx.storage(), first, &others, |member| {
            reply_member(reply, member);
            count += 1;
        });
    }
    reply.finish_set(header, count);
    Ok(Effect::None)
}

/// The first set, and those whose members are taken away from it; None if nothing can be left.
fn minuend<'c>(cx: &'c Exec<'_>, keys: &[Key<'_>]) -> Option<(Set<'c>, Vec<Set<'c>>)> {
    if keys[1..].iter().any(|key| key.bytes == keys[0].bytes) {
        return None;
    }
    let mut sets = sets(cx, keys).into_iter();
    let (_, first) = sets.next()??;
    let mut others: Vec<Set<'_>> = sets.flatten().map(|(_, set)| set).collect();
    // What a large one has need not be looked up in the others.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    Some((first, others))
}

/// `SDIFFSTORE destination key [key ...]`
pub(super) fn sdiffstore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let keys = keys(cx, args, 2..args.len())?;
    let (limits, storage) = (cx.settings.limits, cx.storage());
    let mut result = Loose::new(storage, Form::SetIntset);
    if let Some((first, others)) = minuend(cx, &keys) {
        // The peers put all of the first set into the result and remove the others from it when that is less work. The form tells.
        let all = others.iter().map(|set| set.len()).sum::<usize>() + first.len();
        if first.len() * (others.len() + 1) / 2 <= all {
            set::difference(storage, first, &others, |member| result.gather(member, &limits));
            result.flush(&limits);
        } else {
            first.for_each(|member| result.gather(member, &limits));
            result.flush(&limits);
            others.iter().for_each(|set| set.for_each(|member| _ = result.remove(member)));
        }
    }
    Ok(store(cx, cx.key(args, 1), result, "sdiffstore", reply))
}

/// `SUNION key [key ...]`
pub(super) fn sunion(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let keys = keys(cx, args, 1..args.len())?;
    let union = unite(cx, &keys);
    reply.set(union.len());
    union.set().for_each(|member| reply_member(reply, member));
    Ok(Effect::None)
}

/// `SUNIONSTORE destination key [key ...]`
pub(super) fn sunionstore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let keys = keys(cx, args, 2..args.len())?;
    let union = unite(cx, &keys);
    Ok(store(cx, cx.key(args, 1), union, "sunionstore", reply))
}

fn unite(cx: &Exec<'_>, keys: &[Key<'_>]) -> Loose {
    let limits = cx.settings.limits;
    let mut union = Loose::new(cx.storage(), Form::SetIntset);
    for (_, set) in sets(cx, keys).into_iter().flatten() {
        set.for_each(|member| union.gather(member, &limits));
    }
    union.flush(&limits);
    union
}
