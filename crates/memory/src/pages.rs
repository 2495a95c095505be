//! The page allocator: which 4 KiB pages of the arena are whose. It hands out pages of 4, 8, 16, 32 and 64 KiB (aligned
//! to their size) and runs (any multiple of 4 KiB), and keeps what the heaps need to know about a page. It touches only
//! the side table, never the pages themselves, and makes no syscall: it lives under the arena's mutex.
//!
//! The arena is divided into chunks of 64 KiB = 16 pages; each chunk has one line in the side table (64 B per 64 KiB,
//! 0.1 %):
//!
//! ```text
//! state        8 B   16 nibbles, one per page: free, page of a heap or another owner and its order, run, span
//! used        16 B   for each of the 8 possible heap pages (>= 8 KiB): granules of 4 B in use
//! position    32 B   for each of them: where it stands in its owner's list of pages
//! previous 4, next 4 list of chunks with a free piece of the same order, or list of free spans of a similar length
//! ```
//!
//! A chunk is *split* (some of its pages are free, others not: it stands in the list of its largest free piece), taken, or part of a
//! *span*: a stretch of free chunks that begins and ends with its length, in `position[0]` and `position[1]`. Free
//! neighbours are merged at once, so there are never two free spans of one kind side by side. Kinds: *dirty* memory has been
//! used and costs nothing to use again; *clean* memory holds no RAM (never touched, or returned to the kernel).

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::bins::{BINS_MAX, BinMap, bin_of};

/// The smallest page: what the kernel maps.
pub const PAGE_BYTES: usize = 4096;
/// Pages per chunk.
pub(crate) const CHUNK_PAGES: u32 = 16;
/// Bytes per chunk, the largest page: 16 x 4 KiB.
pub(crate) const CHUNK_BYTES: usize = CHUNK_PAGES as usize * PAGE_BYTES;
/// Order of the largest page: 4 KiB x 2^4 = 64 KiB.
pub(crate) const ORDER_MAX: u32 = 4;
/// Spans of fewer chunks than 2^4 have a bin of their own.
const SPAN_EXACT_LOG: u32 = 4;
/// Split chunks that the search for a run of pages looks at in each list.
const RUN_TRIES: usize = 8;
/// No chunk: chunk 0 is never handed out, so that no handle is 0.
const NONE: u32 = 0;

/// Index of a 4 KiB page in the arena.
pub(crate) type PageIndex = u32;

/// The nibbles of [`ChunkMeta::state`].
mod nibble {
    pub(crate) const FREE_DIRTY: u64 = 0;
    pub(crate) const FREE_CLEAN: u64 = 1;
    /// A heap's page of order 1 is 2, of order 4 is 5.
    pub(crate) const HEAP: u64 = 1;
    pub(crate) const HEAP_LAST: u64 = 5;
    /// Another owner's page of order 0 is 6, of order 4 is 10.
    pub(crate) const PLAIN: u64 = 6;
    pub(crate) const PLAIN_LAST: u64 = 10;
    pub(crate) const RUN_HEAD: u64 = 11;
    pub(crate) const RUN_BODY: u64 = 12;
    pub(crate) const SPAN_CLEAN: u64 = 14;
    pub(crate) const SPAN_DIRTY: u64 = 15;
    /// One in each nibble: times a code it fills a state.
    pub(crate) const ALL: u64 = 0x1111_1111_1111_1111;
}

/// What the side table knows about one chunk; see the drawing above. Atomics because heaps of different shards may have pages in the
/// same chunk; each field has one writer at a time (the page's owner, or the holder of the arena's mutex), so relaxed
/// order suffices: whoever gets a page got it through the mutex.
#[repr(C, align(64))]
pub(crate) struct ChunkMeta {
    state: AtomicU64,
    used: [AtomicU16; 8],
    position: [AtomicU32; 8],
    previous: AtomicU32,
    next: AtomicU32,
}

const _: () = assert!(size_of::<ChunkMeta>() == 64);

/// What a page belongs to, as [`Table::owner`] tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// A page of a block heap.
    Heap { first: PageIndex, order: u32 },
    /// A page of another owner: index, directory.
    Plain { first: PageIndex, order: u32 },
    /// The first page of a run of `pages`.
    Run { pages: u32 },
    /// Not handed out, or inside a run.
    Other,
}

