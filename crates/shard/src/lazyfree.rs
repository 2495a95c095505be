//! Keyspaces and large collections that nobody uses any more (FLUSHDB ASYNC, UNLINK), freed a little at a time. Not under any shard's latch: what waits here is reached by nobody.

use std::collections::VecDeque;

use memory::{Arena, Large};

use crate::keyspace::Keyspace;

/// Pages freed between two looks at the clock. A page costs about 0.1 us, or 10 us if its entries must be searched for big values.
const PAGES_PER_LOOK: u32 = 4;

/// What waits to be freed. One per thread, or one per shard.
#[derive(Default)]
pub struct LazyFree {
    waiting: VecDeque<Condemned>,
}

/// Something that waits to be freed.
struct Condemned {
    what: What,
    arena: &'static Arena,
    /// What it held when it came, counted at the arena until it is freed.
    bytes: u64,
}

enum What {
    Keyspace(Box<Keyspace>),
    Large(Box<dyn Large>),
}

impl LazyFree {
    /// Puts a keyspace in the queue.
    pub fn push(&mut self, keyspace: Box<Keyspace>) {
        if !keyspace.is_empty() {
            let held = keyspace.bytes();
            let bytes = held.pages + held.index;
            let arena = keyspace.arena();
            arena.condemn(bytes);
            self.waiting.push_back(Condemned { what: What::Keyspace(keyspace), arena, bytes });
        }
    }

    /// Puts a collection in the queue; its pages are those of `arena`.
    pub fn push_large(&mut self, large: Box<dyn Large>, arena: &'static Arena) {
        let bytes = large.bytes();
        arena.condemn(bytes);
        self.waiting.push_back(Condemned { what: What::Large(large), arena, bytes });
    }

    /// Takes over what waits elsewhere.
    pub fn append(&mut self, mut other: LazyFree) {
        self.waiting.append(&mut other.waiting);
    }

    /// Keyspaces and collections that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Frees until nothing waits or `clock_us` has advanced by `budget_us`. Whether something still waits.
    pub fn slice(&mut self, budget_us: u64, mut clock_us: impl FnMut() -> u64) -> bool {
        let start_us = clock_us();
        while let Some(Condemned { what, arena, bytes }) = self.waiting.front_mut() {
            let freed = match what {
                What::Keyspace(keyspace) => keyspace.dismantle(PAGES_PER_LOOK),
                What::Large(large) => large.release(PAGES_PER_LOOK as usize),
            };
            if freed {
                arena.freed_condemned(*bytes);
                self.waiting.pop_front();
            }
            if clock_us() - start_us >= budget_us {
                break;
            }
        }
        !self.waiting.is_empty()
    }
}
