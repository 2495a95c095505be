//! Both engines against real sockets: the same tests, the same results.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use reactor::{ConnId, EngineKind, Event, Options, Output, Reactor, SharedBytes};
use stdx::rng::Rng;
use support::{ENGINES, PENDING_BYTES_MAX, Server, echo, pattern, read_shared, request, seed, wait_for};

#[test]
fn auto_takes_the_ring() {
    let (_reactor, choice) = Reactor::new(EngineKind::Auto, Options::default()).unwrap();
    assert_eq!(choice.uring, choice.reason.is_none());
    assert_eq!(choice.name(), if choice.uring { "uring" } else { "epoll" });
}

/// Pipelines of random depth in chunks of random size over many connections.
#[test]
fn many_connections() {
    let seed = seed();
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    let mut rng = Rng::new(seed ^ thread);
                    let mut streams: Vec<TcpStream> = (0..25).map(|_| server.connect()).collect();
                    for _ in 0..200 {
                        let pick = rng.range(0..streams.len());
                        pipeline(&mut rng, &mut streams[pick]);
                        if rng.one_in(50) {
                            streams[pick] = server.connect();
                        }
                    }
                });
            }
        });
        server.wait_empty();
        server.stop();
    }
}

/// Sends a random pipeline in random chunks, then reads all its replies.
fn pipeline(rng: &mut Rng, stream: &mut TcpStream) {
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for _ in 0..=rng.below(40) {
        let length = if rng.one_in(20) { rng.range(0..60_000) } else { rng.range(0..200) };
        if rng.one_in(10) {
            requests.extend(request(b'S', length));
            replies.push(b'[');
            replies.extend(pattern(length));
            replies.push(b']');
        } else {
            let mut payload = vec![0; length];
            rng.fill(&mut payload);
            requests.extend(request(b'E', length));
            requests.extend(&payload);
            replies.extend(payload);
        }
    }
    let mut writer = stream.try_clone().unwrap();
    let chunks: Vec<usize> = (0..64).map(|_| 1 + rng.range(0..40_000)).collect();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut rest = requests.as_slice();
            for chunk in chunks.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*chunk));
                writer.write_all(now).unwrap();
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
        });
        let mut got = vec![0; replies.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == replies, "replies differ");
    });
}

/// Receive buffers that are far too few and too small must only cost time.
#[test]
fn starving_for_buffers() {
    let seed = seed();
    let options = Options { receive_buffers: 2, receive_buffer_bytes: 128, ..Options::default() };
    let server = Server::start(EngineKind::Uring, options);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut rng = Rng::new(seed ^ thread);
                let mut stream = server.connect();
                for _ in 0..10 {
                    pipeline(&mut rng, &mut stream);
                }
            });
        }
    });
}

/// A client that sends 50 MB of requests before it reads a byte is held off, and gets everything in the end.
#[test]
fn slow_reader() {
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        let mut stream = server.connect();
        let mut writer = stream.try_clone().unwrap();
        let payload = pattern(10_000);
        let mut bytes = request(b'E', payload.len()).to_vec();
        bytes.extend_from_slice(&payload);
        let writing = std::thread::spawn(move || {
            for _ in 0..5000 {
                writer.write_all(&bytes).unwrap();
            }
        });
        wait_for("back-pressure", || server.watch.pending_max.load(SeqCst) > PENDING_BYTES_MAX);
        let mut reply = vec![0; payload.len()];
        for _ in 0..5000 {
            stream.read_exact(&mut reply).unwrap();
            assert!(reply == payload);
        }
        writing.join().unwrap();
        assert!(server.watch.drained.load(SeqCst) > 0);
        // One read's worth of requests beyond the limit, for either engine, and for the ring what arrived before the cancellation.
        let pending_max = server.watch.pending_max.load(SeqCst);
        assert!(pending_max < PENDING_BYTES_MAX + (4 << 20), "{pending_max}");
        drop(stream);
        server.wait_empty();
    }
}

