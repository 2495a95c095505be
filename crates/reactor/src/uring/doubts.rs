//! Ends that the ring forgot. When data and a reset (on some kernels: any end) arrive together, a multishot receive may read the data,
//! know that no more is there, and take both wake-ups for done; the dead connection then stays for ever, for nothing wakes it again. So
//! every connection that has received is looked at once, a moment later, many with one system call; one whose peer is gone is given the
//! missing wake-up. An idle server looks at nothing.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::conn::{ConnId, Receive};
use crate::core::Core;
use crate::sys;

/// How long after data the connection is looked at.
const DELAY: Duration = Duration::from_millis(200);

/// Connections looked at per turn, so that thousands do not hold up the others: 1024 take about 0.1 ms.
const CHECKED_MAX: usize = 1024;

/// The connections to look at.
#[derive(Default)]
pub(super) struct Doubts {
    list: Vec<ConnId>,
    polls: Vec<sys::Poll>,
}

impl Doubts {
    /// Data has arrived on this connection.
    pub fn add(&mut self, core: &mut Core, id: ConnId) {
        let Some(conn) = core.conns.get_mut(id).filter(|conn| !conn.doubted) else { return };
        conn.doubted = true;
        self.list.push(id);
        if core.check_at.is_none() {
            core.check_at = Some(Instant::now() + DELAY);
        }
    }

    /// Looks at the connections if it is time to.
    pub fn check(&mut self, core: &mut Core) {
        if core.check_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        self.polls.clear();
        let mut checked = self.list.split_off(self.list.len().saturating_sub(CHECKED_MAX));
        if self.list.is_empty() {
            core.check_at = None;
        }
        checked.retain(|id| {
            let Some(conn) = core.conns.get_mut(*id) else { return false };
            conn.doubted = false;
            let is_waiting = conn.receive == Receive::Armed;
            if is_waiting {
                self.polls.push(sys::poll_for_end(conn.socket().as_raw_fd()));
            }
            is_waiting
        });
        sys::poll_now(&mut self.polls);
        for (id, poll) in checked.into_iter().zip(&self.polls) {
            if let Some(conn) = core.conns.get(id).filter(|_| poll.revents != 0) {
                sys::shutdown_reading(conn.socket());
            }
        }
    }
}
