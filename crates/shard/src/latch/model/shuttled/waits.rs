//! Commands that wait in several shards: pushes, times that end and clients that go meet one another in every order. Nobody gets two
//! replies, nothing is taken for nobody, and nothing lies in a shard while somebody who wants it waits there.

use std::collections::VecDeque;
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

use super::latch::{Duty, Entered, Pace, Shards, Submitted, Visit};
use super::run::check;
use super::settle::{Claim, Settle};
use crate::ShardId;

/// A shard: things that can be taken, and who waits for them.
#[derive(Default)]
struct Data {
    items: u32,
    queue: VecDeque<Place>,
}

struct Place {
    waiter: Arc<Waiter>,
    deferred: bool,
}

struct Waiter {
    ids: Vec<ShardId>,
    settle: Settle,
    /// It takes two things of one shard at once, or none: attempts are made in vain.
    wants: u32,
    /// It can only be served with all its shards.
    whole: bool,
    replies: AtomicU32,
    taken: AtomicU32,
    gone: AtomicU32,
}

#[derive(Clone)]
enum Op {
    Wait(Arc<Waiter>),
    Push,
    Retry(Arc<Waiter>),
    Leave(Arc<Waiter>),
}

struct World {
    shards: Shards<Data>,
    deferred: Mutex<Vec<Arc<Waiter>>>,
}

struct Task {
    op: Op,
    world: Arc<World>,
}

impl Visit<Data> for Task {
    fn execute(&mut self, entered: &mut Entered<'_, Data>) {
        let ids: Vec<ShardId> = entered.ids().collect();
        match &self.op {
            Op::Wait(waiter) => {
                // What is there at once needs no waiting; this model only looks at what comes later.
                for id in &ids {
                    let place = Place { waiter: Arc::clone(waiter), deferred: false };
                    entered.get(*id).queue.push_back(place);
                }
            }
            Op::Push => entered.get(ids[0]).items += 1,
            Op::Retry(waiter) => {
                for id in &waiter.ids {
                    let places = entered.get(*id).queue.iter_mut();
                    places
                        .filter(|place| Arc::ptr_eq(&place.waiter, waiter))
                        .for_each(|place| place.deferred = false);
                }
            }
            Op::Leave(waiter) => {
                remove(entered, waiter);
                return;
            }
        }
        for id in ids {
            serve(&self.world, entered, id);
        }
    }

    fn deliver(self: Box<Self>) {}
}

fn remove(entered: &mut Entered<'_, Data>, waiter: &Arc<Waiter>) {
    for (_, data) in entered.iter_mut() {
        data.queue.retain(|place| !Arc::ptr_eq(&place.waiter, waiter));
    }
}

/// As `router::waiting` does it.
fn serve(world: &World, entered: &mut Entered<'_, Data>, id: ShardId) {
    let mut at = 0;
    while entered.get(id).items > 0 {
        let Some(place) = entered.get(id).queue.get(at) else { return };
        let (waiter, deferred) = (Arc::clone(&place.waiter), place.deferred);
        if waiter.settle.is_settled() {
            remove(entered, &waiter);
            continue;
        }
        if deferred {
            return;
        }
        let all_held = waiter.ids.iter().all(|id| entered.contains(*id));
        let claim = if waiter.whole && !all_held { Claim::Busy } else { waiter.settle.claim() };
        match claim {
            Claim::Settled => remove(entered, &waiter),
            Claim::Busy => {
                assert!(!all_held, "nobody serves it while all its shards are held here");
                entered.get(id).queue[at].deferred = true;
                world.deferred.lock().unwrap().push(waiter);
                return;
            }
            Claim::Mine => {
                let data = entered.get(id);
                if data.items < waiter.wants {
                    if waiter.settle.release() {
                        at += 1;
                    } else {
                        remove(entered, &waiter);
                    }
                    continue;
                }
                data.items -= waiter.wants;
                waiter.taken.fetch_add(waiter.wants, Ordering::SeqCst);
                waiter.settle.settle();
                waiter.replies.fetch_add(1, Ordering::SeqCst);
                remove(entered, &waiter);
            }
        }
    }
}

impl World {
    fn submit(self: &Arc<Self>, ids: &[ShardId], op: Op, duty: &mut Duty<Data>) {
        let task = Task { op, world: Arc::clone(self) };
        let submitted = self.shards.submit(ids, Box::new(task), duty);
        assert!(matches!(submitted, Submitted::Done(_) | Submitted::Posted));
        self.retry(duty);
    }

