//! HOT: the order of a large sorted set: a B+tree of the handles of its elements, which counts how many are below each node. Not the elements: they
//! are a table's, which is asked for score and member where the nodes cannot tell.
//!
//! A change goes down from the root with the path on the stack. Where there is no room, one step makes some (between siblings if one has
//! any, else by a split, above before below) and the change starts anew; so no step has more than one case to think of.

use std::ops::Range;

use memory::{Handle, Heap};

use super::node::{
    Child, INNER_BYTES, INNER_SLOTS, Inner, InnerMut, LEAF_BYTES, LEAF_SLOTS, Leaf, LeafMut, Scale,
};
use super::score::{order, score_of};
use crate::Storage;
use crate::table::Table;

/// Inner nodes above a leaf. With 26 children each and 42 elements in a leaf, 8 hold more than fit into the arena.
const HEIGHT_MAX: usize = 8;
/// A leaf with fewer elements is merged with a sibling, or gets some of its.
const LEAF_MIN: usize = LEAF_SLOTS / 3;
/// What a merged leaf has at most, and a leaf that is built.
const LEAF_FILL: usize = LEAF_SLOTS * 17 / 20;
/// A sibling with more elements than this is not worth moving some to.
const SIBLING_MAX: usize = LEAF_SLOTS * 15 / 16;
/// An inner node with fewer children is merged with a sibling, or gets some of its.
const INNER_MIN: usize = INNER_SLOTS / 3;
const INNER_FILL: usize = INNER_SLOTS * 4 / 5;
/// Coarse scores that span less than this, or of which so many are the first or the last, are worth another scale.
const COARSE_SPAN_MIN: u16 = 2048;
const COARSE_OUTSIDE_MAX: usize = 4;

/// A place in the order of a set.
#[derive(Clone, Copy)]
pub(super) enum Point<'a> {
    /// Before all scores of this order and later ones.
    Order(u64),
    /// Where a member with a score of this order stands. If it has just moved, `old` is the handle that the nodes still know, which must not be followed.
    Pair { order: u64, member: &'a [u8], old: Option<Handle> },
    /// Behind all members for which this is true; which are the first ones.
    Lex(&'a dyn Fn(&[u8]) -> bool),
}

impl Point<'_> {
    /// Whether the element stands before the point; with `at`, also whether it stands there.
    #[inline]
    fn is_behind(self, table: &Table, handle: Handle, at: bool) -> bool {
        match self {
            Point::Order(bound) => order_of(table, handle) < bound,
            Point::Pair { old, .. } if old == Some(handle) => at,
            Point::Pair { order: wanted, member, .. } => {
                let element = table.element(handle);
                let found = order(score_of(element));
                found < wanted
                    || found == wanted && if at { element.name() <= member } else { element.name() < member }
            }
            Point::Lex(before) => before(table.element(handle).name()),
        }
    }
}

/// The way from the root to a slot of a leaf.
#[derive(Clone, Copy)]
pub(super) struct Path {
    /// Inner nodes with the place of the child, the root first.
    steps: [(Handle, u16); HEIGHT_MAX],
    leaf: Handle,
    slot: usize,
}

/// See the head of this file.
pub(super) struct Nodes {
    heap: Heap,
    root: Option<Handle>,
    /// Inner nodes above each leaf.
    height: usize,
}

impl Nodes {
    pub(super) fn new(storage: Storage) -> Nodes {
        Nodes { heap: Heap::new(storage.arena), root: None, height: 0 }
    }

    /// Bytes of the arena that the nodes occupy.
    pub(super) fn bytes(&self) -> u64 {
        self.heap.page_bytes()
    }

    /// Gives back at most `pages_max` pages; true when nothing is left.
    pub(super) fn release(&mut self, pages_max: usize) -> bool {
        self.root = None;
        self.heap.dismantle(pages_max)
    }

    /// How many elements stand before a point. O(log n).
    pub(super) fn rank(&self, table: &Table, point: Point<'_>) -> u64 {
        self.locate::<true>(table, point).map_or(0, |(_, rank)| rank)
    }

