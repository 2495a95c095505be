//! Clients as CLIENT LIST describes them, and their end by CLIENT KILL.

use std::fmt::Write;

use reactor::ConnId;
use resp::Proto;

use crate::client::Client;
use crate::connection::Connection;
use crate::pubsub::Kind;
use crate::worker::Worker;

impl Worker {
    /// Id and description of every client of this thread that `wanted` says yes to.
    pub fn describe_clients(&mut self, wanted: impl Fn(&Client, u64) -> bool) -> Vec<(u64, Vec<u8>)> {
        let now_ms = self.now_ms;
        let Self { connections, reactor, shared, .. } = self;
        let connections =
            connections.iter().flatten().filter(|connection| wanted(&connection.client, now_ms));
        connections
            .map(|connection| {
                let number = connection.client.last_command;
                let command =
                    number.and_then(|number| shared.table.name_of(usize::from(number))).unwrap_or("NULL");
                let pending = reactor.pending(connection.reactor_id);
                (
                    connection.client.id,
                    line(&connection.client, Sizes::of(connection, pending), now_ms, command),
                )
            })
            .collect()
    }

    /// Closes every client that `wanted` says yes to, but leaves the one with id `me` to itself. How many, and whether `me` is one.
    pub fn kill_clients(&mut self, me: u64, wanted: impl Fn(&Client, u64) -> bool) -> (u64, bool) {
        let now_ms = self.now_ms;
        let ids: Vec<(ConnId, u64)> = self
            .connections()
            .filter(|connection| wanted(&connection.client, now_ms))
            .map(|connection| (connection.reactor_id, connection.client.id))
            .collect();
        let suicide = ids.iter().any(|(_, id)| *id == me);
        ids.iter().filter(|(_, id)| *id != me).for_each(|(connection, _)| self.kill(*connection));
        (ids.len() as u64 - u64::from(suicide), suicide)
    }
}

/// Bytes that a connection holds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sizes {
    /// Unparsed input, and room for more of it.
    input: usize,
    input_free: usize,
    /// Everything but replies.
    own: usize,
    /// Replies that wait to be sent.
    pending: usize,
}

impl Sizes {
    fn of(connection: &Connection, pending: usize) -> Self {
        let input = connection.input.capacity();
        let queued = connection.client.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
        Self {
            input: connection.input.len(),
            input_free: input - connection.input.len(),
            own: size_of::<Connection>() + input + connection.partial.bytes_allocated() + queued,
            pending,
        }
    }
}

/// One line of CLIENT LIST.
pub(crate) fn line(client: &Client, sizes: Sizes, now_ms: u64, command: &str) -> Vec<u8> {
    let Sizes { input, input_free: free, own, pending } = sizes;
    let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
    let mut text = String::new();
    let multi = client.transaction.as_ref().map_or(-1, |transaction| transaction.queued.len() as i64);
    let queued = client.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
    let events = if pending > 0 { "rw" } else { "r" };
    let resp = if client.proto == Proto::Resp3 { 3 } else { 2 };
    write!(
        text,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} capa={} db={} sub={} psub={} ssub={} multi={multi} \
         watch={} qbuf={input} qbuf-free={free} argv-mem=0 multi-mem={queued} rbs=0 rbp=0 obl=0 oll={} omem={pending} \
         tot-mem={} events={events} cmd={command} user={} redir={} resp={resp} lib-name={} lib-ver={} tot-net-in={} \
         tot-net-out={} tot-cmds={}",
        client.id,
        client.addresses.peer,
        client.addresses.local,
        client.fd,
        String::from_utf8_lossy(&client.name),
        seconds(client.created_ms),
        seconds(client.active_ms),
        client.flags(),
        if client.capa_redirect { "r" } else { "" },
        client.db,
        client.subscribed(Kind::Channel),
        client.subscribed(Kind::Pattern),
        client.subscribed(Kind::ShardChannel),
        client.watched.as_ref().map_or(0, |watched| watched.keys.len()),
        usize::from(pending > 0),
        own + pending,
        String::from_utf8_lossy(&client.user.name),
        client.redirected_to(),
        String::from_utf8_lossy(&client.lib_name),
        String::from_utf8_lossy(&client.lib_ver),
        client.bytes_in,
        client.bytes_out,
        client.commands,
    )
    .expect("a string takes any text");
    text.into_bytes()
}
