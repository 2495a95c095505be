//! MEMORY: what the server occupies. MEMORY USAGE, which looks at a key, is a data command and stands in `commands`.

use command::{Command, CommandError, Flags};
use resp::{Args, Reply};
use stdx::human;

use super::{QUIET, help, row};
use crate::info::MemoryFigures;
use crate::worker::{Cx, Flow, SessionRun};

const VARYING: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// A slot of the index and its fingerprint, at the usual load.
const INDEX_BYTES_PER_ENTRY: usize = 9;

pub const ROWS: &[Command<SessionRun>] =
    &[row("MEMORY", "Commands about memory.", "4.0.0", -2, Flags::NONE, show_help).with(SUBCOMMANDS)];

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    row("DOCTOR", "Tells what is unusual about memory, in words.", "4.0.0", 2, Flags::NONE, doctor)
        .tips(VARYING),
    row("HELP", "Shows the subcommands.", "4.0.0", 2, QUIET, show_help),
    row("MALLOC-STATS", "Shows how the arena is used.", "4.0.0", 2, Flags::LOADING, malloc_stats)
        .tips(VARYING),
    row("PURGE", "Returns free memory to the system.", "4.0.0", 2, Flags::LOADING, purge)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    row("STATS", "Shows figures about memory.", "4.0.0", 2, Flags::NONE, stats).tips(VARYING),
];

const HELP: &[&str] = &[
    "DOCTOR -- what is unusual about memory, in words.",
    "MALLOC-STATS -- how the arena is used: pages by owner and size.",
    "PURGE -- return free memory to the system.",
    "STATS -- figures about memory.",
    "USAGE <key> [SAMPLES <count>] -- the bytes that a key and its value occupy.",
];

fn show_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "MEMORY", HELP)
}

/// Below this many bytes ratios mean nothing.
const DOCTOR_BYTES_MIN: u64 = 5 << 20;

fn doctor(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let figures = MemoryFigures::of(cx.worker);
    let mut text = String::new();
    if figures.used < DOCTOR_BYTES_MIN {
        text.push_str("There is too little data to say anything about memory.\n");
        reply.verbatim("txt", text.as_bytes());
        return Ok(Flow::Done);
    }
    let used = human::bytes(figures.used);
    if figures.peak > figures.used / 2 * 3 {
        let peak = human::bytes(figures.peak);
        text.push_str(&format!(
            "Peak: {peak} were in use once, {used} are now. What is free is returned to the system.\n"
        ));
    }
    if figures.waste > figures.used / 5 {
        let waste = human::bytes(figures.waste);
        text.push_str(&format!("Holes: {waste} of {used}. Compaction closes them while writes go on.\n"));
    }
    if figures.resident > figures.used / 2 * 3 {
        let resident = human::bytes(figures.resident);
        text.push_str(&format!(
            "Resident: {resident} for {used} in use. MEMORY PURGE returns free pages at once.\n"
        ));
    }
    if figures.clients > figures.used / 4 {
        let clients = human::bytes(figures.clients);
        text.push_str(&format!(
            "Clients: their buffers hold {clients}. CLIENT LIST shows whose; client-output-buffer-limit bounds them.\n"
        ));
    }
    if text.is_empty() {
        text.push_str("Nothing is unusual about memory.\n");
    }
    reply.verbatim("txt", text.as_bytes());
    Ok(Flow::Done)
}

/// The memory map of the arena, which DEBUG shows too.
pub(super) fn map_text(cx: &Cx<'_>) -> String {
    let map = cx.worker.shared.arena.map();
    let counts = map.counts;
    let page = memory::PAGE_BYTES as u64;
    let sized = |orders: &[u64; 5]| {
        let of = |(order, count): (usize, &u64)| format!("{}K:{count}", (page << order) / 1024);
        orders.iter().enumerate().map(of).collect::<Vec<_>>().join(" ")
    };
    format!(
        "reserved: {} of address space\ntouched: {}\nin use: {}\nfree but resident: {}\nheap pages: {}\nindex and other pages: {}\nruns of \
         large values: {} with {}\n",
        human::bytes(map.reserved_bytes),
        human::bytes(map.frontier_bytes),
        human::bytes(counts.used * page),
        human::bytes(counts.dirty * page),
        sized(&counts.heap),
        sized(&counts.plain),
        counts.runs,
        human::bytes(counts.run_pages * page),
    )
}

