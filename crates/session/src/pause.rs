//! CLIENT PAUSE: until when commands wait, and which.

use command::Flags;
use router::table::Entry;

/// A pause of clients; each thread has its own copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Unix time in ms; commands go on from then on.
    pub until_ms: u64,
    /// Every command waits, not only writes.
    pub all: bool,
}

impl Pause {
    /// What INFO calls it at `now_ms`.
    pub fn action(&self, now_ms: u64) -> &'static str {
        match (self.until_ms > now_ms, self.all) {
            (false, _) => "none",
            (true, true) => "all",
            (true, false) => "write",
        }
    }

    /// Whether a command waits while the pause lasts. CLIENT itself never does, so that UNPAUSE gets through.
    pub fn stops<S>(&self, entry: &Entry<S>, in_transaction: bool) -> bool {
        if entry.full_name.starts_with("client") {
            return false;
        }
        if self.all {
            return true;
        }
        let writes = entry.spec.flags.any(Flags::WRITE.with(Flags::MAY_REPLICATE));
        if in_transaction { entry.spec.name == "EXEC" } else { writes }
    }
}
