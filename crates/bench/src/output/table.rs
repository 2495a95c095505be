//! The summary at the end of a run, as text: what was run, a line per command, what the server and the client used, the errors.

use std::fmt::Write as _;

use crate::record::{Figures, Percentiles, Run, per_second};
use crate::units::{bytes, clock, grouped, millis, short};

/// Columns of text, the first to the left, the others to the right.
pub struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// With these headings.
    pub fn new<T: AsRef<str>>(headings: &[T]) -> Self {
        Self { rows: vec![headings.iter().map(|text| text.as_ref().to_string()).collect()] }
    }

    /// Adds a row; cells beyond the headings are not shown.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, each line ended.
    pub fn text(&self) -> String {
        let count = self.rows[0].len();
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(line, "{cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// The summary of one run.
pub fn summary(run: &Run) -> String {
    let mut text = heading(run);
    text.push('\n');
    text += &commands(run);
    if !run.nodes.is_empty() {
        text.push('\n');
        text += &nodes(run);
    }
    text.push('\n');
    text += &notes(run);
    text
}

/// What was run, against whom.
fn heading(run: &Run) -> String {
    let setup = &run.setup;
    let version = if run.target.version.is_empty() { "a server" } else { &run.target.version };
    let test = if run.test == setup.workload { String::new() } else { format!("{}, ", run.test) };
    let rate =
        setup.rate.map_or("closed loop".to_string(), |rate| format!("{} requests/s intended", short(rate)));
    let interrupted = if run.interrupted { ", interrupted" } else { "" };
    format!(
        "{test}{} against {version} at {}\n{} thread{}, {} connections, pipeline {}, {} B values, {rate}, seed {}: {:.2} s{interrupted}\n",
        setup.workload,
        run.target.address,
        setup.threads,
        if setup.threads == 1 { "" } else { "s" },
        setup.connections,
        setup.pipeline,
        setup.data_size,
        setup.seed,
        run.elapsed.as_secs_f64(),
    )
}

fn commands(run: &Run) -> String {
    let mut columns = Columns::new(&[
        "latency in ms",
        "requests",
        "per s",
        "errors",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ]);
    let open_loop = run.setup.rate.is_some();
    let line = |columns: &mut Columns, name: &str, requests, errors, places: Percentiles, uncorrected| {
        let counts =
            [grouped(requests), grouped(per_second(requests, run.elapsed).round() as u64), grouped(errors)];
        columns.row([vec![name.to_string()], counts.into(), latencies(&places)].concat());
        if let Some(uncorrected) = uncorrected {
            let blank = vec![format!("{name} since sent"), String::new(), String::new(), String::new()];
            columns.row([blank, latencies(&Percentiles::of(uncorrected))].concat());
        }
    };
    for figures in &run.commands {
        let places = Percentiles::of(&figures.corrected);
        let counts = &figures.total;
        line(
            &mut columns,
            &figures.name,
            counts.requests,
            counts.errors,
            places,
            figures.uncorrected.as_ref(),
        );
    }
    if run.commands.len() > 1 {
        let total = run.total();
        let uncorrected = run.uncorrected();
        let places = Percentiles::of(&run.corrected());
        line(&mut columns, "all", total.requests, total.errors, places, uncorrected.as_ref());
    }
    let mut text = columns.text();
    if open_loop {
        text += "Latency counts from the moment at which a request should have been sent; \"since sent\" leaves out its waiting for that.\n";
    }
    text
}

fn latencies(places: &Percentiles) -> Vec<String> {
    [places.mean as u64, places.p50, places.p90, places.p99, places.p999, places.max].map(millis).into()
}

fn nodes(run: &Run) -> String {
    let mut columns = Columns::new(&["node", "requests", "per s", "errors", "p50", "p99", "p99.9", "max"]);
    for Figures { name, total, corrected, .. } in &run.nodes {
        let places = Percentiles::of(corrected);
        let per_second = per_second(total.requests, run.elapsed).round() as u64;
        let counts = [name.clone(), grouped(total.requests), grouped(per_second), grouped(total.errors)];
        let latencies = [places.p50, places.p99, places.p999, places.max].map(millis);
        columns.row(counts.into_iter().chain(latencies).collect());
    }
    columns.text()
}

/// What the two sides used, and what went wrong.
fn notes(run: &Run) -> String {
    let mut text = String::new();
    let total = run.total();
    let seconds = run.elapsed.as_secs_f64().max(1e-9);
    let mut traffic = Vec::new();
    if total.hits + total.misses > 0 {
        let ratio = 100.0 * total.hits as f64 / (total.hits + total.misses) as f64;
        traffic.push(format!("{ratio:.2} % of the reads found a value"));
    }
    if total.bytes_sent + total.bytes_received > 0 {
        let (sent, received) = (total.bytes_sent as f64 / seconds, total.bytes_received as f64 / seconds);
        traffic.push(format!("{}/s sent, {}/s received", bytes(sent), bytes(received)));
    }
    if !traffic.is_empty() {
        let _ = writeln!(text, "traffic  {}", traffic.join("; "));
    }
    if let Some(used) = server(run) {
        let _ = writeln!(text, "server   {used}");
    }
    if !run.client.cpu.is_zero() {
        let each = run.client.cpu.as_secs_f64() * 1e6 / total.requests.max(1) as f64;
        let verdict =
            if run.client.was_the_limit() { ": THE CLIENT WAS THE LIMIT, not the server" } else { "" };
        let busy = 100.0 * run.client.busiest;
        let late_ms = run.client.late_p99.as_secs_f64() * 1e3;
        let late =
            if late_ms > 0.0 { format!(", p99 of its own lateness {late_ms:.3} ms") } else { String::new() };
        let _ = writeln!(
            text,
            "client   {each:.3} us of processor time per request, busiest thread {busy:.0} %{late}{verdict}"
        );
    }
    if let Some(rate) = run.rate_found {
        let _ = writeln!(
            text,
            "found    {} requests/s is the highest rate within the bound",
            grouped(rate as u64)
        );
    }
    if run.unsent > 0 {
        let unsent = grouped(run.unsent);
        let _ = writeln!(
            text,
            "unsent   {unsent} requests were due and could not be sent: the server is slower than the rate"
        );
    }
    if run.redirected > 0 {
        let redirected = grouped(run.redirected);
        let _ = writeln!(
            text,
            "moved    {redirected} requests were redirected (MOVED, ASK), because slots moved; they are in none of the figures"
        );
    }
    for (error, count) in &run.errors {
        let _ = writeln!(text, "error    {} x {error}", grouped(*count));
    }
    text
}

/// What the server used, as far as it tells.
fn server(run: &Run) -> Option<String> {
    let used = run.server()?;
    let mut parts = Vec::new();
    if let Some(each) = used.cpu_us_per_command() {
        parts.push(format!("{each:.3} us of processor time per command"));
    }
    parts.extend(used.cpus_busy().map(|busy| format!("{busy:.2} processors busy")));
    parts.push(format!("used_memory {} (RSS {})", bytes(used.used_memory as f64), bytes(used.rss as f64)));
    if let Some(each) = used.bytes_per_entry() {
        parts.push(format!("{each:.1} bytes per entry ({} keys)", grouped(used.keys)));
    }
    if used.evicted > 0 {
        parts.push(format!("{} evicted", grouped(used.evicted)));
    }
    if used.expired > 0 {
        parts.push(format!("{} expired", grouped(used.expired)));
    }
    if used.errors > 0 {
        parts.push(format!("{} error replies", grouped(used.errors)));
    }
    Some(parts.join(", "))
}

/// One line for a run: `-q`.
pub fn one_line(run: &Run) -> String {
    let places = Percentiles::of(&run.corrected());
    let errors = run.total().errors;
    let errors = if errors == 0 { String::new() } else { format!(", {} errors", grouped(errors)) };
    let target =
        if run.target.name == run.target.address { String::new() } else { format!("{} ", run.target.name) };
    format!(
        "{target}{}: {:.2} requests per second, p50={} msec, p99={} msec{errors}",
        run.test,
        run.per_second(),
        millis(places.p50),
        millis(places.p99)
    )
}

/// One line for the second `second` of a run.
pub fn second_line(run: &Run, second: usize) -> String {
    let width = if run.elapsed.is_zero() { 1.0 } else { run.width_s(second) };
    let mut parts = Vec::new();
    let mut errors = 0;
    for figures in &run.commands {
        let Some(this) = figures.seconds.get(second) else { continue };
        errors += this.counts.errors;
        let rate = short(this.counts.requests as f64 / width);
        let at = &this.corrected;
        let latency = match this.counts.requests {
            0 => "no reply".to_string(),
            _ => format!("p50 {} p99 {} p99.9 {} ms", millis(at.p50), millis(at.p99), millis(at.p999)),
        };
        parts.push(format!("{} {rate}/s, {latency}", figures.name));
    }
    if errors > 0 {
        parts.push(format!("{errors} errors"));
    }
    if let Some(sample) = run.samples.last() {
        parts.push(format!("used_memory {}", bytes(sample.used_memory as f64)));
    }
    format!("{:>6}  {}", clock(std::time::Duration::from_secs(second as u64 + 1)), parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn the_summary_says_what_there_is_to_say() {
        let text = summary(&synthetic::run("here", 3, false));
        for wanted in [
            "mixed, SET:GET 1:3 against valkey 9.1.2 at 127.0.0.1:6379",
            "2 threads, 50 connections, pipeline 16, 64 B values, closed loop, seed 7: 2.50 s",
            "SET               2,500  1,000       0",
            "all              10,000  4,000       2",
            "server   1.000 us of processor time per command, 0.00 processors busy, used_memory 1.29 MiB (RSS 8.35 MiB)",
            "451.9 bytes per entry (3,000 keys)",
            "THE CLIENT WAS THE LIMIT",
            "error    2 x ERR <no> & \"such\", thing",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(!text.contains("since sent"));
    }

    #[test]
    fn an_open_loop_shows_both_latencies() {
        let text = summary(&synthetic::run("here", 3, true));
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_string();
        let last = |line: String| line.split_whitespace().next_back().unwrap().parse::<f64>().unwrap();
        let (corrected, uncorrected) = (last(line("SET  ")), last(line("SET since sent")));
        assert!((corrected / uncorrected - 2.0).abs() < 0.01, "{corrected} {uncorrected}");
    }

    #[test]
    fn single_lines() {
        let run = synthetic::run("here", 3, false);
        assert_eq!(
            one_line(&run),
            "here mixed: 4000.00 requests per second, p50=0.572 msec, p99=1.460 msec, 2 errors"
        );
        assert_eq!(
            second_line(&run, 2),
            "   3 s  SET 1.00k/s, p50 1.000 p99 1.491 p99.9 1.500 ms; GET 3.00k/s, p50 0.502 p99 0.747 p99.9 0.752 ms; used_memory 1.29 MiB"
        );
    }
}
