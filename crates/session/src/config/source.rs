//! Where the configuration comes from: the arguments of the process, files and the standard input, in Redis syntax.
//!
//! Each line is a directive: a name and words, quoted where they need it. Later lines win. The order is: the file named first
//! on the command line, the standard input if `-` was given, then the `--name value ...` arguments. Nothing here changes the
//! process; `dir` is entered and files are opened by the server.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::setting::{Reason, Stance};
use super::{Config, DeclaredUser, SETTINGS, os_bytes, os_str, os_text};

/// A file that includes itself would otherwise never end.
const INCLUDE_DEPTH_MAX: u32 = 16;

/// What the process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Run,
    Version,
    Help,
}

/// The arguments of the process, sorted but not yet judged.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    pub action: Action,
    pub file: Option<PathBuf>,
    pub reads_stdin: bool,
    /// Name and words of each `--name word ...`.
    pub directives: Vec<Vec<Vec<u8>>>,
}

impl Arguments {
    /// Sorts the words after the name of the program, as `valkey-server` does: `[FILE] [-] [--name word ...]... [-]`.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Self {
        let words: Vec<OsString> = words.into_iter().collect();
        let mut parsed = Self { action: Action::Run, file: None, reads_stdin: false, directives: Vec::new() };
        match words.as_slice() {
            [only] if only == "-v" || only == "--version" => parsed.action = Action::Version,
            [only] if only == "-h" || only == "--help" => parsed.action = Action::Help,
            _ => {}
        }
        if parsed.action != Action::Run {
            return parsed;
        }
        let mut rest = words.as_slice();
        if let [first, behind @ ..] = rest
            && !first.as_encoded_bytes().starts_with(b"-")
        {
            parsed.file = Some(PathBuf::from(first));
            rest = behind;
        }
        if let [first, behind @ ..] = rest
            && first == "-"
        {
            parsed.reads_stdin = true;
            rest = behind;
        }
        if let [before @ .., last] = rest
            && last == "-"
        {
            parsed.reads_stdin = true;
            rest = before;
        }
        for word in rest {
            parsed.add_word(word);
        }
        for directive in &mut parsed.directives {
            // `--save` alone removes all points, as in Valkey.
            if directive.len() == 1 && directive[0].eq_ignore_ascii_case(b"save") {
                directive.push(Vec::new());
            }
        }
        parsed
    }

    fn add_word(&mut self, word: &OsStr) {
        let word = os_bytes(word);
        match (word.strip_prefix(b"--"), self.directives.last_mut()) {
            (Some(name), _) => self.directives.push(vec![name.to_vec()]),
            (None, Some(directive)) => directive.push(word.to_vec()),
            (None, None) => self.directives.push(vec![word.to_vec()]),
        }
    }
}

/// A configuration that was read without error.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// What to log once there is a log: settings that were accepted but change nothing.
    pub notes: Vec<String>,
}

/// A line that cannot be obeyed: where it stands, what it says, and why not.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadError {
    pub place: String,
    /// The line; empty when the source itself could not be read.
    pub line: String,
    pub reason: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n*** FATAL CONFIG FILE ERROR (Darter {}) ***", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "{}", self.place)?;
        if !self.line.is_empty() {
            writeln!(f, ">>> '{}'", self.line)?;
        }
        write!(f, "{}", self.reason)
    }
}

impl std::error::Error for LoadError {}

/// Reads every source that the arguments name. `stdin` is read only if they ask for it.
pub fn load(arguments: &Arguments, stdin: &mut dyn Read) -> Result<Loaded, LoadError> {
    let file = match &arguments.file {
        Some(file) => Some(std::path::absolute(file).map_err(|error| cannot_open(file, &error))?),
        None => None,
    };
    let mut reader = Reader { config: Config::with_defaults(file.clone()), tuning: Vec::new() };
    if let Some(file) = &file {
        reader.read_file(file, 0)?;
    }
    if arguments.reads_stdin {
        let mut text = Vec::new();
        stdin.read_to_end(&mut text).map_err(|error| LoadError {
            place: "Reading the standard input".to_owned(),
            line: String::new(),
            reason: os_text(&error),
        })?;
        reader.read_lines(&text, "Reading the standard input", 0)?;
    }
    for words in &arguments.directives {
        let refused = |reason: Reason| LoadError {
            place: "Reading the command line".to_owned(),
            line: show(words),
            reason: reason.into_owned(),
        };
        reader.obey(words, "command line").map_err(refused)?;
    }
    reader.config.settle();
    let notes = reader.notes();
    Ok(Loaded { config: reader.config, notes })
}

