//! What the server knows about one client: everything of a connection that is not its socket and its bytes.

use std::sync::Arc;

use acl::User;
use resp::{OwnedArgs, Proto};
use router::task::Watched;

use crate::pubsub::Subscriptions;
use crate::tracking::Tracking;

/// How a client wants its replies (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    #[default]
    On,
    Off,
    /// The next command's reply is dropped.
    SkipNext,
    /// The reply of the command that runs now is dropped.
    Skip,
}

/// A command queued between MULTI and EXEC.
pub struct QueuedCommand {
    pub args: OwnedArgs,
}

/// MULTI has begun.
#[derive(Default)]
pub struct Transaction {
    pub queued: Vec<QueuedCommand>,
    /// Bytes of the queued commands' words.
    pub bytes: usize,
    /// The database that a queued SELECT has chosen.
    pub db: Option<u16>,
    /// A command could not be queued: EXEC answers EXECABORT.
    pub broken: bool,
}

/// The addresses of a connection, as CLIENT LIST shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// `127.0.0.1:50000`, `[::1]:50000`, or the socket's path and `:0`.
    pub peer: Box<str>,
    pub local: Box<str>,
    pub unix_socket: bool,
    /// The peer is on this machine.
    pub loopback: bool,
}

/// One client.
pub struct Client {
    /// Unique in the life of the server, ascending.
    pub id: u64,
    pub addresses: Addresses,
    pub fd: i32,
    /// The database that SELECT chose.
    pub db: u16,
    pub proto: Proto,
    pub user: Arc<User>,
    /// It has said who it is, or began when nobody had to.
    pub logged_in: bool,
    /// It has said who it is, or need not.
    pub authenticated: bool,
    /// It is authenticated and may do everything, so that nothing need be checked.
    pub trusted: bool,
    pub reply_mode: ReplyMode,
    /// Empty when none was set.
    pub name: Box<[u8]>,
    pub lib_name: Box<[u8]>,
    pub lib_ver: Box<[u8]>,
    pub transaction: Option<Box<Transaction>>,
    pub watched: Option<Box<Watched>>,
    pub monitor: bool,
    /// It wants to know when what it has cached changes.
    pub tracking: Option<Box<Tracking>>,
    /// Channels and patterns it listens to.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Its command waits for keys, or for the end of a pause.
    pub blocked: bool,
    pub no_evict: bool,
    pub no_touch: bool,
    pub capa_redirect: bool,
    pub import_source: bool,
    /// Unix time in ms.
    pub created_ms: u64,
    /// Unix time in ms of the last command.
    pub active_ms: u64,
    /// Number of the last command in the command table.
    pub last_command: Option<u16>,
    pub commands: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Client {
    /// Begins as this user, without a right until [`Self::become_default`].
    pub fn new(id: u64, fd: i32, addresses: Addresses, user: Arc<User>, now_ms: u64) -> Self {
        Self {
            id,
            addresses,
            fd,
            db: 0,
            proto: Proto::Resp2,
            user,
            logged_in: false,
            authenticated: false,
            trusted: false,
            reply_mode: ReplyMode::On,
            name: Box::default(),
            lib_name: Box::default(),
            lib_ver: Box::default(),
            transaction: None,
            watched: None,
            monitor: false,
            tracking: None,
            subscriptions: None,
            blocked: false,
            no_evict: false,
            no_touch: false,
            capa_redirect: false,
            import_source: false,
            created_ms: now_ms,
            active_ms: now_ms,
            last_command: None,
            commands: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// The letters of CLIENT LIST's `flags`.
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        let letters = [
            (self.monitor, 'O'),
            (self.subscriptions.is_some(), 'P'),
            (self.transaction.is_some(), 'x'),
            (self.blocked, 'b'),
            (self.tracking.is_some(), 't'),
            (self.tracking.as_ref().is_some_and(|tracking| tracking.broken), 'R'),
            (self.tracking.as_ref().is_some_and(|tracking| tracking.bcast), 'B'),
            (self.addresses.unix_socket, 'U'),
            (self.no_evict, 'e'),
            (self.no_touch, 'T'),
            (self.import_source, 'I'),
        ];
        flags.extend(letters.iter().filter(|(set, _)| *set).map(|(_, letter)| letter));
        if flags.is_empty() { "N".to_owned() } else { flags }
    }
}
