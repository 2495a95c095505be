//! Tells AddressSanitizer (builds with `--cfg darter_asan`) which bytes of the arena nobody may touch. In other builds
//! every function here is empty. Arenas live as long as the process, so leak detection is off (`ASAN_OPTIONS=detect_leaks=0`). The first 16 bytes of a free block and its last two stay accessible: the heap keeps its lists there.

#![allow(unsafe_code, reason = "calls the sanitizer's runtime")]

use crate::arena::Arena;
use crate::pages::PageIndex;

/// Bytes at the start of a free block that the heap uses: header and links.
#[cfg(darter_asan)]
const FREE_HEAD_BYTES: usize = 14;

#[cfg(darter_asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(address: *const u8, bytes: usize);
    fn __asan_unpoison_memory_region(address: *const u8, bytes: usize);
}

/// A page or run is given back.
#[inline(always)]
pub(crate) fn page(arena: &Arena, first: PageIndex) {
    let _ = (arena, first);
    #[cfg(darter_asan)]
    {
        use crate::pages::{Extent, PAGE_BYTES};
        let pages = match arena.table().owner(first) {
            Extent::Heap { order, .. } | Extent::Plain { order, .. } => 1 << order,
            Extent::Run { pages } => pages as usize,
            Extent::Other => 0,
        };
        // SAFETY: only marks the sanitizer's shadow of bytes that lie in the arena.
        unsafe {
            __asan_poison_memory_region(arena.pointer(arena.page_handle(first)).as_ptr(), pages * PAGE_BYTES)
        };
    }
}

/// A block becomes free.
#[inline(always)]
pub(crate) fn free_block(address: *const u8, bytes: usize) {
    let _ = (address, bytes);
    #[cfg(darter_asan)]
    if bytes > FREE_HEAD_BYTES + 2 {
        // SAFETY: only marks the sanitizer's shadow of bytes that lie in the arena.
        unsafe {
            __asan_poison_memory_region(address.wrapping_add(FREE_HEAD_BYTES), bytes - FREE_HEAD_BYTES - 2)
        };
    }
}

/// Bytes are handed out.
#[inline(always)]
pub(crate) fn in_use(address: *const u8, bytes: usize) {
    let _ = (address, bytes);
    #[cfg(darter_asan)]
    // SAFETY: only marks the sanitizer's shadow of bytes that lie in the arena.
    unsafe {
        __asan_unpoison_memory_region(address, bytes);
    }
}
