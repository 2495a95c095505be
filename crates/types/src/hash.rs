//! HOT: hashes: fields with values, of which each may have a deadline. Packed in the entry of their key while they are small, a [`Table`] when they
//! are large. Not the commands: whether a field may be set is theirs to decide.
//!
//! ```text
//! packed, no field has a deadline   tag | prefix? | sequence of field, value, field, value, ...
//! packed, some have                 tag | due 6 | prefix? | sequence of field, value, deadline, field, value, deadline, ...
//! large                             a Table, names as in hash/stored.rs; the deadline of a field is its element's
//!
//! tag       the form, bit 7: some field has a deadline, bit 6: there is a prefix
//! prefix    length 1 | bytes with which the names of all fields begin; the sequence holds the rest of each
//! due       unix time in ms before which no field expires; those after the year 10889 count as that
//! deadline  an integer: 0 for none, else ms since 2024-01-01 UTC
//! ```
//!
//! Names that programs make (`field:1`, `field:2`) mostly begin alike. What they share is looked for when a hash has 4, 8, 16, ... fields and for those
//! of one command that makes a hash; a name that begins otherwise shortens it.
//!
//! Up to some hundred fields a walk over the packed ones is as fast as an index, and takes a fourth of the memory.

use memory::{EntryRef, Kind};
use stdx::num::{I64_LEN_MAX, parse_i64};

use crate::packed::{Element, IntText, Packed, Piece, Region};
use crate::table::{self, Expired, Table, Value};
use crate::{Form, Limits, Slot, Storage, View, packed};
use stored::Stored;

mod draw;
mod stored;
#[cfg(test)]
mod tests;

/// The bit of the tag: some field has a deadline.
const VOLATILE: u8 = 1 << 7;
/// The bit of the tag: what all names begin with stands before the sequence.
const PREFIXED: u8 = 1 << 6;
const PREFIX_BYTES_MAX: usize = 64;
/// Fields from which on a common beginning is looked for.
const PREFIX_FIELDS_MIN: usize = 4;
/// Bytes of the lower bound of the deadlines.
const DUE_BYTES: usize = 6;
/// 2024-01-01T00:00:00Z in unix milliseconds: 19,723 days of 86,400,000 ms.
const DEADLINE_EPOCH_MS: i64 = 19_723 * 86_400_000;
/// Most fields of a packed hash, and most of its bytes: with its key and header it stays a block of a page.
const PACKED_FIELDS_MAX: usize = 512;
const PACKED_BYTES_MAX: usize = 15 << 10;
/// A large hash that has shrunk to so many fields and bytes is packed again.
const REPACK_FIELDS: usize = 64;
const REPACK_BYTES: u64 = 4 << 10;
/// What a packed field takes beside its bytes, mostly at most: three marks, the lengths of a longer value, a deadline of six bytes.
const PAIR_MARKS_BYTES: usize = 13;
/// Pairs of one command from which on a new hash is made as a table first, so that looking for doubles does not take quadratic time.
const PAIRS_PACKED_AT_ONCE: usize = 64;

/// A field, while its hash is borrowed.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub name: Name<'a>,
    pub value: Piece<'a>,
    /// Unix time in ms when the field expires.
    pub deadline: Option<u64>,
    element: Option<table::Element<'a>>,
}

/// The name of a field.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    prefix: &'a [u8],
    rest: Piece<'a>,
}

impl Name<'_> {
    /// Calls `f` with the name.
    #[inline]
    pub fn with<T>(self, f: impl FnOnce(&[u8]) -> T) -> T {
        let mut text = IntText::default();
        let rest = self.rest.to_bytes(&mut text);
        if self.prefix.is_empty() {
            return f(rest);
        }
        let (mut short, mut long) = ([0; 2 * PREFIX_BYTES_MAX], Vec::new());
        let bytes = self.prefix.len() + rest.len();
        let name = if bytes <= short.len() {
            &mut short[..bytes]
        } else {
            long.resize(bytes, 0);
            &mut long[..]
        };
        name[..self.prefix.len()].copy_from_slice(self.prefix);
        name[self.prefix.len()..].copy_from_slice(rest);
        f(name)
    }

    /// The name, owned.
    pub fn to_vec(self) -> Vec<u8> {
        self.with(<[u8]>::to_vec)
    }
}

