//! The report: one HTML file with charts and tables of all runs, which needs no other file, no script and no network. Light or dark as the
//! reader's system is.

mod chart;
mod charts;

use std::fmt::Write as _;

use chart::{COLOURS, escape};

use crate::record::{Percentiles, Run};
use crate::stats::{Cell, Comparison, METRICS, Metric, Side, comparisons};
use crate::units::{bytes, grouped, millis, nanos, short};

const STYLE: &str = include_str!("style.css");
/// Metrics that are drawn as bars where targets are compared, with what is better.
const BARS: &[(&str, &str)] = &[
    ("requests/s", "more is better"),
    ("p99", "less is better"),
    ("server CPU/command", "less is better"),
    ("bytes per entry", "less is better"),
];

/// The report of some runs: a section per test. Runs against several targets are compared; of several runs against one, the one in the
/// middle is drawn.
pub fn page(runs: &[Run]) -> String {
    let title = title(runs);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    if let Some(first) = runs.first() {
        page += &introduction(first, runs);
    }
    let comparisons = comparisons(runs);
    for comparison in &comparisons {
        if comparisons.len() > 1 {
            let _ = writeln!(page, "<h2>{}</h2>", escape(comparison.test));
        }
        page += &section(comparison);
    }
    page += &footer(runs);
    page + "</body>\n</html>\n"
}

fn title(runs: &[Run]) -> String {
    let Some(first) = runs.first() else { return "darter-bench".into() };
    let mut names: Vec<&str> = runs.iter().map(|run| run.target.name.as_str()).collect();
    names.dedup();
    let mut seen = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(*name);
            true
        }
    });
    let against = if names.len() > 1 { names.join(" and ") } else { version(first).to_string() };
    escape(&format!("{} against {against}", first.setup.workload))
}

fn version(run: &Run) -> &str {
    if run.target.version.is_empty() { &run.target.name } else { &run.target.version }
}

fn introduction(first: &Run, runs: &[Run]) -> String {
    let setup = &first.setup;
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut parts = vec![
        plural(setup.threads, "client thread"),
        plural(setup.connections, "connection"),
        format!("pipeline {}", setup.pipeline),
    ];
    if !setup.data_size.is_empty() {
        parts.push(format!("values of {} B", setup.data_size));
    }
    if setup.keys > 0 {
        let named = if setup.key_distribution.is_empty() { "" } else { ", " };
        parts.push(format!("{} keys{named}{}", grouped(setup.keys), setup.key_distribution));
    }
    parts.push(
        setup.rate.map_or("closed loop".into(), |rate| format!("open loop, {} requests/s", short(rate))),
    );
    parts.push(format!("{:.1} s", first.elapsed.as_secs_f64()));
    let mut text = format!("<p class=\"soft\">{}</p>\n", escape(&parts.join(" \u{b7} ")));
    let mut targets: Vec<String> = Vec::new();
    for run in runs {
        let one = format!("{} ({})", version(run), run.target.address);
        if !targets.contains(&one) {
            targets.push(one);
        }
    }
    let when = crate::units::utc(first.started_unix_ms);
    let _ = writeln!(text, "<p class=\"soft\">{}, {when}</p>", escape(&targets.join(", ")));
    text + &warnings(runs)
}

/// What makes figures doubtful.
fn warnings(runs: &[Run]) -> String {
    let mut warnings: Vec<String> = Vec::new();
    for run in runs {
        let which = format!("{} ({})", run.test, run.target.name);
        if run.client.was_the_limit() {
            let busy = 100.0 * run.client.busiest;
            warnings.push(format!("{which}: a thread of the load generator was busy for {busy:.0} % of the time, so the client, not the server, was the limit."));
        }
        if run.interrupted {
            warnings.push(format!("{which}: interrupted; these are the figures so far."));
        }
        if run.unsent > 0 {
            let unsent = grouped(run.unsent);
            warnings.push(format!("{which}: {unsent} requests were due and could not be sent, because the server is slower than the rate."));
        }
        for (text, count) in &run.errors {
            warnings.push(format!("{which}: {} x {text}", grouped(*count)));
        }
    }
    warnings.dedup();
    warnings.iter().map(|text| format!("<p class=\"warning\">{}</p>\n", escape(text))).collect()
}

fn section(comparison: &Comparison<'_>) -> String {
    let mut text = String::new();
    match &comparison.sides[..] {
        [side] => {
            text += &tiles(side.typical());
            text += &charts::of_run(side.typical());
            if side.runs.len() > 1 {
                text += &medians(comparison);
            }
        }
        sides => {
            text += &bars(comparison);
            text += &charts::of_sides(sides);
            text += &medians(comparison);
        }
    }
    text + &latencies(&comparison.sides)
}

