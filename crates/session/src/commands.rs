//! The session commands, one file per family.

pub mod acl;
pub mod client;
pub mod cluster;
pub mod command;
pub mod commandlog;
pub mod config;
pub mod connection;
pub mod debug;
mod functions;
pub mod latency;
pub mod memory;
pub mod pubsub;
pub mod scripting;
pub mod server;
mod tracking;

use ::command::{Categories, Command, CommandError, Flags, Group, KeySpec, Spec};
use reactor::clock;
use resp::{Args, Reply};
use router::engine::{Call, Ran};
use shard::plan::Plan;

use crate::connection::Waiting;
use crate::worker::{Cx, Flow, SessionRun};

/// The rows of all session families.
pub const FAMILIES: &[&[Command<SessionRun>]] = &[
    connection::ROWS,
    crate::transaction::ROWS,
    client::ROWS,
    command::ROWS,
    config::ROWS,
    server::ROWS,
    acl::ROWS,
    cluster::ROWS,
    commandlog::ROWS,
    latency::ROWS,
    memory::ROWS,
    debug::ROWS,
    pubsub::ROWS,
    functions::ROWS,
    scripting::ROWS,
];

/// A row of the server group with the columns that most of its rows have; the others are added by [`Command`]'s own functions.
pub(crate) const fn row(
    name: &'static str,
    summary: &'static str,
    since: &'static str,
    arity: i16,
    flags: Flags,
    run: SessionRun,
) -> Command<SessionRun> {
    let spec = Spec {
        name,
        summary,
        complexity: "O(1)",
        since,
        group: Group::Server,
        arity,
        flags,
        explicit: Categories::NONE,
        keys: &[],
        tips: &[],
        syntax: "",
    };
    Command::new(spec, run)
}

pub(crate) const QUIET: Flags = Flags::LOADING.with(Flags::STALE);
pub(crate) const ADMIN: Flags = Flags::ADMIN.with(Flags::NOSCRIPT).with(QUIET);

/// Runs a function inside the shards of a command's keys, for the few session commands that have some.
pub(crate) fn on_keys(
    cx: &mut Cx<'_>,
    plan: &Plan,
    keys: &'static [KeySpec],
    args: Args<'_>,
    reply: &mut Reply,
) -> Flow {
    let call = Call {
        plan,
        keys,
        args,
        db: cx.client.db,
        hint: None,
        connection: cx.ticket.connection,
        caching: None,
    };
    match cx.worker.engine.run(call, reply) {
        Ran::Done | Ran::Failed => Flow::Done,
        Ran::Waits(_) => panic!("no command of the connection itself waits for keys"),
        Ran::Posted => {
            let number = usize::from(cx.client.last_command.unwrap_or_default());
            cx.wait_for(Waiting::Task { number, ticks: clock::ticks() })
        }
    }
}

/// The reply of a HELP subcommand: a head, the lines of the family, and HELP itself.
pub(crate) fn help(reply: &mut Reply, container: &str, lines: &[&str]) -> Result<Flow, CommandError> {
    reply.array(lines.len() + 2);
    reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP -- this text.");
    Ok(Flow::Done)
}
