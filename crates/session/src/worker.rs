//! One thread of the server: its event loop, its connections, and the commands that they send.
//!
//! HOT: `process` and what it calls for a data command; no allocation, no lock, no syscall, no log.
//!
//! ```text
//!   reactor --Data--> connection --parse--> window of commands
//!                                             1. look up, hash keys, prefetch buckets
//!                                             2. prefetch entries
//!                                             3. run in order, replies into one buffer --send--> reactor
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use command::CommandError;
use reactor::{ConnId, Event, Reactor, clock};
use resp::{Args, Mark, ParseLimits, Partial, Reply, Span};
use router::engine::Engine;
use router::task::Ticket;
use shard::settings::{Policy, Settings};

use crate::background::Background;
use crate::blocked::Deadlines;
use crate::broadcast::{Ask, Finish, Gathering, Question};
use crate::client::Client;
use crate::commandlog::CommandLog;
use crate::config::Config;
use crate::connection::{Connection, Parsed, Waiting};
use crate::listen::Tokens;
use crate::pause::Pause;
use crate::pubsub::Local;
use crate::room::Room;
use crate::shared::{Message, Peer, Shared};
use crate::stats::ThreadStats;
use crate::transaction::Remaining;

/// A command about the connection or the server itself.
pub type SessionRun = fn(&mut Cx<'_>, Args<'_>, &mut Reply) -> Result<Flow, CommandError>;

/// What a session command works with.
pub struct Cx<'a> {
    pub client: &'a mut Client,
    pub worker: &'a mut Worker,
    /// The connection as other threads can name it.
    pub ticket: Ticket,
    /// What the connection must wait for, once the command returns [`Flow::Wait`].
    pub(crate) waits: &'a mut Option<Waiting>,
    /// The EXEC that is under way.
    pub(crate) remaining: &'a mut Option<Box<Remaining>>,
}

/// What a session command means for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The reply is written.
    Done,
    /// The reply is written; the connection ends once it is sent.
    Close,
    /// The connection waits; the reply comes later.
    Wait,
}

impl Cx<'_> {
    /// Asks every thread; `finish` writes the reply when all have answered. At most one question per command.
    pub fn broadcast(&mut self, ask: Ask, finish: Finish) -> Flow {
        let shared = self.worker.shared;
        for thread in 0..self.worker.threads() {
            shared
                .send(thread, Message::Question(Question { ask: Arc::clone(&ask), from: Some(self.ticket) }));
        }
        let gathering =
            Gathering { answers: Vec::new(), missing: shared.peers.len(), finish, started: clock::ticks() };
        self.wait_for(Waiting::Answers(Box::new(gathering)))
    }

    /// Whether the command runs inside an EXEC.
    pub(crate) fn in_exec(&self) -> bool {
        self.remaining.is_some()
    }

    /// The connection waits; at most once per command.
    pub(crate) fn wait_for(&mut self, waiting: Waiting) -> Flow {
        assert!(self.waits.is_none(), "a command waits for one thing");
        *self.waits = Some(waiting);
        Flow::Wait
    }
}

/// Commands parsed ahead of execution, so that the memory misses of one window overlap. One bit of a word each.
const WINDOW: usize = u64::BITS as usize;

/// Bytes of replies after which they are handed to the socket although the window is not done.
const REPLY_CHUNK: usize = 64 << 10;

