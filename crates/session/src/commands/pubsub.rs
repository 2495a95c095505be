//! SUBSCRIBE, PUBLISH and their like. How messages travel: `crate::pubsub`.

use command::{Categories, Command, CommandError, Flags, Group, KeyFlags, KeySpec, Spec};
use reactor::ConnId;
use resp::{Args, Reply};

use super::QUIET;
use crate::pubsub::Kind;
use crate::worker::{Cx, Flow, SessionRun};

const SUB: Flags = Flags::PUBSUB.with(Flags::NOSCRIPT).with(QUIET);
const PUB: Flags = Flags::PUBSUB.with(QUIET).with(Flags::FAST);
const ASK: Flags = Flags::PUBSUB.with(QUIET);

pub const ROWS: &[Command<SessionRun>] = &[
    Command {
        spec: Spec {
            name: "PSUBSCRIBE",
            summary: "Listens to every channel that fits one of the patterns.",
            complexity: "O(n) where n is the number of patterns",
            since: "2.0.0",
            group: Group::Pubsub,
            arity: -2,
            flags: SUB,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "pattern:pattern*",
        },
        run: psubscribe,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PUBLISH",
            summary: "Sends a message to everybody who listens to a channel and gives their number.",
            complexity: "O(n+m) where n is the number of threads that listen and m that of all patterns",
            since: "2.0.0",
            group: Group::Pubsub,
            arity: 3,
            flags: PUB,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "channel:string message:string",
        },
        run: publish,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "PUBSUB",
            summary: "Tells who listens where.",
            complexity: "Depends on the subcommand",
            since: "2.8.0",
            group: Group::Pubsub,
            arity: -2,
            flags: Flags::NONE,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: help,
        subcommands: SUBCOMMANDS,
    },
    Command {
        spec: Spec {
            name: "PUNSUBSCRIBE",
            summary: "Stops listening by these patterns, or by all.",
            complexity: "O(n) where n is the number of patterns",
            since: "2.0.0",
            group: Group::Pubsub,
            arity: -1,
            flags: SUB,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "[pattern:pattern*]",
        },
        run: punsubscribe,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SPUBLISH",
            summary: "Sends a message to everybody who listens to a shard channel and gives their number.",
            complexity: "O(n) where n is the number of threads that listen",
            since: "7.0.0",
            group: Group::Pubsub,
            arity: 3,
            flags: PUB,
            explicit: Categories::NONE,
            keys: &[KeySpec::first(KeyFlags::NOT_KEY)],
            tips: &[],
            syntax: "shardchannel:string message:string",
        },
        run: spublish,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SSUBSCRIBE",
            summary: "Listens to shard channels.",
            complexity: "O(n) where n is the number of channels",
            since: "7.0.0",
            group: Group::Pubsub,
            arity: -2,
            flags: SUB,
            explicit: Categories::NONE,
            keys: &[KeySpec::all_from_first(1, KeyFlags::NOT_KEY)],
            tips: &[],
            syntax: "shardchannel:string*",
        },
        run: ssubscribe,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SUBSCRIBE",
            summary: "Listens to channels.",
            complexity: "O(n) where n is the number of channels",
            since: "2.0.0",
            group: Group::Pubsub,
            arity: -2,
            flags: SUB,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "channel:string*",
        },
        run: subscribe,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SUNSUBSCRIBE",
            summary: "Stops listening to these shard channels, or to all.",
            complexity: "O(n) where n is the number of channels",
            since: "7.0.0",
            group: Group::Pubsub,
            arity: -1,
            flags: SUB,
            explicit: Categories::NONE,
            keys: &[KeySpec::all_from_first(1, KeyFlags::NOT_KEY)],
            tips: &[],
            syntax: "[shardchannel:string*]",
        },
        run: sunsubscribe,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "UNSUBSCRIBE",
            summary: "Stops listening to these channels, or to all.",
            complexity: "O(n) where n is the number of channels",
            since: "2.0.0",
            group: Group::Pubsub,
            arity: -1,
            flags: SUB,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "[channel:string*]",
        },
        run: unsubscribe,
        subcommands: &[],
    },
];

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    Command {
        spec: Spec {
            name: "CHANNELS",
            summary: "Lists the channels that somebody listens to.",
            complexity: "O(n) where n is the number of channels",
            since: "2.8.0",
            group: Group::Pubsub,
            arity: -2,
            flags: ASK,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "[pattern:pattern]",
        },
        run: channels,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HELP",
            summary: "Tells about the subcommands.",
            complexity: "O(1)",
            since: "6.2.0",
            group: Group::Pubsub,
            arity: 2,
            flags: QUIET,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: help,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "NUMPAT",
            summary: "Counts the patterns that somebody listens by.",
            complexity: "O(1)",
            since: "2.8.0",
            group: Group::Pubsub,
            arity: 2,
            flags: ASK,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "",
        },
        run: numpat,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "NUMSUB",
            summary: "Counts the clients that listen to each of these channels by its name.",
            complexity: "O(n) where n is the number of channels asked for",
            since: "2.8.0",
            group: Group::Pubsub,
            arity: -2,
            flags: ASK,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "[channel:string*]",
        },
        run: numsub,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SHARDCHANNELS",
            summary: "Lists the shard channels that somebody listens to.",
            complexity: "O(n) where n is the number of shard channels",
            since: "7.0.0",
            group: Group::Pubsub,
            arity: -2,
            flags: ASK,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "[pattern:pattern]",
        },
        run: shardchannels,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SHARDNUMSUB",
            summary: "Counts the clients that listen to each of these shard channels.",
            complexity: "O(n) where n is the number of channels asked for",
            since: "7.0.0",
            group: Group::Pubsub,
            arity: -2,
            flags: ASK,
            explicit: Categories::NONE,
            keys: &[],
            tips: &[],
            syntax: "[shardchannel:string*]",
        },
        run: shardnumsub,
        subcommands: &[],
    },
];

