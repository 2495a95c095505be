//! One run of a script, from the client's words to the reply: alone, or between MULTI and EXEC.
//!
//! HOT: [`evaluate`] of a script that this thread has met, on free shards.

use std::cell::RefCell;
use std::sync::Arc;

use ::scripts::{Flags as ScriptFlags, Level, Library as LibraryCode, Ran as Ended, Vm};
use command::{Begin, CommandError, Find, Flags, KeyFlags, KeySpec};
use reactor::clock;
use resp::{Args, OwnedArgs, Reply};
use router::engine::Ran;
use router::script::{Inside, Program};
use router::table::Entry;
use router::task::Queued;
use shard::ShardId;
use shard::plan::Plan;

use super::cache::{Mine, Reach, digest};
use super::host::{Host, Scratch};
use crate::client::Client;
use crate::connection::Waiting;
use crate::describe::Sizes;
use crate::functions::{Function, Library};
use crate::shared::Shared;
use crate::worker::{Cx, Flow, SessionRun, Worker};

const NO_SCRIPT: CommandError = CommandError::fixed("NOSCRIPT No matching script.");
const NO_FUNCTION: CommandError = CommandError::fixed("ERR Function not found");
const BAD_COUNT: CommandError = CommandError::fixed("ERR Bad number of keys provided");
const NEEDS_READ_ONLY: CommandError =
    CommandError::fixed("ERR Can not execute a script with write flag using *_ro command.");
/// The keys that a script declares: word 2 says how many follow it.
pub(crate) const KEYS: &[KeySpec] = &[KeySpec {
    begin: Begin::Index(2),
    find: Find::Count { count_at: 0, first: 1, step: 1 },
    flags: KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE),
    notes: "",
}];

/// The first word after the number of keys.
const FIRST_KEY: usize = 3;

/// What is known of a run besides its script and its words.
#[derive(Clone)]
pub(super) struct Facts {
    /// EVAL_RO and the like.
    pub read_only: bool,
    /// There was no room for a write when it began.
    pub out_of_memory: bool,
    pub is_function: bool,
    /// `busy-reply-threshold` in ticks.
    pub slow_ticks: u64,
    /// The client tracks what it reads; the number of its command.
    pub tracked: Option<u32>,
    /// What the client may do, unless that is everything.
    pub rights: Option<Arc<Rights>>,
    keys: usize,
}

/// A user who may not do everything, and what ACL LOG tells of the client.
pub(super) struct Rights {
    pub user: Arc<acl::User>,
    pub client: Vec<u8>,
    pub log_len_max: usize,
}

/// A virtual machine with what a run needs beside it.
#[derive(Default)]
struct Machine {
    vm: Vm,
    scratch: Scratch,
}

thread_local! {
    /// The thread's virtual machine; none while a script runs, and before the first one.
    static MACHINE: RefCell<Option<Box<Machine>>> = const { RefCell::new(None) };
    /// What scripts have to say to the log, until no shard is held.
    static LINES: RefCell<Vec<(Level, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// Lines of scripts that wait to be written to the log; what is more is dropped.
const LINES_MAX: usize = 10_000;

fn with_machine<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    let mut machine = MACHINE.take().unwrap_or_default();
    let result = f(&mut machine);
    machine.scratch.trim();
    MACHINE.set(Some(machine));
    result
}

/// Bytes of the virtual machine of this thread.
pub(crate) fn machine_bytes() -> u64 {
    MACHINE.with_borrow_mut(|machine| machine.as_mut().map_or(0, |machine| machine.vm.memory_bytes() as u64))
}

/// Keeps a line for the log.
pub(super) fn keep_line(level: Level, message: &[u8]) {
    LINES.with_borrow_mut(|lines| {
        if lines.len() < LINES_MAX {
            lines.push((level, message.to_vec()));
        }
    });
}

/// Writes what scripts had to say to the log. No shard may be held.
pub(crate) fn write_lines() {
    let lines = LINES.take();
    for (level, message) in lines {
        let text = String::from_utf8_lossy(&message);
        match level {
            Level::Debug => log::trace!("{text}"),
            Level::Verbose => log::debug!("{text}"),
            Level::Notice => log::info!("{text}"),
            Level::Warning => log::warn!("{text}"),
        }
    }
}

/// How a command names what it runs, in word 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Source,
    Digest,
    Function,
}