/// One thread of the server.
pub struct Worker {
    pub shared: &'static Shared,
    pub engine: Engine,
    pub reactor: Reactor,
    /// Unix time in ms, read once per turn of the loop.
    pub now_ms: u64,
    /// The user that new connections begin as.
    pub(crate) default_user: Arc<acl::User>,
    /// The settings, replaced as a whole by CONFIG SET.
    pub config: Arc<Config>,
    pub parse_limits: ParseLimits,
    pub(crate) connections: Vec<Option<Box<Connection>>>,
    pub background: Background,
    pub pause: Pause,
    pub(crate) subscriptions: Local,
    /// Connections that track keys by prefixes.
    pub(crate) broadcasts: Vec<ConnId>,
    /// Connections with changes that they have not been told of.
    pub(crate) told: Vec<ConnId>,
    pub(crate) deadlines: Deadlines,
    pub(crate) room: Room,
    /// The scripts that this thread has met.
    pub(crate) scripts: crate::scripts::Local,
    /// The libraries of functions, as this thread saw them last.
    pub(crate) libraries: Arc<crate::functions::Libraries>,
    /// The engine that is in place of the other while a script has that.
    pub(crate) spare: Option<Box<Engine>>,
    /// What came for the thread while a script ran for too long, and has to wait until it has ended.
    pub(crate) postponed: VecDeque<Event>,
    /// Events of this turn whose keys' memory has been asked for (`ahead.rs`).
    pub(crate) gathered: VecDeque<Event>,
    pub(crate) postponed_mail: Vec<Message>,
    pub(crate) listeners: Tokens,
    pub(crate) reply: Reply,
    /// Where the reply of the command that runs now begins.
    pub(crate) command_mark: Mark,
    /// Bytes that the command that runs now took on the wire.
    pub(crate) command_bytes: u64,
    /// What is remembered of slow and large commands.
    pub commandlog: CommandLog,
    /// `latency-monitor-threshold` in ticks; `u64::MAX` when nothing is watched.
    pub(crate) latency_ticks: u64,
    /// The clock when the last command of the window ended and the next one began: one reading serves both.
    pub(crate) ticks: u64,
    /// The words of an inline command that used quotes.
    unquoted: Vec<u8>,
    spans: Vec<Span>,
    window: Vec<Parsed>,
    pub(crate) stop: bool,
}

impl Worker {
    pub fn new(shared: &'static Shared, engine: Engine, reactor: Reactor, config: Arc<Config>) -> Self {
        let parse_limits = parse_limits(&config);
        let commandlog = CommandLog::new(&config);
        let default_user = Arc::clone(crate::rights::lock(&shared.users).default_user());
        let latency_ticks = latency_ticks(&config);
        Self {
            shared,
            engine,
            reactor,
            now_ms: clock::unix_ms(),
            default_user,
            config,
            parse_limits,
            connections: Vec::new(),
            background: Background::default(),
            pause: Pause::default(),
            subscriptions: Local::default(),
            broadcasts: Vec::new(),
            told: Vec::new(),
            deadlines: Deadlines::default(),
            room: Room::default(),
            scripts: crate::scripts::Local::default(),
            libraries: Arc::default(),
            spare: None,
            postponed: VecDeque::new(),
            gathered: VecDeque::new(),
            postponed_mail: Vec::new(),
            listeners: Tokens::default(),
            reply: Reply::default(),
            command_mark: Reply::default().mark(),
            command_bytes: 0,
            commandlog,
            latency_ticks,
            ticks: 0,
            unquoted: Vec::new(),
            spans: Vec::new(),
            window: Vec::new(),
            stop: false,
        }
    }

    /// Works with other settings from now on.
    pub fn configure(&mut self, config: Arc<Config>) {
        self.parse_limits = parse_limits(&config);
        self.commandlog.configure(&config);
        self.latency_ticks = latency_ticks(&config);
        self.engine.surroundings.settings = Arc::new(settings(&config));
        self.config = config;
    }

    /// Number of threads of the server.
    pub fn threads(&self) -> u16 {
        u16::try_from(self.shared.peers.len()).expect("there are fewer than 65,536 threads")
    }

    /// This thread's number.
    pub fn id(&self) -> u16 {
        self.engine.thread
    }

    /// What this thread counts.
    pub fn stats(&self) -> &ThreadStats {
        &self.me().stats
    }

    pub(crate) fn me(&self) -> &Peer {
        &self.shared.peers[usize::from(self.engine.thread)]
    }