    /// Adds an element with a score of this order, whose member is not there yet. O(log n).
    pub(super) fn insert(&mut self, table: &Table, order: u64, member: &[u8], handle: Handle) {
        if self.root.is_none() {
            self.root = Some(self.new_leaf(Scale { base: order, shift: 44 }));
        }
        loop {
            let point = Point::Pair { order, member, old: None };
            let (path, _) = self.locate::<false>(table, point).expect("there is a root");
            let leaf = self.leaf(path.leaf);
            if leaf.len() < LEAF_SLOTS {
                let coarse = leaf.scale().coarse(order);
                self.leaf_mut(path.leaf).insert(path.slot, coarse, handle);
                return self.count(&path, 1);
            }
            self.make_room(table, &path);
        }
    }

    /// Removes an element, which still has its score in the table. O(log n).
    pub(super) fn remove(&mut self, table: &Table, order: u64, member: &[u8], handle: Handle) {
        let path = self.path_of(table, order, member, handle, None);
        self.leaf_mut(path.leaf).remove(path.slot..path.slot + 1);
        self.count(&path, -1);
        let len = self.leaf(path.leaf).len();
        if path.slot == 0 && len > 0 {
            self.tell_first(table, &path, self.leaf(path.leaf).handle(0));
        }
        if self.height == 0 {
            if len == 0 {
                self.heap.free(path.leaf);
                self.root = None;
            }
        } else if len < LEAF_MIN {
            self.fill_leaf(table, &path);
        }
    }

    /// An element is about to get a score of another order: if it stays where it is between its neighbours, the leaf is changed and true returned.
    pub(super) fn reorder(
        &mut self,
        table: &Table,
        orders: (u64, u64),
        member: &[u8],
        handle: Handle,
    ) -> bool {
        let path = self.path_of(table, orders.0, member, handle, None);
        let leaf = self.leaf(path.leaf);
        // The first and the last may have neighbours elsewhere.
        if path.slot == 0 || path.slot + 1 >= leaf.len() {
            return false;
        }
        let coarse = leaf.scale().coarse(orders.1);
        if leaf.coarse(path.slot - 1) >= coarse || coarse >= leaf.coarse(path.slot + 1) {
            return false;
        }
        self.leaf_mut(path.leaf).set_coarse(path.slot, coarse);
        true
    }

    /// An element, whose score has this order, has moved.
    pub(super) fn moved(&mut self, table: &Table, order: u64, member: &[u8], old: Handle, new: Handle) {
        let path = self.path_of(table, order, member, old, Some(old));
        self.leaf_mut(path.leaf).set_handle(path.slot, new);
        for (node, at) in &path.steps[..self.height] {
            let at = usize::from(*at);
            if at > 0 && self.inner(*node).first(at) == old {
                self.inner_mut(*node).set_first(at, order, new);
            }
        }
    }

    /// The elements of these ranks, in order or in reverse.
    pub(super) fn walk<'a>(&'a self, table: &'a Table, ranks: Range<u64>, reverse: bool) -> Walk<'a> {
        let left = ranks.end.saturating_sub(ranks.start);
        let start = if reverse { ranks.end.saturating_sub(1) } else { ranks.start };
        let path = (left > 0).then(|| self.select(start));
        let mut walk = Walk { nodes: self, table, path, left, reverse };
        walk.ask_for_leaf();
        walk
    }

    /// Makes the nodes of a tree that has none, for elements that come in order. O(n).
    pub(super) fn build(&mut self, table: &Table, handles: &[Handle]) {
        assert!(self.root.is_none(), "a tree is built once");
        let mut level: Vec<Child> = Vec::with_capacity(handles.len() / LEAF_FILL + 1);
        for part in evenly(handles, LEAF_FILL) {
            let (first, last) = (order_of(table, part[0]), order_of(table, part[part.len() - 1]));
            let scale = Scale::spanning(first, last);
            let node = self.new_leaf(scale);
            for (slot, handle) in part.iter().enumerate() {
                self.leaf_mut(node).insert(slot, scale.coarse(order_of(table, *handle)), *handle);
            }
            level.push(Child { order: first, first: part[0], node, below: part.len() as u64 });
        }
        while level.len() > 1 {
            let mut above = Vec::with_capacity(level.len() / INNER_FILL + 1);
            for part in evenly(&level, INNER_FILL) {
                let node = self.new_inner();
                for (at, child) in part.iter().enumerate() {
                    self.inner_mut(node).insert(at, *child);
                }
                above.push(Child { node, below: part.iter().map(|child| child.below).sum(), ..part[0] });
            }
            self.height += 1;
            level = above;
        }
        self.root = level.first().map(|child| child.node);
    }

