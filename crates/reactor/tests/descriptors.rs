//! Running out of descriptors. A test binary of its own, because the limit is the process's.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "getrlimit and setrlimit")]

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use reactor::{EngineKind, Event, Options, Reactor};

#[test]
fn accepting_is_tried_again() {
    for kind in [EngineKind::Epoll, EngineKind::Uring] {
        let (mut reactor, _) = Reactor::new(kind, Options::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let before = limit();
        let client = TcpStream::connect(address).unwrap();
        // Descriptors are given out lowest first, so all below this one are taken.
        let last = std::fs::File::open("/dev/null").unwrap();
        set_limit(u64::try_from(last.as_raw_fd()).unwrap() + 1);
        // The ring takes note of the limit when accepting starts, so not earlier.
        reactor.listen(listener.into(), 5).unwrap();
        let (mut failures, mut turns) = (0, 0);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(350) {
            reactor.turn(Some(Duration::from_millis(50))).unwrap();
            turns += 1;
            while let Some(event) = reactor.next_event() {
                let Event::AcceptFailed { listener: 5, error } = event else { panic!("{kind:?}: {event:?}") };
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                failures += 1;
            }
        }
        assert!((2..=5).contains(&failures), "{kind:?}: told {failures} times in {turns} turns");
        assert!(turns < 30, "{kind:?}: {turns} turns are a busy loop");
        set_limit(before);
        let socket = loop {
            reactor.turn(None).unwrap();
            match reactor.next_event() {
                Some(Event::Accepted { listener: 5, socket }) => break socket,
                Some(Event::AcceptFailed { .. }) | None => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(TcpStream::from(socket).peer_addr().unwrap(), client.local_addr().unwrap());
    }
}

fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur
}

fn set_limit(descriptors: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = descriptors;
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}
