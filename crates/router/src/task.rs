//! Work that travels: a command, a step of a walk or a transaction with everything it needs, so that any thread can run it.
//!
//! The fast path of a command does not come here: it runs on the stack of its own thread ([`crate::execute`]). A task is made when a
//! shard is busy, and for transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use command::{Effect, KeySpec, Record};
use resp::{Args, Mark, OwnedArgs, Reply};
use shard::ShardId;
use shard::data::{Counters, Hints, ShardData};
use shard::exec::{Exec, Held, Layout};
use shard::latch::{Entered, Visit};
use shard::notify::Events;
use shard::plan::{Blocking, Plan, Run, Step, Walk, WalkStep};
use shard::settings::Settings;
use shard::waiter::Waiter;
use stdx::rng::Rng;

use crate::outbound::{Caching, Outbound};
use crate::published::{Published, counts};
use crate::script::{Log, Program, Script, run_plan, run_script};
use crate::waiting::{self, Blocked, Candidate, Served, Server};

/// Hands a finished task to the thread of its ticket.
pub type Home = Arc<dyn Fn(Box<Task>) + Send + Sync>;

/// Whom a finished task goes back to: a connection of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub thread: u16,
    /// The thread's own name for the connection; a connection that has gone is not found again.
    pub connection: u64,
}

/// The records of one command or transaction with their place in the order of all writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    pub stamp: u64,
    pub records: Vec<(u16, Record)>,
}

/// What every command of a task shares.
#[derive(Clone)]
pub struct Surroundings {
    pub layout: Layout,
    pub settings: Arc<Settings>,
    pub published: Arc<Published>,
    pub hints: Hints,
    /// Where keyspace events and changes of tracked keys go.
    pub outbound: &'static dyn Outbound,
    pub now_ms: u64,
    /// A fine clock, to measure the commands of a transaction one by one.
    pub ticks: fn() -> u64,
    pub touch: bool,
    pub journaling: bool,
}

/// One command waiting for its turn, in a transaction or in an inbox.
pub struct Queued {
    pub plan: Plan,
    pub args: OwnedArgs,
    /// The database in which it runs.
    pub db: u16,
    /// Its client tracks what it reads.
    pub caching: Option<Caching>,
    /// What runs instead of the plan, if the command is a script. All shards are entered for it.
    pub program: Option<Box<dyn Program + Send>>,
}

/// The keys that a client watches, and whether any of them has changed since.
#[derive(Clone, Default)]
pub struct Watched {
    pub keys: Vec<WatchedKey>,
    /// Set by the shards, under their latches, when a watched key changes.
    pub dirty: Arc<AtomicBool>,
}

/// A watched key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedKey {
    pub db: u16,
    pub key: Vec<u8>,
    /// The key had already expired when it was watched, so that its removal changes nothing.
    pub expired: bool,
}

/// What a task does once it holds its shards.
pub enum Work {
    Command(Queued, Run),
    Walk(Queued, WalkStep, Walk),
    /// EXEC: the data commands, atomically; nothing happens if a watched key has changed.
    Transaction(Vec<Queued>, Option<Watched>),
    /// WATCH: registers the keys from `from` on.
    Watch {
        watched: Watched,
        from: usize,
    },
    /// The keys are no longer watched; nobody waits for it.
    Unwatch(Watched),
    /// A command that may begin to wait; if it did, how.
    Blocking {
        queued: Queued,
        blocking: &'static Blocking,
        keys: &'static [KeySpec],
        blocked: Option<Blocked>,
    },
    /// A command that waited has its reply. It still stands in queues of other shards if `elsewhere`.
    Served {
        waiter: Arc<Waiter>,
        elsewhere: bool,
    },
    /// A script; [`Outcome::Again`] if it wants more shards.
    Script(Script),
    /// A waiting command is tried again with all its shards; no connection waits for this task itself.
    Retry(Arc<Waiter>),
    /// A command that waited leaves its queues; nobody waits for it.
    Leave(Arc<Waiter>),
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Pending,
    Done,
    /// The reply holds an error.
    Failed,
    /// A walk that goes on with another step, or a script that was undone and wants more.
    Again,
    /// EXEC found a watched key changed.
    Aborted,
    /// There is nothing for the command; it waits now.
    Waits,
}

