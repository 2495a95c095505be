//! Waking a reactor's thread from another one. A wake-up costs one atomic exchange while the target is awake; only a sleeping target
//! costs a system call.
//!
//! ```text
//! AWAKE --reactor is about to wait--> ASLEEP --reactor is back--> AWAKE
//!   \--wake()--> NOTIFIED <--wake() + eventfd--/                     (NOTIFIED: the next wait does not wait)
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::sys;

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// Makes the reactor's `turn` return soon with `Event::Woken`. What was written before `wake` is visible to the reactor's thread when
/// it sees that event; several wake-ups may be seen as one.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

struct Shared {
    state: AtomicU8,
    eventfd: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(Shared { state: AtomicU8::new(AWAKE), eventfd: sys::eventfd()? })))
    }

    /// Wakes the reactor. Never blocks; harmless when the reactor is gone.
    pub fn wake(&self) {
        // The exchange is what orders this against the reactor's own exchanges: either it finds NOTIFIED before it waits, or this
        // finds ASLEEP and signals.
        if self.0.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            sys::eventfd_signal(self.0.eventfd.as_fd());
        }
    }

    pub(crate) fn eventfd(&self) -> BorrowedFd<'_> {
        self.0.eventfd.as_fd()
    }

    /// The reactor announces that it is about to wait. False if it must not, because a wake-up came first.
    pub(crate) fn may_sleep(&self) -> bool {
        self.0.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The reactor is back. True if it was woken since the last time.
    pub(crate) fn was_woken(&self) -> bool {
        self.0.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Waker")
    }
}
