//! HOT: lists. Short ones are packed into the entry of their key, long ones are a chain of packed blocks.
//!
//! ```text
//! packed   tag 1 | elements 2 | sequence (see packed.rs)         up to 4 KB
//! large    list/chain.rs
//! ```
//!
//! A function that removes leaves an empty list behind, which its caller removes with its key; then, or after [`shrink`], the list is as
//! it should be.

mod block;
mod blocks;
mod bounds;
mod chain;

use std::ops::{ControlFlow, Range};

use memory::BigRef;

use crate::packed::{self, Cursor, Element, Packed, Piece};
use crate::{Form, Limits, Slot, View};
use block::peer_bytes;
use bounds::{Bounds, EMPTY_BYTES};
use chain::Chain;

/// Bytes before the sequence: the tag and the number of elements.
const HEADER: usize = 3;
/// The longest packed list: half a page, about as many bytes as a push at the front moves in the time of a cache miss. Its elements, of which
/// none takes more than twice the bytes with the peers, fit into one of their blocks of 8 KiB.
const PACKED_MAX: usize = 4_000;
/// A long list is packed again when it takes this little: half, so that pushes and pops in turn do not convert it each time.
const PACKED_AGAIN: usize = PACKED_MAX / 2;

/// A new list's packed bytes: no element yet.
pub const NEW: &[u8] = &[Form::ListListpack as u8, 0, 0, 0];

