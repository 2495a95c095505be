//! The settings that Darter obeys, as typed fields. Read from the texts after they were checked, so reading cannot fail.

use std::num::NonZeroU32;
use std::path::PathBuf;

use shard::notify::Class;
use shard::settings::Limits;

use super::own::{OutputLimit, read_output_limits};
use super::row_of;

/// One address of `bind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// `*` for all IPv4 addresses, `::*` for all of IPv6, or an address or host name.
    pub address: String,
    /// Written as `-address`: an address that this machine does not have is skipped.
    pub optional: bool,
}

/// `io-engine`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Auto,
    Uring,
    Epoll,
}

/// `loglevel`; a message is written when it is at least as urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Verbose,
    Notice,
    Warning,
    Nothing,
}

/// `log-format`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Legacy,
    Logfmt,
    Json,
}

/// `log-timestamp-format`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamp {
    Legacy,
    Iso8601,
    Milliseconds,
}

/// `supervised`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervised {
    No,
    Systemd,
    Auto,
}

/// Who may use DEBUG or change protected settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    No,
    Local,
    Yes,
}

impl Access {
    /// Whether a client may, which is `local` when it came over the loopback interface or a Unix socket.
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Local => local,
            Self::Yes => true,
        }
    }
}

/// The settings that Darter obeys; each field has the name of its setting. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    /// `acl-pubsub-default allchannels`: new users may use every channel.
    pub acl_pubsub_all_channels: bool,
    /// Empty: users come from the configuration.
    pub aclfile: PathBuf,
    pub acllog_max_len: usize,
    pub availability_zone: String,
    pub bind: Vec<Bind>,
    pub busy_reply_threshold_ms: u64,
    pub client_output_buffer_limit: [OutputLimit; 3],
    pub client_query_buffer_limit: u64,
    pub commandlog_execution_slower_than_us: Option<u64>,
    pub commandlog_slow_execution_max_len: usize,
    pub commandlog_request_larger_than: Option<u64>,
    pub commandlog_large_request_max_len: usize,
    pub commandlog_reply_larger_than: Option<u64>,
    pub commandlog_large_reply_max_len: usize,
    pub daemonize: bool,
    pub databases: u32,
    pub dir: PathBuf,
    pub enable_debug_command: Access,
    pub enable_protected_configs: Access,
    pub extended_redis_compatibility: bool,
    pub hide_user_data_from_log: bool,
    pub hz: u32,
    pub io_engine: Engine,
    pub latency_monitor_threshold_ms: u64,
    pub latency_tracking: bool,
    pub latency_tracking_info_percentiles: Vec<f64>,
    pub lazyfree_lazy_user_flush: bool,
    pub lfu_decay_time: u32,
    pub lfu_log_factor: u32,
    /// Of the data types.
    pub limits: Limits,
    pub log_format: LogFormat,
    pub log_timestamp_format: Timestamp,
    /// Empty: standard output.
    pub logfile: PathBuf,
    pub loglevel: LogLevel,
    pub maxclients: u32,
    pub maxmemory: u64,
    /// One of the eight names of Valkey.
    pub maxmemory_policy: &'static str,
    pub maxmemory_samples: u32,
    pub notify_keyspace_events: Class,
    pub oom_score_adj: OomScore,
    /// Empty: none is written unless daemonized.
    pub pidfile: PathBuf,
    pub port: u16,
    pub protected_mode: bool,
    pub proto_max_bulk_len: u64,
    /// Empty: no password.
    pub requirepass: Box<[u8]>,
    /// None: chosen by the number of threads.
    pub shards: Option<NonZeroU32>,
    pub supervised: Supervised,
    pub tcp_backlog: u32,
    /// Seconds; 0 is off.
    pub tcp_keepalive: u32,
    /// None: as many as the process may use cores.
    pub threads: Option<NonZeroU32>,
    /// Seconds without a command after which a client is closed; 0 is never.
    pub timeout: u32,
    pub tracking_table_max_keys: u64,
    /// Empty: none.
    pub unixsocket: PathBuf,
    pub unixsocketgroup: String,
    /// 0: what the process's mask gives.
    pub unixsocketperm: u32,
}

/// `oom-score-adj` with the first of `oom-score-adj-values`, that of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomScore {
    Untouched,
    /// Added to what the process was started with.
    Relative(i32),
    Absolute(i32),
}

