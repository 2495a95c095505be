//! Thin, safe wrappers over the few system calls the engines need. No policy: each function is one call, with `EINTR` handled where
//! retrying is the only sensible answer.
#![allow(unsafe_code, reason = "system calls; the reactor is the I/O island")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One span of memory for a vectored send, as the kernel reads it.
pub(crate) type IoVec = libc::iovec;

/// Turns a `-1` into the thread's errno.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Turns a negative byte count into the thread's errno.
fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A non-blocking, close-on-exec event counter that starts at zero.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd takes no pointers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: the kernel has just handed this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds one to an event counter. It cannot fail in a way that matters: a counter at its maximum is readable already.
pub(crate) fn eventfd_signal(fd: BorrowedFd<'_>) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: `one` is eight readable bytes.
    let _ = unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// A new epoll instance.
pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: epoll_create1 takes no pointers.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the kernel has just handed this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds, changes or removes (`op`) the interest of `fd`.
pub(crate) fn epoll_ctl(
    epoll: BorrowedFd<'_>,
    op: libc::c_int,
    fd: RawFd,
    events: u32,
    data: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: `event` is valid for the call, which copies it.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd, &raw mut event) }).map(drop)
}

/// Waits for events; `None` waits for ever. An interrupting signal reads as "no events".
pub(crate) fn epoll_wait(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    // Whole milliseconds need no more than the older call.
    let fine = timeout.filter(|time| time.subsec_nanos() % 1_000_000 != 0);
    let result = match fine.and_then(|time| epoll_wait_fine(epoll, events, time)) {
        Some(result) => result,
        None => epoll_wait_coarse(epoll, events, timeout),
    };
    match result {
        Ok(count) => Ok(usize::try_from(count).expect("checked to be non-negative")),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// With a timeout in milliseconds.
fn epoll_wait_coarse(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<libc::c_int> {
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // Rounded up: waking a fraction of a millisecond early would make the caller spin until its deadline.
    let timeout_ms =
        timeout.map_or(-1, |time| i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
    // SAFETY: `events` is writable for `room` elements.
    check(unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), room, timeout_ms) })
}

/// With a timeout in nanoseconds; nothing where the kernel (before 5.11) or a filter of system calls does not know that. Not through the
/// C library, whose older versions lack the function.
fn epoll_wait_fine(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Duration,
) -> Option<io::Result<libc::c_int>> {
    static MISSING: AtomicBool = AtomicBool::new(false);
    if MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let room = libc::c_long::try_from(events.len()).unwrap_or(libc::c_long::MAX);
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let no_signals = std::ptr::null::<libc::sigset_t>();
    // SAFETY: `events` is writable for `room` elements, `time` is valid for the call, and a null mask of signals is allowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            room,
            &raw const time,
            no_signals,
            0_usize,
        )
    };
    let result = check(libc::c_int::try_from(result).unwrap_or(-1));
    let refused =
        result.as_ref().is_err_and(|error| matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)));
    if refused {
        MISSING.store(true, Ordering::Relaxed);
        return None;
    }
    Some(result)
}

/// Accepts one connection, close-on-exec and non-blocking.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: null address pointers mean that the peer's address is not wanted.
    let fd = check(unsafe { libc::accept4(listener.as_raw_fd(), address, length, flags) })?;
    // SAFETY: the kernel has just handed this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads what is there without waiting.
pub(crate) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is writable for its length.
    check_len(unsafe {
        libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    })
}

/// Sends what the socket takes without waiting and without SIGPIPE.
pub(crate) fn send_vectored(fd: BorrowedFd<'_>, spans: &mut [IoVec]) -> io::Result<usize> {
    let message = message_of(spans);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `message` refers to `spans`, whose elements the caller built from live slices.
    check_len(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) })
}

/// A message header over `spans`; valid as long as they are.
pub(crate) fn message_of(spans: &mut [IoVec]) -> libc::msghdr {
    // SAFETY: all-zero is a valid header (null pointers, zero lengths).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = spans.as_mut_ptr();
    message.msg_iovlen = spans.len() as _;
    message
}

/// Ends both directions, so that a pending or later read sees the end. A socket that is gone already is fine.
pub(crate) fn shutdown_both(fd: BorrowedFd<'_>) {
    // SAFETY: shutdown takes no pointers.
    let _ = unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Ends the receiving direction, which wakes whoever waits to receive.
pub(crate) fn shutdown_reading(fd: BorrowedFd<'_>) {
    // SAFETY: shutdown takes no pointers.
    let _ = unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RD) };
}

/// A question about one descriptor, and its answer.
pub(crate) type Poll = libc::pollfd;

/// Asks whether the peer has ended its sending, or is gone.
pub(crate) fn poll_for_end(fd: RawFd) -> Poll {
    // Errors and hang-ups are always told.
    Poll { fd, events: libc::POLLRDHUP, revents: 0 }
}

/// Answers the questions, without waiting.
pub(crate) fn poll_now(polls: &mut [Poll]) {
    // SAFETY: `polls` is readable and writable for its length.
    let result = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 0) };
    if result < 0 {
        // Interrupted or out of memory: no answer.
        polls.iter_mut().for_each(|poll| poll.revents = 0);
    }
}

/// Makes calls on this socket (and its duplicates) return instead of waiting.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: F_GETFL takes no pointers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: F_SETFL takes no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}
