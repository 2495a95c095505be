//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! EXEC gathers the shards of all queued data commands and of the watched keys, enters them together and runs the data commands
//! there: atomic and isolated. Commands about the connection or the server (PING, CLIENT, CONFIG ...) run afterwards on the
//! connection's own thread; the replies are put together in the order of the queue.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use command::{Categories, Command, CommandError, Flags, Group, KeyFlags, KeySpec, Spec};
use reactor::clock;
use resp::{Args, Mark, OwnedArgs, Reply};
use router::engine::Sent;
use router::table::{Entry, Run};
use router::task::{Outcome, Queued, Task, Watched, WatchedKey, Work};

use crate::client::{QueuedCommand, Transaction};
use crate::commandlog::{Cost, wire_bytes};
use crate::connection::{Connection, Waiting};
use crate::rights::Context;
use crate::scripts::is_script;
use crate::worker::{Cx, Flow, SessionRun, Worker};

const FLAGS: Flags = Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE);
const FAST: Flags = FLAGS.with(Flags::FAST).with(Flags::ALLOW_BUSY);

pub const ROWS: &[Command<SessionRun>] = &[
    Command {
        spec: Spec {
            name: "DISCARD",
            summary: "Forgets the commands queued since MULTI.",
            complexity: "O(n) of the queued commands",
            since: "2.0.0",
            group: Group::Transactions,
            arity: 1,
            flags: FAST,
            explicit: Categories::TRANSACTION,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: discard,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "EXEC",
            summary: "Runs the commands queued since MULTI, all of them at one moment.",
            complexity: "The sum of the queued commands",
            since: "1.2.0",
            group: Group::Transactions,
            arity: 1,
            flags: FLAGS.with(Flags::SKIP_COMMANDLOG),
            explicit: Categories::TRANSACTION,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: exec,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "MULTI",
            summary: "Begins to queue commands for EXEC.",
            complexity: "O(1)",
            since: "1.2.0",
            group: Group::Transactions,
            arity: 1,
            flags: FAST.with(Flags::NO_MULTI),
            explicit: Categories::TRANSACTION,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: multi,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "UNWATCH",
            summary: "Forgets the watched keys.",
            complexity: "O(1)",
            since: "2.2.0",
            group: Group::Transactions,
            arity: 1,
            flags: FAST,
            explicit: Categories::TRANSACTION,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: unwatch,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "WATCH",
            summary: "Lets the next EXEC do nothing if one of these keys has changed by then.",
            complexity: "O(n) of the keys",
            since: "2.2.0",
            group: Group::Transactions,
            arity: -2,
            flags: FAST.with(Flags::NO_MULTI),
            explicit: Categories::TRANSACTION,
            keys: &[KeySpec::all_from_first(1, KeyFlags::RO)],
            tips: &[],
            syntax: "key:key#0*",
        },
        run: watch,
        subcommands: &[],
    },
];

/// An EXEC whose data commands have run, on its way through the queue.
pub struct Remaining {
    queued: Vec<QueuedCommand>,
    next: usize,
    /// The data commands' replies; `data_done` of them are already in place.
    task: Option<Box<Task>>,
    data_done: usize,
    /// Commands that the client may not run any more, by their places, with their errors.
    denied: VecDeque<(usize, String)>,
}

/// Commands that act on MULTI itself and are never queued.
pub fn runs_inside_multi<S>(entry: &Entry<S>) -> bool {
    matches!(entry.spec.name, "EXEC" | "DISCARD" | "MULTI" | "WATCH" | "QUIT" | "RESET")
}

/// Queues a command between MULTI and EXEC.
pub fn queue<S>(connection: &mut Connection, entry: &Entry<S>, args: Args<'_>, databases: u16) {
    let transaction = connection.client.transaction.as_mut().expect("the client is inside MULTI");
    if entry.spec.name == "SELECT" {
        transaction.db = selected(args, databases).or(transaction.db);
    }
    transaction.bytes += args.iter().map(<[u8]>::len).sum::<usize>();
    transaction.queued.push(QueuedCommand { args: OwnedArgs::from(args) });
}

fn multi(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if cx.client.transaction.is_some() {
        return Err(CommandError::fixed("ERR MULTI calls can not be nested"));
    }
    cx.client.transaction = Some(Box::default());
    reply.ok();
    Ok(Flow::Done)
}

fn discard(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if cx.client.transaction.is_none() {
        return Err(CommandError::fixed("ERR DISCARD without MULTI"));
    }
    cx.client.transaction = None;
    cx.worker.unwatch(cx.client);
    reply.ok();
    Ok(Flow::Done)
}

