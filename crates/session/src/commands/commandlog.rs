//! SLOWLOG and COMMANDLOG: what `commandlog` remembers, asked of all threads.

use std::sync::Arc;

use command::{Command, CommandError, Flags};
use resp::{Args, Reply};

use super::{QUIET, help, row};
use crate::broadcast::{Answer, answers_as};
use crate::commandlog::{KINDS, Kind, Remembered, merged};
use crate::worker::{Cx, Flow, SessionRun, Worker};

const FLAGS: Flags = Flags::ADMIN.with(QUIET);
const GET_TIPS: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];
const LEN_TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"];
const RESET_TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// SLOWLOG GET without a number.
const COUNT_DEFAULT: usize = 10;

pub const ROWS: &[Command<SessionRun>] = &[
    row("COMMANDLOG", "Commands about remembered commands.", "8.1.0", -2, Flags::NONE, commandlog_help)
        .with(COMMANDLOG),
    row("SLOWLOG", "Commands about slow commands.", "2.2.12", -2, Flags::NONE, slowlog_help).with(SLOWLOG),
];

const COMMANDLOG: &[Command<SessionRun>] = &[
    row("GET", "Shows the latest remembered commands.", "8.1.0", 4, FLAGS, commandlog_get)
        .tips(GET_TIPS)
        .syntax("count:integer type(SLOW=slow!|LARGE-REQUEST=large-request!|LARGE-REPLY=large-reply!)"),
    row("HELP", "Shows the subcommands.", "8.1.0", 2, QUIET, commandlog_help),
    row("LEN", "Counts the remembered commands.", "8.1.0", 3, FLAGS, commandlog_len)
        .tips(LEN_TIPS)
        .syntax("type(SLOW=slow!|LARGE-REQUEST=large-request!|LARGE-REPLY=large-reply!)"),
    row("RESET", "Forgets the remembered commands.", "8.1.0", 3, FLAGS, commandlog_reset)
        .tips(RESET_TIPS)
        .syntax("type(SLOW=slow!|LARGE-REQUEST=large-request!|LARGE-REPLY=large-reply!)"),
];

const SLOWLOG: &[Command<SessionRun>] = &[
    row("GET", "Shows the latest slow commands.", "2.2.12", -2, FLAGS, slowlog_get)
        .tips(GET_TIPS)
        .syntax("[count:integer]"),
    row("HELP", "Shows the subcommands.", "6.2.0", 2, QUIET, slowlog_help),
    row("LEN", "Counts the slow commands.", "2.2.12", 2, FLAGS, slowlog_len).tips(LEN_TIPS),
    row("RESET", "Forgets the slow commands.", "2.2.12", 2, FLAGS, slowlog_reset).tips(RESET_TIPS),
];

const COMMANDLOG_HELP: &[&str] = &[
    "GET <count> <type> -- the latest remembered commands of a type, -1 for all. Types: slow, large-request, large-reply.",
    "    Each is: number, unix time, microseconds or bytes, words, address and name of the client.",
    "LEN <type> -- how many commands of a type are remembered.",
    "RESET <type> -- forget the commands of a type.",
];

const SLOWLOG_HELP: &[&str] = &[
    "GET [<count>] -- the latest slow commands (10 unless told), -1 for all.",
    "    Each is: number, unix time, microseconds, words, address and name of the client.",
    "LEN -- how many slow commands are remembered.",
    "RESET -- forget them.",
];

fn commandlog_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "COMMANDLOG", COMMANDLOG_HELP)
}

fn slowlog_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "SLOWLOG", SLOWLOG_HELP)
}

fn commandlog_get(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let count = count(&args[2])?;
    Ok(get(cx, kind(&args[3])?, count))
}

fn commandlog_len(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(len(cx, kind(&args[2])?))
}

fn commandlog_reset(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(reset(cx, kind(&args[2])?))
}

fn slowlog_get(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let count = match args.len() {
        2 => COUNT_DEFAULT,
        3 => count(&args[2])?,
        _ => {
            let word = String::from_utf8_lossy(&args[1]);
            return Err(CommandError::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try SLOWLOG HELP."
            )));
        }
    };
    Ok(get(cx, Kind::Slow, count))
}

fn slowlog_len(cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(len(cx, Kind::Slow))
}

fn slowlog_reset(cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(reset(cx, Kind::Slow))
}

/// A number of commands; -1 is all of them.
fn count(word: &[u8]) -> Result<usize, CommandError> {
    match stdx::num::parse_i64(word) {
        Some(-1) => Ok(usize::MAX),
        Some(count) if count >= 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(CommandError::fixed("ERR count should be greater than or equal to -1")),
    }
}

fn kind(word: &[u8]) -> Result<Kind, CommandError> {
    let found = KINDS.iter().find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word));
    found.map(|(kind, _)| *kind).ok_or(CommandError::fixed(
        "ERR type should be one of the following: slow, large-request, large-reply",
    ))
}

/// How many commands a list holds at most, of all threads together.
fn length_max(cx: &Cx<'_>, kind: Kind) -> usize {
    let config = &cx.worker.config;
    match kind {
        Kind::Slow => config.commandlog_slow_execution_max_len,
        Kind::LargeRequest => config.commandlog_large_request_max_len,
        Kind::LargeReply => config.commandlog_large_reply_max_len,
    }
}

fn get(cx: &mut Cx<'_>, kind: Kind, count: usize) -> Flow {
    let count = count.min(length_max(cx, kind));
    let ask = Arc::new(move |worker: &mut Worker| Box::new(worker.commandlog.latest(kind, count)) as Answer);
    cx.broadcast(
        ask,
        Box::new(move |_, answers, reply| {
            let commands = merged(answers_as::<Vec<Remembered>>(answers), count);
            reply.array(commands.len());
            commands.iter().for_each(|command| show(command, reply));
            Flow::Done
        }),
    )
}

fn show(command: &Remembered, reply: &mut Reply) {
    reply.array(6);
    for number in [command.number, command.unix_s, command.value] {
        reply.int(i64::try_from(number).unwrap_or(i64::MAX));
    }
    reply.array(command.words.len());
    command.words.iter().for_each(|word| reply.bulk(word));
    reply.bulk(command.address.as_bytes());
    reply.bulk(&command.client_name);
}

fn len(cx: &mut Cx<'_>, kind: Kind) -> Flow {
    let max = length_max(cx, kind);
    let ask = Arc::new(move |worker: &mut Worker| Box::new(worker.commandlog.len(kind)) as Answer);
    cx.broadcast(
        ask,
        Box::new(move |_, answers, reply| {
            let sum: usize = answers_as::<usize>(answers).sum();
            reply.int(sum.min(max) as i64);
            Flow::Done
        }),
    )
}

fn reset(cx: &mut Cx<'_>, kind: Kind) -> Flow {
    let ask = Arc::new(move |worker: &mut Worker| {
        worker.commandlog.reset(kind);
        Box::new(()) as Answer
    });
    cx.broadcast(
        ask,
        Box::new(|_, _, reply| {
            reply.ok();
            Flow::Done
        }),
    )
}
