//! Test programs in other languages: how what they use is installed from package registries, and how they are run against a server.
//!
//! A program takes the server's port as its last argument, prints `ok NAME` or `not ok NAME: why` per check, and ends with a code other
//! than 0 when a check failed. It runs in a folder of its own and for a bounded time, and every process that it started must be gone when it ends.
//! Which programs there are is no matter of this file: `clients.rs` and `apps.rs` have the tables.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::fail::Result;
use crate::server::{Program, Server, scratch_dir, tail};
use crate::shell;
use crate::tally::Tally;

/// A program that runs longer than this is killed with all that it started.
const TIME_MAX: Duration = Duration::from_secs(180);
/// How long processes that were told to end may take after the program has ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The mark by which every process of a run is known, however far from its parents it has gone.
const MARK: &str = "DARTER_TEST_RUN";

/// A test program: its name, the tool it cannot do without, and what makes a ready command out of it, given the folder for what is installed.
pub struct Entry {
    pub name: &'static str,
    pub needs: &'static str,
    pub prepare: fn(&Path) -> Result<Command>,
}

/// Runs the programs whose names contain one of the words, or all, against the server that the words choose.
pub fn chosen(entries: &[Entry], folder: &str, words: &[String]) -> Result<Tally> {
    let (program, filters) = Program::chosen(words)?;
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()));
    Ok(run_all(entries, folder, &program, &wanted))
}

/// Runs the wanted programs one after another, each against a server of its own; what they install goes to `target/<folder>`.
pub fn run_all(entries: &[Entry], folder: &str, program: &Program, wanted: &dyn Fn(&str) -> bool) -> Tally {
    let dir = shell::target().join(folder);
    let mut tally = Tally::default();
    for entry in entries.iter().filter(|entry| wanted(entry.name)) {
        if shell::on_path(entry.needs).is_none() {
            if shell::in_ci() {
                tally.check(entry.name, Err(format!("{} is not on PATH", entry.needs)), true);
            } else {
                println!("SKIPPED {}: {} is not on PATH", entry.name, entry.needs);
            }
            continue;
        }
        match run(entry, program, &dir) {
            Ok(checks) => tally += checks,
            Err(error) => tally.check(entry.name, Err(error.to_string()), true),
        }
    }
    tally
}

/// Installs what a program needs and runs it; counts the lines it prints.
fn run(entry: &Entry, program: &Program, dir: &Path) -> Result<Tally> {
    fs::create_dir_all(dir)?;
    let mut command = (entry.prepare)(dir)?;
    let words: &[&str] = &[];
    let mut server = Server::start(program, words)?;
    let scratch = scratch_dir(entry.name)?;
    let mark = scratch.display().to_string();
    command.arg(server.address.port().to_string()).current_dir(&scratch);
    command.env(MARK, &mark).env("TMPDIR", &scratch).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stderr(File::create(scratch.join("stderr"))?);
    let started = Instant::now();
    let mut tally = Tally::default();
    let ended = bounded(&mark, || shell::lines(&mut command, |line| count(line, &mut tally)));
    let left = left_over(&mark);
    let stderr = fs::read_to_string(scratch.join("stderr")).unwrap_or_default();
    fs::remove_dir_all(&scratch)?;
    let succeeded = ended?;
    if !succeeded && !stderr.is_empty() {
        println!("        what it wrote to its standard error, at the end:\n{}", tail(&stderr, 40));
    }
    server.check_alive()?;
    if started.elapsed() >= TIME_MAX {
        return Err(format!("was stopped after {} s", TIME_MAX.as_secs()).into());
    }
    if tally.passed + tally.failed == 0 || (!succeeded && tally.failed == 0) {
        return Err("its program ended before its last check".into());
    }
    if let Some(left) = left {
        return Err(format!("processes were left over: {left}").into());
    }
    let (passed, failed, seconds) = (tally.passed, tally.failed, started.elapsed().as_secs_f64());
    println!("{}: {passed} checks passed, {failed} failed, {seconds:.1} s", entry.name);
    Ok(tally)
}

