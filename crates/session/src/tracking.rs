//! CLIENT TRACKING: how a connection that caches what it reads is told of changes. Not who has read what: each shard remembers that
//! (`shard::tracking`). Not the commands: those are in `commands/tracking.rs`.
//!
//! HOT: `tell_changes`, after every command of a client that tracks: one load while there is nothing to tell.
//!
//! ```text
//!   a key changes  --> before its shard is left: into the inbox of every thread with a client that read it, or that wants its prefix
//!                                   |
//!   thread: after a command of a client that tracks, and when it is woken
//!                                   v
//!                   pending changes of each connection --> `invalidate`, between two replies
//! ```
//!
//! A client must not learn of anything that came after a change of which it has not been told. So the inbox is looked at after a command
//! has run, and what is found there goes before the reply of that command, unless it concerns what that very command has read: then
//! behind it. What a connection waits for may be a reply with a value; until it has come, changes stay pending.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use command::{Flags, KeySpec};
use reactor::ConnId;
use resp::{Mark, Proto, Reply};
use router::outbound::{Caching, Changed};
use router::task::Ticket;
use shard::tracking::Readers;

use crate::client::Client;
use crate::connection::{Connection, Waiting};
use crate::pubsub::Kind;
use crate::shared::{Message, Shared};
use crate::worker::Worker;

/// The channel on which a client in RESP2 hears of changes that others redirect to it.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Changes that wait for one connection; beyond that it is told that everything has changed.
const PENDING_MAX: usize = 1 << 16;

/// Changes that wait for one thread; beyond that all of its clients that track are told that everything has changed.
const INBOX_MAX: usize = 1 << 18;

/// How a client tracks.
#[derive(Default)]
pub struct Tracking {
    /// It is told of every key with one of its prefixes, not of those that it has read.
    pub bcast: bool,
    pub optin: bool,
    pub optout: bool,
    pub noloop: bool,
    /// CLIENT CACHING was called for the next command or transaction.
    pub caching: bool,
    /// Another client hears of the changes.
    pub redirect: Option<Redirect>,
    /// That client has gone.
    pub broken: bool,
    /// Of BCAST; ascending.
    pub prefixes: Vec<Box<[u8]>>,
    pending: Vec<Pending>,
    /// A part of the reply of the EXEC that goes on has been sent: nothing can be told before it any more.
    pub(crate) split: bool,
}

/// The client that changes are redirected to.
#[derive(Clone, Copy)]
pub struct Redirect {
    pub id: u64,
    pub ticket: Ticket,
}

/// A change that its client has not been told of.
struct Pending {
    /// None: everything has changed.
    key: Option<Arc<[u8]>>,
    /// The command that has read the key last.
    command: Option<u32>,
}

/// Changes on their way to a thread.
#[derive(Default)]
pub struct Inbox {
    waiting: AtomicBool,
    changes: Mutex<Vec<Change>>,
}

/// A key that has changed, or all keys.
pub struct Change {
    key: Option<Arc<[u8]>>,
    /// Connections of the thread that have read it, and with which command.
    readers: Vec<(u64, u32)>,
    /// Those who want to know of its prefix are to be told, too.
    broadcast: bool,
    by: Ticket,
}

/// Everything that is redirected in one go: the keys; none if everything has changed.
pub struct Redirected {
    pub(crate) to: Redirect,
    from: ConnId,
    from_thread: u16,
    keys: Option<Vec<Arc<[u8]>>>,
}

/// A prefix, with the threads of those who want to know of it and how many they are.
type Prefix = (Box<[u8]>, Vec<(u16, u32)>);

/// Who tracks, over all threads.
#[derive(Default)]
pub struct Trackers {
    pub clients: AtomicU32,
    /// Those in BCAST mode.
    pub broadcasts: AtomicU32,
    /// What they want to know of.
    prefixes: RwLock<Vec<Prefix>>,
}

