//! One selector: commands, keys, channels and databases that belong together; how rules change it and how it is written.

use std::fmt::Write;

use command::Categories;

use crate::catalog::{Catalog, Row};
use crate::parse::{RuleError, databases, has_spaces};
use crate::patterns::{Access, Patterns};

/// A set of commands, keys, channels and databases.
#[derive(Clone)]
pub struct Selector {
    /// A bit per command.
    commands: Box<[u64]>,
    /// Every command, also those that nobody knows yet: what `+@all` leaves until something is taken away.
    all_commands: bool,
    /// What commands nobody knows yet would be: the last of `+@all` and `-@all`.
    future: bool,
    /// The rules since then, as they are written.
    rules: Vec<CommandRule>,
    /// First arguments with which a command is allowed that otherwise is not.
    first_args: Vec<(usize, Box<[u8]>)>,
    pub(crate) all_keys: bool,
    pub(crate) keys: Patterns,
    pub(crate) all_channels: bool,
    pub(crate) channels: Patterns,
    pub(crate) databases: Databases,
}

/// `+get`, `-@dangerous`
#[derive(Clone, PartialEq, Eq)]
struct CommandRule {
    allow: bool,
    text: Box<str>,
}

/// The databases of a selector.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Databases {
    All,
    /// Ascending.
    These(Vec<u32>),
}

impl Databases {
    pub fn has(&self, db: u32) -> bool {
        match self {
            Self::All => true,
            Self::These(ids) => ids.binary_search(&db).is_ok(),
        }
    }
}

impl Selector {
    /// No command, no key, every database; every channel if `all_channels`, as `acl-pubsub-default` says.
    pub fn new(catalog: &Catalog, all_channels: bool) -> Self {
        Self {
            commands: vec![0; catalog.len().div_ceil(64)].into(),
            all_commands: false,
            future: false,
            rules: Vec::new(),
            first_args: Vec::new(),
            all_keys: false,
            keys: Patterns::default(),
            all_channels,
            channels: Patterns::default(),
            databases: Databases::All,
        }
    }

