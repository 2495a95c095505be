//! From a configuration to a running server: listeners, number of threads and shards.

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use reactor::EngineKind;
use session::config::{Bind, Config, Engine, Loaded};
use session::serve::{self, Setup};
use session::shared::Start;
use socket2::{Domain, Protocol, Socket, Type};

/// Shards per thread: many, so that two threads seldom meet in one.
const SHARDS_PER_THREAD: u32 = 32;

/// Bounds of the default number of shards.
const SHARDS_MIN: u32 = 64;
const SHARDS_MAX: u32 = 4096;

/// Runs a server until it is stopped.
pub fn run(loaded: Loaded) -> Result<(), Box<dyn Error>> {
    let config = Arc::new(loaded.config);
    let usable = reactor::affinity::cores().usable() as u32;
    let threads = config.threads.map_or(usable, Into::into);
    let shards = config.shards.map_or_else(
        || (threads * SHARDS_PER_THREAD).next_power_of_two().clamp(SHARDS_MIN, SHARDS_MAX),
        Into::into,
    );
    let listeners = listeners(&config)?;
    let setup = Setup {
        threads: u16::try_from(threads)?,
        shards: u16::try_from(shards)?,
        databases: u16::try_from(config.databases)?,
        io_engine: match config.io_engine {
            Engine::Auto => EngineKind::Auto,
            Engine::Uring => EngineKind::Uring,
            Engine::Epoll => EngineKind::Epoll,
        },
        cores: Vec::new(),
        listeners,
        config,
        start: Start {
            run_id: String::new(),
            unix_ms: reactor::clock::unix_ms(),
            executable: String::new(),
            config_file: None,
        },
    };
    let shared = serve::prepare(&setup)?;
    serve::serve(&shared, setup)
}

fn listeners(config: &Config) -> Result<Vec<OwnedFd>, Box<dyn Error>> {
    let mut sockets = Vec::new();
    for bind in &config.bind {
        let address = address(bind, config.port)?;
        match listener(address, config.tcp_backlog) {
            Ok(socket) => sockets.push(socket),
            Err(_) if bind.optional => {}
            Err(error) => return Err(format!("Could not listen on {address}: {error}").into()),
        }
    }
    Ok(sockets)
}

fn address(bind: &Bind, port: u16) -> Result<SocketAddr, Box<dyn Error>> {
    let host = match bind.address.as_str() {
        "*" => "0.0.0.0",
        "::*" => "::",
        host => host,
    };
    let mut found = (host, port).to_socket_addrs()?;
    found.next().ok_or_else(|| format!("bind: '{host}' has no address").into())
}

fn listener(address: SocketAddr, backlog: u32) -> std::io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}
