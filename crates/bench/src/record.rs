//! The record of a run: what was asked for and what came out, second by second and as a whole. Plain data without a clock or a socket;
//! the load side fills it, every output reads it, and nothing else passes between the two.
//!
//! Latencies are histograms of nanoseconds. A command has one or two of them. `corrected` counts from the moment at which a request
//! *should* have been sent, which is what a user would have felt; `uncorrected` from the moment at which it was sent. In a closed loop
//! the two are the same, and only `corrected` is there.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// Latencies below this are told apart no further: 64 ns, the power of two below it, is the resolution up to 131 us.
pub const LATENCY_NS_MIN: u64 = 100;
/// Longer ones count as this: an hour.
pub const LATENCY_NS_MAX: u64 = 3600 * 1_000_000_000;
/// Three significant digits: an error of at most 0.1 %.
const DIGITS: u8 = 3;
/// A client thread that is busy for more than this part of the time cannot have offered more.
pub const CLIENT_BUSY_MAX: f64 = 0.9;

/// What the load side calls the run that writes the keys of `--populate`.
pub const POPULATE: &str = "populate";

/// An empty histogram of nanoseconds, the same everywhere, so that any two can be added. About 200 KB, of which a run touches little.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, DIGITS).expect("the bounds are constants")
}

/// What was asked for: the same for all runs of an invocation that differ in nothing but the test, the target and the moment.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The words of the command line, secrets left out.
    pub command_line: String,
    /// The workload as a person would name it: `SET:GET 1:1`, `set,get`, the commands, or the name of a suite.
    pub workload: String,
    pub threads: usize,
    /// Connections of all threads together.
    pub connections: usize,
    pub pipeline: usize,
    /// Sizes of values in bytes as written on the command line: `64`, `16-1024`, `64:9,4096:1`.
    pub data_size: String,
    /// Number of different keys, where the workload has keys.
    pub keys: u64,
    pub key_distribution: String,
    pub seed: u64,
    /// Intended requests per second of an open loop; nothing in a closed loop.
    pub rate: Option<f64>,
    /// Whether the servers form a cluster.
    pub cluster: bool,
    pub warmup: Duration,
    /// Requests of a run, where they bound it.
    pub requests: Option<u64>,
    /// Length of a run, where time bounds it.
    pub duration: Option<Duration>,
}

/// A server, or the cluster that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// What tables call it: given by `--target NAME=...`, else its address.
    pub name: String,
    /// `host:port`, or the path of a socket.
    pub address: String,
    /// Its own name and version, as INFO tells them: `valkey 9.1.2`.
    pub version: String,
}

/// One measured run of one test against one target.
#[derive(Clone, Debug)]
pub struct Run {
    pub setup: Setup,
    pub target: Target,
    /// The test: a name of `-t` such as `SET`, or the workload.
    pub test: String,
    /// When measuring began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How long was measured, without the warm-up.
    pub elapsed: Duration,
    pub commands: Vec<Figures>,
    /// Figures of each node in cluster mode, else empty. Nodes have no `uncorrected`.
    pub nodes: Vec<Figures>,
    /// Error replies and failed checks by their text.
    pub errors: BTreeMap<String, u64>,
    /// Requests to a cluster that were answered with MOVED or ASK. They are in no other figure; in a closed loop others were sent instead.
    pub redirected: u64,
    /// What the servers said about themselves; of several nodes one after the other, in the order of time.
    pub samples: Vec<ServerSample>,
    pub client: Client,
    /// Ended by Ctrl-C before it was through.
    pub interrupted: bool,
    /// Requests of an open loop that were due by the end of the run and could not be sent, all connections being busy. They are in no
    /// histogram.
    pub unsent: u64,
    /// Found by a search: the highest rate that kept to a bound, in requests per second.
    pub rate_found: Option<f64>,
}

/// What one command, or one node, did.
#[derive(Clone, Debug)]
pub struct Figures {
    /// `SET`, or for a node its address.
    pub name: String,
    pub total: Counts,
    pub corrected: Histogram<u64>,
    /// Only of open loops.
    pub uncorrected: Option<Histogram<u64>>,
    /// One element per second, without gaps, beginning with the first; the last may be shorter than a second.
    pub seconds: Vec<Second>,
}

/// Things that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Replies of any kind, errors included.
    pub requests: u64,
    /// Error replies and failed checks.
    pub errors: u64,
    /// Reads that found a value.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

impl Counts {
    /// Adds the other's counts.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.hits += other.hits;
        self.misses += other.misses;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
    }
}

