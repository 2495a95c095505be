//! Scenarios of what connections use beside data: scripts, channels, CLIENT TRACKING, users with rules.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::load::Random;
use super::speed::{self, Outcome, Run, compare, cpu_row, middle, row};
use super::{Bench, Goal, Row, Side, median, process};
use crate::fail::{Failure, Result};
use crate::server::Server;
use crate::wire::{self, Value};

const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";
/// What SCRIPT LOAD answers for [`SCRIPT`].
const SCRIPT_ID: &str = "2b20e84ba26251fc86a627f03be6dd614b31bac8";
const SCRIPT_CALL: &[&str] = &[
    "EVALSHA",
    SCRIPT_ID,
    "1",
    "key:__rand_int__",
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-",
];

/// A script that sets and gets a key: processor time with one thread, requests per second with two.
pub fn scripts(bench: &Bench) -> Result<Vec<Row>> {
    let one = Run { command: SCRIPT_CALL, ..Run::pipeline_16("EVALSHA", 600_000) };
    let two = Run { client_cpus: None, client_threads: 2, ..one };
    let single = compare(bench, 1, Some("0"), &[one], load_script)?;
    let double = compare(bench, 2, None, &[two], load_script)?;
    let faster = Goal::AtLeast(2.5);
    Ok(vec![
        cpu_row("1 thread", &single[0], 0.7),
        row("2 threads: requests/s", &double[0], |outcome| outcome.per_second, 0, faster),
    ])
}

fn load_script(server: &Server) -> Result<()> {
    let id = server.client()?.call(&["SCRIPT", "LOAD", SCRIPT])?;
    if id.text() == SCRIPT_ID { Ok(()) } else { Err(format!("SCRIPT LOAD: {}", id.render()).into()) }
}

/// GET on connections that are told what becomes invalid.
pub fn tracking(bench: &Bench) -> Result<Vec<Row>> {
    let run = Run { more: &["-3", "--enable-tracking"], ..Run::pipeline_16("get", 2_000_000) };
    let pairs = compare(bench, 1, Some("0"), &[run], tracks)?;
    Ok(vec![cpu_row("GET", &pairs[0], 0.7)])
}

/// That the server tracks at all: a key that was read and is then written is told.
fn tracks(server: &Server) -> Result<()> {
    let mut reader = server.client()?;
    for words in [&["HELLO", "3"][..], &["CLIENT", "TRACKING", "ON"], &["GET", "tracked"]] {
        let reply = reader.call(words)?;
        if reply.is_error() {
            return Err(format!("{}: {}", words.join(" "), reply.render()).into());
        }
    }
    server.client()?.call(&["SET", "tracked", "x"])?;
    match reader.receive()? {
        Value::Push(_) => Ok(()),
        other => Err(format!("a key that was read and written is told as {}", other.render()).into()),
    }
}

/// Users, rules of each, and the processor time of SET by one of them against that of a server that has none.
const USERS: u64 = 1_000;
const PASSWORD: &str = "secret";
/// With `on` and the password ten rules.
const RULES: &[&str] =
    &["resetchannels", "+@all", "-@dangerous", "-@admin", "-debug", "~key:*", "%R~read:*", "~other:{tag}*"];

/// The cost of rules, as a ratio of two servers of each side.
pub fn rules(bench: &Bench) -> Result<Vec<Row>> {
    let plain = Run::pipeline_16("set", 2_000_000);
    let ruled = Run { more: &["--user", "user:500", "-a", PASSWORD], ..plain };
    let mut sides = Vec::new();
    for side in [Side::Darter, Side::Valkey] {
        let without = speed::filled(bench, side, 1, Some("0"))?;
        let with = speed::filled(bench, side, 1, Some("0"))?;
        make_users(&with)?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds {
            before.push(speed::once(bench, &without, &plain)?);
            after.push(speed::once(bench, &with, &ruled)?);
        }
        sides.push((middle(&before), middle(&after)));
    }
    let shown = |(without, with): (Outcome, Outcome)| format!("{:.3} -> {:.3}", without.cpu_us, with.cpu_us);
    let ratio = |(without, with): (Outcome, Outcome)| with.cpu_us / without.cpu_us;
    Ok(vec![Row {
        what: format!("SET: CPU us/request without and with rules (Valkey: {:.2} x)", ratio(sides[1])),
        darter: shown(sides[0]),
        valkey: shown(sides[1]),
        figure: ratio(sides[0]),
        shown: format!("{:.2} x", ratio(sides[0])),
        goal: Goal::AtMost(1.05),
    }])
}

fn make_users(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    let password = format!(">{PASSWORD}");
    for user in 0..USERS {
        let name = format!("user:{user}");
        let words: Vec<&str> =
            ["ACL", "SETUSER", &name, "on", &password].into_iter().chain(RULES.iter().copied()).collect();
        let reply = client.call(&words)?;
        if reply.is_error() {
            return Err(format!("{}: {}", words.join(" "), reply.render()).into());
        }
    }
    Ok(())
}

