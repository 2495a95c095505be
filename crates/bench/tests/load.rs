//! The load against a toy server: what goes out, what is counted, and what is said when it cannot be.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Habits, Toy};

#[test]
fn every_request_is_sent_and_counted_once() {
    for engine in ["uring", "epoll"] {
        let toy = Toy::start(Habits::default());
        let Ok(run) =
            toy.run(&format!("--io-engine {engine} -t set -n 5003 -c 5 -P 8 --threads 2 -r 100 -d 10-20"))
        else {
            assert_eq!(engine, "uring", "only the ring may be missing");
            continue;
        };
        assert_eq!(run.total().requests, 5003);
        assert_eq!(toy.state.commands.load(Ordering::Relaxed), 5003);
        assert_eq!(run.corrected().len(), 5003);
        assert!(run.uncorrected().is_none() && !run.failed());
        let sent: usize = toy.loads().iter().map(Vec::len).sum();
        assert_eq!(run.total().bytes_sent, sent as u64);
        assert_eq!(run.total().bytes_received, 5 * 5003);
    }
}

#[test]
fn a_seed_gives_the_same_bytes_on_every_connection() {
    let loads = |options: &str| {
        let toy = Toy::start(Habits::default());
        toy.run(&format!(
            "--ratio 1:2 -n 3001 -c 7 --key-dist zipfian --key-maximum 500 -d 5:1,50:1 {options}"
        ))
        .unwrap();
        toy.loads()
    };
    let once = loads("--seed 11 -P 3 --threads 2");
    // Without showing them: they are long.
    assert!(once == loads("--seed 11 -P 5"), "neither threads nor pipelines matter");
    assert_eq!(once.len(), 7);
    assert!(once != loads("--seed 12"));
}

#[test]
fn hits_misses_and_verified_values() {
    let toy = Toy::start(Habits::default());
    let run = toy.run("--ratio 1:1 -n 4000 --key-maximum 99 -d 1-100 --verify").unwrap();
    let total = run.total();
    assert!(!run.failed() && total.hits > total.misses && total.misses > 0);
    assert_eq!(total.hits + total.misses, run.commands[1].total.requests);
    toy.state.habits.lock().unwrap().lies = true;
    let run = toy.run("--ratio 0:1 -n 100 --key-maximum 99 -d 1-100 --verify").unwrap();
    assert!(run.failed() && run.total().errors >= 90, "{:?}", run.errors);
}

#[test]
fn large_values_come_in_many_pieces() {
    for engine in ["auto", "epoll"] {
        let toy = Toy::start(Habits::default());
        let options = "--ratio 1:1 -n 400 -c 3 -P 2 --key-maximum 9 -d 100000-300000 --verify -3";
        let run = toy.run(&format!("--io-engine {engine} {options}")).unwrap();
        assert!(!run.failed() && run.total().requests == 400, "{:?}", run.errors);
        assert!(run.total().bytes_received > 10_000_000);
    }
}

#[test]
fn errors_are_counted_by_text() {
    let toy = Toy::start(Habits { error: Some("WRONGTYPE no"), ..Habits::default() });
    let run = toy.run("-t incr -n 500 -P 7").unwrap();
    assert_eq!(run.errors.into_iter().collect::<Vec<_>>(), [("WRONGTYPE no".to_string(), 500)]);
}

#[test]
fn populating_leaves_no_key_out() {
    let toy = Toy::start(Habits::default());
    let run = toy
        .run("--ratio 0:1 -n 1000 --key-minimum 50 --key-maximum 1049 -c 6 --threads 2 --populate")
        .unwrap();
    assert_eq!(toy.state.data.lock().unwrap().len(), 1000);
    assert_eq!((run.total().hits, run.total().misses), (1000, 0));
    assert!(toy.state.data.lock().unwrap().contains_key(&b"key:50"[..]));
}

