//! What rules can name, and what a decision must look at: every command and subcommand by number. Derived from the rows, once.

use std::collections::HashMap;

use command::{Categories, Flags, KeyFlags, KeySpec, Spec};

/// Every command and subcommand.
pub struct Catalog {
    /// By number; a number that no command has is empty.
    rows: Vec<Option<Row>>,
    by_name: HashMap<Box<str>, usize>,
    /// How many databases there are.
    pub(crate) databases: u16,
}

/// What is known of one command.
#[derive(Clone)]
pub(crate) struct Row {
    /// `config|get`
    pub name: Box<str>,
    pub spec: &'static Spec,
    pub categories: Categories,
    pub parent: Option<usize>,
    pub subcommands: Vec<usize>,
    /// Whether some of its words are keys.
    pub has_keys: bool,
    pub reach: Reach,
    pub channels: Channels,
}

/// Which databases a command touches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// None: it is about the connection or the server.
    Nowhere,
    /// The one its client has selected.
    Current,
    /// SELECT: the one it names.
    Select,
    /// SWAPDB: the two it names.
    Swap,
    /// MOVE: its client's, and the one it names.
    Move,
    /// COPY: its client's, and the one that its options may name.
    Copy,
    /// FLUSHALL
    All,
}

/// Which words of a command are channels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    None,
    /// PUBLISH: the first word.
    First,
    /// SUBSCRIBE: every word.
    All,
    /// PSUBSCRIBE: every word, as patterns.
    Patterns,
}

impl Catalog {
    /// `rows` gives number, full name (`config|get`) and row of every command; most numbers from 0 on are used.
    pub fn new<'n>(rows: impl Iterator<Item = (usize, &'n str, &'static Spec)>, databases: u16) -> Self {
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable_by_key(|(number, ..)| *number);
        let by_name: HashMap<Box<str>, usize> =
            rows.iter().map(|(number, name, _)| ((*name).into(), *number)).collect();
        let mut made: Vec<Option<Row>> = Vec::new();
        for (number, name, spec) in rows {
            let parent = name.split_once('|').map(|(parent, _)| by_name[parent]);
            made.resize_with(number, || None);
            made.push(Some(Row::new(name, spec, parent)));
        }
        for number in 0..made.len() {
            let parent = made[number].as_ref().and_then(|row| row.parent);
            if let Some(parent) = parent.and_then(|parent| made[parent].as_mut()) {
                parent.subcommands.push(number);
            }
        }
        Self { rows: made, by_name, databases }
    }

    /// All numbers of commands are below it.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no command at all.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn row(&self, number: usize) -> &Row {
        self.rows[number].as_ref().expect("only commands are asked for")
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter_map(|(number, row)| Some((number, row.as_ref()?)))
    }

    /// The command with this full name, in any case.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(name.as_str()).copied()
    }

    /// The full names of the commands and subcommands of a category.
    pub fn named_in(&self, category: Categories) -> impl Iterator<Item = &str> {
        self.rows().filter(move |(_, row)| row.categories.has(category)).map(|(_, row)| &*row.name)
    }
}

impl Row {
    fn new(name: &str, spec: &'static Spec, parent: Option<usize>) -> Self {
        let is_key = |key: &KeySpec| !key.flags.has(KeyFlags::NOT_KEY);
        let has_keys = spec.keys.iter().any(is_key);
        let categories = spec.categories();
        let reads_or_writes = spec.flags.any(Flags::WRITE.with(Flags::READONLY));
        let reach = match name {
            "select" => Reach::Select,
            "swapdb" => Reach::Swap,
            "move" => Reach::Move,
            "copy" => Reach::Copy,
            "flushall" => Reach::All,
            _ if reads_or_writes || has_keys || categories.has(Categories::KEYSPACE) => Reach::Current,
            _ => Reach::Nowhere,
        };
        let channels = match name {
            "publish" | "spublish" => Channels::First,
            "subscribe" | "ssubscribe" => Channels::All,
            "psubscribe" => Channels::Patterns,
            _ => Channels::None,
        };
        Self {
            name: name.into(),
            spec,
            categories,
            parent,
            subcommands: Vec::new(),
            has_keys,
            reach,
            channels,
        }
    }
}