/// The side table. Reading and writing its page fields takes no lock.
#[derive(Clone, Copy)]
pub(crate) struct Table(pub(crate) &'static [ChunkMeta]);

impl Table {
    #[inline(always)]
    fn meta(self, chunk: u32) -> &'static ChunkMeta {
        &self.0[chunk as usize]
    }

    #[inline(always)]
    fn state(self, chunk: u32) -> u64 {
        self.meta(chunk).state.load(Relaxed)
    }

    #[inline(always)]
    fn nibble(self, page: PageIndex) -> u64 {
        (self.state(page / CHUNK_PAGES) >> (4 * (page % CHUNK_PAGES))) & 15
    }

    /// The heap page that holds `page`: its first page and its order. None if `page` is not a heap's.
    #[inline(always)]
    pub(crate) fn heap_page(self, page: PageIndex) -> Option<(PageIndex, u32)> {
        let code = self.nibble(page);
        if (nibble::HEAP + 1..=nibble::HEAP_LAST).contains(&code) {
            let order = (code - nibble::HEAP) as u32;
            Some((page >> order << order, order))
        } else {
            None
        }
    }

    pub(crate) fn owner(self, page: PageIndex) -> Extent {
        if let Some((first, order)) = self.heap_page(page) {
            return Extent::Heap { first, order };
        }
        match self.nibble(page) {
            code @ nibble::PLAIN..=nibble::PLAIN_LAST => {
                let order = (code - nibble::PLAIN) as u32;
                Extent::Plain { first: page >> order << order, order }
            }
            nibble::RUN_HEAD => Extent::Run { pages: self.run_pages(page) },
            _ => Extent::Other,
        }
    }

    /// Length of the run that starts at `page`.
    pub(crate) fn run_pages(self, page: PageIndex) -> u32 {
        let (chunk, at) = (page / CHUNK_PAGES, page % CHUNK_PAGES);
        let after = self.state(chunk).checked_shr(4 * (at + 1)).unwrap_or(0);
        let body = (after ^ (nibble::ALL * nibble::RUN_BODY)).trailing_zeros() / 4;
        let in_chunk = 1 + body.min(CHUNK_PAGES - 1 - at);
        if in_chunk < CHUNK_PAGES { in_chunk } else { self.meta(chunk).position[0].load(Relaxed) }
    }

    /// Granules in use in the heap page that starts at `first`.
    #[inline(always)]
    pub(crate) fn used(self, first: PageIndex) -> u32 {
        u32::from(self.meta(first / CHUNK_PAGES).used[pair(first)].load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set_used(self, first: PageIndex, granules: u32) {
        self.meta(first / CHUNK_PAGES).used[pair(first)].store(granules as u16, Relaxed);
    }

    /// Where the heap page stands in its heap's list.
    pub(crate) fn position(self, first: PageIndex) -> u32 {
        self.meta(first / CHUNK_PAGES).position[pair(first)].load(Relaxed)
    }

    pub(crate) fn set_position(self, first: PageIndex, position: u32) {
        self.meta(first / CHUNK_PAGES).position[pair(first)].store(position, Relaxed);
    }

    /// The same for a run of at least five pages: it covers this pair of pages whole, and the pair does not hold its length.
    pub(crate) fn run_position(self, first: PageIndex) -> &'static AtomicU32 {
        &self.meta(first / CHUNK_PAGES).position[((first % CHUNK_PAGES).div_ceil(2) + 1) as usize]
    }
}

fn pair(page: PageIndex) -> usize {
    ((page % CHUNK_PAGES) / 2) as usize
}

/// Whom pages are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    Heap,
    Plain,
}

/// The allocator's state, under the arena's mutex.
pub(crate) struct Pages {
    table: Table,
    /// Chunks from here on have never been handed out.
    frontier: u32,
    /// Heads of the lists of split chunks, by the order of their largest free piece.
    split: [u32; ORDER_MAX as usize],
    dirty: Spans,
    clean: Spans,
    /// Where the next call of [`Pages::take_dirty`] looks for dirty pieces in split chunks.
    trim_cursor: u32,
    pub(crate) counts: PageCounts,
}

/// What is handed out, exactly; pages of 4 KiB.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct PageCounts {
    /// Pages handed out.
    pub used: u64,
    /// Free pages that still hold RAM.
    pub dirty: u64,
    /// Pages handed out to heaps, by order (4 KiB x 2^order).
    pub heap: [u64; 5],
    /// Pages handed out to other owners (index, directories), by order.
    pub plain: [u64; 5],
    /// Runs handed out.
    pub runs: u64,
    /// Pages in them.
    pub run_pages: u64,
}

