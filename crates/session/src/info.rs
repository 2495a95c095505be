//! INFO: sections of `name:value` lines, with the names of Valkey 9.1 so that exporters and dashboards find them.
//!
//! Nothing here enters a shard or asks another thread: all figures are counters and gauges that threads keep, so that INFO answers
//! whatever else is going on. What Valkey counts and Darter has no such thing as (forks, jemalloc's arenas, RDMA) is left out.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use reactor::clock::{self, ticks_to_ns};
use stdx::human;

use crate::commands::connection::{COMPATIBLE_VERSION, REDIS_VERSION};
use crate::pubsub::Kind;
use crate::worker::Worker;

struct Section {
    name: &'static str,
    title: &'static str,
    /// Whether INFO without arguments shows it.
    by_default: bool,
    write: fn(&Worker, &mut Lines),
}

/// In the order in which they are shown.
const SECTIONS: &[Section] = &[
    Section { name: "server", title: "Server", by_default: true, write: server },
    Section { name: "clients", title: "Clients", by_default: true, write: clients },
    Section { name: "memory", title: "Memory", by_default: true, write: memory },
    Section { name: "persistence", title: "Persistence", by_default: true, write: persistence },
    Section { name: "stats", title: "Stats", by_default: true, write: stats },
    Section { name: "replication", title: "Replication", by_default: true, write: replication },
    Section { name: "cpu", title: "CPU", by_default: true, write: cpu },
    Section { name: "modules", title: "Modules", by_default: true, write: |_, _| {} },
    Section { name: "commandstats", title: "Commandstats", by_default: false, write: commandstats },
    Section { name: "errorstats", title: "Errorstats", by_default: true, write: errorstats },
    Section { name: "latencystats", title: "Latencystats", by_default: false, write: latencystats },
    Section { name: "cluster", title: "Cluster", by_default: true, write: cluster },
    Section {
        name: "scriptingengines",
        title: "Scripting Engines",
        by_default: false,
        write: scripting_engines,
    },
    Section { name: "keyspace", title: "Keyspace", by_default: true, write: keyspace },
    Section { name: "darter", title: "Darter", by_default: true, write: darter },
];

/// The text of the sections that `names` ask for: none is the default, `all` and `everything` are all. Unknown names ask for nothing.
pub fn text<'a>(worker: &Worker, names: impl Iterator<Item = &'a [u8]> + Clone) -> String {
    let given = |name: &str| names.clone().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let all = given("all") || given("everything");
    let default = given("default") || names.clone().next().is_none();
    let mut lines = Lines(String::with_capacity(8 << 10));
    for section in SECTIONS {
        if all || default && section.by_default || given(section.name) {
            if !lines.0.is_empty() {
                lines.0.push_str("\r\n");
            }
            write!(lines.0, "# {}\r\n", section.title).expect("a string takes any text");
            (section.write)(worker, &mut lines);
        }
    }
    lines.0
}

/// The text under construction.
struct Lines(String);

