//! Connections whose command waits for its keys (BLPOP, XREAD BLOCK): how they begin to wait, and how their wait ends, by a reply, by time, by
//! CLIENT UNBLOCK, or with the client. Not who is served and when, which is the router's.
//!
//! Ten thousand of them cost nothing while nothing happens: a wait with an end is an entry of an ordered set, whose first one bounds the
//! sleep of the event loop.

use std::collections::BTreeSet;
use std::sync::Arc;

use command::CommandError;
use reactor::{ConnId, clock};
use resp::{Args, Reply};
use router::waiting::Blocked;
use shard::waiter::{Claim, Waiter};

use crate::broadcast::{Answer, answers_as};
use crate::client::Client;
use crate::connection::{Connection, Waiting};
use crate::dispatch::Late;
use crate::rights::Context;
use crate::worker::{Cx, Flow, Worker};

const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// Connections that wait until some time: unix time in ms and the connection.
#[derive(Default)]
pub struct Deadlines(BTreeSet<(u64, u64)>);

impl Deadlines {
    /// Unix time in ms of the first end of a wait; `u64::MAX` if there is none.
    pub fn first_ms(&self) -> u64 {
        self.0.first().map_or(u64::MAX, |(until_ms, _)| *until_ms)
    }

    /// Waits that will end by time.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// What a connection waits for that is blocked.
pub struct BlockedOn {
    pub(crate) blocked: Blocked,
    /// Number of its command.
    pub(crate) number: usize,
}

/// How a wait ends from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblocking {
    /// As if its time were over.
    Timeout,
    /// With an error.
    Error,
}

impl Worker {
    /// A command has found nothing: its connection waits, unless its client is likely gone.
    pub(crate) fn block(&mut self, connection: &mut Connection, blocked: Blocked, number: usize) -> Flow {
        if connection.eof {
            self.give_up(&blocked);
            return Flow::Close;
        }
        if let Some(until_ms) = blocked.until_ms {
            self.deadlines.0.insert((until_ms, connection.reactor_id.to_bits()));
            self.count_deadlines();
        }
        connection.waiting = Some(Waiting::Blocked(Box::new(BlockedOn { blocked, number })));
        self.set_blocked(connection, true);
        Flow::Wait
    }

    /// A connection does not wait any more.
    fn unblocked(&mut self, connection: &mut Connection, blocked: &Blocked) {
        if let Some(until_ms) = blocked.until_ms {
            self.deadlines.0.remove(&(until_ms, connection.reactor_id.to_bits()));
            self.count_deadlines();
        }
        self.set_blocked(connection, false);
    }

    /// Notes that a client waits for keys, or for the end of a pause, or waits no more.
    pub(crate) fn set_blocked(&self, connection: &mut Connection, blocked: bool) {
        if std::mem::replace(&mut connection.client.blocked, blocked) != blocked {
            let count = &self.stats().blocked_clients;
            count.set(if blocked { count.get() + 1 } else { count.get() - 1 });
        }
    }

    fn count_deadlines(&self) {
        self.stats().clients_in_timeout_table.set(self.deadlines.len() as u64);
    }

    /// A command that waited was served: its reply goes out, its connection goes on.
    pub(crate) fn served(&mut self, connection: ConnId, waiter: Arc<Waiter>, elsewhere: bool, late: Served) {
        if elsewhere {
            self.engine.leave(Arc::clone(&waiter));
        }
        // Its client may have gone at the very moment.
        let Some(mut connection) = self.take(connection) else { return };
        let Some(Waiting::Blocked(on)) = connection.waiting.take() else {
            panic!("a connection was served that is not blocked")
        };
        self.unblocked(&mut connection, &on.blocked);
        let mut reply = self.take_reply(&connection);
        self.command_mark = reply.mark();
        let errors = reply.errors;
        let Served { reply: mut written, ticks } = late;
        reply.append(&mut written);
        if reply.error_code_at(self.command_mark) == Some("NOPERM") {
            self.say_why_refused(&connection.client, &waiter, on.number, &mut reply);
        }
        let errors = reply.errors - errors;
        let started = clock::ticks().wrapping_sub(ticks);
        let late = Late { number: on.number, started, errors, words: Some(waiter.words.clone()) };
        self.settle_late(connection, late, Flow::Done, reply);
    }

    /// A command was refused when it was its turn: who serves it knows only that.
    #[cold]
    fn say_why_refused(&self, client: &Client, waiter: &Waiter, number: usize, reply: &mut Reply) {
        let args = waiter.words.as_args();
        // Meanwhile its client may have got the right back; then what was said stays.
        if let Err(denied) = self.shared.catalog.check(&client.user, number, args, waiter.db) {
            reply.truncate_to(self.command_mark);
            reply.error(self.deny(client, denied, args, Context::Toplevel).text());
        }
    }

