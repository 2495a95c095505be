//! `cargo xtask differential`: random command sequences drawn from Darter's own command rows go to Darter and to a reference server;
//! every reply and the final state must be the same. A sequence that differs is made as short as it can be before it is shown.

mod acl;
mod events;
mod generate;
mod play;
mod rows;
mod rules;
mod vocabulary;

use std::path::PathBuf;

use crate::fail::Result;
use crate::server::{Program, Server};
use crate::tally::Tally;
use crate::words;

use self::generate::{Generator, Step};
use self::play::{Difference, Pair};

const HELP: &str = "\
cargo xtask differential [--seed S] [--count N] [--length L] [--server PATH] [--only COMMAND]...
  --seed S        the first sequence's seed (1); sequence n has seed S + n - 1
  --count N       how many sequences (1000)
  --length L      commands per sequence (60)
  --server PATH   the reference (valkey-server or redis-server on PATH)
  --only COMMAND  draw only these commands (beside those that set the scene)
  --notifications compare keyspace events, too
  --acl           random ACL rules instead: what they print and decide
  --rows-of-reference  draw what the reference's COMMAND DOCS describes and Darter knows: finds arguments that Darter's rows lack
";

/// Sequences of the run that is part of `cargo xtask test`.
const SEQUENCES_IN_TEST: u64 = 300;
const SEQUENCES_WITH_EVENTS_IN_TEST: u64 = 100;
const RULES_IN_TEST: u64 = 200;
/// Settings of the servers that every other sequence goes to: encodings change after a few elements.
const NARROW: &[&str] = &[
    "--hash-max-listpack-entries",
    "6",
    "--hash-max-listpack-value",
    "16",
    "--list-max-listpack-size",
    "5",
    "--set-max-intset-entries",
    "5",
    "--set-max-listpack-entries",
    "6",
    "--set-max-listpack-value",
    "16",
    "--zset-max-listpack-entries",
    "6",
    "--zset-max-listpack-value",
    "16",
    "--stream-node-max-entries",
    "4",
    "--hll-sparse-max-bytes",
    "200",
];
/// Differing sequences shown before the run stops.
const SHOWN_MAX: u64 = 5;

/// What to run.
struct Options {
    seed: u64,
    count: u64,
    length: usize,
    reference: Option<PathBuf>,
    only: Vec<String>,
    rows_of_reference: bool,
    notifications: bool,
    acl: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            count: 1000,
            length: 60,
            reference: None,
            only: Vec::new(),
            rows_of_reference: false,
            notifications: false,
            acl: false,
        }
    }
}

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => options.seed = value()?.parse()?,
            "--count" => options.count = value()?.parse()?,
            "--length" => options.length = value()?.parse()?,
            "--server" => options.reference = Some(value()?.into()),
            "--only" => options.only.push(value()?.to_ascii_lowercase()),
            "--acl" => options.acl = true,
            "--notifications" => options.notifications = true,
            "--rows-of-reference" => options.rows_of_reference = true,
            _ => return Err(format!("unknown: {word}\n{HELP}").into()),
        }
    }
    compare(&Program::darter()?, &options)
}

/// A short run, as a stage of `cargo xtask test`: always the same sequences, so that it fails for what changed and not by chance.
pub fn stage(program: &Program) -> Result<Tally> {
    if Program::reference().is_none() {
        println!("SKIPPED: neither valkey-server nor redis-server is on PATH");
        return Ok(Tally::default());
    }
    let mut tally = compare(program, &Options { count: SEQUENCES_IN_TEST, ..Options::default() })?;
    println!("with keyspace events:");
    let count = SEQUENCES_WITH_EVENTS_IN_TEST;
    tally += compare(program, &Options { count, notifications: true, ..Options::default() })?;
    println!("with ACL rules:");
    tally += compare(program, &Options { count: RULES_IN_TEST, acl: true, ..Options::default() })?;
    Ok(tally)
}

