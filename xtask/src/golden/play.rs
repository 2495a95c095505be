//! Plays the steps of a golden file against a server and compares the replies, each seen through its step's view.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::fail::Result;
use crate::golden::file::{Action, File, Step, View};
use crate::wire::{Client, Value};

/// The connection of steps before the first `# client`.
const FIRST_CLIENT: &str = "1";

/// What came back.
#[derive(Default)]
pub struct Played {
    /// The rendered reply of every step that has one.
    pub replies: Vec<Vec<String>>,
    /// A text for every reply that is not as recorded.
    pub differences: Vec<String>,
}

/// Plays a file.
pub fn play(file: &File, address: SocketAddr) -> Result<Played> {
    let mut played = Played::default();
    let mut clients: HashMap<String, Client> = HashMap::new();
    let mut current = FIRST_CLIENT.to_string();
    let mut names: HashMap<String, Vec<u8>> = HashMap::new();
    for step in &file.steps {
        let at = |e| format!("line {}: {e}", step.line);
        if !clients.contains_key(&current) {
            clients.insert(current.clone(), Client::connect(address).map_err(at)?);
        }
        let client = clients.get_mut(&current).expect("it was put there above");
        let reply = match &step.action {
            Action::Client(name) => {
                current.clone_from(name);
                continue;
            }
            Action::Wait(time) => {
                std::thread::sleep(*time);
                continue;
            }
            Action::Protocol(version) => {
                let reply = client.call(&["HELLO", &version.to_string()]).map_err(at)?;
                if reply.is_error() || reply == Value::Closed {
                    return Err(format!("line {}: HELLO {version}: {}", step.line, reply.render()).into());
                }
                continue;
            }
            Action::Read => client.receive_or_closed().map_err(at)?,
            Action::Send(line) => client.line(&with_names(line, &names)).map_err(at)?,
        };
        if let Some(name) = &step.view.named {
            names.insert(name.clone(), name_of(&reply));
        }
        if reply == Value::Closed {
            clients.remove(&current);
        }
        let lines = seen(reply, &step.view);
        if let Some(difference) = compare(step, &lines) {
            played.differences.push(difference);
        }
        played.replies.push(lines);
    }
    Ok(played)
}

/// A command with `{name}` replaced by what `# let name` has kept; other braces are hash tags and stay.
fn with_names(line: &str, names: &HashMap<String, Vec<u8>>) -> String {
    names.iter().fold(line.to_string(), |line, (name, value)| {
        line.replace(&format!("{{{name}}}"), &String::from_utf8_lossy(value))
    })
}

/// What `# let` keeps of a reply: itself, or its first element.
fn name_of(reply: &Value) -> Vec<u8> {
    match reply {
        Value::Integer(n) => n.to_string().into_bytes(),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.first().map(name_of).unwrap_or_default()
        }
        other => other.bytes().unwrap_or_default().to_vec(),
    }
}

/// A reply as lines, seen through a view.
fn seen(reply: Value, view: &View) -> Vec<String> {
    let mut reply = change_leaves(reply, &|leaf| look(leaf, view));
    if view.unordered {
        sort(&mut reply);
    }
    reply.render().lines().map(str::to_string).collect()
}

fn change_leaves(value: Value, change: &dyn Fn(Value) -> Value) -> Value {
    let all = |items: Vec<Value>| items.into_iter().map(|item| change_leaves(item, change)).collect();
    match value {
        Value::Array(items) => Value::Array(all(items)),
        Value::Set(items) => Value::Set(all(items)),
        Value::Push(items) => Value::Push(all(items)),
        Value::Map(pairs) => {
            let pair = |(k, v)| (change_leaves(k, change), change_leaves(v, change));
            Value::Map(pairs.into_iter().map(pair).collect())
        }
        leaf => change(leaf),
    }
}

fn look(leaf: Value, view: &View) -> Value {
    if view.types_only {
        return match leaf {
            Value::Integer(_) => Value::Masked("(integer) *"),
            Value::Bulk(_) => Value::Masked("\"*\""),
            Value::Simple(_) => Value::Masked("(simple) *"),
            Value::Double(_) => Value::Masked("(double) *"),
            Value::Verbatim(..) => Value::Masked("(verbatim) *"),
            other => other,
        };
    }
    let text = |bytes: Vec<u8>| mask(keep(bytes, &view.kept), &view.masked);
    match leaf {
        Value::Simple(bytes) => Value::Simple(text(bytes)),
        Value::Bulk(bytes) => Value::Bulk(text(bytes)),
        Value::Verbatim(format, bytes) => Value::Verbatim(format, text(bytes)),
        Value::Error(bytes) => Value::Error(mask(bytes, &view.masked)),
        other => other,
    }
}

