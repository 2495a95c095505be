//! Compaction: emptying the emptiest pages of a heap, one entry per call, so that they can go back to the arena.
//! HOT: no syscall, no log. Not a pause: a call does a bounded, small amount of work, and a write or a background slice makes it.
//!
//! ```text
//! victim, draining:  | seen: its free blocks are in no list | cursor -> not seen yet |
//! victim, moving:    | one free block, in no list           | cursor -> entries and free blocks, in no list |
//! ```
//!
//! A page is chosen as the victim if it is the emptiest of a sample. First its free blocks are taken out of the lists, some per call, so
//! that nothing new is allocated there; then its entries are copied to other pages, one per call. When the last has left, the page is
//! free as a whole.

#![allow(unsafe_code, reason = "the island of data: moves entries from page to page")]

use crate::block::{LINKED_GRANULES_MIN, free_size, is_free};
use crate::entry::{EntryRef, Kind, PREV_FREE, block_bytes};
use crate::handle::{GRANULE_BYTES, Handle};
use crate::heap::{Heap, Page, granules};
use crate::pages::PageIndex;

/// Pages looked at for a victim.
const SAMPLE: usize = 24;
/// Blocks looked at per call while the victim's free blocks are taken out of the lists.
const DRAIN_BLOCKS: usize = 32;
/// A heap is compacted when more than 1/20 = 5 % of its page bytes are free, and enough for a page to become free. Steady churn of mixed
/// sizes leaves 4.7 to 5 % in a heap of 15,000 entries; a lower bound would move entries all the time and gain nothing.
const WASTE_SHARE: u64 = 20;
/// Calls to sit out when no page of the sample was worth emptying.
const PAUSE_CALLS: u32 = 64;

/// The page that is being emptied.
#[derive(Default)]
pub(crate) struct Victim {
    /// Its first page; 0: there is none.
    first: PageIndex,
    /// Bytes from the start of the page: all free blocks before it are in no list.
    cursor: usize,
    /// Whether the entries are being moved; no free block of the page is in a list then.
    moving: bool,
    pause: u32,
    /// State of the sampling: a Weyl sequence.
    sample: u32,
}

/// What a call of [`Heap::compact_step`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// There is nothing worth doing.
    Idle,
    /// Some work; no entry moved.
    Prepared,
    /// An entry moved.
    Moved,
}

impl Victim {
    #[inline(always)]
    pub(crate) fn is(&self, page: Page) -> bool {
        page.first == self.first
    }

    /// Whether a free block is in no list because its page is being emptied.
    #[inline(always)]
    pub(crate) fn hides(&self, page: Page, block: *const u8) -> bool {
        self.is(page) && (self.moving || block.addr() - page.start.addr() < self.cursor)
    }

    /// The same for a block that has just become free, or longer. The cursor leaves blocks that are no more.
    #[inline(always)]
    pub(crate) fn absorbs(&mut self, page: Page, block: *const u8, size: u32) -> bool {
        if !self.is(page) {
            return false;
        }
        let start = block.addr() - page.start.addr();
        if start < self.cursor {
            self.cursor = self.cursor.max(start + size as usize * GRANULE_BYTES);
        }
        self.hides(page, block)
    }

    /// The page is given back.
    pub(crate) fn forget(&mut self, page: Page) {
        if self.is(page) {
            (self.first, self.cursor, self.moving) = (0, 0, false);
        }
    }
}

impl Heap {
    /// Bytes in the heap's pages that no entry uses.
    pub fn waste(&self) -> u64 {
        self.page_bytes - self.block_bytes
    }

    /// Whether [`Heap::compact_step`] has something to do.
    #[inline]
    pub fn wants_compaction(&self) -> bool {
        // One comparison for most heaps: little waste.
        self.waste() > self.page_bytes / WASTE_SHARE && (self.victim.first != 0 || self.could_free_a_page())
    }

