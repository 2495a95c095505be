//! `cargo xtask clients`: the smoke tests of `tests/clients`, one per client library, each installed into `target/clients`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fail::Result;
use crate::programs::{self, Entry};
use crate::server::Program;
use crate::shell;
use crate::tally::Tally;

const LIBRARIES: &[Entry] = &[
    Entry { name: "redis-py", needs: "python3", prepare: |dir| python(dir, "redis", "redis>=8,<9") },
    Entry { name: "valkey-py", needs: "python3", prepare: |dir| python(dir, "valkey", "valkey>=6,<7") },
    Entry { name: "ioredis", needs: "npm", prepare: |dir| node(dir, "ioredis.mjs") },
    Entry { name: "node-redis", needs: "npm", prepare: |dir| node(dir, "node-redis.mjs") },
    Entry { name: "go-redis", needs: "go", prepare: |dir| programs::go(dir, &sources("go")) },
    Entry { name: "jedis", needs: "mvn", prepare: |dir| programs::java(dir, &sources("java"), "Smoke") },
];

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    programs::chosen(LIBRARIES, "clients", words)
}

/// All libraries, as a stage of `cargo xtask test`.
pub fn stage(program: &Program) -> Result<Tally> {
    Ok(programs::run_all(LIBRARIES, "clients", program, &|_| true))
}

fn sources(folder: &str) -> PathBuf {
    shell::root().join("tests/clients").join(folder)
}

fn python(dir: &Path, module: &str, requirement: &str) -> Result<Command> {
    let mut command = programs::python(dir, &[requirement])?;
    command.arg(sources("python").join("smoke.py")).arg(module);
    Ok(command)
}

fn node(dir: &Path, program: &str) -> Result<Command> {
    programs::node(dir, &sources("node"), program, None)
}
