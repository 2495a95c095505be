//! `darter-bench`, a load generator for servers that speak RESP: what it is made of.
//!
//! The load side fills a [`record::Run`] through one [`recorder::Recorder`] per thread; everything that a person or a program reads
//! (the terminal, tables, files, the report) is made from that record and from nothing else.

pub mod app;
pub mod args;
pub mod client;
pub mod cluster;
pub mod compare;
pub mod data;
pub mod engine;
pub mod fault;
pub mod keys;
pub mod output;
pub mod pace;
pub mod plan;
pub mod record;
pub mod recorder;
pub mod replies;
pub mod report;
pub mod server;
pub mod stats;
pub mod suite;
#[cfg(test)]
mod synthetic;
pub mod target;
pub mod template;
pub mod tls;
pub mod units;
pub mod watch;
pub mod workload;
