//! One set, and SMOVE.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use types::Type;
use types::packed::IntText;
use types::set::{self, Set};

use super::reply_member;
use crate::element_scan::{self, Options};

/// `SADD key member [member ...]`
pub(super) fn sadd(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let limits = cx.settings.limits;
    let key = cx.key(args, 1);
    let members = args.from(2);
    let added = if let Some(mut slot) = cx.slot(key, Type::Set)? {
        set::prepare(&mut slot, members.len(), &limits);
        set::add_all(&mut slot, members.iter(), &limits)
    } else {
        let mut bytes = set::new(&members[0], members.len(), &limits);
        let mut rest = members.iter();
        let added = set::pack(&mut bytes, &mut rest, &limits);
        added + set::add_all(&mut cx.create(key, &bytes), rest, &limits)
    };
    reply.int(added as i64);
    if added == 0 {
        return Ok(Effect::None);
    }
    cx.changed(key);
    cx.notify(Class::SET, "sadd", key);
    Ok(Effect::AsIs)
}

/// `SREM key member [member ...]`
pub(super) fn srem(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let Some(mut slot) = cx.slot(key, Type::Set)? else {
        reply.int(0);
        return Ok(Effect::None);
    };
    let removed = args.from(2).iter().filter(|member| set::remove(&mut slot, member)).count();
    reply.int(removed as i64);
    let emptied = Set::of(slot.view()).len() == 0;
    drop(slot);
    if removed == 0 {
        return Ok(Effect::None);
    }
    after(cx, key, emptied, "srem");
    Ok(Effect::AsIs)
}

/// A set was changed, as `event` tells: a key with an empty one goes.
pub(super) fn after(cx: &mut Exec<'_>, key: Key<'_>, emptied: bool, event: &'static str) {
    if emptied {
        cx.keyspace(key).remove(key);
    } else {
        cx.changed(key);
    }
    cx.notify(Class::SET, event, key);
    if emptied {
        cx.notify(Class::GENERIC, "del", key);
    }
}

/// `SMOVE source destination member`
pub(super) fn smove(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let limits = cx.settings.limits;
    let (source, destination, member) = (cx.key(args, 1), cx.key(args, 2), &args[3]);
    let Some(view) = cx.find_view(source, Type::Set)? else {
        reply.int(0);
        return Ok(Effect::None);
    };
    let there = Set::of(view).contains(member);
    cx.find_view(destination, Type::Set)?;
    reply.int(i64::from(there));
    if !there || source.bytes == destination.bytes {
        return Ok(Effect::None);
    }
    let emptied = cx.slot(source, Type::Set)?.is_some_and(|mut slot| {
        set::remove(&mut slot, member);
        Set::of(slot.view()).len() == 0
    });
    after(cx, source, emptied, "srem");
    let there = cx.slot(destination, Type::Set)?.map(|mut slot| set::add(&mut slot, member, &limits));
    let added = match there {
        Some(added) => added,
        None => {
            set::add(&mut cx.create(destination, &set::new(member, 1, &limits)), member, &limits);
            true
        }
    };
    if added {
        cx.changed(destination);
        cx.notify(Class::SET, "sadd", destination);
    }
    Ok(Effect::AsIs)
}

/// `SCARD key`
pub(super) fn scard(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let view = cx.view(cx.key(args, 1), Type::Set)?;
    reply.int(view.map_or(0, |view| Set::of(view).len()) as i64);
    Ok(Effect::None)
}

/// `SISMEMBER key member`
pub(super) fn sismember(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let view = cx.view(cx.key(args, 1), Type::Set)?;
    reply.int(i64::from(view.is_some_and(|view| Set::of(view).contains(&args[2]))));
    Ok(Effect::None)
}

/// `SMISMEMBER key member [member ...]`
pub(super) fn smismember(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let set = cx.view(cx.key(args, 1), Type::Set)?.map(Set::of);
    let members = args.from(2);
    reply.array(members.len());
    match set {
        None => members.iter().for_each(|_| reply.int(0)),
        Some(set) => set.contains_each(members.iter(), |there| reply.int(i64::from(there))),
    }
    Ok(Effect::None)
}

/// `SMEMBERS key`
pub(super) fn smembers(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let Some(view) = cx.view(cx.key(args, 1), Type::Set)? else {
        reply.set(0);
        return Ok(Effect::None);
    };
    let set = Set::of(view);
    reply.set(set.len());
    set.for_each(|member| reply_member(reply, member));
    Ok(Effect::None)
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub(super) fn sscan(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let cursor = element_scan::cursor(args)?;
    let Some(view) = cx.view(cx.key(args, 1), Type::Set)? else {
        element_scan::nothing(reply);
        return Ok(Effect::None);
    };
    let options = Options::parse(args, None)?;
    let mut found = Vec::new();
    let next = Set::of(view).scan(cursor, options.count, |member| {
        if options.matches(member.to_bytes(&mut IntText::default())) {
            found.push(member);
        }
    });
    element_scan::head(reply, next);
    reply.array(found.len());
    found.into_iter().for_each(|member| reply_member(reply, member));
    Ok(Effect::None)
}
