//! `darter-bench suite NAME`: runs the loads of a preset against one server or several, and prints its table.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Parser;
use reactor::affinity;

use super::{Mode, PRESETS, Preset, Step, topology_files};
use crate::app::{csv_form, exit_code, interrupted, parse, shown};
use crate::args::Options;
use crate::fault::{Fault, Result};
use crate::output::{self, OutputArgs, csv};
use crate::plan::Plan;
use crate::record::Run;
use crate::target::Target;

/// A published comparison. Options of the load that are given win over those of the suite.
#[derive(Parser, Debug)]
#[command(
    name = "darter-bench suite",
    disable_help_flag = true,
    args_override_self = true,
    override_usage = "darter-bench suite NAME [--scale F] [--target NAME=HOST:PORT]... [OPTIONS]"
)]
struct Cli {
    /// Multiplies keys, requests and times of the suite
    #[arg(long, value_name = "F", default_value_t = 1.0, help_heading = "The suite")]
    scale: f64,
    /// A server; without any, the one of -h and -p
    #[arg(long, value_name = "NAME=HOST:PORT", help_heading = "The suite")]
    target: Vec<String>,
    /// What the servers form, for the suite topology
    #[arg(long, value_enum, default_value = "replication", help_heading = "The suite")]
    mode: Mode,
    /// Where the suite topology writes its three files
    #[arg(long, value_name = "FOLDER", default_value = ".", help_heading = "The suite")]
    out: PathBuf,
    /// FLUSHALL on each server before the suite begins
    #[arg(long, help_heading = "The suite")]
    flush: bool,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    output: OutputArgs,
    /// This text
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the subcommand; `words` begin with the program's name and `suite`.
pub fn main(words: Vec<String>) -> Result<ExitCode> {
    let name = words.get(2).map_or("", String::as_str);
    if name == "--help" {
        let _ = parse::<Cli>(vec!["darter-bench".into(), "--help".into()])?;
        println!("\nSuites:\n{}", list());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(preset) = Preset::named(name) else {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(Fault::new(format!("there is no suite {name:?}: choose from {}", names.join(", "))));
    };
    let command_line = shown(&words);
    let own = words[3..].to_vec();
    let Some((cli, form)) = understand(&[], &own)? else { return Ok(ExitCode::SUCCESS) };
    if !(cli.scale > 0.0 && cli.scale.is_finite()) {
        return Err(Fault::new(format!("--scale is a number above 0, and not {}", cli.scale)));
    }
    let mut plans = Vec::new();
    for step in preset.steps(cli.scale, cli.mode) {
        let Some((with_step, _)) = understand(&step.words, &own)? else { return Ok(ExitCode::SUCCESS) };
        plans.push((step, with_step.options.plan(&command_line)?));
    }
    let runs = run(preset, &plans, &cli, form)?;
    let table = preset.table(&runs);
    if !cli.output.stdout_is_taken() {
        println!("suite {} at scale {}\n\n{table}", preset.name, cli.scale);
    }
    let runs: Vec<Run> = runs.into_iter().map(|(run, _)| run).collect();
    if preset.name == "topology" {
        write_topology(&cli, &runs, &table)?;
    }
    output::write_files(&cli.output, form, &runs)?;
    Ok(exit_code(&runs))
}

/// The words of a step and those of the command line, which win.
fn understand(step: &[String], own: &[String]) -> Result<Option<(Cli, csv::Form)>> {
    // One thread seldom saturates a server with several; half of the machine is left to a server that runs on it.
    let threads = affinity::cores().usable().div_ceil(2).to_string();
    let first = ["darter-bench".to_string(), "--threads".to_string(), threads];
    let words = first.into_iter().chain(step.iter().cloned()).chain(own.iter().cloned()).collect();
    let Some((mut cli, matches)) = parse::<Cli>(words)? else { return Ok(None) };
    cli.options.weigh(&matches)?;
    let form = csv_form(&cli.options, &matches);
    Ok(Some((cli, form)))
}

/// Every step against every target, the targets in turns. Each run with the members of its step.
fn run(preset: &Preset, plans: &[(Step, Plan)], cli: &Cli, form: csv::Form) -> Result<Vec<(Run, u64)>> {
    let mut targets = Target::all(&cli.target)?;
    if let (true, Some((_, plan))) = (targets.is_empty(), plans.first()) {
        targets.push(Target { name: plan.address.to_string(), address: plan.address.clone() });
    }
    let interrupted = interrupted()?;
    let mut watch = output::watcher(&cli.output, form);
    let mut done = Vec::new();
    for (place, (step, plan)) in plans.iter().enumerate() {
        for target in &targets {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(done);
            }
            let flush = cli.flush && place == 0;
            for mut run in target.run(plan.clone(), flush, &mut *watch, &interrupted)? {
                run.setup.workload = preset.name.to_string();
                if let Some(title) = &step.title {
                    run.test.clone_from(title);
                }
                done.push((run, step.members));
            }
        }
    }
    Ok(done)
}

fn write_topology(cli: &Cli, runs: &[Run], table: &str) -> Result<()> {
    std::fs::create_dir_all(&cli.out)
        .map_err(|error| Fault::new(format!("{}: {error}", cli.out.display())))?;
    for (name, text) in topology_files(runs, table, cli.mode) {
        output::write(&cli.out.join(name), &text)?;
    }
    Ok(())
}

fn list() -> String {
    PRESETS.iter().map(|preset| format!("  {:<17} {}\n", preset.name, preset.what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_every_suite_is_a_plan() {
        for preset in PRESETS {
            for step in preset.steps(0.001, Mode::Replication) {
                let (cli, _) = understand(&step.words, &[]).unwrap().unwrap();
                let plan = cli.options.plan("x").unwrap();
                assert!(plan.requests.is_some() || plan.duration.is_some(), "{}", preset.name);
            }
        }
    }

    #[test]
    fn options_of_the_command_line_win() {
        let step = &Preset::named("zadd-nx").unwrap().steps(1.0, Mode::Cluster)[0];
        let own: Vec<String> = "-P 10 --threads 3 -p 7000".split(' ').map(str::to_string).collect();
        let (cli, _) = understand(&step.words, &own).unwrap().unwrap();
        let plan = cli.options.plan("x").unwrap();
        assert_eq!((plan.pipeline, plan.threads, plan.connections), (10, 3, 10));
        assert!(plan.address.to_string().ends_with(":7000"));
    }

    #[test]
    fn a_wrong_name_lists_the_right_ones() {
        let words = ["x", "suite", "zad"].map(str::to_string).to_vec();
        let fault = main(words).unwrap_err().to_string();
        assert!(fault.contains("\"zad\"") && fault.contains("zadd256, zset-one"), "{fault}");
        let words = ["x", "suite", "mixed", "--scale", "0"].map(str::to_string).to_vec();
        assert!(main(words).unwrap_err().to_string().contains("--scale"));
    }
}
