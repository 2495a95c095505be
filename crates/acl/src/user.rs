//! One user: whether it may log in, its passwords, its selectors. Never changed once it is shared: a change makes another `User` with
//! the same `id`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalog::Catalog;
use crate::parse::RuleError;
use crate::secret::Secret;
use crate::selector::{Selector, push_word};

/// A user.
#[derive(Clone)]
pub struct User {
    /// Never that of another user, also not of one with the same name that was deleted.
    pub id: u64,
    /// Greater for each change of the same user.
    pub version: u64,
    pub name: Arc<[u8]>,
    pub enabled: bool,
    /// Any password will do.
    pub nopass: bool,
    passwords: Vec<Secret>,
    /// The first is the root one, made of the rules that stand in no parentheses.
    selectors: Vec<Selector>,
    /// One selector allows everything, so that nothing need be looked at.
    pub unrestricted: bool,
}

/// The last id or version that was given out.
static LAST: AtomicU64 = AtomicU64::new(0);

fn next() -> u64 {
    // Relaxed: only that no two are equal counts.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// What `reset` sets, as far as a setting decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// `acl-pubsub-default allchannels`
    pub all_channels: bool,
}

impl User {
    /// A user that may do nothing.
    pub fn new(catalog: &Catalog, name: &[u8], defaults: Defaults) -> Self {
        Self {
            id: next(),
            version: next(),
            name: name.into(),
            enabled: false,
            nopass: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new(catalog, defaults.all_channels)],
            unrestricted: false,
        }
    }

    /// The user `default` of a server without rules: may do everything, without a password.
    pub fn unlimited(catalog: &Catalog, name: &[u8]) -> Self {
        let rules: [&[u8]; 5] = [b"on", b"nopass", b"~*", b"&*", b"+@all"];
        Self::new(catalog, name, Defaults { all_channels: false })
            .changed(catalog, Defaults { all_channels: false }, &rules)
            .unwrap_or_else(|(_, error)| panic!("the default user's rules: {}", error.text()))
    }

    /// The same user after these rules, or the index of the first that is refused and why.
    pub fn changed(
        &self,
        catalog: &Catalog,
        defaults: Defaults,
        rules: &[impl AsRef<[u8]>],
    ) -> Result<Self, (usize, RuleError)> {
        let mut new = self.clone();
        for (at, rule) in rules.iter().enumerate() {
            new.apply(catalog, defaults, rule.as_ref()).map_err(|error| (at, error))?;
        }
        new.finish();
        Ok(new)
    }

    /// This user is what has become of `old`.
    pub(crate) fn take_place_of(&mut self, old: &User) {
        self.id = old.id;
        self.version = next();
    }

    /// After the last rule.
    pub(crate) fn finish(&mut self) {
        self.version = next();
        self.selectors.iter_mut().for_each(Selector::finish);
        self.unrestricted = self.selectors.iter().any(Selector::is_unrestricted);
    }

    /// Applies one rule; [`Self::finish`] must follow the last one.
    pub(crate) fn apply(
        &mut self,
        catalog: &Catalog,
        defaults: Defaults,
        rule: &[u8],
    ) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            // What payloads of RESTORE may hold is checked for everybody.
            b"" | b"sanitize-payload" | b"skip-sanitize-payload" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"nopass" => {
                self.nopass = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.nopass = false;
                self.passwords.clear();
            }
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => {
                self.enabled = false;
                self.nopass = false;
                self.passwords.clear();
                self.selectors = vec![Selector::new(catalog, defaults.all_channels)];
            }
            _ => match rule[0] {
                b'>' => self.add_password(Secret::of(&rule[1..])),
                b'#' => self.add_password(Secret::from_hex(&rule[1..]).ok_or(RuleError::BadHash)?),
                b'<' => self.remove_password(&Secret::of(&rule[1..]))?,
                b'!' => self.remove_password(&Secret::from_hex(&rule[1..]).ok_or(RuleError::BadHash)?)?,
                b'(' if rule.len() > 1 && rule.ends_with(b")") => {
                    let selector = selector(catalog, defaults, &rule[1..rule.len() - 1])?;
                    self.selectors.push(selector);
                }
                _ => self.selectors[0].apply(catalog, rule)?,
            },
        }
        Ok(())
    }

    fn add_password(&mut self, secret: Secret) {
        self.nopass = false;
        if !self.passwords.contains(&secret) {
            self.passwords.push(secret);
        }
    }

    fn remove_password(&mut self, secret: &Secret) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == secret).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// Whether a client with this password is this user. Takes as long for a wrong password as for a right one.
    pub fn accepts(&self, password: &[u8]) -> bool {
        let given = Secret::of(password);
        let right = self.passwords.iter().fold(false, |right, known| known.equals(&given) | right);
        self.enabled && (self.nopass || right)
    }

    /// Whether clients need not say who they are, if this is the user `default`.
    pub fn is_open(&self) -> bool {
        self.nopass && self.enabled
    }

    /// The hashes of its passwords, in the order in which they were added.
    pub fn passwords(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.iter().map(Secret::hex)
    }

    /// The root selector, then the others.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// `on`, `nopass` as they apply.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        [if self.enabled { Some("on") } else { Some("off") }, self.nopass.then_some("nopass")]
            .into_iter()
            .flatten()
    }

    /// The rules that make this user, as ACL LIST and files have them, without the name.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.flags().for_each(|flag| push_word(&mut text, &[flag.as_bytes()]));
        self.passwords().for_each(|hash| push_word(&mut text, &[b"#", hash.as_bytes()]));
        let (root, others) = self.selectors.split_first().expect("a user has a root selector");
        root.describe(&mut text);
        for selector in others {
            push_word(&mut text, &[b"("]);
            selector.describe(&mut text);
            text.push(b')');
        }
        text
    }

    /// Whether a client of this user may listen to a channel, or by a pattern, that it has subscribed to.
    pub fn may_listen(&self, name: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(name, is_pattern))
    }
}

/// The selector that stands between parentheses.
fn selector(catalog: &Catalog, defaults: Defaults, text: &[u8]) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(catalog, defaults.all_channels);
    let words = stdx::quote::split_args(text).map_err(|_| RuleError::Syntax)?;
    for word in &words {
        selector.apply(catalog, word)?;
    }
    Ok(selector)
}
