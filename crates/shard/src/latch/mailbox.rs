//! How threads reach one another: a mailbox per thread that anyone may push to, and that tells who must wake the thread. Not the waking
//! itself, which is the event loop's business.
//!
//! ```text
//!   0              awake, empty
//!   address        awake or being woken; address: the last letter, linked to the earlier ones
//!   ASLEEP         asleep, or about to sleep; empty
//! ```
//!
//! Mail and sleep are one word: announcing the sleep fails if there is mail, and the push that finds the announcement takes it back and must
//! wake. So no wake-up is lost, none is sent to a thread that is awake, and no fence is needed between two words.
#![allow(unsafe_code, reason = "letters travel between threads as raw pointers in an atomic word")]

use std::ptr;

use super::super::sync::{AtomicPtr, Ordering};

const ASLEEP: usize = 1;

/// The mail of one thread: many push, one takes.
pub struct Mailbox<T>(AtomicPtr<Letter<T>>);

struct Letter<T> {
    /// Toward earlier letters in the mailbox, toward later ones once taken.
    next: *mut Letter<T>,
    message: T,
}

// SAFETY: letters own their messages and are handed over by the word (release and acquire); a message is only touched by who has it.
unsafe impl<T: Send> Sync for Mailbox<T> {}

impl<T> Mailbox<T> {
    /// An empty mailbox of a thread that is awake.
    pub fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Adds a message. True: the thread has announced its sleep and the caller must wake it; nobody else will.
    #[must_use = "a sleeping thread must be woken"]
    pub fn push(&self, message: T) -> bool {
        let letter = Box::into_raw(Box::new(Letter { next: ptr::null_mut(), message }));
        // Relaxed: a guess that the exchange verifies; the earlier letter is linked, not looked into.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let asleep = word.addr() == ASLEEP;
            // SAFETY: the letter is ours until it is in the mailbox.
            unsafe { (*letter).next = if asleep { ptr::null_mut() } else { word } };
            // Release: who takes the mail sees the message. Earlier letters stay published through this exchange, which continues their
            // release sequence. Failure: as above.
            match self.0.compare_exchange_weak(word, letter, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return asleep,
                Err(seen) => word = seen,
            }
        }
    }

    /// Takes all mail, in the order in which it was pushed. Only for the mailbox's own thread, awake.
    pub fn take(&self) -> Mail<T> {
        // Relaxed: decides only whether to look; spares the line a write.
        if self.0.load(Ordering::Relaxed).addr() <= ASLEEP {
            return Mail(ptr::null_mut());
        }
        // Acquire: sees the messages as they were pushed.
        let last = self.0.swap(ptr::null_mut(), Ordering::Acquire);
        if last.addr() == ASLEEP { Mail(ptr::null_mut()) } else { Mail(reversed(last)) }
    }

    /// Announces that the thread is about to sleep: from now on one push is told to wake it. False: there is mail, do not sleep.
    pub fn prepare_sleep(&self) -> bool {
        // Relaxed: success or failure is decided by the order of changes of this one word, and taking the mail acquires.
        self.0
            .compare_exchange(
                ptr::null_mut(),
                ptr::without_provenance_mut(ASLEEP),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Takes the announcement back: the thread is awake, whatever woke it. Harmless without an announcement.
    pub fn awake(&self) {
        let asleep = ptr::without_provenance_mut(ASLEEP);
        // Relaxed: as in `prepare_sleep`; if this fails there is mail, or no announcement.
        if self.0.load(Ordering::Relaxed).addr() == ASLEEP {
            let _ = self.0.compare_exchange(asleep, ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        self.awake();
        drop(self.take());
    }
}

fn reversed<T>(last: *mut Letter<T>) -> *mut Letter<T> {
    let mut later = ptr::null_mut();
    let mut letter = last;
    while !letter.is_null() {
        // SAFETY: taken letters are ours, and every link leads to another one or is null.
        let earlier = unsafe { std::mem::replace(&mut (*letter).next, later) };
        later = letter;
        letter = earlier;
    }
    later
}

/// Mail that was taken, oldest first.
pub struct Mail<T>(*mut Letter<T>);

// SAFETY: it owns its letters.
unsafe impl<T: Send> Send for Mail<T> {}

impl<T> Iterator for Mail<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: taken letters are ours and came from boxes.
        let letter = *unsafe { Box::from_raw(self.0) };
        self.0 = letter.next;
        Some(letter.message)
    }
}

impl<T> Drop for Mail<T> {
    fn drop(&mut self) {
        for _ in self.by_ref() {}
    }
}
