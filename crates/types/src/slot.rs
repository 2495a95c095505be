//! HOT: how a collection is read and changed where its key's entry keeps it. Not what its bytes mean: that is each type's.
//!
//! A slot knows the entry's place in heap and index, so that whatever the change does to the entry (it grows, moves, becomes large), the index
//! follows at once. What a large collection gains or loses, and whether fields of a hash now expire, is counted when the slot is given up.

use memory::{EntryRef, Handle, Heap, Index, Kind, Large, Meta, Position};

use crate::form::Form;
use crate::{Expires, Storage, Volatile};

/// A collection as it is kept, to be read.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// Packed in the entry: the first byte is the tag, the rest the type's.
    Packed(&'a [u8]),
    /// The tag, and what has memory of its own.
    Large(u8, &'a dyn Large),
}

impl<'a> View<'a> {
    /// The collection of an entry; None for a string.
    #[inline]
    pub fn of(entry: EntryRef<'a>) -> Option<View<'a>> {
        match entry.kind() {
            Kind::Collection => Some(View::Packed(entry.value())),
            Kind::Large => entry.large().map(|large| View::Large(entry.value()[0], large)),
            Kind::Bytes | Kind::Integer | Kind::Raw | Kind::Big | Kind::Plain => None,
        }
    }

    /// The first byte: the form and the type's own bits.
    #[inline]
    pub fn tag(self) -> u8 {
        match self {
            View::Packed(bytes) => bytes[0],
            View::Large(tag, _) => tag,
        }
    }

    /// Type and encoding.
    #[inline]
    pub fn form(self) -> Form {
        Form::of(self.tag())
    }

    /// The large collection, which must be a `T`; None if it is packed.
    #[inline]
    pub fn large<T: Large>(self) -> Option<&'a T> {
        match self {
            View::Packed(_) => None,
            View::Large(_, large) => Some(large.downcast_ref().expect("the tag tells the type")),
        }
    }
}

/// The value of an entry that holds a collection, to be changed.
pub struct Slot<'a> {
    storage: Storage,
    heap: &'a mut Heap,
    index: &'a mut Index,
    /// Who counts what expires.
    volatile: Option<&'a mut Volatile>,
    at: Position,
    handle: Handle,
    /// What of the entry expired when the slot was made.
    expired_before: Expires,
    /// Bytes of the large collection when it was first handed out to be changed.
    large_before: Option<u64>,
}

