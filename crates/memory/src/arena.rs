//! The arena: one reserved stretch of address space for the whole process, out of which heaps, indexes and large values get
//! their pages. Reserved is not used: the kernel gives RAM to a page when it is first written. Handing out a page takes one
//! short mutex and no syscall; RAM goes back to the kernel only in [`Arena::trim`], which a background slice calls.
//!
//! ```text
//! base                                                      frontier                      base + bytes (up to 2 TiB)
//! | chunk 0: never used | chunks handed out once, or free ... | never touched ............. |
//! ```
//!
//! Memory once handed out stays readable for ever, so whoever prefetches through an outdated handle does no harm.

#![allow(unsafe_code, reason = "the island of data: maps the arena and hands out pointers into it")]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::handle::Handle;
use crate::pages::{
    CHUNK_BYTES, ChunkMeta, Extent, For, ORDER_MAX, PAGE_BYTES, PageCounts, PageIndex, Pages, Table,
};

/// What 39-bit handles of 4 bytes can name.
pub const ARENA_BYTES_MAX: u64 = 1 << 41;
/// Smallest arena worth having; below it [`Arena::reserve`] reports the kernel's error.
const ARENA_BYTES_MIN: u64 = 1 << 26;
/// Huge pages are 2 MiB on x86-64 and (with 4 KiB pages) on aarch64.
const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Bytes that one `madvise` of [`Arena::trim`] returns at most: 4 MiB take a millisecond or less.
const TRIM_STEP_BYTES: usize = 4 << 20;

/// The process's memory; see the module's page. It is never dropped.
pub struct Arena {
    base: NonNull<u8>,
    bytes: u64,
    table: Table,
    pages: Mutex<Pages>,
    /// Mirrors of counts under the mutex, to be read without it.
    bytes_used: AtomicU64,
    bytes_dirty: AtomicU64,
    bytes_condemned: AtomicU64,
    frontier_bytes: AtomicU64,
    pub(crate) growth: crate::growth::Growth,
}

