//! Everything that a person or a program gets to see of runs. Each form is made from records alone; none measures anything.

pub mod csv;
pub mod hlog;
pub mod json;
mod lines;
mod live;
pub mod table;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Result};
use crate::record::Run;
use crate::report;
use crate::watch::Watch;

/// The options about what comes out.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "What comes out")]
pub struct OutputArgs {
    /// One line per test and nothing else [v]
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Comma-separated values on the standard output, or in a file; with --dialect valkey given in the columns of valkey-benchmark [v]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "-", value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// A file in the layout of memtier_benchmark, with all figures in addition; - is the standard output [m: --json-out-file]
    #[arg(long, alias = "json-out-file", value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// A report to look at: one file that needs no other
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The latencies of every second as a histogram log, as HdrHistogram's tools read it [m: --hdr-file-prefix]
    #[arg(long, alias = "hdr-file-prefix", value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// The summaries, in a file as well [m]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub out_file: Option<PathBuf>,
    /// Understood and not needed: latencies have three digits [v]
    #[arg(long, value_name = "DIGITS", hide = true)]
    pub precision: Option<u32>,
    /// Understood and not needed: distributions are in --json and --html [m]
    #[arg(long, hide = true)]
    pub hide_histogram: bool,
    /// Understood and not needed: all of them are in --json [m]
    #[arg(long, value_name = "LIST", hide = true)]
    pub print_percentiles: Option<String>,
    /// A line per second instead of the live page
    #[arg(long)]
    pub plain: bool,
}

impl OutputArgs {
    /// Whether the standard output belongs to a program, which must find nothing else there.
    pub fn stdout_is_taken(&self) -> bool {
        [&self.csv, &self.json, &self.html, &self.hlog, &self.out_file]
            .into_iter()
            .flatten()
            .any(|path| is_stdout(path))
    }
}

/// Who follows the runs: the live page on a terminal, else lines, or nobody where a program reads the output. `csv` is the form of
/// `--csv`.
pub fn watcher(args: &OutputArgs, csv: csv::Form) -> Box<dyn Watch> {
    if args.csv.as_deref().is_some_and(is_stdout) {
        return Box::new(lines::Csv::new(csv));
    }
    if args.stdout_is_taken() {
        return Box::new(crate::watch::Nobody);
    }
    if args.quiet {
        return Box::new(lines::Quiet);
    }
    let page = std::io::stdout().is_terminal() && !args.plain;
    let page = page.then(live::Page::open).and_then(|page| page.ok());
    match page {
        Some(page) => Box::new(page),
        None => Box::new(lines::Plain::default()),
    }
}

/// Writes the files that were asked for. The error names the file.
pub fn write_files(args: &OutputArgs, csv: csv::Form, runs: &[Run]) -> Result<()> {
    if let Some(path) = args.csv.as_deref().filter(|path| !is_stdout(path)) {
        let lines: String = runs.iter().map(|run| csv::line(csv, run, None)).collect();
        write(path, &format!("{}{lines}", csv::header(csv)))?;
    }
    if let Some(path) = &args.out_file {
        write(path, &runs.iter().map(table::summary).collect::<Vec<_>>().join("\n"))?;
    }
    if let Some(path) = &args.json {
        write(path, &json::document(runs))?;
    }
    if let Some(path) = &args.hlog {
        write(path, &hlog::log(runs))?;
    }
    if let Some(path) = &args.html {
        write(path, &report::page(runs))?;
    }
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a file, or to the standard output where the path is `-`.
pub fn write(path: &Path, text: &str) -> Result<()> {
    if is_stdout(path) {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(path, text).map_err(|error| Fault::new(format!("{}: {error}", path.display())))
}
