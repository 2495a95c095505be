//! EVAL and its like, SCRIPT. How scripts run: `crate::scripts`.

use command::{Begin, Categories, Command, CommandError, Find, Flags, Group, KeyFlags, KeySpec, Spec};
use resp::{Args, Reply};

use crate::scripts::{By, digest, evaluate};
use crate::worker::{Cx, Flow, SessionRun};

const EVAL: Flags = Flags::NOSCRIPT
    .with(Flags::STALE)
    .with(Flags::SKIP_MONITOR)
    .with(Flags::NO_MANDATORY_KEYS)
    .with(Flags::MOVABLEKEYS);
const EVAL_RO: Flags = EVAL.with(Flags::READONLY);
const CACHE: Flags = Flags::NOSCRIPT.with(Flags::STALE);

const WRITTEN: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE);
const READ: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);

/// Word 2 says how many keys follow it.
const fn keys(flags: KeyFlags, notes: &'static str) -> KeySpec {
    KeySpec { begin: Begin::Index(2), find: Find::Count { count_at: 0, first: 1, step: 1 }, flags, notes }
}

const fn row(
    name: &'static str,
    summary: &'static str,
    since: &'static str,
    flags: Flags,
    keys: &'static [KeySpec],
    syntax: &'static str,
    run: SessionRun,
) -> Command<SessionRun> {
    let spec = Spec {
        name,
        summary,
        complexity: "Depends on the script",
        since,
        group: Group::Scripting,
        arity: -3,
        flags,
        explicit: Categories::SCRIPTING,
        keys,
        tips: &[],
        syntax,
    };
    Command::new(spec, run)
}

const fn sub(
    name: &'static str,
    summary: &'static str,
    complexity: &'static str,
    since: &'static str,
    arity: i16,
    flags: Flags,
    run: SessionRun,
) -> Command<SessionRun> {
    let spec = Spec {
        name,
        summary,
        complexity,
        since,
        group: Group::Scripting,
        arity,
        flags,
        explicit: Categories::SCRIPTING,
        keys: &[],
        tips: &[],
        syntax: "",
    };
    Command::new(spec, run)
}

