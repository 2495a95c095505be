//! Connections come, are sent their replies, wait, and go.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reactor::{ConnId, Output};
use resp::{Args, Reply};
use router::task::Ticket;

use crate::broadcast::Question;
use crate::client::{Addresses, Client};
use crate::connection::{Connection, Waiting};
use crate::shared::Message;
use crate::worker::{Cx, Flow, Worker};

/// Unsent reply bytes of one connection above which its next command waits until they are sent. Input goes on being gathered up to
/// `client-query-buffer-limit`, so that a client that writes a long pipeline before it reads is never stuck.
const OUTPUT_HIGH_WATER: usize = 32 << 20;

/// Places in `client-output-buffer-limit`'s classes.
const NORMAL_CLASS: usize = 0;
const PUBSUB_CLASS: usize = 2;

impl Worker {
    /// Takes a connection out of its slot while one of its commands runs; none if it has gone.
    pub(crate) fn take(&mut self, id: ConnId) -> Option<Box<Connection>> {
        let slot = self.connections.get_mut(id.index())?;
        if slot.as_ref()?.reactor_id != id {
            return None;
        }
        slot.take()
    }

    /// Puts a connection back into its slot, or ends it.
    pub(crate) fn put_back(&mut self, mut connection: Box<Connection>) {
        self.count_buffers(&mut connection);
        if connection.closing {
            return self.end(connection);
        }
        let index = connection.reactor_id.index();
        self.connections[index] = Some(connection);
    }

    /// Counts the bytes of a connection's buffers and the keys it watches in the thread's statistics.
    #[inline]
    fn count_buffers(&mut self, connection: &mut Connection) {
        let pending = self.reactor.pending(connection.reactor_id);
        let queued = connection.client.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
        let bytes =
            (connection.input.capacity() + pending + connection.partial.bytes_allocated() + queued) as u64;
        if bytes != connection.bytes_counted {
            let counted = &self.stats().client_bytes;
            counted.set(counted.get() + bytes - connection.bytes_counted);
            connection.bytes_counted = bytes;
            self.stats().client_input_recent_max.raise(connection.input.capacity() as u64);
            self.stats().client_output_recent_max.raise(pending as u64);
        }
        let watched = connection.client.watched.as_ref().map_or(0, |watched| watched.keys.len() as u64);
        if watched != connection.watched_counted {
            self.count_watched(connection, watched);
        }
    }

    fn count_watched(&self, connection: &mut Connection, watched: u64) {
        let (stats, before) = (self.stats(), connection.watched_counted);
        stats.watched_keys.set(stats.watched_keys.get() + watched - before);
        stats
            .watching_clients
            .set(stats.watching_clients.get() + u64::from(watched > 0) - u64::from(before > 0));
        connection.watched_counted = watched;
    }

    /// Begins to serve a socket.
    pub(crate) fn adopt(&mut self, socket: OwnedFd, addresses: Addresses) {
        let fd = socket.as_raw_fd();
        let id = self.reactor.add(socket);
        let user = Arc::clone(&self.default_user);
        let client = Client::new(self.shared.next_client_id(), fd, addresses, user, self.now_ms);
        let mut connection = Box::new(Connection::new(id, client));
        connection.client.become_default(&self.default_user);
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.connections[id.index()] = Some(connection);
    }

    /// Ends a connection once its replies are sent.
    fn end(&mut self, mut connection: Box<Connection>) {
        self.reactor.close_after_flush(connection.reactor_id);
        self.forget(&mut connection);
    }

    /// Takes back the keys that a client watches.
    pub(crate) fn unwatch(&mut self, client: &mut Client) {
        if let Some(watched) = client.watched.take() {
            self.engine.unwatch(*watched);
        }
    }

