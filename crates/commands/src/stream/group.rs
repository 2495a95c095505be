//! XGROUP: groups and consumers come, go and are set.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use stdx::num::parse_i64;
use types::Type;
use types::stream::{Id, NOT_KNOWN, Stream, StreamMut};

use super::ids;
use crate::text::quoted;

const BUSY: CommandError = CommandError::fixed("BUSYGROUP Consumer Group name already exists");
const NO_KEY: CommandError = CommandError::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an \
     empty stream automatically.",
);
const READ_INVALID: CommandError = CommandError::fixed("ERR value for ENTRIESREAD must be positive or -1");

const HELP: [&str; 7] = [
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <group> <id | $> [MKSTREAM] [ENTRIESREAD <n>] -- makes a group that reads what is behind the id.",
    "CREATECONSUMER <key> <group> <consumer> -- makes a consumer.",
    "DELCONSUMER <key> <group> <consumer> -- removes a consumer and forgets what it has pending.",
    "DESTROY <key> <group> -- removes a group.",
    "SETID <key> <group> <id | $> [ENTRIESREAD <n>] -- lets a group go on behind another id.",
    "HELP -- this text.",
];

/// `XGROUP HELP`
pub(super) fn help(_: &mut Exec<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
    Ok(Effect::None)
}

/// The error of a subcommand whose words do not fit.
pub(super) fn wrong_words(args: Args<'_>, container: &str) -> CommandError {
    let name = quoted(&args[1]);
    CommandError::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
    ))
}

/// The error where a group is missing.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (quoted(key), quoted(group));
    CommandError::new(format!("NOGROUP No such consumer group '{group}' for key name '{key}'"))
}

/// The options of CREATE and SETID.
struct Options {
    make_stream: bool,
    read: i64,
}

impl Options {
    fn parse(args: Args<'_>, create: bool) -> Result<Options, CommandError> {
        let mut options = Options { make_stream: false, read: NOT_KNOWN };
        let mut words = args.from(5).iter();
        while let Some(word) = words.next() {
            if create && word.eq_ignore_ascii_case(b"MKSTREAM") {
                options.make_stream = true;
                continue;
            }
            if !word.eq_ignore_ascii_case(b"ENTRIESREAD") {
                return Err(wrong_words(args, "XGROUP"));
            }
            let read = words.next().ok_or_else(|| wrong_words(args, "XGROUP"))?;
            options.read = parse_i64(read).ok_or(CommandError::NOT_AN_INTEGER)?;
            if options.read < NOT_KNOWN {
                return Err(READ_INVALID);
            }
        }
        Ok(options)
    }
}

/// `XGROUP CREATE key group id | $ [MKSTREAM] [ENTRIESREAD entries-read]`
pub(super) fn create(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    const WORDS_MAX: usize = 8;
    let options = Options::parse(args, true)?;
    let (key, name) = (cx.key(args, 2), &args[3]);
    let last = cx.find_view(key, Type::Stream)?.map(|view| Stream::new(view).head().last);
    if last.is_none() && !options.make_stream {
        return Err(NO_KEY);
    }
    if args.len() > WORDS_MAX {
        return Err(wrong_words(args, "XGROUP"));
    }
    let id = match &args[4] {
        b"$" => last.unwrap_or(Id::ZERO),
        word => ids::strict(word, 0)?,
    };
    if last.is_none() {
        StreamMut::new(&mut cx.create(key, &StreamMut::EMPTY)).create_group(name, id, options.read);
        cx.changed(key);
    } else {
        let mut slot = cx.slot(key, Type::Stream)?.ok_or(NO_KEY)?;
        if !StreamMut::new(&mut slot).create_group(name, id, options.read) {
            return Err(BUSY);
        }
    }
    cx.notify(Class::STREAM, "xgroup-create", key);
    reply.ok();
    Ok(Effect::AsIs)
}

/// `XGROUP SETID key group id | $ [ENTRIESREAD entries-read]`
pub(super) fn setid(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let options = Options::parse(args, false)?;
    on_group(cx, args, |stream| {
        if !matches!(args.len(), 5 | 7) {
            return Err(wrong_words(args, "XGROUP"));
        }
        let id = match &args[4] {
            b"$" => stream.read().head().last,
            word => ids::or_edge(word, 0)?,
        };
        stream.group_mut(&args[3]).ok_or(NO_KEY)?.set_last(id, options.read);
        Ok(())
    })?;
    cx.notify(Class::STREAM, "xgroup-setid", cx.key(args, 2));
    reply.ok();
    Ok(Effect::AsIs)
}

/// `XGROUP CREATECONSUMER key group consumer`
pub(super) fn createconsumer(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let now_ms = cx.now_ms as i64;
    let created = on_group(cx, args, |stream| {
        let mut group = stream.group_mut(&args[3]).ok_or(NO_KEY)?;
        Ok(!group.has_consumer(&args[4]) && group.consumer(&args[4], now_ms).1)
    })?;
    reply.int(i64::from(created));
    if created {
        cx.notify(Class::STREAM, "xgroup-createconsumer", cx.key(args, 2));
    }
    Ok(if created { Effect::AsIs } else { Effect::None })
}

/// `XGROUP DELCONSUMER key group consumer`
pub(super) fn delconsumer(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let removed =
        on_group(cx, args, |stream| Ok(stream.group_mut(&args[3]).ok_or(NO_KEY)?.remove_consumer(&args[4])))?;
    reply.int(removed.unwrap_or(0) as i64);
    if removed.is_some() {
        cx.notify(Class::STREAM, "xgroup-delconsumer", cx.key(args, 2));
    }
    Ok(if removed.is_some() { Effect::AsIs } else { Effect::None })
}

/// `XGROUP DESTROY key group`
pub(super) fn destroy(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 2);
    let destroyed = on_stream(cx, key, |stream| Ok(stream.destroy_group(&args[3])))?;
    reply.int(i64::from(destroyed));
    if !destroyed {
        return Ok(Effect::None);
    }
    cx.notify(Class::STREAM, "xgroup-destroy", key);
    // Those who wait for the group shall fail.
    cx.ready(key);
    Ok(Effect::AsIs)
}

/// Changes a stream, which must be there.
fn on_stream<T>(
    cx: &mut Exec<'_>,
    key: Key<'_>,
    change: impl FnOnce(&mut StreamMut<'_, '_>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let mut slot = cx.slot(key, Type::Stream)?.ok_or(NO_KEY)?;
    change(&mut StreamMut::new(&mut slot))
}

/// Changes a stream, which must have the group that word 3 names.
fn on_group<T>(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    change: impl FnOnce(&mut StreamMut<'_, '_>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    on_stream(cx, cx.key(args, 2), |stream| {
        if stream.read().group(&args[3]).is_none() {
            return Err(no_group(&args[2], &args[3]));
        }
        change(stream)
    })
}
