//! The settings that decide by which encoding the peers would keep a collection, and how streams, lists and sketches are packed.

/// Limits of the data types, by the names of their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub hash_max_listpack_entries: u64,
    /// Bytes of a field or value.
    pub hash_max_listpack_value: u64,
    /// Bytes (-1: 4 KiB to -5: 64 KiB) or elements (above 0) of a list's block.
    pub list_max_listpack_size: i32,
    /// Blocks at each end of a list that are not compressed; 0: none is.
    pub list_compress_depth: u32,
    pub set_max_intset_entries: u64,
    pub set_max_listpack_entries: u64,
    /// Bytes of a member.
    pub set_max_listpack_value: u64,
    pub zset_max_listpack_entries: u64,
    /// Bytes of a member.
    pub zset_max_listpack_value: u64,
    /// Bytes of a sparse HyperLogLog, above which it becomes dense.
    pub hll_sparse_max_bytes: u64,
    /// Bytes of a stream's block; 0: no bound.
    pub stream_node_max_bytes: u64,
    /// Entries of a stream's block; 0: no bound.
    pub stream_node_max_entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            list_max_listpack_size: -2,
            list_compress_depth: 0,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            hll_sparse_max_bytes: 3000,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
        }
    }
}
