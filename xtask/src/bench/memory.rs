//! Scenarios about memory: bytes per entry, resident memory, steadiness while loading, idle connections.

use std::net::TcpStream;

use super::load::{self, KEY_BYTES, Load};
use super::{Bench, Goal, Row, Side, median, process};
use crate::fail::Result;
use crate::server::Server;
use crate::wire::Client;

const VALUE_BYTES: u64 = 64;
const DAY_S: u64 = 86_400;
/// What an entry holds beside its key and value: flags and two lengths.
const HEADER_BYTES: u64 = 3;
const MIB: f64 = (1 << 20) as f64;

pub const SIDES: [Side; 2] = [Side::Darter, Side::Valkey];

/// `used_memory` of INFO.
pub fn used_memory(server: &Server) -> Result<u64> {
    let info = server.client()?.call(&["INFO", "memory"])?.text();
    let line =
        info.lines().find_map(|line| line.strip_prefix("used_memory:")).ok_or("INFO has no used_memory")?;
    Ok(line.trim().parse()?)
}

fn dbsize(server: &Server) -> Result<u64> {
    match server.client()?.call(&["DBSIZE"])? {
        crate::wire::Value::Integer(n) => Ok(n.unsigned_abs()),
        other => Err(format!("DBSIZE: {}", other.render()).into()),
    }
}

fn fill(commands: u64, value_bytes: std::ops::RangeInclusive<u64>, ttl_s: Option<u64>) -> Load {
    Load { keys: 0..commands, commands, random: false, value_bytes, ttl_s }
}

/// A row whose goal is about Darter's own figure.
pub fn own(what: &str, figures: [f64; 2], digits: usize, unit: &str, goal: Goal) -> Row {
    let shown = |figure: f64| if figure.is_nan() { "-".into() } else { format!("{figure:.digits$}{unit}") };
    Row {
        what: what.into(),
        darter: shown(figures[0]),
        valkey: shown(figures[1]),
        figure: figures[0],
        shown: shown(figures[0]),
        goal,
    }
}

/// Measures something of each side, one after the other: two loaded servers would not fit into small machines.
pub fn each(mut measure: impl FnMut(Side) -> Result<f64>) -> Result<[f64; 2]> {
    let mut figures = [0.0; 2];
    for (figure, side) in figures.iter_mut().zip(SIDES) {
        *figure = measure(side)?;
        println!("{side:?}: {figure:.3}");
    }
    Ok(figures)
}

/// 10M keys of 16 B with values of 64 B: the growth of `used_memory` per entry.
pub fn bytes_per_entry(bench: &Bench) -> Result<Vec<Row>> {
    let entries = bench.count(10_000_000);
    let mut rows = Vec::new();
    for (name, ttl_s, goal) in [("SET", None, 97.0), ("SETEX", Some(DAY_S), 98.0)] {
        let figures = each(|side| {
            let server = bench.start(side, 1, &[], None)?;
            let empty = used_memory(&server)?;
            load::run(&server, &fill(entries, VALUE_BYTES..=VALUE_BYTES, ttl_s))?;
            Ok((used_memory(&server)? - empty) as f64 / dbsize(&server)? as f64)
        })?;
        rows.push(own(&format!("{name}, {entries} keys: bytes/entry"), figures, 1, " B", Goal::AtMost(goal)));
    }
    Ok(rows)
}

/// RSS over `used_memory`, after loading and after overwrites that change sizes.
pub fn overwrites(bench: &Bench) -> Result<Vec<Row>> {
    let entries = bench.count(6_000_000);
    let mut loaded = [0.0; 2];
    let mut overwritten = [0.0; 2];
    for (index, side) in SIDES.into_iter().enumerate() {
        let server = bench.start(side, 1, &[], None)?;
        load::run(&server, &fill(entries, VALUE_BYTES..=VALUE_BYTES, None))?;
        let ratio = || {
            Ok::<f64, crate::fail::Failure>(process::rss(server.pid())? as f64 / used_memory(&server)? as f64)
        };
        loaded[index] = ratio()?;
        let again = Load { random: true, ..fill(entries, 40..=139, None) };
        load::run(&server, &again)?;
        overwritten[index] = ratio()?;
        println!("{side:?}: {:.3} loaded, {:.3} overwritten", loaded[index], overwritten[index]);
    }
    Ok(vec![
        own(&format!("RSS/used_memory, {entries} keys loaded"), loaded, 3, "", Goal::AtMost(1.05)),
        own("after as many overwrites of 40-139 B", overwritten, 3, "", Goal::AtMost(1.20)),
    ])
}