    /// Ends the wait of a connection, if it still waits, with a null array or an error.
    fn unblock(&mut self, connection: ConnId, how: Unblocking) -> Claim {
        let Some(mut connection) = self.take(connection) else { return Claim::Settled };
        let on = match connection.waiting.take() {
            Some(Waiting::Blocked(on)) => on,
            other => {
                connection.waiting = other;
                self.put_back(connection);
                return Claim::Settled;
            }
        };
        let claim = on.blocked.waiter.settle.cancel();
        if claim != Claim::Mine {
            connection.waiting = Some(Waiting::Blocked(on));
            self.put_back(connection);
            return claim;
        }
        self.unblocked(&mut connection, &on.blocked);
        self.engine.leave(Arc::clone(&on.blocked.waiter));
        let mut reply = self.take_reply(&connection);
        self.command_mark = reply.mark();
        match how {
            Unblocking::Timeout => reply.null_array(),
            Unblocking::Error => {
                reply.error(UNBLOCKED);
                self.stats().rejected(on.number);
                self.stats().error(UNBLOCKED);
            }
        }
        let words = Some(on.blocked.waiter.words.clone());
        // It has run without an error; that its wait ended with one has been counted.
        let late = Late { number: on.number, started: clock::ticks(), errors: 0, words };
        self.settle_late(connection, late, Flow::Done, reply);
        Claim::Mine
    }

    /// Ends the waits whose time is over.
    pub(crate) fn end_waits(&mut self) {
        let mut again = Vec::new();
        while self.deadlines.first_ms() <= self.now_ms {
            let Some((until_ms, bits)) = self.deadlines.0.pop_first() else { break };
            match self.unblock(ConnId::from_bits(bits), Unblocking::Timeout) {
                // Somebody is serving it at this moment, perhaps in vain: it is looked at again.
                Claim::Busy => again.push((until_ms, bits)),
                Claim::Mine | Claim::Settled => {}
            }
        }
        self.deadlines.0.extend(again);
        self.count_deadlines();
    }

    /// The client of a connection has gone, whatever it waits for.
    pub(crate) fn forget_wait(&mut self, connection: &mut Connection) {
        if let Some(Waiting::Blocked(on)) = connection.waiting.take() {
            self.give_up(&on.blocked);
            self.unblocked(connection, &on.blocked);
        }
        self.set_blocked(connection, false);
    }

    /// A command waits whose client has gone.
    pub(crate) fn give_up(&mut self, blocked: &Blocked) {
        blocked.waiter.settle.settle();
        self.engine.leave(Arc::clone(&blocked.waiter));
    }
}

/// The reply of a command that was served.
pub(crate) struct Served {
    pub(crate) reply: Reply,
    /// How long it ran.
    pub(crate) ticks: u64,
}

/// CLIENT UNBLOCK: asks every thread; asks again if somebody was serving the client at the moment.
pub(crate) fn ask_to_unblock(cx: &mut Cx<'_>, id: u64, how: Unblocking) -> Flow {
    let ask = Arc::new(move |worker: &mut Worker| -> Answer {
        let found = worker
            .connections()
            .find(|connection| connection.client.id == id)
            .map(|connection| connection.reactor_id);
        Box::new(found.map_or(Claim::Settled, |connection| worker.unblock(connection, how)))
    });
    let finish = move |cx: &mut Cx<'_>, answers: Vec<Answer>, reply: &mut Reply| {
        let claims: Vec<Claim> = answers_as::<Claim>(answers).collect();
        if claims.contains(&Claim::Busy) {
            return ask_to_unblock(cx, id, how);
        }
        reply.int(claims.contains(&Claim::Mine).into());
        Flow::Done
    };
    cx.broadcast(ask, Box::new(finish))
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
pub(crate) fn client_unblock(cx: &mut Cx<'_>, args: Args<'_>, _: &mut Reply) -> Result<Flow, CommandError> {
    // More words than these are passed over, the reason with them, as Valkey does it.
    let how = match args.get(3).filter(|_| args.len() == 4) {
        None => Unblocking::Timeout,
        Some(word) if word.eq_ignore_ascii_case(b"timeout") => Unblocking::Timeout,
        Some(word) if word.eq_ignore_ascii_case(b"error") => Unblocking::Error,
        Some(_) => return Err(CommandError::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = stdx::num::parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    // No client has a negative number.
    Ok(ask_to_unblock(cx, u64::try_from(id).unwrap_or(u64::MAX), how))
}
