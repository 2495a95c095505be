//! The settings that command functions look at; each thread has its own copy, replaced as a whole by CONFIG SET.

pub use types::Limits;

use crate::notify::Class;

/// Limits and policies of the data side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `proto-max-bulk-len`: the longest string value, in bytes.
    pub proto_max_bulk_len: u64,
    pub policy: Policy,
    /// `lfu-log-factor`
    pub lfu_log_factor: u32,
    /// `lfu-decay-time`, in minutes
    pub lfu_decay_time: u32,
    pub lazyfree_user_flush: bool,
    /// `notify-keyspace-events`: the events that are told; none while nobody could hear them.
    pub notify: Class,
    /// `tracking-table-max-keys`: keys with readers, in all shards; 0 is no limit.
    pub tracking_keys_max: u64,
    /// Of the data types.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            proto_max_bulk_len: 512 * 1024 * 1024,
            policy: Policy::NoEviction,
            lfu_log_factor: 10,
            lfu_decay_time: 1,
            lazyfree_user_flush: true,
            notify: Class::NONE,
            tracking_keys_max: 1_000_000,
            limits: Limits::default(),
        }
    }
}

/// `maxmemory-policy`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    NoEviction,
    AllkeysLru,
    AllkeysLfu,
    AllkeysRandom,
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
}

impl Policy {
    /// The policy with this name of `maxmemory-policy`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "noeviction" => Self::NoEviction,
            "allkeys-lru" => Self::AllkeysLru,
            "allkeys-lfu" => Self::AllkeysLfu,
            "allkeys-random" => Self::AllkeysRandom,
            "volatile-lru" => Self::VolatileLru,
            "volatile-lfu" => Self::VolatileLfu,
            "volatile-random" => Self::VolatileRandom,
            "volatile-ttl" => Self::VolatileTtl,
            _ => return None,
        })
    }

    /// Whether entries carry metadata of their use under this policy.
    #[inline]
    pub const fn keeps_access(self) -> bool {
        self.is_lru() || self.is_lfu()
    }

    pub const fn is_lru(self) -> bool {
        matches!(self, Self::AllkeysLru | Self::VolatileLru)
    }

    pub const fn is_lfu(self) -> bool {
        matches!(self, Self::AllkeysLfu | Self::VolatileLfu)
    }

    /// Whether only keys with a deadline are evicted.
    pub const fn is_volatile(self) -> bool {
        matches!(self, Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl)
    }
}