struct Spans {
    map: BinMap,
    heads: [u32; BINS_MAX],
    code: u64,
}

impl Pages {
    /// An allocator over a zeroed table.
    pub(crate) fn new(table: Table) -> Pages {
        let spans = |code| Spans { map: BinMap::default(), heads: [NONE; BINS_MAX], code };
        Pages {
            table,
            frontier: 1,
            split: [NONE; ORDER_MAX as usize],
            dirty: spans(nibble::SPAN_DIRTY),
            clean: spans(nibble::SPAN_CLEAN),
            trim_cursor: 1,
            counts: PageCounts::default(),
        }
    }

    /// Bytes of the arena that have ever been handed out.
    pub(crate) fn frontier_bytes(&self) -> u64 {
        u64::from(self.frontier) * CHUNK_BYTES as u64
    }

    /// Takes a page of `order`, or a smaller one down to `order_min` when split chunks have one: without this, small
    /// pages that grown heaps gave back would pile up. None: the arena is full.
    pub(crate) fn take(&mut self, whom: For, order_min: u32, order: u32) -> Option<(PageIndex, u32)> {
        assert!(order_min <= order && order <= ORDER_MAX, "pages are of 4 to 64 KiB");
        assert!(whom == For::Plain || order_min > 0, "heap pages start at 8 KiB");
        let split = |list: u32| self.split[list as usize] != NONE;
        let (chunk, order) = if let Some(list) = (order..ORDER_MAX).find(|&list| split(list)) {
            (self.split[list as usize], order)
        } else if let Some(list) = (order_min..order.min(ORDER_MAX)).rev().find(|&list| split(list)) {
            (self.split[list as usize], list)
        } else {
            (self.open_chunk()?, order)
        };
        let state = self.table.state(chunk);
        let at = best_piece(free_pages(state), order);
        let code = match whom {
            For::Heap => nibble::HEAP + u64::from(order),
            For::Plain => nibble::PLAIN + u64::from(order),
        };
        self.counts.dirty -= u64::from(dirty_pages(state, at, 1 << order));
        self.restate(chunk, filled(state, at, 1 << order, code));
        match whom {
            For::Heap => self.counts.heap[order as usize] += 1,
            For::Plain => self.counts.plain[order as usize] += 1,
        }
        self.counts.used += 1 << order;
        let first = chunk * CHUNK_PAGES + at;
        if whom == For::Heap {
            self.table.set_used(first, 0);
        }
        Some((first, order))
    }

    /// Takes a run of `pages`.
    pub(crate) fn take_run(&mut self, pages: u32) -> Option<PageIndex> {
        let first =
            if pages < CHUNK_PAGES { self.take_short_run(pages)? } else { self.take_long_run(pages)? };
        self.counts.runs += 1;
        self.counts.run_pages += u64::from(pages);
        self.counts.used += u64::from(pages);
        Some(first)
    }

    /// Gives back a page or a run; it counts as dirty.
    pub(crate) fn free(&mut self, first: PageIndex) {
        let pages = match self.table.owner(first) {
            Extent::Heap { first: start, order } => {
                assert_eq!(start, first, "a page is freed by its start");
                self.counts.heap[order as usize] -= 1;
                1 << order
            }
            Extent::Plain { first: start, order } => {
                assert_eq!(start, first, "a page is freed by its start");
                self.counts.plain[order as usize] -= 1;
                1 << order
            }
            Extent::Run { pages } => {
                self.counts.runs -= 1;
                self.counts.run_pages -= u64::from(pages);
                pages
            }
            Extent::Other => panic!("page {first} is freed but not handed out"),
        };
        self.counts.used -= u64::from(pages);
        self.release(first, pages, nibble::FREE_DIRTY);
    }

