//! Where the lines of an index live: 4 KiB chunks, found through a table of page numbers, and the overflow lines that are free in them.
//!
//! ```text
//! line number -> table[1 + line / lines per chunk] = page number -> base + 4096 * page + size of a line * (line % lines per chunk)
//! ```
//!
//! A thread that only looks ahead (`hint.rs`) may still follow a table or a chunk that the index has just given up. Therefore a table is never
//! freed: it goes to a pool for the next index, its words stay page numbers of the arena; and a page of the arena is never unmapped.

#![allow(unsafe_code, reason = "a chunk is zeroed through a raw pointer when it is taken")]

use crate::arena::Arena;

use super::line::{LINK_MAX, OverflowLine};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 4096;
/// Overflow lines of a chunk: 4096 / 32.
const LINES_PER_CHUNK: u32 = (CHUNK_BYTES / size_of::<OverflowLine>()) as u32;

/// A table of page numbers; word 0 is the number of words, so that whoever reads an outdated table knows its end.
pub(super) type Table = &'static [AtomicU32];

const TABLE_WORDS_MIN: usize = 16;
const TABLE_CLASSES: usize = 24;
static POOL: Mutex<[Vec<Table>; TABLE_CLASSES]> = Mutex::new([const { Vec::new() }; TABLE_CLASSES]);

fn pool() -> MutexGuard<'static, [Vec<Table>; TABLE_CLASSES]> {
    POOL.lock().expect("nothing panics while the pool of tables is locked")
}

fn table_class(words: usize) -> usize {
    (words / TABLE_WORDS_MIN).trailing_zeros() as usize
}

/// The chunks of one kind of line, in order.
#[derive(Default)]
pub(super) struct Directory {
    table: Table,
    chunks: u32,
}

impl Directory {
    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    pub(super) fn table(&self) -> Table {
        self.table
    }

    #[inline]
    pub(super) fn page(&self, chunk: u32) -> u32 {
        self.table[1 + chunk as usize].load(Relaxed)
    }

    /// Takes a zeroed chunk as chunk `chunk`, which is the next one or one that was given back.
    fn fill(&mut self, arena: &'static Arena, chunk: u32) {
        if 1 + chunk as usize >= self.table.len() {
            self.widen();
        }
        let chunk_at = arena.alloc_page(CHUNK_BYTES);
        // SAFETY: the page is ours alone from now on and a chunk long. An outdated hint may still load from it; it uses what it loads as an
        // address to prefetch only.
        unsafe { arena.pointer(chunk_at).write_bytes(0, CHUNK_BYTES) };
        self.table[1 + chunk as usize].store(arena.page_index(chunk_at), Relaxed);
        self.chunks = self.chunks.max(chunk + 1);
    }

    pub(super) fn push(&mut self, arena: &'static Arena) {
        self.fill(arena, self.chunks);
    }

    pub(super) fn pop(&mut self, arena: &'static Arena) {
        self.chunks -= 1;
        let page = self.page(self.chunks);
        if page != 0 {
            arena.free_page(arena.page_handle(page));
        }
    }

    /// Doubles the table. Cost: one copy of 4 bytes per 4 KiB of index.
    fn widen(&mut self) {
        let words = (self.table.len() * 2).max(TABLE_WORDS_MIN);
        let pooled = pool()[table_class(words)].pop();
        let table: Table =
            pooled.unwrap_or_else(|| Box::leak((0..words).map(|_| AtomicU32::new(0)).collect()));
        table[0].store(words as u32, Relaxed);
        for (new, old) in table.iter().zip(self.table).skip(1) {
            new.store(old.load(Relaxed), Relaxed);
        }
        self.retire();
        self.table = table;
    }

    fn retire(&mut self) {
        if !self.table.is_empty() {
            pool()[table_class(self.table.len())].push(self.table);
            self.table = &[];
        }
    }

    /// Gives back at most `limit` chunks, the last first, and with the last one the table. True when nothing is left.
    pub(super) fn release(&mut self, arena: &'static Arena, limit: u32) -> bool {
        for _ in 0..limit.min(self.chunks) {
            self.pop(arena);
        }
        if self.chunks == 0 {
            self.retire();
        }
        self.chunks == 0
    }

