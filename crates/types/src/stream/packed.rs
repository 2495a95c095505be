//! A small stream, packed in the value of its key's entry: what is known of it, then its blocks. Not what is in a block: see `block.rs`.
//!
//! ```text
//! tag 1 | len 8 | last id 16 | max deleted id 16 | added 8 | place of the last block 2, 0 if there is none | blocks
//! ```

use super::block::{self, Fit};
use super::{Head, Id, Pairs, Place, Room, earlier, room};
use crate::{Form, Limits, Slot};

const LEN: usize = 1;
const LAST: usize = LEN + 8;
const MAX_DELETED: usize = LAST + 16;
const ADDED: usize = MAX_DELETED + 16;
const TAIL: usize = ADDED + 8;
/// Bytes of a stream without blocks.
pub(super) const EMPTY_BYTES: usize = TAIL + 2;
/// A longer one gets memory of its own: three blocks or so, whose pages then are well filled.
const PACKED_BYTES_MAX: usize = 8 << 10;
/// A stream of more bytes has some to spare when it has grown, an eighth, so that not every entry moves it.
const SPARE_FROM_BYTES: usize = 256;

/// A stream without entries.
pub(super) const EMPTY: [u8; EMPTY_BYTES] = {
    let mut bytes = [0; EMPTY_BYTES];
    bytes[0] = Form::Stream as u8;
    bytes
};

/// The bytes of a packed stream, to be read.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a>(pub(super) &'a [u8]);

impl<'a> Packed<'a> {
    fn number(self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("8 bytes"))
    }

    fn id(self, at: usize) -> Id {
        Id { ms: self.number(at), seq: self.number(at + 8) }
    }

    pub(super) fn head(self) -> Head {
        Head {
            len: self.number(LEN),
            last: self.id(LAST),
            max_deleted: self.id(MAX_DELETED),
            added: self.number(ADDED),
        }
    }

    fn tail(self) -> Option<Place> {
        let at = u16::from_le_bytes([self.0[TAIL], self.0[TAIL + 1]]);
        (at > 0).then_some(Place(u64::from(at)))
    }

    /// Where the last block ends; what follows is to spare.
    fn end(self) -> usize {
        self.tail().map_or(EMPTY_BYTES, |tail| tail.0 as usize + block::used(self.block(tail)))
    }

    pub(super) fn block(self, place: Place) -> &'a [u8] {
        &self.0[place.0 as usize..]
    }

    pub(super) fn first(self) -> Option<Place> {
        self.tail().map(|_| Place(EMPTY_BYTES as u64))
    }

    pub(super) fn after(self, place: Place) -> Option<Place> {
        (Some(place) != self.tail()).then(|| Place(place.0 + block::used(self.block(place)) as u64))
    }

    fn places(self) -> impl Iterator<Item = Place> {
        std::iter::successors(self.first(), move |place| self.after(*place))
    }

    pub(super) fn before(self, place: Place) -> Option<Place> {
        self.places().take_while(|other| *other != place).last()
    }

    pub(super) fn floor(self, id: Id) -> Option<Place> {
        // Most look for what is at the end.
        let tail = self.tail()?;
        if block::base(self.block(tail)) <= id {
            return Some(tail);
        }
        self.places().take_while(|place| block::base(self.block(*place)) <= id).last()
    }

    /// The blocks, each without what follows it.
    pub(super) fn blocks(self) -> impl Iterator<Item = &'a [u8]> {
        self.places().map(move |place| {
            let block = self.block(place);
            &block[..block::used(block)]
        })
    }
}

pub(super) fn set_head(bytes: &mut [u8], head: Head) {
    let mut put = |at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    put(LEN, head.len);
    put(LAST, head.last.ms);
    put(LAST + 8, head.last.seq);
    put(MAX_DELETED, head.max_deleted.ms);
    put(MAX_DELETED + 8, head.max_deleted.seq);
    put(ADDED, head.added);
}

fn set_tail(bytes: &mut [u8], at: usize) {
    bytes[TAIL..TAIL + 2].copy_from_slice(&(at as u16).to_le_bytes());
}

/// Adds an entry; false, and nothing is changed, if the stream is too large for that.
pub(super) fn append(slot: &mut Slot<'_>, limits: &Limits, id: Id, pairs: &impl Pairs) -> bool {
    let packed = Packed(slot.packed());
    let (end, mut fit): (usize, Option<Fit>) = (packed.end(), None);
    let mut begins = Some(None);
    if let Some(tail) = packed.tail() {
        let last = packed.block(tail);
        let room = room(last, limits, id, pairs, || fit.insert(block::measure(last, id, pairs)).bytes);
        begins = (room != Room::Here).then(|| earlier(last, room));
    }
    let fit = match (begins, fit) {
        (None, Some(fit)) => fit,
        _ => block::measure_new(pairs, begins == Some(None)),
    };
    let wanted = end + fit.bytes;
    if wanted > PACKED_BYTES_MAX {
        return false;
    }
    if wanted > slot.packed().len() {
        let spare = if wanted >= SPARE_FROM_BYTES { wanted / 8 } else { 0 };
        slot.resize(wanted + spare);
    }
    let bytes = slot.packed_mut();
    if let Some(earlier) = begins {
        block::start(&mut bytes[end..], id, pairs, earlier);
        set_tail(bytes, end);
    }
    let tail = usize::from(u16::from_le_bytes([bytes[TAIL], bytes[TAIL + 1]]));
    block::push(&mut bytes[tail..], id, pairs, &fit);
    let mut head = Packed(bytes).head();
    head.len += 1;
    head.added += 1;
    head.last = id;
    set_head(bytes, head);
    true
}

/// Removes a block with whatever is in it.
pub(super) fn remove_block(slot: &mut Slot<'_>, place: Place) {
    let packed = Packed(slot.packed());
    let bytes = block::used(packed.block(place));
    let tail = packed.tail().expect("there is a block").0 as usize;
    let tail = match packed.before(place) {
        _ if tail > place.0 as usize => tail - bytes,
        before => before.map_or(0, |before| before.0 as usize),
    };
    set_tail(slot.splice(place.0 as usize, bytes, 0), tail);
}
