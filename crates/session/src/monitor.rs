//! MONITOR: every command of every client, shown as it is about to run.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use command::Flags;
use resp::Args;
use router::table::Entry;

use crate::client::{Client, ReplyMode};
use crate::commandlog::is_secret;
use crate::shared::Message;
use crate::worker::{Cx, SessionRun, Worker};

/// Shows a command to the MONITOR clients of all threads. Only called while there are any.
///
/// A connection's own reply is written before a message can come back to it, so that a client sees the reply first, then the line.
#[cold]
pub(crate) fn feed(worker: &Worker, client: &Client, entry: &Entry<SessionRun>, args: Args<'_>) {
    if entry.spec.flags.any(Flags::SKIP_MONITOR.with(Flags::ADMIN)) {
        return;
    }
    let line = line(client, args);
    for thread in 0..worker.threads() {
        worker.shared.send(thread, Message::Monitored(Arc::clone(&line)));
    }
}

/// `1700000000.123456 [0 127.0.0.1:50000] "SET" "a" "1"`
fn line(client: &Client, args: Args<'_>) -> Arc<[u8]> {
    let now_us = reactor::clock::unix_us();
    let address = if client.addresses.unix_socket {
        format!("unix:{}", client.addresses.peer.trim_end_matches(":0"))
    } else {
        client.addresses.peer.to_string()
    };
    let mut text = String::new();
    write!(text, "+{}.{:06} [{} {address}]", now_us / 1_000_000, now_us % 1_000_000, client.db)
        .expect("a string takes any text");
    let mut line = text.into_bytes();
    for (index, word) in args.iter().enumerate() {
        line.push(b' ');
        stdx::quote::repr(if is_secret(args, index) { b"(redacted)" } else { word }, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    line.into()
}

/// Writes a shown command to the MONITOR clients of this thread.
pub(crate) fn show(worker: &mut Worker, line: &[u8]) {
    let ids: Vec<_> = worker
        .connections()
        // Between two replies of an EXEC there is no place for a line of another kind.
        .filter(|connection| connection.client.monitor && connection.remaining.is_none())
        .filter(|connection| connection.client.reply_mode != ReplyMode::Off)
        .map(|connection| connection.reactor_id)
        .collect();
    for id in ids {
        let Some(mut connection) = worker.take(id) else { continue };
        let mut reply = worker.take_reply(&connection);
        reply.bytes.extend_from_slice(line);
        worker.flush(&mut connection, &mut reply);
        worker.give_back(reply);
        worker.put_back(connection);
    }
}

/// The client sees the commands of all clients from now on. Whoever has read its `+OK` and then sends a command on another connection
/// finds it shown: the two sockets order this count before that command.
pub(crate) fn begin(cx: &mut Cx<'_>) {
    if !cx.client.monitor {
        cx.client.monitor = true;
        cx.worker.shared.monitors.fetch_add(1, Ordering::Relaxed);
    }
}

/// The client no longer sees the commands of others.
pub(crate) fn end(cx: &mut Cx<'_>) {
    if std::mem::take(&mut cx.client.monitor) {
        cx.worker.shared.monitors.fetch_sub(1, Ordering::Relaxed);
    }
}
