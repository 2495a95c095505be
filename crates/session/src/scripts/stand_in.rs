//! What a thread does for its other connections while a script of its own runs for too long: it reads what they send and answers BUSY, takes
//! new ones, and lets them kill the script. Called from inside the script, between two of its instructions.
//!
//! The script has borrowed the thread's engine; the thread works with a second one meanwhile, over the same shards. What concerns the
//! connection of the script itself, or the thread as a whole, is put off until the script has ended.

use std::time::Duration;

use reactor::{Event, clock};
use router::engine::Engine;
use stdx::rng::Rng;

use crate::shared::Message;
use crate::worker::Worker;

impl Worker {
    /// Takes the engine out for a script; a second one is in its place.
    pub(crate) fn lend_engine(&mut self) -> Box<Engine> {
        let mut engine = match self.spare.take() {
            Some(spare) => spare,
            None => {
                let rng = Rng::new(self.engine.rng.next_u64());
                Box::new(self.engine.second(rng))
            }
        };
        std::mem::swap(&mut self.engine, &mut *engine);
        engine
    }

    /// Puts the engine back.
    pub(crate) fn return_engine(&mut self, mut engine: Box<Engine>) {
        std::mem::swap(&mut self.engine, &mut *engine);
        self.engine.take_over(&mut engine);
        self.spare = Some(engine);
    }

    /// Serves the other connections of this thread once, without waiting.
    #[cold]
    pub(crate) fn stand_in(&mut self) {
        let before = (self.command_mark, self.command_bytes, self.ticks, self.now_ms);
        self.now_ms = clock::unix_ms();
        let settings = crate::worker::settings(&self.config);
        self.engine.surroundings.settings = std::sync::Arc::new(settings);
        self.engine.surroundings.now_ms = self.now_ms;
        self.serve_events();
        if self.reactor.turn(Some(Duration::ZERO)).is_ok() {
            self.serve_events();
        }
        for message in self.me().mailbox.take() {
            match message {
                Message::Adopt(socket, addresses) => self.adopt(socket, addresses),
                later => self.postponed_mail.push(later),
            }
        }
        self.engine.drain_duty();
        (self.command_mark, self.command_bytes, self.ticks, self.now_ms) = before;
    }

    fn serve_events(&mut self) {
        while let Some(event) = self.gathered_event() {
            let id = match &event {
                Event::Data { conn, .. } | Event::Closed { conn, .. } | Event::Drained { conn } => {
                    Some(*conn)
                }
                Event::Accepted { .. } | Event::AcceptFailed { .. } | Event::Woken => None,
            };
            let is_here = |id: reactor::ConnId| {
                let slot = self.connections.get(id.index()).and_then(Option::as_ref);
                slot.is_some_and(|connection| connection.reactor_id == id)
            };
            if id.is_none_or(is_here) {
                self.event(event);
            } else {
                // The connection whose script runs: it is not in its place.
                self.postponed.push_back(event);
            }
        }
    }
}
