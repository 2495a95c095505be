//! The configuration: every setting's value, as text for CONFIG GET and as typed fields for who obeys it.
//!
//! A `Config` never changes: CONFIG SET makes a new one from the old and hands it to every thread, so that a thread sees all
//! of a change or nothing of it. Reading files is in `source`, the settings are in `table`, what a value looks like in
//! `setting` and `own`, writing a file back in `rewrite`.

mod own;
mod rewrite;
mod setting;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod typed;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub use own::os_text;
pub use own::{OUTPUT_CLASSES, OutputLimit};
pub use rewrite::RewriteError;
pub(crate) use rewrite::replace_file;
pub use setting::{Change, Reason, Setting, Stance};
pub use source::{Action, Arguments, LoadError, Loaded, load};
pub use table::SETTINGS;
pub use typed::{
    Access, Bind, Engine, Fields, ListenSettings, LogFormat, LogLevel, OomScore, Supervised, Timestamp,
};

/// The value of every setting.
#[derive(Clone, Debug)]
pub struct Config {
    /// In the order of [`SETTINGS`], as CONFIG GET shows them.
    texts: Vec<Box<[u8]>>,
    /// The configuration file, if the process was started with one: what CONFIG REWRITE writes.
    pub file: Option<PathBuf>,
    /// The users that its `user` lines declare.
    pub users: Vec<DeclaredUser>,
    /// The directory the process was started in, the default of `dir`.
    start_dir: Box<[u8]>,
    fields: Fields,
}

/// A user as a line of the configuration declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredUser {
    pub name: Vec<u8>,
    pub rules: Vec<Vec<u8>>,
}

impl std::ops::Deref for Config {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

/// Why CONFIG SET changes nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum SetError {
    UnknownName(Vec<u8>),
    Refused { name: Vec<u8>, reason: Reason },
}

impl SetError {
    /// The error reply.
    pub fn reply(&self) -> command::CommandError {
        command::CommandError::new(match self {
            Self::UnknownName(name) => {
                format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                    String::from_utf8_lossy(name)
                )
            }
            Self::Refused { name, reason } => format!(
                "ERR CONFIG SET failed (possibly related to argument '{}') - {reason}",
                String::from_utf8_lossy(name)
            ),
        })
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::with_defaults(None)
    }
}

impl Config {
    /// Every setting at its default.
    pub fn with_defaults(file: Option<PathBuf>) -> Self {
        let start_dir: Box<[u8]> = match std::env::current_dir() {
            Ok(dir) => os_bytes(dir.as_os_str()).into(),
            Err(_) => b".".as_slice().into(),
        };
        let mut texts: Vec<Box<[u8]>> = SETTINGS.iter().map(|row| row.default.as_bytes().into()).collect();
        texts[row_of("dir")] = start_dir.clone();
        let fields = Fields::read(&texts);
        Self { texts, file, users: Vec::new(), start_dir, fields }
    }

    /// The value of the setting with this name or alias, as CONFIG GET shows it.
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        let row = SETTINGS.iter().position(|row| row.is_named(name.as_bytes()))?;
        Some(&self.texts[row])
    }

    /// CONFIG GET: names and values that one of `patterns` matches, each once, in the order of the names. A pattern without wildcards is
    /// a name, and shown as it was written.
    pub fn get<'a>(&'a self, patterns: &[&'a [u8]]) -> Vec<(&'a [u8], &'a [u8])> {
        let shown = |name: &'static str| {
            let name = name.as_bytes();
            patterns.iter().find_map(|pattern| {
                let is_glob = pattern.iter().any(|byte| b"*?[".contains(byte));
                let found = if is_glob {
                    stdx::glob::matches(pattern, name, true)
                } else {
                    pattern.eq_ignore_ascii_case(name)
                };
                found.then_some(if is_glob { name } else { *pattern })
            })
        };
        let mut found = Vec::new();
        for (row, text) in SETTINGS.iter().zip(&self.texts) {
            for name in [row.name, row.alias].into_iter().filter(|name| !name.is_empty()) {
                found.extend(shown(name).map(|shown| (name, shown, &**text)));
            }
        }
        found.sort_unstable_by_key(|(name, ..)| *name);
        found.into_iter().map(|(_, shown, text)| (shown, text)).collect()
    }

    /// CONFIG SET: all of these changes or, when one is refused, none. `protected_too` says whether this client may change
    /// protected settings. What depends on the running process (a port that is taken) is checked by who applies the result.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], protected_too: bool) -> Result<Self, SetError> {
        let rows = check_names(pairs, protected_too)?;
        let mut new = self.clone();
        for (row, (name, value)) in rows.iter().zip(pairs) {
            let setting = &SETTINGS[*row];
            // `save` adds to what a file said before; CONFIG SET replaces it.
            let before: &[u8] = if setting.name == "save" { b"" } else { &self.texts[*row] };
            let text = setting
                .parse(&[*value], before)
                .map_err(|reason| SetError::Refused { name: name.to_vec(), reason })?;
            new.texts[*row] = text.into();
        }
        new.fields = Fields::read(&new.texts);
        Ok(new)
    }

    /// One directive of a file or of the command line.
    fn apply_directive(&mut self, row: usize, words: &[&[u8]]) -> Result<(), Reason> {
        self.texts[row] = SETTINGS[row].parse(words, &self.texts[row])?.into();
        Ok(())
    }

    /// Rewrites the typed fields after directives were applied.
    fn settle(&mut self) {
        self.fields = Fields::read(&self.texts);
    }

    /// The value that a setting has when nobody sets it.
    fn default_text(&self, row: usize) -> &[u8] {
        if SETTINGS[row].name == "dir" { &self.start_dir } else { SETTINGS[row].default.as_bytes() }
    }
}

/// The rows that the names mean, if all of them exist, are told once and may be changed while running.
fn check_names(pairs: &[(&[u8], &[u8])], protected_too: bool) -> Result<Vec<usize>, SetError> {
    let mut rows = Vec::with_capacity(pairs.len());
    for (name, _) in pairs {
        let row = SETTINGS
            .iter()
            .position(|row| row.is_named(name))
            .ok_or_else(|| SetError::UnknownName(name.to_vec()))?;
        let refused =
            |reason| Err(SetError::Refused { name: name.to_vec(), reason: Reason::Borrowed(reason) });
        match SETTINGS[row].change {
            Change::Never => return refused("can't set immutable config"),
            Change::Protected if !protected_too => return refused("can't set protected config"),
            _ if rows.contains(&row) => return refused("duplicate parameter"),
            _ => rows.push(row),
        }
    }
    Ok(rows)
}

/// The index of a setting that Darter itself asks for.
fn row_of(name: &str) -> usize {
    SETTINGS.iter().position(|row| row.name == name).expect("the table has a row for each field")
}

pub(crate) fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

pub(crate) fn os_bytes(text: &OsStr) -> &[u8] {
    text.as_bytes()
}
