//! The decision about one command: allowed, or why not.
//!
//! HOT for users who may not do everything: no allocation.

use command::{KeyFlags, call_flags, key_positions};
use resp::Args;

use crate::catalog::{Catalog, Channels, Reach, Row};
use crate::patterns::Access;
use crate::selector::{Databases, Selector};
use crate::user::User;

/// What a user lacks. Of several selectors the one that came furthest tells: later reasons win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Database,
    Command,
    Key,
    Channel,
    /// An option of SORT (`BY`, `GET`) reads keys that nobody can foretell; only this option is refused.
    SortOption(&'static str),
}

/// A command that a user may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    pub reason: Reason,
    /// Number of the command.
    pub number: usize,
    /// The word that is the reason; 0 if it is the command itself.
    pub word: usize,
}

impl Catalog {
    /// Whether `user` may run command `number` with these words (the command's name first) in database `db`.
    #[inline]
    pub fn check(&self, user: &User, number: usize, args: Args<'_>, db: u16) -> Result<(), Denied> {
        if user.unrestricted { Ok(()) } else { self.check_restricted(user, number, args, db) }
    }

    fn check_restricted(&self, user: &User, number: usize, args: Args<'_>, db: u16) -> Result<(), Denied> {
        let row = self.row(number);
        let mut worst = (Reason::Database, 0);
        for selector in user.selectors() {
            match self.check_selector(selector, number, args, db) {
                Ok(()) if row.spec.name.starts_with("SORT") => {
                    return self.check_sort(user, number, args, db);
                }
                Ok(()) => return Ok(()),
                Err(denied) => worst = worst.max(denied),
            }
        }
        Err(Denied { reason: worst.0, number, word: worst.1 })
    }

    fn check_selector(
        &self,
        selector: &Selector,
        number: usize,
        args: Args<'_>,
        db: u16,
    ) -> Result<(), (Reason, usize)> {
        let row = self.row(number);
        if selector.databases != Databases::All
            && let Some(word) = self.denied_database(selector, row, args, db)
        {
            return Err((Reason::Database, word));
        }
        if !row.spec.flags.has(command::Flags::NO_AUTH) && !selector.allows_command(number, row, args) {
            return Err((Reason::Command, 0));
        }
        if !selector.all_keys
            && row.has_keys
            && let Some(word) = denied_key(selector, row, args)
        {
            return Err((Reason::Key, word));
        }
        if !selector.all_channels
            && row.channels != Channels::None
            && let Some(word) = denied_channel(selector, row.channels, args)
        {
            return Err((Reason::Channel, word));
        }
        Ok(())
    }

    /// The word that names a database which the selector does not have; 0 for the client's own.
    fn denied_database(&self, selector: &Selector, row: &Row, args: Args<'_>, db: u16) -> Option<usize> {
        let named = |word: &[u8]| {
            stdx::num::parse_i64(word).and_then(|db| u16::try_from(db).ok()).filter(|db| *db < self.databases)
        };
        // Databases that do not exist are left to the command, which refuses them.
        let lacks =
            |at: usize| args.get(at).and_then(named).is_some_and(|db| !selector.databases.has(db.into()));
        let lacks_current = || (!selector.databases.has(db.into())).then_some(0);
        match row.reach {
            Reach::Nowhere => None,
            Reach::Current => lacks_current(),
            Reach::Select => lacks(1).then_some(1),
            Reach::Swap => {
                let both = (1..=2).all(|at| args.get(at).and_then(named).is_some());
                if both { (1..=2).find(|at| lacks(*at)) } else { None }
            }
            Reach::Move => match args.get(2).and_then(named) {
                Some(_) if lacks(2) => Some(2),
                _ => lacks_current(),
            },
            Reach::Copy => match copy_databases(args) {
                Some(words) if words.iter().all(|at| args.get(*at).and_then(named).is_some()) => {
                    words.into_iter().find(|at| lacks(*at)).or_else(lacks_current)
                }
                _ => lacks_current(),
            },
            Reach::All => (0..self.databases).any(|db| !selector.databases.has(db.into())).then_some(0),
        }
    }

    /// SORT's BY and GET may read any key: they need a selector that reads all of them.
    fn check_sort(&self, user: &User, number: usize, args: Args<'_>, db: u16) -> Result<(), Denied> {
        let Some((option, word)) = reading_option(args) else { return Ok(()) };
        let reads_all = |selector: &Selector| {
            (selector.all_keys || selector.keys.all_with(Access::READ))
                && self.check_selector(selector, number, args, db).is_ok()
        };
        if user.selectors().iter().any(reads_all) {
            return Ok(());
        }
        Err(Denied { reason: Reason::SortOption(option), number, word })
    }

    /// The error that a client gets, its code included.
    pub fn error(&self, user: &User, denied: Denied) -> String {
        let name = || String::from_utf8_lossy(&user.name).into_owned();
        match denied.reason {
            Reason::Command => {
                let command = &self.row(denied.number).name;
                format!("NOPERM User {} has no permissions to run the '{command}' command", name())
            }
            Reason::Key => "NOPERM No permissions to access a key".to_owned(),
            Reason::Channel => "NOPERM No permissions to access a channel".to_owned(),
            Reason::Database => "NOPERM No permissions to access database".to_owned(),
            Reason::SortOption(option) => {
                format!("ERR {option} option of SORT denied due to insufficient ACL permissions.")
            }
        }
    }

