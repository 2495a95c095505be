//! HOT: going through all entries of a heap in the order in which they lie in memory, which a processor reads ahead of by itself. Not a scan that may
//! be interrupted: nothing changes meanwhile.

#![allow(unsafe_code, reason = "the island of data: walks the blocks of a page")]

use crate::block::{free_size, is_free};
use crate::entry::{EntryRef, Kind, block_bytes};
use crate::handle::GRANULE_BYTES;
use crate::heap::{Heap, granules};
use crate::pages::PageIndex;

/// See [`Heap::entries`].
pub struct Entries<'a> {
    heap: &'a Heap,
    /// Pages and runs that are not begun.
    pages: &'a [PageIndex],
    runs: &'a [PageIndex],
    /// The next block of the page or run that is walked, and its end.
    at: *const u8,
    end: *const u8,
    in_run: bool,
}

impl Heap {
    /// Every entry, in the order in which they lie in memory, page after page.
    pub fn entries(&self) -> Entries<'_> {
        let nothing = std::ptr::null();
        Entries { heap: self, pages: &self.pages, runs: &self.runs, at: nothing, end: nothing, in_run: false }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = EntryRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<EntryRef<'a>> {
        loop {
            if self.at == self.end && !self.next_stretch() {
                return None;
            }
            let at = self.at;
            // SAFETY: blocks follow each other from the start of a page to its end, a run is one block, and they stay as they are while the
            // heap is borrowed.
            unsafe {
                if is_free(at) {
                    self.at = at.add(free_size(at) as usize * GRANULE_BYTES);
                    continue;
                }
                self.at = if self.in_run {
                    self.end
                } else {
                    at.add(granules(block_bytes(at)) as usize * GRANULE_BYTES)
                };
                if *at & 7 != Kind::Plain as u8 {
                    return Some(EntryRef::new(at));
                }
            }
        }
    }
}

impl Entries<'_> {
    /// Begins the next page or run; false if there is none.
    #[cold]
    fn next_stretch(&mut self) -> bool {
        if let Some((first, rest)) = self.pages.split_first() {
            self.pages = rest;
            let page = self.heap.page_starting(*first);
            (self.at, self.end) = (page.start, page.end);
            return true;
        }
        let Some((first, rest)) = self.runs.split_first() else { return false };
        self.runs = rest;
        let run = self.heap.arena.page_handle(*first);
        self.in_run = true;
        self.at = self.heap.at(run);
        self.end = self.at.wrapping_add(self.heap.arena.run_bytes(run));
        true
    }
}
