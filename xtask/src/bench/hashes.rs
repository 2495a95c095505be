//! Scenarios about hashes: many small ones and one large one, with and without deadlines of their fields.

use std::io::{Read, Write};

use super::load::Random;
use super::memory::used_memory;
use super::{Bench, Goal, Row, Side, process};
use crate::fail::Result;
use crate::server::Server;
use crate::wire;

/// Fields of a small hash.
const FIELDS: u64 = 10;
const VALUE_BYTES: usize = 8;
/// Commands sent before their replies are read.
const BATCH: u64 = 256;
/// Fields of the large hash that one command sets.
const FIELDS_PER_COMMAND: u64 = 10;
/// Deadlines of fields are so far away, in seconds.
const DAY: &[u8] = b"86400";

/// The words of the n-th command.
type Words = fn(u64, &mut Random) -> Vec<Vec<u8>>;

/// What a scenario sends: for the n-th command its words, and the bytes of its reply, all of one length.
struct Load {
    commands: u64,
    reply_bytes: usize,
    words: Words,
}

/// Microseconds of the server's processor time per command.
fn run(server: &Server, load: &Load) -> Result<f64> {
    let client = server.client()?;
    let mut socket = client.socket();
    let mut random = Random(7);
    let before = process::cpu_time(server.pid())?;
    let mut replies = vec![0; BATCH as usize * load.reply_bytes];
    let mut out = Vec::new();
    let mut sent = 0;
    while sent < load.commands {
        let batch = BATCH.min(load.commands - sent);
        out.clear();
        for number in sent..sent + batch {
            wire::encode(&(load.words)(number, &mut random), &mut out);
        }
        socket.write_all(&out)?;
        let replies = &mut replies[..batch as usize * load.reply_bytes];
        socket.read_exact(replies)?;
        if replies.contains(&b'-') {
            return Err(format!("refused: {}", replies.escape_ascii()).into());
        }
        sent += batch;
    }
    let spent = process::cpu_time(server.pid())?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / load.commands as f64)
}

/// Eight letters.
fn value(random: &mut Random) -> Vec<u8> {
    (0..VALUE_BYTES).map(|_| b'a' + random.below(26) as u8).collect()
}

fn key(number: u64) -> Vec<u8> {
    format!("hash:{number:011}").into_bytes()
}

fn fields(names: impl Iterator<Item = String>, random: &mut Random) -> Vec<Vec<u8>> {
    names.flat_map(|name| [name.into_bytes(), value(random)]).collect()
}

fn small_fields(random: &mut Random) -> Vec<Vec<u8>> {
    fields((0..FIELDS).map(|field| format!("field:{field}")), random)
}

fn large_fields(number: u64, random: &mut Random) -> Vec<Vec<u8>> {
    let first = number * FIELDS_PER_COMMAND;
    fields((first..first + FIELDS_PER_COMMAND).map(|field| format!("field:{field:010}")), random)
}

fn hset(key: Vec<u8>, fields: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    [vec![b"HSET".to_vec(), key], fields].concat()
}

fn hsetex(key: Vec<u8>, fields: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let count = (fields.len() / 2).to_string().into_bytes();
    let head = vec![b"HSETEX".to_vec(), key, b"EX".to_vec(), DAY.to_vec(), b"FIELDS".to_vec(), count];
    [head, fields].concat()
}

