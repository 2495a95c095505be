//! Who may do what: users, their rules, and the decision about one command. Pure: it knows no connection, no thread and no file.
//!
//! ```text
//!   words of ACL SETUSER, lines of a file --> user::User   (passwords, selectors; immutable once shared)
//!                                                |
//!   a command's number, words and database --> catalog::Catalog::check --> allowed, or Denied: why, and which word
//! ```
//!
//! A user has one or more *selectors*, each a set of commands, key patterns, channels and databases. A command is allowed if one selector
//! allows all of it. Commands are a bit each by the number of their row; keys are found by a hash of the literal patterns and a search
//! over the literal heads of the others, so that ten thousand patterns cost little more than one.

pub mod catalog;
mod check;
pub mod parse;
mod patterns;
mod secret;
pub mod selector;
pub mod user;
pub mod users;

pub use catalog::Catalog;
pub use check::{Denied, Reason};
pub use parse::RuleError;
pub use user::User;
pub use users::Users;

#[cfg(test)]
mod tests;
