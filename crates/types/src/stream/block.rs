//! HOT: the bytes of a block: some entries of a stream in a row. Not where blocks are kept: see `packed.rs` and `large.rs`.
//!
//! ```text
//! block:  base id 16 | last id 16 | used 4 | listpack 4 | before 4 | live 2 | dead 2 | flags 1 | fields: count, (length, bytes)... | entries
//! entry:  flags 1 | ms delta | seq delta | fields and values
//! item:   header | content      header: length * 2 of a string, bytes * 2 + 1 of an integer
//! ```
//!
//! Numbers without a size are varints. An id is a delta to the entry before, most often nothing or one byte. The fields of the first entry stand in
//! front; an entry with the same ones has none of its own, and if the headers of all its values are those of the first entry's, too, it has
//! no headers either. A removed entry stays as a mark, as in the peers' nodes: by `listpack` (the bytes that the peers' node would have) and the counts
//! a node ends here where it ends there, and so it is trimmed at the same moments.

use stdx::num::parse_i64;

use super::listpack::{integer_bytes, item_bytes};
use super::{Id, Item, Pairs};

const LAST: usize = 16;
const USED: usize = LAST + 16;
const LISTPACK: usize = USED + 4;
const BEFORE: usize = LISTPACK + 4;
const LIVE: usize = BEFORE + 4;
const DEAD: usize = LIVE + 2;
const FLAGS: usize = DEAD + 2;
/// Bytes in front of the fields.
const HEADER_BYTES: usize = FLAGS + 1;

/// Flag of a block: a node of the peers begins with it.
const NODE_START: u8 = 1;

/// Flags of an entry.
const REMOVED: u8 = 1;
const SAME_FIELDS: u8 = 1 << 1;
const SAME_SHAPE: u8 = 1 << 2;
/// How the id follows from the one before: bits 3 and 4.
const ID_SHIFT: u8 = 3;
const ID_NEXT: u8 = 0;
const ID_LATER: u8 = 1;
const ID_SAME_MS: u8 = 2;
const ID_BOTH: u8 = 3;

/// Entries of a block, dead ones included.
const ENTRIES_MAX: usize = 60_000;

/// What adding an entry takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    /// Bytes in the block; of a new block all its bytes.
    pub bytes: usize,
    /// Bytes in the peers' node.
    pub listpack: usize,
    same_fields: bool,
    same_shape: bool,
}

fn number<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block[at..at + N].try_into().expect("a slice of N bytes")
}

fn id_at(block: &[u8], at: usize) -> Id {
    Id { ms: u64::from_le_bytes(number(block, at)), seq: u64::from_le_bytes(number(block, at + 8)) }
}

fn set_id(block: &mut [u8], at: usize, id: Id) {
    block[at..at + 8].copy_from_slice(&id.ms.to_le_bytes());
    block[at + 8..at + 16].copy_from_slice(&id.seq.to_le_bytes());
}

/// The id of the first entry, removed or not.
pub(super) fn base(block: &[u8]) -> Id {
    id_at(block, 0)
}

/// The id of the last entry, removed or not.
pub(super) fn last(block: &[u8]) -> Id {
    id_at(block, LAST)
}

/// Bytes in use, from the block's start.
#[inline]
pub(super) fn used(block: &[u8]) -> usize {
    u32::from_le_bytes(number(block, USED)) as usize
}

/// Bytes of the peers' node up to here, without its two counters.
pub(super) fn listpack(block: &[u8]) -> usize {
    u32::from_le_bytes(number(block, LISTPACK)) as usize
}

/// Entries of the peers' node in blocks before this one.
pub(super) fn before(block: &[u8]) -> usize {
    u32::from_le_bytes(number(block, BEFORE)) as usize
}

/// Entries.
#[inline]
pub(super) fn live(block: &[u8]) -> usize {
    usize::from(u16::from_le_bytes(number(block, LIVE)))
}

/// Removed entries.
pub(super) fn dead(block: &[u8]) -> usize {
    usize::from(u16::from_le_bytes(number(block, DEAD)))
}

/// Whether a node of the peers begins here.
pub(super) fn starts_node(block: &[u8]) -> bool {
    block[FLAGS] & NODE_START != 0
}

/// A node of the peers begins here from now on.
pub(super) fn set_starts_node(block: &mut [u8]) {
    block[FLAGS] |= NODE_START;
}

