//! The golden files of this crate's commands, played in process. What only a whole server answers (SELECT, CONFIG SET) is done by the test itself.
//!
//! The format stands in `tests/golden/README.md`; of its directives only those are understood that these files use.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use command::{Command, Effect};
use resp::Proto;
use shard::keyspace::Dirty;
use shard::plan::Plan;
use shard::settings::{Limits, Policy};

use crate::FAMILIES;
use crate::harness::{Contents, Ran, World};

/// A reply taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Line(String),
    Array(Vec<Value>),
    Set(Vec<Value>),
    Map(Vec<Value>),
}

#[test]
fn replies_are_those_of_the_reference_server() {
    let mut replies = 0;
    let mut differences = Vec::new();
    // Most of MEMORY is about the server, which only `cargo xtask golden` has, and so is waiting.
    let in_process =
        |row: &&Command<Plan>| row.spec.name != "MEMORY" && !matches!(row.run, Plan::Blocking(_));
    for row in FAMILIES.iter().copied().flatten().filter(in_process) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        let path = path.join(row.spec.group.name()).join(format!("{}.txt", row.spec.name.to_lowercase()));
        replies += play(&path, &mut differences);
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    assert!(replies > 2000, "only {replies} replies were compared");
}

/// Plays a file; gives the number of replies compared.
fn play(path: &Path, differences: &mut Vec<String>) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut world = World::new(8);
    let mut count = 0;
    let mut lines = text.lines().enumerate().peekable();
    let (mut within, mut types_only) = (0, false);
    while let Some((number, line)) = lines.next() {
        match line {
            "" => continue,
            "# resp2" => world.proto = Proto::Resp2,
            "# resp3" => world.proto = Proto::Resp3,
            "# type" => types_only = true,
            _ if line.starts_with("##") => {}
            _ if line.starts_with("# within ") => within = line["# within ".len()..].parse().unwrap(),
            _ => {
                let unordered = line.starts_with("~ ");
                let recorded: Vec<&str> = std::iter::from_fn(|| lines.next_if(|(_, line)| !line.is_empty()))
                    .map(|(_, line)| line)
                    .collect();
                let replied = command(&mut world, line, unordered);
                let same = match () {
                    _ if types_only => replied.len() == recorded.len(),
                    _ if within > 0 => near(&replied, &recorded, within),
                    _ => replied == recorded,
                };
                if !same {
                    differences.push(format!(
                        "{}:{}: {line}\n    recorded: {recorded:?}\n    replied:  {replied:?}",
                        path.file_name().unwrap().display(),
                        number + 1
                    ));
                }
                count += 1;
                (within, types_only) = (0, false);
            }
        }
    }
    count
}

fn near(replied: &[String], recorded: &[&str], within: u64) -> bool {
    let number = |line: &str| line.strip_prefix("(integer) ")?.parse::<i64>().ok();
    match (replied, recorded) {
        ([a], [b]) => number(a).zip(number(b)).is_some_and(|(a, b)| a.abs_diff(b) <= within),
        _ => false,
    }
}

fn command(world: &mut World, line: &str, unordered: bool) -> Vec<String> {
    let words = stdx::quote::split_args(&line.as_bytes()[2..]).unwrap();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words.as_slice() {
        [b"SELECT", db] => {
            world.db = std::str::from_utf8(db).unwrap().parse().unwrap();
            return vec!["OK".into()];
        }
        [b"CONFIG", b"SET", b"maxmemory-policy", policy] => {
            world.settings.policy = match *policy {
                b"allkeys-lru" => Policy::AllkeysLru,
                b"volatile-lru" => Policy::VolatileLru,
                b"allkeys-lfu" => Policy::AllkeysLfu,
                b"volatile-lfu" => Policy::VolatileLfu,
                b"noeviction" => Policy::NoEviction,
                other => panic!("policy {}", other.escape_ascii()),
            };
            return vec!["OK".into()];
        }
        [b"CONFIG", b"SET", limits @ ..] => {
            limits.chunks(2).for_each(|pair| set_limit(&mut world.settings.limits, pair));
            return vec!["OK".into()];
        }
        _ => {}
    }
    let before = Seen::now(world, &words);
    let ran = world.run(&words);
    if let Some(before) = before {
        before.compare(world, &ran, line);
    }
    let mut rest = ran.bytes.as_slice();
    let mut value = parse(&mut rest);
    assert!(rest.is_empty(), "{line}: more than one reply");
    if unordered {
        sort(&mut value);
    }
    render(&value)
}

