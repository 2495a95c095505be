//! The commands that wait for a sorted set. The waiting itself is the router's; what is taken goes by the functions of `pop.rs`.

use command::{Categories, Command, CommandError, Flags, Group, Spec};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::plan::{Attempt, Attempted, Blocking, Plan};
use types::Type;

use super::pop::{Answer, End, FromMany, pop, popped};
use crate::blocking::{ALL_BUT_LAST, COUNTED, has, until_seconds, wait};

const BZPOPMIN: Blocking = waits(bzpopmin);
const BZPOPMAX: Blocking = waits(bzpopmax);
const BZMPOP: Blocking = waits(bzmpop);

const fn waits(attempt: Attempt) -> Blocking {
    Blocking { attempt, wants: Type::SortedSet, on_nokey: false, whole: false, null: Reply::null_array }
}

/// The commands of the family that wait.
pub const ROWS: &[Command<Plan>] = &[
    Command::new(
        Spec {
            name: "BZMPOP",
            summary: "Takes members with the lowest or highest scores from the first sorted set that there is, and waits for one if there is none.",
            complexity: "O(k + m log n) where k is the number of keys, m that of the members taken, n that of the members",
            since: "7.0.0",
            group: Group::SortedSet,
            arity: -5,
            flags: Flags::WRITE.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS),
            explicit: Categories::SORTEDSET,
            keys: COUNTED,
            tips: &[],
            syntax: "timeout:double numkeys:integer key:key#0* where(MIN=min!|MAX=max!) [COUNT=count:integer]",
        },
        Plan::Blocking(&BZMPOP),
    ),
    Command::new(
        Spec {
            name: "BZPOPMAX",
            summary: "Takes the member with the highest score from the first sorted set that there is, and waits for one if there is none.",
            complexity: "O(k + log n) where k is the number of keys and n that of the members",
            since: "5.0.0",
            group: Group::SortedSet,
            arity: -3,
            flags: Flags::WRITE.with(Flags::BLOCKING).with(Flags::FAST),
            explicit: Categories::SORTEDSET,
            keys: ALL_BUT_LAST,
            tips: &[],
            syntax: "key:key#0* timeout:double",
        },
        Plan::Blocking(&BZPOPMAX),
    ),
    Command::new(
        Spec {
            name: "BZPOPMIN",
            summary: "Takes the member with the lowest score from the first sorted set that there is, and waits for one if there is none.",
            complexity: "O(k + log n) where k is the number of keys and n that of the members",
            since: "5.0.0",
            group: Group::SortedSet,
            arity: -3,
            flags: Flags::WRITE.with(Flags::BLOCKING).with(Flags::FAST),
            explicit: Categories::SORTEDSET,
            keys: ALL_BUT_LAST,
            tips: &[],
            syntax: "key:key#0* timeout:double",
        },
        Plan::Blocking(&BZPOPMIN),
    ),
];

/// `BZPOPMIN key [key ...] timeout`
fn bzpopmin(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    let keys = 1..args.len() - 1;
    pop_or_wait(cx, args, keys, (End::Min, 1, Answer::KeyAndMember), &args[args.len() - 1], reply)
}

/// `BZPOPMAX key [key ...] timeout`
fn bzpopmax(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    let keys = 1..args.len() - 1;
    pop_or_wait(cx, args, keys, (End::Max, 1, Answer::KeyAndMember), &args[args.len() - 1], reply)
}

/// `BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]`
fn bzmpop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    let from = FromMany::parse(args, 2)?;
    let keys = from.first..from.first + from.keys;
    pop_or_wait(cx, args, keys, (from.end, from.count, Answer::KeyAndPairs), &args[1], reply)
}

fn pop_or_wait(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    keys: std::ops::Range<usize>,
    (end, count, answer): (End, u64, Answer),
    timeout: &[u8],
    reply: &mut Reply,
) -> Result<Attempted, CommandError> {
    let until_ms = until_seconds(cx, timeout)?;
    for at in keys {
        let key = cx.key(args, at);
        if has(cx, key, Type::SortedSet)? {
            let taken = pop(cx, key, end, count, answer, reply)?;
            return Ok(Attempted::Done(popped(cx, key, end, taken)));
        }
    }
    Ok(wait(until_ms))
}
