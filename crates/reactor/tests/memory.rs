//! What an idle connection costs. A test binary of its own, because resident memory is the process's.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::net::TcpStream;

use reactor::Options;
use support::{ENGINES, Server, echo};

/// Bytes of private memory in RAM.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn an_idle_connection_is_cheap() {
    const COUNT: usize = 5000;
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        // Buffers that all connections share are in use already.
        let warm: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
        for mut stream in &warm {
            echo(&mut stream, &[1; 5000]);
        }
        let before = resident_bytes();
        let streams: Vec<TcpStream> = (0..COUNT).map(|_| server.connect()).collect();
        for mut stream in &streams {
            echo(&mut stream, &[1; 100]);
        }
        let each = resident_bytes().saturating_sub(before) / COUNT as u64;
        println!("{kind:?}: {each} bytes per connection");
        // The server of the tests keeps a table entry and an emptied vector (105 bytes here) for each connection.
        assert!(each < 700, "{kind:?}: {each} bytes per connection");
    }
}
