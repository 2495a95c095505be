//! LATENCY: what took longer than `latency-monitor-threshold`, by kind of event. One history for the whole server behind a lock, which is
//! taken only by what was slow already.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples kept of an event; those of one second are one sample.
const SAMPLES_MAX: usize = 160;

/// One second in which an event was slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub unix_s: u64,
    /// The worst of that second.
    pub ms: u64,
}

/// What is known of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Oldest first.
    pub samples: VecDeque<Sample>,
    pub ms_max: u64,
    pub ms_sum: u64,
    /// How often it was slow.
    pub count: u64,
}

/// The events of the server, by name.
#[derive(Debug, Default)]
pub struct Latency(Mutex<BTreeMap<&'static str, Event>>);

impl Latency {
    /// An event took `ms`, at least the threshold.
    #[cold]
    pub fn add(&self, name: &'static str, unix_s: u64, ms: u64) {
        let mut events = self.events();
        let event = events.entry(name).or_default();
        event.ms_max = event.ms_max.max(ms);
        event.ms_sum += ms;
        event.count += 1;
        match event.samples.back_mut().filter(|last| last.unix_s == unix_s) {
            Some(last) => last.ms = last.ms.max(ms),
            None => {
                if event.samples.len() == SAMPLES_MAX {
                    event.samples.pop_front();
                }
                event.samples.push_back(Sample { unix_s, ms });
            }
        }
    }

    /// The events, locked.
    pub fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the events that `wanted` accepts. How many.
    pub fn reset(&self, wanted: impl Fn(&str) -> bool) -> usize {
        let mut events = self.events();
        let before = events.len();
        events.retain(|name, _| !wanted(name));
        before - events.len()
    }
}

impl Event {
    /// Columns of the seconds that were slow, 8 rows high, oldest at the left: LATENCY GRAPH.
    pub fn graph(&self) -> String {
        const ROWS: u64 = 8;
        let low = self.samples.iter().map(|sample| sample.ms).min().unwrap_or(0);
        let high = self.samples.iter().map(|sample| sample.ms).max().unwrap_or(0);
        let span = (high - low).max(1);
        let mut text = String::new();
        for row in (0..ROWS).rev() {
            for sample in &self.samples {
                let height = (sample.ms - low) * (ROWS - 1) / span;
                text.push(if height >= row { '#' } else { ' ' });
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }

    /// Mean of the samples, and how far they are from it on average.
    pub fn mean_and_deviation(&self) -> (u64, u64) {
        let count = (self.samples.len() as u64).max(1);
        let mean = self.samples.iter().map(|sample| sample.ms).sum::<u64>() / count;
        let deviation = self.samples.iter().map(|sample| sample.ms.abs_diff(mean)).sum::<u64>() / count;
        (mean, deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_one_sample() {
        let latency = Latency::default();
        for (unix_s, ms) in [(10, 20), (10, 30), (11, 15)] {
            latency.add("command", unix_s, ms);
        }
        let event = latency.events()["command"].clone();
        assert_eq!(event.samples, [Sample { unix_s: 10, ms: 30 }, Sample { unix_s: 11, ms: 15 }]);
        assert_eq!((event.ms_max, event.ms_sum, event.count), (30, 65, 3));
        assert_eq!(event.mean_and_deviation(), (22, 7));
        assert_eq!(event.graph(), "#\n".repeat(7) + "##\n");
        assert_eq!((latency.reset(|name| name == "other"), latency.reset(|_| true)), (0, 1));
        assert!(latency.events().is_empty());
    }

    #[test]
    fn the_history_is_bounded() {
        let latency = Latency::default();
        (0..1000).for_each(|unix_s| latency.add("command", unix_s, 5));
        let events = latency.events();
        assert_eq!((events["command"].samples.len(), events["command"].count), (SAMPLES_MAX, 1000));
        assert_eq!(events["command"].samples[0].unix_s, 1000 - SAMPLES_MAX as u64);
    }
}
