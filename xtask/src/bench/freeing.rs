//! Scenario about letting go of much at once: a sorted set of 10 million members is deleted while another client writes.

use std::time::{Duration, Instant};

use super::load::Random;
use super::{Bench, Goal, Row, Side};
use crate::fail::Result;
use crate::server::Server;
use crate::wire::{self, Client};

const MEMBERS: u64 = 10_000_000;
/// Members of one ZADD, and ZADDs sent before their replies are read.
const PER_COMMAND: u64 = 100;
const BATCH: u64 = 10;
/// How long SETs are timed, at rest and from the deletion on.
const TIMED: Duration = Duration::from_secs(5);
/// Pause between two SETs: the latency of a server that is not saturated.
const PAUSE: Duration = Duration::from_micros(200);
const P99_9: f64 = 0.999;
/// Deletions, of which the middle one counts.
const ROUNDS: usize = 3;

/// What one side showed.
#[derive(Clone, Copy, Default)]
struct Outcome {
    rest_us: f64,
    deleting_us: f64,
    /// Darter's own count; Valkey has none.
    hold_us: f64,
}

/// The longest hold of a shard while the set goes, and the 99.9th percentile of SET meanwhile. Valkey unlinks in the background by UNLINK.
pub fn big_sorted_set(bench: &Bench) -> Result<Vec<Row>> {
    let members = bench.count(MEMBERS);
    let mut sides = Vec::new();
    for side in [Side::Darter, Side::Valkey] {
        let server = bench.start(side, 1, &[], None)?;
        let mut outcomes = Vec::new();
        for _ in 0..ROUNDS.min(bench.rounds) {
            let outcome = once(&server, side, members)?;
            println!(
                "{side:?}: p99.9 of SET {:.0} us at rest, {:.0} us while it goes; longest hold {:.0} us",
                outcome.rest_us, outcome.deleting_us, outcome.hold_us
            );
            outcomes.push(outcome);
        }
        let of = |get: fn(&Outcome) -> f64| super::median(&outcomes.iter().map(get).collect::<Vec<_>>());
        sides.push(Outcome {
            rest_us: of(|o| o.rest_us),
            deleting_us: of(|o| o.deleting_us),
            hold_us: of(|o| o.hold_us),
        });
    }
    let [darter, valkey] = [sides[0], sides[1]];
    let slower = |outcome: Outcome| outcome.deleting_us / outcome.rest_us;
    Ok(vec![
        Row {
            what: format!("longest hold of a shard while {members} members go"),
            darter: format!("{:.0} us", darter.hold_us),
            valkey: "-".into(),
            figure: darter.hold_us,
            shown: format!("{:.0} us", darter.hold_us),
            goal: Goal::AtMost(100.0),
        },
        Row {
            what: "p99.9 of SET meanwhile / at rest".into(),
            darter: format!("{:.0} / {:.0} us", darter.deleting_us, darter.rest_us),
            valkey: format!("{:.0} / {:.0} us", valkey.deleting_us, valkey.rest_us),
            figure: slower(darter),
            shown: format!("{:.2} x", slower(darter)),
            goal: Goal::AtMost(1.2),
        },
    ])
}

fn once(server: &Server, side: Side, members: u64) -> Result<Outcome> {
    fill(server, members)?;
    let mut client = server.client()?;
    let rest_us = sets(&mut client)?;
    client.call(&["CONFIG", "RESETSTAT"])?;
    let mut deleting = server.client()?;
    deleting.send(&[if side == Side::Darter { "DEL" } else { "UNLINK" }, "big"])?;
    let deleting_us = sets(&mut client)?;
    if deleting.receive()?.render() != "(integer) 1" {
        return Err("the sorted set was not there".into());
    }
    Ok(Outcome { rest_us, deleting_us, hold_us: longest_hold_us(&mut client)? })
}

fn fill(server: &Server, members: u64) -> Result<()> {
    let mut client = server.client()?;
    let mut random = Random(7);
    let mut at = 0;
    while at < members {
        let mut out = Vec::new();
        let mut commands = 0;
        while commands < BATCH && at < members {
            let mut words = vec!["ZADD".to_string(), "big".into()];
            let end = (at + PER_COMMAND).min(members);
            for member in at..end {
                words.extend([(random.below(1 << 40) as f64 / 1024.0).to_string(), format!("{member:08x}")]);
            }
            wire::encode(&words, &mut out);
            (at, commands) = (end, commands + 1);
        }
        client.send_raw(&out)?;
        for _ in 0..commands {
            let reply = client.receive()?;
            if reply.is_error() {
                return Err(format!("ZADD: {}", reply.render()).into());
            }
        }
    }
    Ok(())
}

/// The 99.9th percentile of SET for a while, in us.
fn sets(client: &mut Client) -> Result<f64> {
    let mut random = Random(1);
    let mut took = Vec::new();
    let started = Instant::now();
    while started.elapsed() < TIMED {
        let key = format!("key:{:012}", random.below(100_000));
        let sent = Instant::now();
        client.call(&["SET", &key, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"])?;
        took.push(sent.elapsed().as_nanos() as f64 / 1000.0);
        std::thread::sleep(PAUSE);
    }
    took.sort_by(f64::total_cmp);
    Ok(took[((took.len() as f64 * P99_9) as usize).min(took.len() - 1)])
}

fn longest_hold_us(client: &mut Client) -> Result<f64> {
    let info = client.call(&["INFO", "darter"])?.text();
    let value = info.lines().find_map(|line| line.strip_prefix("shard_hold_max_us:"));
    Ok(value.map_or(Ok(0.0), |value| value.trim().parse())?)
}
