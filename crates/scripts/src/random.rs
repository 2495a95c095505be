//! `math.random`: the 48-bit linear congruential generator that scripts know, so that a seed gives the same numbers
//! everywhere (Knuth; the constants of `drand48`).

use crate::stack::{Fail, Results, Stack};
use crate::state::State;

/// The state of one virtual machine's generator.
pub(crate) struct Random(u64);

/// 48 bits.
const MASK: u64 = (1 << 48) - 1;

impl Default for Random {
    fn default() -> Random {
        let mut random = Random(0);
        random.seed(0);
        random
    }
}

impl Random {
    /// Starts over.
    pub(crate) fn seed(&mut self, seed: i32) {
        self.0 = u64::from(seed as u32) << 16 | 0x330e;
    }

    /// 31 bits.
    pub(crate) fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
        (self.0 >> 17) as i32
    }

    /// In `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        const MAX: i32 = i32::MAX;
        f64::from(self.next() % MAX) / f64::from(MAX)
    }
}

/// Puts `random` and `randomseed` into the table `math` of the globals at 1.
pub(crate) fn open(state: &mut State) {
    let mut stack = state.stack();
    stack.get_field(1, "math");
    stack.push_function(random);
    stack.set_field(-2, "random");
    stack.push_function(randomseed);
    stack.set_field(-2, "randomseed");
    state.set_top(1);
}

fn randomseed(stack: &mut Stack<'_>) -> Results {
    let seed = integer(stack, 1)?;
    stack.shared().random.seed(seed);
    Ok(0)
}

fn random(stack: &mut Stack<'_>) -> Results {
    let unit = stack.shared().random.unit();
    let (low, high, bad) = match stack.top() {
        0 => {
            stack.push_number(unit);
            return Ok(1);
        }
        1 => (1, integer(stack, 1)?, 1),
        2 => (integer(stack, 1)?, integer(stack, 2)?, 2),
        _ => return Err(Fail::text("wrong number of arguments")),
    };
    if low > high {
        return Err(Fail::Argument(bad, b"interval is empty".into()));
    }
    let count = f64::from(high) - f64::from(low) + 1.0;
    stack.push_number((unit * count).floor() + f64::from(low));
    Ok(1)
}

/// An argument cut to 32 bits.
fn integer(stack: &mut Stack<'_>, at: i32) -> Result<i32, Fail> {
    Ok(stack.number_argument(at)? as i64 as i32)
}
