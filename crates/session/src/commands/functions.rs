//! FUNCTION, FCALL and FCALL_RO. The libraries: `crate::functions`; how functions run: `crate::scripts`.

use std::sync::Arc;

use ::scripts::Library as Code;
use command::{Begin, Categories, Command, CommandError, Find, Flags, Group, KeyFlags, KeySpec, Spec};
use resp::{Args, Reply};

use crate::functions::{Libraries, Library, Taken, dump as dumped, restore as restored};
use crate::scripts::{By, evaluate};
use crate::worker::{Cx, Flow, SessionRun};

const FCALL: Flags = Flags::NOSCRIPT
    .with(Flags::STALE)
    .with(Flags::SKIP_MONITOR)
    .with(Flags::NO_MANDATORY_KEYS)
    .with(Flags::MOVABLEKEYS);
const FCALL_RO: Flags = FCALL.with(Flags::READONLY);
const WRITES: Flags = Flags::NOSCRIPT.with(Flags::WRITE);
const LOADS: Flags = WRITES.with(Flags::DENYOOM);
const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

/// Word 2 says how many keys follow it.
const fn keys(flags: KeyFlags, notes: &'static str) -> KeySpec {
    KeySpec { begin: Begin::Index(2), find: Find::Count { count_at: 0, first: 1, step: 1 }, flags, notes }
}

const fn spec(name: &'static str, summary: &'static str, arity: i16, flags: Flags) -> Spec {
    Spec {
        name,
        summary,
        complexity: "O(1)",
        since: "7.0.0",
        group: Group::Scripting,
        arity,
        flags,
        explicit: Categories::SCRIPTING,
        keys: &[],
        tips: &[],
        syntax: "",
    }
}

const fn sub(
    name: &'static str,
    summary: &'static str,
    arity: i16,
    flags: Flags,
    run: SessionRun,
) -> Command<SessionRun> {
    Command::new(spec(name, summary, arity, flags), run)
}

const CALL_SYNTAX: &str = "function:string numkeys:integer [key:key#0*] [arg:string*]";

pub const ROWS: &[Command<SessionRun>] = &[
    Command {
        spec: Spec {
            complexity: "Depends on the function",
            keys: &[keys(
                KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE),
                "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE",
            )],
            syntax: CALL_SYNTAX,
            ..spec("FCALL", "Calls a function of a library.", -3, FCALL)
        },
        run: fcall,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            complexity: "Depends on the function",
            keys: &[keys(
                KeyFlags::RO.with(KeyFlags::ACCESS),
                "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS",
            )],
            syntax: CALL_SYNTAX,
            ..spec("FCALL_RO", "Calls a function that must not write.", -3, FCALL_RO)
        },
        run: fcall_ro,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            complexity: "Depends on the subcommand",
            explicit: Categories::NONE,
            ..spec("FUNCTION", "Keeps libraries of functions.", -2, Flags::NONE)
        },
        run: help,
        subcommands: FUNCTION,
    },
];

const FUNCTION: &[Command<SessionRun>] = &[
    sub("DELETE", "Removes a library.", 3, WRITES, delete).tips(EVERYWHERE).syntax("library-name:string"),
    sub("DUMP", "All libraries as one payload.", 2, Flags::NOSCRIPT, dump),
    sub("FLUSH", "Removes all libraries.", -2, WRITES, flush)
        .tips(EVERYWHERE)
        .syntax("[flush-type(ASYNC=async!|SYNC=sync!)]"),
    sub("HELP", "Shows the subcommands.", 2, Flags::LOADING.with(Flags::STALE), help),
    sub(
        "KILL",
        "Ends the functions that run for too long and have not written.",
        2,
        Flags::NOSCRIPT.with(Flags::ALLOW_BUSY),
        kill,
    )
    .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    sub("LIST", "Describes the libraries.", -2, Flags::NOSCRIPT, list)
        .tips(&["nondeterministic_output_order"])
        .syntax("[LIBRARYNAME=library-name-pattern:string] [WITHCODE=withcode!]"),
    sub("LOAD", "Adds a library.", -3, LOADS, load)
        .tips(EVERYWHERE)
        .syntax("[REPLACE=replace!] function-code:string"),
    sub("RESTORE", "Adds the libraries of a payload.", -3, LOADS, restore)
        .tips(EVERYWHERE)
        .syntax("serialized-value:string [policy(FLUSH=flush!|APPEND=append!|REPLACE=replace!)]"),
    sub(
        "STATS",
        "The function that runs, and how many there are.",
        2,
        Flags::NOSCRIPT.with(Flags::ALLOW_BUSY),
        stats,
    )
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
];

/// `FCALL function numkeys [key ...] [arg ...]`
fn fcall(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    evaluate(cx, args, By::Function, false, reply)
}

/// `FCALL_RO function numkeys [key ...] [arg ...]`
fn fcall_ro(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    evaluate(cx, args, By::Function, true, reply)
}

/// Too many words for a subcommand, which is named as it was sent.
fn wrong_count(args: Args<'_>) -> CommandError {
    let name = String::from_utf8_lossy(&args[1]);
    CommandError::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
    ))
}

/// The reply of a change.
fn answer(result: Result<(), Vec<u8>>, reply: &mut Reply) -> Result<Flow, CommandError> {
    match result {
        Ok(()) => reply.ok(),
        Err(text) => reply.error_bytes(&text),
    }
    Ok(Flow::Done)
}

/// `FUNCTION DELETE library-name`
fn delete(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let removed = cx.worker.shared.functions.change(|libraries| {
        if libraries.remove(&args[2]) { Ok(()) } else { Err(b"ERR Library not found".to_vec()) }
    });
    answer(removed, reply)
}