    #[inline(always)]
    fn leaf(&self, handle: Handle) -> Leaf<'_> {
        Leaf::new(self.heap.block(handle))
    }

    #[inline(always)]
    fn leaf_mut(&mut self, handle: Handle) -> LeafMut<'_> {
        LeafMut::new(self.heap.block_mut(handle))
    }

    #[inline(always)]
    fn inner(&self, handle: Handle) -> Inner<'_> {
        Inner::new(self.heap.block(handle))
    }

    #[inline(always)]
    fn inner_mut(&mut self, handle: Handle) -> InnerMut<'_> {
        InnerMut::new(self.heap.block_mut(handle))
    }

    fn new_leaf(&mut self, scale: Scale) -> Handle {
        let leaf = self.heap.alloc_block(LEAF_BYTES);
        self.leaf_mut(leaf).clear(scale);
        leaf
    }

    fn new_inner(&mut self) -> Handle {
        let inner = self.heap.alloc_block(INNER_BYTES);
        self.inner_mut(inner).clear();
        inner
    }

    /// The slot of the first element that does not stand before a point, or the one behind the last of a leaf; and how many stand before it, if asked.
    #[inline]
    fn locate<const RANK: bool>(&self, table: &Table, point: Point<'_>) -> Option<(Path, u64)> {
        let mut node = self.root?;
        let mut steps = [(node, 0); HEIGHT_MAX];
        let mut rank = 0;
        for step in &mut steps[..self.height] {
            let inner = self.inner(node);
            let at = child_at(inner, table, point);
            *step = (node, at as u16);
            if RANK {
                rank += inner.below_first(at);
            }
            node = inner.node(at);
        }
        let slot = slot_at(self.leaf(node), table, point);
        Some((Path { steps, leaf: node, slot }, rank + slot as u64))
    }

    /// Where an element is.
    fn path_of(&self, table: &Table, order: u64, member: &[u8], handle: Handle, old: Option<Handle>) -> Path {
        let found = self.locate::<false>(table, Point::Pair { order, member, old });
        let (path, _) = found.expect("there is a root");
        let leaf = self.leaf(path.leaf);
        assert!(path.slot < leaf.len() && leaf.handle(path.slot) == handle, "every element is in the tree");
        path
    }

    /// The element of a rank, which must be one.
    fn select(&self, rank: u64) -> Path {
        let mut node = self.root.expect("there are elements");
        let mut steps = [(node, 0); HEIGHT_MAX];
        let mut left = rank;
        for step in &mut steps[..self.height] {
            let inner = self.inner(node);
            let mut at = 0;
            while left >= inner.below(at) {
                left -= inner.below(at);
                at += 1;
            }
            *step = (node, at as u16);
            node = inner.node(at);
        }
        Path { steps, leaf: node, slot: left as usize }
    }

    /// One more or one less below all nodes of a path.
    #[inline]
    fn count(&mut self, path: &Path, by: i64) {
        for (node, at) in &path.steps[..self.height] {
            let mut inner = self.inner_mut(*node);
            let below = inner.view().below((*at).into());
            inner.set_below((*at).into(), below.wrapping_add_signed(by));
        }
    }

    /// The first element of a leaf has become another: tells the node that names it.
    fn tell_first(&mut self, table: &Table, path: &Path, first: Handle) {
        for (node, at) in path.steps[..self.height].iter().rev() {
            if *at > 0 {
                return self.inner_mut(*node).set_first((*at).into(), order_of(table, first), first);
            }
        }
    }

    /// The leaf of a path is full: moves some of its elements to a sibling, or splits it, or a node above that is full.
    #[cold]
    fn make_room(&mut self, table: &Table, path: &Path) {
        let Some(level) = self.height.checked_sub(1) else {
            return self.split_leaf(table, path);
        };
        let (node, at) = (path.steps[level].0, usize::from(path.steps[level].1));
        let inner = self.inner(node);
        let room = |at: usize| if inner.below(at) <= SIBLING_MAX as u64 { inner.below(at) } else { u64::MAX };
        let before = if at > 0 { room(at - 1) } else { u64::MAX };
        let behind = if at + 1 < inner.len() { room(at + 1) } else { u64::MAX };
        match before.min(behind) {
            u64::MAX => self.split_leaf(table, path),
            _ if before < behind => self.even_leaves(table, node, at - 1),
            _ => self.even_leaves(table, node, at),
        }
    }

    /// Makes two leaves of the full one of a path. Elements that come in order leave full ones behind.
    fn split_leaf(&mut self, table: &Table, path: &Path) {
        let level = self.height.checked_sub(1);
        if let Some(level) = level
            && self.inner(path.steps[level].0).len() == INNER_SLOTS
        {
            return self.split_inner(path, level);
        }
        let is_last = path.steps[..self.height]
            .iter()
            .all(|(node, at)| usize::from(*at) + 1 == self.inner(*node).len());
        let appends = is_last && path.slot == LEAF_SLOTS;
        let kept = if appends { LEAF_SLOTS - 1 } else { LEAF_SLOTS.div_ceil(2) };
        let copy = *self.leaf(path.leaf).bytes();
        let from = Leaf::new(&copy);
        let right = self.new_leaf(from.scale());
        self.leaf_mut(right).insert_from(0, from, kept..LEAF_SLOTS);
        self.leaf_mut(path.leaf).remove(kept..LEAF_SLOTS);
        let first = from.handle(kept);
        let first_order = order_of(table, first);
        if appends {
            // What comes next probably spans what the leaf before it does.
            let start = order_of(table, from.handle(0));
            self.rescale(
                table,
                right,
                Scale::spanning(first_order, first_order.saturating_add(first_order - start)),
            );
        } else {
            self.refine(table, right);
        }
        self.refine(table, path.leaf);
        let child = Child { order: first_order, first, node: right, below: (LEAF_SLOTS - kept) as u64 };
        self.add_sibling(path, level, child, kept as u64);
    }

    /// Makes two nodes of a full inner one, if there is room for it above; else makes room there.
    fn split_inner(&mut self, path: &Path, level: usize) {
        let above = level.checked_sub(1);
        if let Some(above) = above
            && self.inner(path.steps[above].0).len() == INNER_SLOTS
        {
            return self.split_inner(path, above);
        }
        let node = path.steps[level].0;
        let right = self.new_inner();
        let copy = *self.inner(node).bytes();
        let from = Inner::new(&copy);
        let kept = from.len() / 2;
        let mut to = self.inner_mut(right);
        for at in kept..from.len() {
            to.insert(at - kept, from.child(at));
        }
        let below = to.view().below_first(from.len() - kept);
        self.inner_mut(node).remove(kept..from.len());
        let below_kept = from.below_first(kept);
        self.add_sibling(path, above, Child { node: right, below, ..from.child(kept) }, below_kept);
    }

    /// Puts `child` behind the node of a path below `level`, of which `below` members are left; above the root there is none yet.
    fn add_sibling(&mut self, path: &Path, level: Option<usize>, child: Child, below: u64) {
        if let Some(level) = level {
            let (node, at) = (path.steps[level].0, usize::from(path.steps[level].1));
            let mut inner = self.inner_mut(node);
            inner.set_below(at, below);
            return inner.insert(at + 1, child);
        }
        let old = self.root.expect("what is split is there");
        let root = self.new_inner();
        let mut inner = self.inner_mut(root);
        inner.insert(0, Child { node: old, below, ..child });
        inner.insert(1, child);
        assert!(self.height < HEIGHT_MAX);
        (self.root, self.height) = (Some(root), self.height + 1);
    }

    /// Gives the children `at` and `at + 1` of `node`, two leaves, equally many elements.
    fn even_leaves(&mut self, table: &Table, node: Handle, at: usize) {
        let inner = self.inner(node);
        let (left, right) = (inner.node(at), inner.node(at + 1));
        let (left_len, right_len) = (self.leaf(left).len(), self.leaf(right).len());
        let wanted = (left_len + right_len) / 2;
        let same_scale = self.leaf(left).scale() == self.leaf(right).scale();
        if wanted < left_len {
            let copy = *self.leaf(left).bytes();
            self.leaf_mut(left).remove(wanted..left_len);
            self.leaf_mut(right).insert_from(0, Leaf::new(&copy), wanted..left_len);
        } else {
            let copy = *self.leaf(right).bytes();
            let moving = wanted - left_len;
            self.leaf_mut(right).remove(0..moving);
            self.leaf_mut(left).insert_from(left_len, Leaf::new(&copy), 0..moving);
        }
        for leaf in [left, right] {
            if same_scale {
                self.refine(table, leaf);
            } else {
                self.rescale_fitting(table, leaf);
            }
        }
        let first = self.leaf(right).handle(0);
        let mut inner = self.inner_mut(node);
        inner.set_below(at, wanted as u64);
        inner.set_below(at + 1, (left_len + right_len - wanted) as u64);
        inner.set_first(at + 1, order_of(table, first), first);
    }

    /// The leaf of a path, not the root, has few elements: merges it with a sibling, or gives it some of its.
    #[cold]
    fn fill_leaf(&mut self, table: &Table, path: &Path) {
        let level = self.height - 1;
        let (node, at) = (path.steps[level].0, usize::from(path.steps[level].1));
        let at = if at + 1 < self.inner(node).len() { at } else { at - 1 };
        let (left, right) = (self.inner(node).node(at), self.inner(node).node(at + 1));
        let (left_len, right_len) = (self.leaf(left).len(), self.leaf(right).len());
        if left_len == 0 {
            self.tell_first(table, path, self.leaf(right).handle(0));
        }
        if left_len + right_len > LEAF_FILL {
            return self.even_leaves(table, node, at);
        }
        let copy = *self.leaf(right).bytes();
        let from = Leaf::new(&copy);
        let same_scale = from.scale() == self.leaf(left).scale();
        self.leaf_mut(left).insert_from(left_len, from, 0..right_len);
        if !same_scale {
            self.rescale_fitting(table, left);
        }
        self.remove_child(path, level, at + 1, right, (left_len + right_len) as u64);
    }

    /// Removes the child at `at` of the node of a path at `level`: it has gone into the one before, which now has `below` elements.
    fn remove_child(&mut self, path: &Path, level: usize, at: usize, child: Handle, below: u64) {
        self.heap.free(child);
        let node = path.steps[level].0;
        let mut inner = self.inner_mut(node);
        inner.remove(at..at + 1);
        inner.set_below(at - 1, below);
        let len = inner.view().len();
        if level == 0 {
            if len == 1 {
                (self.root, self.height) = (Some(self.inner(node).node(0)), self.height - 1);
                self.heap.free(node);
            }
        } else if len < INNER_MIN {
            self.fill_inner(path, level);
        }
    }

    /// An inner node of a path, not the root, has few children: merges it with a sibling, or gives it some of its.
    fn fill_inner(&mut self, path: &Path, level: usize) {
        let (above, at) = (path.steps[level - 1].0, usize::from(path.steps[level - 1].1));
        let at = if at + 1 < self.inner(above).len() { at } else { at - 1 };
        let (left, right) = (self.inner(above).child(at).node, self.inner(above).child(at + 1));
        let mut children: Vec<Child> = Vec::with_capacity(2 * INNER_SLOTS);
        children.extend((0..self.inner(left).len()).map(|at| self.inner(left).child(at)));
        let left_len = children.len();
        children.extend((0..self.inner(right.node).len()).map(|at| self.inner(right.node).child(at)));
        // What a node does not say of its first child, the one above it says.
        (children[left_len].order, children[left_len].first) = (right.order, right.first);
        let merged = children.len() <= INNER_FILL;
        let kept = if merged { children.len() } else { children.len() / 2 };
        self.set_children(left, &children[..kept]);
        let below = |children: &[Child]| children.iter().map(|child| child.below).sum();
        if merged {
            return self.remove_child(path, level - 1, at + 1, right.node, below(&children));
        }
        self.set_children(right.node, &children[kept..]);
        let mut inner = self.inner_mut(above);
        inner.set_below(at, below(&children[..kept]));
        inner.set_below(at + 1, below(&children[kept..]));
        inner.set_first(at + 1, children[kept].order, children[kept].first);
    }

    fn set_children(&mut self, node: Handle, children: &[Child]) {
        let mut inner = self.inner_mut(node);
        inner.clear();
        for (at, child) in children.iter().enumerate() {
            inner.insert(at, *child);
        }
    }

    /// Gives a leaf another scale if that tells its scores apart much better. Most calls look at no element.
    fn refine(&mut self, table: &Table, handle: Handle) {
        let leaf = self.leaf(handle);
        let len = leaf.len();
        if len < 2 {
            return;
        }
        let span = leaf.coarse(len - 1) - leaf.coarse(0);
        let outside = leaf.not_above(0).max(len - leaf.below(u16::MAX));
        if span >= COARSE_SPAN_MIN && outside <= COARSE_OUTSIDE_MAX {
            return;
        }
        let wanted = self.fitting(table, handle);
        let scale = leaf.scale();
        // A sixteenth of the step, or what lies far outside.
        if wanted.shift + 4 <= scale.shift || outside > COARSE_OUTSIDE_MAX && wanted != scale {
            self.rescale(table, handle, wanted);
        }
    }

    fn rescale_fitting(&mut self, table: &Table, handle: Handle) {
        if self.leaf(handle).len() > 0 {
            self.rescale(table, handle, self.fitting(table, handle));
        }
    }

    /// The scale that fits the elements of a leaf that is not empty.
    fn fitting(&self, table: &Table, handle: Handle) -> Scale {
        let leaf = self.leaf(handle);
        Scale::spanning(order_of(table, leaf.handle(0)), order_of(table, leaf.handle(leaf.len() - 1)))
    }

    fn rescale(&mut self, table: &Table, handle: Handle, scale: Scale) {
        let mut leaf = LeafMut::new(self.heap.block_mut(handle));
        leaf.set_scale(scale);
        let len = leaf.view().len();
        for slot in 0..len {
            table.prefetch(leaf.view().handle(slot));
        }
        for slot in 0..len {
            let coarse = scale.coarse(order_of(table, leaf.view().handle(slot)));
            leaf.set_coarse(slot, coarse);
        }
    }
}

