//! Streams: entries of fields and values in the order of their ids. Not their commands, and no clock: ids and times come in as arguments.
//!
//! ```text
//! packed (to 8 KiB, no group)    tag 1 | head 48 | last block's place 2 | block | block | ...
//! large                          head, a heap with blocks, and a B+tree that finds a block by its first id; groups
//! ```
//!
//! A block (`block.rs`) is what the peers call a node, or a part of one where their nodes are larger than 4 KiB. [`Stream`] is a stream to be read,
//! [`StreamMut`] the same in its slot, to be changed.

mod block;
mod groups;
mod large;
mod listpack;
mod packed;
mod trim;

#[cfg(test)]
mod tests;

pub use block::Entry;
pub use groups::{ConsumerId, ConsumerRef, GroupMut, GroupRef, NOT_KNOWN, Pending};
pub use large::LargeStream;
pub use trim::{Trim, TrimTo};

use memory::Handle;

use crate::{Form, Limits, Slot, View};
use block::{Cursor, Found};
use packed::Packed;

/// Bytes of a block, unless it has but one entry.
const BLOCK_BYTES_MAX: usize = 4096;
/// The peers' nodes have no more bytes, whatever is configured.
const NODE_BYTES_MAX: u64 = 1 << 30;

/// The id of an entry: a time in ms, and a number for entries of one millisecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Id {
    pub ms: u64,
    pub seq: u64,
}

impl Id {
    /// No entry has it.
    pub const ZERO: Id = Id { ms: 0, seq: 0 };
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// The id after this one; None after the last.
    pub fn next(self) -> Option<Id> {
        self.key().checked_add(1).map(Id::of)
    }

    /// The id before this one; None before zero.
    pub fn previous(self) -> Option<Id> {
        self.key().checked_sub(1).map(Id::of)
    }

    fn key(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.seq)
    }

    fn of(key: u128) -> Id {
        Id { ms: (key >> 64) as u64, seq: key as u64 }
    }
}

/// A value as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    Bytes(&'a [u8]),
    /// The canonical decimal text of an integer.
    Integer(i64),
}

/// Fields and values of an entry to be added.
pub trait Pairs {
    /// How many; 1 at least.
    fn count(&self) -> usize;
    /// Field `n`.
    fn field(&self, n: usize) -> &[u8];
    /// Value `n`.
    fn value(&self, n: usize) -> &[u8];
}

/// What is known of a stream without its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// Entries.
    pub len: u64,
    /// The highest id that was given, even if its entry is gone.
    pub last: Id,
    /// The highest id that was removed by its id, zero if none was.
    pub max_deleted: Id,
    /// Entries that were ever added.
    pub added: u64,
}

/// Where a block is: the offset in a packed stream, the handle in a large one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place(u64);

/// The blocks of a stream, wherever they are.
#[derive(Clone, Copy)]
enum Source<'a> {
    Packed(Packed<'a>),
    Large(&'a LargeStream),
}

impl<'a> Source<'a> {
    fn head(self) -> Head {
        match self {
            Source::Packed(packed) => packed.head(),
            Source::Large(large) => large.head,
        }
    }

    fn block(self, place: Place) -> &'a [u8] {
        match self {
            Source::Packed(packed) => packed.block(place),
            Source::Large(large) => large.block(place),
        }
    }

    /// The last block whose first id is not above `id`.
    fn floor(self, id: Id) -> Option<Place> {
        match self {
            Source::Packed(packed) => packed.floor(id),
            Source::Large(large) => large.floor(id),
        }
    }

    /// The first block.
    fn first(self) -> Option<Place> {
        match self {
            Source::Packed(packed) => packed.first(),
            Source::Large(large) => large.above(Id::ZERO),
        }
    }

    /// The block behind this one.
    fn after(self, place: Place) -> Option<Place> {
        match self {
            Source::Packed(packed) => packed.after(place),
            Source::Large(large) => large.above(block::base(large.block(place)).next()?),
        }
    }

    /// The block before this one.
    fn before(self, place: Place) -> Option<Place> {
        match self {
            Source::Packed(packed) => packed.before(place),
            Source::Large(large) => large.floor(block::base(large.block(place)).previous()?),
        }
    }
}

/// A stream, to be read.
#[derive(Clone, Copy)]
pub struct Stream<'a>(Source<'a>);

