//! The epoll engine: level-triggered readiness, one receive per ready connection and turn, sends at the end of the turn. Runs on any
//! Linux. Level-triggered, because then a receive need not be repeated until it says `EAGAIN`, and a connection with a lot to say takes
//! its turns like any other.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use crate::conn::{ConnId, Phase};
use crate::core::Core;
use crate::input::{Input, ReadBuffers};
use crate::output::SPANS_MAX;
use crate::sys::{self, IoVec};
use crate::{Event, errno_of};

/// Ready descriptors taken per turn.
const EVENTS_MAX: usize = 256;
/// Connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;

/// The top four bits of an event's data say what the rest names.
const KIND_SHIFT: u32 = 60;
const KIND_CONN: u64 = 0;
const KIND_LISTENER: u64 = 1;
const KIND_WAKER: u64 = 2;

const READABLE: u32 = libc::EPOLLIN as u32;
const WRITABLE: u32 = libc::EPOLLOUT as u32;
const GONE: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// The engine.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// Of `events`: those filled by the kernel, and the next one to look at.
    filled: usize,
    next: usize,
    /// Connections accepted on account of the current event.
    accepts: usize,
    buffers: Rc<ReadBuffers>,
    spans: Vec<IoVec>,
}

impl Epoll {
    pub fn new(core: &Core) -> io::Result<Epoll> {
        let fd = sys::epoll_create()?;
        // Edge-triggered: each signal is an edge of its own, and the counter need not be read.
        let interest = READABLE | libc::EPOLLET as u32;
        let waker = core.waker.eventfd().as_raw_fd();
        sys::epoll_ctl(fd.as_fd(), libc::EPOLL_CTL_ADD, waker, interest, KIND_WAKER << KIND_SHIFT)?;
        Ok(Epoll {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
            filled: 0,
            next: 0,
            accepts: 0,
            buffers: Rc::default(),
            spans: Vec::with_capacity(SPANS_MAX),
        })
    }

    /// Starts accepting on a listener that is in the core's list.
    pub fn listen(&mut self, core: &mut Core, key: u32) -> io::Result<()> {
        let Some(listener) = core.listener_mut(key) else { return Ok(()) };
        // Another thread may take the connection first.
        sys::set_nonblocking(listener.fd.as_fd())?;
        // Exclusive: of several threads that share the socket the kernel wakes one.
        let interest = READABLE | libc::EPOLLEXCLUSIVE as u32;
        let data = KIND_LISTENER << KIND_SHIFT | u64::from(key);
        sys::epoll_ctl(self.fd.as_fd(), libc::EPOLL_CTL_ADD, listener.fd.as_raw_fd(), interest, data)
    }

    /// Stops accepting and closes the listener.
    pub fn stop_listening(&mut self, core: &mut Core, key: u32) {
        self.rest(core, key);
        core.remove_listener(key);
    }

    /// Takes a listener out of the kernel's set for a while.
    fn rest(&mut self, core: &mut Core, key: u32) {
        if let Some(listener) = core.listener_mut(key) {
            // A resting listener is out already; that is no fault.
            let _ = sys::epoll_ctl(self.fd.as_fd(), libc::EPOLL_CTL_DEL, listener.fd.as_raw_fd(), 0, 0);
        }
    }

    /// Tells the kernel what the connection waits for now.
    pub fn update(&mut self, core: &mut Core, id: ConnId) -> io::Result<()> {
        let Some(conn) = core.conns.get_mut(id) else { return Ok(()) };
        let read = if conn.wants_data() { READABLE } else { 0 };
        let write = if conn.blocked { WRITABLE } else { 0 };
        let interest = read | write;
        let op = match (conn.interest, interest) {
            (before, now) if before == now => return Ok(()),
            (0, _) => libc::EPOLL_CTL_ADD,
            // Not merely an empty interest: the kernel reports errors and hang-ups of whatever is in the set, again and again.
            (_, 0) => libc::EPOLL_CTL_DEL,
            _ => libc::EPOLL_CTL_MOD,
        };
        conn.interest = interest;
        let fd = conn.socket().as_raw_fd();
        sys::epoll_ctl(self.fd.as_fd(), op, fd, interest, KIND_CONN << KIND_SHIFT | id.to_bits())
    }

    /// As [`Epoll::update`]; if the kernel refuses, the connection ends with that error.
    pub fn update_or_end(&mut self, core: &mut Core, id: ConnId) {
        if let Err(error) = self.update(core, id) {
            if let Some(conn) = core.conns.get_mut(id) {
                conn.interest = 0;
            }
            let event = core.end(id, errno_of(&error));
            core.events.extend(event);
        }
    }

    /// Closes at once. The kernel drops a closed descriptor from its set by itself, unless it has a duplicate; so not leave it to that.
    pub fn close(&mut self, core: &mut Core, id: ConnId) {
        let Some(conn) = core.conns.get_mut(id) else { return };
        conn.phase = Phase::Dying;
        conn.blocked = false;
        conn.out.clear(&mut core.pool);
        let _ = self.update(core, id);
        core.conns.remove(id);
    }