    /// Every connection of this thread but the one whose command runs now.
    pub fn connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.connections.iter_mut().filter_map(|slot| slot.as_deref_mut())
    }

    /// Serves until told to stop.
    pub fn run(&mut self) -> std::io::Result<()> {
        while !self.stop {
            let timeout = self.timeout();
            self.reactor.turn(timeout)?;
            self.me().mailbox.awake();
            let started = clock::ticks();
            self.now_ms = clock::unix_ms();
            self.engine.surroundings.now_ms = self.now_ms;
            while let Some(event) = self.next_event() {
                self.event(event);
            }
            self.read_mail();
            self.engine.drain_duty();
            self.end_waits();
            crate::background::run(self);
            crate::scripts::write_lines();
            self.publish_counters();
            self.stats().eventloop_turns.add(1);
            self.stats().eventloop_ticks.add(clock::ticks().wrapping_sub(started));
        }
        // Other threads may still wait for what was posted to the shards that this one holds.
        while self.engine.has_duty() {
            self.engine.drain_duty();
        }
        self.wind_down()
    }

    /// Lets others see what the engine has counted.
    fn publish_counters(&self) {
        let (counters, stats) = (&self.engine.counters, self.stats());
        stats.keyspace_hits.set(counters.keyspace_hits);
        stats.keyspace_misses.set(counters.keyspace_misses);
        stats.expired_keys.set(counters.expired_keys);
        stats.expired_fields.set(counters.expired_fields);
        stats.evicted_keys.set(counters.evicted_keys);
    }

    /// How long the loop may wait for events: not at all while there is something to do. Announces the sleep, so that whoever
    /// sends a message from now on wakes this thread.
    fn timeout(&mut self) -> Option<Duration> {
        let postponed = !self.postponed.is_empty() || !self.postponed_mail.is_empty();
        if self.engine.has_duty() || postponed || !self.me().mailbox.prepare_sleep() {
            return Some(Duration::ZERO);
        }
        let pause_ms = self.pause.until_ms.saturating_sub(self.now_ms);
        let until_pause_ends = if pause_ms == 0 { Duration::MAX } else { Duration::from_millis(pause_ms) };
        let until_wait_ends = Duration::from_millis(self.deadlines.first_ms().saturating_sub(self.now_ms));
        Some(self.background.wait().min(until_pause_ends).min(until_wait_ends))
    }

    fn next_event(&mut self) -> Option<Event> {
        self.postponed.pop_front().or_else(|| self.gathered_event())
    }

    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Accepted { listener, socket } => crate::accept::accepted(self, listener, socket),
            Event::Data { conn, input } => self.data(conn, &input),
            Event::Closed { conn, error } => self.closed(conn, error.is_some()),
            Event::Drained { conn } => self.drained(conn),
            Event::Woken => {}
            Event::AcceptFailed { error, .. } => log::warn!("Accepting a connection failed: {error}"),
        }
    }

    /// Bytes from a client.
    fn data(&mut self, id: ConnId, input: &[u8]) {
        let Some(mut connection) = self.take(id) else { return };
        connection.client.bytes_in += input.len() as u64;
        self.stats().net_input.add(input.len() as u64);
        self.stats().reads_processed.add(1);
        if connection.closing {
            return self.put_back(connection);
        }
        if connection.waiting.is_some() || !connection.input.is_empty() {
            connection.input.extend_from_slice(input);
            if connection.waiting.is_none() {
                self.advance(&mut connection);
            } else {
                self.check_query_buffer(&mut connection);
            }
        } else {
            let consumed = self.process(&mut connection, input);
            if consumed < input.len() && !connection.closing {
                gather(&mut connection, &input[consumed..]);
                self.check_query_buffer(&mut connection);
            }
        }
        self.put_back(connection);
    }

    /// Runs what a connection has gathered.
    pub(crate) fn advance(&mut self, connection: &mut Connection) {
        if connection.waiting.is_some() || connection.closing {
            return;
        }
        let mut input = std::mem::take(&mut connection.input);
        let consumed = self.process(connection, &input);
        if connection.closing || consumed == input.len() {
            input.clear();
        } else {
            input.drain(..consumed);
        }
        if input.is_empty() {
            // An idle connection owns no buffer.
            return self.finish_if_eof(connection);
        }
        connection.input = input;
        self.check_query_buffer(connection);
        self.finish_if_eof(connection);
    }

    /// A client whose input ended is closed once everything whole that it sent has been answered.
    fn finish_if_eof(&mut self, connection: &mut Connection) {
        if connection.eof && connection.waiting.is_none() {
            connection.closing = true;
        }
    }

    /// Parses and runs commands from `buffer` until it ends, or the connection must wait or close. Gives the number of bytes
    /// consumed.
    fn process(&mut self, connection: &mut Connection, buffer: &[u8]) -> usize {
        let mut consumed = 0;
        let mut spans = std::mem::take(&mut self.spans);
        let mut window = std::mem::take(&mut self.window);
        let mut reply = std::mem::replace(&mut self.reply, Reply::new(connection.client.proto));
        reply.proto = connection.client.proto;
        while consumed < buffer.len() && connection.waiting.is_none() && !connection.closing {
            let rest = &buffer[consumed..];
            spans.clear();
            window.clear();
            let parsed = self.parse_window(connection, rest, &mut spans, &mut window);
            self.prefetch(connection, rest, &spans, &mut window);
            let done = self.run_window(connection, rest, &spans, &window, &mut reply);
            consumed += done;
            if window.last().is_some_and(|last| last.end != done) {
                // What was parsed behind the last command that ran will be parsed again, from the beginning of a command.
                connection.partial = Partial::default();
            }
            match parsed {
                Ok(true) => {}
                Ok(false) => {
                    let all = window.last().map_or(0, |last| last.end);
                    if done == all {
                        break;
                    }
                }
                Err(error)
                    if window.last().is_none_or(|last| last.end == done) && connection.waiting.is_none() =>
                {
                    self.protocol_error(connection, &error, &mut reply);
                }
                Err(_) => {}
            }
        }
        self.flush(connection, &mut reply);
        self.reply = reply;
        self.spans = spans;
        self.window = window;
        consumed
    }

    /// Parses up to a window of commands. True: there may be more behind them; false: the rest is no whole command.
    fn parse_window(
        &mut self,
        connection: &mut Connection,
        buffer: &[u8],
        spans: &mut Vec<Span>,
        window: &mut Vec<Parsed>,
    ) -> Result<bool, resp::ProtocolError> {
        let mut at = 0;
        self.parse_limits.authenticated = connection.client.authenticated;
        while at < buffer.len() && window.len() < WINDOW {
            let first = spans.len();
            match resp::parse(&buffer[at..], &mut connection.partial, spans, &self.parse_limits)? {
                None => return Ok(false),
                Some(taken) => {
                    let unquoted = connection.partial.take_unquoted();
                    if unquoted.is_none() {
                        let offset = u32::try_from(at).expect("a query buffer is below 4 GiB");
                        spans[first..].iter_mut().for_each(|span| span.start += offset);
                    }
                    at += taken;
                    window.push(Parsed {
                        spans_start: u32::try_from(first).expect("fewer words than bytes"),
                        spans_len: u32::try_from(spans.len() - first).expect("fewer words than bytes"),
                        end: at,
                        hint: None,
                        entry: None,
                    });
                    if let Some(unquoted) = unquoted {
                        // The words of this command stand in a buffer of their own: it ends the window.
                        self.unquoted = unquoted;
                        return Ok(true);
                    }
                }
            }
        }
        Ok(at < buffer.len())
    }

    /// First pass over a window: hash the keys and ask for their memory, so that the misses overlap.
    fn prefetch(&mut self, connection: &Connection, buffer: &[u8], spans: &[Span], window: &mut [Parsed]) {
        let layout = self.engine.surroundings.layout;
        let db = connection.client.db;
        let in_buffer = window.len() - usize::from(!self.unquoted.is_empty());
        for parsed in &mut window[..in_buffer] {
            let args = parsed.args(buffer, spans);
            parsed.entry = args.get(0).and_then(|name| self.shared.table.find(name));
            let Some(entry) = parsed.entry else { continue };
            let at = entry.only_key.max(entry.script_key);
            if at == 0 || at >= args.len() {
                continue;
            }
            let key = layout.key(&args[at]);
            parsed.hint = Some((at, key.hash, key.shard));
            self.engine.prefetch_bucket(key.shard, db, key.hash);
        }
        if window.len() < 2 {
            // The command itself comes next: nothing would overlap.
            return;
        }
        let mut overflowing = 0_u64;
        for (at, parsed) in window.iter().enumerate() {
            let Some((_, hash, shard)) = parsed.hint else { continue };
            overflowing |= u64::from(self.engine.prefetch_entry(shard, db, hash)) << at;
        }
        while overflowing != 0 {
            let at = overflowing.trailing_zeros() as usize;
            overflowing &= overflowing - 1;
            if let Some((_, hash, shard)) = window[at].hint {
                self.engine.prefetch_overflow(shard, db, hash);
            }
        }
    }

    /// Runs the commands of a window in order. Gives the bytes of those that were consumed.
    fn run_window(
        &mut self,
        connection: &mut Connection,
        buffer: &[u8],
        spans: &[Span],
        window: &[Parsed],
        reply: &mut Reply,
    ) -> usize {
        let mut done = 0;
        self.ticks = clock::ticks();
        let unquoted = std::mem::take(&mut self.unquoted);
        for (index, parsed) in window.iter().enumerate() {
            let alone = !unquoted.is_empty() && index + 1 == window.len();
            let args = parsed.args(if alone { &unquoted } else { buffer }, spans);
            if !args.is_empty() {
                if self.must_pause(connection, args) {
                    break;
                }
                self.command_bytes = (parsed.end - done) as u64;
                // A command whose words were quoted was not looked at by the first pass.
                let found = parsed.entry.or_else(|| self.shared.table.find(&args[0]));
                self.command(connection, found, args, parsed.hint, reply);
            }
            done = parsed.end;
            if reply.bytes.len() >= REPLY_CHUNK || !reply.shared.is_empty() {
                self.flush(connection, reply);
            }
            if connection.waiting.is_some() || connection.closing {
                break;
            }
        }
        done
    }
}