impl<'a> Field<'a> {
    fn of(table: &'a Table, element: table::Element<'a>) -> Field<'a> {
        let value = match element.value() {
            Value::Bytes(bytes) => Piece::Bytes(bytes),
            Value::Int(integer) => Piece::Int(integer),
        };
        let name = stored::name(table.prefix(), element.name());
        let deadline = element.deadline();
        Field { name, value, deadline, element: Some(element) }
    }

    /// A counted reference to a value of more than [`memory::INLINE_BYTES_MAX`], for a reply that need not copy it.
    pub fn big(self) -> Option<memory::BigRef> {
        self.element.and_then(table::Element::big)
    }

    #[inline]
    fn is_alive(&self, now_ms: u64) -> bool {
        self.deadline.is_none_or(|deadline| deadline >= now_ms)
    }
}

/// What setting a field does to its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// The field has none.
    Clear,
    /// It stays as it is.
    Keep,
    /// Unix time in ms.
    At(u64),
}

/// What a change of a hash goes by.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub limits: &'a Limits,
    /// Unix time in ms. Fields whose deadlines have passed count as missing.
    pub now_ms: u64,
}

/// Whether some field of the hash that an entry holds has a deadline; false for every other entry.
#[inline]
pub fn has_deadlines(entry: EntryRef<'_>) -> bool {
    matches!(entry.kind(), Kind::Collection | Kind::Large) && is_volatile(entry.value()[0])
}

/// The same, from the tag of a collection.
#[inline]
pub fn is_volatile(tag: u8) -> bool {
    tag & VOLATILE != 0 && matches!(Form::of(tag), Form::HashListpack | Form::HashHashtable)
}

/// Unix time in ms before which no field of a collection expires; `u64::MAX` for what is no hash or has no deadlines.
#[inline]
pub fn due_ms(view: View<'_>) -> u64 {
    if !is_volatile(view.tag()) {
        return u64::MAX;
    }
    match view {
        View::Packed(bytes) => read_due(bytes),
        View::Large(..) => view.large::<Table>().map_or(u64::MAX, Table::due_ms),
    }
}

/// A hash, to be read.
#[derive(Clone, Copy)]
pub struct Hash<'a> {
    fields: Fields<'a>,
    now_ms: u64,
}

#[derive(Clone, Copy)]
enum Fields<'a> {
    Packed(Packed<'a>, Shape<'a>),
    Large(&'a Table),
}

impl<'a> Hash<'a> {
    /// The hash in a collection, which must be one. Fields that have expired before `now_ms` are not seen.
    #[inline]
    pub fn of(view: View<'a>, now_ms: u64) -> Hash<'a> {
        let fields = match view {
            View::Packed(bytes) => Fields::Packed(sequence(bytes), Shape::of(bytes)),
            View::Large(..) => Fields::Large(view.large().expect("it is not packed")),
        };
        Hash { fields, now_ms }
    }

    /// Fields, perhaps with some that have expired. O(1) for a large hash, O(fields) for a packed one.
    pub fn len(&self) -> usize {
        match self.fields {
            Fields::Packed(packed, shape) => packed.count() / shape.stride,
            Fields::Large(table) => table.len(),
        }
    }

    /// Whether there is no field, not even one that has expired.
    pub fn is_empty(&self) -> bool {
        match self.fields {
            Fields::Packed(packed, _) => packed.is_empty(),
            Fields::Large(table) => table.is_empty(),
        }
    }

    /// Fields that have not expired. O(1) while none can have, else O(fields).
    pub fn count_alive(&self) -> usize {
        match self.fields {
            Fields::Large(table) if table.due_ms() >= self.now_ms => table.len(),
            Fields::Packed(packed, Shape { stride: 2, .. }) => packed.count() / 2,
            _ => {
                let mut count = 0;
                self.for_each(|_| count += 1);
                count
            }
        }
    }

    /// The field with this name.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Field<'a>> {
        let field = match self.fields {
            Fields::Packed(packed, shape) => {
                let rest = name.strip_prefix(shape.prefix)?;
                let (cursor, _) = packed.find(&Element::new(rest), shape.stride)?;
                read_field(&mut packed.iter_from(cursor), shape)
            }
            Fields::Large(table) => {
                let element = table.get(Stored::of(table.prefix(), name).as_ref());
                element.map(|element| Field::of(table, element))
            }
        };
        field.filter(|field| field.is_alive(self.now_ms))
    }

