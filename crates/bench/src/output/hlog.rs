//! The latencies of every second as a histogram log, version 1.3, which HdrHistogram's own tools and plotters read. Values are
//! nanoseconds, the maximum of an interval is in milliseconds, and each command is a tag.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::record::Run;

/// The log of some runs, in the order in which they ran.
pub fn log(runs: &[Run]) -> String {
    let base_ms = runs.iter().map(|run| run.started_unix_ms).min().unwrap_or(0);
    let base = base_ms as f64 / 1000.0;
    let mut text = format!(
        "#[darter-bench: latencies in nanoseconds, corrected for coordinated omission where the loop is open]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {base:.3} (seconds since epoch), {}]\n\
         #[BaseTime: {base:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        crate::units::utc(base_ms)
    );
    for run in runs {
        let begins = (run.started_unix_ms - base_ms) as f64 / 1000.0;
        for second in 0..run.seconds() {
            for figures in &run.commands {
                let Some(this) = figures.seconds.get(second).filter(|this| !this.encoded.is_empty()) else {
                    continue;
                };
                let (at, width) = (begins + second as f64, run.width_s(second));
                let max_ms = this.corrected.max as f64 / 1e6;
                let tag = tag(run, runs.len(), &figures.name);
                let _ = writeln!(
                    text,
                    "Tag={tag},{at:.3},{width:.3},{max_ms:.3},{}",
                    STANDARD.encode(&this.encoded)
                );
            }
        }
    }
    text
}

/// The command; where there are several runs, also which.
fn tag(run: &Run, runs: usize, command: &str) -> String {
    let full = if runs > 1 { format!("{}/{}/{command}", run.target.name, run.test) } else { command.into() };
    full.replace(|c: char| c == ',' || c.is_whitespace(), "_")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::record::histogram;
    use crate::synthetic;

    /// What a reader of such logs gets: intervals of a tag and their histograms put together.
    fn read(text: &str, tag: &str) -> (usize, Histogram<u64>) {
        let (mut all, mut count) = (histogram(), 0);
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            let LogEntry::Interval(interval) = entry.unwrap() else { continue };
            if interval.tag().map(|tag| tag.as_str()) != Some(tag) {
                continue;
            }
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let one: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert!((interval.max() * 1e6 / one.max() as f64 - 1.0).abs() < 0.001);
            all.add(&one).unwrap();
            count += 1;
        }
        (count, all)
    }

    #[test]
    fn a_log_reads_back_as_the_whole() {
        let run = synthetic::run("here", 3, true);
        let text = log(std::slice::from_ref(&run));
        for figures in &run.commands {
            let (count, back) = read(&text, &figures.name);
            assert_eq!((count, back.len()), (3, figures.total.requests));
            assert_eq!(back.value_at_quantile(0.99), figures.corrected.value_at_quantile(0.99));
        }
        let two = log(&[run.clone(), run]);
        assert_eq!(read(&two, "here/mixed/SET").0, 6);
    }
}
