//! Tests of the whole configuration. Error texts and forms of values were looked up in Valkey 9.1.2.

use std::ffi::OsString;
use std::path::PathBuf;

use super::*;

fn arguments(words: &[&str]) -> Arguments {
    Arguments::parse(words.iter().map(OsString::from))
}

fn load_words(words: &[&str]) -> Result<Loaded, LoadError> {
    load(&arguments(words), &mut std::io::empty())
}

/// A configuration given on the standard input.
fn load_text(text: &str) -> Result<Loaded, LoadError> {
    load(&arguments(&["-"]), &mut text.as_bytes())
}

fn value(config: &Config, name: &str) -> String {
    String::from_utf8_lossy(config.text(name).expect("a known name")).into_owned()
}

fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<Config, String> {
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
    config.set(&pairs, false).map_err(|error| error.reply().text().to_owned())
}

/// A directory of this test's own, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("darter-config-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_table_is_in_order_and_its_defaults_are_values() {
    assert!(SETTINGS.is_sorted_by_key(|row| row.name));
    for row in SETTINGS {
        for name in [row.name, row.alias] {
            let rows = SETTINGS.iter().filter(|other| !name.is_empty() && other.is_named(name.as_bytes()));
            assert_eq!(rows.count(), usize::from(!name.is_empty()), "{name} names one row");
        }
        if row.name == "dir" {
            continue;
        }
        let parsed = row.parse(&[row.default.as_bytes()], row.default.as_bytes());
        assert_eq!(parsed.as_deref(), Ok(row.default.as_bytes()), "{}", row.name);
    }
    let config = Config::default();
    assert_eq!((config.port, config.databases, config.maxclients), (6379, 16, 10_000));
    assert_eq!(config.client_output_buffer_limit[2].soft_seconds, 60);
    assert_eq!(config.latency_tracking_info_percentiles, [50.0, 99.0, 99.9]);
    assert_eq!(config.commandlog_execution_slower_than_us, Some(10_000));
}

#[test]
fn arguments_are_a_file_then_directives() {
    let parsed = arguments(&["a.conf", "-", "--port", "7", "--bind", "127.0.0.1", "::1", "--save"]);
    assert_eq!(parsed.file, Some(PathBuf::from("a.conf")));
    assert!(parsed.reads_stdin);
    let words: Vec<Vec<String>> = parsed
        .directives
        .iter()
        .map(|words| words.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect())
        .collect();
    assert_eq!(words, [vec!["port", "7"], vec!["bind", "127.0.0.1", "::1"], vec!["save", ""]]);
    assert!(arguments(&["--port", "7", "-"]).reads_stdin);
    assert_eq!(arguments(&["--version"]).action, Action::Version);
    assert_eq!(arguments(&["-v"]).action, Action::Version);
    assert_eq!(arguments(&["--help"]).action, Action::Help);
    assert_eq!(arguments(&["-h"]).action, Action::Help);
    assert_eq!(arguments(&[]).file, None);
}

#[test]
fn later_sources_win() {
    let dir = Scratch::new("sources");
    dir.file("inc/a.conf", "timeout 2\nmaxmemory 1gb\n");
    dir.file("inc/b.conf", "timeout 3\n");
    let include = format!("include {}/inc/*.conf\n", dir.0.display());
    let file = dir.file("main.conf", &format!("# comment\n\nport 1000\n  Timeout \"1\"\n{include}"));
    let mut stdin = b"port 2000\nhz 20\n".as_slice();
    let loaded = load(&arguments(&[&file, "-", "--hz", "30"]), &mut stdin).unwrap();
    assert_eq!((loaded.config.port, loaded.config.timeout, loaded.config.hz), (2000, 3, 30));
    assert_eq!(loaded.config.maxmemory, 1 << 30);
    assert_eq!(loaded.config.file, Some(PathBuf::from(&file)));
    assert!(loaded.notes.is_empty());
}