/// Whether no more entries fit, whatever they are.
pub(super) fn is_full(block: &[u8]) -> bool {
    live(block) + dead(block) >= ENTRIES_MAX
}

/// What the first entry of a new block takes. `node` says whether it begins a node of the peers.
pub(super) fn measure_new(pairs: &impl Pairs, node: bool) -> Fit {
    let count = pairs.count();
    let mut bytes = HEADER_BYTES + varint_bytes(count as u64);
    // Header and end of a listpack, number of fields, the fields, a zero.
    let mut listpack = 6 + 1 + integer_bytes(count as i64) + integer_bytes(0);
    for n in 0..count {
        let field = pairs.field(n);
        bytes += varint_bytes(field.len() as u64) + field.len();
        listpack += item_bytes(field);
    }
    // Flags and a delta of nothing.
    bytes += 2;
    let mut entry = 3 * integer_bytes(0) + integer_bytes(count as i64 + 3);
    for n in 0..count {
        let value = pairs.value(n);
        let (header, content) = header_of(value);
        bytes += varint_bytes(header) + content;
        entry += item_bytes(value);
    }
    let listpack = if node { listpack + entry } else { entry };
    Fit { bytes, listpack, same_fields: true, same_shape: false }
}

/// What an entry takes behind those of a block; its id is above the last one's.
pub(super) fn measure(block: &[u8], id: Id, pairs: &impl Pairs) -> Fit {
    let count = pairs.count();
    let mut at = HEADER_BYTES;
    let mut same_fields = get_varint(block, &mut at) == count as u64;
    for n in 0..if same_fields { count } else { 0 } {
        let bytes = get_varint(block, &mut at) as usize;
        if block[at..at + bytes] != *pairs.field(n) {
            same_fields = false;
            break;
        }
        at += bytes;
    }
    let first = base(block);
    let (_, delta) = delta_of(last(block), id);
    let mut bytes = 1 + delta;
    let mut listpack = integer_bytes(0)
        + integer_bytes(id.ms.wrapping_sub(first.ms) as i64)
        + integer_bytes(id.seq.wrapping_sub(first.seq) as i64);
    if !same_fields {
        bytes += varint_bytes(count as u64);
        listpack += integer_bytes(count as i64) + integer_bytes(2 * count as i64 + 4);
        for n in 0..count {
            let (field, value) = (pairs.field(n), pairs.value(n));
            let (header, content) = header_of(value);
            bytes += varint_bytes(field.len() as u64) + field.len() + varint_bytes(header) + content;
            listpack += item_bytes(field) + item_bytes(value);
        }
        return Fit { bytes, listpack, same_fields, same_shape: false };
    }
    listpack += integer_bytes(count as i64 + 3);
    let (mut same_shape, mut headers) = (true, 0);
    // Flags and delta of the first entry.
    at += 2;
    for n in 0..count {
        let value = pairs.value(n);
        let (header, content) = header_of(value);
        let known = get_varint(block, &mut at);
        at += content_bytes(known);
        same_shape &= known == header;
        headers += varint_bytes(header);
        bytes += content;
        listpack += item_bytes(value);
    }
    bytes += if same_shape { 0 } else { headers };
    Fit { bytes, listpack, same_fields, same_shape }
}

/// Makes `block`, which has the room, one without entries. `before` and `listpack` are what the node has in earlier blocks; None begins a node.
pub(super) fn start(block: &mut [u8], id: Id, pairs: &impl Pairs, earlier: Option<(usize, usize)>) {
    block[..HEADER_BYTES].fill(0);
    set_id(block, 0, id);
    set_id(block, LAST, id);
    let (before, listpack) = earlier.unwrap_or_default();
    block[BEFORE..BEFORE + 4].copy_from_slice(&(before as u32).to_le_bytes());
    block[LISTPACK..LISTPACK + 4].copy_from_slice(&(listpack as u32).to_le_bytes());
    block[FLAGS] = if earlier.is_none() { NODE_START } else { 0 };
    let mut out = Writer { bytes: block, at: HEADER_BYTES };
    out.varint(pairs.count() as u64);
    for n in 0..pairs.count() {
        out.field(pairs.field(n));
    }
    let used = out.at as u32;
    block[USED..USED + 4].copy_from_slice(&used.to_le_bytes());
}

