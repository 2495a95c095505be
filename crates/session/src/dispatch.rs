//! From one parsed command to its reply: admission, the run, what comes back.
//!
//! HOT: no allocation, no lock, no syscall, no log on the way of a data command on a free shard.

use std::sync::atomic::Ordering;

use command::{CommandError, Flags};
use reactor::{ConnId, clock};
use resp::{Args, OwnedArgs, Proto, Reply};
use router::engine::{Call, Ran, Sent};
use router::table::{Entry, Run, Table};
use router::task::{Task, Work};

use crate::blocked::Served;
use crate::broadcast::Gathering;
use crate::client::{Client, ReplyMode};
use crate::commandlog::{Cost, wire_bytes};
use crate::connection::{Connection, Waiting};
use crate::transaction;
use crate::worker::{Flow, SessionRun, Worker};

/// What a subscriber may send in RESP2, in which a message and a reply look alike.
const SUBSCRIBER_COMMANDS: [&str; 9] = [
    "SUBSCRIBE",
    "SSUBSCRIBE",
    "PSUBSCRIBE",
    "UNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "PING",
    "QUIT",
    "RESET",
];
const NOAUTH: CommandError = CommandError::fixed("NOAUTH Authentication required.");

impl Worker {
    /// Runs one command of a connection that waits for nothing.
    pub(crate) fn command(
        &mut self,
        connection: &mut Connection,
        found: Option<&'static Entry<SessionRun>>,
        args: Args<'_>,
        hint: Option<(usize, u64, u16)>,
        reply: &mut Reply,
    ) {
        let shared = self.shared;
        self.command_mark = reply.mark();
        connection.client.commands += 1;
        connection.client.active_ms = self.now_ms;
        let entry = match Table::resolve_found(found, args) {
            Ok(entry) => entry,
            Err(_) if is_http(args) => return self.end_http(connection),
            Err(error) => {
                if let Some(entry) = shared.table.find(&args[0]) {
                    self.stats().rejected(entry.number);
                }
                return self.refuse(connection, args, &error, reply);
            }
        };
        connection.client.last_command = Some(entry.number as u16);
        if let Err(error) = self.admit(connection, entry, args) {
            self.stats().rejected(entry.number);
            return self.refuse(connection, args, &error, reply);
        }
        if connection.client.transaction.is_some() && !transaction::runs_inside_multi(entry) {
            transaction::queue(connection, entry, args, shared.layout.databases);
            reply.simple("QUEUED");
            return self.after_reply(connection, reply);
        }
        let started = self.ticks;
        let errors = reply.errors;
        let flow = self.start(connection, entry, args, hint, reply);
        if shared.monitors.load(Ordering::Relaxed) != 0 && (flow != Flow::Wait || entry.spec.name != "EXEC") {
            crate::monitor::feed(self, &connection.client, entry, args);
        }
        let is_data = matches!(entry.run, Run::Data(_));
        if flow == Flow::Wait && !is_data {
            connection.late = Some(Box::new(OwnedArgs::from(args)));
        }
        let cost = self.settle(connection, entry.number, started, reply.errors - errors, flow, reply);
        if is_data && flow == Flow::Done {
            self.stats().shard_hold_max_ticks.raise(self.ticks.wrapping_sub(started));
        }
        if let Some(cost) = cost {
            self.remember(&connection.client, entry.number, cost, args);
        }
    }

    /// A browser, or a web page that makes one send commands for it: nothing it sends may be run.
    #[cold]
    fn end_http(&self, connection: &mut Connection) {
        log::warn!(
            "Possible SECURITY ATTACK: client addr={} sends HTTP (POST or Host:), most likely a browser that was tricked into it. \
             The connection was closed.",
            connection.client.addresses.peer
        );
        connection.closing = true;
    }

    /// Answers with an error instead of running the command. Inside MULTI the transaction is broken by it.
    /// An EXEC that is refused ends the transaction.
    fn refuse(
        &mut self,
        connection: &mut Connection,
        args: Args<'_>,
        error: &CommandError,
        reply: &mut Reply,
    ) {
        let mut text = std::borrow::Cow::Borrowed(error.text());
        if args.get(0).is_some_and(|name| name.eq_ignore_ascii_case(b"exec")) {
            connection.client.transaction = None;
            self.unwatch(&mut connection.client);
            let why = text.strip_prefix("ERR ").unwrap_or(&text);
            text = format!("EXECABORT Transaction discarded because of: {why}").into();
        } else if let Some(transaction) = &mut connection.client.transaction {
            transaction.broken = true;
        }
        self.stats().error(&text);
        reply.error(&text);
        self.after_reply(connection, reply);
    }

