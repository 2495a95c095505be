//! CLIENT: what the server knows about clients, and what is done to them.

use std::sync::Arc;

use command::{Categories, Command, CommandError, Flags, Group, Spec};
use resp::{Args, Reply};
use stdx::num::parse_i64;

use super::tracking;
use crate::broadcast::answers_as;
use crate::client::ReplyMode;
use crate::filter::Filter;
use crate::pause::Pause;
use crate::worker::{Cx, Flow, SessionRun};

const QUIET: Flags = Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE);
const BUSY: Flags = QUIET.with(Flags::ALLOW_BUSY);
const ADMIN: Flags = QUIET.with(Flags::ADMIN);

/// Tips: two replies are seldom the same; what a proxy must tell every node.
const CHANGES: &[&str] = &["nondeterministic_output"];
const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// A row of CLIENT, whose subcommands differ in few columns.
const fn row(
    name: &'static str,
    summary: &'static str,
    since: &'static str,
    arity: i16,
    flags: Flags,
    syntax: &'static str,
    run: SessionRun,
) -> Command<SessionRun> {
    let spec = Spec {
        name,
        summary,
        complexity: "O(1)",
        since,
        group: Group::Connection,
        arity,
        flags,
        explicit: Categories::CONNECTION,
        keys: &[],
        tips: &[],
        syntax,
    };
    Command { spec, run, subcommands: &[] }
}

pub const ROWS: &[Command<SessionRun>] = &[Command {
    spec: Spec {
        name: "CLIENT",
        summary: "Commands about clients.",
        complexity: "Depends on the subcommand",
        since: "2.4.0",
        group: Group::Connection,
        arity: -2,
        flags: Flags::NONE,
        explicit: Categories::NONE,
        keys: &[],
        tips: &[],
        syntax: "",
    },
    run: help,
    subcommands: SUBCOMMANDS,
}];

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    row(
        "CACHING",
        "Says whether the keys of the next command are tracked.",
        "6.0.0",
        3,
        BUSY,
        "mode(YES=yes!|NO=no!)",
        tracking::caching,
    ),
    row("CAPA", "Tells what the client is capable of.", "8.0.0", -3, BUSY, "capability:string*", capa),
    row("GETNAME", "Gives the connection's name.", "2.6.9", 2, BUSY, "", getname),
    row(
        "GETREDIR",
        "Gives the client that invalidations are redirected to.",
        "6.0.0",
        2,
        BUSY,
        "",
        tracking::getredir,
    ),
    row("HELP", "Shows the subcommands.", "5.0.0", 2, Flags::LOADING.with(Flags::STALE), "", help),
    row("ID", "Gives the connection's number.", "5.0.0", 2, BUSY, "", id),
    row(
        "IMPORT-SOURCE",
        "Marks the connection as a source of imported data.",
        "8.1.0",
        3,
        QUIET,
        "enabled(ON=on!|OFF=off!)",
        import_source,
    ),
    row("INFO", "Describes the connection.", "6.2.0", 2, QUIET, "", info).tips(CHANGES),
    row("KILL", "Closes connections.", "2.4.0", -3, ADMIN, KILL_SYNTAX, kill),
    row("LIST", "Describes all connections.", "2.4.0", -2, ADMIN, LIST_SYNTAX, list).tips(CHANGES),
    row(
        "NO-EVICT",
        "Spares the connection when clients are evicted.",
        "7.0.0",
        3,
        ADMIN.with(Flags::ALLOW_BUSY),
        "enabled(ON=on!|OFF=off!)",
        no_evict,
    ),
    row(
        "NO-TOUCH",
        "Lets the connection's reads leave the use of keys unchanged.",
        "7.2.0",
        3,
        BUSY,
        "enabled(ON=on!|OFF=off!)",
        no_touch,
    ),
    row(
        "PAUSE",
        "Lets commands wait for a while.",
        "3.0.0",
        -3,
        ADMIN,
        "timeout:integer [mode(WRITE=write!|ALL=all!)@6.2.0]",
        pause,
    ),
    row(
        "REPLY",
        "Switches the connection's replies off and on.",
        "3.2.0",
        3,
        BUSY.with(Flags::NO_MULTI),
        "action(ON=on!|OFF=off!|SKIP=skip!)",
        reply_mode,
    ),
    row(
        "SETINFO",
        "Tells the name or version of the client's library.",
        "7.2.0",
        4,
        BUSY,
        "attr(LIB-NAME=libname:string|LIB-VER=libver:string)",
        setinfo,
    )
    .tips(EVERYWHERE),
    row("SETNAME", "Names the connection.", "2.6.9", 3, BUSY, "connection-name:string", setname)
        .tips(EVERYWHERE),
    row(
        "TRACKING",
        "Tells the connection when keys change that it has read, or that have a prefix.",
        "6.0.0",
        -3,
        QUIET,
        "status(ON=on!|OFF=off!) [REDIRECT=client-id:integer] [PREFIX=prefix:string+] [BCAST=bcast!] [OPTIN=optin!] [OPTOUT=optout!] [NOLOOP=noloop!]",
        tracking::tracking,
    ),
    row(
        "TRACKINGINFO",
        "Describes the connection's tracking of keys.",
        "6.2.0",
        2,
        QUIET,
        "",
        tracking::trackinginfo,
    ),
    row(
        "UNBLOCK",
        "Ends the waiting of a client that is blocked.",
        "5.0.0",
        -3,
        ADMIN,
        "client-id:integer [unblock-type(TIMEOUT=timeout!|ERROR=error!)]",
        crate::blocked::client_unblock,
    ),
    row("UNPAUSE", "Ends CLIENT PAUSE.", "6.2.0", 2, ADMIN, "", unpause),
];

