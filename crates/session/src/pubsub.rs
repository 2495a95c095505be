//! Channels: who listens where, and how a message reaches all who listen. Not the commands: those are in `commands/pubsub.rs`.
//!
//! HOT: `publish` and `deliver`; no lock but one stripe's (and the patterns' while there are any), no allocation per subscriber.
//!
//! ```text
//!   PUBLISH --> directory: stripe of the channel (locked)  which threads listen, with how many connections
//!                 |            the messages are in the threads' mailboxes before it is unlocked
//!                 v
//!   thread's mailbox --> the thread's own table: channel -> connections --> one push each, encoded once per protocol
//! ```
//!
//! A message crosses to each listening thread once, however many of its connections listen. All messages of a channel pass its stripe, so
//! that every subscriber sees them in one order. A thread's table is its own; it may be ahead of or behind a message that is on its way,
//! as a subscription that begins or ends at the same moment may.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use reactor::{ConnId, Output};
use resp::{Proto, Reply};
use stdx::glob;

use crate::client::Client;
use crate::connection::Connection;
use crate::shared::{Message, Shared};
use crate::worker::Worker;

/// Stripes of the directory: with 64 threads that publish all the time, two meet in one now and then.
const STRIPES: usize = 256;

/// What can be subscribed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Channel,
    Pattern,
    /// A channel of a cluster's shard (SSUBSCRIBE); a name space of its own.
    ShardChannel,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::ShardChannel];

    /// The first word of a message.
    const fn message(self) -> &'static [u8] {
        match self {
            Kind::Channel => b"message",
            Kind::Pattern => b"pmessage",
            Kind::ShardChannel => b"smessage",
        }
    }
}

/// A name that is subscribed to; shared by a client and its thread's table.
type Name = Arc<[u8]>;

/// The threads that listen, each with the number of its connections that do.
type Listeners = Vec<(u16, u32)>;

type Names = HashMap<Box<[u8]>, Listeners>;

/// One part of the channels, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    channels: Mutex<Names>,
    shard_channels: Mutex<Names>,
}

/// Which threads listen where; shared by all.
pub struct Directory {
    stripes: Box<[Stripe]>,
    patterns: RwLock<Names>,
    hasher: std::hash::RandomState,
    /// Names of each kind; that of the patterns is looked at by every PUBLISH.
    counts: [AtomicU64; 3],
    clients: AtomicU64,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            patterns: RwLock::default(),
            hasher: std::hash::RandomState::new(),
            counts: Default::default(),
            clients: AtomicU64::new(0),
        }
    }
}

/// A message on its way to a thread.
pub struct Publication {
    kind: Kind,
    /// The channel and the payload behind it.
    text: Box<[u8]>,
    channel_len: usize,
    /// The patterns that fit, for the same message.
    patterns: Vec<Box<[u8]>>,
}

/// What one thread's connections have subscribed to.
#[derive(Default)]
pub struct Local {
    names: [HashMap<Name, Vec<ConnId>>; 3],
    /// Connections whose pushes have not been handed to their sockets.
    unflushed: Vec<ConnId>,
}

/// What one client has subscribed to.
#[derive(Default)]
pub struct Subscriptions {
    names: [HashSet<Name>; 3],
}

impl Subscriptions {
    /// Names of one kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// Every name of one kind.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &Name> {
        self.names[kind as usize].iter()
    }

    fn is_empty(&self) -> bool {
        self.names.iter().all(HashSet::is_empty)
    }
}

impl Client {
    /// Names of one kind that the client has subscribed to.
    pub fn subscribed(&self, kind: Kind) -> usize {
        self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.count(kind))
    }

    /// What SUBSCRIBE and its like tell: shard channels are counted by themselves.
    pub fn subscribed_with(&self, kind: Kind) -> usize {
        match kind {
            Kind::ShardChannel => self.subscribed(kind),
            _ => self.subscribed(Kind::Channel) + self.subscribed(Kind::Pattern),
        }
    }
}

