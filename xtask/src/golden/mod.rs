//! `cargo xtask golden`: every file of `tests/golden` against a running server. The format stands in `tests/golden/README.md`.
//!
//! Each file gets a server of its own, so that files cannot disturb each other and run in parallel. With `--bless` the server is
//! the reference and its replies are written into the files; Darter's replies are only ever compared.

mod coverage;
mod file;
mod play;

use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fail::Result;
use crate::server::{Program, Server};
use crate::shell;
use crate::tally::Tally;
use crate::wire::Client;

use self::file::File;

/// Files played at once: enough to keep two cores busy while servers start.
const PARALLEL: usize = 4;
/// Differences printed per file; the rest is only counted.
const DIFFERENCES_SHOWN_MAX: usize = 5;

const HELP: &str = "\
cargo xtask golden [--bless] [--reference] [--server HOST:PORT] [FILTER]...
  --bless             start a reference server (valkey-server or redis-server on PATH) and record its replies
  --reference         compare with a reference server instead of Darter: the files must hold for both
  --server HOST:PORT  use a server that runs already; it is flushed before every file
  FILTER              only files whose path contains one of these
";

/// The folder of the golden files.
pub fn folder() -> PathBuf {
    shell::root().join("tests/golden")
}

/// All golden files, in order.
pub fn files() -> Result<Vec<PathBuf>> {
    shell::files(&folder(), &|path| shell::has_extension(path, "txt"))
}

/// What the command line asks for.
#[derive(Default)]
struct Options {
    bless: bool,
    reference: bool,
    server: Option<String>,
    filters: Vec<String>,
}

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--bless" => options.bless = true,
            "--reference" => options.reference = true,
            "--server" => options.server = Some(words.next().ok_or("--server needs HOST:PORT")?.clone()),
            "--help" => {
                print!("{HELP}");
                return Ok(Tally::default());
            }
            flag if flag.starts_with("--") => return Err(format!("unknown option {flag}\n{HELP}").into()),
            filter => options.filters.push(filter.to_string()),
        }
    }
    if options.bless && options.server.is_some() {
        return Err("--bless starts its own reference server, it cannot be told another one".into());
    }
    let target = if options.bless || options.reference {
        Target::Start(Program::reference().ok_or("no valkey-server and no redis-server on PATH")?)
    } else if let Some(server) = &options.server {
        Target::Running(server.clone())
    } else {
        Target::Start(Program::darter()?)
    };
    let mut tally = play_all(&options, &target)?;
    if let (Target::Start(program @ Program::Darter(_)), []) = (&target, &options.filters[..]) {
        tally += coverage::check(program)?;
    }
    Ok(tally)
}

/// The golden files against Darter, and whether there is one for every command, as a stage of `cargo xtask test`.
pub fn stage(program: &Program) -> Result<Tally> {
    let mut tally = play_all(&Options::default(), &Target::Start(program.clone()))?;
    tally += coverage::check(program)?;
    Ok(tally)
}

/// Where the commands go.
enum Target {
    Start(Program),
    Running(String),
}

fn play_all(options: &Options, target: &Target) -> Result<Tally> {
    let wanted = |path: &Path| {
        let path = shell::short(path);
        options.filters.is_empty() || options.filters.iter().any(|f| path.contains(f.as_str()))
    };
    let files: Vec<PathBuf> = files()?.into_iter().filter(|path| wanted(path)).collect();
    if files.is_empty() {
        return Err("no golden file matches".into());
    }
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Tally::default());
    let parallel = if matches!(target, Target::Running(_)) { 1 } else { PARALLEL };
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = play_one(path, options.bless, target);
                    let mut total = total.lock().expect("no other thread has panicked while it printed");
                    *total += print_report(path, report);
                }
            });
        }
    });
    let total = total.into_inner().expect("no thread has panicked while it printed");
    println!("golden: {} files, {} replies as recorded, {} not", files.len(), total.passed, total.failed);
    Ok(total)
}

/// What came of a file: how many replies were as recorded, and a text for each that was not.
struct Report {
    matched: u64,
    differences: Vec<String>,
}

fn play_one(path: &Path, bless: bool, target: &Target) -> Result<Report> {
    let text = std::fs::read_to_string(path)?;
    let file = File::parse(&text)?;
    let mut server = None;
    let address = match target {
        Target::Start(program) => {
            let started = server.insert(Server::start(program, &file.server_words)?);
            started.address
        }
        Target::Running(name) => {
            if !file.server_words.is_empty() {
                return Ok(Report { matched: 0, differences: Vec::new() });
            }
            let address = name.to_socket_addrs()?.next().ok_or("the server's name has no address")?;
            Client::connect(address)?.call(&["FLUSHALL"])?;
            address
        }
    };
    let played = play::play(&file, address);
    if let Some(server) = &mut server {
        server.check_alive()?;
    }
    let played = played?;
    if bless {
        let blessed = file.with_replies(&played.replies);
        if blessed != text {
            std::fs::write(path, blessed)?;
            println!("blessed {}", shell::short(path));
        }
        return Ok(Report { matched: played.replies.len() as u64, differences: Vec::new() });
    }
    Ok(Report {
        matched: played.replies.len() as u64 - played.differences.len() as u64,
        differences: played.differences,
    })
}

fn print_report(path: &Path, report: Result<Report>) -> Tally {
    let path = shell::short(path);
    match report {
        Err(error) => {
            println!("FAILED  {path}: {error}");
            Tally { passed: 0, failed: 1 }
        }
        Ok(report) => {
            for difference in report.differences.iter().take(DIFFERENCES_SHOWN_MAX) {
                println!("FAILED  {path}:{difference}");
            }
            let more = report.differences.len().saturating_sub(DIFFERENCES_SHOWN_MAX);
            if more > 0 {
                println!("        {path}: and {more} more");
            }
            Tally { passed: report.matched, failed: report.differences.len() as u64 }
        }
    }
}
