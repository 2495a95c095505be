//! HOT: sets. Small ones are packed into the entry of their key, in one of three ways; large ones are a [`Table`] of names (`set/name.rs`).
//!
//! ```text
//! integers   tag | integer of 2, 4 or 8 bytes, ascending ...            up to 8 KiB
//! uniform    tag | size 1 unless common | string of that size ...       up to 512 strings and 8 KiB
//! sequence   tag | members 2 | sequence (see packed.rs)                 up to 128 members and 8 KiB
//! table      large
//!
//! tag        the form, and in bits 4-7 which of them: 0 sequence, 1 uniform, 2 to 4 integers of 2, 4, 8 bytes, 5 to 12 uniform of a
//!            common size
//! ```
//!
//! The form follows the peers' thresholds, whichever way a set is kept. Not the commands: what several sets have in common is in `set/several.rs`,
//! members by chance in `set/draw.rs`.

mod draw;
mod ints;
mod loose;
mod name;
mod several;
mod uniform;

use std::ops::ControlFlow;

use crate::packed::{self, Element, Packed, Piece, Region};
use crate::table::{Table, Value};
use crate::{Form, Limits, Slot, Storage, View};
pub use draw::{pop, pop_several};
use ints::{Ints, Width};
pub use loose::Loose;
pub use name::piece;
use name::{Name, member};
pub use several::{difference, intersection};
use uniform::Uniform;

const SEQUENCE: u8 = 0 << 4;
const UNIFORM: u8 = 1 << 4;
const INTS_2: u8 = 2 << 4;
const INTS_4: u8 = 3 << 4;
const INTS_8: u8 = 4 << 4;
const UNIFORM_COMMON: u8 = 5 << 4;
const LAYOUT_STEP: u8 = 1 << 4;
const LAYOUT_MASK: u8 = 0xF0;

const INTS_START: usize = 1;
const SEQUENCE_START: usize = 3;

/// Most bytes of the members of a packed set.
const BYTES_MAX: usize = 8 << 10;
/// Most strings of one length: comparing so many words takes about as long as a cache miss.
const UNIFORM_MAX: usize = 512;
/// Most members of a sequence, which is walked.
const SEQUENCE_MAX: usize = 128;
/// The longest of the strings of one length.
const UNIFORM_SIZE_MAX: usize = 255;
/// Sizes that the tag tells: short codes, hashes and identifiers in hexadecimal.
const COMMON_SIZES: [u8; 8] = [4, 6, 8, 10, 12, 16, 32, 36];
/// A table that has shrunk to so many members is packed again.
const REPACK_MEMBERS: usize = 32;

/// A set, to be read.
#[derive(Clone, Copy)]
pub struct Set<'a>(Kept<'a>);

