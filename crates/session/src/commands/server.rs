//! The server itself: INFO, TIME, SHUTDOWN, MONITOR, and honest answers about what is not there yet.

use std::sync::atomic::Ordering;

use command::{Categories, Command, CommandError, Flags};
use reactor::clock;
use resp::{Args, Reply};

use super::{ADMIN, QUIET, help, row};
use crate::worker::{Cx, Flow, SessionRun};
use crate::{info, monitor};

const DANGEROUS_ADMIN: Categories = Categories::ADMIN.with(Categories::DANGEROUS);
const REPLICA_FLAGS: Flags =
    Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::STALE).with(Flags::NO_ASYNC_LOADING);
const REPLICAOF_SYNTAX: &str = "args(host-port{host:string port:integer}|no-one{NO=no! ONE=one!})";

pub const ROWS: &[Command<SessionRun>] = &[
    row("INFO", "Shows figures about the server.", "1.0.0", -1, QUIET, info)
        .explicit(Categories::DANGEROUS)
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .syntax("[section:string*]"),
    row("LASTSAVE", "Tells when data was last saved.", "1.0.0", 1, QUIET.with(Flags::FAST), lastsave)
        .explicit(DANGEROUS_ADMIN)
        .tips(&["nondeterministic_output"]),
    row("LOLWUT", "Draws something.", "5.0.0", -1, Flags::READONLY.with(Flags::FAST), lolwut)
        .syntax("[VERSION=version:integer]"),
    row("MODULE", "Commands about modules.", "4.0.0", -2, Flags::NONE, module_help).with(MODULE),
    row("MONITOR", "Shows every command of every client.", "1.0.0", 1, ADMIN, monitor),
    row(
        "REPLICAOF",
        "Makes the server a replica of another, or ends that.",
        "5.0.0",
        3,
        REPLICA_FLAGS,
        replicaof,
    )
    .syntax(REPLICAOF_SYNTAX),
    row("ROLE", "Tells the server's part in replication.", "2.8.12", 1, ROLE_FLAGS, role)
        .explicit(DANGEROUS_ADMIN),
    row("SHUTDOWN", "Stops the server.", "1.0.0", -1, SHUTDOWN_FLAGS, shutdown).syntax(
        "[abort-selector(save-selector-block{[save-selector(NOSAVE=nosave!|SAVE=save!)] [NOW=now!@7.0.0] \
         [FORCE=force!@7.0.0] [SAFE=safe!@9.0.0] [FAILOVER=failover!@9.0.0]}|ABORT=abort!@7.0.0)]",
    ),
    row("SLAVEOF", "The former name of REPLICAOF.", "1.0.0", 3, REPLICA_FLAGS, replicaof)
        .syntax(REPLICAOF_SYNTAX),
    row("TIME", "Tells the time.", "2.6.0", 1, QUIET.with(Flags::FAST), time)
        .tips(&["nondeterministic_output"]),
];

const ROLE_FLAGS: Flags = Flags::NOSCRIPT.with(QUIET).with(Flags::FAST);
const SHUTDOWN_FLAGS: Flags = ADMIN.with(Flags::NO_MULTI).with(Flags::ALLOW_BUSY);

const MODULE: &[Command<SessionRun>] = &[
    row("HELP", "Shows the subcommands.", "5.0.0", 2, QUIET, module_help),
    row("LIST", "Lists the modules.", "4.0.0", 2, Flags::ADMIN.with(Flags::NOSCRIPT), module_list)
        .tips(&["nondeterministic_output_order"]),
];

fn module_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "MODULE", &["LIST -- the modules that are loaded: none, Darter has no modules."])
}

fn module_list(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.array(0);
    Ok(Flow::Done)
}

fn info(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let text = info::text(cx.worker, args.iter().skip(1));
    reply.verbatim("txt", text.as_bytes());
    Ok(Flow::Done)
}

/// The start of the server: what it holds has been there at the earliest since then.
fn lastsave(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int((cx.worker.shared.start.unix_ms / 1000) as i64);
    Ok(Flow::Done)
}

