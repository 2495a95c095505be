//! Commands of the server family that are about databases as a whole.

use command::{
    Begin, Categories, Command, CommandError, Effect, Find, Flags, Group, KeyFlags, KeySpec, Spec,
};
use resp::{Args, Reply};
use shard::data::ShardData;
use shard::exec::Exec;
use shard::plan::Plan;
use stdx::num::parse_i64;

/// Every command of this file.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "DBSIZE",
            summary: "Gives the number of keys in the selected database.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Server,
            arity: 1,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::KEYSPACE,
            keys: &[],
            tips: &["request_policy:all_shards", "response_policy:agg_sum"],
            syntax: "",
        },
        run: Plan::Nowhere(dbsize),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "FLUSHALL",
            summary: "Removes every key of every database.",
            complexity: "O(s) where s is the number of shards; the keys are freed later, with SYNC at once",
            since: "1.0.0",
            group: Group::Server,
            arity: -1,
            flags: Flags::WRITE,
            explicit: Categories::KEYSPACE.with(Categories::DANGEROUS),
            keys: &[],
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            syntax: "[flush-type(ASYNC=async!@4.0.0|SYNC=sync!@6.2.0)]",
        },
        run: Plan::Every(flushall),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "FLUSHDB",
            summary: "Removes every key of the selected database.",
            complexity: "O(s) where s is the number of shards; the keys are freed later, with SYNC at once",
            since: "1.0.0",
            group: Group::Server,
            arity: -1,
            flags: Flags::WRITE,
            explicit: Categories::KEYSPACE.with(Categories::DANGEROUS),
            keys: &[],
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            syntax: "[flush-type(ASYNC=async!@4.0.0|SYNC=sync!@6.2.0)]",
        },
        run: Plan::Every(flushdb),
        subcommands: &[],
    },
    // The other subcommands are about the server; they stand in `session`.
    Command {
        spec: Spec {
            name: "MEMORY",
            summary: "Commands about memory.",
            complexity: "Depends on the subcommand",
            since: "4.0.0",
            group: Group::Server,
            arity: -2,
            flags: Flags::NONE,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: Plan::Container,
        subcommands: &[Command {
            spec: Spec {
                name: "USAGE",
                summary: "Tells the bytes that a key and its value occupy.",
                complexity: "O(1)",
                since: "4.0.0",
                group: Group::Server,
                arity: -3,
                flags: Flags::READONLY,
                explicit: Categories::NONE,
                keys: &[KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::RO,
                    notes: "",
                }],
                tips: &[],
                syntax: "key:key#0 [SAMPLES=count:integer]",
            },
            run: Plan::Keys(memory_usage),
            subcommands: &[],
        }],
    },
    Command {
        spec: Spec {
            name: "SWAPDB",
            summary: "Exchanges two databases.",
            complexity: "O(s) where s is the number of shards",
            since: "4.0.0",
            group: Group::Server,
            arity: 3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::KEYSPACE.with(Categories::DANGEROUS),
            keys: &[],
            tips: &[],
            syntax: "index1:integer index2:integer",
        },
        run: Plan::Every(swapdb),
        subcommands: &[],
    },
];

/// A slot of the index and its fingerprint, at the usual load.
const INDEX_BYTES_PER_ENTRY: usize = 9;

/// `MEMORY USAGE key [SAMPLES count]`
fn memory_usage(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    match args.len() {
        3 => {}
        // Nothing here needs sampling: what a value occupies is known.
        5 if args[3].eq_ignore_ascii_case(b"samples") => {
            if parse_i64(&args[4]).ok_or(CommandError::NOT_AN_INTEGER)? < 0 {
                return Err(CommandError::SYNTAX);
            }
        }
        _ => return Err(CommandError::SYNTAX),
    }
    match cx.peek(cx.key(args, 2)) {
        None => reply.null(),
        Some(entry) => reply.int((entry.size() + INDEX_BYTES_PER_ENTRY) as i64),
    }
    Ok(Effect::None)
}

/// `DBSIZE`
fn dbsize(cx: &mut Exec<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply.int((cx.keys_published)(cx.db) as i64);
    Ok(Effect::None)
}

/// `FLUSHALL [ASYNC | SYNC]`
fn flushall(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let at_once = parse_sync(cx, args)?;
    for id in cx.shards() {
        let shard = cx.shard(id);
        let in_use: Vec<u16> = shard.in_use().map(|(db, _)| db).collect();
        for db in in_use {
            shard.detach(db);
        }
        if at_once {
            free_detached(shard);
        }
    }
    cx.flushed();
    reply.ok();
    Ok(Effect::AsIs)
}

/// `FLUSHDB [ASYNC | SYNC]`
fn flushdb(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let at_once = parse_sync(cx, args)?;
    let db = cx.db;
    for id in cx.shards() {
        let shard = cx.shard(id);
        shard.detach(db);
        if at_once {
            free_detached(shard);
        }
    }
    cx.flushed();
    reply.ok();
    Ok(Effect::AsIs)
}

/// Frees what was taken out of a shard.
fn free_detached(shard: &mut ShardData) {
    // The clock stands still, so that no budget is ever used up.
    shard.detached.slice(u64::MAX, || 0);
}

/// Whether what is flushed is to be freed before the reply.
fn parse_sync(cx: &Exec<'_>, args: Args<'_>) -> Result<bool, CommandError> {
    match args.get(1) {
        None => Ok(!cx.settings.lazyfree_user_flush),
        Some(word) if args.len() == 2 && word.eq_ignore_ascii_case(b"SYNC") => Ok(true),
        Some(word) if args.len() == 2 && word.eq_ignore_ascii_case(b"ASYNC") => Ok(false),
        Some(_) => Err(CommandError::SYNTAX),
    }
}

/// `SWAPDB index1 index2`
fn swapdb(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let number = |word: &[u8], error| {
        let number = parse_i64(word).and_then(|number| i32::try_from(number).ok());
        number.ok_or(CommandError::fixed(error))
    };
    let first = number(&args[1], "ERR invalid first DB index")?;
    let second = number(&args[2], "ERR invalid second DB index")?;
    let database = |number: i32| u16::try_from(number).ok().filter(|db| *db < cx.layout.databases);
    let (Some(first), Some(second)) = (database(first), database(second)) else {
        return Err(CommandError::DB_OUT_OF_RANGE);
    };
    if first != second {
        for id in cx.shards() {
            cx.shard(id).swap(first, second);
        }
        cx.flushed();
    }
    reply.ok();
    Ok(Effect::AsIs)
}
