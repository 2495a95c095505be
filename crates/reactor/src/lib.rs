//! The I/O island: one event loop per thread over io_uring or epoll, wake-ups between threads, clocks, and what the machine lends us.
//! Knows sockets and bytes; no protocol, no command, no policy about clients.
//!
//! ```text
//! loop {
//!     reactor.turn(timeout)?;                        // sends what was queued, waits, collects
//!     while let Some(event) = reactor.next_event() { // Accepted -> add, Data -> ... -> send, Closed -> close_after_flush
//!     }
//! }
//! ```
//!
//! - Output queued by [`Reactor::send`] leaves at the next [`Reactor::turn`], in order; with the ring engine a turn is one system call.
//! - [`Event::Closed`] says that the peer will send no more (all it sent has been delivered) or is gone. The connection stays until the
//!   caller lets go of it with [`Reactor::close_after_flush`] (a client that only shut down its sending side gets its replies) or
//!   [`Reactor::close`]. Either may be called at any time; afterwards the id is dead: no event mentions it, and calls with it do nothing.
//! - A fault of one connection is an event of that connection. [`Reactor::turn`] fails only if the engine itself does.
//! - The engine belongs to the thread that called [`Reactor::new`].

pub mod affinity;
pub mod clock;
pub mod process;

mod conn;
mod core;
mod epoll;
mod input;
mod output;
mod pool;
mod sys;
mod uring;
mod wake;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

pub use crate::conn::ConnId;
pub use crate::input::Input;
pub use crate::output::{Output, SharedBytes};
pub use crate::wake::Waker;

use crate::conn::Phase;
use crate::core::Core;
use crate::epoll::Epoll;
use crate::uring::Uring;

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A client has connected. The socket is the caller's: to be configured, and given to [`Reactor::add`].
    Accepted {
        /// The token of the listener.
        listener: u32,
        /// The connection.
        socket: OwnedFd,
    },
    /// Accepting has failed, most likely for want of descriptors; the reactor tries again after [`Options::accept_retry`].
    AcceptFailed {
        /// The token of the listener.
        listener: u32,
        /// What the kernel said.
        error: io::Error,
    },
    /// Bytes have arrived.
    Data {
        /// The connection.
        conn: ConnId,
        /// The bytes; at least one.
        input: Input,
    },
    /// The peer will send no more, and all it sent has been delivered; or the connection has broken.
    Closed {
        /// The connection.
        conn: ConnId,
        /// Why, unless it is the orderly end. With an error nothing can be sent any more.
        error: Option<io::Error>,
    },
    /// The connection's output fell to zero (it may have more since). Told if the output had outlived a turn or if reading is paused;
    /// else nobody waits for it.
    Drained {
        /// The connection.
        conn: ConnId,
    },
    /// The reactor's [`Waker`] was used.
    Woken,
}

/// The engine to use.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EngineKind {
    /// The ring if the kernel grants it, else epoll.
    Auto,
    /// io_uring or fail.
    Uring,
    /// epoll.
    Epoll,
}

/// The engine in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// True for io_uring, false for epoll.
    pub uring: bool,
    /// Why not the ring, if `Auto` was asked for and epoll is used: one line for the log.
    pub reason: Option<String>,
}

impl Choice {
    /// The engine's name as `--io-engine` takes it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.uring { "uring" } else { "epoll" }
    }
}

