//! Every setting, one row each, in the order of their names.
//!
//! Names, aliases, defaults and bounds are those of Valkey 9.1, with three exceptions: `save` is empty because nothing is
//! persisted yet, `syslog-ident` names Darter, and `threads`, `shards` and `io-engine` are Darter's own.

use super::own;
use super::setting::Setting;

const I32_MIN: i64 = i32::MIN as i64;
const I32_MAX: i64 = i32::MAX as i64;
const I64_MIN: i64 = i64::MIN;
const I64_MAX: i64 = i64::MAX;
/// Valkey keeps most sizes in a signed number.
const BYTES_MAX: u64 = i64::MAX as u64;

pub static SETTINGS: &[Setting] = &[
    Setting::choice("acl-pubsub-default", "resetchannels", &["allchannels", "resetchannels"]).tuning(),
    Setting::text("aclfile", "")
        .fixed()
        .promise(own::is_empty, "Darter has no access control lists yet: no file is accepted"),
    Setting::int("acllog-max-len", "128", 0, I64_MAX).tuning(),
    Setting::int("active-defrag-cycle-max", "25", 1, 99).tuning(),
    Setting::int("active-defrag-cycle-min", "1", 1, 99).tuning(),
    Setting::int("active-defrag-cycle-us", "500", 0, 100000).tuning(),
    Setting::bytes("active-defrag-ignore-bytes", "104857600", 1, BYTES_MAX).tuning(),
    Setting::int("active-defrag-max-scan-fields", "1000", 1, I64_MAX).tuning(),
    Setting::int("active-defrag-threshold-lower", "10", 0, 1000).tuning(),
    Setting::int("active-defrag-threshold-upper", "100", 0, 1000).tuning(),
    Setting::int("active-expire-effort", "1", 1, 10),
    Setting::flag("activedefrag", "no").tuning(),
    Setting::flag("activerehashing", "yes").tuning(),
    Setting::flag("always-show-logo", "no").fixed().tuning(),
    Setting::flag("aof-load-truncated", "yes").tuning(),
    Setting::text("aof-rewrite-cpulist", "").alias("aof_rewrite_cpulist").fixed().tuning(),
    Setting::flag("aof-rewrite-incremental-fsync", "yes").tuning(),
    Setting::flag("aof-timestamp-enabled", "no").tuning(),
    Setting::flag("aof-use-rdb-preamble", "yes").tuning(),
    Setting::own("appenddirname", "appendonlydir", own::journal_dir).fixed().tuning(),
    Setting::own("appendfilename", "appendonly.aof", own::journal_name).fixed().tuning(),
    Setting::choice("appendfsync", "everysec", &["everysec", "always", "no"]).tuning(),
    Setting::flag("appendonly", "no")
        .promise(own::is_no, "Darter persists nothing yet: only 'no' is accepted"),
    Setting::bytes("auto-aof-rewrite-min-size", "67108864", 0, BYTES_MAX).tuning(),
    Setting::int("auto-aof-rewrite-percentage", "100", 0, I32_MAX).tuning(),
    Setting::text("availability-zone", ""),
    Setting::text("bgsave-cpulist", "").alias("bgsave_cpulist").fixed().tuning(),
    Setting::words("bind", "* -::*", own::bind),
    Setting::text("bind-source-addr", "").tuning(),
    Setting::text("bio-cpulist", "").alias("bio_cpulist").fixed().tuning(),
    Setting::int("busy-reply-threshold", "5000", 0, I64_MAX).alias("lua-time-limit"),
    Setting::words(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        own::output_limits,
    ),
    Setting::bytes("client-query-buffer-limit", "1073741824", 1 << 20, BYTES_MAX),
    Setting::flag("cluster-allow-pubsubshard-when-down", "yes").tuning(),
    Setting::flag("cluster-allow-reads-when-down", "no").tuning(),
    Setting::flag("cluster-allow-replica-migration", "yes").tuning(),
    Setting::int("cluster-announce-bus-port", "0", 0, 65535).tuning(),
    Setting::own("cluster-announce-client-ipv4", "", own::ipv4).tuning(),
    Setting::own("cluster-announce-client-ipv6", "", own::ipv6).tuning(),
    Setting::int("cluster-announce-client-port", "0", 0, 65535).tuning(),
    Setting::int("cluster-announce-client-tls-port", "0", 0, 65535).tuning(),
    Setting::own("cluster-announce-hostname", "", own::hostname).tuning(),
    Setting::own("cluster-announce-human-nodename", "", own::node_name).tuning(),
    Setting::own("cluster-announce-ip", "", own::announced_ip).tuning(),
    Setting::int("cluster-announce-port", "0", 0, 65535).tuning(),
    Setting::int("cluster-announce-tls-port", "0", 0, 65535).tuning(),
    Setting::int("cluster-blacklist-ttl", "60", I64_MIN, I64_MAX).tuning(),
    Setting::non_empty("cluster-config-file", "nodes.conf").fixed().tuning(),
    Setting::choice("cluster-config-save-behavior", "sync", &["sync", "best-effort"]).tuning(),
    Setting::int("cluster-databases", "1", 1, I32_MAX).fixed().tuning(),
    Setting::flag("cluster-enabled", "no")
        .fixed()
        .promise(own::is_no, "Darter has no cluster mode yet: only 'no' is accepted"),
    Setting::bytes("cluster-link-sendbuf-limit", "0", 0, u64::MAX).tuning(),
    Setting::int("cluster-manual-failover-timeout", "5000", 1, I32_MAX).tuning(),
    Setting::int("cluster-migration-barrier", "1", 0, I32_MAX).tuning(),
    Setting::int("cluster-node-timeout", "15000", 0, I64_MAX).tuning(),
    Setting::int("cluster-port", "0", 0, 65535).fixed().tuning(),
    Setting::choice("cluster-preferred-endpoint-type", "ip", &["ip", "hostname", "unknown-endpoint"])
        .tuning(),
    Setting::flag("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover").tuning(),
    Setting::int("cluster-replica-validity-factor", "10", 0, I32_MAX)
        .alias("cluster-slave-validity-factor")
        .tuning(),
    Setting::flag("cluster-require-full-coverage", "yes").tuning(),
    Setting::int("cluster-slot-migration-log-max-len", "1000", 0, I64_MAX).tuning(),
    Setting::flag("cluster-slot-stats-enabled", "no").tuning(),
    Setting::int("commandlog-execution-slower-than", "10000", -1, I64_MAX).alias("slowlog-log-slower-than"),
    Setting::int("commandlog-large-reply-max-len", "128", 0, I64_MAX),
    Setting::int("commandlog-large-request-max-len", "128", 0, I64_MAX),
    Setting::int("commandlog-reply-larger-than", "1048576", -1, I64_MAX),
    Setting::int("commandlog-request-larger-than", "1048576", -1, I64_MAX),
    Setting::int("commandlog-slow-execution-max-len", "128", 0, I64_MAX).alias("slowlog-max-len"),
    Setting::flag("crash-log-enabled", "yes").tuning(),
    Setting::flag("crash-memcheck-enabled", "yes").tuning(),
    Setting::flag("daemonize", "no").fixed(),
    Setting::int("databases", "16", 1, I32_MAX).fixed(),
    Setting::own("dbfilename", "dump.rdb", own::snapshot_name).protected().tuning(),
    Setting::own("dir", "", own::directory).protected(),
    Setting::flag("disable-thp", "yes").fixed().tuning(),
    Setting::flag("dual-channel-replication-enabled", "no").tuning(),
    Setting::choice("enable-debug-command", "no", &["no", "yes", "local"]).fixed(),
    Setting::choice("enable-module-command", "no", &["no", "yes", "local"])
        .fixed()
        .promise(own::is_no, "Darter loads no modules: only 'no' is accepted"),
    Setting::choice("enable-protected-configs", "no", &["no", "yes", "local"]).fixed(),
    Setting::flag("extended-redis-compatibility", "no"),
    Setting::int("hash-max-listpack-entries", "512", 0, I64_MAX).alias("hash-max-ziplist-entries"),
    Setting::bytes("hash-max-listpack-value", "64", 0, BYTES_MAX).alias("hash-max-ziplist-value"),
    Setting::text("hash-seed", "").fixed().tuning(),
    Setting::flag("hide-user-data-from-log", "yes"),
    Setting::bytes("hll-sparse-max-bytes", "3000", 0, BYTES_MAX),
    Setting::own("hz", "10", own::hz),
    Setting::text("ignore-warnings", "").tuning(),
    Setting::flag("import-mode", "no")
        .promise(own::is_no, "Darter has no import mode yet: only 'no' is accepted"),
    Setting::choice("io-engine", "auto", &["auto", "uring", "epoll"]).fixed(),
    Setting::int("io-threads", "1", 1, 256).tuning(),
    Setting::flag("jemalloc-bg-thread", "yes").tuning(),
    Setting::int("latency-monitor-threshold", "0", 0, I64_MAX),
    Setting::flag("latency-tracking", "yes"),
    Setting::words("latency-tracking-info-percentiles", "50 99 99.9", own::percentiles),
    Setting::flag("lazyfree-lazy-eviction", "yes").tuning(),
    Setting::flag("lazyfree-lazy-expire", "yes").tuning(),
    Setting::flag("lazyfree-lazy-server-del", "yes").tuning(),
    Setting::flag("lazyfree-lazy-user-del", "yes").tuning(),
    Setting::flag("lazyfree-lazy-user-flush", "yes"),
    Setting::int("lfu-decay-time", "1", 0, I32_MAX),
    Setting::int("lfu-log-factor", "10", 0, I32_MAX),
    Setting::int("list-compress-depth", "0", 0, I32_MAX),
    Setting::int("list-max-listpack-size", "-2", I32_MIN, I32_MAX).alias("list-max-ziplist-size"),
    Setting::text("locale-collate", "")
        .promise(own::is_plain_locale, "Darter compares bytes: only \"\", C and POSIX are accepted"),
    Setting::choice("log-format", "legacy", &["legacy", "logfmt", "json"]),
    Setting::choice("log-timestamp-format", "legacy", &["legacy", "iso8601", "milliseconds"]),
    Setting::text("logfile", "").fixed(),
    Setting::choice("loglevel", "notice", &["debug", "verbose", "notice", "warning", "nothing"]),
    Setting::int("max-new-connections-per-cycle", "10", 1, 1000).tuning(),
    Setting::int("max-new-tls-connections-per-cycle", "1", 1, 1000).tuning(),
    Setting::int("maxclients", "10000", 1, 4294967295),
    Setting::bytes("maxmemory", "0", 0, u64::MAX),
    Setting::own("maxmemory-clients", "0", own::bytes_or_percent)
        .promise(own::is_zero, "Darter does not evict clients yet: only 0 is accepted"),
    Setting::int("maxmemory-eviction-tenacity", "10", 0, 100).tuning(),
    Setting::choice(
        "maxmemory-policy",
        "noeviction",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ],
    ),
    Setting::int("maxmemory-samples", "5", 1, 64),
    Setting::int("min-replicas-max-lag", "10", 0, I32_MAX).alias("min-slaves-max-lag").tuning(),
    Setting::int("min-replicas-to-write", "0", 0, I32_MAX)
        .alias("min-slaves-to-write")
        .promise(own::is_zero, "Darter does not replicate yet: only 0 is accepted"),
    Setting::flag("mptcp", "no")
        .fixed()
        .promise(own::is_no, "Darter does not use multipath TCP: only 'no' is accepted"),
    Setting::flag("no-appendfsync-on-rewrite", "no").tuning(),
    Setting::own("notify-keyspace-events", "", own::keyspace_events)
        .promise(own::is_empty, "Darter sends no keyspace events yet: only \"\" is accepted"),
    Setting::own("oom-score-adj", "no", own::oom_score_adj),
    Setting::words("oom-score-adj-values", "0 200 800", own::oom_score_values),
    Setting::text("pidfile", "").fixed(),
    Setting::int("port", "6379", 0, 65535),
    Setting::int("prefetch-batch-max-size", "16", 0, 128).tuning(),
    Setting::text("primaryauth", "").alias("masterauth").tuning(),
    Setting::text("primaryuser", "").alias("masteruser").tuning(),
    Setting::text("proc-title-template", "{title} {listen-addr} {server-mode}").tuning(),
    Setting::choice("propagation-error-behavior", "ignore", &["ignore", "panic", "panic-on-replicas"])
        .tuning(),
    Setting::flag("protected-mode", "yes"),
    Setting::bytes("proto-max-bulk-len", "536870912", 1 << 20, BYTES_MAX),
    Setting::flag("rdb-del-sync-files", "no").tuning(),
    Setting::flag("rdb-save-incremental-fsync", "yes").tuning(),
    Setting::choice("rdb-version-check", "strict", &["strict", "relaxed"]).tuning(),
    Setting::flag("rdbchecksum", "yes").fixed().tuning(),
    Setting::flag("rdbcompression", "yes").tuning(),
    Setting::own("rdma-bind", "", own::no_rdma).tuning(),
    Setting::int("rdma-completion-vector", "-1", -1, 1024).fixed().tuning(),
    Setting::int("rdma-port", "0", 0, 65535)
        .promise(own::is_zero, "Darter does not speak RDMA: only 0 is accepted"),
    Setting::int("rdma-rx-size", "1048576", 65536, 16777216).fixed().tuning(),
    Setting::own("repl-backlog-size", "10485760", own::backlog_size).tuning(),
    Setting::int("repl-backlog-ttl", "3600", 0, I64_MAX).tuning(),
    Setting::flag("repl-disable-tcp-nodelay", "no").tuning(),
    Setting::choice(
        "repl-diskless-load",
        "disabled",
        &["disabled", "on-empty-db", "swapdb", "flush-before-load"],
    )
    .tuning(),
    Setting::flag("repl-diskless-sync", "yes").tuning(),
    Setting::int("repl-diskless-sync-delay", "5", 0, I32_MAX).tuning(),
    Setting::int("repl-diskless-sync-max-replicas", "0", 0, I32_MAX).tuning(),
    Setting::flag("repl-mptcp", "no").fixed().tuning(),
    Setting::int("repl-ping-replica-period", "10", 1, I32_MAX).alias("repl-ping-slave-period").tuning(),
    Setting::int("repl-timeout", "60", 1, I32_MAX).tuning(),
    Setting::text("replica-announce-ip", "").alias("slave-announce-ip").tuning(),
    Setting::int("replica-announce-port", "0", 0, 65535).alias("slave-announce-port").tuning(),
    Setting::flag("replica-announced", "yes").tuning(),
    Setting::flag("replica-ignore-disk-write-errors", "no").tuning(),
    Setting::flag("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory").tuning(),
    Setting::flag("replica-lazy-flush", "yes").alias("slave-lazy-flush").tuning(),
    Setting::int("replica-priority", "100", 0, I32_MAX).alias("slave-priority").tuning(),
    Setting::flag("replica-read-only", "yes").alias("slave-read-only").tuning(),
    Setting::flag("replica-serve-stale-data", "yes").alias("slave-serve-stale-data").tuning(),
    Setting::words("replicaof", "", own::primary)
        .alias("slaveof")
        .fixed()
        .promise(own::is_empty, "Darter does not replicate yet: only 'no one' is accepted"),
    Setting::text("requirepass", ""),
    Setting::words("save", "", own::save_points)
        .promise(own::is_empty, "Darter persists nothing yet: only \"\" is accepted"),
    Setting::text("server-cpulist", "").alias("server_cpulist").fixed().tuning(),
    Setting::int("set-max-intset-entries", "512", 0, I64_MAX),
    Setting::int("set-max-listpack-entries", "128", 0, I64_MAX),
    Setting::int("set-max-listpack-value", "64", 0, I64_MAX),
    Setting::flag("set-proc-title", "yes").fixed().tuning(),
    Setting::own("shards", "0", own::shards).fixed(),
    Setting::words("shutdown-on-sigint", "default", own::shutdown_flags).promise(
        own::saves_nothing,
        "Darter persists nothing yet and has no replicas: save and failover are not accepted",
    ),
    Setting::words("shutdown-on-sigterm", "default", own::shutdown_flags).promise(
        own::saves_nothing,
        "Darter persists nothing yet and has no replicas: save and failover are not accepted",
    ),
    Setting::int("shutdown-timeout", "10", 0, I32_MAX),
    Setting::own("slot-migration-max-failover-repl-bytes", "0", own::bytes_or_none).tuning(),
    Setting::int("socket-mark-id", "0", 0, 4294967295)
        .fixed()
        .promise(own::is_zero, "Darter does not mark its sockets: only 0 is accepted"),
    Setting::flag("stop-writes-on-bgsave-error", "yes").tuning(),
    Setting::bytes("stream-node-max-bytes", "4096", 0, BYTES_MAX),
    Setting::int("stream-node-max-entries", "100", 0, I64_MAX),
    Setting::choice("supervised", "no", &["systemd", "auto", "no"]).fixed(),
    Setting::flag("syslog-enabled", "no")
        .fixed()
        .promise(own::is_no, "Darter does not write to syslog: only 'no' is accepted"),
    Setting::choice(
        "syslog-facility",
        "local0",
        &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"],
    )
    .fixed()
    .tuning(),
    Setting::text("syslog-ident", "darter").fixed().tuning(),
    Setting::int("tcp-backlog", "511", 0, I32_MAX).fixed(),
    Setting::int("tcp-keepalive", "300", 0, I32_MAX),
    Setting::int("threads", "0", 0, 1024).fixed(),
    Setting::int("timeout", "0", 0, I32_MAX),
    Setting::choice("tls-auth-clients", "yes", &["no", "yes", "optional"]).tuning(),
    Setting::choice("tls-auth-clients-user", "off", &["CN", "URI", "off"])
        .promise(own::is_off, "Darter does not speak TLS yet: only 'off' is accepted"),
    Setting::int("tls-auto-reload-interval", "0", 0, I32_MAX).tuning(),
    Setting::text("tls-ca-cert-dir", "").tuning(),
    Setting::text("tls-ca-cert-file", "").tuning(),
    Setting::text("tls-cert-file", "").tuning(),
    Setting::text("tls-ciphers", "").tuning(),
    Setting::text("tls-ciphersuites", "").tuning(),
    Setting::text("tls-client-cert-file", "").tuning(),
    Setting::text("tls-client-key-file", "").tuning(),
    Setting::text("tls-client-key-file-pass", "").tuning(),
    Setting::flag("tls-cluster", "no")
        .promise(own::is_no, "Darter does not speak TLS yet: only 'no' is accepted"),
    Setting::text("tls-dh-params-file", "").tuning(),
    Setting::text("tls-key-file", "").tuning(),
    Setting::text("tls-key-file-pass", "").tuning(),
    Setting::int("tls-port", "0", 0, 65535)
        .promise(own::is_zero, "Darter does not speak TLS yet: only 0 is accepted"),
    Setting::flag("tls-prefer-server-ciphers", "no").tuning(),
    Setting::text("tls-protocols", "").tuning(),
    Setting::flag("tls-replication", "no")
        .promise(own::is_no, "Darter does not speak TLS yet: only 'no' is accepted"),
    Setting::int("tls-session-cache-size", "20480", 0, I32_MAX).tuning(),
    Setting::int("tls-session-cache-timeout", "300", 0, I32_MAX).tuning(),
    Setting::flag("tls-session-caching", "yes").tuning(),
    Setting::int("tracking-table-max-keys", "1000000", 0, I64_MAX).tuning(),
    Setting::text("unixsocket", "").fixed(),
    Setting::text("unixsocketgroup", "").fixed(),
    Setting::own("unixsocketperm", "0", own::octal_mode).fixed(),
    Setting::int("zset-max-listpack-entries", "128", 0, I64_MAX).alias("zset-max-ziplist-entries"),
    Setting::bytes("zset-max-listpack-value", "64", 0, BYTES_MAX).alias("zset-max-ziplist-value"),
];