const KILL_SYNTAX: &str = "filter(old-format:string|new-format([ID=client-id:integer@2.8.12*]|[TYPE=client-type(NORMAL=normal!|MASTER=master!@3.2.0|PRIMARY=primary!@8.0.0|SLAVE=slave!|REPLICA=replica!@5.0.0|PUBSUB=pubsub!)@2.8.12]|[USER=username:string]|[ADDR=addr:string]|[LADDR=laddr:string@6.2.0]|[SKIPME=skipme(YES=yes!|NO=no!)]|[MAXAGE=maxage:integer@8.0.0]|[NAME=name:string@9.0.0]|[IDLE=idle:integer@9.0.0]|[FLAGS=flags:string@9.0.0]|[LIB-NAME=lib-name:string@9.0.0]|[LIB-VER=lib-ver:string@9.0.0]|[DB=db:integer@9.0.0]|[CAPA=capa:string@9.0.0]|[IP=ip:string@9.0.0]|[NOT-TYPE=not-client-type(NORMAL=normal!|MASTER=master!|PRIMARY=primary!|SLAVE=slave!|REPLICA=replica!|PUBSUB=pubsub!)@9.0.0]|[NOT-ID=not-client-id:integer@9.0.0*]|[NOT-USER=not-username:string@9.0.0]|[NOT-ADDR=not-addr:string@9.0.0]|[NOT-LADDR=not-laddr:string@9.0.0]|[NOT-NAME=not-name:string@9.0.0]|[NOT-FLAGS=not-flags:string@9.0.0]|[NOT-LIB-NAME=not-lib-name:string@9.0.0]|[NOT-LIB-VER=not-lib-ver:string@9.0.0]|[NOT-DB=not-db:integer@9.0.0]|[NOT-CAPA=not-capa:string@9.0.0]|[NOT-IP=not-ip:string@9.0.0])*)";

