//! How long a command takes, as a histogram of nanoseconds whose buckets grow with the value. HOT: recording is a few
//! instructions and one store.
//!
//! Values below 64 have a bucket each; every further doubling has 32 buckets, so a bucket is at most 1/32 = 3.1 % wide. This is
//! the layout of HdrHistogram (Gil Tene) with a smaller precision. 25 doublings reach 2 s; what is longer counts as that.

use super::Counter;

/// log2 of the buckets per doubling.
const FINENESS: u32 = 5;
const PER_DOUBLING: usize = 1 << FINENESS;
/// Values below this are their own bucket.
const EXACT: u64 = 2 << FINENESS;
const DOUBLINGS: usize = 25;
/// 64 + 25 * 32 = 864 buckets, 6.75 KiB.
const BUCKETS: usize = EXACT as usize + DOUBLINGS * PER_DOUBLING;

/// One thread's latencies of one command. One thread writes, all may read.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| Counter::default()) }
    }
}

impl Histogram {
    #[inline]
    pub fn record(&self, nanoseconds: u64) {
        self.buckets[bucket_of(nanoseconds)].add(1);
    }

    pub(super) fn reset(&self) {
        for bucket in &self.buckets {
            bucket.set(0);
        }
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let doubling = value.ilog2() - FINENESS;
    // The leading one and the FINENESS bits behind it.
    let top = (value >> doubling) as usize;
    (doubling as usize * PER_DOUBLING + top).min(BUCKETS - 1)
}

/// The largest value that falls into a bucket.
fn upper_of(bucket: usize) -> u64 {
    if bucket < EXACT as usize {
        return bucket as u64;
    }
    let doubling = bucket / PER_DOUBLING - 1;
    let top = (bucket % PER_DOUBLING + PER_DOUBLING) as u64;
    ((top + 1) << doubling) - 1
}

/// The latencies of a command on all threads, for reading.
#[derive(Clone, Debug)]
pub struct Percentiles {
    buckets: Box<[u64]>,
    count: u64,
}

impl Default for Percentiles {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), count: 0 }
    }
}

impl Percentiles {
    pub(super) fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            let count = bucket.get();
            *sum += count;
            self.count += count;
        }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value in nanoseconds that `percent` of the values do not exceed, up to the width of a bucket.
    pub fn at(&self, percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.count as f64).round() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_of(bucket);
            }
        }
        0
    }

    /// Pairs of a bound in microseconds and how many values do not exceed it, from the first bound that has any to the first
    /// that has all: what LATENCY HISTOGRAM shows. The bounds are 1.024 us and its doublings, named as Valkey names them: by
    /// the largest value that its own histogram, with 128 buckets per doubling, cannot tell from the bound.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        let mut buckets = self.buckets.iter().enumerate().peekable();
        let (mut bound, mut seen, mut shown) = (1024_u64, 0, 0);
        while shown < self.count {
            while let Some((_, count)) = buckets.next_if(|(bucket, _)| upper_of(*bucket) < bound) {
                seen += count;
            }
            if seen > shown {
                pairs.push(((bound + bound / 128 - 1) / 1000, seen));
                shown = seen;
            }
            bound *= 2;
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::rng::Rng;

    fn of(values: &[u64]) -> Percentiles {
        let histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        let mut percentiles = Percentiles::default();
        percentiles.add(&histogram);
        percentiles
    }

    #[test]
    fn buckets_are_in_order_and_narrow() {
        for value in (0..5000).chain((5..31).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let upper = upper_of(bucket_of(value));
            assert!(upper >= value, "{value} is in a bucket up to {upper}");
            assert!(upper - value <= value / PER_DOUBLING as u64, "{value} is in a bucket up to {upper}");
        }
        assert!((0..BUCKETS).map(upper_of).is_sorted());
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let seed = 0x6869_7374;
        println!("seed {seed:#x}");
        let mut rng = Rng::new(seed);
        for _ in 0..50 {
            let mut values: Vec<u64> =
                (0..1 + rng.below(2000)).map(|_| rng.below(1 << 28) >> rng.below(24)).collect();
            let percentiles = of(&values);
            values.sort_unstable();
            for percent in [0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
                let rank = ((percent / 100.0 * values.len() as f64).round() as usize).clamp(1, values.len());
                let (exact, found) = (values[rank - 1], percentiles.at(percent));
                assert!(found >= exact && found - exact <= exact / 32, "p{percent}: {found} for {exact}");
            }
        }
    }

    #[test]
    fn the_cumulative_form_has_every_value_once() {
        assert_eq!(
            of(&[500, 900, 1500, 9000, 9000, 30_000]).cumulative(),
            [(1, 2), (2, 3), (16, 5), (33, 6)]
        );
        assert_eq!(of(&[]).cumulative(), []);
        assert_eq!(of(&[u64::MAX]).cumulative().last().map(|pair| pair.1), Some(1));
    }
}