    fn forget(&mut self, connection: &mut Connection) {
        self.forget_wait(connection);
        self.unwatch(&mut connection.client);
        self.unsubscribe_all(&mut connection.client, connection.reactor_id);
        self.untrack(&mut connection.client, connection.reactor_id);
        let counted = &self.stats().client_bytes;
        counted.set(counted.get() - connection.bytes_counted);
        self.count_watched(connection, 0);
        if connection.client.monitor {
            self.shared.monitors.fetch_sub(1, Ordering::Relaxed);
        }
        self.me().connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// The peer will send no more, or the connection is broken.
    pub(crate) fn closed(&mut self, id: ConnId, broken: bool) {
        let Some(mut connection) = self.take(id) else { return };
        connection.eof = true;
        // What a client sent before it shut its side down is still answered, but nobody waits for one that is likely gone.
        connection.closing |= broken || matches!(connection.waiting, None | Some(Waiting::Blocked(_)));
        self.put_back(connection);
    }

    /// Ends a connection at once, whatever it waits for (CLIENT KILL, limits).
    pub(crate) fn kill(&mut self, id: ConnId) {
        let Some(mut connection) = self.take(id) else { return };
        self.reactor.close(id);
        self.forget(&mut connection);
    }

    /// Hands the replies written so far to the socket and looks at the limits of what a client may leave unread.
    pub(crate) fn flush(&mut self, connection: &mut Connection, reply: &mut Reply) {
        if reply.bytes.is_empty() && reply.shared.is_empty() {
            return;
        }
        let bytes = std::mem::replace(&mut reply.bytes, self.reactor.buffer());
        let shared = std::mem::take(&mut reply.shared);
        self.send(connection, Output { bytes, shared });
    }

    /// Hands bytes to the socket and looks at the limits of what a client may leave unread.
    pub(crate) fn send(&mut self, connection: &mut Connection, output: Output) {
        let shared = output.shared.iter().map(|(_, segment)| (**segment).as_ref().len());
        let size = output.bytes.len() + shared.sum::<usize>();
        connection.client.bytes_out += size as u64;
        self.stats().net_output.add(size as u64);
        self.stats().writes_processed.add(1);
        self.reactor.send(connection.reactor_id, output);
        let pending = self.reactor.pending(connection.reactor_id);
        if pending > 0 {
            self.check_output(connection, pending);
        }
    }

    fn check_output(&mut self, connection: &mut Connection, pending: usize) {
        let class = if connection.client.subscriptions.is_some() { PUBSUB_CLASS } else { NORMAL_CLASS };
        let limit = self.config.client_output_buffer_limit[class];
        let over_soft = limit.soft != 0 && pending as u64 > limit.soft;
        if !over_soft {
            connection.soft_limit_since_ms = 0;
        } else if connection.soft_limit_since_ms == 0 {
            connection.soft_limit_since_ms = self.now_ms;
        }
        let soft_too_long =
            over_soft && self.now_ms - connection.soft_limit_since_ms > limit.soft_seconds * 1000;
        if soft_too_long || limit.hard != 0 && pending as u64 > limit.hard {
            log::warn!(
                "Client id={} addr={} closed: {pending} bytes of replies unread, over client-output-buffer-limit",
                connection.client.id,
                connection.client.addresses.peer
            );
            self.stats().output_limit_disconnections.add(1);
            self.reactor.close(connection.reactor_id);
            connection.closing = true;
        } else if pending > OUTPUT_HIGH_WATER && connection.waiting.is_none() {
            connection.waiting = Some(Waiting::Output);
        }
    }

    /// Closes clients whose replies have been above the soft limit for too long, though they have sent nothing since.
    pub(crate) fn close_unread(&mut self) {
        let over: Vec<ConnId> = self
            .connections()
            .filter(|connection| connection.soft_limit_since_ms != 0)
            .map(|connection| connection.reactor_id)
            .collect();
        for id in over {
            let Some(mut connection) = self.take(id) else { continue };
            let pending = self.reactor.pending(id);
            self.check_output(&mut connection, pending);
            self.put_back(connection);
        }
    }

    /// All replies of a connection are sent.
    pub(crate) fn drained(&mut self, id: ConnId) {
        let Some(mut connection) = self.take(id) else { return };
        connection.soft_limit_since_ms = 0;
        if matches!(connection.waiting, Some(Waiting::Output)) {
            connection.waiting = None;
            self.advance(&mut connection);
        }
        self.put_back(connection);
    }

    /// A client whose unparsed input has passed `client-query-buffer-limit` is closed.
    pub(crate) fn check_query_buffer(&mut self, connection: &mut Connection) {
        if connection.input.len() as u64 > self.config.client_query_buffer_limit {
            log::warn!(
                "Client id={} addr={} closed: {} bytes of input without a whole command, over client-query-buffer-limit",
                connection.client.id,
                connection.client.addresses.peer,
                connection.input.len()
            );
            self.stats().query_buffer_disconnections.add(1);
            connection.closing = true;
            connection.input = Vec::new();
        }
    }

    /// What a client sent is no command: it is told so and closed, as nothing behind it can be trusted.
    pub(crate) fn protocol_error(
        &mut self,
        connection: &mut Connection,
        error: &resp::ProtocolError,
        reply: &mut Reply,
    ) {
        log::info!(
            "Protocol error ({error}) from client id={} addr={}",
            connection.client.id,
            connection.client.addresses.peer
        );
        reply.error(&format!("ERR Protocol error: {error}"));
        connection.closing = true;
    }

    /// A reply for a connection whose command finished late.
    pub(crate) fn take_reply(&mut self, connection: &Connection) -> Reply {
        let mut reply = std::mem::replace(&mut self.reply, Reply::new(connection.client.proto));
        reply.proto = connection.client.proto;
        reply
    }

    /// Gives back what [`Self::take_reply`] took, emptied by [`Self::flush`].
    pub(crate) fn give_back(&mut self, reply: Reply) {
        self.reply = reply;
    }

    /// The connection as other threads name it.
    pub(crate) fn ticket(&self, connection: &Connection) -> Ticket {
        Ticket { thread: self.engine.thread, connection: connection.reactor_id.to_bits() }
    }

    /// Runs `f` with the connection's client; what it must wait for becomes what the connection waits for.
    pub(crate) fn with_cx(
        &mut self,
        connection: &mut Connection,
        f: impl FnOnce(&mut Cx<'_>) -> Flow,
    ) -> Flow {
        let ticket = self.ticket(connection);
        let mut waits = None;
        let mut cx = Cx {
            client: &mut connection.client,
            worker: self,
            ticket,
            waits: &mut waits,
            remaining: &mut connection.remaining,
        };
        let flow = f(&mut cx);
        if flow == Flow::Wait {
            connection.waiting = Some(waits.expect("a command that waits has said for what"));
        }
        flow
    }

    /// Handles what other threads have sent.
    pub(crate) fn read_mail(&mut self) {
        let shared = self.shared;
        let postponed = std::mem::take(&mut self.postponed_mail);
        let mail = shared.peers[usize::from(self.engine.thread)].mailbox.take();
        for message in postponed.into_iter().chain(mail) {
            match message {
                Message::Finished(task) => self.finished(task),
                Message::Adopt(socket, addresses) => self.adopt(socket, addresses),
                Message::Question(Question { ask, from }) => {
                    let answer = ask(self);
                    if let Some(ticket) = from {
                        shared.send(ticket.thread, Message::Answer(ticket.connection, answer));
                    }
                }
                Message::Answer(connection, answer) => self.answered(connection, answer),
                Message::Monitored(line) => crate::monitor::show(self, &line),
                Message::Published(publication) => self.deliver(&publication),
                Message::Changed => self.tell_idle(),
                Message::Redirected(redirected) => self.redirected(*redirected),
                Message::RedirectBroken(from, to) => self.redirect_broken(from, to),
            }
        }
        self.flush_pushes();
    }

    /// CLIENT PAUSE: whether this command must wait. Its connection then goes on when the pause ends.
    pub(crate) fn must_pause(&mut self, connection: &mut Connection, args: Args<'_>) -> bool {
        if self.pause.until_ms <= self.now_ms {
            return false;
        }
        let entry = self.shared.table.resolve(args).ok();
        let in_transaction = connection.client.transaction.is_some();
        if !entry.is_some_and(|entry| self.pause.stops(entry, in_transaction)) {
            return false;
        }
        connection.waiting = Some(Waiting::Paused);
        self.set_blocked(connection, true);
        true
    }

    /// Connections that a pause held up go on.
    pub(crate) fn end_pause(&mut self) {
        self.pause.until_ms = 0;
        let paused: Vec<ConnId> = self
            .connections()
            .filter(|connection| matches!(connection.waiting, Some(Waiting::Paused)))
            .map(|connection| connection.reactor_id)
            .collect();
        for id in paused {
            let Some(mut connection) = self.take(id) else { continue };
            connection.waiting = None;
            self.set_blocked(&mut connection, false);
            self.advance(&mut connection);
            self.put_back(connection);
        }
    }
}
