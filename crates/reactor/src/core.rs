//! What both engines share: the connections, the listeners, buffers, events that arise inside, and the decisions that must be the same
//! whichever engine moves the bytes. Makes no system call but `close` and `shutdown`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::conn::{Conn, ConnId, Conns, Phase};
use crate::pool::Pool;
use crate::wake::Waker;
use crate::{Event, Options};

/// A socket that accepts.
pub(crate) struct Listener {
    /// The caller's name for it.
    pub token: u32,
    /// The engines' name for it, never used again.
    pub key: u32,
    pub fd: OwnedFd,
    /// Not accepting until then: the process was out of descriptors or memory.
    pub retry_at: Option<Instant>,
    /// Ring engine: the accept operation is out.
    pub armed: bool,
    /// The caller has let go of it.
    pub stopped: bool,
}

/// A closing connection whose last bytes the peer has not taken.
struct Linger {
    conn: ConnId,
    pending: usize,
    deadline: Instant,
}

/// The state beside the engine.
pub(crate) struct Core {
    pub options: Options,
    pub conns: Conns,
    pub listeners: Vec<Listener>,
    pub pool: Pool,
    pub waker: Waker,
    /// Events that did not come from the kernel; they go out before the kernel's.
    pub events: VecDeque<Event>,
    /// Connections with output that has not been tried.
    pub dirty: Vec<ConnId>,
    /// Connections whose held data is to be handed out.
    pub resumed: VecDeque<ConnId>,
    lingers: VecDeque<Linger>,
    /// When the engine wants to look at something.
    pub check_at: Option<Instant>,
    listener_key: u32,
}

impl Core {
    pub fn new(options: Options, waker: Waker) -> Core {
        Core {
            options,
            conns: Conns::default(),
            listeners: Vec::new(),
            pool: Pool::default(),
            waker,
            events: VecDeque::new(),
            dirty: Vec::new(),
            resumed: VecDeque::new(),
            lingers: VecDeque::new(),
            check_at: None,
            listener_key: 0,
        }
    }

