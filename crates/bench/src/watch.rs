//! What the load side tells whoever watches a run: the live page, the lines, nothing at all. The watcher decides nothing.

use std::time::Duration;

use crate::record::Run;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// The part that is done, 0 to 1; nothing where a run has no end.
    pub done: Option<f64>,
    /// Time left, estimated where requests bound the run.
    pub left: Option<Duration>,
    /// Still in the warm-up: nothing is recorded yet.
    pub warming_up: bool,
}

/// Follows one run after the other.
pub trait Watch {
    /// A run begins; its record is empty.
    fn began(&mut self, run: &Run);

    /// Called several times a second; `run` has all seconds that are complete.
    fn goes_on(&mut self, run: &Run, progress: Progress);

    /// A run is over; its record is complete.
    fn ended(&mut self, run: &Run);
}

/// Watches nothing.
pub struct Nobody;

impl Watch for Nobody {
    fn began(&mut self, _run: &Run) {}

    fn goes_on(&mut self, _run: &Run, _progress: Progress) {}

    fn ended(&mut self, _run: &Run) {}
}
