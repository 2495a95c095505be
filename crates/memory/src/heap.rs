//! The heap of one shard and database: a good-fit allocator for entries of all sizes, mixed in the same pages.
//! HOT: no syscall, no log; a lock and an allocation only where a page is taken or given back. Not the arena: pages come from there. Not an index:
//! nobody finds an entry here without its handle.
//!
//! ```text
//! page (8 to 64 KiB) | block | block | free | block | ... |      blocks are multiples of 4 bytes and fill the page
//! ```
//!
//! There are no size classes, so there is no partly filled page per class: with many shards that would cost more than the data. A
//! block in use has no header of the heap's own: its length follows from the entry in it, and two bits in its flags say that it
//! or the block before it is free. Free neighbours are always merged. Pages that hold nothing go back to the arena; how
//! pages become empty is in `compact.rs`.
//!
//! An entry that is too long for a page (a long key; long values are [`BigRef`]s) has a run of the arena to itself.
//!
//! The heap trusts its handles: one must not be used after the entry was freed or moved. Handles are kept by the index alone.

#![allow(unsafe_code, reason = "the island of data: hands out bytes of the arena's pages")]

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use crate::arena::Arena;
use crate::big::{BIG_REF_BYTES, BigRef};
use crate::block::{
    Base, Bins, LINKED_GRANULES_MIN, free_before, free_size, is_free, make_free, set_previous_free,
};
use crate::compact::Victim;
use crate::entry::{
    EntryMut, EntryParts, EntryRef, Kind, PLAIN_HEADER_BYTES, PREV_FREE, Shape, block_bytes, write_header,
};
use crate::handle::{GRANULE_BYTES, Handle};
use crate::large::{self, LARGE_VALUE_BYTES, Large};
use crate::pages::{ORDER_MAX, PAGE_BYTES, PageIndex};

/// The longest block in a page: a quarter of the largest page. Longer ones get a run.
const BLOCK_GRANULES_MAX: usize = (16 << 10) / GRANULE_BYTES;
/// A heap of fewer pages than this takes smaller ones, so that its last page costs little: 3 %.
const PAGES_PER_HEAP_MIN: u64 = 32;
/// Pages given back at once when a heap is dropped, so that the arena's mutex is not held long.
const GIVE_BATCH: usize = 64;
/// Pages of a large collection that are freed at once with its entry; one that has more becomes an orphan.
const RELEASE_PAGES_MAX: usize = 8;

/// A heap; see the module's page. An empty one owns no memory.
pub struct Heap {
    pub(crate) arena: &'static Arena,
    pub(crate) base: Base,
    pub(crate) bins: Option<Box<Bins>>,
    pub(crate) pages: Vec<PageIndex>,
    pub(crate) victim: Victim,
    pub(crate) runs: Vec<PageIndex>,
    /// Bytes of blocks in use in pages, and of the pages.
    pub(crate) block_bytes: u64,
    pub(crate) page_bytes: u64,
    /// Bytes of the runs of long entries.
    run_bytes: u64,
    /// Entries that own something, and the bytes of that: big values and large collections.
    owners: u64,
    owned_bytes: u64,
    /// Large collections whose entries are gone, to be freed by whoever takes them.
    orphans: Vec<Box<dyn Large>>,
}

/// A page of the heap: its place in the arena and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    pub(crate) first: PageIndex,
    pub(crate) order: u32,
    pub(crate) start: *mut u8,
    pub(crate) end: *mut u8,
}

impl Page {
    pub(crate) fn bytes(self) -> usize {
        PAGE_BYTES << self.order
    }
}

impl Heap {
    /// An empty heap.
    pub fn new(arena: &'static Arena) -> Heap {
        Heap {
            arena,
            base: Base(arena.base().as_ptr()),
            bins: None,
            pages: Vec::new(),
            victim: Victim::default(),
            runs: Vec::new(),
            block_bytes: 0,
            page_bytes: 0,
            run_bytes: 0,
            owners: 0,
            owned_bytes: 0,
            orphans: Vec::new(),
        }
    }