impl<'a> Slot<'a> {
    /// The slot of the entry with `handle`, which the index keeps at `at`. The entry must hold a collection.
    #[inline]
    pub fn new(
        storage: Storage,
        heap: &'a mut Heap,
        index: &'a mut Index,
        at: Position,
        handle: Handle,
    ) -> Slot<'a> {
        debug_assert!(matches!(heap.entry(handle).kind(), Kind::Collection | Kind::Large));
        let expired_before = Expires::of(heap.entry(handle));
        Slot { storage, heap, index, volatile: None, at, handle, expired_before, large_before: None }
    }

    /// The same slot; what changes of deadlines while it is used is counted in `volatile`.
    #[inline]
    pub fn counting(mut self, volatile: &'a mut Volatile) -> Slot<'a> {
        self.volatile = Some(volatile);
        self
    }

    /// Where memory for what becomes large comes from, and the seed of its hashes.
    #[inline]
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The collection as it is.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::of(self.heap.entry(self.handle)).expect("a slot is of a collection")
    }

    /// The first byte.
    #[inline]
    pub fn tag(&self) -> u8 {
        self.heap.entry(self.handle).value()[0]
    }

    /// Type and encoding.
    #[inline]
    pub fn form(&self) -> Form {
        Form::of(self.tag())
    }

    /// Changes type and encoding; the type's own bits of the tag stay.
    pub fn set_form(&mut self, form: Form) {
        self.set_tag(self.tag() & !Form::MASK | form as u8);
    }

    /// Changes the first byte.
    pub fn set_tag(&mut self, tag: u8) {
        self.heap.set_tag(self.handle, tag);
    }

    /// The bytes of a packed collection, the tag first. Panics if it is large.
    #[inline]
    pub fn packed(&self) -> &[u8] {
        match self.view() {
            View::Packed(bytes) => bytes,
            View::Large(..) => panic!("the collection is large"),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn packed_mut(&mut self) -> &mut [u8] {
        self.heap.entry_mut(self.handle).value_mut()
    }

    /// Gives a packed collection another length: its start stays, what is added is 0.
    #[inline]
    pub fn resize(&mut self, bytes: usize) -> &mut [u8] {
        let handle = self.heap.resize_value(self.handle, Kind::Collection, bytes);
        self.moved(handle);
        self.packed_mut()
    }

    /// Takes the end of a packed collection away: `bytes` are left.
    #[inline]
    pub fn truncate(&mut self, bytes: usize) {
        let handle = self.heap.resize_value(self.handle, Kind::Collection, bytes);
        self.moved(handle);
    }

    /// Replaces `remove` bytes of a packed collection at `at` by `insert` bytes and moves what follows; all its bytes. The new ones hold
    /// anything.
    pub fn splice(&mut self, at: usize, remove: usize, insert: usize) -> &mut [u8] {
        let before = self.packed().len();
        let tail = at + remove..before;
        let after = before - remove + insert;
        if insert > remove {
            let bytes = self.resize(after);
            bytes.copy_within(tail, at + insert);
        } else if insert < remove {
            self.packed_mut().copy_within(tail, at + insert);
            self.truncate(after);
        }
        self.packed_mut()
    }

    /// Makes `bytes`, the tag first, the packed collection, whatever it was.
    pub fn set_packed(&mut self, bytes: &[u8]) {
        self.settle();
        let entry = self.heap.entry(self.handle);
        let meta = Meta { kind: Kind::Collection, deadline: entry.deadline(), access: entry.access() };
        let handle = self.heap.replace(self.handle, &meta, bytes);
        self.moved(handle);
    }

    /// Gives the collection memory of its own; the tag becomes `tag`.
    pub fn set_large(&mut self, tag: u8, large: Box<dyn Large>) {
        self.settle();
        let entry = self.heap.entry(self.handle);
        let (deadline, access) = (entry.deadline(), entry.access());
        let handle = self.heap.replace_large(self.handle, deadline, access, tag, large);
        self.moved(handle);
    }

    /// Whether the collection has memory of its own.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.heap.entry(self.handle).kind() == Kind::Large
    }

    /// The large collection, which must be a `T`, to be changed; None if it is packed.
    #[inline]
    pub fn large_mut<T: Large>(&mut self) -> Option<&mut T> {
        let large = self.heap.large_mut(self.handle)?;
        if self.large_before.is_none() {
            self.large_before = Some(large.bytes());
        }
        Some(large.downcast_mut().expect("the tag tells the type"))
    }

    /// Counts what a large collection has gained or lost.
    #[inline]
    fn settle(&mut self) {
        if let Some(before) = self.large_before.take()
            && let Some(large) = self.heap.large_mut(self.handle)
        {
            let after = large.bytes();
            self.heap.large_resized(before, after);
        }
    }

    #[inline]
    fn moved(&mut self, handle: Handle) {
        if handle != self.handle {
            self.follow(handle);
        }
    }

    #[inline(never)]
    fn follow(&mut self, handle: Handle) {
        self.handle = handle;
        let expires = Expires::of(self.heap.entry(handle));
        self.index.set(self.at, handle, expires.any());
    }
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        self.settle();
        let entry = self.heap.entry(self.handle);
        let expires = Expires::of(entry);
        if expires != self.expired_before {
            self.index.set(self.at, self.handle, expires.any());
        }
        if let Some(volatile) = &mut self.volatile
            && (expires.fields || self.expired_before.fields)
        {
            volatile.changed(self.expired_before, Some(entry));
        }
    }
}
