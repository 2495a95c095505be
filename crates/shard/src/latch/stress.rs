//! The latch on real threads, many more than cores, under contention: 90 % of the visits go to one shard, some to all shards, and
//! threads give up the processor inside. `DARTER_STRESS_SECONDS` makes it longer than 3 s, `DARTER_STRESS_SEED` repeats its choices.
//!
//! - No visit is stranded and nothing deadlocks: every connection gets every reply, and at the end all shards are free.
//! - No two visits are in a shard at once; what visits over several shards move between them never appears or disappears.
//! - The visits of a connection are executed in its order in every shard, and their replies come in that order.
//! - In a shard where it was posted, no visit waits for more than 1,000 visits that were submitted after it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use stdx::rng::Rng;

use super::latch::{Busy, Counts, Duty, Entered, Mailbox, Pace, Shards, Submitted, Visit};
use crate::ShardId;

const THREADS: usize = 16;
const CONNECTIONS_PER_THREAD: usize = 8;
const SHARDS: usize = 64;
/// Not the first, so that visits over all shards hold others when they come to it.
const HOT: ShardId = 21;
/// Visits that may come later and be executed earlier in a shard where a visit waits.
const LATER_MAX: u64 = 1000;
/// Visits that a shard remembers.
const RECENT: usize = 4096;

/// What a shard protects.
struct Data {
    inside: bool,
    /// All shards together: 0.
    balance: i64,
    executed: u64,
    /// Number of the last visit of each connection.
    last: Vec<u64>,
    /// Submission numbers of the last visits, by `executed`.
    recent: Vec<u64>,
}

struct Peer {
    mailbox: Mailbox<Box<Task>>,
    thread: OnceLock<Thread>,
}

struct World {
    shards: Shards<Data>,
    peers: Vec<Peer>,
    /// Submissions so far.
    submitted: AtomicU64,
    /// Visits that each shard has executed.
    executed: Vec<AtomicU64>,
    /// The same when the visit of a connection was posted there; `u64::MAX` before that is noted. Shard-major.
    posted: Vec<AtomicU64>,
    stop: AtomicBool,
}

impl World {
    fn posted_at(&self, shard: ShardId, connection: usize) -> &AtomicU64 {
        &self.posted[usize::from(shard) * THREADS * CONNECTIONS_PER_THREAD + connection]
    }
}

/// One visit of one connection.
struct Task {
    world: &'static World,
    home: usize,
    connection: usize,
    number: u64,
    submitted: u64,
    ids: Vec<ShardId>,
    rng: Rng,
    /// Where it was posted.
    waits: Vec<ShardId>,
    /// The most visits, submitted later, that it waited for in one shard, and in all of them.
    later_max: u64,
    later_all: u64,
}

impl Task {
    fn come(&mut self, id: ShardId, data: &mut Data) {
        assert!(!data.inside, "two visits in shard {id}");
        data.inside = true;
        let last = std::mem::replace(&mut data.last[self.connection], self.number);
        assert!(last < self.number, "visit {} of connection {} after {last}", self.number, self.connection);
        if self.rng.below(8) == 0 {
            thread::yield_now();
        }
    }

    fn go(&mut self, id: ShardId, data: &mut Data) {
        data.recent[data.executed as usize % RECENT] = self.submitted;
        data.executed += 1;
        self.world.executed[usize::from(id)].store(data.executed, Ordering::Relaxed);
        data.inside = false;
    }

    fn work(&mut self, entered: &mut Entered<'_, Data>) {
        entered.iter_mut().for_each(|(id, data)| self.come(id, data));
        match self.ids.len() {
            1 => {}
            SHARDS => assert_eq!(
                entered.iter_mut().map(|(_, data)| data.balance).sum::<i64>(),
                0,
                "half a transfer"
            ),
            _ => {
                let amount = self.rng.below(100) as i64;
                entered.get(self.ids[0]).balance -= amount;
                thread::yield_now();
                entered.get(self.ids[self.ids.len() - 1]).balance += amount;
            }
        }
        entered.iter_mut().for_each(|(id, data)| self.go(id, data));
    }