    /// What ACL DRYRUN tells: the same, with the word that is denied.
    pub fn explain(&self, user: &User, denied: Denied, args: Args<'_>) -> Vec<u8> {
        let mut text = b"User ".to_vec();
        text.extend_from_slice(&user.name);
        let word = args.get(denied.word).unwrap_or_default();
        let (before, word, after): (&str, &[u8], &str) = match denied.reason {
            Reason::Command => {
                (" has no permissions to run the '", self.row(denied.number).name.as_bytes(), "' command")
            }
            Reason::Key => (" has no permissions to access the '", word, "' key"),
            Reason::Channel => (" has no permissions to access the '", word, "' channel"),
            Reason::Database => (" has no permissions to access database ", word, ""),
            Reason::SortOption(_) => (" has no permissions to access the '", word, "' key"),
        };
        text.extend_from_slice(before.as_bytes());
        text.extend_from_slice(word);
        text.extend_from_slice(after.as_bytes());
        text
    }

    /// What ACL LOG names as the object: the command, or the word that was denied.
    pub fn object<'a>(&'a self, denied: Denied, args: Args<'a>) -> &'a [u8] {
        match denied.reason {
            Reason::Command => self.row(denied.number).name.as_bytes(),
            _ => args.get(denied.word).unwrap_or_default(),
        }
    }
}

impl Reason {
    /// The error of a command of an EXEC that was allowed when it was queued.
    pub fn since_queued(self) -> &'static str {
        match self {
            Self::Command => "no permission to execute the command or subcommand",
            Self::Key => "no permission to touch the specified keys",
            Self::Channel => "no permission to access one of the channels used as arguments",
            Self::Database | Self::SortOption(_) => "no permission",
        }
    }

    /// The reason as ACL LOG names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key | Self::SortOption(_) => "key",
            Self::Channel => "channel",
            Self::Database => "database",
        }
    }
}

impl Selector {
    pub(crate) fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            // A pattern is allowed only as it stands: what it matches may be more than what the rule's pattern matches.
            || if is_pattern { self.channels.contains(name) } else { self.channels.allows(name, Access::ALL) }
    }
}

/// The first key that the selector does not allow to be used as the command uses it.
fn denied_key(selector: &Selector, row: &Row, args: Args<'_>) -> Option<usize> {
    let mut denied = None;
    let result = key_positions(row.spec.keys, args, |at, flags| {
        if denied.is_some() || flags.has(KeyFlags::NOT_KEY) {
            return;
        }
        let flags = call_flags(row.spec.name, args, flags);
        let mut access = Access::NONE;
        if flags.has(KeyFlags::ACCESS) {
            access = access.with(Access::READ);
        }
        if flags.has(KeyFlags::UPDATE) || flags.has(KeyFlags::INSERT) || flags.has(KeyFlags::DELETE) {
            access = access.with(Access::WRITE);
        }
        if !selector.keys.allows(&args[at], access) {
            denied = Some(at);
        }
    });
    // Words that are no keys by their count are the command's mistake, which it tells itself without touching anything.
    result.ok().and(denied)
}

fn denied_channel(selector: &Selector, channels: Channels, args: Args<'_>) -> Option<usize> {
    let last = if channels == Channels::First { 1 } else { args.len() - 1 };
    (1..=last).find(|at| {
        args.get(*at).is_some_and(|name| !selector.allows_channel(name, channels == Channels::Patterns))
    })
}

/// The words of COPY that name databases; none if its options are wrong.
fn copy_databases(args: Args<'_>) -> Option<Vec<usize>> {
    let (mut words, mut at) = (Vec::new(), 3);
    while let Some(option) = args.get(at) {
        if option.eq_ignore_ascii_case(b"replace") {
            at += 1;
        } else if option.eq_ignore_ascii_case(b"db") && at + 1 < args.len() {
            words.push(at + 1);
            at += 2;
        } else {
            return None;
        }
    }
    Some(words)
}

/// The first option of SORT that reads keys beside the one it sorts, unless a mistake stands before it.
fn reading_option(args: Args<'_>) -> Option<(&'static str, usize)> {
    let mut at = 2;
    while let Some(option) = args.get(at) {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        let left = args.len() - at - 1;
        at += match () {
            () if is("ASC") || is("DESC") || is("ALPHA") => 1,
            () if is("LIMIT") && left >= 2 => 3,
            () if is("STORE") && left >= 1 => 2,
            () if is("BY") && left >= 1 && !args[at + 1].contains(&b'*') => 2,
            () if is("BY") && left >= 1 => return Some(("BY", at + 1)),
            () if is("GET") && left >= 1 => return Some(("GET", at + 1)),
            () => return None,
        };
    }
    None
}
