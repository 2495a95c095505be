//! Patterns of keys or channels, each with what it permits, and how a name is found among them.
//!
//! HOT: `allows`; no allocation.
//!
//! ```text
//!   order    user:1   order:*   *:tmp   user:*:cart        as they were added, each once
//!   literal  hash -> user:1
//!   heads    ""(*:tmp)  order:(*)  user:(*:cart)            sorted; each knows the next shorter head that it begins with
//! ```
//!
//! Every head that a name begins with is the last head not above the name in the order, or reached from there over shorter ones: so one binary
//! search and a walk of a few steps find all patterns that may match.

use std::sync::Arc;

use stdx::glob;
use stdx::hash::{Seed, hash64};

/// What may be done with what a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(u8);

impl Access {
    pub const NONE: Self = Self(0);
    pub const READ: Self = Self(1);
    pub const WRITE: Self = Self(2);
    pub const ALL: Self = Self(3);

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[derive(Clone)]
struct Pattern {
    text: Arc<[u8]>,
    access: Access,
    /// Bytes before the first one that is not itself; all of them if the pattern is a plain name.
    head_len: u32,
}

impl Pattern {
    fn is_literal(&self) -> bool {
        self.head_len as usize == self.text.len()
    }

    fn head(&self) -> &[u8] {
        &self.text[..self.head_len as usize]
    }
}

/// A literal head and the patterns that begin with it.
#[derive(Clone)]
struct Head {
    /// Its first pattern in `globs`, and how many there are.
    first: u32,
    count: u32,
    /// The longest other head that this one begins with, as its index + 1; 0: none.
    parent: u32,
}

/// A set of patterns.
#[derive(Clone, Default)]
pub(crate) struct Patterns {
    items: Vec<Pattern>,
    /// Open addressing over the texts: index + 1, 0 is empty.
    slots: Vec<u32>,
    /// Patterns that are no plain names, by head.
    globs: Vec<u32>,
    heads: Vec<Head>,
    /// What each head begins with: the search looks at these alone until they are equal.
    leads: Vec<u64>,
}

/// The first eight bytes of a text as a number, in the order of texts; what is missing is zero.
fn lead(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = text.len().min(bytes.len());
    bytes[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(bytes)
}

/// Not a secret: only patterns are stored, and those come from an administrator.
const SEED: Seed = Seed::new(0x9e37_79b9);

impl Patterns {
    /// Adds a pattern; one that is there already permits more from now on.
    pub fn add(&mut self, text: &[u8], access: Access) {
        if let Some(at) = self.find(text) {
            self.items[at].access = self.items[at].access.with(access);
            return;
        }
        let head = text.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(text.len());
        let head_len = u32::try_from(head).expect("a word of a command is below 4 GiB");
        self.items.push(Pattern { text: text.into(), access, head_len });
        if self.items.len() * 2 > self.slots.len() {
            self.slots = vec![0; (self.items.len() * 4).next_power_of_two()];
            (0..self.items.len()).for_each(|at| self.enter(at));
        } else {
            self.enter(self.items.len() - 1);
        }
    }

    fn enter(&mut self, item: usize) {
        let mask = self.slots.len() - 1;
        let mut at = hash64(&SEED, &self.items[item].text) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = u32::try_from(item + 1).expect("fewer patterns than bytes of a command");
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash64(&SEED, text) as usize & mask;
        while self.slots[at] != 0 {
            let item = self.slots[at] as usize - 1;
            if *self.items[item].text == *text {
                return Some(item);
            }
            at = (at + 1) & mask;
        }
        None
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The patterns in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Access)> {
        self.items.iter().map(|pattern| (&*pattern.text, pattern.access))
    }

    /// Must be called after the last change, before [`Self::allows`]. O(n log n).
    pub fn finish(&mut self) {
        let index = |at: usize| u32::try_from(at).expect("fewer patterns than bytes of a command");
        self.globs = (0..self.items.len()).filter(|at| !self.items[*at].is_literal()).map(index).collect();
        let items = &self.items;
        self.globs.sort_by(|a, b| items[*a as usize].head().cmp(items[*b as usize].head()));
        self.heads.clear();
        self.leads.clear();
        let mut open: Vec<u32> = Vec::new();
        for (at, glob) in self.globs.iter().enumerate() {
            let head = items[*glob as usize].head();
            if let Some(last) = self.heads.last_mut()
                && items[self.globs[last.first as usize] as usize].head() == head
            {
                last.count += 1;
                continue;
            }
            let text_of =
                |head: u32| items[self.globs[self.heads[head as usize].first as usize] as usize].head();
            while open.last().is_some_and(|last| !head.starts_with(text_of(*last))) {
                open.pop();
            }
            let parent = open.last().map_or(0, |last| last + 1);
            open.push(index(self.heads.len()));
            self.leads.push(lead(head));
            self.heads.push(Head { first: index(at), count: 1, parent });
        }
    }

    /// Whether a pattern matches `name` and permits all of `access`. O(log n) besides patterns that match in more than their head and a
    /// last `*`.
    pub fn allows(&self, name: &[u8], access: Access) -> bool {
        if let Some(at) = self.find(name) {
            let pattern = &self.items[at];
            if pattern.is_literal() && pattern.access.has(access) {
                return true;
            }
        }
        let wanted = lead(name);
        let mut at = self.leads.partition_point(|lead| *lead < wanted);
        let equal = self.leads[at..].partition_point(|lead| *lead == wanted);
        at += self.heads[at..at + equal].partition_point(|head| self.first_of(head).head() <= name);
        while at != 0 {
            let head = &self.heads[at - 1];
            let text = self.first_of(head).head();
            if name.starts_with(text) && self.fits(head, &name[text.len()..], access) {
                return true;
            }
            at = head.parent as usize;
        }
        false
    }

    fn first_of(&self, head: &Head) -> &Pattern {
        &self.items[self.globs[head.first as usize] as usize]
    }

    /// Whether one of the patterns of a head matches what follows the head.
    fn fits(&self, head: &Head, rest: &[u8], access: Access) -> bool {
        let globs = &self.globs[head.first as usize..][..head.count as usize];
        globs.iter().any(|glob| {
            let pattern = &self.items[*glob as usize];
            let (head, tail) = pattern.text.split_at(pattern.head_len as usize);
            pattern.access.has(access)
                && match rest {
                    // An empty name fits no pattern but the empty one; the end of a name fits any number of `*`.
                    [] => !head.is_empty() && tail.iter().all(|byte| *byte == b'*'),
                    _ => tail == b"*" || glob::matches(tail, rest, false),
                }
        })
    }

    /// Whether this very text is one of the patterns.
    pub fn contains(&self, text: &[u8]) -> bool {
        self.find(text).is_some()
    }

    /// Whether there is `*` with this access.
    pub fn all_with(&self, access: Access) -> bool {
        self.find(b"*").is_some_and(|at| self.items[at].access.has(access))
    }
}