/// What is run.
#[derive(Clone)]
enum Code {
    Script(Arc<Mine>),
    Function(Arc<Function>),
}

impl Code {
    fn flags(&self) -> ScriptFlags {
        match self {
            Code::Script(mine) => mine.known.script.flags,
            Code::Function(function) => function.flags,
        }
    }

    fn reach(&self) -> &Reach {
        match self {
            Code::Script(mine) => &mine.reach,
            Code::Function(function) => &function.reach,
        }
    }
}

/// A script about to run, with the client's words.
struct Run<'a> {
    shared: &'static Shared,
    code: &'a Code,
    args: Args<'a>,
    facts: Facts,
    /// It begins with fewer shards than there are.
    reaches_out: bool,
    /// Sees to the other connections of the thread if it runs for too long.
    stand_in: Option<&'a mut Worker>,
}

/// The same, on its own.
struct Travelling {
    shared: &'static Shared,
    code: Code,
    args: OwnedArgs,
    facts: Facts,
}

impl Run<'_> {
    fn own(self) -> Box<dyn Program + Send> {
        let Run { shared, code, args, facts, .. } = self;
        Box::new(Travelling { shared, code: code.clone(), args: OwnedArgs::from(args), facts })
    }
}

impl Program for Run<'_> {
    fn run(&mut self, inside: &mut Inside<'_, '_>, reply: &mut Reply) {
        play(self, inside, reply);
        if self.reaches_out {
            self.code.reach().ran(inside.wants_all());
        }
    }
}

impl Program for Travelling {
    fn run(&mut self, inside: &mut Inside<'_, '_>, reply: &mut Reply) {
        let Travelling { shared, code, args, facts } = self;
        let facts = facts.clone();
        let mut run = Run { shared, code, args: args.as_args(), facts, reaches_out: false, stand_in: None };
        play(&mut run, inside, reply);
    }
}

/// Runs a script in the virtual machine of this thread.
fn play(run: &mut Run<'_>, inside: &mut Inside<'_, '_>, reply: &mut Reply) {
    let (mut few_keys, mut few_argv) = ([&[] as &[u8]; FEW], [&[] as &[u8]; FEW]);
    let (mut many_keys, mut many_argv) = (Vec::new(), Vec::new());
    let keys = run.args.from(FIRST_KEY).first(run.facts.keys);
    let keys = gather(keys, &mut few_keys, &mut many_keys);
    let argv = gather(run.args.from(FIRST_KEY + run.facts.keys), &mut few_argv, &mut many_argv);
    let (ended, host_messages, lines) = with_machine(|machine| {
        let mut host = Host {
            shared: run.shared,
            facts: &run.facts,
            flags: run.code.flags(),
            args: run.args,
            inside,
            scratch: &mut machine.scratch,
            messages: Vec::new(),
            lines: Vec::new(),
            started: clock::ticks(),
            wrote: false,
            slow: None,
            stand_in: run.stand_in.as_deref_mut(),
            stood_in: 0,
        };
        let vm = &mut machine.vm;
        let ended = match run.code {
            Code::Script(mine) => vm.run(&mine.known.script, keys, argv, &mut host, reply),
            Code::Function(function) => {
                vm.call((&function.code, &function.name), keys, argv, &mut host, reply)
            }
        };
        if let Some(slow) = host.slow.take() {
            host.shared.busy.end(&slow);
        }
        (ended, std::mem::take(&mut host.messages), std::mem::take(&mut host.lines))
    });
    if inside.is_taken() {
        return;
    }
    if ended == Ended::Stopped {
        reply.error("ERR the script was stopped");
    }
    for (level, line) in lines {
        keep_line(level, &line);
    }
    for (kind, channel, payload) in host_messages {
        run.shared.publish(kind, &channel, &payload);
    }
}

/// Words that are gathered without an allocation.
const FEW: usize = 8;

fn gather<'v, 'a>(
    args: Args<'a>,
    few: &'v mut [&'a [u8]; FEW],
    many: &'v mut Vec<&'a [u8]>,
) -> &'v [&'a [u8]] {
    if args.len() > FEW {
        many.extend(args.iter());
        return many;
    }
    few.iter_mut().zip(args.iter()).for_each(|(place, word)| *place = word);
    &few[..args.len()]
}

