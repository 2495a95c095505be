//! The stream family.

mod add;
mod ids;
mod read;
mod trim;

use command::{Begin, Categories, Command, Find, Flags, Group, KeyFlags, KeySpec, Spec};
use shard::plan::Plan;

use add::{xadd, xdel, xlen, xsetid};
use read::{xrange, xread, xrevrange};
use trim::xtrim;

/// Every command of the family.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "XADD",
            summary: "Adds an entry at the end of a stream, which begins empty, and gives its id.",
            complexity: "O(1) on average; trimming takes as long as what it removes",
            since: "5.0.0",
            group: Group::Stream,
            arity: -5,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::STREAM,
            keys: &[KeySpec {
                begin: Begin::Index(1),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                flags: KeyFlags::RW.with(KeyFlags::UPDATE),
                notes: "UPDATE instead of INSERT because of the optional trimming feature",
            }],
            tips: &["nondeterministic_output"],
            syntax: "key:key#0 [NOMKSTREAM=nomkstream!@6.2.0] [trim{strategy(MAXLEN=maxlen!|MINID=minid!@6.2.0) [operator(==equal!|~=approximately!)] threshold:string [LIMIT=count:integer@6.2.0]}] id-selector(*=auto-id!|id:string) data{field:string value:string}*",
        },
        run: Plan::Keys(xadd),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "XDEL",
            summary: "Removes entries from a stream by their ids.",
            complexity: "O(log n) per id where n is the number of blocks",
            since: "5.0.0",
            group: Group::Stream,
            arity: -3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::STREAM,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::DELETE))],
            tips: &[],
            syntax: "key:key#0 id:string*",
        },
        run: Plan::Keys(xdel),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "XLEN",
            summary: "Gives the number of entries of a stream.",
            complexity: "O(1)",
            since: "5.0.0",
            group: Group::Stream,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::STREAM,
            keys: &[KeySpec::first(KeyFlags::RO)],
            tips: &[],
            syntax: "key:key#0",
        },
        run: Plan::Keys(xlen),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "XRANGE",
            summary: "Gives the entries between two ids.",
            complexity: "O(log n + m) where n is the number of blocks and m of entries given",
            since: "5.0.0",
            group: Group::Stream,
            arity: -4,
            flags: Flags::READONLY,
            explicit: Categories::STREAM,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 start:string end:string [COUNT=count:integer]",
        },
        run: Plan::Keys(xrange),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "XREAD",
            summary: "Gives the entries behind an id, of several streams; waits for one if asked to.",
            complexity: "O(m) per stream where m is the number of entries given",
            since: "5.0.0",
            group: Group::Stream,
            arity: -4,
            flags: Flags::READONLY.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS),
            explicit: Categories::STREAM,
            keys: &[KeySpec {
                begin: Begin::Keyword { word: "STREAMS", start: 1 },
                find: Find::Range { last: -1, step: 1, limit: 2 },
                flags: KeyFlags::RO.with(KeyFlags::ACCESS),
                notes: "",
            }],
            tips: &[],
            syntax: "[COUNT=count:integer] [BLOCK=milliseconds:integer] STREAMS=streams{key:key#0* id:string*}",
        },
        run: Plan::Keys(xread),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "XREVRANGE",
            summary: "Gives the entries between two ids, the last first.",
            complexity: "O(log n + m) where n is the number of blocks and m of entries given",
            since: "5.0.0",
            group: Group::Stream,
            arity: -4,
            flags: Flags::READONLY,
            explicit: Categories::STREAM,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 end:string start:string [COUNT=count:integer]",
        },
        run: Plan::Keys(xrevrange),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "XSETID",
            summary: "Sets what a stream knows beside its entries: its last id above all.",
            complexity: "O(1)",
            since: "5.0.0",
            group: Group::Stream,
            arity: -3,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::STREAM,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 last-id:string [ENTRIESADDED=entries-added:integer@7.0.0] [MAXDELETEDID=max-deleted-id:string@7.0.0]",
        },
        run: Plan::Keys(xsetid),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "XTRIM",
            summary: "Removes entries from the start of a stream.",
            complexity: "O(n) where n is the number of nodes removed, and entries of one",
            since: "5.0.0",
            group: Group::Stream,
            arity: -4,
            flags: Flags::WRITE,
            explicit: Categories::STREAM,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::DELETE))],
            tips: &["nondeterministic_output"],
            syntax: "key:key#0 trim{strategy(MAXLEN=maxlen!|MINID=minid!@6.2.0) [operator(==equal!|~=approximately!)] threshold:string [LIMIT=count:integer@6.2.0]}",
        },
        run: Plan::Keys(xtrim),
        subcommands: &[],
    },
];
