//! PING, ECHO, SELECT, AUTH, HELLO, QUIT, RESET: what a client says about its own connection.

use command::{Categories, Command, CommandError, Flags, Group, Spec};
use reactor::ConnId;
use resp::{Args, Proto, Reply};

use crate::client::ReplyMode;
use crate::rights::log::Incident;
use crate::rights::{self, Context};
use crate::transaction::selected;
use crate::worker::{Cx, Flow, SessionRun};

const AUTH_FLAGS: Flags = Flags::NOSCRIPT
    .with(Flags::LOADING)
    .with(Flags::STALE)
    .with(Flags::FAST)
    .with(Flags::NO_AUTH)
    .with(Flags::ALLOW_BUSY);

pub const ROWS: &[Command<SessionRun>] = &[
    Command {
        spec: Spec {
            name: "AUTH",
            summary: "Tells the server who the client is.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Connection,
            arity: -2,
            flags: AUTH_FLAGS,
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &[],
            syntax: "[username:string@6.0.0] password:string",
        },
        run: auth,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "ECHO",
            summary: "Gives back its argument.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Connection,
            arity: 2,
            flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &[],
            syntax: "message:string",
        },
        run: echo,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HELLO",
            summary: "Chooses the protocol version and tells about the server; may authenticate and name the client too.",
            complexity: "O(1)",
            since: "6.0.0",
            group: Group::Connection,
            arity: -1,
            flags: AUTH_FLAGS,
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &[],
            syntax: "[arguments{protover:integer [AUTH=auth{username:string password:string}] [SETNAME=clientname:string]}]",
        },
        run: hello,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PING",
            summary: "Answers PONG, or its argument.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Connection,
            arity: -1,
            flags: Flags::FAST,
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            syntax: "[message:string]",
        },
        run: ping,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "QUIT",
            summary: "Ends the connection.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Connection,
            arity: -1,
            flags: AUTH_FLAGS,
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: quit,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RESET",
            summary: "Puts the connection into the state of a new one.",
            complexity: "O(1)",
            since: "6.2.0",
            group: Group::Connection,
            arity: 1,
            flags: AUTH_FLAGS,
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: reset,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SELECT",
            summary: "Chooses the database of the connection.",
            complexity: "O(1)",
            since: "1.0.0",
            group: Group::Connection,
            arity: 2,
            flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST).with(Flags::ALLOW_BUSY),
            explicit: Categories::CONNECTION,
            keys: &[],
            tips: &[],
            syntax: "index:integer",
        },
        run: select,
        subcommands: &[],
    },
];

fn ping(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if cx.client.subscriptions.is_some() && cx.client.proto == Proto::Resp2 && args.len() <= 2 {
        // In the form of a message, which is all that a subscriber expects.
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(args.get(1).unwrap_or_default());
        return Ok(Flow::Done);
    }
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(&args[1]),
        _ => return Err(CommandError::arity("ping")),
    }
    Ok(Flow::Done)
}

fn echo(_cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.bulk(&args[1]);
    Ok(Flow::Done)
}

fn select(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if stdx::num::parse_i64(&args[1]).is_none_or(|db| i32::try_from(db).is_err()) {
        return Err(CommandError::NOT_AN_INTEGER);
    }
    cx.client.db = selected(args, cx.worker.shared.layout.databases).ok_or(CommandError::DB_OUT_OF_RANGE)?;
    reply.ok();
    Ok(Flow::Done)
}

fn quit(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.ok();
    Ok(Flow::Close)
}

fn reset(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    cx.client.transaction = None;
    cx.worker.unwatch(cx.client);
    cx.client.db = 0;
    cx.client.name = Box::default();
    cx.client.proto = Proto::Resp2;
    cx.client.reply_mode = ReplyMode::On;
    cx.client.no_evict = false;
    cx.client.no_touch = false;
    cx.client.become_default(&cx.worker.default_user);
    crate::monitor::end(cx);
    cx.worker.unsubscribe_all(cx.client, ConnId::from_bits(cx.ticket.connection));
    cx.worker.untrack(cx.client, ConnId::from_bits(cx.ticket.connection));
    reply.simple("RESET");
    Ok(Flow::Done)
}

fn auth(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let (user, password) = match args.len() {
        2 => {
            if cx.worker.default_user.nopass {
                return Err(CommandError::fixed(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ));
            }
            (b"default".as_slice(), &args[1])
        }
        3 => (&args[1], &args[2]),
        _ => return Err(CommandError::SYNTAX),
    };
    authenticate(cx, user, password, &args[0])?;
    reply.ok();
    Ok(Flow::Done)
}

/// Makes the client the user with this name, if the password is right. `word` is the command's name as it was sent.
fn authenticate(cx: &mut Cx<'_>, name: &[u8], password: &[u8], word: &[u8]) -> Result<(), CommandError> {
    // The hash is reckoned after the directory is left, so that many who log in do not wait for one another.
    let found = rights::lock(&cx.worker.shared.users).get(name).cloned();
    if let Some(user) = found.filter(|user| user.accepts(password)) {
        cx.client.user = user;
        cx.client.logged_in = true;
        cx.client.settle_rights(cx.worker.default_user.is_open());
        return Ok(());
    }
    let context = if cx.in_exec() { Context::Multi } else { Context::Toplevel };
    let incident = Incident { reason: "auth", context: context.name(), object: word, username: name };
    cx.worker.log_incident(cx.client, incident);
    Err(CommandError::fixed("WRONGPASS invalid username-password pair or user is disabled."))
}

fn hello(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let mut proto = cx.client.proto;
    if let Some(version) = args.get(1) {
        proto = match stdx::num::parse_i64(version) {
            Some(2) => Proto::Resp2,
            Some(3) => Proto::Resp3,
            Some(_) => return Err(CommandError::fixed("NOPROTO unsupported protocol version")),
            None => {
                return Err(CommandError::fixed("ERR Protocol version is not an integer or out of range"));
            }
        };
    }
    let mut user = None;
    let mut name = None;
    let mut at = 2;
    while let Some(option) = args.get(at) {
        let left = args.len() - at - 1;
        if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
            user = Some((&args[at + 1], &args[at + 2]));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
            name = Some(super::client::valid_name(&args[at + 1])?);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(CommandError::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some((user, password)) = user {
        authenticate(cx, user, password, &args[0])?;
    }
    if !cx.client.authenticated {
        return Err(CommandError::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        cx.client.name = name;
    }
    cx.client.proto = proto;
    reply.proto = proto;
    describe_server(cx, reply);
    Ok(Flow::Done)
}

/// The version of Valkey whose behaviour Darter follows; clients decide by it what they may send.
pub const COMPATIBLE_VERSION: &str = "9.1.2";

/// The version of Redis whose commands and replies Valkey and Darter share; older clients decide by it.
pub const REDIS_VERSION: &str = "7.2.4";

fn describe_server(cx: &Cx<'_>, reply: &mut Reply) {
    let config = &cx.worker.config;
    let (server, version) = if config.extended_redis_compatibility {
        ("redis", REDIS_VERSION)
    } else {
        ("valkey", COMPATIBLE_VERSION)
    };
    let zone = &config.availability_zone;
    reply.map(if zone.is_empty() { 7 } else { 8 });
    for (name, value) in [("server", server), ("version", version)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.int(if cx.client.proto == Proto::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(cx.client.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone.as_bytes());
    }
}