/// Why no reactor came to be.
#[derive(Debug)]
pub struct Error {
    what: &'static str,
    source: io::Error,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// The limits of one reactor.
#[derive(Clone, Debug)]
pub struct Options {
    /// Receive buffers of the ring engine; a power of two. Few, because they pass through the CPU's cache in turn; a connection that
    /// finds none waits for the next turn.
    pub receive_buffers: u16,
    /// Size of each. 128 x 16 KiB = 2 MiB per thread.
    pub receive_buffer_bytes: u32,
    /// Bytes sent for one connection per turn at most, so that one large reply does not hold up the others.
    pub send_bytes_max: usize,
    /// A connection that is closing is cut off if its peer takes nothing for this long.
    pub linger_max: Duration,
    /// How long a listener rests after the process has run out of descriptors.
    pub accept_retry: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            receive_buffers: 128,
            receive_buffer_bytes: 16 << 10,
            send_bytes_max: 512 << 10,
            linger_max: Duration::from_secs(10),
            accept_retry: Duration::from_millis(100),
        }
    }
}

/// One thread's event loop.
pub struct Reactor {
    engine: Engine,
    core: Core,
}

enum Engine {
    Epoll(Epoll),
    Uring(Box<Uring>),
}

impl Reactor {
    /// A reactor for the calling thread.
    pub fn new(kind: EngineKind, options: Options) -> Result<(Reactor, Choice), Error> {
        let waker = Waker::new().map_err(|source| Error { what: "cannot create an eventfd", source })?;
        let core = Core::new(options, waker);
        let reason = match kind {
            EngineKind::Epoll => None,
            EngineKind::Auto | EngineKind::Uring => match Uring::new(&core) {
                Ok(engine) => {
                    let reactor = Reactor { engine: Engine::Uring(Box::new(engine)), core };
                    return Ok((reactor, Choice { uring: true, reason: None }));
                }
                Err((what, source)) if kind == EngineKind::Uring => return Err(Error { what, source }),
                Err((what, error)) => Some(format!("{what}: {error}")),
            },
        };
        let epoll =
            Epoll::new(&core).map_err(|source| Error { what: "cannot create an epoll instance", source })?;
        Ok((Reactor { engine: Engine::Epoll(epoll), core }, Choice { uring: false, reason }))
    }

