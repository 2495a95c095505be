//! `darter-bench compare`: one load against several servers, in turns, so that what happens to the machine meanwhile happens to all of
//! them; then medians and their ratios.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Parser;

use crate::app::{csv_form, exit_code, interrupted, parse, shown};
use crate::args::Options;
use crate::fault::{Fault, Result};
use crate::output::{self, OutputArgs};
use crate::record::Run;
use crate::stats::comparisons;
use crate::target::Target;

/// One load against several servers, in turns: medians, ratios, and one report with all of them.
#[derive(Parser, Debug)]
#[command(
    name = "darter-bench compare",
    disable_help_flag = true,
    args_override_self = true,
    override_usage = "darter-bench compare --target NAME=HOST:PORT --target NAME=HOST:PORT... [OPTIONS] [--] [COMMAND ARGS...]"
)]
struct Cli {
    /// A server; ratios are to the first one
    #[arg(long, value_name = "NAME=HOST:PORT", help_heading = "The comparison")]
    target: Vec<String>,
    /// Runs of the load against each server; medians are taken
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "The comparison")]
    rounds: usize,
    /// FLUSHALL before each run
    #[arg(long, help_heading = "The comparison")]
    flush: bool,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    output: OutputArgs,
    /// This text
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the subcommand; `words` begin with the program's name and `compare`.
pub fn main(words: Vec<String>) -> Result<ExitCode> {
    let command_line = shown(&words);
    let after_name = words.into_iter().enumerate().filter(|(place, _)| *place != 1).map(|(_, word)| word);
    let Some((mut cli, matches)) = parse::<Cli>(after_name.collect())? else { return Ok(ExitCode::SUCCESS) };
    cli.options.weigh(&matches)?;
    let targets = Target::all(&cli.target)?;
    if targets.is_empty() {
        return Err(Fault::new("compare needs servers: give --target NAME=HOST:PORT, once for each"));
    }
    if cli.rounds == 0 {
        return Err(Fault::new("--rounds 0 compares nothing: give at least 1"));
    }
    let plan = cli.options.plan(&command_line)?;
    let form = csv_form(&cli.options, &matches);
    let interrupted = interrupted()?;
    let mut watch = output::watcher(&cli.output, form);
    let mut runs: Vec<Run> = Vec::new();
    for (round, place) in turns(targets.len(), cli.rounds) {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let mut plan = plan.clone();
        // Keys that are there need not be written again.
        if round > 0 && !cli.flush {
            plan.populate = None;
        }
        runs.extend(targets[place].run(plan, cli.flush, &mut *watch, &interrupted)?);
    }
    drop(watch);
    if !cli.output.stdout_is_taken() {
        comparisons(&runs).iter().for_each(|comparison| println!("{}", comparison.text()));
    }
    output::write_files(&cli.output, form, &runs)?;
    Ok(exit_code(&runs))
}

/// The order of runs, as rounds and places of targets. The target that begins changes from round to round, so that none always meets a
/// machine warmed by another.
fn turns(targets: usize, rounds: usize) -> Vec<(usize, usize)> {
    let round = |round: usize| (0..targets).map(move |place| (round, (round + place) % targets));
    (0..rounds).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_take_turns() {
        assert_eq!(turns(2, 3), [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]);
        assert_eq!(turns(3, 2), [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 0)]);
    }

    #[test]
    fn what_cannot_be_compared_is_told_in_one_line() {
        let fault = |words: &str| {
            let words = words.split(' ').map(str::to_string).collect();
            main(words).unwrap_err().to_string()
        };
        assert!(fault("x compare -t set").contains("--target"));
        assert!(fault("x compare --target a=b:1 --rounds 0").contains("--rounds 0"));
        assert!(fault("x compare --target nonsense").contains("NAME=HOST:PORT"));
        assert!(fault("x compare --target a=b:1 --ratio 0:0").contains("0:0"));
    }
}
