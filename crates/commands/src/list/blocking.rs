//! The commands that wait for a list. The waiting itself is the router's; what is taken goes by the functions of `pop.rs`.

use command::{
    Begin, Categories, Command, CommandError, Effect, Find, Flags, Group, KeyFlags, KeySpec, Spec,
};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::plan::{Attempt, Attempted, Blocking, Plan};
use types::Type;
use types::list::Side;

use super::pop::{Several, move_one, pop_one, pop_several, popped};
use super::side;
use crate::blocking::{ALL_BUT_LAST, COUNTED, TAKEN, has, until_seconds, wait};
use crate::effects::record;

/// `source destination`
const SOURCE_DESTINATION: &[KeySpec] = &[
    KeySpec::first(TAKEN),
    KeySpec {
        begin: Begin::Index(2),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        flags: KeyFlags::RW.with(KeyFlags::INSERT),
        notes: "",
    },
];

const BLPOP: Blocking = waits(blpop, false, Reply::null_array);
const BRPOP: Blocking = waits(brpop, false, Reply::null_array);
const BLMPOP: Blocking = waits(blmpop, false, Reply::null_array);
const BLMOVE: Blocking = waits(blmove, true, Reply::null);
const BRPOPLPUSH: Blocking = waits(brpoplpush, true, Reply::null);

const fn waits(attempt: Attempt, whole: bool, null: fn(&mut Reply)) -> Blocking {
    Blocking { attempt, wants: Type::List, on_nokey: false, whole, null }
}

/// The commands of the family that wait.
pub const ROWS: &[Command<Plan>] = &[
    Command::new(
        Spec {
            name: "BLMOVE",
            summary: "Moves an element from an end of one list to an end of another, and waits for one if there is none.",
            complexity: "O(1)",
            since: "6.2.0",
            group: Group::List,
            arity: 6,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::BLOCKING),
            explicit: Categories::LIST,
            keys: SOURCE_DESTINATION,
            tips: &[],
            syntax: "source:key#0 destination:key#1 wherefrom(LEFT=left!|RIGHT=right!) whereto(LEFT=left!|RIGHT=right!) timeout:double",
        },
        Plan::Blocking(&BLMOVE),
    ),
    Command::new(
        Spec {
            name: "BLMPOP",
            summary: "Takes elements from an end of the first list that there is, and waits for one if there is none.",
            complexity: "O(n + m) where n is the number of keys and m the number of elements taken",
            since: "7.0.0",
            group: Group::List,
            arity: -5,
            flags: Flags::WRITE.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS),
            explicit: Categories::LIST,
            keys: COUNTED,
            tips: &[],
            syntax: "timeout:double numkeys:integer key:key#0* where(LEFT=left!|RIGHT=right!) [COUNT=count:integer]",
        },
        Plan::Blocking(&BLMPOP),
    ),
    Command::new(
        Spec {
            name: "BLPOP",
            summary: "Takes the first element of the first list that there is, and waits for one if there is none.",
            complexity: "O(n) where n is the number of keys",
            since: "2.0.0",
            group: Group::List,
            arity: -3,
            flags: Flags::WRITE.with(Flags::BLOCKING),
            explicit: Categories::LIST,
            keys: ALL_BUT_LAST,
            tips: &[],
            syntax: "key:key#0* timeout:double",
        },
        Plan::Blocking(&BLPOP),
    ),
    Command::new(
        Spec {
            name: "BRPOP",
            summary: "Takes the last element of the first list that there is, and waits for one if there is none.",
            complexity: "O(n) where n is the number of keys",
            since: "2.0.0",
            group: Group::List,
            arity: -3,
            flags: Flags::WRITE.with(Flags::BLOCKING),
            explicit: Categories::LIST,
            keys: ALL_BUT_LAST,
            tips: &[],
            syntax: "key:key#0* timeout:double",
        },
        Plan::Blocking(&BRPOP),
    ),
    Command::new(
        Spec {
            name: "BRPOPLPUSH",
            summary: "Moves the last element of one list to the front of another, and waits for one if there is none.",
            complexity: "O(1)",
            since: "2.2.0",
            group: Group::List,
            arity: 4,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::BLOCKING),
            explicit: Categories::LIST,
            keys: SOURCE_DESTINATION,
            tips: &[],
            syntax: "source:key#0 destination:key#1 timeout:double",
        },
        Plan::Blocking(&BRPOPLPUSH),
    ),
];

/// `BLPOP key [key ...] timeout`
fn blpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    pop_or_wait(cx, args, Side::Left, reply)
}

/// `BRPOP key [key ...] timeout`
fn brpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    pop_or_wait(cx, args, Side::Right, reply)
}

fn pop_or_wait(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    side: Side,
    reply: &mut Reply,
) -> Result<Attempted, CommandError> {
    let last = args.len() - 1;
    let until_ms = until_seconds(cx, &args[last])?;
    for at in 1..last {
        let key = cx.key(args, at);
        if !has(cx, key, Type::List)? {
            continue;
        }
        reply.array(2);
        reply.bulk(key.bytes);
        pop_one(cx, key, side, reply)?;
        let name: &[u8] = if side == Side::Left { b"LPOP" } else { b"RPOP" };
        return Ok(Attempted::Done(cx.rewritten(|| vec![record(&[name, key.bytes])])));
    }
    Ok(wait(until_ms))
}

/// `BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]`
fn blmpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    let wanted = Several::parse(args, 2)?;
    let until_ms = until_seconds(cx, &args[1])?;
    for at in wanted.keys {
        let key = cx.key(args, at);
        if !has(cx, key, Type::List)? {
            continue;
        }
        reply.array(2);
        reply.bulk(key.bytes);
        let taken = pop_several(cx, key, wanted.side, wanted.count, reply)?.unwrap_or(0);
        return Ok(Attempted::Done(popped(cx, key, wanted.side, taken)));
    }
    Ok(wait(until_ms))
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
fn blmove(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    let (from, to) = (side(&args[3])?, side(&args[4])?);
    move_or_wait(cx, args, (from, to), 5, reply)
}

/// `BRPOPLPUSH source destination timeout`
fn brpoplpush(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    move_or_wait(cx, args, (Side::Right, Side::Left), 3, reply)
}

fn move_or_wait(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    (from, to): (Side, Side),
    timeout_at: usize,
    reply: &mut Reply,
) -> Result<Attempted, CommandError> {
    let until_ms = until_seconds(cx, &args[timeout_at])?;
    let (source, destination) = (cx.key(args, 1), cx.key(args, 2));
    if cx.is_promised(source) {
        if cx.find_view(source, Type::List)?.is_some() {
            cx.find_view(destination, Type::List)?;
        }
        return Ok(wait(until_ms));
    }
    if !move_one(cx, (source, from), (destination, to), reply)? {
        return Ok(wait(until_ms));
    }
    Ok(Attempted::Done(moved(cx, source, destination, (from, to))))
}

fn moved(cx: &Exec<'_>, source: Key<'_>, destination: Key<'_>, (from, to): (Side, Side)) -> Effect {
    let name = |side| if side == Side::Left { &b"LEFT"[..] } else { b"RIGHT" };
    cx.rewritten(|| vec![record(&[b"LMOVE", source.bytes, destination.bytes, name(from), name(to)])])
}
