//! RESP2, RESP3 and inline commands: parsing requests, encoding replies.
//!
//! Knows no command, key, clock or connection. Every byte is judged and written as Valkey 9.1 does it.

mod args;
mod parse;
mod reply;

pub use args::{Args, OwnedArgs, Span};
pub use parse::{ParseLimits, Partial, ProtocolError, parse};
pub use reply::{Deferred, Mark, Proto, Reply, SharedBytes};