/// Takes account of one line that a program has printed.
fn count(line: &str, tally: &mut Tally) {
    if let Some(name) = line.strip_prefix("ok ") {
        tally.check(name, Ok(()), false);
    } else if let Some(failure) = line.strip_prefix("not ok ") {
        let (name, why) = failure.split_once(": ").unwrap_or((failure, ""));
        tally.check(name, Err(why.to_string()), true);
    } else {
        println!("        {line}");
    }
}

/// Runs `work`, and kills all that carry the mark when it takes longer than [`TIME_MAX`].
fn bounded<T>(mark: &str, work: impl FnOnce() -> T) -> T {
    let (done, over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if over.recv_timeout(TIME_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
                kill(&marked(mark));
            }
        });
        let outcome = work();
        drop(done);
        outcome
    })
}

/// The processes that are still there some time after their program has ended, which are killed then.
fn left_over(mark: &str) -> Option<String> {
    let since = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return None;
        }
        if since.elapsed() > END_TIMEOUT {
            let lines: Vec<_> = left.iter().map(|pid| command_line(*pid)).collect();
            kill(&left);
            return Some(lines.join("; "));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All processes whose environment has the mark, this one apart.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    pids.filter(is_marked).collect()
}

fn kill(pids: &[u32]) {
    if !pids.is_empty() {
        let _ = Command::new("kill").arg("-9").args(pids.iter().map(u32::to_string)).status();
    }
}

fn command_line(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid} {}", String::from_utf8_lossy(&words).replace('\0', " ").trim_end())
}

/// A Python that has these packages.
pub fn python(dir: &Path, requirements: &[&str]) -> Result<Command> {
    let venv = dir.join("python");
    if !venv.join("bin/pip").exists() {
        shell::output(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let mut pip = Command::new(venv.join("bin/pip"));
    shell::output(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(requirements))?;
    Ok(Command::new(venv.join("bin/python")))
}

/// A Node program out of a folder with a `package.json`. Node finds modules beside a program, so the folder is copied to where they are installed;
/// `shared` comes with it.
pub fn node(dir: &Path, sources: &Path, program: &str, shared: Option<&Path>) -> Result<Command> {
    let folder = dir.join("node");
    fs::create_dir_all(&folder)?;
    let files = shell::files(sources, &|_| true)?;
    for file in files.iter().map(PathBuf::as_path).chain(shared) {
        fs::copy(file, folder.join(file.file_name().unwrap_or_default()))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"]);
    shell::output(npm.current_dir(&folder))?;
    let mut command = Command::new("node");
    command.arg(folder.join(program));
    Ok(command)
}

/// The program of a Go module.
pub fn go(dir: &Path, sources: &Path) -> Result<Command> {
    let binary = dir.join("go/program");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&binary).arg(".").current_dir(sources);
    go.env("GOMODCACHE", dir.join("go/modules")).env("GOFLAGS", "-modcacherw").env("GOTOOLCHAIN", "local");
    shell::output(&mut go)?;
    Ok(Command::new(binary))
}

/// A Java class of a folder with a `pom.xml`, which names the libraries.
pub fn java(dir: &Path, sources: &Path, class: &str) -> Result<Command> {
    let folder = dir.join("java");
    let classes = folder.join("classes");
    fs::create_dir_all(&classes)?;
    let (jars, pom) = (folder.join("jars"), fs::read(sources.join("pom.xml"))?);
    let installed = folder.join("pom.xml");
    if fs::read(&installed).ok().as_ref() != Some(&pom) {
        let _ = fs::remove_dir_all(&jars);
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "--file"]).arg(sources.join("pom.xml"));
        maven.arg(format!("-Dmaven.repo.local={}", folder.join("repository").display()));
        maven.args(["dependency:copy-dependencies", "-Dmdep.prependGroupId=false"]);
        shell::output(maven.arg(format!("-DoutputDirectory={}", jars.display())))?;
        fs::write(&installed, &pom)?;
    }
    let class_path = format!("{}/*:{}", jars.display(), classes.display());
    let mut compiler = Command::new("javac");
    compiler.arg("-d").arg(&classes).args(["-cp", &class_path]);
    shell::output(compiler.args(shell::files(sources, &|file| shell::has_extension(file, "java"))?))?;
    let mut command = Command::new("java");
    command.args(["-cp", &class_path, class]);
    Ok(command)
}
