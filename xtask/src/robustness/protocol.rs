//! Bytes that are no commands, or not yet.

use std::net::Shutdown;

use super::{Scene, expect, expect_error};
use crate::bench::load::Random;
use crate::fail::Result;
use crate::wire::{self, Client, Value};

/// Sends bytes on a connection of their own; what comes back first.
fn answer(scene: &Scene, bytes: &[u8]) -> Result<(Client, Value)> {
    let mut client = scene.client()?;
    client.send_raw(bytes)?;
    let reply = client.receive_or_closed()?;
    Ok((client, reply))
}

/// The bytes must be answered with this error, and the connection closed.
fn refused(scene: &Scene, bytes: &[u8], why: &str) -> Result<()> {
    let told = |error| format!("{}: {error}", crate::words::quote(&bytes[..bytes.len().min(60)]));
    let (mut client, reply) = answer(scene, bytes).map_err(told)?;
    expect_error(&reply, why).map_err(told)?;
    expect(client.receive_or_closed().map_err(told)?, "(closed)").map_err(told)?;
    Ok(())
}

/// Counts and lengths that are negative, huge or no numbers.
pub fn bad_counts(scene: &mut Scene) -> Result<()> {
    let count = "Protocol error: invalid multibulk length";
    let length = "Protocol error: invalid bulk length";
    for (bytes, why) in [
        ("*x\r\n", count),
        ("*1x\r\n", count),
        ("* 1\r\n", count),
        ("*2147483648\r\n", count),
        ("*99999999999999999999\r\n", count),
        ("*1\r\n$x\r\n", length),
        ("*1\r\n$-1\r\n", length),
        ("*1\r\n$-99999999999\r\n", length),
        ("*1\r\n$536870913\r\n", length),
        ("*1\r\n$9223372036854775807\r\n", length),
        ("*1\r\n$99999999999999999999\r\n", length),
        ("*1\r\n:5\r\n", "Protocol error: expected '$', got ':'"),
        ("*2\r\n$4\r\nPING\r\n+x\r\n", "Protocol error: expected '$', got '+'"),
        ("SET \"a b\r\n", "Protocol error: unbalanced quotes in request"),
    ] {
        refused(scene, bytes.as_bytes(), why)?;
    }
    // Counts of nothing are no commands and get no reply.
    for nothing in ["*0\r\n", "*-1\r\n", "*-2147483648\r\n", "\r\n", "   \r\n"] {
        let (_, reply) = answer(scene, format!("{nothing}PING\r\n").as_bytes())?;
        expect(reply, "PONG").map_err(|e| format!("{nothing:?}: {e}"))?;
    }
    // What came before a broken command is answered.
    let (mut client, first) = answer(scene, b"PING\r\n*1\r\n$x\r\n")?;
    expect(first, "PONG")?;
    expect_error(&client.receive_or_closed()?, length)
}

/// A client that has not said who it is may not make the server allocate.
pub fn before_auth(scene: &mut Scene) -> Result<()> {
    refused(scene, b"*11\r\n", "Protocol error: unauthenticated multibulk length")?;
    refused(scene, b"*1\r\n$16385\r\n", "Protocol error: unauthenticated bulk length")?;
    let (mut client, reply) = answer(scene, b"GET a\r\n")?;
    expect_error(&reply, "NOAUTH Authentication required.")?;
    expect_error(&client.call(&["AUTH", "wrong"])?, "WRONGPASS")?;
    expect(client.call(&["AUTH", "secret"])?, "OK")?;
    expect(client.call(&["GET", "a"])?, "(nil)")
}

/// A header that promises a million words costs nothing.
pub fn million_elements(scene: &mut Scene) -> Result<()> {
    const CLIENTS: usize = 100;
    const GROWTH_MIB_MAX: u64 = 64;
    let before = scene.rss_mib()?;
    let mut open = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = scene.client()?;
        client.send_raw(b"*1048576\r\n$4\r\n")?;
        open.push(client);
    }
    expect(scene.client()?.call(&["PING"])?, "PONG")?;
    let growth = scene.rss_mib()?.saturating_sub(before);
    if growth > GROWTH_MIB_MAX {
        return Err(format!("{CLIENTS} such headers took {growth} MiB").into());
    }
    // A command of very many words, whole, works.
    let many: Vec<String> = (0..200_000).map(|n| format!("no:{n}")).collect();
    let words: Vec<&str> = std::iter::once("EXISTS").chain(many.iter().map(String::as_str)).collect();
    expect(scene.client()?.call(&words)?, "(integer) 0")
}