fn exec(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let Some(transaction) = cx.client.transaction.take() else {
        return Err(CommandError::fixed("ERR EXEC without MULTI"));
    };
    let Transaction { queued, broken, .. } = *transaction;
    if broken {
        cx.worker.unwatch(cx.client);
        return Err(CommandError::fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    let shared = cx.worker.shared;
    let mut data = Vec::new();
    let mut keys = Vec::new();
    let mut db = cx.client.db;
    let mut denied = VecDeque::new();
    for (place, command) in queued.iter().enumerate() {
        let args = command.args.as_args();
        let entry = shared.table.resolve(args).expect("only commands of the table are queued");
        if !cx.client.trusted
            && let Err(error) = cx.check_queued(entry, args, db)
        {
            denied.push_back((place, error));
            continue;
        }
        if cx.worker.config.maxmemory != 0
            && entry.spec.flags.has(Flags::DENYOOM)
            && let Err(error) = cx.worker.make_room(args.iter().map(|word| word.len() as u64).sum())
        {
            cx.worker.unwatch(cx.client);
            return Err(error);
        }
        match &entry.run {
            Run::Data(plan) => {
                let caching = cx.client.caching(entry.spec.flags, entry.spec.keys);
                data.push(Queued { plan: *plan, args: command.args.clone(), db, caching, program: None });
                keys.push(entry.spec.keys);
            }
            Run::Session(_) if is_script(entry) => {
                data.push(crate::scripts::queued((cx.worker, cx.client), entry, &command.args, db));
                keys.push(&[]);
            }
            Run::Session(_) if entry.spec.name == "SELECT" => {
                db = selected(args, shared.layout.databases).unwrap_or(db)
            }
            Run::Session(_) => {}
        }
    }
    let watched = cx.client.watched.take();
    let mut remaining = Box::new(Remaining { queued, next: 0, task: None, data_done: 0, denied });
    if data.is_empty() && watched.is_none() {
        reply.array(remaining.queued.len());
        *cx.remaining = Some(remaining);
        return Ok(cx.go_on(reply));
    }
    let engine = &mut cx.worker.engine;
    let ids = engine.shards_of(&keys, &data, watched.as_deref());
    let task =
        engine.task(cx.ticket.connection, Work::Transaction(data, watched.map(|watched| *watched)), reply);
    let sent = engine.submit(task, &ids);
    match sent {
        Sent::Back(mut task) => {
            cx.worker.engine.absorb(&mut task);
            remaining.task = Some(task);
            *cx.remaining = Some(remaining);
            Ok(cx.begin_replies(reply))
        }
        Sent::Posted => {
            *cx.remaining = Some(remaining);
            let number = shared.table.find(b"EXEC").map_or(0, |entry| entry.number);
            Ok(cx.wait_for(Waiting::Task { number, ticks: clock::ticks() }))
        }
    }
}

impl Cx<'_> {
    /// Whether a command may still be run that was allowed when it was queued: its user may have changed meanwhile.
    #[cold]
    fn check_queued(&self, entry: &Entry<SessionRun>, args: Args<'_>, db: u16) -> Result<(), String> {
        let denied = match self.worker.shared.catalog.check(&self.client.user, entry.number, args, db) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        let error = self.worker.deny(self.client, denied, args, Context::Multi);
        Err(match denied.reason {
            acl::Reason::SortOption(_) => error.text().to_owned(),
            reason => format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer \
                 allowed for the following reason: {}",
                reason.since_queued()
            ),
        })
    }

    /// The data commands of an EXEC have run: writes the replies, running the other commands in between.
    fn begin_replies(&mut self, reply: &mut Reply) -> Flow {
        let remaining = self.remaining.as_ref().expect("an EXEC is under way");
        if remaining.task.as_ref().is_some_and(|task| task.outcome == Outcome::Aborted) {
            *self.remaining = None;
            reply.null_array();
            return Flow::Done;
        }
        let held = remaining.task.iter().flat_map(|task| &task.ends).map(|end| end.ticks).sum();
        self.worker.stats().shard_hold_max_ticks.raise(held);
        reply.array(remaining.queued.len());
        self.go_on(reply)
    }

    /// After a command of an EXEC: it is counted, remembered and shown as any other.
    fn count(&mut self, entry: &Entry<SessionRun>, args: Args<'_>, ticks: u64, mark: Mark, reply: &Reply) {
        let worker = &mut *self.worker;
        let code = reply.error_code_at(mark);
        worker.stats().ran(entry.number, ticks, code.is_some(), worker.config.latency_tracking);
        if let Some(code) = code {
            worker.stats().error(code);
        }
        let cost = Cost { ticks, request_bytes: wire_bytes(args), reply_bytes: reply.len_since(mark) as u64 };
        if worker.is_noteworthy(cost) {
            worker.remember(self.client, entry.number, cost, args);
        }
        if worker.shared.monitors.load(Ordering::Relaxed) != 0 {
            crate::monitor::feed(worker, self.client, entry, args);
        }
    }

    /// Writes the replies of the rest of an EXEC.
    fn go_on(&mut self, reply: &mut Reply) -> Flow {
        let shared = self.worker.shared;
        let mut flow = Flow::Done;
        loop {
            let Some(remaining) = self.remaining.as_mut() else { return flow };
            let Some(command) = remaining.queued.get(remaining.next) else {
                *self.remaining = None;
                return flow;
            };
            let args = command.args.clone();
            let entry = shared.table.resolve(args.as_args()).expect("only commands of the table are queued");
            remaining.next += 1;
            if remaining.denied.front().is_some_and(|(place, _)| place + 1 == remaining.next)
                && let Some((_, error)) = remaining.denied.pop_front()
            {
                self.worker.stats().error(&error);
                reply.error(&error);
                continue;
            }
            let mark = reply.mark();
            match &entry.run {
                run if matches!(run, Run::Data(_)) || is_script(entry) => {
                    let ticks = remaining.take_reply(reply);
                    self.count(entry, args.as_args(), ticks, mark, reply);
                }
                Run::Data(_) => panic!("data commands come first"),
                Run::Session(run) => {
                    let started = clock::ticks();
                    let step = run(self, args.as_args(), reply).unwrap_or_else(|error| {
                        reply.truncate_to(mark);
                        reply.error(error.text());
                        Flow::Done
                    });
                    let ticks = clock::ticks().wrapping_sub(started);
                    self.count(entry, args.as_args(), ticks, mark, reply);
                    match step {
                        Flow::Wait => return Flow::Wait,
                        Flow::Close => flow = Flow::Close,
                        Flow::Done => {}
                    }
                }
            }
        }
    }
}

