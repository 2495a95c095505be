//! The list family. How a list is kept is in `types::list`; what waits for one that is not there has its rows in `blocking.rs`.

pub(crate) mod blocking;
mod edit;
mod pop;
mod push;
mod read;

use command::{Begin, Categories, Command, CommandError, Find, Flags, Group, KeyFlags, KeySpec, Spec};
use resp::Reply;
use shard::plan::Plan;
use std::ops::Range;
use std::sync::Arc;
use types::list::{Item, Side};
use types::packed::Piece;

use edit::{linsert, lrem, lset, ltrim};
use pop::{lmove, lmpop, lpop, rpop, rpoplpush};
use push::{lpush, lpushx, rpush, rpushx};
use read::{lindex, llen, lpos, lrange};

/// `LEFT` or `RIGHT`.
pub(crate) fn side(word: &[u8]) -> Result<Side, CommandError> {
    match () {
        () if word.eq_ignore_ascii_case(b"LEFT") => Ok(Side::Left),
        () if word.eq_ignore_ascii_case(b"RIGHT") => Ok(Side::Right),
        () => Err(CommandError::SYNTAX),
    }
}

/// Replies with an element; a long one is not copied.
#[inline]
pub(crate) fn reply_item(reply: &mut Reply, item: Item<'_>) {
    match item {
        Item::Piece(Piece::Bytes(bytes)) => reply.bulk(bytes),
        Item::Piece(Piece::Int(integer)) => reply.bulk_int(integer),
        Item::Big(big) => reply.bulk_shared(Arc::new(big.clone())),
    }
}

/// The element that an index names in a list of `len`, counted from the end if negative.
fn index(index: i64, len: u64) -> Option<u64> {
    let index = if index < 0 { len.checked_sub(index.unsigned_abs())? } else { index as u64 };
    (index < len).then_some(index)
}

/// The elements from `start` to `stop`, both included, of a list of `len`; an empty range where they enclose none.
fn range(start: i64, stop: i64, len: u64) -> Range<u64> {
    let from_start = |index: i64| if index < 0 { index.saturating_add_unsigned(len) } else { index };
    let (start, stop) = (from_start(start).max(0), from_start(stop).saturating_add(1).min(len as i64));
    if start < stop { start as u64..stop as u64 } else { 0..0 }
}