struct Reader {
    config: Config,
    /// Settings without effect that were given, and where.
    tuning: Vec<(&'static str, String)>,
}

impl Reader {
    fn read_file(&mut self, path: &Path, depth: u32) -> Result<(), LoadError> {
        let text = std::fs::read(path).map_err(|error| cannot_open(path, &error))?;
        let place = format!("Reading the configuration file '{}'", path.display());
        self.read_lines(&text, &place, depth)
    }

    fn read_lines(&mut self, text: &[u8], place: &str, depth: u32) -> Result<(), LoadError> {
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let number = index + 1;
            let refused = |reason: Reason| LoadError {
                place: format!("{place}, at line {number}"),
                line: line.escape_ascii().to_string().replace("\\\"", "\"").replace("\\'", "'"),
                reason: reason.into_owned(),
            };
            let words = stdx::quote::split_args(line)
                .map_err(|_| refused(Reason::Borrowed("Unbalanced quotes in configuration line")))?;
            match words.as_slice() {
                [] => {}
                [name, pattern] if name.eq_ignore_ascii_case(b"include") => {
                    if depth >= INCLUDE_DEPTH_MAX {
                        return Err(refused(Reason::Borrowed("Too many nested includes")));
                    }
                    for path in expand(Path::new(os_str(pattern))) {
                        self.read_file(&path, depth + 1)?;
                    }
                }
                words => self.obey(words, &format!("line {number}")).map_err(refused)?,
            }
        }
        Ok(())
    }

    /// One directive: its name and its words.
    fn obey(&mut self, words: &[Vec<u8>], place: &str) -> Result<(), Reason> {
        let (name, values) = words.split_first().expect("a directive has a name");
        match name.to_ascii_lowercase().as_slice() {
            b"user" => return self.declare_user(values),
            b"loadmodule" => return Err("Darter loads no modules".into()),
            b"rename-command" => return Err("Darter does not rename commands".into()),
            _ => {}
        }
        let row = SETTINGS
            .iter()
            .position(|row| row.is_named(name))
            .ok_or("Bad directive or wrong number of arguments")?;
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        self.config.apply_directive(row, &values)?;
        if matches!(SETTINGS[row].stance, Stance::Tuning) {
            self.tuning.retain(|(name, _)| *name != SETTINGS[row].name);
            self.tuning.push((SETTINGS[row].name, place.to_owned()));
        }
        Ok(())
    }

    /// `user name rule ...`
    fn declare_user(&mut self, words: &[Vec<u8>]) -> Result<(), Reason> {
        let (name, rules) = words.split_first().ok_or("Bad directive or wrong number of arguments")?;
        let users = &mut self.config.users;
        if users.iter().any(|known| known.name == *name) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(
                "Error in user declaration '{name}': Duplicate user found. A user can only be defined once in config files"
            )
            .into());
        }
        let checked: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        crate::rights::check_declared(name, &checked)?;
        users.push(DeclaredUser { name: name.clone(), rules: rules.to_vec() });
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let note = |(name, place): &(&str, String)| {
            format!("'{name}' ({place}) tunes Valkey's internals: accepted, without effect here")
        };
        self.tuning.iter().map(note).collect()
    }
}

fn cannot_open(path: &Path, error: &std::io::Error) -> LoadError {
    LoadError {
        place: format!("Can't open config file '{}'", path.display()),
        line: String::new(),
        reason: os_text(error),
    }
}

/// A directive of the command line as a line of a file: `port "1234"`.
fn show(words: &[Vec<u8>]) -> String {
    let mut line = words[0].clone();
    for word in &words[1..] {
        line.push(b' ');
        stdx::quote::repr(word, &mut line);
    }
    String::from_utf8_lossy(&line).into_owned()
}

/// The files that an include names, in the order of their names. Without wildcards that is the path itself, there or not;
/// a pattern that matches nothing is no error, so that an empty directory can be included.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    if !has_wildcard(pattern.as_os_str()) {
        return vec![pattern.to_owned()];
    }
    let mut found = vec![PathBuf::new()];
    for part in pattern.components().map(|part| part.as_os_str()) {
        found = found.iter().flat_map(|dir| expand_part(dir, part)).collect();
    }
    found.retain(|path| path.exists());
    found.sort();
    found
}

fn expand_part(dir: &Path, part: &OsStr) -> Vec<PathBuf> {
    if !has_wildcard(part) {
        return vec![dir.join(part)];
    }
    let listed = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let entries = std::fs::read_dir(listed).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name())
        .filter(|name| !os_bytes(name).starts_with(b".") || os_bytes(part).starts_with(b"."))
        .filter(|name| stdx::glob::matches(os_bytes(part), os_bytes(name), false))
        .map(|name| dir.join(name))
        .collect()
}

fn has_wildcard(path: &OsStr) -> bool {
    os_bytes(path).iter().any(|byte| b"*?[".contains(byte))
}
