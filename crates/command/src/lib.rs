//! What a command is: its row, its arguments, its effect, its error.
//!
//! A family file lists `Command` rows; everything that can be derived is derived from them: COMMAND INFO, DOCS and GETKEYS, ACL
//! categories, arity and key checks, generated documentation, the generators of the differential test. This crate does not know
//! how a command is run: `R` is the plan of whoever runs it.

mod effect;
mod error;
mod keys;
mod spec;
pub mod syntax;

pub use effect::{Effect, Record};
pub use error::CommandError;
pub use keys::{Begin, Find, InvalidKeys, KeyFlags, KeySpec, call_flags, key_positions, legacy_range};
pub use spec::{Categories, Command, Flags, Group, Spec};