    /// What speaks against running a command at all.
    fn admit(
        &mut self,
        connection: &Connection,
        entry: &Entry<SessionRun>,
        args: Args<'_>,
    ) -> Result<(), CommandError> {
        let flags = entry.spec.flags;
        let client = &connection.client;
        if self.shared.busy.is_busy() && !flags.has(Flags::ALLOW_BUSY) {
            return Err(self.shared.busy.error());
        }
        if !client.trusted && !client.authenticated && !flags.has(Flags::NO_AUTH) {
            return Err(NOAUTH);
        }
        if client.transaction.is_some() && flags.has(Flags::NO_MULTI) {
            return Err(CommandError::new(format!(
                "ERR Command '{}' not allowed inside a transaction",
                entry.full_name
            )));
        }
        if !client.trusted {
            self.check_rights(client, entry, args)?;
        }
        if client.subscriptions.is_some()
            && client.proto == Proto::Resp2
            && !SUBSCRIBER_COMMANDS.contains(&entry.spec.name)
        {
            return Err(CommandError::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                entry.full_name
            )));
        }
        if client.monitor && flags.any(Flags::WRITE.with(Flags::READONLY).with(Flags::MAY_REPLICATE)) {
            return Err(CommandError::fixed("ERR Replica can't interact with the keyspace"));
        }
        if flags.has(Flags::ADMIN) && entry.spec.name == "DEBUG" {
            crate::commands::debug::check_allowed(self.config.enable_debug_command, client)?;
        }
        if self.config.maxmemory != 0 && flags.has(Flags::DENYOOM) {
            self.make_room(args.iter().map(|word| word.len() as u64).sum())?;
        }
        Ok(())
    }

    /// Starts a command that was admitted.
    #[inline]
    fn start(
        &mut self,
        connection: &mut Connection,
        entry: &Entry<SessionRun>,
        args: Args<'_>,
        hint: Option<(usize, u64, u16)>,
        reply: &mut Reply,
    ) -> Flow {
        match &entry.run {
            Run::Data(plan) => {
                self.engine.surroundings.touch = !connection.client.no_touch;
                let call = Call {
                    plan,
                    keys: entry.spec.keys,
                    args,
                    db: connection.client.db,
                    hint,
                    connection: connection.reactor_id.to_bits(),
                    caching: connection.client.caching(entry.spec.flags, entry.spec.keys),
                };
                match self.engine.run(call, reply) {
                    Ran::Done | Ran::Failed => Flow::Done,
                    Ran::Waits(blocked) => self.block(connection, *blocked, entry.number),
                    Ran::Posted => {
                        self.stats().commands_posted.add(1);
                        connection.waiting =
                            Some(Waiting::Task { number: entry.number, ticks: clock::ticks() });
                        Flow::Wait
                    }
                }
            }
            Run::Session(run) => self.run_session(connection, *run, args, reply),
        }
    }

    /// Runs a session command; a question to all threads becomes what the connection waits for.
    pub(crate) fn run_session(
        &mut self,
        connection: &mut Connection,
        run: SessionRun,
        args: Args<'_>,
        reply: &mut Reply,
    ) -> Flow {
        let mark = reply.mark();
        self.with_cx(connection, |cx| {
            run(cx, args, reply).unwrap_or_else(|error| {
                reply.truncate_to(mark);
                reply.error(error.text());
                Flow::Done
            })
        })
    }

    /// After a command has run or has been posted: its statistics, and what its flow means.
    fn settle(
        &mut self,
        connection: &mut Connection,
        number: usize,
        started: u64,
        errors: u64,
        flow: Flow,
        reply: &mut Reply,
    ) -> Option<Cost> {
        match flow {
            Flow::Wait => return None,
            Flow::Close => connection.closing = true,
            Flow::Done => {}
        }
        self.ticks = clock::ticks();
        let ticks = self.ticks.wrapping_sub(started);
        // Errors inside the reply of an EXEC are those of its commands, which have been counted.
        let code = if errors != 0 { reply.error_code_at(self.command_mark) } else { None };
        self.stats().ran(number, ticks, code.is_some(), self.config.latency_tracking);
        if let Some(code) = code {
            self.stats().error(code);
        }
        let reply_bytes = reply.len_since(self.command_mark) as u64;
        self.after_reply(connection, reply);
        if connection.client.tracking.is_some() {
            self.tell_changes(connection, self.command_mark, reply);
        }
        let cost = Cost { ticks, request_bytes: self.command_bytes, reply_bytes };
        self.is_noteworthy(cost).then_some(cost)
    }

    /// Whether SLOWLOG, COMMANDLOG or LATENCY is to tell about a command.
    #[inline]
    pub(crate) fn is_noteworthy(&self, cost: Cost) -> bool {
        self.commandlog.wants(cost) || cost.ticks >= self.latency_ticks
    }

    /// A command was slow or large: SLOWLOG, COMMANDLOG and LATENCY tell about it.
    #[cold]
    pub(crate) fn remember(&mut self, client: &Client, number: usize, cost: Cost, args: Args<'_>) {
        let shared = self.shared;
        let flags = shared.table.all().find(|entry| entry.number == number).map(|entry| entry.spec.flags);
        if cost.ticks >= self.latency_ticks {
            let fast = flags.is_some_and(|flags| flags.has(Flags::FAST));
            let name = if fast { "fast-command" } else { "command" };
            shared.latency.add(name, self.now_ms / 1000, clock::ticks_to_ns(cost.ticks) / 1_000_000);
        }
        if flags.is_some_and(|flags| flags.has(Flags::SKIP_COMMANDLOG)) {
            return;
        }
        self.commandlog.remember(cost, args, client, self.now_ms, &shared.commandlog_numbers);
    }

    /// CLIENT REPLY: drops the reply of a command that its client does not want.
    fn after_reply(&mut self, connection: &mut Connection, reply: &mut Reply) {
        match connection.client.reply_mode {
            ReplyMode::On => {}
            ReplyMode::Off => reply.truncate_to(self.command_mark),
            ReplyMode::Skip => {
                reply.truncate_to(self.command_mark);
                connection.client.reply_mode = ReplyMode::On;
            }
            ReplyMode::SkipNext => connection.client.reply_mode = ReplyMode::Skip,
        }
        reply.proto = connection.client.proto;
    }
}