pub const ROWS: &[Command<SessionRun>] = &[
    row(
        "EVAL",
        "Runs a script.",
        "2.6.0",
        EVAL,
        &[keys(WRITTEN, "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")],
        "script:string numkeys:integer [key:key#0*] [arg:string*]",
        eval,
    ),
    row(
        "EVALSHA",
        "Runs a script that the server knows, by its SHA1 digest.",
        "2.6.0",
        EVAL,
        &[keys(WRITTEN, "")],
        "sha1:string numkeys:integer [key:key#0*] [arg:string*]",
        evalsha,
    ),
    row(
        "EVALSHA_RO",
        "Runs a script that the server knows, which must not write.",
        "7.0.0",
        EVAL_RO,
        &[keys(READ, "")],
        "sha1:string numkeys:integer [key:key#0*] [arg:string*]",
        evalsha_ro,
    ),
    row(
        "EVAL_RO",
        "Runs a script, which must not write.",
        "7.0.0",
        EVAL_RO,
        &[keys(READ, "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
        "script:string numkeys:integer [key:key#0*] [arg:string*]",
        eval_ro,
    ),
    Command {
        spec: Spec {
            name: "SCRIPT",
            summary: "Knows and forgets scripts.",
            complexity: "Depends on the subcommand",
            since: "2.6.0",
            group: Group::Scripting,
            arity: -2,
            flags: Flags::NONE,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: help,
        subcommands: SCRIPT,
    },
];

const SCRIPT: &[Command<SessionRun>] = &[
    sub("DEBUG", "Refused: Darter has no debugger for scripts.", "O(1)", "3.2.0", -3, Flags::NOSCRIPT, debug)
        .syntax("mode(YES=yes!|SYNC=sync!|NO=no!) [engine:string@9.1.0]"),
    sub("EXISTS", "Tells which scripts the server knows.", "O(n) of the digests", "2.6.0", -3, CACHE, exists)
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
        .syntax("sha1:string*"),
    sub("FLUSH", "Forgets all scripts.", "O(n) of the scripts", "2.6.0", -2, CACHE, flush)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .syntax("[flush-type(ASYNC=async!|SYNC=sync!)@6.2.0]"),
    sub("HELP", "Shows the subcommands.", "O(1)", "5.0.0", 2, Flags::LOADING.with(Flags::STALE), help),
    sub(
        "KILL",
        "Ends the scripts that run for too long and have not written.",
        "O(n) of the threads",
        "2.6.0",
        2,
        Flags::NOSCRIPT.with(Flags::ALLOW_BUSY),
        kill,
    )
    .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    sub("LOAD", "Makes a script known to the server.", "O(n) of its bytes", "2.6.0", 3, CACHE, load)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .syntax("script:string"),
    sub("SHOW", "The source of a script that the server knows.", "O(1)", "8.0.0", 3, CACHE, show)
        .syntax("sha1:string"),
];

const NO_SCRIPT: CommandError = CommandError::fixed("NOSCRIPT No matching script.");

/// `EVAL script numkeys [key ...] [arg ...]`
fn eval(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    evaluate(cx, args, By::Source, false, reply)
}

/// `EVALSHA sha1 numkeys [key ...] [arg ...]`
fn evalsha(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    evaluate(cx, args, By::Digest, false, reply)
}

/// `EVAL_RO script numkeys [key ...] [arg ...]`
fn eval_ro(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    evaluate(cx, args, By::Source, true, reply)
}

/// `EVALSHA_RO sha1 numkeys [key ...] [arg ...]`
fn evalsha_ro(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    evaluate(cx, args, By::Digest, true, reply)
}

/// `SCRIPT DEBUG YES|SYNC|NO [engine]`: there is nothing to switch off.
fn debug(_: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if args[2].eq_ignore_ascii_case(b"no") && args.len() == 3 {
        reply.ok();
        return Ok(Flow::Done);
    }
    Err(CommandError::fixed("ERR Darter has no debugger for scripts"))
}

/// `SCRIPT EXISTS sha1 [sha1 ...]`
fn exists(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let cache = &cx.worker.shared.scripts;
    reply.array(args.len() - 2);
    for word in args.iter().skip(2) {
        let known = digest(word).is_some_and(|sha| cache.get(&sha).is_some());
        reply.int(known.into());
    }
    Ok(Flow::Done)
}

/// `SCRIPT FLUSH [ASYNC|SYNC]`: what runs at this moment keeps its source, so that both are the same.
fn flush(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let mode = args.get(2).unwrap_or(b"sync");
    if args.len() > 3 || !mode.eq_ignore_ascii_case(b"sync") && !mode.eq_ignore_ascii_case(b"async") {
        return Err(CommandError::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    cx.worker.shared.scripts.flush();
    reply.ok();
    Ok(Flow::Done)
}

/// `SCRIPT KILL`
fn kill(cx: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    cx.worker.shared.busy.kill(false)?;
    reply.ok();
    Ok(Flow::Done)
}

/// `SCRIPT LOAD script`
fn load(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    match cx.worker.load_script(&args[2]) {
        Ok(sha) => reply.bulk(&sha),
        Err(text) => reply.error_bytes(&text),
    }
    Ok(Flow::Done)
}

/// `SCRIPT SHOW sha1`
fn show(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let sha = digest(&args[2]).ok_or(NO_SCRIPT)?;
    let known = cx.worker.shared.scripts.get(&sha).ok_or(NO_SCRIPT)?;
    reply.bulk(&known.script.source);
    Ok(Flow::Done)
}

/// `SCRIPT HELP`
fn help(_: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    super::help(reply, "SCRIPT", &HELP)
}

const HELP: [&str; 7] = [
    "DEBUG YES|SYNC|NO -- refused: there is no debugger for scripts.",
    "EXISTS <sha1> [<sha1> ...] -- which scripts the server knows: 1 or 0 for each.",
    "FLUSH [ASYNC|SYNC] -- forgets all scripts.",
    "KILL -- ends the scripts that run for too long and have not written.",
    "LOAD <script> -- makes a script known without running it; gives its digest.",
    "SHOW <sha1> -- the source of a script.",
    "A script that only EVAL has brought is forgotten after 500 newer ones.",
];