    /// Several fields by name, in the order of the names. The cache misses of a large hash overlap.
    pub fn get_each<'n>(
        &self,
        names: impl Iterator<Item = &'n [u8]>,
        mut found: impl FnMut(Option<Field<'a>>),
    ) {
        match self.fields {
            Fields::Packed(..) => names.for_each(|name| found(self.get(name))),
            Fields::Large(table) => {
                table.find_each(names.map(|name| Stored::of(table.prefix(), name)), |_, element| {
                    let field = element.map(|element| Field::of(table, element));
                    found(field.filter(|field| field.is_alive(self.now_ms)));
                });
            }
        }
    }

    /// Every field: in the order in which they were added while the hash is packed, else in none.
    pub fn for_each(&self, mut f: impl FnMut(Field<'a>)) {
        let now_ms = self.now_ms;
        match self.fields {
            Fields::Packed(packed, shape) => {
                let mut walk = packed.iter();
                while let Some(field) = read_field(&mut walk, shape) {
                    if field.is_alive(now_ms) {
                        f(field);
                    }
                }
            }
            Fields::Large(table) => table.for_each(|element| {
                if !element.is_expired(now_ms) {
                    f(Field::of(table, element));
                }
            }),
        }
    }

    /// Some fields from `cursor` on, about `budget` of a large hash, all of a packed one; the cursor to go on with, 0 at the end. What is
    /// there from start (0) to end is seen, some of it perhaps twice. Cursors stay below 2^63.
    pub fn scan(&self, cursor: u64, budget: usize, mut f: impl FnMut(Field<'a>)) -> u64 {
        match self.fields {
            Fields::Packed(..) => {
                self.for_each(f);
                0
            }
            Fields::Large(table) => table.scan(cursor, budget, |element| {
                if !element.is_expired(self.now_ms) {
                    f(Field::of(table, element));
                }
            }),
        }
    }
}

/// The packed bytes of a new hash with these fields and values, of which the last counts if there are several of one name, and how many fields that
/// are; None if a packed one cannot hold them, or looking for doubles would take long: then begin with [`EMPTY`] and [`set_all`].
pub fn pack<'p>(
    rules: Rules<'_>,
    pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    lifetime: Lifetime,
) -> Option<(Vec<u8>, usize)> {
    let bytes_max =
        pairs.clone().map(|(name, value)| name.len() + value.len() + PAIR_MARKS_BYTES).sum::<usize>();
    if pairs.len() > PAIRS_PACKED_AT_ONCE || bytes_max > PACKED_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(bytes_max + EMPTY.len() + DUE_BYTES + 1);
    let prefix = if pairs.len() >= PREFIX_FIELDS_MIN {
        pairs.clone().map(|(name, _)| name).reduce(common).filter(|prefix| is_worth_it(prefix))
    } else {
        None
    };
    write_head(&mut bytes, EMPTY[0], matches!(lifetime, Lifetime::At(_)), prefix.unwrap_or_default());
    if matches!(lifetime, Lifetime::At(_)) {
        write_due(&mut bytes, u64::MAX);
    }
    bytes.extend_from_slice(packed::EMPTY);
    if pairs.len() as u64 > rules.limits.hash_max_listpack_entries {
        set_region_form(&mut bytes, Form::HashHashtable);
    }
    let mut added = 0;
    for (name, value) in pairs {
        added += usize::from(set_packed(&mut bytes, rules, name, value, lifetime)?);
    }
    Some((bytes, added))
}

/// A packed hash without fields, to begin with.
pub const EMPTY: &[u8] = &[Form::HashListpack as u8, packed::EMPTY[0]];

/// Sets fields; how many of them are new.
pub fn set_all<'p>(
    slot: &mut Slot<'_>,
    rules: Rules<'_>,
    pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    lifetime: Lifetime,
) -> usize {
    let enlarged = pairs.len() > PAIRS_PACKED_AT_ONCE && !slot.is_large();
    if enlarged {
        let names = pairs.clone().map(|(name, _)| name);
        let prefix = if slot.packed().len() == EMPTY.len() { stored::shared(names) } else { b"" };
        enlarge(slot, prefix);
    }
    if pairs.len() as u64 > rules.limits.hash_max_listpack_entries {
        slot.set_form(Form::HashHashtable);
    }
    let added = pairs.filter(|(name, value)| set(slot, rules, name, value, lifetime)).count();
    if enlarged {
        repack(slot, PACKED_FIELDS_MAX, PACKED_BYTES_MAX as u64 * 3 / 4);
    }
    added
}

