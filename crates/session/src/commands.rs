//! The session commands, one file per family.

pub mod client;
pub mod cluster;
pub mod command;
pub mod config;
pub mod connection;
pub mod server;

use ::command::{Categories, Command, CommandError, Flags, Group, Spec};
use resp::Reply;

use crate::worker::{Flow, SessionRun};

/// The rows of all session families.
pub const FAMILIES: &[&[Command<SessionRun>]] = &[
    connection::ROWS,
    crate::transaction::ROWS,
    client::ROWS,
    command::ROWS,
    config::ROWS,
    server::ROWS,
    cluster::ROWS,
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

/// The reply of a HELP subcommand: a head, the lines of the family, and HELP itself.
pub(crate) fn help(reply: &mut Reply, container: &str, lines: &[&str]) -> Result<Flow, CommandError> {
    reply.array(lines.len() + 2);
    reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP -- this text.");
    Ok(Flow::Done)
}
