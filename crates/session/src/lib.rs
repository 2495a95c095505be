//! One connection: read, parse, run, reply in order.

mod accept;
mod background;
pub mod broadcast;
pub mod client;
pub mod commands;
pub mod config;
pub mod connection;
mod describe;
mod dispatch;
pub mod filter;
pub mod info;
mod lifecycle;
mod lifetimes;
pub mod limits;
pub mod listen;
pub mod logger;
pub mod monitor;
pub mod pause;
mod room;
pub mod serve;
pub mod shared;
pub mod stats;
pub mod transaction;
pub mod worker;
