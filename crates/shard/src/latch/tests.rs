//! The latch on one thread, where every step can be foreseen.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::latch::{Busy, Duty, Entered, Mailbox, Pace, Shards, Submitted, Visit};
use crate::ShardId;

/// A clock that goes on by one at every look.
fn ticks() -> u64 {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    LOOKS.fetch_add(1, Ordering::Relaxed)
}

fn shards(count: usize) -> Shards<Vec<u32>> {
    Shards::new(count, Pace::new(ticks, 1 << 40), |_| Vec::new())
}

/// Appends its number to every shard that it enters.
struct Mark {
    number: u32,
    delivered: Arc<Mutex<Vec<u32>>>,
}

impl Visit<Vec<u32>> for Mark {
    fn execute(&mut self, entered: &mut Entered<'_, Vec<u32>>) {
        entered.iter_mut().for_each(|(_, data)| data.push(self.number));
    }

    fn deliver(self: Box<Self>) {
        self.delivered.lock().unwrap().push(self.number);
    }
}

struct Fixture {
    shards: Shards<Vec<u32>>,
    delivered: Arc<Mutex<Vec<u32>>>,
}

impl Fixture {
    fn new(count: usize) -> Self {
        Self { shards: shards(count), delivered: Arc::default() }
    }

    fn submit(&self, number: u32, ids: &[ShardId], duty: &mut Duty<Vec<u32>>) -> Submitted<Mark> {
        self.shards.submit(ids, Box::new(Mark { number, delivered: Arc::clone(&self.delivered) }), duty)
    }

    fn delivered(&self) -> Vec<u32> {
        self.delivered.lock().unwrap().clone()
    }

    fn data(&self, id: ShardId) -> Vec<u32> {
        self.shards.with_one(id, &mut Duty::new(), |data| data.clone()).expect("the shard is free")
    }
}

#[test]
fn a_free_shard_is_entered_and_left() {
    let shards = shards(4);
    let mut duty = Duty::new();
    assert_eq!(shards.with_one(2, &mut duty, |data| data.push(7)), Ok(()));
    assert_eq!(shards.with_one(2, &mut duty, |data| data.clone()), Ok(vec![7]));
    let sum = shards.with_several(&[0, 2, 3], &mut duty, |entered| {
        entered.get(3).push(1);
        entered.iter_mut().map(|(id, data)| usize::from(id) * 10 + data.len()).sum::<usize>()
    });
    assert_eq!(sum, Ok(52));
    assert!(duty.is_empty());
}

#[test]
fn a_taken_shard_is_busy_and_takes_posts_in_order() {
    let fixture = Fixture::new(4);
    let (mut duty, mut other) = (Duty::new(), Duty::new());
    let entered = fixture.shards.with_one(1, &mut duty, |data| {
        assert_eq!(fixture.shards.with_one(1, &mut other, |_| ()), Err(Busy));
        assert_eq!(fixture.shards.with_several(&[0, 1], &mut other, |_| ()), Err(Busy));
        assert_eq!(fixture.data(0), [], "what was entered in vain is left");
        for number in 1..=3 {
            assert!(matches!(fixture.submit(number, &[1], &mut other), Submitted::Posted));
        }
        data.push(0);
    });
    assert_eq!(entered, Ok(()));
    assert_eq!(fixture.data(1), [0, 1, 2, 3]);
    assert_eq!(fixture.delivered(), [1, 2, 3]);
    assert_eq!((other.counts().posted, duty.counts().carried), (3, 3));
    assert!(duty.is_empty() && other.is_empty());
}

#[test]
fn what_runs_at_once_comes_back_undelivered() {
    let fixture = Fixture::new(4);
    let Submitted::Done(visit) = fixture.submit(5, &[0, 1, 3], &mut Duty::new()) else {
        panic!("all were free")
    };
    assert_eq!(visit.number, 5);
    assert_eq!(fixture.delivered(), []);
    assert!(matches!(fixture.submit(6, &[], &mut Duty::new()), Submitted::Done(_)));
    assert_eq!((fixture.data(0), fixture.data(2)), (vec![5], vec![]));
}