    /// Puts a connection on the list of those with untried output.
    pub fn mark_dirty(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && !conn.dirty
        {
            conn.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Settles `sent` bytes of a connection. Returns true if the connection is to be closed now, its last byte being out.
    pub fn sent(&mut self, id: ConnId, sent: usize) -> bool {
        let Some(conn) = self.conns.get_mut(id) else { return false };
        conn.out.advance(sent, &mut self.pool);
        if conn.out.pending() > 0 {
            return false;
        }
        let waited = std::mem::take(&mut conn.blocked);
        if conn.phase == Phase::Open && (waited || !conn.reading) {
            self.events.push_back(Event::Drained { conn: id });
        }
        conn.phase == Phase::Flushing
    }

    /// The socket refused bytes: from here on the connection waits for it to take them.
    pub fn refused(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if !std::mem::replace(&mut conn.blocked, true) && conn.phase == Phase::Flushing {
            self.linger(id);
        }
    }

    /// From now on a closing connection must make progress.
    pub fn linger(&mut self, id: ConnId) {
        let pending = self.conns.get(id).map_or(0, |conn| conn.out.pending());
        let deadline = Instant::now() + self.options.linger_max;
        self.lingers.push_back(Linger { conn: id, pending, deadline });
    }

    /// Sending has failed for good. Output is discarded; the end is told through the read side, after the data that is still there, or
    /// at once if the caller does not read. Returns true if the connection is to be closed now.
    pub fn send_failed(&mut self, id: ConnId, errno: i32) -> bool {
        let Some(conn) = self.conns.get_mut(id) else { return false };
        conn.out.clear(&mut self.pool);
        conn.broken = true;
        conn.blocked = false;
        conn.errno = errno;
        if conn.phase != Phase::Open {
            return true;
        }
        if conn.ended {
            // The caller knows the end already and may be waiting for its output to be gone, which it is.
            self.events.push_back(Event::Drained { conn: id });
        } else if conn.reading {
            crate::sys::shutdown_both(conn.socket());
        } else {
            conn.ended = true;
            conn.held = None;
            self.events
                .push_back(Event::Closed { conn: id, error: Some(io::Error::from_raw_os_error(errno)) });
        }
        false
    }

    /// The read side of an open connection has ended with `errno` (zero: the peer's orderly end).
    pub fn end(&mut self, id: ConnId, errno: i32) -> Option<Event> {
        let conn = self.conns.open_mut(id).filter(|conn| !conn.ended)?;
        conn.ended = true;
        let errno = if errno == 0 { conn.errno } else { errno };
        let error = (errno != 0).then(|| io::Error::from_raw_os_error(errno));
        Some(Event::Closed { conn: id, error })
    }

    /// The next connection whose lingering has taken too long.
    pub fn lingered_out(&mut self) -> Option<ConnId> {
        while let Some(linger) = self.lingers.front_mut() {
            let now = Instant::now();
            if now < linger.deadline {
                return None;
            }
            let id = linger.conn;
            let pending = self
                .conns
                .get(id)
                .filter(|conn| conn.phase == Phase::Flushing)
                .map(|conn| conn.out.pending());
            match pending {
                Some(pending) if pending < linger.pending => {
                    let deadline = now + self.options.linger_max;
                    self.lingers.push_back(Linger { conn: id, pending, deadline });
                    self.lingers.pop_front();
                }
                Some(_) => {
                    self.lingers.pop_front();
                    return Some(id);
                }
                None => drop(self.lingers.pop_front()),
            }
        }
        None
    }

    /// How long a turn may wait: not beyond what is to be done by the clock.
    pub fn wait_limit(&self, timeout: Option<Duration>) -> Option<Duration> {
        let retries = self.listeners.iter().filter_map(|listener| listener.retry_at);
        let lingers = self.lingers.front().map(|linger| linger.deadline);
        match lingers.into_iter().chain(self.check_at).chain(retries).min() {
            None => timeout,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                Some(timeout.map_or(left, |timeout| timeout.min(left)))
            }
        }
    }

    /// Accepting has failed. Returns true if the listener must rest: the fault is ours, not the one client's.
    pub fn accept_failed(&mut self, key: u32, errno: i32) -> bool {
        // As accept(2) has it, a new connection's own network errors are reported here, too; they say nothing about the listener.
        let passing =
            [libc::EAGAIN, libc::EINTR, libc::ECONNABORTED, libc::EPROTO, libc::EPERM, libc::ENETDOWN]
                .iter()
                .chain(&[
                    libc::ENOPROTOOPT,
                    libc::EHOSTDOWN,
                    libc::ENONET,
                    libc::EHOSTUNREACH,
                    libc::ENETUNREACH,
                ])
                .any(|passing| *passing == errno);
        if passing {
            return false;
        }
        let retry_at = Instant::now() + self.options.accept_retry;
        let Some(listener) = self.listener_mut(key) else { return true };
        listener.retry_at = Some(retry_at);
        let error = io::Error::from_raw_os_error(errno);
        let listener = listener.token;
        self.events.push_back(Event::AcceptFailed { listener, error });
        true
    }

    /// Takes a listener in; returns its key.
    pub fn insert_listener(&mut self, fd: OwnedFd, token: u32) -> u32 {
        let known = self.listeners.iter().any(|listener| listener.token == token && !listener.stopped);
        assert!(!known, "tokens are unique");
        self.listener_key += 1;
        let key = self.listener_key;
        self.listeners.push(Listener { token, key, fd, retry_at: None, armed: false, stopped: false });
        key
    }

    pub fn listener_mut(&mut self, key: u32) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| listener.key == key)
    }

    /// Closes a listener.
    pub fn remove_listener(&mut self, key: u32) {
        self.listeners.retain(|listener| listener.key != key);
    }

    /// The key of the listener that the caller calls `token`.
    pub fn listener_key(&self, token: u32) -> Option<u32> {
        let mut current = self.listeners.iter().filter(|listener| !listener.stopped);
        current.find(|listener| listener.token == token).map(|listener| listener.key)
    }

    pub fn listener_keys(&self) -> Vec<u32> {
        self.listeners.iter().map(|listener| listener.key).collect()
    }

    /// The keys of listeners whose rest is over.
    pub fn rested(&mut self) -> Vec<u32> {
        // Looking at the clock costs more than looking at the list.
        if self.listeners.iter().all(|listener| listener.retry_at.is_none()) {
            return Vec::new();
        }
        let now = Instant::now();
        let due = self.listeners.iter_mut().filter(|listener| listener.retry_at.is_some_and(|at| at <= now));
        due.map(|listener| {
            listener.retry_at = None;
            listener.key
        })
        .collect()
    }

    /// The next event that did not come from the kernel. What concerns a connection that the caller has let go of since is dropped.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(event) = self.events.pop_front() {
            match event {
                Event::Drained { conn } | Event::Closed { conn, .. }
                    if self.conns.open_mut(conn).is_none() => {}
                event => return Some(event),
            }
        }
        self.next_held()
    }

    /// The next connection to hand held data of: its bytes first, then its end.
    fn next_held(&mut self) -> Option<Event> {
        while let Some(id) = self.resumed.pop_front() {
            let Some(conn) = self.conns.open_mut(id) else { continue };
            conn.resumed = false;
            let Some(held) = conn.held.as_mut().filter(|_| conn.reading && !conn.ended) else { continue };
            let bytes = std::mem::take(&mut held.bytes);
            let end = held.end;
            if bytes.is_empty() || end.is_none() {
                conn.held = None;
            } else {
                self.resume_later(id);
            }
            if !bytes.is_empty() {
                return Some(Event::Data { conn: id, input: crate::Input::owned(bytes) });
            }
            if let Some(event) = end.and_then(|errno| self.end(id, errno)) {
                return Some(event);
            }
        }
        None
    }

    /// Puts a connection on the list of those whose held data is to be handed out.
    pub fn resume_later(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.open_mut(id)
            && !conn.resumed
        {
            conn.resumed = true;
            self.resumed.push_front(id);
        }
    }
}

/// Whether a turn must not wait because of events inside.
impl Core {
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.resumed.is_empty()
    }
}

impl Conn {
    /// Whether its socket is to be read.
    pub fn wants_data(&self) -> bool {
        self.phase == Phase::Open && self.reading && !self.ended
    }
}
