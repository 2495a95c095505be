//! Published comparisons as presets: which loads a suite consists of, and the table that its publication shows. A preset is words of a
//! command line, so that each step can be repeated by hand. What runs them is in `suite/run.rs`.

mod run;
mod topology;

use crate::output::table::Columns;
use crate::record::{Percentiles, Run};
use crate::stats::median;
use crate::units::{bytes, grouped, millis, short};

pub use run::main;
pub use topology::{Mode, files as topology_files};

/// A load of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What tables call it; nothing where the load has named tests of its own.
    pub title: Option<String>,
    /// The words that one would type behind `darter-bench` (and before further ones).
    pub words: Vec<String>,
    /// Members that a sorted set has after it, where the suite is about one.
    pub members: u64,
}

/// A column of a suite's table.
struct Column {
    heading: &'static str,
    of: fn(&Cell<'_>) -> String,
}

/// What a cell is made of.
struct Cell<'a> {
    run: &'a Run,
    /// The suite's first run against the same target.
    first: &'a Run,
    members: u64,
}

/// A suite.
pub struct Preset {
    pub name: &'static str,
    pub what: &'static str,
    steps: fn(f64, Mode) -> Vec<Step>,
    columns: &'static [Column],
}

const RPS: Column =
    Column { heading: "requests/s", of: |cell| grouped(cell.run.per_second().round() as u64) };
const P50: Column = Column { heading: "p50 ms", of: |cell| millis(places(cell).p50) };
const P99: Column = Column { heading: "p99 ms", of: |cell| millis(places(cell).p99) };
const P999: Column = Column { heading: "p99.9 ms", of: |cell| millis(places(cell).p999) };
const CPU: Column = Column {
    heading: "server us/command",
    of: |cell| {
        cell.run.server().and_then(|used| used.cpu_us_per_command()).map_or(dash(), |us| format!("{us:.2}"))
    },
};
const MEMORY: Column = Column {
    heading: "used_memory",
    of: |cell| cell.run.server().map_or(dash(), |used| bytes(used.used_memory as f64)),
};
const RSS: Column =
    Column { heading: "RSS", of: |cell| cell.run.server().map_or(dash(), |used| bytes(used.rss as f64)) };
/// Of the keys that the step added: what was there before does not count.
const PER_KEY: Column = Column {
    heading: "bytes per key",
    of: |cell| match cell.run.server() {
        Some(used) if used.keys_grown > 0 => {
            format!("{:.1}", used.used_memory_grown as f64 / used.keys_grown as f64)
        }
        _ => dash(),
    },
};
const KEYS: Column =
    Column { heading: "keys", of: |cell| cell.run.server().map_or(dash(), |used| grouped(used.keys)) };
const PER_MEMBER: Column = Column {
    heading: "bytes per member",
    of: |cell| {
        let before = cell.first.samples.first().map(|sample| sample.used_memory);
        let after = cell.run.samples.last().map(|sample| sample.used_memory);
        match (before, after) {
            (Some(before), Some(after)) if cell.members > 0 => {
                format!("{:.1}", after.saturating_sub(before) as f64 / cell.members as f64)
            }
            _ => dash(),
        }
    },
};
const MEDIAN_SECOND: Column =
    Column { heading: "median second", of: |cell| median(&rates(cell.run)).map_or(dash(), short) };
const LOWEST_SECOND: Column = Column {
    heading: "lowest second",
    of: |cell| lowest(cell.run).map_or(dash(), |(second, rate)| format!("{} (at {second} s)", short(rate))),
};
/// How deep the deepest valley is: a table that grows all at once shows here.
const VALLEY: Column = Column {
    heading: "valley",
    of: |cell| match (lowest(cell.run), median(&rates(cell.run))) {
        (Some((_, lowest)), Some(median)) if median > 0.0 => {
            format!("{:.0} % deep", 100.0 * (1.0 - lowest / median).abs())
        }
        _ => dash(),
    },
};
const WORST_P99: Column = Column {
    heading: "worst p99 ms",
    of: |cell| {
        let seconds = cell.run.commands.iter().flat_map(|figures| &figures.seconds);
        seconds.map(|second| second.corrected.p99).max().map_or(dash(), millis)
    },
};

