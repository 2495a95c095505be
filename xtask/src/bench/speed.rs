//! Scenarios with a load generator: processor time per request, requests per second, latency.

use super::{Bench, Goal, Row, Side, load, median, process};
use crate::fail::Result;
use crate::server::Server;
use crate::shell;

/// Random keys of every speed scenario; all of them are there before the first run.
const KEYS: u64 = 1_000_000;
const VALUE_BYTES: u64 = 64;

/// How the load generator is run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// A test's name, or what `command` is called.
    pub test: &'static str,
    pub pipeline: u32,
    pub clients: u32,
    pub requests: u64,
    pub client_cpus: Option<&'static str>,
    pub client_threads: u32,
    /// Further options.
    pub more: &'static [&'static str],
    /// Instead of a named test.
    pub command: &'static [&'static str],
}

impl Run {
    /// A test with a pipeline of 16, the client on the second processor.
    pub fn pipeline_16(test: &'static str, requests: u64) -> Run {
        let (client_cpus, client_threads) = (Some("1"), 1);
        Run {
            test,
            pipeline: 16,
            clients: 50,
            requests,
            client_cpus,
            client_threads,
            more: &[],
            command: &[],
        }
    }
}

/// What one run gave.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    pub cpu_us: f64,
    pub per_second: f64,
    pub p99_ms: f64,
}

/// Medians of several runs of each side.
pub(super) struct Pair {
    pub darter: Outcome,
    pub valkey: Outcome,
}

/// P1, everything on one processor.
pub fn one_cpu(bench: &Bench) -> Result<Vec<Row>> {
    let run = |test| Run {
        test,
        pipeline: 1,
        clients: 50,
        requests: 400_000,
        client_cpus: Some("0"),
        client_threads: 1,
        more: &[],
        command: &[],
    };
    let pairs = compare(bench, 1, Some("0"), &[run("set"), run("get")], |_| Ok(()))?;
    Ok(vec![cpu_row("SET", &pairs[0], 0.65), cpu_row("GET", &pairs[1], 0.65)])
}

/// P16, server and client on a processor each.
pub fn pipeline_16(bench: &Bench) -> Result<Vec<Row>> {
    let run = |test| Run::pipeline_16(test, 3_000_000);
    let pairs = compare(bench, 1, Some("0"), &[run("set"), run("get")], |_| Ok(()))?;
    Ok(vec![cpu_row("SET", &pairs[0], 0.60), cpu_row("GET", &pairs[1], 0.70)])
}

/// P64, server and client on a processor each.
pub fn pipeline_64(bench: &Bench) -> Result<Vec<Row>> {
    let run = |test| Run { pipeline: 64, clients: 8, ..Run::pipeline_16(test, 5_000_000) };
    let pairs = compare(bench, 1, Some("0"), &[run("set"), run("get")], |_| Ok(()))?;
    Ok(vec![cpu_row("SET", &pairs[0], 0.50), cpu_row("GET", &pairs[1], 0.60)])
}

/// Two threads each, the load generator with two on the same processors.
pub fn two_threads(bench: &Bench) -> Result<Vec<Row>> {
    let run = |test, pipeline, requests| Run {
        test,
        pipeline,
        clients: 50,
        requests,
        client_cpus: None,
        client_threads: 2,
        more: &[],
        command: &[],
    };
    let runs = [
        run("set", 1, 500_000),
        run("get", 1, 500_000),
        run("set", 16, 3_000_000),
        run("get", 16, 3_000_000),
        run("set", 64, 5_000_000),
        run("get", 64, 5_000_000),
    ];
    let pairs = compare(bench, 2, None, &runs, |_| Ok(()))?;
    let mut rows = Vec::new();
    for (run, pair) in runs.iter().zip(&pairs) {
        let name = format!("{} P{}", run.test.to_ascii_uppercase(), run.pipeline);
        let faster = if run.pipeline == 64 { 1.8 } else { 2.0 };
        rows.push(row(&format!("{name}: requests/s"), pair, |o| o.per_second, 0, Goal::AtLeast(faster)));
        rows.push(row(&format!("{name}: p99 ms"), pair, |o| o.p99_ms, 3, Goal::AtMost(0.5)));
        rows.push(row(&format!("{name}: CPU us/request"), pair, |o| o.cpu_us, 3, Goal::AtMost(0.45)));
    }
    Ok(rows)
}

pub(super) fn cpu_row(name: &str, pair: &Pair, goal: f64) -> Row {
    row(
        &format!(
            "{name}: CPU us/request ({:.0}k and {:.0}k requests/s)",
            pair.darter.per_second / 1e3,
            pair.valkey.per_second / 1e3
        ),
        pair,
        |o| o.cpu_us,
        3,
        Goal::AtMost(goal),
    )
}

