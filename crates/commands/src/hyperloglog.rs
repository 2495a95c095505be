//! The HyperLogLog family: strings that are sketches of sets. What is in them is in `types::hyperloglog`.

mod commands;
mod debug;

use command::{Begin, Categories, Command, CommandError, Find, Flags, Group, KeyFlags, KeySpec, Spec};
use shard::keyspace::{Entry, IntText};
use shard::plan::Plan;
use types::hyperloglog::{self, Corrupt};

use crate::text::string;
use commands::{pfadd, pfcount, pfmerge};
use debug::{pfdebug, pfselftest};

const NO_SKETCH: CommandError = CommandError::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPT: CommandError = CommandError::fixed("INVALIDOBJ Corrupted HLL object detected");

/// The sketch that an entry holds.
fn sketch<'b>(entry: Entry<'b>, text: &'b mut IntText) -> Result<&'b [u8], CommandError> {
    let bytes = string(entry)?.to_bytes(text);
    if hyperloglog::encoding(bytes).is_some() { Ok(bytes) } else { Err(NO_SKETCH) }
}

fn corrupt(_: Corrupt) -> CommandError {
    CORRUPT
}

/// Every command of the family.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "PFADD",
            summary: "Adds elements to a sketch of a set.",
            complexity: "O(1) for each element; O(n) while the sketch is sparse, n being its bytes",
            since: "2.8.9",
            group: Group::Hyperloglog,
            arity: -2,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::HYPERLOGLOG,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 [element:string*]",
        },
        run: Plan::Keys(pfadd),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PFCOUNT",
            summary: "Estimates how many different elements were added to one or several sketches.",
            complexity: "O(n) where n is the number of sketches; O(1) for one that has not changed",
            since: "2.8.9",
            group: Group::Hyperloglog,
            arity: -2,
            flags: Flags::READONLY,
            explicit: Categories::HYPERLOGLOG,
            keys: &[KeySpec {
                begin: Begin::Index(1),
                find: Find::Range { last: -1, step: 1, limit: 0 },
                flags: KeyFlags::RW.with(KeyFlags::ACCESS),
                notes: "RW because the estimate is kept in the value",
            }],
            tips: &[],
            syntax: "key:key#0*",
        },
        run: Plan::Keys(pfcount),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PFDEBUG",
            summary: "Shows how a sketch is kept.",
            complexity: "O(1), with a large constant",
            since: "2.8.9",
            group: Group::Hyperloglog,
            arity: 3,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::ADMIN),
            explicit: Categories::HYPERLOGLOG,
            keys: &[KeySpec {
                begin: Begin::Index(2),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                flags: KeyFlags::RW.with(KeyFlags::ACCESS),
                notes: "",
            }],
            tips: &[],
            syntax: "subcommand:string key:key#0",
        },
        run: Plan::Keys(pfdebug),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PFMERGE",
            summary: "Merges sketches into the first one.",
            complexity: "O(n) where n is the number of sketches",
            since: "2.8.9",
            group: Group::Hyperloglog,
            arity: -2,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::HYPERLOGLOG,
            keys: &[
                KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::INSERT)),
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: -1, step: 1, limit: 0 },
                    flags: KeyFlags::RO.with(KeyFlags::ACCESS),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "destkey:key#0 [sourcekey:key#1*]",
        },
        run: Plan::Keys(pfmerge),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PFSELFTEST",
            summary: "Tests the sketches of this server against true numbers.",
            complexity: "O(1), with a large constant",
            since: "2.8.9",
            group: Group::Hyperloglog,
            arity: 1,
            flags: Flags::ADMIN,
            explicit: Categories::HYPERLOGLOG,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: Plan::Nowhere(pfselftest),
        subcommands: &[],
    },
];