#[test]
fn tuning_is_accepted_with_a_note() {
    let loaded = load_text("io-threads 4\nactiverehashing no\nport 1\nIO-THREADS 5\n").unwrap();
    assert_eq!(
        loaded.notes,
        [
            "'activerehashing' (line 2) tunes Valkey's internals: accepted, without effect here",
            "'io-threads' (line 4) tunes Valkey's internals: accepted, without effect here",
        ]
    );
    assert_eq!(value(&loaded.config, "io-threads"), "5");
}

#[test]
fn a_bad_line_is_named_with_its_file_and_reason() {
    let dir = Scratch::new("bad");
    let file = dir.file("bad.conf", "port 1\n\nfoo bar\n");
    let error = load_words(&[&file]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "\n*** FATAL CONFIG FILE ERROR (Darter {}) ***\nReading the configuration file '{file}', at line \
             3\n>>> 'foo bar'\nBad directive or wrong number of arguments",
            env!("CARGO_PKG_VERSION")
        )
    );
    let nested = dir.file("nested.conf", &format!("include {file}\n"));
    let error = load_words(&[&nested]).unwrap_err();
    assert_eq!(error.place, format!("Reading the configuration file '{file}', at line 3"));
    let endless = dir.file("endless.conf", &format!("include {}/endless.conf\n", dir.0.display()));
    assert_eq!(load_words(&[&endless]).unwrap_err().reason, "Too many nested includes");
    let missing = load_words(&["/nonexistent/x.conf"]).unwrap_err();
    assert_eq!(missing.place, "Can't open config file '/nonexistent/x.conf'");
    assert_eq!(missing.reason, "No such file or directory");
    let error = load_words(&["--port", "abc"]).unwrap_err();
    assert_eq!(error.place, "Reading the command line");
    assert_eq!(error.line, "port \"abc\"");
    assert_eq!(error.reason, "argument couldn't be parsed into an integer");
}

#[test]
fn bad_lines_have_the_reasons_of_valkey() {
    for (line, reason) in [
        ("port", "wrong number of arguments"),
        ("port 1 2", "wrong number of arguments"),
        ("port 70000", "argument must be between 0 and 65535 inclusive"),
        ("port +1", "argument couldn't be parsed into an integer"),
        ("maxmemory \"12", "Unbalanced quotes in configuration line"),
        ("maxmemory 1xb", "argument must be a memory value"),
        ("maxmemory 99999999999gb", "argument must be a memory value"),
        ("protected-mode maybe", "argument must be 'yes' or 'no'"),
        (
            "loglevel chatty",
            "argument(s) must be one of the following: debug, verbose, notice, warning, nothing",
        ),
        ("unixsocketperm 999", "argument couldn't be parsed as an octal number"),
        ("dir /nonexistent", "No such file or directory"),
        ("dbfilename a/b", "dbfilename can't be a path, just a filename"),
        ("appendfilename \"\"", "appendfilename can't be empty"),
        ("replicaof a", "wrong number of arguments"),
        ("replicaof a x", "Invalid primary port"),
        ("client-output-buffer-limit normal 1 2", "Wrong number of arguments in buffer limit configuration."),
        (
            "client-output-buffer-limit foo 1 2 3",
            "Invalid client class specified in buffer limit configuration.",
        ),
        (
            "client-output-buffer-limit normal 1 2 x",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ),
        ("shards 3", "argument must be a power of two, or 0 to choose by the number of threads"),
        ("save 1", "Invalid save parameters"),
    ] {
        assert_eq!(load_text(line).map(|_| ()).unwrap_err().reason, reason, "{line}");
    }
}