/// 64 MB replies between small ones, by reference, several to a pipeline.
#[test]
fn large_shared_replies() {
    const LENGTH: usize = 64 << 20;
    let expected = pattern(LENGTH);
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        let mut stream = server.connect();
        let mut other = server.connect();
        let mut requests = request(b'E', 2).to_vec();
        requests.extend(b"ab");
        requests.extend(request(b'S', LENGTH));
        requests.extend(request(b'S', 0));
        requests.extend(request(b'S', LENGTH));
        requests.extend(request(b'E', 2));
        requests.extend(b"cd");
        stream.write_all(&requests).unwrap();
        // Others are served meanwhile.
        for _ in 0..100 {
            echo(&mut other, b"hello");
        }
        let mut small = [0; 2];
        stream.read_exact(&mut small).unwrap();
        assert_eq!(&small, b"ab");
        read_shared(&mut stream, &expected);
        read_shared(&mut stream, b"");
        read_shared(&mut stream, &expected);
        stream.read_exact(&mut small).unwrap();
        assert_eq!(&small, b"cd");
        wait_for("the drained event", || server.watch.drained.load(SeqCst) > 0);
    }
}

/// 10,000 connections come and go: silent, talking, in the middle of a request, of a reply, with a reset.
#[test]
fn churn() {
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let server = &server;
                scope.spawn(move || {
                    for round in 0..5000 {
                        let mut stream = server.connect();
                        match (round + thread) % 5 {
                            0 => {}
                            1 => echo(&mut stream, b"hello"),
                            2 => stream.write_all(&request(b'E', 100)).unwrap(),
                            3 => stream.write_all(&request(b'S', 3 << 20)).unwrap(),
                            _ => {
                                stream.write_all(&request(b'S', 1000)).unwrap();
                                reset(&stream);
                            }
                        }
                        // Without this the ports of one address pair run out.
                        if round % 5 < 3 {
                            reset(&stream);
                        }
                    }
                });
            }
        });
        server.wait_empty();
        echo(&mut server.connect(), b"still here");
    }
}

/// Closing this stream will send a reset.
fn reset(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = libc::socklen_t::try_from(size_of_val(&linger)).unwrap();
    #[expect(unsafe_code, reason = "a socket option the standard library lacks")]
    // SAFETY: the option takes this structure of this size.
    let result = unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size)
    };
    assert_eq!(result, 0);
}

/// A client that shuts its sending side right after its requests, as `printf ... | nc` does, gets all replies, then the end.
#[test]
fn half_close() {
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        for length in [10, 5 << 20] {
            let mut stream = server.connect();
            let mut requests = request(b'E', 2).to_vec();
            requests.extend(b"ab");
            requests.extend(request(b'S', length));
            stream.write_all(&requests).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert!(all.starts_with(b"ab[") && all.ends_with(b"]") && all.len() == length + 4);
        }
        server.wait_empty();
        assert_eq!(server.watch.errors.load(SeqCst), 0);
    }
}

#[test]
fn closing_on_request() {
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        for length in [0, 100, 5 << 20] {
            let mut stream = server.connect();
            stream.write_all(&request(b'S', length)).unwrap();
            stream.write_all(&request(b'C', 0)).unwrap();
            read_shared(&mut stream, &pattern(length));
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the end follows");
            let mut stream = server.connect();
            stream.write_all(&request(b'X', 0)).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        server.wait_empty();
    }
}

/// A reset while megabytes are on their way frees them.
#[test]
fn peer_reset() {
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        for _ in 0..20 {
            let mut stream = server.connect();
            for _ in 0..4 {
                stream.write_all(&request(b'S', 8 << 20)).unwrap();
            }
            // The first bytes have come, so the server is in the middle of it.
            stream.read_exact(&mut [0; 100]).unwrap();
            reset(&stream);
        }
        server.wait_empty();
        assert!(server.watch.errors.load(SeqCst) > 0, "a reset is an error");
        echo(&mut server.connect(), b"still here");
    }
}

/// A server that has ended leaves its port free at once, live connections or not.
#[test]
fn restart_on_the_same_port() {
    for kind in ENGINES {
        let mut listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for round in 0..50 {
            let server = Server::on(listener, kind, Options::default());
            let mut stream = server.connect();
            echo(&mut stream, b"hello");
            if round % 2 == 0 {
                stream.write_all(&request(b'S', 20 << 20)).unwrap();
                stream.read_exact(&mut [0; 100]).unwrap();
            }
            server.stop();
            listener = TcpListener::bind(address).unwrap();
        }
    }
}