const LIST_SYNTAX: &str = "[TYPE=client-type(NORMAL=normal!|MASTER=master!|REPLICA=replica!|PUBSUB=pubsub!)@5.0.0] [ID=client-id:integer@6.2.0*] [USER=username:string@8.1.0] [ADDR=addr:string@8.1.0] [LADDR=laddr:string@8.1.0] [SKIPME=skipme(YES=yes!|NO=no!)@8.1.0] [MAXAGE=maxage:integer@8.1.0] [NAME=name:string@9.0.0] [IDLE=idle:integer@9.0.0] [FLAGS=flags:string@9.0.0] [LIB-NAME=lib-name:string@9.0.0] [LIB-VER=lib-ver:string@9.0.0] [DB=db:integer@9.0.0] [CAPA=capa:string@9.0.0] [IP=ip:string@9.0.0] [NOT-TYPE=not-client-type(NORMAL=normal!|MASTER=master!|REPLICA=replica!|PUBSUB=pubsub!)@9.0.0] [NOT-ID=not-client-id:integer@9.0.0*] [NOT-USER=not-username:string@9.0.0] [NOT-ADDR=not-addr:string@9.0.0] [NOT-LADDR=not-laddr:string@9.0.0] [NOT-NAME=not-name:string@9.0.0] [NOT-FLAGS=not-flags:string@9.0.0] [NOT-LIB-NAME=not-lib-name:string@9.0.0] [NOT-LIB-VER=not-lib-ver:string@9.0.0] [NOT-DB=not-db:integer@9.0.0] [NOT-CAPA=not-capa:string@9.0.0] [NOT-IP=not-ip:string@9.0.0]";

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CACHING YES|NO -- whether the keys of the next command, or transaction, are tracked (OPTIN, OPTOUT).",
    "CAPA <capability> [...] -- tell what the client is capable of: REDIRECT.",
    "GETNAME -- the name of this connection.",
    "GETREDIR -- the client that invalidations are redirected to.",
    "ID -- the number of this connection.",
    "IMPORT-SOURCE ON|OFF -- mark this connection as a source of imported data.",
    "INFO -- describe this connection.",
    "KILL <ip:port> | <filter> <value> [...] -- close connections. Filters, each also as NOT-<filter> where it has no order:",
    "    ID TYPE USER ADDR LADDR IP NAME LIB-NAME LIB-VER FLAGS CAPA DB MAXAGE IDLE, and SKIPME YES|NO.",
    "LIST [<filter> <value> ...] -- describe connections; filters as for KILL.",
    "NO-EVICT ON|OFF -- spare this connection when clients are evicted.",
    "NO-TOUCH ON|OFF -- let this connection's reads leave the use of keys unchanged.",
    "PAUSE <milliseconds> [WRITE|ALL] -- let commands wait.",
    "REPLY ON|OFF|SKIP -- switch this connection's replies.",
    "SETINFO LIB-NAME|LIB-VER <text> -- tell the name or version of the client's library.",
    "SETNAME <name> -- name this connection.",
    "TRACKING ON|OFF [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP] -- tell this connection of changed keys.",
    "TRACKINGINFO -- describe this connection's tracking of keys.",
    "UNBLOCK <id> [TIMEOUT|ERROR] -- end the waiting of a blocked client.",
    "UNPAUSE -- end PAUSE.",
    "HELP -- this text.",
];

fn help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
    Ok(Flow::Done)
}

fn ok(reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.ok();
    Ok(Flow::Done)
}

fn on_or_off(word: &[u8]) -> Result<bool, CommandError> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(CommandError::SYNTAX),
    }
}

fn capa(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    // A capability that is not known is passed over: newer clients may tell of it.
    cx.client.capa_redirect |= args.iter().skip(2).any(|word| word.eq_ignore_ascii_case(b"redirect"));
    ok(reply)
}

fn getname(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if cx.client.name.is_empty() {
        reply.null()
    } else {
        reply.bulk(&cx.client.name)
    }
    Ok(Flow::Done)
}

fn id(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int(cx.client.id as i64);
    Ok(Flow::Done)
}

fn import_source(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if !args[2].eq_ignore_ascii_case(b"off") {
        return Err(CommandError::fixed("ERR Server is not in import mode"));
    }
    cx.client.import_source = false;
    ok(reply)
}

fn no_evict(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    cx.client.no_evict = on_or_off(&args[2])?;
    ok(reply)
}

fn no_touch(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    cx.client.no_touch = on_or_off(&args[2])?;
    ok(reply)
}

fn reply_mode(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            cx.client.reply_mode = ReplyMode::On;
            reply.ok();
        }
        b"off" => cx.client.reply_mode = ReplyMode::Off,
        b"skip" if cx.client.reply_mode != ReplyMode::Off => cx.client.reply_mode = ReplyMode::SkipNext,
        b"skip" => {}
        _ => return Err(CommandError::SYNTAX),
    }
    Ok(Flow::Done)
}

fn setname(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    cx.client.name = valid_name(&args[2])?;
    ok(reply)
}

/// A client name, if it is one: printable, without spaces.
pub fn valid_name(name: &[u8]) -> Result<Box<[u8]>, CommandError> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(name.into())
    } else {
        Err(CommandError::fixed("ERR Client names cannot contain spaces, newlines or special characters."))
    }
}

fn setinfo(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let option = args[2].to_ascii_lowercase();
    let field = match option.as_slice() {
        b"lib-name" => &mut cx.client.lib_name,
        b"lib-ver" => &mut cx.client.lib_ver,
        _ => {
            let option = String::from_utf8_lossy(&args[2]);
            return Err(CommandError::new(format!("ERR Unrecognized option '{option}'")));
        }
    };
    if !args[3].iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        let option = String::from_utf8_lossy(&args[2]);
        return Err(CommandError::new(format!(
            "ERR {option} cannot contain spaces, newlines or special characters."
        )));
    }
    *field = args[3].into();
    ok(reply)
}