#[derive(Clone, Copy)]
enum Kept<'a> {
    Ints(Ints<'a>),
    Uniform(Uniform<'a>),
    Sequence(usize, Packed<'a>),
    Table(&'a Table),
}

impl<'a> Kept<'a> {
    #[inline]
    fn packed(bytes: &'a [u8]) -> Kept<'a> {
        match bytes[0] & LAYOUT_MASK {
            UNIFORM => Kept::Uniform(Uniform::new(usize::from(bytes[1]), &bytes[2..])),
            common @ UNIFORM_COMMON.. => {
                let size = COMMON_SIZES[usize::from((common - UNIFORM_COMMON) / LAYOUT_STEP)];
                Kept::Uniform(Uniform::new(usize::from(size), &bytes[1..]))
            }
            INTS_2 => Kept::Ints(Ints::new(Width::Two, &bytes[INTS_START..])),
            INTS_4 => Kept::Ints(Ints::new(Width::Four, &bytes[INTS_START..])),
            INTS_8 => Kept::Ints(Ints::new(Width::Eight, &bytes[INTS_START..])),
            _ => Kept::Sequence(sequence_count(bytes), Packed::new(&bytes[SEQUENCE_START..])),
        }
    }
}

impl<'a> Set<'a> {
    /// The set in a collection, which must be one.
    #[inline]
    pub fn of(view: View<'a>) -> Set<'a> {
        Set(match view {
            View::Packed(bytes) => Kept::packed(bytes),
            View::Large(..) => Kept::Table(view.large().expect("it is not packed")),
        })
    }

    /// Members. O(1).
    #[expect(
        clippy::len_without_is_empty,
        reason = "there is no empty set but between two steps of a command"
    )]
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            Kept::Ints(ints) => ints.len(),
            Kept::Uniform(uniform) => uniform.len(),
            Kept::Sequence(count, _) => count,
            Kept::Table(table) => table.len(),
        }
    }

    /// Whether a string is a member. O(log n) among integers, O(1) in a large set, else O(n), n up to 512.
    #[inline]
    pub fn contains(self, string: &[u8]) -> bool {
        self.has(piece(string))
    }

    #[inline]
    fn has(self, member: Piece<'_>) -> bool {
        match (self.0, member) {
            (Kept::Ints(ints), Piece::Int(integer)) => ints.find(integer).is_ok(),
            (Kept::Uniform(uniform), Piece::Bytes(string)) => uniform.find(string).is_some(),
            (Kept::Sequence(_, packed), member) => packed.find(&Element::of(member), 1).is_some(),
            (Kept::Table(table), member) => table.contains(Name::of(member).bytes()),
            (Kept::Ints(_), Piece::Bytes(_)) | (Kept::Uniform(_), Piece::Int(_)) => false,
        }
    }

    /// Of several strings, in order, whether they are members. The cache misses of a large set overlap.
    pub fn contains_each<'n>(self, strings: impl Iterator<Item = &'n [u8]>, mut found: impl FnMut(bool)) {
        match self.0 {
            Kept::Table(table) => several::look_up(table, strings, found),
            _ => strings.for_each(|string| found(self.contains(string))),
        }
    }

    /// Calls `visit` with each member until it breaks: integers ascending, other members of a packed set in the order in which they came, those of
    /// a large set in none.
    pub fn visit(self, mut visit: impl FnMut(Piece<'a>) -> ControlFlow<()>) -> ControlFlow<()> {
        match self.0 {
            Kept::Ints(ints) => ints.iter().try_for_each(|integer| visit(Piece::Int(integer))),
            Kept::Uniform(uniform) => uniform.iter().try_for_each(|string| visit(Piece::Bytes(string))),
            Kept::Sequence(_, packed) => packed.iter().try_for_each(visit),
            Kept::Table(table) => table.elements().try_for_each(|element| visit(member(element.name()))),
        }
    }

    /// The same, all of them.
    #[inline]
    pub fn for_each(self, mut visitor: impl FnMut(Piece<'a>)) {
        let _ = self.visit(|member| {
            visitor(member);
            ControlFlow::Continue(())
        });
    }

    /// Some members from `cursor` on, about `budget` of a large set, all of a packed one; the cursor to go on with, 0 at the end. What is there
    /// from start (0) to end is seen, some of it perhaps twice.
    pub fn scan(self, cursor: u64, budget: usize, mut f: impl FnMut(Piece<'a>)) -> u64 {
        match self.0 {
            Kept::Table(table) => table.scan(cursor, budget, |element| f(member(element.name()))),
            _ => {
                self.for_each(f);
                0
            }
        }
    }
}

/// The packed bytes of a new set in which `first` will be one of about `members` members: its form, and no member yet.
pub fn new(first: &[u8], members: usize, limits: &Limits) -> Vec<u8> {
    let integer = matches!(piece(first), Piece::Int(_));
    let members = members as u64;
    let form = match () {
        () if integer && members <= limits.set_max_intset_entries => Form::SetIntset,
        () if members <= limits.set_max_listpack_entries => Form::SetListpack,
        () => Form::SetHashtable,
    };
    empty(form)
}

/// The packed bytes of a set without a member, to be stored over.
pub const EMPTY: &[u8] = &[INTS_2 | Form::SetIntset as u8];

/// A set of this form without a member. It can become any layout.
fn empty(form: Form) -> Vec<u8> {
    vec![INTS_2 | form as u8]
}

/// Before about `members` members are added to a set: so many make it a hash table with the peers.
pub fn prepare(slot: &mut Slot<'_>, members: usize, limits: &Limits) {
    let most = match slot.form() {
        Form::SetIntset => limits.set_max_intset_entries,
        Form::SetListpack => limits.set_max_listpack_entries,
        _ => return,
    };
    if members as u64 > most {
        slot.set_form(Form::SetHashtable);
    }
}

/// Adds members, from the first on, to the packed bytes of a set as long as it stays packed; how many are new. Those that are left are still in
/// `members`.
pub fn pack<'m>(
    bytes: &mut Vec<u8>,
    members: &mut (impl Iterator<Item = &'m [u8]> + Clone),
    limits: &Limits,
) -> usize {
    let mut added = 0;
    loop {
        let mut rest = members.clone();
        let Some(new) = rest.next().and_then(|string| add_packed(bytes, piece(string), limits)) else {
            return added;
        };
        added += usize::from(new);
        *members = rest;
    }
}

/// Adds members; how many are new. Several are put together beside a packed set, which is then written once.
pub fn add_all<'m>(
    slot: &mut Slot<'_>,
    mut members: impl Iterator<Item = &'m [u8]> + Clone,
    limits: &Limits,
) -> usize {
    let mut added = 0;
    if !slot.is_large() && members.clone().nth(1).is_some() {
        let mut bytes = slot.packed().to_vec();
        added = pack(&mut bytes, &mut members, limits);
        if bytes != slot.packed() {
            slot.set_packed(&bytes);
        }
    }
    added + members.filter(|member| add(slot, member, limits)).count()
}

/// Adds a member. Whether it is new.
pub fn add(slot: &mut Slot<'_>, string: &[u8], limits: &Limits) -> bool {
    let new = piece(string);
    if !slot.is_large() {
        if let Some(added) = add_packed(slot, new, limits) {
            return added;
        }
        let (tag, table) = enlarged(slot.packed(), slot.storage());
        slot.set_large(tag, Box::new(table));
    }
    let form = slot.form();
    let table = slot.large_mut::<Table>().expect("the set is large");
    if !add_to_table(table, new) {
        return false;
    }
    table.compact(|_, _, _| ());
    let after = form_with(form, table.len() - 1, new, limits, || true);
    if after != form {
        slot.set_form(after);
    }
    true
}

fn add_to_table(table: &mut Table, new: Piece<'_>) -> bool {
    let name = Name::of(new);
    let hash = table.hash(name.bytes());
    if table.find_hashed(hash, name.bytes()).is_some() {
        return false;
    }
    table.insert_hashed(hash, name.bytes(), Value::NONE, None);
    true
}

/// The form of a set of `count` members and another one. `short` says whether those that are integers are short enough to be a listpack's.
fn form_with(
    form: Form,
    count: usize,
    new: Piece<'_>,
    limits: &Limits,
    short: impl FnOnce() -> bool,
) -> Form {
    let count = count as u64;
    let fits = |new: Piece<'_>| {
        count < limits.set_max_listpack_entries && new.len() as u64 <= limits.set_max_listpack_value
    };
    match (form, new) {
        (Form::SetIntset, Piece::Int(_)) if count < limits.set_max_intset_entries => Form::SetIntset,
        (Form::SetIntset, Piece::Bytes(_)) if fits(new) && short() => Form::SetListpack,
        (Form::SetListpack, new) if fits(new) => Form::SetListpack,
        _ => Form::SetHashtable,
    }
}

/// Adds a member to a packed set; whether it is new. None, and nothing has changed, if the set cannot stay packed.
fn add_packed(region: &mut impl Region, new: Piece<'_>, limits: &Limits) -> Option<bool> {
    let bytes = region.bytes();
    let (kept, form) = (Kept::packed(bytes), Form::of(bytes[0]));
    let set = Set(kept);
    if set.has(new) {
        return Some(false);
    }
    let most = limits.set_max_listpack_value;
    let is_short = |ints: Ints<'_>| {
        let ends = [ints.iter().next(), ints.len().checked_sub(1).map(|last| ints.get(last))];
        ends.into_iter().flatten().all(|integer| Piece::Int(integer).len() as u64 <= most)
    };
    let form = form_with(form, set.len(), new, limits, || matches!(kept, Kept::Ints(ints) if is_short(ints)));
    let layout = match (kept, new) {
        (Kept::Ints(ints), Piece::Int(integer)) => {
            let width = ints::insert(region, INTS_START, ints.width(), integer, BYTES_MAX)?;
            layout_of(width)
        }
        (Kept::Ints(ints), Piece::Bytes(string)) if ints.len() == 0 => {
            begin(region, string)?;
            region.bytes()[0] & LAYOUT_MASK
        }
        (Kept::Uniform(uniform), Piece::Bytes(string)) if string.len() == uniform.size() => {
            if uniform.len() >= UNIFORM_MAX || region.bytes().len() + string.len() > BYTES_MAX {
                return None;
            }
            let at = region.bytes().len();
            region.splice(at, 0, string.len())[at..].copy_from_slice(string);
            region.bytes()[0] & LAYOUT_MASK
        }
        _ => {
            let element = Element::of(new);
            if set.len() >= SEQUENCE_MAX || region.bytes().len() + element.size() > BYTES_MAX {
                return None;
            }
            if !matches!(kept, Kept::Sequence(..)) {
                become_sequence(region);
            }
            let end = Packed::new(&region.bytes()[SEQUENCE_START..]).end();
            packed::insert(region, SEQUENCE_START, end, std::iter::once(element));
            add_to_count(region, 1);
            SEQUENCE
        }
    };
    region.splice(0, 0, 0)[0] = layout | form as u8;
    Some(true)
}

