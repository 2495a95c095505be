//! The session commands, one file per family.

pub mod client;
pub mod command;
pub mod config;
pub mod connection;

use ::command::{Command, CommandError};
use resp::Reply;

use crate::worker::{Flow, SessionRun};

/// The rows of all session families.
pub const FAMILIES: &[&[Command<SessionRun>]] =
    &[connection::ROWS, crate::transaction::ROWS, client::ROWS, command::ROWS, config::ROWS];

/// The reply of a HELP subcommand: a head, the lines of the family, and HELP itself.
pub(crate) fn help(reply: &mut Reply, container: &str, lines: &[&str]) -> Result<Flow, CommandError> {
    reply.array(lines.len() + 2);
    reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP -- this text.");
    Ok(Flow::Done)
}
