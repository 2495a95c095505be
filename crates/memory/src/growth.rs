//! Growing without stumbling: huge pages once the arena is large, and a helper thread that has memory populated ahead of
//! its use. Both are advice: without them everything works, slower. Not an allocator: it never decides who gets what, and it never takes
//! RAM away.
//!
//! ```text
//! base ......... frontier | populated ahead, at most 8 MiB and 1/32 of what is in use | untouched
//! ```
//!
//! The first touch of a page costs a fault, in a virtual machine sometimes milliseconds. The helper sleeps until the frontier has
//! come near the end of what is populated; a thread that takes a page pays one relaxed load, and once per few MiB one wake-up.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::arena::Arena;

/// Below it the arena has small pages only, and nothing is populated ahead: an instance with few keys stays small.
const LARGE_BYTES: u64 = 64 << 20;
/// What is populated ahead at most: at 1 GB/s it lasts for 8 ms.
const AHEAD_BYTES_MAX: u64 = 8 << 20;
/// Populated ahead is at most 1/32 = 3 % of what is in use.
const AHEAD_SHARE: u64 = 32;
/// One `madvise` populates at most this: a huge page.
const STEP_BYTES: u64 = 2 << 20;
/// Slower growth, in bytes per second, is left alone: the faults that it meets do not add up.
const FAST_BYTES_PER_SECOND: u64 = 64 << 20;

/// How the arena is helped to grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrowthOptions {
    /// Advise huge pages once the arena is large.
    pub huge_pages: bool,
    /// Populate memory ahead while the arena grows fast.
    pub populate: bool,
}

/// What allocating threads and the helper tell each other.
#[derive(Default)]
pub(crate) struct Growth {
    /// The frontier at which the helper wants to be woken next; 0 until it runs, the maximum while it is awake.
    wake_at: AtomicU64,
    helper: OnceLock<Thread>,
    /// The end of what has been populated ahead.
    populated_to: AtomicU64,
}

impl Growth {
    /// Called after pages were taken, outside the mutex; wakes the helper when the frontier has reached its mark.
    #[inline]
    pub(crate) fn after_take(&self, frontier_bytes: u64) {
        let wake_at = self.wake_at.load(Relaxed);
        if wake_at != 0 && frontier_bytes >= wake_at {
            self.wake(wake_at);
        }
    }

    #[cold]
    fn wake(&self, wake_at: u64) {
        // One of the threads that come here wakes it.
        if self.wake_at.compare_exchange(wake_at, u64::MAX, Relaxed, Relaxed).is_ok()
            && let Some(helper) = self.helper.get()
        {
            helper.unpark();
        }
    }
}

impl Arena {
    /// Starts the helper thread, which runs as long as the process. A second call changes nothing.
    pub fn start_helper(&'static self, options: GrowthOptions) -> io::Result<()> {
        if self.growth.helper.get().is_some() {
            return Ok(());
        }
        let helper = thread::Builder::new().name("memory-ahead".into()).spawn(move || help(self, options))?;
        if self.growth.helper.set(helper.thread().clone()).is_ok() {
            self.growth.wake_at.store(LARGE_BYTES, Relaxed);
        }
        Ok(())
    }

    /// The end of what the helper has populated.
    pub fn populated_to_bytes(&self) -> u64 {
        self.growth.populated_to.load(Relaxed)
    }
}

fn help(arena: &'static Arena, options: GrowthOptions) {
    let growth = &arena.growth;
    let mut huge_pages_wanted = options.huge_pages;
    let (mut woken, mut seen) = (Instant::now(), LARGE_BYTES);
    loop {
        // Parking may end for no reason; only a mark that was reached counts.
        while growth.wake_at.load(Relaxed) != u64::MAX {
            thread::park();
        }
        if huge_pages_wanted {
            huge_pages_wanted = false;
            arena.advise_huge_pages();
            collapse(arena);
        }
        let frontier = arena.frontier_bytes();
        let slow_time = Duration::from_micros((frontier - seen) * 1_000_000 / FAST_BYTES_PER_SECOND);
        let fast = woken.elapsed() < slow_time;
        (woken, seen) = (Instant::now(), frontier);
        // The kernel may not know this advice (before 5.14) or have no memory left: never mind.
        if !options.populate || fast && !populate(arena, frontier) {
            return;
        }
        // While it grows fast, half of what is populated is left when the helper wakes again.
        growth.wake_at.store(frontier + ahead_bytes(frontier) / 2, Relaxed);
    }
}

/// Turns the small pages that the arena began with into huge ones. Each step copies 2 MiB, once in the life of the process, and whoever
/// touches just that part waits for it: about half a millisecond. The kernel may not know this advice (before 6.1) or have no huge
/// page left: then they stay small.
fn collapse(arena: &Arena) {
    let end = LARGE_BYTES.min(arena.frontier_bytes()) / STEP_BYTES * STEP_BYTES;
    for at in (0..end).step_by(STEP_BYTES as usize) {
        if !arena.advise(at as usize, STEP_BYTES as usize, libc::MADV_COLLAPSE) {
            return;
        }
    }
}

/// Populates what lies ahead of `frontier` and is not yet; false if the kernel refuses.
fn populate(arena: &Arena, frontier: u64) -> bool {
    let end = (frontier + ahead_bytes(frontier)).min(arena.bytes_reserved()) / STEP_BYTES * STEP_BYTES;
    let mut at = arena.populated_to_bytes().max(frontier.next_multiple_of(PAGE));
    while at < end {
        let step = (STEP_BYTES - at % STEP_BYTES).min(end - at);
        if !arena.advise(at as usize, step as usize, libc::MADV_POPULATE_WRITE) {
            return false;
        }
        at += step;
        arena.growth.populated_to.store(at, Relaxed);
    }
    true
}

const PAGE: u64 = crate::pages::PAGE_BYTES as u64;

fn ahead_bytes(frontier: u64) -> u64 {
    (frontier / AHEAD_SHARE).clamp(STEP_BYTES, AHEAD_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The helper's work is advice, so what can be tested is that it happens, and that what is written meanwhile stays.
    #[test]
    #[cfg_attr(miri, ignore = "the arena is too small to grow")]
    fn memory_is_populated_ahead_and_keeps_what_is_written() {
        let arena = Arena::reserve(1 << 30).unwrap();
        arena.start_helper(GrowthOptions { huge_pages: true, populate: true }).unwrap();
        arena.start_helper(GrowthOptions { huge_pages: true, populate: true }).unwrap();
        let mut big: Vec<crate::BigRef> = Vec::new();
        let started = Instant::now();
        // It grows fast unless the machine is very busy; then the next step may be.
        while arena.populated_to_bytes() == 0 && big.len() < 3000 {
            big.push(crate::BigRef::new(arena, &[big.len() as u8; 300_000]));
            if arena.frontier_bytes() > LARGE_BYTES {
                while arena.growth.wake_at.load(Relaxed) == u64::MAX
                    && started.elapsed() < Duration::from_secs(30)
                {
                    thread::yield_now();
                }
            }
        }
        assert!(arena.populated_to_bytes() > LARGE_BYTES, "{} bytes used", arena.bytes_used());
        assert!(arena.populated_to_bytes() <= arena.frontier_bytes() + AHEAD_BYTES_MAX);
        for (index, big) in big.iter().enumerate() {
            assert!(big.as_ref().iter().all(|&byte| byte == index as u8));
        }
    }
}
