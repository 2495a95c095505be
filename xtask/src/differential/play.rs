//! Sends a sequence to both servers, command by command, and compares the replies and then everything that is stored.

use std::collections::VecDeque;

use super::events::Listener;
use super::generate::Step;
use super::rules::Rule;
use crate::fail::Result;
use crate::server::Server;
use crate::wire::{Client, Value};

const CLIENTS: usize = 2;
/// As many as a server has by default.
const DATABASES: u32 = 16;
/// Steps of one SCAN before it is said never to end.
const SCAN_STEPS_MAX: u32 = 10_000;
const TTL_TOLERANCE_MS: i64 = 3000;

/// The two servers.
pub struct Pair {
    pub darter: Server,
    pub reference: Server,
    /// Keyspace events are compared, too.
    pub events: bool,
    /// Replies compared, and those of them that were errors: a run of nothing but errors would prove little.
    pub replies: u64,
    pub errors: u64,
}

/// Where they differ.
pub struct Difference {
    pub what: String,
    pub darter: String,
    pub reference: String,
}

/// The connections to one server, and what is queued on each between MULTI and EXEC.
struct Side {
    clients: Vec<Client>,
    queued: Vec<VecDeque<Rule>>,
    listener: Option<Listener>,
}

impl Side {
    fn connect(server: &Server, events: bool) -> Result<Self> {
        let clients = (0..CLIENTS).map(|_| server.client()).collect::<Result<Vec<_>>>()?;
        let mut side = Self { clients, queued: vec![VecDeque::new(); CLIENTS], listener: None };
        side.clients[0].call(&["FLUSHALL"])?;
        side.listener = events.then(|| Listener::connect(server)).transpose()?;
        Ok(side)
    }

    /// The keyspace events of the command that was answered last, if there is somebody to hear them.
    fn events(&mut self, step: &Step) -> Result<String> {
        let events = self.listener.as_mut().map(|listener| listener.heard(step)).transpose()?;
        Ok(events.unwrap_or_default().join("\n"))
    }

    /// Sends a command; its reply in the form in which both servers' replies must be the same.
    fn reply(&mut self, step: &Step) -> Result<Value> {
        let client = &mut self.clients[step.client];
        let mut reply = client.call(&step.words)?;
        let queued = &mut self.queued[step.client];
        if reply == Value::Simple(b"QUEUED".to_vec()) {
            queued.push_back(step.rule);
            return Ok(reply);
        }
        let name = step.words[0].to_ascii_lowercase();
        if name == b"exec" || name == b"discard" || name == b"reset" {
            let rules = std::mem::take(queued);
            if let Value::Array(items) = reply {
                let seen = |(n, item)| match rules.get(n).copied().unwrap_or(Rule::Same) {
                    // How far one step of a scan goes is the server's own.
                    Rule::Scan => type_of(&item),
                    rule => seen(item, rule),
                };
                return Ok(Value::Array(items.into_iter().enumerate().map(seen).collect()));
            }
            return Ok(reply);
        }
        if step.rule == Rule::Scan {
            reply = scan_to_the_end(client, step, reply)?;
        }
        if let (Rule::Member, Some(key)) = (step.rule, reply.bytes()) {
            return Ok(match client.call(&[b"EXISTS".as_slice(), key])? {
                Value::Integer(1) => Value::Masked("a key that exists"),
                other => Value::Error(
                    format!("RANDOMKEY gave a key whose EXISTS is {}", other.render()).into_bytes(),
                ),
            });
        }
        Ok(seen(reply, step.rule))
    }
}

/// The word that is the cursor: after the command's name, or after its key.
pub fn cursor_at(name: &[u8]) -> usize {
    if name.eq_ignore_ascii_case(b"scan") { 1 } else { 2 }
}

/// Follows a cursor; the elements of all replies with the last cursor.
fn scan_to_the_end(client: &mut Client, step: &Step, first: Value) -> Result<Value> {
    let mut words = step.words.clone();
    let cursor_at = cursor_at(&words[0]);
    let mut found = Vec::new();
    let mut reply = first;
    for _ in 0..SCAN_STEPS_MAX {
        let Value::Array(parts) = &reply else { return Ok(reply) };
        let [cursor, Value::Array(keys)] = &parts[..] else { return Ok(reply) };
        found.extend(keys.iter().cloned());
        if cursor.bytes() == Some(b"0") {
            found.sort();
            found.dedup();
            return Ok(Value::Array(vec![Value::Bulk(b"0".to_vec()), Value::Array(found)]));
        }
        words[cursor_at] = cursor.bytes().unwrap_or_default().to_vec();
        reply = client.call(&words)?;
    }
    Err("SCAN does not come to its end".into())
}

