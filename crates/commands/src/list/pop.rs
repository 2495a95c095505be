//! Taking elements away at an end. What waits for elements takes them by the same functions.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::list::{self, Item, Side};
use types::{Slot, Type, View};

use super::push::{self, push_one};
use super::{reply_item, side};
use crate::effects::record;

const NOT_POSITIVE: CommandError = CommandError::fixed("ERR value is out of range, must be positive");
const NO_KEYS: CommandError = CommandError::fixed("ERR numkeys should be greater than 0");
const NO_COUNT: CommandError = CommandError::fixed("ERR count should be greater than 0");

/// `LPOP key [count]`
pub(super) fn lpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    pop(cx, args, Side::Left, reply)
}

/// `RPOP key [count]`
pub(super) fn rpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    pop(cx, args, Side::Right, reply)
}

fn pop(cx: &mut Exec<'_>, args: Args<'_>, side: Side, reply: &mut Reply) -> Result<Effect, CommandError> {
    if args.len() > 3 {
        return Err(CommandError::arity(if side == Side::Left { "lpop" } else { "rpop" }));
    }
    let key = cx.key(args, 1);
    let Some(count) = args.get(2) else {
        if pop_one(cx, key, side, reply)? {
            return Ok(Effect::AsIs);
        }
        reply.null();
        return Ok(Effect::None);
    };
    let count = parse_i64(count).and_then(|count| u64::try_from(count).ok()).ok_or(NOT_POSITIVE)?;
    match pop_several(cx, key, side, count, reply)? {
        None => reply.null_array(),
        Some(0) => {}
        Some(_) => return Ok(Effect::AsIs),
    }
    Ok(Effect::None)
}

/// Takes an element from the list at `key` and replies with it; false, and no reply, if there is no list.
pub(crate) fn pop_one(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    side: Side,
    reply: &mut Reply,
) -> Result<bool, CommandError> {
    let limits = cx.settings.limits;
    let Some(mut slot) = cx.slot(key, Type::List)? else { return Ok(false) };
    list::pop(&mut slot, side, |item| reply_item(reply, item));
    let emptied = settle(&mut slot, &limits);
    drop(slot);
    after(cx, key, emptied, event(side));
    Ok(true)
}

/// Takes up to `count` elements from the list at `key` and replies with an array of them; how many. None, and no reply, if there is no list.
pub(crate) fn pop_several(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    side: Side,
    count: u64,
    reply: &mut Reply,
) -> Result<Option<u64>, CommandError> {
    let limits = cx.settings.limits;
    let Some(mut slot) = cx.slot(key, Type::List)? else { return Ok(None) };
    let len = list::len(slot.view());
    let taken = count.min(len);
    reply.array(taken as usize);
    let (range, backwards) = match side {
        Side::Left => (0..taken, false),
        Side::Right => (len - taken..len, true),
    };
    list::visit(slot.view(), range, backwards, |item| {
        reply_item(reply, item);
        std::ops::ControlFlow::Continue(())
    });
    if taken == 0 {
        return Ok(Some(0));
    }
    list::cut(&mut slot, side, taken);
    let emptied = settle(&mut slot, &limits);
    drop(slot);
    after(cx, key, emptied, event(side));
    Ok(Some(taken))
}

/// Brings a list in order from which something was taken; whether it is empty.
pub(super) fn settle(slot: &mut Slot<'_>, limits: &types::Limits) -> bool {
    let view = slot.view();
    let emptied = list::len(view) == 0;
    if !emptied && matches!(view, View::Large(..)) {
        list::shrink(slot, limits);
    }
    emptied
}

/// A list was changed, as `event` tells: a key with an empty one goes.
pub(super) fn after(cx: &mut Exec<'_>, key: Key<'_>, emptied: bool, event: &'static str) {
    settle_key(cx, key, emptied);
    notify(cx, key, emptied, event);
}

fn settle_key(cx: &mut Exec<'_>, key: Key<'_>, emptied: bool) {
    if emptied {
        cx.keyspace(key).remove(key);
    } else {
        cx.changed(key);
    }
}

fn notify(cx: &mut Exec<'_>, key: Key<'_>, emptied: bool, event: &'static str) {
    cx.notify(Class::LIST, event, key);
    if emptied {
        cx.notify(Class::GENERIC, "del", key);
    }
}

/// What is told of an element that was taken.
const fn event(side: Side) -> &'static str {
    if matches!(side, Side::Left) { "lpop" } else { "rpop" }
}

/// An element between two lists: what is short is copied once.
enum Taken {
    Short(Vec<u8>),
    Big(memory::BigRef),
}

