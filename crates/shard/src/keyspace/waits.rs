//! Who waits for which key of one keyspace, first come first served, and which of these keys have changed. Not who is served, nor how:
//! the router asks here for what is ready before it leaves a shard.
//!
//! With nobody waiting all of this costs one branch per key that comes, goes or changes its type.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::waiter::{Waiter, next_order};

/// The queues of one keyspace.
#[derive(Default)]
pub struct Waits(Option<Box<Table>>);

#[derive(Default)]
struct Table {
    queues: HashMap<Box<[u8]>, Queue>,
    ready: Vec<Ready>,
}

/// A key that has come, gone or changed while somebody waited for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Ready {
    /// Ascends in the order in which keys became ready, over all keyspaces and shards that one thread holds.
    pub order: u64,
    pub key: Box<[u8]>,
    /// Those who came before this one, by [`Waiter::order`], have been tried since.
    pub from: u64,
}

/// Those who wait for one key, by ascending [`Waiter::order`].
#[derive(Default)]
struct Queue {
    places: VecDeque<Place>,
    /// Those of them who want to know when the key goes.
    on_nokey: usize,
    /// Those of them who are deferred.
    deferred: usize,
    /// The key is noted as ready, for those from this [`Waiter::order`] on.
    noted: Option<u64>,
}

struct Place {
    waiter: Arc<Waiter>,
    deferred: bool,
}

/// The first of a queue, or one behind it.
pub struct Waiting {
    pub waiter: Arc<Waiter>,
    /// It will be served by a task that is on its way; those behind it have to wait for that.
    pub deferred: bool,
}

/// How the number of keys that somebody waits for has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub keys: i64,
    /// Keys where somebody wants to know when they go.
    pub on_nokey: i64,
}

impl Waits {
    /// Puts a waiter behind the others of a key. Once per waiter and key.
    pub fn enter(&mut self, key: &[u8], waiter: &Arc<Waiter>) -> Change {
        let table = self.0.get_or_insert_default();
        let queue = table.queues.entry(key.into()).or_default();
        let first = queue.places.is_empty();
        let on_nokey = waiter.blocking.on_nokey;
        queue.on_nokey += usize::from(on_nokey);
        queue.places.push_back(Place { waiter: Arc::clone(waiter), deferred: false });
        Change { keys: first.into(), on_nokey: (on_nokey && queue.on_nokey == 1).into() }
    }

    /// Takes a waiter out of the queue of a key; no harm if it is not there.
    pub fn leave(&mut self, key: &[u8], waiter: &Waiter) -> Change {
        let Some(table) = &mut self.0 else { return Change::default() };
        let Some(queue) = table.queues.get_mut(key) else { return Change::default() };
        let Some(at) = queue.place(waiter) else { return Change::default() };
        let left = queue.places.remove(at);
        queue.deferred -= usize::from(left.is_some_and(|place| place.deferred));
        let on_nokey = waiter.blocking.on_nokey;
        queue.on_nokey -= usize::from(on_nokey);
        let last_on_nokey = on_nokey && queue.on_nokey == 0;
        let last = queue.places.is_empty();
        if last {
            table.queues.remove(key);
        }
        self.drop_if_empty();
        Change { keys: -i64::from(last), on_nokey: -i64::from(last_on_nokey) }
    }

    /// Who stands at place `at` in the queue of a key, from 0.
    pub fn at(&self, key: &[u8], at: usize) -> Option<Waiting> {
        let place = self.0.as_ref()?.queues.get(key)?.places.get(at)?;
        Some(Waiting { waiter: Arc::clone(&place.waiter), deferred: place.deferred })
    }

    /// Where in the queue of a key the first stands who has this [`Waiter::order`] or a later one.
    pub fn place_from(&self, key: &[u8], order: u64) -> usize {
        let queue = self.0.as_ref().and_then(|table| table.queues.get(key));
        queue.map_or(0, |queue| queue.places.partition_point(|place| place.waiter.order < order))
    }

    /// Whether a task is on its way to serve somebody who waits for a key: what is in the key belongs to those who wait.
    #[inline]
    pub fn is_promised(&self, key: &[u8]) -> bool {
        self.0.as_ref().and_then(|table| table.queues.get(key)).is_some_and(|queue| queue.deferred > 0)
    }

    /// Whether anybody wants to know that a key has gone.
    pub fn on_nokey(&self, key: &[u8]) -> bool {
        self.0.as_ref().and_then(|table| table.queues.get(key)).is_some_and(|queue| queue.on_nokey > 0)
    }

    /// Notes that a task to serve this waiter is on its way, or is no more.
    pub fn set_deferred(&mut self, key: &[u8], waiter: &Waiter, deferred: bool) {
        let queue = self.0.as_mut().and_then(|table| table.queues.get_mut(key));
        if let Some((queue, at)) = queue.and_then(|queue| queue.place(waiter).map(|at| (queue, at))) {
            let before = std::mem::replace(&mut queue.places[at].deferred, deferred);
            queue.deferred = queue.deferred + usize::from(deferred) - usize::from(before);
        }
    }

    /// `key` has come, or there is more in it: if somebody waits for it, it is ready.
    #[inline]
    pub fn changed(&mut self, key: &[u8]) {
        self.ready_from(key, 0);
    }

    /// The same for those who wait from this [`Waiter::order`] on.
    #[inline]
    pub fn ready_from(&mut self, key: &[u8], order: u64) {
        if let Some(table) = &mut self.0 {
            table.note(key, order);
        }
    }

    /// `key` has gone: it is ready for those who want to know that.
    #[inline]
    pub(super) fn gone(&mut self, key: &[u8]) {
        if self.0.is_some() && self.on_nokey(key) {
            self.changed(key);
        }
    }

    /// The keys for which `changed` is true are ready.
    pub(super) fn changed_where(&mut self, mut changed: impl FnMut(&[u8]) -> bool) {
        let Some(Table { queues, ready }) = self.0.as_deref_mut() else { return };
        for (key, queue) in queues {
            if changed(key) {
                queue.note(key, 0, ready);
            }
        }
    }

    /// Whether there is anything to serve.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.0.as_ref().is_some_and(|table| !table.ready.is_empty())
    }

    /// Takes the keys that have become ready.
    pub fn take_ready(&mut self) -> Vec<Ready> {
        let Some(table) = &mut self.0 else { return Vec::new() };
        let mut ready = std::mem::take(&mut table.ready);
        for Ready { key, from, .. } in &mut ready {
            if let Some(queue) = table.queues.get_mut(key) {
                *from = queue.noted.take().unwrap_or(0);
            }
        }
        self.drop_if_empty();
        ready
    }

    fn drop_if_empty(&mut self) {
        if self.0.as_ref().is_some_and(|table| table.queues.is_empty() && table.ready.is_empty()) {
            self.0 = None;
        }
    }
}

impl Table {
    #[inline(never)]
    fn note(&mut self, key: &[u8], from: u64) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.note(key, from, &mut self.ready);
        }
    }
}

impl Queue {
    fn note(&mut self, key: &[u8], from: u64, ready: &mut Vec<Ready>) {
        if self.noted.is_none() {
            ready.push(Ready { order: next_order(), key: key.into(), from });
        }
        self.noted = Some(self.noted.map_or(from, |noted| noted.min(from)));
    }

    /// Where a waiter stands.
    fn place(&self, waiter: &Waiter) -> Option<usize> {
        self.places.binary_search_by_key(&waiter.order, |place| place.waiter.order).ok()
    }
}