/// Sets a field. Whether it is new.
pub fn set(slot: &mut Slot<'_>, rules: Rules<'_>, name: &[u8], value: &[u8], lifetime: Lifetime) -> bool {
    if !slot.is_large() {
        if let Some(added) = set_packed(slot, rules, name, value, lifetime) {
            return added;
        }
        enlarge(slot, b"");
    }
    let table = slot.large_mut::<Table>().expect("the hash is large");
    let added = set_in_table(table, rules.now_ms, name, value, lifetime);
    let over = table.len() as u64 > rules.limits.hash_max_listpack_entries;
    table.compact(|_, _, _| ());
    let listpack = slot.form() == Form::HashListpack;
    if listpack && (over || is_long(rules.limits, name, value)) || matches!(lifetime, Lifetime::At(_)) {
        slot.set_form(Form::HashHashtable);
    }
    mark(slot);
    added
}

/// Removes a field. Whether it was there and had not expired.
pub fn remove(slot: &mut Slot<'_>, now_ms: u64, name: &[u8]) -> bool {
    let Some(table) = slot.large_mut::<Table>() else { return remove_packed(slot, now_ms, name) };
    let name = Stored::of(table.prefix(), name);
    if !table.remove_if(name.as_ref(), |element| !element.is_expired(now_ms)) {
        return false;
    }
    table.compact(|_, _, _| ());
    if table.len() <= REPACK_FIELDS {
        repack(slot, REPACK_FIELDS, REPACK_BYTES);
    }
    mark(slot);
    true
}

/// Gives a field that is there another deadline, or none.
pub fn set_deadline(slot: &mut Slot<'_>, name: &[u8], deadline: Option<u64>) {
    if deadline.is_some() {
        slot.set_form(Form::HashHashtable);
    }
    match slot.large_mut::<Table>() {
        Some(table) => {
            if let Some(handle) = table.find(Stored::of(table.prefix(), name).as_ref()) {
                table.set_deadline(handle, deadline);
                table.compact(|_, _, _| ());
            }
            mark(slot);
        }
        None => set_packed_deadline(slot, name, deadline),
    }
}

/// Removes fields that have expired before `now_ms`: all of a packed hash, of a large one those of at most `buckets_max` buckets, beginning where
/// the last call stopped. `expired` gets the name of each just before.
pub fn expire(slot: &mut Slot<'_>, now_ms: u64, buckets_max: u32, mut expired: impl FnMut(&[u8])) -> Expired {
    let Some(table) = slot.large_mut::<Table>() else { return expire_packed(slot, now_ms, expired) };
    let outcome = table.expire(now_ms, buckets_max, |prefix, _, element| {
        stored::name(prefix, element.name()).with(&mut expired);
    });
    (0..outcome.removed).for_each(|_| _ = table.compact(|_, _, _| ()));
    if table.len() <= REPACK_FIELDS {
        repack(slot, REPACK_FIELDS, REPACK_BYTES);
    }
    mark(slot);
    outcome
}

/// How the sequence of a packed hash is to be read.
#[derive(Clone, Copy)]
struct Shape<'a> {
    /// Elements per field: 2, or 3 with deadlines.
    stride: usize,
    prefix: &'a [u8],
}

