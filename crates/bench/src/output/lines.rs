//! Runs as lines of text, for outputs that are no terminal: a line per second and the summary, a line per test, or comma-separated
//! values as the tests end.

use super::{csv, table};
use crate::record::Run;
use crate::watch::{Progress, Watch};

/// A second at the end of a run that is shorter than this says nothing about a rate.
const WIDTH_S_MIN: f64 = 0.25;

/// A line per second, then the summary.
#[derive(Default)]
pub struct Plain {
    /// Seconds that have been printed.
    printed: usize,
}

impl Plain {
    fn print(&mut self, run: &Run, seconds: usize) {
        for second in self.printed..seconds {
            println!("{}", table::second_line(run, second));
        }
        self.printed = seconds.max(self.printed);
    }
}

impl Watch for Plain {
    fn began(&mut self, _run: &Run) {
        self.printed = 0;
    }

    fn goes_on(&mut self, run: &Run, progress: Progress) {
        // The second in which a run ends may be a short one, which is known when it has ended.
        if progress.done.is_none_or(|done| done < 1.0) {
            self.print(run, run.seconds());
        }
    }

    fn ended(&mut self, run: &Run) {
        let last = run.seconds().saturating_sub(1);
        let is_short = run.width_s(last) < WIDTH_S_MIN && last > 0;
        self.print(run, if is_short { last } else { run.seconds() });
        if run.is_preparation() {
            println!("{}\n", table::one_line(run));
        } else {
            println!("\n{}", table::summary(run));
        }
    }
}

/// A line per test: `-q`.
pub struct Quiet;

impl Watch for Quiet {
    fn began(&mut self, _run: &Run) {}

    fn goes_on(&mut self, _run: &Run, _progress: Progress) {}

    fn ended(&mut self, run: &Run) {
        if !run.is_preparation() {
            println!("{}", table::one_line(run));
        }
    }
}

/// Comma-separated values, a line as each test ends.
pub struct Csv {
    form: csv::Form,
    has_header: bool,
}

impl Csv {
    /// In this form.
    pub fn new(form: csv::Form) -> Self {
        Self { form, has_header: false }
    }
}

impl Watch for Csv {
    fn began(&mut self, _run: &Run) {
        if !self.has_header {
            print!("{}", csv::header(self.form));
            self.has_header = true;
        }
    }

    fn goes_on(&mut self, _run: &Run, _progress: Progress) {}

    fn ended(&mut self, run: &Run) {
        if !run.is_preparation() {
            print!("{}", csv::line(self.form, run, None));
        }
    }
}