    pub(super) fn table_bytes(&self) -> usize {
        size_of_val(self.table)
    }
}

/// All lines of a chunk are free.
const ALL_FREE: u128 = u128::MAX;
/// Free lines kept when a chunk falls wholly free, so that a few inserts and deletes do not take and give back a page in turns.
const FREE_KEPT: u32 = LINES_PER_CHUNK / 2;

/// The overflow lines of an index. Numbers start at 1, for 0 means "none" in a link.
#[derive(Default)]
pub(super) struct Overflow {
    directory: Directory,
    /// A bit for each free line of each chunk; 0 also where the chunk has been given back.
    free: Vec<u128>,
    free_count: u32,
    held_chunks: u32,
    /// No chunk below this one has a free line.
    first_open: u32,
}

impl Overflow {
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(super) fn chunks(&self) -> u32 {
        self.held_chunks
    }

    /// The page of line `number`, and the line's index in it.
    #[inline]
    pub(super) fn place(&self, number: u32) -> (u32, u32) {
        (self.directory.page((number - 1) / LINES_PER_CHUNK), (number - 1) % LINES_PER_CHUNK)
    }

    /// Takes the free line with the lowest number, so that the chunks at the end fall empty when the index shrinks. The line has any content.
    pub(super) fn take(&mut self, arena: &'static Arena) -> u32 {
        if self.free_count == 0 {
            self.add_chunk(arena);
        }
        let mut chunk = self.first_open as usize;
        while self.free[chunk] == 0 {
            chunk += 1;
        }
        self.first_open = chunk as u32;
        let line = self.free[chunk].trailing_zeros();
        self.free[chunk] &= !(1 << line);
        self.free_count -= 1;
        chunk as u32 * LINES_PER_CHUNK + line + 1
    }

    fn add_chunk(&mut self, arena: &'static Arena) {
        let chunks = self.directory.chunks();
        let hole = if self.held_chunks < chunks {
            (0..chunks).find(|&chunk| self.directory.page(chunk) == 0)
        } else {
            None
        };
        let chunk = hole.unwrap_or(chunks);
        assert!(chunk < LINK_MAX / LINES_PER_CHUNK, "an index has at most 2^28 overflow lines");
        self.directory.fill(arena, chunk);
        if chunk == chunks {
            self.free.push(0);
        }
        self.free[chunk as usize] = ALL_FREE;
        self.free_count += LINES_PER_CHUNK;
        self.held_chunks += 1;
        self.first_open = chunk;
    }

    pub(super) fn give(&mut self, arena: &'static Arena, number: u32) {
        let (chunk, line) = ((number - 1) / LINES_PER_CHUNK, (number - 1) % LINES_PER_CHUNK);
        assert!(self.free[chunk as usize] & 1 << line == 0, "an overflow line is given back once");
        self.free[chunk as usize] |= 1 << line;
        self.free_count += 1;
        self.first_open = self.first_open.min(chunk);
        if self.free[chunk as usize] == ALL_FREE && self.free_count - LINES_PER_CHUNK >= FREE_KEPT {
            arena.free_page(arena.page_handle(self.directory.page(chunk)));
            self.directory.table[1 + chunk as usize].store(0, Relaxed);
            self.free[chunk as usize] = 0;
            self.free_count -= LINES_PER_CHUNK;
            self.held_chunks -= 1;
            while self.directory.chunks() > 0 && self.directory.page(self.directory.chunks() - 1) == 0 {
                self.directory.chunks -= 1;
                self.free.pop();
            }
            self.first_open = self.first_open.min(self.free.len() as u32);
        }
    }

    /// Gives back at most `limit` chunks, whatever is in them. True when nothing is left.
    pub(super) fn release(&mut self, arena: &'static Arena, limit: u32) -> bool {
        let done = self.directory.release(arena, limit);
        if done {
            *self = Overflow::default();
        }
        done
    }

    pub(super) fn free_map_bytes(&self) -> usize {
        self.free.capacity() * size_of::<u128>()
    }
}
