//! XCLAIM and XAUTOCLAIM: pending entries change hands. XPENDING: what is pending.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::Type;
use types::stream::{ConsumerId, GroupMut, GroupRef, Id, Pending, Stream, StreamMut};

use super::ids::{self, reply_id};
use super::read::reply_entry;
use super::records::{Claimed, OfGroup, Records};
use crate::text::quoted;

/// The error where key or group are missing.
fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (quoted(key), quoted(group));
    CommandError::new(format!("NOGROUP No such key '{key}' or consumer group '{group}'"))
}

/// The options of XCLAIM.
struct Options {
    min_idle_ms: i64,
    /// Words 5 up to this one are ids.
    ids_end: usize,
    /// Unix time in ms.
    delivered_ms: i64,
    count: Option<i64>,
    force: bool,
    just_id: bool,
    last: Id,
}

impl Options {
    fn parse(args: Args<'_>, now_ms: i64) -> Result<Options, CommandError> {
        let number = |word: &[u8], option: &str| {
            let error = || CommandError::new(format!("ERR Invalid {option} argument for XCLAIM"));
            parse_i64(word).ok_or_else(error)
        };
        let min_idle_ms = number(&args[4], "min-idle-time")?.max(0);
        let ids = args.from(5).iter().take_while(|word| ids::strict(word, 0).is_ok()).count();
        let mut options = Options {
            min_idle_ms,
            ids_end: 5 + ids,
            delivered_ms: now_ms,
            count: None,
            force: false,
            just_id: false,
            last: Id::ZERO,
        };
        let mut words = args.from(options.ids_end).iter().peekable();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let value = words.peek().copied();
            match value {
                _ if is("FORCE") => options.force = true,
                _ if is("JUSTID") => options.just_id = true,
                Some(value) if is("IDLE") => {
                    options.delivered_ms = now_ms.wrapping_sub(number(value, "IDLE option")?);
                }
                Some(value) if is("TIME") => options.delivered_ms = number(value, "TIME option")?,
                Some(value) if is("RETRYCOUNT") => {
                    options.count = Some(number(value, "RETRYCOUNT option")?).filter(|count| *count >= 0);
                }
                Some(value) if is("LASTID") => options.last = ids::strict(value, 0)?,
                _ => {
                    let word = quoted(word);
                    return Err(CommandError::new(format!("ERR Unrecognized XCLAIM option '{word}'")));
                }
            }
            if !is("FORCE") && !is("JUSTID") {
                words.next();
            }
        }
        // A client's clock may be ahead of this one.
        if !(0..=now_ms).contains(&options.delivered_ms) {
            options.delivered_ms = now_ms;
        }
        Ok(options)
    }
}

/// `XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID] [LASTID id]`
pub(super) fn xclaim(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms as i64);
    let (name, consumer) = (&args[2], &args[3]);
    let missing = || no_group(key.bytes, name);
    let mut records = Records::new(cx);
    cx.view(key, Type::Stream)?;
    let mut slot = cx.slot(key, Type::Stream)?.ok_or_else(missing)?;
    let mut stream = StreamMut::new(&mut slot);
    let mut group = stream.group_mut(name).ok_or_else(missing)?;
    let options = Options::parse(args, now_ms)?;
    let of = OfGroup { key: key.bytes, group: name };
    if options.last > group.last() {
        let read = group.entries_read();
        group.set_last(options.last, read);
        records.moved(of, options.last, read);
    }
    let (to, created) = group.consumer(consumer, now_ms);
    if created {
        records.consumer_created(of, consumer);
    }
    let header = reply.defer_array();
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    for at in 5..options.ids_end {
        let id = ids::strict(&args[at], 0)?;
        if group.stream().get(id).is_none() {
            gone.extend(group.acknowledge(id).then_some(id));
            continue;
        }
        let before = group.pending_at(id);
        let idle_ms = before.map_or(i64::MAX, |pending| now_ms.wrapping_sub(pending.delivered_ms));
        if before.is_none() && !options.force || idle_ms < options.min_idle_ms {
            continue;
        }
        let more = i64::from(!options.just_id);
        let count = options.count.unwrap_or(before.map_or(1, |pending| pending.count).wrapping_add(more));
        group.claim(id, Pending { consumer: to, delivered_ms: options.delivered_ms, count }, now_ms);
        reply_claimed(reply, &group, id, options.just_id);
        claimed.push(id);
    }
    reply.finish_array(header, claimed.len());
    records.acknowledged(of, &gone);
    let (delivered_ms, count) = (options.delivered_ms, options.count);
    records
        .claimed(of, &Claimed { consumer, ids: &claimed, delivered_ms, count, keep_count: options.just_id });
    drop(group);
    drop(slot);
    if created {
        cx.notify(Class::STREAM, "xgroup-createconsumer", key);
    }
    Ok(records.effect())
}

