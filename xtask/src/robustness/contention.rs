//! Many threads on few processors, all at the same keys: no lost reply, no reordered reply, no half-seen write, no deadlock.
//!
//! The latch itself is checked by a model and by tests of the shard crate; here it is the whole server, over sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::expect;
use crate::bench::load::Random;
use crate::fail::Result;
use crate::server::{Program, Server};
use crate::wire::{self, Client, Value};

/// How long each test loads the server; `DARTER_CONTENTION_SECONDS` makes it longer.
fn duration() -> Duration {
    let seconds = std::env::var("DARTER_CONTENTION_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

const CLIENTS: u64 = 24;
/// Keys of one MSET: more than there are shards, so that it meets nearly all.
const WIDE: usize = 200;

pub(super) fn start(program: &Program) -> Result<Server> {
    match program {
        Program::Darter(_) => Server::start(program, &["--threads", "16"]),
        Program::Reference(_) => Server::start::<&str>(program, &[]),
    }
}

/// Runs one function per client until time is up; the first error of any.
pub(super) fn load(
    address: SocketAddr,
    each: impl Fn(u64, &mut Client, &mut Random) -> Result<()> + Sync,
) -> Result<u64> {
    let stop = AtomicBool::new(false);
    let turns = AtomicU64::new(0);
    let deadline = Instant::now() + duration();
    let work = |number| -> Result<()> {
        let mut client = Client::connect(address)?;
        let mut random = Random(number);
        while !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
            each(number, &mut client, &mut random)?;
            turns.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (work, stop) = (&work, &stop);
                scope.spawn(move || work(number).inspect_err(|_| stop.store(true, Ordering::Relaxed)))
            })
            .collect();
        let outcomes = threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?);
        outcomes.collect::<Result<Vec<()>>>()
    })?;
    Ok(turns.into_inner())
}

/// Nine commands of ten on one key; MSETs over all shards; FLUSHALL every 100 ms.
pub fn hot_key(program: &Program) -> Result<()> {
    let mut server = start(program)?;
    let wide: Vec<String> = (0..WIDE).map(|n| format!("wide:{n}")).collect();
    let flushed = std::sync::Mutex::new(Instant::now());
    let turns = load(server.address, |number, client, random| {
        let mut last = flushed.lock().map_err(|_| "another client panicked")?;
        let flush = last.elapsed() > Duration::from_millis(100);
        if flush {
            *last = Instant::now();
        }
        drop(last);
        if flush {
            return expect(client.call(&["FLUSHALL"])?, "OK");
        }
        match random.below(10) {
            0 => whole_or_nothing(number, client, random, &wide),
            _ => in_order(client, random),
        }
    })?;
    server.check_alive()?;
    if turns < 100 { Err(format!("only {turns} turns: it nearly stands still").into()) } else { Ok(()) }
}

/// What one MSET wrote is seen as a whole.
fn whole_or_nothing(number: u64, client: &mut Client, random: &mut Random, wide: &[String]) -> Result<()> {
    let token = format!("{number}:{}", random.next());
    let pairs = wide.iter().flat_map(|key| [key.as_str(), token.as_str()]);
    let words: Vec<&str> = std::iter::once("MSET").chain(pairs).collect();
    expect(client.call(&words)?, "OK")?;
    let words: Vec<&str> = std::iter::once("MGET").chain(wide.iter().map(String::as_str)).collect();
    let reply = client.call(&words)?;
    let items = reply.items();
    match items.iter().find(|item| **item != items[0]) {
        None if items.len() == wide.len() => Ok(()),
        None => Err(format!("MGET gave {} values", items.len()).into()),
        Some(other) => {
            Err(format!("half an MSET was seen: {} beside {}", items[0].render(), other.render()).into())
        }
    }
}

/// A pipeline on the hot key with marks between: every reply at its place.
fn in_order(client: &mut Client, random: &mut Random) -> Result<()> {
    let marks: Vec<String> = (0..1 + random.below(16)).map(|_| random.next().to_string()).collect();
    let mut out = Vec::new();
    for mark in &marks {
        wire::encode(&["INCR", "hot"], &mut out);
        wire::encode(&["ECHO", mark], &mut out);
    }
    client.send_raw(&out)?;
    for mark in &marks {
        match client.receive_or_closed()? {
            Value::Integer(n) if n > 0 => {}
            other => return Err(format!("INCR: {}", other.render()).into()),
        }
        expect(client.receive_or_closed()?, &format!("\"{mark}\""))?;
    }
    Ok(())
}

/// Money moves between accounts in transactions; whoever reads all accounts sees the same total.
pub fn bank(program: &Program) -> Result<()> {
    const ACCOUNTS: u64 = 64;
    const EACH: i64 = 1000;
    let mut server = start(program)?;
    let accounts: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
    let mut opener = server.client()?;
    for account in &accounts {
        expect(opener.call(&["SET", account, &EACH.to_string()])?, "OK")?;
    }
    let total = EACH * ACCOUNTS as i64;
    let audit = |reply: Value| -> Result<()> {
        let sum: i64 = reply.items().iter().filter_map(|item| item.text().parse::<i64>().ok()).sum();
        if sum == total { Ok(()) } else { Err(format!("the total is {sum}, it was {total}").into()) }
    };
    let all: Vec<&str> = std::iter::once("MGET").chain(accounts.iter().map(String::as_str)).collect();
    let turns = load(server.address, |_, client, random| match random.below(4) {
        0 => audit(client.call(&all)?),
        1 => optimistic_transfer(client, random, &accounts),
        _ => {
            let (from, to) = (pick(random, &accounts), pick(random, &accounts));
            let amount = random.below(50).to_string();
            expect(client.call(&["MULTI"])?, "OK")?;
            expect(client.call(&["DECRBY", from, &amount])?, "QUEUED")?;
            expect(client.call(&["INCRBY", to, &amount])?, "QUEUED")?;
            let reply = client.call(&["EXEC"])?;
            if reply.items().len() == 2 { Ok(()) } else { Err(format!("EXEC: {}", reply.render()).into()) }
        }
    })?;
    server.check_alive()?;
    audit(opener.call(&all)?)?;
    if turns < 100 { Err(format!("only {turns} turns: it nearly stands still").into()) } else { Ok(()) }
}

pub(super) fn pick<'a>(random: &mut Random, accounts: &'a [String]) -> &'a str {
    &accounts[random.below(accounts.len() as u64) as usize]
}

/// Reads two balances under WATCH and writes them changed: fails, or nobody has come between.
fn optimistic_transfer(client: &mut Client, random: &mut Random, accounts: &[String]) -> Result<()> {
    let (from, to) = (pick(random, accounts), pick(random, accounts));
    if from == to {
        return Ok(());
    }
    expect(client.call(&["WATCH", from, to])?, "OK")?;
    let reply = client.call(&["MGET", from, to])?;
    let balances: Vec<i64> = reply.items().iter().filter_map(|item| item.text().parse().ok()).collect();
    let [a, b] = balances[..] else { return Err(format!("balances: {}", reply.render()).into()) };
    expect(client.call(&["MULTI"])?, "OK")?;
    expect(client.call(&["MSET", from, &(a - 7).to_string(), to, &(b + 7).to_string()])?, "QUEUED")?;
    match client.call(&["EXEC"])? {
        Value::NilArray | Value::Array(_) => Ok(()),
        other => Err(format!("EXEC: {}", other.render()).into()),
    }
}
