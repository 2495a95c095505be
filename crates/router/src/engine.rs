//! How a thread gets commands into shards: the entering policy, in one place.
//!
//! HOT: [`Engine::run`] on free shards; no allocation, no lock, no syscall, no log.
//!
//! A command whose shards are free runs on the stack of its thread. If a shard is busy, the command becomes a [`Task`] that is posted
//! there (with the shards it already holds) and whoever leaves the shard carries on; the thread goes on with other connections.

use std::collections::VecDeque;
use std::sync::Arc;

use command::{CommandError, Effect, KeySpec};
use resp::{Args, Mark, OwnedArgs, Reply};
use shard::ShardId;
use shard::data::{Counters, ShardData};
use shard::exec::Held;
use shard::latch::{Busy, Duty, Entered, Shards, Submitted, Visit};
use shard::plan::{Blocking, Plan, Run, Walk, WalkStart, WalkStep};
use shard::waiter::Waiter;
use stdx::rng::Rng;

use crate::outbound::Caching;
use crate::published::counts;
use crate::script::{Log, Program, Script, leave_script, run_script};
use crate::task::{
    Home, Outcome, Queued, Stamped, Surroundings, Task, Ticket, Watched, Work, publish_shard, record, stamped,
};
use crate::waiting::{self, Blocked, Candidate, Served, Server};

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
    /// Its client tracks what it reads.
    pub caching: Option<Caching>,
}

/// What became of a command.
pub enum Ran {
    Done,
    /// The reply holds an error.
    Failed,
    /// There is nothing for the command yet: it waits. Its reply comes in a task to the thread's `home`, unless its wait is ended before.
    Waits(Box<Blocked>),
    /// A shard was busy: the finished task comes to the thread's `home`.
    Posted,
}

/// Steps of a walk that a thread runs before it sees to its other connections.
const WALK_STEPS_MAX: u32 = 64;

/// Waiting commands that are tried again at once.
const RETRIES_MAX: usize = 64;

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
    home: Home,
    ids: Vec<ShardId>,
    script_log: Log,
    /// Waiting commands to be tried again with all their shards.
    deferred: VecDeque<Arc<Waiter>>,
}