impl Lines {
    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        write!(self.0, "{name}:{value}\r\n").expect("a string takes any text");
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.put(name, bytes);
        self.put(&format!("{name}_human"), human::bytes(bytes));
    }

    fn percent(&mut self, name: &str, part: u64, whole: u64) {
        self.put(name, format_args!("{:.2}%", ratio(part, whole) * 100.0));
    }

    fn ratio(&mut self, name: &str, part: u64, whole: u64) {
        self.put(name, format_args!("{:.2}", ratio(part, whole)));
    }

    /// Things that do not exist here but whose names people look for.
    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.put(name, 0));
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn server(worker: &Worker, lines: &mut Lines) {
    let start = &worker.shared.start;
    let config = &worker.config;
    let uptime_s = clock::unix_ms().saturating_sub(start.unix_ms) / 1000;
    let engine = worker.shared.io_engine.get().copied().unwrap_or("none");
    let now_us = clock::unix_us();
    lines.put("redis_version", REDIS_VERSION);
    lines.put("server_name", "valkey");
    lines.put("valkey_version", COMPATIBLE_VERSION);
    lines.put("valkey_release_stage", "ga");
    lines.put("redis_git_sha1", "00000000");
    lines.put("redis_git_dirty", 0);
    lines.put("redis_build_id", env!("CARGO_PKG_VERSION"));
    lines.put("server_mode", "standalone");
    lines.put("redis_mode", "standalone");
    lines.put("os", os());
    lines.put("arch_bits", usize::BITS);
    lines.put("monotonic_clock", "POSIX clock_gettime");
    lines.put("multiplexing_api", if engine == "uring" { "io_uring" } else { engine });
    lines.put("process_id", std::process::id());
    lines.put(
        "process_supervised",
        if std::env::var_os("NOTIFY_SOCKET").is_some() { "systemd" } else { "no" },
    );
    lines.put("run_id", &start.run_id);
    lines.put("tcp_port", config.port);
    lines.put("server_time_usec", now_us);
    lines.put("uptime_in_seconds", uptime_s);
    lines.put("uptime_in_days", uptime_s / 86_400);
    lines.put("hz", config.hz);
    lines.put("configured_hz", config.hz);
    lines.put("clients_hz", config.hz);
    lines.put("lru_clock", (now_us / 1_000_000) & 0xff_ffff);
    lines.put("executable", &start.executable);
    lines.put("config_file", start.config_file.as_deref().unwrap_or(""));
    lines.put("io_threads_active", u8::from(worker.threads() > 1));
    lines.put("availability_zone", &config.availability_zone);
    let mut listeners = 0..;
    if config.port != 0 && !config.bind.is_empty() {
        let binds = config.bind.iter().map(|bind| format!("bind={}", bind.address));
        let binds = binds.collect::<Vec<_>>().join(",");
        let number = listeners.next().unwrap_or(0);
        lines.put(&format!("listener{number}"), format_args!("name=tcp,{binds},port={}", config.port));
    }
    if !config.unixsocket.as_os_str().is_empty() {
        let number = listeners.next().unwrap_or(0);
        lines.put(
            &format!("listener{number}"),
            format_args!("name=unix,bind={}", config.unixsocket.display()),
        );
    }
}

/// `Linux 6.1.0 x86_64`
fn os() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}

fn clients(worker: &Worker, lines: &mut Lines) {
    let totals = worker.shared.totals();
    let paused_ms = worker.pause.until_ms.saturating_sub(worker.now_ms);
    lines.put("connected_clients", worker.shared.connected());
    lines.put("cluster_connections", 0);
    lines.put("maxclients", worker.config.maxclients);
    lines.put("client_recent_max_input_buffer", totals.client_input_recent_max);
    lines.put("client_recent_max_output_buffer", totals.client_output_recent_max);
    lines.put("blocked_clients", totals.blocked_clients);
    lines.put("tracking_clients", worker.shared.trackers.clients.load(Ordering::Relaxed));
    lines.put("pubsub_clients", worker.shared.directory.clients());
    lines.put("watching_clients", totals.watching_clients);
    lines.put("clients_in_timeout_table", totals.clients_in_timeout_table);
    lines.put("total_watched_keys", totals.watched_keys);
    let (blocking, on_nokey) = worker.shared.published.waited_for();
    lines.put("total_blocking_keys", blocking);
    lines.put("total_blocking_keys_on_nokey", on_nokey);
    let paused = paused_ms > 0;
    lines.put("paused_reason", if paused { "client_pause" } else { "none" });
    lines.put("paused_actions", worker.pause.action(worker.now_ms));
    lines.put("paused_timeout_milliseconds", paused_ms);
}

/// Figures about memory that INFO and MEMORY STATS share, in bytes.
pub(crate) struct MemoryFigures {
    pub used: u64,
    pub peak: u64,
    pub at_start: u64,
    /// Pages, but not what entries occupy in them, and the clients' buffers.
    pub overhead: u64,
    pub clients: u64,
    /// Holes in pages.
    pub waste: u64,
    /// What the process occupies of the machine's memory.
    pub resident: u64,
}

impl MemoryFigures {
    pub fn of(worker: &Worker) -> Self {
        let used = worker.used_memory();
        let totals = worker.shared.totals();
        let at_start = worker.shared.memory_at_start;
        let clients = totals.client_bytes;
        Self {
            used,
            peak: worker.shared.memory_peak.fetch_max(used, Ordering::Relaxed).max(used),
            at_start,
            overhead: (at_start + clients + totals.waste_bytes).min(used),
            clients,
            waste: totals.waste_bytes.min(used),
            resident: resident_bytes(),
        }
    }

    pub fn dataset(&self) -> u64 {
        self.used - self.overhead
    }
}