    /// Sends what was queued, then waits for the kernel unless there is something to do already.
    pub fn turn(&mut self, core: &mut Core, timeout: Option<Duration>) -> io::Result<()> {
        self.flush(core);
        while let Some(id) = core.lingered_out() {
            self.close(core, id);
        }
        for key in core.rested() {
            if let Err(error) = self.listen(core, key) {
                core.accept_failed(key, errno_of(&error));
            }
        }
        if self.next < self.filled {
            return Ok(());
        }
        let busy = core.has_events() || !core.dirty.is_empty();
        let wait = !busy && timeout != Some(Duration::ZERO) && core.waker.may_sleep();
        let timeout = if wait { core.wait_limit(timeout) } else { Some(Duration::ZERO) };
        let result = sys::epoll_wait(self.fd.as_fd(), &mut self.events, timeout);
        if core.waker.was_woken() {
            core.events.push_back(Event::Woken);
        }
        (self.next, self.filled) = (0, result?);
        Ok(())
    }

    /// Tries the output of every connection that has some.
    fn flush(&mut self, core: &mut Core) {
        for id in std::mem::take(&mut core.dirty) {
            let Some(conn) = core.conns.get_mut(id) else { continue };
            conn.dirty = false;
            if !conn.blocked {
                self.send(core, id);
            }
        }
    }

    /// Sends once. What does not fit waits for the socket; what is beyond one turn's share stays on the list.
    fn send(&mut self, core: &mut Core, id: ConnId) {
        let Some(conn) = core.conns.get_mut(id) else { return };
        if conn.out.pending() == 0 {
            if conn.phase == Phase::Flushing {
                self.close(core, id);
            }
            return;
        }
        self.spans.resize(SPANS_MAX, IoVec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        let (count, bytes) = conn.out.fill(&mut self.spans, core.options.send_bytes_max);
        let result = sys::send_vectored(conn.socket(), &mut self.spans[..count]);
        let sent = match result {
            Ok(sent) => sent,
            Err(error) => match errno_of(&error) {
                libc::EAGAIN | libc::EINTR => 0,
                errno => {
                    if core.send_failed(id, errno) {
                        self.close(core, id);
                    } else {
                        self.update_or_end(core, id);
                    }
                    return;
                }
            },
        };
        if core.sent(id, sent) {
            self.close(core, id);
        } else if sent < bytes {
            core.refused(id);
            self.update_or_end(core, id);
        } else {
            // A blocked connection goes on when the kernel says so, which it will in the next turn.
            let more = core.conns.get(id).is_some_and(|conn| conn.out.pending() > 0 && !conn.blocked);
            if more {
                core.mark_dirty(id);
            }
            self.update_or_end(core, id);
        }
    }

    /// The next event from the kernel.
    pub fn next_event(&mut self, core: &mut Core) -> Option<Event> {
        while self.next < self.filled {
            let libc::epoll_event { events, u64: data } = self.events[self.next];
            let rest = data & ((1 << KIND_SHIFT) - 1);
            let event = match data >> KIND_SHIFT {
                KIND_CONN => {
                    self.next += 1;
                    self.ready(core, ConnId::from_bits(rest), events)
                }
                KIND_LISTENER => {
                    let key = u32::try_from(rest).expect("listener keys are 32-bit");
                    self.accept(core, key)
                }
                // The wake-up itself is told by the waker's state.
                _ => {
                    self.next += 1;
                    None
                }
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// A connection is ready: receive from it, and have its output tried again.
    fn ready(&mut self, core: &mut Core, id: ConnId, events: u32) -> Option<Event> {
        let conn = core.conns.get_mut(id)?;
        if conn.blocked && events & (WRITABLE | GONE) != 0 {
            self.send(core, id);
        }
        let conn = core.conns.get(id)?;
        if !conn.wants_data() || events & (READABLE | GONE) == 0 {
            return None;
        }
        let mut buffer = self.buffers.take();
        match sys::recv(conn.socket(), &mut buffer) {
            Ok(0) => {
                self.buffers.give(buffer);
                self.ended(core, id, 0)
            }
            Ok(length) => Some(Event::Data { conn: id, input: Input::pooled(buffer, length, &self.buffers) }),
            Err(error) => {
                self.buffers.give(buffer);
                match errno_of(&error) {
                    libc::EAGAIN | libc::EINTR => None,
                    errno => self.ended(core, id, errno),
                }
            }
        }
    }

    fn ended(&mut self, core: &mut Core, id: ConnId, errno: i32) -> Option<Event> {
        let event = core.end(id, errno);
        self.update_or_end(core, id);
        event
    }

    /// Accepts one connection; the event stays current until there are no more, or enough of them for this turn.
    fn accept(&mut self, core: &mut Core, key: u32) -> Option<Event> {
        let listener = core.listener_mut(key);
        let listener = listener.filter(|listener| listener.retry_at.is_none() && self.accepts < ACCEPTS_MAX);
        let errno = match listener.map(|listener| (listener.token, sys::accept(listener.fd.as_fd()))) {
            Some((token, Ok(socket))) => {
                self.accepts += 1;
                return Some(Event::Accepted { listener: token, socket });
            }
            Some((_, Err(error))) => errno_of(&error),
            None => libc::EAGAIN,
        };
        self.next += 1;
        self.accepts = 0;
        if core.accept_failed(key, errno) {
            self.rest(core, key);
        }
        None
    }
}