/// Order of the score of an element.
#[inline(always)]
fn order_of(table: &Table, handle: Handle) -> u64 {
    order(score_of(table.element(handle)))
}

/// The child below which a point lies: behind all children that begin before it or there.
#[inline]
fn child_at(inner: Inner<'_>, table: &Table, point: Point<'_>) -> usize {
    let (low, high) = match point {
        Point::Order(bound) => return inner.orders_before(bound) - 1,
        Point::Pair { order, .. } => {
            let low = inner.orders_before(order);
            if low == inner.len() || inner.order(low) > order {
                return low - 1;
            }
            (low, inner.orders_before(order + 1))
        }
        Point::Lex(_) => (1, inner.len()),
    };
    partition(low..high, |at| point.is_behind(table, inner.first(at), true)) - 1
}

/// The first slot of a leaf that is not before a point.
#[inline]
fn slot_at(leaf: Leaf<'_>, table: &Table, point: Point<'_>) -> usize {
    let (Point::Order(order) | Point::Pair { order, .. }) = point else {
        return partition(0..leaf.len(), |slot| point.is_behind(table, leaf.handle(slot), false));
    };
    let coarse = leaf.scale().coarse(order);
    let slots = leaf.below(coarse)..leaf.not_above(coarse);
    partition(slots, |slot| point.is_behind(table, leaf.handle(slot), false))
}