/// A command for which its connection waited.
pub(crate) struct Late {
    pub(crate) number: usize,
    /// `clock::ticks` when the wait began.
    pub(crate) started: u64,
    /// Error replies that it wrote.
    pub(crate) errors: u64,
    /// Its words, unless the connection has kept them.
    pub(crate) words: Option<OwnedArgs>,
}

fn is_http(args: Args<'_>) -> bool {
    args[0].eq_ignore_ascii_case(b"POST") || args[0].eq_ignore_ascii_case(b"Host:")
}

impl Worker {
    /// A task that was posted comes back: its reply goes out at its place, the connection goes on.
    pub(crate) fn finished(&mut self, task: Box<Task>) {
        let mut task = match self.engine.resume(task) {
            Sent::Posted => return,
            Sent::Back(task) => task,
        };
        self.engine.absorb(&mut task);
        let id = ConnId::from_bits(task.ticket.connection);
        let mut task = match task.work {
            Work::Served { waiter, elsewhere } => {
                let ticks = task.ends.first().map_or(0, |end| end.ticks);
                return self.served(id, waiter, elsewhere, Served { reply: task.reply, ticks });
            }
            // What it has served has been told already.
            Work::Retry(_) => return,
            _ => task,
        };
        let Some(mut connection) = self.take(id) else {
            // Its client has gone meanwhile.
            match task.work {
                Work::Watch { watched, .. } => self.engine.unwatch(watched),
                Work::Blocking { blocked: Some(blocked), .. } => self.give_up(&blocked),
                _ => {}
            }
            return;
        };
        let Some(Waiting::Task { number, ticks }) = connection.waiting.take() else {
            panic!("a task came back to a connection that waits for none")
        };
        let mut reply = self.take_reply(&connection);
        self.command_mark = reply.mark();
        let errors = reply.errors;
        let mut words = None;
        let mut flow = match task.work {
            Work::Transaction(..) => transaction::finished(self, &mut connection, task, &mut reply),
            Work::Watch { .. } => transaction::watching(&mut connection, task, &mut reply),
            Work::Command(queued, _) | Work::Walk(queued, ..) => {
                reply.append(&mut task.reply);
                words = Some(queued.args);
                Flow::Done
            }
            Work::Blocking { blocked: Some(blocked), .. } => {
                let flow = self.block(&mut connection, blocked, number);
                if flow == Flow::Wait {
                    self.give_back(reply);
                    return self.put_back(connection);
                }
                flow
            }
            Work::Script(_) => {
                reply.append(&mut task.reply);
                Flow::Done
            }
            Work::Blocking { queued, .. } => {
                reply.append(&mut task.reply);
                words = Some(queued.args);
                Flow::Done
            }
            Work::Unwatch(_) | Work::Leave(_) | Work::Served { .. } | Work::Retry(_) => {
                panic!("no connection waits for it")
            }
        };
        if flow == Flow::Done && connection.remaining.is_some() {
            // A command of the connection itself inside EXEC had keys (DEBUG OBJECT): the rest follows.
            flow = transaction::go_on(self, &mut connection, &mut reply);
        }
        let errors = reply.errors - errors;
        self.settle_late(connection, Late { number, started: ticks, errors, words }, flow, reply);
    }