/// Connections that subscribe, bytes of a message, publishes before their replies are read.
const SUBSCRIBERS: usize = 100;
const MESSAGE_BYTES: usize = 64;
const BATCH: usize = 64;

/// Who listens to what.
struct Audience {
    what: &'static str,
    channels: usize,
    /// Every connection listens to every channel; else each channel has one of them.
    all: bool,
    publishes: u64,
}

/// Processor time per message that reaches a subscriber.
pub fn publish(bench: &Bench) -> Result<Vec<Row>> {
    let audiences = [
        Audience { what: "1 channel, 100 subscribers", channels: 1, all: true, publishes: 20_000 },
        Audience {
            what: "10,000 channels, 1 subscriber each",
            channels: 10_000,
            all: false,
            publishes: 600_000,
        },
    ];
    let mut rows = Vec::new();
    for audience in &audiences {
        let servers = [Side::Darter, Side::Valkey].map(|side| bench.start(side, 1, &[], Some("0")));
        let [darter, valkey] = servers;
        let (darter, valkey) = (darter?, valkey?);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds {
            ours.push(deliver(bench, &darter, audience)?);
            theirs.push(deliver(bench, &valkey, audience)?);
            println!("{}: {:.3} and {:.3} us/message", audience.what, median(&ours), median(&theirs));
        }
        let (ours, theirs) = (median(&ours), median(&theirs));
        rows.push(Row {
            what: format!("{}: CPU us per delivered message", audience.what),
            darter: format!("{ours:.3}"),
            valkey: format!("{theirs:.3}"),
            figure: ours / theirs,
            shown: format!("{:.2} x", ours / theirs),
            goal: Goal::AtMost(0.6),
        });
    }
    Ok(rows)
}

fn channel(number: usize) -> String {
    format!("channel:{number:06}")
}

/// One round: everybody subscribes, everything is published, and it is over when the last subscriber has read its last byte.
fn deliver(bench: &Bench, server: &Server, audience: &Audience) -> Result<f64> {
    let publishes = bench.count(audience.publishes);
    let mut random = Random(11);
    let numbers: Vec<usize> =
        (0..publishes).map(|_| random.below(audience.channels as u64) as usize).collect();
    let message = "m".repeat(MESSAGE_BYTES);
    let mut frame = Vec::new();
    wire::encode(&["message", &channel(0), &message], &mut frame);
    let mut expected = [0; SUBSCRIBERS];
    for number in &numbers {
        for (subscriber, messages) in expected.iter_mut().enumerate() {
            *messages += u64::from(audience.all || number % SUBSCRIBERS == subscriber);
        }
    }
    let sockets: Vec<TcpStream> =
        (0..SUBSCRIBERS).map(|subscriber| subscribe(server, audience, subscriber)).collect::<Result<_>>()?;
    let mut publisher = server.client()?.into_socket();
    let before = process::cpu_time(server.pid())?;
    std::thread::scope(|scope| {
        let readers: Vec<_> = sockets
            .iter()
            .zip(&expected)
            .map(|(socket, messages)| {
                let bytes = messages * frame.len() as u64;
                scope.spawn(move || skip(socket, bytes))
            })
            .collect();
        for numbers in numbers.chunks(BATCH) {
            let mut out = Vec::new();
            for number in numbers {
                wire::encode(&["PUBLISH", &channel(*number), &message], &mut out);
            }
            publisher.write_all(&out)?;
            let reply = if audience.all { format!(":{SUBSCRIBERS}\r\n") } else { ":1\r\n".to_string() };
            let mut replies = vec![0; reply.len() * numbers.len()];
            publisher.read_exact(&mut replies)?;
            if replies.chunks(reply.len()).any(|one| one != reply.as_bytes()) {
                return Err(format!("PUBLISH: {}", replies.escape_ascii()).into());
            }
        }
        for reader in readers {
            reader.join().map_err(|_| "a subscriber panicked")??;
        }
        Ok::<(), Failure>(())
    })?;
    let spent = process::cpu_time(server.pid())?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / expected.iter().sum::<u64>() as f64)
}

/// A connection that listens to its channels.
fn subscribe(server: &Server, audience: &Audience, subscriber: usize) -> Result<TcpStream> {
    let mut client = server.client()?;
    for number in (0..audience.channels).filter(|number| audience.all || number % SUBSCRIBERS == subscriber) {
        let reply = client.call(&["SUBSCRIBE", &channel(number)])?;
        if reply.is_error() {
            return Err(format!("SUBSCRIBE: {}", reply.render()).into());
        }
    }
    Ok(client.into_socket())
}

/// Reads and forgets so many bytes.
fn skip(mut socket: &TcpStream, bytes: u64) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match socket.read(&mut buffer[..most])? {
            0 => return Err("the server has closed a subscriber's connection".into()),
            count => left -= count as u64,
        }
    }
    Ok(())
}