fn monitor(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if cx.in_exec() {
        return Err(CommandError::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    // A second MONITOR has no answer, as in Valkey.
    if !cx.client.monitor {
        monitor::begin(cx);
        reply.ok();
    }
    Ok(Flow::Done)
}

fn replicaof(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if args[1].eq_ignore_ascii_case(b"no") && args[2].eq_ignore_ascii_case(b"one") {
        log::info!("REPLICAOF NO ONE from client id={}: this server is a primary already", cx.client.id);
        reply.ok();
        return Ok(Flow::Done);
    }
    match stdx::num::parse_i64(&args[2]) {
        Some(0..=65535) => {
            Err(CommandError::fixed("ERR Darter does not replicate yet: only NO ONE is accepted"))
        }
        _ => Err(CommandError::fixed("ERR Invalid master port")),
    }
}

/// A primary, at offset 0 of a stream that does not exist yet, without replicas.
fn role(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.array(3);
    reply.bulk(b"master");
    reply.int(0);
    reply.array(0);
    Ok(Flow::Done)
}

/// SHUTDOWN's words.
#[derive(Clone, Copy, Debug, Default)]
struct Stop {
    save: bool,
    nosave: bool,
    force: bool,
    abort: bool,
    failover: bool,
    others: bool,
}

fn shutdown(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let mut stop = Stop::default();
    for word in args.iter().skip(1) {
        match word.to_ascii_lowercase().as_slice() {
            b"save" => stop.save = true,
            b"nosave" => stop.nosave = true,
            b"force" => stop.force = true,
            b"abort" => stop.abort = true,
            b"failover" => stop.failover = true,
            b"now" | b"safe" => stop.others = true,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    if stop.save && stop.nosave
        || stop.abort && (stop.save || stop.nosave || stop.force || stop.failover || stop.others)
    {
        return Err(CommandError::SYNTAX);
    }
    if stop.abort {
        // A shutdown waits for nothing, so that there is never one to abort.
        return Err(CommandError::fixed("ERR No shutdown in progress."));
    }
    if stop.failover {
        return Err(CommandError::fixed("ERR SHUTDOWN FAILOVER is only supported in cluster mode."));
    }
    if stop.save && !stop.force {
        log::warn!("SHUTDOWN SAVE is refused: this version cannot save data. SHUTDOWN NOSAVE stops without");
        return Err(CommandError::fixed("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    let shared = cx.worker.shared;
    if !stop.nosave && shared.busy.is_busy() {
        return Err(shared.busy.error());
    }
    log::info!("User requested shutdown...");
    // Whoever comes second waits for the same end.
    shared.stopping.store(true, Ordering::Relaxed);
    Ok(cx.broadcast(crate::shutdown::ask(shared), Box::new(|_, _, _| Flow::Close)))
}

fn time(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let now_us = clock::unix_us();
    reply.array(2);
    reply.bulk_int((now_us / 1_000_000) as i64);
    reply.bulk_int((now_us % 1_000_000) as i64);
    Ok(Flow::Done)
}

fn lolwut(_cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let mut words = args.from(1);
    if words.len() >= 2 && words[0].eq_ignore_ascii_case(b"version") {
        stdx::num::parse_i64(&words[1]).ok_or(CommandError::NOT_AN_INTEGER)?;
        words = words.from(2);
    }
    let mut sizes = [64, 16];
    for (size, word) in sizes.iter_mut().zip(words.iter()) {
        let wanted = stdx::num::parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)?;
        *size = wanted.clamp(8, 128) as usize;
    }
    let mut text = waves(sizes[0], sizes[1]);
    text.push_str(&format!("\nWater, and a darter in it. Darter ver. {}\n", env!("CARGO_PKG_VERSION")));
    reply.verbatim("txt", text.as_bytes());
    Ok(Flow::Done)
}

/// Two waves that run into each other, as brightness.
fn waves(columns: usize, rows: usize) -> String {
    const SHADES: &[u8] = b" .:-=+*#";
    let mut text = String::with_capacity((columns + 1) * rows);
    for row in 0..rows {
        for column in 0..columns {
            let (x, y) = (column as f64 / columns as f64, row as f64 / rows as f64);
            let swell = (x * 19.0 + (y * 7.0).sin() * 2.0).sin() * y;
            let ripple = ((x - 0.7).hypot((y - 0.5) * 0.6) * 48.0).cos() * 0.6;
            let light = ((swell + ripple + 1.6) / 3.2).clamp(0.0, 0.999);
            text.push(char::from(SHADES[(light * SHADES.len() as f64) as usize]));
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}