impl<'a> Shape<'a> {
    #[inline]
    fn of(bytes: &'a [u8]) -> Shape<'a> {
        Shape { stride: stride(bytes[0]), prefix: prefix(bytes) }
    }
}

/// Elements of the sequence per field.
#[inline]
fn stride(tag: u8) -> usize {
    if tag & VOLATILE != 0 { 3 } else { 2 }
}

/// Where the prefix, or else the sequence begins.
#[inline]
fn behind_due(tag: u8) -> usize {
    if tag & VOLATILE != 0 { 1 + DUE_BYTES } else { 1 }
}

/// Where the sequence of a packed hash begins.
#[inline]
fn start(bytes: &[u8]) -> usize {
    let at = behind_due(bytes[0]);
    if bytes[0] & PREFIXED != 0 { at + 1 + usize::from(bytes[at]) } else { at }
}

/// What the names of all fields begin with.
#[inline]
fn prefix(bytes: &[u8]) -> &[u8] {
    if bytes[0] & PREFIXED == 0 {
        return b"";
    }
    let at = behind_due(bytes[0]);
    &bytes[at + 1..][..usize::from(bytes[at])]
}

#[inline]
fn sequence(bytes: &[u8]) -> Packed<'_> {
    Packed::new(&bytes[start(bytes)..])
}

/// What stands before the sequence; the bound of the deadlines is 0 yet.
fn write_head(to: &mut Vec<u8>, tag: u8, volatile: bool, prefix: &[u8]) {
    let bits = if volatile { VOLATILE } else { 0 } | if prefix.is_empty() { 0 } else { PREFIXED };
    to.push(tag & !(VOLATILE | PREFIXED) | bits);
    to.resize(behind_due(bits), 0);
    if !prefix.is_empty() {
        to.push(u8::try_from(prefix.len()).expect("a prefix is short"));
        to.extend_from_slice(prefix);
    }
}

/// What two names begin with, as far as a prefix may go.
fn common<'n>(left: &'n [u8], right: &[u8]) -> &'n [u8] {
    let same = left.iter().zip(right).take(PREFIX_BYTES_MAX).take_while(|(a, b)| a == b).count();
    &left[..same]
}

/// Whether a common beginning saves anything; of numbers it does not, for they are kept in few bytes as they are.
fn is_worth_it(prefix: &[u8]) -> bool {
    prefix.first().is_some_and(|first| !first.is_ascii_digit() && *first != b'-')
}

#[inline]
fn read_due(bytes: &[u8]) -> u64 {
    let mut due = [0; 8];
    due[..DUE_BYTES].copy_from_slice(&bytes[1..][..DUE_BYTES]);
    u64::from_le_bytes(due)
}

fn write_due(bytes: &mut [u8], due_ms: u64) {
    let due_ms = due_ms.min((1 << (8 * DUE_BYTES)) - 1);
    bytes[1..][..DUE_BYTES].copy_from_slice(&due_ms.to_le_bytes()[..DUE_BYTES]);
}

#[inline]
fn read_field<'a>(walk: &mut packed::Walk<'a>, shape: Shape<'a>) -> Option<Field<'a>> {
    let (rest, value) = (walk.next()?, walk.next()?);
    let name = Name { prefix: shape.prefix, rest };
    let deadline = if shape.stride == 3 { read_deadline(walk.next()?) } else { None };
    Some(Field { name, value, deadline, element: None })
}

#[inline]
fn read_deadline(piece: Piece<'_>) -> Option<u64> {
    match piece {
        Piece::Int(ms) if ms != 0 => Some(ms.wrapping_add(DEADLINE_EPOCH_MS) as u64),
        _ => None,
    }
}

fn deadline_element<'e>(deadline: Option<u64>) -> Element<'e> {
    // The first millisecond of 2024 is told as the second.
    let ms = deadline.map(|deadline| (deadline as i64).wrapping_sub(DEADLINE_EPOCH_MS));
    Element::of_integer(ms.map_or(0, |ms| if ms == 0 { 1 } else { ms }))
}

fn is_long(limits: &Limits, name: &[u8], value: &[u8]) -> bool {
    name.len().max(value.len()) as u64 > limits.hash_max_listpack_value
}

