//! HOT: sorted sets: members, each once, in the order of their scores and, among equal scores, of their bytes. Not the texts of scores.
//!
//! A set of up to 512 members and 16 KiB is packed (`zset/flat.rs`); a larger one is a table of its members with a tree over it (`zset/tree.rs`).
//! It becomes packed again at half of both. Whoever removes the last member removes the key.

mod flat;
mod node;
mod nodes;
mod score;
#[cfg(test)]
mod tests;
mod tree;

pub use score::{LexBound, LexRange, ScoreRange, compare};

use std::ops::Range;

use memory::INLINE_BYTES_MAX;
use stdx::hash::hash64;
use stdx::rng::Rng;

use crate::form::Form;
use crate::limits::Limits;
use crate::slot::{Slot, View};
use flat::Flat;
use score::order;
use tree::Tree;

/// Members that are sorted before they are added, rather than added one by one.
const ADDED_AT_ONCE_MIN: usize = 4;
/// Members of a packed set.
const FLAT_MEMBERS_MAX: u64 = 512;

/// An empty set, as whoever creates a key begins with it.
pub const EMPTY: [u8; flat::HEADER_BYTES] = [Form::SortedSetListpack as u8, 0, 0, 0, 0];

/// A sorted set, to be read. Ranks count from 0.
#[derive(Clone, Copy)]
pub struct SortedSet<'a>(Kind<'a>);

