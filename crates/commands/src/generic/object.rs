//! OBJECT: what is known about how a value is kept.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::access;
use shard::exec::Exec;
use shard::settings::Policy;

const LFU_NEEDED: CommandError = CommandError::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies \
     at runtime LRU and LFU data will take some time to adjust.",
);
const LFU_SELECTED: CommandError = CommandError::fixed(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime \
     LRU and LFU data will take some time to adjust.",
);
/// The peers keep an idle time always; here it costs memory only where eviction uses it.
const LRU_NEEDED: CommandError = CommandError::fixed(
    "ERR An LRU maxmemory policy is not selected, idle time not tracked. It is kept under allkeys-lru and volatile-lru only.",
);

/// What is told of an entry without metadata: the span of the LRU clock, 2^24 steps of 250 ms.
const IDLE_UNKNOWN_MS: u64 = (1 << 24) * 250;

const HELP: [&str; 6] = [
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key> -- how the value is kept, by the peers' names: int, listpack, skiplist, ...",
    "FREQ <key> -- how often the key is used, on a logarithmic scale; only under an LFU policy.",
    "IDLETIME <key> -- seconds since the key was used; only under an LRU policy.",
    "REFCOUNT <key> -- how many share the value: always 1.",
    "HELP -- this text.",
];

/// `OBJECT HELP`
pub(super) fn help(_: &mut Exec<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
    Ok(Effect::None)
}

/// `OBJECT ENCODING key`
pub(super) fn encoding(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    match cx.peek(cx.key(args, 2)) {
        None => reply.null(),
        Some(entry) => reply.bulk(entry.encoding().as_bytes()),
    }
    Ok(Effect::None)
}

/// `OBJECT REFCOUNT key`: a value belongs to its key alone.
pub(super) fn refcount(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    match cx.peek(cx.key(args, 2)) {
        None => reply.null(),
        Some(_) => reply.int(1),
    }
    Ok(Effect::None)
}

/// `OBJECT IDLETIME key`
pub(super) fn idletime(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (now_ms, policy) = (cx.now_ms, cx.settings.policy);
    let Some(entry) = cx.peek(cx.key(args, 2)) else {
        reply.null();
        return Ok(Effect::None);
    };
    match policy {
        Policy::AllkeysLru | Policy::VolatileLru => {}
        Policy::AllkeysLfu | Policy::VolatileLfu => return Err(LFU_SELECTED),
        _ => return Err(LRU_NEEDED),
    }
    // An entry from before the policy was chosen has no time; eviction takes it for the oldest.
    let idle_ms = entry.access().map_or(IDLE_UNKNOWN_MS, |access| access::idle_ms(access, now_ms));
    reply.int((idle_ms / 1000) as i64);
    Ok(Effect::None)
}

/// `OBJECT FREQ key`
pub(super) fn freq(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (now_ms, policy, decay_time) = (cx.now_ms, cx.settings.policy, cx.settings.lfu_decay_time);
    let Some(entry) = cx.peek(cx.key(args, 2)) else {
        reply.null();
        return Ok(Effect::None);
    };
    if !matches!(policy, Policy::AllkeysLfu | Policy::VolatileLfu) {
        return Err(LFU_NEEDED);
    }
    reply.int(entry.access().map_or(0, |access| i64::from(access::frequency(access, now_ms, decay_time))));
    Ok(Effect::None)
}
