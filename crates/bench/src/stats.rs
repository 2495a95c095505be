//! From several runs to few figures: which runs belong together, the median of each metric, and its ratio to that of the first target.

use crate::output::table::Columns;
use crate::record::{Percentiles, Run, Target};
use crate::units::{bytes, grouped, nanos};

/// A figure of a run that runs are compared by.
pub struct Metric {
    pub name: &'static str,
    /// Nothing where the run does not have it.
    pub of: fn(&Run) -> Option<f64>,
    pub shown: fn(f64) -> String,
}

/// All metrics, in the order of tables.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "requests/s",
        of: |run| Some(run.per_second()),
        shown: |rate| grouped(rate.round() as u64),
    },
    Metric { name: "mean", of: |run| latency(run, |places| places.mean), shown: nanos },
    Metric { name: "p50", of: |run| latency(run, |places| places.p50 as f64), shown: nanos },
    Metric { name: "p99", of: |run| latency(run, |places| places.p99 as f64), shown: nanos },
    Metric { name: "p99.9", of: |run| latency(run, |places| places.p999 as f64), shown: nanos },
    Metric {
        name: "server CPU/command",
        of: |run| run.server()?.cpu_us_per_command().map(|us| us * 1000.0),
        shown: nanos,
    },
    Metric { name: "used_memory", of: |run| Some(run.server()?.used_memory as f64), shown: bytes },
    Metric { name: "RSS, largest", of: |run| Some(run.server()?.rss_max as f64), shown: bytes },
    Metric {
        name: "bytes per entry",
        of: |run| run.server()?.bytes_per_entry(),
        shown: |each| format!("{each:.1}"),
    },
    Metric {
        name: "errors",
        of: |run| Some(run.total().errors as f64).filter(|errors| *errors > 0.0),
        shown: |errors| grouped(errors as u64),
    },
];

fn latency(run: &Run, of: fn(&Percentiles) -> f64) -> Option<f64> {
    let all = run.corrected();
    (!all.is_empty()).then(|| of(&Percentiles::of(&all)))
}

/// The middle one of some figures, the mean of the two middle ones of an even number; nothing of none.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[count / 2]),
        count => Some(f64::midpoint(sorted[count / 2 - 1], sorted[count / 2])),
    }
}

/// The runs of one test against one target.
pub struct Side<'a> {
    pub target: &'a Target,
    pub runs: Vec<&'a Run>,
}

impl<'a> Side<'a> {
    /// The median of a metric over the runs that have it.
    pub fn median(&self, metric: &Metric) -> Option<f64> {
        median(&self.runs.iter().filter_map(|run| (metric.of)(run)).collect::<Vec<_>>())
    }

    /// The run in the middle by its requests per second: the one to draw.
    pub fn typical(&self) -> &'a Run {
        let mut sorted = self.runs.clone();
        sorted.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
        sorted[(sorted.len() - 1) / 2]
    }
}

/// The runs of one test, by target.
pub struct Comparison<'a> {
    pub test: &'a str,
    pub sides: Vec<Side<'a>>,
}

/// Runs sorted by test and target, both in the order in which they first appear.
pub fn comparisons(runs: &[Run]) -> Vec<Comparison<'_>> {
    let mut all: Vec<Comparison<'_>> = Vec::new();
    for run in runs {
        let place = all.iter().position(|one| one.test == run.test).unwrap_or_else(|| {
            all.push(Comparison { test: &run.test, sides: Vec::new() });
            all.len() - 1
        });
        let sides = &mut all[place].sides;
        match sides.iter_mut().find(|side| side.target.name == run.target.name) {
            Some(side) => side.runs.push(run),
            None => sides.push(Side { target: &run.target, runs: vec![run] }),
        }
    }
    all
}

/// The median of a metric on one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub median: f64,
    /// To the first side's median; nothing on the first side itself.
    pub ratio: Option<f64>,
}

impl Comparison<'_> {
    /// The medians of a metric, one per side; nothing where no side has it.
    pub fn row(&self, metric: &Metric) -> Option<Vec<Option<Cell>>> {
        let medians: Vec<Option<f64>> = self.sides.iter().map(|side| side.median(metric)).collect();
        medians.iter().any(Option::is_some).then(|| {
            let first = medians[0].filter(|first| *first != 0.0);
            let cell = |(place, median): (usize, Option<f64>)| {
                let median = median?;
                let ratio = first.filter(|_| place > 0).map(|first| median / first);
                Some(Cell { median, ratio })
            };
            medians.into_iter().enumerate().map(cell).collect()
        })
    }

    /// A table of all metrics: medians, and ratios to the first side.
    pub fn text(&self) -> String {
        let rounds = self.sides.iter().map(|side| side.runs.len()).max().unwrap_or(0);
        let heading = format!("{}, median of {rounds}", self.test);
        let names = self.sides.iter().map(|side| side.target.name.clone());
        let mut columns = Columns::new(&std::iter::once(heading).chain(names).collect::<Vec<_>>());
        for metric in METRICS {
            let Some(cells) = self.row(metric) else { continue };
            let shown = |cell: Option<Cell>| match cell {
                None => "-".to_string(),
                Some(Cell { median, ratio: None }) => (metric.shown)(median),
                Some(Cell { median, ratio: Some(ratio) }) => {
                    format!("{} ({ratio:.2} x)", (metric.shown)(median))
                }
            };
            columns
                .row(std::iter::once(metric.name.to_string()).chain(cells.into_iter().map(shown)).collect());
        }
        columns.text()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::synthetic;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn runs_are_sorted_and_compared_with_the_first_target() {
        let lasting = |target: &str, ms: u64| {
            let mut run = synthetic::run(target, 3, false);
            run.elapsed = Duration::from_millis(ms);
            run
        };
        // 10,000 requests in 1, 2, 4 and in 2, 4, 8 seconds: medians of 5,000 and 2,500 per second.
        let mut runs: Vec<Run> =
            [1000, 2000, 4000].into_iter().flat_map(|ms| [lasting("a", ms), lasting("b", 2 * ms)]).collect();
        runs[5].samples.clear();
        let comparisons = comparisons(&runs);
        assert_eq!((comparisons.len(), comparisons[0].sides.len()), (1, 2));
        let rates = comparisons[0].row(&METRICS[0]).unwrap();
        assert_eq!(rates[0], Some(Cell { median: 5000.0, ratio: None }));
        assert_eq!(rates[1], Some(Cell { median: 2500.0, ratio: Some(0.5) }));
        assert_eq!(comparisons[0].sides[1].typical().elapsed, Duration::from_secs(4));
        let text = comparisons[0].text();
        assert!(text.starts_with("mixed, median of 3"), "{text}");
        assert!(text.contains("requests/s             5,000     2,500 (0.50 x)"), "{text}");
    }
}