/// The first of some places for which `before` is false, or the one behind the last.
#[inline]
fn partition(places: Range<usize>, mut before: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (places.start, places.end);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Cuts into as few parts as possible of at most `most`, of nearly the same length.
fn evenly<T>(items: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let parts = items.len().div_ceil(most);
    (0..parts).map(move |part| &items[items.len() * part / parts..items.len() * (part + 1) / parts])
}

/// A walk over neighbours in the order of a set.
pub(super) struct Walk<'a> {
    nodes: &'a Nodes,
    table: &'a Table,
    /// Where the next element is.
    path: Option<Path>,
    left: u64,
    reverse: bool,
}

impl Walk<'_> {
    /// Asks for the elements of the leaf that the walk has come to, as many as it will take.
    fn ask_for_leaf(&mut self) {
        let Some(path) = &self.path else { return };
        let leaf = self.nodes.leaf(path.leaf);
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(LEAF_SLOTS);
        let slots = if self.reverse {
            (path.slot + 1).saturating_sub(wanted)..path.slot + 1
        } else {
            path.slot..leaf.len().min(path.slot + wanted)
        };
        for slot in slots {
            self.table.prefetch(leaf.handle(slot));
        }
    }

    /// Goes to the next slot.
    #[inline]
    fn advance(&mut self) {
        let Some(path) = &mut self.path else { return };
        let inside =
            if self.reverse { path.slot > 0 } else { path.slot + 1 < self.nodes.leaf(path.leaf).len() };
        if inside {
            path.slot = if self.reverse { path.slot - 1 } else { path.slot + 1 };
        } else {
            self.next_leaf();
        }
    }

    #[cold]
    fn next_leaf(&mut self) {
        let (nodes, reverse) = (self.nodes, self.reverse);
        let Some(path) = &mut self.path else { return };
        let turn = path.steps[..nodes.height].iter().rposition(|(node, at)| {
            if reverse { *at > 0 } else { usize::from(*at) + 1 < nodes.inner(*node).len() }
        });
        let turn = turn.expect("there are more elements");
        let (node, at) = path.steps[turn];
        let at = if reverse { at - 1 } else { at + 1 };
        path.steps[turn].1 = at;
        let mut node = nodes.inner(node).node(at.into());
        for step in &mut path.steps[turn + 1..nodes.height] {
            let inner = nodes.inner(node);
            let at = if reverse { inner.len() - 1 } else { 0 };
            *step = (node, at as u16);
            node = inner.node(at);
        }
        path.leaf = node;
        path.slot = if reverse { nodes.leaf(node).len() - 1 } else { 0 };
        self.ask_for_leaf();
    }
}

