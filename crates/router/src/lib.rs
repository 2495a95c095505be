//! From a command to its shards: lookup, admission, entering, travelling.

pub mod engine;
pub mod mailbox;
pub mod outbound;
pub mod published;
pub mod script;
pub mod table;
pub mod task;
pub mod waiting;