fn malloc_stats(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let text = map_text(cx);
    reply.verbatim("txt", text.as_bytes());
    Ok(Flow::Done)
}

/// On a thread of its own: the kernel takes about 100 us per MiB.
fn purge(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let arena = cx.worker.shared.arena;
    let spawned =
        std::thread::Builder::new().name("darter-purge".to_owned()).spawn(move || arena.trim(0, u64::MAX));
    match spawned {
        Ok(_) => reply.ok(),
        Err(error) => reply.error(&format!("ERR Error purging dirty pages: {error}")),
    }
    Ok(Flow::Done)
}

enum Value {
    Int(u64),
    Double(f64),
}

fn stats(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let figures = MemoryFigures::of(cx.worker);
    let shared = cx.worker.shared;
    let published = &shared.published;
    let databases: Vec<(u16, u64)> =
        (0..published.databases()).map(|db| (db, published.keys(db))).filter(|(_, keys)| *keys > 0).collect();
    let keys: u64 = databases.iter().map(|(_, keys)| keys).sum();
    let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let dirty = shared.arena.bytes_dirty().max(figures.used);
    let since_start = figures.used.saturating_sub(figures.at_start);
    let before = [
        ("peak.allocated", Value::Int(figures.peak)),
        ("total.allocated", Value::Int(figures.used)),
        ("startup.allocated", Value::Int(figures.at_start)),
        ("replication.backlog", Value::Int(0)),
        ("clients.slaves", Value::Int(0)),
        ("clients.normal", Value::Int(figures.clients)),
        ("aof.buffer", Value::Int(0)),
        ("lua.caches", Value::Int(cx.worker.shared.scripts.figures().bytes)),
        ("functions.caches", Value::Int(0)),
    ];
    let after = [
        ("overhead.total", Value::Int(figures.overhead)),
        ("keys.count", Value::Int(keys)),
        ("keys.bytes-per-key", Value::Int(since_start.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", Value::Int(figures.dataset())),
        ("dataset.percentage", Value::Double(ratio(figures.dataset(), since_start) * 100.0)),
        ("peak.percentage", Value::Double(ratio(figures.used, figures.peak) * 100.0)),
        ("allocator.allocated", Value::Int(figures.used - figures.waste)),
        ("allocator.active", Value::Int(figures.used)),
        ("allocator.resident", Value::Int(dirty)),
        ("allocator-fragmentation.ratio", Value::Double(ratio(figures.used, figures.used - figures.waste))),
        ("allocator-fragmentation.bytes", Value::Int(figures.waste)),
        ("allocator-rss.ratio", Value::Double(ratio(dirty, figures.used))),
        ("allocator-rss.bytes", Value::Int(dirty - figures.used)),
        ("fragmentation", Value::Double(ratio(figures.resident, figures.used))),
        ("fragmentation.bytes", Value::Int(figures.resident.saturating_sub(figures.used))),
    ];
    reply.map(before.len() + databases.len() + after.len());
    write_values(&before, reply);
    for (db, keys) in databases {
        reply.bulk(format!("db.{db}").as_bytes());
        reply.map(2);
        // Both live in the index and in the entries themselves: there is no table beside them.
        write_values(
            &[
                ("overhead.hashtable.main", Value::Int(keys * INDEX_BYTES_PER_ENTRY as u64)),
                ("overhead.hashtable.expires", Value::Int(0)),
            ],
            reply,
        );
    }
    write_values(&after, reply);
    Ok(Flow::Done)
}

fn write_values(values: &[(&str, Value)], reply: &mut Reply) {
    for (name, value) in values {
        reply.bulk(name.as_bytes());
        match value {
            Value::Int(value) => reply.int(i64::try_from(*value).unwrap_or(i64::MAX)),
            Value::Double(value) => reply.double(*value),
        }
    }
}
