//! Scenarios about streams: bytes per entry, and what adding, delivering and acknowledging entries costs the server.

use super::load::Random;
use super::memory::used_memory;
use super::{Bench, Goal, Row, Side, process};
use crate::fail::Result;
use crate::server::Server;
use crate::wire::encode;

/// Commands sent before their replies are read.
const BATCH: u64 = 500;
/// Entries that one XREADGROUP delivers.
const DELIVERED: u64 = 10;
const SIDES: [Side; 2] = [Side::Darter, Side::Valkey];

/// Microseconds of the server's processor time per command.
fn cost_us(
    server: &Server,
    commands: u64,
    mut words: impl FnMut(u64, &mut Random) -> Vec<String>,
) -> Result<f64> {
    let mut client = server.client()?;
    let mut random = Random(7);
    let before = process::cpu_time(server.pid())?;
    let mut done = 0;
    while done < commands {
        let batch = BATCH.min(commands - done);
        let mut bytes = Vec::new();
        (done..done + batch).for_each(|n| encode(&words(n, &mut random), &mut bytes));
        client.send_raw(&bytes)?;
        for _ in 0..batch {
            let reply = client.receive()?;
            if reply.is_error() {
                return Err(reply.render().into());
            }
        }
        done += batch;
    }
    let spent = process::cpu_time(server.pid())? - before;
    Ok(spent.as_secs_f64() * 1e6 / commands as f64)
}

/// An entry as logs and events have them: a name of limited variety, a word, a number.
fn entry(random: &mut Random) -> Vec<String> {
    const ACTIONS: [&str; 4] = ["view", "buy", "click", "leave"];
    let user = format!("user:{:07}", random.below(1_000_000));
    let action = ACTIONS[random.below(4) as usize];
    let price = random.below(100_000).to_string();
    ["XADD", "s", "*", "user", &user, "action", action, "price", &price].map(String::from).to_vec()
}

fn figures(bench: &Bench, side: Side, entries: u64) -> Result<[f64; 5]> {
    let server = bench.start(side, 1, &[], None)?;
    let empty = used_memory(&server)?;
    let add = cost_us(&server, entries, |_, random| entry(random))?;
    let bytes = (used_memory(&server)? - empty) as f64 / entries as f64;
    let mut client = server.client()?;
    client.call(&["XGROUP", "CREATE", "s", "g", "0"])?;
    let before = used_memory(&server)?;
    let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
    let reads = entries / DELIVERED;
    let read = cost_us(&server, reads, |_, _| words("XREADGROUP GROUP g c COUNT 10 STREAMS s >"))?
        / DELIVERED as f64;
    let pending = (used_memory(&server)? - before) as f64 / entries as f64;
    let range = cost_us(&server, reads.min(10_000), |_, _| words("XREVRANGE s + - COUNT 10"))?;
    Ok([bytes, add, read, pending, range])
}

/// One stream of 10M entries of 3 fields, all of which a group then delivers.
pub fn entries(bench: &Bench) -> Result<Vec<Row>> {
    let entries = bench.count(10_000_000);
    let mut both = Vec::new();
    for side in SIDES {
        let figures = figures(bench, side, entries)?;
        println!("{side:?}: {figures:.3?}");
        both.push(figures);
    }
    let [darter, valkey] = [both[0], both[1]];
    let names = [
        ("bytes/entry", " B", Goal::AtMost(0.8)),
        ("XADD, pipelined: CPU us/request", " us", Goal::AtMost(0.6)),
        ("XREADGROUP COUNT 10, pipelined: CPU us/entry", " us", Goal::AtMost(0.6)),
        ("a pending entry: bytes", " B", Goal::AtMost(0.8)),
        ("XREVRANGE COUNT 10, pipelined: CPU us/request", " us", Goal::AtMost(0.6)),
    ];
    let row = |(at, (what, unit, goal)): (usize, &(&str, &str, Goal))| Row {
        what: format!("stream of {entries} entries of 3 fields, {what}"),
        darter: format!("{:.2}{unit}", darter[at]),
        valkey: format!("{:.2}{unit}", valkey[at]),
        figure: darter[at] / valkey[at],
        shown: format!("{:.2} x", darter[at] / valkey[at]),
        goal: *goal,
    };
    Ok(names.iter().enumerate().map(row).collect())
}
