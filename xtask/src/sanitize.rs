//! `cargo xtask sanitize`: the unsafe islands under the compiler's sanitizers. AddressSanitizer with poisoned free blocks for `memory` and
//! what lives on it, ThreadSanitizer for the latch. A stable compiler is told to allow them by `RUSTC_BOOTSTRAP`.

use std::process::Command;

use crate::fail::Result;
use crate::shell;
use crate::tally::Tally;
use crate::tests_all::cargo_test;

/// A run of tests under one sanitizer.
struct Run {
    name: &'static str,
    flags: &'static str,
    /// Options of the sanitizer's runtime: an environment variable and its value.
    options: (&'static str, &'static str),
    words: &'static [&'static str],
}

const RUNS: &[Run] = &[
    Run {
        name: "address",
        flags: "-Zsanitizer=address --cfg darter_asan",
        // Arenas live as long as the process; that is no leak.
        options: ("ASAN_OPTIONS", "detect_leaks=0"),
        words: &["test", "--quiet", "--package", "memory", "--lib"],
    },
    Run {
        name: "thread",
        // The standard library is not instrumented, which is why the tests of the latch share nothing through it but threads, and why
        // its own channels are left out.
        flags: "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
        options: ("TSAN_OPTIONS", "halt_on_error=1:suppressions=xtask/tsan-suppressions.txt"),
        words: &["test", "--quiet", "--package", "shard", "--lib", "--release", "latch_stress"],
    },
];

/// Runs the command: all sanitizers, or those named.
pub fn run(words: &[String]) -> Result<Tally> {
    if let Some(unknown) = words.iter().find(|word| RUNS.iter().all(|run| run.name != **word)) {
        return Err(format!("no sanitizer {unknown}; there are: address, thread").into());
    }
    let mut tally = Tally::default();
    for run in RUNS.iter().filter(|run| words.is_empty() || words.iter().any(|word| word == run.name)) {
        println!("--- {} sanitizer", run.name);
        tally += one(run)?;
    }
    Ok(tally)
}

fn one(run: &Run) -> Result<Tally> {
    let host = host()?;
    // Tests run in the folder of their crate: paths in options are made absolute.
    let options = run.options.1.replace("=xtask/", &format!("={}/xtask/", shell::root().display()));
    let mut command = shell::cargo();
    command.args(run.words);
    // With a target given, build scripts and procedural macros stay without the sanitizer.
    command
        .args(["--target", &host, "--target-dir"])
        .arg(shell::target().join(format!("sanitize-{}", run.name)));
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", run.flags).env(run.options.0, options);
    cargo_test(&mut command)
}

/// The compiler's own target.
fn host() -> Result<String> {
    let text = shell::output(Command::new("rustc").arg("-vV"))?;
    let host =
        text.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not tell its host")?;
    Ok(host.to_string())
}
