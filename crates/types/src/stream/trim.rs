//! Trimming a stream from its start: whole nodes as the peers would have them, and single entries if it shall be exact.

use super::block::{self, Cursor};
use super::{Id, Place, StreamMut};

/// How far a stream is trimmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimTo {
    /// To this many entries.
    Len(u64),
    /// To entries with this id or a higher one.
    MinId(Id),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    pub to: TrimTo,
    /// Whole nodes only.
    pub approximate: bool,
    /// Entries removed at most, 0: any number; a node that would exceed it stays.
    pub limit: u64,
}

impl StreamMut<'_, '_> {
    /// Removes entries from the start; how many. O(nodes removed, and the entries of one).
    pub fn trim(&mut self, trim: &Trim) -> u64 {
        let mut removed = 0;
        while let Some(first) = self.read().0.first() {
            let len = self.read().head().len;
            if matches!(trim.to, TrimTo::Len(max) if len <= max) {
                break;
            }
            let node = self.node(first);
            if trim.limit > 0 && removed + node.live > trim.limit {
                break;
            }
            let whole = match trim.to {
                TrimTo::Len(max) => len - node.live >= max,
                TrimTo::MinId(id) => node.last < id,
            };
            if whole {
                for _ in 0..node.blocks {
                    let first = self.read().0.first().expect("the node has so many blocks");
                    self.remove_block(first);
                }
                self.count_removed(node.live);
                removed += node.live;
            } else {
                if !trim.approximate {
                    removed += self.trim_within(first, &node, trim.to);
                }
                break;
            }
        }
        removed
    }

    /// The node that begins with a block.
    fn node(&self, first: Place) -> Node {
        let source = self.read().0;
        let mut node = Node { live: 0, blocks: 0, last: Id::ZERO };
        let mut place = Some(first);
        while let Some(at) = place {
            let bytes = source.block(at);
            if node.blocks > 0 && block::starts_node(bytes) {
                break;
            }
            node.live += block::live(bytes) as u64;
            node.blocks += 1;
            node.last = block::last(bytes);
            place = source.after(at);
        }
        node
    }

    /// Removes entries of the first node, not all of them.
    fn trim_within(&mut self, first: Place, node: &Node, to: TrimTo) -> u64 {
        let len = self.read().head().len;
        let mut removed = 0;
        let mut place = Some(first);
        for _ in 0..node.blocks {
            let Some(at) = place else { break };
            let mut cursor = Cursor::new(self.block_mut(at));
            let mut stopped = false;
            while let Some(found) = cursor.next(self.block_mut(at)) {
                stopped = match to {
                    TrimTo::Len(max) => len - removed <= max,
                    TrimTo::MinId(id) => found.id >= id,
                };
                if stopped {
                    break;
                }
                if !found.removed {
                    block::mark_removed(self.block_mut(at), found.at);
                    removed += 1;
                }
            }
            place = self.read().0.after(at);
            // The peers, too, keep a node without entries if one that was removed lies behind the bound.
            if !stopped && node.blocks > 1 && block::live(self.block_mut(at)) == 0 {
                self.remove_block(at);
                // In a packed stream what follows has moved here.
                place = self.read().0.first();
            }
            if stopped {
                break;
            }
        }
        self.count_removed(removed);
        removed
    }

    fn count_removed(&mut self, entries: u64) {
        let mut head = self.read().head();
        head.len -= entries;
        self.set_head(head);
    }
}

/// A node of the peers.
struct Node {
    live: u64,
    blocks: usize,
    /// Its last id, of an entry or a removed one.
    last: Id,
}
