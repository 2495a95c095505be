//! The atomics, cells and pauses that the latch and the settle word of waiters are made of. Not used anywhere else: the model checks
//! compile those a second and a third time against other versions of this module, whose operations a model checker schedules.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// Looks at a held latch this often before a visit is posted. A pause takes 10 to 45 ns on today's processors, so that this is 100 ns
/// at most on most of them: about as long as half of the commands, and less than what posting costs.
pub(crate) const SPINS: u32 = 3;

/// A pause between two looks at a latch.
#[inline]
pub(crate) fn pause() {
    std::hint::spin_loop();
}

/// Called when a panic unwinds out of a shard: what it protects may be half changed and the shard would stay held for ever.
#[cold]
pub(crate) fn panicked_inside() {
    use std::io::Write;
    // Not `eprintln`: the test harness would capture it, and it dies with us.
    let _ = std::io::stderr().write_all(
        b"A panic inside a shard: the process stops here (tests: --nocapture shows the panic's message).\n",
    );
    std::process::abort();
}

/// `UnsafeCell`, as far as the latch needs it.
#[derive(Default)]
pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// The value's address; only the holder of the latch may follow it.
    #[inline]
    pub(crate) fn ptr(&self) -> *mut T {
        self.0.get()
    }
}
