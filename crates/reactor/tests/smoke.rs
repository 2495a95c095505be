//! One client, one reply, on every engine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use reactor::{EngineKind, Event, Options, Reactor};

#[test]
fn echoes_once() {
    for kind in [EngineKind::Epoll, EngineKind::Uring] {
        echo_once(kind);
    }
}

fn echo_once(kind: EngineKind) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut reactor, _) = Reactor::new(kind, Options::default()).unwrap();
        reactor.listen(listener.into(), 7).unwrap();
        loop {
            reactor.turn(None).unwrap();
            while let Some(event) = reactor.next_event() {
                match event {
                    Event::Accepted { listener: 7, socket } => drop(reactor.add(socket)),
                    Event::Data { conn, input } => {
                        let mut bytes = reactor.buffer();
                        bytes.extend_from_slice(&input);
                        reactor.send(conn, bytes.into());
                    }
                    Event::Closed { conn, error: None } => {
                        reactor.close_after_flush(conn);
                        while reactor.connections() > 0 {
                            reactor.turn(None).unwrap();
                        }
                        return;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"hello").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "hello");
    server.join().unwrap();
}