/// The checked texts, asked by name.
struct Texts<'a>(&'a [Box<[u8]>]);

impl Texts<'_> {
    fn bytes(&self, name: &str) -> &[u8] {
        &self.0[row_of(name)]
    }

    fn string(&self, name: &str) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(super::os_str(self.bytes(name)))
    }

    fn flag(&self, name: &str) -> bool {
        self.bytes(name) == b"yes"
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> T {
        let text = std::str::from_utf8(self.bytes(name)).ok();
        text.and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("the bounds of '{name}' fit its field"))
    }

    /// A threshold where -1 means never.
    fn threshold(&self, name: &str) -> Option<u64> {
        u64::try_from(self.number::<i64>(name)).ok()
    }

    /// The field that belongs to a word of a choice.
    fn choice<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> T {
        let text = self.bytes(name);
        let found = known.iter().find(|(word, _)| word.as_bytes() == text);
        found.unwrap_or_else(|| panic!("every word of '{name}' has a meaning")).1
    }
}

const ACCESS: [(&str, Access); 3] = [("no", Access::No), ("local", Access::Local), ("yes", Access::Yes)];

/// What TCP listeners are opened by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSettings {
    pub port: u16,
    pub bind: Vec<Bind>,
    pub backlog: u32,
}

impl Fields {
    pub fn listen_settings(&self) -> ListenSettings {
        ListenSettings { port: self.port, bind: self.bind.clone(), backlog: self.tcp_backlog }
    }

    pub(super) fn read(texts: &[Box<[u8]>]) -> Self {
        let of = Texts(texts);
        Self {
            acl_pubsub_all_channels: of.bytes("acl-pubsub-default") == b"allchannels",
            aclfile: of.path("aclfile"),
            acllog_max_len: of.number("acllog-max-len"),
            availability_zone: of.string("availability-zone"),
            bind: binds(of.bytes("bind")),
            busy_reply_threshold_ms: of.number("busy-reply-threshold"),
            client_output_buffer_limit: read_output_limits(of.bytes("client-output-buffer-limit")),
            client_query_buffer_limit: of.number("client-query-buffer-limit"),
            commandlog_execution_slower_than_us: of.threshold("commandlog-execution-slower-than"),
            commandlog_slow_execution_max_len: of.number("commandlog-slow-execution-max-len"),
            commandlog_request_larger_than: of.threshold("commandlog-request-larger-than"),
            commandlog_large_request_max_len: of.number("commandlog-large-request-max-len"),
            commandlog_reply_larger_than: of.threshold("commandlog-reply-larger-than"),
            commandlog_large_reply_max_len: of.number("commandlog-large-reply-max-len"),
            daemonize: of.flag("daemonize"),
            databases: of.number("databases"),
            dir: of.path("dir"),
            enable_debug_command: of.choice("enable-debug-command", &ACCESS),
            enable_protected_configs: of.choice("enable-protected-configs", &ACCESS),
            extended_redis_compatibility: of.flag("extended-redis-compatibility"),
            hide_user_data_from_log: of.flag("hide-user-data-from-log"),
            hz: of.number("hz"),
            io_engine: of.choice(
                "io-engine",
                &[("auto", Engine::Auto), ("uring", Engine::Uring), ("epoll", Engine::Epoll)],
            ),
            latency_monitor_threshold_ms: of.number("latency-monitor-threshold"),
            latency_tracking: of.flag("latency-tracking"),
            latency_tracking_info_percentiles: numbers(of.bytes("latency-tracking-info-percentiles")),
            lazyfree_lazy_user_flush: of.flag("lazyfree-lazy-user-flush"),
            lfu_decay_time: of.number("lfu-decay-time"),
            lfu_log_factor: of.number("lfu-log-factor"),
            limits: limits(&of),
            log_format: of.choice(
                "log-format",
                &[("legacy", LogFormat::Legacy), ("logfmt", LogFormat::Logfmt), ("json", LogFormat::Json)],
            ),
            log_timestamp_format: of.choice("log-timestamp-format", &TIMESTAMPS),
            logfile: of.path("logfile"),
            loglevel: of.choice("loglevel", &LEVELS),
            maxclients: of.number("maxclients"),
            maxmemory: of.number("maxmemory"),
            maxmemory_policy: of.choice("maxmemory-policy", &POLICIES),
            maxmemory_samples: of.number("maxmemory-samples"),
            notify_keyspace_events: Class::parse(of.bytes("notify-keyspace-events"))
                .expect("the setting was checked"),
            oom_score_adj: oom_score(&of),
            pidfile: of.path("pidfile"),
            port: of.number("port"),
            protected_mode: of.flag("protected-mode"),
            proto_max_bulk_len: of.number("proto-max-bulk-len"),
            requirepass: of.bytes("requirepass").into(),
            shards: NonZeroU32::new(of.number("shards")),
            supervised: of.choice("supervised", &SUPERVISED),
            tcp_backlog: of.number("tcp-backlog"),
            tcp_keepalive: of.number("tcp-keepalive"),
            threads: NonZeroU32::new(of.number("threads")),
            timeout: of.number("timeout"),
            tracking_table_max_keys: of.number("tracking-table-max-keys"),
            unixsocket: of.path("unixsocket"),
            unixsocketgroup: of.string("unixsocketgroup"),
            unixsocketperm: u32::from_str_radix(&of.string("unixsocketperm"), 8)
                .expect("the setting was checked to be octal"),
        }
    }
}