/// A visit that holds shard 0 waits in shard 1, then in shard 3: what was posted to the shards it holds is executed after it.
#[test]
fn a_travelling_visit_keeps_its_shards() {
    let fixture = Fixture::new(4);
    let (mut first, mut second, mut other) = (Duty::new(), Duty::new(), Duty::new());
    let outer = fixture.shards.with_one(3, &mut first, |_| {
        let inner = fixture.shards.with_one(1, &mut second, |_| {
            assert!(matches!(fixture.submit(10, &[0, 1, 3], &mut other), Submitted::Posted));
            assert!(matches!(fixture.submit(20, &[0], &mut other), Submitted::Posted));
            assert!(matches!(fixture.submit(30, &[1, 2], &mut other), Submitted::Posted));
        });
        assert_eq!(inner, Ok(()));
        assert_eq!(fixture.delivered(), [], "it has travelled on to shard 3");
        assert_eq!((second.counts().carried, second.counts().travelled), (1, 1));
    });
    assert_eq!(outer, Ok(()));
    assert_eq!(fixture.delivered(), [10, 20, 30]);
    assert_eq!(
        (0..4).map(|id| fixture.data(id)).collect::<Vec<_>>(),
        [vec![10, 20], vec![10, 30], vec![30], vec![10]]
    );
    assert!(first.is_empty() && second.is_empty() && other.is_empty());
}

/// What has travelled for long does not wait for those that came to its next shard meanwhile; what came before it goes first.
#[test]
fn a_travelling_visit_keeps_its_age() {
    let fixture = Fixture::new(2);
    let (mut first, mut second, mut other) = (Duty::new(), Duty::new(), Duty::new());
    let outer = fixture.shards.with_one(1, &mut first, |_| {
        assert!(matches!(fixture.submit(1, &[1], &mut other), Submitted::Posted));
        let inner = fixture.shards.with_one(0, &mut second, |_| {
            assert!(matches!(fixture.submit(2, &[0, 1], &mut other), Submitted::Posted));
            assert!(matches!(fixture.submit(3, &[1], &mut other), Submitted::Posted));
            assert!(matches!(fixture.submit(4, &[0], &mut other), Submitted::Posted));
        });
        assert_eq!(inner, Ok(()));
        assert!(matches!(fixture.submit(5, &[1], &mut other), Submitted::Posted));
    });
    assert_eq!(outer, Ok(()));
    assert_eq!(fixture.data(1), [1, 2, 3, 5]);
    assert_eq!(fixture.data(0), [2, 4]);
}

#[test]
fn a_thread_does_one_pace_and_owes_the_rest() {
    let fixture = Fixture::new(2);
    let (mut duty, mut other) = (Duty::new(), Duty::new());
    let entered = fixture.shards.with_one(0, &mut duty, |_| {
        for number in 0..70 {
            assert!(matches!(fixture.submit(number, &[0], &mut other), Submitted::Posted));
        }
    });
    assert_eq!(entered, Ok(()));
    assert_eq!((fixture.delivered().len(), duty.len()), (32, 1));
    assert_eq!(
        fixture.shards.with_one(0, &mut other, |_| ()),
        Err(Busy),
        "it stays held: newcomers queue up behind"
    );
    assert!(matches!(fixture.submit(70, &[0], &mut other), Submitted::Posted));
    assert!(!fixture.shards.resume(&mut duty));
    assert_eq!(fixture.delivered().len(), 64);
    assert!(fixture.shards.resume(&mut duty));
    assert_eq!(fixture.delivered(), (0..=70).collect::<Vec<_>>());
    assert_eq!(fixture.data(0), fixture.delivered());
}

#[test]
fn the_pace_also_ends_by_time() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    fn twenty_us_per_look() -> u64 {
        NOW.fetch_add(20_000, Ordering::Relaxed)
    }
    let shards = Shards::new(1, Pace::new(twenty_us_per_look, 1000), |_| Vec::new());
    let fixture = Fixture { shards, delivered: Arc::default() };
    let (mut duty, mut other) = (Duty::new(), Duty::new());
    let entered = fixture.shards.with_one(0, &mut duty, |_| {
        (0..9).for_each(|number| drop(fixture.submit(number, &[0], &mut other)));
    });
    assert_eq!(entered, Ok(()));
    assert_eq!(fixture.delivered(), [0, 1, 2], "60 us are over after the third");
    while !fixture.shards.resume(&mut duty) {}
    assert_eq!(fixture.delivered().len(), 9);
}