impl<'a> Stream<'a> {
    /// The stream in a slot or an entry, which must be of that type.
    pub fn new(view: View<'a>) -> Stream<'a> {
        match view {
            View::Packed(bytes) => Stream(Source::Packed(Packed(bytes))),
            View::Large(..) => Stream(Source::Large(view.large().expect("the stream is large"))),
        }
    }

    /// What is known without looking at entries.
    #[inline]
    pub fn head(self) -> Head {
        self.0.head()
    }

    /// The entries from `start` to `end`, both included, ascending or descending. O(log n) to find the first, and as much for each block.
    pub fn range(self, start: Id, end: Id, descending: bool) -> Range<'a> {
        let state = if descending { Walk::down(self.0, end) } else { Walk::up(self.0, start) };
        Range { source: self.0, start, end, state }
    }

    /// The entry with this id.
    pub fn get(self, id: Id) -> Option<Entry<'a>> {
        self.range(id, id, false).next()
    }

    /// The id of the first entry; zero if there is none.
    pub fn first_id(self) -> Id {
        self.edge(false)
    }

    /// The id of the last entry; zero if there is none.
    pub fn top_id(self) -> Id {
        self.edge(true)
    }

    fn edge(self, descending: bool) -> Id {
        self.range(Id::ZERO, Id::MAX, descending).next().map_or(Id::ZERO, |entry| entry.id)
    }

    /// Nodes that the peers would keep the entries in. O(blocks) for a packed stream.
    pub fn nodes(self) -> u64 {
        match self.0 {
            Source::Packed(packed) => {
                packed.blocks().filter(|block| block::starts_node(block)).count() as u64
            }
            Source::Large(large) => large.nodes,
        }
    }

    /// Blocks that hold entries or find them.
    pub fn blocks(self) -> u64 {
        match self.0 {
            Source::Packed(packed) => packed.blocks().count() as u64 + 1,
            Source::Large(large) => large.tree.len() + large.tree.nodes().max(1),
        }
    }
}

/// Entries of a stream in a row.
pub struct Range<'a> {
    source: Source<'a>,
    start: Id,
    end: Id,
    state: Walk,
}

/// Where a range is.
enum Walk {
    Up(Option<(Place, Cursor)>),
    /// The block, a cursor of it once it was walked through, and its entries that are still to come.
    Down(Option<Place>, Option<Cursor>, Vec<Found>),
}

impl Walk {
    fn up(source: Source<'_>, start: Id) -> Walk {
        let place = source.floor(start).or_else(|| source.first());
        Walk::Up(place.map(|place| (place, Cursor::new(source.block(place)))))
    }

    fn down(source: Source<'_>, end: Id) -> Walk {
        Walk::Down(source.floor(end), None, Vec::new())
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let (source, start, end) = (self.source, self.start, self.end);
        match &mut self.state {
            Walk::Up(state) => loop {
                let (place, cursor) = state.as_mut()?;
                let block = source.block(*place);
                while let Some(found) = cursor.next(block) {
                    if found.removed || found.id < start {
                        continue;
                    }
                    if found.id > end {
                        *state = None;
                        return None;
                    }
                    return Some(cursor.entry(block, &found));
                }
                *state = source.after(*place).map(|place| (place, Cursor::new(source.block(place))));
            },
            Walk::Down(place, cursor, entries) => loop {
                if let (Some(found), Some(cursor)) = (entries.pop(), &*cursor) {
                    if found.id < start {
                        *place = None;
                        return None;
                    }
                    return Some(cursor.entry(source.block((*place)?), &found));
                }
                if cursor.is_some() {
                    *place = source.before((*place)?);
                }
                *cursor = Some(gather(source.block((*place)?), end, entries));
            },
        }
    }
}

/// Gathers the entries of a block up to an id; the cursor that has passed them.
fn gather(block: &[u8], end: Id, entries: &mut Vec<Found>) -> Cursor {
    let mut cursor = Cursor::new(block);
    while let Some(found) = cursor.next(block) {
        if !found.removed && found.id <= end {
            entries.push(found);
        }
    }
    cursor
}

/// A stream in its slot, to be changed. Whoever removes the last entry decides whether the key stays: it does, as with the peers.
pub struct StreamMut<'s, 'a>(&'s mut Slot<'a>);

impl<'s, 'a> StreamMut<'s, 'a> {
    /// The bytes of a new stream, the tag first.
    pub const EMPTY: [u8; packed::EMPTY_BYTES] = packed::EMPTY;

    /// The stream in a slot, which must be of that type.
    pub fn new(slot: &'s mut Slot<'a>) -> StreamMut<'s, 'a> {
        debug_assert_eq!(slot.form(), Form::Stream);
        StreamMut(slot)
    }