/// The few figures that a reader wants first.
fn tiles(run: &Run) -> String {
    let places = Percentiles::of(&run.corrected());
    let mut tiles = vec![
        (short(run.per_second()), "requests/s"),
        (nanos(places.p50 as f64), "p50"),
        (nanos(places.p99 as f64), "p99"),
        (nanos(places.p999 as f64), "p99.9"),
    ];
    if let Some(sent) = run.uncorrected() {
        tiles.push((nanos(sent.value_at_quantile(0.999) as f64), "p99.9 since sent, uncorrected"));
    }
    if let Some(rate) = run.rate_found {
        tiles.push((short(rate), "requests/s within the bound"));
    }
    if let Some(used) = run.server() {
        if let Some(each) = used.cpu_us_per_command() {
            tiles.push((nanos(each * 1000.0), "server CPU per command"));
        }
        tiles.push((bytes(used.used_memory as f64), "used_memory at the end"));
        if let Some(each) = used.bytes_per_entry() {
            tiles.push((format!("{each:.1} B"), "per entry"));
        }
    }
    tiles.push((grouped(run.total().errors), "errors"));
    let tile = |(figure, what): &(String, &str)| {
        format!("<div class=\"tile\"><b>{figure}</b><span>{what}</span></div>")
    };
    format!("<div class=\"tiles\">{}</div>\n", tiles.iter().map(tile).collect::<String>())
}

/// The medians that matter most, as bars.
fn bars(comparison: &Comparison<'_>) -> String {
    let mut text = String::new();
    for (name, better) in BARS {
        let metric = METRICS.iter().find(|metric| metric.name == *name);
        let Some((metric, cells)) = metric.and_then(|metric| Some((metric, comparison.row(metric)?))) else {
            continue;
        };
        let most = cells.iter().flatten().map(|cell| cell.median).fold(0.0, f64::max);
        let bars = comparison.sides.iter().zip(&cells).enumerate().map(|(place, (side, cell))| {
            let Some(cell) = cell else { return String::new() };
            let width = if most > 0.0 { 100.0 * cell.median / most } else { 0.0 };
            format!(
                "<div class=\"bar\"><span>{}</span><i class=\"c{}\" style=\"width:{width:.1}%\"></i><span>{}</span></div>",
                escape(&side.target.name),
                place % COLOURS,
                shown(metric, *cell)
            )
        });
        let _ = writeln!(
            text,
            "<figure><figcaption>{name}<span class=\"legend\">{better}</span></figcaption>{}</figure>",
            bars.collect::<String>()
        );
    }
    format!("<div class=\"bars\">{text}</div>\n")
}

fn shown(metric: &Metric, cell: Cell) -> String {
    let ratio =
        cell.ratio.map_or(String::new(), |ratio| format!(" <span class=\"ratio\">{ratio:.2} x</span>"));
    format!("{}{ratio}", (metric.shown)(cell.median))
}

/// All metrics, a column per target.
fn medians(comparison: &Comparison<'_>) -> String {
    let rounds = comparison.sides.iter().map(|side| side.runs.len()).max().unwrap_or(0);
    let names: String =
        comparison.sides.iter().map(|side| format!("<th>{}</th>", escape(&side.target.name))).collect();
    let of = if rounds == 1 { "one run each".to_string() } else { format!("medians of {rounds} runs") };
    let mut text = format!("<div class=\"scroll\"><table><tr><th>{of}</th>{names}</tr>\n");
    for metric in METRICS {
        let Some(cells) = comparison.row(metric) else { continue };
        let cells = cells.iter().map(|cell| cell.map_or("-".to_string(), |cell| shown(metric, cell)));
        let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = writeln!(text, "<tr><td>{}</td>{cells}</tr>", metric.name);
    }
    text + "</table></div>\n"
}

/// The latencies of every command, and of every node.
fn latencies(sides: &[Side<'_>]) -> String {
    let mut text = "<div class=\"scroll\"><table><tr><th>latency in ms</th><th>requests</th><th>per s</th><th>errors</th>\
        <th>mean</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th></tr>\n"
        .to_string();
    for side in sides {
        let run = side.typical();
        for figures in run.commands.iter().chain(&run.nodes) {
            let name = if sides.len() > 1 {
                format!("{} {}", side.target.name, figures.name)
            } else {
                figures.name.clone()
            };
            let counts = &figures.total;
            let rate = crate::record::per_second(counts.requests, run.elapsed);
            let counts = [grouped(counts.requests), grouped(rate.round() as u64), grouped(counts.errors)];
            row(&mut text, &name, counts, &Percentiles::of(&figures.corrected));
            if let Some(sent) = &figures.uncorrected {
                row(&mut text, &format!("{name} since sent"), Default::default(), &Percentiles::of(sent));
            }
        }
    }
    text + "</table></div>\n"
}

fn row(text: &mut String, name: &str, counts: [String; 3], places: &Percentiles) {
    let at = [places.mean as u64, places.p50, places.p90, places.p99, places.p999, places.max].map(millis);
    let cells: String = counts.iter().chain(&at).map(|cell| format!("<td>{cell}</td>")).collect();
    let _ = writeln!(text, "<tr><td>{}</td>{cells}</tr>", escape(name));
}

fn footer(runs: &[Run]) -> String {
    let Some(first) = runs.first() else { return "<p>Nothing was run.</p>\n".into() };
    let open_loop = first.setup.rate.is_some();
    let latency = if open_loop {
        "Latency counts from the moment at which a request should have been sent (corrected for coordinated omission); \
         \u{201c}since sent\u{201d} is what a load generator sees that counts from sending."
    } else {
        "A closed loop: each connection waits for its replies before it sends again, so a slow server is asked less."
    };
    format!(
        "<p class=\"soft\">{latency} Red stretches of a chart had no reply. Seed {}.</p>\n\
         <p class=\"soft\"><code>{}</code></p>\n<p class=\"soft\">darter-bench {}</p>\n",
        first.setup.seed,
        escape(&first.setup.command_line),
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests;