/// A reply without what its rule hides. Integers with a tolerance stay; [`alike`] sees to them.
fn seen(reply: Value, rule: Rule) -> Value {
    match (rule, reply) {
        // Darter's error texts are text: bytes of a word that are none are replaced in them (docs/differences.md).
        (_, Value::Error(text)) => Value::Error(String::from_utf8_lossy(&text).into_owned().into_bytes()),
        (Rule::TypeOnly, reply) => type_of(&reply),
        (Rule::Member, Value::Bulk(_)) => Value::Masked("a key"),
        (Rule::Unordered, reply) => sorted(reply),
        (Rule::Pairs, reply @ Value::Array(_)) => sorted_pairs(&reply),
        (Rule::Random, Value::Array(items)) => {
            let masked =
                items.iter().map(|item| if item == &Value::Null { Value::Null } else { type_of(item) });
            Value::Array(masked.collect())
        }
        (Rule::Random, reply @ Value::Bulk(_)) => type_of(&reply),
        (Rule::Timeless, reply) => timeless(reply),
        (Rule::Within(by), Value::Integer(n)) if n >= 0 => Value::Double(format!("{n}~{by}")),
        (Rule::Within(_), Value::Array(items)) => {
            Value::Array(items.into_iter().map(|item| seen(item, rule)).collect())
        }
        (_, Value::Set(items)) => sorted(Value::Set(items)),
        (_, Value::Map(mut pairs)) => {
            pairs.sort();
            Value::Map(pairs)
        }
        (_, reply) => reply,
    }
}

/// What XPENDING and XINFO tell without times and ages: those behind these names, and the one in what they tell of a pending entry (its id, perhaps
/// its consumer, when or how long ago it was delivered, how often). That there is no time (-1) is seen.
fn timeless(value: Value) -> Value {
    const HIDDEN: &[&str] = &["idle", "inactive", "seen-time", "active-time", "radix-tree-nodes"];
    let hide = |value: Value| match value {
        Value::Integer(0..) => Value::Masked("a time"),
        other => other,
    };
    let is_hidden = |name: &Value| HIDDEN.contains(&name.text().as_str());
    match value {
        Value::Array(items) => {
            let time_at = match &items[..] {
                [Value::Bulk(_), Value::Bulk(_), Value::Integer(_), Value::Integer(_)] => Some(2),
                [Value::Bulk(_), Value::Integer(_), Value::Integer(_)] => Some(1),
                _ => None,
            };
            let mut behind = false;
            let seen = items.into_iter().enumerate().map(|(at, item)| {
                let hidden = behind || Some(at) == time_at;
                behind = matches!(item, Value::Bulk(_)) && is_hidden(&item);
                if hidden { hide(item) } else { timeless(item) }
            });
            Value::Array(seen.collect())
        }
        Value::Map(pairs) => Value::Map(
            pairs
                .into_iter()
                .map(|(name, value)| {
                    let value = if is_hidden(&name) { hide(value) } else { timeless(value) };
                    (name, value)
                })
                .collect(),
        ),
        other => other,
    }
}

fn sorted(value: Value) -> Value {
    let sort = |mut items: Vec<Value>| {
        items.sort();
        items
    };
    match value {
        Value::Array(items) => Value::Array(sort(items)),
        Value::Set(items) => Value::Set(sort(items)),
        other => other,
    }
}

fn type_of(value: &Value) -> Value {
    Value::Masked(match value {
        Value::Simple(_) => "a simple string",
        Value::Integer(_) => "an integer",
        Value::Bulk(_) => "a string",
        Value::Array(_) => "an array",
        Value::Map(_) => "a map",
        Value::Set(_) => "a set",
        _ => "something else",
    })
}

/// Whether two replies are the same, integers with a tolerance within it.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Double(a), Value::Double(b)) if a != b => {
            let near = |text: &str| {
                text.split_once('~')
                    .and_then(|(n, by)| Some((n.parse::<i64>().ok()?, by.parse::<u64>().ok()?)))
            };
            matches!((near(a), near(b)), (Some((a, by)), Some((b, _))) if a.abs_diff(b) <= by)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        _ => one == other,
    }
}

impl Pair {
    /// Runs a sequence on empty servers; the first difference.
    pub fn run(&mut self, steps: &[Step]) -> Result<Option<Difference>> {
        let mut darter = Side::connect(&self.darter, self.events)?;
        let mut reference = Side::connect(&self.reference, self.events)?;
        for (n, step) in steps.iter().enumerate() {
            let one = darter.reply(step).map_err(|e| format!("Darter, command {n}: {e}"))?;
            let other = reference.reply(step).map_err(|e| format!("reference, command {n}: {e}"))?;
            self.replies += 1;
            self.errors += u64::from(one.is_error());
            if !alike(&one, &other) {
                let what = format!("the reply to {}:", String::from_utf8_lossy(&step.words[0]));
                return Ok(Some(Difference { what, darter: one.render(), reference: other.render() }));
            }
            let (one, other) = (darter.events(step)?, reference.events(step)?);
            if one != other {
                let what = format!("the events of {}:", String::from_utf8_lossy(&step.words[0]));
                return Ok(Some(Difference { what, darter: one, reference: other }));
            }
        }
        self.stored()
    }

