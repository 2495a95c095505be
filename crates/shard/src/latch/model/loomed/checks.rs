//! Small scenarios under weak memory.

use std::sync::Arc;

use loom::thread;

use super::latch::{Duty, Entered, Mailbox, Pace, Shards, Submitted, Visit};
use super::settle::{Claim, Settle};
use super::sync::Cell;
use crate::ShardId;

/// Adds to every shard it enters. Loom sees the accesses to its cell: written by the poster, read by whoever executes it.
struct Add {
    amount: Cell<u32>,
    mailbox: Arc<Mailbox<Cell<u32>>>,
}

impl Visit<u32> for Add {
    fn execute(&mut self, entered: &mut Entered<'_, u32>) {
        touch(&self.amount);
        entered.iter_mut().for_each(|(_, sum)| *sum += 1);
    }

    fn deliver(self: Box<Self>) {
        touch(&self.amount);
        let _awake = self.mailbox.push(self.amount);
    }
}

/// Counts as a write of the cell.
fn touch(cell: &Cell<u32>) {
    assert!(!cell.ptr().is_null());
}

fn check(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(scenario);
}

struct World {
    shards: Shards<u32>,
    mailbox: Arc<Mailbox<Cell<u32>>>,
}

impl World {
    fn new(count: usize, visits_max: u32) -> Arc<Self> {
        let pace = Pace { visits_max, ticks_max: u64::MAX, ticks: || 0 };
        Arc::new(Self { shards: Shards::new(count, pace, |_| 0), mailbox: Arc::new(Mailbox::new()) })
    }

    /// Number of visits that were posted.
    fn visit(&self, ids: &[ShardId], try_first: bool, duty: &mut Duty<u32>) -> usize {
        if try_first
            && let [id] = ids
            && self.shards.with_one(*id, duty, |sum| *sum += 1).is_ok()
        {
            return 0;
        }
        let visit = Add { amount: Cell::new(1), mailbox: Arc::clone(&self.mailbox) };
        touch(&visit.amount);
        usize::from(matches!(self.shards.submit(ids, Box::new(visit), duty), Submitted::Posted))
    }

    fn run(&self, plan: &[(&[ShardId], bool)]) -> usize {
        let mut duty = Duty::new();
        let posted = plan.iter().map(|(ids, try_first)| self.visit(ids, *try_first, &mut duty)).sum();
        while !self.shards.resume(&mut duty) {}
        posted
    }
}

/// Runs each plan on a thread of its own; afterwards every visit was executed and every posted one delivered.
fn run_all(count: usize, visits_max: u32, plans: &'static [&'static [(&'static [ShardId], bool)]]) {
    let world = World::new(count, visits_max);
    let handles: Vec<_> = plans[1..]
        .iter()
        .map(|plan| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.run(plan))
        })
        .collect();
    let mut posted = world.run(plans[0]);
    posted += handles.into_iter().map(|handle| handle.join().unwrap()).sum::<usize>();
    let delivered = world.mailbox.take().inspect(touch).count();
    assert_eq!(delivered, posted);
    for id in 0..count as ShardId {
        let visits = plans.iter().flat_map(|plan| plan.iter()).filter(|(ids, _)| ids.contains(&id)).count();
        let sum =
            world.shards.with_one(id, &mut Duty::new(), |sum| *sum).expect("everybody has gone: it is free");
        assert_eq!(sum as usize, visits, "shard {id}");
    }
}

#[test]
fn two_threads_meet_in_a_shard() {
    check(6, || run_all(1, 32, &[&[(&[0], true), (&[0], false)], &[(&[0], true), (&[0], false)]]));
}

#[test]
fn three_threads_meet_in_a_shard() {
    check(3, || run_all(1, 32, &[&[(&[0], true), (&[0], true)], &[(&[0], false)], &[(&[0], false)]]));
}

#[test]
fn three_threads_with_a_pace_of_one() {
    check(3, || run_all(1, 1, &[&[(&[0], true)], &[(&[0], false)], &[(&[0], true)]]));
}

#[test]
fn a_visit_travels() {
    check(3, || run_all(2, 32, &[&[(&[0, 1], false)], &[(&[1], true)], &[(&[0], true)]]));
}

#[test]
fn visits_over_the_same_shards() {
    check(3, || run_all(2, 32, &[&[(&[0, 1], false)], &[(&[0, 1], false)], &[(&[1], false)]]));
}

/// Takes from one shard what it gives to another, which it enters itself; if that is taken it comes again with both.
struct Move {
    from: ShardId,
    to: ShardId,
    again: bool,
}

