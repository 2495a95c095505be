//! The options of the load, as they stand on the command line. Their meaning where the known load generators disagree, and their defaults,
//! are in `args/dialect.rs`; what comes of all of them is a [`crate::plan::Plan`], made in `args/resolve.rs`. Options of the output are not
//! here.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub mod dialect;
mod resolve;
#[cfg(test)]
mod tests;

pub use self::dialect::Dialect;
pub use self::resolve::one_line;

const SERVER: &str = "The server";
const TLS: &str = "TLS";
const WORKLOAD: &str = "The workload";
const KEYS: &str = "Keys and values";
const LOAD: &str = "The load";

/// How keys are spread.
#[derive(Copy, Clone, PartialEq, Eq, Debug, ValueEnum)]
pub enum KeyDist {
    #[value(alias = "U", alias = "u")]
    Uniform,
    #[value(alias = "N", alias = "n")]
    Normal,
    #[value(alias = "Z", alias = "z")]
    Zipfian,
    #[value(alias = "S", alias = "s")]
    Sequential,
}

/// What values are made of.
#[derive(Copy, Clone, PartialEq, Eq, Debug, ValueEnum)]
pub enum DataKind {
    Random,
    Compressible,
    Constant,
}

/// Which event loop to use.
#[derive(Copy, Clone, PartialEq, Eq, Debug, ValueEnum)]
pub enum Engine {
    Auto,
    Uring,
    Epoll,
}

/// Which nodes serve reads.
#[derive(Copy, Clone, PartialEq, Eq, Debug, ValueEnum)]
pub enum FromReplicas {
    No,
    Yes,
    IfAny,
    All,
}