#[test]
fn an_open_loop_keeps_its_pace() {
    let toy = Toy::start(Habits::default());
    toy.state.keep_times.store(true, Ordering::Relaxed);
    let run = toy.run("--ratio 1:0 --qps 2000 --test-time 1s --warmup 200ms -c 4 --threads 2").unwrap();
    // Those of the warm-up are sent and not counted.
    assert_eq!(run.total().requests, 2000);
    assert_eq!(toy.state.commands.load(Ordering::Relaxed), 2400);
    let times = toy.state.times.lock().unwrap();
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    let span = last.duration_since(*first);
    assert!((Duration::from_millis(1_150)..Duration::from_millis(1_600)).contains(&span), "{span:?}");
}

#[test]
fn requests_bound_an_open_loop() {
    let toy = Toy::start(Habits::default());
    let run = toy.run("--ratio 1:0 --qps 5k -n 501 -c 4 --threads 2").unwrap();
    assert_eq!((run.total().requests, toy.state.commands.load(Ordering::Relaxed)), (501, 501));
}

/// The honesty test: a server that stands still for one second in ten. Someone who wanted an answer every millisecond waited for up to a
/// second a thousand times in 10,000; a generator that stamps what it sends sees a handful of slow replies.
#[test]
fn a_stall_is_not_omitted() {
    let stall = Some((Duration::from_secs(1), Duration::from_secs(2)));
    let toy = Toy::start(Habits { stall, ..Habits::default() });
    let run = toy.run("--ratio 1:0 --qps 1000 --test-time 10s -c 4").unwrap();
    let (corrected, uncorrected) = (run.corrected(), run.uncorrected().unwrap());
    let ms = |ns: u64| ns as f64 / 1e6;
    assert_eq!(corrected.len(), 10_000);
    let late = ms(corrected.value_at_quantile(0.999));
    assert!((900.0..1100.0).contains(&late), "p99.9 corrected {late} ms");
    let median_of_stall = ms(corrected.value_at_quantile(0.95));
    assert!((300.0..700.0).contains(&median_of_stall), "p95 corrected {median_of_stall} ms");
    // The stall is the server's: it is no lateness of the client.
    assert!(run.client.late_p99 < Duration::from_millis(300), "{:?}", run.client.late_p99);
    let early = ms(uncorrected.value_at_quantile(0.999));
    assert!(early < 100.0, "p99.9 uncorrected {early} ms");
}

#[test]
fn a_search_finds_where_the_bound_breaks() {
    // From the second second on nothing is answered in time.
    let stall = Some((Duration::from_millis(2_200), Duration::from_secs(30)));
    let toy = Toy::start(Habits { stall, ..Habits::default() });
    let run = toy.run("--ratio 1:0 --ramp 200:2000:10s --max-p99 500ms -c 2 --timeout 2s");
    // The server does not come back: that is a fault, whatever was found.
    assert!(run.unwrap_err().to_string().contains("does not answer"));
    let toy = Toy::start(Habits::default());
    let run = toy.run("--ratio 1:0 --ramp 200:2000:3s --max-p99 500ms -c 2").unwrap();
    assert!(run.rate_found.is_some_and(|rate| (1000.0..2100.0).contains(&rate)), "{:?}", run.rate_found);
}

#[test]
fn logging_in() {
    let toy = Toy::start(Habits { password: Some("secret"), ..Habits::default() });
    assert!(toy.run("-t ping -n 10 -a secret").is_ok());
    assert!(toy.run("-t ping -n 10 -a secret --user me -3 --dbnum 4").is_ok());
    let fault = toy.run("-t ping -n 10 -a wrong").unwrap_err().to_string();
    assert!(fault.contains("WRONGPASS") && fault.contains("--user"), "{fault}");
    let fault = toy.run("-t ping -n 10 -3").unwrap_err().to_string();
    assert!(fault.contains("NOAUTH") && fault.contains("-a"), "{fault}");
}

#[test]
fn connecting_anew_for_each_request() {
    let toy = Toy::start(Habits::default());
    assert_eq!(toy.run("-t ping_mbulk -n 50 -c 3 -k 0").unwrap().total().requests, 50);
    assert!(toy.state.streams.lock().unwrap().len() > 50);
}

