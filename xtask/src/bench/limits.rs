//! Scenarios about what a server lets go of: the hit ratio under `maxmemory`, and keys that expire together.

use std::time::{Duration, Instant};

use super::load::Random;
use super::{Bench, Goal, Row, Side};
use crate::fail::Result;
use crate::server::Server;
use crate::wire::{Client, Value};

/// Keys of the trace; key number k is asked for in proportion to 1 / (k + 1)^0.99.
const KEYS: usize = 100_000;
const ALPHA: f64 = 0.99;

/// Room for about a third of the keys in Valkey.
const MAXMEMORY: u64 = 6 << 20;
const VALUE_BYTES: usize = 100;

/// Requests sent before their replies are read.
const BATCH: usize = 50;

const POLICIES: [&str; 7] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

/// What a cache made of the trace.
struct Outcome {
    hit_ratio: f64,
    entries: f64,
    refused: u64,
    /// `used_memory` of the empty server.
    empty: u64,
}

/// A read-through cache: GET, and SET after a miss. Hits are counted in the second half of the trace. Each policy is measured in the same
/// memory, and again with as much memory for Valkey as it needs to hold as many entries as Darter.
pub fn hit_ratios(bench: &Bench) -> Result<Vec<Row>> {
    let trace = trace(bench.count(400_000) as usize);
    let mut rows = Vec::new();
    for policy in POLICIES {
        let darter = cache(bench, Side::Darter, policy, MAXMEMORY, &trace)?;
        let same_memory = cache(bench, Side::Valkey, policy, MAXMEMORY, &trace)?;
        // What Valkey uses before it holds anything does not grow with the entries.
        let room = (MAXMEMORY - same_memory.empty) as f64;
        let more = same_memory.empty as f64 + room * (darter.entries / same_memory.entries);
        let same_entries = cache(bench, Side::Valkey, policy, more as u64, &trace)?;
        let refused = darter.refused + same_memory.refused + same_entries.refused;
        if refused > 0 {
            return Err(format!("{policy}: {refused} writes were refused").into());
        }
        for (what, valkey) in [("the same memory", same_memory), ("as many entries", same_entries)] {
            let ratio = darter.hit_ratio / valkey.hit_ratio;
            rows.push(Row {
                what: format!("{policy}: hit ratio, {what}"),
                darter: format!("{:.3} ({:.0} keys)", darter.hit_ratio, darter.entries),
                valkey: format!("{:.3} ({:.0} keys)", valkey.hit_ratio, valkey.entries),
                figure: ratio,
                shown: format!("{ratio:.3} x"),
                goal: Goal::AtLeast(0.99),
            });
        }
    }
    Ok(rows)
}