/// Makes a set without members one of a string.
fn begin(region: &mut impl Region, string: &[u8]) -> Option<()> {
    if string.len() > BYTES_MAX {
        return None;
    }
    let mut bytes = vec![region.bytes()[0] & Form::MASK];
    if (1..=UNIFORM_SIZE_MAX).contains(&string.len()) {
        let size = string.len() as u8;
        match (0..).zip(COMMON_SIZES).find(|(_, common)| *common == size) {
            Some((place, _)) => bytes[0] |= UNIFORM_COMMON + place * LAYOUT_STEP,
            None => {
                bytes[0] |= UNIFORM;
                bytes.push(size);
            }
        }
        bytes.extend_from_slice(string);
    } else {
        bytes[0] |= SEQUENCE;
        bytes.extend_from_slice(&[1, 0]);
        packed::write(&mut bytes, std::iter::once(Element::new(string)));
    }
    set_bytes(region, &bytes);
    Some(())
}

/// Gives a packed set the layout that holds all kinds of members.
fn become_sequence(region: &mut impl Region) {
    let bytes = region.bytes();
    let kept = Kept::packed(bytes);
    let count = Set(kept).len();
    let mut sequence = vec![SEQUENCE | bytes[0] & Form::MASK];
    sequence.extend_from_slice(&(count as u16).to_le_bytes());
    match kept {
        Kept::Ints(ints) => packed::write(&mut sequence, ints.iter().map(Element::of_integer)),
        Kept::Uniform(uniform) => packed::write(&mut sequence, uniform.iter().map(Element::new)),
        Kept::Sequence(..) | Kept::Table(_) => return,
    }
    set_bytes(region, &sequence);
}

