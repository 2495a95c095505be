//! `darter-bench`, a load generator for servers that speak RESP: what it is made of.
//!
//! The load side fills a [`record::Run`] through one [`recorder::Recorder`] per thread; everything that a person or a program reads
//! (the terminal, tables, files, the report) is made from that record and from nothing else.

pub mod output;
pub mod record;
pub mod recorder;
pub mod report;
pub mod stats;
#[cfg(test)]
mod synthetic;
pub mod units;
pub mod watch;