impl Engine {
    pub fn new(
        thread: u16,
        shards: Arc<Shards<ShardData>>,
        surroundings: Surroundings,
        rng: Rng,
        home: Home,
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
            script_log: Log::default(),
            deferred: VecDeque::new(),
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
            (Plan::Blocking(blocking), _) => self.run_blocking(call, blocking, reply),
            (Plan::Every(run), _) => {
                let ids: Vec<ShardId> = self.every_shard().collect();
                self.run_several(call, *run, &ids, reply)
            }
            (Plan::KeysOrEvery { .. }, _) => {
                self.run(Call { plan: &call.plan.for_words(call.args), ..call }, reply)
            }
            (Plan::Nowhere(run), _) => self.run_nowhere(call, *run, reply),
            (Plan::Walk { start, step }, _) => self.start_walk(call, *start, *step, reply),
            (Plan::Container, _) => panic!("a container of subcommands has no action"),
        }
    }

    #[inline]
    fn run_one(&mut self, call: Call<'_>, run: Run, shard: ShardId, reply: &mut Reply) -> Ran {
        if let Some(ran) = self.try_one(call, run, shard, reply) {
            return ran;
        }
        let work = Work::Command(self.queued(call), run);
        self.post(call, work, &[shard], reply)
    }

    /// Runs a command whose keys are all in `shard`; None, and nothing happened, while somebody else is there.
    #[inline]
    pub fn try_one(&mut self, call: Call<'_>, run: Run, shard: ShardId, reply: &mut Reply) -> Option<Ran> {
        let ticket = Ticket { thread: self.thread, connection: call.connection };
        let Self { shards, duty, surroundings, rng, counters, home, .. } = self;
        let mark = reply.mark();
        let entered = shards.with_one(shard, duty, |data| {
            let published = &surroundings.published;
            let keys_published = |db| published.keys(db);
            let held = Held::One(shard, &mut *data);
            let mut cx = surroundings.exec(call.db, rng, counters, &keys_published, held);
            cx.hint = call.hint;
            let result = run(&mut cx, call.args, reply);
            surroundings.conclude(&mut cx, call.args, call.caching, ticket);
            let mut elsewhere = cx.elsewhere;
            let has_ready = if elsewhere {
                data.has_ready()
            } else {
                data.existing(call.db).is_some_and(|keyspace| keyspace.waits().has_ready())
            };
            let mut served = None;
            if has_ready {
                let server = Server { surroundings, rng, counters, home, served: Served::default() };
                served = Some(Box::new(server.serve(&mut Held::One(shard, &mut *data))));
                elsewhere = true;
            }
            if elsewhere {
                publish_shard(published, shard, data);
            } else {
                published.set(shard, call.db, counts(data.existing(call.db)));
            }
            let stamped =
                surroundings.journaling.then(|| stamped(std::iter::once(data), surroundings.now_ms));
            (result, After { stamped, served })
        });
        match entered {
            Ok((result, after)) => Some(self.end(call, result, after, mark, reply)),
            Err(Busy) => None,
        }
    }

    /// A command over several shards: at once if all are free, else it travels.
    fn run_several(&mut self, call: Call<'_>, run: Run, ids: &[ShardId], reply: &mut Reply) -> Ran {
        let ticket = Ticket { thread: self.thread, connection: call.connection };
        let Self { shards, duty, surroundings, rng, counters, home, .. } = self;
        let mark = reply.mark();
        let entered = shards.with_several(ids, duty, |entered| {
            let published = &surroundings.published;
            let keys_published = |db| published.keys(db);
            let mut cx =
                surroundings.exec(call.db, rng, counters, &keys_published, Held::Several(entered.reborrow()));
            let result = run(&mut cx, call.args, reply);
            surroundings.conclude(&mut cx, call.args, call.caching, ticket);
            let elsewhere = cx.elsewhere || matches!(call.plan, Plan::Every(_));
            let server = Server { surroundings, rng, counters, home, served: Served::default() };
            let after = leave_several(server, entered, (!elsewhere).then_some(call.db));
            (result, after)
        });
        match entered {
            Ok((result, after)) => self.end(call, result, after, mark, reply),
            Err(Busy) => {
                let work = Work::Command(self.queued(call), run);
                self.post(call, work, ids, reply)
            }
        }
    }

    /// Runs a script whose declared keys are in these shards (ascending, each once), beginning in database `db`; or posts what `own` makes of
    /// it, which can travel.
    pub fn run_script<P: Program>(
        &mut self,
        ticket: (u64, u16),
        mut program: P,
        own: impl FnOnce(P) -> Box<dyn Program + Send>,
        ids: &[ShardId],
        reply: &mut Reply,
    ) -> Ran {
        let (connection, db) = ticket;
        let by = Ticket { thread: self.thread, connection };
        let Self { shards, duty, surroundings, rng, counters, home, script_log, .. } = self;
        let entered = shards.with_several(ids, duty, |entered| {
            let published = &surroundings.published;
            let keys_published = |db| published.keys(db);
            let held = Held::Several(entered.reborrow());
            let mut cx = surroundings.exec(db, rng, counters, &keys_published, held);
            script_log.clear();
            let outcome = run_script(surroundings, &mut cx, &mut program, script_log, (reply, by));
            let server = Server { surroundings, rng, counters, home, served: Served::default() };
            (outcome, leave_script(server, entered, script_log))
        });
        let again: Vec<ShardId>;
        let mut tries = 0;
        let ids = match entered {
            Ok((outcome, (stamped, served))) => {
                let Served { mut records, deferred, .. } = served.unwrap_or_default();
                if let Some(mut stamped) = stamped {
                    stamped.records.append(&mut records);
                    if !stamped.records.is_empty() {
                        self.journal.push(stamped);
                    }
                }
                if !deferred.is_empty() {
                    self.deferred.extend(deferred);
                    self.retry_deferred();
                }
                if outcome != Outcome::Again {
                    return Ran::Done;
                }
                tries = 1;
                let next = std::mem::take(&mut self.script_log.next);
                again = self.or_every(next);
                &again
            }
            Err(Busy) => ids,
        };
        let task = self.task(
            connection,
            Work::Script(Script { program: own(program), db, tries, next: Vec::new() }),
            reply,
        );
        match self.submit(task, ids) {
            Sent::Posted => Ran::Posted,
            Sent::Back(mut task) => {
                reply.append(&mut task.reply);
                self.absorb(&mut task);
                Ran::Done
            }
        }
    }

    /// Keeps the memory of a list of shards for the next one.
    #[inline]
    pub fn recycle(&mut self, ids: Vec<ShardId>) {
        self.ids = ids;
    }

    /// A second engine of the same thread, over the same shards.
    pub fn second(&self, rng: Rng) -> Self {
        let home = Arc::clone(&self.home);
        Self::new(self.thread, Arc::clone(&self.shards), self.surroundings.clone(), rng, home)
    }

    /// Takes over what a second engine of this thread has done and still owes.
    #[inline]
    pub fn take_over(&mut self, second: &mut Self) {
        if second.has_duty() || !second.journal.is_empty() || second.counters != Counters::default() {
            self.take_over_work(second);
        }
    }

    #[cold]
    fn take_over_work(&mut self, second: &mut Self) {
        while second.has_duty() {
            second.drain_duty();
        }
        self.counters.add(std::mem::take(&mut second.counters));
        self.journal.append(&mut second.journal);
    }

    /// The shards of the keys that `args` name by these specifications, ascending. To be given back by [`Self::recycle`].
    pub fn shards_of_words(&mut self, keys: &[KeySpec], args: Args<'_>) -> Vec<ShardId> {
        let mut ids = std::mem::take(&mut self.ids);
        ids.clear();
        // A word that makes no sense as a count of keys: the command itself answers with its error.
        let _ = collect_shards(&mut ids, keys, args, &self.surroundings);
        ids
    }

    /// A command that waits if there is nothing for it.
    fn run_blocking(&mut self, call: Call<'_>, blocking: &'static Blocking, reply: &mut Reply) -> Ran {
        let mut ids = Vec::new();
        // As in `run`: the command itself answers with its error.
        let _ = collect_shards(&mut ids, call.keys, call.args, &self.surroundings);
        let ticket = Ticket { thread: self.thread, connection: call.connection };
        let Call { keys, args, caching, .. } = call;
        let candidate = Candidate { blocking, keys, args, ticket, proto: reply.proto, caching };
        let Self { shards, duty, surroundings, rng, counters, home, .. } = self;
        let mark = reply.mark();
        let entered = shards.with_several(&ids, duty, |entered| {
            let published = &surroundings.published;
            let keys_published = |db| published.keys(db);
            let mut cx =
                surroundings.exec(call.db, rng, counters, &keys_published, Held::Several(entered.reborrow()));
            cx.hint = call.hint;
            let result = waiting::attempt(&mut cx, candidate, published, reply);
            surroundings.conclude(&mut cx, call.args, call.caching, ticket);
            let server = Server { surroundings, rng, counters, home, served: Served::default() };
            let after = leave_several(server, entered, Some(call.db));
            (result, after)
        });
        match entered {
            Ok((Ok((effect, Some(blocked))), after)) => {
                self.end(call, Ok(effect), after, mark, reply);
                Ran::Waits(Box::new(blocked))
            }
            Ok((result, after)) => self.end(call, result.map(|(effect, _)| effect), after, mark, reply),
            Err(Busy) => {
                let (queued, keys) = (self.queued(call), call.keys);
                let work = Work::Blocking { queued, blocking, keys, blocked: None };
                self.post(call, work, &ids, reply)
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
                match (task.outcome, task.work) {
                    (Outcome::Failed, _) => Ran::Failed,
                    (_, Work::Blocking { blocked: Some(blocked), .. }) => Ran::Waits(Box::new(blocked)),
                    _ => Ran::Done,
                }
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
            deferred: Vec::new(),
        })
    }

    /// Runs a task in its shards (ascending, each once), at once if they are free. A walk goes on while they are, for some steps; then
    /// it comes back through the mailbox, so that the thread's other connections have their turn.
    pub fn submit(&mut self, mut task: Box<Task>, ids: &[ShardId]) -> Sent {
        let mut ids = ids;
        let mut next: Vec<ShardId>;
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
                Work::Walk(_, _, walk) if task.outcome == Outcome::Again => next = vec![walk.shard],
                Work::Script(script) if task.outcome == Outcome::Again => {
                    next = self.or_every(script.next.clone());
                }
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
        self.deferred.extend(task.deferred.drain(..));
    }

    /// Takes a waiting command out of its queues, at once or when they are free. Its wait must have been ended.
    pub fn leave(&mut self, waiter: Arc<Waiter>) {
        let ids = self.shards_of_keys(waiter.awaited());
        let task = self.task(0, Work::Leave(waiter), &Reply::default());
        self.submit(task, &ids);
    }

    /// Tries waiting commands again that need shards which were not held when they became ready; some of them at once, the rest in the
    /// next turn.
    fn retry_deferred(&mut self) {
        // Those that these bring about have to wait for the next turn, too.
        for _ in 0..self.deferred.len().min(RETRIES_MAX) {
            let Some(waiter) = self.deferred.pop_front() else { return };
            let ids = self.shards_of_keys(waiter.keys());
            let task = self.task(0, Work::Retry(waiter), &Reply::default());
            if let Sent::Back(mut task) = self.submit(task, &ids) {
                self.absorb(&mut task);
            }
        }
    }

    /// Serves those who wait for keys of a shard that changed outside of commands (expiry, eviction).
    pub fn serve(&mut self, shard: ShardId) {
        let Self { shards, duty, surroundings, rng, counters, home, .. } = self;
        let served = shards.with_one(shard, duty, |data| {
            let server = Server { surroundings, rng, counters, home, served: Served::default() };
            let served = server.serve(&mut Held::One(shard, data));
            publish_shard(&surroundings.published, shard, data);
            let stamped =
                surroundings.journaling.then(|| stamped(std::iter::once(data), surroundings.now_ms));
            (stamped, served)
        });
        // A busy shard is served by whoever is there.
        let Ok((stamped, Served { mut records, deferred, .. })) = served else { return };
        if let Some(mut stamped) = stamped {
            stamped.records.append(&mut records);
            self.journal.push(stamped);
        }
        self.deferred.extend(deferred);
        self.retry_deferred();
    }

    /// Goes on with a walk or a script that came back from a busy shard.
    pub fn resume(&mut self, task: Box<Task>) -> Sent {
        match &task.work {
            Work::Walk(_, _, walk) if task.outcome == Outcome::Again => {
                let next = [walk.shard];
                self.submit(task, &next)
            }
            Work::Script(script) if task.outcome == Outcome::Again => {
                let next = self.or_every(script.next.clone());
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
        let every = |queued: &Queued| {
            queued.program.is_some()
                || matches!(queued.plan.for_words(queued.args.as_args()), Plan::Every(_) | Plan::Walk { .. })
        };
        if commands.iter().any(every) {
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

    /// These shards, or all if there are none.
    fn or_every(&self, ids: Vec<ShardId>) -> Vec<ShardId> {
        if ids.is_empty() { self.every_shard().collect() } else { ids }
    }

    fn every_shard(&self) -> impl Iterator<Item = ShardId> + use<> {
        0..=self.surroundings.layout.mask
    }

    fn queued(&self, call: Call<'_>) -> Queued {
        Queued {
            plan: *call.plan,
            args: OwnedArgs::from(call.args),
            db: call.db,
            caching: call.caching,
            program: None,
        }
    }

    /// After a command has run: its error replaces what it wrote, its effect goes to the journal if one listens.
    #[inline]
    fn end(
        &mut self,
        call: Call<'_>,
        result: Result<Effect, CommandError>,
        after: After,
        mark: Mark,
        reply: &mut Reply,
    ) -> Ran {
        let (effect, ran) = match result {
            Ok(effect) => (effect, Ran::Done),
            Err(error) => (Effect::None, fail(reply, mark, &error)),
        };
        let After { stamped, mut served } = after;
        if let Some(mut stamped) = stamped {
            record(&mut stamped.records, &self.surroundings, call.db, call.args, effect);
            if let Some(served) = &mut served {
                stamped.records.append(&mut served.records);
            }
            if !stamped.records.is_empty() {
                self.journal.push(stamped);
            }
        }
        if let Some(served) = served {
            self.deferred.extend(served.deferred);
            self.retry_deferred();
        }
        ran
    }
}

/// What is left to do once the shards of a command are left.
struct After {
    stamped: Option<Stamped>,
    served: Option<Box<Served>>,
}

/// Before several shards are left: those who wait are served, the numbers of keys published, of one database or of all.
fn leave_several(server: Server<'_>, entered: &mut Entered<'_, ShardData>, db: Option<u16>) -> After {
    let surroundings = server.surroundings;
    let mut held = Held::Several(entered.reborrow());
    let served = waiting::has_ready(&mut held).then(|| Box::new(server.serve(&mut held)));
    let db = db.filter(|_| served.is_none());
    for (id, data) in entered.iter_mut() {
        match db {
            Some(db) => surroundings.published.set(id, db, counts(data.existing(db))),
            None => publish_shard(&surroundings.published, id, data),
        }
    }
    let shards = entered.iter_mut().map(|(_, data)| data);
    let stamped = surroundings.journaling.then(|| stamped(shards, surroundings.now_ms));
    After { stamped, served }
}

impl Engine {
    /// Whether the thread owns shards that it must go on draining, or has waiting commands to try again, before it may sleep.
    pub fn has_duty(&self) -> bool {
        !self.duty.is_empty() || !self.deferred.is_empty()
    }

    /// Goes on draining the shards that this thread owns, and with waiting commands, for a bounded time.
    pub fn drain_duty(&mut self) {
        self.retry_deferred();
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
