//! HOT: what several sets have in common, or one has and the others have not. Members are looked up in large sets several at a time, so that the
//! cache misses of these lookups overlap: one lookup alone waits for two of them.

use std::ops::ControlFlow;

use stdx::hash::hash64;

use super::{Kept, Name, Set, member, piece};
use crate::Storage;
use crate::packed::Piece;
use crate::table::Table;

/// Lookups that are under way at the same time: more than a processor can wait for, so that there always is one to go on with.
const WINDOW: usize = 64;

/// A member on its way through the other sets: what it is, and the hash of its name, which each table spreads anew.
type Candidate<T> = (T, u64);

/// Keeps the candidates that are members of `set`, or those that are not; `asked`: their elements there have been asked for.
fn filter<T>(
    candidates: &mut Vec<Candidate<T>>,
    set: Set<'_>,
    (members, asked): (bool, bool),
    name: impl Fn(&T) -> &[u8],
    piece: impl Fn(&T) -> Piece<'_>,
) {
    let Kept::Table(table) = set.0 else {
        return candidates.retain(|(candidate, _)| set.has(piece(candidate)) == members);
    };
    if !asked {
        candidates.iter().for_each(|(_, hash)| table.prefetch_bucket(table.spread(*hash)));
        candidates.iter().for_each(|(_, hash)| table.prefetch_element(table.spread(*hash)));
    }
    candidates.retain(|(candidate, hash)| {
        table.find_hashed(table.spread(*hash), name(candidate)).is_some() == members
    });
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
    if let Kept::Table(table) = first.0 {
        return select_from_table(storage, table, others, members, found);
    }
    let mut candidates = Vec::with_capacity(WINDOW);
    let mut flush = |candidates: &mut Vec<Candidate<(Piece<'a>, Name<'a>)>>| {
        for set in others {
            filter(candidates, *set, (members, false), |(_, name)| name.bytes(), |(member, _)| *member);
        }
        candidates.drain(..).try_for_each(|((member, _), _)| found(member))
    };
    let flow = first.visit(|member| {
        let name = Name::of(member);
        let hash = hash64(storage.seed, name.bytes());
        candidates.push(((member, name), hash));
        if candidates.len() < WINDOW { ControlFlow::Continue(()) } else { flush(&mut candidates) }
    });
    if flow.is_continue() {
        let _ = flush(&mut candidates);
    }
}

/// The same for a large first set, whose members are taken in the order in which they lie in memory. Buckets of the next set are asked for as soon as a
/// member is met, its elements when a window of members is complete; that window is looked up when the next one is: no step waits for what
/// it has just asked for.
fn select_from_table<'a>(
    storage: Storage,
    table: &'a Table,
    others: &[Set<'_>],
    members: bool,
    mut found: impl FnMut(Piece<'a>) -> ControlFlow<()>,
) {
    let next = match others.first() {
        Some(Set(Kept::Table(next))) => Some(*next),
        _ => None,
    };
    let mut elements = table.elements();
    let mut coming: Vec<Candidate<&'a [u8]>> = Vec::with_capacity(WINDOW);
    let mut window: Vec<Candidate<&'a [u8]>> = Vec::with_capacity(WINDOW);
    loop {
        coming.extend(elements.by_ref().take(WINDOW).map(|element| {
            let name = element.name();
            let hash = hash64(storage.seed, name);
            if let Some(next) = next {
                next.prefetch_bucket(next.spread(hash));
            }
            (name, hash)
        }));
        if let Some(next) = next {
            coming.iter().for_each(|(_, hash)| next.prefetch_element(next.spread(*hash)));
        }
        std::mem::swap(&mut coming, &mut window);
        for (place, set) in others.iter().enumerate() {
            let asked = place == 0 && next.is_some();
            filter(&mut coming, *set, (members, asked), |name| name, |name| member(name));
        }
        let flow = coming.drain(..).try_for_each(|(name, _)| found(member(name)));
        if window.is_empty() || flow.is_break() {
            return;
        }
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