/// Adds an entry to a block that has the room.
pub(super) fn push(block: &mut [u8], id: Id, pairs: &impl Pairs, fit: &Fit) {
    let entries = live(block) + dead(block);
    let before = last(block);
    let mut out = Writer { at: used(block), bytes: block };
    let mut flags = 0;
    flags |= if fit.same_fields { SAME_FIELDS } else { 0 };
    flags |= if fit.same_shape { SAME_SHAPE } else { 0 };
    if entries == 0 {
        out.byte(flags | ID_SAME_MS << ID_SHIFT);
        out.varint(0);
    } else {
        let (kind, _) = delta_of(before, id);
        out.byte(flags | kind << ID_SHIFT);
        match kind {
            ID_LATER => out.varint(id.ms - before.ms),
            ID_SAME_MS => out.varint(id.seq - before.seq),
            ID_BOTH => {
                out.varint(id.ms - before.ms);
                out.varint(id.seq);
            }
            _ => {}
        }
    }
    if !fit.same_fields {
        out.varint(pairs.count() as u64);
    }
    for n in 0..pairs.count() {
        if !fit.same_fields {
            out.field(pairs.field(n));
        }
        out.item(pairs.value(n), !fit.same_shape);
    }
    let used = out.at as u32;
    set_id(block, LAST, id);
    block[USED..USED + 4].copy_from_slice(&used.to_le_bytes());
    let listpack = (listpack(block) + fit.listpack) as u32;
    block[LISTPACK..LISTPACK + 4].copy_from_slice(&listpack.to_le_bytes());
    set_counts(block, live(block) + 1, dead(block));
}

/// Marks an entry, which was not, as removed; `at` is [`Found::at`].
pub(super) fn mark_removed(block: &mut [u8], at: usize) {
    debug_assert_eq!(block[at] & REMOVED, 0);
    block[at] |= REMOVED;
    set_counts(block, live(block) - 1, dead(block) + 1);
}

fn set_counts(block: &mut [u8], live: usize, dead: usize) {
    block[LIVE..LIVE + 2].copy_from_slice(&(live as u16).to_le_bytes());
    block[DEAD..DEAD + 2].copy_from_slice(&(dead as u16).to_le_bytes());
}

/// How an id is told by the one before, and the bytes of the deltas.
fn delta_of(before: Id, id: Id) -> (u8, usize) {
    if id.ms == before.ms {
        match id.seq - before.seq {
            1 => (ID_NEXT, 0),
            seq => (ID_SAME_MS, varint_bytes(seq)),
        }
    } else {
        let ms = varint_bytes(id.ms - before.ms);
        if id.seq == 0 { (ID_LATER, ms) } else { (ID_BOTH, ms + varint_bytes(id.seq)) }
    }
}

/// Header and bytes of content of a value.
#[inline]
fn header_of(value: &[u8]) -> (u64, usize) {
    match parse_i64(value) {
        Some(integer) => {
            let bytes = zigzag_bytes(zigzag(integer));
            (bytes as u64 * 2 + 1, bytes)
        }
        None => (value.len() as u64 * 2, value.len()),
    }
}

fn content_bytes(header: u64) -> usize {
    (header / 2) as usize
}

fn zigzag(integer: i64) -> u64 {
    (integer << 1 ^ integer >> 63) as u64
}

fn zigzag_bytes(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8).max(1) as usize
}

#[inline]
fn varint_bytes(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

#[inline]
fn get_varint(bytes: &[u8], at: &mut usize) -> u64 {
    let first = bytes[*at];
    *at += 1;
    if first < 0x80 {
        return u64::from(first);
    }
    let (mut number, mut shift) = (u64::from(first & 0x7F), 7);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn byte(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    fn field(&mut self, field: &[u8]) {
        self.varint(field.len() as u64);
        self.slice(field);
    }

    fn item(&mut self, value: &[u8], with_header: bool) {
        let integer = parse_i64(value).map(zigzag);
        let bytes = integer.map_or(value.len(), zigzag_bytes);
        if with_header {
            self.varint(bytes as u64 * 2 + u64::from(integer.is_some()));
        }
        match integer {
            Some(integer) => self.slice(&integer.to_le_bytes()[..bytes]),
            None => self.slice(value),
        }
    }
}

/// An entry of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub id: Id,
    /// Where it begins.
    pub at: usize,
    pub removed: bool,
    flags: u8,
    /// Where its fields and values begin.
    body: usize,
}

/// A walk through the entries of a block. It holds no reference to it, so that the block can be changed by [`mark_removed`] meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    at: usize,
    previous: Id,
    fields: usize,
    /// Where the first entry begins, and its values.
    first: usize,
    /// Bytes of content of the first entry's values, once it was passed.
    shape_bytes: usize,
}