/// Sets a field of a packed hash; whether it is new. None, and the field is as it was, if the hash would become too large.
fn set_packed(
    region: &mut impl Region,
    rules: Rules<'_>,
    name: &[u8],
    value: &[u8],
    lifetime: Lifetime,
) -> Option<bool> {
    let long = is_long(rules.limits, name, value);
    if matches!(lifetime, Lifetime::At(_)) {
        make_volatile(region);
    }
    if !name.starts_with(prefix(region.bytes())) {
        let shorter = common(prefix(region.bytes()), name).to_vec();
        rewrite(region, region.bytes()[0] & VOLATILE != 0, Some(&shorter), |_| true);
    }
    if region.bytes().len() + name.len() + value.len() > PACKED_BYTES_MAX {
        return None;
    }
    let bytes = region.bytes();
    let (at, stride, packed) = (start(bytes), stride(bytes[0]), sequence(bytes));
    let (rest, value) = (Element::new(&name[prefix(bytes).len()..]), Element::new(value));
    let (added, count) = match packed.find_or_count(&rest, stride) {
        Ok((cursor, _)) => {
            let before = read_field(&mut packed.iter_from(cursor), Shape::of(bytes));
            let before = before.expect("it has just been found");
            let cursor = packed.next(cursor).expect("a field has a value");
            let (alive, before) = (before.is_alive(rules.now_ms), before.deadline);
            let deadline = match lifetime {
                Lifetime::At(deadline) => Some(deadline),
                Lifetime::Keep if alive => before,
                Lifetime::Keep | Lifetime::Clear => None,
            };
            let elements = [value, deadline_element(deadline)].into_iter().take(stride - 1);
            packed::replace(region, at, cursor, stride - 1, elements);
            if stride == 3 {
                after_deadline(region, before, deadline);
            }
            (!alive, 0)
        }
        Err(count) if count >= PACKED_FIELDS_MAX => return None,
        Err(count) => {
            let deadline = if let Lifetime::At(deadline) = lifetime { Some(deadline) } else { None };
            let elements = [rest, value, deadline_element(deadline)].into_iter().take(stride);
            packed::insert(region, at, packed.end(), elements);
            if stride == 3 {
                after_deadline(region, None, deadline);
            }
            look_for_prefix(region, count + 1);
            (true, count + 1)
        }
    };
    if long || count as u64 > rules.limits.hash_max_listpack_entries || matches!(lifetime, Lifetime::At(_)) {
        set_region_form(region, Form::HashHashtable);
    }
    Some(added)
}

/// Looks for what the names of a packed hash have in common, if it has just got so many fields.
fn look_for_prefix(region: &mut impl Region, count: usize) {
    let bytes = region.bytes();
    if count < PREFIX_FIELDS_MIN || !count.is_power_of_two() || bytes[0] & PREFIXED != 0 {
        return;
    }
    let (mut walk, shape) = (sequence(bytes).iter(), Shape::of(bytes));
    let Some(first) = read_field(&mut walk, shape) else { return };
    let first = first.name.to_vec();
    let mut shared = common(&first, &first);
    while is_worth_it(shared)
        && let Some(field) = read_field(&mut walk, shape)
    {
        shared = field.name.with(|name| common(shared, name));
    }
    if is_worth_it(shared) {
        rewrite(region, bytes[0] & VOLATILE != 0, Some(shared), |_| true);
    }
}

fn set_region_form(region: &mut impl Region, form: Form) {
    let tag = region.bytes()[0];
    if Form::of(tag) != form {
        region.splice(0, 0, 0)[0] = tag & !Form::MASK | form as u8;
    }
}

/// Keeps the bound of the deadlines when one has changed in a sequence of threes; the last one that goes takes the threes with it.
fn after_deadline(region: &mut impl Region, before: Option<u64>, after: Option<u64>) {
    if let Some(deadline) = after {
        let due_ms = read_due(region.bytes()).min(deadline);
        write_due(region.splice(0, 0, 0), due_ms);
    } else if before.is_some() {
        let bytes = region.bytes();
        let mut walk = sequence(bytes).iter();
        while let Some(field) = read_field(&mut walk, Shape::of(bytes)) {
            if field.deadline.is_some() {
                return;
            }
        }
        rewrite(region, false, None, |_| true);
    }
}

/// Makes room for deadlines.
fn make_volatile(region: &mut impl Region) {
    if region.bytes()[0] & VOLATILE == 0 {
        rewrite(region, true, None, |_| true);
    }
}

