//! What all threads share: the shards, the command table, and how to reach one another.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use acl::{Catalog, Users};
use reactor::Waker;
use router::mailbox::Mailbox;
use router::published::Published;
use router::table::Table;
use router::task::{Task, Ticket};
use shard::data::{Hints, ShardData};
use shard::exec::Layout;
use shard::latch::Shards;

use crate::broadcast::{Answer, Question};
use crate::client::Addresses;
use crate::commandlog::Numbers;
use crate::config::Config;
use crate::latency::Latency;
use crate::pubsub::{Directory, Publication};
use crate::rights::log::AclLog;
use crate::stats::{Counter, Rates, ThreadStats};
use crate::tracking::{Inbox, Redirected, Trackers};
use crate::worker::SessionRun;

/// What one thread sends to another.
pub enum Message {
    /// A posted task comes back to the thread of its connection.
    Finished(Box<Task>),
    /// A connection that the accepting thread gives to this one.
    Adopt(OwnedFd, Addresses),
    Question(Question),
    /// The answer to a question of this thread's connection.
    Answer(u64, Answer),
    /// A command to show to this thread's MONITOR clients.
    Monitored(Arc<[u8]>),
    /// Keys that connections of this thread track have changed; which, its inbox of changes tells.
    Changed,
    /// Changes that a client redirects to one of this thread.
    Redirected(Box<Redirected>),
    /// The client of that number has gone, to whom a client of this thread redirects.
    RedirectBroken(Ticket, u64),
    /// A message to channels that connections of this thread listen to.
    Published(Arc<Publication>),
}

/// One thread as the others see it.
pub struct Peer {
    pub mailbox: Mailbox<Message>,
    pub waker: OnceLock<Waker>,
    /// Changes of keys that its connections track.
    pub(crate) changes: Inbox,
    pub stats: ThreadStats,
    /// Milliseconds that keys of each database still have to live on average, as far as this thread knows.
    pub average_ttl_ms: Box<[Counter]>,
    /// Connections that the thread has or was given.
    pub connections: AtomicU32,
}

/// What all threads share.
pub struct Shared {
    pub shards: Arc<Shards<ShardData>>,
    pub hints: Hints,
    pub published: Arc<Published>,
    pub layout: Layout,
    pub arena: &'static memory::Arena,
    pub table: Table<SessionRun>,
    /// What rules about commands mean.
    pub catalog: Catalog,
    /// All users. Locked by commands about users and by AUTH only.
    pub users: Mutex<Users>,
    /// ACL LOG. Locked when something is denied.
    pub acl_log: Mutex<AclLog>,
    pub peers: Box<[Peer]>,
    pub(crate) client_id_last: AtomicU64,
    /// Number of MONITOR clients of all threads: read by every command, written when one comes or goes.
    pub monitors: AtomicU32,
    /// Who listens to which channels.
    pub(crate) directory: Directory,
    /// Who tracks keys.
    pub(crate) trackers: Trackers,
    pub stopping: AtomicBool,
    /// The scripts that clients have sent.
    pub scripts: crate::scripts::Cache,
    /// The libraries of functions.
    pub functions: crate::functions::Store,
    /// Scripts and functions that run for too long.
    pub busy: crate::scripts::Busy,
    /// The most memory in use at any tick so far, in bytes.
    pub memory_peak: AtomicU64,
    /// Memory in use before the first client came.
    pub memory_at_start: u64,
    /// Commands and bytes per second.
    pub(crate) rates: Mutex<Rates>,
    pub start: Start,
    pub commandlog_numbers: Numbers,
    pub latency: Latency,
    /// The settings that every thread has or is about to take; changed by CONFIG SET.
    pub config: Mutex<Arc<Config>>,
    /// `uring` or `epoll`.
    pub io_engine: OnceLock<&'static str>,
}

/// Facts of this run of the server.
#[derive(Clone, Debug)]
pub struct Start {
    pub run_id: String,
    pub unix_ms: u64,
    pub executable: String,
    pub config_file: Option<String>,
}

impl Shared {
    /// Sends a message to a thread and wakes it if it sleeps.
    pub fn send(&self, thread: u16, message: Message) {
        let peer = &self.peers[usize::from(thread)];
        if peer.mailbox.push(message)
            && let Some(waker) = peer.waker.get()
        {
            waker.wake();
        }
    }

    /// A client id that was never used before.
    pub fn next_client_id(&self) -> u64 {
        // Relaxed: only the number's uniqueness counts. One per connection, not per command.
        self.client_id_last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Bytes of input and replies that clients hold.
    pub fn buffer_bytes(&self) -> u64 {
        self.peers.iter().map(|peer| peer.stats.client_bytes.get()).sum()
    }

    /// The number of clients of all threads.
    pub fn connected(&self) -> u32 {
        self.peers.iter().map(|peer| peer.connections.load(Ordering::Relaxed)).sum()
    }
}