    /// At once, if its shards are free.
    fn try_first(&mut self, duty: &mut Duty<Data>) -> Result<(), Busy> {
        let (world, ids) = (self.world, self.ids.clone());
        match ids[..] {
            [id] => world.shards.with_one(id, duty, |data| {
                self.come(id, data);
                self.go(id, data);
            }),
            _ => world.shards.with_several(&ids, duty, |entered| self.work(entered)),
        }
    }

    /// Counts what it waited for, in every shard where it was posted.
    fn count_waits(&mut self, entered: &mut Entered<'_, Data>) {
        for id in std::mem::take(&mut self.waits) {
            let data = entered.get(id);
            // Its poster may not have come to note the moment yet: then it has not waited for long.
            let since = self.world.posted_at(id, self.connection).load(Ordering::Relaxed);
            let executed = data.executed.saturating_sub(since);
            let later = (data.executed - executed.min(RECENT as u64)..data.executed)
                .filter(|&at| data.recent[at as usize % RECENT] > self.submitted)
                .count() as u64;
            self.later_max = self.later_max.max(later);
            self.later_all += later;
        }
    }
}

impl Visit<Data> for Task {
    fn execute(&mut self, entered: &mut Entered<'_, Data>) {
        self.count_waits(entered);
        self.work(entered);
    }

    fn deliver(self: Box<Self>) {
        let peer = &self.world.peers[self.home];
        if peer.mailbox.push(self) {
            peer.thread.get().expect("it has slept").unpark();
        }
    }

    fn waits(&mut self, shard: ShardId) -> Option<Box<dyn FnOnce()>> {
        self.waits.push(shard);
        let executed = &self.world.executed[usize::from(shard)];
        let posted = self.world.posted_at(shard, self.connection);
        posted.store(u64::MAX, Ordering::Relaxed);
        Some(Box::new(|| posted.store(executed.load(Ordering::Relaxed), Ordering::Relaxed)))
    }
}

/// What a thread saw.
#[derive(Clone, Copy, Default)]
struct Report {
    visits: u64,
    entered: u64,
    counts: Counts,
    later_max: u64,
    later_all_max: u64,
}

struct Worker {
    me: usize,
    world: &'static World,
    duty: Duty<Data>,
    rng: Rng,
    /// The number of each connection's last visit; whether it is still out.
    connections: [(u64, bool); CONNECTIONS_PER_THREAD],
    report: Report,
}

impl Worker {
    fn ids(&mut self) -> Vec<ShardId> {
        match self.rng.below(1000) {
            0..900 => vec![HOT],
            900..990 => vec![self.rng.below(SHARDS as u64) as ShardId],
            990..998 => {
                let mut ids: Vec<_> = (0..4).map(|_| self.rng.below(SHARDS as u64) as ShardId).collect();
                ids.sort_unstable();
                ids.dedup();
                ids
            }
            _ => (0..SHARDS as ShardId).collect(),
        }
    }

    /// Makes visits for a connection until one is posted, or for a while.
    fn serve(&mut self, connection: usize) {
        for _ in 0..16 {
            if self.connections[connection].1 || self.world.stop.load(Ordering::Relaxed) {
                return;
            }
            self.connections[connection].0 += 1;
            let ids = self.ids();
            let mut task = Box::new(Task {
                world: self.world,
                home: self.me,
                connection: self.me * CONNECTIONS_PER_THREAD + connection,
                number: self.connections[connection].0,
                submitted: self.world.submitted.fetch_add(1, Ordering::Relaxed),
                ids: ids.clone(),
                rng: Rng::new(self.rng.next_u64()),
                waits: Vec::new(),
                later_max: 0,
                later_all: 0,
            });
            self.report.visits += 1;
            self.report.entered += ids.len() as u64;
            if self.rng.below(2) == 0 && task.try_first(&mut self.duty).is_ok() {
                continue;
            }
            let submitted = self.world.shards.submit(&ids, task, &mut self.duty);
            self.connections[connection].1 = matches!(submitted, Submitted::Posted);
        }
    }

    fn read_mail(&mut self) {
        for task in self.world.peers[self.me].mailbox.take() {
            let connection = &mut self.connections[task.connection % CONNECTIONS_PER_THREAD];
            assert_eq!(*connection, (task.number, true), "a reply out of order");
            connection.1 = false;
            self.report.later_max = self.report.later_max.max(task.later_max);
            self.report.later_all_max = self.report.later_all_max.max(task.later_all);
        }
    }