/// Of a text the blank-separated parts that match one of the patterns, in their order.
fn keep(bytes: Vec<u8>, patterns: &[String]) -> Vec<u8> {
    if patterns.is_empty() {
        return bytes;
    }
    let text = String::from_utf8_lossy(&bytes);
    let kept =
        text.split_ascii_whitespace().filter(|part| patterns.iter().any(|pattern| matches(pattern, part)));
    kept.collect::<Vec<_>>().join(" ").into_bytes()
}

/// Whether a text matches a pattern of plain text and `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|end| matches(rest, end)))
        }),
    }
}

/// A text in which whatever follows one of the prefixes, up to the next blank or comma, is one `*`.
fn mask(bytes: Vec<u8>, prefixes: &[String]) -> Vec<u8> {
    if prefixes.is_empty() {
        return bytes;
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    for prefix in prefixes {
        let mut masked = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(prefix.as_str()) {
            let (before, after) = rest.split_at(at + prefix.len());
            let end = after.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(after.len());
            masked.push_str(before);
            masked.push('*');
            rest = &after[end..];
        }
        masked.push_str(rest);
        text = masked;
    }
    text.into_bytes()
}

fn sort(value: &mut Value) {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter_mut().for_each(sort);
            items.sort();
        }
        Value::Map(pairs) => {
            pairs.iter_mut().for_each(|(key, value)| {
                sort(key);
                sort(value);
            });
            pairs.sort();
        }
        _ => {}
    }
}

fn compare(step: &Step, lines: &[String]) -> Option<String> {
    let same = |(recorded, line): (&String, &String)| same_line(recorded, line, step.view.within);
    if lines.len() == step.recorded.len() && step.recorded.iter().zip(lines).all(same) {
        return None;
    }
    let command = match &step.action {
        Action::Send(line) => line.as_str(),
        _ => "(read)",
    };
    let indent = |lines: &[String]| lines.join("\n              ");
    Some(format!(
        "{}: {command}\n    recorded: {}\n    replied:  {}",
        step.line,
        indent(&step.recorded),
        indent(lines)
    ))
}

/// Whether two lines are the same but for an integer that may be off by `within`.
fn same_line(recorded: &str, line: &str, within: i64) -> bool {
    if recorded == line {
        return true;
    }
    let split = |line: &str| {
        let (before, number) = line.rsplit_once("(integer) ")?;
        Some((before.to_string(), number.parse::<i64>().ok()?))
    };
    match (split(recorded), split(line)) {
        (Some((a, x)), Some((b, y))) if within > 0 => a == b && x.abs_diff(y) <= within.unsigned_abs(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn a_view_hides_what_is_volatile() {
        let masked = View { masked: vec!["id=".into()], ..View::default() };
        assert_eq!(seen(bulk("id=17 a=1 id=2"), &masked), ["\"id=* a=1 id=*\""]);
        let kept = View { kept: vec!["role:*".into(), "x".into()], ..View::default() };
        assert_eq!(seen(bulk("# A\r\nrole:master\r\ny:1\r\nx"), &kept), ["\"role:master x\""]);
        let unordered = View { unordered: true, ..View::default() };
        assert_eq!(seen(Value::Array(vec![bulk("b"), bulk("a")]), &unordered), ["1) \"a\"", "2) \"b\""]);
        let types = View { types_only: true, ..View::default() };
        assert_eq!(
            seen(Value::Array(vec![bulk("b"), Value::Integer(1)]), &types),
            ["1) \"*\"", "2) (integer) *"]
        );
    }

    #[test]
    fn integers_may_be_near() {
        assert!(same_line("1) (integer) 100", "1) (integer) 98", 2));
        assert!(!same_line("1) (integer) 100", "1) (integer) 97", 2));
        assert!(!same_line("1) (integer) 100", "2) (integer) 100", 2));
        assert!(!same_line("(integer) 1", "\"1\"", 5));
    }

    #[test]
    fn named_replies_fill_later_commands() {
        let names = HashMap::from([("id".to_string(), name_of(&Value::Array(vec![bulk("7")])))]);
        assert_eq!(with_names("CLIENT KILL ID {id} {tag}", &names), "CLIENT KILL ID 7 {tag}");
    }
}
