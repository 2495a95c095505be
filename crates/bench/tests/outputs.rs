//! What the program prints and writes, run as a person runs it, against a toy server: each form is there, parses, and agrees with the
//! others; comparisons and suites go through all of their runs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use support::{Habits, Toy};

/// A folder for the files of one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("outputs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bench(words: &str) -> Output {
    let words = words.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_darter-bench")).args(words).output().unwrap()
}

/// What was printed; the program must have succeeded.
fn printed(words: &str) -> String {
    let output = bench(words);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{words}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn one_load_in_every_form() {
    let (toy, folder) = (Toy::start(Habits::default()), Folder::new());
    let port = toy.port;
    let files = ["json", "html", "hlog"].map(|kind| format!("--{kind} {}", folder.file(kind))).join(" ");
    let csv = folder.file("csv");
    let text = printed(&format!("-p {port} -t set,get -n 2000 -c 4 -r 100 {files} --csv={csv}"));
    assert!(text.contains("latency in ms") && text.contains("SET"), "{text}");

    let json: Value = serde_json::from_str(&folder.read("json")).unwrap();
    assert_eq!(json["RUN #1 RESULTS"]["Sets"]["Count"], 2000);
    let runs = json["darter-bench"]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!((&runs[1]["test"], &runs[1]["total"]["requests"]), (&"GET".into(), &2000.into()));
    assert_eq!(runs[0]["target"]["version"], "redis 7.0.0");

    let lines: Vec<String> = folder.read("csv").lines().map(str::to_string).collect();
    assert_eq!(lines[0], "workload,mode,test,rps,p50_ms,clients,pipeline,datasize,timestamp");
    let rate = runs[0]["requests_per_s"].as_f64().unwrap();
    assert!(lines[1].contains(&format!(",standalone,SET,{rate:.2},")), "{}", lines[1]);
    assert_eq!(lines.len(), 3);

    assert!(folder.read("hlog").starts_with("#[darter-bench"));
    let html = folder.read("html");
    assert!(html.contains("<h2>SET</h2>") && html.contains("<h2>GET</h2>") && html.ends_with("</html>\n"));
}

#[test]
fn programs_find_nothing_but_what_they_asked_for() {
    let toy = Toy::start(Habits::default());
    let load = format!("-p {} -t set,get -n 500 -c 2", toy.port);
    let text = printed(&format!("{load} --csv"));
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.starts_with("workload,mode,test,rps,"), "{text}");
    let text = printed(&format!("{load} --csv --dialect valkey"));
    assert!(text.starts_with("\"test\",\"rps\",\"avg_latency_ms\","), "{text}");
    let text = printed(&format!("{load} --json -"));
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    let text = printed(&format!("{load} -q"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("SET: ") && lines[1].starts_with("GET: "), "{text}");
}

#[test]
fn pasted_command_lines_of_others_work() {
    let (toy, folder) = (Toy::start(Habits::default()), Folder::new());
    let text = printed(&format!("-p {} -t set -n 500 -c 2 -q --precision 3", toy.port));
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = printed(&format!(
        "--dialect memtier -s 127.0.0.1 -p {} -t 1 -c 2 -n 50 --ratio 1:1 --hide-histogram --print-percentiles 50,99 --run-count 2 -o {} \
         --json-out-file {}",
        toy.port,
        folder.file("out"),
        folder.file("json")
    ));
    assert_eq!(text.matches("latency in ms").count(), 2, "{text}");
    assert_eq!(folder.read("out").matches("latency in ms").count(), 2);
    let json: Value = serde_json::from_str(&folder.read("json")).unwrap();
    assert_eq!(json["RUN #2 RESULTS"]["Totals"]["Count"], 100);
}

#[test]
fn an_open_loop_says_so() {
    let (toy, folder) = (Toy::start(Habits::default()), Folder::new());
    let words = format!("-p {} --ratio 1:1 -n 300 -c 2 --qps 1000 --json {}", toy.port, folder.file("json"));
    assert!(printed(&words).contains("SET since sent"));
    let json: Value = serde_json::from_str(&folder.read("json")).unwrap();
    let run = &json["darter-bench"]["runs"][0];
    assert_eq!(run["setup"]["rate"], 1000.0);
    let total = &run["total"];
    assert!(total["latency_since_sent_ns"]["p99"].as_u64() <= total["latency_ns"]["p99"].as_u64());
}

#[test]
fn errors_show_and_fail() {
    let toy = Toy::start(Habits { error: Some("ERR <sorry>"), ..Habits::default() });
    let folder = Folder::new();
    let output = bench(&format!("-p {} -t set -n 100 -c 1 --html {}", toy.port, folder.file("html")));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("error    100 x ERR <sorry>"));
    assert!(folder.read("html").contains("100 x ERR &lt;sorry&gt;"));
    let output = bench(&format!("-p {} -t set -n 100 --json /nowhere/at/all", toy.port));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/at/all: "));
}

#[test]
fn targets_are_compared_in_turns() {
    let (one, two) = (Toy::start(Habits::default()), Toy::start(Habits::default()));
    let folder = Folder::new();
    let targets = format!("--target one=127.0.0.1:{} --target two=127.0.0.1:{}", one.port, two.port);
    let text = printed(&format!(
        "compare {targets} --rounds 3 --flush -q -t set -n 300 -c 2 --html {} --json {}",
        folder.file("html"),
        folder.file("json")
    ));
    let order: Vec<&str> = text.lines().take(6).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(order, ["one", "two", "two", "one", "one", "two"], "{text}");
    assert!(text.contains("SET, median of 3") && text.contains(" x)"), "{text}");
    assert!(folder.read("html").contains("one and two"));
    let json: Value = serde_json::from_str(&folder.read("json")).unwrap();
    assert_eq!(json["darter-bench"]["runs"].as_array().unwrap().len(), 6);
    for toy in [one, two] {
        // Three times FLUSHALL.
        assert_eq!(toy.state.commands.load(Ordering::Relaxed), 3 * 300 + 3);
    }
}

#[test]
fn every_suite_runs_at_a_tiny_scale() {
    for suite in ["write-read", "zadd256", "zset-one", "zadd-nx", "populate-memtier"] {
        let toy = Toy::start(Habits::default());
        let text = printed(&format!("suite {suite} -p {} --scale 0.00002 -q -c 2", toy.port));
        assert!(text.contains(&format!("suite {suite} at scale 0.00002")), "{text}");
        let table = text.split_once("\n\n").unwrap().1.trim();
        let steps = bench::suite::Preset::named(suite).unwrap().steps(1.0, bench::suite::Mode::Cluster).len();
        assert_eq!(table.lines().count(), steps + 1, "{text}");
    }
    let (toy, folder) = (Toy::start(Habits::default()), Folder::new());
    let text = printed(&format!("suite mixed -p {} --scale 0.01 -q", toy.port));
    assert!(text.contains("valley"), "{text}");
    let out = folder.0.display();
    printed(&format!("suite topology -p {} --scale 0.0001 -q --out {out}", toy.port));
    assert_eq!(folder.read("results.csv").lines().count(), 4);
    assert!(folder.read("results.csv").contains("topology,replication,INCR,"));
    assert!(folder.read("summary.txt").contains("requests/s"));
    assert_eq!(folder.read("raw.txt").matches("latency in ms").count(), 3);
}
