//! The ring engine: multishot accept and receive into shared buffers, all sends of a turn batched, one system call per turn.
//!
//! Sends must not wait (`MSG_DONTWAIT`) and are silent when all went out, so they complete while they are submitted: the replies' memory
//! is ours again when the call returns, and the call really waits for input. If a socket takes less, the connection goes into a small
//! epoll set, which the ring polls, until the socket takes more. Why not leave that to the ring, by a send that may wait: for a peer that
//! has shut down its sending side the ring's polling reports readiness all the time (it always asks for `POLLRDHUP`), and after some
//! retries the kernel parks one worker thread per such connection, or spins.
//!
//! ```text
//! user data   63..60 kind   59..0 connection or listener key
//! ```
#![allow(unsafe_code, reason = "operations refer to memory")]

mod buffers;
mod doubts;
mod message;
mod probe;
mod ring;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};

pub(crate) use self::buffers::RingInput;

use self::buffers::{Buffers, GROUP};
use self::doubts::Doubts;
use self::message::Messages;
use self::ring::{Completion, Ring};
use crate::conn::{Conn, ConnId, Held, Phase, Receive};
use crate::core::Core;
use crate::input::Input;
use crate::{Event, errno_of, sys};

const KIND_SHIFT: u32 = 60;
const KIND_RECEIVE: u64 = 0;
/// Completes while it is submitted, and reports failure only.
const KIND_SEND: u64 = 1;
/// The epoll set of blocked connections has something to tell.
const KIND_ROOM: u64 = 2;
const KIND_ACCEPT: u64 = 3;
const KIND_WAKE: u64 = 4;
/// Cancellations report failure only; what matters is the completion of what they cancel.
const KIND_CANCEL_RECEIVE: u64 = 5;
const KIND_CANCEL_ACCEPT: u64 = 6;

/// Submissions of one turn that the kernel may refuse for want of memory before the reactor gives up.
const SUBMIT_TRIES_MAX: u32 = 10_000;
/// Blocked connections looked at per system call.
const ROOM_EVENTS_MAX: usize = 64;
/// How long dropping a reactor waits for the kernel to let go of its memory: 100 x 10 ms.
const FAREWELL_WAITS_MAX: u32 = 100;
const FAREWELL_WAIT: Duration = Duration::from_millis(10);

/// What the kernel has reported and the caller not taken.
enum Ready {
    Data { conn: ConnId, buffer: u16, length: u32 },
    End { conn: ConnId, errno: i32 },
    Accepted { key: u32, socket: OwnedFd },
}

/// The engine.
pub(crate) struct Uring {
    ring: Ring,
    buffers: Rc<Buffers>,
    ready: VecDeque<Ready>,
    completions: Vec<Completion>,
    /// Connections whose receive is to be started at the end of the turn: it found no buffer, or ended for another passing reason.
    starved: Vec<ConnId>,
    /// Cancellations that found nothing to cancel.
    missed: Vec<Completion>,
    /// Connections that send in this turn.
    sending: Vec<ConnId>,
    messages: Messages,
    doubts: Doubts,
    /// Something is to be done as soon as this turn's sends are out, which are silent: the turn must not wait.
    eager: bool,
    /// The waker's poll is out.
    waking: bool,
    /// The epoll set of blocked connections, and whether the ring polls it.
    room: OwnedFd,
    room_polled: bool,
    /// A turn has failed half-way: the queue may refer to memory that is gone, so the kernel must not see it any more.
    failed: bool,
}

impl Uring {
    /// An engine for the calling thread. The error says what the kernel lacks.
    pub fn new(core: &Core) -> Result<Uring, (&'static str, io::Error)> {
        let mut ring = Ring::new().map_err(|error| ("io_uring_setup", error))?;
        let options = &core.options;
        let buffers = Buffers::register(ring.uring(), options.receive_buffers, options.receive_buffer_bytes)
            .map_err(|error| ("io_uring buffer ring", error))?;
        probe::probe(&mut ring, &buffers).map_err(|error| ("io_uring multishot receive", error))?;
        Ok(Uring {
            ring,
            buffers,
            ready: VecDeque::new(),
            completions: Vec::new(),
            starved: Vec::new(),
            missed: Vec::new(),
            sending: Vec::new(),
            messages: Messages::default(),
            doubts: Doubts::default(),
            eager: false,
            waking: false,
            room: sys::epoll_create().map_err(|error| ("epoll_create", error))?,
            room_polled: false,
            failed: false,
        })
    }

