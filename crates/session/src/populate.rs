//! DEBUG POPULATE: fills a database with keys for tests and measurements. Every thread makes its share in slices between its other work, so
//! that clients are served meanwhile; keys that exist stay as they are. When the connection that asked is broken or killed, the work ends.

use std::sync::Weak;

use reactor::clock;
use resp::Reply;
use router::published::counts;
use router::task::Ticket;
use shard::access;
use shard::keyspace::Deadline;
use stdx::rng::Rng;

use crate::shared::Message;
use crate::worker::Worker;

/// How long one slice may take.
const SLICE_US: u64 = 100;

/// Keys between two looks at the clock.
const STEP: u64 = 32;

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub db: u16,
    pub count: u64,
    pub prefix: Vec<u8>,
    /// Bytes of a value; none: as many as `value:N` has.
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
        Self { wanted, next: u64::from(thread), step: u64::from(threads), rng, asker, awaited, key, value }
    }

    fn prepare(&mut self) {
        let Wanted { prefix, size, random, .. } = &self.wanted;
        self.key.clear();
        self.key.extend_from_slice(prefix);
        self.key.extend_from_slice(format!(":{}", self.next).as_bytes());
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

    fn deadline(&mut self, now_ms: u64) -> Deadline {
        self.wanted.expire_s.map_or(Deadline::Clear, |(from, to)| {
            Deadline::At(now_ms + (from + self.rng.below(to - from + 1)) * 1000)
        })
    }
}

/// One slice of the oldest DEBUG POPULATE of this thread.
pub(crate) fn slice(worker: &mut Worker) {
    let Some(mut job) = worker.background.populating.pop_front() else { return };
    let started_us = clock::monotonic_us();
    while clock::monotonic_us() - started_us < SLICE_US {
        for _ in 0..STEP {
            if job.next >= job.wanted.count || job.awaited.strong_count() == 0 {
                return finish(worker, &job, None);
            }
            job.prepare();
            if worker.config.maxmemory != 0
                && worker.make_room((job.key.len() + job.value.len()) as u64).is_err()
            {
                return finish(worker, &job, Some("OOM command not allowed when used memory > 'maxmemory'."));
            }
            if !make(worker, &mut job) {
                // Its shard is busy: later.
                return worker.background.populating.push_back(job);
            }
            job.next += job.step;
        }
    }
    worker.background.populating.push_back(job);
}

/// Makes one key. Whether its shard could be entered.
fn make(worker: &mut Worker, job: &mut Populate) -> bool {
    let deadline = job.deadline(worker.now_ms);
    let (now_ms, db) = (worker.now_ms, job.wanted.db);
    let published = &worker.shared.published;
    let engine = &mut worker.engine;
    let policy = engine.surroundings.settings.policy;
    let key = engine.surroundings.layout.key(&job.key);
    let value = &job.value;
    let made = engine.shards.with_one(key.shard, &mut engine.duty, |data| {
        let keyspace = data.keyspace(db);
        if keyspace.find(key).is_none() {
            keyspace.put_string(key, value, deadline, access::new(policy, now_ms));
            published.set(key.shard, db, counts(Some(keyspace)));
        }
    });
    made.is_ok()
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
