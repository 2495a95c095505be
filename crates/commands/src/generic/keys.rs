//! Keys as a whole: how many exist, what they are, removing, copying, renaming and moving them.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::notify::Class;
use stdx::num::parse_i64;

use super::ask;

const NOT_AN_I32: CommandError =
    CommandError::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
const SAME_OBJECT: CommandError = CommandError::fixed("ERR source and destination objects are the same");

/// `DEL key [key ...]`, `UNLINK key [key ...]`: freeing is cheap enough to be done at once.
pub(super) fn del(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let mut removed = 0;
    for index in 1..args.len() {
        let key = cx.key(args, index);
        if cx.peek(key).is_some() {
            cx.keyspace(key).remove(key);
            cx.notify(Class::GENERIC, "del", key);
            removed += 1;
        }
    }
    reply.int(removed);
    Ok(if removed > 0 { Effect::AsIs } else { Effect::None })
}

/// `EXISTS key [key ...]`
pub(super) fn exists(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let count = (1..args.len()).filter(|&index| ask(cx, cx.key(args, index), |_| ()).is_some()).count();
    reply.int(count as i64);
    Ok(Effect::None)
}

/// `TOUCH key [key ...]`
pub(super) fn touch(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    // TOUCH is what it says even for a client in CLIENT NO-TOUCH mode.
    let touch = std::mem::replace(&mut cx.touch, true);
    let count = (1..args.len()).filter(|&index| cx.read(cx.key(args, index)).is_some()).count();
    cx.touch = touch;
    reply.int(count as i64);
    Ok(Effect::None)
}

/// `TYPE key`
pub(super) fn type_of(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply.simple(ask(cx, cx.key(args, 1), |entry| entry.type_name()).unwrap_or("none"));
    Ok(Effect::None)
}

/// `COPY source destination [DB destination-db] [REPLACE]`
pub(super) fn copy(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let mut db = cx.db;
    let mut replace = false;
    let mut index = 3;
    while let Some(word) = args.get(index) {
        if word.eq_ignore_ascii_case(b"REPLACE") {
            replace = true;
        } else if word.eq_ignore_ascii_case(b"DB") && args.get(index + 1).is_some() {
            index += 1;
            db = database(cx, &args[index])?;
        } else {
            return Err(CommandError::SYNTAX);
        }
        index += 1;
    }
    let (from, to) = (cx.key(args, 1), cx.key(args, 2));
    if db == cx.db && from.bytes == to.bytes {
        return Err(SAME_OBJECT);
    }
    if cx.read(from).is_none() {
        reply.int(0);
        return Ok(Effect::None);
    }
    let taken = cx.peek_in(db, to).is_some();
    if taken && !replace {
        reply.int(0);
        return Ok(Effect::None);
    }
    let mut value = cx.keyspace(from).copy(from).expect("it has just been read");
    value.access = cx.access_new();
    cx.replace_value(db, to, value);
    cx.notify_in(db, Class::GENERIC, "copy_to", to);
    reply.int(1);
    Ok(Effect::AsIs)
}

/// `RENAME key newkey`
pub(super) fn rename(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (from, to) = (cx.key(args, 1), cx.key(args, 2));
    if cx.find(from).is_none() {
        return Err(CommandError::NO_SUCH_KEY);
    }
    reply.ok();
    if from.bytes == to.bytes {
        return Ok(Effect::None);
    }
    transfer(cx, (cx.db, from), (cx.db, to));
    cx.notify(Class::GENERIC, "rename_from", from);
    cx.notify(Class::GENERIC, "rename_to", to);
    Ok(Effect::AsIs)
}

/// `RENAMENX key newkey`
pub(super) fn renamenx(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (from, to) = (cx.key(args, 1), cx.key(args, 2));
    if cx.find(from).is_none() {
        return Err(CommandError::NO_SUCH_KEY);
    }
    let free = cx.find(to).is_none();
    reply.int(i64::from(free));
    if !free {
        return Ok(Effect::None);
    }
    transfer(cx, (cx.db, from), (cx.db, to));
    cx.notify(Class::GENERIC, "rename_from", from);
    cx.notify(Class::GENERIC, "rename_to", to);
    Ok(Effect::AsIs)
}

/// `MOVE key db`
pub(super) fn move_key(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let db = database(cx, &args[2])?;
    if db == cx.db {
        return Err(SAME_OBJECT);
    }
    let key = cx.key(args, 1);
    let moves = cx.find(key).is_some() && cx.peek_in(db, key).is_none();
    reply.int(i64::from(moves));
    if !moves {
        return Ok(Effect::None);
    }
    transfer(cx, (cx.db, key), (db, key));
    cx.notify(Class::GENERIC, "move_from", key);
    cx.notify_in(db, Class::GENERIC, "move_to", key);
    Ok(Effect::AsIs)
}

/// Takes the value of an existing key, with its deadline, to another key or database; what was there goes. Its use counts from now on.
fn transfer(cx: &mut Exec<'_>, (from_db, from): (u16, Key<'_>), (to_db, to): (u16, Key<'_>)) {
    let mut value = cx.keyspace_in(from_db, from).take(from).expect("the caller has found the key");
    value.access = cx.access_new();
    cx.replace_value(to_db, to, value);
}

/// The database that a word names.
fn database(cx: &Exec<'_>, word: &[u8]) -> Result<u16, CommandError> {
    let number = parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)?;
    let number = i32::try_from(number).map_err(|_| NOT_AN_I32)?;
    u16::try_from(number).ok().filter(|db| *db < cx.layout.databases).ok_or(CommandError::DB_OUT_OF_RANGE)
}