impl Trackers {
    /// Prefixes that somebody wants to know of.
    pub fn prefixes(&self) -> usize {
        self.prefixes.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn add(&self, prefix: &[u8], thread: u16) {
        let mut prefixes = self.prefixes.write().unwrap_or_else(PoisonError::into_inner);
        let at = prefixes.iter().position(|(known, _)| **known == *prefix).unwrap_or_else(|| {
            prefixes.push((prefix.into(), Vec::new()));
            prefixes.len() - 1
        });
        let threads = &mut prefixes[at].1;
        match threads.iter_mut().find(|(of, _)| *of == thread) {
            Some((_, count)) => *count += 1,
            None => threads.push((thread, 1)),
        }
    }

    fn remove(&self, prefix: &[u8], thread: u16) {
        let mut prefixes = self.prefixes.write().unwrap_or_else(PoisonError::into_inner);
        let known = prefixes.iter().position(|(known, _)| **known == *prefix);
        let at = known.expect("what a client wants to know of is there");
        let threads = &mut prefixes[at].1;
        let of = threads.iter().position(|(of, _)| *of == thread).expect("its thread is there");
        threads[of].1 -= 1;
        if threads[of].1 == 0 {
            threads.swap_remove(of);
        }
        if threads.is_empty() {
            prefixes.swap_remove(at);
        }
    }

    /// Whether anybody of a thread wants to know of a key.
    fn want(&self, key: &[u8], thread: u16) -> bool {
        let prefixes = self.prefixes.read().unwrap_or_else(PoisonError::into_inner);
        prefixes
            .iter()
            .any(|(prefix, threads)| key.starts_with(prefix) && threads.iter().any(|(of, _)| *of == thread))
    }
}

impl Shared {
    /// Keys have changed; called while their shards are held.
    pub(crate) fn keys_changed(&self, changes: &[Changed], by: Ticket) {
        // Relaxed: who began to want this before the caller entered the shards has held them since.
        let broadcasts = self.trackers.broadcasts.load(Ordering::Relaxed) > 0;
        for thread in 0..self.peers.len() as u16 {
            let of_thread = changes.iter().filter_map(|(key, readers)| {
                let mine = readers.iter().flat_map(Readers::iter).filter(|reader| reader.thread == thread);
                let readers: Vec<_> = mine.map(|reader| (reader.connection, reader.command)).collect();
                let broadcast = broadcasts && self.trackers.want(key, thread);
                let wanted = broadcast || !readers.is_empty();
                wanted.then(|| Change { key: Some(Arc::from(&**key)), readers, broadcast, by })
            });
            let of_thread: Vec<_> = of_thread.collect();
            if !of_thread.is_empty() {
                self.tell_thread(thread, of_thread);
            }
        }
    }

    /// Everything has changed; called while all shards are held.
    pub(crate) fn all_changed(&self, by: Ticket) {
        if self.trackers.clients.load(Ordering::Relaxed) == 0 {
            return;
        }
        for thread in 0..self.peers.len() as u16 {
            let change = Change { key: None, readers: Vec::new(), broadcast: true, by };
            self.tell_thread(thread, vec![change]);
        }
    }

    fn tell_thread(&self, thread: u16, new: Vec<Change>) {
        let inbox = &self.peers[usize::from(thread)].changes;
        let mut changes = inbox.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.extend(new);
        if changes.len() > INBOX_MAX {
            let by = changes[0].by;
            changes.clear();
            changes.push(Change { key: None, readers: Vec::new(), broadcast: true, by });
        }
        // Release: whoever sees the flag, and is ordered behind this shard's latch, finds the changes.
        let woken = inbox.waiting.swap(true, Ordering::Release);
        drop(changes);
        if !woken {
            self.send(thread, Message::Changed);
        }
    }
}

impl Inbox {
    fn take(&self) -> Vec<Change> {
        if !self.waiting.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.store(false, Ordering::Relaxed);
        std::mem::take(&mut *changes)
    }
}

impl Client {
    /// How the keys of a command are to be remembered, if they are.
    #[inline]
    pub(crate) fn caching(&self, flags: Flags, keys: &'static [KeySpec]) -> Option<Caching> {
        let tracking = self.tracking.as_deref()?;
        let wanted = if tracking.optin { tracking.caching } else { !(tracking.optout && tracking.caching) };
        (wanted && !tracking.bcast && flags.has(Flags::READONLY))
            .then(|| Caching { command: self.command_number(), keys })
    }