    /// The stream, to be read.
    pub fn read(&self) -> Stream<'_> {
        Stream::new(self.0.view())
    }

    fn large(&mut self) -> Option<&mut LargeStream> {
        self.0.large_mut()
    }

    /// Changes what is known of it beside the entries.
    pub fn set_head(&mut self, head: Head) {
        match self.large() {
            Some(large) => large.head = head,
            None => packed::set_head(self.0.packed_mut(), head),
        }
    }

    /// Adds an entry, whose id must be above the last one given. O(size) while packed, O(1) mostly when large.
    #[inline]
    pub fn append(&mut self, limits: &Limits, id: Id, pairs: &impl Pairs) {
        debug_assert!(id > self.read().head().last);
        let source = self.read().0;
        if let Some(tail) = source.floor(Id::MAX)
            && block::last(source.block(tail)) >= id
            && block::live(source.block(tail)) == 0
        {
            // XSETID has gone back behind entries that are all removed: what comes must not begin before their block does.
            self.remove_block(tail);
        }
        if let Some(large) = self.large() {
            return large.append(limits, id, pairs);
        }
        if !packed::append(self.0, limits, id, pairs) {
            self.make_large().append(limits, id, pairs);
        }
    }

    /// Removes the entry with this id; whether there was one. The highest id removed is kept in mind.
    pub fn remove(&mut self, id: Id) -> bool {
        let source = self.read().0;
        let Some(place) = source.floor(id) else { return false };
        let bytes = source.block(place);
        let mut cursor = Cursor::new(bytes);
        let found = std::iter::from_fn(|| cursor.next(bytes)).find(|found| found.id >= id && !found.removed);
        let Some(found) = found.filter(|found| found.id == id) else { return false };
        if block::live(bytes) == 1 {
            self.remove_block(place);
        } else {
            block::mark_removed(self.block_mut(place), found.at);
        }
        let mut head = self.read().head();
        head.len -= 1;
        head.max_deleted = head.max_deleted.max(id);
        self.set_head(head);
        true
    }

    fn block_mut(&mut self, place: Place) -> &mut [u8] {
        if self.0.is_large() {
            return self.large().expect("the stream is large").block_mut(place);
        }
        &mut self.0.packed_mut()[place.0 as usize..]
    }

    /// Removes a block with whatever is in it. If a node of the peers goes on behind it, it begins there.
    fn remove_block(&mut self, place: Place) {
        let source = self.read().0;
        let next = source.after(place);
        let begins = block::starts_node(source.block(place));
        let goes_on = next.filter(|next| begins && !block::starts_node(source.block(*next)));
        if let Some(next) = goes_on {
            block::set_starts_node(self.block_mut(next));
        }
        match self.large() {
            Some(large) => large.remove_block(place, begins && goes_on.is_none()),
            None => packed::remove_block(self.0, place),
        }
    }

    /// Gives the stream memory of its own, if it has none yet.
    fn make_large(&mut self) -> &mut LargeStream {
        if !self.0.is_large() {
            let mut large = LargeStream::new(self.0.storage());
            let packed = Packed(self.0.packed());
            large.head = packed.head();
            for block in packed.blocks() {
                large.add_block(block);
            }
            let tag = self.0.tag();
            self.0.set_large(tag, Box::new(large));
        }
        self.large().expect("the stream is large")
    }
}

/// Where an entry goes that is added behind a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    Here,
    /// Into a new block, but the same node of the peers.
    NewBlock,
    NewNode,
}

/// Whether an entry goes into the last block of a stream.
fn room(last: &[u8], limits: &Limits, id: Id, pairs: &impl Pairs, fit: impl FnOnce() -> usize) -> Room {
    let entries = block::before(last) + block::live(last) + block::dead(last);
    let counters = [entries - block::dead(last), block::dead(last)];
    let node = block::listpack(last)
        + counters.iter().map(|counter| listpack::integer_bytes(*counter as i64)).sum::<usize>();
    let text: usize = (0..pairs.count()).map(|n| pairs.field(n).len() + pairs.value(n).len()).sum();
    let bytes_max = match limits.stream_node_max_bytes {
        0 => NODE_BYTES_MAX,
        bytes => bytes.min(NODE_BYTES_MAX),
    };
    let full = limits.stream_node_max_entries > 0 && entries as u64 >= limits.stream_node_max_entries;
    if (node + text) as u64 >= bytes_max || full {
        Room::NewNode
    } else if id <= block::last(last) || block::is_full(last) || block::used(last) + fit() > BLOCK_BYTES_MAX {
        Room::NewBlock
    } else {
        Room::Here
    }
}

/// What a block that follows `last` in the same node begins with; None begins a node.
fn earlier(last: &[u8], room: Room) -> Option<(usize, usize)> {
    (room == Room::NewBlock)
        .then(|| (block::before(last) + block::live(last) + block::dead(last), block::listpack(last)))
}

fn handle(place: Place) -> Handle {
    Handle::from_raw(place.0).expect("a large stream's places are handles")
}