impl Cursor {
    /// Before the first entry.
    pub(super) fn new(block: &[u8]) -> Cursor {
        let mut at = HEADER_BYTES;
        let fields = get_varint(block, &mut at) as usize;
        for _ in 0..fields {
            let bytes = get_varint(block, &mut at) as usize;
            at += bytes;
        }
        Cursor { at, previous: base(block), fields, first: at, shape_bytes: 0 }
    }

    /// The next entry, removed ones included.
    #[inline]
    pub(super) fn next(&mut self, block: &[u8]) -> Option<Found> {
        let at = self.at;
        if at >= used(block) {
            return None;
        }
        let flags = block[at];
        let mut end = at + 1;
        let mut id = self.previous;
        match flags >> ID_SHIFT & 3 {
            ID_NEXT => id.seq += 1,
            ID_LATER => id = Id { ms: id.ms + get_varint(block, &mut end), seq: 0 },
            ID_SAME_MS => id.seq += get_varint(block, &mut end),
            _ => {
                id.ms += get_varint(block, &mut end);
                id.seq = get_varint(block, &mut end);
            }
        }
        let body = end;
        if flags & SAME_SHAPE != 0 {
            end += self.shape_bytes;
        } else if flags & SAME_FIELDS != 0 {
            let mut content = 0;
            for _ in 0..self.fields {
                let bytes = content_bytes(get_varint(block, &mut end));
                (content, end) = (content + bytes, end + bytes);
            }
            if at == self.first {
                self.shape_bytes = content;
            }
        } else {
            for _ in 0..get_varint(block, &mut end) {
                let bytes = get_varint(block, &mut end) as usize;
                end += bytes;
                let header = get_varint(block, &mut end);
                end += content_bytes(header);
            }
        }
        (self.at, self.previous) = (end, id);
        Some(Found { id, at, removed: flags & REMOVED != 0, flags, body })
    }

    /// An entry that the cursor has found in this block.
    pub(super) fn entry<'a>(&self, block: &'a [u8], found: &Found) -> Entry<'a> {
        let same_fields = found.flags & SAME_FIELDS != 0;
        let mut at = if same_fields { HEADER_BYTES } else { found.body };
        let count = get_varint(block, &mut at) as usize;
        let shape = if found.flags & SAME_SHAPE != 0 { self.first + 2 } else { 0 };
        let value = if same_fields { found.body } else { 0 };
        Entry { id: found.id, block, count, at, value, shape }
    }
}

/// An entry, to be read: its id and, as an iterator, its fields with their values.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub id: Id,
    block: &'a [u8],
    /// Pairs to come.
    count: usize,
    /// The next field.
    at: usize,
    /// The next value; 0 if it follows its field.
    value: usize,
    /// The next header; 0 if it stands before the value.
    shape: usize,
}

impl<'a> Iterator for Entry<'a> {
    type Item = (&'a [u8], Item<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], Item<'a>)> {
        if self.count == 0 {
            return None;
        }
        self.count -= 1;
        let bytes = get_varint(self.block, &mut self.at) as usize;
        let field = &self.block[self.at..self.at + bytes];
        self.at += bytes;
        let mut at = if self.value == 0 { self.at } else { self.value };
        let header = if self.shape == 0 {
            get_varint(self.block, &mut at)
        } else {
            let header = get_varint(self.block, &mut self.shape);
            self.shape += content_bytes(header);
            header
        };
        let end = at + content_bytes(header);
        let content = &self.block[at..end];
        if self.value == 0 {
            self.at = end;
        } else {
            self.value = end;
        }
        let item = if header & 1 == 0 { Item::Bytes(content) } else { Item::Integer(integer(content)) };
        Some((field, item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Entry<'_> {}

fn integer(content: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    bytes[..content.len()].copy_from_slice(content);
    let number = u64::from_le_bytes(bytes);
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