fn set_limit(limits: &mut Limits, pair: &[&[u8]]) {
    let [name, value] = pair else { panic!("a setting has a value") };
    let value: i64 = std::str::from_utf8(value).unwrap().parse().expect("a limit is a number");
    let size = value.cast_unsigned();
    match *name {
        b"hash-max-listpack-entries" => limits.hash_max_listpack_entries = size,
        b"hash-max-listpack-value" => limits.hash_max_listpack_value = size,
        b"list-max-listpack-size" => limits.list_max_listpack_size = value as i32,
        b"list-compress-depth" => limits.list_compress_depth = value as u32,
        b"set-max-intset-entries" => limits.set_max_intset_entries = size,
        b"set-max-listpack-entries" => limits.set_max_listpack_entries = size,
        b"set-max-listpack-value" => limits.set_max_listpack_value = size,
        b"zset-max-listpack-entries" => limits.zset_max_listpack_entries = size,
        b"zset-max-listpack-value" => limits.zset_max_listpack_value = size,
        b"hll-sparse-max-bytes" => limits.hll_sparse_max_bytes = size,
        b"stream-node-max-bytes" => limits.stream_node_max_bytes = size,
        b"stream-node-max-entries" => limits.stream_node_max_entries = size,
        other => panic!("no limit {}", other.escape_ascii()),
    }
}

/// What was there before a command, and who watched it: for what holds of every command.
struct Seen {
    contents: Contents,
    watched: Vec<(u16, Vec<u8>, Dirty)>,
}

impl Seen {
    /// More bytes are not looked at before and after every command.
    const BYTES_MAX: usize = 100_000;

    fn now(world: &mut World, words: &[&[u8]]) -> Option<Self> {
        let contents = world.contents();
        let bytes: usize = contents.iter().map(|(_, key, value, _)| key.len() + value.len()).sum();
        if bytes > Self::BYTES_MAX {
            return None;
        }
        let named = words.iter().map(|word| (world.db, word.to_vec()));
        let mut keys: Vec<_> = contents.iter().map(|(db, key, ..)| (*db, key.clone())).chain(named).collect();
        keys.sort();
        keys.dedup();
        let watched = keys.into_iter().map(|(db, key)| {
            let dirty = world.watch(db, &key);
            (db, key, dirty)
        });
        Some(Self { watched: watched.collect(), contents })
    }

    /// A command that fails changes nothing; one that changes something tells the journal and those who watch the key.
    fn compare(self, world: &mut World, ran: &Ran, line: &str) {
        for (db, key, dirty) in &self.watched {
            world.unwatch(*db, key, dirty);
        }
        let after = world.contents();
        if after == self.contents {
            return;
        }
        assert!(ran.bytes[0] != b'-', "{line}: failed and changed something");
        assert!(ran.effect != Effect::None, "{line}: changed something and told the journal nothing");
        let at = |contents: &Contents, db: u16, key: &[u8]| {
            contents.iter().find(|entry| entry.0 == db && entry.1 == key).cloned()
        };
        // As with the peers, what happens in a group is no change of the stream for those who watch it.
        const UNWATCHED: [&str; 6] =
            ["> XSETID", "> XGROUP", "> XREADGROUP", "> XACK", "> XCLAIM", "> XAUTOCLAIM"];
        if UNWATCHED.iter().any(|command| line.starts_with(command)) {
            return;
        }
        for (db, key, dirty) in &self.watched {
            let changed = at(&self.contents, *db, key) != at(&after, *db, key);
            let raised = dirty.load(Ordering::Relaxed);
            assert!(
                raised || !changed,
                "{line}: changed {} behind the back of its watcher",
                key.escape_ascii()
            );
        }
    }
}

