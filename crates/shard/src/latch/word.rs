//! The latch word of one shard: free, held, or held with posts. Not the order in which posts are executed ([`super::visit::Inbox`]) and
//! not what happens to them ([`super::Shards`]).
//!
//! ```text
//!   0                    free: nobody is inside and nothing is posted
//!   address | HELD       held; address: the last parcel that was posted, linked to the earlier ones; 0: nothing is posted
//! ```
//!
//! Held and posted are one word, so that nobody can leave past a post: leaving is a compare-and-swap from "held, nothing posted" to
//! free. A post (Treiber 1986, push and take-all only, hence no ABA) succeeds only while the shard is held.
#![allow(unsafe_code, reason = "parcels travel between threads as raw pointers in an atomic word")]

use std::ptr;

use super::super::sync::{AtomicPtr, Ordering, SPINS, pause};
use super::visit::Parcel;

const HELD: usize = 1;

pub(super) struct Word<D>(AtomicPtr<Parcel<D>>);

impl<D> Word<D> {
    pub(super) fn free() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Enters if the shard is free.
    #[inline]
    pub(super) fn try_enter(&self) -> bool {
        // Acquire: sees everything that was done inside before whoever left last, with Release, left. Failure reads nothing.
        self.0
            .compare_exchange(ptr::null_mut(), held(ptr::null_mut()), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Enters if the shard is free or becomes free within a very short time.
    #[inline]
    pub(super) fn enter(&self) -> bool {
        self.try_enter() || self.enter_after_spinning()
    }

    #[cold]
    fn enter_after_spinning(&self) -> bool {
        for _ in 0..SPINS {
            pause();
            // Relaxed: only decides whether to try; entering itself acquires.
            let word = self.0.load(Ordering::Relaxed);
            if word.is_null() && self.try_enter() {
                return true;
            }
            if word.addr() > HELD {
                // Others have posted: the shard will not be free before they had their turn.
                return false;
            }
        }
        false
    }

    /// Leaves the shard, which the caller holds, unless something was posted.
    #[inline]
    pub(super) fn try_leave(&self) -> bool {
        // Release: whoever enters next, with Acquire, sees all that was done inside. Failure reads nothing: taking the posts acquires.
        self.0
            .compare_exchange(held(ptr::null_mut()), ptr::null_mut(), Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Posts a parcel to the shard. If the shard has become free the caller is inside instead and keeps the parcel.
    pub(super) fn post(&self, parcel: Box<Parcel<D>>) -> Option<Box<Parcel<D>>> {
        let parcel = Box::into_raw(parcel);
        // Relaxed: a guess that the exchange below verifies; the earlier parcel is linked, not looked into.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word.is_null() {
                if self.try_enter() {
                    // SAFETY: the parcel came from a box above and was never published.
                    return Some(unsafe { Box::from_raw(parcel) });
                }
            } else {
                // SAFETY: the parcel is still ours alone.
                unsafe { (*parcel).next = word.map_addr(|address| address & !HELD) };
                // Release: whoever takes the posts sees the parcel, and what its visit did to the shards that it already holds. The
                // earlier posts stay published through this exchange, which continues their release sequence.
                let posted =
                    self.0.compare_exchange_weak(word, held(parcel), Ordering::Release, Ordering::Relaxed);
                if posted.is_ok() {
                    return None;
                }
            }
            // Relaxed: as above.
            word = self.0.load(Ordering::Relaxed);
        }
    }

    /// Whether something is posted, as far as one can see.
    #[inline]
    pub(super) fn has_posts(&self) -> bool {
        // Relaxed: only decides whether to take them; taking acquires.
        self.0.load(Ordering::Relaxed).addr() > HELD
    }

    /// Takes all posts, the last one first, and stays inside. Only for the holder.
    pub(super) fn take(&self) -> *mut Parcel<D> {
        // Acquire: sees the parcels as their posters published them. Nothing is published by this: leaving is what releases.
        self.0.swap(held(ptr::null_mut()), Ordering::Acquire).map_addr(|address| address & !HELD)
    }
}

#[inline]
fn held<D>(parcel: *mut Parcel<D>) -> *mut Parcel<D> {
    parcel.map_addr(|address| address | HELD)
}