    /// A handle with which other threads end this reactor's waiting.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.core.waker.clone()
    }

    /// Accepts connections on a listening socket (of any family); `token` comes back in the events and must be unique.
    pub fn listen(&mut self, socket: OwnedFd, token: u32) -> io::Result<()> {
        let key = self.core.insert_listener(socket, token);
        let result = match &mut self.engine {
            Engine::Epoll(engine) => engine.listen(&mut self.core, key),
            Engine::Uring(engine) => {
                engine.listen(&mut self.core, key);
                Ok(())
            }
        };
        if result.is_err() {
            self.core.remove_listener(key);
        }
        result
    }

    /// Stops accepting and closes the listening socket: by the end of the next turn the port is free. An unknown token is ignored.
    pub fn stop_listening(&mut self, token: u32) {
        let Some(key) = self.core.listener_key(token) else { return };
        match &mut self.engine {
            Engine::Epoll(engine) => engine.stop_listening(&mut self.core, key),
            Engine::Uring(engine) => engine.stop_listening(&mut self.core, key),
        }
    }

    /// Takes charge of a connected socket (of any family) and starts reading from it. If the kernel refuses to watch it, `Closed` follows.
    pub fn add(&mut self, socket: OwnedFd) -> ConnId {
        let id = self.core.conns.insert(socket);
        self.update(id);
        id
    }

    /// Connections that are not closed entirely, those included that the caller has let go of.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.core.conns.len()
    }

    /// Delivers no more data (nor the end) of this connection until [`Reactor::resume_reading`]. What the kernel has handed over already
    /// is kept, at most all receive buffers' worth. A peer that goes away meanwhile is noticed only when something is sent to it.
    pub fn pause_reading(&mut self, conn: ConnId) {
        if let Some(slot) = self.core.conns.open_mut(conn).filter(|slot| slot.reading) {
            slot.reading = false;
            self.update(conn);
        }
    }

    /// Delivers data again, beginning with what arrived meanwhile.
    pub fn resume_reading(&mut self, conn: ConnId) {
        if let Some(slot) = self.core.conns.open_mut(conn).filter(|slot| !slot.reading) {
            slot.reading = true;
            if slot.held.is_some() {
                self.core.resume_later(conn);
            }
            self.update(conn);
        }
    }

    /// An empty buffer to write replies into; [`Reactor::send`] or [`Reactor::recycle`] takes it back.
    #[must_use]
    pub fn buffer(&mut self) -> Vec<u8> {
        self.core.pool.take()
    }

    /// Gives a buffer back that was not sent.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.core.pool.give(buffer);
    }

    /// Bytes held by idle reply buffers.
    #[must_use]
    pub fn pooled_bytes(&self) -> usize {
        self.core.pool.bytes()
    }

    /// Queues output behind what is queued already. It leaves at the next turn. There is no limit here: look at [`Reactor::pending`].
    pub fn send(&mut self, conn: ConnId, output: Output) {
        let Some(slot) = self.core.conns.open_mut(conn).filter(|slot| !slot.broken) else {
            return self.core.pool.give(output.bytes);
        };
        slot.out.push(output, &mut self.core.pool);
        if slot.out.pending() > 0 && !slot.blocked {
            self.core.mark_dirty(conn);
        }
    }

    /// Bytes of this connection that the kernel has not taken.
    #[must_use]
    pub fn pending(&self, conn: ConnId) -> usize {
        self.core.conns.get(conn).map_or(0, |slot| slot.out.pending())
    }

    /// Closes the connection and forgets its unsent output.
    pub fn close(&mut self, conn: ConnId) {
        if self.core.conns.get(conn).is_some_and(|slot| slot.phase != Phase::Dying) {
            match &mut self.engine {
                Engine::Epoll(engine) => engine.close(&mut self.core, conn),
                Engine::Uring(engine) => engine.close(&mut self.core, conn),
            }
        }
    }

    /// Closes the connection when its output is out. No more is read, no more is told; a peer that takes nothing for
    /// [`Options::linger_max`] is cut off.
    pub fn close_after_flush(&mut self, conn: ConnId) {
        let Some(slot) = self.core.conns.open_mut(conn) else { return };
        if slot.broken || slot.out.pending() == 0 {
            return self.close(conn);
        }
        slot.phase = Phase::Flushing;
        slot.held = None;
        if slot.blocked {
            self.core.linger(conn);
        }
        self.update(conn);
    }

    /// Sends everything queued, waits until something happens (not longer than `timeout`; `None`: for ever; not at all while there is
    /// work left) and collects what did. Events of the last turn that were not taken are kept.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match &mut self.engine {
            Engine::Epoll(engine) => engine.turn(&mut self.core, timeout),
            Engine::Uring(engine) => engine.turn(&mut self.core, timeout),
        }
    }

    /// The next thing that happened, or `None`: time for another turn.
    pub fn next_event(&mut self) -> Option<Event> {
        if let Some(event) = self.core.next_event() {
            return Some(event);
        }
        match &mut self.engine {
            Engine::Epoll(engine) => engine.next_event(&mut self.core),
            Engine::Uring(engine) => engine.next_event(&mut self.core),
        }
    }

    /// Brings what the kernel waits for in line with what the connection wants.
    fn update(&mut self, conn: ConnId) {
        match &mut self.engine {
            Engine::Epoll(engine) => engine.update_or_end(&mut self.core, conn),
            Engine::Uring(engine) => engine.update(&mut self.core, conn),
        }
    }
}

impl Drop for Reactor {
    /// Closes everything. When it returns, the ports are free and the kernel uses no memory of ours.
    fn drop(&mut self) {
        if let Engine::Uring(engine) = &mut self.engine {
            engine.farewell(&mut self.core);
        }
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = if matches!(self.engine, Engine::Uring(_)) { "uring" } else { "epoll" };
        write!(formatter, "Reactor({engine}, {} connections)", self.connections())
    }
}

/// The errno behind an error of a system call.
fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
