//! What a thread does between commands: expiry and memory of the shards it is home to, clients that idle too long, pauses that end.
//!
//! Every duty works in slices of at most 100 us, so that no command waits longer for it.

use std::time::Duration;

use crate::worker::Worker;

/// How often the thread looks after its shards while nothing is due, in ms.
const PERIOD_MS: u64 = 100;

/// The duties of one thread.
#[derive(Debug, Default)]
pub struct Background {
    /// Unix time in ms when duties are due next.
    due_ms: u64,
}

impl Background {
    /// How long the loop may sleep from `now_ms` on.
    pub fn wait(&self, now_ms: u64) -> Duration {
        Duration::from_millis(self.due_ms.saturating_sub(now_ms))
    }
}

/// Runs what is due.
pub(crate) fn run(worker: &mut Worker) {
    if worker.now_ms < worker.background.due_ms {
        return;
    }
    worker.background.due_ms = worker.now_ms + PERIOD_MS;
    if worker.pause.until_ms != 0 && worker.pause.until_ms <= worker.now_ms {
        worker.end_pause();
    }
    close_idle(worker);
}

/// `timeout`: closes clients that have sent nothing for too long.
fn close_idle(worker: &mut Worker) {
    let timeout_ms = u64::from(worker.config.timeout) * 1000;
    if timeout_ms == 0 {
        return;
    }
    let now_ms = worker.now_ms;
    let idle: Vec<_> = worker
        .connections()
        .filter(|connection| connection.waiting.is_none() && !connection.client.monitor)
        .filter(|connection| now_ms.saturating_sub(connection.client.active_ms) > timeout_ms)
        .map(|connection| connection.reactor_id)
        .collect();
    for id in idle {
        worker.kill(id);
    }
}
