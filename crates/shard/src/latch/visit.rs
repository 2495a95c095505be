//! Work that meets shards: what a visit is, the parcel in which it travels, the inbox in which it waits, and the shards as it sees them.
//! Not the protocol of entering and leaving ([`super::Shards`]).
#![allow(
    unsafe_code,
    reason = "an inbox is a list of raw parcels; entered shards give out exclusive references"
)]

use std::ptr;

use super::super::sync::Cell;
use super::word::Word;
use crate::ShardId;

/// Work over some shards that any thread can do: because a shard was busy when it came, or because it wants several.
///
/// A panic in either function stops the process.
pub trait Visit<D>: Send {
    /// All shards of the visit are held by this thread now. It must not wait for anything, nor enter shards.
    fn execute(&mut self, entered: &mut Entered<'_, D>);

    /// Hands the result to the thread that wants it. Called after `execute` and before any of the shards is left, so that whatever
    /// others find out about these shards from then on reaches that thread later. Not called for a visit that its submitter gets
    /// back in [`Submitted::Done`].
    fn deliver(self: Box<Self>);

    /// The visit is about to be posted in `shard`, which was taken. What this gives is called once it is posted, when others may
    /// already execute it.
    #[cfg(test)]
    fn waits(&mut self, shard: ShardId) -> Option<Box<dyn FnOnce()>> {
        let _ = shard;
        None
    }
}

/// What became of a visit.
#[derive(Debug)]
pub enum Submitted<V> {
    /// It was executed at once, by this thread; not delivered.
    Done(Box<V>),
    /// It is, or already was, executed by whoever leaves the shard that was busy, and then delivered.
    Posted,
}

/// A shard on lines of its own: 128 bytes, as processors fetch lines in pairs. Posters hammer the first line only.
#[repr(C, align(128))]
pub(super) struct Shard<D> {
    pub(super) word: Word<D>,
    /// Posts that a holder has taken and not yet executed. Only the holder touches it; empty whenever the shard is free.
    pub(super) inbox: Cell<Inbox<D>>,
    pub(super) data: Line<Cell<D>>,
}

/// Begins on a line of its own.
#[repr(align(64))]
pub(super) struct Line<T>(pub(super) T);

/// A visit on its way.
pub(super) struct Parcel<D> {
    /// Toward earlier posts while it hangs on a latch word, toward later ones in an inbox.
    pub(super) next: *mut Parcel<D>,
    pub(super) visit: Box<dyn Visit<D>>,
    pub(super) route: Route,
    /// Number of shards, from the first on, that the visit holds. The shard in whose inbox it waits is the one after.
    pub(super) held: usize,
    /// When it came, by the clock of the pace.
    pub(super) stamp: u64,
}

/// The shards of a visit, ascending.
pub(super) enum Route {
    One([ShardId; 1]),
    Several(Box<[ShardId]>),
}

impl Route {
    pub(super) fn new(ids: &[ShardId]) -> Self {
        match ids {
            [id] => Self::One([*id]),
            several => Self::Several(several.into()),
        }
    }

    pub(super) fn ids(&self) -> &[ShardId] {
        match self {
            Self::One(id) => id,
            Self::Several(ids) => ids,
        }
    }
}

/// Posts that wait for their turn in one shard: those that hold nothing, and those that travel and hold other shards.
///
/// Both are queues. The older of the two that are first comes first: so a visit that has travelled for long does not wait again for
/// all that have come here meanwhile, nor does a stream of travelling visits keep others waiting.
pub(super) struct Inbox<D> {
    waiting: Queue<D>,
    travelling: Queue<D>,
}

impl<D> Default for Inbox<D> {
    fn default() -> Self {
        Self { waiting: Queue::default(), travelling: Queue::default() }
    }
}

impl<D> Inbox<D> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.first.is_null() && self.travelling.first.is_null()
    }

    /// Adds what was taken from a latch word: linked from the last post to the first.
    pub(super) fn add(&mut self, taken: *mut Parcel<D>) {
        let mut later = ptr::null_mut();
        let mut parcel = taken;
        while !parcel.is_null() {
            // SAFETY: taken parcels belong to the holder of the shard, and every link leads to another one or is null.
            let earlier = unsafe { std::mem::replace(&mut (*parcel).next, later) };
            later = parcel;
            parcel = earlier;
        }
        let mut parcel = later;
        while !parcel.is_null() {
            // SAFETY: as above.
            let (next, travels) =
                unsafe { (std::mem::replace(&mut (*parcel).next, ptr::null_mut()), (*parcel).held > 0) };
            let queue = if travels { &mut self.travelling } else { &mut self.waiting };
            queue.push(parcel);
            parcel = next;
        }
    }

    /// Takes the next post out.
    pub(super) fn pop(&mut self) -> Option<Box<Parcel<D>>> {
        match (self.waiting.stamp(), self.travelling.stamp()) {
            (Some(waiting), Some(travelling)) if travelling < waiting => self.travelling.pop(),
            (None, _) => self.travelling.pop(),
            _ => self.waiting.pop(),
        }
    }
}

