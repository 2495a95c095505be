//! The one word that settles what becomes of a waiting command: served, out of time, or left by its client. Not who serves it or where it
//! waits.
//!
//! ```text
//!              claim (by who holds a shard of its keys)
//!     waiting ------------------------------------------> serving
//!        |    <------------------------------------------    |
//!        |       release: there was nothing for it           |
//!        | cancel (time, CLIENT UNBLOCK)                     | settle: it has its reply
//!        v                                                   v
//!     settled <----------------------------------------------+   abandon, from anywhere: its client has gone
//! ```
//!
//! *Serving* lasts as long as one run of the command inside held shards. Nothing is read because of this word: the words of a waiter never
//! change, data are ordered by the latches, replies by the mailboxes. Hence everything here is relaxed; what counts is that the
//! changes of one word have one order.

use super::sync::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const SERVING: u8 = 1;
const SETTLED: u8 = 2;

/// See the head of this file.
pub struct Settle(AtomicU8);

/// What [`Settle::claim`] and [`Settle::cancel`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It waited, and is the caller's now.
    Mine,
    /// Somebody is serving it, who holds another shard of its keys.
    Busy,
    /// It waits no more.
    Settled,
}

impl Settle {
    /// Waiting.
    pub fn new() -> Self {
        Self(AtomicU8::new(WAITING))
    }

    /// Begins to serve it; only for who holds a shard of its keys, and only until that shard is left. The caller ends with [`Self::settle`] or
    /// [`Self::release`].
    pub fn claim(&self) -> Claim {
        self.change(SERVING)
    }

    /// Ends the wait from outside; the caller writes the reply if it is [`Claim::Mine`].
    pub fn cancel(&self) -> Claim {
        self.change(SETTLED)
    }

    fn change(&self, to: u8) -> Claim {
        match self.0.compare_exchange(WAITING, to, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Claim::Mine,
            Err(SERVING) => Claim::Busy,
            Err(_) => Claim::Settled,
        }
    }

    /// Ends a claim: there was nothing for it, and it waits on. False: its client has gone meanwhile.
    pub fn release(&self) -> bool {
        self.0.compare_exchange(SERVING, WAITING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ends a claim: it was served. Or ends everything, as its client has gone; what is served at this moment is then served in vain.
    pub fn settle(&self) {
        self.0.store(SETTLED, Ordering::Relaxed);
    }

    /// Whether it waits no more.
    pub fn is_settled(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SETTLED
    }
}

impl Default for Settle {
    fn default() -> Self {
        Self::new()
    }
}
