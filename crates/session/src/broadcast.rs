//! The one way to ask every thread something: a question that each thread answers between two of its commands, and a connection that
//! waits for all the answers. CONFIG SET, CLIENT LIST, CLIENT KILL, CLIENT PAUSE, MONITOR, SLOWLOG and SHUTDOWN all go this way.
//!
//! ```text
//!   connection --question--> mailbox of every thread (its own too)
//!              <--answer---- one by one; the last one runs `finish`, which writes the reply at its place in the order
//! ```

use std::any::Any;
use std::sync::Arc;

use resp::Reply;
use router::task::Ticket;

use crate::worker::{Cx, Flow, Worker};

/// What a thread answers; `finish` knows the type.
pub type Answer = Box<dyn Any + Send>;

/// What every thread does when it is asked. It must not block and must not ask in turn.
pub type Ask = Arc<dyn Fn(&mut Worker) -> Answer + Send + Sync>;

/// What the asking connection does with the answers, one of each thread, in no order.
pub type Finish = Box<dyn FnOnce(&mut Cx<'_>, Vec<Answer>, &mut Reply) -> Flow>;

/// A question on its way to one thread.
pub struct Question {
    pub ask: Ask,
    /// Who waits for the answer; nobody does when a signal asks.
    pub from: Option<Ticket>,
}

/// A connection's wait for the answers.
pub struct Gathering {
    pub answers: Vec<Answer>,
    pub missing: usize,
    pub finish: Finish,
    /// `reactor::clock::ticks` of the question.
    pub started: u64,
}

/// Takes the answers back as what `ask` returned.
pub fn answers_as<T: 'static>(answers: Vec<Answer>) -> impl Iterator<Item = T> {
    answers
        .into_iter()
        .map(|answer| *answer.downcast::<T>().expect("finish expects what its question returns"))
}
