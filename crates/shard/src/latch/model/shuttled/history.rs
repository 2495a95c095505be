//! Threads visit shards in every way there is; what happened is judged afterwards.
//!
//! - Exclusion: no two visits are in a shard at once, and nobody is executed there between a visit's execution and its delivery.
//! - Nothing is stranded: when all threads have ended with their duty done, every visit was executed once, every posted one delivered
//!   once, and all shards are free.
//! - First come, first served: a visit that was posted before another was submitted is executed first in the shard that was
//!   busy.
//! - A thread ends with its duty done after a bounded number of steps (the checker's limit): there is no livelock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::latch::{Busy, Duty, Entered, Pace, Shards, Submitted, Visit};
use super::run::{check, check_all};
use crate::ShardId;

/// What became of one visit, in the order of all events of the run.
#[derive(Clone, Default)]
struct Record {
    ids: Vec<ShardId>,
    submitted: u64,
    /// Its submission had returned "posted".
    posted: Option<u64>,
    executed: Vec<u64>,
    delivered: Vec<u64>,
}

struct World {
    shards: Shards<Vec<usize>>,
    /// Somebody is in the shard, or has been and was not delivered yet. Not seen by the checker's scheduler.
    inside: Vec<AtomicBool>,
    clock: AtomicU64,
    records: Mutex<Vec<Record>>,
}

impl World {
    fn new(count: usize, visits_max: u32) -> Arc<Self> {
        let pace = Pace { visits_max, ticks_max: u64::MAX, ticks };
        Arc::new(Self {
            shards: Shards::new(count, pace, |_| Vec::new()),
            inside: (0..count).map(|_| AtomicBool::new(false)).collect(),
            clock: AtomicU64::new(0),
            records: Mutex::default(),
        })
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn enter(&self, ids: &[ShardId]) {
        for &id in ids {
            let before = self.inside[usize::from(id)].swap(true, Ordering::Relaxed);
            assert!(!before, "two visits in shard {id}");
        }
        thread::yield_now();
    }

    fn leave(&self, ids: &[ShardId]) {
        thread::yield_now();
        ids.iter().for_each(|&id| self.inside[usize::from(id)].store(false, Ordering::Relaxed));
    }

    fn record<R>(&self, number: usize, change: impl FnOnce(&mut Record) -> R) -> R {
        change(&mut self.records.lock().unwrap()[number])
    }
}

/// Counts looks at it; not seen by the checker's scheduler.
fn ticks() -> u64 {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    LOOKS.fetch_add(1, Ordering::Relaxed)
}

struct Traveller {
    number: usize,
    ids: Vec<ShardId>,
    world: Arc<World>,
    submitter: thread::ThreadId,
}

impl Visit<Vec<usize>> for Traveller {
    fn execute(&mut self, entered: &mut Entered<'_, Vec<usize>>) {
        self.world.enter(&self.ids);
        assert!(entered.ids().eq(self.ids.iter().copied()));
        entered.iter_mut().for_each(|(_, log)| log.push(self.number));
        let now = self.world.now();
        let posted = self.world.record(self.number, |record| {
            record.executed.push(now);
            record.posted.is_some()
        });
        if !posted && thread::current().id() == self.submitter {
            // It runs at once and perhaps will not be delivered: this is the last that it sees of its shards.
            self.world.leave(&self.ids);
        }
    }

