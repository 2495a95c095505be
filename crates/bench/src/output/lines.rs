//! Runs as lines of text, for outputs that are no terminal: a line per second and the summary, a line per test, or comma-separated
//! values as the tests end.

use super::{csv, table};
use crate::record::Run;
use crate::watch::{Progress, Watch};

/// A line per second, then the summary.
#[derive(Default)]
pub struct Plain {
    /// Seconds that have been printed.
    printed: usize,
}

impl Watch for Plain {
    fn began(&mut self, _run: &Run) {
        self.printed = 0;
    }

    fn goes_on(&mut self, run: &Run, _progress: Progress) {
        for second in self.printed..run.seconds() {
            println!("{}", table::second_line(run, second));
        }
        self.printed = run.seconds();
    }

    fn ended(&mut self, run: &Run) {
        println!("\n{}", table::summary(run));
    }
}

/// A line per test: `-q`.
pub struct Quiet;

impl Watch for Quiet {
    fn began(&mut self, _run: &Run) {}

    fn goes_on(&mut self, _run: &Run, _progress: Progress) {}

    fn ended(&mut self, run: &Run) {
        println!("{}", table::one_line(run));
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
        print!("{}", csv::line(self.form, run, None));
    }
}