/// Removes a member. Whether it was there. The set may be empty afterwards.
pub fn remove(slot: &mut Slot<'_>, string: &[u8]) -> bool {
    remove_piece(slot, piece(string))
}

fn remove_piece(slot: &mut Slot<'_>, gone: Piece<'_>) -> bool {
    let Some(table) = slot.large_mut::<Table>() else { return remove_packed(slot, gone) };
    if !table.remove(Name::of(gone).bytes()) {
        return false;
    }
    table.compact(|_, _, _| ());
    repack(slot);
    true
}

/// Packs a large set again that has become small.
fn repack(slot: &mut Slot<'_>) {
    let View::Large(tag, _) = slot.view() else { return };
    let Kept::Table(table) = Set::of(slot.view()).0 else { return };
    if table.len() > REPACK_MEMBERS || table.live_bytes() > BYTES_MAX as u64 / 2 {
        return;
    }
    if let Some(bytes) = packed_of(Form::of(tag), table) {
        slot.set_packed(&bytes);
    }
}

/// The members of a table, packed, if they can be.
fn packed_of(form: Form, table: &Table) -> Option<Vec<u8>> {
    let mut bytes = empty(form);
    let unbound =
        Limits { set_max_listpack_entries: u64::MAX, set_max_listpack_value: u64::MAX, ..Limits::default() };
    let mut fits = true;
    table.for_each(|element| {
        fits = fits && add_packed(&mut bytes, member(element.name()), &unbound).is_some()
    });
    bytes[0] = bytes[0] & LAYOUT_MASK | form as u8;
    fits.then_some(bytes)
}

