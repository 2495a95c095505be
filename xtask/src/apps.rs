//! `cargo xtask apps`: the applications of `tests/apps`, each installed into `target/apps` and run with its own workers and processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fail::Result;
use crate::programs::{self, Entry};
use crate::server::Program;
use crate::shell;
use crate::tally::Tally;

/// What the Python programs use, installed at once.
const PACKAGES: &[&str] = &["redis>=8,<9", "rq>=2,<3", "celery[redis]>=5,<6", "dramatiq[redis]>=2,<3"];

const APPS: &[Entry] = &[
    Entry { name: "rq", needs: "python3", prepare: |dir| python(dir, "rq_app.py") },
    Entry { name: "celery", needs: "python3", prepare: |dir| python(dir, "celery_app.py") },
    Entry { name: "dramatiq", needs: "python3", prepare: |dir| python(dir, "dramatiq_app.py") },
    Entry { name: "bullmq", needs: "npm", prepare: |dir| node(dir, "bullmq.mjs") },
    Entry { name: "rate-limiter", needs: "python3", prepare: |dir| python(dir, "rate_limiter_app.py") },
    Entry { name: "lock", needs: "python3", prepare: |dir| python(dir, "lock_app.py") },
    Entry { name: "redlock", needs: "npm", prepare: |dir| node(dir, "redlock.mjs") },
    Entry { name: "go-redis", needs: "go", prepare: |dir| go(dir, "go-redis") },
    Entry { name: "valkey-go", needs: "go", prepare: |dir| go(dir, "valkey-go") },
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

/// A Node program of `tests/apps`, ready but for its arguments.
pub fn node(dir: &Path, program: &str) -> Result<Command> {
    let checks = shell::root().join("tests/clients/node/checks.mjs");
    programs::node(dir, &sources("node"), program, Some(&checks))
}

fn go(dir: &Path, library: &str) -> Result<Command> {
    let mut command = programs::go(dir, &sources("go"))?;
    command.arg(library);
    Ok(command)
}