    /// Takes free dirty memory out, so that the caller can return it to the kernel without the mutex: the first page and the
    /// number of pages, at most `pages_max`. Give it back with [`Pages::put_clean`]. Looks at a bounded number of chunks per call.
    pub(crate) fn take_dirty(&mut self, pages_max: u32) -> Option<(PageIndex, u32)> {
        if let Some(bin) = self.dirty.map.last() {
            let start = self.dirty.heads[bin];
            let length = self.table.meta(start).position[0].load(Relaxed);
            self.unlink_span(start, length, false);
            let taken = length.min((pages_max / CHUNK_PAGES).max(1));
            if taken < length {
                self.link_span(start + taken, length - taken, false);
            }
            self.claim(start, taken);
            self.counts.dirty -= u64::from(taken * CHUNK_PAGES);
            return Some((start * CHUNK_PAGES, taken * CHUNK_PAGES));
        }
        for _ in 0..TRIM_CHUNKS_MAX {
            let chunk = self.trim_cursor;
            let state = self.table.state(chunk);
            let dirty = free_pages(state) & !state;
            // A wholly free state is a leftover: the chunk lies inside a run or a span, or beyond the frontier.
            if dirty != 0 && free_pages(state) != nibble::ALL {
                let at = dirty.trailing_zeros() / 4;
                let pages = (!(dirty >> (4 * at)) & nibble::ALL).trailing_zeros() / 4;
                let pages = pages.min(CHUNK_PAGES - at);
                self.counts.dirty -= u64::from(pages);
                let head = filled(state, at, 1, nibble::RUN_HEAD);
                self.restate(chunk, filled(head, at + 1, pages - 1, nibble::RUN_BODY));
                return Some((chunk * CHUNK_PAGES + at, pages));
            }
            self.trim_cursor = if chunk + 1 < self.frontier { chunk + 1 } else { 1 };
        }
        None
    }

    /// Gives memory from [`Pages::take_dirty`] back, now without RAM.
    pub(crate) fn put_clean(&mut self, first: PageIndex, pages: u32) {
        self.release(first, pages, nibble::FREE_CLEAN);
    }

