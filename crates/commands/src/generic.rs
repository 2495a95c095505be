//! The generic family: keys of any type.

mod keys;
mod lifetime;
mod object;
mod sort;
mod walks;

use command::{
    Begin, Categories, Command, CommandError, Effect, Find, Flags, Group, KeyFlags, KeySpec, Spec,
};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{Entry, Key};
use shard::plan::Plan;
use stdx::num::parse_i64;

use keys::{copy, del, exists, move_key, rename, renamenx, touch, type_of};
pub(crate) use lifetime::Conditions;
use lifetime::{expire, expireat, expiretime, persist, pexpire, pexpireat, pexpiretime, pttl, ttl};
use object::{encoding, freq, help, idletime, refcount};
use sort::{reads_patterns, sort, sort_ro};
pub(crate) use walks::parse_cursor;
use walks::{keys_start, keys_step, randomkey_start, randomkey_step, scan_start, scan_step};

/// The categories of the types that SORT sorts, and its own.
const SORTED: Categories =
    Categories::SET.with(Categories::SORTEDSET).with(Categories::LIST).with(Categories::DANGEROUS);

/// The keys that SORT's patterns mean.
const PATTERN_KEYS: KeySpec = KeySpec {
    begin: Begin::Unknown,
    find: Find::Unknown,
    flags: KeyFlags::RO.with(KeyFlags::ACCESS),
    notes: "The keys of BY and GET follow from the elements",
};

