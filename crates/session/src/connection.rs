//! One connection: the bytes that wait to be parsed and the one thing it may be waiting for.
//!
//! A connection is either running commands or waiting for exactly one thing; while it waits, what arrives is only gathered. So its
//! commands execute in the order in which they came, and an idle connection owns no buffer.

use reactor::ConnId;
use resp::{Args, OwnedArgs, Partial, Span};

use router::table::Entry;

use crate::blocked::BlockedOn;
use crate::broadcast::Gathering;
use crate::client::Client;
use crate::transaction::Remaining;
use crate::worker::SessionRun;

/// Why a connection does not run its next command yet.
pub enum Waiting {
    /// A shard was busy; the command was posted and its task comes back.
    Task { number: usize, ticks: u64 },
    /// Answers of all threads to a question (CONFIG SET, CLIENT LIST ...).
    Answers(Box<Gathering>),
    /// CLIENT PAUSE.
    Paused,
    /// There is nothing yet in the keys of its command.
    Blocked(Box<BlockedOn>),
    /// Its unread replies have passed the high-water mark.
    Output,
}

/// One connection.
pub struct Connection {
    pub reactor_id: ConnId,
    pub client: Client,
    /// Bytes that arrived and are not yet consumed; empty in the common case of whole commands.
    pub input: Vec<u8>,
    pub partial: Partial,
    pub waiting: Option<Waiting>,
    /// The rest of an EXEC whose commands on the connection itself are being run.
    pub remaining: Option<Box<Remaining>>,
    /// The session command that the connection waits for, to be remembered when it is done.
    pub late: Option<Box<OwnedArgs>>,
    /// Messages of channels that are not handed to the socket yet.
    pub pushes: Vec<u8>,
    /// The peer will send no more.
    pub eof: bool,
    /// Close once the replies are sent; run nothing more.
    pub closing: bool,
    /// Unix time in ms since when the replies have been above the soft limit; 0 when they are not.
    pub soft_limit_since_ms: u64,
    /// Unread bytes of replies when `timeout` was about to end it: fewer the next time mean that the client reads.
    pub unread_seen: usize,
    /// Bytes of its buffers that are counted in the thread's statistics.
    pub bytes_counted: u64,
    /// Its watched keys that are counted there.
    pub watched_counted: u64,
}

impl Connection {
    pub fn new(reactor_id: ConnId, client: Client) -> Self {
        Self {
            reactor_id,
            client,
            input: Vec::new(),
            partial: Partial::default(),
            waiting: None,
            remaining: None,
            late: None,
            pushes: Vec::new(),
            eof: false,
            closing: false,
            soft_limit_since_ms: 0,
            unread_seen: 0,
            bytes_counted: 0,
            watched_counted: 0,
        }
    }
}

/// One parsed command of a window: where its words stand and what the first pass found out about it.
#[derive(Clone, Copy)]
pub struct Parsed {
    /// The command's row, if the name is one; set by the first pass.
    pub entry: Option<&'static Entry<SessionRun>>,
    pub spans_start: u32,
    pub spans_len: u32,
    /// Bytes of the buffer up to the end of this command.
    pub end: usize,
    /// Hash and shard of the only key, if the command has exactly one.
    pub hint: Option<(usize, u64, u16)>,
}

impl Parsed {
    /// The words of the command in the buffer they were parsed from.
    pub fn args<'a>(&self, buffer: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        let start = self.spans_start as usize;
        Args::new(buffer, &spans[start..start + self.spans_len as usize])
    }
}
