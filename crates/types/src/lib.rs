//! Values: what a key can hold. Knows no key, clock or protocol: time, chance and limits come in as arguments.
//!
//! A collection is packed into the value of its key's entry while it is small, and has memory of its own ([`memory::Large`]) when it is large.
//! Commands read it through a [`View`] and change it through a [`Slot`]; each type has its own module with what can be asked of both.

pub mod bits;
mod form;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
mod limits;
pub mod list;
pub mod packed;
pub mod set;
mod slot;
pub mod stream;
pub mod table;
pub mod tree;
mod volatile;
pub mod zset;

pub use form::{Form, Type};
pub use limits::Limits;
pub use slot::{Slot, View};
pub use volatile::{Expires, Volatile};

use memory::Arena;
use stdx::hash::Seed;

/// What all values of a process share.
#[derive(Clone, Copy)]
pub struct Storage {
    /// Where all memory comes from.
    pub arena: &'static Arena,
    /// Seed of the hashes of keys and elements.
    pub seed: &'static Seed,
}
