//! Rates per second, such as `instantaneous_ops_per_sec`: the mean of the last 16 samples, one every 100 ms, as in Valkey.

/// How often one thread calls [`super::Stats::sample`].
pub const SAMPLE_INTERVAL_MS: u64 = 100;
const SAMPLES: usize = 16;
const METRICS: usize = 5;

/// The last samples.
#[derive(Debug, Default)]
pub struct Rates {
    last_us: u64,
    /// What the counters stood at.
    last: [u64; METRICS],
    /// Per second, a ring.
    samples: [[u64; METRICS]; SAMPLES],
    /// Microseconds per turn of the event loops, beside the samples.
    turn_us: [u64; SAMPLES],
    next: usize,
}

impl Rates {
    /// `counts` are the commands, the bytes in and out, the turns of the event loops and the microseconds these took so far.
    pub(super) fn sample(&mut self, now_us: u64, counts: [u64; METRICS]) {
        let elapsed_us = now_us.saturating_sub(self.last_us);
        if self.last_us != 0 && elapsed_us > 0 {
            // After a reset the counters are behind what they were.
            let grown: [u64; METRICS] =
                std::array::from_fn(|metric| counts[metric].saturating_sub(self.last[metric]));
            self.samples[self.next] = grown.map(|grown| grown.saturating_mul(1_000_000) / elapsed_us);
            self.turn_us[self.next] = grown[4].checked_div(grown[3]).unwrap_or(0);
            self.next = (self.next + 1) % SAMPLES;
        }
        self.last_us = now_us;
        self.last = counts;
    }

    fn mean(&self, metric: usize) -> u64 {
        self.samples.iter().map(|sample| sample[metric]).sum::<u64>() / SAMPLES as u64
    }

    pub fn commands_per_second(&self) -> u64 {
        self.mean(0)
    }

    /// In units of 1024 bytes, as the `instantaneous_input_kbps` of INFO.
    pub fn input_kib_per_second(&self) -> f64 {
        self.mean(1) as f64 / 1024.0
    }

    pub fn output_kib_per_second(&self) -> f64 {
        self.mean(2) as f64 / 1024.0
    }

    pub fn turns_per_second(&self) -> u64 {
        self.mean(3)
    }

    /// The mean duration of a turn of an event loop.
    pub fn turn_us(&self) -> u64 {
        self.turn_us.iter().sum::<u64>() / SAMPLES as u64
    }

    /// Forgets the samples, but not what the counters stood at.
    pub fn reset(&mut self) {
        self.samples = Default::default();
        self.turn_us = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_of_sixteen_samples() {
        let mut rates = Rates::default();
        for tenth in 0..=8 {
            rates.sample(1_000_000 + tenth * 100_000, [tenth * 20, tenth * 1024, 0, tenth * 2, tenth * 100]);
        }
        // 8 samples of 200 per second and 8 of nothing.
        assert_eq!(rates.commands_per_second(), 100);
        assert_eq!(rates.input_kib_per_second(), 5.0);
        assert_eq!((rates.turns_per_second(), rates.turn_us()), (10, 25));
        for tenth in 9..=24 {
            rates.sample(1_000_000 + tenth * 100_000, [tenth * 20, 0, 0, 0, 0]);
        }
        assert_eq!((rates.commands_per_second(), rates.turn_us()), (200, 0));
        rates.sample(9_000_000, [0, 0, 0, 0, 0]);
        assert!(rates.commands_per_second() < 200, "a reset counter is no negative rate");
        rates.reset();
        assert_eq!(rates.commands_per_second(), 0);
    }
}