    /// Starts accepting on a listener that is in the core's list.
    pub fn listen(&mut self, core: &mut Core, key: u32) {
        let Some(listener) = core.listener_mut(key).filter(|listener| !listener.armed) else { return };
        listener.armed = true;
        let accept = opcode::AcceptMulti::new(fd_of(listener.fd.as_raw_fd())).flags(libc::SOCK_CLOEXEC);
        self.push(accept.build().user_data(KIND_ACCEPT << KIND_SHIFT | u64::from(key)));
    }

    /// Stops accepting; the listener is closed when the kernel has let go of it, which takes a turn.
    pub fn stop_listening(&mut self, core: &mut Core, key: u32) {
        let Some(listener) = core.listener_mut(key) else { return };
        listener.stopped = true;
        if listener.armed {
            // The kernel lets go of the socket when the cancelled operation has ended; its address is free from now on.
            sys::shutdown_both(listener.fd.as_fd());
            self.cancel(KIND_ACCEPT, KIND_CANCEL_ACCEPT, u64::from(key));
        } else {
            core.remove_listener(key);
        }
    }

    /// Starts or stops receiving as the connection wants it.
    pub fn update(&mut self, core: &mut Core, id: ConnId) {
        let Some(conn) = core.conns.get_mut(id) else { return };
        match (conn.receive, conn.wants_data()) {
            (Receive::Idle, true) if !self.buffers.any_left() => self.starved.push(id),
            (Receive::Idle, true) => {
                conn.receive = Receive::Armed;
                let receive = opcode::RecvMulti::new(fd_of(conn.socket().as_raw_fd()), GROUP).build();
                self.push(receive.user_data(KIND_RECEIVE << KIND_SHIFT | id.to_bits()));
            }
            (Receive::Armed, false) => {
                conn.receive = Receive::Cancelling;
                self.cancel(KIND_RECEIVE, KIND_CANCEL_RECEIVE, id.to_bits());
            }
            _ => {}
        }
    }