impl Remaining {
    /// Appends the reply of the next data command. How long that ran, in ticks.
    fn take_reply(&mut self, reply: &mut Reply) -> u64 {
        let task = self.task.as_ref().expect("data commands have run in a task");
        let from = self.data_done.checked_sub(1).map_or(Mark::default(), |before| task.ends[before].mark);
        let end = task.ends[self.data_done];
        reply.append_between(&task.reply, from, end.mark);
        self.data_done += 1;
        end.ticks
    }
}

/// The task of an EXEC came back from another thread.
pub fn finished(
    worker: &mut Worker,
    connection: &mut Connection,
    task: Box<Task>,
    reply: &mut Reply,
) -> Flow {
    connection.remaining.as_mut().expect("an EXEC is under way").task = Some(task);
    worker.with_cx(connection, |cx| cx.begin_replies(reply))
}

/// A question of a command inside EXEC was answered: the rest follows.
pub fn go_on(worker: &mut Worker, connection: &mut Connection, reply: &mut Reply) -> Flow {
    if let Some(tracking) = &mut connection.client.tracking {
        tracking.split = true;
    }
    worker.with_cx(connection, |cx| cx.go_on(reply))
}

fn watch(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if cx.client.transaction.is_some() {
        return Err(CommandError::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    let db = cx.client.db;
    let mut watched = cx.client.watched.take().map_or_else(Watched::default, |watched| *watched);
    let from = watched.keys.len();
    for word in args.iter().skip(1) {
        if !watched.keys.iter().any(|known| known.db == db && known.key == word) {
            watched.keys.push(WatchedKey { db, key: word.to_vec(), expired: false });
        }
    }
    let mut ids = cx.worker.engine.shards_of_keys(watched.keys[from..].iter().map(|key| key.key.as_slice()));
    ids.dedup();
    if ids.is_empty() {
        cx.client.watched = Some(Box::new(watched));
        reply.ok();
        return Ok(Flow::Done);
    }
    let task = cx.worker.engine.task(cx.ticket.connection, Work::Watch { watched, from }, reply);
    match cx.worker.engine.submit(task, &ids) {
        Sent::Back(task) => {
            take_watched(cx.client, task, reply);
            Ok(Flow::Done)
        }
        Sent::Posted => {
            let number = usize::from(cx.client.last_command.unwrap_or_default());
            Ok(cx.wait_for(Waiting::Task { number, ticks: clock::ticks() }))
        }
    }
}

/// The task of a WATCH came back from another thread.
pub fn watching(connection: &mut Connection, task: Box<Task>, reply: &mut Reply) -> Flow {
    take_watched(&mut connection.client, task, reply);
    Flow::Done
}

fn take_watched(client: &mut crate::client::Client, mut task: Box<Task>, reply: &mut Reply) {
    reply.append(&mut task.reply);
    if let Work::Watch { watched, .. } = task.work {
        client.watched = Some(Box::new(watched));
    }
}

fn unwatch(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    cx.worker.unwatch(cx.client);
    reply.ok();
    Ok(Flow::Done)
}

/// The database that a SELECT chooses, if it is one.
pub fn selected(args: Args<'_>, databases: u16) -> Option<u16> {
    let db = stdx::num::parse_i64(args.get(1)?)?;
    u16::try_from(db).ok().filter(|db| *db < databases)
}
