//! A command that waits for its keys (BLPOP, XREAD BLOCK): everything that whoever serves it must know. Not where it stands in line
//! ([`crate::keyspace::Waits`]) and not how it is served, which is the router's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use resp::{OwnedArgs, Proto};

use crate::plan::Blocking;
pub use crate::settle::{Claim, Settle};

/// A waiting command. Shared by the queues of its keys and its connection; only `settle` and `refused` ever change.
pub struct Waiter {
    /// The connection and its thread.
    pub thread: u16,
    pub connection: u64,
    /// Its client's database, protocol, and whether reading counts as use (CLIENT NO-TOUCH).
    pub db: u16,
    pub proto: Proto,
    pub touch: bool,
    /// Its client tracks what it reads: the number of the command.
    pub tracked: Option<u32>,
    pub blocking: &'static Blocking,
    pub words: OwnedArgs,
    /// The places of its keys among the words, each key once.
    pub keys: Box<[u32]>,
    /// Its place in every queue: ascends in the order of waiting. Drawn while its shards are held.
    pub order: u64,
    pub settle: Settle,
    /// Its client has lost the right to run it: whoever serves it refuses it instead.
    pub refused: AtomicBool,
}

impl Waiter {
    /// The keys whose shards it needs.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let args = self.words.as_args();
        self.keys.iter().map(move |at| args.get(*at as usize).expect("its keys are words of it"))
    }

    /// The keys that it waits for.
    pub fn awaited(&self) -> impl Iterator<Item = &[u8]> {
        self.keys().take(if self.blocking.whole { 1 } else { usize::MAX })
    }
}

/// A number above all that were drawn by anyone who held a shard that the caller holds now.
pub fn next_order() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: one word's changes have one order, and those who share a shard are ordered by its latch.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