#[test]
fn over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("darter-bench-{}.sock", std::process::id()));
    let toy = Toy::start_unix(&path);
    let run = toy.run(&format!("-s {} --ratio 1:1 -n 1000 --key-maximum 9 --verify", path.display()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run.unwrap().total().requests, 1000);
}

/// A server whose certificate signs itself, and that certificate in a file.
fn tls() -> (Toy, PathBuf) {
    let key = rcgen::generate_simple_self_signed(["localhost".to_string(), "127.0.0.1".to_string()]).unwrap();
    let path = std::env::temp_dir().join(format!("darter-bench-{:?}.pem", std::thread::current().id()));
    std::fs::write(&path, key.cert.pem()).unwrap();
    let private = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
    (Toy::start_tls(Arc::new(config)), path)
}

#[test]
fn over_tls() {
    let (toy, path) = tls();
    let options = "--tls --ratio 1:1 -n 500 -c 3 -P 4 --key-maximum 9 -d 1-90000 --verify";
    let run = toy.run(&format!("{options} --cacert {}", path.display()));
    let insecure = toy.run(&format!("{options} --insecure --sni other.example"));
    let other = toy.run(&format!("{options} --sni other.example --cacert {}", path.display()));
    std::fs::remove_file(&path).unwrap();
    let run = run.unwrap();
    assert!(run.total().requests == 500 && !run.failed(), "{:?}", run.errors);
    assert_eq!(insecure.unwrap().total().requests, 500);
    let fault = other.unwrap_err().to_string();
    assert!(fault.contains("certificate") && fault.contains("--sni"), "{fault}");
}

#[test]
fn what_is_due_and_never_sent_is_told() {
    let stall = Some((Duration::from_millis(200), Duration::from_millis(900)));
    let toy = Toy::start(Habits { stall, ..Habits::default() });
    let run = toy.run("--ratio 1:0 --qps 1000 --test-time 500ms -c 2").unwrap();
    assert!((200..=320).contains(&run.unsent), "{}", run.unsent);
    assert_eq!(run.unsent + run.total().requests, 500);
}

