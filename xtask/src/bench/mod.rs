//! `cargo xtask bench`: Darter's release build beside valkey-server, on this machine, in one run.
//!
//! Runs of the two servers are interleaved, medians are taken over several rounds, and what counts is the server's processor time per
//! request: it is steady where requests per second are not. The outcome is printed and written to `benches/record/`.

mod bullmq;
mod freeing;
mod hashes;
mod limits;
mod lists_sets;
pub mod load;
mod machine;
mod memory;
pub mod process;
mod sessions;
mod sorted_sets;
mod speed;
mod types_stream;

use std::path::{Path, PathBuf};

use crate::fail::Result;
use crate::server::{Program, Server};
use crate::shell;
use crate::tally::Tally;

const HELP: &str = "\
cargo xtask bench [--only NAME]... [--quick] [--rounds N] [--client NAME] [--note TEXT]
  --only NAME   only this scenario (see below); may be given several times
  --quick       a twentieth of the requests and keys, one round: shows that it works, measures nothing
  --rounds N    rounds of each speed scenario (5)
  --client NAME the load generator of the speed scenarios: darter-bench, built now, or valkey-benchmark, which the records up to
                2026-11-21 were made with (darter-bench)
  --note TEXT   a sentence for the record
valkey-server (and valkey-benchmark) are taken from PATH; DARTER=path measures another build of Darter.
";

/// A scenario: its name for `--only`, what it measures, and what runs.
struct Scenario {
    name: &'static str,
    what: &'static str,
    run: fn(&Bench) -> Result<Vec<Row>>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "p1", what: "1 thread, -P 1 -c 50, server and client on one CPU", run: speed::one_cpu },
    Scenario { name: "p16", what: "1 thread, -P 16 -c 50, a CPU each", run: speed::pipeline_16 },
    Scenario { name: "p64", what: "1 thread, -P 64 -c 8, a CPU each", run: speed::pipeline_64 },
    Scenario { name: "two", what: "2 threads against --io-threads 2", run: speed::two_threads },
    Scenario {
        name: "entries",
        what: "bytes per entry, 16 B keys, 64 B values",
        run: memory::bytes_per_entry,
    },
    Scenario { name: "overwrites", what: "RSS/used_memory, loaded and overwritten", run: memory::overwrites },
    Scenario {
        name: "shards",
        what: "default shards: empty, 1M and 10M entries of 20-200 B",
        run: memory::default_shards,
    },
    Scenario { name: "load", what: "loading 20M keys, second by second", run: memory::steady_load },
    Scenario { name: "idle", what: "10,000 idle connections", run: memory::idle_connections },
    Scenario { name: "hits", what: "hit ratio under maxmemory, zipfian trace", run: limits::hit_ratios },
    Scenario {
        name: "freeing",
        what: "a sorted set of 10M members is deleted while another client writes",
        run: freeing::big_sorted_set,
    },
    Scenario {
        name: "zset-large",
        what: "one sorted set of 10M and of 50M members",
        run: sorted_sets::large,
    },
    Scenario { name: "zset-small", what: "20,000 sorted sets of 256 members", run: sorted_sets::small },
    Scenario { name: "zset-add", what: "ZADD NX to 100 sorted sets", run: sorted_sets::growing },
    Scenario { name: "zset-ask", what: "ZRANK and the like at 1M members", run: sorted_sets::questions },
    Scenario { name: "lists", what: "bytes of lists", run: lists_sets::list_memory },
    Scenario { name: "queues", what: "pushes, pops and ranges of lists", run: lists_sets::list_speed },
    Scenario { name: "sets", what: "bytes of sets", run: lists_sets::set_memory },
    Scenario {
        name: "sinter",
        what: "what two large sets have in common",
        run: lists_sets::set_intersection,
    },
    Scenario { name: "expiry", what: "keys that expire together", run: limits::expiry },
    Scenario { name: "stream", what: "a stream of 10M entries", run: types_stream::entries },
    Scenario { name: "hashes", what: "bytes per field of small and large hashes", run: hashes::memory },
    Scenario { name: "script", what: "EVALSHA of a GET+SET script, pipeline 16", run: sessions::scripts },
    Scenario { name: "bullmq", what: "jobs of BullMQ per second, from end to end", run: bullmq::jobs },
    Scenario {
        name: "publish",
        what: "PUBLISH to 100 subscribers, and to 10,000 channels with one subscriber each",
        run: sessions::publish,
    },
    Scenario { name: "tracking", what: "GET with CLIENT TRACKING on, pipeline 16", run: sessions::tracking },
    Scenario {
        name: "acl",
        what: "SET as one of 1,000 users with 10,000 rules, against no ACL, pipeline 16",
        run: sessions::rules,
    },
    Scenario {
        name: "hash-cpu",
        what: "1 thread, pipeline 256, HGET and HSET on a CPU of their own",
        run: hashes::speed,
    },
];

/// One line of the table.
pub struct Row {
    pub what: String,
    pub darter: String,
    pub valkey: String,
    /// What the goal is about: a ratio of the two, or Darter's figure.
    pub figure: f64,
    /// The figure as text.
    pub shown: String,
    pub goal: Goal,
}

/// What a figure should be.
#[derive(Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Goal {
    fn met(self, figure: f64) -> Option<bool> {
        match self {
            Self::AtMost(bound) => Some(figure <= bound),
            Self::AtLeast(bound) => Some(figure >= bound),
            Self::None => None,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {bound}"),
            Self::AtLeast(bound) => format!(">= {bound}"),
            Self::None => String::new(),
        }
    }
}