    /// Moves compaction on by a small step. When an entry moves, `moved` gets it at its new place, its old and its new handle, and must put the new
    /// handle where the old one was kept; afterwards the old one is invalid.
    pub fn compact_step(&mut self, moved: impl FnOnce(EntryRef<'_>, Handle, Handle)) -> Step {
        if self.victim.first == 0 {
            return self.choose_victim();
        }
        if self.victim.moving { self.move_one(moved) } else { self.drain() }
    }

    /// Whether the free bytes would make a whole page, and a quarter of one more for what does not fit exactly.
    fn could_free_a_page(&self) -> bool {
        let pages = self.pages.len() as u64;
        pages > 1 && self.waste() >= (self.page_bytes + self.page_bytes / 4) / pages
            || self.block_bytes == 0 && pages == 1
    }

    fn choose_victim(&mut self) -> Step {
        if !self.wants_compaction() {
            return Step::Idle;
        }
        if self.block_bytes == 0 {
            self.give_last_page();
            return Step::Prepared;
        }
        if self.victim.pause > 0 {
            self.victim.pause -= 1;
            return Step::Idle;
        }
        let mut best: Option<(u64, Page)> = None;
        for _ in 0..SAMPLE.min(self.pages.len()) {
            // Golden ratio steps visit the list evenly.
            self.victim.sample = self.victim.sample.wrapping_add(0x9e37_79b9);
            let index = (u64::from(self.victim.sample) * self.pages.len() as u64) >> 32;
            let first = self.pages[index as usize];
            let (_, order) = self.arena.table().heap_page(first).expect("the list holds the heap's pages");
            let page = self.page(first, order);
            let used = u64::from(self.arena.table().used(first)) * GRANULE_BYTES as u64;
            let share = (used << 10) / page.bytes() as u64;
            if best.is_none_or(|(least, _)| share < least) {
                best = Some((share, page));
            }
        }
        // A page that is more than 90 % full costs more moves than it is worth (922 of 1024). All free bytes, its own included, must make up the page.
        match best {
            Some((share, page)) if share < 922 && self.waste() >= page.bytes() as u64 => {
                (self.victim.first, self.victim.cursor, self.victim.moving) = (page.first, 0, false);
                Step::Prepared
            }
            _ => {
                self.victim.pause = PAUSE_CALLS;
                Step::Idle
            }
        }
    }

    /// Takes free blocks of the victim out of the lists.
    fn drain(&mut self) -> Step {
        let page = self.victim_page();
        for _ in 0..DRAIN_BLOCKS {
            let at = page.start.wrapping_add(self.victim.cursor);
            if at >= page.end {
                (self.victim.cursor, self.victim.moving) = (0, true);
                if self.arena.table().used(page.first) == 0 {
                    // It was the heap's last page and was kept, empty, when an entry too long for it needed another.
                    self.give_page(page);
                }
                break;
            }
            // SAFETY: the cursor stands at a block of the page; blocks follow each other to its end.
            unsafe {
                if is_free(at) {
                    let size = free_size(at);
                    if size >= LINKED_GRANULES_MIN
                        && let Some(bins) = &mut self.bins
                    {
                        bins.unlink(self.base, at, size);
                    }
                    self.victim.cursor += size as usize * GRANULE_BYTES;
                } else {
                    self.victim.cursor += granules(block_bytes(at)) as usize * GRANULE_BYTES;
                }
            }
        }
        Step::Prepared
    }

    fn move_one(&mut self, moved: impl FnOnce(EntryRef<'_>, Handle, Handle)) -> Step {
        let page = self.victim_page();
        let mut from = page.start.wrapping_add(self.victim.cursor);
        // SAFETY: the cursor stands at a block of the page, which is not empty, so that a block in use follows a free one.
        let bytes = unsafe {
            if from < page.end && is_free(from) {
                let size = free_size(from) as usize * GRANULE_BYTES;
                self.victim.cursor += size;
                from = from.add(size);
            }
            assert!(from < page.end, "an empty page is given back, so an entry is left");
            if *from & 7 == Kind::Plain as u8 {
                self.spare_victim(page);
                return Step::Prepared;
            }
            block_bytes(from)
        };
        let to = self.take_bytes(bytes);
        // SAFETY: both are blocks of at least `bytes`, in different pages. The heap's bit in the flags belongs to the old place.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, bytes);
            *to &= !PREV_FREE;
            moved(EntryRef::new(to), self.handle(from), self.handle(to));
        }
        self.release(from);
        Step::Moved
    }

    /// Puts the victim's free blocks back into the lists: it holds a block that cannot move.
    fn spare_victim(&mut self, page: Page) {
        self.victim.forget(page);
        self.victim.pause = PAUSE_CALLS;
        let mut at = page.start;
        while at < page.end {
            // SAFETY: blocks follow each other from the start of the page to its end; none of the free ones is in a list.
            unsafe {
                let size = if is_free(at) {
                    self.link(page, at, free_size(at));
                    free_size(at)
                } else {
                    granules(block_bytes(at))
                };
                at = at.add(size as usize * GRANULE_BYTES);
            }
        }
    }

    fn victim_page(&self) -> Page {
        let (first, order) =
            self.arena.table().heap_page(self.victim.first).expect("the victim is a page of the heap");
        self.page(first, order)
    }

    /// An empty heap keeps its last page, for entries that come and go; here it goes too, with the lists.
    fn give_last_page(&mut self) {
        let first = self.pages[0];
        let (first, order) = self.arena.table().heap_page(first).expect("the list holds the heap's pages");
        self.bins = None;
        self.give_page(self.page(first, order));
    }
}