fn memory(worker: &Worker, lines: &mut Lines) {
    let figures = MemoryFigures::of(worker);
    let total_system = total_system_bytes();
    lines.bytes("used_memory", figures.used);
    lines.bytes("used_memory_rss", figures.resident);
    lines.bytes("used_memory_peak", figures.peak);
    lines.percent("used_memory_peak_perc", figures.used, figures.peak);
    lines.put("used_memory_overhead", figures.overhead);
    lines.put("used_memory_startup", figures.at_start);
    lines.put("used_memory_dataset", figures.dataset());
    lines.percent(
        "used_memory_dataset_perc",
        figures.dataset(),
        figures.used.saturating_sub(figures.at_start),
    );
    lines.put("allocator_allocated", figures.used - figures.waste);
    lines.put("allocator_active", figures.used);
    lines.put("allocator_resident", worker.shared.arena.bytes_dirty().max(figures.used));
    lines.put("allocator_muzzy", 0);
    lines.bytes("total_system_memory", total_system);
    let scripts = worker.shared.scripts.figures();
    let machines = crate::scripts::machine_bytes();
    lines.put("used_memory_lua", machines);
    lines.put("used_memory_vm_eval", machines);
    lines.put("used_memory_lua_human", human::bytes(machines));
    lines.put("used_memory_scripts_eval", scripts.bytes);
    lines.put("number_of_cached_scripts", scripts.scripts);
    let libraries = worker.shared.functions.present();
    let (library_count, function_count) = libraries.counts();
    lines.put("number_of_functions", function_count);
    lines.put("number_of_libraries", library_count);
    lines.put("used_memory_vm_functions", 0);
    lines.put("used_memory_vm_total", machines);
    lines.put("used_memory_vm_total_human", human::bytes(machines));
    lines.put("used_memory_functions", libraries.bytes());
    lines.bytes("used_memory_scripts", scripts.bytes + libraries.bytes());
    lines.bytes("maxmemory", worker.config.maxmemory);
    lines.put("maxmemory_policy", worker.config.maxmemory_policy);
    lines.ratio("allocator_frag_ratio", figures.used, figures.used - figures.waste);
    lines.put("allocator_frag_bytes", figures.waste);
    let dirty = worker.shared.arena.bytes_dirty().max(figures.used);
    lines.ratio("allocator_rss_ratio", dirty, figures.used);
    lines.put("allocator_rss_bytes", dirty - figures.used);
    lines.ratio("rss_overhead_ratio", figures.resident, dirty);
    lines.put("rss_overhead_bytes", figures.resident as i64 - dirty as i64);
    lines.ratio("mem_fragmentation_ratio", figures.resident, figures.used);
    lines.put("mem_fragmentation_bytes", figures.resident as i64 - figures.used as i64);
    lines.zeros(&["mem_not_counted_for_evict", "mem_replication_backlog", "mem_total_replication_buffers"]);
    lines.zeros(&["mem_replicas_repl_buffer", "mem_clients_slaves"]);
    lines.put("mem_clients_normal", figures.clients);
    lines.zeros(&[
        "mem_cluster_links",
        "mem_cluster_slot_import",
        "mem_cluster_slot_export",
        "mem_aof_buffer",
    ]);
    lines.put("mem_allocator", "darter-arena");
    lines.zeros(&["mem_overhead_db_hashtable_rehashing", "active_defrag_running"]);
    lines.zeros(&["lazyfree_pending_objects", "lazyfreed_objects"]);
}

/// What the process occupies of the machine's memory.
fn resident_bytes() -> u64 {
    let page_bytes = rustix::param::page_size() as u64;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * page_bytes
}

