//! What the journal gets for changes of a group: commands that name moments, counts and ids, whatever the client's command left to the
//! clock or to what was there.

use command::{Effect, Record};
use shard::exec::Exec;
use types::stream::Id;

use super::ids::{IdText, id_text};
use crate::effects::record;

/// The records of one command.
pub(super) struct Records {
    journaling: bool,
    changed: bool,
    consumers_created: u32,
    records: Vec<Record>,
}

/// The group whose changes are recorded.
#[derive(Clone, Copy)]
pub(super) struct OfGroup<'a> {
    pub(super) key: &'a [u8],
    pub(super) group: &'a [u8],
}

/// What pending entries have become.
#[derive(Clone, Copy)]
pub(super) struct Claimed<'a> {
    pub(super) consumer: &'a [u8],
    pub(super) ids: &'a [Id],
    pub(super) delivered_ms: i64,
    /// None: one more than before.
    pub(super) count: Option<i64>,
    /// Whether the count stays, if it is not told.
    pub(super) keep_count: bool,
}

impl Records {
    pub(super) fn new(cx: &Exec<'_>) -> Records {
        Records { journaling: cx.journaling, changed: false, consumers_created: 0, records: Vec::new() }
    }

    fn add(&mut self, build: impl FnOnce() -> Record) {
        self.changed = true;
        if self.journaling {
            self.records.push(build());
        }
    }

    /// How many consumers were made so far.
    pub(super) fn consumers_created(&self) -> u32 {
        self.consumers_created
    }

    /// A consumer was made.
    pub(super) fn consumer_created(&mut self, of: OfGroup<'_>, consumer: &[u8]) {
        self.consumers_created += 1;
        self.add(|| record(&[b"XGROUP", b"CREATECONSUMER", of.key, of.group, consumer]));
    }

    /// The group has moved on.
    pub(super) fn moved(&mut self, of: OfGroup<'_>, last: Id, read: i64) {
        let mut text: IdText = [0; size_of::<IdText>()];
        let (last, read) = (id_text(last, &mut text), read.to_string());
        self.add(|| record(&[b"XGROUP", b"SETID", of.key, of.group, last, b"ENTRIESREAD", read.as_bytes()]));
    }

    /// Entries are pending, for this consumer.
    pub(super) fn claimed(&mut self, of: OfGroup<'_>, claimed: &Claimed<'_>) {
        if claimed.ids.is_empty() {
            return;
        }
        self.add(|| {
            let mut words = record(&[b"XCLAIM", of.key, of.group, claimed.consumer, b"0"]);
            words.extend(claimed.ids.iter().map(|id| text(*id)));
            words.extend(record(&[b"TIME", claimed.delivered_ms.to_string().as_bytes()]));
            if let Some(count) = claimed.count {
                words.extend(record(&[b"RETRYCOUNT", count.to_string().as_bytes()]));
            }
            words.push(b"FORCE".to_vec());
            if claimed.keep_count || claimed.count.is_some() {
                words.push(b"JUSTID".to_vec());
            }
            words
        });
    }

    /// Entries are pending no more.
    pub(super) fn acknowledged(&mut self, of: OfGroup<'_>, ids: &[Id]) {
        if !ids.is_empty() {
            self.add(|| {
                let mut words = record(&[b"XACK", of.key, of.group]);
                words.extend(ids.iter().map(|id| text(*id)));
                words
            });
        }
    }

    /// The effect of the command.
    pub(super) fn effect(self) -> Effect {
        match self.changed {
            false => Effect::None,
            true if self.journaling => Effect::Rewritten(self.records.into_boxed_slice()),
            true => Effect::AsIs,
        }
    }
}

fn text(id: Id) -> Vec<u8> {
    id_text(id, &mut [0; size_of::<IdText>()]).to_vec()
}
