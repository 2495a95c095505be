//! The workspace manifest lists its members in data-flow order; dependencies point down that list. Test dependencies too: a crate that
//! needs a crate above it for its tests has its tests in the wrong place.

use std::path::Path;

use super::Found;
use crate::fail::Result;
use crate::shell;

/// Every dependency between members that does not point down.
pub fn check() -> Found {
    let manifest = std::fs::read_to_string(shell::root().join("Cargo.toml"))?;
    let members = members(&manifest);
    let mut found = Vec::new();
    let mut names = Vec::new();
    for member in &members {
        let path = shell::root().join(member).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", shell::short(&path)))?;
        names.push((
            package_name(&text).ok_or_else(|| format!("{}: no name", shell::short(&path)))?,
            path,
            text,
        ));
    }
    for (place, (name, path, text)) in names.iter().enumerate() {
        for dependency in dependencies(text) {
            let Some(below) = names.iter().position(|(other, ..)| *other == dependency) else { continue };
            if below <= place {
                found.push(format!(
                    "{}: {name} depends on {dependency}, which stands above it",
                    shell::short(path)
                ));
            }
        }
    }
    found.extend(unlisted(&members)?);
    Ok(found)
}

/// Crates that lie in `crates/` but are no members.
fn unlisted(members: &[String]) -> Result<Vec<String>> {
    let manifests = shell::files(&shell::root().join("crates"), &|path| path.ends_with("Cargo.toml"))?;
    let dir = |path: &Path| path.parent().map(shell::short).unwrap_or_default();
    Ok(manifests
        .iter()
        .map(|path| dir(path))
        .filter(|dir| !members.contains(dir))
        .map(|dir| format!("{dir} is no member"))
        .collect())
}

/// The strings of the `members` array.
fn members(manifest: &str) -> Vec<String> {
    let list = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let list = list.map(|(list, _)| list).unwrap_or_default();
    list.split(',')
        .filter_map(|item| item.trim().strip_prefix('"')?.strip_suffix('"'))
        .map(str::to_string)
        .collect()
}

fn package_name(manifest: &str) -> Option<String> {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).map(str::to_string)
}

/// The names in every table of dependencies.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim_end_matches(']').ends_with("dependencies");
        } else if inside && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let end = line.find(['.', ' ', '=']).unwrap_or(line.len());
            names.push(line[..end].to_string());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_understood() {
        let manifest =
            "[workspace]\nmembers = [\n    \"crates/a\",\n    \"b\",\n]\ndefault-members = [\"c\"]\n";
        assert_eq!(members(manifest), ["crates/a", "b"]);
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n# c = 1\n[dev-dependencies]\nd={}\n[lints]\nworkspace = true\n";
        assert_eq!(package_name(manifest).unwrap(), "x");
        assert_eq!(dependencies(manifest), ["a", "b", "d"]);
    }
}