/// One thread that is client and server at once can test what needs exact control.
struct Pair {
    reactor: Reactor,
    client: UnixStream,
    conn: ConnId,
}

fn pair(kind: EngineKind, options: Options) -> Pair {
    let (mut reactor, _) = Reactor::new(kind, options).unwrap();
    let (client, server) = UnixStream::pair().unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let conn = reactor.add(server.into());
    Pair { reactor, client, conn }
}

/// Runs the reactor until nothing has happened for a while; returns what was told, data merged.
fn settle(reactor: &mut Reactor) -> Vec<String> {
    let (mut told, mut data) = (Vec::new(), String::new());
    let mut quiet = 0;
    while quiet < 3 {
        reactor.turn(Some(Duration::from_millis(5))).unwrap();
        quiet += 1;
        while let Some(event) = reactor.next_event() {
            quiet = 0;
            if let Event::Data { input, .. } = &event {
                data.push_str(std::str::from_utf8(input).unwrap());
                continue;
            }
            if !data.is_empty() {
                told.push(std::mem::take(&mut data));
            }
            told.push(match event {
                Event::Closed { error, .. } => format!("closed {:?}", error.map(|error| error.kind())),
                Event::Drained { .. } => "drained".to_owned(),
                Event::Woken => "woken".to_owned(),
                other => panic!("{other:?}"),
            });
        }
    }
    if !data.is_empty() {
        told.push(data);
    }
    told
}

#[test]
fn paused_data_is_held_in_order() {
    for kind in ENGINES {
        let Pair { mut reactor, mut client, conn } = pair(kind, Options::default());
        client.write_all(b"one ").unwrap();
        assert_eq!(settle(&mut reactor), ["one "]);
        reactor.pause_reading(conn);
        client.write_all(b"two ").unwrap();
        assert_eq!(settle(&mut reactor), [""; 0]);
        client.write_all(b"three ").unwrap();
        reactor.resume_reading(conn);
        assert_eq!(settle(&mut reactor), ["two three "]);
        // Back and forth without a turn between.
        for _ in 0..10 {
            reactor.pause_reading(conn);
            reactor.resume_reading(conn);
        }
        client.write_all(b"four").unwrap();
        assert_eq!(settle(&mut reactor), ["four"]);
        // Paused while events are out.
        client.write_all(b"five ").unwrap();
        reactor.turn(Some(Duration::from_secs(5))).unwrap();
        reactor.pause_reading(conn);
        client.write_all(b"six").unwrap();
        assert_eq!(settle(&mut reactor), [""; 0]);
        drop(client);
        assert_eq!(settle(&mut reactor), [""; 0]);
        reactor.resume_reading(conn);
        assert_eq!(settle(&mut reactor), ["five six", "closed None"]);
        reactor.resume_reading(conn);
        reactor.close(conn);
        assert_eq!(settle(&mut reactor), [""; 0]);
        assert_eq!(reactor.connections(), 0);
    }
}

#[test]
fn a_dead_id_is_ignored() {
    for kind in ENGINES {
        let Pair { mut reactor, client, conn } = pair(kind, Options::default());
        reactor.close(conn);
        reactor.turn(Some(Duration::ZERO)).unwrap();
        let (mut second, server) = UnixStream::pair().unwrap();
        let tenant = reactor.add(server.into());
        reactor.send(conn, b"not for you".to_vec().into());
        reactor.pause_reading(conn);
        reactor.close(conn);
        reactor.close_after_flush(conn);
        assert_eq!(reactor.pending(conn), 0);
        reactor.send(tenant, b"for you".to_vec().into());
        assert_eq!(settle(&mut reactor), [""; 0]);
        let mut bytes = [0; 7];
        second.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"for you");
        drop(client);
    }
}

