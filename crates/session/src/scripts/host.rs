//! What a script may do: each `redis.call` is looked up, checked, and run in the shards that the script holds.
//!
//! HOT: `call`; no lock, no syscall, no log line.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ::scripts::{Called, Flags as ScriptFlags, Level, Poll};
use command::{CommandError, Flags};
use reactor::clock;
use resp::{Args, Reply, Span};
use router::outbound::Caching;
use router::script::{Inside, Refused};
use router::table::{Entry, Run as HowToRun};

use super::busy::{FUNCTION_KILLED, KILLED, Running, Slow};
use super::run::{Facts, Rights};
use crate::pubsub::Kind;
use crate::rights::Context;
use crate::rights::log::Incident;
use crate::shared::Shared;
use crate::worker::{SessionRun, Worker};

const UNKNOWN: CommandError = CommandError::fixed("ERR Unknown command called from script");
const WRONG_COUNT: CommandError = CommandError::fixed("ERR Wrong number of args calling command from script");
const NOT_FROM_SCRIPT: CommandError =
    CommandError::fixed("ERR This Valkey command is not allowed from script");
const READ_ONLY: CommandError =
    CommandError::fixed("ERR Write commands are not allowed from read-only scripts.");

/// What a read-only script may not call although it is no write: replicas hear of it.
const MAY_REPLICATE: [&str; 3] = ["PUBLISH", "SPUBLISH", "PFCOUNT"];

/// The words of a command, put together for its function. Kept with the virtual machine.
#[derive(Default)]
pub(super) struct Scratch {
    buffer: Vec<u8>,
    spans: Vec<Span>,
}

/// Bytes of a scratch buffer that are kept from one script to the next.
const SCRATCH_KEPT_MAX: usize = 64 << 10;

impl Scratch {
    /// Gives back what a large command has needed.
    pub(super) fn trim(&mut self) {
        if self.buffer.capacity() > SCRATCH_KEPT_MAX {
            *self = Self::default();
        }
    }

    fn args(&mut self, words: &[&[u8]]) -> Option<Args<'_>> {
        self.buffer.clear();
        self.spans.clear();
        for word in words {
            let (start, len) = (u32::try_from(self.buffer.len()).ok()?, u32::try_from(word.len()).ok()?);
            self.spans.push(Span { start, len });
            self.buffer.extend_from_slice(word);
        }
        Some(Args::new(&self.buffer, &self.spans))
    }
}

/// A message, its channel and what kind of channel that is.
pub(super) type Message = (Kind, Box<[u8]>, Box<[u8]>);

/// One run of a script.
pub(super) struct Host<'h, 'a, 'x> {
    pub shared: &'static Shared,
    pub facts: &'h Facts,
    pub flags: ScriptFlags,
    /// The client's words.
    pub args: Args<'h>,
    pub inside: &'h mut Inside<'a, 'x>,
    pub scratch: &'h mut Scratch,
    /// Messages that leave when the script has ended: one that is undone sends none.
    pub messages: Vec<Message>,
    pub lines: Vec<(Level, Vec<u8>)>,
    /// `clock::ticks` when it began.
    pub started: u64,
    pub wrote: bool,
    pub slow: Option<Arc<Slow>>,
    pub stand_in: Option<&'h mut Worker>,
    /// `clock::ticks` when it last stood in.
    pub stood_in: u64,
}

/// How often a thread sees to its other connections while a script runs for too long: every ms.
const STAND_IN_NS: u64 = 1_000_000;

