//! When requests should leave in an open loop: a constant rate, or one that rises. Pure arithmetic; the clock is the caller's.

use std::time::Duration;

use crate::fault::{Fault, Result};

/// How requests are paced.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Pace {
    /// A connection sends as soon as its replies are there.
    Closed,
    /// So many requests per second, of all connections together, whatever comes back.
    Constant(f64),
    /// A rate that rises, or falls, evenly.
    Ramp(Ramp),
}

/// A rate that changes evenly with time.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Ramp {
    /// Requests per second at the beginning; above 0.
    pub from: f64,
    /// And at the end; above 0.
    pub to: f64,
    pub over: Duration,
}

impl Pace {
    /// The rate that reports show, the one at the end for a ramp; nothing for a closed loop.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match self {
            Pace::Closed => None,
            Pace::Constant(rate) => Some(*rate),
            Pace::Ramp(ramp) => Some(ramp.to),
        }
    }
}

/// The intended moments of an open loop's requests.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Requests per second at the beginning.
    from: f64,
    /// How much that rises per second, after the warm-up.
    rise: f64,
    warmup_s: f64,
}

impl Schedule {
    /// Nothing for a closed loop. A ramp goes at its first rate during the warm-up.
    #[must_use]
    pub fn new(pace: Pace, warmup: Duration) -> Option<Schedule> {
        let warmup_s = warmup.as_secs_f64();
        match pace {
            Pace::Closed => None,
            Pace::Constant(rate) => Some(Schedule { from: rate, rise: 0.0, warmup_s }),
            Pace::Ramp(ramp) => {
                let rise = (ramp.to - ramp.from) / ramp.over.as_secs_f64();
                Some(Schedule { from: ramp.from, rise, warmup_s })
            }
        }
    }

    /// When request number `index` should leave, in nanoseconds from the start of the warm-up; the end of time if the rate falls to zero
    /// before.
    #[must_use]
    pub fn at_ns(&self, index: u64) -> u64 {
        let in_warmup = self.from * self.warmup_s;
        let index = index as f64;
        if self.rise == 0.0 || index <= in_warmup {
            return (index / self.from * 1e9) as u64;
        }
        // index - in_warmup = from * t + rise / 2 * t^2, in a form that loses no digits for small rises.
        let rest = index - in_warmup;
        let root = self.from * self.from + 2.0 * self.rise * rest;
        if root < 0.0 {
            return u64::MAX;
        }
        let t = 2.0 * rest / (self.from + root.sqrt());
        ((self.warmup_s + t) * 1e9) as u64
    }

    /// Requests that belong to the warm-up.
    #[must_use]
    pub fn warmup_requests(&self) -> u64 {
        (self.from * self.warmup_s).ceil() as u64
    }
}

/// A number with an optional `k`, `m` or `g` (thousands) behind it.
pub fn rate(text: &str) -> Option<f64> {
    let (digits, factor) = match text.to_ascii_lowercase() {
        lower if lower.ends_with('k') => (lower.len() - 1, 1e3),
        lower if lower.ends_with('m') => (lower.len() - 1, 1e6),
        lower if lower.ends_with('g') => (lower.len() - 1, 1e9),
        lower => (lower.len(), 1.0),
    };
    let value: f64 = text[..digits].parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value * factor)
}

/// A time such as `60s`, `1.5m`, `200ms`, `50us`; a number alone is in seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let lower = text.to_ascii_lowercase();
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((lower.strip_suffix(unit)?, *seconds)));
    let (digits, seconds) = found.unwrap_or((&lower, 1.0));
    let value: f64 = digits.parse().ok()?;
    // A century is more than anyone waits for, and less than overflows.
    (0.0..3e9).contains(&(value * seconds)).then(|| Duration::from_secs_f64(value * seconds))
}

impl std::str::FromStr for Ramp {
    type Err = Fault;

    /// `10k:500k:60s`.
    fn from_str(text: &str) -> Result<Ramp> {
        let parts: Vec<&str> = text.split(':').collect();
        let ramp = match parts[..] {
            [from, to, over] => rate(from).zip(rate(to)).zip(duration(over)),
            _ => None,
        };
        let ramp = ramp.map(|((from, to), over)| Ramp { from, to, over });
        ramp.filter(|ramp| ramp.from >= 1.0 && ramp.to >= 1.0 && !ramp.over.is_zero()).ok_or_else(|| {
            Fault::new(format!(
                "--ramp is FROM:TO:TIME as in 10k:500k:60s, with rates of 1 or more, and not {text}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_even() {
        let schedule = Schedule::new(Pace::Constant(1000.0), Duration::from_secs(2)).unwrap();
        assert_eq!(
            (schedule.at_ns(0), schedule.at_ns(1), schedule.at_ns(5000)),
            (0, 1_000_000, 5_000_000_000)
        );
        assert_eq!(schedule.warmup_requests(), 2000);
        assert!(Schedule::new(Pace::Closed, Duration::ZERO).is_none());
    }

    #[test]
    fn a_ramp_rises_evenly() {
        let ramp: Ramp = "100:300:10s".parse().unwrap();
        let schedule = Schedule::new(Pace::Ramp(ramp), Duration::from_secs(1)).unwrap();
        // 100 in the warm-up, 2000 in the ramp, 750 of them in its first half (100 to 200 per second for five seconds).
        assert_eq!(schedule.at_ns(100), 1_000_000_000);
        assert!(schedule.at_ns(100 + 750).abs_diff(6_000_000_000) < 1000);
        assert!(schedule.at_ns(100 + 2000).abs_diff(11_000_000_000) < 1000);
        let gaps: Vec<u64> =
            (1..2000).map(|i| schedule.at_ns(100 + i + 1) - schedule.at_ns(100 + i)).collect();
        assert!(gaps.is_sorted_by(|a, b| a + 2 >= *b));
    }

    #[test]
    fn a_ramp_may_fall() {
        let ramp: Ramp = "300:100:10s".parse().unwrap();
        let schedule = Schedule::new(Pace::Ramp(ramp), Duration::ZERO).unwrap();
        assert!(schedule.at_ns(2000).abs_diff(10_000_000_000) < 1000);
        assert_eq!(schedule.at_ns(1_000_000), u64::MAX);
    }

    #[test]
    fn rates_and_times_are_read() {
        assert_eq!(
            (rate("10k"), rate("1.5M"), rate("7"), rate("x"), rate("-1")),
            (Some(1e4), Some(1.5e6), Some(7.0), None, None)
        );
        assert_eq!(duration("60s"), Some(Duration::from_secs(60)));
        assert_eq!(duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(duration("200us"), Some(Duration::from_micros(200)));
        assert_eq!(
            (duration("3"), duration("x"), duration("-1s")),
            (Some(Duration::from_secs(3)), None, None)
        );
        assert!("10k:500k".parse::<Ramp>().is_err() && "0:1:1s".parse::<Ramp>().is_err());
    }
}
