//! The latch, the mailbox and the settle word of waiters under two model checkers. Their source is compiled twice more, each time against a `sync` module whose
//! atomics, cells and pauses the checker schedules; nothing else is replaced.
//!
//! - [`shuttled`]: random and PCT schedules of whole scenarios, and all schedules of small ones; atomics are sequentially consistent.
//!   `DARTER_MODEL_SEED` repeats a run, `DARTER_MODEL_ITERATIONS` makes it longer; both are printed when it fails.
//! - [`loomed`]: small scenarios under all schedules with few preemptions and all values that the C11 orderings allow a load to
//!   return; it also checks that everything in a shard and in a parcel is handed over by an acquire that sees a release.

mod shuttled {
    pub(super) mod sync {
        //! The latch's atomics, scheduled by shuttle.

        pub(crate) use shuttle::hint::spin_loop as pause;
        pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

        pub(crate) const SPINS: u32 = 1;

        /// The checker reports the panic itself.
        pub(crate) fn panicked_inside() {}

        #[derive(Default)]
        pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

        impl<T> Cell<T> {
            pub(crate) fn new(value: T) -> Self {
                Self(std::cell::UnsafeCell::new(value))
            }

            pub(crate) fn ptr(&self) -> *mut T {
                self.0.get()
            }
        }
    }

    #[allow(
        dead_code,
        unused_imports,
        clippy::duplicate_mod,
        unreachable_pub,
        missing_docs,
        reason = "a second copy, of which the checks use a part"
    )]
    #[path = "../../mod.rs"]
    pub(super) mod latch;

    #[allow(
        dead_code,
        clippy::duplicate_mod,
        unreachable_pub,
        missing_docs,
        reason = "a second copy, of which the checks use a part"
    )]
    #[path = "../../../settle.rs"]
    pub(super) mod settle;

    mod bank;
    mod history;
    mod run;
    mod waits;
    mod workers;
}

mod loomed {
    pub(super) mod sync {
        //! The latch's atomics and cells, scheduled and watched by loom.

        pub(crate) use loom::hint::spin_loop as pause;
        pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

        pub(crate) const SPINS: u32 = 1;

        /// The checker reports the panic itself.
        pub(crate) fn panicked_inside() {}

        pub(crate) struct Cell<T>(loom::cell::UnsafeCell<T>);

        impl<T> Cell<T> {
            pub(crate) fn new(value: T) -> Self {
                Self(loom::cell::UnsafeCell::new(value))
            }

            /// Counts as a write at this moment: loom fails if it is not ordered after all earlier ones.
            pub(crate) fn ptr(&self) -> *mut T {
                self.0.with_mut(|value| value)
            }
        }
    }

    #[allow(
        dead_code,
        unused_imports,
        clippy::duplicate_mod,
        unreachable_pub,
        missing_docs,
        reason = "a third copy, of which the checks use a part"
    )]
    #[path = "../../mod.rs"]
    pub(super) mod latch;

    #[allow(
        dead_code,
        clippy::duplicate_mod,
        unreachable_pub,
        missing_docs,
        reason = "a third copy, of which the checks use a part"
    )]
    #[path = "../../../settle.rs"]
    pub(super) mod settle;

    mod checks;
}