impl Host<'_, '_, '_> {
    fn run(&mut self, words: &[&[u8]], reply: &mut Reply) -> Result<(), Refused> {
        let mut scratch = std::mem::take(self.scratch);
        let result = match scratch.args(words) {
            Some(args) => self.run_words(args, reply),
            None => Err(CommandError::SYNTAX.into()),
        };
        *self.scratch = scratch;
        result
    }

    fn run_words(&mut self, args: Args<'_>, reply: &mut Reply) -> Result<(), Refused> {
        let found = self.shared.table.find(&args[0]).ok_or(UNKNOWN)?;
        let entry = match router::table::Table::resolve_found(Some(found), args) {
            Ok(entry) => entry,
            Err(error) if error.text().starts_with("ERR wrong number") => return Err(WRONG_COUNT.into()),
            Err(error) => return Err(error.into()),
        };
        self.admit(entry, args)?;
        match &entry.run {
            HowToRun::Data(plan) => {
                let tracked = self.facts.tracked.filter(|_| entry.spec.flags.has(Flags::READONLY));
                let caching = tracked.map(|command| Caching { command, keys: entry.spec.keys });
                self.inside.call((entry.spec, plan), args, caching, reply)
            }
            HowToRun::Session(_) => Ok(self.run_session(entry, args, reply)?),
        }
    }

    /// What speaks against a command.
    fn admit(&mut self, entry: &Entry<SessionRun>, args: Args<'_>) -> Result<(), CommandError> {
        let flags = entry.spec.flags;
        if flags.has(Flags::NOSCRIPT) {
            return Err(NOT_FROM_SCRIPT);
        }
        if let Some(rights) = &self.facts.rights {
            self.check_rights(rights, entry, args)?;
        }
        let read_only = self.facts.read_only || self.flags.has(ScriptFlags::NO_WRITES);
        if read_only && (flags.has(Flags::WRITE) || MAY_REPLICATE.contains(&entry.spec.name)) {
            return Err(READ_ONLY);
        }
        if flags.has(Flags::WRITE) {
            if self.facts.out_of_memory
                && flags.has(Flags::DENYOOM)
                && !self.wrote
                && !self.flags.has(ScriptFlags::ALLOW_OOM)
            {
                return Err(CommandError::OUT_OF_MEMORY);
            }
            if !self.wrote {
                self.wrote = true;
                self.slow.iter().for_each(|slow| slow.writes());
            }
        }
        Ok(())
    }

    #[cold]
    fn check_rights(
        &self,
        rights: &Rights,
        entry: &Entry<SessionRun>,
        args: Args<'_>,
    ) -> Result<(), CommandError> {
        let catalog = &self.shared.catalog;
        let Err(denied) = catalog.check(&rights.user, entry.number, args, self.inside.db()) else {
            return Ok(());
        };
        let incident = Incident {
            reason: denied.reason.name(),
            context: Context::Script.name(),
            object: catalog.object(denied, args),
            username: &rights.user.name,
        };
        let text = catalog.error(&rights.user, denied);
        if matches!(denied.reason, acl::Reason::SortOption(_)) {
            return Err(CommandError::new(text));
        }
        let mut log = self.shared.acl_log.lock().unwrap_or_else(PoisonError::into_inner);
        log.add(incident, rights.client.clone(), self.inside.now_ms(), rights.log_len_max);
        let text = text.strip_prefix("NOPERM ").unwrap_or(&text);
        Err(CommandError::new(format!("ERR ACL failure in script: {text}")))
    }

    /// The few commands about the connection and the server that make sense inside.
    fn run_session(
        &mut self,
        entry: &Entry<SessionRun>,
        args: Args<'_>,
        reply: &mut Reply,
    ) -> Result<(), CommandError> {
        match entry.spec.name {
            "PING" if args.len() > 2 => {
                return Err(CommandError::fixed("ERR wrong number of arguments for 'ping' command"));
            }
            "PING" => match args.get(1) {
                Some(text) => reply.bulk(text),
                None => reply.simple("PONG"),
            },
            "ECHO" => reply.bulk(&args[1]),
            "SELECT" => {
                let db = stdx::num::parse_i64(&args[1]).ok_or(CommandError::NOT_AN_INTEGER)?;
                let db = u16::try_from(db).ok().filter(|db| *db < self.inside.databases());
                self.inside.select(db.ok_or(CommandError::DB_OUT_OF_RANGE)?);
                reply.ok();
            }
            "TIME" => {
                let now_us = clock::unix_us();
                reply.array(2);
                reply.bulk_int((now_us / 1_000_000) as i64);
                reply.bulk_int((now_us % 1_000_000) as i64);
            }
            "PUBLISH" => self.publish(Kind::Channel, args, reply),
            "SPUBLISH" => self.publish(Kind::ShardChannel, args, reply),
            "LASTSAVE" => reply.int((self.shared.start.unix_ms / 1000) as i64),
            // There are no replicas to wait for.
            "WAIT" => reply.int(0),
            _ => {
                return Err(CommandError::new(format!(
                    "ERR Darter does not run '{}' inside scripts",
                    entry.full_name
                )));
            }
        }
        Ok(())
    }

    fn publish(&mut self, kind: Kind, args: Args<'_>, reply: &mut Reply) {
        reply.int(self.shared.directory.receivers(kind, &args[1]).cast_signed());
        self.messages.push((kind, args[1].into(), args[2].into()));
    }
}

impl ::scripts::Host for Host<'_, '_, '_> {
    fn call(&mut self, words: &[&[u8]], reply: &mut Reply) -> Called {
        match self.run(words, reply) {
            Ok(()) => Called::Done,
            Err(Refused::Taken) => Called::Stop,
            Err(Refused::Error(error)) => {
                reply.error(error.text());
                Called::Done
            }
        }
    }

    fn acl_allows(&mut self, words: &[&[u8]]) -> Option<bool> {
        let mut scratch = Scratch::default();
        let args = scratch.args(words)?;
        let found = self.shared.table.find(&args[0])?;
        // As Valkey: whether there are enough words does not matter, but a subcommand must be one.
        let entry = match router::table::Table::resolve_found(Some(found), args) {
            Ok(entry) => entry,
            Err(_) if found.subcommands.is_empty() => found,
            Err(_) => return None,
        };
        let Some(rights) = &self.facts.rights else { return Some(true) };
        Some(self.shared.catalog.check(&rights.user, entry.number, args, self.inside.db()).is_ok())
    }

    fn log(&mut self, level: Level, message: &[u8]) {
        // A line of the log is a system call: it leaves when no shard is held.
        self.lines.push((level, message.to_vec()));
    }

    fn poll(&mut self) -> Poll {
        // Relaxed: the next question is not far.
        if self.shared.stopping.load(std::sync::atomic::Ordering::Relaxed) {
            return Poll::Kill("The server is stopping");
        }
        match &self.slow {
            None if clock::ticks().wrapping_sub(self.started) >= self.facts.slow_ticks => {
                let began = Instant::now() - Duration::from_nanos(clock::ticks_to_ns(self.facts.slow_ticks));
                let words = || self.args.iter().map(<[u8]>::to_vec).collect();
                let running = self.facts.is_function.then(|| Running { words: words(), began });
                self.slow = Some(self.shared.busy.begin(running, self.wrote));
                Poll::Go
            }
            Some(slow) if slow.is_killed() => {
                Poll::Kill(if self.facts.is_function { FUNCTION_KILLED } else { KILLED })
            }
            Some(_) => {
                let now = clock::ticks();
                if now.wrapping_sub(self.stood_in) >= clock::ns_to_ticks(STAND_IN_NS)
                    && let Some(worker) = &mut self.stand_in
                {
                    worker.stand_in();
                    self.stood_in = clock::ticks();
                }
                Poll::Go
            }
            None => Poll::Go,
        }
    }
}