/// An empty server, and RSS over the bytes of its live entries, index included, with the default number of shards.
pub fn default_shards(bench: &Bench) -> Result<Vec<Row>> {
    let empty = each(|side| {
        let words: &[&str] = &[];
        let program = if side == Side::Darter { &bench.darter } else { &bench.valkey };
        Ok(process::rss(Server::start(program, words)?.pid())? as f64 / MIB)
    })?;
    let mut rows = vec![own("RSS of an empty server", empty, 1, " MiB", Goal::AtMost(20.0))];
    // Entries of 20 to 200 bytes: the key and the header are 19 of them.
    let values = 1..=181;
    for (millions, goal) in [(1, 1.20), (10, 1.15)] {
        let entries = bench.count(millions * 1_000_000);
        let figures = each(|side| {
            let words: &[&str] = &[];
            let program = if side == Side::Darter { &bench.darter } else { &bench.valkey };
            let server = Server::start(program, words)?;
            load::run(&server, &fill(entries, values.clone(), None))?;
            let mean_value = (values.start() + values.end()) as f64 / 2.0;
            let live = dbsize(&server)? as f64 * ((HEADER_BYTES + KEY_BYTES) as f64 + mean_value);
            Ok(process::rss(server.pid())? as f64 / live)
        })?;
        rows.push(own(
            &format!("RSS/live bytes, {entries} entries of 20-200 B"),
            figures,
            3,
            "",
            Goal::AtMost(goal),
        ));
    }
    Ok(rows)
}

/// Loading 20M keys: the slowest second's commands per processor second over the median one's.
pub fn steady_load(bench: &Bench) -> Result<Vec<Row>> {
    let entries = bench.count(20_000_000);
    let mut medians = [0.0; 2];
    let mut slowest = [0.0; 2];
    for (index, side) in SIDES.into_iter().enumerate() {
        let server = bench.start(side, 1, &[], Some("0"))?;
        let seconds = load::run(&server, &fill(entries, VALUE_BYTES..=VALUE_BYTES, None))?;
        let rates: Vec<f64> =
            seconds.iter().map(|s| s.commands as f64 / s.cpu.as_secs_f64().max(0.01)).collect();
        let shown: Vec<String> = rates.iter().map(|rate| format!("{:.0}", rate / 1e3)).collect();
        println!("{side:?}, k commands per CPU second, second by second: {}", shown.join(" "));
        medians[index] = median(&rates) / 1e3;
        slowest[index] = rates.iter().copied().fold(f64::INFINITY, f64::min) / 1e3 / medians[index];
    }
    Ok(vec![
        own(&format!("{entries} keys, median second: k commands/CPU second"), medians, 0, "", Goal::None),
        own("slowest second / median second", slowest, 2, "", Goal::AtLeast(0.85)),
    ])
}

/// Resident memory per idle connection that has spoken once.
pub fn idle_connections(bench: &Bench) -> Result<Vec<Row>> {
    const CONNECTIONS: u64 = 10_000;
    /// The limit on open files of this process and of the server, some of which they need themselves.
    const SPARE_FILES: u64 = 200;
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
    let files: u64 = files.unwrap_or(1024);
    let connections = CONNECTIONS.min(files.saturating_sub(SPARE_FILES));
    let figures = each(|side| {
        let server = bench.start(side, 1, &["--maxclients", "12000"], None)?;
        let mut open: Vec<TcpStream> = Vec::new();
        // A first one, so that what every server sets up once is not counted.
        server.client()?.call(&["PING"])?;
        let before = process::rss(server.pid())?;
        for _ in 0..connections {
            let mut client = Client::connect(server.address)?;
            client.call(&["PING"])?;
            open.push(client.into_socket());
        }
        Ok((process::rss(server.pid())? - before) as f64 / open.len() as f64)
    })?;
    Ok(vec![own(
        &format!("{connections} idle connections, RSS each"),
        figures,
        0,
        " B",
        Goal::AtMost(1024.0),
    )])
}