/// Bytes of `used_memory` per field.
pub fn memory(bench: &Bench) -> Result<Vec<Row>> {
    let small = bench.count(1_000_000);
    let large = bench.count(10_000_000) / FIELDS_PER_COMMAND;
    let loads: [(String, u64, Load); 4] = [
        (
            format!("{small} hashes of {FIELDS} fields"),
            FIELDS,
            Load {
                commands: small,
                reply_bytes: ":10\r\n".len(),
                words: |number, random| hset(key(number), small_fields(random)),
            },
        ),
        (
            format!("{small} hashes of {FIELDS} fields that expire"),
            FIELDS,
            Load {
                commands: small,
                reply_bytes: ":1\r\n".len(),
                words: |number, random| hsetex(key(number), small_fields(random)),
            },
        ),
        (
            format!("one hash of {} fields", large * FIELDS_PER_COMMAND),
            FIELDS_PER_COMMAND,
            Load {
                commands: large,
                reply_bytes: ":10\r\n".len(),
                words: |number, random| hset(key(0), large_fields(number, random)),
            },
        ),
        (
            format!("one hash of {} fields that expire", large * FIELDS_PER_COMMAND),
            FIELDS_PER_COMMAND,
            Load {
                commands: large,
                reply_bytes: ":1\r\n".len(),
                words: |number, random| hsetex(key(0), large_fields(number, random)),
            },
        ),
    ];
    let mut rows = Vec::new();
    for (what, per_command, load) in loads {
        let mut figures = [0.0; 2];
        for (figure, side) in figures.iter_mut().zip([Side::Darter, Side::Valkey]) {
            let server = bench.start(side, 1, &[], None)?;
            let empty = used_memory(&server)?;
            run(&server, &load)?;
            *figure = (used_memory(&server)? - empty) as f64 / (load.commands * per_command) as f64;
            println!("{side:?}, {what}: {figure:.1} B/field");
        }
        let row = |goal| ratio(&format!("{what}: B/field"), figures, 1, goal);
        rows.push(row(Goal::AtMost(0.7)));
    }
    Ok(rows)
}

/// Processor time per command, on small hashes and a large one.
pub fn speed(bench: &Bench) -> Result<Vec<Row>> {
    const HASHES: u64 = 100_000;
    let commands = bench.count(2_000_000);
    let preparations = [
        Load {
            commands: HASHES,
            reply_bytes: ":10\r\n".len(),
            words: |number, random| hset(key(number), small_fields(random)),
        },
        Load {
            commands: 100_000,
            reply_bytes: ":10\r\n".len(),
            words: |number, random| hset(b"large".to_vec(), large_fields(number, random)),
        },
    ];
    let asked: [(&str, usize, Words); 4] = [
        ("HGET, 10 fields", "$8\r\nabcdefgh\r\n".len(), |_, random| {
            let field = format!("field:{}", random.below(FIELDS)).into_bytes();
            vec![b"HGET".to_vec(), key(random.below(HASHES)), field]
        }),
        ("HSET of a field that is there, 10 fields", ":0\r\n".len(), |_, random| {
            let field = format!("field:{}", random.below(FIELDS)).into_bytes();
            vec![b"HSET".to_vec(), key(random.below(HASHES)), field, value(random)]
        }),
        ("HGET, 1M fields", "$8\r\nabcdefgh\r\n".len(), |_, random| {
            vec![
                b"HGET".to_vec(),
                b"large".to_vec(),
                format!("field:{:010}", random.below(1_000_000)).into_bytes(),
            ]
        }),
        ("HSET of a field that is there, 1M fields", ":0\r\n".len(), |_, random| {
            let field = format!("field:{:010}", random.below(1_000_000)).into_bytes();
            vec![b"HSET".to_vec(), b"large".to_vec(), field, value(random)]
        }),
    ];
    let servers =
        [bench.start(Side::Darter, 1, &[], Some("0"))?, bench.start(Side::Valkey, 1, &[], Some("0"))?];
    for server in &servers {
        for preparation in &preparations {
            run(server, preparation)?;
        }
    }
    let mut rows = Vec::new();
    for (what, reply_bytes, words) in asked {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..bench.rounds {
            for (figures, server) in figures.iter_mut().zip(&servers) {
                figures.push(run(server, &Load { commands, reply_bytes, words })?);
            }
        }
        let figures = figures.map(|figures| super::median(&figures));
        rows.push(ratio(&format!("{what}: CPU us/request"), figures, 3, Goal::None));
    }
    Ok(rows)
}

/// A row whose goal is about the ratio of the two.
fn ratio(what: &str, figures: [f64; 2], digits: usize, goal: Goal) -> Row {
    let [darter, valkey] = figures;
    let figure = darter / valkey;
    Row {
        what: what.into(),
        darter: format!("{darter:.digits$}"),
        valkey: format!("{valkey:.digits$}"),
        figure,
        shown: format!("{figure:.2} x"),
        goal,
    }
}