    /// As CLIENT GETREDIR tells it: 0 if the client hears of changes itself, -1 if it does not track.
    pub(crate) fn redirected_to(&self) -> i64 {
        let redirect = |tracking: &Tracking| tracking.redirect.map_or(0, |to| to.id as i64);
        self.tracking.as_deref().map_or(-1, redirect)
    }

    /// The number of the command that runs now; of 2^32 commands two have the same.
    fn command_number(&self) -> u32 {
        self.commands as u32
    }
}

impl Worker {
    /// A client begins to track, or tracks in another way.
    pub(crate) fn track(&mut self, client: &mut Client, id: ConnId, wanted: Tracking) {
        let (trackers, thread) = (&self.shared.trackers, self.engine.thread);
        let tracking = client.tracking.get_or_insert_with(|| {
            trackers.clients.fetch_add(1, Ordering::Relaxed);
            Box::default()
        });
        if wanted.bcast && !tracking.bcast {
            trackers.broadcasts.fetch_add(1, Ordering::Relaxed);
            self.broadcasts.push(id);
        }
        let Tracking { mut prefixes, pending, split, .. } = std::mem::take(&mut **tracking);
        for prefix in &wanted.prefixes {
            if let Err(at) = prefixes.binary_search(prefix) {
                trackers.add(prefix, thread);
                prefixes.insert(at, prefix.clone());
            }
        }
        **tracking = Tracking { prefixes, pending, split, ..wanted };
    }

    /// A client tracks no more.
    pub(crate) fn untrack(&mut self, client: &mut Client, id: ConnId) {
        let Some(tracking) = client.tracking.take() else { return };
        let trackers = &self.shared.trackers;
        trackers.clients.fetch_sub(1, Ordering::Relaxed);
        if tracking.bcast {
            trackers.broadcasts.fetch_sub(1, Ordering::Relaxed);
            self.broadcasts.retain(|known| *known != id);
        }
        tracking.prefixes.iter().for_each(|prefix| trackers.remove(prefix, self.engine.thread));
    }

    /// After a command of a client that tracks, whose reply begins at `from`: tells it of changes, in their place.
    pub(crate) fn tell_changes(&mut self, connection: &mut Connection, from: Mark, reply: &mut Reply) {
        self.take_changes(Some(connection));
        let in_transaction = connection.client.transaction.is_some();
        let now = connection.client.command_number();
        let last_command = connection.client.last_command;
        let Some(tracking) = &mut connection.client.tracking else { return };
        if tracking.caching && !in_transaction {
            // As with the peers, it is for the next command that is not about clients, or for a whole transaction.
            let name = last_command.and_then(|number| self.shared.table.name_of(number.into()));
            tracking.caching = name.is_some_and(|name| name.starts_with("client|"));
        }
        if connection.remaining.is_some() {
            return;
        }
        let split = std::mem::take(&mut tracking.split);
        if tracking.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut tracking.pending);
        if let Some(to) = tracking.redirect {
            return self.redirect(connection.reactor_id, to, pending);
        }
        let (behind, before): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .partition(|change| split || change.command.is_none_or(|command| command == now));
        if !before.is_empty() {
            let mut own = Reply::new(reply.proto);
            own.append_between(reply, from, reply.mark());
            reply.truncate_to(from);
            write_changes(before, &tracking.prefixes, reply);
            reply.append(&mut own);
        }
        write_changes(behind, &tracking.prefixes, reply);
    }

