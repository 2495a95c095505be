//! Entering shards: the heart of the server. Who may touch a shard, and what happens to work that finds it taken.
//!
//! HOT: [`Shards::with_one`] and [`Shards::with_several`] on free shards; no allocation, no lock, no syscall, no log.
//!
//! A shard is *entered* by one compare-and-swap on its latch word and then belongs to the thread that entered it. Nobody waits for a
//! shard: what finds it taken is *posted* there and executed by whoever holds the shard, in the order of the posts.
//!
//! ```text
//!                 enter                        leave, nothing posted
//!       free ------------> held by a thread ---------------------------> free
//!                            |    ^      |
//!           leave, something |    |      | the visit it executes needs a shard that is taken
//!                     posted v    |      v
//!              on the thread's duty   held by a parcel that waits in the taken shard's inbox
//! ```
//!
//! - A visit over several shards enters them in ascending order. Where one is taken it *travels*: it is posted there together with the
//!   shards it holds, and whoever comes to it carries on. A parcel waits only in a shard above all those that it holds, so that no circle of
//!   parcels can wait for one another.
//! - A visit may enter further shards while it is executed ([`Entered::enter`]), in any order, because that does not wait: a shard that
//!   is taken it does not get. They are left with the others.
//! - Leaving executes at most [`Pace::visits_max`] posts and for at most [`Pace::ticks_max`]. If more are left, the shard stays held and
//!   goes onto the [`Duty`] of the thread, which goes on with [`Shards::resume`] and must not sleep before its duty is done. Hence a
//!   held shard is executed by a running thread, or on the duty of one that is awake, or belongs to a parcel in such a shard: it never
//!   waits for a thread that sleeps.
//! - Posts of a shard are executed in the order in which they were posted, and a free shard has none. Only a visit that comes travelling
//!   takes the place of its age, once per pace: so a visit over many shards, too, waits for those that came before it, and in each
//!   shard for at most a pace of those that came after it.
#![allow(unsafe_code, reason = "the latch gives out exclusive references to what a shard protects")]

mod mailbox;
mod visit;
mod word;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

pub use mailbox::{Mail, Mailbox};
pub use visit::{Entered, Submitted, Visit};

use super::sync::{Cell, Ordering, panicked_inside};
use crate::ShardId;
use visit::{Inbox, Line, Parcel, Route, Shard};
use word::Word;

/// The shard, or one of them, is taken. Nothing was done; [`Shards::submit`] the work instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// How much posted work a thread does at once before it sees to its own connections again.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Visits at once; at least 1.
    pub visits_max: u32,
    /// In units of `ticks`.
    pub ticks_max: u64,
    /// A clock that never goes back.
    pub ticks: fn() -> u64,
}

impl Pace {
    /// 32 visits or 50 us, whichever comes first, by a clock with `ticks_per_us`.
    pub fn new(ticks: fn() -> u64, ticks_per_us: u64) -> Self {
        Self { visits_max: 32, ticks_max: 50 * ticks_per_us, ticks }
    }
}

/// Shards that a thread still holds because more was posted there than it executed at once. Each thread has one.
///
/// The thread must not sleep, nor end, while its duty is not empty.
pub struct Duty<D> {
    shards: VecDeque<ShardId>,
    /// Which [`Shards`] they belong to; 0: none yet.
    owner: u64,
    counts: Counts,
    of: PhantomData<fn(&mut D)>,
}

/// What a thread did for posted visits so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Visits of this thread that found a shard taken.
    pub posted: u64,
    /// Visits that this thread carried on with, whoever had posted them.
    pub carried: u64,
    /// Those of them that found their next shard taken and went on travelling.
    pub travelled: u64,
}

impl<D> Duty<D> {
    /// The duty of a thread that holds nothing yet.
    pub fn new() -> Self {
        Self { shards: VecDeque::new(), owner: 0, counts: Counts::default(), of: PhantomData }
    }

