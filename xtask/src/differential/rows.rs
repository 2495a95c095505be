//! The commands to draw, with their arguments, as Darter's own COMMAND DOCS describes them: one source for documentation and tests.

use super::rules::{self, Rule};
use crate::fail::Result;
use crate::server::Server;
use crate::wire::Value;

/// A command to draw.
#[derive(Debug)]
pub struct Row {
    /// In lower case; a container and its subcommand are two words.
    pub words: Vec<String>,
    pub arguments: Vec<Argument>,
    pub rule: Rule,
    /// The group of COMMAND DOCS.
    pub group: String,
}

/// One argument of a command.
#[derive(Debug, PartialEq)]
pub struct Argument {
    pub name: String,
    pub token: Option<String>,
    pub kind: Kind,
    pub optional: bool,
    pub multiple: bool,
    /// The token is said again with every repetition.
    pub multiple_token: bool,
}

/// What an argument is.
#[derive(Debug, PartialEq)]
pub enum Kind {
    Key,
    Integer,
    Double,
    Text,
    Pattern,
    UnixTime,
    /// Only the token itself.
    Token,
    OneOf(Vec<Argument>),
    Block(Vec<Argument>),
}

/// Asks a server for its commands, and keeps those that a rule does not leave out.
pub fn of(server: &Server, only: &[String]) -> Result<Vec<Row>> {
    let docs = server.client()?.call(&["COMMAND", "DOCS"])?;
    let mut rows = Vec::new();
    collect(&docs, &mut rows)?;
    rows.retain(|row| {
        rules::is_drawn(row)
            && (only.is_empty() || only.contains(&row.words[0]) || rules::sets_the_scene(row))
    });
    if rows.is_empty() {
        Err(format!("COMMAND DOCS gives no command to draw: {:.200}", docs.render()).into())
    } else {
        Ok(rows)
    }
}

/// Leaves out the commands that a server does not know; every command is sent without arguments, on a connection of its own.
pub fn drop_unknown(rows: &mut Vec<Row>, server: &Server) -> Result<()> {
    let mut known = Vec::new();
    for row in rows.drain(..) {
        let reply = server.client()?.call(&row.words)?.render();
        if !reply.contains("ERR unknown ") {
            known.push(row);
        }
    }
    *rows = known;
    Ok(())
}

fn collect(docs: &Value, rows: &mut Vec<Row>) -> Result<()> {
    for pair in docs.items().chunks(2) {
        let [name, doc] = pair else { return Err("COMMAND DOCS gives a name without a description".into()) };
        if let Some(subcommands) = doc.field("subcommands") {
            collect(subcommands, rows)?;
            continue;
        }
        let arguments = doc.field("arguments").map(arguments).transpose()?.unwrap_or_default();
        let words: Vec<String> = name.text().to_ascii_lowercase().split('|').map(str::to_string).collect();
        let group = doc.field("group").map(Value::text).unwrap_or_default();
        let rule = rules::of(&words.join(" "), &group);
        rows.push(Row { words, arguments, rule, group });
    }
    Ok(())
}

fn arguments(list: &Value) -> Result<Vec<Argument>> {
    list.items().into_iter().map(argument).collect()
}

fn argument(doc: &Value) -> Result<Argument> {
    let text = |name: &str| doc.field(name).map(Value::text);
    let flags: Vec<String> =
        doc.field("flags").map(|f| f.items().iter().map(|f| f.text()).collect()).unwrap_or_default();
    let inner = || doc.field("arguments").map(arguments).transpose().map(Option::unwrap_or_default);
    let kind = match text("type").unwrap_or_default().as_str() {
        "key" => Kind::Key,
        "integer" => Kind::Integer,
        "double" => Kind::Double,
        "string" => Kind::Text,
        "pattern" => Kind::Pattern,
        "unix-time" => Kind::UnixTime,
        "pure-token" => Kind::Token,
        "oneof" => Kind::OneOf(inner()?),
        "block" => Kind::Block(inner()?),
        other => return Err(format!("COMMAND DOCS: unknown type of argument {other:?}").into()),
    };
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    Ok(Argument {
        name: text("name").unwrap_or_default(),
        token: text("token"),
        kind,
        optional: has("optional"),
        multiple: has("multiple"),
        multiple_token: has("multiple_token"),
    })
}
