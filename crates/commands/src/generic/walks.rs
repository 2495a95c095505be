//! SCAN, KEYS and RANDOMKEY: one shard after another, a bounded step in each.
//!
//! A SCAN cursor holds the shard in its low bits and the cursor inside the shard above them:
//!
//! ```text
//! bit 63  62 ...                     s  s-1 ... 0
//!     0   cursor inside the shard       shard          2^s shards
//! ```
//!
//! 0 is the first shard's beginning; the walk is over when no shard follows.

use command::CommandError;
use resp::{Args, Reply};
use shard::ShardId;
use shard::exec::Exec;
use shard::plan::{Step, Walk, WalkStart};
use stdx::glob;
use stdx::num::parse_i64;

use crate::text::quoted;

/// Entries that one step looks at before it leaves the shard to others.
const STEP_ENTRIES_MAX: usize = 1024;
/// COUNT of a SCAN that tells none.
const COUNT_DEFAULT: u64 = 10;
/// Names that TYPE accepts.
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

const INVALID_CURSOR: CommandError = CommandError::fixed("ERR invalid cursor");

/// The options of a SCAN.
struct Scan<'a> {
    cursor: u64,
    /// None matches everything.
    pattern: Option<&'a [u8]>,
    count: u64,
    type_name: Option<&'static str>,
}

impl<'a> Scan<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let cursor = parse_cursor(args.get(1).unwrap_or_default()).ok_or(INVALID_CURSOR)?;
        let mut scan = Self { cursor, pattern: None, count: COUNT_DEFAULT, type_name: None };
        let mut index = 2;
        while let Some(word) = args.get(index) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match args.get(index + 1) {
                Some(count) if is("COUNT") => {
                    let count = parse_i64(count).ok_or(CommandError::NOT_AN_INTEGER)?;
                    scan.count =
                        u64::try_from(count).ok().filter(|count| *count > 0).ok_or(CommandError::SYNTAX)?;
                }
                Some(pattern) if is("MATCH") => {
                    scan.pattern = Some(pattern).filter(|pattern| *pattern != b"*")
                }
                Some(name) if is("TYPE") => scan.type_name = Some(known_type(name)?),
                _ if is("NOVALUES") => {
                    return Err(CommandError::fixed("ERR NOVALUES option can only be used in HSCAN"));
                }
                _ if is("NOSCORES") => {
                    return Err(CommandError::fixed("ERR NOSCORES option can only be used in ZSCAN"));
                }
                _ => return Err(CommandError::SYNTAX),
            }
            index += 2;
        }
        Ok(scan)
    }
}

fn known_type(name: &[u8]) -> Result<&'static str, CommandError> {
    TYPES
        .into_iter()
        .find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        .ok_or_else(|| CommandError::new(format!("ERR unknown type name '{}'", quoted(name))))
}