    /// Closes at once for the caller; the descriptor goes when the kernel has let go of the receive.
    pub fn close(&mut self, core: &mut Core, id: ConnId) {
        let Some(conn) = core.conns.get_mut(id) else { return };
        conn.phase = Phase::Dying;
        conn.out.clear(&mut core.pool);
        if std::mem::take(&mut conn.interest) != 0 {
            let fd = conn.socket().as_raw_fd();
            // It can only fail if the socket is not in the set.
            let _ = sys::epoll_ctl(self.room.as_fd(), libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
        self.update(core, id);
        self.bury(core, id);
    }

    /// Gives up a dying connection's slot if the kernel is done with it.
    fn bury(&mut self, core: &mut Core, id: ConnId) {
        let done = |conn: &Conn| conn.phase == Phase::Dying && !conn.receive.is_out();
        if core.conns.get(id).is_some_and(done) {
            core.conns.remove(id);
        }
    }

    /// Sends what was queued, waits unless there is something to do already, and sorts what the kernel reports.
    pub fn turn(&mut self, core: &mut Core, timeout: Option<Duration>) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("the ring has failed before"));
        }
        self.failed = true;
        self.prepare(core);
        let busy = std::mem::take(&mut self.eager) || core.has_events() || !self.ready.is_empty();
        let wait = !busy && timeout != Some(Duration::ZERO) && core.waker.may_sleep();
        let result = if wait {
            let limit = core.wait_limit(timeout);
            self.ring.enter(1, limit)
        } else if !self.ring.is_submitted() || self.ring.has_work() {
            self.ring.enter(0, None)
        } else {
            Ok(())
        };
        if core.waker.was_woken() {
            core.events.push_back(Event::Woken);
        }
        result?;
        self.collect(core)?;
        for _ in 0..SUBMIT_TRIES_MAX {
            if self.ring.is_submitted() {
                self.settle(core);
                self.failed = false;
                return Ok(());
            }
            self.ring.enter(0, None)?;
            self.collect(core)?;
        }
        Err(io::Error::new(io::ErrorKind::OutOfMemory, "the kernel does not take the ring's operations"))
    }

    /// Queues all that the turn has to tell the kernel.
    fn prepare(&mut self, core: &mut Core) {
        while let Some(id) = core.lingered_out() {
            self.close(core, id);
        }
        self.cancel_again(core);
        self.doubts.check(core);
        self.queue_sends(core);
        for key in core.rested() {
            self.listen(core, key);
        }
        if self.buffers.any_left() {
            for id in std::mem::take(&mut self.starved) {
                self.update(core, id);
            }
        }
        if !self.waking {
            self.waking = true;
            let poll = opcode::PollAdd::new(fd_of(core.waker.eventfd().as_raw_fd()), libc::POLLIN as u32);
            self.push(poll.multi(true).build().user_data(KIND_WAKE << KIND_SHIFT));
        }
        if !self.room_polled {
            self.room_polled = true;
            let poll = opcode::PollAdd::new(fd_of(self.room.as_raw_fd()), libc::POLLIN as u32);
            self.push(poll.build().user_data(KIND_ROOM << KIND_SHIFT));
        }
    }

    /// Queues one send for each connection that has output.
    fn queue_sends(&mut self, core: &mut Core) {
        for id in std::mem::take(&mut core.dirty) {
            let Some(conn) = core.conns.get_mut(id) else { continue };
            conn.dirty = false;
            if conn.phase == Phase::Dying {
                continue;
            }
            if conn.out.pending() == 0 {
                if conn.phase == Phase::Flushing {
                    self.close(core, id);
                }
                continue;
            }
            let fd = fd_of(conn.socket().as_raw_fd());
            let bytes_max = core.options.send_bytes_max;
            let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
            let (send, bytes) = match conn.out.single() {
                Some(span) => {
                    let bytes = span.len().min(bytes_max);
                    let length = u32::try_from(bytes).expect("one turn's share is less than 4 GiB");
                    (opcode::Send::new(fd, span.as_ptr(), length).flags(flags).build(), bytes)
                }
                None => {
                    let (message, bytes) = self.messages.make(|spans| conn.out.fill(spans, bytes_max));
                    (opcode::SendMsg::new(fd, message).flags(flags as u32).build(), bytes)
                }
            };
            conn.sending = bytes;
            // To be closed, told as drained, or continued.
            let drained = conn.blocked || !conn.reading;
            self.eager |= drained || conn.phase == Phase::Flushing || bytes < conn.out.pending();
            self.sending.push(id);
            let user_data = KIND_SEND << KIND_SHIFT | id.to_bits();
            self.push(send.flags(Flags::SKIP_SUCCESS).user_data(user_data));
        }
    }

    /// All sends that must not wait have been submitted, and all failures seen: the others went out whole.
    fn settle(&mut self, core: &mut Core) {
        self.messages.reuse();
        let mut sending = std::mem::take(&mut self.sending);
        for id in sending.drain(..) {
            let Some(conn) = core.conns.get_mut(id) else { continue };
            let sent = std::mem::take(&mut conn.sending);
            if sent == 0 {
                continue;
            }
            if core.sent(id, sent) {
                self.close(core, id);
            } else if self.has_output(core, id) {
                core.mark_dirty(id);
            }
        }
        self.sending = sending;
    }

    fn has_output(&self, core: &Core, id: ConnId) -> bool {
        core.conns.get(id).is_some_and(|conn| conn.phase != Phase::Dying && conn.out.pending() > 0)
    }

    /// Takes and sorts all completions.
    fn collect(&mut self, core: &mut Core) -> io::Result<()> {
        let room_before = self.room_polled;
        let mut completions = std::mem::take(&mut self.completions);
        let result = self.ring.collect(&mut completions);
        for completion in completions.drain(..) {
            let (kind, rest) = split(completion.user_data);
            match kind {
                KIND_RECEIVE => self.received(core, ConnId::from_bits(rest), completion),
                KIND_SEND => self.refused(core, ConnId::from_bits(rest), completion.result),
                KIND_ROOM => self.room_polled = false,
                KIND_ACCEPT => self.accepted(core, key_of(rest), completion),
                KIND_WAKE => self.waking = completion.more(),
                KIND_CANCEL_RECEIVE | KIND_CANCEL_ACCEPT => self.missed.push(completion),
                _ => {}
            }
        }
        self.completions = completions;
        result?;
        if room_before && !self.room_polled { self.found_room(core) } else { Ok(()) }
    }

    /// A receive reports data, or that it has ended.
    fn received(&mut self, core: &mut Core, id: ConnId, completion: Completion) {
        let conn = core.conns.get_mut(id).expect("a slot outlives its operations");
        let is_open = conn.phase == Phase::Open;
        if let Some(buffer) = completion.buffer() {
            self.buffers.take(buffer);
            match u32::try_from(completion.result) {
                Ok(length @ 1..) if is_open => self.ready.push_back(Ready::Data { conn: id, buffer, length }),
                _ => self.buffers.give(buffer),
            }
        }
        if completion.more() {
            return self.doubts.add(core, id);
        }
        conn.receive = Receive::Idle;
        match completion.result {
            // Ended for a reason that passes; started again at the turn's end, if still wanted.
            1.. => self.starved.push(id),
            result if matches!(-result, libc::ENOBUFS | libc::ECANCELED | libc::EAGAIN | libc::EINTR) => {
                self.starved.push(id);
            }
            result => {
                conn.receive = Receive::Finished;
                self.ready.push_back(Ready::End { conn: id, errno: -result });
            }
        }
        self.bury(core, id);
    }

    /// A send has not sent everything.
    fn refused(&mut self, core: &mut Core, id: ConnId, result: i32) {
        let Some(conn) = core.conns.get_mut(id).filter(|conn| conn.sending > 0) else { return };
        conn.sending = 0;
        match result {
            0.. => {
                core.sent(id, usize::try_from(result).expect("not negative"));
            }
            _ if matches!(-result, libc::EAGAIN | libc::EINTR | libc::ENOMEM | libc::ENOBUFS) => {}
            _ => return self.send_failed(core, id, -result),
        }
        core.refused(id);
        if let Err(error) = self.await_room(core, id) {
            self.send_failed(core, id, errno_of(&error));
        }
    }

    /// Has the connection told when its socket takes more; once.
    fn await_room(&mut self, core: &mut Core, id: ConnId) -> io::Result<()> {
        const ONCE: u32 = (libc::EPOLLOUT | libc::EPOLLONESHOT) as u32;
        let Some(conn) = core.conns.get_mut(id) else { return Ok(()) };
        let op = if conn.interest == 0 { libc::EPOLL_CTL_ADD } else { libc::EPOLL_CTL_MOD };
        sys::epoll_ctl(self.room.as_fd(), op, conn.socket().as_raw_fd(), ONCE, id.to_bits())?;
        conn.interest = ONCE;
        Ok(())
    }

    /// Sends again for connections whose sockets take more.
    fn found_room(&mut self, core: &mut Core) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; ROOM_EVENTS_MAX];
        loop {
            let count = sys::epoll_wait(self.room.as_fd(), &mut events, Some(Duration::ZERO))?;
            for event in &events[..count] {
                core.mark_dirty(ConnId::from_bits(event.u64));
            }
            if count < events.len() {
                return Ok(());
            }
        }
    }

    fn send_failed(&mut self, core: &mut Core, id: ConnId, errno: i32) {
        if core.send_failed(id, errno) {
            self.close(core, id);
        } else {
            self.update(core, id);
        }
    }

    /// A listener reports a connection, or that it has stopped accepting.
    fn accepted(&mut self, core: &mut Core, key: u32, completion: Completion) {
        if completion.result >= 0 {
            // SAFETY: the kernel has just handed this descriptor to us and nobody else knows it.
            let socket = unsafe { OwnedFd::from_raw_fd(completion.result) };
            self.ready.push_back(Ready::Accepted { key, socket });
        }
        if completion.more() {
            return;
        }
        let Some(listener) = core.listener_mut(key) else { return };
        listener.armed = false;
        if listener.stopped {
            core.remove_listener(key);
        } else if completion.result >= 0 || !core.accept_failed(key, -completion.result) {
            self.listen(core, key);
        }
    }

    /// The next event from the kernel.
    pub fn next_event(&mut self, core: &mut Core) -> Option<Event> {
        while let Some(ready) = self.ready.pop_front() {
            let event = match ready {
                Ready::Data { conn, buffer, length } => self.data(core, conn, buffer, length),
                Ready::End { conn, errno } => Self::end(core, conn, errno),
                Ready::Accepted { key, socket } => {
                    let listener = core.listener_mut(key).filter(|listener| !listener.stopped);
                    listener.map(|listener| Event::Accepted { listener: listener.token, socket })
                }
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn data(&mut self, core: &mut Core, id: ConnId, buffer: u16, length: u32) -> Option<Event> {
        let input = RingInput::new(&self.buffers, buffer, length);
        let conn = core.conns.open_mut(id).filter(|conn| !conn.ended)?;
        if conn.reading && conn.held.is_none() {
            return Some(Event::Data { conn: id, input: Input::ring(input) });
        }
        // Not to be delivered now; and the buffer is needed by others.
        let reading = conn.reading;
        conn.held.get_or_insert_default().bytes.extend_from_slice(input.bytes());
        if reading {
            core.resume_later(id);
        }
        None
    }

    fn end(core: &mut Core, id: ConnId, errno: i32) -> Option<Event> {
        let conn = core.conns.open_mut(id)?;
        if conn.reading && conn.held.is_none() {
            return core.end(id, errno);
        }
        let reading = conn.reading;
        let held: &mut Held = conn.held.get_or_insert_default();
        held.end = Some(errno);
        if reading {
            core.resume_later(id);
        }
        None
    }

    /// Lets the kernel finish or forget everything, so that descriptors are closed and memory is free when this returns. If it does not
    /// (which it should), what it may still use is leaked.
    pub fn farewell(&mut self, core: &mut Core) {
        for key in core.listener_keys() {
            self.stop_listening(core, key);
        }
        for id in core.conns.ids() {
            self.close(core, id);
        }
        for _ in 0..FAREWELL_WAITS_MAX {
            self.ready_drop();
            if core.conns.len() == 0 && core.listeners.is_empty() {
                return;
            }
            if self.failed {
                break;
            }
            self.cancel_again(core);
            let entered = self.ring.enter(1, Some(FAREWELL_WAIT));
            if entered.and_then(|()| self.collect(core)).is_err() {
                break;
            }
            for id in core.conns.ids() {
                self.bury(core, id);
            }
        }
        std::mem::forget(Rc::clone(&self.buffers));
    }

    /// Gives back what the caller has not taken.
    fn ready_drop(&mut self) {
        for ready in std::mem::take(&mut self.ready) {
            if let Ready::Data { buffer, .. } = ready {
                self.buffers.give(buffer);
            }
        }
    }

    fn cancel(&mut self, kind: u64, kind_cancel: u64, rest: u64) {
        let cancel = opcode::AsyncCancel::new(kind << KIND_SHIFT | rest).build();
        self.push(cancel.flags(Flags::SKIP_SUCCESS).user_data(kind_cancel << KIND_SHIFT | rest));
    }

    /// Cancels again what a cancellation has missed: an operation that the kernel is just handing from one of its lists to another is not
    /// found, and would go on for ever.
    fn cancel_again(&mut self, core: &mut Core) {
        for completion in std::mem::take(&mut self.missed) {
            let (kind, rest) = split(completion.user_data);
            if kind == KIND_CANCEL_ACCEPT {
                self.stop_listening(core, key_of(rest));
                continue;
            }
            let id = ConnId::from_bits(rest);
            if let Some(conn) = core.conns.get_mut(id).filter(|conn| conn.receive == Receive::Cancelling) {
                conn.receive = Receive::Armed;
                self.update(core, id);
            }
        }
    }

    fn push(&mut self, entry: Entry) {
        // SAFETY: receives, accepts and polls refer to no memory but the buffer group, which outlives them (or is leaked by `farewell`).
        // Sends refer to output and headers that stay untouched within the turn, and the turn does not succeed before all is submitted;
        // after one that failed nothing is submitted any more.
        unsafe { self.ring.push(entry) };
    }
}

/// The kind and the rest of a completion's user data.
fn split(user_data: u64) -> (u64, u64) {
    (user_data >> KIND_SHIFT, user_data & ((1 << KIND_SHIFT) - 1))
}

fn key_of(rest: u64) -> u32 {
    u32::try_from(rest).expect("listener keys are 32-bit")
}

fn fd_of(fd: RawFd) -> types::Fd {
    types::Fd(fd)
}
