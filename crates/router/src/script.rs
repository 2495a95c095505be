//! Scripts: work that shows its commands only while it runs. How a script gets the shards of keys that it did not declare, and how it is
//! undone if it does not get them. Not the language: that is behind [`Program`].
//!
//! HOT: [`Inside::call`] for keys whose shards are held; no lock, no syscall, no log line; it allocates only to be able to undo a write.
//!
//! ```text
//!   shards of the declared keys are held
//!     |  call: a key in another shard --> enter it without waiting ---- it is free ----> go on
//!     |                                        | it is taken
//!     |                                        v
//!     |                               undo every write, leave, run again from the beginning, with that shard, too;
//!     |                               the third time with all shards
//!     |  call: a write --> what the key held is kept first --- too much to keep ---> enter all shards, or again with all
//!     v
//!   with all shards held nothing is kept: nothing can be taken any more
//! ```
//!
//! So a script is atomic and isolated whatever it touches, it never waits inside, and no circle of waiting can come of it.

use command::{CommandError, Effect, Flags, KeyFlags, Record, Spec};
use resp::{Args, Reply};
use shard::ShardId;
use shard::data::{Counters, ShardData};
use shard::exec::{Exec, Held};
use shard::keyspace::{Key, Value};
use shard::latch::Entered;
use shard::plan::{Attempted, Plan, Step, WalkStart};

use crate::outbound::Caching;
use crate::published::counts;
use crate::task::{Outcome, Stamped, Surroundings, Task, Ticket, Work, publish_all, record, stamped};
use crate::waiting::{self, Served, Server};

/// Keys whose former values a script keeps; one that writes to more takes all shards.
const KEPT_KEYS_MAX: usize = 64;

/// Bytes of former values that a script keeps; one that overwrites more takes all shards.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Commands that may write to a key of another database than the one in which they run.
const ACROSS: [&str; 2] = ["COPY", "MOVE"];

/// Runs in vain after which a script gets all shards.
const TRIES_MAX: u8 = 3;

/// A script, however it is written.
pub trait Program {
    /// Runs it and writes one reply. If a call was [`Refused::Taken`] it must end at once, and is run again later, from the beginning and
    /// maybe on another thread; what it wrote is dropped.
    fn run(&mut self, inside: &mut Inside<'_, '_>, reply: &mut Reply);
}

/// A program that can travel, with the database in which it begins.
pub struct Script {
    pub program: Box<dyn Program + Send>,
    pub db: u16,
    /// Runs that were in vain.
    pub(crate) tries: u8,
    /// The shards of the next run, ascending; none: all.
    pub(crate) next: Vec<ShardId>,
}

/// Why a call gave no reply.
#[derive(Debug)]
pub enum Refused {
    /// The command's own error.
    Error(CommandError),
    /// A shard is taken: the script must end, and will be run again.
    Taken,
}

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Self {
        Self::Error(error)
    }
}

/// What a script has done so far. Kept by the engine, so that its parts are allocated once.
#[derive(Default)]
pub struct Log {
    /// For the journal, if one listens.
    pub(crate) records: Vec<(u16, Record)>,
    kept: Vec<Kept>,
    /// The keys of what is kept, one after another.
    kept_keys: Vec<u8>,
    kept_bytes: usize,
    /// Shards and databases that it has looked into; some more than once.
    touched: Vec<(ShardId, u16)>,
    /// It has looked into other databases, or into all shards at once.
    elsewhere: bool,
    taken: bool,
    /// The shard that was taken; none: it wants all.
    wanted: Option<ShardId>,
    /// The shards of the next run, ascending; none: all.
    pub(crate) next: Vec<ShardId>,
}

/// What a key held before the script wrote to it.
struct Kept {
    db: u16,
    /// Where its key lies in `kept_keys`.
    key: std::ops::Range<usize>,
    hash: u64,
    shard: ShardId,
    value: Option<Value>,
}

impl Log {
    /// For a script among other commands: what was touched before it counts, too.
    pub(crate) fn of_transaction() -> Self {
        Self { elsewhere: true, ..Self::default() }
    }

    pub(crate) fn clear(&mut self) {
        let Self { records, kept, kept_keys, touched, .. } = self;
        records.clear();
        kept_keys.clear();
        kept.clear();
        touched.clear();
        (self.kept_bytes, self.elsewhere, self.taken, self.wanted) = (0, false, false, None);
        self.next = Vec::new();
    }

