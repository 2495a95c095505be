//! Bytes that arrived on a connection. They live in a buffer of the reactor's and give it back when dropped, so a connection that says
//! nothing owns none.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use crate::uring::RingInput;

/// Size of the epoll engine's read buffers: one is in use at a time unless the caller keeps inputs, so it may be generous.
const READ_BYTES: usize = 64 << 10;
/// Idle read buffers kept.
const READ_BUFFERS_MAX: usize = 4;

/// Bytes that arrived, to be read through `Deref`. Drop it as soon as they are consumed: with the ring engine the buffers are few, and
/// connections starve when all are kept.
pub struct Input(Source);

enum Source {
    Pooled { buffer: Option<Box<[u8]>>, length: usize, buffers: Rc<ReadBuffers> },
    Ring(RingInput),
    Owned(Vec<u8>),
}

impl Input {
    pub(crate) fn pooled(buffer: Box<[u8]>, length: usize, buffers: &Rc<ReadBuffers>) -> Input {
        assert!(length <= buffer.len(), "the kernel stays inside the buffer");
        Input(Source::Pooled { buffer: Some(buffer), length, buffers: Rc::clone(buffers) })
    }

    pub(crate) fn ring(input: RingInput) -> Input {
        Input(Source::Ring(input))
    }

    pub(crate) fn owned(bytes: Vec<u8>) -> Input {
        Input(Source::Owned(bytes))
    }
}

impl Deref for Input {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Pooled { buffer, length, .. } => {
                &buffer.as_ref().expect("it is taken by drop only")[..*length]
            }
            Source::Ring(input) => input.bytes(),
            Source::Owned(bytes) => bytes,
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Source::Pooled { buffer, buffers, .. } = self
            && let Some(buffer) = buffer.take()
        {
            buffers.give(buffer);
        }
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Input({} bytes)", self.len())
    }
}

/// The epoll engine's read buffers.
#[derive(Default)]
pub(crate) struct ReadBuffers {
    idle: RefCell<Vec<Box<[u8]>>>,
}

impl ReadBuffers {
    pub fn take(&self) -> Box<[u8]> {
        self.idle.borrow_mut().pop().unwrap_or_else(|| vec![0; READ_BYTES].into())
    }

    pub fn give(&self, buffer: Box<[u8]>) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < READ_BUFFERS_MAX {
            idle.push(buffer);
        }
    }
}
