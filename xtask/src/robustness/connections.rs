//! Clients that do not read, that are many, that come and go, that send very much at once.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use super::{Scene, expect};
use crate::fail::Result;
use crate::wire::{self, Client, Value};

/// Writes until everything is sent or the server has not taken a byte for a while; how much was sent.
fn push_without_reading(client: &Client, block: &[u8], total: usize) -> Result<usize> {
    const STALLED: Duration = Duration::from_secs(1);
    let mut socket = client.socket();
    socket.set_write_timeout(Some(STALLED))?;
    let mut sent = 0;
    while sent < total {
        match socket.write(&block[sent % block.len()..]) {
            Ok(count) => sent += count,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(sent)
}

/// The most resident memory while the server answers a thousand commands of another client.
fn most_rss_mib(scene: &Scene) -> Result<u64> {
    let mut other = scene.client()?;
    let mut most = 0;
    for _ in 0..1000 {
        expect(other.call(&["PING"])?, "PONG")?;
        most = most.max(scene.rss_mib()?);
    }
    Ok(most)
}

/// A client that pipelines 100 MB and never reads may not take the server's memory; nor may one whose replies are far larger.
pub fn never_reads(scene: &mut Scene) -> Result<()> {
    const TOTAL: usize = 100 << 20;
    const GROWTH_MIB_MAX: u64 = 300;
    let before = scene.rss_mib()?;
    let mut block = Vec::new();
    while block.len() < 1 << 20 {
        wire::encode(&[b"ECHO".as_slice(), &[b'x'; 1000]], &mut block);
    }
    let mut echo = scene.client()?;
    let sent = push_without_reading(&echo, &block, TOTAL)?;
    let growth = most_rss_mib(scene)?.saturating_sub(before);
    if growth > GROWTH_MIB_MAX {
        return Err(format!("{sent} bytes of ECHO took {growth} MiB").into());
    }
    let whole = sent / (block.len() / block.iter().filter(|b| **b == b'*').count());
    for n in 0..whole.min(1000) {
        let reply = echo.receive_or_closed()?;
        if reply.bytes() != Some(&[b'x'; 1000]) {
            return Err(format!("reply {n} of a client that reads late: {:.80}", reply.render()).into());
        }
    }
    drop(echo);
    // A reference with its default limits keeps all of the following; Darter stops reading from such a client.
    if !scene.is_darter() {
        return Ok(());
    }
    expect(scene.client()?.call(&[b"SET".as_slice(), b"large", &vec![b'y'; 64 << 10]])?, "OK")?;
    let mut block = Vec::new();
    while block.len() < 1 << 20 {
        wire::encode(&["GET", "large"], &mut block);
    }
    let greedy = scene.client()?;
    push_without_reading(&greedy, &block, 4 << 20)?;
    let growth = most_rss_mib(scene)?.saturating_sub(before);
    if growth > GROWTH_MIB_MAX {
        return Err(format!("GETs of a large value that nobody reads took {growth} MiB").into());
    }
    Ok(())
}

/// A number of INFO.
fn told(client: &mut Client, name: &str) -> Result<u64> {
    let info = client.call(&["INFO", "everything"])?.text();
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.ok_or_else(|| format!("INFO has no {name}"))?.trim().parse()?)
}

/// The soft limit was only looked at when a client got more replies: one that had become silent stayed for ever.
pub fn over_soft_limit(scene: &mut Scene) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(10);
    let mut watcher = scene.client()?;
    // Far more than the buffers of both sockets hold.
    expect(watcher.call(&[b"SET".as_slice(), b"large", &vec![b'y'; 1 << 20]])?, "OK")?;
    let mut silent = scene.client()?;
    for _ in 0..20 {
        silent.send(&["GET", "large"])?;
    }
    let started = Instant::now();
    while told(&mut watcher, "client_output_buffer_limit_disconnections")? == 0 {
        if started.elapsed() > LIMIT {
            return Err("a client that reads nothing is still there".into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// `timeout` ended clients in the middle of a reply, and spared for ever those that had stopped reading.
pub fn slow_readers(scene: &mut Scene) -> Result<()> {
    const SIZE: usize = 64 << 20;
    const LIMIT: Duration = Duration::from_secs(20);
    let mut watcher = scene.client()?;
    expect(watcher.call(&[b"SET".as_slice(), b"large", &vec![b'y'; SIZE]])?, "OK")?;
    let mut slow = scene.client()?;
    slow.send(&["GET", "large"])?;
    let mut never = scene.client()?;
    never.send(&["GET", "large"])?;
    let (mut socket, mut got, started) = (slow.socket(), 0, Instant::now());
    let mut block = vec![0; SIZE / 20];
    while got < SIZE {
        // About four seconds for all of it, where one of silence is allowed.
        if started.elapsed() < Duration::from_secs(4) {
            std::thread::sleep(Duration::from_millis(200));
        }
        match socket.read(&mut block)? {
            0 => return Err(format!("closed after {got} bytes of the reply").into()),
            count => got += count,
        }
        expect(watcher.call(&["PING"])?, "PONG")?;
    }
    // The watcher, the neighbour, and who has read all of its reply for as long as `timeout` lets it stay.
    while told(&mut watcher, "connected_clients")? > 2 {
        if started.elapsed() > LIMIT {
            return Err("a client that reads nothing is still there".into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Connections leave nothing behind.
pub fn come_and_go(scene: &mut Scene) -> Result<()> {
    const AT_ONCE: usize = 500;
    const ROUNDS: usize = 20;
    const GROWTH_MIB_MAX: u64 = 64;
    let mut watcher = scene.client()?;
    let mut before = 0;
    for round in 0..ROUNDS {
        let mut open = Vec::new();
        for n in 0..AT_ONCE {
            let mut client = scene.client()?;
            match n % 4 {
                0 => {}
                1 => client.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\n")?,
                2 => client.send(&["PING"])?,
                _ => expect(client.call(&["ECHO", "x"])?, "\"x\"")?,
            }
            open.push(client);
        }
        drop(open);
        if round == 0 {
            before = scene.rss_mib()?;
        }
    }
    let started = Instant::now();
    loop {
        // The watcher and the neighbour.
        let left = told(&mut watcher, "connected_clients")?;
        if left <= 2 {
            break;
        }
        if started.elapsed() > Duration::from_secs(10) {
            return Err(format!("{left} clients are still there").into());
        }
        std::thread::yield_now();
    }
    let growth = scene.rss_mib()?.saturating_sub(before);
    if growth > GROWTH_MIB_MAX { Err(format!("they left {growth} MiB behind").into()) } else { Ok(()) }
}

/// Beyond `maxclients` a client is told so; the others stay, and places become free again.
pub fn too_many(scene: &mut Scene) -> Result<()> {
    let mut open = Vec::new();
    let mut refused = None;
    for _ in 0..60 {
        let mut client = scene.client()?;
        match client.call(&["PING"])? {
            Value::Simple(_) => open.push(client),
            other => {
                refused = Some(other);
                break;
            }
        }
    }
    let refused = refused.ok_or("60 clients were let in where 50 are allowed")?;
    if !matches!(&refused, Value::Error(e) if e.starts_with(b"ERR max number of clients"))
        && refused != Value::Closed
    {
        return Err(format!("refused with {}", refused.render()).into());
    }
    for client in &mut open {
        expect(client.call(&["PING"])?, "PONG")?;
    }
    drop(open);
    let started = Instant::now();
    while scene.client()?.call(&["PING"])? != Value::Simple(b"PONG".to_vec()) {
        if started.elapsed() > Duration::from_secs(5) {
            return Err("no place became free".into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Very many commands at once, over many shards, of several kinds: replies come in the order of the commands.
pub fn deep_pipeline(scene: &mut Scene) -> Result<()> {
    const COMMANDS: usize = 200_000;
    let mut sender = scene.client()?;
    let mut out = Vec::new();
    for n in 0..COMMANDS {
        let (key, value) = (format!("deep:{}", n % 977), n.to_string());
        match n % 5 {
            0 => wire::encode(&["SET", &key, &value], &mut out),
            1 => wire::encode(&["ECHO", &value], &mut out),
            2 => wire::encode(&["MSET", &key, &value, "deep:same", &value], &mut out),
            3 => wire::encode(&["GETSET", "deep:turn", &value], &mut out),
            _ => wire::encode(&["MGET", "deep:turn", "deep:same"], &mut out),
        }
    }
    let socket = sender.socket().try_clone()?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || (&socket).write_all(&out));
        for n in 0..COMMANDS {
            let reply = sender.receive_or_closed()?.render();
            let expected = match n % 5 {
                0 | 2 => "OK".to_string(),
                1 => format!("\"{n}\""),
                3 if n < 5 => "(nil)".to_string(),
                3 => format!("\"{}\"", n - 5),
                _ => format!("1) \"{}\"\n2) \"{}\"", n - 1, n - 2),
            };
            if reply != expected {
                return Err(format!("command {n}: expected {expected}, got {reply:.200}").into());
            }
        }
        writer.join().map_err(|_| "the writer panicked")?.map_err(Into::into)
    })
}