/// Numbers of keys, drawn with a fixed seed.
fn trace(length: usize) -> Vec<usize> {
    let mut random = Random(1);
    let mut sum = 0.0;
    let sums: Vec<f64> = (0..KEYS)
        .map(|key| {
            sum += 1.0 / ((key + 1) as f64).powf(ALPHA);
            sum
        })
        .collect();
    let mut draw = || {
        // 53 random bits make a number from 0 to 1.
        let drawn = (random.next() >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        sums.partition_point(|up_to| *up_to < drawn).min(KEYS - 1)
    };
    (0..length).map(|_| draw()).collect()
}

fn cache(bench: &Bench, side: Side, policy: &str, maxmemory: u64, trace: &[usize]) -> Result<Outcome> {
    let limit = maxmemory.to_string();
    let more: &[&str] = &["--maxmemory", &limit, "--maxmemory-policy", policy];
    let server = bench.start(side, 1, more, None)?;
    let empty = super::memory::used_memory(&server)?;
    let mut client = server.client()?;
    let value = "x".repeat(VALUE_BYTES);
    let (mut hits, mut refused) = (0, 0);
    let half = trace.len() / 2;
    for (number, batch) in trace.chunks(BATCH).enumerate() {
        let keys: Vec<String> = batch.iter().map(|key| format!("key:{key:010}")).collect();
        let gets = keys.iter().map(|key| vec!["GET", key]).collect::<Vec<_>>();
        let mut sets = Vec::new();
        for (key, reply) in keys.iter().zip(all(&mut client, &gets)?) {
            if reply.bytes().is_some() {
                hits += u64::from(number * BATCH >= half);
            } else {
                let mut set = vec!["SET", key, &value];
                if policy.starts_with("volatile") {
                    set.extend(["EX", "10000"]);
                }
                sets.push(set);
            }
        }
        refused += all(&mut client, &sets)?.iter().filter(|reply| reply.is_error()).count() as u64;
    }
    let entries = match client.call(&["DBSIZE"])? {
        Value::Integer(entries) => entries as f64,
        other => return Err(format!("DBSIZE: {}", other.render()).into()),
    };
    let asked = trace.len() - half;
    Ok(Outcome { hit_ratio: hits as f64 / asked as f64, entries, refused, empty })
}

/// Sends all commands, then reads all replies.
fn all(client: &mut Client, commands: &[Vec<&str>]) -> Result<Vec<Value>> {
    commands.iter().try_for_each(|words| client.send(words))?;
    commands.iter().map(|_| client.receive()).collect()
}

/// 1M keys whose deadline is the same moment, beside 1M without one: how long until DBSIZE has lost them all, nobody asking for them.
pub fn expiry(bench: &Bench) -> Result<Vec<Row>> {
    let keys = bench.count(1_000_000);
    let [darter, valkey] = [Side::Darter, Side::Valkey].map(|side| together(bench, side, keys));
    let (darter, valkey) = (darter?, valkey?);
    Ok(vec![Row {
        what: format!("{keys} keys that expire together, beside as many that stay: gone after"),
        darter: format!("{darter:.1} s"),
        valkey: format!("{valkey:.1} s"),
        figure: darter,
        shown: format!("{darter:.1} s"),
        goal: Goal::AtMost(10.0),
    }])
}

/// Longest wait for the keys to go.
const PATIENCE: Duration = Duration::from_secs(60);

fn together(bench: &Bench, side: Side, keys: u64) -> Result<f64> {
    let server: Server = bench.start(side, 1, &[], None)?;
    let mut client = server.client()?;
    let unix_time = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let started = Instant::now();
    fill(&mut client, "stay", keys, None)?;
    // The second half takes as long as the first; none of it may expire before it is all there.
    let deadline = unix_time()? + started.elapsed() * 2 + Duration::from_secs(2);
    fill(&mut client, "go", keys, Some(&deadline.as_millis().to_string()))?;
    if unix_time()? >= deadline {
        return Err("the keys took too long to write".into());
    }
    std::thread::sleep(deadline.saturating_sub(unix_time()?));
    let due = Instant::now();
    loop {
        match client.call(&["DBSIZE"])? {
            Value::Integer(size) if size.unsigned_abs() <= keys => return Ok(due.elapsed().as_secs_f64()),
            _ if due.elapsed() > PATIENCE => return Err("keys that expired were not removed".into()),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Writes keys `prefix:0`, `prefix:1` ...
fn fill(client: &mut Client, prefix: &str, keys: u64, deadline_ms: Option<&str>) -> Result<()> {
    const FILL_BATCH: u64 = 1_000;
    for start in (0..keys).step_by(FILL_BATCH as usize) {
        let names: Vec<String> =
            (start..keys.min(start + FILL_BATCH)).map(|n| format!("{prefix}:{n}")).collect();
        let set = |name| match deadline_ms {
            Some(deadline) => vec!["SET", name, "v", "PXAT", deadline],
            None => vec!["SET", name, "v"],
        };
        let sets: Vec<Vec<&str>> = names.iter().map(|name| set(name)).collect();
        all(client, &sets)?;
    }
    Ok(())
}
