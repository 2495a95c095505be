//! A value too large for a block: a run of the arena with a count of its references. Whoever holds a [`BigRef`] may read
//! the bytes on any thread, for as long as it likes; they change only while there is one reference (copy on write).
//!
//! ```text
//! run of whole 4 KiB pages: references 8 | arena 8 | length 8 | capacity 8 | value ... | unused up to the capacity
//! ```

#![allow(unsafe_code, reason = "the island of data: shares bytes of the arena between threads")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{self, AtomicUsize, Ordering};

use crate::arena::Arena;
use crate::handle::Handle;

/// Values of more bytes than this get a run of their own: a quarter of the largest heap page.
pub const INLINE_BYTES_MAX: usize = 16 << 10;

/// Length of a [`BigRef`] in an entry.
pub(crate) const BIG_REF_BYTES: usize = size_of::<NonNull<Header>>();

#[repr(C)]
struct Header {
    references: AtomicUsize,
    arena: &'static Arena,
    length: usize,
    capacity: usize,
}

/// A counted reference to a big value.
pub struct BigRef(NonNull<Header>);

// SAFETY: the bytes are changed only by the holder of the sole reference, through `&mut`; the count is atomic.
unsafe impl Send for BigRef {}
// SAFETY: as above.
unsafe impl Sync for BigRef {}

impl BigRef {
    /// A big value with these bytes.
    pub fn new(arena: &'static Arena, bytes: &[u8]) -> BigRef {
        let mut big = BigRef::with_capacity(arena, bytes.len());
        // SAFETY: the run is new and has room for the bytes.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), big.data(), bytes.len());
            big.0.as_mut().length = bytes.len();
        }
        big
    }

    /// An empty big value with room for `bytes`.
    pub fn with_capacity(arena: &'static Arena, bytes: usize) -> BigRef {
        let run = arena.alloc_run(bytes + size_of::<Header>());
        let capacity = arena.run_bytes(run) - size_of::<Header>();
        let header = arena.pointer(run).cast::<Header>();
        // SAFETY: the run is ours, begins at a page and has room for the header.
        unsafe { header.write(Header { references: AtomicUsize::new(1), arena, length: 0, capacity }) };
        BigRef(header)
    }

    /// Bytes of the value.
    pub fn len(&self) -> usize {
        self.header().length
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the value may grow to without moving.
    pub fn capacity(&self) -> usize {
        self.header().capacity
    }

    /// Bytes of the arena that the value occupies.
    pub fn memory_bytes(&self) -> usize {
        self.capacity() + size_of::<Header>()
    }

    /// The arena that the value lies in.
    pub fn arena(&self) -> &'static Arena {
        self.header().arena
    }

    /// Whether this is the only reference.
    pub fn is_unique(&self) -> bool {
        // Acquire: pairs with the release in `drop`, so that the reads of whoever gave up its reference happen before our writes.
        self.header().references.load(Ordering::Acquire) == 1
    }

    /// The bytes, to be changed, with a new length; what is added is 0. Others that hold a reference keep the bytes they
    /// have: the value is copied if it is shared, and if it must grow beyond its capacity, which then at least doubles.
    pub fn make_mut(&mut self, length: usize) -> &mut [u8] {
        let old = self.len();
        if length > self.capacity() || !self.is_unique() {
            let room = if length > self.capacity() { length.max(2 * self.capacity()) } else { length };
            let mut copy = BigRef::with_capacity(self.header().arena, room);
            let kept = old.min(length);
            // SAFETY: the copy is new and has room for `length`.
            unsafe {
                ptr::copy_nonoverlapping(self.data(), copy.data(), kept);
                copy.0.as_mut().length = kept;
            }
            *self = copy;
        }
        let kept = self.len();
        // SAFETY: the only reference is ours and borrowed for as long as the slice lives; `length` is within the capacity.
        unsafe {
            if length > kept {
                ptr::write_bytes(self.data().add(kept), 0, length - kept);
            }
            self.0.as_mut().length = length;
            slice::from_raw_parts_mut(self.data(), length)
        }
    }

    /// The reference as the eight bytes that an entry stores; it is now owned by whoever holds them.
    pub(crate) fn into_raw(self) -> [u8; BIG_REF_BYTES] {
        ManuallyDrop::new(self).0.as_ptr().expose_provenance().to_le_bytes()
    }

    /// # Safety
    /// `raw` must come from [`BigRef::into_raw`] and not be used again.
    pub(crate) unsafe fn from_raw(raw: &[u8]) -> BigRef {
        let address = usize::from_le_bytes(raw.try_into().expect("a big entry holds eight bytes"));
        BigRef(
            NonNull::new(ptr::with_exposed_provenance_mut::<Header>(address))
                .expect("a big entry holds a reference"),
        )
    }

    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as there is a reference; it changes only through `&mut` of the sole one.
        unsafe { self.0.as_ref() }
    }

    fn data(&self) -> *mut u8 {
        // SAFETY: the value follows its header in the run.
        unsafe { self.0.add(1).cast().as_ptr() }
    }
}

impl AsRef<[u8]> for BigRef {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `length` bytes have been written and do not change while `self` is borrowed.
        unsafe { slice::from_raw_parts(self.data(), self.len()) }
    }
}

impl Clone for BigRef {
    fn clone(&self) -> BigRef {
        // Relaxed: a new reference is made from one that its maker holds, so the count cannot reach zero meanwhile, and passing the
        // new one to another thread synchronizes by itself.
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        assert!(before < usize::MAX / 2, "references are not leaked in a loop");
        BigRef(self.0)
    }
}

impl Drop for BigRef {
    fn drop(&mut self) {
        // Release: our reads come before the run is freed or changed by whoever sees the lower count.
        if self.header().references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Acquire: the reads of all former holders happen before the run is handed out anew.
        atomic::fence(Ordering::Acquire);
        let arena = self.header().arena;
        let offset = self.0.addr().get() - arena.base().addr().get();
        arena.free_run(Handle::at(offset));
    }
}

impl fmt::Debug for BigRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BigRef({} bytes)", self.len())
    }
}

/// The bytes of a big value that an entry owns.
///
/// # Safety
/// `raw` must come from [`BigRef::into_raw`], and the reference must stay unchanged for `'a`.
pub(crate) unsafe fn borrow_raw<'a>(raw: &[u8]) -> &'a [u8] {
    // SAFETY: the caller vouches for `raw`; the temporary does not drop the reference.
    let big = ManuallyDrop::new(unsafe { BigRef::from_raw(raw) });
    // SAFETY: the caller vouches that the reference, and with it the bytes, stays for `'a`.
    unsafe { slice::from_raw_parts(big.data(), big.len()) }
}

/// A further reference to a big value that an entry owns.
///
/// # Safety
/// `raw` must come from [`BigRef::into_raw`] and still be owned by the entry.
pub(crate) unsafe fn clone_raw(raw: &[u8]) -> BigRef {
    // SAFETY: the caller vouches for `raw`; the temporary does not drop the reference.
    BigRef::clone(&ManuallyDrop::new(unsafe { BigRef::from_raw(raw) }))
}

#[cfg(test)]
#[path = "big_tests.rs"]
mod tests;
