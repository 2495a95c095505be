//! Headers of vectored sends. The kernel reads them while an operation is submitted, so they need a place that does not move until then,
//! and no longer.

use crate::output::SPANS_MAX;
use crate::sys::{self, IoVec};

/// One header and its spans.
pub(super) struct Message {
    header: libc::msghdr,
    spans: [IoVec; SPANS_MAX],
}

/// The headers of one turn; reused in the next.
#[derive(Default)]
pub(super) struct Messages {
    // Boxed, so that growing the list does not move them.
    #[expect(clippy::vec_box, reason = "the kernel holds their addresses while the list grows")]
    all: Vec<Box<Message>>,
    used: usize,
}

/// Headers kept for later turns: 32 x 1.1 KiB.
const MESSAGES_MAX: usize = 32;

impl Messages {
    /// A header over the spans that `fill` writes; `fill` returns how many spans and bytes. The pointer is valid until
    /// [`Messages::reuse`].
    pub fn make(
        &mut self,
        fill: impl FnOnce(&mut [IoVec]) -> (usize, usize),
    ) -> (*const libc::msghdr, usize) {
        if self.used == self.all.len() {
            let empty = IoVec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            let message = Message { header: sys::message_of(&mut []), spans: [empty; SPANS_MAX] };
            self.all.push(Box::new(message));
        }
        let message = &mut *self.all[self.used];
        self.used += 1;
        let (count, bytes) = fill(&mut message.spans);
        message.header = sys::message_of(&mut message.spans[..count]);
        (&raw const message.header, bytes)
    }

    /// Everything has been submitted: the headers are free again.
    pub fn reuse(&mut self) {
        self.used = 0;
        self.all.truncate(MESSAGES_MAX);
    }
}
