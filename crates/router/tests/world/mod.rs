//! Real shards, engines and mailboxes without sockets, for the tests of this crate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::{Arena, IndexHint};
use router::engine::Engine;
use router::mailbox::Mailbox;
use router::published::Published;
use router::table::{Run, Table};
use router::task::{Surroundings, Task};
use shard::data::{Hints, ShardData};
use shard::exec::Layout;
use shard::keyspace::Storage;
use shard::latch::{Pace, Shards};
use shard::plan::Plan;
use shard::settings::Settings;
use stdx::hash::Seed;
use stdx::rng::Rng;

pub const SHARDS: u16 = 16;
pub const DATABASES: u16 = 2;
pub const NOW_MS: u64 = 1_800_000_000_000;

/// A test that hangs is a test that fails: nobody may wait this long for a reply.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Real shards and mailboxes without a server around them.
pub struct World {
    pub shards: Arc<Shards<ShardData>>,
    pub layout: Layout,
    pub hints: Hints,
    pub published: Arc<Published>,
    pub mailboxes: Arc<[Mailbox<Box<Task>>]>,
    pub table: Table<()>,
}

impl World {
    pub fn new(threads: usize) -> Self {
        let arena = Arena::reserve(1 << 36).expect("the address space has room");
        let seed: &'static Seed = Box::leak(Box::new(Seed::new(7)));
        let hints: Hints = (0..SHARDS * DATABASES).map(|_| Arc::new(IndexHint::new(arena))).collect();
        let make = |id| ShardData::new(id, DATABASES, Storage { arena, seed }, Arc::clone(&hints));
        let pace = Pace::new(ticks, 1000);
        Self {
            shards: Arc::new(Shards::new(usize::from(SHARDS), pace, make)),
            layout: Layout { seed, mask: SHARDS - 1, databases: DATABASES },
            published: Arc::new(Published::new(SHARDS, DATABASES)),
            mailboxes: (0..threads).map(|_| Mailbox::new()).collect(),
            table: Table::new(commands::FAMILIES, &[]),
            hints,
        }
    }

    pub fn engine(&self, thread: u16, seed: u64, journaling: bool) -> Engine {
        let surroundings = Surroundings {
            layout: self.layout,
            settings: Arc::new(Settings::default()),
            published: Arc::clone(&self.published),
            hints: Arc::clone(&self.hints),
            outbound: &router::outbound::Nobody,
            now_ms: NOW_MS,
            ticks: || 0,
            touch: true,
            journaling,
        };
        let mailboxes = Arc::clone(&self.mailboxes);
        // The threads of this test never sleep, so that nobody has to be woken.
        let home = Arc::new(move |task: Box<Task>| {
            let _ = mailboxes[usize::from(task.ticket.thread)].push(task);
        });
        Engine::new(thread, Arc::clone(&self.shards), surroundings, Rng::new(seed), home)
    }

    #[allow(dead_code, reason = "not every test runs the commands of the table")]
    pub fn plan(&self, name: &[u8]) -> (&'static command::Spec, Plan) {
        let entry = self.table.find(name).expect("the command is there");
        match &entry.run {
            Run::Data(plan) => (entry.spec, *plan),
            Run::Session(()) => panic!("not a data command"),
        }
    }
}

/// Nanoseconds of a clock that never goes back.
pub fn ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// `DARTER_SEED`, or one of chance; printed.
pub fn seed() -> u64 {
    let seed = std::env::var("DARTER_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) ^ 0x5eed);
    println!("DARTER_SEED={seed}");
    seed
}
