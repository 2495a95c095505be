//! HOT: a large sorted set: a table of its members with their scores, and the nodes that keep them in order.

use std::ops::Range;

use memory::{Handle, Large};
use stdx::rng::Rng;

use super::nodes::{Nodes, Point};
use super::score::{Kept, order, score_of};
use crate::Storage;
use crate::table::Table;

/// See the head of this file.
pub(super) struct Tree {
    storage: Storage,
    table: Table,
    nodes: Nodes,
    /// Bytes of all members.
    member_bytes: u64,
}

impl Tree {
    pub(super) fn new(storage: Storage) -> Tree {
        Tree { storage, table: Table::new(storage), nodes: Nodes::new(storage), member_bytes: 0 }
    }

    /// The set of these members, which come in order, each once.
    pub(super) fn build<'m>(storage: Storage, sorted: impl Iterator<Item = (&'m [u8], f64)>) -> Tree {
        let mut tree = Tree::new(storage);
        let handles: Vec<Handle> = sorted
            .map(|(member, score)| {
                tree.member_bytes += member.len() as u64;
                tree.table.insert(member, Kept::new(score).value(), None)
            })
            .collect();
        tree.nodes.build(&tree.table, &handles);
        tree
    }

    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.table.len() as u64
    }

    pub(super) fn member_bytes(&self) -> u64 {
        self.member_bytes
    }

    /// A member with its score.
    #[inline]
    pub(super) fn find(&self, member: &[u8]) -> Option<(Handle, f64)> {
        let handle = self.table.find(member)?;
        Some((handle, score_of(self.table.element(handle))))
    }

    /// Adds a member that is not there yet.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) {
        let handle = self.table.insert(member, Kept::new(score).value(), None);
        self.nodes.insert(&self.table, order(score), member, handle);
        self.member_bytes += member.len() as u64;
        self.compact();
    }

    /// Gives a member, which has the score `old`, another score.
    pub(super) fn set_score(&mut self, handle: Handle, member: &[u8], old: f64, score: f64) {
        let stays = self.nodes.reorder(&self.table, (order(old), order(score)), member, handle);
        if !stays {
            self.nodes.remove(&self.table, order(old), member, handle);
        }
        let new = self.table.replace(handle, Kept::new(score).value(), None);
        if !stays {
            self.nodes.insert(&self.table, order(score), member, new);
        } else if new != handle {
            self.nodes.moved(&self.table, order(score), member, handle, new);
        }
        self.compact();
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, handle: Handle) {
        let element = self.table.element(handle);
        let (member, score) = (element.name(), score_of(element));
        self.nodes.remove(&self.table, order(score), member, handle);
        self.member_bytes -= member.len() as u64;
        self.table.remove_element(handle);
        self.compact();
    }

    /// How many members have a score before this order.
    pub(super) fn rank_of_order(&self, bound: u64) -> u64 {
        self.nodes.rank(&self.table, Point::Order(bound))
    }

    /// How many members stand before this one.
    pub(super) fn rank_of_pair(&self, score: f64, member: &[u8]) -> u64 {
        self.nodes.rank(&self.table, Point::Pair { order: order(score), member, old: None })
    }

    /// How many members, from the first on, are `before`, which must tell them in order.
    pub(super) fn rank_of_member(&self, before: &dyn Fn(&[u8]) -> bool) -> u64 {
        self.nodes.rank(&self.table, Point::Lex(before))
    }

    /// The members of these ranks with their scores, in order or in reverse.
    pub(super) fn walk(&self, ranks: Range<u64>, reverse: bool) -> impl Iterator<Item = (&[u8], f64)> {
        self.nodes.walk(&self.table, ranks, reverse).map(|handle| {
            let element = self.table.element(handle);
            (element.name(), score_of(element))
        })
    }

    /// Handles of the members of these ranks.
    pub(super) fn handles(&self, ranks: Range<u64>) -> impl Iterator<Item = Handle> {
        self.nodes.walk(&self.table, ranks, false)
    }

    /// As [`Table::scan`]. A cursor names its table above bit 32: one of another table, which the set had before it was packed for a while, says
    /// nothing about the order of this one, and begins anew.
    pub(super) fn scan<'a>(&'a self, cursor: u64, budget: usize, mut f: impl FnMut(&'a [u8], f64)) -> u64 {
        let name = self.table.hash(b"") >> 33 << 32;
        let mut place = if cursor & !u64::from(u32::MAX) == name { cursor - name } else { 0 };
        let (mut seen, mut buckets) = (0, 0);
        loop {
            place = self.table.scan_bucket(place, |handle| {
                seen += 1;
                let element = self.table.element(handle);
                f(element.name(), score_of(element));
            });
            buckets += 1;
            if place == 0 {
                return 0;
            }
            if seen >= budget || buckets >= budget {
                return name | place;
            }
        }
    }

    /// A member by chance, each as likely.
    pub(super) fn random(&self, rng: &mut Rng) -> (&[u8], f64) {
        let handle = self.table.random(rng).expect("a large set is not empty");
        let element = self.table.element(handle);
        (element.name(), score_of(element))
    }

    /// A small step of compaction, if memory is wasted. The nodes learn of it when it is over: until then they know the element by its old handle.
    fn compact(&mut self) {
        let mut moved = None;
        self.table.compact(|_, old, new| moved = Some((old, new)));
        if let Some((old, new)) = moved {
            let element = self.table.element(new);
            self.nodes.moved(&self.table, order(score_of(element)), element.name(), old, new);
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let handles = self.nodes.check(&self.table);
        assert_eq!(handles.len() as u64, self.len());
        assert_eq!(handles, self.handles(0..self.len()).collect::<Vec<_>>());
        let bytes: u64 = handles.iter().map(|handle| self.table.element(*handle).name().len() as u64).sum();
        assert_eq!(bytes, self.member_bytes);
    }
}

impl Large for Tree {
    fn bytes(&self) -> u64 {
        self.table.bytes() + self.nodes.bytes()
    }

    fn release(&mut self, pages_max: usize) -> bool {
        self.nodes.release(pages_max) && self.table.release(pages_max)
    }

    fn duplicate(&self) -> Box<dyn Large> {
        Box::new(Tree::build(self.storage, self.walk(0..self.len(), false)))
    }
}

#[cfg(test)]
impl Tree {
    /// Bytes of the table, of its elements alone, and of the nodes.
    pub(super) fn bytes_of(&self) -> (u64, u64, u64) {
        (self.table.bytes(), self.table.live_bytes(), self.nodes.bytes())
    }
}