/// Every command of the family.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "COPY",
            summary: "Copies a value to another key, perhaps in another database.",
            complexity: "O(n) where n is the size of the value",
            since: "6.2.0",
            group: Group::Generic,
            arity: -3,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::KEYSPACE,
            keys: &[
                KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS)),
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "source:key#0 destination:key#1 [DB=destination-db:integer] [REPLACE=replace!]",
        },
        run: Plan::Keys(copy),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "DEL",
            summary: "Removes keys.",
            complexity: "O(n) where n is the number of keys, plus the sizes of collections among them",
            since: "1.0.0",
            group: Group::Generic,
            arity: -2,
            flags: Flags::WRITE,
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::all_from_first(1, KeyFlags::RM.with(KeyFlags::DELETE))],
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key:key#0*",
        },
        run: Plan::Keys(del),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "EXISTS",
            summary: "Counts how many of the keys exist; a key named twice counts twice.",
            complexity: "O(n) where n is the number of keys",
            since: "1.0.0",
            group: Group::Generic,
            arity: -2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::all_from_first(1, KeyFlags::RO)],
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key:key#0*",
        },
        run: Plan::Keys(exists),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "EXPIRE",
            summary: "Lets a key expire after a number of seconds.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Generic,
            arity: -3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 seconds:integer [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)@7.0.0]",
        },
        run: Plan::Keys(expire),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "EXPIREAT",
            summary: "Lets a key expire at a Unix time in seconds.",
            complexity: "O(1)",
            since: "1.2.0",
            group: Group::Generic,
            arity: -3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 unix-time-seconds:unix-time [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)@7.0.0]",
        },
        run: Plan::Keys(expireat),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "EXPIRETIME",
            summary: "Gives the Unix time in seconds at which a key expires.",
            complexity: "O(1)",
            since: "7.0.0",
            group: Group::Generic,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0",
        },
        run: Plan::Keys(expiretime),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "KEYS",
            summary: "Gives every key that matches a pattern.",
            complexity: "O(n) where n is the number of keys in the database; a pattern that begins with a plain hash tag looks at one shard only",
            since: "1.0.0",
            group: Group::Generic,
            arity: 2,
            flags: Flags::READONLY,
            explicit: Categories::KEYSPACE.with(Categories::DANGEROUS),
            keys: &[],
            tips: &["request_policy:all_shards", "nondeterministic_output_order"],
            syntax: "pattern:pattern",
        },
        run: Plan::Walk { start: keys_start, step: keys_step },
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "MOVE",
            summary: "Moves a key to another database.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Generic,
            arity: 3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 db:integer",
        },
        run: Plan::Keys(move_key),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "OBJECT",
            summary: "What the server knows about how a value is kept.",
            complexity: "Depends on the subcommand",
            since: "2.2.3",
            group: Group::Generic,
            arity: -2,
            flags: Flags::NONE,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: Plan::Container,
        subcommands: &[
            Command {
                spec: Spec {
                    name: "ENCODING",
                    summary: "Tells how the value of a key is represented.",
                    complexity: "O(1)",
                    since: "2.2.3",
                    group: Group::Generic,
                    arity: 3,
                    flags: Flags::READONLY,
                    explicit: Categories::KEYSPACE,
                    keys: &[KeySpec {
                        begin: Begin::Index(2),
                        find: Find::Range { last: 0, step: 1, limit: 0 },
                        flags: KeyFlags::RO,
                        notes: "",
                    }],
                    tips: &["nondeterministic_output"],
                    syntax: "key:key#0",
                },
                run: Plan::Keys(encoding),
                subcommands: &[],
            },
            Command {
                spec: Spec {
                    name: "FREQ",
                    summary: "Gives the access frequency counter of a key, under an LFU policy.",
                    complexity: "O(1)",
                    since: "4.0.0",
                    group: Group::Generic,
                    arity: 3,
                    flags: Flags::READONLY,
                    explicit: Categories::KEYSPACE,
                    keys: &[KeySpec {
                        begin: Begin::Index(2),
                        find: Find::Range { last: 0, step: 1, limit: 0 },
                        flags: KeyFlags::RO,
                        notes: "",
                    }],
                    tips: &["nondeterministic_output"],
                    syntax: "key:key#0",
                },
                run: Plan::Keys(freq),
                subcommands: &[],
            },
            Command {
                spec: Spec {
                    name: "HELP",
                    summary: "Lists the subcommands.",
                    complexity: "O(1)",
                    since: "6.2.0",
                    group: Group::Generic,
                    arity: 2,
                    flags: Flags::LOADING.with(Flags::STALE),
                    explicit: Categories::KEYSPACE,
                    keys: &[],
                    tips: &[],
                    syntax: "",
                },
                run: Plan::Nowhere(help),
                subcommands: &[],
            },
            Command {
                spec: Spec {
                    name: "IDLETIME",
                    summary: "Gives the seconds since the last access to a key, where the policy keeps them.",
                    complexity: "O(1)",
                    since: "2.2.3",
                    group: Group::Generic,
                    arity: 3,
                    flags: Flags::READONLY,
                    explicit: Categories::KEYSPACE,
                    keys: &[KeySpec {
                        begin: Begin::Index(2),
                        find: Find::Range { last: 0, step: 1, limit: 0 },
                        flags: KeyFlags::RO,
                        notes: "",
                    }],
                    tips: &["nondeterministic_output"],
                    syntax: "key:key#0",
                },
                run: Plan::Keys(idletime),
                subcommands: &[],
            },
            Command {
                spec: Spec {
                    name: "REFCOUNT",
                    summary: "Gives the number of references to the value of a key.",
                    complexity: "O(1)",
                    since: "2.2.3",
                    group: Group::Generic,
                    arity: 3,
                    flags: Flags::READONLY,
                    explicit: Categories::KEYSPACE,
                    keys: &[KeySpec {
                        begin: Begin::Index(2),
                        find: Find::Range { last: 0, step: 1, limit: 0 },
                        flags: KeyFlags::RO,
                        notes: "",
                    }],
                    tips: &["nondeterministic_output"],
                    syntax: "key:key#0",
                },
                run: Plan::Keys(refcount),
                subcommands: &[],
            },
        ],
    },
    Command {
        spec: Spec {
            name: "PERSIST",
            summary: "Removes the deadline of a key.",
            complexity: "O(1)",
            since: "2.2.0",
            group: Group::Generic,
            arity: 2,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0",
        },
        run: Plan::Keys(persist),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PEXPIRE",
            summary: "Lets a key expire after a number of milliseconds.",
            complexity: "O(1)",
            since: "2.6.0",
            group: Group::Generic,
            arity: -3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 milliseconds:integer [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)@7.0.0]",
        },
        run: Plan::Keys(pexpire),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PEXPIREAT",
            summary: "Lets a key expire at a Unix time in milliseconds.",
            complexity: "O(1)",
            since: "2.6.0",
            group: Group::Generic,
            arity: -3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 unix-time-milliseconds:unix-time [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)@7.0.0]",
        },
        run: Plan::Keys(pexpireat),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PEXPIRETIME",
            summary: "Gives the Unix time in milliseconds at which a key expires.",
            complexity: "O(1)",
            since: "7.0.0",
            group: Group::Generic,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0",
        },
        run: Plan::Keys(pexpiretime),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PTTL",
            summary: "Gives the milliseconds until a key expires.",
            complexity: "O(1)",
            since: "2.6.0",
            group: Group::Generic,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &["nondeterministic_output"],
            syntax: "key:key#0",
        },
        run: Plan::Keys(pttl),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RANDOMKEY",
            summary: "Gives one key, chosen by chance.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Generic,
            arity: 1,
            flags: Flags::READONLY,
            explicit: Categories::KEYSPACE,
            keys: &[],
            tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
            syntax: "",
        },
        run: Plan::Walk { start: randomkey_start, step: randomkey_step },
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RENAME",
            summary: "Gives a key another name; what had that name goes.",
            complexity: "O(1), plus the size of a collection that is replaced or that changes its shard",
            since: "1.0.0",
            group: Group::Generic,
            arity: 3,
            flags: Flags::WRITE,
            explicit: Categories::KEYSPACE,
            keys: &[
                KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE)),
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "key:key#0 newkey:key#1",
        },
        run: Plan::Keys(rename),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RENAMENX",
            summary: "Gives a key another name that is free.",
            complexity: "O(1), plus the size of a collection that changes its shard",
            since: "1.0.0",
            group: Group::Generic,
            arity: 3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[
                KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE)),
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::INSERT),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "key:key#0 newkey:key#1",
        },
        run: Plan::Keys(renamenx),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SCAN",
            summary: "Goes through the keys of a database, a few at a call.",
            complexity: "O(1) per call, O(n) for all n keys",
            since: "2.8.0",
            group: Group::Generic,
            arity: -2,
            flags: Flags::READONLY,
            explicit: Categories::KEYSPACE,
            keys: &[],
            tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
            syntax: "cursor:integer [MATCH=pattern:pattern] [COUNT=count:integer] [TYPE=type:string@6.0.0]",
        },
        run: Plan::Walk { start: scan_start, step: scan_step },
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SORT",
            summary: "Sorts the elements of a list, a set or a sorted set, by themselves or by other keys, and gives or stores them.",
            complexity: "O(n + m log m) for n elements of which m are given; with BY or GET so many lookups, too",
            since: "1.0.0",
            group: Group::Generic,
            arity: -2,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
            explicit: SORTED,
            keys: &[
                KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS)),
                PATTERN_KEYS,
                KeySpec {
                    begin: Begin::Unknown,
                    find: Find::SortStore,
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE),
                    notes: "The key behind STORE, which may stand anywhere among the options",
                },
            ],
            tips: &[],
            syntax: "key:key#0 [BY=by-pattern:pattern#1] [LIMIT=limit{offset:integer count:integer}] [GET=get-pattern:pattern#1*+] [order(ASC=asc!|DESC=desc!)] [ALPHA=sorting!] [STORE=destination:key#2]",
        },
        run: Plan::KeysOrEvery { run: sort, every: reads_patterns },
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SORT_RO",
            summary: "Sorts the elements of a list, a set or a sorted set, by themselves or by other keys.",
            complexity: "O(n + m log m) for n elements of which m are given; with BY or GET so many lookups, too",
            since: "7.0.0",
            group: Group::Generic,
            arity: -2,
            flags: Flags::READONLY.with(Flags::MOVABLEKEYS),
            explicit: SORTED,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS)), PATTERN_KEYS],
            tips: &[],
            syntax: "key:key#0 [BY=by-pattern:pattern#1] [LIMIT=limit{offset:integer count:integer}] [GET=get-pattern:pattern#1*+] [order(ASC=asc!|DESC=desc!)] [ALPHA=sorting!]",
        },
        run: Plan::KeysOrEvery { run: sort_ro, every: reads_patterns },
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "TOUCH",
            summary: "Marks keys as used now and counts those that exist.",
            complexity: "O(n) where n is the number of keys",
            since: "3.2.1",
            group: Group::Generic,
            arity: -2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::all_from_first(1, KeyFlags::RO)],
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key:key#0*",
        },
        run: Plan::Keys(touch),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "TTL",
            summary: "Gives the seconds until a key expires.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Generic,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &["nondeterministic_output"],
            syntax: "key:key#0",
        },
        run: Plan::Keys(ttl),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "TYPE",
            summary: "Gives the type of the value at a key.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Generic,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::first(KeyFlags::RO)],
            tips: &[],
            syntax: "key:key#0",
        },
        run: Plan::Keys(type_of),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "UNLINK",
            summary: "Removes keys; large values are freed later.",
            complexity: "O(1) per key",
            since: "4.0.0",
            group: Group::Generic,
            arity: -2,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[KeySpec::all_from_first(1, KeyFlags::RM.with(KeyFlags::DELETE))],
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key:key#0*",
        },
        run: Plan::Keys(del),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "WAIT",
            summary: "Waits for replicas to confirm the writes of this connection; there are none to wait for.",
            complexity: "O(1)",
            since: "3.0.0",
            group: Group::Generic,
            arity: 3,
            flags: Flags::BLOCKING,
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &["request_policy:all_shards", "response_policy:agg_min"],
            syntax: "numreplicas:integer timeout:integer",
        },
        run: Plan::Nowhere(wait),
        subcommands: &[],
    },
];

/// Answers a question about a key that exists: counts a hit or a miss, but is no use of the key.
fn ask<T>(cx: &mut Exec<'_>, key: Key<'_>, answer: impl FnOnce(Entry<'_>) -> T) -> Option<T> {
    let answer = cx.peek(key).map(answer);
    match answer {
        Some(_) => cx.counters.keyspace_hits += 1,
        None => cx.missed(key),
    }
    answer
}

/// `WAIT numreplicas timeout`: there are no replicas.
fn wait(_: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    parse_i64(&args[1]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let timeout =
        parse_i64(&args[2]).ok_or(CommandError::fixed("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(CommandError::fixed("ERR timeout is negative"));
    }
    reply.int(0);
    Ok(Effect::None)
}
