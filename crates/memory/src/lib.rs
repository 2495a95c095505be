//! The data island: arena, per-shard heap, entries, index, compaction.
