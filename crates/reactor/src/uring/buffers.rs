//! The provided-buffer ring: a few receive buffers that the kernel picks from when data arrives, shared by all connections of a thread.
//!
//! ```text
//! entries   [address 8 | length 4 | id 2 | resv 2] x n     page-aligned; `resv` of the first entry is the ring's tail
//! buffers   n x buffer_bytes                               buffer of id i starts at i * buffer_bytes
//! ```
//!
//! A buffer belongs to the kernel from the moment its entry is published by the tail until a completion names its id, and to the
//! [`RingInput`] made of that completion until it is dropped, which publishes it again.
#![allow(unsafe_code, reason = "memory shared with the kernel")]

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// The id of the one group of buffers a ring has.
pub(super) const GROUP: u16 = 0;

/// The buffers of one thread.
pub(super) struct Buffers {
    entries: Map,
    memory: Map,
    count: u16,
    buffer_bytes: u32,
    tail: Cell<u16>,
    /// Buffers that are not the kernel's.
    taken: Cell<u16>,
}

impl Buffers {
    /// Allocates `count` (a power of two) buffers and registers them with `ring`.
    pub fn register(ring: &IoUring, count: u16, buffer_bytes: u32) -> io::Result<Rc<Buffers>> {
        assert!(count.is_power_of_two() && buffer_bytes > 0, "the kernel wants a power of two");
        let entries = Map::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let memory = Map::new(usize::from(count) * buffer_bytes as usize)?;
        let buffers =
            Buffers { entries, memory, count, buffer_bytes, tail: Cell::new(0), taken: Cell::new(count) };
        let address = buffers.entries.0.as_ptr() as u64;
        // SAFETY: the entries are page-aligned and `count` long. They are unmapped when the last `Rc` of this goes, which the engine
        // keeps beyond the last operation that uses the group (it leaks them if it cannot make sure).
        unsafe { ring.submitter().register_buf_ring_with_flags(address, count, GROUP, 0)? };
        for id in 0..count {
            buffers.give(id);
        }
        Ok(Rc::new(buffers))
    }

    /// A completion has named this buffer: it is ours now.
    pub fn take(&self, id: u16) {
        assert!(id < self.count && self.taken.get() < self.count, "the kernel hands out what it was given");
        self.taken.set(self.taken.get() + 1);
    }

    /// Gives a buffer to the kernel.
    pub fn give(&self, id: u16) {
        assert!(id < self.count && self.taken.get() > 0, "only what was taken is given back");
        self.taken.set(self.taken.get() - 1);
        let tail = self.tail.get();
        let base = self.entries.0.cast::<BufRingEntry>();
        let index = usize::from(tail & (self.count - 1));
        // SAFETY: `index` is below `count`. The kernel reads an entry only once the tail has passed it, so this one is ours; at most
        // `count` buffers exist, so the entry is not one that the kernel has yet to read.
        let entry = unsafe { &mut *base.as_ptr().add(index) };
        entry.set_addr(self.address(id).as_ptr() as u64);
        entry.set_len(self.buffer_bytes);
        entry.set_bid(id);
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: `base` is the first entry of the ring, initialised (zero pages).
        let shared = unsafe { BufRingEntry::tail(base.as_ptr()) }.cast::<AtomicU16>();
        // SAFETY: the tail is two aligned bytes inside the mapping, and written by this line only; the kernel reads them with acquire.
        unsafe { &*shared }.store(self.tail.get(), Ordering::Release);
    }

    /// Whether the kernel has a buffer left, as far as is known.
    pub fn any_left(&self) -> bool {
        self.taken.get() < self.count
    }

    fn address(&self, id: u16) -> NonNull<u8> {
        // SAFETY: `id` is below `count`, so the sum stays inside the mapping.
        unsafe { self.memory.0.add(usize::from(id) * self.buffer_bytes as usize) }
    }
}

/// A filled buffer.
pub(crate) struct RingInput {
    buffers: Rc<Buffers>,
    id: u16,
    length: u32,
}

impl RingInput {
    /// The buffer `id`, which has been taken, with `length` bytes of data.
    pub(super) fn new(buffers: &Rc<Buffers>, id: u16, length: u32) -> RingInput {
        assert!(length <= buffers.buffer_bytes, "the kernel stays inside the buffer");
        RingInput { buffers: Rc::clone(buffers), id, length }
    }

    pub fn bytes(&self) -> &[u8] {
        let address = self.buffers.address(self.id);
        // SAFETY: the kernel has filled `length` bytes, and does not touch the buffer again until it is given back by drop.
        unsafe { std::slice::from_raw_parts(address.as_ptr(), self.length as usize) }
    }
}

impl Drop for RingInput {
    fn drop(&mut self) {
        self.buffers.give(self.id);
    }
}

/// Private zero pages.
struct Map(NonNull<u8>, usize);

impl Map {
    fn new(bytes: usize) -> io::Result<Map> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping at a place of the kernel's choice.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).expect("the kernel never maps at zero unasked");
        Ok(Map(address, bytes))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this size, and nobody refers to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.1) };
    }
}