    /// After a command has run for which its connection waited, or a part of one that waits again.
    pub(crate) fn settle_late(
        &mut self,
        mut connection: Box<Connection>,
        late: Late,
        flow: Flow,
        mut reply: Reply,
    ) {
        if flow != Flow::Wait {
            let words = connection.late.take().map(|words| *words).or(late.words);
            // Only an EXEC comes here without its words.
            let words = words.unwrap_or_else(|| OwnedArgs::from_words(["EXEC"]));
            let args = words.as_args();
            self.command_bytes = wire_bytes(args);
            let Late { number, started, errors, .. } = late;
            if let Some(cost) = self.settle(&mut connection, number, started, errors, flow, &mut reply) {
                self.remember(&connection.client, number, cost, args);
            }
            if self.shared.monitors.load(Ordering::Relaxed) != 0 && args[0].eq_ignore_ascii_case(b"exec") {
                let entry = self.shared.table.find(b"exec").expect("EXEC is a command");
                crate::monitor::feed(self, &connection.client, entry, args);
            }
        }
        self.go_on(connection, reply);
    }

    /// One more thread has answered the question of a connection of this thread.
    pub(crate) fn answered(&mut self, connection: u64, answer: crate::broadcast::Answer) {
        let Some(mut connection) = self.take(ConnId::from_bits(connection)) else { return };
        let Some(Waiting::Answers(mut gathering)) = connection.waiting.take() else {
            // It asked, was closed and its slot was reused: impossible, as a generation is part of its name.
            panic!("an answer came to a connection that asked nothing")
        };
        gathering.answers.push(answer);
        gathering.missing -= 1;
        if gathering.missing > 0 {
            connection.waiting = Some(Waiting::Answers(gathering));
            return self.put_back(connection);
        }
        let mut reply = self.take_reply(&connection);
        self.command_mark = reply.mark();
        let errors = reply.errors;
        let Gathering { answers, finish, started, .. } = *gathering;
        let mut flow = self.with_cx(&mut connection, |cx| finish(cx, answers, &mut reply));
        if flow == Flow::Done && connection.remaining.is_some() {
            flow = transaction::go_on(self, &mut connection, &mut reply);
        }
        let number = usize::from(connection.client.last_command.unwrap_or_default());
        let errors = reply.errors - errors;
        self.settle_late(connection, Late { number, started, errors, words: None }, flow, reply);
    }

    /// Sends a reply that came late and runs what the connection has gathered meanwhile.
    fn go_on(&mut self, mut connection: Box<Connection>, mut reply: Reply) {
        self.flush(&mut connection, &mut reply);
        self.reply = reply;
        self.advance(&mut connection);
        self.put_back(connection);
    }
}
