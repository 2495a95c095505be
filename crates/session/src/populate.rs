//! DEBUG POPULATE: fills a database with keys for tests and measurements. Every thread makes its share in slices between its other work, so
//! that clients are served meanwhile; keys that exist stay as they are. When the connection that asked is broken or killed, the work ends.
//!
//! A string is put into its keyspace at once. A collection grows by the commands that clients would use, some elements at a time
//! (`elements.rs`), and gets its deadline last; if somebody removes or replaces the key meanwhile, it is left at that.

mod elements;

use std::sync::Weak;

use reactor::clock;
use resp::{Args, OwnedArgs, Proto, Reply};
use router::engine::{Call, Ran};
use router::published::counts;
use router::table::Run;
use router::task::Ticket;
use shard::access;
use shard::keyspace::Deadline;
use shard::notify::Events;
use shard::plan::Plan;
use stdx::rng::Rng;

use crate::background::NOBODY;
use crate::shared::Message;
use crate::worker::Worker;

pub use elements::Kind;

/// How long one slice may take.
const SLICE_US: u64 = 100;

/// Strings or elements between two looks at the clock, each some hundreds of ns.
const STEP: u64 = 32;

/// Bytes that take as long as making one more string or element.
const STEP_BYTES: u64 = 1 << 10;

const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub db: u16,
    pub count: u64,
    pub prefix: Vec<u8>,
    pub kind: Kind,
    /// How many elements a collection gets, at least 1.
    pub elements: u64,
    /// Bytes of a value or an element; none: as many as `value:N` has.
    pub size: Option<usize>,
    /// Random bytes instead of `value:N`.
    pub random: bool,
    /// Bounds of the seconds after which a key expires.
    pub expire_s: Option<(u64, u64)>,
}

/// One thread's share of a DEBUG POPULATE.
pub struct Populate {
    wanted: Wanted,
    /// The next key's number: every n-th of n threads.
    next: u64,
    step: u64,
    /// How many elements the collection of that number has got.
    element: u64,
    rng: Rng,
    /// Who waits for the end.
    asker: Ticket,
    /// Whether it still waits.
    awaited: Weak<()>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// How a share ended: none, or why it ended early.
pub type Outcome = Option<&'static str>;

impl Populate {
    pub fn new(wanted: Wanted, thread: u16, threads: u16, asker: (Ticket, Weak<()>)) -> Self {
        let (asker, awaited) = asker;
        let rng = Rng::new(u64::from(thread));
        let (key, value) = (Vec::new(), Vec::new());
        Self {
            wanted,
            next: u64::from(thread),
            step: u64::from(threads),
            element: 0,
            rng,
            asker,
            awaited,
            key,
            value,
        }
    }

    fn name_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(&self.wanted.prefix);
        self.key.extend_from_slice(format!(":{}", self.next).as_bytes());
    }

    fn prepare_string(&mut self) {
        let Wanted { size, random, .. } = &self.wanted;
        self.value.clear();
        if *random {
            self.value.resize(size.unwrap_or(0), 0);
            self.rng.fill(&mut self.value);
            return;
        }
        self.value.extend_from_slice(format!("value:{}", self.next).as_bytes());
        if let Some(size) = size {
            self.value.resize(*size, 0);
        }
    }

    fn next_key(&mut self) {
        self.next += self.step;
        self.element = 0;
    }

    fn deadline(&mut self, now_ms: u64) -> Deadline {
        self.wanted.expire_s.map_or(Deadline::Clear, |(from, to)| {
            Deadline::At(now_ms + (from + self.rng.below(to - from + 1)) * 1000)
        })
    }
}

/// What became of one step of a job.
enum Step {
    /// Something was made; it took about as long as so many elements.
    Made(u64),
    /// A shard is busy: later.
    Busy,
    /// There is no room for more.
    Full,
}

/// One slice of the oldest DEBUG POPULATE of this thread.
pub(crate) fn slice(worker: &mut Worker) {
    let Some(mut job) = worker.background.populating.pop_front() else { return };
    let started_us = clock::monotonic_us();
    while clock::monotonic_us() - started_us < SLICE_US {
        let mut spent = 0;
        while spent < STEP {
            if job.next >= job.wanted.count || job.awaited.strong_count() == 0 {
                return finish(worker, &job, None);
            }
            job.name_key();
            let step = match job.wanted.kind {
                Kind::String => make_string(worker, &mut job),
                _ => grow(worker, &mut job),
            };
            match step {
                Step::Made(cost) => spent += cost,
                Step::Busy => return worker.background.populating.push_back(job),
                Step::Full => return finish(worker, &job, Some(OUT_OF_MEMORY)),
            }
        }
    }
    worker.background.populating.push_back(job);
}