/// Keeps bytes that are no whole command yet. Room is made for the whole word that is arriving, in bounded steps: its length is only
/// the client's claim.
fn gather(connection: &mut Connection, bytes: &[u8]) {
    let wanted = connection.partial.bytes_wanted().min(GATHER_STEP);
    connection.input.reserve(bytes.len() + wanted);
    connection.input.extend_from_slice(bytes);
}

/// Bytes reserved ahead for a word that is arriving.
const GATHER_STEP: usize = 1 << 20;

/// From how many ticks on a command counts as a slow event.
fn latency_ticks(config: &Config) -> u64 {
    match config.latency_monitor_threshold_ms {
        0 => u64::MAX,
        ms => clock::ns_to_ticks(ms.saturating_mul(1_000_000)),
    }
}

/// What a client may send, by the settings.
fn parse_limits(config: &Config) -> ParseLimits {
    ParseLimits { bulk_len_max: config.proto_max_bulk_len, ..ParseLimits::default() }
}

/// What command functions look at, by the settings.
pub fn settings(config: &Config) -> Settings {
    Settings {
        proto_max_bulk_len: config.proto_max_bulk_len,
        policy: Policy::named(config.maxmemory_policy).expect("the configuration knows the policies"),
        lfu_log_factor: config.lfu_log_factor,
        lfu_decay_time: config.lfu_decay_time,
        lazyfree_user_flush: config.lazyfree_lazy_user_flush,
        notify: config.notify_keyspace_events.told(),
        tracking_keys_max: config.tracking_table_max_keys,
        limits: config.limits,
    }
}