const HELP: [&str; 5] = [
    "CHANNELS [<pattern>] -- the channels that somebody listens to (all, or those that fit the pattern).",
    "NUMPAT -- the number of patterns that somebody listens by.",
    "NUMSUB [<channel> ...] -- how many clients listen to each channel by its name.",
    "SHARDCHANNELS [<pattern>] -- the same as CHANNELS for shard channels.",
    "SHARDNUMSUB [<shardchannel> ...] -- the same as NUMSUB for shard channels.",
];

/// `SUBSCRIBE channel [channel ...]`
fn subscribe(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(begin(cx, args, Kind::Channel, reply))
}

/// `PSUBSCRIBE pattern [pattern ...]`
fn psubscribe(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(begin(cx, args, Kind::Pattern, reply))
}

/// `SSUBSCRIBE shardchannel [shardchannel ...]`
fn ssubscribe(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(begin(cx, args, Kind::ShardChannel, reply))
}

/// `UNSUBSCRIBE [channel ...]`
fn unsubscribe(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(end(cx, args, Kind::Channel, reply))
}

/// `PUNSUBSCRIBE [pattern ...]`
fn punsubscribe(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(end(cx, args, Kind::Pattern, reply))
}

/// `SUNSUBSCRIBE [shardchannel ...]`
fn sunsubscribe(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(end(cx, args, Kind::ShardChannel, reply))
}

/// `PUBLISH channel message`
fn publish(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int(cx.worker.shared.publish(Kind::Channel, &args[1], &args[2]).cast_signed());
    Ok(Flow::Done)
}

/// `SPUBLISH shardchannel message`
fn spublish(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int(cx.worker.shared.publish(Kind::ShardChannel, &args[1], &args[2]).cast_signed());
    Ok(Flow::Done)
}

/// `PUBSUB CHANNELS [pattern]`
fn channels(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    list(cx, Kind::Channel, args, reply)
}

/// `PUBSUB SHARDCHANNELS [pattern]`
fn shardchannels(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    list(cx, Kind::ShardChannel, args, reply)
}

/// `PUBSUB NUMSUB [channel ...]`
fn numsub(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(count(cx, Kind::Channel, args, reply))
}

/// `PUBSUB SHARDNUMSUB [shardchannel ...]`
fn shardnumsub(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    Ok(count(cx, Kind::ShardChannel, args, reply))
}

/// `PUBSUB NUMPAT`
fn numpat(cx: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int(cx.worker.shared.directory.count(Kind::Pattern).cast_signed());
    Ok(Flow::Done)
}

/// `PUBSUB HELP`
fn help(_: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    super::help(reply, "PUBSUB", &HELP)
}

fn begin(cx: &mut Cx<'_>, args: Args<'_>, kind: Kind, reply: &mut Reply) -> Flow {
    let word: &[u8] = match kind {
        Kind::Channel => b"subscribe",
        Kind::Pattern => b"psubscribe",
        Kind::ShardChannel => b"ssubscribe",
    };
    let id = ConnId::from_bits(cx.ticket.connection);
    for name in args.iter().skip(1) {
        cx.worker.subscribe(cx.client, id, kind, name);
        tell(cx, kind, word, Some(name), reply);
    }
    Flow::Done
}

fn end(cx: &mut Cx<'_>, args: Args<'_>, kind: Kind, reply: &mut Reply) -> Flow {
    let word: &[u8] = match kind {
        Kind::Channel => b"unsubscribe",
        Kind::Pattern => b"punsubscribe",
        Kind::ShardChannel => b"sunsubscribe",
    };
    let id = ConnId::from_bits(cx.ticket.connection);
    let all = args.len() == 1;
    let names: Vec<Box<[u8]>> = match &cx.client.subscriptions {
        Some(subscriptions) if all => subscriptions.names(kind).map(|name| name[..].into()).collect(),
        _ => args.iter().skip(1).map(Box::from).collect(),
    };
    for name in &names {
        cx.worker.unsubscribe(cx.client, id, kind, name);
        tell(cx, kind, word, Some(name), reply);
    }
    if names.is_empty() {
        tell(cx, kind, word, None, reply);
    }
    Flow::Done
}

/// What has become of a subscription, and how many are left.
fn tell(cx: &Cx<'_>, kind: Kind, word: &[u8], name: Option<&[u8]>, reply: &mut Reply) {
    reply.push(3);
    reply.bulk(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.int(cx.client.subscribed_with(kind) as i64);
}

fn list(cx: &mut Cx<'_>, kind: Kind, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if args.len() > 3 {
        return Err(CommandError::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
            String::from_utf8_lossy(&args[1])
        )));
    }
    let channels = cx.worker.shared.directory.channels(kind, args.get(2));
    reply.array(channels.len());
    channels.iter().for_each(|channel| reply.bulk(channel));
    Ok(Flow::Done)
}

fn count(cx: &mut Cx<'_>, kind: Kind, args: Args<'_>, reply: &mut Reply) -> Flow {
    reply.array((args.len() - 2) * 2);
    for channel in args.iter().skip(2) {
        reply.bulk(channel);
        reply.int(cx.worker.shared.directory.listeners(kind, channel).cast_signed());
    }
    Flow::Done
}
