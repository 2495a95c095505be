//! A set that is being made and belongs to no key yet: what SUNION gathers, what SINTERSTORE will store.

use super::{
    Kept, Name, Set, add_packed, add_to_table, empty, enlarged, form_with, member, remove_packed, set_bytes,
};
use crate::packed::Piece;
use crate::table::{Table, Value};
use crate::{Form, Limits, Slot, Storage};

/// Members that are looked up in a large set at the same time before they are added.
const WINDOW: usize = 32;

/// See the head of this file.
pub struct Loose {
    storage: Storage,
    /// Tag and members while they are packed; then the tag alone.
    bytes: Vec<u8>,
    table: Option<Table>,
    integers_only: bool,
    /// Names that are to be added to the table, one after the other: their hashes, and where they end.
    coming: Vec<(u64, usize)>,
    names: Vec<u8>,
}

impl Loose {
    /// An empty set, which is one of integers or a listpack with the peers.
    pub fn new(storage: Storage, form: Form) -> Loose {
        let (coming, names) = (Vec::new(), Vec::new());
        Loose { storage, bytes: empty(form), table: None, integers_only: true, coming, names }
    }

    /// The members.
    pub fn set(&self) -> Set<'_> {
        Set(match &self.table {
            Some(table) => Kept::Table(table),
            None => Kept::packed(&self.bytes),
        })
    }

    /// Members.
    pub fn len(&self) -> usize {
        self.set().len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a member. Whether it is new.
    pub fn add(&mut self, new: Piece<'_>, limits: &Limits) -> bool {
        self.integers_only &= matches!(new, Piece::Int(_));
        if self.table.is_none() {
            if let Some(added) = add_packed(&mut self.bytes, new, limits) {
                return added;
            }
            let (tag, table) = enlarged(&self.bytes, self.storage);
            self.bytes = vec![tag];
            self.table = Some(table);
        }
        let table = self.table.as_mut().expect("it was made if there was none");
        if !add_to_table(table, new) {
            return false;
        }
        self.bytes[0] = form_with(Form::of(self.bytes[0]), table.len() - 1, new, limits, || true) as u8;
        true
    }

    /// Adds a member, now or with [`Loose::flush`], which must be called behind the last one: in a large set the cache misses of several overlap.
    pub fn gather(&mut self, new: Piece<'_>, limits: &Limits) {
        let Some(table) = &self.table else {
            self.add(new, limits);
            return;
        };
        let name = Name::of(new);
        let hash = table.hash(name.bytes());
        table.prefetch_bucket(hash);
        self.names.extend_from_slice(name.bytes());
        self.coming.push((hash, self.names.len()));
        if self.coming.len() == WINDOW {
            self.flush(limits);
        }
    }

    /// Adds what was gathered.
    pub fn flush(&mut self, limits: &Limits) {
        let Some(table) = &mut self.table else { return };
        self.coming.iter().for_each(|(hash, _)| table.prefetch_element(*hash));
        let mut start = 0;
        for (hash, end) in self.coming.drain(..) {
            let name = &self.names[std::mem::replace(&mut start, end)..end];
            if table.find_hashed(hash, name).is_some() {
                continue;
            }
            table.insert_hashed(hash, name, Value::NONE, None);
            let new = member(name);
            self.integers_only &= matches!(new, Piece::Int(_));
            let form = Form::of(self.bytes[0]);
            self.bytes[0] = form_with(form, table.len() - 1, new, limits, || true) as u8;
        }
        self.names.clear();
    }

    /// Removes a member. Whether it was there.
    pub fn remove(&mut self, gone: Piece<'_>) -> bool {
        match &mut self.table {
            Some(table) => table.remove(Name::of(gone).bytes()),
            None => remove_packed(&mut self.bytes, gone),
        }
    }

    /// A set that has turned out to be one of integers is kept as such if it is short enough.
    pub fn settle_integers(&mut self, limits: &Limits) {
        if !self.integers_only || self.len() as u64 > limits.set_max_intset_entries {
            return;
        }
        let mut loose = Loose::new(self.storage, Form::SetIntset);
        self.set().for_each(|member| loose.gather(member, limits));
        loose.flush(limits);
        *self = loose;
    }

    /// Makes this the value of a key. It must not be empty.
    pub fn store(self, slot: &mut Slot<'_>) {
        match self.table {
            None => slot.set_packed(&self.bytes),
            Some(table) => slot.set_large(self.bytes[0], Box::new(table)),
        }
    }

    /// The same for the members of a packed or large set that stay, in the place of the old ones.
    pub(super) fn keep(slot: &mut Slot<'_>, form: Form, members: &[Vec<u8>], limits: &Limits) {
        let mut loose = Loose::new(slot.storage(), form);
        members.iter().for_each(|name| _ = loose.add(member(name), limits));
        loose.store(slot);
    }
}

/// Writes the members of a packed set anew, with the same form.
pub(super) fn rewrite(slot: &mut Slot<'_>, members: &[Vec<u8>]) {
    let form = slot.form();
    let unbound = Limits {
        set_max_intset_entries: u64::MAX,
        set_max_listpack_entries: u64::MAX,
        set_max_listpack_value: u64::MAX,
        ..Limits::default()
    };
    let mut bytes = empty(form);
    members.iter().for_each(|name| {
        add_packed(&mut bytes, member(name), &unbound).expect("a part of a packed set can be packed");
    });
    bytes[0] = bytes[0] & super::LAYOUT_MASK | form as u8;
    set_bytes(slot, &bytes);
}
