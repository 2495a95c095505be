//! Clients that cache what they read: a cached value is never older than what its client has been told, whatever order threads run in.
//!
//! A writer sets its keys in turns to ascending numbers, so that one value tells how new every other key of the same writer must be. A client that
//! reads a value of one key may not have a cached value of another key that was overwritten before that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::expect;
use crate::bench::load::Random;
use crate::fail::Result;
use crate::server::{Program, Server};
use crate::wire::{self, Client, Value};

const WRITERS: u64 = 2;
/// Keys of each writer.
const KEYS: u64 = 12;
const CLIENTS: u64 = 8;
const DURATION: Duration = Duration::from_secs(2);
/// Commands of one batch of a client.
const BATCH_MAX: u64 = 8;

/// How a client tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Every key that it reads.
    Default,
    /// As many again, each read behind CLIENT CACHING YES.
    OptIn,
    /// Reads by EXEC.
    Transactions,
    /// Every key with a prefix: what it is told comes at the latest behind the reply, so that only the last reply of a batch counts.
    Broadcast,
}

const MODES: [Mode; 4] = [Mode::Default, Mode::OptIn, Mode::Transactions, Mode::Broadcast];

/// Some clients of each mode, and writers, on a server with more threads than cores.
pub fn storm(program: &Program) -> Result<()> {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let server = Server::start(program, &["--threads", "4"])?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || write(server, writer, stop).map_err(|e| e.to_string()))
            })
            .collect();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mode = MODES[number as usize % MODES.len()];
                let server = &server;
                scope.spawn(move || {
                    let outcome = Caching::connect(server, mode, seed ^ number << 20).and_then(Caching::run);
                    outcome.map_err(|error| format!("{mode:?}: {error}"))
                })
            })
            .collect();
        let mut outcome: std::result::Result<u64, String> = Ok(0);
        for client in clients {
            let hits = client.join().map_err(|_| "a client panicked".to_string()).and_then(|hits| hits);
            outcome = outcome.and_then(|sum: u64| Ok(sum + hits?));
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| "a writer panicked")??;
        }
        let told = outcome?;
        println!("{told} keys were invalidated");
        if told == 0 { Err("nobody was told of anything".into()) } else { Ok(()) }
    })
}

/// Sets the keys of one writer in turns, in batches.
fn write(server: &Server, writer: u64, stop: &AtomicBool) -> Result<()> {
    let mut client = server.client()?;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut out = Vec::new();
        for _ in 0..5 {
            let key = format!("k:{writer}:{}", number % KEYS);
            wire::encode(&["SET", &key, &number.to_string()], &mut out);
            number += 1;
        }
        client.send_raw(&out)?;
        (0..5).try_for_each(|_| expect(client.receive()?, "OK"))?;
    }
    Ok(())
}

/// A client with its cache: writer and key, and the number that the key held.
struct Caching {
    client: Client,
    mode: Mode,
    random: Random,
    cache: HashMap<(u64, u64), u64>,
    told: u64,
}

impl Caching {
    fn connect(server: &Server, mode: Mode, seed: u64) -> Result<Self> {
        let mut client = server.client()?;
        client.call(&["HELLO", "3"])?;
        let words: &[&str] = match mode {
            Mode::Default | Mode::Transactions => &["CLIENT", "TRACKING", "ON"],
            Mode::OptIn => &["CLIENT", "TRACKING", "ON", "OPTIN"],
            Mode::Broadcast => &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "k:"],
        };
        expect(client.call(words)?, "OK")?;
        Ok(Self { client, mode, random: Random(seed), cache: HashMap::new(), told: 0 })
    }

    /// Reads for a while; how many keys it was told of.
    fn run(mut self) -> Result<u64> {
        let started = Instant::now();
        while started.elapsed() < DURATION {
            let keys: Vec<(u64, u64)> = (0..=self.random.below(BATCH_MAX))
                .map(|_| (self.random.below(WRITERS), self.random.below(KEYS)))
                .filter(|key| !self.cache.contains_key(key) || self.mode == Mode::Broadcast)
                .collect();
            let mut out = Vec::new();
            for (writer, key) in &keys {
                let get = ["GET".to_string(), format!("k:{writer}:{key}")];
                match self.mode {
                    Mode::OptIn => wire::encode(&["CLIENT", "CACHING", "YES"], &mut out),
                    Mode::Transactions => wire::encode(&["MULTI"], &mut out),
                    Mode::Default | Mode::Broadcast => {}
                }
                wire::encode(&get, &mut out);
                if self.mode == Mode::Transactions {
                    wire::encode(&["EXEC"], &mut out);
                }
            }
            wire::encode(&["PING"], &mut out);
            self.client.send_raw(&out)?;
            let mut seen = Vec::new();
            for (writer, key) in keys {
                match self.mode {
                    Mode::OptIn => expect(self.reply()?, "OK")?,
                    Mode::Transactions => {
                        expect(self.reply()?, "OK")?;
                        expect(self.reply()?, "QUEUED")?;
                    }
                    Mode::Default | Mode::Broadcast => {}
                }
                let reply = self.reply()?;
                let reply = if let Value::Array(items) = &reply { &items[0] } else { &reply };
                let Some(number) =
                    reply.bytes().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
                else {
                    continue;
                };
                self.cache.insert((writer, key), number);
                seen.push((writer, key, number));
                if self.mode != Mode::Broadcast {
                    self.check(writer, key, number)?;
                }
            }
            expect(self.reply()?, "PONG")?;
            seen.into_iter().try_for_each(|(writer, key, number)| self.check(writer, key, number))?;
        }
        Ok(self.told)
    }

    /// The next reply; what was told before it is no longer cached.
    fn reply(&mut self) -> Result<Value> {
        loop {
            let reply = self.client.receive()?;
            let Value::Push(items) = &reply else { return Ok(reply) };
            for key in items.last().map(Value::items).unwrap_or_default() {
                let text = key.text();
                let mut parts = text.split(':').skip(1).map(str::parse);
                if let (Some(Ok(writer)), Some(Ok(key))) = (parts.next(), parts.next()) {
                    self.cache.remove(&(writer, key));
                    self.told += 1;
                }
            }
        }
    }

    /// What is cached of this writer must be what its keys held when it had just written `number`, or newer.
    fn check(&self, writer: u64, read: u64, number: u64) -> Result<()> {
        for key in (0..KEYS).filter(|key| *key != read) {
            let Some(cached) = self.cache.get(&(writer, key)) else { continue };
            let behind = (number + KEYS - key) % KEYS;
            let held = number.checked_sub(behind);
            if held.is_some_and(|held| *cached < held) {
                return Err(format!(
                    "k:{writer}:{read} is {number}, so k:{writer}:{key} was {held:?}, but {cached} is cached and nothing was told"
                )
                .into());
            }
        }
        Ok(())
    }
}