/// What a setting promises is refused unless Darter keeps it.
#[test]
fn promises_refuse_to_start() {
    for line in [
        "appendonly yes",
        "tls-port 6380",
        "tls-replication yes",
        "cluster-enabled yes",
        "replicaof 10.0.0.1 6379",
        "slaveof 10.0.0.1 6379",
        "save 3600 1",
        "save 3600 1 300 100",
        "min-replicas-to-write 1",
        "min-slaves-to-write 1",
        "maxmemory-clients 10%",
        "enable-module-command yes",
        "syslog-enabled yes",
        "shutdown-on-sigterm save",
        "locale-collate de_DE",
        "loadmodule search.so",
        "rename-command FLUSHALL \"\"",
    ] {
        let reason = load_text(line).map(|_| ()).unwrap_err().reason;
        assert!(reason.starts_with("Darter "), "{line}: {reason}");
    }
    for line in [
        "appendonly no",
        "aclfile \"\"",
        "tls-port 0",
        "cluster-enabled no",
        "replicaof no one",
        "save \"\"",
        "min-replicas-to-write 0",
        "notify-keyspace-events \"\"",
        "shutdown-on-sigterm nosave now",
    ] {
        assert!(load_text(line).is_ok(), "{line}");
    }
}

/// Settings of several words between one pair of quotes, as a shell or a template writes them, were refused.
#[test]
fn several_words_may_come_as_one() {
    for (name, words, shown) in [
        (
            "client-output-buffer-limit",
            "normal 1mb 2mb 3",
            "normal 1048576 2097152 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
        ("latency-tracking-info-percentiles", "50 60", "50 60"),
        ("oom-score-adj-values", "0 200 900", "0 200 900"),
        ("bind", "127.0.0.1 ::1", "127.0.0.1 ::1"),
    ] {
        for line in [format!("{name} {words}"), format!("{name} \"{words}\"")] {
            assert_eq!(value(&load_text(&line).unwrap().config, name), shown, "{line}");
        }
    }
    let reason = load_text("save \"900 1\"").map(|_| ()).unwrap_err().reason;
    assert!(reason.starts_with("Darter persists nothing yet"), "{reason}");
}

#[test]
fn values_are_shown_as_valkey_shows_them() {
    let config = Config::default();
    for (name, given, shown) in [
        ("maxmemory", "1k", "1000"),
        ("maxmemory", "1KB", "1024"),
        ("maxmemory", "1gb", "1073741824"),
        ("maxmemory", "", "0"),
        ("maxmemory", "k", "0"),
        ("maxmemory", "01", "1"),
        ("protected-mode", "YES", "yes"),
        ("hz", "1000", "500"),
        ("hz", "0", "1"),
        ("repl-backlog-size", "1", "16384"),
        ("maxmemory-policy", "ALLKEYS-LFU", "allkeys-lfu"),
        ("oom-score-adj", "relative", "yes"),
        ("oom-score-adj-values", "0 200 900", "0 200 900"),
        ("shutdown-on-sigterm", "now NOSAVE", "nosave now"),
        ("shutdown-on-sigterm", "default now", "now"),
        ("latency-tracking-info-percentiles", "99.99 12.345", "99.99 12.345"),
        ("latency-tracking-info-percentiles", "100", "100"),
        ("latency-tracking-info-percentiles", "", ""),
        (
            "client-output-buffer-limit",
            "normal 1mb 2mb 3 replica 5 5 5",
            "normal 1048576 2097152 3 slave 5 5 5 pubsub 33554432 8388608 60",
        ),
        (
            "client-output-buffer-limit",
            "normal 1 2 3 NORMAL 4 5 6",
            "normal 4 5 6 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
        ("slowlog-max-len", "10", "10"),
        ("save", "", ""),
    ] {
        let new = set(&config, &[(name, given)]).unwrap();
        assert_eq!(value(&new, name), shown, "{name} {given}");
    }
    for (events, shown) in [
        ("KEA", Ok("AKE")),
        ("Kg", Ok("gK")),
        ("KEg$lshzxetdmn", Ok("AnKEm")),
        ("Egn", Ok("gnE")),
        ("gxe", Ok("gxe")),
        ("", Ok("")),
        ("Q", Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")),
    ] {
        let parsed = own::keyspace_events(events.as_bytes());
        let parsed = parsed.map(|value| String::from_utf8(value).unwrap());
        assert_eq!(parsed, shown.map(str::to_owned).map_err(Reason::Borrowed), "{events}");
    }
    assert_eq!(own::bytes_or_percent(b"5%").as_deref(), Ok(b"5%".as_slice()));
    assert!(own::bytes_or_percent(b"101%").is_err() && own::bytes_or_percent(b"-5%").is_err());
}

#[test]
fn config_set_changes_all_or_nothing() {
    let config = set(&Config::default(), &[("timeout", "7"), ("MaxMemory", "1mb")]).unwrap();
    assert_eq!((config.timeout, config.maxmemory), (7, 1 << 20));
    let failed = |argument: &str, reason: &str| {
        Err(format!("ERR CONFIG SET failed (possibly related to argument '{argument}') - {reason}"))
    };
    let refused = |pairs: &[(&str, &str)]| set(&config, pairs).map(|_| ());
    assert_eq!(
        refused(&[("timeout", "8"), ("nope", "1")]),
        Err("ERR Unknown option or number of arguments for CONFIG SET - 'nope'".to_owned())
    );
    let not_a_number = "argument couldn't be parsed into an integer";
    assert_eq!(refused(&[("timeout", "8"), ("port", "x")]), failed("port", not_a_number));
    assert_eq!(
        refused(&[("timeout", "8"), ("daemonize", "yes")]),
        failed("daemonize", "can't set immutable config")
    );
    assert_eq!(refused(&[("dir", "/")]), failed("dir", "can't set protected config"));
    assert_eq!(refused(&[("timeout", "8"), ("TIMEOUT", "9")]), failed("TIMEOUT", "duplicate parameter"));
    assert_eq!(
        refused(&[("slowlog-max-len", "8"), ("commandlog-slow-execution-max-len", "9")]),
        failed("commandlog-slow-execution-max-len", "duplicate parameter")
    );
    let persists_nothing = "Darter persists nothing yet: only 'no' is accepted";
    assert_eq!(refused(&[("appendonly", "yes")]), failed("appendonly", persists_nothing));
    assert_eq!(refused(&[("save", "60  1")]), failed("save", "Invalid save parameters"));
    assert_eq!(config.timeout, 7);
    assert_eq!(value(&config.set(&[(b"dir", b"/")], true).unwrap(), "dir"), "/");
}

#[test]
fn config_get_takes_patterns_names_and_aliases() {
    let config = Config::default();
    let names = |patterns: &[&str]| -> Vec<String> {
        let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        let found = config.get(&patterns).into_iter();
        found.map(|(name, _)| String::from_utf8(name.to_vec()).unwrap()).collect()
    };
    assert_eq!(names(&["slave-read-only"]), ["slave-read-only"]);
    assert_eq!(names(&["TIMEOUT", "timeout", "nope"]), ["TIMEOUT"]);
    assert_eq!(names(&["HASH-MAX-ZIP*"]), ["hash-max-ziplist-entries", "hash-max-ziplist-value"]);
    assert_eq!(names(&["save", "?ort", "[b]ind"]), ["bind", "port", "save"]);
    assert_eq!(
        config.get(&[b"maxmem*-policy"]),
        [(b"maxmemory-policy".as_slice(), b"noeviction".as_slice())]
    );
    let all = names(&["*"]);
    assert!(
        all.is_sorted()
            && ["slave-read-only", "io-engine"].iter().all(|name| all.iter().any(|known| known == name))
    );
}

#[test]
fn rewrite_keeps_comments_and_order() {
    let dir = Scratch::new("rewrite");
    let before = "# header\nport 1000\n# about memory\nmaxmemory 100mb\n#maxmemory 5\nslave-read-only yes\n\n\
                  client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit slave 1gb 64mb \
                  60\ntimeout 5\ntimeout 6\nbind 127.0.0.1\nsave \"\"\n# trailing\n";
    let file = dir.file("main.conf", before);
    let config = load_words(&[&file, "--hash-max-listpack-value", "2kb"]).unwrap().config;
    let changes = [
        ("maxmemory", "3mb"),
        ("slave-read-only", "no"),
        ("requirepass", "a b\"c"),
        ("loglevel", "debug"),
        ("bind", ""),
    ];
    let config = set(&config, &changes).unwrap();
    config.rewrite(&[]).unwrap();
    let after = std::fs::read_to_string(&file).unwrap();
    let expected = "# header\nport 1000\n# about memory\nmaxmemory 3mb\n#maxmemory 5\nreplica-read-only no\n\n\
                    client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit replica 1gb 64mb \
                    60\nclient-output-buffer-limit pubsub 32mb 8mb 60\ntimeout 6\nbind\nsave \"\"\n# trailing\n\n\
                    # Generated by CONFIG REWRITE\nhash-max-listpack-value 2kb\nloglevel debug\n\
                    requirepass \"a b\\\"c\"\n";
    assert_eq!(after, expected);
    let again = load_words(&[&file]).unwrap().config;
    assert_eq!(again.get(&[b"*"]), config.get(&[b"*"]));
    again.rewrite(&[]).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected, "a second rewrite changes nothing");
    let beside = std::fs::read_dir(&dir.0).unwrap().count();
    assert_eq!(beside, 1, "no temporary file is left");
}

#[test]
fn rewrite_puts_users_where_users_were() {
    let dir = Scratch::new("users");
    let file = dir.file("main.conf", "# users\nuser a on nopass\nuser b off\nuser c on\ntimeout 5\n");
    let config = load_words(&[&file]).unwrap().config;
    assert_eq!(config.users.iter().map(|user| user.name.as_slice()).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    config.rewrite(&[b"user a off".to_vec(), b"user d on".to_vec()]).unwrap();
    let expected = "# users\nuser a off\nuser d on\ntimeout 5\n";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    let lines: Vec<Vec<u8>> = ["user a off", "user d on", "user e on"].map(|line| line.into()).into();
    config.rewrite(&lines).unwrap();
    let more = format!("{expected}\n# Generated by CONFIG REWRITE\nuser e on\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), more);
    for (line, reason) in [
        ("user a on nope", "Error in user declaration 'a', rule 'nope': Syntax error"),
        ("user a (+get", "Error in user declaration 'a': Unmatched parenthesis in selector definition"),
        ("user \"a b\" on", "Error in user declaration 'a b': Spaces not allowed in ACL usernames"),
        ("user", "Bad directive or wrong number of arguments"),
    ] {
        assert_eq!(load_text(line).map(|_| ()).unwrap_err().reason, reason, "{line}");
    }
}

#[test]
fn rewrite_fails_without_a_file_or_a_directory() {
    let reply = |config: &Config| config.rewrite(&[]).map_err(|error| error.to_string());
    let no_file = "ERR The server is running without a config file".to_owned();
    assert_eq!(reply(&Config::default()), Err(no_file));
    let dir = Scratch::new("gone");
    let file = dir.file("main.conf", "port 1\n");
    let config = load_words(&[&file]).unwrap().config;
    std::fs::remove_dir_all(&dir.0).unwrap();
    assert_eq!(reply(&config), Err("ERR Rewriting config file: No such file or directory".to_owned()));
}

/// Any values that are accepted survive being written and read again.
#[test]
fn random_changes_survive_a_rewrite() {
    let seed = 0x7265_7772;
    println!("seed {seed:#x}");
    let mut rng = stdx::rng::Rng::new(seed);
    let dir = Scratch::new("random");
    let file = dir.file("main.conf", "# nothing yet\nappendonly no\n");
    let mut config = load_words(&[&file]).unwrap().config;
    let words = [
        "yes",
        "no",
        "0",
        "7",
        "128mb",
        "1000",
        "a b",
        "",
        "x\"y\n\t\\",
        "debug",
        "local",
        "50 99.5",
        "\u{e4}",
    ];
    for _ in 0..400 {
        let row = rng.pick(SETTINGS).unwrap();
        let word = rng.pick(&words).unwrap();
        if let Ok(new) = set(&config, &[(row.name, word)]) {
            config = new;
        }
        if rng.one_in(20) {
            config.rewrite(&[]).unwrap();
            let again = load_words(&[&file]).unwrap().config;
            assert_eq!(again.get(&[b"*"]), config.get(&[b"*"]));
            config = again;
        }
    }
}