    #[inline]
    fn touch(&mut self, shard: ShardId, db: u16) {
        // A script uses few keys, and often the same again; what comes twice all the same does no harm.
        if !self.touched.iter().rev().take(8).any(|known| *known == (shard, db)) {
            self.touched.push((shard, db));
        }
    }

    fn has(&self, db: u16, key: Key<'_>) -> bool {
        let same = |kept: &Kept| {
            kept.hash == key.hash && kept.db == db && self.kept_keys[kept.key.clone()] == *key.bytes
        };
        self.kept.iter().any(same)
    }
}

/// What a script works with: one command after another, in the shards that it holds and in those that it gets.
pub struct Inside<'a, 'x> {
    pub(crate) cx: &'a mut Exec<'x>,
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) log: &'a mut Log,
    pub(crate) by: Ticket,
}

impl Inside<'_, '_> {
    /// The database in which the next command runs.
    pub fn db(&self) -> u16 {
        self.cx.db
    }

    /// The next commands run in this database, which must be one.
    pub fn select(&mut self, db: u16) {
        assert!(db < self.cx.layout.databases, "a database below their number");
        self.cx.elsewhere |= db != self.cx.db;
        self.cx.db = db;
    }

    /// Number of databases.
    pub fn databases(&self) -> u16 {
        self.cx.layout.databases
    }

    /// Unix time in ms; stands still while the script runs.
    pub fn now_ms(&self) -> u64 {
        self.cx.now_ms
    }

    /// Chance, for what is not a command.
    pub fn random(&mut self) -> u64 {
        self.cx.rng.next_u64()
    }

    /// Whether a call was [`Refused::Taken`].
    pub fn is_taken(&self) -> bool {
        self.log.taken
    }

    /// Whether that was because it needs all shards.
    pub fn wants_all(&self) -> bool {
        self.log.taken && self.log.wanted.is_none()
    }

    /// Whether the script holds all shards, so that no call can be [`Refused::Taken`].
    pub fn holds_all(&self) -> bool {
        matches!(&self.cx.held, Held::Several(entered) if entered.holds_all())
    }

