//! Lua scripts and functions: a virtual machine per thread, its libraries, and the conversions between replies and Lua's values.
//!
//! Knows no shard, table of commands or client: what a script asks of the server goes through [`Host`].

mod base;
mod bit;
mod cjson;
mod cmsgpack;
mod convert;
mod host;
mod library;
mod number;
mod random;
mod script;
mod server;
mod spare;
mod stack;
mod state;
mod structs;
mod vm;

pub use host::{Called, Host, Level, Poll, Ran};
pub use library::{Library, Registered, is_name};
pub use script::{Flags, Script};
pub use server::Versions;
pub use vm::{Limits, Vm};

/// Instructions between two questions whether the script may go on: some 100 us.
pub const POLL_INSTRUCTIONS: i32 = 10_000;

#[cfg(test)]
mod tests;
