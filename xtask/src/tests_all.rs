//! `cargo xtask test`: every stage that continuous integration runs, one after another, and one closing line for all of them.
//!
//! A stage that cannot run because a tool is missing says so; under `CI=true` that is a failure.

use std::time::Instant;

use crate::fail::Result;
use crate::server::Program;
use crate::tally::Tally;
use crate::{apps, clients, differential, golden, robustness, sanitize, shell, tidy};

/// What a stage gets.
struct Context {
    /// Darter, built once for all end-to-end stages.
    darter: Program,
}

/// A stage: its name for `--only`, and what runs.
type Stage = (&'static str, fn(&Context) -> Result<Tally>);

const STAGES: &[Stage] = &[
    ("tidy", |_| tidy::run(&[])),
    ("unit", |_| unit()),
    ("golden", |cx| golden::stage(&cx.darter)),
    ("robustness", |cx| robustness::stage(&cx.darter)),
    ("differential", |cx| differential::stage(&cx.darter)),
    ("clients", |cx| clients::stage(&cx.darter)),
    ("apps", |cx| apps::stage(&cx.darter)),
    ("sanitize", |_| sanitize::run(&[])),
];

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    let only = match words {
        [] => None,
        [option, name] if option == "--only" => Some(name.as_str()),
        _ => return Err("cargo xtask test [--only STAGE]".into()),
    };
    if let Some(name) = only.filter(|name| STAGES.iter().all(|(stage, _)| stage != name)) {
        let known: Vec<_> = STAGES.iter().map(|(name, _)| *name).collect();
        return Err(format!("no stage {name}; there are: {}", known.join(", ")).into());
    }
    let mut total = Tally::default();
    let mut cx = None;
    for (name, stage) in STAGES.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        println!("=== {name}");
        let started = Instant::now();
        let tally = context(&mut cx, name).and_then(stage).unwrap_or_else(|error| {
            println!("FAILED  {name}: {error}");
            Tally { passed: 0, failed: 1 }
        });
        println!(
            "=== {name}: {} passed, {} failed, {:.0} s",
            tally.passed,
            tally.failed,
            started.elapsed().as_secs_f64()
        );
        total += tally;
    }
    Ok(total)
}

/// The context, with Darter built when the first stage that talks to it begins. The others need none.
fn context<'a>(cx: &'a mut Option<Context>, stage: &str) -> Result<&'a Context> {
    const WITHOUT_SERVER: Context = Context { darter: Program::Darter(std::path::PathBuf::new()) };
    if ["tidy", "unit", "sanitize"].contains(&stage) {
        return Ok(const { &WITHOUT_SERVER });
    }
    if cx.is_none() {
        *cx = Some(Context { darter: Program::darter()? });
    }
    Ok(cx.as_ref().expect("it was put there above"))
}

/// Unit and model tests of every crate.
fn unit() -> Result<Tally> {
    cargo_test(shell::cargo().args(["test", "--workspace", "--no-fail-fast", "--quiet"]))
}

/// Runs `cargo test` and adds up what its test binaries report.
pub fn cargo_test(command: &mut std::process::Command) -> Result<Tally> {
    let mut tally = Tally::default();
    let succeeded = shell::lines(command, |line| {
        println!("{line}");
        if let Some(result) = line.strip_prefix("test result: ") {
            let count = |what: &str| {
                let before = result.split_once(what).map(|(before, _)| before.trim_end());
                before.and_then(|text| text.rsplit([' ', '.']).next()?.parse().ok()).unwrap_or(0)
            };
            tally += Tally { passed: count(" passed"), failed: count(" failed") };
        }
    })?;
    if !succeeded && tally.failed == 0 {
        return Err("cargo test did not get to its end".into());
    }
    if tally == Tally::default() {
        return Err("no test ran".into());
    }
    Ok(tally)
}
