//! Reply buffers that are used over and over by one thread. Bounded in number and in size, so that a burst of large replies does not
//! stay in memory for ever.

/// Buffers kept at most.
const BUFFERS_MAX: usize = 256;
/// A buffer that has grown beyond this is given back to the allocator: 256 x 64 KiB = 16 MiB per thread at the very worst.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// What a new buffer starts with: most pipelines' replies, one allocator class.
const BUFFER_BYTES_NEW: usize = 1 << 10;

/// The buffers of one thread.
#[derive(Default)]
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    /// An empty buffer with some room.
    pub fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES_NEW))
    }

    /// Takes a buffer back.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let fits = (1..=BUFFER_BYTES_MAX).contains(&buffer.capacity());
        if fits && self.buffers.len() < BUFFERS_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Bytes that the buffers waiting here occupy.
    pub fn bytes(&self) -> usize {
        self.buffers.iter().map(Vec::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_few_and_small() {
        let mut pool = Pool::default();
        pool.give(Vec::new());
        assert_eq!(pool.bytes(), 0, "a buffer without memory is worth nothing");
        pool.give(Vec::with_capacity(BUFFER_BYTES_MAX + 1));
        assert_eq!(pool.bytes(), 0, "a grown buffer is dropped");
        for _ in 0..2 * BUFFERS_MAX {
            pool.give(b"used".to_vec());
        }
        assert_eq!(pool.buffers.len(), BUFFERS_MAX);
        let buffer = pool.take();
        assert!(buffer.is_empty() && buffer.capacity() > 0);
    }
}