fn has_room(worker: &mut Worker, bytes: usize) -> bool {
    worker.config.maxmemory == 0 || worker.make_room(bytes as u64).is_ok()
}

/// Makes one key with a string.
fn make_string(worker: &mut Worker, job: &mut Populate) -> Step {
    job.prepare_string();
    let bytes = job.key.len() + job.value.len();
    if !has_room(worker, bytes) {
        return Step::Full;
    }
    let deadline = job.deadline(worker.now_ms);
    let (now_ms, db) = (worker.now_ms, job.wanted.db);
    let published = &worker.shared.published;
    let engine = &mut worker.engine;
    let surroundings = &engine.surroundings;
    let policy = surroundings.settings.policy;
    let key = engine.surroundings.layout.key(&job.key);
    let value = &job.value;
    let made = engine.shards.with_one(key.shard, &mut engine.duty, |data| {
        let keyspace = data.keyspace(db);
        if keyspace.find(key).is_none() {
            keyspace.put_string(key, value, deadline, access::new(policy, now_ms));
            published.set(key.shard, db, counts(Some(keyspace)));
            surroundings.conclude_shard(data, &Events::default(), NOBODY);
        }
    });
    if made.is_err() {
        return Step::Busy;
    }
    job.next_key();
    Step::Made(1 + bytes as u64 / STEP_BYTES)
}

/// Gives a collection its next elements, or its deadline after the last of them.
fn grow(worker: &mut Worker, job: &mut Populate) -> Step {
    let (db, started) = (job.wanted.db, job.element > 0);
    let engine = &mut worker.engine;
    let key = engine.surroundings.layout.key(&job.key);
    let exists =
        engine.shards.with_one(key.shard, &mut engine.duty, |data| data.keyspace(db).find(key).is_some());
    match exists {
        Err(_) => return Step::Busy,
        Ok(exists) if exists != started => {
            job.next_key();
            return Step::Made(1);
        }
        Ok(_) => {}
    }
    if job.element == job.wanted.elements {
        return finish_key(worker, job);
    }
    let chunk = elements::next(&job.wanted, &job.key, job.element, &mut job.rng);
    if !has_room(worker, chunk.bytes) {
        return Step::Full;
    }
    let cost = chunk.elements + chunk.bytes as u64 / STEP_BYTES;
    match run(worker, job, &OwnedArgs::from_words(&chunk.words)) {
        None => return Step::Busy,
        Some(Ran::Failed) => job.next_key(),
        Some(_) => job.element += chunk.elements,
    }
    if job.element == job.wanted.elements && job.wanted.expire_s.is_none() {
        job.next_key();
    }
    Step::Made(cost)
}

/// The deadline of a collection that has all of its elements.
fn finish_key(worker: &mut Worker, job: &mut Populate) -> Step {
    if let Deadline::At(at_ms) = job.deadline(worker.now_ms) {
        let words = [b"PEXPIREAT".as_slice(), &job.key, at_ms.to_string().as_bytes()].map(<[u8]>::to_vec);
        if run(worker, job, &OwnedArgs::from_words(words)).is_none() {
            return Step::Busy;
        }
    }
    job.next_key();
    Step::Made(1)
}

/// Runs a command on the job's key as a client would; None while its shard is busy.
fn run(worker: &mut Worker, job: &Populate, command: &OwnedArgs) -> Option<Ran> {
    let args: Args<'_> = command.as_args();
    let entry = worker.shared.table.find(&args[0]).expect("a row has this name");
    let Run::Data(plan @ Plan::Keys(run)) = &entry.run else { panic!("{} has one key", entry.full_name) };
    let shard = worker.engine.surroundings.layout.shard_of(&job.key);
    let call = Call {
        plan,
        keys: entry.spec.keys,
        args,
        db: job.wanted.db,
        hint: None,
        connection: 0,
        caching: None,
    };
    worker.engine.try_one(call, *run, shard, &mut Reply::new(Proto::Resp2))
}

fn finish(worker: &Worker, job: &Populate, outcome: Outcome) {
    worker.shared.send(job.asker.thread, Message::Answer(job.asker.connection, Box::new(outcome)));
}

/// The reply, from how the shares ended.
pub fn reply(outcomes: impl Iterator<Item = Outcome>, reply: &mut Reply) {
    match outcomes.flatten().next() {
        Some(error) => reply.error(error),
        None => reply.ok(),
    }
}
