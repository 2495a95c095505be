//! The session commands, one file per family.

pub mod client;
pub mod connection;

use command::Command;

use crate::worker::SessionRun;

/// The rows of all session families.
pub const FAMILIES: &[&[Command<SessionRun>]] = &[connection::ROWS, crate::transaction::ROWS, client::ROWS];