    /// Takes what has come in for this thread's connections; the one that is `running` has been taken out of its slot.
    fn take_changes(&mut self, mut running: Option<&mut Connection>) {
        let changes = self.me().changes.take();
        for Change { key, readers, broadcast, by } in changes {
            for (id, command) in readers {
                let id = ConnId::from_bits(id);
                self.note(id, running.as_deref_mut(), &key, Some(command), by);
            }
            if !broadcast {
                continue;
            }
            let interested: Vec<ConnId> = match key {
                Some(_) => self.broadcasts.clone(),
                None => self.connections().map(|connection| connection.reactor_id).collect(),
            };
            let running_id = running.as_ref().map(|connection| connection.reactor_id);
            for id in interested.into_iter().chain(running_id.filter(|_| key.is_none())) {
                self.note(id, running.as_deref_mut(), &key, None, by);
            }
        }
    }

    /// A connection is to be told of a change, if it still tracks that.
    fn note(
        &mut self,
        id: ConnId,
        running: Option<&mut Connection>,
        key: &Option<Arc<[u8]>>,
        command: Option<u32>,
        by: Ticket,
    ) {
        let thread = self.engine.thread;
        let Self { connections, told, .. } = self;
        let connection = match running {
            Some(running) if running.reactor_id == id => running,
            _ => match connections.get_mut(id.index()).and_then(Option::as_deref_mut) {
                Some(connection) if connection.reactor_id == id => connection,
                _ => return,
            },
        };
        let now = connection.client.command_number();
        let Some(tracking) = &mut connection.client.tracking else { return };
        let wanted = match (key, command) {
            (None, _) => true,
            (Some(_), Some(_)) => !tracking.bcast,
            (Some(key), None) => tracking.prefixes.iter().any(|prefix| key.starts_with(prefix)),
        };
        let own = by == Ticket { thread, connection: id.to_bits() };
        if !wanted || (tracking.noloop && own && key.is_some()) {
            return;
        }
        if tracking.pending.is_empty() {
            told.push(id);
        } else if tracking.pending.len() == PENDING_MAX {
            // Too many to be told one by one. Some belong before the next reply, some behind it: both is never wrong.
            let earlier = Some(now.wrapping_sub(1));
            tracking.pending =
                vec![Pending { key: None, command: earlier }, Pending { key: None, command: None }];
            return;
        }
        // As with the peers, what a client has changed itself is told behind its reply.
        let command = command.filter(|_| !own);
        tracking.pending.push(Pending { key: key.clone(), command });
    }

    /// Tells idle connections of changes; a connection that waits for a reply with values is told behind it.
    pub(crate) fn tell_idle(&mut self) {
        self.take_changes(None);
        for id in std::mem::take(&mut self.told) {
            let Some(mut connection) = self.take(id) else { continue };
            self.tell_one(&mut connection);
            self.put_back(connection);
        }
    }