/// Whether a command runs a script: then it is executed with the data commands of an EXEC.
pub(crate) fn is_script(entry: &Entry<SessionRun>) -> bool {
    matches!(entry.spec.name, "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO")
}

/// How many keys the words declare.
fn key_count(args: Args<'_>, bad: CommandError) -> Result<usize, CommandError> {
    let count = stdx::num::parse_i64(&args[2]).ok_or(bad)?;
    let count =
        usize::try_from(count).map_err(|_| CommandError::fixed("ERR Number of keys can't be negative"))?;
    if count > args.len() - FIRST_KEY {
        return Err(CommandError::fixed("ERR Number of keys can't be greater than number of args"));
    }
    Ok(count)
}

impl Worker {
    /// The script that a command means, compiled if it is new. The error is a RESP error.
    fn script(&mut self, args: Args<'_>, by_sha: bool) -> Result<Arc<Mine>, Vec<u8>> {
        let now = clock::ticks();
        let shared = self.shared;
        if by_sha {
            let sha = digest(&args[1]).ok_or_else(|| NO_SCRIPT.text().as_bytes().to_vec())?;
            return self
                .scripts
                .by_sha(&shared.scripts, &sha, now)
                .ok_or_else(|| NO_SCRIPT.text().as_bytes().to_vec());
        }
        let source = &args[1];
        let hash = stdx::hash::hash64(shared.layout.seed, source);
        if let Some(mine) = self.scripts.by_source(hash, source, now) {
            return Ok(mine);
        }
        let script = with_machine(|machine| machine.vm.check(source))?;
        let known = shared.scripts.add(script, false, now);
        let sha = known.script.sha;
        let mine =
            self.scripts.by_sha(&shared.scripts, &sha, now).unwrap_or_else(|| self.scripts.learn(known));
        self.scripts.learn_source(hash, &mine);
        Ok(mine)
    }

    /// What a command runs, and how. The error is a RESP error.
    fn prepare(
        &mut self,
        client: &Client,
        args: Args<'_>,
        by: By,
        read_only: bool,
    ) -> Result<(Code, Facts), Vec<u8>> {
        let error = |error: CommandError| error.text().as_bytes().to_vec();
        let (code, keys) = if by == By::Function {
            let function = self.function(&args[1]).map_err(error)?;
            (Code::Function(function), key_count(args, BAD_COUNT).map_err(error)?)
        } else {
            let keys = key_count(args, CommandError::NOT_AN_INTEGER).map_err(error)?;
            (Code::Script(self.script(args, by == By::Digest)?), keys)
        };
        let facts = self.facts(client, &code, keys, read_only).map_err(error)?;
        Ok((code, facts))
    }

    /// The function that a command means.
    fn function(&mut self, name: &[u8]) -> Result<Arc<Function>, CommandError> {
        let before = self.libraries.version;
        self.shared.functions.refresh(&mut self.libraries);
        if self.libraries.version != before {
            let libraries = &self.libraries;
            with_machine(|machine| {
                machine.vm.keep_libraries(libraries.version, libraries.iter().map(|library| &*library.code));
            });
        }
        self.libraries.function(name).cloned().ok_or(NO_FUNCTION)
    }

    /// FUNCTION LOAD: what a library registers, tried in the virtual machine of this thread.
    pub(crate) fn load_library(&mut self, code: LibraryCode) -> Result<Arc<Library>, Vec<u8>> {
        let code = Arc::new(code);
        let registered = with_machine(|machine| {
            let registered = machine.vm.load(&code, &mut |level, line| keep_line(level, line));
            machine.vm.unload(&code);
            registered
        })?;
        Library::new(code, registered)
    }

    /// SCRIPT LOAD.
    pub(crate) fn load_script(&mut self, source: &[u8]) -> Result<[u8; 40], Vec<u8>> {
        let script = with_machine(|machine| machine.vm.check(source))?;
        Ok(self.shared.scripts.add(script, true, clock::ticks()).script.sha)
    }