/// An end of a list, or what is on that side of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    /// The other one.
    pub const fn opposite(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// An element as it is read.
#[derive(Clone, Copy)]
pub enum Item<'a> {
    Piece(Piece<'a>),
    /// A long one, in memory of its own that may be shared.
    Big(&'a BigRef),
}

impl Item<'_> {
    /// The string, owned.
    pub fn to_vec(self) -> Vec<u8> {
        match self {
            Item::Piece(piece) => piece.to_vec(),
            Item::Big(big) => big.as_ref().to_vec(),
        }
    }
}

/// A list as it is kept, to be read.
#[derive(Clone, Copy)]
enum Kept<'a> {
    Packed(u64, Packed<'a>),
    Chain(&'a Chain),
}

impl<'a> Kept<'a> {
    #[inline]
    fn of(view: View<'a>) -> Kept<'a> {
        match view {
            View::Packed(bytes) => Kept::Packed(count(bytes), Packed::new(&bytes[HEADER..])),
            View::Large(..) => Kept::Chain(view.large().expect("a large list is a chain")),
        }
    }
}

/// Elements. O(1).
#[inline]
pub fn len(view: View<'_>) -> u64 {
    match Kept::of(view) {
        Kept::Packed(count, _) => count,
        Kept::Chain(chain) => chain.len(),
    }
}

/// Calls `visit` with the elements of a range (what of it is in the list), until it breaks; `backwards`: from the end of the range to its start.
/// O(distance from the nearer end, in blocks + elements of the range).
pub fn visit(
    view: View<'_>,
    range: Range<u64>,
    backwards: bool,
    mut visit: impl FnMut(Item<'_>) -> ControlFlow<()>,
) {
    let (count, packed) = match Kept::of(view) {
        Kept::Packed(count, packed) => (count, packed),
        Kept::Chain(chain) => return chain.visit(range, backwards, visit),
    };
    let mut left = range.end.min(count).saturating_sub(range.start);
    if left == 0 {
        return;
    }
    let mut walk = if backwards {
        block::walk_back_from(packed, count, range.start + left - 1)
    } else {
        block::walk_from(packed, count, range.start)
    };
    while left > 0
        && let Some(piece) = if backwards { walk.next_back() } else { walk.next() }
    {
        if visit(Item::Piece(piece)).is_break() {
            return;
        }
        left -= 1;
    }
}

/// Calls `visit` with each element of a range, from the front.
#[inline]
pub fn each(view: View<'_>, range: Range<u64>, mut visitor: impl FnMut(Item<'_>)) {
    visit(view, range, false, |item| {
        visitor(item);
        ControlFlow::Continue(())
    });
}

/// Calls `found` with the number of each element equal to `string` until it breaks, among the first `most`; `backwards`: from the end. O(elements).
pub fn positions(
    view: View<'_>,
    string: &[u8],
    backwards: bool,
    most: u64,
    mut found: impl FnMut(u64) -> ControlFlow<()>,
) {
    let (count, wanted) = (len(view), Element::new(string));
    let range = if backwards { count.saturating_sub(most)..count } else { 0..most.min(count) };
    let mut index = if backwards { count } else { 0 };
    visit(view, range, backwards, |item| {
        if backwards {
            index -= 1;
        }
        let here = index;
        if !backwards {
            index += 1;
        }
        if block::is(item, &wanted) { found(here) } else { ControlFlow::Continue(()) }
    });
}

/// Adds elements at an end, one after the other; how many there are then. O(1) each, amortised; a packed list is moved once.
#[inline]
pub fn push<'e>(
    slot: &mut Slot<'_>,
    side: Side,
    strings: impl DoubleEndedIterator<Item = &'e [u8]> + Clone,
    limits: &Limits,
) -> u64 {
    let bounds = Bounds::of(limits);
    let mut rest = strings.clone();
    if let (Some(string), None) = (rest.next(), rest.next())
        && let Some(count) = push_short(slot, side, string, &bounds)
    {
        return count;
    }
    push_any(slot, side, strings, limits, &bounds);
    len(slot.view())
}

/// Adds one element to a packed list that stays one whatever its elements are, and says how many there are then; else None, and nothing is
/// changed.
#[inline]
fn push_short(slot: &mut Slot<'_>, side: Side, string: &[u8], bounds: &Bounds) -> Option<u64> {
    let View::Packed(bytes) = slot.view() else { return None };
    let (before, form, count) = (bytes.len(), Form::of(bytes[0]), count(bytes) + 1);
    let element = Element::new(string);
    let added = element.size();
    // At most twice the bytes with the peers.
    let peers = EMPTY_BYTES + 2 * (before - HEADER) + string.len();
    if before - HEADER + added > PACKED_MAX || form == Form::ListListpack && bounds.exceeded(peers, count) {
        return None;
    }
    let bytes = slot.resize(before + added);
    match side {
        Side::Left => {
            bytes.copy_within(HEADER..before, HEADER + added);
            packed::grow_front(bytes, HEADER + added..before + added, &element);
        }
        Side::Right => _ = packed::grow_back(bytes, HEADER..before, &element),
    }
    set_count(bytes, count);
    Some(count)
}

fn push_any<'e>(
    slot: &mut Slot<'_>,
    side: Side,
    strings: impl DoubleEndedIterator<Item = &'e [u8]> + Clone,
    limits: &Limits,
    bounds: &Bounds,
) {
    prepare_within(slot, strings.clone(), bounds);
    let elements = strings.clone().map(Element::new);
    if !slot.is_large() {
        let added = elements.clone().map(|element| element.size()).sum::<usize>();
        if slot.packed().len() - HEADER + added <= PACKED_MAX {
            return push_packed(slot, side, elements);
        }
        become_chain(slot);
    }
    let bounds = bounds_in_force(slot, bounds);
    let chain = slot.large_mut::<Chain>().expect("a list that is not packed is a chain");
    for string in strings {
        chain.push(side, string, bounds);
    }
    chain.settle(limits.list_compress_depth);
}

fn push_packed<'e>(
    slot: &mut Slot<'_>,
    side: Side,
    elements: impl DoubleEndedIterator<Item = Element<'e>> + Clone,
) {
    let added = elements.clone().count() as u64;
    let count = count(slot.packed()) + added;
    match side {
        Side::Left => packed::insert(slot, HEADER, Cursor::START, elements.rev()),
        Side::Right => {
            let end = Packed::new(&slot.packed()[HEADER..]).end();
            packed::insert(slot, HEADER, end, elements);
        }
    }
    set_count(slot.packed_mut(), count);
}

/// The list becomes a long one in the peers' sense if these elements would make it one. Elements may be added afterwards, or not.
pub fn prepare<'e>(slot: &mut Slot<'_>, strings: impl Iterator<Item = &'e [u8]>, limits: &Limits) {
    prepare_within(slot, strings, &Bounds::of(limits));
}