/// The options of the load. `[v]`, `[d]`, `[m]` name the programs that an option comes from: valkey-benchmark, dfly_bench,
/// memtier_benchmark.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Whose meaning and defaults the options have that the three programs disagree about: -c and -n, -P, -t, -s, --qps
    #[arg(long, value_enum, value_name = "PROGRAM", default_value = "valkey", help_heading = WORKLOAD)]
    pub dialect: Dialect,

    /// Host [v, d; m: -s, --server] [default: 127.0.0.1]
    #[arg(short = 'h', long = "host", alias = "server", value_name = "HOST", help_heading = SERVER)]
    pub host: Option<String>,
    /// Port [v, d, m]
    #[arg(short, long, value_name = "PORT", default_value_t = 6379, help_heading = SERVER)]
    pub port: u16,
    /// Unix socket [v: -s]; host [m: -s]
    #[arg(short = 's', value_name = "SOCKET|HOST", help_heading = SERVER)]
    pub socket_or_server: Option<String>,
    /// Unix socket [m]
    #[arg(short = 'S', long, value_name = "PATH", help_heading = SERVER)]
    pub unix_socket: Option<PathBuf>,
    /// valkey://[user:password@]host[:port][/db]; valkeys:// for TLS [v]
    #[arg(short = 'u', long, value_name = "URI", help_heading = SERVER)]
    pub uri: Option<String>,
    /// Password [v]; password, or USER:PASSWORD [m]
    #[arg(short = 'a', long = "password", alias = "authenticate", value_name = "PASSWORD", help_heading = SERVER)]
    pub password: Option<String>,
    /// User of the ACL [v]
    #[arg(long, value_name = "NAME", help_heading = SERVER)]
    pub user: Option<String>,
    /// Database [v; m: --select-db]
    #[arg(long, alias = "select-db", value_name = "DB", default_value_t = 0, help_heading = SERVER)]
    pub dbnum: u32,
    /// RESP3 [v; m: -P resp3]
    #[arg(short = '3', long = "resp3", help_heading = SERVER)]
    pub resp3: bool,
    /// CLIENT TRACKING ON first [v]
    #[arg(long, help_heading = SERVER)]
    pub enable_tracking: bool,
    /// The server is a node of a cluster: find the others, spread the connections evenly [v; m: --cluster-mode]
    #[arg(long, alias = "cluster-mode", help_heading = SERVER)]
    pub cluster: bool,
    /// Who serves reads, in a cluster or beside a primary with replicas [v: --rfr]
    #[arg(long, alias = "rfr", value_enum, value_name = "WHO", num_args = 0..=1, default_value = "no", default_missing_value = "yes", require_equals = false, help_heading = SERVER)]
    pub read_from_replicas: FromReplicas,
    /// How long connecting, and each reply, may take: 5, 500ms
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = SERVER)]
    pub timeout: String,
    /// Do not ask the server for INFO every second
    #[arg(long, help_heading = SERVER)]
    pub no_info: bool,

    /// Use TLS [v, m, d]
    #[arg(long, help_heading = TLS)]
    pub tls: bool,
    /// Name that the server's certificate must have [v, m]
    #[arg(long, value_name = "NAME", help_heading = TLS)]
    pub sni: Option<String>,
    /// Certificates to trust, PEM [v, m] [default: those of the system]
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub cacert: Option<PathBuf>,
    /// Folder of certificates to trust [v]
    #[arg(long, value_name = "FOLDER", help_heading = TLS)]
    pub cacertdir: Option<PathBuf>,
    /// Trust any certificate [v; m: --tls-skip-verify]
    #[arg(long, alias = "tls-skip-verify", help_heading = TLS)]
    pub insecure: bool,
    /// Certificate to show, PEM [v, m]
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub cert: Option<PathBuf>,
    /// Its private key, PEM [v, m]
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub key: Option<PathBuf>,

    /// Named tests, one run each [v: -t]; threads [m: -t]
    #[arg(short = 't', value_name = "TESTS|THREADS", help_heading = WORKLOAD)]
    pub tests_or_threads: Option<String>,
    /// Named tests, whatever the dialect: ping,set,get,incr,lpush,...,lrange,mset,xadd
    #[arg(long, value_name = "TESTS", help_heading = WORKLOAD)]
    pub tests: Option<String>,
    /// SET and GET in this proportion, by chance, in one run [d, m]
    #[arg(long, value_name = "SET:GET", help_heading = WORKLOAD)]
    pub ratio: Option<String>,
    /// A command with placeholders: __key__ __data__ __score__ __expiry__ __rand_int__ __rand_1st__ ... __rand_9th__ {tag}; may be repeated [d, m]
    #[arg(long, value_name = "COMMAND", help_heading = WORKLOAD)]
    pub command: Vec<String>,
    /// Weight of the --command before it [m]
    #[arg(long, value_name = "WEIGHT", help_heading = WORKLOAD)]
    pub command_ratio: Vec<u64>,
    /// Write this many keys first [all keys of the range]
    #[arg(long, value_name = "KEYS", num_args = 0..=1, default_missing_value = "all", help_heading = WORKLOAD)]
    pub populate: Option<String>,
    /// Check that GET returns what SET has set; values then follow from keys
    #[arg(long, help_heading = WORKLOAD)]
    pub verify: bool,
    /// The last word of the command comes from standard input [v]
    #[arg(short = 'x', help_heading = WORKLOAD)]
    pub last_from_stdin: bool,

    /// Keys 0 to N-1, also for __rand_int__ [v]
    #[arg(short = 'r', value_name = "N", help_heading = KEYS)]
    pub range: Option<u64>,
    /// Smallest key [d, m]
    #[arg(long, value_name = "N", help_heading = KEYS)]
    pub key_minimum: Option<u64>,
    /// Largest key [d, m]
    #[arg(long, value_name = "N", help_heading = KEYS)]
    pub key_maximum: Option<u64>,
    /// What stands before the number in __key__ [d, m] [default: key:, memtier-]
    #[arg(long, value_name = "TEXT", help_heading = KEYS)]
    pub key_prefix: Option<String>,
    /// How keys are drawn: also U, N, Z, S [d]
    #[arg(long, value_enum, value_name = "HOW", help_heading = KEYS)]
    pub key_dist: Option<KeyDist>,
    /// The same for SET:GET as letters: R, G, Z, S, P [m]
    #[arg(long, alias = "command-key-pattern", value_name = "R:R", help_heading = KEYS)]
    pub key_pattern: Option<String>,
    /// Exponent of the zipfian distribution [d]
    #[arg(long, value_name = "ALPHA", default_value_t = 0.99, help_heading = KEYS)]
    pub zipf_alpha: f64,
    /// Standard deviation of the normal distribution [d, m] [default: a sixth of the range]
    #[arg(long, value_name = "KEYS", help_heading = KEYS)]
    pub key_stddev: Option<f64>,
    /// Keys one after the other [v]
    #[arg(long, help_heading = KEYS)]
    pub sequential: bool,
    /// Bytes of a value: 64, 16-1024, or 64:9,4096:1 by weight [v, d; m: --data-size, --data-size-range, --data-size-list]
    #[arg(short = 'd', long, aliases = ["data-size-range", "data-size-list"], value_name = "SIZE", help_heading = KEYS)]
    pub data_size: Option<String>,
    /// What values are made of
    #[arg(long, value_enum, value_name = "KIND", help_heading = KEYS)]
    pub data: Option<DataKind>,
    /// Random values [m]
    #[arg(short = 'R', long, help_heading = KEYS)]
    pub random_data: bool,
    /// SETEX with so many seconds to live: 10-100 [m]
    #[arg(long, value_name = "MIN-MAX", help_heading = KEYS)]
    pub expiry_range: Option<String>,
    /// The same seed gives the same requests, byte for byte, on each connection [v, d]
    #[arg(long, value_name = "N", help_heading = KEYS)]
    pub seed: Option<u64>,

    /// Connections: in total [v], per thread [d, m]
    #[arg(short = 'c', long = "clients", value_name = "N", help_heading = LOAD)]
    pub clients: Option<usize>,
    /// Requests: in total [v], per connection [d, m]
    #[arg(short = 'n', long = "requests", value_name = "N", help_heading = LOAD)]
    pub requests: Option<String>,
    /// Requests in flight per connection [v]; protocol [d, m]
    #[arg(short = 'P', value_name = "N|PROTOCOL", help_heading = LOAD)]
    pub pipeline_or_protocol: Option<String>,
    /// Requests in flight per connection [d, m]
    #[arg(long, value_name = "N", help_heading = LOAD)]
    pub pipeline: Option<usize>,
    /// Threads [v; d: --proactor_threads]
    #[arg(long, alias = "proactor-threads", value_name = "N", help_heading = LOAD)]
    pub threads: Option<usize>,
    /// How long each test runs: 60, 60s, 5m [m, d; v: --duration]
    #[arg(long, alias = "duration", value_name = "TIME", help_heading = LOAD)]
    pub test_time: Option<String>,
    /// How long each test runs before it counts [v]
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = LOAD)]
    pub warmup: String,
    /// Open loop: requests per second, as 10k, whatever the replies do, latency counted from the intended moment; in total [v: --rps], per connection [d; m: --rate-limiting]; 0 for a closed loop
    #[arg(long, aliases = ["rps", "rate-limiting"], allow_hyphen_values = true, value_name = "RATE", help_heading = LOAD)]
    pub qps: Option<String>,
    /// Open loop whose rate rises: 10k:500k:60s
    #[arg(long, value_name = "FROM:TO:TIME", conflicts_with = "qps", help_heading = LOAD)]
    pub ramp: Option<String>,
    /// With --ramp: find the highest rate whose p99 stays within this: 1ms
    #[arg(long, value_name = "TIME", requires = "ramp", help_heading = LOAD)]
    pub max_p99: Option<String>,
    /// 0 connects anew for each request [v]
    #[arg(short = 'k', value_name = "0|1", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1), help_heading = LOAD)]
    pub keep_alive: u8,
    /// Event loop
    #[arg(long, value_enum, value_name = "ENGINE", default_value = "auto", help_heading = LOAD)]
    pub io_engine: Engine,

    /// Options of published command lines that change nothing here.
    #[command(flatten)]
    pub ignored: Ignored,

    /// A command, or several with ';' between them, each with an optional number of repetitions before it [v]
    #[arg(value_name = "COMMAND ARGS", trailing_var_arg = true)]
    pub words: Vec<String>,

    /// Filled in from the order of --command and --command-ratio.
    #[arg(skip)]
    pub weights: Vec<u64>,
}

/// Options that are taken and change nothing: what they ask for is so in any case.
#[derive(Clone, Debug, Default, Args)]
pub struct Ignored {
    /// Seeds of memtier's clients, which always differ here.
    #[arg(long, hide = true)]
    distinct_client_seed: bool,
    /// A seed from the clock: always, unless there is `--seed`.
    #[arg(long, hide = true)]
    randomize: bool,
    #[arg(long, hide = true)]
    show_config: bool,
    /// Always so.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    tcp_nodelay: Option<Option<bool>>,
}