/// `FUNCTION DUMP`
fn dump(cx: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.bulk(&dumped(&cx.worker.shared.functions.present()));
    Ok(Flow::Done)
}

/// `FUNCTION FLUSH [ASYNC|SYNC]`: what runs at this moment keeps its library, so that both are the same.
fn flush(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if args.len() > 3 {
        return Err(wrong_count(args));
    }
    let mode = args.get(2).unwrap_or(b"sync");
    if !mode.eq_ignore_ascii_case(b"sync") && !mode.eq_ignore_ascii_case(b"async") {
        return Err(CommandError::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    let flushed = cx.worker.shared.functions.change(|libraries| {
        libraries.clear();
        Ok(())
    });
    answer(flushed, reply)
}

/// `FUNCTION KILL`
fn kill(cx: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    cx.worker.shared.busy.kill(true)?;
    reply.ok();
    Ok(Flow::Done)
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
fn list(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let (mut pattern, mut with_code) = (None, false);
    let mut at = 2;
    while let Some(word) = args.get(at) {
        at += 1;
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
            let text = args.get(at).ok_or(CommandError::fixed("ERR library name argument was not given"))?;
            pattern = Some(text);
            at += 1;
        } else {
            return Err(CommandError::new(format!("ERR Unknown argument {}", String::from_utf8_lossy(word))));
        }
    }
    let libraries = cx.worker.shared.functions.present();
    let fits = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| stdx::glob::matches(pattern, &library.code.name, true))
    };
    reply.array(libraries.iter().filter(fits).count());
    for library in libraries.iter().filter(fits) {
        describe(library, with_code, reply);
    }
    Ok(Flow::Done)
}

fn describe(library: &Library, with_code: bool, reply: &mut Reply) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(&library.code.name);
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(text) => reply.bulk(text),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code.source);
    }
}

/// `FUNCTION LOAD [REPLACE] function-code`
fn load(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let mut taken = Taken::Refuse;
    for word in args.iter().take(args.len() - 1).skip(2) {
        if !word.eq_ignore_ascii_case(b"replace") {
            return Err(CommandError::new(format!(
                "ERR Unknown option given: {}",
                String::from_utf8_lossy(word)
            )));
        }
        taken = Taken::Replace;
    }
    let source = &args[args.len() - 1];
    let loaded = Code::new(source).and_then(|code| {
        let known = cx.worker.shared.functions.present();
        if taken == Taken::Refuse {
            known.refuse_taken(&code.name)?;
        }
        let library = cx.worker.load_library(code)?;
        cx.worker.shared.functions.change(|libraries| libraries.add(Arc::clone(&library), taken))?;
        Ok(library)
    });
    match loaded {
        Ok(library) => reply.bulk(&library.code.name),
        Err(text) => reply.error_bytes(&text),
    }
    Ok(Flow::Done)
}

/// `FUNCTION RESTORE payload [FLUSH|APPEND|REPLACE]`: all libraries, or none.
fn restore(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let (mut taken, mut clear) = (Taken::Refuse, false);
    if args.len() > 4 {
        return Err(wrong_count(args));
    }
    match args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") => {}
        Some(b"replace") => taken = Taken::Replace,
        Some(b"flush") => clear = true,
        Some(_) => {
            return Err(CommandError::fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    }
    let sources = restored(&args[2]).map_err(|bad| CommandError::fixed(bad.text()))?;
    let loaded: Result<Vec<_>, Vec<u8>> = sources
        .iter()
        .map(|source| Code::new(source).and_then(|code| cx.worker.load_library(code)))
        .collect();
    let restored = loaded.and_then(|loaded| {
        cx.worker.shared.functions.change(|libraries: &mut Libraries| {
            if clear {
                libraries.clear();
            }
            loaded.into_iter().try_for_each(|library| {
                let name = library.code.name.as_ref();
                if taken == Taken::Refuse && libraries.has(name) {
                    return Err([b"ERR Library ", name, b" already exists"].concat());
                }
                libraries.add(library, taken)
            })
        })
    });
    answer(restored, reply)
}

/// `FUNCTION STATS`
fn stats(cx: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.map(2);
    reply.bulk(b"running_script");
    match cx.worker.shared.busy.function() {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&running.words[1]);
            reply.bulk(b"command");
            reply.array(running.words.len());
            running.words.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.int(i64::try_from(running.began.elapsed().as_millis()).unwrap_or(i64::MAX));
        }
    }
    let (libraries, functions) = cx.worker.shared.functions.present().counts();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.int(libraries.cast_signed());
    reply.bulk(b"functions_count");
    reply.int(functions.cast_signed());
    Ok(Flow::Done)
}

/// `FUNCTION HELP`
fn help(_: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    super::help(reply, "FUNCTION", &HELP)
}

const HELP: [&str; 9] = [
    "DELETE <library-name> -- removes a library.",
    "DUMP -- all libraries as one payload for RESTORE.",
    "FLUSH [ASYNC|SYNC] -- removes all libraries.",
    "KILL -- ends the functions that run for too long and have not written.",
    "LIST [LIBRARYNAME <pattern>] [WITHCODE] -- describes the libraries.",
    "LOAD [REPLACE] <function-code> -- adds a library; gives its name.",
    "RESTORE <payload> [FLUSH|APPEND|REPLACE] -- adds the libraries of a payload: instead of all that are there, beside them, or",
    "    in place of those with the same names. All of them or none.",
    "STATS -- the function that runs for too long, if one does, and how many libraries and functions there are.",
];