/// What every scenario gets.
pub struct Bench {
    pub darter: Program,
    pub valkey: Program,
    pub client: Client,
    /// Rounds of speed scenarios.
    pub rounds: usize,
    /// Every count of requests and keys is divided by this.
    pub divisor: u64,
}

/// The load generator of the speed scenarios. Both take the same options and print the same columns.
pub enum Client {
    DarterBench(PathBuf),
    ValkeyBenchmark(PathBuf),
}

impl Client {
    /// By its name; ours is built.
    fn named(name: &str) -> Result<Self> {
        match name {
            "darter-bench" => {
                shell::run(shell::cargo().args(["build", "--quiet", "--release", "--package", "bench"]))?;
                Ok(Self::DarterBench(shell::target().join("release/darter-bench")))
            }
            "valkey-benchmark" => {
                let path = shell::on_path(name).ok_or("no valkey-benchmark on PATH")?;
                Ok(Self::ValkeyBenchmark(path))
            }
            _ => Err(format!("--client is darter-bench or valkey-benchmark, not {name}").into()),
        }
    }

    /// The executable.
    pub fn path(&self) -> &Path {
        match self {
            Self::DarterBench(path) | Self::ValkeyBenchmark(path) => path,
        }
    }

    /// Options that only this one needs: the columns of the other and no questions to the server meanwhile; latencies to the microsecond.
    pub fn own_words(&self) -> &'static [&'static str] {
        match self {
            Self::DarterBench(_) => &["--dialect", "valkey", "--no-info"],
            Self::ValkeyBenchmark(_) => &["--precision", "3"],
        }
    }
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Darter,
    Valkey,
}

impl Bench {
    /// Starts one of the two with as many threads, on these processors.
    pub fn start(&self, side: Side, threads: u32, more: &[&str], cpus: Option<&str>) -> Result<Server> {
        let count = threads.to_string();
        let (program, option) = match side {
            Side::Darter => (&self.darter, "--threads"),
            Side::Valkey => (&self.valkey, "--io-threads"),
        };
        let words: Vec<&str> = [option, &count].into_iter().chain(more.iter().copied()).collect();
        Server::start_on(program, &words, cpus)
    }

    /// A count of requests or keys, made smaller by `--quick`.
    pub fn count(&self, full: u64) -> u64 {
        full / self.divisor
    }
}

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    let mut only: Vec<String> = Vec::new();
    let (mut rounds, mut divisor, mut note) = (5, 1, String::new());
    let mut client = "darter-bench".to_string();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--only" => only.push(value()?),
            "--quick" => (rounds, divisor) = (1, 20),
            "--rounds" => rounds = value()?.parse()?,
            "--client" => client = value()?,
            "--note" => note = value()?,
            _ => {
                let names =
                    SCENARIOS.iter().map(|s| format!("  {:<11} {}\n", s.name, s.what)).collect::<String>();
                print!("{HELP}scenarios:\n{names}");
                return if word == "--help" {
                    Ok(Tally::default())
                } else {
                    Err(format!("unknown: {word}").into())
                };
            }
        }
    }
    if let Some(unknown) = only.iter().find(|name| SCENARIOS.iter().all(|s| s.name != **name)) {
        return Err(format!("no scenario {unknown}").into());
    }
    let bench = Bench {
        darter: Program::darter_of_profile("release")?,
        valkey: Program::Reference(shell::on_path("valkey-server").ok_or("no valkey-server on PATH")?),
        client: Client::named(&client)?,
        rounds,
        divisor,
    };
    let chosen: Vec<&Scenario> =
        SCENARIOS.iter().filter(|s| only.is_empty() || only.iter().any(|name| name == s.name)).collect();
    measure(&bench, &chosen, &note)
}

fn measure(bench: &Bench, chosen: &[&Scenario], note: &str) -> Result<Tally> {
    let mut tables = String::new();
    let mut tally = Tally::default();
    for scenario in chosen {
        println!("--- {}: {}", scenario.name, scenario.what);
        let table = match (scenario.run)(bench) {
            Ok(rows) => {
                for row in &rows {
                    match row.goal.met(row.figure) {
                        Some(true) => tally.passed += 1,
                        Some(false) => tally.failed += 1,
                        None => {}
                    }
                }
                table(&rows)
            }
            Err(error) => {
                tally.failed += 1;
                format!("could not be measured: {error}\n")
            }
        };
        print!("{table}");
        tables += &format!("\n## {}: {}\n\n{table}", scenario.name, scenario.what);
    }
    let names: Vec<&str> = chosen.iter().map(|s| s.name).collect();
    let what = if chosen.len() == SCENARIOS.len() { "all".to_string() } else { names.join("-") };
    let quick = if bench.divisor > 1 { "-quick" } else { "" };
    let path = shell::root().join(format!("benches/record/{}-{what}{quick}.md", machine::today()));
    let note = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    std::fs::create_dir_all(path.parent().unwrap_or(shell::root()))?;
    std::fs::write(
        &path,
        format!("# {} {what}{quick}\n\n{note}{}{tables}", machine::today(), machine::describe(bench)?),
    )?;
    println!("{} goals met, {} not; recorded in {}", tally.passed, tally.failed, shell::short(&path));
    Ok(tally)
}

fn table(rows: &[Row]) -> String {
    let mut text = "| what | Darter | Valkey | figure | goal | |\n|---|---|---|---|---|---|\n".to_string();
    for row in rows {
        let verdict = match row.goal.met(row.figure) {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        };
        text += &format!(
            "| {} | {} | {} | {} | {} | {verdict} |\n",
            row.what,
            row.darter,
            row.valkey,
            row.shown,
            row.goal.shown()
        );
    }
    text
}

/// The middle one of some figures; the mean of the two middle ones of an even number.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