/// Where the reply of a command of a transaction ends, and how long it ran.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub mark: Mark,
    pub ticks: u64,
}

/// Work with everything it needs to be run by any thread.
pub struct Task {
    pub ticket: Ticket,
    pub home: Home,
    pub surroundings: Surroundings,
    pub rng: Rng,
    pub work: Work,
    pub outcome: Outcome,
    pub reply: Reply,
    /// The end of each command of a transaction.
    pub ends: Vec<End>,
    /// What the commands counted on whichever thread ran them; the home thread adds it to its own.
    pub counters: Counters,
    /// What the journal must record, if one listens.
    pub stamped: Stamped,
    /// Waiting commands that it made ready, but that need other shards, too: the home thread tries them.
    pub deferred: Vec<Arc<Waiter>>,
}

impl Visit<ShardData> for Task {
    fn execute(&mut self, entered: &mut Entered<'_, ShardData>) {
        if matches!(self.work, Work::Script(_)) {
            return self.run_script(entered);
        }
        self.outcome = match &mut self.work {
            Work::Transaction(..) => self.run_transaction(entered),
            Work::Watch { .. } => self.run_watch(entered),
            Work::Unwatch(watched) => {
                unwatch(&self.surroundings.layout, watched, entered);
                Outcome::Done
            }
            Work::Leave(waiter) => {
                let mut held = Held::Several(entered.reborrow());
                waiting::leave(&self.surroundings, &mut held, waiter);
                Outcome::Done
            }
            Work::Retry(waiter) => {
                waiting::retry(&self.surroundings, &mut Held::Several(entered.reborrow()), waiter);
                Outcome::Done
            }
            Work::Blocking { .. } => self.run_blocking(entered),
            _ => self.run_single(entered),
        };
        self.serve(entered);
        publish_all(&self.surroundings.published, entered);
        if self.surroundings.journaling {
            let mut effects = std::mem::take(&mut self.stamped.records);
            self.stamped = stamped(entered.iter_mut().map(|(_, data)| data), self.surroundings.now_ms);
            self.stamped.records.append(&mut effects);
        }
    }

    fn deliver(self: Box<Self>) {
        if matches!(self.work, Work::Unwatch(_) | Work::Leave(_)) {
            return;
        }
        let home = Arc::clone(&self.home);
        home(self);
    }
}

impl Task {
    /// Serves those who wait for keys that this task has changed, before their shards are left.
    fn serve(&mut self, entered: &mut Entered<'_, ShardData>) {
        let mut held = Held::Several(entered.reborrow());
        let home_hears = !matches!(self.work, Work::Unwatch(_) | Work::Leave(_));
        if home_hears && waiting::has_ready(&mut held) {
            let server = Server {
                surroundings: &self.surroundings,
                rng: &mut self.rng,
                counters: &mut self.counters,
                home: &self.home,
                served: Served::default(),
            };
            let Served { mut records, deferred, .. } = server.serve(&mut held);
            self.stamped.records.append(&mut records);
            self.deferred = deferred;
        }
    }

    fn run_blocking(&mut self, entered: &mut Entered<'_, ShardData>) -> Outcome {
        let Work::Blocking { queued, blocking, keys, blocked } = &mut self.work else { return self.outcome };
        let published = &self.surroundings.published;
        let keys_published = |db| published.keys(db);
        let mut cx = self.surroundings.exec(
            queued.db,
            &mut self.rng,
            &mut self.counters,
            &keys_published,
            Held::Several(entered.reborrow()),
        );
        let args = queued.args.as_args();
        let (caching, ticket, proto) = (queued.caching, self.ticket, self.reply.proto);
        let candidate = Candidate { blocking, keys, args, ticket, proto, caching };
        let mark = self.reply.mark();
        let attempted = waiting::attempt(&mut cx, candidate, published, &mut self.reply);
        self.surroundings.conclude(&mut cx, args, caching, ticket);
        match attempted {
            Ok((effect, waits)) => {
                record(&mut self.stamped.records, &self.surroundings, queued.db, args, effect);
                *blocked = waits;
                if blocked.is_some() { Outcome::Waits } else { Outcome::Done }
            }
            Err(error) => {
                self.reply.truncate_to(mark);
                self.reply.error(error.text());
                Outcome::Failed
            }
        }
    }

