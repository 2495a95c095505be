//! Which charts the report has, and how a record becomes their lines: of one run by command, of several by target.

use super::chart::{Axis, COLOURS, Chart, Series};
use crate::record::{Figures, Percentiles, Run, Second, ServerSample};
use crate::stats::Side;
use crate::units::{bytes, nanos, short};

/// Points of a line at most; a longer run has several seconds to a point.
const POINTS_MAX: usize = 300;
/// A second at the end of a run that is shorter than this tells nothing about a rate.
const LAST_WIDTH_S_MIN: f64 = 0.25;
/// Nines of the distribution's end: 99.999 %.
const NINES_MAX: f64 = 5.0;

type Points = Vec<(f64, Option<f64>)>;

/// The charts of one run, by command.
pub fn of_run(run: &Run) -> String {
    let bins = Bins::of(run);
    let throughput = run
        .commands
        .iter()
        .enumerate()
        .map(|(place, figures)| series(&figures.name, place, false, bins.rates(run, &figures.seconds)))
        .collect();
    let charts = [
        throughput_chart(throughput, true, &bins, run),
        latency_chart(latencies_of(run, &bins), &bins),
        distribution_chart(distributions_of(run)),
        memory_chart(memory_of(run), bins.to_s),
        processor_chart(vec![series("processors busy", 4, false, processors(run))], bins.to_s),
    ];
    grid(&charts)
}

