//! Who watches which key (WATCH). Not who may run: a transaction only asks whether one of its keys has changed since.
//!
//! A watcher is a flag that is shared with its connection. When a key changes, the flags of all its watchers are raised and the key is
//! forgotten: a raised flag stays raised until its connection makes a new one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag of a watching connection: raised when something it watches has changed.
pub type Dirty = Arc<AtomicBool>;

/// The watched keys of one keyspace. With none, all of this costs one branch per write.
#[derive(Default)]
pub(super) struct Watches(Option<Box<Watchers>>);

type Watchers = HashMap<Box<[u8]>, Vec<Dirty>>;

impl Watches {
    pub(super) fn add(&mut self, key: &[u8], dirty: &Dirty) {
        let watchers = self.0.get_or_insert_default().entry(key.into()).or_default();
        if !watchers.iter().any(|watcher| Arc::ptr_eq(watcher, dirty)) {
            watchers.push(dirty.clone());
        }
    }

    pub(super) fn remove(&mut self, key: &[u8], dirty: &Dirty) {
        let Some(keys) = &mut self.0 else { return };
        let Some(watchers) = keys.get_mut(key) else { return };
        watchers.retain(|watcher| !Arc::ptr_eq(watcher, dirty));
        if watchers.is_empty() {
            keys.remove(key);
        }
        if keys.is_empty() {
            self.0 = None;
        }
    }

    /// `key` has changed.
    #[inline]
    pub(super) fn touch(&mut self, key: &[u8]) {
        if self.0.is_some() {
            self.raise(key);
        }
    }

    #[inline(never)]
    fn raise(&mut self, key: &[u8]) {
        let Some(keys) = &mut self.0 else { return };
        keys.remove(key).into_iter().flatten().for_each(raise);
        if keys.is_empty() {
            self.0 = None;
        }
    }

    /// The watched keys for which `changed` is true have changed.
    pub(super) fn touch_where(&mut self, mut changed: impl FnMut(&[u8]) -> bool) {
        let Some(keys) = &mut self.0 else { return };
        for (_, watchers) in keys.extract_if(|key, _| changed(key)) {
            watchers.into_iter().for_each(raise);
        }
        if keys.is_empty() {
            self.0 = None;
        }
    }

    /// Watched keys.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |keys| keys.len())
    }
}

fn raise(dirty: Dirty) {
    // Release: whoever sees the flag also sees the change. The shard's latch orders the two anyway; this keeps the flag sound by itself.
    dirty.store(true, Ordering::Release);
}