    fn run_single(&mut self, entered: &mut Entered<'_, ShardData>) -> Outcome {
        let (queued, mode) = match &mut self.work {
            Work::Command(queued, run) => (&*queued, Mode::Run(*run)),
            Work::Walk(queued, step, walk) => (&*queued, Mode::Step(*step, walk)),
            _ => return self.outcome,
        };
        let published = &self.surroundings.published;
        let keys_published = |db| published.keys(db);
        let mut cx = self.surroundings.exec(
            0,
            &mut self.rng,
            &mut self.counters,
            &keys_published,
            Held::Several(entered.reborrow()),
        );
        cx.db = queued.db;
        let args = queued.args.as_args();
        let mark = self.reply.mark();
        let result = match mode {
            Mode::Run(run) => run(&mut cx, args, &mut self.reply).map(|effect| (effect, Outcome::Done)),
            Mode::Step(step, walk) => step(&mut cx, args, walk, &mut self.reply).map(|step| match step {
                Step::Again => (Effect::None, Outcome::Again),
                Step::Done => (Effect::None, Outcome::Done),
            }),
        };
        self.surroundings.conclude(&mut cx, args, queued.caching, self.ticket);
        match result {
            Ok((effect, outcome)) => {
                record(&mut self.stamped.records, &self.surroundings, queued.db, args, effect);
                outcome
            }
            Err(error) => {
                self.reply.truncate_to(mark);
                self.reply.error(error.text());
                Outcome::Failed
            }
        }
    }

    fn run_transaction(&mut self, entered: &mut Entered<'_, ShardData>) -> Outcome {
        let Work::Transaction(commands, watched) = &mut self.work else { return self.outcome };
        let published = Arc::clone(&self.surroundings.published);
        let keys_published = |db| published.keys(db);
        if let Some(watched) = watched {
            let (layout, now_ms) = (&self.surroundings.layout, self.surroundings.now_ms);
            let changed = has_changed(layout, now_ms, watched, entered);
            unwatch(layout, watched, entered);
            if changed {
                return Outcome::Aborted;
            }
        }
        let mut cx = self.surroundings.exec(
            0,
            &mut self.rng,
            &mut self.counters,
            &keys_published,
            Held::Several(entered.reborrow()),
        );
        let mut started = (self.surroundings.ticks)();
        for queued in commands.iter_mut() {
            cx.db = queued.db;
            let mark = self.reply.mark();
            let args = queued.args.as_args();
            if matches!(queued.plan, Plan::Nowhere(_) | Plan::Walk { .. }) {
                // It reads counts as shards publish them, and must see what came before it in its own transaction.
                for id in cx.shards() {
                    publish_shard(&published, id, cx.shard(id));
                }
            }
            if let Some(program) = &mut queued.program {
                let mut log = Log::of_transaction();
                let to = (&mut self.reply, self.ticket);
                run_script(&self.surroundings, &mut cx, &mut **program, &mut log, to);
                self.stamped.records.append(&mut log.records);
                let now = (self.surroundings.ticks)();
                self.ends.push(End { mark: self.reply.mark(), ticks: now.wrapping_sub(started) });
                started = now;
                continue;
            }
            match run_plan(&mut cx, &queued.plan, args, &published, &mut self.reply) {
                Ok(effect) => record(&mut self.stamped.records, &self.surroundings, queued.db, args, effect),
                Err(error) => {
                    self.reply.truncate_to(mark);
                    self.reply.error(error.text());
                }
            }
            self.surroundings.conclude(&mut cx, args, queued.caching, self.ticket);
            let now = (self.surroundings.ticks)();
            self.ends.push(End { mark: self.reply.mark(), ticks: now.wrapping_sub(started) });
            started = now;
        }
        Outcome::Done
    }

    fn run_watch(&mut self, entered: &mut Entered<'_, ShardData>) -> Outcome {
        let layout = self.surroundings.layout;
        let now_ms = self.surroundings.now_ms;
        let Work::Watch { watched, from } = &mut self.work else { return self.outcome };
        for watched_key in &mut watched.keys[*from..] {
            let key = layout.key(&watched_key.key);
            let keyspace = entered.get(key.shard).keyspace(watched_key.db);
            watched_key.expired = keyspace.find(key).is_some_and(|entry| entry.is_expired(now_ms));
            keyspace.watch(key.bytes, &watched.dirty);
        }
        self.reply.ok();
        Outcome::Done
    }
}

