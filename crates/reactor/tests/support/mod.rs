//! A small server over the reactor, and what the tests' clients need. Its protocol: each request is a kind, a length and, for an echo, a
//! payload.
//!
//! ```text
//! request  kind 1 | length 4 LE | payload (E only)
//! E  replies the payload                 S  replies `length` bytes of the pattern, as one shared segment between two brackets
//! C  closes after flushing               X  closes at once
//! ```

#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use reactor::{ConnId, EngineKind, Event, Input, Options, Output, Reactor, SharedBytes, Waker};

pub const ENGINES: [EngineKind; 2] = [EngineKind::Epoll, EngineKind::Uring];

/// A connection with more unsent output than this is not read from until it has none.
pub const PENDING_BYTES_MAX: usize = 1 << 20;

/// What a test may look at while the server runs.
#[derive(Default)]
pub struct Watch {
    pub stop: AtomicBool,
    pub connections: AtomicUsize,
    pub pending_max: AtomicUsize,
    pub drained: AtomicUsize,
    pub errors: AtomicUsize,
    pub turns: AtomicUsize,
}

pub struct Server {
    pub address: SocketAddr,
    pub watch: Arc<Watch>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(kind: EngineKind, options: Options) -> Server {
        Server::on(TcpListener::bind("127.0.0.1:0").unwrap(), kind, options)
    }

    pub fn on(listener: TcpListener, kind: EngineKind, options: Options) -> Server {
        let address = listener.local_addr().unwrap();
        // The standard library's 128 are full when many connect while this thread waits for its turn, and a client then waits a second.
        #[expect(unsafe_code, reason = "the standard library fixes the length of the queue")]
        // SAFETY: takes no pointers.
        let result = unsafe { libc::listen(listener.as_raw_fd(), 4096) };
        assert_eq!(result, 0);
        let (watch, waker, thread) = start(listener.into(), kind, options);
        Server { address, watch, waker, thread: Some(thread) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Waits until the server has no connection.
    pub fn wait_empty(&self) {
        wait_for("all connections to be gone", || {
            self.waker.wake();
            self.watch.connections.load(SeqCst) == 0
        });
    }

    /// Ends the server; its port is free when this returns.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.watch.stop.store(true, SeqCst);
        self.waker.wake();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a server over any listening socket.
pub fn start(listener: OwnedFd, kind: EngineKind, options: Options) -> (Arc<Watch>, Waker, JoinHandle<()>) {
    let watch = Arc::new(Watch::default());
    let (sender, receiver) = std::sync::mpsc::channel();
    let shared = Arc::clone(&watch);
    let thread = std::thread::spawn(move || {
        let (mut reactor, choice) = Reactor::new(kind, options).unwrap();
        assert_eq!(choice.uring, kind == EngineKind::Uring);
        reactor.listen(listener, 1).unwrap();
        sender.send(reactor.waker()).unwrap();
        serve(&mut reactor, &shared);
    });
    (watch, receiver.recv().unwrap(), thread)
}

/// The bytes of shared segments.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index ^ index >> 8 ^ index >> 16) as u8).collect()
}

fn serve(reactor: &mut Reactor, watch: &Watch) {
    let mut partial: HashMap<ConnId, Vec<u8>> = HashMap::new();
    let mut segments: HashMap<usize, SharedBytes> = HashMap::new();
    while !watch.stop.load(SeqCst) {
        reactor.turn(None).unwrap();
        watch.turns.fetch_add(1, SeqCst);
        while let Some(event) = reactor.next_event() {
            match event {
                Event::Accepted { listener, socket } => {
                    assert_eq!(listener, 1);
                    partial.insert(reactor.add(socket), Vec::new());
                }
                Event::Data { conn, input } => {
                    data(reactor, &mut partial, &mut segments, conn, &input, watch)
                }
                Event::Closed { conn, error } => {
                    watch.errors.fetch_add(usize::from(error.is_some()), SeqCst);
                    assert!(partial.remove(&conn).is_some(), "told once");
                    reactor.close_after_flush(conn);
                }
                Event::Drained { conn } => {
                    assert!(partial.contains_key(&conn), "told to the living");
                    watch.drained.fetch_add(1, SeqCst);
                    reactor.resume_reading(conn);
                }
                Event::AcceptFailed { .. } => drop(watch.errors.fetch_add(1, SeqCst)),
                Event::Woken => {}
            }
        }
        watch.connections.store(reactor.connections(), SeqCst);
    }
}

fn data(
    reactor: &mut Reactor,
    partial: &mut HashMap<ConnId, Vec<u8>>,
    segments: &mut HashMap<usize, SharedBytes>,
    conn: ConnId,
    input: &Input,
    watch: &Watch,
) {
    assert!(!input.is_empty());
    let bytes = partial.get_mut(&conn).expect("data comes before the end");
    bytes.extend_from_slice(input);
    let mut output = Output { bytes: reactor.buffer(), shared: Vec::new() };
    let mut used = 0;
    while let [kind, l0, l1, l2, l3, rest @ ..] = &bytes[used..] {
        let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
        match kind {
            b'E' if rest.len() >= length => {
                output.bytes.extend_from_slice(&rest[..length]);
                used += length;
            }
            b'E' => break,
            b'S' => {
                let segment = segments.entry(length).or_insert_with(|| Arc::new(pattern(length)));
                output.bytes.push(b'[');
                output.shared.push((output.bytes.len(), Arc::clone(segment)));
                output.bytes.push(b']');
            }
            b'C' => {
                partial.remove(&conn);
                reactor.send(conn, output);
                return reactor.close_after_flush(conn);
            }
            b'X' => {
                partial.remove(&conn);
                return reactor.close(conn);
            }
            other => panic!("not a request: {other}"),
        }
        used += 5;
    }
    bytes.drain(..used);
    reactor.send(conn, output);
    watch.pending_max.fetch_max(reactor.pending(conn), SeqCst);
    if reactor.pending(conn) > PENDING_BYTES_MAX {
        reactor.pause_reading(conn);
    }
}

pub fn request(kind: u8, length: usize) -> [u8; 5] {
    let [l0, l1, l2, l3] = u32::try_from(length).unwrap().to_le_bytes();
    [kind, l0, l1, l2, l3]
}

pub fn echo(stream: &mut (impl Read + Write), payload: &[u8]) {
    let mut bytes = request(b'E', payload.len()).to_vec();
    bytes.extend_from_slice(payload);
    stream.write_all(&bytes).unwrap();
    let mut reply = vec![0; payload.len()];
    stream.read_exact(&mut reply).unwrap();
    assert!(reply == payload, "the echo differs");
}

pub fn read_shared(stream: &mut impl Read, expected: &[u8]) {
    let mut reply = vec![0; expected.len() + 2];
    stream.read_exact(&mut reply).unwrap();
    assert!(reply[0] == b'[' && reply[reply.len() - 1] == b']', "brackets");
    assert!(&reply[1..reply.len() - 1] == expected, "the segment differs");
}

/// Polls for a condition that another thread brings about; gives up after a minute.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// The seed of a randomized test: from `DARTER_SEED`, else fresh; printed, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(reactor::clock::monotonic_ns);
    println!("DARTER_SEED={seed}");
    seed
}