/// `[[first, last, [host, port]], ...]`.
fn slots(ranges: &[(u16, u16, u16)]) -> String {
    let mut text = format!("*{}\r\n", ranges.len());
    for (first, last, port) in ranges {
        text.push_str(&format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n"));
    }
    text
}

fn cluster() -> (Toy, Toy, Arc<Mutex<String>>) {
    let map = Arc::new(Mutex::new(String::new()));
    let habits = || Habits { slots: Some(Arc::clone(&map)), ..Habits::default() };
    let (one, two) = (Toy::start(habits()), Toy::start(habits()));
    *map.lock().unwrap() = slots(&[(0, 8191, one.port), (8192, 16_383, two.port)]);
    (one, two, map)
}

#[test]
fn keys_go_to_their_nodes() {
    for options in ["--ratio 1:0 --key-maximum 5000", "-t set -r 5000", "-t mset -r 5000"] {
        let (one, two, _map) = cluster();
        let run = one.run(&format!("--cluster -n 2000 -c 4 {options}")).unwrap();
        assert_eq!(run.total().requests, 2000);
        let nodes: Vec<(String, u64)> =
            run.nodes.iter().map(|node| (node.name.clone(), node.total.requests)).collect();
        assert_eq!(nodes[0].0, format!("127.0.0.1:{}", one.port));
        assert_eq!(nodes[0].1 + nodes[1].1, 2000);
        for (node, range) in [(&one, 0..8192), (&two, 8192..16_384)] {
            let data = node.state.data.lock().unwrap();
            let wrong = data.keys().filter(|key| !range.contains(&stdx::slot::slot_of(key))).count();
            assert_eq!(wrong, 0, "{options}");
        }
    }
}

#[test]
fn populating_a_cluster() {
    let (one, two, _map) = cluster();
    one.run("--cluster --ratio 0:1 -n 100 -c 4 --key-maximum 999 --populate").unwrap();
    let count = |toy: &Toy| toy.state.data.lock().unwrap().len();
    assert_eq!(count(&one) + count(&two), 1000);
    assert!(count(&one) > 300 && count(&two) > 300);
}

#[test]
fn moved_slots_are_followed() {
    let (one, two, map) = cluster();
    one.state.habits.lock().unwrap().error = Some("MOVED 5 127.0.0.1:1");
    *map.lock().unwrap() = slots(&[(0, 8191, one.port), (8192, 16_383, two.port)]);
    let plan = one.plan("--cluster --ratio 1:0 --test-time 2s -c 2 --key-maximum 5000");
    // All slots have gone to the second node by the time the map is read again.
    let everything = slots(&[(0, 16_383, two.port)]);
    let later = Arc::clone(&map);
    let watcher = std::thread::spawn({
        let state = Arc::clone(&one.state);
        move || {
            while state.commands.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            *later.lock().unwrap() = everything;
        }
    });
    let interrupted = std::sync::atomic::AtomicBool::new(false);
    let runs = bench::app::run_all(&plan, &mut bench::watch::Nobody, &interrupted, |_| {}).unwrap();
    watcher.join().unwrap();
    let run = &runs[0];
    assert!(run.redirected > 0 && run.errors.is_empty() && !run.failed(), "{:?}", run.errors);
    assert_eq!(run.nodes[0].total.requests, 0, "what is redirected is no figure of the node");
    let data = two.state.data.lock().unwrap();
    assert!(data.keys().any(|key| stdx::slot::slot_of(key) < 8192), "its new slots are used");
}

#[test]
fn redirected_requests_are_made_up_for() {
    let (one, two, map) = cluster();
    one.state.habits.lock().unwrap().error = Some("MOVED 5 127.0.0.1:1");
    let everything = slots(&[(0, 16_383, two.port)]);
    let plan = one.plan("--cluster --ratio 1:0 -n 20000 -c 2 --key-maximum 5000");
    let later = Arc::clone(&map);
    let watcher = std::thread::spawn({
        let state = Arc::clone(&one.state);
        move || {
            while state.commands.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            *later.lock().unwrap() = everything;
        }
    });
    let interrupted = std::sync::atomic::AtomicBool::new(false);
    let runs = bench::app::run_all(&plan, &mut bench::watch::Nobody, &interrupted, |_| {}).unwrap();
    watcher.join().unwrap();
    // The last ones may find every connection done.
    assert!((19_990..=20_000).contains(&runs[0].total().requests), "{}", runs[0].total().requests);
    assert!(runs[0].redirected > 0 && !runs[0].failed());
}

#[test]
fn reads_go_to_the_replicas_of_a_primary() {
    let (first, second) = (Toy::start(Habits::default()), Toy::start(Habits::default()));
    let primary = Toy::start(Habits { replicas: vec![first.port, second.port], ..Habits::default() });
    let run = primary.run("--ratio 1:3 -n 4000 -c 8 --read-from-replicas yes").unwrap();
    assert_eq!((run.total().requests, run.nodes.len()), (4000, 3));
    let sent = |toy: &Toy, name: &[u8]| toy.loads().concat().windows(3).filter(|word| *word == name).count();
    assert!(sent(&primary, b"SET") > 0 && sent(&primary, b"GET") == 0);
    for replica in [&first, &second] {
        assert!(sent(replica, b"GET") > 0 && sent(replica, b"SET") == 0);
    }
    let alone = Toy::start(Habits::default());
    let run = alone.run("-t get -n 100 -c 2 --read-from-replicas if-any").unwrap();
    assert_eq!((run.total().requests, run.nodes.len()), (100, 0));
}

#[test]
fn an_interruption_shows_what_was_measured() {
    let toy = Toy::start(Habits::default());
    let plan = toy.plan("--ratio 1:1 --qps 1000 --test-time 1h");
    let interrupted = std::sync::atomic::AtomicBool::new(false);
    let runs = std::thread::scope(|scope| {
        let runs =
            scope.spawn(|| bench::app::run_all(&plan, &mut bench::watch::Nobody, &interrupted, |_| {}));
        while toy.state.commands.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        interrupted.store(true, Ordering::Relaxed);
        runs.join().unwrap().unwrap()
    });
    assert!(runs[0].interrupted && runs[0].total().requests >= 100);
    assert_eq!(runs[0].total().requests, toy.state.commands.load(Ordering::Relaxed));
}

/// The program's answer to a command line: exit code and standard error.
fn program(toy: &Toy, options: &str) -> (Option<i32>, String) {
    let mut words: Vec<String> = vec!["-p".into(), toy.port.to_string()];
    let bytes = stdx::quote::split_args(options.as_bytes()).unwrap();
    words.extend(bytes.into_iter().map(|word| String::from_utf8(word).unwrap()));
    let output = Command::new(env!("CARGO_BIN_EXE_darter-bench")).args(words).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn exit_codes() {
    let toy = Toy::start(Habits::default());
    assert_eq!(program(&toy, "-t ping -n 100 -q").0, Some(0));
    toy.state.habits.lock().unwrap().error = Some("ERR no");
    assert_eq!(program(&toy, "-t ping -n 100 -q").0, Some(1));
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let toy = Toy::start(Habits::default());
    let cases = [
        ("--no-such-option", "--help"),
        ("-n", "--help"),
        ("--ratio 0:0", "--ratio 0:0"),
        ("--ratio x", "--ratio"),
        ("--command 'GET __kye__'", "no placeholder __kye__"),
        ("--command \"GET 'a\"", "quote"),
        ("--key-minimum 5 --key-maximum 4", "no key lies between"),
        ("-r 0", "-r 0"),
        ("-t nothing", "no test nothing"),
        ("-c 0", "at least one"),
        ("-P 0", "pipeline"),
        ("-P resp3", "--dialect"),
        ("-n 0", "-n"),
        ("-d x", "data size"),
        ("--test-time 0", "--test-time"),
        ("--ramp 1:2", "--ramp"),
        ("--qps x", "--qps"),
        ("--zipf-alpha=-1 --key-dist Z", "--zipf-alpha"),
        ("--expiry-range 9-1", "--expiry-range"),
        ("--timeout 0", "--timeout"),
        ("--user me", "-a"),
        ("--tls --cert x", "--key"),
        ("--cluster", "--cluster"),
        ("--read-from-replicas yes", "no replicas"),
        ("-u http://x", "valkey://"),
        ("--command ''", "empty"),
        ("-h no-such-host.invalid -t ping", "cannot connect"),
    ];
    for (options, wanted) in cases {
        let (code, text) = program(&toy, options);
        assert_eq!(code, Some(2), "{options}: {text}");
        assert!(text.contains(wanted) && text.trim_end().lines().count() == 1, "{options}: {text}");
    }
}

#[test]
fn servers_that_cannot_be_loaded() {
    let cases = [
        (Habits { error: Some("NOAUTH Authentication required."), ..Habits::default() }, "give a password"),
        (Habits { error: Some("LOADING is loading"), ..Habits::default() }, "wait"),
        (Habits { error: Some("MOVED 1 127.0.0.1:1"), ..Habits::default() }, "--cluster"),
        (Habits { garbage: Some("HTTP/1.1 400 Bad Request\r\n\r\n"), ..Habits::default() }, "RESP"),
        (Habits { closes_after: Some(10), ..Habits::default() }, "closed the connection"),
        (Habits { silent: true, ..Habits::default() }, "--timeout"),
    ];
    for (habits, wanted) in cases {
        let toy = Toy::start(habits);
        let (code, text) = program(&toy, "-t get -n 1000 --timeout 1s");
        assert_eq!(code, Some(2), "{wanted}: {text}");
        assert!(text.contains(wanted) && text.trim_end().lines().count() == 1, "{wanted}: {text}");
    }
}
