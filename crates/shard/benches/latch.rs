//! What it costs to enter shards: alone, several at once, as a boxed visit, and when threads get into each other's way.
//!
//! `cargo bench -p shard --bench latch`

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::Instant;

use shard::ShardId;
use shard::latch::{Duty, Entered, Pace, Shards, Submitted, Visit};
use stdx::rng::Rng;

const SHARDS: usize = 64;
const ROUNDS: usize = 7;

fn ticks() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn shards() -> Shards<u64> {
    Shards::new(SHARDS, Pace::new(ticks, 1000), |_| 0)
}

/// Median and least over rounds of the time per call of `run`, in ns.
fn measure(name: &str, calls: u64, mut run: impl FnMut(u64)) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            (0..calls).for_each(&mut run);
            begun.elapsed().as_nanos() as f64 / calls as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:<44} {:8.1} ns, least {:.1}", rounds[ROUNDS / 2], rounds[0]);
}

struct Add {
    delivered: Option<Arc<AtomicU64>>,
}

impl Visit<u64> for Add {
    fn execute(&mut self, entered: &mut Entered<'_, u64>) {
        entered.iter_mut().for_each(|(_, sum)| *sum += 1);
    }

    fn deliver(self: Box<Self>) {
        if let Some(delivered) = &self.delivered {
            delivered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn main() {
    let shards = shards();
    let mut duty = Duty::new();
    measure("no latch: one of 64 sums", 10_000_000, {
        let mut sums = [0u64; SHARDS];
        move |n| *black_box(&mut sums[n as usize * 37 % SHARDS]) += 1
    });
    measure("with_one", 10_000_000, |n| {
        let done =
            shards.with_one((n as usize * 37 % SHARDS) as ShardId, &mut duty, |sum| *black_box(sum) += 1);
        assert!(done.is_ok());
    });
    for count in [1, 2, 16, SHARDS] {
        let ids: Vec<ShardId> = (0..count).map(|n| (n * SHARDS / count) as ShardId).collect();
        measure(&format!("with_several, {count} shards"), 200_000, |_| {
            let done = shards.with_several(&ids, &mut duty, |entered| {
                entered.iter_mut().for_each(|(_, sum)| *black_box(sum) += 1);
            });
            assert!(done.is_ok());
        });
        measure(&format!("submit, {count} shards, box included"), 200_000, |_| {
            let done = shards.submit(&ids, Box::new(Add { delivered: None }), &mut duty);
            assert!(matches!(black_box(done), Submitted::Done(_)));
        });
    }
    for threads in [2, 4] {
        contended(threads, SHARDS, 100);
    }
    for threads in [1, 2, 4] {
        contended(threads, 1, 100);
    }
}

/// Threads that do nothing but enter one of `count` shards for `work` steps of a generator (1 to 3 ns each), and post if it is taken.
fn contended(threads: usize, count: usize, work: u32) {
    const CALLS: u64 = 1_000_000;
    let shards = Shards::new(count, Pace::new(ticks, 1000), |id| Rng::new(u64::from(id)));
    let barrier = Barrier::new(threads);
    let posted = AtomicU64::new(0);
    let delivered = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (shards, barrier, posted, delivered) = (&shards, &barrier, &posted, Arc::clone(&delivered));
            scope.spawn(move || {
                let mut duty = Duty::new();
                let mut rng = Rng::new(thread as u64);
                barrier.wait();
                for _ in 0..CALLS {
                    let id = rng.below(count as u64) as ShardId;
                    if shards.with_one(id, &mut duty, |data| step(data, work)).is_err() {
                        let visit = Step { work, delivered: Arc::clone(&delivered) };
                        if let Submitted::Posted = shards.submit(&[id], Box::new(visit), &mut duty) {
                            posted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    shards.resume(&mut duty);
                }
                while !shards.resume(&mut duty) {}
            });
        }
    });
    let visits = threads as u64 * CALLS;
    let ns = begun.elapsed().as_nanos() as f64 / visits as f64;
    let posted = posted.into_inner();
    assert_eq!(delivered.load(Ordering::Relaxed), posted);
    println!(
        "{threads} threads, {count:2} shards, {work} steps inside: {ns:8.1} ns per visit of any thread, {:.2} % posted",
        posted as f64 * 100.0 / visits as f64
    );
}

fn step(rng: &mut Rng, work: u32) {
    for _ in 0..work {
        black_box(rng.next_u64());
    }
}

struct Step {
    work: u32,
    delivered: Arc<AtomicU64>,
}

impl Visit<Rng> for Step {
    fn execute(&mut self, entered: &mut Entered<'_, Rng>) {
        entered.iter_mut().for_each(|(_, rng)| step(rng, self.work));
    }

    fn deliver(self: Box<Self>) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }
}
