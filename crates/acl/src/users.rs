//! All users by name, and the text of files that describe them. Not the files themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::parse::{RuleError, Unmatched, has_spaces, merge_selectors};
use crate::user::{Defaults, User};

/// The name of the user that every connection begins as.
pub const DEFAULT: &[u8] = b"default";

/// All users, in the order of their names.
pub struct Users {
    by_name: BTreeMap<Arc<[u8]>, Arc<User>>,
}

impl Users {
    /// The user `default` alone, who may do everything.
    pub fn new(catalog: &Catalog) -> Self {
        let mut users = Self { by_name: BTreeMap::new() };
        users.put(Arc::new(User::unlimited(catalog, DEFAULT)));
        users
    }

    /// The user with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The user that every connection begins as.
    pub fn default_user(&self) -> &Arc<User> {
        self.get(DEFAULT).expect("the default user cannot be removed")
    }

    /// Adds a user, or changes the one with its name.
    pub fn put(&mut self, user: Arc<User>) {
        self.by_name.insert(Arc::clone(&user.name), user);
    }

    /// Removes a user; the user `default` stays.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<User>> {
        if name == DEFAULT { None } else { self.by_name.remove(name) }
    }

    /// Puts other users in the place of all. What has become of each of the old ones, by its id.
    pub fn replace(&mut self, new: Users) -> Vec<(u64, Option<Arc<User>>)> {
        let old = std::mem::replace(self, new);
        let mut changes = Vec::with_capacity(old.by_name.len());
        for (name, user) in old.by_name {
            let now = self.by_name.get_mut(&name).map(|now| {
                Arc::make_mut(now).take_place_of(&user);
                Arc::clone(now)
            });
            changes.push((user.id, now));
        }
        changes
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    /// `requirepass`: the default user has this password alone, or needs none.
    pub fn require_password(&self, catalog: &Catalog, password: &[u8]) -> Arc<User> {
        let rules = [b"resetpass".to_vec(), [b">", password].concat()];
        let rules: &[Vec<u8>] = if password.is_empty() { &[b"nopass".to_vec()] } else { &rules };
        let changed = self.default_user().changed(catalog, Defaults { all_channels: false }, rules);
        Arc::new(
            changed.unwrap_or_else(|(_, error)| panic!("a password is always accepted: {}", error.text())),
        )
    }

    /// One line per user, as ACL LIST shows them and files have them.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = Vec<u8>> {
        self.iter().map(|user| line(user))
    }

    /// The users of a file named `path` for the messages; the default user is added if it has none. Everything that is wrong with it is told
    /// in one text, as Valkey does it.
    pub fn parse(catalog: &Catalog, defaults: Defaults, text: &[u8], path: &str) -> Result<Self, String> {
        let mut users = Self { by_name: BTreeMap::new() };
        let mut errors = Vec::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if !line.is_empty() {
                users.parse_line(
                    catalog,
                    defaults,
                    line,
                    &format!("{path}:{}", index + 1),
                    index + 1,
                    &mut errors,
                );
            }
        }
        if errors.is_empty() {
            if users.get(DEFAULT).is_none() {
                users.put(Arc::new(User::unlimited(catalog, DEFAULT)));
            }
            return Ok(users);
        }
        errors.push(
            "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
                .to_owned(),
        );
        Err(errors.concat())
    }

    /// `user name rule ...`
    fn parse_line(
        &mut self,
        catalog: &Catalog,
        defaults: Defaults,
        line: &[u8],
        place: &str,
        number: usize,
        errors: &mut Vec<String>,
    ) {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let &[b"user", name, ref rules @ ..] = words.as_slice() else {
            return errors.push(format!("{place} should start with user keyword followed by the username. "));
        };
        let shown = String::from_utf8_lossy(name);
        if self.get(name).is_some() {
            return errors.push(format!("WARNING: Duplicate user '{shown}' found on line {number}. "));
        }
        if has_spaces(name) {
            return errors.push(format!("{place}: username '{shown}' contains invalid characters. "));
        }
        let Ok(rules) = merge_selectors(rules) else {
            return errors.push(format!("{place}: Unmatched parenthesis in selector definition."));
        };
        let mut user = User::new(catalog, name, defaults);
        let mut told = false;
        for rule in &rules {
            match user.apply(catalog, defaults, rule.trim_ascii()) {
                Ok(()) => {}
                Err(error @ RuleError::UnknownCommand) => errors.push(format!(
                    "{place}: Error in applying operation '{}': {}. ",
                    String::from_utf8_lossy(rule),
                    error.text()
                )),
                // Only the first of the others, as it may be the reason for those behind it.
                Err(error) if !told => {
                    told = true;
                    errors.push(format!("{place}: {}. ", error.text()));
                }
                Err(_) => {}
            }
        }
        user.finish();
        self.put(Arc::new(user));
    }
}

/// The line of one user.
pub fn line(user: &User) -> Vec<u8> {
    [b"user ", &user.name[..], b" ", &user.describe()].concat()
}

/// A `user` line of the configuration file that cannot be obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    Unmatched,
    /// The rule with this index, selectors counted as one.
    Rule(usize, RuleError),
}

/// The user that `user name rule ...` of a configuration file declares.
pub fn declared(
    catalog: &Catalog,
    defaults: Defaults,
    name: &[u8],
    rules: &[&[u8]],
) -> Result<User, LineError> {
    let rules = merge_selectors(rules).map_err(|Unmatched(_)| LineError::Unmatched)?;
    User::new(catalog, name, defaults)
        .changed(catalog, defaults, &rules)
        .map_err(|(at, error)| LineError::Rule(at, error))
}