impl<D> Drop for Inbox<D> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Parcels in the order in which they came. Owns them.
struct Queue<D> {
    first: *mut Parcel<D>,
    /// Means nothing while there is no first.
    last: *mut Parcel<D>,
}

impl<D> Default for Queue<D> {
    fn default() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut() }
    }
}

impl<D> Queue<D> {
    /// When the first parcel came.
    fn stamp(&self) -> Option<u64> {
        // SAFETY: null or a parcel of this queue.
        unsafe { self.first.as_ref() }.map(|parcel| parcel.stamp)
    }

    fn push(&mut self, parcel: *mut Parcel<D>) {
        if self.first.is_null() {
            self.first = parcel;
        } else {
            // SAFETY: the queue is not empty, so that its last parcel is one of its own.
            unsafe { (*self.last).next = parcel };
        }
        self.last = parcel;
    }

    fn pop(&mut self) -> Option<Box<Parcel<D>>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: parcels of the queue are owned by it and came from boxes.
        let mut parcel = unsafe { Box::from_raw(self.first) };
        self.first = std::mem::replace(&mut parcel.next, ptr::null_mut());
        Some(parcel)
    }
}

/// The shards that were entered for one visit; all of them belong to it until it ends.
pub struct Entered<'a, D> {
    shards: &'a [Shard<D>],
    /// Those that were entered for it before it began, ascending.
    ids: &'a [ShardId],
    /// Those that it has entered itself, in that order.
    more: &'a mut Vec<ShardId>,
}

/// Up to here a shard is looked for one by one.
const SCAN_MAX: usize = 8;

impl<'a, D> Entered<'a, D> {
    /// # Safety
    /// The caller holds the shards `ids`, strictly ascending, for as long as this lives, and gives no other access to their data; `more` is
    /// empty, and the caller leaves what it holds afterwards.
    pub(super) unsafe fn new(shards: &'a [Shard<D>], ids: &'a [ShardId], more: &'a mut Vec<ShardId>) -> Self {
        Self { shards, ids, more }
    }

    /// Enters one more shard for this visit if it is free, in whatever order. False: it is taken, and nobody can tell for how long. Since
    /// this never waits, no circle can come of it; but a visit that needs the shard must then give up, and come again with the shard among
    /// those that are entered for it.
    pub fn enter(&mut self, id: ShardId) -> bool {
        if self.contains(id) {
            return true;
        }
        let free = self.shards[usize::from(id)].word.enter();
        if free {
            self.more.push(id);
        }
        free
    }

    /// Enters all other shards for this visit, if they are free. False: one was taken; those entered until then belong to the visit.
    pub fn enter_all(&mut self) -> bool {
        let last = ShardId::try_from(self.shards.len() - 1).expect("shards have identifiers");
        self.holds_all() || (0..=last).all(|id| self.enter(id))
    }

    /// Whether the visit holds all shards that there are.
    #[inline]
    pub fn holds_all(&self) -> bool {
        self.len() == self.shards.len()
    }

    /// The data of an entered shard. Panics if it was not entered: our own bug.
    #[inline]
    pub fn get(&mut self, id: ShardId) -> &mut D {
        assert!(self.contains(id), "shard {id} was not entered for this visit");
        // SAFETY: the shard is held for this visit (`new`), and `&mut self` makes this the only reference into it.
        unsafe { &mut *self.shards[usize::from(id)].data.0.ptr() }
    }

    /// The data of an entered shard, to be read together with those of others. Panics if it was not entered: our own bug.
    #[inline]
    pub fn peek(&self, id: ShardId) -> &D {
        assert!(self.contains(id), "shard {id} was not entered for this visit");
        // SAFETY: the shard is held for this visit (`new`), and `&self` excludes references that may change it.
        unsafe { &*self.shards[usize::from(id)].data.0.ptr() }
    }

    /// Whether a shard was entered.
    #[inline]
    pub fn contains(&self, id: ShardId) -> bool {
        let found = match self.ids.len() {
            all if all == self.shards.len() => return usize::from(id) < all,
            0..=SCAN_MAX => self.ids.contains(&id),
            _ => self.ids.binary_search(&id).is_ok(),
        };
        found || self.more.contains(&id)
    }

    /// The entered shards with their data; ascending, then those that the visit has entered itself.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ShardId, &mut D)> {
        let shards = self.shards;
        // SAFETY: the shards are held for this visit (`new`, `enter`), `&mut self` excludes other references into them, and no shard comes
        // twice, because `ids` ascend strictly and `enter` adds none that is there.
        self.ids
            .iter()
            .chain(&*self.more)
            .map(move |&id| (id, unsafe { &mut *shards[usize::from(id)].data.0.ptr() }))
    }

    /// The entered shards; ascending, then those that the visit has entered itself.
    pub fn ids(&self) -> impl Iterator<Item = ShardId> + use<'_, D> {
        self.ids.iter().chain(&*self.more).copied()
    }

    /// Number of entered shards.
    pub fn len(&self) -> usize {
        self.ids.len() + self.more.len()
    }

    /// Whether no shard was entered: a transaction without keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same shards for a shorter time.
    pub fn reborrow(&mut self) -> Entered<'_, D> {
        Entered { shards: self.shards, ids: self.ids, more: &mut *self.more }
    }
}
