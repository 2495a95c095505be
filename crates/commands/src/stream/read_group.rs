//! XREADGROUP and XACK: entries go to the consumers of a group and are done.

use command::{CommandError, Effect};
use resp::{Args, Proto, Reply};
use shard::exec::Exec;
use shard::notify::Class;
use shard::plan::{Attempted, Blocking};
use types::Type;
use types::stream::{Id, Stream, StreamMut};

use super::ids;
use super::read::{Options, reply_entries, reply_entry};
use super::records::{Claimed, OfGroup, Records};
use crate::text::quoted;

const NO_GROUP_NAMED: CommandError = CommandError::fixed("ERR Missing GROUP option for XREADGROUP");

/// Behind which id a group is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// `>`: what was never delivered.
    Delivered,
    /// What is pending for the consumer behind this id.
    Pending(Id),
}

fn behind(word: &[u8]) -> Result<Behind, CommandError> {
    let meaningless = |id: char| {
        CommandError::new(format!(
            "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying \
             a proper ID, or use the > ID to get new messages. The {id} ID would just return an empty result set."
        ))
    };
    match word {
        b"$" => Err(meaningless('$')),
        b"+" => Err(meaningless('+')),
        b">" => Ok(Behind::Delivered),
        // The highest id stands for `>` with the peers.
        word => Ok(match ids::strict(word, 0)? {
            Id::MAX => Behind::Delivered,
            id => Behind::Pending(id),
        }),
    }
}

/// XREADGROUP, which waits if asked to, and fails when its stream or group goes meanwhile.
pub(super) const XREADGROUP: Blocking = Blocking {
    attempt: xreadgroup,
    wants: Type::Stream,
    on_nokey: true,
    whole: false,
    null: Reply::null_array,
};

/// `XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]`
fn xreadgroup(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    let options = Options::parse(args, cx.now_ms, true)?;
    let (served, effect) = read_group(cx, args, &options, reply)?;
    if served {
        return Ok(Attempted::Done(effect));
    }
    Ok(options.wait_or_null(cx.now_ms, effect, None, reply))
}

/// Replies with what there is for the consumer; false, and nothing is written, if there is nothing. Its consumer is made all the same. Tried
/// again, it passes over streams whose shards are not held.
fn read_group(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    options: &Options<'_>,
    reply: &mut Reply,
) -> Result<(bool, Effect), CommandError> {
    let (group, consumer) = options.group.ok_or(NO_GROUP_NAMED)?;
    for (at, id) in options.pairs() {
        let key = cx.key(args, at);
        if !cx.holds(key) {
            continue;
        }
        let stream = cx.view(key, Type::Stream)?.map(Stream::new);
        if stream.is_none_or(|stream| stream.group(group).is_none()) {
            let (key, group) = (quoted(key.bytes), quoted(group));
            return Err(CommandError::new(format!(
                "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
            )));
        }
        behind(&args[id])?;
    }
    let mut records = Records::new(cx);
    let (mark, resp3) = (reply.mark(), reply.proto == Proto::Resp3);
    let header = reply.defer_array();
    let mut streams = 0;
    for (at, id) in options.pairs() {
        let (key, now_ms) = (cx.key(args, at), cx.now_ms as i64);
        if !cx.holds(key) {
            continue;
        }
        let Some(mut slot) = cx.slot(key, Type::Stream)? else { continue };
        let before = reply.mark();
        if !resp3 {
            reply.array(2);
        }
        reply.bulk(key.bytes);
        let of = OfGroup { key: key.bytes, group };
        let reading = Reading { of, consumer, now_ms, count: options.count, no_ack: options.no_ack };
        let created_before = records.consumers_created();
        let served = match behind(&args[id])? {
            Behind::Delivered => reading.new_entries(&mut StreamMut::new(&mut slot), reply, &mut records),
            Behind::Pending(id) => reading.history(&mut StreamMut::new(&mut slot), id, reply, &mut records),
        };
        drop(slot);
        if records.consumers_created() > created_before {
            cx.notify(Class::STREAM, "xgroup-createconsumer", key);
        }
        if served {
            streams += 1;
        } else {
            reply.truncate_to(before);
        }
    }
    match streams {
        0 => reply.truncate_to(mark),
        _ if resp3 => reply.finish_map(header, streams),
        _ => reply.finish_array(header, streams),
    }
    Ok((streams > 0, records.effect()))
}