    fn take_short_run(&mut self, pages: u32) -> Option<PageIndex> {
        // A stretch of n free pages holds an aligned piece of at least this order.
        let order_least = pages.div_ceil(2).ilog2();
        let mut found = None;
        'search: for list in order_least..ORDER_MAX {
            let mut chunk = self.split[list as usize];
            for _ in 0..RUN_TRIES {
                if chunk == NONE {
                    break;
                }
                if let Some(at) = stretch(free_pages(self.table.state(chunk)), pages) {
                    found = Some((chunk, at));
                    break 'search;
                }
                chunk = self.table.meta(chunk).next.load(Relaxed);
            }
        }
        let (chunk, at) = match found {
            Some(found) => found,
            None => (self.open_chunk()?, 0),
        };
        let state = self.table.state(chunk);
        self.counts.dirty -= u64::from(dirty_pages(state, at, pages));
        let state = filled(state, at, 1, nibble::RUN_HEAD);
        self.restate(chunk, filled(state, at + 1, pages - 1, nibble::RUN_BODY));
        Some(chunk * CHUNK_PAGES + at)
    }

    fn take_long_run(&mut self, pages: u32) -> Option<PageIndex> {
        let chunks = pages.div_ceil(CHUNK_PAGES);
        let (start, clean) = self.take_chunks(chunks)?;
        self.claim(start, chunks);
        self.table.meta(start).position[0].store(pages, Relaxed);
        let rest = chunks * CHUNK_PAGES - pages;
        if rest > 0 {
            // Of two or more chunks (or one, without a rest) the last keeps its unused pages free.
            let last = start + chunks - 1;
            let code = if clean { nibble::FREE_CLEAN } else { nibble::FREE_DIRTY };
            self.restate(last, filled(nibble::ALL * nibble::RUN_BODY, CHUNK_PAGES - rest, rest, code));
            self.counts.dirty += if clean { 0 } else { u64::from(rest) };
        }
        Some(start * CHUNK_PAGES)
    }

    /// Marks a stretch of chunks as a run without counting it.
    fn claim(&mut self, start: u32, chunks: u32) {
        let body = nibble::ALL * nibble::RUN_BODY;
        self.table.meta(start + chunks - 1).state.store(body, Relaxed);
        self.table.meta(start).state.store(filled(body, 0, 1, nibble::RUN_HEAD), Relaxed);
        self.table.meta(start).position[0].store(chunks * CHUNK_PAGES, Relaxed);
    }

    /// Makes pages free, in whole chunks as far as possible.
    fn release(&mut self, first: PageIndex, pages: u32, code: u64) {
        let dirty = code == nibble::FREE_DIRTY;
        self.counts.dirty += if dirty { u64::from(pages) } else { 0 };
        let (chunk, at) = (first / CHUNK_PAGES, first % CHUNK_PAGES);
        if pages < CHUNK_PAGES {
            let state = self.table.state(chunk);
            self.restate(chunk, filled(state, at, pages, code));
            return;
        }
        let chunks = pages / CHUNK_PAGES;
        self.insert_span(chunk, chunks, !dirty);
        let rest = pages % CHUNK_PAGES;
        if rest > 0 {
            let state = self.table.state(chunk + chunks);
            self.restate(chunk + chunks, filled(state, 0, rest, code));
        }
    }

    /// A free chunk to split: its state says free, and it stands in its list.
    fn open_chunk(&mut self) -> Option<u32> {
        let (chunk, clean) = self.take_chunks(1)?;
        let code = if clean { nibble::FREE_CLEAN } else { nibble::FREE_DIRTY };
        self.counts.dirty += if clean { 0 } else { u64::from(CHUNK_PAGES) };
        self.table.meta(chunk).state.store(nibble::ALL * code, Relaxed);
        self.link_split(chunk, nibble::ALL * code);
        Some(chunk)
    }

    /// Takes `chunks` free chunks in a row and whether they are clean. Dirty ones first: their RAM is there already.
    fn take_chunks(&mut self, chunks: u32) -> Option<(u32, bool)> {
        for clean in [false, true] {
            if let Some((start, length)) = self.find_span(chunks, clean) {
                self.unlink_span(start, length, clean);
                if length > chunks {
                    self.link_span(start + chunks, length - chunks, clean);
                }
                self.counts.dirty -= if clean { 0 } else { u64::from(chunks * CHUNK_PAGES) };
                return Some((start, clean));
            }
        }
        let start = self.frontier;
        if chunks as usize > self.table.0.len() - start as usize {
            return None;
        }
        self.frontier += chunks;
        Some((start, true))
    }

    fn find_span(&self, chunks: u32, clean: bool) -> Option<(u32, u32)> {
        let spans = if clean { &self.clean } else { &self.dirty };
        let own = bin_of::<SPAN_EXACT_LOG>(chunks);
        // The spans of the own bin may be shorter than wanted; look at a few.
        let mut start = spans.heads[own];
        for _ in 0..RUN_TRIES {
            if start == NONE {
                break;
            }
            let length = self.table.meta(start).position[0].load(Relaxed);
            if length >= chunks {
                return Some((start, length));
            }
            start = self.table.meta(start).next.load(Relaxed);
        }
        let bin = spans.map.first_from(own + 1)?;
        let start = spans.heads[bin];
        Some((start, self.table.meta(start).position[0].load(Relaxed)))
    }

    /// Adds a free span and merges it with its neighbours of the same kind.
    fn insert_span(&mut self, mut start: u32, mut length: u32, clean: bool) {
        let full = nibble::ALL * if clean { self.clean.code } else { self.dirty.code };
        if start > 1 && self.table.state(start - 1) == full {
            let left = self.table.meta(start - 1).position[1].load(Relaxed);
            self.unlink_span(start - left, left, clean);
            start -= left;
            length += left;
        }
        let end = start + length;
        if end < self.frontier && self.table.state(end) == full {
            let right = self.table.meta(end).position[0].load(Relaxed);
            self.unlink_span(end, right, clean);
            length += right;
        }
        self.link_span(start, length, clean);
    }

    fn link_span(&mut self, start: u32, length: u32, clean: bool) {
        let spans = if clean { &mut self.clean } else { &mut self.dirty };
        let full = nibble::ALL * spans.code;
        let last = self.table.meta(start + length - 1);
        let first = self.table.meta(start);
        last.state.store(full, Relaxed);
        last.position[1].store(length, Relaxed);
        first.state.store(full, Relaxed);
        first.position[0].store(length, Relaxed);
        let bin = bin_of::<SPAN_EXACT_LOG>(length);
        push(self.table, &mut spans.heads[bin], start);
        spans.map.set(bin);
    }

    fn unlink_span(&mut self, start: u32, length: u32, clean: bool) {
        let spans = if clean { &mut self.clean } else { &mut self.dirty };
        let bin = bin_of::<SPAN_EXACT_LOG>(length);
        remove(self.table, &mut spans.heads[bin], start);
        if spans.heads[bin] == NONE {
            spans.map.clear(bin);
        }
    }

    /// Gives a split chunk a new state and moves it to the list where it belongs. A chunk that is now wholly free
    /// becomes a span.
    fn restate(&mut self, chunk: u32, state: u64) {
        let before = self.table.state(chunk);
        self.table.meta(chunk).state.store(state, Relaxed);
        let (old, new) = (largest_piece(before), largest_piece(state));
        if old != new {
            if let Some(list) = old {
                remove(self.table, &mut self.split[list.min(ORDER_MAX - 1) as usize], chunk);
            }
            if new == Some(ORDER_MAX) {
                // Half clean, half dirty counts as dirty: the kernel ignores what it does not have.
                let clean = state == nibble::ALL * nibble::FREE_CLEAN;
                self.counts.dirty += if clean { 0 } else { u64::from((state & nibble::ALL).count_ones()) };
                self.insert_span(chunk, 1, clean);
            } else {
                self.link_split(chunk, state);
            }
        }
    }

    fn link_split(&mut self, chunk: u32, state: u64) {
        if let Some(list) = largest_piece(state) {
            push(self.table, &mut self.split[list.min(ORDER_MAX - 1) as usize], chunk);
        }
    }
}