    fn tell_one(&mut self, connection: &mut Connection) {
        let id = connection.reactor_id;
        let Some(tracking) = &mut connection.client.tracking else { return };
        if let Some(to) = tracking.redirect {
            let pending = std::mem::take(&mut tracking.pending);
            return self.redirect(id, to, pending);
        }
        let may_speak = connection.remaining.is_none()
            && match &connection.waiting {
                None | Some(Waiting::Paused | Waiting::Output | Waiting::Answers(_)) => true,
                // It may have been served meanwhile: its reply is on its way then.
                Some(Waiting::Blocked(on)) => !on.blocked.waiter.settle.is_settled(),
                Some(Waiting::Task { .. }) => false,
            };
        if !may_speak || tracking.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut tracking.pending);
        let mut pushes = Reply::new(connection.client.proto);
        write_changes(pending, &tracking.prefixes, &mut pushes);
        self.push_bytes(connection, &pushes.bytes);
    }

    /// Sends changes to another client.
    fn redirect(&mut self, from: ConnId, to: Redirect, pending: Vec<Pending>) {
        let mut keys = Vec::new();
        let from_thread = self.engine.thread;
        for Pending { key, .. } in pending {
            match key {
                Some(key) => keys.push(key),
                None => {
                    let before = std::mem::take(&mut keys);
                    self.send_redirected(Redirected { to, from, from_thread, keys: Some(before) });
                    self.send_redirected(Redirected { to, from, from_thread, keys: None });
                }
            }
        }
        self.send_redirected(Redirected { to, from, from_thread, keys: Some(keys) });
    }

    fn send_redirected(&self, redirected: Redirected) {
        if redirected.keys.as_ref().is_none_or(|keys| !keys.is_empty()) {
            self.shared.send(redirected.to.ticket.thread, Message::Redirected(Box::new(redirected)));
        }
    }

    /// Changes that a client of another connection, perhaps of another thread, redirects to one of this thread.
    pub(crate) fn redirected(&mut self, redirected: Redirected) {
        let Redirected { to, from, from_thread, keys } = redirected;
        let Some(mut connection) = self.take(ConnId::from_bits(to.ticket.connection)) else {
            let from = Ticket { thread: from_thread, connection: from.to_bits() };
            return self.shared.send(from_thread, Message::RedirectBroken(from, to.id));
        };
        let mut reply = Reply::new(connection.client.proto);
        let subscribed = connection.client.subscribed_with(Kind::Channel) > 0;
        if reply.proto == Proto::Resp3 || subscribed {
            let keys = keys.map(|keys| keys.into_iter().map(|key| vec![key]).collect());
            for keys in keys.map_or_else(|| vec![None], |keys: Vec<_>| keys.into_iter().map(Some).collect()) {
                write_change(keys, &mut reply);
            }
            self.push_bytes(&mut connection, &reply.bytes);
        }
        self.put_back(connection);
    }

    /// The client that a client of this thread redirects to has gone.
    pub(crate) fn redirect_broken(&mut self, from: Ticket, to: u64) {
        let Some(mut connection) = self.take(ConnId::from_bits(from.connection)) else { return };
        let tracking = connection.client.tracking.as_mut();
        if let Some(tracking) = tracking.filter(|tracking| tracking.redirect.is_some_and(|of| of.id == to)) {
            tracking.broken = true;
            if connection.client.proto == Proto::Resp3 {
                let mut reply = Reply::new(Proto::Resp3);
                reply.push(2);
                reply.bulk(b"tracking-redir-broken");
                reply.int(to as i64);
                self.push_bytes(&mut connection, &reply.bytes);
            }
        }
        self.put_back(connection);
    }
}

/// Writes what a client is to be told of; nothing in RESP2, where nothing can be told between replies. What belongs to prefixes is
/// gathered, each key once.
fn write_changes(pending: Vec<Pending>, prefixes: &[Box<[u8]>], reply: &mut Reply) {
    if reply.proto == Proto::Resp2 || pending.is_empty() {
        return;
    }
    if prefixes.is_empty() {
        return pending.into_iter().for_each(|change| write_change(change.key.map(|key| vec![key]), reply));
    }
    let mut pending = pending.into_iter().peekable();
    while pending.peek().is_some() {
        let mut keys: Vec<Arc<[u8]>> =
            std::iter::from_fn(|| pending.next_if(|change| change.key.is_some())?.key).collect();
        keys.sort_unstable();
        keys.dedup();
        for prefix in prefixes {
            let of_prefix: Vec<_> = keys.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
            if !of_prefix.is_empty() {
                write_change(Some(of_prefix), reply);
            }
        }
        if pending.next_if(|change| change.key.is_none()).is_some() {
            write_change(None, reply);
        }
    }
}

/// `invalidate` with keys, or null if everything has changed.
fn write_change(keys: Option<Vec<Arc<[u8]>>>, reply: &mut Reply) {
    match reply.proto {
        Proto::Resp3 => {
            reply.push(2);
            reply.bulk(b"invalidate");
        }
        Proto::Resp2 => {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(CHANNEL);
        }
    }
    match keys {
        None => reply.null(),
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
    }
}