impl Directory {
    fn stripe(&self, kind: Kind, channel: &[u8]) -> MutexGuard<'_, Names> {
        use std::hash::BuildHasher;
        let stripe = &self.stripes[self.hasher.hash_one(channel) as usize % STRIPES];
        let names = if kind == Kind::ShardChannel { &stripe.shard_channels } else { &stripe.channels };
        lock(names)
    }

    fn with_names<T>(&self, kind: Kind, name: &[u8], f: impl FnOnce(&mut Names) -> T) -> T {
        match kind {
            Kind::Pattern => f(&mut self.patterns.write().unwrap_or_else(PoisonError::into_inner)),
            _ => f(&mut self.stripe(kind, name)),
        }
    }

    /// A connection of `thread` listens from now on.
    fn add(&self, kind: Kind, name: &[u8], thread: u16) {
        self.with_names(kind, name, |names| {
            let Some(listeners) = names.get_mut(name) else {
                names.insert(name.into(), vec![(thread, 1)]);
                self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
                return;
            };
            match listeners.iter_mut().find(|(of, _)| *of == thread) {
                Some((_, count)) => *count += 1,
                None => listeners.push((thread, 1)),
            }
        });
    }

    /// A connection of `thread` no longer listens.
    fn remove(&self, kind: Kind, name: &[u8], thread: u16) {
        self.with_names(kind, name, |names| {
            let listeners = names.get_mut(name).expect("what a client has subscribed to is in the directory");
            let at = listeners.iter().position(|(of, _)| *of == thread).expect("the client's thread listens");
            listeners[at].1 -= 1;
            if listeners[at].1 == 0 {
                listeners.swap_remove(at);
            }
            if listeners.is_empty() {
                names.remove(name);
                self.counts[kind as usize].fetch_sub(1, Ordering::Relaxed);
            }
        });
    }

    /// Names of one kind that somebody listens to.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    /// Clients that have subscribed to anything.
    pub fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Connections that listen to a channel by its name.
    pub fn listeners(&self, kind: Kind, channel: &[u8]) -> u64 {
        self.stripe(kind, channel).get(channel).map_or(0, |listeners| total(listeners))
    }

    /// Channels that somebody listens to and that fit `pattern`.
    pub fn channels(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let mut found = Vec::new();
        for stripe in &self.stripes {
            let names = if kind == Kind::ShardChannel { &stripe.shard_channels } else { &stripe.channels };
            let names = lock(names);
            let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, false));
            found.extend(names.keys().filter(|name| fits(name)).cloned());
        }
        found
    }

    /// The patterns that a channel fits, with who listens to them.
    fn fitting(&self, channel: &[u8]) -> (Vec<Box<[u8]>>, Listeners) {
        let (mut patterns, mut listeners) = (Vec::new(), Listeners::new());
        let all = self.patterns.read().unwrap_or_else(PoisonError::into_inner);
        for (pattern, here) in all.iter().filter(|(pattern, _)| glob::matches(pattern, channel, false)) {
            patterns.push(pattern.clone());
            here.iter().for_each(|(thread, count)| add_to(&mut listeners, *thread, *count));
        }
        (patterns, listeners)
    }
}

impl Directory {
    /// Connections that a message to this channel would reach now.
    pub fn receivers(&self, kind: Kind, channel: &[u8]) -> u64 {
        let by_name = self.listeners(kind, channel);
        if kind != Kind::Channel || self.count(Kind::Pattern) == 0 {
            return by_name;
        }
        by_name + total(&self.fitting(channel).1)
    }
}

