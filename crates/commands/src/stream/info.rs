//! XINFO: what is known about a stream, its groups and their consumers.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use stdx::num::parse_i64;
use types::Type;
use types::stream::{Entry, GroupRef, Id, Stream};

use super::group::{no_group, wrong_words};
use super::ids::reply_id;
use super::read::{reply_entries, reply_entry};

const HELP: [&str; 5] = [
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <group> -- the consumers of a group.",
    "GROUPS <key> -- the groups of a stream.",
    "STREAM <key> [FULL [COUNT <count>]] -- a stream; FULL: with its entries, groups, consumers and what is pending.",
    "HELP -- this text.",
];

/// Entries and pending entries that FULL tells of each list.
const FULL_COUNT: u64 = 10;

/// `XINFO HELP`
pub(super) fn help(_: &mut Exec<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
    Ok(Effect::None)
}

/// The stream at word 2, which must be there.
fn stream<'s>(cx: &'s mut Exec<'_>, args: Args<'_>) -> Result<Stream<'s>, CommandError> {
    let view = cx.view(cx.key(args, 2), Type::Stream)?;
    view.map(Stream::new).ok_or(CommandError::NO_SUCH_KEY)
}

/// `XINFO STREAM key [FULL [COUNT count]]`
pub(super) fn info(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let stream = stream(cx, args)?;
    let full = full_count(args)?;
    reply.map(if full.is_some() { 9 } else { 10 });
    let head = stream.head();
    let mut number = |name: &str, number: u64| {
        reply.bulk(name.as_bytes());
        reply.int(number as i64);
    };
    number("length", head.len);
    number("radix-tree-keys", stream.nodes());
    number("radix-tree-nodes", stream.blocks());
    let mut id = |name: &str, id: Id| {
        reply.bulk(name.as_bytes());
        reply_id(reply, id);
    };
    id("last-generated-id", head.last);
    id("max-deleted-entry-id", head.max_deleted);
    reply.bulk(b"entries-added");
    reply.int(head.added as i64);
    reply.bulk(b"recorded-first-entry-id");
    reply_id(reply, stream.first_id());
    let all = |descending| stream.range(Id::ZERO, Id::MAX, descending);
    match full {
        None => {
            reply.bulk(b"groups");
            reply.int(stream.groups_len() as i64);
            reply.bulk(b"first-entry");
            entry_or_null(reply, all(false).next());
            reply.bulk(b"last-entry");
            entry_or_null(reply, all(true).next());
        }
        Some(count) => {
            reply.bulk(b"entries");
            reply_entries(reply, all(false), count);
            reply.bulk(b"groups");
            let groups = stream.groups();
            reply.array(groups.len());
            groups.iter().for_each(|group| full_group(reply, group, count));
        }
    }
    Ok(Effect::None)
}

/// The COUNT of FULL, the highest number for all; None without FULL.
fn full_count(args: Args<'_>) -> Result<Option<u64>, CommandError> {
    let is = |at: usize, word: &[u8]| args[at].eq_ignore_ascii_case(word);
    match args.len() {
        3 => Ok(None),
        4 if is(3, b"FULL") => Ok(Some(FULL_COUNT)),
        6 if is(3, b"FULL") && is(4, b"COUNT") => {
            Ok(Some(match parse_i64(&args[5]).ok_or(CommandError::NOT_AN_INTEGER)? {
                0 => u64::MAX,
                count => u64::try_from(count).unwrap_or(FULL_COUNT),
            }))
        }
        _ => Err(wrong_words(args, "XINFO")),
    }
}

fn entry_or_null(reply: &mut Reply, entry: Option<Entry<'_>>) {
    match entry {
        Some(entry) => reply_entry(reply, entry),
        None => reply.null(),
    }
}

fn int_or_null(reply: &mut Reply, name: &str, number: Option<i64>) {
    reply.bulk(name.as_bytes());
    match number {
        Some(number) => reply.int(number),
        None => reply.null(),
    }
}

fn full_group(reply: &mut Reply, group: &GroupRef<'_>, count: u64) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(group.name());
    reply.bulk(b"last-delivered-id");
    reply_id(reply, group.last());
    int_or_null(reply, "entries-read", group.entries_read());
    int_or_null(reply, "lag", group.lag());
    reply.bulk(b"pel-count");
    reply.int(group.pending_len() as i64);
    reply.bulk(b"pending");
    let header = reply.defer_array();
    let mut told = 0;
    for (id, pending) in group.pending(Id::ZERO).take(count) {
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer_at(pending.consumer).name());
        reply.int(pending.delivered_ms);
        reply.int(pending.count);
        told += 1;
    }
    reply.finish_array(header, told);
    reply.bulk(b"consumers");
    let consumers = group.consumers();
    reply.array(consumers.len());
    for consumer in &consumers {
        reply.map(5);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        reply.bulk(b"seen-time");
        reply.int(consumer.seen_ms());
        reply.bulk(b"active-time");
        reply.int(consumer.active_ms());
        reply.bulk(b"pel-count");
        reply.int(consumer.pending_len() as i64);
        reply.bulk(b"pending");
        let header = reply.defer_array();
        let mut told = 0;
        for id in consumer.pending(Id::ZERO).take(count) {
            let pending = group.pending_at(id).expect("what a consumer has pending is pending in the group");
            reply.array(3);
            reply_id(reply, id);
            reply.int(pending.delivered_ms);
            reply.int(pending.count);
            told += 1;
        }
        reply.finish_array(header, told);
    }
}

/// `XINFO GROUPS key`
pub(super) fn groups(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let groups = stream(cx, args)?.groups();
    reply.array(groups.len());
    for group in &groups {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(group.name());
        reply.bulk(b"consumers");
        reply.int(group.consumers_len() as i64);
        reply.bulk(b"pending");
        reply.int(group.pending_len() as i64);
        reply.bulk(b"last-delivered-id");
        reply_id(reply, group.last());
        int_or_null(reply, "entries-read", group.entries_read());
        int_or_null(reply, "lag", group.lag());
    }
    Ok(Effect::None)
}

/// `XINFO CONSUMERS key group`
pub(super) fn consumers(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let now_ms = cx.now_ms as i64;
    let group = stream(cx, args)?.group(&args[3]).ok_or_else(|| no_group(&args[2], &args[3]))?;
    let consumers = group.consumers();
    reply.array(consumers.len());
    for consumer in &consumers {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        reply.bulk(b"pending");
        reply.int(consumer.pending_len() as i64);
        reply.bulk(b"idle");
        reply.int((now_ms - consumer.seen_ms()).max(0));
        reply.bulk(b"inactive");
        reply.int(if consumer.active_ms() < 0 { -1 } else { now_ms - consumer.active_ms() });
    }
    Ok(Effect::None)
}
