//! A loader for the memory scenarios: one connection, pipelined, exact keys and sizes, which `valkey-benchmark` cannot give.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::process;
use crate::fail::Result;
use crate::server::Server;
use crate::wire;

/// Commands sent before their replies are read: enough to keep the server busy, small enough for the sockets' buffers.
const BATCH: u64 = 512;
/// Keys are `key:` and twelve digits: 16 bytes.
pub const KEY_BYTES: u64 = 16;

/// What is loaded.
pub struct Load {
    /// Numbers of the keys, each from this range.
    pub keys: std::ops::Range<u64>,
    /// How many commands.
    pub commands: u64,
    /// Keys are drawn at random from the range instead of one after another.
    pub random: bool,
    /// Lengths of values, drawn uniformly.
    pub value_bytes: std::ops::RangeInclusive<u64>,
    /// With this time to live, by SETEX.
    pub ttl_s: Option<u64>,
}

/// One second of a load.
pub struct Second {
    pub commands: u64,
    /// Processor time of the server.
    pub cpu: Duration,
}

/// A small generator of random numbers (splitmix64), seeded so that both servers get the same bytes.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Sends everything; returns what every second of it cost, the last, incomplete one left out.
pub fn run(server: &Server, load: &Load) -> Result<Vec<Second>> {
    let client = server.client()?;
    let mut socket = client.socket();
    let mut random = Random(42);
    let mut noise = vec![0; 64 << 10];
    noise.iter_mut().for_each(|byte| *byte = random.next() as u8);
    let mut seconds = Vec::new();
    let (mut sent, mut sent_before) = (0, 0);
    let mut second_began = Instant::now();
    let mut cpu_before = process::cpu_time(server.pid())?;
    let mut out = Vec::new();
    while sent < load.commands {
        let batch = BATCH.min(load.commands - sent);
        out.clear();
        for n in sent..sent + batch {
            one(load, n, &mut random, &noise, &mut out);
        }
        socket.write_all(&out)?;
        read_oks(&mut socket, batch)?;
        sent += batch;
        if second_began.elapsed() >= Duration::from_secs(1) {
            let cpu = process::cpu_time(server.pid())?;
            seconds.push(Second { commands: sent - sent_before, cpu: cpu.saturating_sub(cpu_before) });
            (cpu_before, sent_before, second_began) = (cpu, sent, Instant::now());
        }
    }
    Ok(seconds)
}

fn one(load: &Load, n: u64, random: &mut Random, noise: &[u8], out: &mut Vec<u8>) {
    let range = load.keys.end - load.keys.start;
    let number = load.keys.start + if load.random { random.below(range) } else { n % range };
    let (least, most) = (*load.value_bytes.start(), *load.value_bytes.end());
    let len = (least + random.below(most - least + 1)) as usize;
    let from = random.below((noise.len() - len) as u64) as usize;
    let key = format!("key:{number:012}");
    let value = &noise[from..from + len];
    match load.ttl_s {
        None => wire::encode(&[b"SET", key.as_bytes(), value], out),
        Some(ttl) => wire::encode(&[b"SETEX", key.as_bytes(), ttl.to_string().as_bytes(), value], out),
    }
}

fn read_oks(socket: &mut impl Read, count: u64) -> Result<()> {
    const OK: &[u8] = b"+OK\r\n";
    let mut replies = vec![0; count as usize * OK.len()];
    socket.read_exact(&mut replies)?;
    if replies.chunks(OK.len()).any(|reply| reply != OK) {
        return Err(format!(
            "a reply other than OK: {}",
            String::from_utf8_lossy(&replies[..64.min(replies.len())])
        )
        .into());
    }
    Ok(())
}
