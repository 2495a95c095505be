//! A thread whose io_uring is forbidden, as container runtimes do it: `Auto` falls back and says why, `Uring` fails and says why.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "a seccomp filter")]

use std::os::unix::net::UnixStream;
use std::time::Duration;

use reactor::{EngineKind, Event, Options, Reactor};

/// From here on the calling thread's io_uring_setup fails with EPERM.
fn forbid_rings() {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let filter = [
        // The system call's number is the first word of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, deny, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
    // SAFETY: takes no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program and its filter are readable for the call, which copies them.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(result, 0);
}

#[test]
fn falls_back_with_a_reason() {
    std::thread::spawn(|| {
        forbid_rings();
        let error = Reactor::new(EngineKind::Uring, Options::default()).err().unwrap();
        assert!(error.to_string().starts_with("io_uring_setup: Operation not permitted"), "{error}");
        let (mut reactor, choice) = Reactor::new(EngineKind::Auto, Options::default()).unwrap();
        assert_eq!(choice.name(), "epoll");
        assert_eq!(choice.reason.unwrap(), error.to_string());
        let (client, server) = UnixStream::pair().unwrap();
        let conn = reactor.add(server.into());
        drop(client);
        reactor.turn(Some(Duration::from_secs(10))).unwrap();
        assert!(matches!(reactor.next_event(), Some(Event::Closed { conn: it, error: None }) if it == conn));
    })
    .join()
    .unwrap();
}