    /// Whether it allows everything.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.databases == Databases::All
    }

    /// Whether a command is allowed, whatever its keys are.
    pub(crate) fn allows_command(&self, number: usize, row: &Row, args: resp::Args<'_>) -> bool {
        if self.all_commands || self.has_bit(number) {
            return true;
        }
        let argument = if row.parent.is_some() { 2 } else { 1 };
        args.get(argument).is_some_and(|word| {
            self.first_args.iter().any(|(of, first)| *of == number && first.eq_ignore_ascii_case(word))
        })
    }

    fn has_bit(&self, number: usize) -> bool {
        self.commands[number / 64] >> (number % 64) & 1 == 1
    }

    /// Applies one rule, [`Self::finish`] must follow the last one.
    pub(crate) fn apply(&mut self, catalog: &Catalog, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"alldbs" => self.databases = Databases::All,
            b"resetdbs" => self.databases = Databases::These(Vec::new()),
            b"allcommands" | b"+@all" => self.set_all(true),
            b"nocommands" | b"-@all" => self.set_all(false),
            lower => match (rule.first(), rule.get(1)) {
                (Some(b'~' | b'%'), _) => self.add_keys(rule)?,
                (Some(b'&'), _) => self.add_channels(&rule[1..])?,
                (Some(b'+' | b'-'), Some(b'@')) => {
                    self.apply_category(catalog, &lower[1..], rule[0] == b'+')?
                }
                (Some(b'+'), _) => self.allow(catalog, &lower[1..], &rule[1..])?,
                (Some(b'-'), _) => {
                    let number = catalog.find(&lower[1..]).ok_or(RuleError::UnknownCommand)?;
                    self.set_command(catalog, number, false);
                    self.note(&catalog.row(number).name, false);
                }
                _ => {
                    let list = lower.strip_prefix(b"db=").ok_or(RuleError::Syntax)?;
                    self.databases = Databases::These(databases(list)?);
                }
            },
        }
        Ok(())
    }

    /// After the last rule, before the first decision.
    pub(crate) fn finish(&mut self) {
        self.keys.finish();
        self.channels.finish();
    }

    fn set_all(&mut self, allow: bool) {
        self.commands.fill(if allow { u64::MAX } else { 0 });
        self.all_commands = allow;
        self.future = allow;
        self.rules.clear();
        self.first_args.clear();
    }

    /// `~pattern`, `%R~pattern`, `%W~pattern`, `%RW~pattern`
    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AfterAllKeys);
        }
        let (mut access, mut at) = (Access::ALL, 1);
        if rule[0] == b'%' {
            access = Access::NONE;
            while let Some(byte) = rule.get(at) {
                at += 1;
                let more = match byte.to_ascii_uppercase() {
                    b'R' if !access.has(Access::READ) => Access::READ,
                    b'W' if !access.has(Access::WRITE) => Access::WRITE,
                    b'~' => break,
                    _ => return Err(RuleError::Syntax),
                };
                access = access.with(more);
            }
            if access == Access::NONE {
                return Err(RuleError::Syntax);
            }
        }
        let pattern = &rule[at..];
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        self.keys.add(pattern, access);
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AfterAllChannels);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        self.channels.add(pattern, Access::ALL);
        Ok(())
    }

    /// `+command`, `+container|subcommand`, or `+command|first-argument`. `lower` is `name` in lower case.
    fn allow(&mut self, catalog: &Catalog, lower: &[u8], name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = lower.iter().rposition(|byte| *byte == b'|') else {
            let number = catalog.find(lower).ok_or(RuleError::UnknownCommand)?;
            self.set_command(catalog, number, true);
            self.note(&catalog.row(number).name, true);
            return Ok(());
        };
        let number = catalog.find(&lower[..bar]).ok_or(RuleError::UnknownCommand)?;
        let row = catalog.row(number);
        if row.parent.is_some() {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if bar + 1 == lower.len() {
            return Err(RuleError::Syntax);
        }
        if row.subcommands.is_empty() {
            let first = &name[bar + 1..];
            if !self.first_args.iter().any(|(of, known)| *of == number && known.eq_ignore_ascii_case(first)) {
                self.first_args.push((number, first.into()));
            }
        } else {
            let number = catalog.find(lower).ok_or(RuleError::UnknownCommand)?;
            self.set_command(catalog, number, true);
        }
        self.note(&String::from_utf8_lossy(lower), true);
        Ok(())
    }

    /// `@category`
    fn apply_category(&mut self, catalog: &Catalog, name: &[u8], allow: bool) -> Result<(), RuleError> {
        let category = std::str::from_utf8(&name[1..])
            .ok()
            .and_then(Categories::named)
            .ok_or(RuleError::UnknownCommand)?;
        self.note(&String::from_utf8_lossy(name), allow);
        for (number, row) in catalog.rows() {
            if row.categories.has(category) {
                self.set_command(catalog, number, allow);
            }
        }
        Ok(())
    }

    /// A command with all its subcommands.
    fn set_command(&mut self, catalog: &Catalog, number: usize, allow: bool) {
        self.set_bit(number, allow);
        self.first_args.retain(|(of, _)| *of != number);
        catalog.row(number).subcommands.iter().for_each(|sub| self.set_bit(*sub, allow));
    }

    fn set_bit(&mut self, number: usize, allow: bool) {
        let bit = 1 << (number % 64);
        if allow {
            self.commands[number / 64] |= bit;
        } else {
            self.commands[number / 64] &= !bit;
            self.all_commands = false;
        }
    }

    /// Remembers a rule as it is written; it takes the place of those that it covers: itself, and rules about its subcommands.
    fn note(&mut self, text: &str, allow: bool) {
        self.rules.retain(|rule| match rule.text.strip_prefix(text) {
            Some(rest) => !(rest.is_empty() || rest.starts_with('|')),
            None => true,
        });
        self.rules.push(CommandRule { allow, text: text.into() });
    }

    /// `-@all +@read -get`
    pub fn describe_commands(&self) -> String {
        let mut text = if self.future { "+@all" } else { "-@all" }.to_owned();
        for rule in &self.rules {
            let sign = if rule.allow { '+' } else { '-' };
            write!(text, " {sign}{}", rule.text).expect("a string takes any text");
        }
        text
    }

    /// `~a %R~b`, or `~*`
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let mut text = Vec::new();
        for (pattern, access) in self.keys.iter() {
            let sign: &[u8] = match access {
                Access::READ => b"%R~",
                Access::WRITE => b"%W~",
                _ => b"~",
            };
            push_word(&mut text, &[sign, pattern]);
        }
        text
    }

    /// `&a &b`, or `&*`
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let mut text = Vec::new();
        self.channels.iter().for_each(|(pattern, _)| push_word(&mut text, &[b"&", pattern]));
        text
    }

    /// `alldbs`, `db=0,3`, or nothing if it has none.
    pub fn describe_databases(&self) -> String {
        match &self.databases {
            Databases::All => "alldbs".to_owned(),
            Databases::These(ids) if ids.is_empty() => String::new(),
            Databases::These(ids) => {
                let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
                format!("db={}", ids.join(","))
            }
        }
    }

    /// The rules that make this selector.
    pub fn describe(&self, text: &mut Vec<u8>) {
        let keys = self.describe_keys();
        if !keys.is_empty() {
            push_word(text, &[&keys]);
        }
        if !self.all_channels {
            push_word(text, &[b"resetchannels"]);
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            push_word(text, &[&channels]);
        }
        match &self.databases {
            Databases::All => {}
            Databases::These(ids) if ids.is_empty() => push_word(text, &[b"resetdbs"]),
            Databases::These(_) => push_word(text, &[self.describe_databases().as_bytes()]),
        }
        push_word(text, &[self.describe_commands().as_bytes()]);
    }
}

/// Appends a word made of parts, with a blank before it unless it is the first.
pub(crate) fn push_word(text: &mut Vec<u8>, parts: &[&[u8]]) {
    if !text.is_empty() && text.last() != Some(&b'(') {
        text.push(b' ');
    }
    parts.iter().for_each(|part| text.extend_from_slice(part));
}
