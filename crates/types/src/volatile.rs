//! HOT: which entries hold something that expires: the entry itself by its deadline, or fields of its hash by theirs. What a keyspace counts of them, so
//! that their index slots say it with one bit and INFO can tell one from the other.

use memory::EntryRef;

use crate::View;
use crate::hash;

/// What of an entry expires.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Expires {
    /// The entry has a deadline.
    pub whole: bool,
    /// Some field has one.
    pub fields: bool,
}

impl Expires {
    /// Looks at an entry.
    #[inline]
    pub fn of(entry: EntryRef<'_>) -> Expires {
        Expires { whole: entry.has_deadline(), fields: hash::has_deadlines(entry) }
    }

    /// Whether anything does: the bit of the index slot.
    #[inline]
    pub fn any(self) -> bool {
        self.whole || self.fields
    }
}

/// Counts of a keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Volatile {
    /// Entries of whose fields some expire.
    fields: u64,
    /// Those among them that have no deadline of their own.
    fields_only: u64,
    /// No field whose deadline was set since [`Volatile::take_due`] expires before this unix time in ms.
    due_ms: u64,
}

impl Default for Volatile {
    fn default() -> Volatile {
        Volatile { fields: 0, fields_only: 0, due_ms: u64::MAX }
    }
}

impl Volatile {
    /// Entries of whose fields some expire.
    pub fn with_fields(&self) -> u64 {
        self.fields
    }

    /// Those among them that have no deadline of their own.
    pub fn with_fields_only(&self) -> u64 {
        self.fields_only
    }

    /// Unix time in ms before which nothing expires that [`Volatile::changed`] was told of since [`Volatile::take_due`].
    #[inline]
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// The same, and forgets it.
    pub fn take_due(&mut self) -> u64 {
        std::mem::replace(&mut self.due_ms, u64::MAX)
    }

    /// An entry has come, gone or changed; `after` is the entry as it now is, unless it is gone.
    #[inline]
    pub fn changed(&mut self, before: Expires, after: Option<EntryRef<'_>>) {
        let now = after.map_or(Expires::default(), Expires::of);
        if !before.fields && !now.fields {
            return;
        }
        self.fields = self.fields + u64::from(now.fields) - u64::from(before.fields);
        self.fields_only += u64::from(now.fields && !now.whole);
        self.fields_only -= u64::from(before.fields && !before.whole);
        if let Some(view) = after.and_then(View::of) {
            self.due_ms = self.due_ms.min(hash::due_ms(view));
        }
    }
}
