//! Checks on the text of source files: how they open, how long they are, where `unsafe` stands, what they must not mention.

use std::path::{Path, PathBuf};

use super::Found;
use crate::fail::Result;
use crate::shell;

/// Lines of a source file, its tests not counted.
const LINES_MAX: usize = 1000;

/// Where `unsafe` may stand: the memory of the keyspace, the system calls of I/O, the latch with what it hands over, and the calls
/// of Lua.
const ISLANDS: &[&str] = &[
    "crates/memory/",
    "crates/reactor/",
    "crates/shard/src/latch",
    "crates/shard/src/visit",
    "crates/scripts/src/spare.rs",
    "crates/scripts/src/stack.rs",
    "crates/scripts/src/state.rs",
    "crates/scripts/src/base.rs",
];

/// Folders of one machine; a tree that mentions them does not work elsewhere.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

fn rust_files() -> Result<Vec<PathBuf>> {
    shell::files(shell::root(), &|path| shell::has_extension(path, "rs"))
}

fn each(check: impl Fn(&Path, &str) -> Option<String>) -> Found {
    let mut found = Vec::new();
    for path in rust_files()? {
        let text = std::fs::read_to_string(&path)?;
        found.extend(check(&path, &text).map(|why| format!("{}: {why}", shell::short(&path))));
    }
    Ok(found)
}

/// Files that do not begin with `//!`.
pub fn purposes() -> Found {
    each(|_, text| {
        (!text.starts_with("//! ")).then(|| "does not open with //! (what it is, what it is not)".into())
    })
}

/// Files that are too long.
pub fn lengths() -> Found {
    each(|path, text| {
        let lines = counted_lines(path, text);
        (lines > LINES_MAX).then(|| format!("{lines} lines, {LINES_MAX} at most"))
    })
}

/// Lines up to the tests at the end of the file; none for a file of tests.
fn counted_lines(path: &Path, text: &str) -> usize {
    let is_tests = path.file_name().is_some_and(|name| name == "tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests");
    if is_tests {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(opens_tests).unwrap_or(lines.len())
}

/// Files off the islands in which `unsafe` stands.
pub fn unsafe_islands() -> Found {
    each(|path, text| {
        let short = shell::short(path);
        if ISLANDS.iter().any(|island| short.starts_with(island)) {
            return None;
        }
        let line = text.lines().position(needs_island)?;
        Some(format!("unsafe code in line {}, off the islands", line + 1))
    })
}

/// Whether a line of code has the word, outside comments and texts.
fn needs_island(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let code: String = code.replace("\\\"", "").split('"').step_by(2).collect();
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "[unsafe("]
        .iter()
        .any(|form| code.contains(form))
}

/// Tracked files that mention a folder of one machine.
pub fn machine_paths() -> Found {
    let tracked =
        shell::output(std::process::Command::new("git").args(["ls-files"]).current_dir(shell::root()))?;
    let mut found = Vec::new();
    for name in tracked.lines() {
        let Ok(text) = std::fs::read_to_string(shell::root().join(name)) else { continue };
        for (index, line) in text.lines().enumerate() {
            if MACHINE_PATHS.iter().any(|path| line.contains(path)) {
                found.push(format!("{name}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count() {
        let text = "//! x\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(counted_lines(Path::new("a.rs"), text), 2);
        assert_eq!(counted_lines(Path::new("a/tests.rs"), text), 0);
        assert_eq!(counted_lines(Path::new("tests/a.rs"), text), 0);
        assert_eq!(counted_lines(Path::new("a.rs"), "a\n#[cfg(test)]\nmod tests;\n"), 3);
    }

    #[test]
    fn unsafe_is_found_in_code_only() {
        assert!(needs_island("    let x = unsafe { *p };"));
        assert!(needs_island("unsafe impl Send for X {}"));
        for line in ["// unsafe { }", "#![deny(unsafe_code)]", "let s = \"unsafe { }\";", "let unsafely = 1;"]
        {
            assert!(!needs_island(line), "{line}");
        }
    }
}
