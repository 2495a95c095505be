//! Transfers between accounts in different shards, and readers of all accounts, never disagree about the total.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::latch::{Duty, Entered, Pace, Shards, Submitted, Visit};
use super::run::check;
use crate::ShardId;

/// Accounts are in the first shards.
const SHARDS: usize = 3;
const START: i64 = 100;

enum Order {
    Transfer { from: ShardId, to: ShardId, amount: i64 },
    Total,
}

impl Order {
    fn random() -> (Self, Vec<ShardId>) {
        if thread_rng().gen_range(0..3) == 0 {
            return (Self::Total, (0..SHARDS as ShardId).collect());
        }
        let from = thread_rng().gen_range(0..SHARDS) as ShardId;
        let to = (from + thread_rng().gen_range(1..SHARDS) as ShardId) % SHARDS as ShardId;
        (Self::Transfer { from, to, amount: thread_rng().gen_range(1..50) }, vec![from.min(to), from.max(to)])
    }

    /// In two halves with a pause between them, in which others must not look.
    fn carry_out(&self, entered: &mut Entered<'_, i64>) {
        match *self {
            Self::Transfer { from, to, amount } => {
                *entered.get(from) -= amount;
                thread::yield_now();
                *entered.get(to) += amount;
            }
            Self::Total => {
                let mut total = 0;
                for (_, account) in entered.iter_mut() {
                    total += *account;
                    thread::yield_now();
                }
                assert_eq!(total, SHARDS as i64 * START, "a reader saw half a transfer");
            }
        }
    }
}

struct Posted {
    order: Order,
    delivered: Arc<AtomicUsize>,
}

impl Visit<i64> for Posted {
    fn execute(&mut self, entered: &mut Entered<'_, i64>) {
        self.order.carry_out(entered);
    }

    fn deliver(self: Box<Self>) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }
}

fn transfers_and_readers(threads: usize, orders: usize, visits_max: u32) {
    let pace = Pace { visits_max, ticks_max: u64::MAX, ticks: || 0 };
    let shards = Arc::new(Shards::new(SHARDS + 1, pace, |_| START));
    let delivered = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let (shards, delivered) = (Arc::clone(&shards), Arc::clone(&delivered));
            thread::spawn(move || {
                let mut duty = Duty::new();
                let mut posted = 0;
                for _ in 0..orders {
                    let (order, ids) = Order::random();
                    if shards.with_several(&ids, &mut duty, |entered| order.carry_out(entered)).is_err() {
                        let visit = Posted { order, delivered: Arc::clone(&delivered) };
                        posted += usize::from(matches!(
                            shards.submit(&ids, Box::new(visit), &mut duty),
                            Submitted::Posted
                        ));
                    }
                }
                while !shards.resume(&mut duty) {
                    thread::yield_now();
                }
                posted
            })
        })
        .collect();
    let posted: usize = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
    assert_eq!(delivered.load(Ordering::Relaxed), posted);
    let all: Vec<ShardId> = (0..SHARDS as ShardId).collect();
    assert_eq!(
        shards.with_several(&all, &mut Duty::new(), |entered| Order::Total.carry_out(entered)),
        Ok(())
    );
}

#[test]
fn transfers_are_atomic() {
    check(10_000, || transfers_and_readers(4, 4, 32));
}

#[test]
fn transfers_are_atomic_with_a_pace_of_one() {
    check(10_000, || transfers_and_readers(4, 4, 1));
}
