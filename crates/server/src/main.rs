//! The binary `darter`: reads the configuration, prepares the process, starts one reactor per core, and stops them on a signal.
//! It decides nothing about commands or data.

mod daemon;
mod notify;
mod panics;
mod signals;
mod start;

use std::io::{self, Write};
use std::process::ExitCode;

use session::config::{Action, Arguments, load};

const HELP: &str = "\
Usage: darter [FILE] [-] [--SETTING VALUE ...]...
       darter --version | --help

  FILE             a configuration file in the syntax of redis.conf
  -                also reads settings from the standard input
  --SETTING VALUE  any line of such a file, as arguments; wins over FILE

Examples:
  darter
  darter --port 7000 --maxmemory 4gb --maxmemory-policy allkeys-lru
  darter /etc/darter.conf --loglevel verbose
  echo 'requirepass secret' | darter -

Settings of Darter's own:
  --threads N          threads that serve clients (default: the cores this process may use)
  --shards N           parts of the keyspace, a power of two (default: about 32 per thread)
  --io-engine ENGINE   auto, uring or epoll (default: auto)
";

fn main() -> ExitCode {
    let arguments = Arguments::parse(std::env::args_os().skip(1));
    match arguments.action {
        Action::Version => print(&version()),
        Action::Help => print(HELP),
        Action::Run => match load(&arguments, &mut io::stdin().lock()) {
            Ok(loaded) => start::run(loaded).map_or_else(|error| fail(&*error), |()| ExitCode::SUCCESS),
            Err(error) => fail(&error),
        },
    }
}

/// Tells why the server does not run: to whoever started it, or in the log once there is one.
fn fail(error: &dyn std::error::Error) -> ExitCode {
    if log::max_level() == log::LevelFilter::Off {
        eprintln!("{error}");
    } else {
        log::error!("{error}");
    }
    ExitCode::FAILURE
}

/// One line, in the form in which `valkey-server --version` tells its own.
fn version() -> String {
    format!("Darter server v={} bits={}\n", env!("CARGO_PKG_VERSION"), usize::BITS)
}

/// A reader that went away is no error of ours.
fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