fn info(cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let id = cx.client.id;
    let ask = Arc::new(move |worker: &mut crate::worker::Worker| -> crate::broadcast::Answer {
        Box::new(worker.describe_clients(|client, _| client.id == id))
    });
    Ok(cx.broadcast(ask, Box::new(write_lines)))
}

/// The filter that the words of LIST and KILL make.
fn filter(cx: &Cx<'_>, args: Args<'_>) -> Result<Filter, CommandError> {
    let shared = cx.worker.shared;
    let knows_user = |name: &[u8]| crate::rights::lock(&shared.users).get(name).is_some();
    Filter::parse(args, 2, shared.layout.databases, &knows_user)
}

fn list(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let filter = filter(cx, args)?;
    let me = (filter.skip_me == Some(true)).then_some(cx.client.id);
    let ask = Arc::new(move |worker: &mut crate::worker::Worker| -> crate::broadcast::Answer {
        Box::new(
            worker.describe_clients(|client, now_ms| Some(client.id) != me && filter.meets(client, now_ms)),
        )
    });
    Ok(cx.broadcast(ask, Box::new(write_lines)))
}

/// Writes the lines of all threads' clients, by ascending id.
fn write_lines(_cx: &mut Cx<'_>, answers: Vec<crate::broadcast::Answer>, reply: &mut Reply) -> Flow {
    let mut lines: Vec<(u64, Vec<u8>)> = answers_as::<Vec<(u64, Vec<u8>)>>(answers).flatten().collect();
    lines.sort_by_key(|(id, _)| *id);
    let mut text = Vec::new();
    for (_, line) in lines {
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
    reply.verbatim("txt", &text);
    Flow::Done
}

fn kill(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let old_form = args.len() == 3;
    let filter = if old_form { Filter::address(&args[2]) } else { filter(cx, args)? };
    let me = cx.client.id;
    let skip_me = filter.skip_me.unwrap_or(!old_form);
    let ask = Arc::new(move |worker: &mut crate::worker::Worker| -> crate::broadcast::Answer {
        let (others, own) = worker
            .kill_clients(me, |client, now_ms| !(skip_me && client.id == me) && filter.meets(client, now_ms));
        Box::new((others, own))
    });
    let finish = move |_: &mut Cx<'_>, answers: Vec<crate::broadcast::Answer>, reply: &mut Reply| {
        let (mut killed, mut suicide) = (0, false);
        for (others, own) in answers_as::<(u64, bool)>(answers) {
            killed += others + u64::from(own);
            suicide |= own;
        }
        match (old_form, killed) {
            (true, 0) => reply.error("ERR No such client"),
            (true, _) => reply.ok(),
            (false, killed) => reply.int(killed as i64),
        }
        if suicide { Flow::Close } else { Flow::Done }
    };
    Ok(cx.broadcast(ask, Box::new(finish)))
}

fn pause(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let all = match args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None => true,
        Some(b"all") if args.len() == 4 => true,
        Some(b"write") if args.len() == 4 => false,
        _ => return Err(CommandError::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_ms =
        parse_i64(&args[2]).ok_or(CommandError::fixed("ERR timeout is not an integer or out of range"))?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| CommandError::fixed("ERR timeout is negative"))?;
    let until_ms = cx
        .worker
        .now_ms
        .checked_add(timeout_ms)
        .filter(|until| i64::try_from(*until).is_ok())
        .ok_or(CommandError::fixed("ERR timeout is out of range"))?;
    set_pause(cx, Pause { until_ms, all }, true)
}

fn unpause(cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    set_pause(cx, Pause::default(), false)
}

/// Tells every thread of a pause, or of its end. A pause is only ever prolonged, and all commands stay stopped if they were.
fn set_pause(cx: &mut Cx<'_>, pause: Pause, prolong: bool) -> Result<Flow, CommandError> {
    let ask = Arc::new(move |worker: &mut crate::worker::Worker| -> crate::broadcast::Answer {
        if prolong {
            let running = worker.pause.until_ms > worker.now_ms;
            worker.pause.all = pause.all || running && worker.pause.all;
            worker.pause.until_ms = pause.until_ms.max(worker.pause.until_ms);
        } else {
            worker.end_pause();
        }
        Box::new(())
    });
    let finish = |_: &mut Cx<'_>, _: Vec<crate::broadcast::Answer>, reply: &mut Reply| {
        reply.ok();
        Flow::Done
    };
    Ok(cx.broadcast(ask, Box::new(finish)))
}