    fn retry(self: &Arc<Self>, duty: &mut Duty<Data>) {
        loop {
            let Some(waiter) = self.deferred.lock().unwrap().pop() else { return };
            let ids = waiter.ids.clone();
            self.submit(&ids, Op::Retry(waiter), duty);
        }
    }

    fn finish(self: &Arc<Self>, duty: &mut Duty<Data>) {
        while !self.shards.resume(duty) {}
        self.retry(duty);
        while !self.shards.resume(duty) {}
    }
}

/// The time of a waiter is over.
fn end(world: &Arc<World>, waiter: &Arc<Waiter>, duty: &mut Duty<Data>) {
    loop {
        match waiter.settle.cancel() {
            Claim::Mine => {
                waiter.replies.fetch_add(1, Ordering::SeqCst);
                return world.submit(&waiter.ids, Op::Leave(Arc::clone(waiter)), duty);
            }
            Claim::Settled => return,
            Claim::Busy => thread::yield_now(),
        }
    }
}

fn pushes(world: Arc<World>, shards: ShardId) -> u32 {
    let mut duty = Duty::new();
    let pushes = thread_rng().gen_range(1..4);
    for _ in 0..pushes {
        let id = thread_rng().gen_range(0..shards);
        world.submit(&[id], Op::Push, &mut duty);
    }
    world.finish(&mut duty);
    pushes
}

/// One thread whose clients wait, run out of time, and go; two threads that push.
fn scenario() {
    const SHARDS: ShardId = 2;
    let pace = Pace { visits_max: 2, ticks_max: u64::MAX, ticks: || 0 };
    let shards = Shards::new(usize::from(SHARDS), pace, |_| Data::default());
    let world = Arc::new(World { shards, deferred: Mutex::new(Vec::new()) });
    let waiters: Vec<Arc<Waiter>> = (0..3)
        .map(|_| {
            let ids = [vec![0], vec![1], vec![0, 1], vec![0, 1]][thread_rng().gen_range(0..4)].clone();
            let settle = Settle::new();
            let wants = 1 + u32::from(thread_rng().gen_range(0..4) == 0);
            let whole = thread_rng().gen_range(0..3) == 0;
            let (replies, taken, gone) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
            Arc::new(Waiter { ids, settle, wants, whole, replies, taken, gone })
        })
        .collect();
    let pushers: Vec<_> = (0..2)
        .map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || pushes(world, SHARDS))
        })
        .collect();
    let mut duty = Duty::new();
    for waiter in &waiters {
        world.submit(&waiter.ids, Op::Wait(Arc::clone(waiter)), &mut duty);
    }
    for waiter in &waiters {
        match thread_rng().gen_range(0..4) {
            0 => end(&world, waiter, &mut duty),
            1 => {
                waiter.gone.store(1, Ordering::SeqCst);
                waiter.settle.settle();
                world.submit(&waiter.ids, Op::Leave(Arc::clone(waiter)), &mut duty);
            }
            _ => thread::yield_now(),
        }
    }
    world.finish(&mut duty);
    let pushed: u32 = pushers.into_iter().map(|pusher| pusher.join().unwrap()).sum();
    world.finish(&mut duty);
    check_end(&world, &waiters, pushed);
}

fn check_end(world: &Arc<World>, waiters: &[Arc<Waiter>], pushed: u32) {
    let mut left = 0;
    for id in 0..2 {
        let mut duty = Duty::new();
        let looked = world.shards.with_one(id, &mut duty, |data| {
            for place in &data.queue {
                assert!(!place.deferred, "a task that never came");
                let lost = data.items >= place.waiter.wants && !place.waiter.settle.is_settled();
                assert!(!lost, "{} things for one who waits for {}", data.items, place.waiter.wants);
            }
            data.items
        });
        left += looked.expect("everybody has gone");
    }
    let taken: u32 = waiters.iter().map(|waiter| waiter.taken.load(Ordering::SeqCst)).sum();
    assert_eq!(pushed, left + taken);
    for waiter in waiters {
        let replies = waiter.replies.load(Ordering::SeqCst);
        let gone = waiter.gone.load(Ordering::SeqCst) == 1;
        assert!(replies <= 1, "{replies} replies");
        assert!(gone || (replies == 1) == waiter.settle.is_settled());
        assert!(waiter.taken.load(Ordering::SeqCst) == 0 || replies == 1);
    }
}

#[test]
fn everybody_is_served_once_or_not_at_all() {
    check(2000, scenario);
}
