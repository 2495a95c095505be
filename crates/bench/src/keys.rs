//! Which key comes next: numbers of a range, drawn uniformly, normally, by Zipf's law, or in order. Knows nothing of how a key is
//! written.
//!
//! HOT: called once or more per request. No allocation, no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stdx::rng::Rng;

use crate::fault::{Fault, Result};

/// How numbers are spread over the range.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// The middle of the range is popular. Draws outside the range are drawn again.
    Normal {
        /// Standard deviation in numbers; 0 stands for a sixth of the range.
        stddev: f64,
    },
    /// The number `minimum + i` is drawn in proportion to `1 / (i + 1)^alpha`.
    Zipfian {
        /// Above 0; 0.99 is what YCSB uses.
        alpha: f64,
    },
    /// One after the other, and from the beginning again.
    Sequential,
}

impl Distribution {
    /// The name that reports show.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Distribution::Uniform => "uniform".into(),
            Distribution::Normal { .. } => "normal".into(),
            Distribution::Zipfian { alpha } => format!("zipfian {alpha}"),
            Distribution::Sequential => "sequential".into(),
        }
    }
}

/// Draws numbers of a range. The same generator state gives the same numbers on every machine of one floating-point library.
#[derive(Clone, Debug)]
pub struct Sampler {
    minimum: u64,
    /// Numbers in the range; at least 1.
    count: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    Normal { mean: f64, stddev: f64 },
    Zipfian(Zipf),
    Sequential,
}

impl Sampler {
    /// For numbers from `minimum` to `maximum`, both included.
    pub fn new(distribution: Distribution, minimum: u64, maximum: u64) -> Result<Sampler> {
        let count = maximum.checked_sub(minimum).and_then(|span| span.checked_add(1)).ok_or_else(|| {
            Fault::new(format!(
                "no key lies between --key-minimum {minimum} and --key-maximum {maximum}: raise the maximum"
            ))
        })?;
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Sequential => Shape::Sequential,
            Distribution::Normal { stddev } => {
                let stddev = if stddev > 0.0 { stddev } else { (count as f64 / 6.0).max(0.5) };
                Shape::Normal { mean: (count - 1) as f64 / 2.0, stddev }
            }
            Distribution::Zipfian { alpha } if alpha.is_finite() && alpha > 0.0 => {
                Shape::Zipfian(Zipf::new(count, alpha))
            }
            Distribution::Zipfian { alpha } => {
                return Err(Fault::new(format!(
                    "--zipf-alpha {alpha} is no law: give a number above 0, such as 0.99"
                )));
            }
        };
        Ok(Sampler { minimum, count, shape })
    }

    /// Numbers in the range.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest number that can be drawn.
    #[must_use]
    pub fn maximum(&self) -> u64 {
        self.minimum + (self.count - 1)
    }

    /// Whether numbers come in order, so that `draw` wants a counter.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        matches!(self.shape, Shape::Sequential)
    }

    /// The next number; `counter` says which one of a sequence and is not advanced otherwise.
    #[inline]
    pub fn draw(&self, rng: &mut Rng, counter: &mut Counter) -> u64 {
        let index = match &self.shape {
            Shape::Uniform => rng.below(self.count),
            Shape::Sequential => counter.next() % self.count,
            Shape::Zipfian(zipf) => zipf.draw(rng) - 1,
            Shape::Normal { mean, stddev } => normal(rng, *mean, *stddev, self.count),
        };
        self.minimum + index
    }
}

/// A place in a sequence: of one connection's own, so that a seed decides everything, or shared by all, so that together they leave out
/// nothing however unevenly they run.
#[derive(Clone, Debug)]
pub enum Counter {
    /// The next place, and how many there are between two of this connection's.
    Own { next: u64, stride: u64 },
    /// The next place of all who share it.
    Shared(Arc<AtomicU64>),
}

impl Counter {
    #[inline]
    fn next(&mut self) -> u64 {
        match self {
            Counter::Own { next, stride } => {
                let place = *next;
                *next = next.wrapping_add(*stride);
                place
            }
            Counter::Shared(next) => next.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The place that the next draw takes, if nobody else draws before.
    #[must_use]
    pub fn peek(&self) -> u64 {
        match self {
            Counter::Own { next, .. } => *next,
            Counter::Shared(next) => next.load(Ordering::Relaxed),
        }
    }
}

/// An index below `count`, normally distributed (Box and Muller 1958).
fn normal(rng: &mut Rng, mean: f64, stddev: f64, count: u64) -> u64 {
    loop {
        // 1 - u is above zero, so that the logarithm is finite.
        let radius = (-2.0 * (1.0 - rng.unit_f64()).ln()).sqrt();
        let value = (mean + stddev * radius * (std::f64::consts::TAU * rng.unit_f64()).cos()).round();
        if value >= 0.0 && value < count as f64 {
            return value as u64;
        }
    }
}

/// Ranks by Zipf's law in constant time and memory, for any exponent above 0: rejection-inversion (Hörmann and Derflinger 1996). The
/// mass function is covered by the integral of `x^-alpha` around each rank; a point under that curve is inverted to a rank, and kept if it
/// lies under the rank's bar, which it does nearly always.
#[derive(Clone, Debug)]
struct Zipf {
    ranks: f64,
    alpha: f64,
    /// The integral at the left end of the first bar and at the right end of the last.
    area_first: f64,
    area_last: f64,
    /// A point that lies this close to its rank needs no comparison.
    sure: f64,
}

impl Zipf {
    fn new(ranks: u64, alpha: f64) -> Zipf {
        let mut zipf = Zipf { ranks: ranks as f64, alpha, area_first: 0.0, area_last: 0.0, sure: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(ranks as f64 + 0.5);
        zipf.sure = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// A rank from 1 on.
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.area_last + rng.unit_f64() * (self.area_first - self.area_last);
            let x = self.area_inverse(area);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.sure || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        (-self.alpha * x.ln()).exp()
    }

    /// The integral of the height from 1 to `x`: `(x^(1-alpha) - 1) / (1 - alpha)`, which is `ln x` where alpha is 1.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.alpha) * log) * log
    }

    fn area_inverse(&self, area: f64) -> f64 {
        // Rounding may lead just below the end of the domain.
        let t = (area * (1.0 - self.alpha)).max(-1.0);
        (log1p_over(t) * area).exp()
    }
}

/// `(e^x - 1) / x`, steady around 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`, steady around 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Counter {
        Counter::Own { next: 0, stride: 1 }
    }