fn remove_packed(region: &mut impl Region, gone: Piece<'_>) -> bool {
    let kept = Kept::packed(region.bytes());
    let (at, size) = match (kept, gone) {
        (Kept::Ints(ints), Piece::Int(integer)) => match ints.find(integer) {
            Ok(place) => (INTS_START + place * ints.width().bytes(), ints.width().bytes()),
            Err(_) => return false,
        },
        (Kept::Uniform(uniform), Piece::Bytes(string)) => match uniform.find(string) {
            Some(place) => {
                let start = region.bytes().len() - uniform.len() * uniform.size();
                (start + place * uniform.size(), uniform.size())
            }
            None => return false,
        },
        (Kept::Sequence(_, packed), gone) => {
            let Some((cursor, _)) = packed.find(&Element::of(gone), 1) else { return false };
            packed::remove(region, SEQUENCE_START, cursor, 1);
            add_to_count(region, -1);
            return true;
        }
        _ => return false,
    };
    region.splice(at, size, 0);
    true
}

/// The table of a packed set's members, and its tag.
fn enlarged(bytes: &[u8], storage: Storage) -> (u8, Table) {
    let mut table = Table::new(storage);
    Set(Kept::packed(bytes)).for_each(|member| {
        table.insert(Name::of(member).bytes(), Value::NONE, None);
    });
    (bytes[0] & Form::MASK, table)
}

fn layout_of(width: Width) -> u8 {
    match width {
        Width::Two => INTS_2,
        Width::Four => INTS_4,
        Width::Eight => INTS_8,
    }
}

fn set_bytes(region: &mut impl Region, bytes: &[u8]) {
    let old = region.bytes().len();
    region.splice(0, old, bytes.len()).copy_from_slice(bytes);
}

#[inline]
fn sequence_count(bytes: &[u8]) -> usize {
    u16::from_le_bytes([bytes[1], bytes[2]]).into()
}

fn add_to_count(region: &mut impl Region, change: i16) {
    let count = (sequence_count(region.bytes()) as u16).wrapping_add_signed(change);
    region.splice(0, 0, 0)[1..SEQUENCE_START].copy_from_slice(&count.to_le_bytes());
}

#[cfg(test)]
mod tests;
