//! The ring itself: queueing operations, the one system call, collecting completions. Knows no connection.
#![allow(unsafe_code, reason = "operations refer to memory")]

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, squeue};

/// Operations queued before the kernel must be entered.
const SUBMISSIONS: u32 = 512;
/// Completions the kernel may post before it has to set some aside: every buffer filled, and every connection of a large burst told
/// that there is none left.
const COMPLETIONS: u32 = 4096;

/// What the kernel reports of one operation.
#[derive(Copy, Clone)]
pub(super) struct Completion {
    pub user_data: u64,
    pub result: i32,
    flags: u32,
}

impl Completion {
    /// Whether the operation goes on.
    pub fn more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The id of the buffer it filled.
    pub fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

/// A ring.
pub(super) struct Ring {
    uring: IoUring,
    /// Operations that found the queue full.
    backlog: VecDeque<squeue::Entry>,
    flags: EnterFlags,
}

impl Ring {
    /// A ring for the calling thread, which alone may use it.
    pub fn new() -> io::Result<Ring> {
        let uring = IoUring::builder()
            .dontfork()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_defer_taskrun()
            .build(SUBMISSIONS)?;
        let parameters = uring.params();
        let enough = parameters.is_feature_ext_arg()
            && parameters.is_feature_nodrop()
            && parameters.is_feature_submit_stable()
            && parameters.is_feature_skip_cqe_on_success();
        if !enough {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel's io_uring is too old"));
        }
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if parameters.is_feature_no_iowait() {
            // Waiting for clients is idling; it should not look like waiting for a disk.
            flags |= EnterFlags::NO_IOWAIT;
        }
        Ok(Ring { uring, backlog: VecDeque::new(), flags })
    }

    pub fn uring(&self) -> &IoUring {
        &self.uring
    }

    /// Queues an operation. It never fails: what does not fit waits here.
    ///
    /// # Safety
    /// The memory the operation refers to stays valid and unmoved until its last completion has been seen, or, for an operation that
    /// completes while it is submitted, until [`Ring::is_submitted`] says so.
    pub unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: our caller's promise is the crate's demand.
        let mut full = || unsafe { self.uring.submission().push(&entry) }.is_err();
        if !self.backlog.is_empty() || full() {
            self.backlog.push_back(entry);
        }
        if self.backlog.len() >= SUBMISSIONS as usize {
            // If this fails so will the turn's own, which tells.
            let _ = self.enter(0, None);
        }
    }

    /// Whether all operations are with the kernel.
    pub fn is_submitted(&mut self) -> bool {
        self.backlog.is_empty() && self.uring.submission().is_empty()
    }

    /// Whether entering would do anything though nothing is queued.
    pub fn has_work(&mut self) -> bool {
        let submission = self.uring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Submits what is queued, lets the kernel finish what it can, and waits for `want` completions, not longer than `timeout`.
    pub fn enter(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        loop {
            self.enter_once(if self.backlog.is_empty() { want } else { 0 }, timeout)?;
            let mut submission = self.uring.submission();
            let room = submission.capacity() - submission.len();
            if self.backlog.is_empty() || room == 0 {
                return Ok(());
            }
            for entry in self.backlog.drain(..room.min(self.backlog.len())) {
                // SAFETY: `push` was promised what is demanded here.
                let pushed = unsafe { submission.push(&entry) };
                assert!(pushed.is_ok(), "there is room");
            }
        }
    }

    fn enter_once(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        let count = u32::try_from(self.uring.submission().len()).expect("the queue has 32-bit indices");
        let time = timeout.map(|time| Timespec::new().sec(time.as_secs()).nsec(time.subsec_nanos()));
        let args = SubmitArgs::new();
        let args = match &time {
            Some(time) => args.timespec(time),
            None => args,
        };
        let flags = self.flags;
        // SAFETY: the argument is what `EXT_ARG` announces, and outlives the call.
        let result = unsafe { self.uring.submitter().enter(count, want, flags.bits(), Some(&args)) };
        match result.map_err(|error| (error.raw_os_error(), error)) {
            // Interrupted, timed out, or asked to collect completions first: the queues say what has been done.
            Ok(_) | Err((Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// Takes all completions there are, those included that the kernel had to set aside.
    pub fn collect(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        loop {
            completions.extend(self.uring.completion().map(|entry| Completion {
                user_data: entry.user_data(),
                result: entry.result(),
                flags: entry.flags(),
            }));
            if !self.uring.submission().cq_overflow() {
                return Ok(());
            }
            self.enter_once(0, None)?;
        }
    }
}