pub(super) fn row(what: &str, pair: &Pair, of: impl Fn(&Outcome) -> f64, digits: usize, goal: Goal) -> Row {
    let (darter, valkey) = (of(&pair.darter), of(&pair.valkey));
    let figure = darter / valkey;
    Row {
        what: what.into(),
        darter: format!("{darter:.digits$}"),
        valkey: format!("{valkey:.digits$}"),
        figure,
        shown: format!("{figure:.2} x"),
        goal,
    }
}

/// A server that has all keys.
pub(super) fn filled(bench: &Bench, side: Side, threads: u32, cpus: Option<&str>) -> Result<Server> {
    let server = bench.start(side, threads, &[], cpus)?;
    let fill = load::Load {
        keys: 0..KEYS,
        commands: KEYS,
        random: false,
        value_bytes: VALUE_BYTES..=VALUE_BYTES,
        ttl_s: None,
    };
    load::run(&server, &fill)?;
    Ok(server)
}

/// Runs everything against both servers in turn, round by round, and takes medians. `prepare` is for each server, before.
pub(super) fn compare(
    bench: &Bench,
    threads: u32,
    cpus: Option<&str>,
    runs: &[Run],
    prepare: fn(&Server) -> Result<()>,
) -> Result<Vec<Pair>> {
    let servers = [filled(bench, Side::Darter, threads, cpus)?, filled(bench, Side::Valkey, threads, cpus)?];
    servers.iter().try_for_each(prepare)?;
    let mut outcomes = vec![[Vec::new(), Vec::new()]; runs.len()];
    for round in 0..bench.rounds {
        for (run, outcomes) in runs.iter().zip(&mut outcomes) {
            // The side that begins changes, so that neither always meets a machine warmed by the other.
            for side in [round % 2, 1 - round % 2] {
                let outcome = once(bench, &servers[side], run)?;
                println!(
                    "{} P{} {}: {:.3} us/request, {:.0} requests/s, p99 {:.3} ms",
                    run.test,
                    run.pipeline,
                    ["darter", "valkey"][side],
                    outcome.cpu_us,
                    outcome.per_second,
                    outcome.p99_ms
                );
                outcomes[side].push(outcome);
            }
        }
    }
    Ok(outcomes
        .iter()
        .map(|[darter, valkey]| Pair { darter: middle(darter), valkey: middle(valkey) })
        .collect())
}

pub(super) fn middle(outcomes: &[Outcome]) -> Outcome {
    let of = |get: fn(&Outcome) -> f64| median(&outcomes.iter().map(get).collect::<Vec<_>>());
    Outcome { cpu_us: of(|o| o.cpu_us), per_second: of(|o| o.per_second), p99_ms: of(|o| o.p99_ms) }
}

/// One run of the load generator.
pub(super) fn once(bench: &Bench, server: &Server, run: &Run) -> Result<Outcome> {
    let requests = bench.count(run.requests);
    let mut command = shell::pinned(bench.client.path(), run.client_cpus);
    command.args(["-p", &server.address.port().to_string(), "-d", &VALUE_BYTES.to_string(), "--csv"]);
    command.args([
        "-P",
        &run.pipeline.to_string(),
        "-c",
        &run.clients.to_string(),
        "-n",
        &requests.to_string(),
    ]);
    command.args(["-r", &KEYS.to_string()]).args(bench.client.own_words());
    if run.client_threads > 1 {
        command.args(["--threads", &run.client_threads.to_string()]);
    }
    command.args(run.more);
    // A command of one's own comes last.
    if run.command.is_empty() {
        command.args(["-t", run.test]);
    } else {
        command.args(run.command);
    }
    let before = process::cpu_time(server.pid())?;
    let text = shell::output(&mut command)?;
    let cpu = process::cpu_time(server.pid())?.saturating_sub(before);
    let (per_second, p99_ms) =
        read_csv(&text).ok_or_else(|| format!("{} printed: {text}", bench.client.path().display()))?;
    Ok(Outcome { cpu_us: cpu.as_secs_f64() * 1e6 / requests as f64, per_second, p99_ms })
}

/// Requests per second and the 99th percentile out of the table that `--csv` prints, by the names of its columns.
fn read_csv(text: &str) -> Option<(f64, f64)> {
    let mut lines = text.lines().filter(|line| line.starts_with('"'));
    let split =
        |line: &str| line.split(',').map(|cell| cell.trim_matches('"').to_string()).collect::<Vec<_>>();
    let (head, body) = (split(lines.next()?), split(lines.next()?));
    let cell = |name: &str| body.get(head.iter().position(|column| column == name)?)?.parse::<f64>().ok();
    Some((cell("rps")?, cell("p99_latency_ms")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_read_by_its_columns() {
        let text =
            "\"test\",\"rps\",\"avg_latency_ms\",\"p99_latency_ms\"\n\"SET\",\"100.5\",\"0.1\",\"0.4\"\n";
        assert_eq!(read_csv(text), Some((100.5, 0.4)));
        assert_eq!(read_csv("error\n"), None);
    }
}