// SAFETY: the mapping is never unmapped, and who may touch which of its bytes is decided by handing out pages; all fields that
// change are atomics or behind the mutex.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves address space of `bytes_max` (at most 2 TiB); where that is refused (limits on address space, strict overcommit), half
    /// as much, and so on down to 64 MiB. The arena lives as long as the process.
    pub fn reserve(bytes_max: u64) -> io::Result<&'static Arena> {
        // Miri really allocates what is reserved.
        let bytes_max = if cfg!(miri) { 3 << 20 } else { bytes_max.clamp(ARENA_BYTES_MIN, ARENA_BYTES_MAX) };
        let mut bytes = bytes_max.next_multiple_of(CHUNK_BYTES as u64);
        loop {
            match Arena::reserve_exactly(bytes) {
                Ok(arena) => return Ok(Box::leak(Box::new(arena))),
                Err(error) if bytes / 2 < ARENA_BYTES_MIN => return Err(error),
                Err(_) => bytes = (bytes / 2).next_multiple_of(CHUNK_BYTES as u64),
            }
        }
    }

    /// A page of 4, 8, 16, 32 or 64 KiB, aligned to its size. Its contents are arbitrary. Panics when the arena is full.
    pub fn alloc_page(&self, bytes: usize) -> Handle {
        assert!(
            bytes.is_power_of_two() && (PAGE_BYTES..=CHUNK_BYTES).contains(&bytes),
            "pages are of 4 to 64 KiB"
        );
        let order = (bytes / PAGE_BYTES).ilog2();
        let (first, _) = self.take(|pages| pages.take(For::Plain, order, order));
        self.handed_out(first, bytes)
    }

    /// Gives a page from [`Arena::alloc_page`] back.
    pub fn free_page(&self, page: Handle) {
        let first = self.page_index(page);
        assert!(matches!(self.table.owner(first), Extent::Plain { .. }), "a page of the arena is freed");
        self.give(&[first]);
    }

    /// A run of `bytes`, rounded up to whole pages of 4 KiB (see [`Arena::run_bytes`]). Its contents are arbitrary.
    pub fn alloc_run(&self, bytes: usize) -> Handle {
        let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES).max(1)).expect("a run fits into the arena");
        let first = self.take(|state| state.take_run(pages));
        self.handed_out(first, pages as usize * PAGE_BYTES)
    }

    /// Gives a run back.
    pub fn free_run(&self, run: Handle) {
        let first = self.page_index(run);
        assert!(matches!(self.table.owner(first), Extent::Run { .. }), "a run of the arena is freed");
        self.give(&[first]);
    }

    /// Bytes of a run, a multiple of 4 KiB.
    pub fn run_bytes(&self, run: Handle) -> usize {
        self.table.run_pages(self.page_index(run)) as usize * PAGE_BYTES
    }

    /// The address of a handle. Dereferencing it is for whoever owns the place.
    #[inline(always)]
    pub fn pointer(&self, handle: Handle) -> NonNull<u8> {
        debug_assert!((handle.offset() as u64) < self.bytes, "the handle lies in the arena");
        // SAFETY: handles are made by this arena only, below its end.
        unsafe { self.base.add(handle.offset()) }
    }

    /// Asks the processor to load the cache line at `handle`. Any handle will do, an outdated one too.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        let address = self.base.as_ptr().wrapping_add(handle.offset());
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch cannot fault, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a prefetch cannot fault, whatever the address; it changes no register.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
        }
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        let _ = address;
    }

    /// Bytes of the pages and runs handed out: exact, and read without a lock.
    pub fn bytes_used(&self) -> u64 {
        self.bytes_used.load(Relaxed)
    }

    /// Bytes handed out whose owners are being freed in slices: they come back without anybody's doing.
    pub fn bytes_condemned(&self) -> u64 {
        self.bytes_condemned.load(Relaxed)
    }

    /// Counts bytes as condemned.
    pub fn condemn(&self, bytes: u64) {
        self.bytes_condemned.fetch_add(bytes, Relaxed);
    }

    /// What was condemned has been freed.
    pub fn freed_condemned(&self, bytes: u64) {
        self.bytes_condemned.fetch_sub(bytes, Relaxed);
    }

    /// Bytes of free pages that still hold RAM.
    pub fn bytes_dirty(&self) -> u64 {
        self.bytes_dirty.load(Relaxed)
    }

    /// Bytes reserved.
    pub fn bytes_reserved(&self) -> u64 {
        self.bytes
    }

    /// Returns RAM of free pages to the kernel until at most `keep_bytes` of it are left or `bytes_max` have been returned; the bytes
    /// returned. Makes syscalls: call it from a background slice that holds no shard.
    pub fn trim(&self, keep_bytes: u64, bytes_max: u64) -> u64 {
        let mut returned = 0;
        while returned < bytes_max && self.bytes_dirty() > keep_bytes {
            let pages_max =
                (self.bytes_dirty() - keep_bytes).min(bytes_max - returned).min(TRIM_STEP_BYTES as u64)
                    / PAGE_BYTES as u64;
            let taken = self.with_pages(|pages| pages.take_dirty(pages_max as u32));
            let Some((first, pages)) = taken else { break };
            let bytes = pages as usize * PAGE_BYTES;
            self.advise(first as usize * PAGE_BYTES, bytes, libc::MADV_DONTNEED);
            self.with_pages(|state| state.put_clean(first, pages));
            returned += bytes as u64;
        }
        returned
    }

    /// What is handed out, to whom, in which sizes: for DEBUG and INFO.
    pub fn map(&self) -> MemoryMap {
        let (counts, frontier) = self.with_pages(|pages| (pages.counts, pages.frontier_bytes()));
        MemoryMap { counts, frontier_bytes: frontier, reserved_bytes: self.bytes }
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    pub(crate) fn table(&self) -> Table {
        self.table
    }

    /// A heap page of `order`, or a smaller one down to `order_min`.
    pub(crate) fn take_heap_page(&self, order_min: u32, order: u32) -> (PageIndex, u32) {
        debug_assert!(order <= ORDER_MAX);
        let (first, order) = self.take(|pages| pages.take(For::Heap, order_min, order));
        self.handed_out(first, PAGE_BYTES << order);
        (first, order)
    }

    /// Gives pages and runs back.
    pub(crate) fn give(&self, firsts: &[PageIndex]) {
        for &first in firsts {
            crate::poison::page(self, first);
        }
        self.with_pages(|pages| {
            for &first in firsts {
                pages.free(first);
            }
        });
    }

    #[inline(always)]
    pub(crate) fn page_handle(&self, first: PageIndex) -> Handle {
        Handle::at(first as usize * PAGE_BYTES)
    }

    #[inline(always)]
    pub(crate) fn page_index(&self, handle: Handle) -> PageIndex {
        (handle.offset() / PAGE_BYTES) as PageIndex
    }

    pub(crate) fn frontier_bytes(&self) -> u64 {
        self.frontier_bytes.load(Relaxed)
    }

    /// Advises huge pages for the whole arena. One VMA, so this takes microseconds.
    pub(crate) fn advise_huge_pages(&self) {
        self.advise(0, self.bytes as usize, libc::MADV_HUGEPAGE);
    }

    /// `madvise` on a part of the arena. A refusal (old kernel, no huge pages) changes nothing but speed or RAM, so it is only returned.
    pub(crate) fn advise(&self, offset: usize, bytes: usize, advice: libc::c_int) -> bool {
        debug_assert!((offset + bytes) as u64 <= self.bytes);
        let address = self.base.as_ptr().wrapping_add(offset);
        if cfg!(miri) {
            return true;
        }
        // SAFETY: the range lies in the mapping; DONTNEED is used on free memory only, and the other advice does not change contents.
        unsafe { libc::madvise(address.cast(), bytes, advice) == 0 }
    }

    fn reserve_exactly(bytes: u64) -> io::Result<Arena> {
        let chunks = (bytes / CHUNK_BYTES as u64) as usize;
        let metas = map(chunks * size_of::<ChunkMeta>())?;
        let mapped = match map((bytes + HUGE_PAGE_BYTES) as usize) {
            Ok(mapped) => mapped,
            Err(error) => {
                // SAFETY: mapped above, used by nobody.
                unsafe { libc::munmap(metas.as_ptr().cast(), chunks * size_of::<ChunkMeta>()) };
                return Err(error);
            }
        };
        // Huge pages need an aligned base; what is cut off stays reserved and costs nothing.
        let cut = mapped.as_ptr().align_offset(HUGE_PAGE_BYTES as usize);
        // SAFETY: the mapping is longer than the arena by one huge page.
        let base = unsafe { mapped.add(cut) };
        // SAFETY: the mapping is zeroed, aligned to a page, long enough and never unmapped; a zeroed `ChunkMeta` is a valid one.
        let table = Table(unsafe { std::slice::from_raw_parts(metas.as_ptr().cast::<ChunkMeta>(), chunks) });
        let arena = Arena {
            base,
            bytes,
            table,
            pages: Mutex::new(Pages::new(table)),
            bytes_used: AtomicU64::new(0),
            bytes_dirty: AtomicU64::new(0),
            bytes_condemned: AtomicU64::new(0),
            frontier_bytes: AtomicU64::new(0),
            growth: crate::growth::Growth::default(),
        };
        // Where huge pages are always on, an instance of a few keys would occupy megabytes; see `growth.rs`.
        arena.advise(0, bytes as usize, libc::MADV_NOHUGEPAGE);
        Ok(arena)
    }

    fn handed_out(&self, first: PageIndex, bytes: usize) -> Handle {
        let handle = self.page_handle(first);
        crate::poison::in_use(self.pointer(handle).as_ptr(), bytes);
        handle
    }

    fn take<T>(&self, take: impl FnOnce(&mut Pages) -> Option<T>) -> T {
        let taken = self.with_pages(take);
        self.growth.after_take(self.frontier_bytes());
        taken.unwrap_or_else(|| panic!("out of memory: all {} bytes of the arena are in use", self.bytes))
    }

    fn with_pages<T>(&self, act: impl FnOnce(&mut Pages) -> T) -> T {
        let mut pages: MutexGuard<'_, Pages> = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut pages);
        let PageCounts { used, dirty, .. } = pages.counts;
        self.bytes_used.store(used * PAGE_BYTES as u64, Relaxed);
        self.bytes_dirty.store(dirty * PAGE_BYTES as u64, Relaxed);
        self.frontier_bytes.store(pages.frontier_bytes(), Relaxed);
        result
    }
}

/// What the arena holds; see [`Arena::map`].
#[derive(Clone, Copy, Debug)]
pub struct MemoryMap {
    /// Pages by owner and size.
    pub counts: PageCounts,
    /// Bytes of address space that have ever been handed out.
    pub frontier_bytes: u64,
    /// Bytes of address space reserved.
    pub reserved_bytes: u64,
}

#[cfg(miri)]
fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(bytes, CHUNK_BYTES).expect("a small arena");
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or_else(io::Error::last_os_error)
}

#[cfg(not(miri))]
fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new private mapping at an address of the kernel's choice.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(address.cast()).expect("the kernel does not map at address 0"))
}
