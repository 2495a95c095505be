//! How a thread gets commands into shards: the entering policy, in one place.
//!
//! HOT: [`Engine::run`] on free shards; no allocation, no lock, no syscall, no log.
//!
//! A command whose shards are free runs on the stack of its thread. If a shard is busy, the command becomes a [`Task`] that is posted
//! there (with the shards it already holds) and whoever leaves the shard carries on; the thread goes on with other connections.

use std::sync::Arc;

use command::{CommandError, Effect, KeySpec};
use resp::{Args, Mark, OwnedArgs, Reply};
use shard::ShardId;
use shard::data::{Counters, ShardData};
use shard::exec::Held;
use shard::latch::{Busy, Duty, Shards, Submitted, Visit};
use shard::plan::{Plan, Run, Walk, WalkStart, WalkStep};
use stdx::rng::Rng;

use crate::published::counts;
use crate::task::{
    Outcome, Queued, Stamped, Surroundings, Task, Ticket, Watched, Work, publish_shard, record, stamped,
};

/// One command to run.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub plan: &'a Plan,
    pub keys: &'static [KeySpec],
    pub args: Args<'a>,
    pub db: u16,
    /// The word, hash and shard of the command's only key, if it has exactly one.
    pub hint: Option<(usize, u64, ShardId)>,
    pub connection: u64,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    Done,
    /// The reply holds an error.
    Failed,
    /// A shard was busy: the finished task comes to the thread's `home`.
    Posted,
}

/// Steps of a walk that a thread runs before it sees to its other connections.
const WALK_STEPS_MAX: u32 = 64;

/// What became of a task that was submitted.
pub enum Sent {
    /// It ran at once.
    Back(Box<Task>),
    Posted,
}

/// One thread's way into the shards.
pub struct Engine {
    pub shards: Arc<Shards<ShardData>>,
    /// Shards that this thread must go on draining before it may sleep.
    pub duty: Duty<ShardData>,
    pub thread: u16,
    /// Replaced or refreshed by the thread once per turn: time, settings.
    pub surroundings: Surroundings,
    pub rng: Rng,
    pub counters: Counters,
    /// What the journal must record; only filled while a journal listens.
    pub journal: Vec<Stamped>,
    home: Arc<dyn Fn(Box<Task>) + Send + Sync>,
    ids: Vec<ShardId>,
}

impl Engine {
    pub fn new(
        thread: u16,
        shards: Arc<Shards<ShardData>>,
        surroundings: Surroundings,
        rng: Rng,
        home: Arc<dyn Fn(Box<Task>) + Send + Sync>,
    ) -> Self {
        Self {
            shards,
            duty: Duty::new(),
            thread,
            surroundings,
            rng,
            counters: Counters::default(),
            journal: Vec::new(),
            home,
            ids: Vec::new(),
        }
    }

    /// Runs one data command or posts it.
    #[inline]
    pub fn run(&mut self, call: Call<'_>, reply: &mut Reply) -> Ran {
        match (call.plan, call.hint) {
            (Plan::Keys(run), Some((_, _, shard))) => self.run_one(call, *run, shard, reply),
            (Plan::Keys(run), None) => {
                let mut ids = std::mem::take(&mut self.ids);
                ids.clear();
                // A word that makes no sense as a count of keys: the command itself answers with its error, from any shard.
                let _ = collect_shards(&mut ids, call.keys, call.args, &self.surroundings);
                let ran = match ids.as_slice() {
                    [] => self.run_one(call, *run, 0, reply),
                    [one] => self.run_one(call, *run, *one, reply),
                    several => self.run_several(call, *run, several, reply),
                };
                self.ids = ids;
                ran
            }
            (Plan::Every(run), _) => {
                let ids: Vec<ShardId> = self.every_shard().collect();
                self.run_several(call, *run, &ids, reply)
            }
            (Plan::Nowhere(run), _) => self.run_nowhere(call, *run, reply),
            (Plan::Walk { start, step }, _) => self.start_walk(call, *start, *step, reply),
            (Plan::Container, _) => panic!("a container of subcommands has no action"),
        }
    }