/// Commands in both forms, with their replies.
fn commands() -> Vec<(Vec<u8>, &'static [&'static str])> {
    let mut pipeline = Vec::new();
    wire::encode(&["SET", "half", "a\r\nb"], &mut pipeline);
    wire::encode(&["GET", "half"], &mut pipeline);
    vec![
        (pipeline, &["OK", "\"a\\r\\nb\""]),
        (b"SET half \"x y\"\r\nGET half\n".to_vec(), &["OK", "\"x y\""]),
    ]
}

/// The rest of a command may come at any time.
pub fn silence_at_every_byte(scene: &mut Scene) -> Result<()> {
    let mut other = scene.client()?;
    for (bytes, replies) in commands() {
        for cut in 0..=bytes.len() {
            let mut client = scene.client()?;
            client.send_raw(&bytes[..cut])?;
            expect(other.call(&["PING"])?, "PONG")?;
            client.send_raw(&bytes[cut..])?;
            for reply in replies {
                expect(client.receive_or_closed()?, reply).map_err(|e| format!("cut at byte {cut}: {e}"))?;
            }
        }
        let mut client = scene.client()?;
        for byte in &bytes {
            client.send_raw(&[*byte])?;
        }
        for reply in replies {
            expect(client.receive_or_closed()?, reply).map_err(|e| format!("byte by byte: {e}"))?;
        }
    }
    Ok(())
}

/// A command that never came whole is not executed.
pub fn disconnect_at_every_byte(scene: &mut Scene) -> Result<()> {
    let mut other = scene.client()?;
    for (bytes, _) in commands() {
        let first = bytes.len() - if bytes[0] == b'*' { 23 } else { 9 };
        for cut in 0..bytes.len() {
            expect(other.call(&["SET", "half", "before"])?, "OK")?;
            let mut client = scene.client()?;
            client.send_raw(&bytes[..cut])?;
            client.socket().shutdown(Shutdown::Write)?;
            // The server closes when it has seen the end; what it answers before are the commands that came whole.
            while client.receive_or_closed()? != Value::Closed {}
            if cut < first {
                expect(other.call(&["GET", "half"])?, "\"before\"")
                    .map_err(|e| format!("cut at byte {cut}: {e}"))?;
            }
        }
    }
    Ok(())
}

/// A line that does not end.
pub fn inline_garbage(scene: &mut Scene) -> Result<()> {
    let mut random = Random(5);
    let garbage: Vec<u8> = (0..(64 << 10) + 1).map(|_| b'a' + random.below(26) as u8).collect();
    refused(scene, &garbage, "Protocol error: too big inline request")?;
    refused(scene, &[b"*".as_slice(), &garbage].concat(), "Protocol error: too big mbulk count string")?;
    refused(scene, &[b"*1\r\n$".as_slice(), &garbage].concat(), "Protocol error: too big bulk count string")
}

/// Whatever comes, the server stays and the connection is answered or closed.
pub fn random_bytes(scene: &mut Scene) -> Result<()> {
    const BLOBS: u64 = 400;
    const TOKENS: &[&str] = &[
        "*",
        "$",
        "\r\n",
        "\n",
        "3",
        "-1",
        "SET",
        "GET",
        " ",
        "\"",
        "PING",
        "\0",
        "1048576",
        "*1\r\n$4\r\nPING\r\n",
    ];
    for seed in 0..BLOBS {
        let mut random = Random(seed);
        let mut blob = Vec::new();
        for _ in 0..random.below(200) {
            match random.below(4) {
                0 => blob.push(random.next() as u8),
                _ => blob.extend_from_slice(TOKENS[random.below(TOKENS.len() as u64) as usize].as_bytes()),
            }
        }
        let mut client = scene.client()?;
        client.send_raw(&blob)?;
        client.socket().shutdown(Shutdown::Write)?;
        loop {
            match client.receive_or_closed() {
                Ok(Value::Closed) => break,
                Ok(_) => {}
                Err(error) => return Err(format!("seed {seed}: {error}").into()),
            }
        }
        scene.server.check_alive().map_err(|e| format!("seed {seed}: {e}"))?;
    }
    Ok(())
}

/// A browser that was talked into sending commands.
pub fn http_post(scene: &mut Scene) -> Result<()> {
    for request in ["POST / HTTP/1.1\r\nHost: x\r\n\r\nSET post 1\r\n", "Host: x\r\nSET post 1\r\n"] {
        let (_, reply) = answer(scene, request.as_bytes())?;
        expect(reply, "(closed)")?;
    }
    expect(scene.client()?.call(&["EXISTS", "post"])?, "(integer) 0")?;
    let log = scene.server.log().to_lowercase();
    if log.contains("security") || log.contains("http") {
        Ok(())
    } else {
        Err(format!("not logged:\n{log}").into())
    }
}
