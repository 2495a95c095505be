//! A shard: latch, inbox, keyspace, expiry, eviction, journal.