    /// Whether the thread holds nothing and may sleep.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Number of shards that the thread still holds.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// What the thread did for posted visits so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl<D> Default for Duty<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D> Drop for Duty<D> {
    fn drop(&mut self) {
        assert!(self.is_empty() || std::thread::panicking(), "a thread ended with shards that it still held");
    }
}

/// All shards of the process.
pub struct Shards<D> {
    shards: Box<[Shard<D>]>,
    pace: Pace,
    /// Tells these shards from others, so that a duty cannot be used with the wrong ones. Never 0.
    identity: u64,
}

// SAFETY: `D` is only reached by the holder of its shard, one thread at a time, and handed from one to the next by the latch word (release
// and acquire); parcels likewise, and visits are `Send`.
unsafe impl<D: Send> Sync for Shards<D> {}
// SAFETY: moving all shards moves `D`s and visits, both `Send`; the raw pointers own what they point to.
unsafe impl<D: Send> Send for Shards<D> {}

/// More shards than the design ever asks for (4,096), and every identifier fits.
const SHARDS_MAX: usize = 1 << 15;

impl<D> Shards<D> {
    /// `count` shards, a power of two of at most 32,768, with what `make` gives for each.
    pub fn new(count: usize, pace: Pace, mut make: impl FnMut(ShardId) -> D) -> Self {
        assert!(
            count.is_power_of_two() && count <= SHARDS_MAX,
            "{count} shards: not a power of two up to {SHARDS_MAX}"
        );
        assert!(pace.visits_max > 0, "leaving a shard must get somewhere");
        static IDENTITY_LAST: AtomicU64 = AtomicU64::new(0);
        let shard = |id| Shard {
            word: Word::free(),
            inbox: Cell::new(Inbox::default()),
            data: Line(Cell::new(make(ShardId::try_from(id).expect("checked above")))),
        };
        // Relaxed: only the number's uniqueness counts.
        let identity = IDENTITY_LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { shards: (0..count).map(shard).collect(), pace, identity }
    }

    /// Number of shards.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Never: there is at least one shard.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Runs `f` inside a shard, if it is free. Then leaves it, which may execute what was posted meanwhile.
    ///
    /// A panic in `f` stops the process.
    #[inline]
    pub fn with_one<R>(
        &self,
        id: ShardId,
        duty: &mut Duty<D>,
        f: impl FnOnce(&mut D) -> R,
    ) -> Result<R, Busy> {
        let shard = &self.shards[usize::from(id)];
        if !shard.word.enter() {
            return Err(Busy);
        }
        let inside = Inside;
        // SAFETY: the shard was entered; this is the only reference into it until it is left.
        let result = f(unsafe { &mut *shard.data.0.ptr() });
        inside.over();
        if !shard.word.try_leave() {
            self.owe(id, duty);
            self.drain(duty);
        }
        Ok(result)
    }

    /// Runs `f` inside several shards at once (ascending, each once; none is allowed), if all are free. Then leaves them, which may
    /// execute what was posted meanwhile.
    ///
    /// A panic in `f` stops the process.
    #[inline]
    pub fn with_several<R>(
        &self,
        ids: &[ShardId],
        duty: &mut Duty<D>,
        f: impl FnOnce(&mut Entered<'_, D>) -> R,
    ) -> Result<R, Busy> {
        self.check(ids);
        for (entered, &id) in ids.iter().enumerate() {
            if !self.shards[usize::from(id)].word.enter() {
                self.leave(&ids[..entered], duty);
                return Err(Busy);
            }
        }
        let inside = Inside;
        let mut more = Vec::new();
        // SAFETY: all of them were entered, `check` saw them ascend, and they are left further down, with those in `more`.
        let mut entered = unsafe { Entered::new(&self.shards, ids, &mut more) };
        let result = f(&mut entered);
        inside.over();
        self.leave_with(ids, &more, duty);
        Ok(result)
    }

    /// Executes a visit over its shards (ascending, each once; none is allowed): at once if they are free, else as soon as they are, on
    /// whichever thread.
    pub fn submit<V: Visit<D> + 'static>(
        &self,
        ids: &[ShardId],
        mut visit: Box<V>,
        duty: &mut Duty<D>,
    ) -> Submitted<V> {
        self.check(ids);
        for (held, &id) in ids.iter().enumerate() {
            if !self.shards[usize::from(id)].word.enter() {
                let stamp = (self.pace.ticks)();
                let parcel =
                    Parcel { next: std::ptr::null_mut(), visit, route: Route::new(ids), held, stamp };
                duty.counts.posted += 1;
                if let Some(parcel) = self.travel(Box::new(parcel)) {
                    // They have become free meanwhile. The visit is delivered all the same: its type is no longer known.
                    let (route, more) = self.finish(parcel);
                    self.leave_with(route.ids(), &more, duty);
                }
                return Submitted::Posted;
            }
        }
        let more = self.execute(&mut *visit, ids);
        self.leave_with(ids, &more, duty);
        Submitted::Done(visit)
    }

