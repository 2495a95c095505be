//! The end of the server, by SHUTDOWN or by a signal.
//!
//! ```text
//!   1. every thread closes its listeners; the last one to do so tells all of them:
//!   2. stop. A thread finishes what was posted to shards it holds, sends the replies that are written, ends.
//! ```
//!
//! The ports are thus free before any client notices that its connection ends, and a second start on the same port works from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reactor::clock;

use crate::broadcast::{Answer, Ask, Question};
use crate::shared::{Message, Shared};
use crate::worker::Worker;

/// How long clients have to take the replies that were written before the end, in us: 1 s.
const FLUSH_US_MAX: u64 = 1_000_000;

/// What every thread is asked at the end.
pub(crate) fn ask(shared: &'static Shared) -> Ask {
    let listening = AtomicUsize::new(shared.peers.len());
    Arc::new(move |worker: &mut Worker| -> Answer {
        worker.close_listeners();
        // AcqRel: whoever is last has seen all listeners closed.
        if listening.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.send_all(&(Arc::new(stop) as Ask));
        }
        Box::new(())
    })
}

fn stop(worker: &mut Worker) -> Answer {
    worker.stop = true;
    Box::new(())
}

/// Ends the server because of a signal: no client waits for it. Says whether it was not ending already.
pub fn begin(shared: &'static Shared) -> bool {
    let first = !shared.stopping.swap(true, Ordering::Relaxed);
    if first {
        shared.send_all(&ask(shared));
    }
    first
}

impl Shared {
    /// Asks every thread something without waiting for the answers.
    pub(crate) fn send_all(&self, ask: &Ask) {
        for thread in 0..self.peers.len() {
            let thread = u16::try_from(thread).expect("there are fewer than 65,536 threads");
            self.send(thread, Message::Question(Question { ask: Arc::clone(ask), from: None }));
        }
    }
}

impl Worker {
    /// Ends all connections: what is written is sent, to clients that take it soon.
    pub(crate) fn wind_down(&mut self) -> std::io::Result<()> {
        for connection in std::mem::take(&mut self.connections).into_iter().flatten() {
            self.reactor.close_after_flush(connection.reactor_id);
        }
        let until_us = clock::monotonic_us() + FLUSH_US_MAX;
        while self.reactor.connections() > 0 {
            let left_us = until_us.saturating_sub(clock::monotonic_us());
            if left_us == 0 {
                break;
            }
            self.reactor.turn(Some(Duration::from_micros(left_us)))?;
            // Nobody is left whom an event could concern.
            while self.gathered_event().is_some() {}
        }
        Ok(())
    }
}
