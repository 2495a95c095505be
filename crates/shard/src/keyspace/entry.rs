//! What a command sees of an entry. Not its bytes: those are `memory`'s.

use memory::{BigRef, EntryRef, Kind};
use stdx::num::{I64_LEN_MAX, format_i64};
use types::{View, hash};

/// An entry, while its keyspace is borrowed.
#[derive(Clone, Copy)]
pub struct Entry<'a>(pub(super) EntryRef<'a>);

impl<'a> Entry<'a> {
    /// The key.
    pub fn key(self) -> &'a [u8] {
        self.0.key()
    }

    /// What kind of value the entry holds.
    pub fn kind(self) -> Kind {
        self.0.kind()
    }

    /// Unix time in ms when the entry expires.
    pub fn deadline(self) -> Option<u64> {
        self.0.deadline()
    }

    /// Whether the deadline has passed. At its very millisecond an entry still lives, as in Valkey.
    #[inline]
    pub fn is_expired(self, now_ms: u64) -> bool {
        self.0.has_deadline() && self.0.deadline().is_some_and(|deadline| deadline < now_ms)
    }

    /// Whether fields of the hash that the entry holds, if it is one, may have expired before `now_ms`.
    #[inline]
    pub fn has_due_fields(self, now_ms: u64) -> bool {
        hash::has_deadlines(self.0) && self.collection().is_some_and(|view| hash::due_ms(view) < now_ms)
    }

    /// Unix time in ms before which none of them has; `u64::MAX` if none can.
    pub fn fields_due_ms(self) -> u64 {
        self.collection().map_or(u64::MAX, hash::due_ms)
    }

    /// The eviction metadata, if the entry has any.
    pub fn access(self) -> Option<[u8; 3]> {
        self.0.access()
    }

    /// The value, if it is a string.
    #[inline]
    pub fn string(self) -> Option<StringRef<'a>> {
        match self.0.kind() {
            Kind::Integer => self.0.integer().map(StringRef::Int),
            Kind::Bytes | Kind::Raw => Some(StringRef::Bytes(self.0.value())),
            Kind::Big => Some(StringRef::Big(BigString(self.0))),
            Kind::Collection | Kind::Large | Kind::Plain => None,
        }
    }

    /// The value, if it is a collection.
    #[inline]
    pub fn collection(self) -> Option<View<'a>> {
        View::of(self.0)
    }

    /// The type as TYPE names it.
    pub fn type_name(self) -> &'static str {
        self.collection().map_or("string", |view| view.form().type_of().name())
    }

    /// OBJECT ENCODING, as Valkey 9.1 would report it. Of a string: `int`, `embstr` where key, value and header fit into its 128 bytes, else `raw`.
    pub fn encoding(self) -> &'static str {
        if let Some(view) = self.collection() {
            return view.form().encoding();
        }
        match self.0.kind() {
            Kind::Integer => "int",
            Kind::Bytes if fits_embstr(self.key().len(), self.0.value().len(), self.0.has_deadline()) => {
                "embstr"
            }
            _ => "raw",
        }
    }

    /// Whether the value is a large collection, which is costly to copy.
    pub fn is_large(self) -> bool {
        self.0.kind() == Kind::Large
    }

    /// Bytes of memory that the entry takes, without its share of the index.
    pub fn size(self) -> usize {
        self.0.size().next_multiple_of(memory::GRANULE_BYTES)
            + self.0.big().map_or(0, |big| big.memory_bytes())
            + self.0.large().map_or(0, |large| large.bytes() as usize)
    }
}

/// Valkey embeds a string in its object with the key (whose own header grows from 1 to 3 bytes at 32) and, if there is one, 8 bytes of
/// deadline, up to 128 bytes. A key that does not fit beside a deadline is kept apart, so that very long ones are `embstr` again.
fn fits_embstr(key_bytes: usize, value_bytes: usize, deadline: bool) -> bool {
    let room = if key_bytes < 32 { 113 } else { 111 };
    let needed = key_bytes + value_bytes;
    needed <= if deadline && key_bytes < 108 { room - 8 } else { room }
}

/// A string as it is stored.
#[derive(Clone, Copy)]
pub enum StringRef<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// An integer in its canonical decimal form.
    Int(i64),
    /// More than 16 KiB, in memory of its own that a reply may share.
    Big(BigString<'a>),
}

/// Room for the text of an integer.
pub type IntText = [u8; I64_LEN_MAX];

impl<'a> StringRef<'a> {
    /// Bytes of the string.
    pub fn len(self) -> usize {
        match self {
            StringRef::Bytes(bytes) => bytes.len(),
            StringRef::Int(integer) => format_i64(integer, &mut IntText::default()).len(),
            StringRef::Big(big) => big.as_bytes().len(),
        }
    }

    /// Whether the string is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes, those of an integer written to `text`.
    #[inline]
    pub fn to_bytes<'b>(self, text: &'b mut IntText) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            StringRef::Bytes(bytes) => bytes,
            StringRef::Int(integer) => format_i64(integer, text),
            StringRef::Big(big) => big.as_bytes(),
        }
    }

    /// Appends the bytes to `to`.
    pub fn write_to(self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.to_bytes(&mut IntText::default()));
    }

    /// The bytes, owned.
    pub fn to_vec(self) -> Vec<u8> {
        self.to_bytes(&mut IntText::default()).to_vec()
    }
}

/// A big string in its entry.
#[derive(Clone, Copy)]
pub struct BigString<'a>(EntryRef<'a>);

impl<'a> BigString<'a> {
    /// The bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0.bytes().expect("a big entry has bytes")
    }

    /// A counted reference to the bytes, which stay as they are for as long as it lives.
    pub fn share(self) -> BigRef {
        self.0.big().expect("a big entry has a big value")
    }
}
