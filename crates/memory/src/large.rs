//! A collection that has memory of its own: pages that hold its elements alone, so that it moves between keys by its address and is freed
//! page by page, whatever is in them. Not what such a collection is: that is `types`'.
//!
//! ```text
//! entry of Kind::Large    value: type byte 1 | address 8  -->  Box<dyn Large>  -->  heaps, indexes, ...
//! ```

#![allow(unsafe_code, reason = "the island of data: an entry keeps the address of what it owns")]

use std::any::Any;
use std::ptr;

/// What an entry of [`crate::Kind::Large`] owns.
pub trait Large: Any + Send {
    /// Bytes of the arena that it occupies. O(1).
    fn bytes(&self) -> u64;

    /// Gives back at most about `pages_max` pages, whatever is in them: for a collection that nobody will use again. True when nothing
    /// is left; until then it must not be used for anything else.
    fn release(&mut self, pages_max: usize) -> bool;

    /// A copy with memory of its own. O(elements).
    fn duplicate(&self) -> Box<dyn Large>;
}

impl dyn Large {
    /// The collection, if it is a `T`.
    #[inline]
    pub fn downcast_ref<T: Large>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn downcast_mut<T: Large>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// Bytes of an address in an entry.
const ADDRESS_BYTES: usize = size_of::<usize>();

/// Length of the value of an entry of [`crate::Kind::Large`].
pub(crate) const LARGE_VALUE_BYTES: usize = 1 + ADDRESS_BYTES;

/// The value of an entry that now owns `large`; `tag` is its type byte.
pub(crate) fn into_raw(tag: u8, large: Box<dyn Large>) -> [u8; LARGE_VALUE_BYTES] {
    let address = Box::into_raw(Box::new(large)).expose_provenance();
    let mut raw = [0; LARGE_VALUE_BYTES];
    raw[0] = tag;
    raw[1..].copy_from_slice(&address.to_le_bytes());
    raw
}

/// # Safety
/// `raw` must come from [`into_raw`] and not be used again.
pub(crate) unsafe fn from_raw(raw: &[u8]) -> Box<dyn Large> {
    // SAFETY: the caller vouches that the address is owned and given up.
    *unsafe { Box::from_raw(address(raw)) }
}

/// # Safety
/// `raw` must come from [`into_raw`], and what it owns must stay unchanged for `'a`.
pub(crate) unsafe fn borrow_raw<'a>(raw: &[u8]) -> &'a dyn Large {
    // SAFETY: the caller vouches for the address.
    unsafe { (*address(raw)).as_ref() }
}

/// # Safety
/// `raw` must come from [`into_raw`], and nobody else may use what it owns for `'a`.
pub(crate) unsafe fn borrow_raw_mut<'a>(raw: &[u8]) -> &'a mut dyn Large {
    // SAFETY: the caller vouches for the address.
    unsafe { (*address(raw)).as_mut() }
}

fn address(raw: &[u8]) -> *mut Box<dyn Large> {
    let address =
        raw[1..].try_into().expect("the entry of a large collection holds a type byte and an address");
    ptr::with_exposed_provenance_mut(usize::from_le_bytes(address))
}

#[cfg(test)]
#[path = "large_tests.rs"]
mod tests;
