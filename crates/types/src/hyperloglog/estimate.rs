//! From how many registers have each value to an estimate: Ertl 2017, algorithm 6.
//!
//! The operations and their order decide the last bits of the result, and these whether it rounds as the peers' does: they stay as they are.

use super::{RANK_MAX, REGISTERS};

/// Values that 6 bits can have; an honest register has at most [`RANK_MAX`].
pub(super) const VALUES: usize = 64;

/// How many registers have each value.
pub(super) type Histogram = [u32; VALUES];

/// 1 / (2 ln 2), the constant for infinitely many registers.
#[expect(clippy::excessive_precision, reason = "all digits that are known to matter, and some more")]
const ALPHA: f64 = 0.721_347_520_444_481_703_680;

/// The estimate.
pub(super) fn of(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let share = |count: u32| f64::from(count) / registers;
    let mut sum = registers * tau((registers - f64::from(histogram[RANK_MAX])) / registers);
    for value in (1..RANK_MAX).rev() {
        sum += f64::from(histogram[value]);
        sum *= 0.5;
    }
    sum += registers * sigma(share(histogram[0]));
    (ALPHA * registers * registers / sum).round() as u64
}

/// x + sum over k of x^(2^k) * 2^(k-1); infinite at 1.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - sum over k of (1 - x^(2^-k))^2 * 2^-k) / 3; 0 at both ends.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x).powi(2) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}