/// One second of one command.
#[derive(Clone, Debug, Default)]
pub struct Second {
    pub counts: Counts,
    pub corrected: Percentiles,
    /// Only of open loops.
    pub uncorrected: Option<Percentiles>,
    /// The second's `corrected` histogram in the compressed V2 form; empty where nothing came.
    pub encoded: Vec<u8>,
}

/// The usual places of a distribution, in nanoseconds; all 0 where nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    pub mean: f64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Percentiles {
    /// Those of a histogram. Cost: one walk of its buckets per field.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            mean: histogram.mean(),
            min: histogram.min(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p95: histogram.value_at_quantile(0.95),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

impl Second {
    /// The summary of a second's counts and histograms.
    pub fn of(
        counts: Counts,
        corrected: &Histogram<u64>,
        uncorrected: Option<&Histogram<u64>>,
        serializer: &mut V2DeflateSerializer,
    ) -> Self {
        let mut encoded = Vec::new();
        if !corrected.is_empty() {
            serializer.serialize(corrected, &mut encoded).expect("writing to memory does not fail");
        }
        let (corrected, uncorrected) = (Percentiles::of(corrected), uncorrected.map(Percentiles::of));
        Self { counts, corrected, uncorrected, encoded }
    }
}

/// What a server said about itself at one moment. Counters are as the server counts them, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerSample {
    /// Seconds since measuring began; negative in the warm-up.
    pub at_s: f64,
    /// Which node: an index into `Run::nodes`; 0 where there is one server.
    pub node: usize,
    /// Processor time, user and system.
    pub cpu: Duration,
    /// Commands processed.
    pub commands: u64,
    pub used_memory: u64,
    pub rss: u64,
    /// Keys of all databases.
    pub keys: u64,
    pub evicted: u64,
    pub expired: u64,
    /// Error replies.
    pub errors: u64,
    pub connections: u64,
}

/// What the load generator itself used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Client {
    /// Processor time of its threads while measuring, user and system.
    pub cpu: Duration,
    /// The part of the time for which its busiest thread ran: 0 to 1.
    pub busiest: f64,
    /// Of an open loop: how late its own threads sent 99 of 100 requests that a connection was free for. The part of the corrected
    /// latencies that is no fault of the server.
    pub late_p99: Duration,
}

impl Client {
    /// Whether the client, not the server, was the limit.
    pub fn was_the_limit(&self) -> bool {
        self.busiest > CLIENT_BUSY_MAX
    }
}

impl Run {
    /// A run in which nothing has happened yet.
    pub fn new(setup: Setup, target: Target, test: &str, commands: &[String], nodes: &[String]) -> Self {
        let open_loop = setup.rate.is_some();
        Self {
            setup,
            target,
            test: test.to_string(),
            started_unix_ms: 0,
            elapsed: Duration::ZERO,
            commands: commands.iter().map(|name| Figures::new(name, open_loop)).collect(),
            nodes: nodes.iter().map(|name| Figures::new(name, false)).collect(),
            errors: BTreeMap::new(),
            redirected: 0,
            samples: Vec::new(),
            client: Client::default(),
            interrupted: false,
            unsent: 0,
            rate_found: None,
        }
    }

    /// The counts of all commands.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.commands.iter().for_each(|figures| total.add(&figures.total));
        total
    }

    /// Replies per second over the whole run; 0 for a run without length.
    pub fn per_second(&self) -> f64 {
        per_second(self.total().requests, self.elapsed)
    }

    /// The latencies of all commands in one histogram, corrected.
    pub fn corrected(&self) -> Histogram<u64> {
        sum(self.commands.iter().map(|figures| &figures.corrected))
    }

    /// The same, uncorrected; nothing for a closed loop.
    pub fn uncorrected(&self) -> Option<Histogram<u64>> {
        let all: Option<Vec<_>> = self.commands.iter().map(|figures| figures.uncorrected.as_ref()).collect();
        all.filter(|all| !all.is_empty()).map(|all| sum(all.into_iter()))
    }

    /// Number of seconds that have figures.
    pub fn seconds(&self) -> usize {
        self.commands.iter().map(|figures| figures.seconds.len()).max().unwrap_or(0)
    }

    /// The length of a second: 1, but for the last one of a run, which is what remains.
    pub fn width_s(&self, second: usize) -> f64 {
        (self.elapsed.as_secs_f64() - second as f64).clamp(0.001, 1.0)
    }

    /// Whether it only readied the server for those that follow.
    pub fn is_preparation(&self) -> bool {
        self.test == POPULATE
    }

    /// Whether any reply was an error or failed a check.
    pub fn failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// The server's own figures, all nodes together, between its first and last sample.
    pub fn server(&self) -> Option<ServerUse> {
        let nodes = self.samples.iter().map(|sample| sample.node).max()? + 1;
        let mut used = ServerUse::default();
        for node in 0..nodes {
            let of_node = || self.samples.iter().filter(|sample| sample.node == node);
            if let (Some(first), Some(last)) = (of_node().next(), of_node().next_back()) {
                used.add(first, last, of_node().map(|sample| sample.rss).max().unwrap_or(0));
            }
        }
        Some(used)
    }
}