/// The output of a client that does not read is counted, drained is told when it reads, and the segments are let go.
#[test]
fn pending_and_drained() {
    for kind in ENGINES {
        let Pair { mut reactor, mut client, conn } = pair(kind, Options::default());
        let segment: SharedBytes = Arc::new(pattern(3 << 20));
        let watched = Arc::clone(&segment);
        let bytes = b"<>".to_vec();
        reactor.send(conn, Output { bytes, shared: vec![(1, segment)] });
        assert_eq!(reactor.pending(conn), (3 << 20) + 2);
        assert_eq!(settle(&mut reactor), [""; 0]);
        let left = reactor.pending(conn);
        assert!(left > 0 && left < 3 << 20, "{left}");
        for _ in 0..1000 {
            reactor.send(conn, b"0123456789".to_vec().into());
        }
        assert_eq!(settle(&mut reactor), [""; 0]);
        assert_eq!(reactor.pending(conn), left + 10_000);
        let reading = std::thread::spawn(move || {
            let mut all = vec![0; (3 << 20) + 2 + 10_000];
            client.read_exact(&mut all).unwrap();
            (all, client)
        });
        while !settle(&mut reactor).contains(&"drained".to_owned()) {}
        let (all, _client) = reading.join().unwrap();
        assert!(all[0] == b'<' && all[1..=3 << 20] == pattern(3 << 20) && all[(3 << 20) + 1] == b'>');
        assert!(all[(3 << 20) + 2..].chunks(10).all(|chunk| chunk == b"0123456789"));
        assert_eq!(reactor.pending(conn), 0);
        assert_eq!(Arc::strong_count(&watched), 1, "the segment is let go");
        // A paused connection is told even if all went out at once.
        reactor.pause_reading(conn);
        reactor.send(conn, b"small".to_vec().into());
        assert_eq!(settle(&mut reactor), ["drained"]);
    }
}

/// Closing while the kernel waits to send: memory is let go, the peer sees the end.
#[test]
fn close_while_blocked() {
    for kind in ENGINES {
        let Pair { mut reactor, mut client, conn } = pair(kind, Options::default());
        let segment: SharedBytes = Arc::new(pattern(3 << 20));
        let watched = Arc::clone(&segment);
        reactor.send(conn, Output { bytes: Vec::new(), shared: vec![(0, segment)] });
        assert_eq!(settle(&mut reactor), [""; 0]);
        reactor.close(conn);
        assert_eq!(settle(&mut reactor), [""; 0]);
        assert_eq!(reactor.connections(), 0);
        assert_eq!(Arc::strong_count(&watched), 1);
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert!(all.len() < 3 << 20 && pattern(3 << 20).starts_with(&all));
    }
}

/// A closing connection whose peer takes nothing is cut off.
#[test]
fn lingering_ends() {
    for kind in ENGINES {
        let options = Options { linger_max: Duration::from_millis(30), ..Options::default() };
        let Pair { mut reactor, client, conn } = pair(kind, options);
        reactor.send(conn, pattern(3 << 20).into());
        assert_eq!(settle(&mut reactor), [""; 0]);
        reactor.close_after_flush(conn);
        reactor.send(conn, b"too late".to_vec().into());
        let start = Instant::now();
        while reactor.connections() > 0 {
            reactor.turn(Some(Duration::from_millis(10))).unwrap();
            assert!(reactor.next_event().is_none());
        }
        assert!(start.elapsed() >= Duration::from_millis(25) && start.elapsed() < Duration::from_secs(5));
        drop(client);
    }
}

/// The end arrives together with data, while the reactor waits for either: both are told. (The ring's multishot receive forgets some
/// ends then, in a race that `churn` with `burst` beside it meets in one of ten runs.)
#[test]
fn data_and_the_end_together() {
    for kind in ENGINES {
        for how in ["close", "half close", "reset"] {
            let Pair { mut reactor, mut client, .. } = pair(kind, Options::default());
            settle(&mut reactor);
            client.write_all(b"last words").unwrap();
            match how {
                "half close" => client.shutdown(Shutdown::Write).unwrap(),
                // There is no reset without unread data.
                _ => drop(client),
            }
            assert_eq!(until_closed(&mut reactor), ["last words", "closed None"], "{kind:?}, unix, {how}");

            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            reactor.add(server.into());
            settle(&mut reactor);
            client.write_all(b"last words").unwrap();
            match how {
                "half close" => client.shutdown(Shutdown::Write).unwrap(),
                "close" => drop(client),
                _ => {
                    reset(&client);
                    drop(client);
                }
            }
            let told = until_closed(&mut reactor);
            // The kernel is free to forget data that a reset follows.
            assert!(
                how == "reset" || told == ["last words", "closed None"],
                "{kind:?}, tcp, {how}: {told:?}"
            );
        }
    }
}