/// Takes watched keys out of the tables of their shards, which are all held.
fn unwatch(layout: &Layout, watched: &Watched, entered: &mut Entered<'_, ShardData>) {
    for watched_key in &watched.keys {
        let data = entered.get(layout.shard_of(&watched_key.key));
        if let Some(keyspace) = data.existing(watched_key.db) {
            keyspace.unwatch(&watched_key.key, &watched.dirty);
        }
    }
}

enum Mode<'w> {
    Run(Run),
    Step(WalkStep, &'w mut Walk),
}

/// Whether a key that the transaction watches was changed, or has expired, since it was watched. Its shards are all held.
fn has_changed(
    layout: &Layout,
    now_ms: u64,
    watched: &Watched,
    entered: &mut Entered<'_, ShardData>,
) -> bool {
    // Relaxed: the flag is set under the latch of a shard that this transaction holds now, and the latch orders the two.
    watched.dirty.load(Ordering::Relaxed)
        || watched.keys.iter().any(|watched_key| {
            let key = layout.key(&watched_key.key);
            let entry =
                entered.get(key.shard).existing(watched_key.db).and_then(|keyspace| keyspace.find(key));
            !watched_key.expired && entry.is_some_and(|entry| entry.is_expired(now_ms))
        })
}

impl Surroundings {
    /// What a command function gets in database `db` with these shards held.
    #[inline]
    pub(crate) fn exec<'a>(
        &'a self,
        db: u16,
        rng: &'a mut Rng,
        counters: &'a mut Counters,
        keys_published: &'a dyn Fn(u16) -> u64,
        held: Held<'a>,
    ) -> Exec<'a> {
        Exec {
            now_ms: self.now_ms,
            db,
            layout: self.layout,
            settings: &self.settings,
            rng,
            counters,
            touch: self.touch,
            journaling: self.journaling,
            hint: None,
            elsewhere: false,
            keys_published,
            retrying: false,
            events: Events::default(),
            held,
        }
    }
}

/// Notes what a write changed, if a journal listens.
pub(crate) fn record(
    records: &mut Vec<(u16, Record)>,
    surroundings: &Surroundings,
    db: u16,
    args: Args<'_>,
    effect: Effect,
) {
    if !surroundings.journaling {
        return;
    }
    match effect {
        Effect::None => {}
        Effect::AsIs => records.push((db, args.iter().map(<[u8]>::to_vec).collect())),
        Effect::Rewritten(rewritten) => records.extend(rewritten.into_iter().map(|record| (db, record))),
    }
}

/// A stamp after all stamps of these shards, and not before the clock, in microseconds; the shards' last one from now on. With it the
/// removals in these shards that the journal does not know yet.
///
/// Every write takes one under its latches, so that the stamps of the writes of one shard ascend in the order of the writes, and a
/// write over several shards comes after all earlier writes of each: sorted by stamp, the records of all threads replay to the same data.
pub(crate) fn stamped<'s>(shards: impl Iterator<Item = &'s mut ShardData>, now_ms: u64) -> Stamped {
    let mut shards: Vec<&mut ShardData> = shards.collect();
    let stamp = shards.iter().map(|data| data.stamp_last).fold(now_ms * 1000, u64::max) + 1;
    let records = shards.iter_mut().flat_map(|data| data.take_removed()).collect();
    shards.into_iter().for_each(|data| data.stamp_last = stamp);
    Stamped { stamp, records }
}

/// Publishes the number of keys of every database of the entered shards.
pub(crate) fn publish_all(published: &Published, entered: &mut Entered<'_, ShardData>) {
    entered.iter_mut().for_each(|(id, data)| publish_shard(published, id, data));
}

/// Publishes the number of keys of every database of a shard.
pub(crate) fn publish_shard(published: &Published, shard: ShardId, data: &mut ShardData) {
    // A database that was never used has published nothing yet.
    for (db, keyspace) in data.in_use() {
        published.set(shard, db, counts(Some(keyspace)));
    }
}
