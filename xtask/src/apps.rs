//! `cargo xtask apps`: the applications of `tests/apps`, each installed into `target/apps` and run with its own workers and processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fail::Result;
use crate::programs::{self, Entry};
use crate::server::Program;
use crate::shell;
use crate::tally::Tally;

/// What the Python programs use, installed at once.
const PACKAGES: &[&str] = &["redis>=8,<9", "rq>=2,<3"];

const APPS: &[Entry] = &[
    Entry { name: "rq", needs: "python3", prepare: |dir| python(dir, "rq_app.py") },
    Entry { name: "jedis", needs: "mvn", prepare: |dir| programs::java(dir, &sources("java"), "JedisApp") },
    Entry {
        name: "lettuce",
        needs: "mvn",
        prepare: |dir| programs::java(dir, &sources("java"), "LettuceApp"),
    },
];

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    programs::chosen(APPS, "apps", words)
}

/// All applications, as a stage of `cargo xtask test`.
pub fn stage(program: &Program) -> Result<Tally> {
    Ok(programs::run_all(APPS, "apps", program, &|_| true))
}

fn sources(folder: &str) -> PathBuf {
    shell::root().join("tests/apps").join(folder)
}

fn python(dir: &Path, program: &str) -> Result<Command> {
    let mut command = programs::python(dir, PACKAGES)?;
    command.arg(sources("python").join(program));
    Ok(command)
}
