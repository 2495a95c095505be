//! Members by chance, each as likely: one, several with repetition, several different ones; read, or taken out.

use std::collections::HashSet;

use stdx::rng::Rng;

use super::loose::{Loose, rewrite};
use super::{Kept, Name, Set, member, remove_piece, repack};
use crate::packed::Piece;
use crate::table::Table;
use crate::{Form, Limits, Slot};

/// The peers make a new set of the members that stay when those that go are this many times as many; the new one may be of another form.
const GOING_PER_STAYING: usize = 5;
/// A large set is not drawn from without repetition by trying again once so much of it is wanted: a third.
const TRY_SHARE: usize = 3;

impl<'a> Set<'a> {
    /// A member by chance. None only when there is none.
    pub fn random(self, rng: &mut Rng) -> Option<Piece<'a>> {
        if let Kept::Table(table) = self.0 {
            return table.random(rng).map(|handle| member(table.element(handle).name()));
        }
        let len = self.len();
        if len == 0 { None } else { self.at(rng.range(0..len)) }
    }

    /// The member at a place of a packed set.
    fn at(self, place: usize) -> Option<Piece<'a>> {
        match self.0 {
            Kept::Ints(ints) => (place < ints.len()).then(|| Piece::Int(ints.get(place))),
            Kept::Uniform(uniform) => (place < uniform.len()).then(|| Piece::Bytes(uniform.get(place))),
            Kept::Sequence(_, packed) => packed.nth(place).and_then(|cursor| packed.get(cursor)),
            Kept::Table(_) => None,
        }
    }

    /// `count` members by chance, each time one as likely as another.
    pub fn random_repeating(self, rng: &mut Rng, count: usize, mut f: impl FnMut(Piece<'a>)) {
        if let Kept::Sequence(_, packed) = self.0 {
            let members: Vec<Piece<'a>> = packed.iter().collect();
            return (0..count).filter_map(|_| rng.pick(&members).copied()).for_each(f);
        }
        for _ in 0..count {
            self.random(rng).into_iter().for_each(&mut f);
        }
    }

    /// `count` different members by chance, each set of them as likely; all of them if there are not more.
    pub fn random_distinct(self, rng: &mut Rng, count: usize, mut f: impl FnMut(Piece<'a>)) {
        if let Kept::Table(table) = self.0
            && count < table.len() / TRY_SHARE
        {
            let mut drawn = HashSet::with_capacity(count);
            while drawn.len() < count {
                let Some(handle) = table.random(rng) else { return };
                if drawn.insert(handle) {
                    f(member(table.element(handle).name()));
                }
            }
            return;
        }
        let mut pick = Selection::new(self.len(), count);
        self.for_each(|member| {
            if pick.next(rng) {
                f(member);
            }
        });
    }
}

/// So many of so many, each as likely, in one walk: of those left, each is taken with the chance that it is one of those still wanted (Knuth's
/// algorithm S).
struct Selection {
    left: usize,
    wanted: usize,
}

impl Selection {
    fn new(all: usize, wanted: usize) -> Selection {
        Selection { left: all, wanted: wanted.min(all) }
    }

    fn next(&mut self, rng: &mut Rng) -> bool {
        let taken = rng.below(self.left as u64) < self.wanted as u64;
        self.left -= 1;
        self.wanted -= usize::from(taken);
        taken
    }
}

/// Takes a member by chance out; `taken` gets it. The set may be empty afterwards.
pub fn pop(slot: &mut Slot<'_>, rng: &mut Rng, taken: impl FnOnce(Piece<'_>)) {
    if let Some(table) = slot.large_mut::<Table>() {
        pop_from_table(table, rng, taken);
        return repack(slot);
    }
    let set = Set::of(slot.view());
    let drawn = set.random(rng).expect("a set that is there has members");
    taken(drawn);
    let name = Name::of(drawn).bytes().to_vec();
    remove_piece(slot, member(&name));
}

fn pop_from_table(table: &mut Table, rng: &mut Rng, taken: impl FnOnce(Piece<'_>)) {
    let handle = table.random(rng).expect("a set that is there has members");
    taken(member(table.element(handle).name()));
    table.remove_element(handle);
    table.compact(|_, _, _| ());
}

/// Takes `count` members by chance out, fewer than there are; `taken` gets each.
pub fn pop_several(
    slot: &mut Slot<'_>,
    rng: &mut Rng,
    count: usize,
    limits: &Limits,
    mut taken: impl FnMut(Piece<'_>),
) {
    let len = Set::of(slot.view()).len();
    let staying = len - count;
    let anew = count >= staying * GOING_PER_STAYING;
    if !anew && let Some(table) = slot.large_mut::<Table>() {
        (0..count).for_each(|_| pop_from_table(table, rng, &mut taken));
        return repack(slot);
    }
    // The few that stay are drawn.
    let set = Set::of(slot.view());
    let mut stay = Vec::with_capacity(staying);
    if let Kept::Table(table) = set.0 {
        let mut drawn = HashSet::with_capacity(staying);
        while drawn.len() < staying {
            drawn.insert(table.random(rng).expect("a set that is there has members"));
        }
        let mut cursor = 0;
        loop {
            cursor = table.scan_bucket(cursor, |handle| {
                let name = table.element(handle).name();
                if drawn.contains(&handle) {
                    stay.push(name.to_vec());
                } else {
                    taken(member(name));
                }
            });
            if cursor == 0 {
                break;
            }
        }
    } else {
        let mut pick = Selection::new(len, count);
        set.for_each(|piece| {
            if pick.next(rng) {
                taken(piece);
            } else {
                stay.push(Name::of(piece).bytes().to_vec());
            }
        });
    }
    if anew {
        let form = if slot.form() == Form::SetIntset { Form::SetIntset } else { Form::SetListpack };
        Loose::keep(slot, form, &stay, limits);
    } else {
        rewrite(slot, &stay);
    }
}