    fn run(mut self, done: &Sender<Report>) {
        let world = self.world;
        let me = &world.peers[self.me];
        me.thread.set(thread::current()).expect("once per thread");
        loop {
            (0..CONNECTIONS_PER_THREAD).for_each(|connection| self.serve(connection));
            self.world.shards.resume(&mut self.duty);
            let waiting = self.connections.iter().filter(|connection| connection.1).count();
            let stop = world.stop.load(Ordering::Relaxed);
            if stop && waiting == 0 && self.duty.is_empty() {
                break;
            }
            let idle = waiting == CONNECTIONS_PER_THREAD || (stop && waiting > 0);
            if idle && self.duty.is_empty() && me.mailbox.prepare_sleep() {
                thread::park();
            }
            me.mailbox.awake();
            self.read_mail();
        }
        self.report.counts = self.duty.counts();
        done.send(self.report).expect("the test waits for it");
    }
}

fn ticks() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn from_environment(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// Never freed, so that no thread needs to count references to it.
fn world() -> &'static World {
    let data = |_| Data {
        inside: false,
        balance: 0,
        executed: 0,
        last: vec![0; THREADS * CONNECTIONS_PER_THREAD],
        recent: vec![0; RECENT],
    };
    Box::leak(Box::new(World {
        shards: Shards::new(SHARDS, Pace::new(ticks, 1000), data),
        peers: (0..THREADS).map(|_| Peer { mailbox: Mailbox::new(), thread: OnceLock::new() }).collect(),
        submitted: AtomicU64::new(1),
        executed: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
        posted: (0..SHARDS * THREADS * CONNECTIONS_PER_THREAD).map(|_| AtomicU64::new(0)).collect(),
        stop: AtomicBool::new(false),
    }))
}

#[test]
fn contention() {
    let seconds = from_environment("DARTER_STRESS_SECONDS").unwrap_or(3);
    let seed = from_environment("DARTER_STRESS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("DARTER_STRESS_SEED={seed}");
    let world = world();
    let (done, reports) = channel();
    for me in 0..THREADS {
        let worker = Worker {
            me,
            world,
            duty: Duty::new(),
            rng: Rng::new(seed.wrapping_mul(31).wrapping_add(me as u64)),
            connections: [(0, false); CONNECTIONS_PER_THREAD],
            report: Report::default(),
        };
        let done = done.clone();
        thread::spawn(move || worker.run(&done));
    }
    drop(done);
    let mut all = Report::default();
    match reports.recv_timeout(Duration::from_secs(seconds)) {
        Err(RecvTimeoutError::Timeout) => world.stop.store(true, Ordering::Relaxed),
        _ => panic!("a thread ended early"),
    }
    for _ in 0..THREADS {
        let report = reports
            .recv_timeout(Duration::from_secs(60))
            .expect("a visit or a wake-up was lost, or a thread failed");
        all.visits += report.visits;
        all.entered += report.entered;
        all.counts.posted += report.counts.posted;
        all.counts.carried += report.counts.carried;
        all.counts.travelled += report.counts.travelled;
        all.later_max = all.later_max.max(report.later_max);
        all.later_all_max = all.later_all_max.max(report.later_all_max);
    }
    let ids: Vec<ShardId> = (0..SHARDS as ShardId).collect();
    let executed = world.shards.with_several(&ids, &mut Duty::new(), |entered| {
        assert_eq!(entered.iter_mut().map(|(_, data)| data.balance).sum::<i64>(), 0);
        entered.iter_mut().map(|(_, data)| data.executed).sum::<u64>()
    });
    assert_eq!(executed, Ok(all.entered), "every visit once in each of its shards, and all shards are free");
    println!(
        "{} visits in {seconds} s, {} posted, {} carried on, of which {} travelled on; waited for later ones: {} at most in one \
         shard, {} in all",
        all.visits,
        all.counts.posted,
        all.counts.carried,
        all.counts.travelled,
        all.later_max,
        all.later_all_max
    );
    assert!(all.later_max <= LATER_MAX, "a visit waited for {} later ones", all.later_max);
}