fn total_system_bytes() -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc/meminfo")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn persistence(worker: &Worker, lines: &mut Lines) {
    lines.zeros(&[
        "loading",
        "async_loading",
        "current_cow_peak",
        "current_cow_size",
        "current_cow_size_age",
    ]);
    lines.put("current_fork_perc", "0.00");
    lines.zeros(&["current_save_keys_processed", "current_save_keys_total", "rdb_changes_since_last_save"]);
    lines.put("rdb_bgsave_in_progress", 0);
    lines.put("rdb_last_save_time", worker.shared.start.unix_ms / 1000);
    lines.put("rdb_last_bgsave_status", "ok");
    lines.put("rdb_last_bgsave_time_sec", -1);
    lines.put("rdb_current_bgsave_time_sec", -1);
    lines.zeros(&[
        "rdb_saves",
        "rdb_last_cow_size",
        "rdb_last_load_keys_expired",
        "rdb_last_load_keys_loaded",
    ]);
    lines.zeros(&["aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled"]);
    lines.put("aof_last_rewrite_time_sec", -1);
    lines.put("aof_current_rewrite_time_sec", -1);
    lines.put("aof_last_bgrewrite_status", "ok");
    lines.zeros(&["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    lines.put("aof_last_write_status", "ok");
    lines.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
}

fn stats(worker: &Worker, lines: &mut Lines) {
    let totals = worker.shared.totals();
    lines.put("total_connections_received", totals.connections_received);
    lines.put("total_commands_processed", totals.commands_processed);
    let (commands, input, output, turns, turn_us) = {
        let rates = worker.shared.rates();
        let (input, output) = (rates.input_kib_per_second(), rates.output_kib_per_second());
        (rates.commands_per_second(), input, output, rates.turns_per_second(), rates.turn_us())
    };
    lines.put("instantaneous_ops_per_sec", commands);
    lines.put("total_net_input_bytes", totals.net_input);
    lines.put("total_net_output_bytes", totals.net_output);
    lines.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    lines.put("instantaneous_input_kbps", format_args!("{input:.2}"));
    lines.put("instantaneous_output_kbps", format_args!("{output:.2}"));
    lines.put("instantaneous_input_repl_kbps", "0.00");
    lines.put("instantaneous_output_repl_kbps", "0.00");
    lines.put("rejected_connections", totals.connections_rejected);
    lines.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    lines.put("expired_keys", totals.expired_keys);
    lines.put("expired_fields", totals.expired_fields);
    lines.put("expired_stale_perc", "0.00");
    lines.put("expired_keys_with_volatile_items_stale_perc", "0.00");
    lines.put("expired_time_cap_reached_count", totals.expired_time_cap_reached);
    lines.put("expire_cycle_cpu_milliseconds", totals.expire_cycle_us / 1000);
    lines.put("evicted_keys", totals.evicted_keys);
    lines.zeros(&["evicted_clients"]);
    lines.put("evicted_scripts", worker.shared.scripts.figures().evicted);
    lines.put("total_eviction_exceeded_time", totals.eviction_exceeded_us / 1000);
    lines.put("current_eviction_exceeded_time", 0);
    lines.put("keyspace_hits", totals.keyspace_hits);
    lines.put("keyspace_misses", totals.keyspace_misses);
    let listened = |kind| worker.shared.directory.count(kind);
    lines.put("pubsub_channels", listened(Kind::Channel));
    lines.put("pubsub_patterns", listened(Kind::Pattern));
    lines.put("pubsubshard_channels", listened(Kind::ShardChannel));
    lines.put("latest_fork_usec", 0);
    lines.zeros(&["total_forks", "migrate_cached_sockets", "slave_expires_tracked_keys"]);
    lines.put("active_defrag_hits", totals.entries_moved);
    lines.zeros(&["active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses"]);
    let (tracked_keys, readers) = worker.shared.published.tracked();
    lines.put("tracking_total_keys", tracked_keys);
    lines.put("tracking_total_items", readers);
    lines.put("tracking_total_prefixes", worker.shared.trackers.prefixes());
    lines.put("unexpected_error_replies", totals.unexpected_error_replies);
    lines.put("total_error_replies", totals.error_replies);
    lines.put("dump_payload_sanitizations", 0);
    lines.put("total_reads_processed", totals.reads_processed);
    lines.put("total_writes_processed", totals.writes_processed);
    lines.put("client_query_buffer_limit_disconnections", totals.query_buffer_disconnections);
    lines.put("client_output_buffer_limit_disconnections", totals.output_limit_disconnections);
    lines.put("eventloop_cycles", totals.eventloop_turns);
    lines.put("eventloop_duration_sum", ticks_to_ns(totals.eventloop_ticks) / 1000);
    lines.put("eventloop_duration_cmd_sum", ticks_to_ns(totals.command_ticks) / 1000);
    lines.put("instantaneous_eventloop_cycles_per_sec", turns);
    lines.put("instantaneous_eventloop_duration_usec", turn_us);
    let [auth, command, key, channel, database] = crate::rights::log::lock(&worker.shared.acl_log).counts();
    lines.put("acl_access_denied_auth", auth);
    lines.put("acl_access_denied_cmd", command);
    lines.put("acl_access_denied_key", key);
    lines.put("acl_access_denied_channel", channel);
    lines.put("acl_access_denied_db", database);
}

fn replication(worker: &Worker, lines: &mut Lines) {
    lines.put("role", "master");
    lines.zeros(&["connected_slaves", "replicas_waiting_psync"]);
    lines.put("master_failover_state", "no-failover");
    lines.put("master_replid", &worker.shared.start.run_id);
    lines.put("master_replid2", "0".repeat(40));
    lines.put("master_repl_offset", 0);
    lines.put("second_repl_offset", -1);
    lines.put("repl_backlog_active", 0);
    let size = worker.config.text("repl-backlog-size").map(String::from_utf8_lossy);
    lines.put("repl_backlog_size", size.unwrap_or_default());
    lines.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

fn cpu(_worker: &Worker, lines: &mut Lines) {
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let process = reactor::process::cpu_time();
    let thread = reactor::process::thread_cpu_time();
    lines.put("used_cpu_sys", seconds(process.system_us));
    lines.put("used_cpu_user", seconds(process.user_us));
    lines.put("used_cpu_sys_children", "0.000000");
    lines.put("used_cpu_user_children", "0.000000");
    // Of the thread that answers: no thread is the main one.
    lines.put("used_cpu_sys_main_thread", seconds(thread.system_us));
    lines.put("used_cpu_user_main_thread", seconds(thread.user_us));
}

fn commandstats(worker: &Worker, lines: &mut Lines) {
    for entry in worker.shared.table.all() {
        let totals = worker.shared.command_totals(entry.number);
        if totals.calls + totals.rejected + totals.failed == 0 {
            continue;
        }
        let us = totals.nanoseconds / 1000;
        lines.put(
            &format!("cmdstat_{}", entry.full_name),
            format_args!(
                "calls={},usec={us},usec_per_call={:.2},rejected_calls={},failed_calls={}",
                totals.calls,
                ratio(us, totals.calls),
                totals.rejected,
                totals.failed
            ),
        );
    }
}

fn errorstats(worker: &Worker, lines: &mut Lines) {
    for (code, count) in worker.shared.error_totals() {
        // A code that a client made up must not look like a line of its own.
        let code: String = code.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        lines.put(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn latencystats(worker: &Worker, lines: &mut Lines) {
    for entry in worker.shared.table.all() {
        let Some(latencies) = worker.shared.latencies(entry.number) else { continue };
        let percentiles = worker.config.latency_tracking_info_percentiles.iter();
        let parts = percentiles.map(|percent| {
            let ns = latencies.at(*percent);
            format!("p{percent}={}.{:03}", ns / 1000, ns % 1000)
        });
        let parts = parts.collect::<Vec<_>>().join(",");
        lines.put(&format!("latency_percentiles_usec_{}", entry.full_name), parts);
    }
}

fn cluster(_worker: &Worker, lines: &mut Lines) {
    lines.put("cluster_enabled", 0);
}

/// One engine, of which each thread has a virtual machine: the memory is that of this thread's.
fn scripting_engines(_worker: &Worker, lines: &mut Lines) {
    let bytes = crate::scripts::machine_bytes();
    lines.put("engines_count", 1);
    lines.put("engines_total_used_memory", bytes);
    lines.put("engines_total_memory_overhead", 0);
    lines.put(
        "engine_0",
        format_args!("name=LUA,module=lua,abi_version=4,used_memory={bytes},memory_overhead=0"),
    );
}

fn keyspace(worker: &Worker, lines: &mut Lines) {
    let published = &worker.shared.published;
    for db in 0..published.databases() {
        let (keys, expires) = (published.keys(db), published.volatile(db));
        if keys > 0 {
            let avg_ttl = worker.shared.average_ttl_ms(db);
            let items = published.volatile_fields(db);
            lines.put(
                &format!("db{db}"),
                format_args!(
                    "keys={keys},expires={expires},avg_ttl={avg_ttl},keys_with_volatile_items={items}"
                ),
            );
        }
    }
}

/// What only Darter has.
fn darter(worker: &Worker, lines: &mut Lines) {
    let totals = worker.shared.totals();
    lines.put("darter_version", env!("CARGO_PKG_VERSION"));
    lines.put("threads", worker.threads());
    lines.put("shards", u32::from(worker.shared.layout.mask) + 1);
    lines.put("io_engine", worker.shared.io_engine.get().copied().unwrap_or("none"));
    lines.put("commands_posted", totals.commands_posted);
    lines.put("shard_hold_max_us", ticks_to_ns(totals.shard_hold_max_ticks) / 1000);
    lines.put("memory_waste", totals.waste_bytes);
    lines.put("memory_reserved", worker.shared.arena.bytes_reserved());
}
