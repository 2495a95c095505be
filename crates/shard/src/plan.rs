//! How a command meets the shards. Only the router interprets it.

use command::{CommandError, Effect};
use resp::{Args, Reply};

use crate::ShardId;
use crate::exec::Exec;

/// A command function: runs to the end inside the shards that were entered for it, writes its reply and returns what the journal must
/// record. On an error whatever it has written to the reply is dropped; it must not have changed anything.
pub type Run = fn(&mut Exec<'_>, Args<'_>, &mut Reply) -> Result<Effect, CommandError>;

/// Which shards a command needs, and how.
#[derive(Clone, Copy)]
pub enum Plan {
    /// The shards of its keys, all of them at once: atomic and isolated however many they are.
    Keys(Run),
    /// Every shard at once.
    Every(Run),
    /// No shard: only what shards publish (DBSIZE).
    Nowhere(Run),
    /// One shard after another, each for one bounded step; not a single moment in time (SCAN, KEYS, RANDOMKEY).
    Walk { start: fn(&mut WalkStart<'_>, Args<'_>) -> Result<Walk, CommandError>, step: WalkStep },
    /// A container of subcommands, without an action of its own.
    Container,
}

/// One step of a walk, inside the shard `walk.shard`.
pub type WalkStep = fn(&mut Exec<'_>, Args<'_>, &mut Walk, &mut Reply) -> Result<Step, CommandError>;

/// What a walk may look at before it enters its first shard.
pub struct WalkStart<'a> {
    pub shards: ShardId,
    /// Keys of the client's database per shard, as published; may be a moment old.
    pub keys_of: &'a dyn Fn(ShardId) -> u64,
    pub rng: &'a mut stdx::rng::Rng,
}

/// Where a walk is and what it has gathered; travels with the command from shard to shard.
#[derive(Debug, Default)]
pub struct Walk {
    /// The shard of the next step.
    pub shard: ShardId,
    /// The cursor inside the shard; 0 begins.
    pub cursor: u64,
    /// Entries looked at so far.
    pub visited: u64,
    /// Found keys, one after another, and where each ends.
    pub found: Vec<u8>,
    pub ends: Vec<usize>,
    /// Attempts so far (RANDOMKEY).
    pub tries: u32,
}

impl Walk {
    /// Adds a found key.
    pub fn push(&mut self, key: &[u8]) {
        self.found.extend_from_slice(key);
        self.ends.push(self.found.len());
    }

    /// The found keys in the order in which they were added.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|n| &self.found[if n == 0 { 0 } else { self.ends[n - 1] }..self.ends[n]])
    }
}

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another step in the shard `walk.shard`, which the step may have changed.
    Again,
    /// The reply is written.
    Done,
}