impl Figures {
    /// Without any replies yet.
    pub fn new(name: &str, open_loop: bool) -> Self {
        Self {
            name: name.to_string(),
            total: Counts::default(),
            corrected: histogram(),
            uncorrected: open_loop.then(histogram),
            seconds: Vec::new(),
        }
    }
}

/// What servers used in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerUse {
    /// Processor time between first and last sample.
    pub cpu: Duration,
    /// Commands that they counted in that time.
    pub commands: u64,
    /// Length of that time.
    pub elapsed_s: f64,
    /// At the end.
    pub used_memory: u64,
    /// By how much `used_memory` and the number of keys grew.
    pub used_memory_grown: i64,
    pub keys_grown: i64,
    /// At the end.
    pub keys: u64,
    pub rss: u64,
    pub rss_max: u64,
    pub evicted: u64,
    pub expired: u64,
    pub errors: u64,
}

impl ServerUse {
    fn add(&mut self, first: &ServerSample, last: &ServerSample, rss_max: u64) {
        self.cpu += last.cpu.saturating_sub(first.cpu);
        self.commands += last.commands.saturating_sub(first.commands);
        self.elapsed_s = self.elapsed_s.max(last.at_s - first.at_s);
        self.used_memory += last.used_memory;
        self.used_memory_grown += last.used_memory.wrapping_sub(first.used_memory) as i64;
        self.keys_grown += last.keys.wrapping_sub(first.keys) as i64;
        self.keys += last.keys;
        self.rss += last.rss;
        self.rss_max += rss_max;
        self.evicted += last.evicted.saturating_sub(first.evicted);
        self.expired += last.expired.saturating_sub(first.expired);
        self.errors += last.errors.saturating_sub(first.errors);
    }

    /// Processor time of a command in microseconds; nothing where no commands were counted or the server tells no processor time.
    pub fn cpu_us_per_command(&self) -> Option<f64> {
        let known = self.commands > 0 && !self.cpu.is_zero();
        known.then(|| self.cpu.as_secs_f64() * 1e6 / self.commands as f64)
    }

    /// How many processors were busy on average.
    pub fn cpus_busy(&self) -> Option<f64> {
        (self.elapsed_s > 0.0 && !self.cpu.is_zero()).then(|| self.cpu.as_secs_f64() / self.elapsed_s)
    }

    /// `used_memory` by number of keys.
    pub fn bytes_per_entry(&self) -> Option<f64> {
        (self.keys > 0).then(|| self.used_memory as f64 / self.keys as f64)
    }
}

/// So many in such a time.
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}

fn sum<'a>(histograms: impl Iterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut all = histogram();
    histograms.for_each(|one| all.add(one).expect("all have the same bounds"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_keep_three_digits() {
        let mut latencies = histogram();
        for ns in [100, 1_000, 50_000, 1_234_567, 9_876_543_210] {
            latencies.record(ns).unwrap();
            let back = latencies.max();
            assert!(back.abs_diff(ns) <= (ns / 1000).max(64), "{ns} became {back}");
        }
        latencies.saturating_record(u64::MAX);
        assert_eq!(Percentiles::of(&histogram()), Percentiles::default());
    }

    #[test]
    fn server_use_is_a_difference_of_counters() {
        let sample = |at_s, node, cpu_ms, commands, used_memory, keys| ServerSample {
            at_s,
            node,
            cpu: Duration::from_millis(cpu_ms),
            commands,
            used_memory,
            rss: used_memory * 2,
            keys,
            ..ServerSample::default()
        };
        let mut run = Run::new(Setup::default(), Target::default(), "SET", &["SET".into()], &[]);
        assert_eq!(run.server(), None);
        run.samples = vec![
            sample(0.0, 0, 100, 1_000, 1_000, 10),
            sample(0.0, 1, 0, 0, 500, 0),
            sample(2.0, 0, 600, 501_000, 3_000, 30),
            sample(2.0, 1, 500, 500_000, 1_500, 10),
        ];
        let used = run.server().unwrap();
        assert_eq!(used.cpu_us_per_command(), Some(1.0));
        assert_eq!(used.cpus_busy(), Some(0.5));
        assert_eq!((used.used_memory, used.keys, used.keys_grown), (4_500, 40, 30));
        assert_eq!(used.bytes_per_entry(), Some(112.5));
        assert_eq!(used.rss_max, 9_000);
    }
}
