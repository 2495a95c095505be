//! What a thread counts: written by the thread alone, read by whoever asks for INFO, summed over the threads.
//!
//! HOT: counting is a load and a store of a line that only this thread writes; no read-modify-write, no shared counter.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds, by the only writer.
    #[inline]
    pub fn add(&self, more: u64) {
        // Relaxed: a number that stands alone; there is one writer, so that no addition is lost.
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    /// Overwrites, by the only writer.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is counted per command.
#[derive(Debug, Default)]
#[repr(align(32))]
pub struct CommandStats {
    pub calls: Count,
    /// Time spent, in ticks of `reactor::clock`.
    pub ticks: Count,
    pub rejected: Count,
    pub failed: Count,
}

/// What one thread counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadStats {
    pub net_input: Count,
    pub net_output: Count,
    pub connections_received: Count,
    pub connections_rejected: Count,
    pub output_limit_disconnections: Count,
    pub query_buffer_disconnections: Count,
    pub auth_denied: Count,
    pub keyspace_hits: Count,
    pub keyspace_misses: Count,
    pub expired_keys: Count,
    pub evicted_keys: Count,
    /// By `Entry::number`.
    pub commands: Box<[CommandStats]>,
}

impl ThreadStats {
    /// Statistics for a table of `commands` commands.
    pub fn new(commands: usize) -> Self {
        Self { commands: (0..commands).map(|_| CommandStats::default()).collect(), ..Self::default() }
    }

    /// A command ran for `ticks`.
    #[inline]
    pub fn ran(&self, number: usize, ticks: u64, failed: bool) {
        let command = &self.commands[number];
        command.calls.add(1);
        command.ticks.add(ticks);
        if failed {
            command.failed.add(1);
        }
    }

    /// A command was not allowed to run.
    pub fn rejected(&self, number: usize) {
        self.commands[number].rejected.add(1);
    }
}