/// Writes a packed hash anew with the fields that `keep` keeps, with or without room for deadlines, and with another prefix if one is given, with
/// which all names must begin.
fn rewrite(
    region: &mut impl Region,
    volatile: bool,
    prefix_new: Option<&[u8]>,
    mut keep: impl FnMut(&Field<'_>) -> bool,
) {
    let bytes = region.bytes();
    let shape = Shape::of(bytes);
    let prefix = prefix_new.unwrap_or(shape.prefix);
    // The rests of the names, one after the other, where they change.
    let (mut rests, mut ends) = (Vec::new(), Vec::new());
    if prefix_new.is_some() {
        let mut walk = sequence(bytes).iter();
        while let Some(field) = read_field(&mut walk, shape) {
            field.name.with(|name| rests.extend_from_slice(&name[prefix.len()..]));
            ends.push(rests.len());
        }
    }
    let (mut begin, mut ends) = (0, ends.into_iter());
    let (mut elements, mut due_ms) = (Vec::new(), u64::MAX);
    let mut walk = sequence(bytes).iter();
    while let Some(field) = read_field(&mut walk, shape) {
        let rest = match ends.next() {
            Some(end) => Element::new(&rests[std::mem::replace(&mut begin, end)..end]),
            None => Element::of(field.name.rest),
        };
        if keep(&field) {
            elements.extend([rest, Element::of(field.value)]);
            if volatile {
                elements.push(deadline_element(field.deadline));
                due_ms = due_ms.min(field.deadline.unwrap_or(u64::MAX));
            }
        }
    }
    let mut new = Vec::with_capacity(bytes.len() + bytes.len() / 2 + DUE_BYTES);
    write_head(&mut new, bytes[0], volatile, prefix);
    packed::write(&mut new, elements.into_iter());
    if volatile {
        write_due(&mut new, due_ms);
    }
    let before = bytes.len();
    region.splice(0, before, new.len()).copy_from_slice(&new);
}

fn remove_packed(region: &mut impl Region, now_ms: u64, name: &[u8]) -> bool {
    let bytes = region.bytes();
    let (at, shape, packed) = (start(bytes), Shape::of(bytes), sequence(bytes));
    let Some(rest) = name.strip_prefix(shape.prefix) else { return false };
    let Some((cursor, _)) = packed.find(&Element::new(rest), shape.stride) else { return false };
    let field = read_field(&mut packed.iter_from(cursor), shape).expect("it has just been found");
    let (alive, deadline) = (field.is_alive(now_ms), field.deadline);
    if alive {
        packed::remove(region, at, cursor, shape.stride);
        after_deadline(region, deadline, None);
    }
    alive
}

fn set_packed_deadline(region: &mut impl Region, name: &[u8], deadline: Option<u64>) {
    if deadline.is_some() {
        make_volatile(region);
    }
    let bytes = region.bytes();
    let (at, shape, packed) = (start(bytes), Shape::of(bytes), sequence(bytes));
    if shape.stride != 3 {
        return;
    }
    let Some(rest) = name.strip_prefix(shape.prefix) else { return };
    let Some((cursor, _)) = packed.find(&Element::new(rest), 3) else { return };
    let cursor = packed.next(cursor).and_then(|value| packed.next(value)).expect("a field has a value");
    let before = packed.get(cursor).and_then(read_deadline);
    packed::replace(region, at, cursor, 1, [deadline_element(deadline)].into_iter());
    after_deadline(region, before, deadline);
}

fn expire_packed(region: &mut impl Region, now_ms: u64, mut expired: impl FnMut(&[u8])) -> Expired {
    let mut outcome = Expired { buckets: 1, done: true, ..Expired::default() };
    let bytes = region.bytes();
    if bytes[0] & VOLATILE == 0 || read_due(bytes) >= now_ms {
        return outcome;
    }
    let (mut volatile, mut due_ms) = (false, u64::MAX);
    let mut walk = sequence(bytes).iter();
    while let Some(field) = read_field(&mut walk, Shape::of(bytes)) {
        outcome.examined += u32::from(field.deadline.is_some());
        if field.is_alive(now_ms) {
            volatile |= field.deadline.is_some();
            due_ms = due_ms.min(field.deadline.unwrap_or(u64::MAX));
        } else {
            outcome.removed += 1;
            field.name.with(&mut expired);
        }
    }
    if outcome.removed > 0 {
        rewrite(region, volatile, None, |field| field.is_alive(now_ms));
    } else {
        // The deadline that was due has been put off or taken away meanwhile.
        write_due(region.splice(0, 0, 0), due_ms);
    }
    outcome
}

/// A value as a table keeps it: as an integer if it is the canonical text of one.
#[inline]
fn value_of(value: &[u8]) -> Value<'_> {
    let integer = if value.len() <= I64_LEN_MAX { parse_i64(value) } else { None };
    integer.map_or(Value::Bytes(value), Value::Int)
}

