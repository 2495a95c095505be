//! The data island: arena, per-shard heap, entries, index, compaction.
//!
//! - [`Arena`]: the process's memory. It hands out pages (4 to 64 KiB) and runs (any multiple of 4 KiB).
//! - [`Handle`]: a place in the arena, in 39 bits.
//! - [`EntryRef`], [`EntryParts`]: the bytes of an entry.
//! - [`Index`]: from a key's hash to the handle of its entry; [`IndexHint`]: the same for other threads, to prefetch.
//! - [`Heap`]: the entries of one shard and database; compaction.
//! - [`BigRef`]: a shared value of more than 16 KiB.
//! - [`Large`]: a collection with pages of its own.
//!
//! The unsafe code here is checked by randomized tests against models, which also run under AddressSanitizer (`--cfg darter_asan` poisons
//! what is free, see `poison.rs`) and, on small arenas, under Miri:
//! `MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation" cargo +nightly miri test -p memory heap:: big::`

mod arena;
mod big;
mod bins;
mod block;
mod compact;
mod entries;
mod entry;
mod growth;
mod handle;
mod heap;
mod index;
mod large;
mod pages;
mod poison;
#[cfg(test)]
mod test_rng;

pub use arena::{ARENA_BYTES_MAX, Arena, MemoryMap};
pub use big::{BigRef, INLINE_BYTES_MAX};
pub use compact::Step;
pub use entries::Entries;
pub use entry::{EntryMut, EntryParts, EntryRef, Integer, Kind};
pub use growth::GrowthOptions;
pub use handle::{GRANULE_BYTES, Handle};
pub use heap::{Heap, Meta};
pub use index::{Index, IndexHint, Position};
pub use large::Large;
pub use pages::{PAGE_BYTES, PageCounts};