/// A cursor: our own in strict decimal form; and whatever else C's `strtoul` takes whole, as the peers do.
pub(crate) fn parse_cursor(word: &[u8]) -> Option<u64> {
    if let Some(cursor) = parse_i64(word) {
        return u64::try_from(cursor).ok();
    }
    let trimmed = word.trim_ascii_start();
    let (negative, digits) = match trimmed {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, trimmed),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// The shard in which all keys lie that match a pattern, if its plain beginning fixes their slot: it holds a whole hash tag, or the pattern has
/// no wildcard at all.
fn shard_of_pattern(pattern: &[u8], mask: ShardId) -> Option<ShardId> {
    let plain = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    let beginning = &pattern[..plain];
    let has_tag = beginning.iter().position(|byte| *byte == b'{').is_some_and(|open| {
        let close = beginning[open..].iter().position(|byte| *byte == b'}');
        close.is_some_and(|close| close > 1)
    });
    (has_tag || plain == pattern.len()).then(|| stdx::slot::slot_of(pattern) & mask)
}

/// Goes on to the shard after this one; false if there is none, or if all keys that matter lie in `only`.
fn next_shard(walk: &mut Walk, only: Option<ShardId>, mask: ShardId) -> bool {
    walk.cursor = 0;
    if only.is_some() || walk.shard >= mask {
        return false;
    }
    walk.shard += 1;
    true
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub(super) fn scan_start(cx: &mut WalkStart<'_>, args: Args<'_>) -> Result<Walk, CommandError> {
    let scan = Scan::parse(args)?;
    let mask = cx.shards - 1;
    let mut walk = Walk { shard: scan.cursor as ShardId & mask, ..Walk::default() };
    walk.cursor = scan.cursor >> mask.count_ones();
    match scan.pattern.and_then(|pattern| shard_of_pattern(pattern, mask)) {
        Some(only) if walk.shard < only => (walk.shard, walk.cursor) = (only, 0),
        // The shard that matters has been walked already: one look at it finds that it is at its end.
        Some(only) if walk.shard > only => (walk.shard, walk.cursor, walk.visited) = (only, 0, u64::MAX),
        _ => {}
    }
    Ok(walk)
}

/// One step of SCAN.
pub(super) fn scan_step(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    walk: &mut Walk,
    reply: &mut Reply,
) -> Result<Step, CommandError> {
    let scan = Scan::parse(args)?;
    let mask = cx.layout.mask;
    let only = scan.pattern.and_then(|pattern| shard_of_pattern(pattern, mask));
    let wanted = scan.count.saturating_sub(walk.visited);
    let at_end = wanted == 0 || visit(cx, walk, wanted, scan.pattern, scan.type_name);
    let over = at_end && !next_shard(walk, only, mask);
    if !over && walk.visited < scan.count {
        return Ok(Step::Again);
    }
    let cursor = if over { 0 } else { walk.cursor << mask.count_ones() | u64::from(walk.shard) };
    reply.array(2);
    reply.bulk_int(i64::try_from(cursor).expect("a cursor inside a shard is below 2^51"));
    reply_keys(walk, reply);
    Ok(Step::Done)
}

/// Looks at up to `wanted` entries (a few more if a bucket holds them) of the walk's shard and gathers the keys that match; true at the
/// shard's end.
fn visit(
    cx: &mut Exec<'_>,
    walk: &mut Walk,
    wanted: u64,
    pattern: Option<&[u8]>,
    type_wanted: Option<&str>,
) -> bool {
    let now_ms = cx.now_ms;
    let (db, shard) = (cx.db, walk.shard);
    let Some(keyspace) = cx.shard(shard).existing(db) else { return true };
    let mut visited = 0;
    let budget = usize::try_from(wanted).unwrap_or(usize::MAX).min(STEP_ENTRIES_MAX);
    walk.cursor = keyspace.scan(walk.cursor, budget, |entry| {
        visited += 1;
        let key = entry.key();
        if !entry.is_expired(now_ms)
            && pattern.is_none_or(|pattern| glob::matches(pattern, key, false))
            && type_wanted.is_none_or(|name| name == entry.type_name())
        {
            walk.found.extend_from_slice(key);
            walk.ends.push(walk.found.len());
        }
    });
    walk.visited += visited;
    walk.cursor == 0
}

fn reply_keys(walk: &Walk, reply: &mut Reply) {
    let keys = walk.keys();
    reply.array(keys.len());
    for key in keys {
        reply.bulk(key);
    }
}

/// `KEYS pattern`
pub(super) fn keys_start(cx: &mut WalkStart<'_>, args: Args<'_>) -> Result<Walk, CommandError> {
    let shard = shard_of_pattern(&args[1], cx.shards - 1).unwrap_or(0);
    Ok(Walk { shard, ..Walk::default() })
}

/// One step of KEYS.
pub(super) fn keys_step(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    walk: &mut Walk,
    reply: &mut Reply,
) -> Result<Step, CommandError> {
    let pattern = &args[1];
    let mask = cx.layout.mask;
    let only = shard_of_pattern(pattern, mask);
    let pattern = Some(pattern).filter(|pattern| *pattern != b"*");
    if !visit(cx, walk, u64::MAX, pattern, None) || next_shard(walk, only, mask) {
        return Ok(Step::Again);
    }
    reply_keys(walk, reply);
    Ok(Step::Done)
}

/// `RANDOMKEY`: a shard is chosen by its number of keys, then an entry in it.
pub(super) fn randomkey_start(cx: &mut WalkStart<'_>, _: Args<'_>) -> Result<Walk, CommandError> {
    let keys: u64 = (0..cx.shards).map(cx.keys_of).sum();
    let mut left = if keys == 0 { 0 } else { cx.rng.below(keys) };
    let shard = (0..cx.shards).find(|shard| {
        let here = (cx.keys_of)(*shard);
        let found = left < here;
        left = left.saturating_sub(here);
        found
    });
    Ok(Walk { shard: shard.unwrap_or(0), ..Walk::default() })
}

/// One step of RANDOMKEY. A shard that was emptied meanwhile, or holds expired keys only, passes the question on to the next one.
pub(super) fn randomkey_step(
    cx: &mut Exec<'_>,
    _: Args<'_>,
    walk: &mut Walk,
    reply: &mut Reply,
) -> Result<Step, CommandError> {
    if let Some(key) = random_key(cx, walk.shard) {
        reply.bulk(&key);
        return Ok(Step::Done);
    }
    walk.tries += 1;
    if walk.tries > u32::from(cx.layout.mask) {
        reply.null();
        return Ok(Step::Done);
    }
    walk.shard = walk.shard.wrapping_add(1) & cx.layout.mask;
    Ok(Step::Again)
}

/// A key of the shard, by chance; expired ones that are met go.
fn random_key(cx: &mut Exec<'_>, shard: ShardId) -> Option<Vec<u8>> {
    let db = cx.db;
    loop {
        let mut rng = cx.rng.clone();
        let key = cx.shard(shard).existing(db)?.sample(&mut rng)?.key().to_vec();
        *cx.rng = rng;
        let found = cx.layout.key(&key);
        if cx.peek_in(db, found).is_some() {
            return Some(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        assert_eq!(parse_cursor(b"0"), Some(0));
        assert_eq!(parse_cursor(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_cursor(b" +00"), Some(0));
        for bad in ["", "-1", "abc", "1 ", "18446744073709551616", "0x1", "+", "--1"] {
            assert_eq!(parse_cursor(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn patterns_that_fix_a_shard() {
        let mask = 63;
        let shard = |key: &[u8]| Some(stdx::slot::slot_of(key) & mask);
        assert_eq!(shard_of_pattern(b"{tag}*", mask), shard(b"tag"));
        assert_eq!(shard_of_pattern(b"a{tag}b[cd]", mask), shard(b"tag"));
        assert_eq!(shard_of_pattern(b"plain", mask), shard(b"plain"));
        for free in ["*", "{tag*", "*{tag}", "{}*", "{}{tag}*", "{t?g}x", "{ta\\g}*", "a*"] {
            assert_eq!(shard_of_pattern(free.as_bytes(), mask), None, "{free}");
        }
    }
}
