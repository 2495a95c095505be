//! `cargo xtask tidy`: the rules of STYLE.md that a program can check. Each check has one line of outcome and says where.

mod layers;
mod links;
mod source;

use crate::fail::Result;
use crate::shell;
use crate::tally::Tally;

/// Violations printed per check.
const SHOWN_MAX: usize = 20;

/// A check that reads files: its name and what runs.
type Check = (&'static str, fn() -> Found);

/// What a check finds wrong, one text per place.
type Found = Result<Vec<String>>;

/// The checks that read files, in order of speed.
const CHECKS: &[Check] = &[
    ("a crate depends only on crates below it", layers::check),
    ("every source file opens with its purpose", source::purposes),
    ("files have at most 1000 lines, tests not counted", source::lengths),
    ("unsafe code lives on its islands", source::unsafe_islands),
    ("no path or name of one machine in the tree", source::machine_paths),
    ("links in documents lead somewhere", links::check),
];

/// Runs the command. `--fast` leaves out what compiles.
pub fn run(words: &[String]) -> Result<Tally> {
    let fast = match words {
        [] => false,
        [word] if word == "--fast" => true,
        _ => return Err("cargo xtask tidy [--fast]: --fast leaves out clippy".into()),
    };
    let mut tally = Tally::default();
    tally.check("format (cargo fmt)", format(), true);
    for (name, check) in CHECKS {
        tally.check(name, outcome(check()), true);
    }
    if !fast {
        tally.check("lints (cargo clippy)", clippy(), true);
    }
    Ok(tally)
}

fn outcome(found: Found) -> std::result::Result<(), String> {
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Ok(());
    }
    let shown = found.iter().take(SHOWN_MAX).map(|text| format!("\n    {text}")).collect::<String>();
    let more = found.len().saturating_sub(SHOWN_MAX);
    Err(if more > 0 { format!("{shown}\n    and {more} more") } else { shown })
}

fn format() -> std::result::Result<(), String> {
    shell::output(shell::cargo().args(["fmt", "--all", "--check", "--", "-l"]))
        .map(drop)
        .map_err(|error| error.to_string())
}

fn clippy() -> std::result::Result<(), String> {
    let mut command = shell::cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]);
    shell::run(&mut command).map_err(|error| error.to_string())
}