/// Every command of the family.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "LINDEX",
            summary: "Gives the element at an index; negative ones count from the end.",
            complexity: "O(n / 400) where n is the distance to the nearer end; O(1) for both ends",
            since: "1.0.0",
            group: Group::List,
            arity: 3,
            flags: Flags::READONLY,
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 index:integer",
        },
        run: Plan::Keys(lindex),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LINSERT",
            summary: "Puts an element before or after the first one that equals another.",
            complexity: "O(n) where n is the number of elements before that one",
            since: "2.2.0",
            group: Group::List,
            arity: 5,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 where(BEFORE=before!|AFTER=after!) pivot:string element:string",
        },
        run: Plan::Keys(linsert),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LLEN",
            summary: "Counts the elements of a list.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::List,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RO)],
            tips: &[],
            syntax: "key:key#0",
        },
        run: Plan::Keys(llen),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LMOVE",
            summary: "Takes an element from one end of a list and adds it to one end of another.",
            complexity: "O(1)",
            since: "6.2.0",
            group: Group::List,
            arity: 5,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::LIST,
            keys: &[
                KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE)),
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::RW.with(KeyFlags::INSERT),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "source:key#0 destination:key#1 wherefrom(LEFT=left!|RIGHT=right!) whereto(LEFT=left!|RIGHT=right!)",
        },
        run: Plan::Keys(lmove),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LMPOP",
            summary: "Takes elements from the first list that has any.",
            complexity: "O(k + n) where k is the number of keys and n that of the elements taken",
            since: "7.0.0",
            group: Group::List,
            arity: -4,
            flags: Flags::WRITE.with(Flags::MOVABLEKEYS),
            explicit: Categories::LIST,
            keys: &[KeySpec {
                begin: Begin::Index(1),
                find: Find::Count { count_at: 0, first: 1, step: 1 },
                flags: KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE),
                notes: "",
            }],
            tips: &[],
            syntax: "numkeys:integer key:key#0* where(LEFT=left!|RIGHT=right!) [COUNT=count:integer]",
        },
        run: Plan::Keys(lmpop),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LPOP",
            summary: "Takes elements from the left end of a list.",
            complexity: "O(n) where n is the number of elements taken",
            since: "1.0.0",
            group: Group::List,
            arity: -2,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
            tips: &[],
            syntax: "key:key#0 [count:integer@6.2.0]",
        },
        run: Plan::Keys(lpop),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LPOS",
            summary: "Finds elements that equal another; gives their indexes.",
            complexity: "O(n) where n is the number of elements looked at",
            since: "6.0.6",
            group: Group::List,
            arity: -3,
            flags: Flags::READONLY,
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 element:string [RANK=rank:integer] [COUNT=num-matches:integer] [MAXLEN=len:integer]",
        },
        run: Plan::Keys(lpos),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LPUSH",
            summary: "Adds elements one by one to the left end of a list, which is made if there is none.",
            complexity: "O(n) where n is the number of elements added",
            since: "1.0.0",
            group: Group::List,
            arity: -3,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 element:string*",
        },
        run: Plan::Keys(lpush),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LPUSHX",
            summary: "Adds elements one by one to the left end of a list that exists.",
            complexity: "O(n) where n is the number of elements added",
            since: "2.2.0",
            group: Group::List,
            arity: -3,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 element:string*",
        },
        run: Plan::Keys(lpushx),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LRANGE",
            summary: "Gives the elements between two indexes.",
            complexity: "O(d / 400 + n) where d is the distance to the nearer end and n the number of elements given",
            since: "1.0.0",
            group: Group::List,
            arity: 4,
            flags: Flags::READONLY,
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 start:integer stop:integer",
        },
        run: Plan::Keys(lrange),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LREM",
            summary: "Removes elements that equal another, from the left or from the right.",
            complexity: "O(n) where n is the length of the list",
            since: "1.0.0",
            group: Group::List,
            arity: 4,
            flags: Flags::WRITE,
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::DELETE))],
            tips: &[],
            syntax: "key:key#0 count:integer element:string",
        },
        run: Plan::Keys(lrem),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LSET",
            summary: "Replaces the element at an index.",
            complexity: "O(n / 400) where n is the distance to the nearer end; O(1) for both ends",
            since: "1.0.0",
            group: Group::List,
            arity: 4,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 index:integer element:string",
        },
        run: Plan::Keys(lset),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "LTRIM",
            summary: "Keeps the elements between two indexes and removes all others.",
            complexity: "O(n / 400) where n is the number of elements removed",
            since: "1.0.0",
            group: Group::List,
            arity: 4,
            flags: Flags::WRITE,
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::DELETE))],
            tips: &[],
            syntax: "key:key#0 start:integer stop:integer",
        },
        run: Plan::Keys(ltrim),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RPOP",
            summary: "Takes elements from the right end of a list.",
            complexity: "O(n) where n is the number of elements taken",
            since: "1.0.0",
            group: Group::List,
            arity: -2,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
            tips: &[],
            syntax: "key:key#0 [count:integer@6.2.0]",
        },
        run: Plan::Keys(rpop),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RPOPLPUSH",
            summary: "Takes the rightmost element of a list and adds it to the left end of another.",
            complexity: "O(1)",
            since: "1.2.0",
            group: Group::List,
            arity: 3,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::LIST,
            keys: &[
                KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE)),
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::RW.with(KeyFlags::INSERT),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "source:key#0 destination:key#1",
        },
        run: Plan::Keys(rpoplpush),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RPUSH",
            summary: "Adds elements one by one to the right end of a list, which is made if there is none.",
            complexity: "O(n) where n is the number of elements added",
            since: "1.0.0",
            group: Group::List,
            arity: -3,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 element:string*",
        },
        run: Plan::Keys(rpush),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RPUSHX",
            summary: "Adds elements one by one to the right end of a list that exists.",
            complexity: "O(n) where n is the number of elements added",
            since: "2.2.0",
            group: Group::List,
            arity: -3,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::LIST,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 element:string*",
        },
        run: Plan::Keys(rpushx),
        subcommands: &[],
    },
];