/// As `settle`, but does not give up for ten seconds.
fn until_closed(reactor: &mut Reactor) -> Vec<String> {
    let start = Instant::now();
    let mut all: Vec<String> = Vec::new();
    while !all.last().is_some_and(|told| told.starts_with("closed")) {
        all.extend(settle(reactor));
        assert!(start.elapsed() < Duration::from_secs(10), "the end was not told, only {all:?}");
    }
    all
}

/// Sending to a peer that is gone: told as the end, after what it had sent.
#[test]
fn sending_to_the_dead() {
    for kind in ENGINES {
        for paused in [false, true] {
            let Pair { mut reactor, mut client, conn } = pair(kind, Options::default());
            client.write_all(b"last words").unwrap();
            drop(client);
            if paused {
                reactor.pause_reading(conn);
            }
            reactor.send(conn, b"too late".to_vec().into());
            let told = settle(&mut reactor);
            let closed = format!("closed {:?}", Some(ErrorKind::BrokenPipe));
            if paused {
                assert_eq!(told, [closed]);
            } else {
                assert_eq!(told[0], "last words");
                assert!(told.len() == 2 && told[1].starts_with("closed"), "{told:?}");
            }
            assert_eq!(reactor.pending(conn), 0);
            reactor.close_after_flush(conn);
            assert_eq!(settle(&mut reactor), [""; 0]);
            assert_eq!(reactor.connections(), 0);
        }
    }
}

/// No wake-up is lost: each is answered before the next is sent.
#[test]
fn wake_ups() {
    const ROUNDS: usize = 100_000;
    for kind in ENGINES {
        let asked = Arc::new(AtomicUsize::new(0));
        let answered = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = std::sync::mpsc::channel();
        let (question, answer) = (Arc::clone(&asked), Arc::clone(&answered));
        let thread = std::thread::spawn(move || {
            let (mut reactor, _) = Reactor::new(kind, Options::default()).unwrap();
            sender.send(reactor.waker()).unwrap();
            while answer.load(SeqCst) < ROUNDS {
                reactor.turn(None).unwrap();
                while let Some(event) = reactor.next_event() {
                    assert!(matches!(event, Event::Woken), "{event:?}");
                    answer.store(question.load(SeqCst), SeqCst);
                }
            }
        });
        let waker = receiver.recv().unwrap();
        for round in 1..=ROUNDS {
            asked.store(round, SeqCst);
            waker.wake();
            while answered.load(SeqCst) != round {
                std::hint::spin_loop();
            }
        }
        thread.join().unwrap();
        waker.wake();
    }
}

#[test]
fn timeouts() {
    for kind in ENGINES {
        let Pair { mut reactor, .. } = pair(kind, Options::default());
        settle(&mut reactor);
        for timeout_us in [0, 300, 1000, 30_000] {
            let start = Instant::now();
            let timeout = Duration::from_micros(timeout_us);
            reactor.turn(Some(timeout)).unwrap();
            assert!(start.elapsed() >= timeout, "{:?} instead of {timeout:?}", start.elapsed());
            assert!(reactor.next_event().is_none());
        }
        reactor.waker().wake();
        reactor.turn(None).unwrap();
        assert!(matches!(reactor.next_event(), Some(Event::Woken)));
    }
}

