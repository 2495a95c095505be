//! What a connection has yet to send: bytes of the caller's, with reference-counted segments spliced in, which are sent from where they
//! are. Knows memory and order; knows neither sockets nor engines.
//!
//! ```text
//! piece:  bytes   $1000000\r\n | \r\n:1\r\n          shared (10, segment): the segment goes before byte 10
//! wire:   bytes[0..10]  segment  bytes[10..]
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use crate::pool::Pool;
use crate::sys::IoVec;

/// A value that is sent without being copied, kept alive by its reference count. Its bytes and their place must not change while it is
/// alive.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// One batch of replies: `bytes`, with each shared segment spliced in before the byte at its position (ascending; equal positions keep
/// their order; a position equal to the length appends).
#[derive(Default)]
pub struct Output {
    /// Replies, less the shared segments.
    pub bytes: Vec<u8>,
    /// Position in `bytes`, segment.
    pub shared: Vec<(usize, SharedBytes)>,
}

impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Output {
        Output { bytes, shared: Vec::new() }
    }
}

/// Spans of one vectored send. Beyond 64 or so the kernel's work per span is all there is to save.
pub(crate) const SPANS_MAX: usize = 64;

/// Replies up to this many bytes are merged into the piece before them, so that a slow reader of many small messages does not hold a
/// buffer for each.
const MERGED_BYTES_MAX: usize = 64 << 10;

/// An [`Output`] that is being sent, and how far it is.
struct Piece {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that are out.
    sent: usize,
    /// Segments that are not out entirely.
    shared: VecDeque<(usize, SharedBytes)>,
    /// Bytes of the first segment that are out.
    shared_sent: usize,
}

impl Piece {
    fn new(output: Output) -> Piece {
        Piece { bytes: output.bytes, sent: 0, shared: output.shared.into(), shared_sent: 0 }
    }

    /// Calls `span` with each span that is not out, in order, until it says stop. Says whether it did.
    fn spans<'a>(&'a self, mut span: impl FnMut(&'a [u8]) -> bool) -> bool {
        let (mut from, mut skip) = (self.sent, self.shared_sent);
        for (position, segment) in &self.shared {
            let segment: &[u8] = (**segment).as_ref();
            if !span(&self.bytes[from..*position]) || !span(&segment[skip..]) {
                return false;
            }
            (from, skip) = (*position, 0);
        }
        span(&self.bytes[from..])
    }

    /// Takes up to `count` bytes off the front; returns how many of `count` are left.
    fn advance(&mut self, mut count: usize) -> usize {
        while let Some((position, segment)) = self.shared.front() {
            let before = count.min(position - self.sent);
            self.sent += before;
            count -= before;
            let left = (**segment).as_ref().len() - self.shared_sent;
            if self.sent < *position || count < left {
                self.shared_sent += count;
                return 0;
            }
            count -= left;
            self.shared_sent = 0;
            self.shared.pop_front();
        }
        let rest = count.min(self.bytes.len() - self.sent);
        self.sent += rest;
        count - rest
    }

    fn is_done(&self) -> bool {
        self.shared.is_empty() && self.sent == self.bytes.len()
    }
}

/// The unsent output of one connection. Empty, it owns no memory.
#[derive(Default)]
pub(crate) struct Outbox {
    head: Option<Piece>,
    rest: VecDeque<Piece>,
    /// Unsent bytes.
    pending: usize,
}

impl Outbox {
    /// Unsent bytes.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Puts a batch at the end.
    pub fn push(&mut self, output: Output, pool: &mut Pool) {
        let shared_bytes: usize = output.shared.iter().map(|(_, segment)| (**segment).as_ref().len()).sum();
        let in_order = output.shared.is_sorted_by_key(|(position, _)| *position)
            && output.shared.last().is_none_or(|(position, _)| *position <= output.bytes.len());
        assert!(in_order, "segments ascend and lie inside the bytes");
        self.pending += output.bytes.len() + shared_bytes;
        if output.bytes.len() + shared_bytes == 0 {
            return pool.give(output.bytes);
        }
        let Some(last) = self.rest.back_mut().or(self.head.as_mut()) else {
            return self.append(Piece::new(output));
        };
        if last.bytes.len() + output.bytes.len() > MERGED_BYTES_MAX {
            return self.append(Piece::new(output));
        }
        let base = last.bytes.len();
        last.bytes.extend_from_slice(&output.bytes);
        last.shared.extend(output.shared.into_iter().map(|(position, segment)| (base + position, segment)));
        pool.give(output.bytes);
    }

    fn append(&mut self, piece: Piece) {
        if self.head.is_none() { self.head = Some(piece) } else { self.rest.push_back(piece) }
    }

    /// All that is unsent, if it is one span.
    pub fn single(&self) -> Option<&[u8]> {
        let head = self.head.as_ref().filter(|head| head.shared.is_empty() && self.rest.is_empty())?;
        Some(&head.bytes[head.sent..])
    }

    /// Describes the unsent bytes from the front, at most `bytes_max` of them, in `spans`. Returns how many spans and bytes.
    pub fn fill(&self, spans: &mut [IoVec], bytes_max: usize) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for piece in self.head.iter().chain(&self.rest) {
            let go_on = piece.spans(|span| {
                if span.is_empty() {
                    return true;
                }
                let length = span.len().min(bytes_max - bytes);
                spans[count] = IoVec { iov_base: span.as_ptr().cast_mut().cast(), iov_len: length };
                count += 1;
                bytes += length;
                count < spans.len() && bytes < bytes_max
            });
            if !go_on {
                break;
            }
        }
        (count, bytes)
    }

    /// Takes `count` sent bytes off the front; finished buffers go to the pool.
    pub fn advance(&mut self, mut count: usize, pool: &mut Pool) {
        assert!(count <= self.pending, "the kernel sends what it was given");
        self.pending -= count;
        while let Some(head) = &mut self.head {
            count = head.advance(count);
            if !head.is_done() {
                assert!(count == 0, "an unfinished piece swallows everything");
                return;
            }
            pool.give(std::mem::take(&mut head.bytes));
            self.head = self.rest.pop_front();
        }
        self.rest = VecDeque::new();
    }

    /// Drops everything.
    pub fn clear(&mut self, pool: &mut Pool) {
        for piece in self.head.take().into_iter().chain(std::mem::take(&mut self.rest)) {
            pool.give(piece.bytes);
        }
        self.pending = 0;
    }
}

#[cfg(test)]
mod tests;