    /// Stores an entry. A value of more than [`crate::INLINE_BYTES_MAX`] belongs into [`Heap::insert_big`].
    #[inline]
    pub fn insert(&mut self, parts: &EntryParts<'_>) -> Handle {
        assert!(!parts.kind.owns() && parts.kind != Kind::Plain, "other functions make those");
        let at = self.take_bytes(parts.bytes());
        // SAFETY: the block is new and long enough.
        unsafe { parts.write(at) };
        self.handle(at)
    }

    /// Stores an entry that owns a big value.
    pub fn insert_big(&mut self, parts: &EntryParts<'_>, big: BigRef) -> Handle {
        self.owners += 1;
        self.owned_bytes += big.memory_bytes() as u64;
        let raw = big.into_raw();
        let parts = EntryParts { kind: Kind::Big, value: &raw, ..*parts };
        let at = self.take_bytes(parts.bytes());
        // SAFETY: the block is new and long enough.
        unsafe { parts.write(at) };
        self.handle(at)
    }

    /// Frees an entry (and gives up its reference to a big value) or a plain block.
    #[inline]
    pub fn free(&mut self, handle: Handle) {
        let at = self.at(handle);
        // SAFETY: the handle names a block in use.
        unsafe { debug_assert!(!is_free(at), "a block is freed twice") };
        self.drop_owned(handle);
        self.release(at);
    }

