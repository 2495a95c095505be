//! What the server counts. HOT: recording a command takes no lock, no allocation (but once per command and thread) and no
//! read-modify-write instruction.
//!
//! Every thread has counters of its own that only it writes; whoever wants a figure sums over the threads. A sum is therefore not
//! a snapshot: it may contain one thread's command and not yet another's that ran before.

mod histogram;
mod rates;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub use histogram::{Histogram, Percentiles};
pub use rates::{Rates, SAMPLE_INTERVAL_MS};

use reactor::clock::ticks_to_ns;

use crate::shared::Shared;

/// Valkey counts no more kinds of errors than this; what comes after is counted together.
const ERROR_CODES_MAX: usize = 128;
const ERROR_OVERFLOW: &str = "ERRORSTATS_OVERFLOW";

/// A number that one thread writes and all may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Only for the thread that owns the counter: an addition by another could be lost.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// The counterpart of `add`, for what goes up and down.
    #[inline]
    pub fn subtract(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(amount), Relaxed);
    }

    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Keeps the larger of the two.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    (
        events { $($(#[$event_doc:meta])* $event:ident,)* }
        gauges { $($(#[$gauge_doc:meta])* $gauge:ident,)* }
        maxima { $($(#[$maximum_doc:meta])* $maximum:ident,)* }
    ) => {
        /// The counters of one thread, on cache lines of its own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$event_doc])* pub $event: Counter,)*
            $($(#[$gauge_doc])* pub $gauge: Counter,)*
            $($(#[$maximum_doc])* pub $maximum: Counter,)*
        }

        /// The counters of all threads: their sums, of maxima the largest.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$event_doc])* pub $event: u64,)*
            $($(#[$gauge_doc])* pub $gauge: u64,)*
            $($(#[$maximum_doc])* pub $maximum: u64,)*
        }

        impl Totals {
            fn add(&mut self, counters: &Counters) {
                $(self.$event = self.$event.wrapping_add(counters.$event.get());)*
                $(self.$gauge = self.$gauge.wrapping_add(counters.$gauge.get());)*
                $(self.$maximum = self.$maximum.max(counters.$maximum.get());)*
            }
        }

        impl Counters {
            /// CONFIG RESETSTAT: what has happened is forgotten, what is there remains.
            fn reset(&self) {
                $(self.$event.set(0);)*
                $(self.$maximum.set(0);)*
            }
        }
    };
}

counters! {
    events {
        /// Commands that were executed, inside transactions too.
        commands_processed,
        connections_received,
        /// Connections that were closed at once because there were too many, or by protected mode.
        connections_rejected,
        net_input,
        net_output,
        /// Turns in which something was read.
        reads_processed,
        /// Turns in which something was written.
        writes_processed,
        keyspace_hits,
        keyspace_misses,
        expired_keys,
        expired_fields,
        /// Times the active expiry cycle ended for want of time.
        expired_time_cap_reached,
        expire_cycle_us,
        evicted_keys,
        /// Microseconds during which the data exceeded `maxmemory`.
        eviction_exceeded_us,
        /// Error replies.
        error_replies,
        /// Error replies to commands that a transaction or the server itself had issued.
        unexpected_error_replies,
        query_buffer_disconnections,
        output_limit_disconnections,
        eventloop_turns,
        /// Ticks of the clock in which the event loops did not wait.
        eventloop_ticks,
        /// Ticks of the clock spent in commands.
        command_ticks,
        /// Commands that found their shard held and were posted there.
        commands_posted,
        /// Entries that compaction moved.
        entries_moved,
    }
    gauges {
        connected_clients,
        blocked_clients,
        /// Those of them whose wait will end by time.
        clients_in_timeout_table,
        monitors,
        watching_clients,
        /// Keys watched, counted once per client.
        watched_keys,
        /// Bytes of the clients' buffers and states.
        client_bytes,
        /// Bytes of holes in the pages of the thread's home shards.
        waste_bytes,
    }
    maxima {
        /// The largest unparsed input of a client in the last seconds.
        client_input_recent_max,
        /// The largest unsent output of a client in the last seconds.
        client_output_recent_max,
        /// The longest time for which a command, a transaction or a background slice has held its shards, in ticks of the clock; with it
        /// what was posted there meanwhile, as far as it was run before they were left.
        shard_hold_max_ticks,
    }
}

/// What one command has cost on one thread. 32 bytes: two of them share a cache line, which one thread writes.
#[derive(Debug, Default)]
struct CommandCounters {
    calls: Counter,
    ticks: Counter,
    rejected: Counter,
    failed: Counter,
}

/// What one command has cost on all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    pub calls: u64,
    pub nanoseconds: u64,
    /// Not executed because of what it was or what the server could do: arity, authentication, memory.
    pub rejected: u64,
    /// Executed with an error reply.
    pub failed: u64,
}

/// The statistics of one thread.
#[derive(Debug)]
pub struct ThreadStats {
    pub counters: Counters,
    /// By the number of the command.
    commands: Box<[CommandCounters]>,
    /// By the number of the command; made when the command runs for the first time on this thread.
    histograms: Box<[OnceLock<Box<Histogram>>]>,
    /// Error replies by code. Locked by the thread at each error reply, and by readers: never contended for long.
    errors: Mutex<BTreeMap<Box<str>, u64>>,
}

impl ThreadStats {
    /// For a table of this many commands.
    pub fn new(commands: usize) -> Self {
        Self {
            counters: Counters::default(),
            commands: (0..commands).map(|_| CommandCounters::default()).collect(),
            histograms: (0..commands).map(|_| OnceLock::new()).collect(),
            errors: Mutex::default(),
        }
    }

    /// A command ran for so many `reactor::clock::ticks`.
    #[inline]
    pub fn ran(&self, command: usize, ticks: u64, failed: bool, track_latency: bool) {
        self.counters.commands_processed.add(1);
        let counters = &self.commands[command];
        counters.calls.add(1);
        counters.ticks.add(ticks);
        self.counters.command_ticks.add(ticks);
        if failed {
            counters.failed.add(1);
        }
        if track_latency {
            self.histograms[command].get_or_init(Default::default).record(ticks_to_ns(ticks));
        }
    }

    /// A command was refused before it ran.
    pub fn rejected(&self, command: usize) {
        self.commands[command].rejected.add(1);
    }

    /// An error reply was sent; `text` begins with its code.
    pub fn error(&self, text: &str) {
        self.counters.error_replies.add(1);
        let code = text.split(' ').next().unwrap_or_default();
        let mut errors = lock(&self.errors);
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else {
            let code = if errors.len() < ERROR_CODES_MAX { code } else { ERROR_OVERFLOW };
            *errors.entry(code.into()).or_insert(0) += 1;
        }
    }

    /// CONFIG RESETSTAT. Only for the thread itself.
    pub fn reset(&self) {
        self.counters.reset();
        for command in &self.commands {
            for counter in [&command.calls, &command.ticks, &command.rejected, &command.failed] {
                counter.set(0);
            }
        }
        self.reset_latencies(|_| true);
        lock(&self.errors).clear();
    }

    /// LATENCY HISTOGRAM RESET and the like, for the commands that `wanted` accepts. Only for the thread itself.
    pub fn reset_latencies(&self, wanted: impl Fn(usize) -> bool) {
        for (command, histogram) in self.histograms.iter().enumerate() {
            if let Some(histogram) = histogram.get().filter(|_| wanted(command)) {
                histogram.reset();
            }
        }
    }
}

impl Deref for ThreadStats {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.counters
    }
}

// The counters of some threads, added up.

fn totals<'a>(threads: impl Iterator<Item = &'a ThreadStats>) -> Totals {
    let mut totals = Totals::default();
    threads.for_each(|thread| totals.add(&thread.counters));
    totals
}

fn command_totals<'a>(threads: impl Iterator<Item = &'a ThreadStats>, command: usize) -> CommandTotals {
    let mut totals = CommandTotals::default();
    let mut ticks = 0;
    for counters in threads.map(|thread| &thread.commands[command]) {
        totals.calls += counters.calls.get();
        ticks += counters.ticks.get();
        totals.rejected += counters.rejected.get();
        totals.failed += counters.failed.get();
    }
    totals.nanoseconds = ticks_to_ns(ticks);
    totals
}

fn latencies<'a>(threads: impl Iterator<Item = &'a ThreadStats>, command: usize) -> Option<Percentiles> {
    let mut sum = Percentiles::default();
    threads.filter_map(|thread| thread.histograms[command].get()).for_each(|histogram| sum.add(histogram));
    (sum.count() > 0).then_some(sum)
}

fn errors<'a>(threads: impl Iterator<Item = &'a ThreadStats>) -> BTreeMap<Box<str>, u64> {
    let mut sum = BTreeMap::new();
    for thread in threads {
        for (code, count) in lock(&thread.errors).iter() {
            *sum.entry(code.clone()).or_insert(0) += count;
        }
    }
    sum
}

impl Shared {
    fn all_stats(&self) -> impl Iterator<Item = &ThreadStats> {
        self.peers.iter().map(|peer| &peer.stats)
    }

    /// What all threads have counted.
    pub fn totals(&self) -> Totals {
        totals(self.all_stats())
    }

    /// What the command with this number has cost.
    pub fn command_totals(&self, command: usize) -> CommandTotals {
        command_totals(self.all_stats(), command)
    }

    /// The latencies of the command with this number; none if it was never measured.
    pub fn latencies(&self, command: usize) -> Option<Percentiles> {
        latencies(self.all_stats(), command)
    }

    /// Error replies by code, in the order of the codes.
    pub fn error_totals(&self) -> BTreeMap<Box<str>, u64> {
        errors(self.all_stats())
    }

    /// To be called by one thread every [`SAMPLE_INTERVAL_MS`], for the rates per second.
    pub fn sample_rates(&self, now_us: u64) {
        let totals = self.totals();
        self.rates().sample(
            now_us,
            [
                totals.commands_processed,
                totals.net_input,
                totals.net_output,
                totals.eventloop_turns,
                ticks_to_ns(totals.eventloop_ticks) / 1000,
            ],
        );
    }

    /// The rates, locked.
    pub fn rates(&self) -> MutexGuard<'_, Rates> {
        lock(&self.rates)
    }
}

/// A thread that panicked ends the process, so a poisoned lock holds nothing worse than a count that is off by one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_all_threads() {
        let stats: Vec<ThreadStats> = (0..3).map(|_| ThreadStats::new(2)).collect();
        for (index, thread) in stats.iter().enumerate() {
            thread.ran(1, reactor::clock::ns_to_ticks(1000), index == 0, true);
            thread.connected_clients.add(2);
            thread.error("WRONGTYPE Operation against a key");
        }
        stats[0].rejected(1);
        stats[1].error("ERR syntax error");
        stats[1].counters.connected_clients.subtract(1);
        let totals = super::totals(stats.iter());
        assert_eq!((totals.commands_processed, totals.connected_clients, totals.error_replies), (3, 5, 4));
        let command = command_totals(stats.iter(), 1);
        assert_eq!((command.calls, command.rejected, command.failed), (3, 1, 1));
        assert!(command.nanoseconds.abs_diff(3000) < 10, "{command:?}");
        assert_eq!(command_totals(stats.iter(), 0), CommandTotals::default());
        assert_eq!(latencies(stats.iter(), 1).map(|latencies| latencies.count()), Some(3));
        assert!(latencies(stats.iter(), 0).is_none());
        let errors: Vec<(String, u64)> =
            super::errors(stats.iter()).into_iter().map(|(code, count)| (code.into(), count)).collect();
        assert_eq!(errors, [("ERR".to_owned(), 1), ("WRONGTYPE".to_owned(), 3)]);
        stats.iter().for_each(ThreadStats::reset);
        assert_eq!(super::totals(stats.iter()), Totals { connected_clients: 5, ..Totals::default() });
        assert_eq!(command_totals(stats.iter(), 1), CommandTotals::default());
        assert!(latencies(stats.iter(), 1).is_none() && super::errors(stats.iter()).is_empty());
    }

    #[test]
    fn codes_of_errors_are_bounded() {
        let stats = [ThreadStats::new(0)];
        for n in 0..1000 {
            stats[0].error(&format!("CODE{n} text"));
        }
        let errors = super::errors(stats.iter());
        assert_eq!(errors.len(), ERROR_CODES_MAX + 1);
        assert_eq!(errors[ERROR_OVERFLOW], 1000 - ERROR_CODES_MAX as u64);
    }

    #[test]
    fn only_the_larger_is_kept() {
        let counter = Counter::default();
        counter.raise(7);
        counter.raise(3);
        assert_eq!(counter.get(), 7);
    }
}