fn set_in_table(table: &mut Table, now_ms: u64, name: &[u8], value: &[u8], lifetime: Lifetime) -> bool {
    let name = Stored::of(table.prefix(), name);
    let (name, value) = (name.as_ref(), value_of(value));
    let hash = table.hash(name);
    let at = if let Lifetime::At(deadline) = lifetime { Some(deadline) } else { None };
    let Some(handle) = table.find_hashed(hash, name) else {
        table.insert_hashed(hash, name, value, at);
        return true;
    };
    let before = table.element(handle);
    let alive = !before.is_expired(now_ms);
    let deadline = if lifetime == Lifetime::Keep && alive { before.deadline() } else { at };
    table.replace(handle, value, deadline);
    !alive
}

/// Makes a packed hash a table. `shared`: what the names of a hash without fields will begin with.
fn enlarge(slot: &mut Slot<'_>, shared: &[u8]) {
    let packed = slot.packed();
    let shared = if packed[0] & PREFIXED != 0 { prefix(packed) } else { shared };
    let table = table_of(slot.storage(), packed, stored::lasting(shared));
    slot.set_large(slot.tag() & !PREFIXED, Box::new(table));
}

fn table_of(storage: Storage, bytes: &[u8], prefix: &[u8]) -> Table {
    let mut table = Table::with_prefix(storage, prefix);
    let mut walk = sequence(bytes).iter();
    while let Some(field) = read_field(&mut walk, Shape::of(bytes)) {
        let value = match field.value {
            Piece::Bytes(bytes) => Value::Bytes(bytes),
            Piece::Int(integer) => Value::Int(integer),
        };
        field.name.with(|name| {
            let name = Stored::of(table.prefix(), name);
            table.insert(name.as_ref(), value, field.deadline)
        });
    }
    table
}

/// Packs a large hash if it has at most so many fields and bytes.
fn repack(slot: &mut Slot<'_>, fields_max: usize, bytes_max: u64) {
    let tag = slot.tag();
    let Some(table) = slot.large_mut::<Table>() else { return };
    if table.len() > fields_max || table.live_bytes() > bytes_max {
        return;
    }
    let volatile = table.volatile_len() > 0;
    let fields: Vec<(Vec<u8>, table::Element<'_>)> = table
        .elements()
        .map(|element| (stored::name(table.prefix(), element.name()).to_vec(), element))
        .collect();
    let mut elements = Vec::with_capacity(3 * table.len());
    for (name, element) in &fields {
        elements.push(Element::new(name));
        elements.push(match element.value() {
            Value::Bytes(bytes) => Element::new(bytes),
            Value::Int(integer) => Element::of_integer(integer),
        });
        if volatile {
            elements.push(deadline_element(element.deadline()));
        }
    }
    let count = table.len();
    let mut bytes = Vec::new();
    write_head(&mut bytes, tag, volatile, b"");
    packed::write(&mut bytes, elements.into_iter());
    if volatile {
        write_due(&mut bytes, table.due_ms());
    }
    // As if it had just got as many fields as it must have for that.
    look_for_prefix(&mut bytes, count.next_power_of_two());
    slot.set_packed(&bytes);
}

/// Says in the tag whether some field of a large hash has a deadline.
fn mark(slot: &mut Slot<'_>) {
    let tag = slot.tag();
    let Some(table) = slot.view().large::<Table>() else { return };
    let marked = if table.volatile_len() > 0 { tag | VOLATILE } else { tag & !VOLATILE };
    if marked != tag {
        slot.set_tag(marked);
    }
}