/// All suites.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "write-read",
        what: "SETEX of 10M keys, then GET; 64 B values: rates, p99, bytes per entry",
        steps: write_read,
        columns: &[RPS, P50, P99, P999, CPU, MEMORY, PER_KEY],
    },
    Preset {
        name: "mixed",
        what: "SET:GET 1:1 for a minute while the keyspace grows: throughput over time, and how deep its valleys are",
        steps: mixed,
        columns: &[RPS, MEDIAN_SECOND, LOWEST_SECOND, VALLEY, P99, WORST_P99, KEYS],
    },
    Preset {
        name: "zadd256",
        what: "100k ZADD of 256 pairs to random keys: rates, bytes per set",
        steps: zadd256,
        columns: &[RPS, P50, P99, MEMORY, KEYS, PER_KEY],
    },
    Preset {
        name: "zset-one",
        what: "50M members into one sorted set: bytes at every 5M",
        steps: zset_one,
        columns: &[RPS, P99, MEMORY, RSS, PER_MEMBER],
    },
    Preset {
        name: "zadd-nx",
        what: "10M ZADD NX of 36 B members to 100 keys, pipeline 1000",
        steps: zadd_nx,
        columns: &[RPS, P50, P99, CPU, MEMORY],
    },
    Preset {
        name: "populate-memtier",
        what: "10M keys of 550 B, then GET and SET of 256 B",
        steps: populate_memtier,
        columns: &[RPS, P50, P99, P999, CPU, MEMORY, PER_KEY],
    },
    Preset {
        name: "topology",
        what: "set, get, incr; 256 B, 50 clients, pipeline 16; --mode cluster|replication; writes summary.txt, raw.txt, results.csv",
        steps: topology::steps,
        columns: &[RPS, P50, P99, P999, CPU],
    },
];

impl Preset {
    /// The suite of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Its loads. `scale` multiplies keys, requests and times.
    pub fn steps(&self, scale: f64, mode: Mode) -> Vec<Step> {
        (self.steps)(scale, mode)
    }

    /// The table of its runs, which are in the order of steps, each with the members of its step.
    pub fn table(&self, runs: &[(Run, u64)]) -> String {
        let headings = ["test", "target"].into_iter().chain(self.columns.iter().map(|column| column.heading));
        let mut columns = Columns::new(&headings.collect::<Vec<_>>());
        for (run, members) in runs {
            let same = |other: &&(Run, u64)| other.0.target.name == run.target.name;
            let first = runs.iter().find(same).map_or(run, |(first, _)| first);
            let cell = Cell { run, first, members: *members };
            let cells = self.columns.iter().map(|column| (column.of)(&cell));
            columns.row([run.test.clone(), run.target.name.clone()].into_iter().chain(cells).collect());
        }
        columns.text()
    }
}

fn dash() -> String {
    "-".into()
}

fn places(cell: &Cell<'_>) -> Percentiles {
    Percentiles::of(&cell.run.corrected())
}

/// Replies per second in each whole second of a run.
fn rates(run: &Run) -> Vec<f64> {
    let whole = (0..run.seconds()).filter(|second| run.width_s(*second) >= 1.0);
    let requests = |second: usize| -> u64 {
        run.commands
            .iter()
            .filter_map(|figures| figures.seconds.get(second))
            .map(|this| this.counts.requests)
            .sum()
    };
    whole.map(|second| requests(second) as f64).collect()
}