    /// Draws `draws` numbers of `0..expected.len()` and returns chi-square against the expected probabilities.
    fn chi_square(distribution: Distribution, expected: &[f64], draws: u32) -> f64 {
        let maximum = expected.len() as u64 - 1;
        let sampler = Sampler::new(distribution, 0, maximum).unwrap();
        let (mut rng, mut counter) = (Rng::new(0xda27), own());
        let mut seen = vec![0_u32; expected.len()];
        for _ in 0..draws {
            seen[sampler.draw(&mut rng, &mut counter) as usize] += 1;
        }
        let total: f64 = expected.iter().sum();
        let parts = seen.iter().zip(expected).map(|(&seen, &weight)| {
            let wanted = weight / total * f64::from(draws);
            (f64::from(seen) - wanted).powi(2) / wanted
        });
        parts.sum()
    }

    /// Chi-square with k degrees of freedom has mean k and deviation sqrt(2k): five deviations are far beyond chance, and the seed is
    /// fixed.
    fn assert_fits(distribution: Distribution, expected: &[f64]) {
        let degrees = expected.len() as f64 - 1.0;
        let chi = chi_square(distribution, expected, 200_000);
        assert!(
            chi < degrees + 5.0 * (2.0 * degrees).sqrt(),
            "{distribution:?}: chi-square {chi} for {degrees}"
        );
    }

    #[test]
    fn uniform_fits() {
        assert_fits(Distribution::Uniform, &[1.0; 100]);
    }

    #[test]
    fn zipfian_fits_for_every_exponent() {
        for alpha in [0.3, 0.99, 1.0, 1.5, 3.0] {
            let ranks = if alpha > 2.0 { 20 } else { 100 };
            let expected: Vec<f64> = (1..=ranks).map(|rank| f64::from(rank).powf(-alpha)).collect();
            assert_fits(Distribution::Zipfian { alpha }, &expected);
        }
        let one = Sampler::new(Distribution::Zipfian { alpha: 0.99 }, 7, 7).unwrap();
        assert_eq!(one.draw(&mut Rng::new(1), &mut own()), 7);
    }

    #[test]
    fn normal_fits() {
        let (mean, stddev) = (49.5, 100.0 / 6.0);
        // The bar of each number is narrow beside the deviation: its middle stands for it (third order errors).
        let bar = |x: f64| {
            (0..100)
                .map(|i| (-((x - 0.495 + f64::from(i) / 100.0 - mean) / stddev).powi(2) / 2.0).exp())
                .sum()
        };
        let expected: Vec<f64> = (0..100).map(|x| bar(f64::from(x))).collect();
        assert_fits(Distribution::Normal { stddev: 0.0 }, &expected);
    }

    #[test]
    fn other_distributions_do_not_fit() {
        let zipf: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-0.9)).collect();
        assert!(chi_square(Distribution::Zipfian { alpha: 0.99 }, &zipf, 200_000) > 300.0);
        assert!(chi_square(Distribution::Normal { stddev: 0.0 }, &[1.0; 100], 200_000) > 10_000.0);
    }

    #[test]
    fn sequences_leave_nothing_out() {
        let sampler = Sampler::new(Distribution::Sequential, 10, 14).unwrap();
        let mut rng = Rng::new(1);
        let mut counter = own();
        let first: Vec<u64> = (0..7).map(|_| sampler.draw(&mut rng, &mut counter)).collect();
        assert_eq!(first, [10, 11, 12, 13, 14, 10, 11]);
        let shared = Arc::new(AtomicU64::new(0));
        let mut two = [Counter::Shared(Arc::clone(&shared)), Counter::Shared(shared)];
        let mut all: Vec<u64> =
            [0, 1, 1, 0, 1].map(|who: usize| sampler.draw(&mut rng, &mut two[who])).to_vec();
        all.sort_unstable();
        assert_eq!(all, [10, 11, 12, 13, 14]);
    }

    #[test]
    fn empty_ranges_are_refused() {
        assert!(Sampler::new(Distribution::Uniform, 5, 4).unwrap_err().to_string().contains("no key"));
        assert!(Sampler::new(Distribution::Uniform, 0, u64::MAX).is_err());
        assert!(Sampler::new(Distribution::Zipfian { alpha: 0.0 }, 0, 4).is_err());
    }
}
