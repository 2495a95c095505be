//! One connection: read, parse, run, reply in order.
pub mod config;