    /// The entry at a handle.
    #[inline(always)]
    pub fn entry(&self, handle: Handle) -> EntryRef<'_> {
        // SAFETY: the handle names an entry of this heap; it changes only through `&mut self`.
        unsafe { EntryRef::new(self.at(handle)) }
    }

    /// Asks for the entry at a handle, which need not be one any more.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        crate::index::prefetch(self.at(handle));
    }

    /// The entry at a handle, to be changed in place.
    #[inline(always)]
    pub fn entry_mut(&mut self, handle: Handle) -> EntryMut<'_> {
        // SAFETY: the handle names an entry of this heap, which is borrowed as a whole.
        unsafe { EntryMut::new(self.at(handle)) }
    }

    /// Changes the big value of an entry of [`Kind::Big`] in place.
    pub fn with_big<T>(&mut self, handle: Handle, change: impl FnOnce(&mut BigRef) -> T) -> T {
        assert_eq!(self.entry(handle).kind(), Kind::Big, "the entry owns a big value");
        let value = self.at(handle).wrapping_add(self.entry(handle).size() - BIG_REF_BYTES);
        // SAFETY: the value ends the entry. The entry owns the reference; it is taken out and the (perhaps different) reference put back. If `change`
        // panics, the process ends or the entry keeps a reference that was given up: then nobody reads it, the shard being lost.
        unsafe {
            let mut big = BigRef::from_raw(std::slice::from_raw_parts(value, BIG_REF_BYTES));
            self.owned_bytes -= big.memory_bytes() as u64;
            let result = change(&mut big);
            self.owned_bytes += big.memory_bytes() as u64;
            ptr::copy_nonoverlapping(big.into_raw().as_ptr(), value, BIG_REF_BYTES);
            result
        }
    }

    /// Stores an entry that owns a large collection; `tag` is its type byte.
    pub fn insert_large(&mut self, parts: &EntryParts<'_>, tag: u8, large: Box<dyn Large>) -> Handle {
        let raw = self.adopt(tag, large);
        let parts = EntryParts { kind: Kind::Large, value: &raw, ..*parts };
        let at = self.take_bytes(parts.bytes());
        // SAFETY: the block is new and long enough.
        unsafe { parts.write(at) };
        self.handle(at)
    }

    /// Gives an entry a large collection as its value, whatever it was. The handle where it now is.
    pub fn replace_large(
        &mut self,
        handle: Handle,
        deadline: Option<u64>,
        access: Option<[u8; 3]>,
        tag: u8,
        large: Box<dyn Large>,
    ) -> Handle {
        self.drop_owned(handle);
        let raw = self.adopt(tag, large);
        self.reshape(handle, &Meta { kind: Kind::Large, deadline, access }, Value::New(&raw))
    }

    /// Changes the first byte of the value of a collection.
    pub fn set_tag(&mut self, handle: Handle, tag: u8) {
        let entry = self.entry(handle);
        let tagged = matches!(entry.kind(), Kind::Collection | Kind::Large) && !entry.value().is_empty();
        assert!(tagged, "only collections have a tag");
        let value = self.at(handle).wrapping_add(entry.size() - entry.value().len());
        // SAFETY: the value ends the entry and is not empty.
        unsafe { *value = tag };
    }

    /// The collection of an entry of [`Kind::Large`], to be changed. Whoever changes its bytes tells [`Heap::large_resized`].
    #[inline]
    pub fn large_mut(&mut self, handle: Handle) -> Option<&mut dyn Large> {
        let entry = self.entry(handle);
        // SAFETY: the entry owns the collection, and the heap with the entry is borrowed for as long as the result lives.
        (entry.kind() == Kind::Large).then(|| unsafe { large::borrow_raw_mut(entry.value()) })
    }

    /// Takes the collection out of an entry of [`Kind::Large`], which then holds its type byte and zeroes.
    pub fn take_large(&mut self, handle: Handle) -> Box<dyn Large> {
        let entry = self.entry(handle);
        assert_eq!(entry.kind(), Kind::Large, "the entry owns a large collection");
        // SAFETY: the entry owns the collection and gives it up: its kind is changed below.
        let large = unsafe { large::from_raw(entry.value()) };
        self.owners -= 1;
        self.owned_bytes -= large.bytes();
        self.entry_mut(handle).forget_owned(Kind::Collection);
        self.entry_mut(handle).value_mut()[1..].fill(0);
        large
    }

    /// A large collection of this heap has changed from `before` to `after` bytes.
    #[inline]
    pub fn large_resized(&mut self, before: u64, after: u64) {
        self.owned_bytes = self.owned_bytes - before + after;
    }

    /// Whether collections wait to be freed.
    #[inline]
    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// Large collections whose entries are gone: whoever takes them frees them.
    pub fn take_orphans(&mut self) -> Vec<Box<dyn Large>> {
        std::mem::take(&mut self.orphans)
    }

    /// Frees some of the collections that wait: at most about `pages_max` pages. Whether some still wait.
    pub fn release_orphans(&mut self, pages_max: usize) -> bool {
        if self.orphans.last_mut().is_some_and(|large| large.release(pages_max)) {
            self.orphans.pop();
        }
        self.has_orphans()
    }

    fn adopt(&mut self, tag: u8, large: Box<dyn Large>) -> [u8; LARGE_VALUE_BYTES] {
        self.owners += 1;
        self.owned_bytes += large.bytes();
        large::into_raw(tag, large)
    }

    /// Gives an entry another kind, value, deadline and access metadata; its key stays. The handle where it now is: the same as
    /// before if the entry takes as many granules. A big value that it had is given up.
    pub fn replace(&mut self, handle: Handle, meta: &Meta, value: &[u8]) -> Handle {
        assert!(!meta.kind.owns() && meta.kind != Kind::Plain, "other functions make those");
        self.drop_owned(handle);
        self.reshape(handle, meta, Value::New(value))
    }

    /// The same with a big value.
    pub fn replace_big(&mut self, handle: Handle, meta: &Meta, big: BigRef) -> Handle {
        self.drop_owned(handle);
        self.owners += 1;
        self.owned_bytes += big.memory_bytes() as u64;
        self.reshape(handle, &Meta { kind: Kind::Big, ..*meta }, Value::New(&big.into_raw()))
    }

    /// Gives an entry another deadline and other access metadata; key and value stay. The handle where it now is.
    pub fn set_meta(&mut self, handle: Handle, deadline: Option<u64>, access: Option<[u8; 3]>) -> Handle {
        let entry = self.entry(handle);
        let (kind, value_bytes) = (entry.kind(), entry.value().len());
        self.reshape(handle, &Meta { kind, deadline, access }, Value::Resized(value_bytes))
    }

    /// Gives the value of an entry another length (its start stays, what is added is 0) and kind. The handle where the
    /// entry now is: it stays if it becomes shorter, if the block's granules suffice, or if the block behind it is free and long enough.
    pub fn resize_value(&mut self, handle: Handle, kind: Kind, value_bytes: usize) -> Handle {
        let entry = self.entry(handle);
        assert!(
            !entry.kind().owns() && !kind.owns() && kind != Kind::Plain,
            "what an entry owns resizes itself"
        );
        let meta = Meta { kind, deadline: entry.deadline(), access: entry.access() };
        self.reshape(handle, &meta, Value::Resized(value_bytes))
    }

    /// Gives the value of an entry of [`Kind::Big`] another length; its bytes, to be changed: what was there, then zeroes. Whoever shares the
    /// value keeps it as it was.
    pub fn resize_big(&mut self, handle: Handle, bytes: usize) -> &mut [u8] {
        let (start, bytes) = self.with_big(handle, |big| {
            let value = big.make_mut(bytes);
            (value.as_mut_ptr(), value.len())
        });
        // SAFETY: the entry holds the only reference to these bytes, and the heap with the entry is borrowed for as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    /// Gives back at most `pages_max` pages and then as many runs, whatever is in them: for a heap whose entries nobody will use again. True
    /// when nothing is left; until then the heap must not be used for anything else.
    pub fn dismantle(&mut self, pages_max: usize) -> bool {
        let pages = self.pages.split_off(self.pages.len().saturating_sub(pages_max));
        for first in &pages {
            self.drop_owned_in(*first);
        }
        self.arena.give(&pages);
        if self.pages.is_empty() {
            let runs = self.runs.split_off(self.runs.len().saturating_sub(pages_max));
            for first in &runs {
                self.drop_owned(self.arena.page_handle(*first));
            }
            self.arena.give(&runs);
        }
        let done = self.pages.is_empty() && self.runs.is_empty();
        if done {
            (self.bins, self.victim) = (None, Victim::default());
            (self.block_bytes, self.page_bytes, self.run_bytes) = (0, 0, 0);
        }
        done
    }

    /// A block of `bytes` for another structure, not zeroed. Compaction does not move it.
    pub fn alloc_block(&mut self, bytes: usize) -> Handle {
        let whole = bytes + PLAIN_HEADER_BYTES;
        let at = self.take_bytes(whole);
        // A run knows its own length; the header of its block says 0.
        let whole = if granules(whole) as usize > BLOCK_GRANULES_MAX { 0 } else { whole as u32 };
        // SAFETY: the block is new and has room for its header; the block before it is in use.
        unsafe { at.cast::<u32>().write((whole << 8 | Kind::Plain as u32).to_le()) };
        self.handle(at)
    }

    /// The contents of a plain block: what was asked for, or a little more in a run.
    #[inline]
    pub fn block(&self, handle: Handle) -> &[u8] {
        let (start, bytes) = self.block_contents(handle);
        // SAFETY: the handle names a plain block of this heap, which changes only through `&mut self`.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// The same, to be written.
    #[inline]
    pub fn block_mut(&mut self, handle: Handle) -> &mut [u8] {
        let (start, bytes) = self.block_contents(handle);
        // SAFETY: as above, and the heap is borrowed as a whole.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    /// Bytes of all entries, rounded up to granules, and of what they own.
    pub fn live_bytes(&self) -> u64 {
        self.block_bytes + self.run_bytes + self.owned_bytes
    }

    /// Bytes of the arena's pages and runs that this heap and what its entries own occupy.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes + self.run_bytes + self.owned_bytes
    }

    #[inline(always)]
    pub(crate) fn at(&self, handle: Handle) -> *mut u8 {
        self.base.address(handle.raw())
    }

    /// The handle of an entry of this heap.
    #[inline]
    pub fn handle_of(&self, entry: EntryRef<'_>) -> Handle {
        self.handle(entry.address())
    }

    #[inline(always)]
    pub(crate) fn handle(&self, at: *const u8) -> Handle {
        Handle::from_raw(self.base.link(at)).expect("blocks lie in the arena, behind chunk 0")
    }

    /// A block of `bytes` that looks like an entry to come: its flags are 0.
    #[inline]
    pub(crate) fn take_bytes(&mut self, bytes: usize) -> *mut u8 {
        let size = granules(bytes);
        if size as usize > BLOCK_GRANULES_MAX {
            return self.take_run(bytes);
        }
        loop {
            // SAFETY: the bins hold free blocks of this heap.
            let found = self.bins.as_ref().and_then(|bins| unsafe { bins.find(self.base, size) });
            match found {
                Some(block) => return self.carve(block, size),
                None => self.add_page(size),
            }
        }
    }

    /// Frees a block, without looking at what it owned.
    pub(crate) fn release(&mut self, at: *mut u8) {
        let Some(page) = self.page_of(at) else { return self.release_run(at) };
        // SAFETY: `at` is a block in use, and the blocks of a page follow each other up to its end; a free neighbour is one block, as
        // free neighbours are always merged.
        unsafe {
            let freed = granules(block_bytes(at));
            self.block_bytes -= u64::from(freed) * GRANULE_BYTES as u64;
            let used = self.arena.table().used(page.first) - freed;
            self.arena.table().set_used(page.first, used);
            let (mut start, mut size) = (at, freed);
            let next = at.add(size as usize * GRANULE_BYTES);
            if next < page.end {
                if is_free(next) {
                    let more = free_size(next);
                    self.unlink(page, next, more);
                    size += more;
                } else {
                    set_previous_free(next, true);
                }
            }
            if *at & PREV_FREE != 0 {
                let (before, more) = free_before(at);
                self.unlink(page, before, more);
                (start, size) = (before, size + more);
            }
            if used == 0 {
                debug_assert!(start == page.start && size as usize * GRANULE_BYTES == page.bytes());
                if self.pages.len() > 1 {
                    return self.give_page(page);
                }
                self.victim.forget(page);
            }
            make_free(start, size);
            self.link(page, start, size);
        }
    }

    /// The page that holds `at`; None if that is in a run.
    #[inline(always)]
    pub(crate) fn page_of(&self, at: *const u8) -> Option<Page> {
        let index = ((at.addr() - self.base.0.addr()) / PAGE_BYTES) as PageIndex;
        let (first, order) = self.arena.table().heap_page(index)?;
        Some(self.page(first, order))
    }

    #[inline(always)]
    pub(crate) fn page(&self, first: PageIndex, order: u32) -> Page {
        let start = self.base.0.wrapping_add(first as usize * PAGE_BYTES);
        Page { first, order, start, end: start.wrapping_add(PAGE_BYTES << order) }
    }

    /// The page that begins there, which must be one of the heap's.
    pub(crate) fn page_starting(&self, first: PageIndex) -> Page {
        let (first, order) = self.arena.table().heap_page(first).expect("the list holds the heap's pages");
        self.page(first, order)
    }

    /// Gives an empty page back to the arena. Its blocks must be in no list.
    pub(crate) fn give_page(&mut self, page: Page) {
        let table = self.arena.table();
        let position = table.position(page.first) as usize;
        let removed = self.pages.swap_remove(position);
        assert_eq!(removed, page.first, "a page knows its place in the list");
        if let Some(&moved) = self.pages.get(position) {
            table.set_position(moved, position as u32);
        }
        self.page_bytes -= page.bytes() as u64;
        self.victim.forget(page);
        self.arena.give(&[page.first]);
    }

    /// Puts a free block into its list, unless it is too short or lies where compaction is emptying a page.
    ///
    /// # Safety
    /// The block must be free, merged with its neighbours, and in no list.
    #[inline(always)]
    pub(crate) unsafe fn link(&mut self, page: Page, block: *mut u8, size: u32) {
        if !self.victim.absorbs(page, block, size)
            && size >= LINKED_GRANULES_MIN
            && let Some(bins) = &mut self.bins
        {
            // SAFETY: the caller vouches for the block.
            unsafe { bins.link(self.base, block, size) };
        }
    }

    /// Takes a free block out of its list, if it stands in one.
    ///
    /// # Safety
    /// The block must be free.
    #[inline(always)]
    unsafe fn unlink(&mut self, page: Page, block: *mut u8, size: u32) {
        if size >= LINKED_GRANULES_MIN
            && !self.victim.hides(page, block)
            && let Some(bins) = &mut self.bins
        {
            // SAFETY: the caller vouches for the block; all others of this size stand in a list.
            unsafe { bins.unlink(self.base, block, size) };
        }
    }

    /// Makes the first `size` granules of a free block a block in use.
    #[inline]
    fn carve(&mut self, block: *mut u8, size: u32) -> *mut u8 {
        let page = self.page_of(block).expect("free blocks lie in the heap's pages");
        // SAFETY: the block stands in a list, so it is free and long enough; what follows it in the page is a block.
        unsafe {
            let whole = free_size(block);
            self.unlink(page, block, whole);
            self.split(page, block, size, whole);
            *block = 0;
        }
        block
    }

    /// Counts the first `size` granules of `whole` as in use, and makes the others a free block.
    ///
    /// # Safety
    /// The granules must be in no list and belong to the caller.
    #[inline(always)]
    unsafe fn split(&mut self, page: Page, block: *mut u8, size: u32, whole: u32) {
        crate::poison::in_use(block, size as usize * GRANULE_BYTES);
        // SAFETY: what follows the granules in the page is a block.
        unsafe {
            let rest = block.add(size as usize * GRANULE_BYTES);
            if whole > size {
                make_free(rest, whole - size);
                self.link(page, rest, whole - size);
            } else if rest < page.end {
                set_previous_free(rest, false);
            }
        }
        let table = self.arena.table();
        table.set_used(page.first, table.used(page.first) + size);
        self.block_bytes += u64::from(size) * GRANULE_BYTES as u64;
    }

    /// Lengthens a block in use if the block behind it is free and long enough.
    fn extend(&mut self, at: *mut u8, has: u32, wanted: u32) -> bool {
        let Some(page) = self.page_of(at) else { return false };
        if wanted as usize > BLOCK_GRANULES_MAX || self.victim.is(page) {
            return false;
        }
        // SAFETY: `at` is a block in use of `has` granules; what follows it in the page is a block.
        unsafe {
            let next = at.add(has as usize * GRANULE_BYTES);
            if next >= page.end || !is_free(next) || free_size(next) < wanted - has {
                return false;
            }
            let whole = free_size(next);
            self.unlink(page, next, whole);
            self.split(page, next, wanted - has, whole);
        }
        true
    }

    #[cold]
    fn add_page(&mut self, size: u32) {
        let bytes = size as usize * GRANULE_BYTES;
        let order_of =
            |bytes: usize| bytes.div_ceil(PAGE_BYTES).next_power_of_two().ilog2().clamp(1, ORDER_MAX);
        let preferred = order_of((self.page_bytes / PAGES_PER_HEAP_MIN) as usize);
        // A page holds four blocks of this size if it can, two at least.
        let (first, order) =
            self.arena.take_heap_page(order_of(2 * bytes), preferred.max(order_of(4 * bytes)));
        let page = self.page(first, order);
        self.arena.table().set_position(first, self.pages.len() as u32);
        self.pages.push(first);
        self.page_bytes += page.bytes() as u64;
        self.bins.get_or_insert_with(|| Box::new(Bins::new()));
        let whole = (page.bytes() / GRANULE_BYTES) as u32;
        // SAFETY: the page is new.
        unsafe {
            make_free(page.start, whole);
            self.link(page, page.start, whole);
        }
    }

    #[cold]
    fn take_run(&mut self, bytes: usize) -> *mut u8 {
        let run = self.arena.alloc_run(bytes);
        let first = self.arena.page_index(run);
        self.arena.table().run_position(first).store(self.runs.len() as u32, Relaxed);
        self.runs.push(first);
        self.run_bytes += self.arena.run_bytes(run) as u64;
        let at = self.at(run);
        // SAFETY: the run is new.
        unsafe { *at = 0 };
        at
    }

    #[cold]
    fn release_run(&mut self, at: *mut u8) {
        let run = self.handle(at);
        let first = self.arena.page_index(run);
        let position = self.arena.table().run_position(first).load(Relaxed) as usize;
        let removed = self.runs.swap_remove(position);
        assert_eq!(removed, first, "a run knows its place in the list");
        if let Some(&moved) = self.runs.get(position) {
            self.arena.table().run_position(moved).store(position as u32, Relaxed);
        }
        self.run_bytes -= self.arena.run_bytes(run) as u64;
        self.arena.free_run(run);
    }

    #[inline(always)]
    fn block_contents(&self, handle: Handle) -> (*mut u8, usize) {
        let at = self.at(handle);
        // SAFETY: the handle names a block in use.
        let bytes = match unsafe { block_bytes(at) } {
            0 => self.arena.run_bytes(handle),
            bytes => bytes,
        };
        // SAFETY: the handle names a plain block, which starts with flags and has room for its header.
        unsafe {
            assert_eq!(*at & 7, Kind::Plain as u8, "the handle names a plain block");
            (at.add(PLAIN_HEADER_BYTES), bytes - PLAIN_HEADER_BYTES)
        }
    }

    /// Gives up what an entry owns, if anything. The entry still says it does. A large collection of many pages becomes an orphan.
    #[inline(always)]
    fn drop_owned(&mut self, handle: Handle) {
        if self.owners != 0 {
            self.drop_owned_of(handle);
        }
    }

    #[inline(never)]
    fn drop_owned_of(&mut self, handle: Handle) {
        let entry = self.entry(handle);
        match entry.kind() {
            Kind::Big => {
                // SAFETY: the entry owns the reference and is about to be freed or overwritten.
                let big = unsafe { BigRef::from_raw(entry.value()) };
                self.owners -= 1;
                self.owned_bytes -= big.memory_bytes() as u64;
            }
            Kind::Large => {
                // SAFETY: the same.
                let mut large = unsafe { large::from_raw(entry.value()) };
                self.owners -= 1;
                self.owned_bytes -= large.bytes();
                if !large.release(RELEASE_PAGES_MAX) {
                    self.orphans.push(large);
                }
            }
            _ => {}
        }
    }

    /// Rewrites an entry with another header and value, in its block if that fits.
    fn reshape(&mut self, handle: Handle, meta: &Meta, value: Value<'_>) -> Handle {
        let (from, entry) = (self.at(handle), self.entry(handle));
        let (header_bytes, key_bytes, old_bytes) = entry.extents();
        let key = from.wrapping_add(header_bytes);
        let value_bytes = match value {
            Value::New(bytes) => bytes.len(),
            Value::Resized(bytes) => bytes,
        };
        let kept = match value {
            Value::New(_) => 0,
            Value::Resized(bytes) => bytes.min(old_bytes),
        };
        let shape = Shape::new(meta.kind, key_bytes, value_bytes, meta.deadline, meta.access);
        let (wanted, has) = (granules(shape.bytes()), granules(header_bytes + key_bytes + old_bytes));
        // Growing and shrinking in place is for values that are resized, because those are likely to grow again.
        let resized = matches!(value, Value::Resized(_));
        let page = self.page_of(from);
        let shrinks = page.filter(|page| resized && wanted < has && !self.victim.is(*page));
        let stays = page.is_some()
            && (wanted == has
                || shrinks.is_some()
                || wanted > has && resized && self.extend(from, has, wanted));
        let to = if stays { from } else { self.take_bytes(shape.bytes()) };
        // SAFETY: `to` is the entry's own block or a new one, of enough bytes. In the own block key and value stay adjacent, so that
        // one overlapping copy moves both before the header in front of them is written.
        unsafe {
            let key_to = to.add(shape.bytes() - value_bytes - key_bytes);
            if key_to != key {
                ptr::copy(key, key_to, key_bytes + kept);
            }
            write_header(to, &shape, meta.deadline, meta.access);
            let rest = key_to.add(key_bytes + kept);
            match value {
                Value::New(bytes) => ptr::copy_nonoverlapping(bytes.as_ptr(), rest, value_bytes),
                Value::Resized(_) => ptr::write_bytes(rest, 0, value_bytes - kept),
            }
        }
        if let Some(page) = shrinks {
            self.cut_off(page, from, has, wanted);
        } else if !stays {
            self.release(from);
        }
        self.handle(to)
    }

    /// Makes the end of a block in use, of `has` granules, a free block; the first `wanted` stay in use.
    fn cut_off(&mut self, page: Page, at: *mut u8, has: u32, wanted: u32) {
        // SAFETY: the granules behind the first `wanted` belong to the block and are read by nobody any more; what follows the block in the
        // page is a block, merged with its own neighbours if it is free.
        unsafe {
            let rest = at.add(wanted as usize * GRANULE_BYTES);
            let next = at.add(has as usize * GRANULE_BYTES);
            let mut size = has - wanted;
            if next < page.end && is_free(next) {
                let more = free_size(next);
                self.unlink(page, next, more);
                size += more;
            } else if next < page.end {
                set_previous_free(next, true);
            }
            make_free(rest, size);
            self.link(page, rest, size);
        }
        let table = self.arena.table();
        table.set_used(page.first, table.used(page.first) - (has - wanted));
        self.block_bytes -= u64::from(has - wanted) * GRANULE_BYTES as u64;
    }

    fn drop_owned_in(&mut self, first: PageIndex) {
        let page = self.page_of(self.base.0.wrapping_add(first as usize * PAGE_BYTES));
        let page = page.expect("the list holds the heap's pages");
        let mut at = page.start;
        while at < page.end && self.owners != 0 {
            // SAFETY: blocks follow each other from the start of the page to its end.
            unsafe {
                if is_free(at) {
                    at = at.add(free_size(at) as usize * GRANULE_BYTES);
                } else {
                    let next = at.add(granules(block_bytes(at)) as usize * GRANULE_BYTES);
                    self.drop_owned(self.handle(at));
                    at = next;
                }
            }
        }
    }
}

/// What an entry says about its value.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// What the value is.
    pub kind: Kind,
    /// Unix time in ms when the entry expires.
    pub deadline: Option<u64>,
    /// Eviction metadata.
    pub access: Option<[u8; 3]>,
}

/// The value of an entry that is rewritten.
#[derive(Clone, Copy)]
enum Value<'a> {
    New(&'a [u8]),
    Resized(usize),
}

impl Drop for Heap {
    /// Gives all pages back. Takes time in proportion to the pages, except where big values must be looked for.
    fn drop(&mut self) {
        while !self.dismantle(GIVE_BATCH) {}
        while self.release_orphans(GIVE_BATCH) {}
    }
}

#[inline(always)]
pub(crate) fn granules(bytes: usize) -> u32 {
    bytes.div_ceil(GRANULE_BYTES) as u32
}

#[cfg(test)]
#[path = "heap_tests.rs"]
mod tests;
