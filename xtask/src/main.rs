//! The project's toolbox: `cargo xtask <command>`. What continuous integration runs, a developer runs with the same words.
//!
//! It is not part of the server: it starts Darter (and, where asked for, a reference server) as a process and talks to it over a
//! socket, as a client would. It depends on no other crate of the workspace, so that it builds in seconds and runs when they do not.

mod apps;
mod bench;
mod clients;
mod differential;
mod fail;
mod golden;
mod programs;
mod robustness;
mod sanitize;
mod server;
mod shell;
mod tally;
mod tests_all;
mod tidy;
mod wire;
mod words;

use std::process::ExitCode;

use crate::fail::Result;
use crate::tally::Tally;

const HELP: &str = "\
cargo xtask tidy                       format, lints, layering, lengths, links, islands of unsafe code
cargo xtask test [--only STAGE]        everything continuous integration runs
cargo xtask golden [--bless] [FILTER]  the golden files against Darter; --bless records them from a reference server
cargo xtask robustness [FILTER]        bad input, wrong starts, contention
cargo xtask clients [LIBRARY]          smoke tests through client libraries, installed into target/clients
cargo xtask apps [APPLICATION]         job queues, locks, caches and others that use a server in earnest, installed into target/apps
cargo xtask differential               random sequences against a reference server (--seed S --count N --server PATH)
cargo xtask sanitize [address|thread]  the unsafe islands under the compiler's sanitizers
cargo xtask bench [--only NAME] [--quick]  speed and memory beside valkey-server, loaded by darter-bench, written to benches/record
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match words.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    match dispatch(command, rest) {
        Ok(tally) if tally.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {command}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &str, rest: &[String]) -> Result<Tally> {
    match command {
        "tidy" => tidy::run(rest).map(Tally::closing),
        "test" => tests_all::run(rest).map(Tally::closing),
        "golden" => golden::run(rest).map(Tally::closing),
        "bench" => bench::run(rest),
        "robustness" => robustness::run(rest).map(Tally::closing),
        "clients" => clients::run(rest).map(Tally::closing),
        "apps" => apps::run(rest).map(Tally::closing),
        "differential" => differential::run(rest).map(Tally::closing),
        "sanitize" => sanitize::run(rest).map(Tally::closing),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(Tally::default())
        }
        _ => Err(format!("no such command; these there are:\n{HELP}").into()),
    }
}