    #[inline]
    fn run_one(&mut self, call: Call<'_>, run: Run, shard: ShardId, reply: &mut Reply) -> Ran {
        let Self { shards, duty, surroundings, rng, counters, .. } = self;
        let mark = reply.mark();
        let entered = shards.with_one(shard, duty, |data| {
            let published = &surroundings.published;
            let keys_published = |db| published.keys(db);
            let mut cx = surroundings.exec(call.db, rng, counters, &keys_published, Held::One(shard, data));
            cx.hint = call.hint;
            let result = run(&mut cx, call.args, reply);
            let (elsewhere, journaling) = (cx.elsewhere, cx.journaling);
            let data = cx.shard(shard);
            if elsewhere {
                publish_shard(published, shard, data);
            } else {
                published.set(shard, call.db, counts(data.existing(call.db)));
            }
            let stamped = journaling.then(|| stamped(std::iter::once(data), surroundings.now_ms));
            (result, stamped)
        });
        match entered {
            Ok((result, stamped)) => self.end(call, result, stamped, mark, reply),
            Err(Busy) => {
                let work = Work::Command(self.queued(call), run);
                self.post(call, work, &[shard], reply)
            }
        }
    }

    /// A command over several shards: at once if all are free, else it travels.
    fn run_several(&mut self, call: Call<'_>, run: Run, ids: &[ShardId], reply: &mut Reply) -> Ran {
        let Self { shards, duty, surroundings, rng, counters, .. } = self;
        let mark = reply.mark();
        let entered = shards.with_several(ids, duty, |entered| {
            let published = &surroundings.published;
            let keys_published = |db| published.keys(db);
            let mut cx =
                surroundings.exec(call.db, rng, counters, &keys_published, Held::Several(entered.reborrow()));
            let result = run(&mut cx, call.args, reply);
            let elsewhere = cx.elsewhere || matches!(call.plan, Plan::Every(_));
            for (id, data) in entered.iter_mut() {
                if elsewhere {
                    publish_shard(published, id, data);
                } else {
                    published.set(id, call.db, counts(data.existing(call.db)));
                }
            }
            let shards = entered.iter_mut().map(|(_, data)| data);
            let stamped = surroundings.journaling.then(|| stamped(shards, surroundings.now_ms));
            (result, stamped)
        });
        match entered {
            Ok((result, stamped)) => self.end(call, result, stamped, mark, reply),
            Err(Busy) => {
                let work = Work::Command(self.queued(call), run);
                self.post(call, work, ids, reply)
            }
        }
    }

    fn run_nowhere(&mut self, call: Call<'_>, run: Run, reply: &mut Reply) -> Ran {
        let mark = reply.mark();
        let Self { surroundings, rng, counters, .. } = self;
        let published = &surroundings.published;
        let keys_published = |db| published.keys(db);
        let mut cx = surroundings.exec(call.db, rng, counters, &keys_published, Held::None);
        match run(&mut cx, call.args, reply) {
            Ok(_) => Ran::Done,
            Err(error) => fail(reply, mark, &error),
        }
    }

    fn start_walk(
        &mut self,
        call: Call<'_>,
        start: fn(&mut WalkStart<'_>, Args<'_>) -> Result<Walk, CommandError>,
        step: WalkStep,
        reply: &mut Reply,
    ) -> Ran {
        let published = &self.surroundings.published;
        let mut cx = WalkStart {
            shards: self.surroundings.layout.mask + 1,
            keys_of: &|shard| published.keys_in(shard, call.db),
            rng: &mut self.rng,
        };
        match start(&mut cx, call.args) {
            Ok(walk) => {
                let shard = walk.shard;
                let work = Work::Walk(self.queued(call), step, walk);
                self.post(call, work, &[shard], reply)
            }
            Err(error) => {
                let mark = reply.mark();
                fail(reply, mark, &error)
            }
        }
    }