/// The charts of several targets, a line for each: of its run in the middle.
pub fn of_sides(sides: &[Side<'_>]) -> String {
    let runs: Vec<&Run> = sides.iter().map(Side::typical).collect();
    let Some(longest) = runs.iter().max_by_key(|run| run.elapsed) else { return String::new() };
    let bins = Bins::of(longest);
    let each = |points: &dyn Fn(&Run) -> Points| -> Vec<Series> {
        let line = |(place, run): (usize, &&Run)| series(&run.target.name, place, false, points(run));
        runs.iter().enumerate().map(line).collect()
    };
    let mut memory = each(&|run| memory_points(run, |sample| sample.rss));
    memory.iter_mut().for_each(|line| (line.name, line.dashed) = (format!("{} RSS", line.name), true));
    let mut used = each(&|run| memory_points(run, |sample| sample.used_memory));
    used.iter_mut().for_each(|line| line.name += " used_memory");
    used.extend(memory);
    let mut latency = each(&|run| worst_of_commands(&Bins::of(run), run, |at| at.p99));
    latency.iter_mut().for_each(|line| line.name += " p99");
    if sides.len() <= 3 {
        let mut medians = each(&|run| worst_of_commands(&Bins::of(run), run, |at| at.p50));
        medians.iter_mut().for_each(|line| (line.name, line.dashed) = (format!("{} p50", line.name), true));
        latency.extend(medians);
    }
    let charts = [
        throughput_chart(each(&|run| total_rates(&Bins::of(run), run)), false, &bins, longest),
        latency_chart(latency, &Bins { stalls: Vec::new(), ..bins.clone() }),
        distribution_chart(each(&|run| distribution(&run.corrected()))),
        memory_chart(used, bins.to_s),
        processor_chart(each(&processors), bins.to_s),
    ];
    grid(&charts)
}

fn grid(charts: &[Option<Chart>]) -> String {
    let figures: String = charts.iter().flatten().map(Chart::figure).collect();
    format!("<div class=\"charts\">\n{figures}</div>\n")
}

fn series(name: &str, place: usize, dashed: bool, points: Points) -> Series {
    Series { name: name.to_string(), colour: place % COLOURS, dashed, points }
}

/// How the seconds of a run become points.
#[derive(Clone)]
struct Bins {
    /// Seconds in a point.
    width: usize,
    /// Seconds that are drawn.
    seconds: usize,
    /// The end of the axis.
    to_s: f64,
    /// Seconds in which no command got a reply.
    stalls: Vec<usize>,
}

impl Bins {
    fn of(run: &Run) -> Self {
        let all = run.seconds();
        let seconds = if all > 1 && run.width_s(all - 1) < LAST_WIDTH_S_MIN { all - 1 } else { all };
        let silent = |second: &usize| {
            let requests =
                |figures: &Figures| figures.seconds.get(*second).map_or(0, |this| this.counts.requests);
            run.commands.iter().all(|figures| requests(figures) == 0)
        };
        Self {
            width: seconds.div_ceil(POINTS_MAX).max(1),
            seconds,
            to_s: run.elapsed.as_secs_f64(),
            stalls: (0..seconds).filter(silent).collect(),
        }
    }

    /// A figure for each point, at the middle of its seconds.
    fn points(&self, figure: impl Fn(std::ops::Range<usize>) -> Option<f64>) -> Points {
        let starts = (0..self.seconds).step_by(self.width);
        let point = |start: usize| {
            let end = (start + self.width).min(self.seconds);
            (f64::midpoint(start as f64, (end as f64).min(self.to_s)), figure(start..end))
        };
        starts.map(point).collect()
    }

    fn rates(&self, run: &Run, seconds: &[Second]) -> Points {
        self.points(|range| {
            let width: f64 = range.clone().map(|second| run.width_s(second)).sum();
            let count: u64 =
                range.filter_map(|second| seconds.get(second)).map(|this| this.counts.requests).sum();
            Some(count as f64 / width)
        })
    }

    /// The first and last point drawn out to the edges of the chart: a rate holds for its whole second.
    fn to_edges(&self, mut points: Points) -> Points {
        if let (Some((first, rate)), Some((last, last_rate))) =
            (points.first().copied(), points.last().copied())
        {
            if first > 0.0 {
                points.insert(0, (0.0, rate));
            }
            points.push(((self.seconds as f64).min(self.to_s).max(last), last_rate));
        }
        points
    }

    /// The largest latency of each point's seconds.
    fn worst(&self, seconds: &[Second], of: impl Fn(&Second) -> u64) -> Points {
        self.points(|range| {
            let replied =
                range.filter_map(|second| seconds.get(second)).filter(|this| this.counts.requests > 0);
            replied.map(|this| of(this) as f64).reduce(f64::max)
        })
    }

    fn axis(&self) -> Axis {
        Axis::seconds(self.to_s)
    }

    fn bands(&self) -> Vec<(f64, f64)> {
        self.stalls.iter().map(|second| (*second as f64, *second as f64 + 1.0)).collect()
    }
}

fn total_rates(bins: &Bins, run: &Run) -> Points {
    let mut total: Points = Vec::new();
    for figures in &run.commands {
        let rates = bins.rates(run, &figures.seconds);
        if total.is_empty() {
            total = rates;
        } else {
            let both = total.iter_mut().zip(rates);
            both.for_each(|(sum, one)| sum.1 = Some(sum.1.unwrap_or(0.0) + one.1.unwrap_or(0.0)));
        }
    }
    total
}

fn worst_of_commands(bins: &Bins, run: &Run, of: fn(&Percentiles) -> u64) -> Points {
    let mut worst: Points = Vec::new();
    for figures in &run.commands {
        let points = bins.worst(&figures.seconds, |second| of(&second.corrected));
        if worst.is_empty() {
            worst = points;
        } else {
            let both = worst.iter_mut().zip(points);
            both.for_each(|(most, one)| most.1 = [most.1, one.1].into_iter().flatten().reduce(f64::max));
        }
    }
    worst
}

fn throughput_chart(series: Vec<Series>, stacked: bool, bins: &Bins, run: &Run) -> Option<Chart> {
    let mut series = series;
    let at = |line: &Series, place: usize| line.points.get(place).and_then(|(_, rate)| *rate).unwrap_or(0.0);
    let count = series.iter().map(|line| line.points.len()).max()?;
    let of_place = |place: usize| -> f64 {
        let rates = series.iter().map(|line| at(line, place));
        if stacked { rates.sum() } else { rates.fold(0.0, f64::max) }
    };
    let most = (0..count).map(of_place).fold(0.0, f64::max);
    let hint = |place: usize| {
        let (from, to) = (place * bins.width, ((place + 1) * bins.width).min(bins.seconds));
        let lines: Vec<String> =
            series.iter().map(|line| format!("{} {}/s", line.name, short(at(line, place)))).collect();
        (from as f64, (to as f64).min(bins.to_s), format!("second {}: {}", from + 1, lines.join(", ")))
    };
    let hints = (0..count).map(hint).collect();
    series.iter_mut().for_each(|line| line.points = bins.to_edges(std::mem::take(&mut line.points)));
    let title = if stacked && run.commands.len() > 1 { "Throughput by command" } else { "Throughput" };
    Some(Chart {
        title: title.into(),
        x: bins.axis(),
        y: Axis::linear("requests/s", most, 1000.0, |rate| trimmed(short(rate))),
        hints,
        bands: if stacked { bins.bands() } else { Vec::new() },
        series,
        stacked,
        wide: true,
    })
}

/// The median and the slow end of each command; of an open loop also what counts from sending.
fn latencies_of(run: &Run, bins: &Bins) -> Vec<Series> {
    let mut lines = Vec::new();
    if let [only] = &run.commands[..] {
        let worst = |of: fn(&Percentiles) -> u64| bins.worst(&only.seconds, |second| of(&second.corrected));
        lines.push(series("p50", 0, false, worst(|at| at.p50)));
        lines.push(series("p99", 1, false, worst(|at| at.p99)));
        lines.push(series("p99.9", 3, false, worst(|at| at.p999)));
        if only.uncorrected.is_some() {
            let since_sent = |second: &Second| second.uncorrected.map_or(0, |at| at.p99);
            lines.push(series("p99 since sent", 1, true, bins.worst(&only.seconds, since_sent)));
        }
        return lines;
    }
    for (place, figures) in run.commands.iter().enumerate() {
        let worst =
            |of: fn(&Percentiles) -> u64| bins.worst(&figures.seconds, |second| of(&second.corrected));
        lines.push(series(&format!("{} p99", figures.name), place, false, worst(|at| at.p99)));
        if run.commands.len() <= 3 {
            lines.push(series(&format!("{} p50", figures.name), place, true, worst(|at| at.p50)));
        }
    }
    lines
}

fn latency_chart(series: Vec<Series>, bins: &Bins) -> Option<Chart> {
    let figures = || series.iter().flat_map(|line| &line.points).filter_map(|(_, figure)| *figure);
    let (least, most) = (figures().reduce(f64::min)?, figures().reduce(f64::max)?);
    Some(Chart {
        title: "Latency over time".into(),
        x: bins.axis(),
        y: Axis::logarithmic("latency", least, most, nanos_round),
        series,
        stacked: false,
        bands: bins.bands(),
        hints: Vec::new(),
        wide: false,
    })
}

fn nanos_round(ns: f64) -> String {
    trimmed(nanos(ns))
}

/// The name of a tick without zeros behind the point: ticks are round.
fn trimmed(text: String) -> String {
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (figure, unit) = text.split_at(unit);
    let figure =
        if figure.contains('.') { figure.trim_end_matches('0').trim_end_matches('.') } else { figure };
    format!("{figure}{unit}")
}

fn distributions_of(run: &Run) -> Vec<Series> {
    let mut lines = Vec::new();
    for (place, figures) in run.commands.iter().enumerate() {
        lines.push(series(&figures.name, place, false, distribution(&figures.corrected)));
        if let Some(sent) = &figures.uncorrected {
            lines.push(series(&format!("{} since sent", figures.name), place, true, distribution(sent)));
        }
    }
    lines
}

/// Latency by number of nines: 0 is nothing of the requests, 1 is 90 %, 2 is 99 %.
fn distribution(latencies: &hdrhistogram::Histogram<u64>) -> Points {
    if latencies.is_empty() {
        return Vec::new();
    }
    // Beyond one in so many there is no request to tell about.
    let nines = (latencies.len() as f64).log10().min(NINES_MAX);
    let steps = (nines * 20.0).ceil() as u32;
    let at = |step: u32| (f64::from(step) / 20.0).min(nines);
    let point = |nines: f64| (nines, Some(latencies.value_at_quantile(1.0 - 10f64.powf(-nines)) as f64));
    (0..=steps).map(at).map(point).collect()
}

fn distribution_chart(series: Vec<Series>) -> Option<Chart> {
    let figures = || series.iter().flat_map(|line| &line.points).filter_map(|(_, figure)| *figure);
    let (least, most) = (figures().reduce(f64::min)?, figures().reduce(f64::max)?);
    let to = series.iter().filter_map(|line| line.points.last()).map(|(nines, _)| *nines).fold(1.0, f64::max);
    let names = ["90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];
    let ticks = names.iter().enumerate().map(|(place, name)| (place as f64 + 1.0, (*name).to_string()));
    let half = std::iter::once((2f64.log10(), "50 %".to_string()));
    Some(Chart {
        title: "Latency distribution".into(),
        x: Axis {
            from: 0.0,
            to,
            logarithmic: false,
            ticks: ticks.chain(half).filter(|(nines, _)| *nines <= to + 1e-9).collect(),
            label: "of the requests are at most as slow".into(),
        },
        y: Axis::logarithmic("latency", least, most, nanos_round),
        series,
        stacked: false,
        bands: Vec::new(),
        hints: Vec::new(),
        wide: false,
    })
}

/// A figure of all nodes together over time. Nodes are asked one after the other; a point is where the last of them has answered.
fn memory_points(run: &Run, of: fn(&ServerSample) -> u64) -> Points {
    let nodes = run.samples.iter().map(|sample| sample.node + 1).max().unwrap_or(0);
    let mut last: Vec<Option<u64>> = vec![None; nodes];
    let mut points = Points::new();
    for sample in &run.samples {
        last[sample.node] = Some(of(sample));
        if sample.node + 1 == nodes && sample.at_s >= -1.0 {
            points.push((
                sample.at_s.max(0.0),
                last.iter().copied().sum::<Option<u64>>().map(|sum| sum as f64),
            ));
        }
    }
    thinned(points)
}

fn thinned(points: Points) -> Points {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    let keep = |(place, _): &(usize, _)| place.is_multiple_of(every) || *place == last;
    points.into_iter().enumerate().filter(keep).map(|(_, point)| point).collect()
}

fn memory_of(run: &Run) -> Vec<Series> {
    vec![
        series("used_memory", 2, false, memory_points(run, |sample| sample.used_memory)),
        series("RSS", 5, true, memory_points(run, |sample| sample.rss)),
    ]
}

fn memory_chart(series: Vec<Series>, to_s: f64) -> Option<Chart> {
    let figures = series.iter().flat_map(|line| &line.points).filter_map(|(_, figure)| *figure);
    let most = figures.reduce(f64::max)?;
    let name = |figure: f64| trimmed(bytes(figure));
    Some(Chart {
        title: "Memory of the server".into(),
        x: Axis::seconds(to_s),
        y: Axis::linear("bytes", most, 1024.0, name),
        series,
        stacked: false,
        bands: Vec::new(),
        hints: Vec::new(),
        wide: false,
    })
}

/// Processors busy between samples, all nodes together; nothing where the server does not tell.
fn processors(run: &Run) -> Points {
    let mut points = Points::new();
    let nodes = run.samples.iter().map(|sample| sample.node + 1).max().unwrap_or(0);
    let mut before: Vec<Option<&ServerSample>> = vec![None; nodes];
    let mut busy: Vec<Option<f64>> = vec![None; nodes];
    for sample in run.samples.iter().filter(|sample| !sample.cpu.is_zero()) {
        if let Some(before) = before[sample.node].filter(|before| sample.at_s - before.at_s > 0.2) {
            let cpu = sample.cpu.saturating_sub(before.cpu).as_secs_f64();
            busy[sample.node] = Some(cpu / (sample.at_s - before.at_s));
            if sample.node + 1 == nodes && sample.at_s >= 0.0 {
                let middle = f64::midpoint(before.at_s.max(0.0), sample.at_s);
                points.push((middle, busy.iter().copied().sum()));
            }
        }
        before[sample.node] = Some(sample);
    }
    thinned(points)
}

fn processor_chart(series: Vec<Series>, to_s: f64) -> Option<Chart> {
    let figures = series.iter().flat_map(|line| &line.points).filter_map(|(_, figure)| *figure);
    let most = figures.reduce(f64::max)?;
    Some(Chart {
        title: "Processors that the server keeps busy".into(),
        x: Axis::seconds(to_s),
        y: Axis::linear("processors", most, 1000.0, |figure| trimmed(format!("{figure:.3}"))),
        series,
        stacked: false,
        bands: Vec::new(),
        hints: Vec::new(),
        wide: false,
    })
}