impl Taken {
    fn of(item: Item<'_>) -> Taken {
        match item {
            Item::Piece(piece) => Taken::Short(piece.to_vec()),
            Item::Big(big) => Taken::Big(big.clone()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Taken::Short(bytes) => bytes,
            Taken::Big(big) => big.as_ref(),
        }
    }
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub(super) fn lmove(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (from, to) = (side(&args[3])?, side(&args[4])?);
    let (source, destination) = (cx.key(args, 1), cx.key(args, 2));
    if move_one(cx, (source, from), (destination, to), reply)? {
        return Ok(Effect::AsIs);
    }
    reply.null();
    Ok(Effect::None)
}

/// `RPOPLPUSH source destination`
pub(super) fn rpoplpush(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let (source, destination) = (cx.key(args, 1), cx.key(args, 2));
    if move_one(cx, (source, Side::Right), (destination, Side::Left), reply)? {
        return Ok(Effect::AsIs);
    }
    reply.null();
    Ok(Effect::None)
}

/// Moves an element from one list to another, or the same, and replies with it; false, and no reply, if there is no first list.
pub(crate) fn move_one(
    cx: &mut Exec<'_>,
    (source, from): (Key<'_>, Side),
    (destination, to): (Key<'_>, Side),
    reply: &mut Reply,
) -> Result<bool, CommandError> {
    let limits = cx.settings.limits;
    if cx.find_view(source, Type::List)?.is_none() {
        return Ok(false);
    }
    cx.find_view(destination, Type::List)?;
    let Some(mut slot) = cx.slot(source, Type::List)? else { return Ok(false) };
    let taken = list::pop(&mut slot, from, |item| {
        reply_item(reply, item);
        Taken::of(item)
    });
    if source.bytes == destination.bytes {
        list::push(&mut slot, to, std::iter::once(taken.bytes()), &limits);
    }
    let emptied = settle(&mut slot, &limits);
    drop(slot);
    settle_key(cx, source, emptied);
    if source.bytes == destination.bytes {
        cx.notify(Class::LIST, push::event(to), destination);
    } else {
        push_one(cx, destination, to, taken.bytes())?;
    }
    // As the peers: where it went is told first.
    notify(cx, source, emptied, event(from));
    Ok(true)
}

/// `LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]`
pub(super) fn lmpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let wanted = Several::parse(args, 1)?;
    if let Some(effect) = pop_from_first(cx, args, &wanted, reply)? {
        return Ok(effect);
    }
    reply.null_array();
    Ok(Effect::None)
}

/// What LMPOP and BLMPOP ask for.
pub(crate) struct Several {
    /// Words that are keys.
    pub(crate) keys: std::ops::Range<usize>,
    pub(crate) side: Side,
    /// Elements at most.
    pub(crate) count: u64,
}

impl Several {
    /// `numkeys key [key ...] LEFT | RIGHT [COUNT count]` from word `from` to the end.
    pub(crate) fn parse(args: Args<'_>, from: usize) -> Result<Several, CommandError> {
        let above_zero = |word: &[u8]| parse_i64(word).filter(|number| *number > 0);
        let keys = above_zero(&args[from]).ok_or(NO_KEYS)?;
        let keys = from + 1..(from + 1).saturating_add(usize::try_from(keys).unwrap_or(usize::MAX));
        let side = side(args.get(keys.end).ok_or(CommandError::SYNTAX)?)?;
        let mut count = None;
        let mut at = keys.end + 1;
        while let Some(word) = args.get(at) {
            let value = args.get(at + 1).filter(|_| count.is_none() && word.eq_ignore_ascii_case(b"COUNT"));
            count = Some(above_zero(value.ok_or(CommandError::SYNTAX)?).ok_or(NO_COUNT)?);
            at += 2;
        }
        Ok(Several { keys, side, count: count.unwrap_or(1) as u64 })
    }
}

/// Takes elements from the first list of several and replies with its key and them; None, and no reply, if there is no list.
pub(crate) fn pop_from_first(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    wanted: &Several,
    reply: &mut Reply,
) -> Result<Option<Effect>, CommandError> {
    for index in wanted.keys.clone() {
        let key = cx.key(args, index);
        if cx.find_view(key, Type::List)?.is_none() {
            continue;
        }
        reply.array(2);
        reply.bulk(key.bytes);
        let taken = pop_several(cx, key, wanted.side, wanted.count, reply)?.unwrap_or(0);
        return Ok(Some(popped(cx, key, wanted.side, taken)));
    }
    Ok(None)
}

/// The effect of elements taken by a command that names several keys.
pub(crate) fn popped(cx: &Exec<'_>, key: Key<'_>, side: Side, count: u64) -> Effect {
    let name: &[u8] = if side == Side::Left { b"LPOP" } else { b"RPOP" };
    cx.rewritten(|| vec![record(&[name, key.bytes, count.to_string().as_bytes()])])
}
