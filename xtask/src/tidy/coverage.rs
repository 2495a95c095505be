//! Every command row has a golden file in the folder of its family file, and a container's file uses each of its subcommands.
//!
//! Rows are read from the source as text, by the indentation that `cargo fmt` gives them: the name of a command stands three levels
//! deep, that of a subcommand deeper. So this needs no build, and cannot be made to pass by the code it checks.

use std::path::Path;

use super::Found;
use crate::golden;
use crate::shell;

/// Where rows stand.
const ROW_FOLDERS: &[&str] = &["crates/commands/src", "crates/session/src/commands"];

/// A row's names.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    subcommands: Vec<String>,
}

/// Commands without a golden file, subcommands that do not occur in it.
pub fn check() -> Found {
    let golden_files = golden::files()?;
    let mut found = Vec::new();
    for folder in ROW_FOLDERS {
        for path in shell::files(&shell::root().join(folder), &|path| shell::has_extension(path, "rs"))? {
            for row in rows(&std::fs::read_to_string(&path)?) {
                let file_name = format!("{}.txt", row.name.to_ascii_lowercase());
                match golden_files.iter().find(|file| file.ends_with(&file_name)) {
                    None => found.push(format!(
                        "{}: {} has no golden file {file_name}",
                        shell::short(&path),
                        row.name
                    )),
                    Some(file) => found.extend(unused(&row, file)?),
                }
            }
        }
    }
    Ok(found)
}

/// Subcommands that no line of the file sends.
fn unused(row: &Row, file: &Path) -> Found {
    let text = std::fs::read_to_string(file)?.to_ascii_uppercase();
    let sent = |sub: &&String| !text.contains(&format!("{} {sub}", row.name));
    let missing = row.subcommands.iter().filter(sent);
    Ok(missing.map(|sub| format!("{} does not use {} {sub}", shell::short(file), row.name)).collect())
}

/// The rows of a source file.
fn rows(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines() {
        let Some(name) = line.trim_start().strip_prefix("name: \"").and_then(|rest| rest.strip_suffix("\","))
        else {
            continue;
        };
        if !name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-' || b == b'_') {
            continue;
        }
        let depth = (line.len() - line.trim_start().len()) / 4;
        match rows.last_mut() {
            Some(row) if depth > 3 => row.subcommands.push(name.to_string()),
            _ => rows.push(Row { name: name.to_string(), subcommands: Vec::new() }),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_indentation() {
        let text = "\
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: \"CLIENT\",
        },
        subcommands: &[
            Command {
                spec: Spec {
                    name: \"KILL\",
                },
            },
        ],
    },
    Command {
        spec: Spec {
            name: \"GET\",
        },
    },
];
";
        let row = |name: &str, subs: &[&str]| Row {
            name: name.into(),
            subcommands: subs.iter().map(|s| (*s).to_string()).collect(),
        };
        assert_eq!(rows(text), [row("CLIENT", &["KILL"]), row("GET", &[])]);
    }
}
