//! The mailbox through which threads send each other finished tasks and questions. It lives with the latch, on the island of unsafe code,
//! and is checked together with it.

pub use shard::latch::{Mail, Mailbox};
