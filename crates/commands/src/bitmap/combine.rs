//! BITOP: strings combined bit by bit.

use command::{CommandError, Effect};
use memory::BigRef;
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::StringRef;
use shard::notify::Class;
use types::bits::{self, Operation};

use crate::text::{access, string};

const NOT_OF_ONE: CommandError =
    CommandError::fixed("ERR BITOP NOT must be called with a single source key.");

/// A source, held apart from its shard while the result is written.
enum Source {
    Shared(BigRef),
    Copied(Vec<u8>),
}

impl Source {
    fn bytes(&self) -> &[u8] {
        match self {
            Source::Shared(big) => big.as_ref(),
            Source::Copied(bytes) => bytes,
        }
    }
}

/// `BITOP AND | OR | XOR | NOT destkey key [key ...]`
pub(super) fn bitop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let operation = match args[1].to_ascii_uppercase().as_slice() {
        b"AND" => Operation::And,
        b"OR" => Operation::Or,
        b"XOR" => Operation::Xor,
        b"NOT" => Operation::Not,
        _ => return Err(CommandError::SYNTAX),
    };
    if operation == Operation::Not && args.len() != 4 {
        return Err(NOT_OF_ONE);
    }
    let mut sources = Vec::with_capacity(args.len() - 3);
    for index in 3..args.len() {
        sources.push(match cx.read(cx.key(args, index)).map(string).transpose()? {
            None => Source::Copied(Vec::new()),
            Some(StringRef::Big(big)) => Source::Shared(big.share()),
            Some(small) => Source::Copied(small.to_vec()),
        });
    }
    let sources: Vec<&[u8]> = sources.iter().map(Source::bytes).collect();
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let key = cx.key(args, 2);
    let access = access(cx, key);
    // A source that is the destination, too, stays as it is for as long as it is shared.
    let removed = cx.find(key).is_some() && cx.keyspace(key).remove(key);
    if len > 0 {
        let result = cx.keyspace_over(key, removed).string_resize(key, len, access);
        bits::combine(operation, result, &sources);
        cx.notify(Class::STRING, "set", key);
    } else if removed {
        cx.notify(Class::GENERIC, "del", key);
    }
    reply.int(len as i64);
    Ok(if removed || len > 0 { Effect::AsIs } else { Effect::None })
}
