//! Growing without stumbling: huge pages once the arena is large, and a helper thread that has memory populated ahead of
//! its use. Both are advice: without them everything works, slower. Not an allocator: it never decides who gets what.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::Thread;

/// State of the advice, and the helper to wake.
#[derive(Default)]
pub(crate) struct Growth {
    /// The frontier at which the helper wants to be woken next; 0 until it runs.
    wake_at: AtomicU64,
    stop: AtomicBool,
    helper: OnceLock<Thread>,
}

impl Growth {
    /// Called after pages were taken, outside the mutex; wakes the helper when the frontier has reached its mark.
    #[inline]
    pub(crate) fn after_take(&self, frontier_bytes: u64) {
        let wake_at = self.wake_at.load(Relaxed);
        if wake_at != 0 && frontier_bytes >= wake_at && !self.stop.load(Relaxed) {
            self.wake_at.store(u64::MAX, Relaxed);
            if let Some(helper) = self.helper.get() {
                helper.unpark();
            }
        }
    }
}