impl Shared {
    /// Sends a message to everybody who listens; how many they are.
    pub fn publish(&self, kind: Kind, channel: &[u8], payload: &[u8]) -> u64 {
        let directory = &self.directory;
        // Relaxed: a pattern that is being subscribed to at this moment may miss the message, as if it had come a moment later.
        let patterns = kind == Kind::Channel && directory.count(Kind::Pattern) > 0;
        let stripe = directory.stripe(kind, channel);
        let by_name = stripe.get(channel).map_or(&[] as &[_], Vec::as_slice);
        if by_name.is_empty() && !patterns {
            return 0;
        }
        let (patterns, by_pattern) = if patterns { directory.fitting(channel) } else { Default::default() };
        let mut several = Listeners::new();
        let threads = if by_pattern.is_empty() {
            by_name
        } else {
            several.extend_from_slice(by_name);
            by_pattern.iter().for_each(|(thread, count)| add_to(&mut several, *thread, *count));
            &several
        };
        if threads.is_empty() {
            return 0;
        }
        let text = [channel, payload].concat().into_boxed_slice();
        let publication = Arc::new(Publication { kind, text, channel_len: channel.len(), patterns });
        for (thread, _) in threads {
            self.send(*thread, Message::Published(Arc::clone(&publication)));
        }
        // The stripe is left only now, so that two messages of one channel reach all threads in the same order.
        total(threads)
    }
}

impl Worker {
    /// Subscribes a client; whether it is new to it.
    pub(crate) fn subscribe(&mut self, client: &mut Client, id: ConnId, kind: Kind, name: &[u8]) -> bool {
        let thread = self.engine.thread;
        let subscriptions = client.subscriptions.get_or_insert_with(|| {
            // Relaxed: a statistic.
            self.shared.directory.clients.fetch_add(1, Ordering::Relaxed);
            Box::default()
        });
        if subscriptions.names[kind as usize].contains(name) {
            return false;
        }
        let table = &mut self.subscriptions.names[kind as usize];
        let shared_name =
            table.get_key_value(name).map_or_else(|| Name::from(name), |(known, _)| Arc::clone(known));
        subscriptions.names[kind as usize].insert(Arc::clone(&shared_name));
        table.entry(shared_name).or_default().push(id);
        self.shared.directory.add(kind, name, thread);
        true
    }

    /// Ends a subscription; whether there was one.
    pub(crate) fn unsubscribe(&mut self, client: &mut Client, id: ConnId, kind: Kind, name: &[u8]) -> bool {
        let Some(subscriptions) = &mut client.subscriptions else { return false };
        if !subscriptions.names[kind as usize].remove(name) {
            return false;
        }
        if subscriptions.is_empty() {
            client.subscriptions = None;
            self.shared.directory.clients.fetch_sub(1, Ordering::Relaxed);
        }
        self.stop_listening(id, kind, name);
        true
    }

    /// Ends all subscriptions of a client that goes or resets.
    pub(crate) fn unsubscribe_all(&mut self, client: &mut Client, id: ConnId) {
        let Some(subscriptions) = client.subscriptions.take() else { return };
        self.shared.directory.clients.fetch_sub(1, Ordering::Relaxed);
        for kind in Kind::ALL {
            subscriptions.names(kind).for_each(|name| self.stop_listening(id, kind, name));
        }
    }

    fn stop_listening(&mut self, id: ConnId, kind: Kind, name: &[u8]) {
        self.shared.directory.remove(kind, name, self.engine.thread);
        let table = &mut self.subscriptions.names[kind as usize];
        let connections =
            table.get_mut(name).expect("what a client has subscribed to is in its thread's table");
        let at = connections.iter().position(|listening| *listening == id);
        connections.swap_remove(at.expect("the client's connection listens"));
        if connections.is_empty() {
            table.remove(name);
        }
    }

    /// A message has come for connections of this thread. It is handed to the sockets by [`Self::flush_pushes`].
    pub(crate) fn deliver(&mut self, publication: &Publication) {
        let Publication { kind, text, channel_len, patterns } = publication;
        let (channel, payload) = text.split_at(*channel_len);
        self.push_to(*kind, channel, &[kind.message(), channel, payload]);
        for pattern in patterns {
            self.push_to(Kind::Pattern, pattern, &[Kind::Pattern.message(), pattern, channel, payload]);
        }
    }

