//! The name of a place in the arena: what index slots store instead of pointers.

use std::num::NonZeroU64;

/// Bytes per unit of a handle: every block, page and run starts at a multiple of it.
pub const GRANULE_BYTES: usize = 4;

/// A place in the arena, in units of 4 bytes from its base: never 0 and below 2^39, so that 2 TiB can be named and an index slot of
/// 40 bits has one bit to spare. A handle says nothing about whether the place is still in use: its holder knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle(NonZeroU64);

impl Handle {
    /// Handles are below 2^39.
    pub const BITS: u32 = 39;

    /// The handle with this number, unless it is 0 or too large.
    #[inline(always)]
    pub const fn from_raw(raw: u64) -> Option<Handle> {
        if raw >> Handle::BITS != 0 {
            return None;
        }
        match NonZeroU64::new(raw) {
            Some(raw) => Some(Handle(raw)),
            None => None,
        }
    }

    /// The handle as a number below 2^39.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0.get()
    }

    /// Bytes from the base of the arena.
    #[inline(always)]
    pub(crate) const fn offset(self) -> usize {
        self.0.get() as usize * GRANULE_BYTES
    }

    /// The handle `bytes` from the base of the arena. Panics unless it is a multiple of 4, not 0 and below 2 TiB.
    #[inline(always)]
    pub(crate) fn at(offset: usize) -> Handle {
        debug_assert!(offset.is_multiple_of(GRANULE_BYTES), "handles count granules");
        Handle::from_raw((offset / GRANULE_BYTES) as u64)
            .expect("chunk 0 is never handed out and the arena ends at 2 TiB")
    }
}
