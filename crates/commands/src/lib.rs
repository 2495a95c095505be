//! The commands, one file per family: rows, functions, tests.

use command::Command;
use shard::plan::Plan;

/// The rows of all data families.
pub const FAMILIES: &[&[Command<Plan>]] = &[];