    fn deliver(self: Box<Self>) {
        let now = self.world.now();
        self.world.record(self.number, |record| record.delivered.push(now));
        self.world.leave(&self.ids);
    }
}

/// Visits `ids` once: at once if they are free and `try_first`, else as a traveller.
fn visit(world: &Arc<World>, ids: &[ShardId], try_first: bool, duty: &mut Duty<Vec<usize>>) {
    let submitted = world.now();
    let number = {
        let mut records = world.records.lock().unwrap();
        records.push(Record { ids: ids.to_vec(), submitted, ..Record::default() });
        records.len() - 1
    };
    let inside = |log: &mut Vec<usize>| {
        log.push(number);
        let now = world.now();
        world.record(number, |record| record.executed.push(now));
    };
    let tried = match ids {
        _ if !try_first => Err(Busy),
        [id] => world.shards.with_one(*id, duty, |log| {
            world.enter(ids);
            inside(log);
            world.leave(ids);
        }),
        _ => world.shards.with_several(ids, duty, |entered| {
            world.enter(ids);
            entered.iter_mut().skip(1).for_each(|(_, log)| log.push(number));
            inside(entered.get(ids[0]));
            world.leave(ids);
        }),
    };
    if tried == Ok(()) {
        return;
    }
    let submitter = thread::current().id();
    let traveller = Traveller { number, ids: ids.to_vec(), world: Arc::clone(world), submitter };
    if let Submitted::Posted = world.shards.submit(ids, Box::new(traveller), duty) {
        let now = world.now();
        world.record(number, |record| record.posted = Some(now));
    }
}

fn finish(world: &World, duty: &mut Duty<Vec<usize>>) {
    while !world.shards.resume(duty) {
        thread::yield_now();
    }
}

fn judge(world: &World) {
    let records = world.records.lock().unwrap();
    let mut logs = Vec::new();
    for id in 0..world.shards.len() as ShardId {
        let log = world.shards.with_one(id, &mut Duty::new(), |log| log.clone());
        logs.push(log.expect("everybody has gone: the shard is free"));
    }
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.executed.len(), 1, "visit {number} {:?}", record.ids);
        assert_eq!(
            record.delivered.len(),
            usize::from(record.posted.is_some()),
            "visit {number} {:?}",
            record.ids
        );
        for (id, log) in logs.iter().enumerate() {
            let times = log.iter().filter(|&&other| other == number).count();
            assert_eq!(
                times,
                usize::from(record.ids.contains(&(id as ShardId))),
                "visit {number} in shard {id}"
            );
        }
    }
    for earlier in records.iter().filter(|record| record.ids.len() == 1 && record.posted.is_some()) {
        for later in records.iter().filter(|record| record.ids.contains(&earlier.ids[0])) {
            if earlier.posted.is_some_and(|posted| posted < later.submitted) {
                assert!(earlier.executed[0] < later.executed[0], "a later visit overtook");
            }
        }
    }
}

/// `threads` threads make `visits` visits each over random shards.
fn scenario(threads: usize, count: usize, visits: usize, visits_max: u32) {
    let world = World::new(count, visits_max);
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut duty = Duty::new();
                for _ in 0..visits {
                    let several = thread_rng().gen_range(0..3) == 0;
                    let mut ids: Vec<ShardId> =
                        (0..count as ShardId).filter(|_| thread_rng().r#gen()).collect();
                    if !several || ids.is_empty() {
                        ids = vec![thread_rng().gen_range(0..count) as ShardId];
                    }
                    visit(&world, &ids, thread_rng().r#gen(), &mut duty);
                    if thread_rng().r#gen() {
                        world.shards.resume(&mut duty);
                    }
                }
                finish(&world, &mut duty);
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    judge(&world);
}

#[test]
fn one_shard_many_threads() {
    check(10_000, || scenario(4, 1, 4, 32));
}

#[test]
fn one_shard_with_a_pace_of_one() {
    check(10_000, || scenario(4, 1, 4, 1));
}

#[test]
fn four_shards_and_travelling_visits() {
    check(10_000, || scenario(4, 4, 4, 32));
}

#[test]
fn four_shards_with_a_pace_of_two() {
    check(10_000, || scenario(4, 4, 4, 2));
}

/// Threads make the given visits, without chance.
fn fixed(count: usize, visits_max: u32, plans: &'static [&'static [(&'static [ShardId], bool)]]) {
    let world = World::new(count, visits_max);
    let run = |world: &Arc<World>, plan: &[(&[ShardId], bool)]| {
        let mut duty = Duty::new();
        plan.iter().for_each(|(ids, try_first)| visit(world, ids, *try_first, &mut duty));
        finish(world, &mut duty);
    };
    let handles: Vec<_> = plans[1..]
        .iter()
        .map(|plan| {
            let world = Arc::clone(&world);
            thread::spawn(move || run(&world, plan))
        })
        .collect();
    run(&world, plans[0]);
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    judge(&world);
}

/// Schedules that exhausting a scenario may take before the test calls it too large.
const SCHEDULES_MAX: usize = 2_000_000;

fn check_all_schedules(scenario: impl Fn() + Send + Sync + 'static) {
    let schedules = check_all(SCHEDULES_MAX, scenario);
    println!("{schedules} schedules");
    assert!(schedules < SCHEDULES_MAX, "not exhausted");
}

#[test]
fn all_schedules_of_a_post_and_a_leave() {
    check_all_schedules(|| fixed(1, 32, &[&[(&[0], true)], &[(&[0], false)]]));
}

#[test]
fn all_schedules_of_two_posts_with_a_pace_of_one() {
    check_all_schedules(|| fixed(1, 1, &[&[(&[0], true)], &[(&[0], false), (&[0], false)]]));
}

#[test]
fn all_schedules_of_a_travelling_visit() {
    check_all_schedules(|| fixed(2, 32, &[&[(&[0, 1], false)], &[(&[1], true)]]));
}

#[test]
fn all_schedules_of_two_visits_over_two_shards() {
    check_all_schedules(|| fixed(2, 32, &[&[(&[0, 1], false)], &[(&[0, 1], true)]]));
}