fn line<'b>(rest: &mut &'b [u8]) -> &'b [u8] {
    let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a line ends");
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    line
}

fn parse(rest: &mut &[u8]) -> Value {
    let head = line(rest);
    let text = String::from_utf8_lossy(&head[1..]).into_owned();
    let leaf = |text: String| Value::Line(text);
    match head[0] {
        b'+' => leaf(if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            text
        } else {
            format!("(simple) {}", quoted(&head[1..]))
        }),
        b'-' => leaf(format!("(error) {}", quoted(&head[1..]).trim_matches('"'))),
        b':' => leaf(format!("(integer) {text}")),
        b'_' => leaf("(null)".into()),
        b',' => leaf(format!("(double) {text}")),
        b'$' if text == "-1" => leaf("(nil)".into()),
        b'*' if text == "-1" => leaf("(nil array)".into()),
        b'$' => {
            let len: usize = text.parse().unwrap();
            let value = leaf(quoted(&rest[..len]));
            *rest = &rest[len + 2..];
            value
        }
        b'*' => Value::Array((0..text.parse().unwrap()).map(|_| parse(rest)).collect()),
        b'~' => Value::Set((0..text.parse().unwrap()).map(|_| parse(rest)).collect()),
        b'%' => Value::Map((0..2 * text.parse::<usize>().unwrap()).map(|_| parse(rest)).collect()),
        other => panic!("a reply of type {}", other as char),
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    stdx::quote::repr(bytes, &mut out);
    String::from_utf8(out).expect("what does not print is escaped")
}

/// By the bytes, as the tool that records sorts them, not by how they are written.
fn sort(value: &mut Value) {
    if let Value::Array(items) | Value::Set(items) | Value::Map(items) = value {
        items.iter_mut().for_each(sort);
        items.sort_by_cached_key(|item| (!matches!(item, Value::Line(_)), unquoted(item), item.clone()));
    }
}

fn unquoted(item: &Value) -> Vec<u8> {
    match item {
        Value::Line(text) => stdx::quote::split_args(text.as_bytes()).unwrap_or_default().concat(),
        Value::Array(_) | Value::Set(_) | Value::Map(_) => Vec::new(),
    }
}

/// As `redis-cli` would: an element's further lines are indented below its first.
fn render(value: &Value) -> Vec<String> {
    match value {
        Value::Line(text) => vec![text.clone()],
        Value::Array(items) if items.is_empty() => vec!["(empty array)".into()],
        Value::Set(items) if items.is_empty() => vec!["(empty set)".into()],
        Value::Map(items) if items.is_empty() => vec!["(empty map)".into()],
        Value::Array(items) | Value::Set(items) => {
            let width = items.len().to_string().len();
            let mark = if matches!(value, Value::Set(_)) { '~' } else { ')' };
            let item = |(n, item)| nested(&format!("{:>width$}{mark} ", n + 1), item);
            items.iter().enumerate().flat_map(item).collect()
        }
        Value::Map(items) => {
            let width = (items.len() / 2).to_string().len();
            let pair = |(n, pair): (usize, &[Value])| {
                let mut lines = nested(&format!("{:>width$}# ", n + 1), &pair[0]);
                lines.extend(nested(&format!("{:>width$}  => ", ""), &pair[1]));
                lines
            };
            items.chunks(2).enumerate().flat_map(pair).collect()
        }
    }
}

fn nested(prefix: &str, item: &Value) -> Vec<String> {
    let blanks = " ".repeat(prefix.len());
    let prefixed = |(n, line): (usize, String)| format!("{}{line}", if n == 0 { prefix } else { &blanks });
    render(item).into_iter().enumerate().map(prefixed).collect()
}
