//! What is to be done, all options resolved: the only thing that running knows of the command line.

use std::time::Duration;

use reactor::EngineKind;

use crate::client::{Address, Login};
use crate::pace::Pace;
use crate::record::Setup;
use crate::template::Context;
use crate::workload::Test;

/// A plan for one server or cluster. Tests run one after the other.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What tables call the server; nothing for its address.
    pub name: Option<String>,
    pub address: Address,
    pub login: Login,
    /// At least 1.
    pub threads: usize,
    /// Of all threads together; at least as many as threads.
    pub connections: usize,
    /// Requests in flight per connection, in rounds of the test; at least 1.
    pub pipeline: usize,
    /// Ends each test after so many requests.
    pub requests: Option<u64>,
    /// Ends each test after so long, not counting the warm-up. With neither a test runs until it is interrupted.
    pub duration: Option<Duration>,
    pub warmup: Duration,
    pub pace: Pace,
    /// A ramp ends when p99 stays above this.
    pub p99_max: Option<Duration>,
    pub seed: u64,
    /// The seed was given: each connection's stream, and how many requests of it are sent, follow from it alone.
    pub seeded: bool,
    /// False to connect anew after each reply, or pipeline of replies.
    pub keep_alive: bool,
    pub engine: EngineKind,
    pub cluster: bool,
    pub replicas: Replicas,
    pub context: Context,
    pub tests: Vec<Test>,
    /// Writes the first so many keys of the range before the first test.
    pub populate: Option<u64>,
    /// Not asked for its INFO while tests run.
    pub quiet_server: bool,
    /// What records say about all this; `workload` and the rate are filled in here, the test is not.
    pub setup: Setup,
}

/// Which nodes serve reads, of a cluster or of a primary with replicas.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Replicas {
    /// Primaries.
    No,
    /// Replicas.
    Yes,
    /// Replicas, or primaries if there are none.
    IfAny,
    /// Both.
    All,
}
