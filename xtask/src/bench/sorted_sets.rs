//! Scenarios about sorted sets: memory of large and small ones, processor time of what is asked of them.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::load::Random;
use super::memory::{SIDES, each, own, used_memory};
use super::{Bench, Goal, Row, Side, median, process};
use crate::fail::Result;
use crate::server::Server;
use crate::wire;

/// Commands sent before their replies are read.
const PIPELINE: u64 = 1000;
/// Members that one ZADD of a load brings.
const LOAD_MEMBERS: u64 = 100;
/// Members of the set that is asked.
const ASKED_MEMBERS: u64 = 1_000_000;
/// Sets of the scenario with ZADD NX, and bytes of its members.
const SETS: u64 = 100;
const LONG_MEMBER_BYTES: usize = 36;
/// What the server is asked to repeat behind each batch: no reply before it looks like it.
const MARK: &[u8] = b"*2\r\n$4\r\nECHO\r\n$12\r\n~the-batch-~\r\n";
const MARK_REPLY: &[u8] = b"$12\r\n~the-batch-~\r\n";

/// A member of 8 bytes; numbers below 2^32 give different ones, in no order.
fn member(number: u64) -> String {
    format!("{:08x}", (number as u32).wrapping_mul(0x9e37_79b1))
}

fn score(random: &mut Random) -> String {
    ((random.next() >> 11) as f64 / (1_u64 << 53) as f64).to_string()
}

/// Sends commands in batches; what `command` writes for each number.
fn feed(server: &Server, commands: u64, mut command: impl FnMut(u64, &mut Vec<u8>)) -> Result<()> {
    let client = server.client()?;
    let mut socket = client.socket();
    let (mut out, mut replies) = (Vec::new(), vec![0; 1 << 20]);
    let mut sent = 0;
    while sent < commands {
        let batch = PIPELINE.min(commands - sent);
        out.clear();
        (sent..sent + batch).for_each(|number| command(number, &mut out));
        out.extend_from_slice(MARK);
        sent += batch;
        // Either the requests or the replies of a batch fit into the sockets' buffers, so neither side waits for the other.
        socket.write_all(&out)?;
        let mut tail = Vec::new();
        while !tail.ends_with(MARK_REPLY) {
            let read = socket.read(&mut replies)?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            tail.extend_from_slice(&replies[..read]);
            let kept = tail.len().saturating_sub(MARK_REPLY.len());
            tail.drain(..kept);
        }
    }
    Ok(())
}

/// One set `z` of so many members of 8 bytes with random scores.
fn fill_one(server: &Server, members: u64) -> Result<()> {
    let mut random = Random(7);
    feed(server, members / LOAD_MEMBERS, |number, out| {
        let scored: Vec<(String, String)> = (number * LOAD_MEMBERS..(number + 1) * LOAD_MEMBERS)
            .map(|number| (score(&mut random), member(number)))
            .collect();
        let mut words: Vec<&[u8]> = vec![b"ZADD", b"z"];
        scored.iter().for_each(|(score, member)| words.extend([score.as_bytes(), member.as_bytes()]));
        wire::encode(&words, out);
    })
}

/// One set of 10M and of 50M members of 8 bytes: bytes per member.
pub fn large(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for millions in [10, 50] {
        let members = bench.count(millions * 1_000_000);
        let figures = each(|side| {
            let server = bench.start(side, 1, &[], None)?;
            let empty = used_memory(&server)?;
            fill_one(&server, members)?;
            Ok((used_memory(&server)? - empty) as f64 / members as f64)
        })?;
        let what = format!("one sorted set, {members} members of 8 B, random scores: bytes/member");
        rows.push(own(&what, figures, 1, " B", Goal::AtMost(38.0)));
    }
    Ok(rows)
}

/// 20,000 sets of 256 members of 8 bytes: KiB per key.
pub fn small(bench: &Bench) -> Result<Vec<Row>> {
    const MEMBERS: u64 = 256;
    let sets = bench.count(20_000);
    let figures = each(|side| {
        let server = bench.start(side, 1, &[], None)?;
        let empty = used_memory(&server)?;
        let mut random = Random(7);
        // One member after another, as sets grow.
        feed(&server, sets * MEMBERS, |number, out| {
            let (key, score) = (format!("set:{}", number / MEMBERS), score(&mut random));
            wire::encode(
                &[b"ZADD".as_slice(), key.as_bytes(), score.as_bytes(), member(number).as_bytes()],
                out,
            );
        })?;
        Ok((used_memory(&server)? - empty) as f64 / sets as f64 / 1024.0)
    })?;
    let what = format!("{sets} sorted sets of {MEMBERS} members of 8 B: KiB/key");
    Ok(vec![own(&what, figures, 2, " KiB", Goal::AtMost(6.0))])
}

