//! Unsafe island: the blocks of a Lua state. Small ones that were freed are kept by size and used again: Lua frees in bursts, for
//! which a general allocator takes several times as long.
//!
//! ```text
//! class 0: blocks of 16 bytes   head -> [next ...] -> [next ...] -> null      at most KEPT_MAX of each class
//! class 7: blocks of 128 bytes
//! ```
#![expect(unsafe_code, reason = "blocks for a C library are raw memory")]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ptr;

/// Sizes of small blocks are multiples of this, which is also how all blocks are aligned, as malloc does.
const GRANULE: usize = 16;

/// Classes of small blocks: up to 8 * 16 = 128 bytes, which covers tables, closures and short strings.
const CLASSES: usize = 8;

/// Blocks kept of a class: at most 1,024 * (16 + .. + 128) = 576 KiB in all.
const KEPT_MAX: u32 = 1_024;

/// Small blocks that are free.
pub(crate) struct Spare {
    heads: [*mut u8; CLASSES],
    kept: [u32; CLASSES],
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { heads: [ptr::null_mut(); CLASSES], kept: [0; CLASSES] }
    }
}

/// The class of a block, if it is small. Not for 0 bytes.
#[inline]
fn class_of(bytes: usize) -> Option<usize> {
    let class = (bytes - 1) / GRANULE;
    (class < CLASSES).then_some(class)
}

/// How a block is laid out: a small one fills its class. None: no such block can be.
#[inline]
fn layout_of(bytes: usize) -> Option<Layout> {
    let bytes = class_of(bytes).map_or(bytes, |class| (class + 1) * GRANULE);
    Layout::from_size_align(bytes, GRANULE).ok()
}

impl Spare {
    /// Allocates (from 0 bytes), frees (to 0) or changes the size of a block. Null if there is no memory; the block is then as it was.
    ///
    /// # Safety
    /// `block` must have come from here with `old_bytes`, unless that is 0; it is not used afterwards unless this gives null.
    pub(crate) unsafe fn resize(&mut self, block: *mut u8, old_bytes: usize, new_bytes: usize) -> *mut u8 {
        if old_bytes == 0 {
            return if new_bytes == 0 { ptr::null_mut() } else { self.take(new_bytes) };
        }
        if new_bytes == 0 {
            // SAFETY: as the caller promises.
            unsafe { self.give(block, old_bytes) };
            return ptr::null_mut();
        }
        match (class_of(old_bytes), class_of(new_bytes)) {
            (Some(old), Some(new)) if old == new => block,
            (None, None) => match (layout_of(old_bytes), layout_of(new_bytes)) {
                // SAFETY: large blocks are laid out by their own size.
                (Some(old), Some(new)) => unsafe { realloc(block, old, new.size()) },
                _ => ptr::null_mut(),
            },
            _ => {
                let moved = self.take(new_bytes);
                if !moved.is_null() {
                    // SAFETY: both blocks have that many bytes and are different ones; the old one is not used afterwards.
                    unsafe {
                        ptr::copy_nonoverlapping(block, moved, old_bytes.min(new_bytes));
                        self.give(block, old_bytes);
                    }
                }
                moved
            }
        }
    }

    /// A block of at least `bytes`, which is not 0; null if there is none.
    fn take(&mut self, bytes: usize) -> *mut u8 {
        if let Some(class) = class_of(bytes)
            && !self.heads[class].is_null()
        {
            let block = self.heads[class];
            self.kept[class] -= 1;
            // SAFETY: a kept block begins with the next one.
            self.heads[class] = unsafe { block.cast::<*mut u8>().read() };
            return block;
        }
        // SAFETY: the size is not 0.
        layout_of(bytes).map_or(ptr::null_mut(), |layout| unsafe { alloc(layout) })
    }

    /// # Safety
    /// `block` must have come from here with `bytes`, and is not used afterwards.
    unsafe fn give(&mut self, block: *mut u8, bytes: usize) {
        if let Some(class) = class_of(bytes)
            && self.kept[class] < KEPT_MAX
        {
            // SAFETY: the block has at least 16 bytes, aligned to 16.
            unsafe { block.cast::<*mut u8>().write(self.heads[class]) };
            self.heads[class] = block;
            self.kept[class] += 1;
            return;
        }
        let layout = layout_of(bytes).expect("it was allocated with this layout");
        // SAFETY: as the caller promises.
        unsafe { dealloc(block, layout) };
    }
}

impl Spare {
    /// Frees what is kept, and gives the pages between the blocks in use back to the system. Some 100 ms per GiB that was freed.
    pub(crate) fn give_back(&mut self) {
        self.clear();
        // SAFETY: it concerns free memory only, and takes the locks that it needs.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0)
        };
    }

    fn clear(&mut self) {
        let lists = std::mem::replace(&mut self.heads, [ptr::null_mut(); CLASSES]);
        self.kept = [0; CLASSES];
        for (class, head) in lists.into_iter().enumerate() {
            let layout = layout_of((class + 1) * GRANULE).expect("a small block has a layout");
            let mut block = head;
            while !block.is_null() {
                // SAFETY: a kept block begins with the next one, and was allocated with the layout of its class.
                unsafe {
                    let next = block.cast::<*mut u8>().read();
                    dealloc(block, layout);
                    block = next;
                }
            }
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_bytes_whatever_their_sizes() {
        const SEED: u64 = 17;
        println!("seed {SEED}");
        let mut rng = stdx::rng::Rng::new(SEED);
        let mut spare = Spare::default();
        let mut blocks: Vec<(*mut u8, Vec<u8>)> = vec![(ptr::null_mut(), Vec::new()); 3_000];
        for step in 0..100_000_u32 {
            let index = rng.range(0..blocks.len());
            let (block, bytes) = &mut blocks[index];
            let len = if rng.one_in(3) { 0 } else { rng.range(1..300) };
            // SAFETY: the block came from `spare` with the length of its bytes; what is read was written before.
            unsafe {
                let moved = spare.resize(*block, bytes.len(), len);
                assert_eq!(moved.is_null(), len == 0);
                assert_eq!(moved as usize % GRANULE, 0);
                let kept = bytes.len().min(len);
                if kept > 0 {
                    assert_eq!(std::slice::from_raw_parts(moved, kept), &bytes[..kept], "step {step}");
                }
                bytes.clear();
                bytes.resize(len, step as u8);
                if len > 0 {
                    moved.copy_from_nonoverlapping(bytes.as_ptr(), len);
                }
                *block = moved;
            }
        }
        assert!(spare.kept.iter().all(|kept| *kept <= KEPT_MAX));
        for (block, bytes) in blocks {
            // SAFETY: as above.
            unsafe { spare.resize(block, bytes.len(), 0) };
        }
    }
}
