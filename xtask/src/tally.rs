//! How many checks passed and failed; every stage of `cargo xtask test` ends with one of these.

use std::ops::AddAssign;

/// Counts of checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
}

impl Tally {
    /// Counts one check and prints its line: failures always, passes where `loud`.
    pub fn check(&mut self, name: &str, outcome: Result<(), String>, loud: bool) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                if loud {
                    println!("ok      {name}");
                }
            }
            Err(why) => {
                self.failed += 1;
                println!("FAILED  {name}: {why}");
            }
        }
    }

    /// Prints the closing line that scripts look for.
    pub fn closing(self) -> Self {
        println!("{} passed, {} failed", self.passed, self.failed);
        self
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}