const TIMESTAMPS: [(&str, Timestamp); 3] = [
    ("legacy", Timestamp::Legacy),
    ("iso8601", Timestamp::Iso8601),
    ("milliseconds", Timestamp::Milliseconds),
];

const LEVELS: [(&str, LogLevel); 5] = [
    ("debug", LogLevel::Debug),
    ("verbose", LogLevel::Verbose),
    ("notice", LogLevel::Notice),
    ("warning", LogLevel::Warning),
    ("nothing", LogLevel::Nothing),
];

/// The names again, for a field that can be copied and compared without looking at its bytes.
const POLICIES: [(&str, &str); 8] = [
    ("volatile-lru", "volatile-lru"),
    ("volatile-lfu", "volatile-lfu"),
    ("volatile-random", "volatile-random"),
    ("volatile-ttl", "volatile-ttl"),
    ("allkeys-lru", "allkeys-lru"),
    ("allkeys-lfu", "allkeys-lfu"),
    ("allkeys-random", "allkeys-random"),
    ("noeviction", "noeviction"),
];

const SUPERVISED: [(&str, Supervised); 3] =
    [("no", Supervised::No), ("systemd", Supervised::Systemd), ("auto", Supervised::Auto)];

fn binds(text: &[u8]) -> Vec<Bind> {
    let words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let address = word.strip_prefix(b"-").unwrap_or(word);
            Bind {
                address: String::from_utf8_lossy(address).into_owned(),
                optional: address.len() < word.len(),
            }
        })
        .collect()
}

fn numbers(text: &[u8]) -> Vec<f64> {
    text.split(|&byte| byte == b' ').filter_map(stdx::num::parse_f64).collect()
}

/// The settings by which values are packed.
fn limits(of: &Texts<'_>) -> Limits {
    Limits {
        hash_max_listpack_entries: of.number("hash-max-listpack-entries"),
        hash_max_listpack_value: of.number("hash-max-listpack-value"),
        list_max_listpack_size: of.number("list-max-listpack-size"),
        list_compress_depth: of.number("list-compress-depth"),
        set_max_intset_entries: of.number("set-max-intset-entries"),
        set_max_listpack_entries: of.number("set-max-listpack-entries"),
        set_max_listpack_value: of.number("set-max-listpack-value"),
        zset_max_listpack_entries: of.number("zset-max-listpack-entries"),
        zset_max_listpack_value: of.number("zset-max-listpack-value"),
        hll_sparse_max_bytes: of.number("hll-sparse-max-bytes"),
        stream_node_max_bytes: of.number("stream-node-max-bytes"),
        stream_node_max_entries: of.number("stream-node-max-entries"),
    }
}

fn oom_score(of: &Texts<'_>) -> OomScore {
    let values = of.string("oom-score-adj-values");
    let first = values.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    match of.bytes("oom-score-adj") {
        b"yes" => OomScore::Relative(first),
        b"absolute" => OomScore::Absolute(first),
        _ => OomScore::Untouched,
    }
}