    /// Submits work; if it ran at once its reply is appended.
    fn post(&mut self, call: Call<'_>, work: Work, ids: &[ShardId], reply: &mut Reply) -> Ran {
        let task = self.task(call.connection, work, reply);
        match self.submit(task, ids) {
            Sent::Posted => Ran::Posted,
            Sent::Back(mut task) => {
                reply.append(&mut task.reply);
                self.absorb(&mut task);
                if task.outcome == Outcome::Failed { Ran::Failed } else { Ran::Done }
            }
        }
    }

    /// A task of this thread.
    pub fn task(&mut self, connection: u64, work: Work, reply: &Reply) -> Box<Task> {
        Box::new(Task {
            ticket: Ticket { thread: self.thread, connection },
            home: Arc::clone(&self.home),
            surroundings: self.surroundings.clone(),
            rng: Rng::new(self.rng.next_u64()),
            work,
            outcome: Outcome::Pending,
            reply: Reply::new(reply.proto),
            ends: Vec::new(),
            counters: Counters::default(),
            stamped: Stamped::default(),
        })
    }

    /// Runs a task in its shards (ascending, each once), at once if they are free. A walk goes on while they are, for some steps; then
    /// it comes back through the mailbox, so that the thread's other connections have their turn.
    pub fn submit(&mut self, mut task: Box<Task>, ids: &[ShardId]) -> Sent {
        let mut ids = ids;
        let mut next;
        let mut steps = 0;
        loop {
            steps += 1;
            if steps > WALK_STEPS_MAX {
                task.deliver();
                return Sent::Posted;
            }
            match self.shards.submit(ids, task, &mut self.duty) {
                Submitted::Posted => return Sent::Posted,
                Submitted::Done(back) => task = back,
            }
            match &task.work {
                Work::Walk(_, _, walk) if task.outcome == Outcome::Again => next = [walk.shard],
                _ => return Sent::Back(task),
            }
            ids = &next;
        }
    }

    /// Takes over what a finished task of this thread counted and changed.
    pub fn absorb(&mut self, task: &mut Task) {
        self.counters.add(task.counters);
        let stamped = std::mem::take(&mut task.stamped);
        if !stamped.records.is_empty() {
            self.journal.push(stamped);
        }
    }

    /// Goes on with a walk that came back from a busy shard.
    pub fn resume(&mut self, task: Box<Task>) -> Sent {
        match &task.work {
            Work::Walk(_, _, walk) if task.outcome == Outcome::Again => {
                let next = [walk.shard];
                self.submit(task, &next)
            }
            _ => Sent::Back(task),
        }
    }