    /// Goes on with the posts of the shards that this thread still holds, for one pace. True once it holds none.
    pub fn resume(&self, duty: &mut Duty<D>) -> bool {
        if !duty.is_empty() {
            self.drain(duty);
        }
        duty.is_empty()
    }

    /// What the shards protect, while nobody else can reach them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut D> {
        // SAFETY: `&mut self` excludes everybody else.
        self.shards.iter_mut().map(|shard| unsafe { &mut *shard.data.0.ptr() })
    }

    /// A wrong order could make visits wait for one another for ever, or hand out a shard twice.
    #[inline]
    fn check(&self, ids: &[ShardId]) {
        assert!(ids.is_sorted_by(|a, b| a < b), "shards are entered in ascending order, each once");
        assert!(ids.last().is_none_or(|&last| usize::from(last) < self.shards.len()), "no such shard");
    }

    /// Gives the shards that the visit has entered beside `ids`; to be left with them.
    fn execute(&self, visit: &mut dyn Visit<D>, ids: &[ShardId]) -> Vec<ShardId> {
        let inside = Inside;
        let mut more = Vec::new();
        // SAFETY: the callers hold all of `ids`, which `check` saw ascend, and leave them later, with those in `more`.
        let mut entered = unsafe { Entered::new(&self.shards, ids, &mut more) };
        visit.execute(&mut entered);
        inside.over();
        more
    }

    /// Enters the remaining shards of a parcel. `None`: one was taken, and the parcel was posted there with all that it holds.
    fn travel(&self, mut parcel: Box<Parcel<D>>) -> Option<Box<Parcel<D>>> {
        while let Some(&id) = parcel.route.ids().get(parcel.held) {
            let word = &self.shards[usize::from(id)].word;
            if !word.enter() {
                #[cfg(test)]
                let waits = parcel.visit.waits(id);
                // From the post on, the parcel and its shards belong to whoever holds that shard.
                let back = word.post(parcel);
                #[cfg(test)]
                waits.into_iter().filter(|_| back.is_none()).for_each(|posted| posted());
                parcel = back?;
            }
            parcel.held += 1;
        }
        Some(parcel)
    }

    /// Executes and delivers a parcel that holds all its shards; the caller holds them afterwards, and those that its visit has entered.
    #[expect(clippy::boxed_local, reason = "a parcel never leaves its box: others link to its address")]
    fn finish(&self, parcel: Box<Parcel<D>>) -> (Route, Vec<ShardId>) {
        let Parcel { mut visit, route, .. } = *parcel;
        let more = self.execute(&mut *visit, route.ids());
        let inside = Inside;
        visit.deliver();
        inside.over();
        (route, more)
    }

    /// Leaves shards that this thread holds; executes what was posted to them, for one pace.
    #[inline]
    fn leave(&self, ids: &[ShardId], duty: &mut Duty<D>) {
        self.leave_with(ids, &[], duty);
    }

    /// As [`Self::leave`], with shards that a visit has entered itself. All are left before anything is executed.
    #[inline]
    fn leave_with(&self, ids: &[ShardId], more: &[ShardId], duty: &mut Duty<D>) {
        let mut owes = false;
        for &id in ids.iter().chain(more) {
            owes |= self.leave_or_owe(id, duty);
        }
        if owes {
            self.drain(duty);
        }
    }

    /// Leaves a shard that this thread holds, or puts it onto its duty if something is posted: then true.
    #[inline]
    fn leave_or_owe(&self, id: ShardId, duty: &mut Duty<D>) -> bool {
        let shard = &self.shards[usize::from(id)];
        // SAFETY: this thread holds the shard, and nothing else refers to the inbox.
        let inbox = unsafe { &mut *shard.inbox.ptr() };
        if inbox.is_empty() && shard.word.try_leave() {
            return false;
        }
        self.owe(id, duty);
        true
    }

    #[cold]
    fn owe(&self, id: ShardId, duty: &mut Duty<D>) {
        assert!(duty.owner == self.identity || duty.is_empty(), "a duty belongs to one set of shards");
        duty.owner = self.identity;
        duty.shards.push_back(id);
    }

    /// Executes posts of the shards on duty, oldest duty first, for one pace.
    #[cold]
    fn drain(&self, duty: &mut Duty<D>) {
        assert!(duty.owner == self.identity, "a duty belongs to one set of shards");
        let begun = (self.pace.ticks)();
        let mut visits = 0;
        while let Some(id) = duty.shards.pop_front() {
            self.look(id);
            while let Some(parcel) = self.next_or_leave(id) {
                visits += 1;
                let stays = self.carry_on(parcel, duty);
                if visits >= self.pace.visits_max
                    || (self.pace.ticks)().saturating_sub(begun) >= self.pace.ticks_max
                {
                    if stays {
                        // Behind the others on duty, so that each of them has its turn.
                        self.leave_or_owe(id, duty);
                    }
                    return;
                }
                if !stays {
                    break;
                }
            }
        }
    }

    /// The next post of a shard that this thread holds; if there is none, the shard is left.
    fn next_or_leave(&self, id: ShardId) -> Option<Box<Parcel<D>>> {
        let shard = &self.shards[usize::from(id)];
        // SAFETY: this thread holds the shard, and nothing else refers to the inbox.
        let inbox = unsafe { &mut *shard.inbox.ptr() };
        if inbox.is_empty() {
            if shard.word.try_leave() {
                return None;
            }
            inbox.add(shard.word.take());
        }
        inbox.pop()
    }

    /// Sorts new posts of a shard that this thread holds into its inbox.
    fn look(&self, id: ShardId) {
        let shard = &self.shards[usize::from(id)];
        if shard.word.has_posts() {
            // SAFETY: this thread holds the shard, and nothing else refers to the inbox.
            let inbox = unsafe { &mut *shard.inbox.ptr() };
            inbox.add(shard.word.take());
        }
    }

    /// Goes on with a parcel that has come to its turn in a shard that this thread holds: the shard is the parcel's now. True if this
    /// thread holds it again, false if the parcel keeps it, or it was left, or it is on duty.
    fn carry_on(&self, mut parcel: Box<Parcel<D>>, duty: &mut Duty<D>) -> bool {
        parcel.held += 1;
        duty.counts.carried += 1;
        let Some(parcel) = self.travel(parcel) else {
            duty.counts.travelled += 1;
            return false;
        };
        match self.finish(parcel) {
            (Route::One(_), more) => {
                for id in more {
                    self.leave_or_owe(id, duty);
                }
                true
            }
            (Route::Several(ids), more) => {
                for &id in ids.iter().chain(&more) {
                    self.leave_or_owe(id, duty);
                }
                false
            }
        }
    }
}

impl<D> Drop for Shards<D> {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            // SAFETY: `&mut self` excludes everybody else; nothing refers to the inbox.
            let inbox = unsafe { &mut *shard.inbox.ptr() };
            while inbox.pop().is_some() {}
            inbox.add(shard.word.take());
        }
    }
}

/// Between entering and leaving. Dropped only by a panic.
struct Inside;

impl Inside {
    #[inline]
    fn over(self) {
        std::mem::forget(self);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        panicked_inside();
    }
}