#[test]
fn other_families() {
    for kind in ENGINES {
        if let Ok(listener) = TcpListener::bind("[::1]:0") {
            let server = Server::on(listener, kind, Options::default());
            echo(&mut server.connect(), b"version 6");
        }
        let path = std::env::temp_dir().join(format!("darter-reactor-{}-{kind:?}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let (watch, waker, thread) = support::start(listener.into(), kind, Options::default());
        let mut stream = UnixStream::connect(&path).unwrap();
        echo(&mut stream, b"a path");
        stream.write_all(&request(b'S', 5 << 20)).unwrap();
        read_shared(&mut stream, &pattern(5 << 20));
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        watch.stop.store(true, SeqCst);
        waker.wake();
        thread.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

/// Whatever state a connection is left in, a turn waits when there is nothing to tell.
#[test]
fn no_state_makes_the_loop_spin() {
    let idle = |reactor: &mut Reactor, what: &str| {
        settle(reactor);
        // The ring engine looks once at a connection that has received, a moment later.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(250) {
            reactor.turn(Some(Duration::from_millis(50))).unwrap();
        }
        let start = Instant::now();
        for _ in 0..4 {
            reactor.turn(Some(Duration::from_millis(10))).unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(40), "{reactor:?}, {what}: {:?}", start.elapsed());
    };
    for kind in ENGINES {
        for nonblocking in [false, true] {
            let (mut reactor, _) = Reactor::new(kind, Options::default()).unwrap();
            let connect = |reactor: &mut Reactor| {
                let (client, server) = UnixStream::pair().unwrap();
                server.set_nonblocking(nonblocking).unwrap();
                (client, reactor.add(server.into()))
            };
            let (mut client, conn) = connect(&mut reactor);
            idle(&mut reactor, "open");
            reactor.send(conn, pattern(3 << 20).into());
            idle(&mut reactor, "blocked");
            let reading = std::thread::spawn(move || {
                client.read_exact(&mut vec![0; 3 << 20]).unwrap();
                client
            });
            while reactor.pending(conn) > 0 {
                settle(&mut reactor);
            }
            let mut client = reading.join().unwrap();
            reactor.pause_reading(conn);
            client.write_all(b"unread").unwrap();
            idle(&mut reactor, "paused with data waiting");
            drop(client);
            idle(&mut reactor, "paused and the peer gone");
            reactor.resume_reading(conn);
            idle(&mut reactor, "ended and not closed");
            reactor.close(conn);

            let (client, conn) = connect(&mut reactor);
            client.shutdown(Shutdown::Write).unwrap();
            reactor.send(conn, pattern(3 << 20).into());
            idle(&mut reactor, "half closed and blocked");
            reactor.close_after_flush(conn);
            idle(&mut reactor, "closing and blocked");
            drop(client);
            settle(&mut reactor);
            assert_eq!(reactor.connections(), 0, "{kind:?}: a flush that cannot end");
        }
    }
}

/// Thousands speak in the same moment: far more than there are receive buffers and room for completions.
#[test]
fn burst() {
    const COUNT: usize = 5000;
    for kind in ENGINES {
        let server = Server::start(kind, Options::default());
        let mut streams: Vec<TcpStream> = (0..COUNT).map(|_| server.connect()).collect();
        let mut message = request(b'E', 100).to_vec();
        message.extend(pattern(100));
        for _ in 0..3 {
            for stream in &mut streams {
                stream.write_all(&message).unwrap();
            }
            for stream in &mut streams {
                let mut reply = [0; 100];
                stream.read_exact(&mut reply).unwrap();
                assert!(reply == pattern(100).as_slice());
            }
        }
        for stream in &streams {
            reset(stream);
        }
        drop(streams);
        server.wait_empty();
    }
}

/// Several listeners; one is stopped and its token used again.
#[test]
fn listeners_come_and_go() {
    for kind in ENGINES {
        let (mut reactor, _) = Reactor::new(kind, Options::default()).unwrap();
        let mut addresses = Vec::new();
        for token in 0..3 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            addresses.push(listener.local_addr().unwrap());
            reactor.listen(listener.into(), token).unwrap();
        }
        let accept = |reactor: &mut Reactor, address| {
            let _stream = TcpStream::connect(address).unwrap();
            loop {
                reactor.turn(Some(Duration::from_secs(10))).unwrap();
                if let Some(Event::Accepted { listener, .. }) = reactor.next_event() {
                    return listener;
                }
            }
        };
        assert_eq!(accept(&mut reactor, addresses[2]), 2);
        assert_eq!(accept(&mut reactor, addresses[0]), 0);
        reactor.stop_listening(1);
        let again = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = again.local_addr().unwrap();
        reactor.listen(again.into(), 1).unwrap();
        assert_eq!(accept(&mut reactor, address), 1);
        let refused = TcpStream::connect(addresses[1]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        TcpListener::bind(addresses[1]).unwrap();
        reactor.stop_listening(17);
    }
}

/// Everything at random, from inside: what each client reads is a prefix of what was sent to it, and all of it if it was flushed.
#[test]
fn chaos() {
    let seed = seed();
    for kind in ENGINES {
        let mut rng = Rng::new(seed);
        let options = Options { receive_buffers: 4, receive_buffer_bytes: 4096, ..Options::default() };
        let (mut reactor, _) = Reactor::new(kind, options).unwrap();
        let mut readers = Vec::new();
        for _ in 0..150 {
            let (client, server) = UnixStream::pair().unwrap();
            let conn = reactor.add(server.into());
            let (client_seed, mut sent, mut flushed) = (rng.next_u64(), Vec::new(), false);
            let reader = std::thread::spawn(move || chaotic_client(client, client_seed));
            let mut kept = Vec::new();
            for _ in 0..rng.range(1..40) {
                match rng.below(8) {
                    0 => reactor.pause_reading(conn),
                    1 => reactor.resume_reading(conn),
                    2..5 => chaotic_send(&mut rng, &mut reactor, conn, &mut sent),
                    _ => {
                        reactor.turn(Some(Duration::from_micros(rng.below(500)))).unwrap();
                        while let Some(event) = reactor.next_event() {
                            if let Event::Data { input, .. } = event
                                && rng.one_in(4)
                            {
                                kept.push(input);
                            }
                        }
                    }
                }
            }
            if rng.one_in(2) {
                reactor.close(conn);
            } else {
                reactor.close_after_flush(conn);
                flushed = true;
            }
            readers.push((reader, sent, flushed));
        }
        while reactor.connections() > 0 {
            reactor.turn(Some(Duration::from_millis(10))).unwrap();
            while reactor.next_event().is_some() {}
        }
        for (reader, sent, flushed) in readers {
            let (read, all) = reader.join().unwrap();
            assert!(sent.starts_with(&read), "{kind:?}: a client read what was not sent to it");
            assert!(!(flushed && all) || read == sent, "{kind:?}: flushed output is missing");
        }
    }
}

fn chaotic_send(rng: &mut Rng, reactor: &mut Reactor, conn: ConnId, sent: &mut Vec<u8>) {
    let mut output = Output { bytes: reactor.buffer(), shared: Vec::new() };
    for _ in 0..rng.below(4) {
        let length = if rng.one_in(8) { rng.range(0..400_000) } else { rng.range(0..300) };
        let mut bytes = vec![0; length];
        rng.fill(&mut bytes);
        sent.extend_from_slice(&bytes);
        if rng.one_in(2) {
            output.bytes.extend_from_slice(&bytes);
        } else {
            output.shared.push((output.bytes.len(), Arc::new(bytes)));
        }
    }
    reactor.send(conn, output);
}

/// Writes and reads at random; may leave early. Returns what it read and whether it read to the end.
fn chaotic_client(mut client: UnixStream, seed: u64) -> (Vec<u8>, bool) {
    let mut rng = Rng::new(seed);
    let (mut read, mut buffer) = (Vec::new(), vec![0; 100_000]);
    for _ in 0..rng.below(20) {
        if rng.one_in(2) {
            client.set_nonblocking(true).unwrap();
            // The server may be gone, or not reading.
            let _ = client.write(&buffer[..rng.range(1..20_000)]);
            client.set_nonblocking(false).unwrap();
        } else if rng.one_in(4) {
            std::thread::yield_now();
        }
    }
    if rng.one_in(4) {
        return (read, false);
    }
    loop {
        let room = rng.range(1..100_000);
        match client.read(&mut buffer[..room]) {
            Ok(0) => return (read, true),
            Ok(length) => read.extend_from_slice(&buffer[..length]),
            // A unix socket that is closed with unread input resets its peer, which loses nothing that was sent.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
        }
    }
}