    /// What is known of a run, if it may begin.
    fn facts(
        &mut self,
        client: &Client,
        code: &Code,
        keys: usize,
        read_only: bool,
    ) -> Result<Facts, CommandError> {
        let flags = code.flags();
        let is_function = matches!(code, Code::Function(_));
        if read_only && !flags.has(ScriptFlags::COMPATIBILITY) && !flags.has(ScriptFlags::NO_WRITES) {
            return Err(NEEDS_READ_ONLY);
        }
        let out_of_memory = self.config.maxmemory != 0 && self.make_room(0).is_err();
        let may_run = [ScriptFlags::COMPATIBILITY, ScriptFlags::ALLOW_OOM, ScriptFlags::NO_WRITES];
        if out_of_memory && !may_run.iter().any(|flag| flags.has(*flag)) {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        let slow_ms = self.config.busy_reply_threshold_ms;
        let slow_ticks =
            if slow_ms == 0 { u64::MAX } else { clock::ns_to_ticks(slow_ms.saturating_mul(1_000_000)) };
        let tracked = client.caching(Flags::READONLY, KEYS).map(|caching| caching.command);
        let rights = (!client.user.unrestricted).then(|| {
            let client_line = crate::describe::line(client, Sizes::default(), self.now_ms, "eval");
            let user = Arc::clone(&client.user);
            Arc::new(Rights { user, client: client_line, log_len_max: self.config.acllog_max_len })
        });
        Ok(Facts { read_only, out_of_memory, is_function, slow_ticks, tracked, rights, keys })
    }
}

/// EVAL, FCALL and the like.
pub(crate) fn evaluate(
    cx: &mut Cx<'_>,
    args: Args<'_>,
    by: By,
    read_only: bool,
    reply: &mut Reply,
) -> Result<Flow, CommandError> {
    let worker = &mut *cx.worker;
    let (code, facts) = match worker.prepare(cx.client, args, by, read_only) {
        Ok(prepared) => prepared,
        Err(text) => {
            reply.error_bytes(&text);
            return Ok(Flow::Done);
        }
    };
    let shared = worker.shared;
    let with_all = code.reach().begins_with_all();
    let ids: Vec<ShardId> =
        if with_all { (0..=shared.layout.mask).collect() } else { worker.engine.shards_of_words(KEYS, args) };
    worker.engine.surroundings.touch = !cx.client.no_touch;
    let mut engine = worker.lend_engine();
    let run = Run { shared, code: &code, args, facts, reaches_out: !with_all, stand_in: Some(&mut *worker) };
    let ran = engine.run_script((cx.ticket.connection, cx.client.db), run, Run::own, &ids, reply);
    engine.recycle(ids);
    worker.return_engine(engine);
    match ran {
        Ran::Done | Ran::Failed => Ok(Flow::Done),
        Ran::Waits(_) => panic!("a script does not wait"),
        Ran::Posted => {
            let number = usize::from(cx.client.last_command.unwrap_or_default());
            Ok(cx.wait_for(Waiting::Task { number, ticks: clock::ticks() }))
        }
    }
}

/// A script that cannot run, in its place among the commands of an EXEC.
struct Refusal(Vec<u8>);

impl Program for Refusal {
    fn run(&mut self, _: &mut Inside<'_, '_>, reply: &mut Reply) {
        reply.error_bytes(&self.0);
    }
}

/// A script between MULTI and EXEC. It runs with all shards, so that nothing of the transaction ever has to be undone.
pub(crate) fn queued(
    (worker, client): (&mut Worker, &Client),
    entry: &Entry<SessionRun>,
    args: &OwnedArgs,
    db: u16,
) -> Queued {
    let words = args.as_args();
    let (by, read_only) = match entry.spec.name {
        "EVALSHA" => (By::Digest, false),
        "EVALSHA_RO" => (By::Digest, true),
        "EVAL_RO" => (By::Source, true),
        "FCALL" => (By::Function, false),
        "FCALL_RO" => (By::Function, true),
        _ => (By::Source, false),
    };
    let program: Box<dyn Program + Send> = match worker.prepare(client, words, by, read_only) {
        Ok((code, facts)) => Box::new(Travelling { shared: worker.shared, code, args: args.clone(), facts }),
        Err(text) => Box::new(Refusal(text)),
    };
    Queued { plan: Plan::Container, args: args.clone(), db, caching: None, program: Some(program) }
}