    /// Runs one data command, whose number of words was checked, and writes its reply. `caching`: the script's client wants to know when what
    /// it reads changes.
    pub fn call(
        &mut self,
        (spec, plan): (&'static Spec, &Plan),
        args: Args<'_>,
        caching: Option<Caching>,
        reply: &mut Reply,
    ) -> Result<(), Refused> {
        if self.log.taken {
            return Err(Refused::Taken);
        }
        let plan = plan.for_words(args);
        match plan {
            Plan::Keys(_) | Plan::Blocking(_) => self.enter_keys(spec, args)?,
            Plan::Every(_) | Plan::Walk { .. } => {
                self.enter_all()?;
                self.log.elsewhere = true;
            }
            Plan::Nowhere(_) | Plan::KeysOrEvery { .. } | Plan::Container => {}
        }
        if matches!(plan, Plan::Nowhere(_) | Plan::Walk { .. }) {
            // It reads counts as shards publish them, and must see what came before it.
            self.publish();
        }
        let mark = reply.mark();
        let result = run_plan(self.cx, &plan, args, &self.surroundings.published, reply);
        if let Some(caching) = caching {
            self.surroundings.remember(self.cx, args, caching, self.by);
        }
        self.cx.hint = None;
        match result {
            Ok(effect) => {
                record(&mut self.log.records, self.surroundings, self.cx.db, args, effect);
                Ok(())
            }
            Err(error) => {
                reply.truncate_to(mark);
                Err(error.into())
            }
        }
    }

    /// Enters the shards of a command's keys and keeps what its writes will change.
    fn enter_keys(&mut self, spec: &Spec, args: Args<'_>) -> Result<(), Refused> {
        let db = self.cx.db;
        let writes = spec.flags.has(Flags::WRITE);
        // XREADGROUP changes the group in a key that it is said to read.
        let reads_only = spec.keys.iter().all(|keys| keys.flags.has(KeyFlags::RO));
        let mut keys = 0_u32;
        let mut taken = false;
        // A word that makes no sense as a count of keys: the command itself answers with its error.
        let _ = command::key_positions(spec.keys, args, |at, flags| {
            if taken || flags.has(KeyFlags::NOT_KEY) {
                return;
            }
            let key = self.cx.layout.key(&args[at]);
            taken = !self.enter(key.shard);
            if taken {
                return;
            }
            keys += 1;
            self.cx.hint = Some((at, key.hash, key.shard));
            self.log.touch(key.shard, db);
            if writes && (reads_only || !flags.has(KeyFlags::RO)) {
                taken = if ACROSS.contains(&spec.name) {
                    !(0..self.cx.layout.databases).all(|db| self.keep(db, key))
                } else {
                    !self.keep(db, key)
                };
            }
        });
        if keys != 1 {
            self.cx.hint = None;
        }
        if taken { self.give_up() } else { Ok(()) }
    }

    #[cold]
    fn give_up(&mut self) -> Result<(), Refused> {
        self.log.taken = true;
        Err(Refused::Taken)
    }

    #[inline]
    fn enter(&mut self, shard: ShardId) -> bool {
        let is_held = match &mut self.cx.held {
            Held::Several(entered) => entered.enter(shard),
            held => held.holds(shard),
        };
        if !is_held {
            self.log.wanted = Some(shard);
        }
        is_held
    }

    fn enter_all(&mut self) -> Result<(), Refused> {
        if self.has_entered_all() { Ok(()) } else { self.give_up() }
    }

    fn has_entered_all(&mut self) -> bool {
        match &mut self.cx.held {
            Held::Several(entered) => entered.enter_all(),
            Held::None | Held::One(..) => false,
        }
    }

    /// Before a write to `key`, whose shard is held: keeps what it holds, unless that cannot be needed. False: there is too much to keep,
    /// and a shard is taken.
    fn keep(&mut self, db: u16, key: Key<'_>) -> bool {
        if self.holds_all() || self.log.has(db, key) {
            return true;
        }
        let mut too_much =
            self.log.kept.len() >= KEPT_KEYS_MAX || self.log.kept_bytes + key.bytes.len() > KEPT_BYTES_MAX;
        let mut value = None;
        if let Some(keyspace) = self.cx.shard(key.shard).existing(db)
            && !too_much
            && let Some(entry) = keyspace.find(key)
        {
            // A big string is shared; a large collection would have to be copied element by element.
            too_much = entry.is_large() || self.log.kept_bytes + entry.size() > KEPT_BYTES_MAX;
            if !too_much {
                self.log.kept_bytes += entry.size();
                value = keyspace.copy(key);
            }
        }
        if too_much {
            return self.has_entered_all();
        }
        self.log.kept_bytes += key.bytes.len();
        let from = self.log.kept_keys.len();
        self.log.kept_keys.extend_from_slice(key.bytes);
        let place = from..self.log.kept_keys.len();
        self.log.kept.push(Kept { db, key: place, hash: key.hash, shard: key.shard, value });
        true
    }

    /// Publishes the numbers of keys of what it has touched.
    fn publish(&mut self) {
        let published = &self.surroundings.published;
        if self.log.elsewhere || self.cx.elsewhere {
            if let Held::Several(entered) = &mut self.cx.held {
                publish_all(published, entered);
            }
            return;
        }
        for &(shard, db) in &self.log.touched {
            published.set(shard, db, counts(self.cx.shard(shard).existing(db)));
        }
    }

    /// Takes back what the script has written. What has expired meanwhile stays removed.
    #[cold]
    fn undo(&mut self) {
        for Kept { db, key, hash, shard, value } in self.log.kept.drain(..) {
            let key = Key { bytes: &self.log.kept_keys[key], hash, shard };
            let keyspace = self.cx.shard(shard).keyspace(db);
            match value {
                Some(value) => keyspace.put_value(key, value),
                None => drop(keyspace.remove(key)),
            }
        }
        self.log.records.clear();
    }
}

/// Runs one command all of whose shards are held; one that would wait answers with its null.
pub(crate) fn run_plan(
    cx: &mut Exec<'_>,
    plan: &Plan,
    args: Args<'_>,
    published: &crate::published::Published,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    match plan {
        Plan::Keys(run) | Plan::Every(run) | Plan::KeysOrEvery { run, .. } | Plan::Nowhere(run) => {
            run(cx, args, reply)
        }
        Plan::Blocking(blocking) => match (blocking.attempt)(cx, args, reply)? {
            Attempted::Done(effect) => Ok(effect),
            Attempted::Wait(wait) => {
                (blocking.null)(reply);
                Ok(wait.effect)
            }
        },
        Plan::Walk { start, step } => {
            let (db, shards) = (cx.db, cx.layout.mask + 1);
            let keys_of = |shard| published.keys_in(shard, db);
            let mut walk = start(&mut WalkStart { shards, keys_of: &keys_of, rng: cx.rng }, args)?;
            while step(cx, args, &mut walk, reply)? == Step::Again {}
            Ok(Effect::None)
        }
        Plan::Container => panic!("a container of subcommands has no action"),
    }
}

/// What was read is remembered command by command.
const NO_WORDS: Args<'static> = Args::new(&[], &[]);

/// Runs a script in the shards that are held. [`Outcome::Again`]: it was undone and wants all shards.
pub(crate) fn run_script(
    surroundings: &Surroundings,
    cx: &mut Exec<'_>,
    program: &mut dyn Program,
    log: &mut Log,
    (reply, by): (&mut Reply, Ticket),
) -> Outcome {
    let (mark, before) = (reply.mark(), *cx.counters);
    let mut inside = Inside { cx, surroundings, log, by };
    program.run(&mut inside, reply);
    if !inside.log.taken {
        log.elsewhere |= cx.elsewhere;
        surroundings.conclude(cx, NO_WORDS, None, by);
        return Outcome::Done;
    }
    let mut events = inside.cx.take_events();
    inside.undo();
    // What was undone has not happened; what has expired under it has.
    drop(inside.cx.take_events());
    events.list.retain(|event| event.name == "expired");
    cx.events = events;
    surroundings.conclude(cx, NO_WORDS, None, by);
    if let Some(wanted) = log.wanted {
        log.next = cx.held.ids();
        log.next.push(wanted);
        log.next.sort_unstable();
    }
    log.elsewhere |= cx.elsewhere;
    reply.truncate_to(mark);
    let Counters { keyspace_hits, keyspace_misses, .. } = before;
    (cx.counters.keyspace_hits, cx.counters.keyspace_misses) = (keyspace_hits, keyspace_misses);
    Outcome::Again
}

/// Before the shards of a script are left: those who wait are served, numbers of keys published, the writes stamped. Costs what the script
/// has touched, not what it holds.
pub(crate) fn leave_script(
    server: Server<'_>,
    entered: &mut Entered<'_, ShardData>,
    log: &mut Log,
) -> (Option<Stamped>, Option<Served>) {
    let surroundings = server.surroundings;
    let mut held = Held::Several(entered.reborrow());
    let has_ready = if log.elsewhere {
        waiting::has_ready(&mut held)
    } else {
        let ready = |(shard, db): &(ShardId, u16)| {
            held.shard(*shard).existing(*db).is_some_and(|keyspace| keyspace.waits().has_ready())
        };
        log.touched.iter().any(ready)
    };
    let served = has_ready.then(|| server.serve(&mut held));
    let everywhere = log.elsewhere || served.is_some();
    if everywhere {
        publish_all(&surroundings.published, entered);
    } else {
        for &(shard, db) in &log.touched {
            surroundings.published.set(shard, db, counts(entered.get(shard).existing(db)));
        }
    }
    let stamped = surroundings.journaling.then(|| {
        let wrote = |id: &ShardId| everywhere || log.touched.iter().any(|(touched, _)| touched == id);
        let shards = entered.iter_mut().filter(|(id, _)| wrote(id)).map(|(_, data)| data);
        let mut stamped = stamped(shards, surroundings.now_ms);
        stamped.records.append(&mut log.records);
        stamped
    });
    (stamped, served)
}

impl Task {
    /// A script that travels.
    pub(crate) fn run_script(&mut self, entered: &mut Entered<'_, ShardData>) {
        let Work::Script(Script { program, db, tries, next }) = &mut self.work else { return };
        let published = &self.surroundings.published;
        let keys_published = |db| published.keys(db);
        let held = Held::Several(entered.reborrow());
        let mut log = Log::default();
        let mut cx = self.surroundings.exec(*db, &mut self.rng, &mut self.counters, &keys_published, held);
        self.outcome =
            run_script(&self.surroundings, &mut cx, &mut **program, &mut log, (&mut self.reply, self.ticket));
        if self.outcome == Outcome::Again {
            *tries += 1;
            *next = if *tries < TRIES_MAX { std::mem::take(&mut log.next) } else { Vec::new() };
        }
        let server = Server {
            surroundings: &self.surroundings,
            rng: &mut self.rng,
            counters: &mut self.counters,
            home: &self.home,
            served: Served::default(),
        };
        let (stamped, served) = leave_script(server, entered, &mut log);
        let Served { mut records, mut deferred, .. } = served.unwrap_or_default();
        if let Some(mut stamped) = stamped {
            stamped.records.append(&mut records);
            // A script that is run again has stamped what expired under it.
            let mut before = std::mem::replace(&mut self.stamped, stamped).records;
            before.append(&mut self.stamped.records);
            self.stamped.records = before;
        }
        self.deferred.append(&mut deferred);
    }
}
