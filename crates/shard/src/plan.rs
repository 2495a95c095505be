//! How a command meets the shards. Only the router interprets it.

use command::{CommandError, Effect};
use resp::{Args, OwnedArgs, Reply};
use types::Type;

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
    /// As `Keys`; where there is nothing for it, it waits until one of its keys has something (BLPOP).
    Blocking(&'static Blocking),
    /// Every shard at once.
    Every(Run),
    /// As `Keys`, or as `Every` where `every` finds words by which only the data tells the keys (SORT with patterns).
    KeysOrEvery { run: Run, every: fn(Args<'_>) -> bool },
    /// No shard: only what shards publish (DBSIZE).
    Nowhere(Run),
    /// One shard after another, each for one bounded step; not a single moment in time (SCAN, KEYS, RANDOMKEY).
    Walk { start: fn(&mut WalkStart<'_>, Args<'_>) -> Result<Walk, CommandError>, step: WalkStep },
    /// A container of subcommands, without an action of its own.
    Container,
}

impl Plan {
    /// The plan for a command of these words: never `KeysOrEvery`.
    #[inline]
    pub fn for_words(self, args: Args<'_>) -> Plan {
        match self {
            Plan::KeysOrEvery { run, every } if every(args) => Plan::Every(run),
            Plan::KeysOrEvery { run, .. } => Plan::Keys(run),
            other => other,
        }
    }
}

/// A command that waits while there is nothing for it.
pub struct Blocking {
    pub attempt: Attempt,
    /// The type that it waits for; a key of another type leaves it waiting.
    pub wants: Type,
    /// It is tried again when a key goes or changes its type, too, to fail then (XREADGROUP, whose group is gone).
    pub on_nokey: bool,
    /// It waits for its first key only, but needs the shards of all (BLMOVE). Else it waits for all its keys, and can be tried again with the
    /// shards of some of them ([`Exec::holds`]).
    pub whole: bool,
    /// Writes the reply where it must not wait (EXEC). When its time is over, the reply is a null array, whatever the command.
    pub null: fn(&mut Reply),
}

/// As [`Run`], for a command that may have to wait. It is run again, whole, each time one of its keys may have something.
pub type Attempt = fn(&mut Exec<'_>, Args<'_>, &mut Reply) -> Result<Attempted, CommandError>;

/// What came of an attempt.
pub enum Attempted {
    Done(Effect),
    /// There is nothing for it; it has written nothing.
    Wait(Wait),
}

/// How a command waits.
pub struct Wait {
    /// What the attempt has changed all the same (XREADGROUP: its consumer).
    pub effect: Effect,
    /// Only the first attempt is asked. Unix time in ms at which it ends; none: never.
    pub until_ms: Option<u64>,
    /// Only the first attempt is asked. The words with which it is tried again, if they differ from the client's (XREAD with `$`): as many, the keys at the same places.
    pub words: Option<OwnedArgs>,
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