#[derive(Clone, Copy)]
enum Kind<'a> {
    Flat(Flat<'a>, Form),
    Tree(&'a Tree),
}

impl<'a> SortedSet<'a> {
    /// The set in a view, which must be of one.
    #[inline]
    pub fn new(view: View<'a>) -> SortedSet<'a> {
        SortedSet(match view {
            View::Packed(bytes) => Kind::Flat(Flat::new(bytes), view.form()),
            View::Large(..) => Kind::Tree(view.large().expect("it is large")),
        })
    }

    /// Members.
    #[inline]
    pub fn len(self) -> u64 {
        match self.0 {
            Kind::Flat(flat, _) => flat.len() as u64,
            Kind::Tree(tree) => tree.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[inline]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self.0 {
            Kind::Flat(flat, _) => flat.find(member).map(|rank| flat.score(rank)),
            Kind::Tree(tree) => tree.find(member).map(|(_, score)| score),
        }
    }

    /// The rank of a member, and its score. O(log n).
    pub fn rank(self, member: &[u8]) -> Option<(u64, f64)> {
        match self.0 {
            Kind::Flat(flat, _) => flat.find(member).map(|rank| (rank as u64, flat.score(rank))),
            Kind::Tree(tree) => {
                let (_, score) = tree.find(member)?;
                Some((tree.rank_of_pair(score, member), score))
            }
        }
    }

    /// The ranks of the members whose scores lie in a range. O(log n).
    pub fn ranks_by_score(self, range: &ScoreRange) -> Range<u64> {
        let (start, end) = (range.start(), range.end());
        if start >= end {
            return 0..0;
        }
        match self.0 {
            Kind::Flat(flat, _) => flat.rank_of_order(start) as u64..flat.rank_of_order(end) as u64,
            Kind::Tree(tree) => tree.rank_of_order(start)..tree.rank_of_order(end),
        }
    }

    /// The ranks of the members that lie in a range. O(log n). Where scores differ, a set whose form is a listpack answers as the peers do,
    /// which walk it from one end until the range is over: from the last member on if `reverse`.
    pub fn ranks_by_lex(self, range: &LexRange<'_>, reverse: bool) -> Range<u64> {
        let (start, end) = match self.0 {
            Kind::Flat(flat, Form::SortedSetListpack) => return walk_lex(flat, range, reverse),
            Kind::Flat(flat, _) => (
                flat.rank_of_member(|member| !range.reaches(member)) as u64,
                flat.rank_of_member(|member| range.stays(member)) as u64,
            ),
            Kind::Tree(tree) => (
                tree.rank_of_member(&|member| !range.reaches(member)),
                tree.rank_of_member(&|member| range.stays(member)),
            ),
        };
        start..end.max(start)
    }

    /// The members of these ranks, which must be there, with their scores: in order, or in reverse from the last on.
    #[inline]
    pub fn walk(self, ranks: Range<u64>, reverse: bool) -> impl Iterator<Item = (&'a [u8], f64)> {
        let (flat, tree) = match self.0 {
            Kind::Flat(flat, _) => (Some(flat), None),
            Kind::Tree(tree) => (None, Some(tree)),
        };
        let (start, end) = (ranks.start as usize, ranks.end.max(ranks.start) as usize);
        let packed = flat.into_iter().flat_map(move |flat| {
            (start..end).map(move |at| flat.get(if reverse { end - 1 - (at - start) } else { at }))
        });
        packed.chain(tree.into_iter().flat_map(move |tree| tree.walk(ranks.clone(), reverse)))
    }

    /// Calls `f` with members and their scores, beginning at `cursor`, about `budget` at a time (a packed set all at once); the cursor to go on with, 0 at
    /// the end. Every member that is there from start (0) to end is seen, one may be seen twice.
    pub fn scan(self, cursor: u64, budget: usize, mut f: impl FnMut(&'a [u8], f64)) -> u64 {
        match self.0 {
            Kind::Flat(flat, _) => {
                (0..flat.len()).for_each(|rank| f(flat.member(rank), flat.score(rank)));
                0
            }
            Kind::Tree(tree) => tree.scan(cursor, budget, f),
        }
    }

    /// A member by chance, each as likely, with its score. The set must not be empty.
    pub fn random(self, rng: &mut Rng) -> (&'a [u8], f64) {
        match self.0 {
            Kind::Flat(flat, _) => flat.get(rng.range(0..flat.len())),
            Kind::Tree(tree) => tree.random(rng),
        }
    }
}

/// The ranks of what a walk meets from the first member that reaches the range to the first that leaves it.
fn walk_lex(flat: Flat<'_>, range: &LexRange<'_>, reverse: bool) -> Range<u64> {
    let len = flat.len();
    let reaches = |rank: &usize| range.reaches(flat.member(*rank));
    let stays = |rank: &usize| range.stays(flat.member(*rank));
    // The peers look at both ends before they walk.
    if len == 0 || !reaches(&(len - 1)) || !stays(&0) {
        return 0..0;
    }
    let (start, end) = if reverse {
        let end = (0..len).rev().find(stays).map_or(0, |last| last + 1);
        ((0..end).rev().find(|rank| !reaches(rank)).map_or(0, |outside| outside + 1), end)
    } else {
        let start = (0..len).find(reaches).unwrap_or(len);
        (start, (start..len).find(|rank| !stays(rank)).unwrap_or(len))
    };
    start as u64..end as u64
}

/// When [`add`] changes something, and how.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct When {
    /// Only if the member is not there (NX).
    pub missing: bool,
    /// Only if it is there (XX).
    pub present: bool,
    /// A member that is there only to a greater score (GT).
    pub greater: bool,
    /// The same to a lesser one (LT).
    pub less: bool,
    /// Adds to the score that a member has (INCR).
    pub increment: bool,
}

/// What [`add`] did, with the score that the member now has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Added {
    /// The member is new.
    New(f64),
    /// It has another score.
    Changed(f64),
    /// It has had this score before.
    Same(f64),
    /// What `When` asks does not hold; nothing has changed.
    Refused,
}

/// The sum of two scores is not a number: nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotANumber;

/// Adds a member, or gives one another score (not a NaN). O(log n).
pub fn add(
    slot: &mut Slot<'_>,
    limits: &Limits,
    member: &[u8],
    score: f64,
    when: When,
) -> Result<Added, NotANumber> {
    if slot.is_large() && slot.form() == Form::SortedSetListpack {
        return add_to_large_listpack(slot, limits, member, score, when);
    }
    add_in_form(slot, limits, member, score, when)
}

/// The same for a set that is large although the peers would keep it in a listpack, which limits above the defaults allow.
#[cold]
fn add_to_large_listpack(
    slot: &mut Slot<'_>,
    limits: &Limits,
    member: &[u8],
    score: f64,
    when: When,
) -> Result<Added, NotANumber> {
    let set = SortedSet::new(slot.view());
    let members = set.len() + 1;
    if set.score(member).is_none() && !when.present {
        adapt_form(slot, limits, members, member.len() as u64);
    }
    // A sum is -0 only if both parts are.
    let score = kept(slot, score);
    add_in_form(slot, limits, member, score, when)
}

#[inline]
fn add_in_form(
    slot: &mut Slot<'_>,
    limits: &Limits,
    member: &[u8],
    score: f64,
    when: When,
) -> Result<Added, NotANumber> {
    if let Some(tree) = slot.large_mut::<Tree>() {
        let Some((handle, old)) = tree.find(member) else {
            if when.present {
                return Ok(Added::Refused);
            }
            tree.insert(member, score);
            return Ok(Added::New(score));
        };
        let outcome = outcome(old, score, when)?;
        if let Added::Changed(score) = outcome {
            tree.set_score(handle, member, old, score);
        }
        return Ok(outcome);
    }
    let flat = Flat::new(slot.packed());
    let Some(rank) = flat.find(member) else {
        if when.present {
            return Ok(Added::Refused);
        }
        insert_packed(slot, limits, member, score);
        return Ok(Added::New(score));
    };
    let outcome = outcome(flat.score(rank), score, when)?;
    if let Added::Changed(score) = outcome {
        let score = kept(slot, score);
        let fits = flat.bytes_with(b"", score) <= INLINE_BYTES_MAX;
        flat::set_score(slot, rank, member, score);
        if !fits {
            make_large(slot);
        }
    }
    Ok(outcome)
}

/// What becomes of a member that is there with the score `old`.
fn outcome(old: f64, score: f64, when: When) -> Result<Added, NotANumber> {
    if when.missing {
        return Ok(Added::Refused);
    }
    let score = if when.increment { old + score } else { score };
    if score.is_nan() {
        return Err(NotANumber);
    }
    Ok(match () {
        _ if when.less && score >= old || when.greater && score <= old => Added::Refused,
        _ if score == old => Added::Same(score),
        _ => Added::Changed(score),
    })
}

/// A score as a packed set keeps it: the peers' listpack knows no -0.
fn kept(slot: &Slot<'_>, score: f64) -> f64 {
    if slot.form() == Form::SortedSetListpack { score + 0.0 } else { score }
}

/// Adds a member that is not there yet to a packed set, which may become large by it.
fn insert_packed(slot: &mut Slot<'_>, limits: &Limits, member: &[u8], score: f64) {
    let flat = Flat::new(slot.packed());
    let (len, fits) = (flat.len() as u64 + 1, flat.bytes_with(member, score) <= INLINE_BYTES_MAX);
    adapt_form(slot, limits, len, member.len() as u64);
    let score = kept(slot, score);
    if fits && len <= FLAT_MEMBERS_MAX {
        return flat::insert(slot, member, score);
    }
    make_large(slot);
    slot.large_mut::<Tree>().expect("it has just become large").insert(member, score);
}

/// Makes an empty set hold several members, if each of them comes once: sorted first, then written at once. How many they are; None, and nothing has
/// changed, where they must be added one by one. O(n log n).
pub fn add_all_to_empty<'m>(
    slot: &mut Slot<'_>,
    limits: &Limits,
    scored: impl ExactSizeIterator<Item = (&'m [u8], f64)>,
    when: When,
) -> Option<usize> {
    if scored.len() < ADDED_AT_ONCE_MIN || when.present || !SortedSet::new(slot.view()).is_empty() {
        return None;
    }
    let mut members: Vec<(&[u8], f64)> = scored.collect();
    let seed = slot.storage().seed;
    // Where each member stands among those before it, by its hash; at most half full.
    let mut places = vec![0_u32; (2 * members.len()).next_power_of_two()];
    for (number, (member, _)) in (1..).zip(&members) {
        let mut at = hash64(seed, member) as usize & (places.len() - 1);
        while places[at] != 0 {
            if members[places[at] as usize - 1].0 == *member {
                return None;
            }
            at = (at + 1) & (places.len() - 1);
        }
        places[at] = number;
    }
    members.sort_unstable_by(|a, b| order(a.1).cmp(&order(b.1)).then_with(|| a.0.cmp(b.0)));
    fill(slot, limits, &members);
    Some(members.len())
}

/// The set is about to have, or to be given, so many members, of which the longest has so many bytes: its form changes when the peers' encoding does.
pub fn adapt_form(slot: &mut Slot<'_>, limits: &Limits, members: u64, member_bytes: u64) {
    if slot.form() == Form::SortedSetListpack && !is_listpack(limits, members, member_bytes) {
        slot.set_form(Form::SortedSetSkiplist);
    }
}

fn is_listpack(limits: &Limits, members: u64, member_bytes: u64) -> bool {
    members <= limits.zset_max_listpack_entries && member_bytes <= limits.zset_max_listpack_value
}

fn make_large(slot: &mut Slot<'_>) {
    let (storage, tag) = (slot.storage(), slot.tag() & Form::MASK);
    let flat = Flat::new(slot.packed());
    let tree = Tree::build(storage, (0..flat.len()).map(|rank| flat.get(rank)));
    slot.set_large(tag, Box::new(tree));
}

/// Removes a member; its score, if it was there. O(log n).
pub fn remove(slot: &mut Slot<'_>, member: &[u8]) -> Option<f64> {
    let Some(tree) = slot.large_mut::<Tree>() else {
        let flat = Flat::new(slot.packed());
        let rank = flat.find(member)?;
        let score = flat.score(rank);
        flat::remove(slot, rank..rank + 1);
        return Some(score);
    };
    let (handle, score) = tree.find(member)?;
    tree.remove(handle);
    make_packed(slot);
    Some(score)
}

/// Removes the members of these ranks, which must be there. O(k log n) for k of them.
pub fn remove_ranks(slot: &mut Slot<'_>, ranks: Range<u64>) {
    let Some(tree) = slot.large_mut::<Tree>() else {
        return flat::remove(slot, ranks.start as usize..ranks.end.max(ranks.start) as usize);
    };
    let len = tree.len();
    if ranks.start == 0 && ranks.end == len {
        // The pages of the old tree are freed as those of a removed key.
        let tag = slot.tag() & Form::MASK;
        let mut empty = EMPTY;
        empty[0] = tag;
        return slot.set_packed(&empty);
    }
    for _ in ranks.clone() {
        let handle = tree.handles(ranks.start..ranks.start + 1).next().expect("the ranks are there");
        tree.remove(handle);
    }
    make_packed(slot);
}

/// Packs a large set that has become small: half of what a packed one may have, so that it does not change in turns.
fn make_packed(slot: &mut Slot<'_>) {
    let View::Large(tag, _) = slot.view() else { return };
    let tree: &Tree = slot.view().large().expect("it is large");
    let len = tree.len();
    let bytes = tree.member_bytes() + len * 11;
    if len > FLAT_MEMBERS_MAX / 2 || bytes > INLINE_BYTES_MAX as u64 / 2 {
        return;
    }
    let members: Vec<(&[u8], f64)> = tree.walk(0..len, false).collect();
    let mut packed = vec![tag & Form::MASK];
    flat::pack(&mut packed, members.iter().copied());
    slot.set_packed(&packed);
}

/// Makes an empty set hold these members, which come in order, each once; its form is what the peers choose for a result of that size. O(n).
pub fn fill(slot: &mut Slot<'_>, limits: &Limits, sorted: &[(&[u8], f64)]) {
    let longest = sorted.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    let member_bytes: usize = sorted.iter().map(|(member, _)| member.len()).sum();
    let listpack = is_listpack(limits, sorted.len() as u64, longest as u64);
    let form = if listpack { Form::SortedSetListpack } else { Form::SortedSetSkiplist };
    if sorted.len() as u64 <= FLAT_MEMBERS_MAX && member_bytes + 11 * sorted.len() + 5 <= INLINE_BYTES_MAX {
        let zero = if listpack { 0.0 } else { -0.0 };
        let mut packed = vec![form as u8];
        // Adding -0 changes nothing, adding 0 makes -0 0.
        flat::pack(&mut packed, sorted.iter().map(|(member, score)| (*member, score + zero)));
        slot.set_packed(&packed);
    } else {
        let tree = Tree::build(slot.storage(), sorted.iter().copied());
        slot.set_large(form as u8, Box::new(tree));
    }
}
