//! One connection: read, parse, run, reply in order.

mod accept;
mod background;
pub mod broadcast;
pub mod client;
pub mod commandlog;
pub mod commands;
pub mod config;
pub mod connection;
mod describe;
mod dispatch;
pub mod filter;
pub mod info;
pub mod latency;
mod lifecycle;
mod lifetimes;
pub mod limits;
pub mod listen;
pub mod logger;
pub mod monitor;
pub mod pause;
mod populate;
mod room;
pub mod serve;
pub mod shared;
pub mod stats;
pub mod transaction;
pub mod worker;