fn lowest(run: &Run) -> Option<(usize, f64)> {
    rates(run).into_iter().enumerate().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// A count at some scale, at least one.
fn scaled(full: u64, scale: f64) -> u64 {
    ((full as f64 * scale).round() as u64).max(1)
}

/// Words of a text without quotes, and one more that may have blanks.
fn step(title: &str, words: &str, command: Option<&str>) -> Step {
    let mut words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
    if let Some(command) = command {
        words.extend(["--command".to_string(), command.to_string()]);
    }
    Step { title: Some(title.to_string()), words, members: 0 }
}

fn write_read(scale: f64, _mode: Mode) -> Vec<Step> {
    let keys = scaled(10_000_000, scale);
    let words = format!("-c 50 -d 64 --key-minimum 0 --key-maximum {} -n {keys}", keys - 1);
    vec![
        step("SETEX", &format!("{words} --key-dist sequential"), Some("SETEX __key__ 86400 __data__")),
        step("GET", &words, Some("GET __key__")),
    ]
}

fn mixed(scale: f64, _mode: Mode) -> Vec<Step> {
    let seconds = scaled(60, scale);
    let keys = scaled(50_000_000, scale);
    let words =
        format!("-c 50 -P 16 -d 64 --ratio 1:1 --key-minimum 0 --key-maximum {keys} --test-time {seconds}s");
    vec![step("SET:GET 1:1", &words, None)]
}

fn zadd256(scale: f64, _mode: Mode) -> Vec<Step> {
    const PAIRS: usize = 256;
    let sets = scaled(100_000, scale);
    let command = format!("ZADD __key__{}", " __score__ __data__".repeat(PAIRS));
    let words =
        format!("-c 20 -d 16 --key-prefix zset: --key-minimum 0 --key-maximum {} -n {sets}", 10 * sets);
    vec![step("ZADD of 256 pairs", &words, Some(&command))]
}

fn zset_one(scale: f64, _mode: Mode) -> Vec<Step> {
    const STEPS: u64 = 10;
    let each = scaled(5_000_000, scale);
    let part = |place: u64| {
        let (from, to) = (place * each, (place + 1) * each);
        let words = format!(
            "-c 20 -P 50 --key-dist sequential --key-minimum {from} --key-maximum {} -n {each}",
            to - 1
        );
        let mut step = step(
            &format!("{} members", grouped(to)),
            &words,
            Some("ZADD zset-one __score__ member:__rand_int__"),
        );
        step.members = to;
        step
    };
    (0..STEPS).map(part).collect()
}

fn zadd_nx(scale: f64, _mode: Mode) -> Vec<Step> {
    let requests = scaled(10_000_000, scale);
    let words =
        format!("-c 10 -P 1000 -d 36 --key-prefix zset: --key-minimum 1 --key-maximum 100 -n {requests}");
    vec![step("ZADD NX", &words, Some("ZADD __key__ NX __score__ __data__"))]
}

fn populate_memtier(scale: f64, _mode: Mode) -> Vec<Step> {
    let keys = scaled(10_000_000, scale);
    let requests = scaled(2_000_000, scale);
    let range = format!("--key-prefix memtier- --key-minimum 1 --key-maximum {keys}");
    vec![
        step(
            "populate, 550 B",
            &format!("-c 50 -P 30 -d 550 {range} --key-dist sequential -n {keys}"),
            Some("SET __key__ __data__"),
        ),
        step("GET", &format!("-c 50 -d 256 {range} -n {requests}"), Some("GET __key__")),
        step("SET, 256 B", &format!("-c 50 -d 256 {range} -n {requests}"), Some("SET __key__ __data__")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn presets_scale_and_name_every_step() {
        for preset in PRESETS {
            for scale in [1.0, 0.001, 1e-9] {
                let steps = preset.steps(scale, Mode::Cluster);
                assert!(!steps.is_empty(), "{}", preset.name);
                for step in steps {
                    let at = step.words.iter().position(|word| word == "-n" || word == "--test-time");
                    let bound = &step.words[at.unwrap() + 1];
                    assert!(bound.trim_end_matches('s').parse::<u64>().unwrap() >= 1, "{bound}");
                }
            }
        }
        let members: Vec<u64> = zset_one(1.0, Mode::Cluster).iter().map(|step| step.members).collect();
        assert_eq!((members.len(), members[0], members[9]), (10, 5_000_000, 50_000_000));
        let words = &zset_one(1.0, Mode::Cluster)[9].words;
        assert!(words.contains(&"45000000".to_string()) && words.contains(&"49999999".to_string()));
        assert!(Preset::named("no such suite").is_none());
    }

    #[test]
    fn tables_have_the_columns_of_their_suites() {
        let mut dip = synthetic::run("a", 11, false);
        for figures in &mut dip.commands {
            figures.seconds[4].counts.requests /= 2;
        }
        let text = Preset::named("mixed").unwrap().table(&[(dip, 0)]);
        assert!(text.contains("2.00k (at 4 s)  50 % deep"), "{text}");
        let runs = [(synthetic::run("a", 3, false), 1000), (synthetic::run("b", 5, false), 1000)];
        // From 1 MiB to 1 MiB and 300 or 500 KiB.
        let text = Preset::named("zset-one").unwrap().table(&runs);
        let last: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next_back()).collect();
        assert_eq!(last[1..], ["307.2", "512.0"], "{text}");
        let text = Preset::named("zadd256").unwrap().table(&runs);
        let last: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next_back()).collect();
        assert_eq!(last[1..], ["102.4", "102.4"], "{text}");
        for preset in PRESETS {
            let mut bare = synthetic::run("a", 1, false);
            bare.samples.clear();
            assert_eq!(preset.table(&[(bare, 0)]).lines().count(), 2);
        }
    }
}
