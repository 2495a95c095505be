//! The bitmap family: strings as strings of bits. Counting, combining and integers at any bit are in `types::bits`.

mod combine;
mod fields;
mod single;

use command::{Begin, Categories, Command, CommandError, Find, Flags, Group, KeyFlags, KeySpec, Spec};
use shard::exec::Exec;
use shard::plan::Plan;
use stdx::num::parse_i64;
use types::bits::BYTE_BITS;

use combine::bitop;
use fields::{bitfield, bitfield_ro};
use single::{bitcount, bitpos, getbit, setbit};

const OFFSET: CommandError = CommandError::fixed("ERR bit offset is not an integer or out of range");

/// The bit that a word names: below eight times the longest string.
fn offset(cx: &Exec<'_>, word: &[u8]) -> Result<usize, CommandError> {
    parse_i64(word).and_then(|offset| within(cx, offset)).ok_or(OFFSET)
}

/// An offset, if a string may be so long that it has that bit.
fn within(cx: &Exec<'_>, offset: i64) -> Option<usize> {
    let offset = usize::try_from(offset).ok()?;
    ((offset / BYTE_BITS) as u64).lt(&cx.settings.proto_max_bulk_len).then_some(offset)
}

/// Every command of the family.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "BITCOUNT",
            summary: "Counts the ones in a string, or in a part of it told in bytes or bits.",
            complexity: "O(n) where n is the number of bytes of the part",
            since: "2.6.0",
            group: Group::Bitmap,
            arity: -2,
            flags: Flags::READONLY,
            explicit: Categories::BITMAP,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 [range{start:integer [end-unit-block{end:integer [unit(BYTE=byte!|BIT=bit!)@7.0.0]}]}]",
        },
        run: Plan::Keys(bitcount),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "BITFIELD",
            summary: "Reads, sets and increments integers of any width at any bit of a string.",
            complexity: "O(n) where n is the number of operations",
            since: "3.2.0",
            group: Group::Bitmap,
            arity: -2,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::BITMAP,
            keys: &[KeySpec {
                begin: Begin::Index(1),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                flags: KeyFlags::RW
                    .with(KeyFlags::ACCESS)
                    .with(KeyFlags::UPDATE)
                    .with(KeyFlags::VARIABLE_FLAGS),
                notes: "whether it writes depends on the operations",
            }],
            tips: &[],
            syntax: "key:key#0 [operation(GET=get-block{encoding:string offset:integer}|write{[OVERFLOW=overflow-block(WRAP=wrap!|SAT=sat!|FAIL=fail!)] write-operation(SET=set-block{encoding:string offset:integer value:integer}|INCRBY=incrby-block{encoding:string offset:integer increment:integer})})*]",
        },
        run: Plan::Keys(bitfield),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "BITFIELD_RO",
            summary: "Reads integers of any width at any bit of a string.",
            complexity: "O(n) where n is the number of operations",
            since: "6.0.0",
            group: Group::Bitmap,
            arity: -2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::BITMAP,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 [GET=get-block{encoding:string offset:integer}*+]",
        },
        run: Plan::Keys(bitfield_ro),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "BITOP",
            summary: "Combines strings bit by bit and stores the result.",
            complexity: "O(n) where n is the number of bytes of all sources",
            since: "2.6.0",
            group: Group::Bitmap,
            arity: -4,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::BITMAP,
            keys: &[
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE),
                    notes: "",
                },
                KeySpec {
                    begin: Begin::Index(3),
                    find: Find::Range { last: -1, step: 1, limit: 0 },
                    flags: KeyFlags::RO.with(KeyFlags::ACCESS),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "operation(AND=and!|OR=or!|XOR=xor!|NOT=not!) destkey:key#0 key:key#1*",
        },
        run: Plan::Keys(bitop),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "BITPOS",
            summary: "Finds the first one or the first zero in a string or a part of it.",
            complexity: "O(n) where n is the number of bytes of the part",
            since: "2.8.7",
            group: Group::Bitmap,
            arity: -3,
            flags: Flags::READONLY,
            explicit: Categories::BITMAP,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 bit:integer [range{start:integer [end-unit-block{end:integer [unit(BYTE=byte!|BIT=bit!)@7.0.0]}]}]",
        },
        run: Plan::Keys(bitpos),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GETBIT",
            summary: "Gives one bit of a string.",
            complexity: "O(1)",
            since: "2.2.0",
            group: Group::Bitmap,
            arity: 3,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::BITMAP,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 offset:integer",
        },
        run: Plan::Keys(getbit),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SETBIT",
            summary: "Sets or clears one bit of a string, which grows as needed, and gives the bit before.",
            complexity: "O(1), O(n) when the string grows; n is its new length",
            since: "2.2.0",
            group: Group::Bitmap,
            arity: 4,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::BITMAP,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 offset:integer value:integer",
        },
        run: Plan::Keys(setbit),
        subcommands: &[],
    },
];