    /// The shards that the commands of a transaction and the keys it watches need, ascending. `keys` are the commands' rows of keys.
    pub fn shards_of(
        &self,
        keys: &[&'static [KeySpec]],
        commands: &[Queued],
        watched: Option<&Watched>,
    ) -> Vec<ShardId> {
        if commands.iter().any(|queued| matches!(queued.plan, Plan::Every(_) | Plan::Walk { .. })) {
            return self.every_shard().collect();
        }
        let mut ids = Vec::new();
        for (keys, queued) in keys.iter().zip(commands) {
            // A word that makes no sense as a count of keys: the command itself answers with its error.
            let _ = collect_shards(&mut ids, keys, queued.args.as_args(), &self.surroundings);
        }
        for watched_key in watched.iter().flat_map(|watched| &watched.keys) {
            insert(&mut ids, self.surroundings.layout.shard_of(&watched_key.key));
        }
        ids
    }

    /// Takes watched keys out of their shards, at once or when they are free.
    pub fn unwatch(&mut self, watched: Watched) {
        let ids = self.shards_of_keys(watched.keys.iter().map(|watched_key| watched_key.key.as_slice()));
        let task = self.task(0, Work::Unwatch(watched), &Reply::default());
        self.submit(task, &ids);
    }

    fn every_shard(&self) -> impl Iterator<Item = ShardId> + use<> {
        0..=self.surroundings.layout.mask
    }

    fn queued(&self, call: Call<'_>) -> Queued {
        Queued { plan: *call.plan, args: OwnedArgs::from(call.args), db: call.db }
    }

    /// After a command has run: its error replaces what it wrote, its effect goes to the journal if one listens.
    #[inline]
    fn end(
        &mut self,
        call: Call<'_>,
        result: Result<Effect, CommandError>,
        stamped: Option<Stamped>,
        mark: Mark,
        reply: &mut Reply,
    ) -> Ran {
        let (effect, ran) = match result {
            Ok(effect) => (effect, Ran::Done),
            Err(error) => (Effect::None, fail(reply, mark, &error)),
        };
        if let Some(mut stamped) = stamped {
            record(&mut stamped.records, &self.surroundings, call.db, call.args, effect);
            if !stamped.records.is_empty() {
                self.journal.push(stamped);
            }
        }
        ran
    }
}

impl Engine {
    /// Whether the thread owns shards that it must go on draining before it may sleep.
    pub fn has_duty(&self) -> bool {
        !self.duty.is_empty()
    }

    /// Goes on draining the shards that this thread owns, for a bounded time.
    pub fn drain_duty(&mut self) {
        if !self.duty.is_empty() {
            // What is left over stays on the duty for the next turn.
            let _ = self.shards.resume(&mut self.duty);
        }
    }

    /// The shards of these keys, ascending.
    pub fn shards_of_keys<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<ShardId> {
        let mut ids = Vec::new();
        keys.for_each(|key| insert(&mut ids, self.surroundings.layout.shard_of(key)));
        ids
    }

    #[inline]
    fn hint(&self, shard: ShardId, db: u16) -> &memory::IndexHint {
        let databases = usize::from(self.surroundings.layout.databases);
        &self.surroundings.hints[usize::from(shard) * databases + usize::from(db)]
    }

    /// Asks for the memory of a key's bucket; a hint, given before the shard is entered.
    #[inline]
    pub fn prefetch_bucket(&self, shard: ShardId, db: u16, hash: u64) {
        self.hint(shard, db).prefetch_bucket(hash);
    }

    /// Asks for the memory of a key's entry, whose bucket was asked for before. True: the key may lie in the bucket's overflow lines,
    /// which were asked for; [`Self::prefetch_overflow`] then looks into them.
    #[inline]
    pub fn prefetch_entry(&self, shard: ShardId, db: u16, hash: u64) -> bool {
        self.hint(shard, db).prefetch_entry(hash)
    }

    /// Asks for the memory of a key's entry if it lies in the overflow lines.
    #[inline]
    pub fn prefetch_overflow(&self, shard: ShardId, db: u16, hash: u64) {
        self.hint(shard, db).prefetch_overflow(hash);
    }
}

/// Gathers the shards of a command's keys, ascending, each once.
fn collect_shards(
    ids: &mut Vec<ShardId>,
    keys: &[KeySpec],
    args: Args<'_>,
    surroundings: &Surroundings,
) -> Result<(), command::InvalidKeys> {
    command::key_positions(keys, args, |index, flags| {
        if !flags.has(command::KeyFlags::NOT_KEY) {
            insert(ids, surroundings.layout.shard_of(&args[index]));
        }
    })
}

/// Adds a shard to an ascending list unless it is there. A command has few distinct shards; with all of them this is still at most
/// a few thousand short moves.
fn insert(ids: &mut Vec<ShardId>, id: ShardId) {
    if let Err(at) = ids.binary_search(&id) {
        ids.insert(at, id);
    }
}

#[cold]
fn fail(reply: &mut Reply, mark: Mark, error: &CommandError) -> Ran {
    reply.truncate_to(mark);
    reply.error(error.text());
    Ran::Failed
}