#[test]
fn posts_that_nobody_executes_are_freed() {
    let fixture = Fixture::new(2);
    let mut duty = Duty::new();
    let delivered = Arc::clone(&fixture.delivered);
    let entered = fixture.shards.with_one(0, &mut duty, |_| {
        (0..40).for_each(|number| drop(fixture.submit(number, &[0], &mut Duty::new())));
    });
    assert_eq!(entered, Ok(()));
    assert_eq!((delivered.lock().unwrap().len(), Arc::strong_count(&delivered)), (32, 2 + 8));
    drop(fixture);
    assert_eq!(Arc::strong_count(&delivered), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(duty))).is_err(), "it still holds the shard");
}

#[test]
#[should_panic(expected = "still held")]
fn a_thread_cannot_end_while_it_holds_shards() {
    let fixture = Fixture::new(2);
    let mut duty = Duty::new();
    let entered = fixture.shards.with_one(0, &mut duty, |_| {
        (0..33).for_each(|number| drop(fixture.submit(number, &[0], &mut Duty::new())));
    });
    assert_eq!(entered, Ok(()));
    drop(duty);
}

#[test]
#[should_panic(expected = "ascending order")]
fn shards_out_of_order_are_refused() {
    drop(Fixture::new(4).submit(1, &[1, 0], &mut Duty::new()));
}

#[test]
#[should_panic(expected = "ascending order")]
fn a_shard_twice_is_refused() {
    let _ = shards(4).with_several(&[1, 1], &mut Duty::new(), |_| ());
}

#[test]
#[should_panic(expected = "no such shard")]
fn a_shard_that_does_not_exist_is_refused() {
    drop(Fixture::new(4).submit(1, &[4], &mut Duty::new()));
}

#[test]
#[should_panic(expected = "belongs to one set")]
fn a_duty_of_other_shards_is_refused() {
    let (one, two) = (Fixture::new(1), Fixture::new(1));
    let mut duty = Duty::new();
    let entered = one.shards.with_one(0, &mut duty, |_| {
        (0..33).for_each(|number| drop(one.submit(number, &[0], &mut Duty::new())));
    });
    assert_eq!(entered, Ok(()));
    let _ = two.shards.resume(&mut duty);
}

#[test]
fn entered_finds_only_what_was_entered() {
    let shards = shards(64);
    let ids: Vec<ShardId> = (0..64).step_by(3).collect();
    for few in [&ids[..], &ids[..4]] {
        let entered = shards.with_several(few, &mut Duty::new(), |entered| {
            (0..70).filter(|&id| entered.contains(id)).collect::<Vec<_>>()
        });
        assert_eq!(entered.as_deref(), Ok(few));
    }
    let all: Vec<ShardId> = (0..64).collect();
    let entered = shards.with_several(&all, &mut Duty::new(), |entered| {
        entered.reborrow().get(63).push(1);
        (0..70).filter(|&id| entered.contains(id)).collect::<Vec<_>>()
    });
    assert_eq!(entered, Ok(all));
}

#[test]
fn mail_comes_in_order_and_wakes_once() {
    let mailbox = Mailbox::new();
    assert!(!mailbox.push(1), "awake");
    assert!(!mailbox.push(2));
    assert!(!mailbox.prepare_sleep(), "there is mail");
    assert_eq!(mailbox.take().collect::<Vec<_>>(), [1, 2]);
    assert!(mailbox.prepare_sleep());
    assert!(mailbox.push(3), "asleep: the first push wakes");
    assert!(!mailbox.push(4));
    mailbox.awake();
    assert_eq!(mailbox.take().collect::<Vec<_>>(), [3, 4]);
    assert!(mailbox.prepare_sleep());
    mailbox.awake();
    assert!(!mailbox.push(5), "woken by something else");
    assert_eq!(mailbox.take().next(), Some(5));
    assert_eq!(mailbox.take().next(), None);
}

#[test]
fn unread_mail_is_freed() {
    let message = Arc::new(());
    let mailbox = Mailbox::new();
    assert!(mailbox.prepare_sleep());
    assert!(mailbox.push(Arc::clone(&message)));
    assert!(!mailbox.push(Arc::clone(&message)));
    drop(mailbox.take());
    assert!(mailbox.prepare_sleep());
    assert!(mailbox.push(Arc::clone(&message)));
    drop(mailbox);
    assert_eq!(Arc::strong_count(&message), 1);
}
