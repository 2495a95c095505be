//! `cargo xtask clients`: the smoke tests of `tests/clients`, one per client library, each installed into `target/clients`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fail::Result;
use crate::server::{Program, Server};
use crate::shell;
use crate::tally::Tally;

/// A library: its name, the program it cannot do without, and what makes a ready command out of it.
struct Library {
    name: &'static str,
    needs: &'static str,
    prepare: fn(&Path) -> Result<Command>,
}

const LIBRARIES: &[Library] = &[
    Library { name: "redis-py", needs: "python3", prepare: |dir| python(dir, "redis", "redis>=8,<9") },
    Library { name: "valkey-py", needs: "python3", prepare: |dir| python(dir, "valkey", "valkey>=6,<7") },
    Library { name: "ioredis", needs: "npm", prepare: |dir| node(dir, "ioredis.mjs") },
    Library { name: "node-redis", needs: "npm", prepare: |dir| node(dir, "node-redis.mjs") },
    Library { name: "go-redis", needs: "go", prepare: go },
    Library { name: "jedis", needs: "mvn", prepare: java },
];

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    let (program, filters) = Program::chosen(words)?;
    Ok(run_filtered(&program, &|name| {
        filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()))
    }))
}

/// All libraries, as a stage of `cargo xtask test`.
pub fn stage(program: &Program) -> Result<Tally> {
    Ok(run_filtered(program, &|_| true))
}

fn run_filtered(program: &Program, wanted: &dyn Fn(&str) -> bool) -> Tally {
    let mut tally = Tally::default();
    for library in LIBRARIES.iter().filter(|library| wanted(library.name)) {
        if shell::on_path(library.needs).is_none() {
            if shell::in_ci() {
                tally.check(library.name, Err(format!("{} is not on PATH", library.needs)), true);
            } else {
                println!("SKIPPED {}: {} is not on PATH", library.name, library.needs);
            }
            continue;
        }
        match smoke(library, program) {
            Ok(checks) => tally += checks,
            Err(error) => tally.check(library.name, Err(error.to_string()), true),
        }
    }
    tally
}

/// Installs a library and runs its program; counts the lines it prints.
fn smoke(library: &Library, program: &Program) -> Result<Tally> {
    let dir = shell::target().join("clients");
    std::fs::create_dir_all(&dir)?;
    let mut command = (library.prepare)(&dir)?;
    let words: &[&str] = &[];
    let mut server = Server::start(program, words)?;
    command.arg(server.address.port().to_string());
    let mut tally = Tally::default();
    let succeeded = shell::lines(&mut command, |line| {
        if let Some(name) = line.strip_prefix("ok ") {
            tally.check(name, Ok(()), false);
        } else if let Some(failure) = line.strip_prefix("not ok ") {
            let (name, why) = failure.rsplit_once(": ").unwrap_or((failure, ""));
            tally.check(name, Err(why.to_string()), true);
        } else {
            println!("        {line}");
        }
    })?;
    server.check_alive()?;
    if tally.passed + tally.failed == 0 || (!succeeded && tally.failed == 0) {
        return Err("its program ended before its last check".into());
    }
    println!("{}: {} checks passed, {} failed", library.name, tally.passed, tally.failed);
    Ok(tally)
}

fn sources(folder: &str) -> PathBuf {
    shell::root().join("tests/clients").join(folder)
}

fn python(dir: &Path, module: &str, requirement: &str) -> Result<Command> {
    let venv = dir.join("python");
    if !venv.join("bin/pip").exists() {
        shell::output(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let mut pip = Command::new(venv.join("bin/pip"));
    shell::output(pip.args(["install", "--quiet", "--disable-pip-version-check", requirement]))?;
    let mut command = Command::new(venv.join("bin/python"));
    command.arg(sources("python").join("smoke.py")).arg(module);
    Ok(command)
}

/// Node finds modules beside the program, so the programs are copied to where they are installed.
fn node(dir: &Path, program: &str) -> Result<Command> {
    let folder = dir.join("node");
    std::fs::create_dir_all(&folder)?;
    for file in shell::files(&sources("node"), &|_| true)? {
        std::fs::copy(&file, folder.join(file.file_name().unwrap_or_default()))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"]);
    shell::output(npm.current_dir(&folder))?;
    let mut command = Command::new("node");
    command.arg(folder.join(program));
    Ok(command)
}

fn go(dir: &Path) -> Result<Command> {
    let binary = dir.join("go/smoke");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&binary).arg(".").current_dir(sources("go"));
    go.env("GOMODCACHE", dir.join("go/modules")).env("GOFLAGS", "-modcacherw").env("GOTOOLCHAIN", "local");
    shell::output(&mut go)?;
    Ok(Command::new(binary))
}

fn java(dir: &Path) -> Result<Command> {
    let folder = dir.join("java");
    std::fs::create_dir_all(&folder)?;
    let jars = folder.join("jars");
    if !jars.exists() {
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "--file"]).arg(sources("java").join("pom.xml"));
        maven.arg(format!("-Dmaven.repo.local={}", folder.join("repository").display()));
        maven.args(["dependency:copy-dependencies", "-Dmdep.prependGroupId=false"]);
        shell::output(maven.arg(format!("-DoutputDirectory={}", jars.display())))?;
    }
    let class_path = format!("{}/*:{}", jars.display(), folder.display());
    let mut compiler = Command::new("javac");
    compiler.args(["-d"]).arg(&folder).args(["-cp", &class_path]).arg(sources("java").join("Smoke.java"));
    shell::output(&mut compiler)?;
    let mut command = Command::new("java");
    command.args(["-cp", &class_path, "Smoke"]);
    Ok(command)
}