impl Iterator for Walk<'_> {
    type Item = Handle;

    #[inline]
    fn next(&mut self) -> Option<Handle> {
        self.left = self.left.checked_sub(1)?;
        let path = self.path.as_ref()?;
        let handle = self.nodes.leaf(path.leaf).handle(path.slot);
        if self.left > 0 {
            self.advance();
        }
        Some(handle)
    }
}

#[cfg(test)]
impl Nodes {
    /// Checks every rule of the structure; the elements in order.
    pub(super) fn check(&self, table: &Table) -> Vec<Handle> {
        let mut handles = Vec::new();
        if let Some(root) = self.root {
            self.check_node(table, root, 0, &mut handles);
        }
        handles
    }

    fn check_node(&self, table: &Table, node: Handle, level: usize, handles: &mut Vec<Handle>) {
        if level == self.height {
            let leaf = self.leaf(node);
            assert!(leaf.len() > 0);
            for slot in 0..leaf.len() {
                let handle = leaf.handle(slot);
                assert_eq!(leaf.coarse(slot), leaf.scale().coarse(order_of(table, handle)));
                handles.push(handle);
            }
            assert_eq!(leaf.below(u16::MAX).max(leaf.not_above(u16::MAX)), leaf.len());
            return;
        }
        let inner = self.inner(node);
        assert!(inner.len() >= 2);
        for at in 0..inner.len() {
            let before = handles.len();
            self.check_node(table, inner.node(at), level + 1, handles);
            assert_eq!(inner.below(at), (handles.len() - before) as u64);
            if at > 0 {
                assert_eq!(inner.first(at), handles[before]);
                assert_eq!(inner.order(at), order_of(table, handles[before]));
            }
        }
    }
}