/// Chunks that one search for dirty pieces looks at, so that the mutex is held for microseconds only.
const TRIM_CHUNKS_MAX: usize = 256;

fn push(table: Table, head: &mut u32, chunk: u32) {
    let meta = table.meta(chunk);
    meta.previous.store(NONE, Relaxed);
    meta.next.store(*head, Relaxed);
    if *head != NONE {
        table.meta(*head).previous.store(chunk, Relaxed);
    }
    *head = chunk;
}

fn remove(table: Table, head: &mut u32, chunk: u32) {
    let meta = table.meta(chunk);
    let (previous, next) = (meta.previous.load(Relaxed), meta.next.load(Relaxed));
    if previous == NONE {
        debug_assert_eq!(*head, chunk, "a chunk without a predecessor heads its list");
        *head = next;
    } else {
        table.meta(previous).next.store(next, Relaxed);
    }
    if next != NONE {
        table.meta(next).previous.store(previous, Relaxed);
    }
}

/// `state` with `count` nibbles from `at` on replaced by `code`.
fn filled(state: u64, at: u32, count: u32, code: u64) -> u64 {
    if count == 0 {
        return state;
    }
    let mask = (u64::MAX >> (64 - 4 * count)) << (4 * at);
    (state & !mask) | ((nibble::ALL * code) & mask)
}

/// The lowest bit of each nibble that is free (clean or dirty).
fn free_pages(state: u64) -> u64 {
    !(state >> 1 | state >> 2 | state >> 3) & nibble::ALL
}

fn dirty_pages(state: u64, at: u32, count: u32) -> u32 {
    let dirty = free_pages(state) & !state;
    (filled(0, at, count, 1) & dirty).count_ones()
}

/// Of the free pages (a bit per nibble), those that start an aligned free piece of `order`.
fn pieces(free: u64, order: u32) -> u64 {
    const ALIGNED: [u64; 5] =
        [nibble::ALL, 0x0101_0101_0101_0101, 0x0001_0001_0001_0001, 0x0000_0001_0000_0001, 1];
    let mut starts = free;
    for step in 0..order {
        starts &= starts >> (4 << step);
    }
    starts & ALIGNED[order as usize]
}

/// Order of the largest aligned free piece.
fn largest_piece(state: u64) -> Option<u32> {
    let free = free_pages(state);
    (0..=ORDER_MAX).rev().find(|&order| pieces(free, order) != 0)
}

/// Where to take a piece of `order`: if possible one that is not half of a larger free piece.
fn best_piece(free: u64, order: u32) -> u32 {
    let starts = pieces(free, order);
    assert!(starts != 0, "the chunk stands in the list of its largest free piece");
    let alone = if order < ORDER_MAX {
        let larger = pieces(free, order + 1);
        starts & !(larger | larger << (4 << order))
    } else {
        0
    };
    (if alone != 0 { alone } else { starts }).trailing_zeros() / 4
}

/// The first stretch of `pages` free pages, aligned or not.
fn stretch(free: u64, pages: u32) -> Option<u32> {
    let starts = (1..pages).fold(free, |starts, step| starts & (free >> (4 * step)));
    (starts != 0).then(|| starts.trailing_zeros() / 4)
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
