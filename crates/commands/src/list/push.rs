//! Adding elements at an end.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use types::list::{self, Side};
use types::{Slot, Type};

/// `LPUSH key element [element ...]`
pub(super) fn lpush(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    push(cx, args, Side::Left, false, reply)
}

/// `LPUSHX key element [element ...]`
pub(super) fn lpushx(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    push(cx, args, Side::Left, true, reply)
}

/// `RPUSH key element [element ...]`
pub(super) fn rpush(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    push(cx, args, Side::Right, false, reply)
}

/// `RPUSHX key element [element ...]`
pub(super) fn rpushx(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    push(cx, args, Side::Right, true, reply)
}

fn push(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    side: Side,
    if_exists: bool,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let limits = cx.settings.limits;
    let key = cx.key(args, 1);
    let strings = args.from(2).iter();
    let add = |mut slot: Slot<'_>| list::push(&mut slot, side, strings.clone(), &limits);
    let there = cx.slot(key, Type::List)?.map(&add);
    let len = match there {
        Some(len) => len,
        None if if_exists => {
            reply.int(0);
            return Ok(Effect::None);
        }
        None => add(cx.create(key, list::NEW)),
    };
    cx.changed(key);
    cx.notify(Class::LIST, event(side), key);
    reply.int(len as i64);
    Ok(Effect::AsIs)
}

/// Adds an element to the list at `key`, which is made if there is none. The key must not hold another type.
pub(crate) fn push_one(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    side: Side,
    string: &[u8],
) -> Result<(), CommandError> {
    let limits = cx.settings.limits;
    let add = |mut slot: Slot<'_>| _ = list::push(&mut slot, side, std::iter::once(string), &limits);
    if cx.slot(key, Type::List)?.map(add).is_none() {
        add(cx.create(key, list::NEW));
    }
    cx.changed(key);
    cx.notify(Class::LIST, event(side), key);
    Ok(())
}

/// What is told of an element that was added.
pub(super) const fn event(side: Side) -> &'static str {
    if matches!(side, Side::Left) { "lpush" } else { "rpush" }
}