fn reply_claimed(reply: &mut Reply, group: &GroupMut<'_>, id: Id, just_id: bool) {
    match group.stream().get(id) {
        Some(entry) if !just_id => reply_entry(reply, entry),
        _ => reply_id(reply, id),
    }
}

/// Entries that XAUTOCLAIM looks at for each that it may reply.
const TRIES_PER_ENTRY: u64 = 10;
/// The highest COUNT of XAUTOCLAIM.
const COUNT_MAX: i64 = i64::MAX / 16;

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
pub(super) fn xautoclaim(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    const IDLE_INVALID: CommandError =
        CommandError::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    const COUNT_INVALID: CommandError = CommandError::fixed("ERR COUNT must be > 0");
    // Looked up first, so that a miss is counted whatever else is wrong.
    let key = cx.key(args, 1);
    cx.read(key);
    let min_idle_ms = parse_i64(&args[4]).ok_or(IDLE_INVALID)?.max(0);
    let (start, _) = ids::interval(&args[5], b"+")?;
    let (mut count, mut just_id) = (100, false);
    let mut words = args.from(6).iter();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"JUSTID") {
            just_id = true;
            continue;
        }
        let value = words.next().filter(|_| word.eq_ignore_ascii_case(b"COUNT"));
        let value = parse_i64(value.ok_or(CommandError::SYNTAX)?).ok_or(COUNT_INVALID)?;
        count =
            u64::try_from(value).ok().filter(|_| (1..=COUNT_MAX).contains(&value)).ok_or(COUNT_INVALID)?;
    }
    let now_ms = cx.now_ms as i64;
    let (name, consumer) = (&args[2], &args[3]);
    let missing = || no_group(key.bytes, name);
    let mut records = Records::new(cx);
    let mut slot = cx.slot(key, Type::Stream)?.ok_or_else(missing)?;
    let mut stream = StreamMut::new(&mut slot);
    let mut group = stream.group_mut(name).ok_or_else(missing)?;
    let of = OfGroup { key: key.bytes, group: name };
    let (to, created) = group.consumer(consumer, now_ms);
    if created {
        records.consumer_created(of, consumer);
    }
    let sweep = Sweep { to, now_ms, min_idle_ms, count };
    let (next, claimed, gone) = sweep.run(&mut group, start, just_id);
    reply.array(3);
    reply_id(reply, next);
    reply.array(claimed.len());
    claimed.iter().for_each(|id| reply_claimed(reply, &group, *id, just_id));
    reply.array(gone.len());
    gone.iter().for_each(|id| reply_id(reply, *id));
    records.acknowledged(of, &gone);
    let claimed = Claimed { consumer, ids: &claimed, delivered_ms: now_ms, count: None, keep_count: just_id };
    records.claimed(of, &claimed);
    drop(group);
    drop(slot);
    if created {
        cx.notify(Class::STREAM, "xgroup-createconsumer", key);
    }
    Ok(records.effect())
}

/// A walk through pending entries that takes those that have been idle.
struct Sweep {
    to: ConsumerId,
    now_ms: i64,
    min_idle_ms: i64,
    count: u64,
}

