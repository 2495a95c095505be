//! LCS: the longest common subsequence of two strings, by dynamic programming (Hirschberg 1975 names the recurrence).

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{IntText, StringRef};

use crate::text::string_or_empty;

const NOT_STRINGS: CommandError = CommandError::fixed("ERR The specified keys must contain string values");
const LENGTH_OR_INDEXES: CommandError =
    CommandError::fixed("ERR If you want both the length and indexes, please just use IDX.");
const TABLE_TOO_LARGE: CommandError =
    CommandError::fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");

/// What LCS was asked for.
#[derive(Default)]
struct Wanted {
    len: bool,
    idx: bool,
    match_len_min: usize,
    with_match_len: bool,
}

impl Wanted {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut wanted = Self::default();
        let mut index = 0;
        while let Some(word) = args.get(index) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("LEN") {
                wanted.len = true;
            } else if is("IDX") {
                wanted.idx = true;
            } else if is("WITHMATCHLEN") {
                wanted.with_match_len = true;
            } else if is("MINMATCHLEN") && args.get(index + 1).is_some() {
                index += 1;
                let min = stdx::num::parse_i64(&args[index]).ok_or(CommandError::NOT_AN_INTEGER)?;
                wanted.match_len_min = usize::try_from(min).unwrap_or(0);
            } else {
                return Err(CommandError::SYNTAX);
            }
            index += 1;
        }
        if wanted.len && wanted.idx { Err(LENGTH_OR_INDEXES) } else { Ok(wanted) }
    }
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN n] [WITHMATCHLEN]`
pub(super) fn lcs(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    // The two may lie in different shards, of which one is borrowed at a time: so the first is copied.
    let first = string_or_empty(cx.read(cx.key(args, 1))).map(StringRef::to_vec);
    let bytes_max = cx.settings.proto_max_bulk_len;
    let mut digits = IntText::default();
    // Both are looked up before the type of either counts.
    let second = string_or_empty(cx.read(cx.key(args, 2)));
    let (first, second) = (first.map_err(|_| NOT_STRINGS)?, second.map_err(|_| NOT_STRINGS)?);
    let (a, b) = (first.as_slice(), second.to_bytes(&mut digits));
    let wanted = Wanted::parse(args.from(3))?;
    if table_bytes(a, b).is_none_or(|bytes| bytes > bytes_max) {
        return Err(TABLE_TOO_LARGE);
    }
    if wanted.len {
        reply.int(i64::from(length(a, b)));
        return Ok(Effect::None);
    }
    let found = find(a, b);
    if wanted.idx {
        reply_indexes(&found, &wanted, reply);
    } else {
        let bytes: Vec<u8> =
            found.runs.iter().rev().flat_map(|run| &a[run.a..run.a + run.len]).copied().collect();
        reply.bulk(&bytes);
    }
    Ok(Effect::None)
}

fn reply_indexes(found: &Found, wanted: &Wanted, reply: &mut Reply) {
    let int = |reply: &mut Reply, n: usize| reply.int(n as i64);
    reply.map(2);
    reply.bulk(b"matches");
    let shown = || found.runs.iter().filter(|run| run.len >= wanted.match_len_min);
    reply.array(shown().count());
    for run in shown() {
        reply.array(2 + usize::from(wanted.with_match_len));
        for start in [run.a, run.b] {
            reply.array(2);
            int(reply, start);
            int(reply, start + run.len - 1);
        }
        if wanted.with_match_len {
            int(reply, run.len);
        }
    }
    reply.bulk(b"len");
    int(reply, found.runs.iter().map(|run| run.len).sum());
}

/// Bytes of the whole table: (|a| + 1) * (|b| + 1) numbers of four bytes.
fn table_bytes(a: &[u8], b: &[u8]) -> Option<u64> {
    (a.len() as u64 + 1).checked_mul(b.len() as u64 + 1)?.checked_mul(size_of::<u32>() as u64)
}

/// The length alone needs only one row of the table.
fn length(a: &[u8], b: &[u8]) -> u32 {
    let mut row = vec![0_u32; b.len() + 1];
    for &x in a {
        let mut diagonal = 0;
        for (column, &y) in b.iter().enumerate() {
            let above = row[column + 1];
            row[column + 1] = if x == y { diagonal + 1 } else { above.max(row[column]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

/// A stretch that both strings have in common, by its starts.
struct Run {
    a: usize,
    b: usize,
    len: usize,
}

/// The subsequence as its stretches, last one first, which is the order of the reply.
struct Found {
    runs: Vec<Run>,
}

fn find(a: &[u8], b: &[u8]) -> Found {
    let width = b.len() + 1;
    let mut table = vec![0_u32; (a.len() + 1) * width];
    for (i, &x) in a.iter().enumerate() {
        let (above, row) = table[i * width..][..2 * width].split_at_mut(width);
        for (j, &y) in b.iter().enumerate() {
            row[j + 1] = if x == y { above[j] + 1 } else { above[j + 1].max(row[j]) };
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    let mut connected = false;
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            match runs.last_mut().filter(|_| connected) {
                Some(run) => (run.a, run.b, run.len) = (i, j, run.len + 1),
                None => runs.push(Run { a: i, b: j, len: 1 }),
            }
            connected = true;
        } else {
            connected = false;
            // Of two ways of the same length the one that goes back in `b`.
            if table[(i - 1) * width + j] > table[i * width + j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
    Found { runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subsequence(a: &[u8], b: &[u8]) -> Vec<u8> {
        find(a, b).runs.iter().rev().flat_map(|run| &a[run.a..run.a + run.len]).copied().collect()
    }

    fn is_subsequence(part: &[u8], of: &[u8]) -> bool {
        let mut rest = of.iter();
        part.iter().all(|x| rest.any(|y| x == y))
    }

    #[test]
    fn against_exhaustive_search() {
        let seed = 7;
        let mut rng = stdx::rng::Rng::new(seed);
        for round in 0..300 {
            let draw = |rng: &mut stdx::rng::Rng| -> Vec<u8> {
                (0..rng.below(9)).map(|_| b'a' + rng.below(3) as u8).collect()
            };
            let (a, b) = (draw(&mut rng), draw(&mut rng));
            let longest = (0..1_u32 << a.len())
                .map(|mask| {
                    a.iter()
                        .enumerate()
                        .filter(|(n, _)| mask >> n & 1 == 1)
                        .map(|(_, x)| *x)
                        .collect::<Vec<_>>()
                })
                .filter(|part| is_subsequence(part, &b))
                .map(|part| part.len())
                .max();
            let found = subsequence(&a, &b);
            assert_eq!(Some(found.len()), longest, "seed {seed} round {round}");
            assert_eq!(length(&a, &b) as usize, found.len());
            assert!(is_subsequence(&found, &a) && is_subsequence(&found, &b));
        }
    }

    #[test]
    fn options() {
        let parse = |text: &str| {
            let args = resp::OwnedArgs::from_words(text.split_whitespace());
            Wanted::parse(args.as_args()).map(|wanted| wanted.match_len_min).map_err(|e| e.text().to_string())
        };
        assert_eq!(parse("idx MINMATCHLEN 4 minmatchlen -3"), Ok(0));
        assert_eq!(parse("MINMATCHLEN"), Err("ERR syntax error".into()));
        assert_eq!(parse("LEN IDX x"), Err("ERR syntax error".into()));
        assert_eq!(parse("LEN IDX"), Err(LENGTH_OR_INDEXES.text().into()));
    }
}
