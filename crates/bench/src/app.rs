//! The program from its first word to its exit code: parses, runs the tests of the plan one after the other, and hands each record to
//! whoever shows it. Exits with 0, with 1 if replies were errors or a check failed, with 2 if there are no figures to be had.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::{Dialect, Options, dialect, one_line};
use crate::compare;
use crate::engine;
use crate::fault::{Fault, Result};
use crate::output::{self, OutputArgs, csv};
use crate::plan::Plan;
use crate::record::Run;
use crate::suite;
use crate::watch::Watch;

/// Stands below the options.
const ORIGINS: &str = "[v] [d] [m]: an option of valkey-benchmark, dfly_bench, memtier_benchmark, spelt otherwise where it says so; published command lines
can be pasted. Where the three disagree about a meaning or a default --dialect decides.";

/// A load generator that tells the truth: closed and open loops, latency from the intended moment, replies checked.
#[derive(Parser, Debug)]
#[command(
    name = "darter-bench",
    version,
    disable_help_flag = true,
    after_help = ORIGINS,
    override_usage = "darter-bench [OPTIONS] [--] [COMMAND ARGS...]\n       darter-bench compare --target NAME=HOST:PORT... [OPTIONS] [--] [COMMAND ARGS...]\n       darter-bench suite NAME [OPTIONS]"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Run everything so many times [m]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "The load")]
    run_count: u32,
    /// Run everything again and again until it is interrupted; files then have the last time [v]
    #[arg(short = 'l', help_heading = "The load")]
    endless: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// This text
    #[arg(long, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match run(words) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("darter-bench: {fault}");
            ExitCode::from(2)
        }
    }
}

fn run(words: Vec<String>) -> Result<ExitCode> {
    match words.get(1).map(String::as_str) {
        Some("compare") => return compare::main(words),
        Some("suite") => return suite::main(words),
        _ => {}
    }
    let command_line = shown(&words);
    let Some((mut cli, matches)) = parse::<Cli>(words)? else { return Ok(ExitCode::SUCCESS) };
    cli.options.weigh(&matches)?;
    let mut plan = cli.options.plan(&command_line)?;
    let interrupted = interrupted()?;
    let form = csv_form(&cli.options, &matches);
    let mut watch = output::watcher(&cli.output, form);
    let mut runs = Vec::new();
    let mut rounds = 0;
    while rounds == 0 || (cli.endless || rounds < cli.run_count) && !interrupted.load(Ordering::Relaxed) {
        if cli.endless {
            runs.clear();
        }
        runs.extend(run_all(&plan, &mut *watch, &interrupted, |_| {})?);
        // Keys that are there need not be written again.
        plan.populate = None;
        rounds += 1;
    }
    drop(watch);
    output::write_files(&cli.output, form, &runs)?;
    Ok(exit_code(&runs))
}

/// Parses words that begin with the program's name; nothing if they asked for help or the version, which has been printed.
pub fn parse<C: CommandFactory + FromArgMatches>(words: Vec<String>) -> Result<Option<(C, ArgMatches)>> {
    let matches = match C::command().try_get_matches_from(dialect::spell(words)) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => {
            // A closed pipe is not worth a word.
            let _ = error.print();
            return Ok(None);
        }
        Err(error) => return Err(one_line(&error)),
    };
    let options = C::from_arg_matches(&matches).map_err(|error| one_line(&error))?;
    Ok(Some((options, matches)))
}

/// The columns of `--csv`: those of valkey-benchmark where its dialect was asked for by name.
pub fn csv_form(options: &Options, matches: &ArgMatches) -> csv::Form {
    let asked = matches.value_source("dialect") == Some(ValueSource::CommandLine);
    if asked && options.dialect == Dialect::Valkey { csv::Form::Valkey } else { csv::Form::Darter }
}

/// What the process says of its runs: 1 if replies were errors or a check failed.
pub fn exit_code(runs: &[Run]) -> ExitCode {
    if runs.iter().any(Run::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Populates if the plan says so, and runs its tests until one is interrupted. `done` sees each record as soon as it is complete.
pub fn run_all(
    plan: &Plan,
    watch: &mut dyn Watch,
    interrupted: &AtomicBool,
    mut done: impl FnMut(&Run),
) -> Result<Vec<Run>> {
    raise_limit(plan);
    if let Some(keys) = plan.populate {
        let run = engine::populate(plan, keys, watch, interrupted)?;
        if let Some((text, _)) = run.errors.iter().next() {
            return Err(Fault::new(format!("{} cannot be populated: {text}", plan.address)));
        }
    }
    let mut runs = Vec::new();
    for test in &plan.tests {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let run = engine::run(plan, test, watch, interrupted)?;
        done(&run);
        runs.push(run);
    }
    Ok(runs)
}

/// A flag that Ctrl-C raises. A second Ctrl-C ends the process at once.
pub fn interrupted() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let register = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)));
        register.map_err(|error| Fault::new(format!("signals cannot be caught: {error}")))?;
    }
    Ok(flag)
}

/// Lets the process have a descriptor for each connection, as far as the system allows it; opening tells what is missing.
fn raise_limit(plan: &Plan) {
    const OTHERS: u64 = 256;
    let wanted = plan.connections as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

/// The command line for records: without the password.
#[must_use]
pub fn shown(words: &[String]) -> String {
    const SECRETS: &[&str] = &["-a", "--a", "--password", "--authenticate", "-u", "--u", "--uri"];
    let mut shown = Vec::new();
    let mut secret = false;
    for (index, word) in words.iter().enumerate() {
        let option = word.split('=').next().unwrap_or_default();
        let text = if index == 0 {
            "darter-bench".to_string()
        } else if std::mem::take(&mut secret) {
            "***".to_string()
        } else if SECRETS.contains(&option) {
            secret = option.len() == word.len();
            if secret { word.clone() } else { format!("{option}=***") }
        } else if word.starts_with("-a") && !word.starts_with("--")
            || word.starts_with("-u") && !word.starts_with("--")
        {
            format!("{}***", &word[..2])
        } else if word.contains([' ', ';', '\'', '"']) || word.is_empty() {
            format!("'{word}'")
        } else {
            word.clone()
        };
        shown.push(text);
    }
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&words("x -a secret -n 5")), "darter-bench -a *** -n 5");
        assert_eq!(shown(&words("x --password=secret -asecret")), "darter-bench --password=*** -a***");
        assert_eq!(shown(&["x".into(), "GET a".into()]), "darter-bench 'GET a'");
    }
}