/// A consumer that reads.
struct Reading<'a> {
    of: OfGroup<'a>,
    consumer: &'a [u8],
    now_ms: i64,
    /// 0: all.
    count: u64,
    no_ack: bool,
}

impl Reading<'_> {
    /// Delivers what the group has not delivered yet; false if there is nothing.
    fn new_entries(&self, stream: &mut StreamMut<'_, '_>, reply: &mut Reply, records: &mut Records) -> bool {
        let Some(mut group) = stream.group_mut(self.of.group) else { return false };
        let (consumer, created) = group.consumer(self.consumer, self.now_ms);
        if created {
            records.consumer_created(self.of, self.consumer);
        }
        let Some(start) = group.last().next() else { return false };
        let mut ids = Vec::new();
        let mut entries = group.stream().range(start, Id::MAX, false).peekable();
        if entries.peek().is_none() {
            return false;
        }
        let count = if self.count == 0 { u64::MAX } else { self.count };
        reply_entries(reply, entries.inspect(|entry| ids.push(entry.id)), count);
        group.advance(ids.iter().copied());
        if !self.no_ack {
            group.deliver(consumer, &ids, self.now_ms);
            let claimed = Claimed {
                consumer: self.consumer,
                ids: &ids,
                delivered_ms: self.now_ms,
                count: Some(1),
                keep_count: true,
            };
            records.claimed(self.of, &claimed);
        }
        records.moved(self.of, group.last(), group.entries_read());
        true
    }

    /// Gives again what is pending for the consumer.
    fn history(
        &self,
        stream: &mut StreamMut<'_, '_>,
        behind: Id,
        reply: &mut Reply,
        records: &mut Records,
    ) -> bool {
        let Some(mut group) = stream.group_mut(self.of.group) else { return false };
        let (consumer, created) = group.consumer(self.consumer, self.now_ms);
        if created {
            records.consumer_created(self.of, self.consumer);
        }
        let start = behind.next().unwrap_or(Id::MAX);
        let count = if self.count == 0 { u64::MAX } else { self.count };
        let ids = group.pending_of(consumer, start, count);
        let mut again = Vec::new();
        reply.array(ids.len());
        for id in ids {
            match group.stream().get(id) {
                Some(entry) => {
                    reply_entry(reply, entry);
                    again.push(id);
                }
                None => {
                    reply.array(2);
                    ids::reply_id(reply, id);
                    reply.null_array();
                }
            }
        }
        again.iter().for_each(|id| group.redeliver(*id, self.now_ms));
        let claimed = Claimed {
            consumer: self.consumer,
            ids: &again,
            delivered_ms: self.now_ms,
            count: None,
            keep_count: false,
        };
        records.claimed(self.of, &claimed);
        true
    }
}

/// `XACK key group id [id ...]`
pub(super) fn xack(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let mut acknowledged = 0;
    cx.view(cx.key(args, 1), Type::Stream)?;
    if let Some(mut slot) = cx.slot(cx.key(args, 1), Type::Stream)?
        && let Some(mut group) = StreamMut::new(&mut slot).group_mut(&args[2])
    {
        for word in args.from(3).iter() {
            ids::strict(word, 0)?;
        }
        for word in args.from(3).iter() {
            acknowledged += i64::from(group.acknowledge(ids::strict(word, 0)?));
        }
    }
    reply.int(acknowledged);
    Ok(if acknowledged > 0 { Effect::AsIs } else { Effect::None })
}