/// What is asked of the set `z`.
struct Question {
    name: &'static str,
    requests: u64,
    command: fn(&mut Random, &mut Vec<u8>),
}

const QUESTIONS: [Question; 3] = [
    Question {
        name: "ZRANK",
        requests: 1_000_000,
        command: |random, out| {
            wire::encode(&[b"ZRANK".as_slice(), b"z", member(random.below(ASKED_MEMBERS)).as_bytes()], out);
        },
    },
    Question {
        name: "ZRANGEBYSCORE LIMIT 0 100",
        requests: 100_000,
        command: |random, out| {
            let min = score(random);
            wire::encode(
                &[b"ZRANGEBYSCORE".as_slice(), b"z", min.as_bytes(), b"+inf", b"LIMIT", b"0", b"100"],
                out,
            );
        },
    },
    Question {
        name: "ZINCRBY",
        requests: 1_000_000,
        command: |random, out| {
            let (by, member) = (score(random), member(random.below(ASKED_MEMBERS)));
            wire::encode(&[b"ZINCRBY".as_slice(), b"z", by.as_bytes(), member.as_bytes()], out);
        },
    },
];

/// Processor time of questions to a set of 1M members.
pub fn questions(bench: &Bench) -> Result<Vec<Row>> {
    let mut servers = Vec::new();
    for side in SIDES {
        let server = bench.start(side, 1, &[], Some("0"))?;
        fill_one(&server, ASKED_MEMBERS)?;
        servers.push(server);
    }
    let mut rows = Vec::new();
    for question in QUESTIONS {
        let requests = bench.count(question.requests);
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..bench.rounds {
            for side in [round % 2, 1 - round % 2] {
                let mut random = Random(round as u64);
                let before = process::cpu_time(servers[side].pid())?;
                feed(&servers[side], requests, |_, out| (question.command)(&mut random, out))?;
                costs[side].push(per_request(process::cpu_time(servers[side].pid())? - before, requests));
            }
        }
        rows.push(ratio(
            &format!("{}, {ASKED_MEMBERS} members: CPU us/request", question.name),
            [median(&costs[0]), median(&costs[1])],
            3,
            Goal::AtMost(0.6),
        ));
    }
    Ok(rows)
}

/// ZADD NX of members of 36 bytes to 100 sets: processor time with one thread, requests per second with two.
pub fn growing(bench: &Bench) -> Result<Vec<Row>> {
    let requests = bench.count(5_000_000);
    let mut cpu = [0.0; 2];
    let mut per_second = [0.0; 2];
    for (at, side) in SIDES.into_iter().enumerate() {
        let server = bench.start(side, 1, &[], Some("0"))?;
        let before = process::cpu_time(server.pid())?;
        grow(&server, requests, 1)?;
        cpu[at] = per_request(process::cpu_time(server.pid())? - before, requests);
        drop(server);
        per_second[at] = two_threads(bench, side, requests)?;
        println!("{side:?}: {:.3} us/request, {:.0} requests/s with two threads", cpu[at], per_second[at]);
    }
    let what = format!("ZADD NX, {LONG_MEMBER_BYTES} B members, {SETS} sets, -P {PIPELINE}");
    Ok(vec![
        ratio(&format!("{what}: CPU us/request, 1 thread"), cpu, 3, Goal::AtMost(0.45)),
        ratio(&format!("{what}: requests/s, 2 threads"), per_second, 0, Goal::AtLeast(3.0)),
    ])
}

fn two_threads(bench: &Bench, side: Side, requests: u64) -> Result<f64> {
    const CONNECTIONS: u64 = 4;
    let server = bench.start(side, 2, &[], None)?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                let server = &server;
                scope
                    .spawn(move || grow(server, requests / CONNECTIONS, n).map_err(|error| error.to_string()))
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a client panicked".to_string())?)
    })?;
    Ok(requests as f64 / start.elapsed().as_secs_f64())
}

fn grow(server: &Server, requests: u64, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    feed(server, requests, |_, out| {
        let (key, score) = (format!("z{}", random.below(SETS)), score(&mut random));
        let mut member = format!("{:016x}{:016x}", random.next(), random.next());
        while member.len() < LONG_MEMBER_BYTES {
            member.push('m');
        }
        wire::encode(&[b"ZADD".as_slice(), key.as_bytes(), b"NX", score.as_bytes(), member.as_bytes()], out);
    })
}

fn per_request(cpu: Duration, requests: u64) -> f64 {
    cpu.as_secs_f64() * 1e6 / requests as f64
}

fn ratio(what: &str, figures: [f64; 2], digits: usize, goal: Goal) -> Row {
    let figure = figures[0] / figures[1];
    Row {
        what: what.into(),
        darter: format!("{:.digits$}", figures[0]),
        valkey: format!("{:.digits$}", figures[1]),
        figure,
        shown: format!("{figure:.2} x"),
        goal,
    }
}