    fn push_to(&mut self, kind: Kind, name: &[u8], words: &[&[u8]]) {
        let Self { subscriptions, connections, reactor, .. } = self;
        let Some(listening) = subscriptions.names[kind as usize].get(name) else { return };
        // Encoded once per protocol; for one connection in place.
        let mut encoded = [const { Vec::new() }; 2];
        for id in listening {
            let connection = connections.get_mut(id.index()).and_then(Option::as_deref_mut);
            let Some(connection) = connection.filter(|connection| connection.reactor_id == *id) else {
                continue;
            };
            if connection.pushes.is_empty() {
                subscriptions.unflushed.push(*id);
                if connection.pushes.capacity() == 0 {
                    connection.pushes = reactor.buffer();
                }
            }
            let proto = connection.client.proto;
            if listening.len() == 1 {
                return encode(words, proto, &mut connection.pushes);
            }
            let bytes = &mut encoded[usize::from(proto == Proto::Resp3)];
            if bytes.is_empty() {
                encode(words, proto, bytes);
            }
            connection.pushes.extend_from_slice(bytes);
        }
    }

    /// A push for one connection, which [`Self::flush_pushes`] hands to its socket.
    pub(crate) fn push_bytes(&mut self, connection: &mut Connection, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if connection.pushes.is_empty() {
            self.subscriptions.unflushed.push(connection.reactor_id);
        }
        connection.pushes.extend_from_slice(bytes);
    }

    /// Hands what was delivered to the sockets, one write per connection. Between two replies of an EXEC there is no place for a push: it waits.
    pub(crate) fn flush_pushes(&mut self) {
        if !self.told.is_empty() {
            self.tell_idle();
        }
        if self.subscriptions.unflushed.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.subscriptions.unflushed) {
            let Some(mut connection) = self.take(id) else { continue };
            if connection.remaining.is_some() {
                self.subscriptions.unflushed.push(id);
            } else {
                let bytes = std::mem::take(&mut connection.pushes);
                self.send(&mut connection, Output { bytes, shared: Vec::new() });
            }
            self.put_back(connection);
        }
    }
}

/// Appends a message.
fn encode(words: &[&[u8]], proto: Proto, to: &mut Vec<u8>) {
    let mut reply = Reply::new(proto);
    reply.bytes = std::mem::take(to);
    reply.push(words.len());
    words.iter().for_each(|word| reply.bulk(word));
    *to = reply.bytes;
}

fn add_to(listeners: &mut Listeners, thread: u16, count: u32) {
    match listeners.iter_mut().find(|(of, _)| *of == thread) {
        Some((_, known)) => *known += count,
        None => listeners.push((thread, count)),
    }
}

fn total(listeners: &[(u16, u32)]) -> u64 {
    listeners.iter().map(|(_, count)| u64::from(*count)).sum()
}

/// A thread that panicked ends the process, so a poisoned lock is never seen for long.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_counts_connections_per_thread_and_forgets_who_has_gone() {
        let directory = Directory::default();
        for (thread, name) in [(0, b"a"), (0, b"a"), (3, b"a"), (3, b"b")] {
            directory.add(Kind::Channel, name, thread);
        }
        directory.add(Kind::ShardChannel, b"a", 1);
        directory.add(Kind::Pattern, b"[ab]", 2);
        directory.add(Kind::Pattern, b"a*", 2);
        assert_eq!(directory.listeners(Kind::Channel, b"a"), 3);
        assert_eq!(directory.listeners(Kind::ShardChannel, b"a"), 1);
        assert_eq!(directory.channels(Kind::Channel, Some(b"?")).len(), 2);
        let (mut patterns, listeners) = directory.fitting(b"a");
        patterns.sort();
        assert_eq!((patterns.len(), listeners), (2, vec![(2, 2)]));
        for (thread, name) in [(0, b"a"), (3, b"a"), (0, b"a"), (3, b"b")] {
            directory.remove(Kind::Channel, name, thread);
        }
        assert_eq!((directory.count(Kind::Channel), directory.count(Kind::ShardChannel)), (0, 1));
        assert_eq!(directory.channels(Kind::Channel, None), Vec::<Box<[u8]>>::new());
    }
}
