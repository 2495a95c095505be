//! The commands, one file per family: rows, functions, tests.
//!
//! A data command is `fn(&mut Exec, Args, &mut Reply) -> Result<Effect, CommandError>`: it runs inside the shards that were entered for it, never
//! suspends, and returns what it changed. What is about a connection or the server as a whole is not here but in `session`.

pub mod bitmap;
mod blocking;
mod effects;
mod element_scan;
pub mod generic;
pub mod geo;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod harness;
pub mod hash;
pub mod hyperloglog;
pub mod keyspace;
pub mod list;
#[cfg(test)]
mod replay_tests;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
#[cfg(test)]
mod tests;
mod text;

use command::Command;
use shard::plan::Plan;

/// All families.
pub const FAMILIES: &[&[Command<Plan>]] = &[
    string::ROWS,
    generic::ROWS,
    geo::ROWS,
    keyspace::ROWS,
    bitmap::ROWS,
    hyperloglog::ROWS,
    hash::ROWS,
    stream::ROWS,
    list::ROWS,
    list::blocking::ROWS,
    set::ROWS,
    sorted_set::ROWS,
    sorted_set::blocking::ROWS,
];
