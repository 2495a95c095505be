//! Who watches which key (WATCH), and notes of what happens to keys for those who are told later: keys that changed (client tracking), keys
//! that have come (the event `new`). Not who may run: a transaction only asks whether one of its keys has changed since.
//!
//! A watcher is a flag that is shared with its connection. When a key changes, the flags of all its watchers are raised and the key is
//! forgotten: a raised flag stays raised until its connection makes a new one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag of a watching connection: raised when something it watches has changed.
pub type Dirty = Arc<AtomicBool>;

/// The watched keys of one keyspace, and its notes. With none, all of this costs one branch per write.
#[derive(Default)]
pub(super) struct Watches(Option<Box<Table>>);

#[derive(Default)]
struct Table {
    watchers: HashMap<Box<[u8]>, Vec<Dirty>>,
    /// Keys that changed, if they are noted.
    changed: Option<Vec<Box<[u8]>>>,
    /// Keys that have come, if they are noted.
    created: Option<Vec<Box<[u8]>>>,
}

impl Table {
    fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.changed.is_none() && self.created.is_none()
    }
}

impl Watches {
    pub(super) fn add(&mut self, key: &[u8], dirty: &Dirty) {
        let watchers = self.0.get_or_insert_default().watchers.entry(key.into()).or_default();
        if !watchers.iter().any(|watcher| Arc::ptr_eq(watcher, dirty)) {
            watchers.push(dirty.clone());
        }
    }

    pub(super) fn remove(&mut self, key: &[u8], dirty: &Dirty) {
        let Some(table) = &mut self.0 else { return };
        let Some(watchers) = table.watchers.get_mut(key) else { return };
        watchers.retain(|watcher| !Arc::ptr_eq(watcher, dirty));
        if watchers.is_empty() {
            table.watchers.remove(key);
        }
        self.drop_if_empty();
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
        let Some(table) = &mut self.0 else { return };
        if let Some(changed) = &mut table.changed
            && changed.last().is_none_or(|last| **last != *key)
        {
            changed.push(key.into());
        }
        table.watchers.remove(key).into_iter().flatten().for_each(raise);
        self.drop_if_empty();
    }

    /// The watched keys for which `changed` is true have changed.
    pub(super) fn touch_where(&mut self, mut changed: impl FnMut(&[u8]) -> bool) {
        let Some(table) = &mut self.0 else { return };
        for (_, watchers) in table.watchers.extract_if(|key, _| changed(key)) {
            watchers.into_iter().for_each(raise);
        }
        self.drop_if_empty();
    }

    /// Watched keys.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.watchers.len())
    }

    /// From now on keys that change are noted, or no longer.
    pub(super) fn note_changes(&mut self, wanted: bool) {
        if wanted {
            self.0.get_or_insert_default().changed.get_or_insert_default();
        } else if let Some(table) = &mut self.0 {
            table.changed = None;
            self.drop_if_empty();
        }
    }

    /// Whether a change was noted.
    #[inline]
    pub(super) fn has_changes(&self) -> bool {
        self.0.as_ref().is_some_and(|table| table.changed.as_ref().is_some_and(|keys| !keys.is_empty()))
    }

    /// Takes the changes that were noted, in their order.
    pub(super) fn take_changes(&mut self) -> Vec<Box<[u8]>> {
        let noted = self.0.as_mut().and_then(|table| table.changed.as_mut());
        noted.map(std::mem::take).unwrap_or_default()
    }

    /// From now on keys that come are noted.
    pub(super) fn note_created(&mut self) {
        self.0.get_or_insert_default().created.get_or_insert_default();
    }

    /// `key` has come.
    #[inline]
    pub(super) fn created(&mut self, key: &[u8]) {
        if let Some(Table { created: Some(created), .. }) = self.0.as_deref_mut() {
            created.push(key.into());
        }
    }

    /// Takes the keys that have come; none are noted any more.
    pub(super) fn take_created(&mut self) -> Vec<Box<[u8]>> {
        let Some(table) = &mut self.0 else { return Vec::new() };
        let created = table.created.take().unwrap_or_default();
        self.drop_if_empty();
        created
    }

    fn drop_if_empty(&mut self) {
        if self.0.as_ref().is_some_and(|table| table.is_empty()) {
            self.0 = None;
        }
    }
}

fn raise(dirty: Dirty) {
    // Release: whoever sees the flag also sees the change. The shard's latch orders the two anyway; this keeps the flag sound by itself.
    dirty.store(true, Ordering::Release);
}
