//! Adding, counting, merging.
//!
//! HOT: PFADD of what is known and PFCOUNT of one sketch: no allocation.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{IntText, Key};
use shard::notify::Class;
use types::hyperloglog::{self, Encoding, Merged, Position};

use super::{corrupt, sketch};

/// `PFADD key [element ...]`
pub(super) fn pfadd(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let key = cx.key(args, 1);
    let elements = || args.iter().skip(2).map(Position::of);
    let sparse_bytes_max = sparse_bytes_max(cx);
    let mut text = IntText::default();
    let Some(entry) = cx.find(key) else {
        let mut new = hyperloglog::empty();
        for element in elements() {
            hyperloglog::add(&mut new, element, sparse_bytes_max).map_err(corrupt)?;
        }
        return Ok(changed(cx, key, &mut new, reply));
    };
    let old = sketch(entry, &mut text)?;
    let mut changes = false;
    for element in elements() {
        changes |= hyperloglog::changes(old, element).map_err(corrupt)?;
    }
    if !changes {
        reply.int(0);
        return Ok(Effect::None);
    }
    if hyperloglog::encoding(old) == Some(Encoding::Dense) {
        let bytes = cx.keyspace(key).string_resize(key, hyperloglog::DENSE_BYTES, None);
        for element in elements() {
            hyperloglog::add_dense(bytes, element);
        }
        hyperloglog::forget(bytes);
        cx.notify(Class::STRING, "pfadd", key);
        reply.int(1);
        return Ok(Effect::AsIs);
    }
    let mut new = old.to_vec();
    for element in elements() {
        hyperloglog::add(&mut new, element, sparse_bytes_max).map_err(corrupt)?;
    }
    Ok(changed(cx, key, &mut new, reply))
}

fn changed(cx: &mut Exec<'_>, key: Key<'_>, new: &mut [u8], reply: &mut Reply) -> Effect {
    hyperloglog::forget(new);
    store(cx, key, new);
    cx.notify(Class::STRING, "pfadd", key);
    reply.int(1);
    Effect::AsIs
}

/// Makes `new` the string of a key; its deadline stays.
pub(super) fn store(cx: &mut Exec<'_>, key: Key<'_>, new: &[u8]) {
    let access = cx.access_new();
    cx.keyspace(key).string_resize(key, new.len(), access).copy_from_slice(new);
}

fn sparse_bytes_max(cx: &Exec<'_>) -> usize {
    usize::try_from(cx.settings.limits.hll_sparse_max_bytes).unwrap_or(usize::MAX)
}

/// `PFCOUNT key [key ...]`
pub(super) fn pfcount(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    if args.len() > 2 {
        let merged = merged(cx, args, 1)?.0;
        reply.int(merged.count() as i64);
        return Ok(Effect::None);
    }
    let key = cx.key(args, 1);
    let mut text = IntText::default();
    let Some(entry) = cx.read(key) else {
        reply.int(0);
        return Ok(Effect::None);
    };
    let bytes = sketch(entry, &mut text)?;
    if let Some(estimate) = hyperloglog::remembered(bytes) {
        reply.int(estimate as i64);
        return Ok(Effect::None);
    }
    let (len, estimate) = (bytes.len(), hyperloglog::count(bytes).map_err(corrupt)?);
    hyperloglog::remember(cx.keyspace(key).string_resize(key, len, None), estimate);
    reply.int(estimate as i64);
    Ok(Effect::AsIs)
}

/// `PFMERGE destkey [sourcekey ...]`
pub(super) fn pfmerge(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (merged, dense) = merged(cx, args, 1)?;
    let key = cx.key(args, 1);
    let sparse_bytes_max = sparse_bytes_max(cx);
    let mut text = IntText::default();
    let mut new = match cx.find(key) {
        Some(entry) => sketch(entry, &mut text)?.to_vec(),
        None => hyperloglog::empty(),
    };
    if dense {
        hyperloglog::make_dense(&mut new).map_err(corrupt)?;
        merged.write_dense(&mut new);
    } else {
        for element in merged.elements() {
            hyperloglog::add(&mut new, element, sparse_bytes_max).map_err(corrupt)?;
        }
    }
    hyperloglog::forget(&mut new);
    store(cx, key, &new);
    cx.notify(Class::STRING, "pfadd", key);
    reply.ok();
    Ok(Effect::AsIs)
}

/// The sketches of the keys from word `from` on, merged, and whether one of them is dense.
fn merged(cx: &mut Exec<'_>, args: Args<'_>, from: usize) -> Result<(Merged, bool), CommandError> {
    let mut merged = Merged::default();
    let mut dense = false;
    let mut text = IntText::default();
    for index in from..args.len() {
        let Some(entry) = cx.read(cx.key(args, index)) else { continue };
        let bytes = sketch(entry, &mut text)?;
        dense |= hyperloglog::encoding(bytes) == Some(Encoding::Dense);
        merged.take(bytes).map_err(corrupt)?;
    }
    Ok((merged, dense))
}