impl Visit<u32> for Move {
    fn execute(&mut self, entered: &mut Entered<'_, u32>) {
        *entered.get(self.from) -= 1;
        self.again = !entered.enter(self.to);
        let back = if self.again { self.from } else { self.to };
        *entered.get(back) += 1;
    }

    fn deliver(self: Box<Self>) {
        assert!(!self.again, "it came with both shards");
    }
}

/// Two visits that enter each other's shard, and a third party that posts.
#[test]
fn visits_enter_further_shards_in_any_order() {
    check(3, || {
        let world = World::new(2, 32);
        for id in [0, 1] {
            world.shards.with_one(id, &mut Duty::new(), |sum| *sum = 5).unwrap();
        }
        let run = |world: &World, from: ShardId, to: ShardId| {
            let mut duty = Duty::new();
            let done = world.shards.with_several(&[from], &mut duty, |entered| {
                let mut visit = Move { from, to, again: false };
                visit.execute(entered);
                !visit.again
            });
            if done != Ok(true) {
                world.shards.submit(&[0, 1], Box::new(Move { from, to, again: false }), &mut duty);
            }
            while !world.shards.resume(&mut duty) {}
        };
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || run(&world, 1, 0))
        };
        run(&world, 0, 1);
        other.join().unwrap();
        let sum = |id| world.shards.with_one(id, &mut Duty::new(), |sum| *sum).expect("it is free");
        assert_eq!((sum(0), sum(1)), (5, 5));
    });
}

/// Two push, one sleeps unless there is mail; it wakes by the push that finds it asleep.
#[test]
fn no_wake_up_is_lost() {
    check(3, || {
        let mailbox = Arc::new(Mailbox::new());
        let sleeper = thread::current();
        let pushers: Vec<_> = (0..2)
            .map(|_| {
                let (mailbox, sleeper) = (Arc::clone(&mailbox), sleeper.clone());
                thread::spawn(move || {
                    let letter = Cell::new(1);
                    touch(&letter);
                    if mailbox.push(letter) {
                        sleeper.unpark();
                    }
                })
            })
            .collect();
        let mut missing = 2;
        while missing > 0 {
            if mailbox.prepare_sleep() {
                thread::park();
            }
            mailbox.awake();
            missing -= mailbox.take().inspect(touch).count();
        }
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    });
}

/// Serves a waiter in the shards it enters, in vain: claims it and lets it go.
struct Attempt {
    settle: Arc<Settle>,
    found: Arc<Mailbox<Claim>>,
}

impl Visit<u32> for Attempt {
    fn execute(&mut self, entered: &mut Entered<'_, u32>) {
        let claim = self.settle.claim();
        assert!(entered.len() < 2 || claim != Claim::Busy, "nobody serves it while all its shards are held");
        if claim == Claim::Mine && !self.settle.release() {
            let _awake = self.found.push(Claim::Settled);
        }
        let _awake = self.found.push(claim);
    }

    fn deliver(self: Box<Self>) {}
}

/// A waiter in two shards is tried in both at once, and again in both together by whoever found it taken, while its time ends.
#[test]
fn a_waiter_is_free_once_all_its_shards_are_held() {
    check(3, || {
        let world = World::new(2, 32);
        let settle = Arc::new(Settle::new());
        let attempt = |settle: &Arc<Settle>, found: &Arc<Mailbox<Claim>>| {
            Box::new(Attempt { settle: Arc::clone(settle), found: Arc::clone(found) })
        };
        let other = {
            let (world, settle) = (Arc::clone(&world), Arc::clone(&settle));
            thread::spawn(move || {
                let (found, mut duty) = (Arc::new(Mailbox::new()), Duty::new());
                world.shards.submit(&[0], attempt(&settle, &found), &mut duty);
                while !world.shards.resume(&mut duty) {}
            })
        };
        let ender = {
            let settle = Arc::clone(&settle);
            thread::spawn(move || settle.cancel())
        };
        let (found, mut duty) = (Arc::new(Mailbox::new()), Duty::new());
        world.shards.submit(&[1], attempt(&settle, &found), &mut duty);
        if found.take().any(|claim| claim == Claim::Busy) {
            world.shards.submit(&[0, 1], attempt(&settle, &found), &mut duty);
        }
        while !world.shards.resume(&mut duty) {}
        other.join().unwrap();
        let claim = ender.join().unwrap();
        // Whoever finds it taken looks again; then it waits, as nobody has served it.
        assert!(claim == Claim::Mine || claim == Claim::Busy && settle.cancel() == Claim::Mine);
        assert_eq!(settle.claim(), Claim::Settled);
    });
}