    /// Compares everything that is stored.
    fn stored(&self) -> Result<Option<Difference>> {
        let (mut darter, mut reference) = (self.darter.client()?, self.reference.client()?);
        for database in 0..DATABASES {
            let (one, other) = (contents(&mut darter, database)?, contents(&mut reference, database)?);
            if let Some(what) = first_difference(&one, &other) {
                let what = format!("what database {database} holds at the end: {what}");
                return Ok(Some(Difference { what, darter: shown(&one), reference: shown(&other) }));
            }
        }
        Ok(None)
    }

    pub fn check_alive(&mut self) -> Result<()> {
        self.darter.check_alive()?;
        self.reference.check_alive()
    }
}

/// A stored entry.
struct Entry {
    key: Vec<u8>,
    kind: Value,
    value: Value,
    ttl_ms: i64,
}

fn contents(client: &mut Client, database: u32) -> Result<Vec<Entry>> {
    client.call(&["SELECT", &database.to_string()])?;
    let mut keys: Vec<Vec<u8>> = client
        .call(&["KEYS", "*"])?
        .items()
        .iter()
        .filter_map(|key| key.bytes().map(<[u8]>::to_vec))
        .collect();
    keys.sort();
    let mut entries = Vec::new();
    for key in keys {
        let kind = client.call(&[b"TYPE".as_slice(), &key])?;
        let value = value(client, &kind, &key)?;
        let ttl = client.call(&[b"PTTL".as_slice(), &key])?;
        let ttl_ms = if let Value::Integer(ms) = ttl {
            ms
        } else {
            return Err(format!("PTTL: {}", ttl.render()).into());
        };
        entries.push(Entry { key, kind, value, ttl_ms });
    }
    Ok(entries)
}

/// What a key holds, with its encoding, in a form in which equal values are equal.
fn value(client: &mut Client, kind: &Value, key: &[u8]) -> Result<Value> {
    let held = match kind.text().as_str() {
        "list" => client.call(&[b"LRANGE".as_slice(), key, b"0", b"-1"])?,
        "set" => sorted(client.call(&[b"SMEMBERS".as_slice(), key])?),
        "zset" => client.call(&[b"ZRANGE".as_slice(), key, b"0", b"-1", b"WITHSCORES"])?,
        "hash" => sorted_pairs(&client.call(&[b"HGETALL".as_slice(), key])?),
        "stream" => {
            let all = [b"XINFO".as_slice(), b"STREAM", key, b"FULL", b"COUNT", b"0"];
            return Ok(timeless(client.call(&all)?));
        }
        // A result of INCRBYFLOAT that is an integer is kept as one (docs/differences.md).
        _ => return client.call(&[b"GET".as_slice(), key]),
    };
    Ok(Value::Array(vec![client.call(&[b"OBJECT".as_slice(), b"ENCODING", key])?, held]))
}

/// The pairs of a flat array in order.
fn sorted_pairs(reply: &Value) -> Value {
    let items = reply.items();
    let mut pairs: Vec<Value> =
        items.chunks(2).map(|pair| Value::Array(pair.iter().copied().cloned().collect())).collect();
    pairs.sort();
    Value::Array(pairs)
}

fn first_difference(one: &[Entry], other: &[Entry]) -> Option<String> {
    if !one.iter().map(|e| &e.key).eq(other.iter().map(|e| &e.key)) {
        return Some("other keys".into());
    }
    one.iter().zip(other).find_map(|(a, b)| {
        let key = crate::words::plain_or_quoted(&a.key);
        let ttl_alike = a.ttl_ms == b.ttl_ms
            || (a.ttl_ms > 0 && b.ttl_ms > 0 && a.ttl_ms.abs_diff(b.ttl_ms) <= TTL_TOLERANCE_MS as u64);
        (a.kind != b.kind || a.value != b.value)
            .then(|| format!("another value at {key}"))
            .or_else(|| (!ttl_alike).then(|| format!("another time to live of {key}")))
    })
}

fn shown(entries: &[Entry]) -> String {
    let line = |e: &Entry| {
        format!("{} {:.80} ttl {}", crate::words::plain_or_quoted(&e.key), e.value.render(), e.ttl_ms)
    };
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerance_is_only_for_what_has_it() {
        let ttl = |n| seen(Value::Integer(n), Rule::Within(2));
        assert!(alike(&ttl(100), &ttl(98)));
        assert!(!alike(&ttl(100), &ttl(97)));
        assert!(!alike(&ttl(-1), &ttl(-2)), "a missing key and one without a deadline");
        assert!(!alike(&Value::Integer(100), &Value::Integer(99)));
        assert!(alike(&Value::Array(vec![ttl(5)]), &Value::Array(vec![ttl(6)])));
    }

    #[test]
    fn order_is_hidden_where_it_means_nothing() {
        let list = |a: &str, b: &str| Value::Array(vec![Value::Bulk(a.into()), Value::Bulk(b.into())]);
        assert!(alike(&seen(list("x", "y"), Rule::Unordered), &seen(list("y", "x"), Rule::Unordered)));
        assert!(!alike(&seen(list("x", "y"), Rule::Same), &seen(list("y", "x"), Rule::Same)));
        assert!(!alike(&seen(list("x", "x"), Rule::Unordered), &seen(list("y", "x"), Rule::Unordered)));
    }
}
