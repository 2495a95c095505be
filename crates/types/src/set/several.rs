//! HOT: what several sets have in common, or one has and the others have not. Members are looked up in large sets several at a time, so that the
//! cache misses of these lookups overlap: one lookup alone waits for two of them.

use std::ops::ControlFlow;

use stdx::hash::hash64;

use super::{Kept, Name, Set, member, piece};
use crate::Storage;
use crate::packed::Piece;
use crate::table::Table;

/// Lookups that are under way at the same time.
const WINDOW: usize = 32;

/// Members on their way through the other sets.
struct Window<'a> {
    storage: Storage,
    candidates: Vec<Candidate<'a>>,
}

struct Candidate<'a> {
    member: Piece<'a>,
    name: Name<'a>,
    /// Of the name; spread anew in each table.
    hash: u64,
}

impl<'a> Window<'a> {
    /// Keeps the candidates that are members of `set`, or those that are not.
    fn filter(&mut self, set: Set<'_>, members: bool) {
        let Kept::Table(table) = set.0 else {
            return self.candidates.retain(|candidate| set.has(candidate.member) == members);
        };
        for candidate in &self.candidates {
            table.prefetch_bucket(table.spread(candidate.hash));
        }
        for candidate in &self.candidates {
            table.prefetch_element(table.spread(candidate.hash));
        }
        self.candidates.retain(|candidate| {
            let hash = table.spread(candidate.hash);
            table.find_hashed(hash, candidate.name.bytes()).is_some() == members
        });
    }

    fn push(&mut self, member: Piece<'a>, name: Name<'a>) {
        let hash = hash64(self.storage.seed, name.bytes());
        self.candidates.push(Candidate { member, name, hash });
    }
}

/// Calls `found` with each member of the first set that is a member of all others, until it breaks. The smallest should be the first.
/// O(members of the first * sets).
pub fn intersection<'a>(
    storage: Storage,
    first: Set<'a>,
    others: &[Set<'_>],
    found: impl FnMut(Piece<'a>) -> ControlFlow<()>,
) {
    select(storage, first, others, true, found);
}

/// Calls `found` with each member of the first set that is a member of no other. O(members of the first * sets).
pub fn difference<'a>(
    storage: Storage,
    first: Set<'a>,
    others: &[Set<'_>],
    mut found: impl FnMut(Piece<'a>),
) {
    select(storage, first, others, false, |member| {
        found(member);
        ControlFlow::Continue(())
    });
}

fn select<'a>(
    storage: Storage,
    first: Set<'a>,
    others: &[Set<'_>],
    members: bool,
    mut found: impl FnMut(Piece<'a>) -> ControlFlow<()>,
) {
    let mut window = Window { storage, candidates: Vec::with_capacity(WINDOW) };
    let mut flush = |window: &mut Window<'a>| {
        for set in others {
            if window.candidates.is_empty() {
                break;
            }
            window.filter(*set, members);
        }
        window.candidates.drain(..).try_for_each(|candidate| found(candidate.member))
    };
    let flow = match first.0 {
        Kept::Table(table) => walk(table, |name| {
            window.push(member(name), Name::Plain(name));
            if window.candidates.len() < WINDOW { ControlFlow::Continue(()) } else { flush(&mut window) }
        }),
        _ => first.visit(|member| {
            window.push(member, Name::of(member));
            if window.candidates.len() < WINDOW { ControlFlow::Continue(()) } else { flush(&mut window) }
        }),
    };
    if flow.is_continue() {
        let _ = flush(&mut window);
    }
}

/// Of several strings, in order, whether they are members.
pub(super) fn look_up<'n>(
    table: &Table,
    strings: impl Iterator<Item = &'n [u8]>,
    mut found: impl FnMut(bool),
) {
    let mut strings = strings.peekable();
    let mut window = Vec::with_capacity(WINDOW);
    while strings.peek().is_some() {
        window.extend(strings.by_ref().take(WINDOW).map(|string| {
            let name = Name::of(piece(string));
            let hash = table.hash(name.bytes());
            table.prefetch_bucket(hash);
            (name, hash)
        }));
        window.iter().for_each(|(_, hash)| table.prefetch_element(*hash));
        for (name, hash) in window.drain(..) {
            found(table.find_hashed(hash, name.bytes()).is_some());
        }
    }
}

/// Calls `visit` with the names of a table until it breaks.
fn walk<'a>(table: &'a Table, mut visit: impl FnMut(&'a [u8]) -> ControlFlow<()>) -> ControlFlow<()> {
    let (mut cursor, mut flow) = (0, ControlFlow::Continue(()));
    loop {
        cursor = table.scan_bucket(cursor, |handle| {
            if flow.is_continue() {
                flow = visit(table.element(handle).name());
            }
        });
        if cursor == 0 || flow.is_break() {
            return flow;
        }
    }
}
