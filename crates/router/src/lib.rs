//! From a command to its shards: lookup, admission, entering, travelling.

pub mod mailbox;