fn compare(darter: &Program, options: &Options) -> Result<Tally> {
    let reference = match &options.reference {
        Some(path) => Program::Reference(path.clone()),
        None => Program::reference().ok_or("no valkey-server and no redis-server on PATH")?,
    };
    if options.acl {
        return acl::compare(darter, &reference, options.seed, options.count);
    }
    let start = |words: &[&str]| -> Result<Pair> {
        let words = [words, if options.notifications { &events::SETTING } else { &[] }].concat();
        Ok(Pair {
            darter: Server::start(darter, &words)?,
            reference: Server::start(&reference, &words)?,
            events: options.notifications,
            replies: 0,
            errors: 0,
        })
    };
    let mut pairs = [start(&[])?, start(NARROW)?];
    let [first, _] = &pairs;
    let mut rows =
        rows::of(if options.rows_of_reference { &first.reference } else { &first.darter }, &options.only)?;
    if options.rows_of_reference {
        rows::drop_unknown(&mut rows, &first.darter)?;
    }
    println!(
        "{} commands drawn, {} sequences of {}, seed {}",
        rows.len(),
        options.count,
        options.length,
        options.seed
    );
    let mut tally = Tally::default();
    for seed in options.seed..options.seed + options.count {
        let steps = Generator::new(seed, &rows).sequence(options.length);
        let pair = &mut pairs[(seed % 2) as usize];
        let outcome = pair.run(&steps).map_err(|error| format!("seed {seed}: {error}"));
        pair.check_alive().map_err(|error| format!("seed {seed}: {error}"))?;
        match outcome? {
            None => tally.passed += 1,
            Some(_) => {
                tally.failed += 1;
                show(pair, seed, steps)?;
            }
        }
        if tally.failed == SHOWN_MAX {
            println!("stopped after {SHOWN_MAX} differing sequences");
            break;
        }
    }
    let sum = |of: fn(&Pair) -> u64| pairs.iter().map(of).sum::<u64>();
    println!(
        "differential: {} sequences alike, {} not; {} replies compared, {} of them errors",
        tally.passed,
        tally.failed,
        sum(|pair| pair.replies),
        sum(|pair| pair.errors)
    );
    Ok(tally)
}

/// Shortens a differing sequence and prints it.
fn show(pair: &mut Pair, seed: u64, steps: Vec<Step>) -> Result<()> {
    let (steps, difference) = minimize(pair, steps)?;
    println!("FAILED  differential, seed {seed}: {} commands are enough", steps.len());
    for step in &steps {
        let line: Vec<String> = step.words.iter().map(|word| shortened(word)).collect();
        println!("    {}> {}", step.client, line.join(" "));
    }
    if let Some(difference) = difference {
        let indent = |text: &str| text.replace('\n', "\n               ");
        println!("  {}", difference.what);
        println!("    Darter:    {:.600}", indent(&difference.darter));
        println!("    reference: {:.600}", indent(&difference.reference));
    }
    Ok(())
}

fn shortened(word: &[u8]) -> String {
    const SHOWN: usize = 80;
    let text = words::plain_or_quoted(&word[..word.len().min(SHOWN)]);
    if word.len() > SHOWN { format!("{text}...({} bytes)", word.len()) } else { text }
}

/// Leaves out ever smaller parts of the sequence for as long as it still differs (delta debugging).
fn minimize(pair: &mut Pair, mut steps: Vec<Step>) -> Result<(Vec<Step>, Option<Difference>)> {
    let mut part = steps.len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + part).min(steps.len()));
            if pair.run(&fewer)?.is_some() {
                steps = fewer;
            } else {
                from += part;
            }
        }
        if part == 1 {
            break;
        }
        part = part.div_ceil(2);
    }
    let difference = pair.run(&steps)?;
    if difference.is_none() {
        println!("        (it differs only sometimes)");
    }
    Ok((steps, difference))
}