fn prepare_within<'e>(slot: &mut Slot<'_>, strings: impl Iterator<Item = &'e [u8]>, bounds: &Bounds) {
    if slot.form() != Form::ListListpack {
        return;
    }
    let (added, added_bytes) =
        strings.fold((0, 0), |(count, bytes), string| (count + 1, bytes + string.len()));
    let exceeded = match Kept::of(slot.view()) {
        // At most twice its bytes, which saves a walk over the elements.
        Kept::Packed(count, packed) => {
            let ours = slot.packed().len() - HEADER;
            bounds.exceeded(EMPTY_BYTES + 2 * ours + added_bytes, count + added)
                && bounds.exceeded(peer_bytes(packed) + added_bytes, count + added)
        }
        Kept::Chain(chain) => {
            let bytes = chain.only_block().map_or(EMPTY_BYTES, |block| block.peer_bytes());
            bounds.exceeded(bytes + added_bytes, chain.len() + added)
        }
    };
    if exceeded {
        become_chain(slot);
        slot.set_form(Form::ListQuicklist);
    }
}

/// Gives a packed list memory of its own.
fn become_chain(slot: &mut Slot<'_>) {
    if slot.is_large() {
        return;
    }
    let bytes = slot.packed();
    let (tag, count, sequence) = (bytes[0], count(bytes), &bytes[HEADER..]);
    let mut chain = Chain::new(slot.storage().arena);
    if count > 0 {
        chain.push_block(sequence, count as usize, peer_bytes(Packed::new(sequence)));
    }
    slot.set_large(tag, Box::new(chain));
}

/// The bounds of the blocks: a short list in the peers' sense is one block, however long.
fn bounds_in_force<'b>(slot: &Slot<'_>, bounds: &'b Bounds) -> Option<&'b Bounds> {
    (slot.form() == Form::ListQuicklist).then_some(bounds)
}

/// Takes the element at an end away; `taken` gets it. O(1) amortised; in a packed list O(bytes).
#[inline]
pub fn pop<T>(slot: &mut Slot<'_>, side: Side, taken: impl FnOnce(Item<'_>) -> T) -> T {
    let View::Packed(bytes) = slot.view() else { return pop_from_chain(slot, side, taken) };
    let (packed, count, whole) = (Packed::new(&bytes[HEADER..]), count(bytes) - 1, HEADER..bytes.len());
    let mut walk = packed.iter();
    let piece = if side == Side::Left { walk.next() } else { walk.next_back() };
    let result = taken(Item::Piece(piece.expect("a list that is there has elements")));
    let (front, back) = (walk.front(), walk.back());
    let bytes = slot.packed_mut();
    let rest = match side {
        Side::Left => packed::cut_front(bytes, whole, front),
        Side::Right => packed::cut_back(bytes, whole, back),
    };
    let left = HEADER + rest.len();
    if rest.start > HEADER {
        bytes.copy_within(rest, HEADER);
    }
    set_count(bytes, count);
    slot.truncate(left);
    result
}

fn pop_from_chain<T>(slot: &mut Slot<'_>, side: Side, taken: impl FnOnce(Item<'_>) -> T) -> T {
    let chain = slot.large_mut::<Chain>().expect("a list that is not packed is a chain");
    let result = taken(chain.end(side).expect("a list that is there has elements"));
    chain.cut(side, 1);
    result
}

/// Takes `count` elements away at an end, or all there are. O(blocks + elements of one block).
pub fn cut(slot: &mut Slot<'_>, side: Side, count: u64) {
    if let Some(chain) = slot.large_mut::<Chain>() {
        return chain.cut(side, count);
    }
    let before = self::count(slot.packed());
    let cut = count.min(before);
    let packed = Packed::new(&slot.packed()[HEADER..]);
    let cursor = match side {
        Side::Left => Cursor::START,
        Side::Right => packed.nth((before - cut) as usize).expect("the elements are there"),
    };
    packed::remove(slot, HEADER, cursor, cut as usize);
    set_count(slot.packed_mut(), before - cut);
}

