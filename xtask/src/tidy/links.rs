//! Links in Markdown files: a relative one leads to a file of the tree, one with `#` to a heading there.

use std::path::Path;

use super::Found;
use crate::shell;

/// Every link that leads nowhere.
pub fn check() -> Found {
    let mut found = Vec::new();
    for path in shell::files(shell::root(), &|path| shell::has_extension(path, "md"))? {
        let text = std::fs::read_to_string(&path)?;
        for (line, link) in links(&text) {
            if let Some(why) = broken(&path, &text, link) {
                found.push(format!("{}:{line}: {link}: {why}", shell::short(&path)));
            }
        }
    }
    Ok(found)
}

fn broken(from: &Path, text: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let mut there = text.to_string();
    if !file.is_empty() {
        let path = from.parent().unwrap_or(shell::root()).join(file);
        if !path.exists() {
            return Some("no such file".into());
        }
        if heading.is_empty() {
            return None;
        }
        there = std::fs::read_to_string(path).ok()?;
    }
    let known = there.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    (!known).then(|| "no such heading".into())
}

/// The name that Markdown gives a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_');
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of `[text](target)` with their line numbers, outside code blocks.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.starts_with("    ") {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            found.push((index + 1, target));
            rest = after;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings() {
        let text = "# A b-c: D\nsee [x](y.md#z) and [w](#a-b-c-d)\n```\n[no](no)\n```\n";
        assert_eq!(links(text), [(2, "y.md#z"), (2, "#a-b-c-d")]);
        assert_eq!(anchor("# A b-c: D"), "a-b-c-d");
        let here = Path::new("README.md");
        assert!(broken(here, text, "#a-b-c-d").is_none());
        assert!(broken(here, text, "#b").is_some());
        assert!(broken(here, text, "no-such-file").is_some());
        assert!(broken(here, text, "https://example.com/x").is_none());
    }
}