impl Sweep {
    /// The id to go on with, zero at the end; what was claimed; and what was pending, but is no entry any more.
    fn run(&self, group: &mut GroupMut<'_>, start: Id, just_id: bool) -> (Id, Vec<Id>, Vec<Id>) {
        let (mut claimed, mut gone) = (Vec::new(), Vec::new());
        let mut from = Some(start);
        for _ in 0..self.count * TRIES_PER_ENTRY {
            if (claimed.len() + gone.len()) as u64 == self.count {
                break;
            }
            let Some((id, pending)) = from.and_then(|from| group.pending(from).next()) else { break };
            from = id.next();
            if group.stream().get(id).is_none() {
                group.acknowledge(id);
                gone.push(id);
                continue;
            }
            if self.now_ms.wrapping_sub(pending.delivered_ms) < self.min_idle_ms {
                continue;
            }
            let count = pending.count.wrapping_add(i64::from(!just_id));
            let pending = Pending { consumer: self.to, delivered_ms: self.now_ms, count };
            group.claim(id, pending, self.now_ms);
            claimed.push(id);
        }
        let next = from.and_then(|from| group.pending(from).next());
        (next.map_or(Id::ZERO, |(id, _)| id), claimed, gone)
    }
}

/// Which pending entries XPENDING shall tell.
struct Asked<'a> {
    min_idle_ms: i64,
    start: Id,
    end: Id,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    /// The words behind the group; None if there are none.
    fn parse(args: Args<'a>) -> Result<Option<Asked<'a>>, CommandError> {
        match args.len() {
            3 => return Ok(None),
            6..=9 => {}
            _ => return Err(CommandError::SYNTAX),
        }
        let (mut at, mut min_idle_ms) = (3, 0);
        if args[3].eq_ignore_ascii_case(b"IDLE") {
            min_idle_ms = parse_i64(&args[4]).ok_or(CommandError::NOT_AN_INTEGER)?;
            if args.len() < 8 {
                return Err(CommandError::SYNTAX);
            }
            at = 5;
        }
        let count = parse_i64(&args[at + 2]).ok_or(CommandError::NOT_AN_INTEGER)?.max(0) as u64;
        let (start, end) = ids::interval(&args[at], &args[at + 1])?;
        Ok(Some(Asked { min_idle_ms, start, end, count, consumer: args.get(at + 3) }))
    }
}

/// `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`
pub(super) fn xpending(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let asked = Asked::parse(args)?;
    let (key, now_ms) = (cx.key(args, 1), cx.now_ms as i64);
    let stream = cx.view(key, Type::Stream)?.map(Stream::new);
    let group = stream.and_then(|stream| stream.group(&args[2]));
    let group = group.ok_or_else(|| no_group(key.bytes, &args[2]))?;
    match asked {
        None => summary(reply, &group),
        Some(asked) => details(reply, &group, &asked, now_ms),
    }
    Ok(Effect::None)
}

fn summary(reply: &mut Reply, group: &GroupRef<'_>) {
    reply.array(4);
    reply.int(group.pending_len() as i64);
    let Some((first, last)) = group.pending_ends() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(reply, first);
    reply_id(reply, last);
    let consumers = group.consumers();
    let busy = || consumers.iter().filter(|consumer| consumer.pending_len() > 0);
    reply.array(busy().count());
    for consumer in busy() {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_int(consumer.pending_len() as i64);
    }
}

fn details(reply: &mut Reply, group: &GroupRef<'_>, asked: &Asked<'_>, now_ms: i64) {
    let header = reply.defer_array();
    let mut told = 0;
    let mut tell = |id: Id, pending: Pending| {
        let idle_ms = now_ms.wrapping_sub(pending.delivered_ms);
        if told == asked.count || id > asked.end {
            return false;
        }
        if asked.min_idle_ms != 0 && idle_ms < asked.min_idle_ms {
            return true;
        }
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer_at(pending.consumer).name());
        reply.int(idle_ms.max(0));
        reply.int(pending.count);
        told += 1;
        true
    };
    match asked.consumer.map(|name| group.consumer(name)) {
        None => {
            group.pending(asked.start).take_while(|(id, pending)| tell(*id, *pending)).for_each(drop);
        }
        Some(None) => {}
        Some(Some(consumer)) => {
            let pending = consumer.pending(asked.start);
            pending
                .map_while(|id| group.pending_at(id).map(|pending| (id, pending)))
                .take_while(|(id, pending)| tell(*id, *pending))
                .for_each(drop);
        }
    }
    reply.finish_array(header, told as usize);
}