/// Puts an element beside the first one equal to `pivot`. Whether there is one. O(elements).
pub fn insert(slot: &mut Slot<'_>, pivot: &[u8], side: Side, string: &[u8], limits: &Limits) -> bool {
    let bounds = Bounds::of(limits);
    prepare_within(slot, std::iter::once(string), &bounds);
    let (pivot, element) = (Element::new(pivot), Element::new(string));
    if !slot.is_large() {
        let packed = Packed::new(&slot.packed()[HEADER..]);
        let Some((found, _)) = packed.find(&pivot, 1) else { return false };
        if slot.packed().len() - HEADER + element.size() <= PACKED_MAX {
            let cursor = if side == Side::Left { Some(found) } else { packed.next(found) };
            let cursor = cursor.expect("an element is there");
            let count = count(slot.packed()) + 1;
            packed::insert(slot, HEADER, cursor, std::iter::once(element));
            set_count(slot.packed_mut(), count);
            return true;
        }
        become_chain(slot);
    }
    let bounds = bounds_in_force(slot, &bounds);
    let chain = slot.large_mut::<Chain>().expect("a list that is not packed is a chain");
    let inserted = chain.insert(&pivot, side, string, bounds);
    chain.settle_all(limits.list_compress_depth);
    inserted
}

/// Replaces the element with this number, which must be there. O(distance from the nearer end, in blocks + elements of a block).
pub fn set(slot: &mut Slot<'_>, index: u64, string: &[u8], limits: &Limits) {
    let bounds = Bounds::of(limits);
    let element = Element::new(string);
    if !slot.is_large() {
        if slot.packed().len() - HEADER + element.size() <= PACKED_MAX {
            let packed = Packed::new(&slot.packed()[HEADER..]);
            let cursor = block::walk_from(packed, count(slot.packed()), index).front();
            return packed::replace(slot, HEADER, cursor, 1, std::iter::once(element));
        }
        become_chain(slot);
    }
    let bounds = bounds_in_force(slot, &bounds);
    let chain = slot.large_mut::<Chain>().expect("a list that is not packed is a chain");
    chain.set(index, string, bounds);
    chain.settle_all(limits.list_compress_depth);
}

/// Takes elements equal to `string` away, at most `most`, from one end on; how many it were. O(elements).
pub fn remove(slot: &mut Slot<'_>, from: Side, most: u64, string: &[u8], limits: &Limits) -> u64 {
    let wanted = Element::new(string);
    if let Some(chain) = slot.large_mut::<Chain>() {
        let removed = chain.remove(from, most, &wanted);
        if removed > 0 {
            chain.settle_all(limits.list_compress_depth);
        }
        return removed;
    }
    let bytes = slot.packed();
    let Some((kept, removed)) = block::without(Packed::new(&bytes[HEADER..]), from, most, &wanted) else {
        return 0;
    };
    let count = count(bytes) - removed;
    let added = kept.len();
    let old = bytes.len() - HEADER;
    slot.splice(HEADER + added, old - added, 0)[HEADER..].copy_from_slice(&kept);
    set_count(slot.packed_mut(), count);
    removed
}

/// After elements were taken away: a list that has become short is kept as one.
pub fn shrink(slot: &mut Slot<'_>, limits: &Limits) {
    if !slot.is_large() {
        return;
    }
    if let Some(chain) = slot.large_mut::<Chain>() {
        chain.settle(limits.list_compress_depth);
    }
    let View::Large(tag, _) = slot.view() else { return };
    let Some(chain) = slot.view().large::<Chain>() else { return };
    let Some(block) = chain.only_block() else { return };
    let mut tag = tag;
    if Form::of(tag) == Form::ListQuicklist && Bounds::of(limits).is_short(block.peer_bytes(), block.count())
    {
        tag = tag & !Form::MASK | Form::ListListpack as u8;
    }
    if Form::of(tag) == Form::ListQuicklist {
        return;
    }
    if block.sequence().len() > PACKED_AGAIN {
        return slot.set_tag(tag);
    }
    let mut bytes = vec![tag, 0, 0];
    bytes.extend_from_slice(block.sequence());
    set_count(&mut bytes, block.count());
    slot.set_packed(&bytes);
}

#[inline]
fn count(bytes: &[u8]) -> u64 {
    u64::from(u16::from_le_bytes([bytes[1], bytes[2]]))
}

#[inline]
fn set_count(bytes: &mut [u8], count: u64) {
    let count = u16::try_from(count).expect("each element takes a byte of a packed list at least");
    bytes[1..HEADER].copy_from_slice(&count.to_le_bytes());
}

#[cfg(test)]
mod tests;
