//! The program from its first word to its exit code: parses, runs the tests of the plan one after the other, and hands each record to
//! whoever shows it. Exits with 0, with 1 if replies were errors or a check failed, with 2 if there are no figures to be had.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory, FromArgMatches, Parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::{Options, dialect, one_line};
use crate::engine;
use crate::fault::{Fault, Result};
use crate::plan::Plan;
use crate::record::Run;
use crate::watch::{Nobody, Watch};

/// A load generator that tells the truth: closed and open loops, latency from the intended moment, replies checked.
#[derive(Parser, Debug)]
#[command(
    name = "darter-bench",
    version,
    disable_help_flag = true,
    override_usage = "darter-bench [OPTIONS] [--] [COMMAND ARGS...]"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// One line per test [v]
    #[arg(short, long)]
    quiet: bool,
    /// This text
    #[arg(long, action = clap::ArgAction::Help)]
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
    let command_line = shown(&words);
    let matches = match Cli::command().try_get_matches_from(dialect::spell(words)) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => {
            // Help and version; a closed pipe is not worth a word.
            let _ = error.print();
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(one_line(&error)),
    };
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| one_line(&error))?;
    cli.options.weigh(&matches)?;
    let plan = cli.options.plan(&command_line)?;
    let interrupted = interrupted()?;
    let runs = run_all(&plan, &mut Nobody, &interrupted, |run| println!("{}", line(run)))?;
    Ok(if runs.iter().any(Run::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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

/// One line about a run.
fn line(run: &Run) -> String {
    let p50_ms = run.corrected().value_at_quantile(0.5) as f64 / 1e6;
    let mut line = format!("{}: {:.2} requests per second, p50={p50_ms:.3} msec", run.test, run.per_second());
    for (text, count) in &run.errors {
        line.push_str(&format!("\n  {count} x {text}"));
    }
    line
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
