//! From a set-up to a running server: the shards, one thread with its event loop per core, and their end.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use memory::{GrowthOptions, IndexHint};
use reactor::{EngineKind, Options, Reactor, clock};
use router::engine::Engine;
use router::mailbox::Mailbox;
use router::published::Published;
use router::table::Table;
use router::task::Surroundings;
use shard::data::{Hints, ShardData};
use shard::exec::Layout;
use shard::keyspace::Storage;
use shard::latch::{Pace, Shards};
use stdx::hash::Seed;
use stdx::rng::Rng;

use crate::commandlog::Numbers;
use crate::config::Config;
use crate::latency::Latency;
use crate::listen::Listeners;
use crate::pubsub::Directory;
use crate::shared::{Message, Peer, Shared, Start};
use crate::stats::{Counter, ThreadStats};
use crate::worker::Worker;

/// Everything a server needs to start.
pub struct Setup {
    pub threads: u16,
    /// A power of two.
    pub shards: u16,
    pub databases: u16,
    pub io_engine: EngineKind,
    /// Cores to pin the threads to, one each; empty leaves them to the scheduler.
    pub cores: Vec<usize>,
    /// Bound and listening.
    pub listeners: Listeners,
    pub config: Arc<Config>,
    pub start: Start,
    /// Called once, when every thread has its event loop and clients may come.
    pub ready: Box<dyn Fn() + Send + Sync>,
}

/// Builds a server's shared state.
pub fn prepare(setup: &Setup) -> Result<&'static Shared, Box<dyn std::error::Error>> {
    assert!(setup.shards.is_power_of_two(), "the number of shards is a power of two");
    let table = Table::new(commands::FAMILIES, crate::commands::FAMILIES);
    let catalog = crate::rights::catalog(&table, setup.databases);
    let users = Mutex::new(crate::rights::at_start(&setup.config, &catalog)?);
    let arena = memory::Arena::reserve(memory::ARENA_BYTES_MAX)?;
    arena.start_helper(GrowthOptions { huge_pages: true, populate: true })?;
    // One seed for the life of the process.
    let seed: &'static Seed = Box::leak(Box::new(Seed::new(random_u64()?)));
    let layout = Layout { seed, mask: setup.shards - 1, databases: setup.databases };
    let hints: Hints = (0..usize::from(setup.shards) * usize::from(setup.databases))
        .map(|_| Arc::new(IndexHint::new(arena)))
        .collect();
    let pace = Pace::new(clock::ticks, clock::ns_to_ticks(1000));
    let make = |id| ShardData::new(id, setup.databases, Storage { arena, seed }, Arc::clone(&hints));
    let shards = Shards::new(usize::from(setup.shards), pace, make);
    let peer = |_| Peer {
        mailbox: Mailbox::new(),
        waker: OnceLock::new(),
        changes: Default::default(),
        stats: ThreadStats::new(table.count()),
        average_ttl_ms: (0..setup.databases).map(|_| Counter::default()).collect(),
        connections: AtomicU32::new(0),
    };
    let peers = (0..setup.threads).map(peer).collect();
    // Lives as long as the process: threads refer to it without counting.
    Ok(Box::leak(Box::new(Shared {
        shards: Arc::new(shards),
        hints,
        published: Arc::new(Published::new(setup.shards, setup.databases)),
        layout,
        arena,
        table,
        catalog,
        users,
        acl_log: Mutex::default(),
        peers,
        client_id_last: AtomicU64::new(0),
        monitors: AtomicU32::new(0),
        trackers: Default::default(),
        directory: Directory::default(),
        stopping: AtomicBool::new(false),
        scripts: crate::scripts::Cache::default(),
        functions: crate::functions::Store::default(),
        busy: crate::scripts::Busy::default(),
        memory_peak: AtomicU64::new(arena.bytes_used()),
        memory_at_start: arena.bytes_used(),
        rates: Mutex::default(),
        start: setup.start.clone(),
        commandlog_numbers: Numbers::default(),
        latency: Latency::default(),
        config: Mutex::new(Arc::clone(&setup.config)),
        io_engine: OnceLock::new(),
    })))
}

/// Serves until every thread has been told to stop.
pub fn serve(shared: &'static Shared, mut setup: Setup) -> Result<(), Box<dyn std::error::Error>> {
    let mut handles = Vec::new();
    let listeners = std::mem::take(&mut setup.listeners);
    let setup = Arc::new(setup);
    let starting = Arc::new(AtomicU16::new(setup.threads));
    for thread in (1..setup.threads).rev() {
        let (setup, starting) = (Arc::clone(&setup), Arc::clone(&starting));
        let name = format!("darter-{thread}");
        handles.push(thread::Builder::new().name(name).spawn(move || {
            if let Err(error) = run_thread(shared, &setup, thread, &starting, Listeners::default()) {
                // A thread without its event loop holds clients and shards: nothing sensible is left to do.
                log::error!("Thread {thread} cannot go on: {error}");
                std::process::exit(1);
            }
        })?);
    }
    run_thread(shared, &setup, 0, &starting, listeners)?;
    for handle in handles {
        handle.join().expect("a panic aborts the process");
    }
    Ok(())
}

/// How long a thread runs before the kernel lets others have its core: short, so that it is also let in soon when it is woken.
const SLICE: Duration = Duration::from_micros(100);

fn run_thread(
    shared: &'static Shared,
    setup: &Setup,
    thread: u16,
    starting: &AtomicU16,
    listeners: Listeners,
) -> Result<(), Box<dyn std::error::Error>> {
    // A help, not a need.
    let _ = reactor::affinity::ask_for_slices(SLICE);
    if let Some(core) = setup.cores.get(usize::from(thread)) {
        // Pinning is a help, not a need.
        let _ = reactor::affinity::pin_current_thread(*core);
    }
    let (reactor, choice) = Reactor::new(setup.io_engine, Options::default())?;
    if thread == 0 {
        if let Some(reason) = &choice.reason {
            log::warn!("io_uring is not used, epoll is: {reason}");
        }
        shared.io_engine.set(choice.name()).expect("only the first thread sets the engine's name");
    }
    let peer = &shared.peers[usize::from(thread)];
    assert!(peer.waker.set(reactor.waker()).is_ok(), "a thread starts once");
    // AcqRel: who comes last has seen what the others set up.
    if starting.fetch_sub(1, Ordering::AcqRel) == 1 {
        (setup.ready)();
    }
    let surroundings = Surroundings {
        layout: shared.layout,
        settings: Arc::new(crate::worker::settings(&setup.config)),
        published: Arc::clone(&shared.published),
        hints: Arc::clone(&shared.hints),
        outbound: shared,
        now_ms: clock::unix_ms(),
        ticks: clock::ticks,
        touch: true,
        journaling: false,
    };
    let home = {
        Arc::new(move |task: Box<router::task::Task>| {
            shared.send(task.ticket.thread, Message::Finished(task))
        })
    };
    let rng = Rng::new(random_u64()?);
    let engine = Engine::new(thread, Arc::clone(&shared.shards), surroundings, rng, home);
    let mut worker = Worker::new(shared, engine, reactor, Arc::clone(&setup.config));
    worker.listen(listeners)?;
    worker.run()?;
    Ok(())
}

/// A number nobody can guess.
fn random_u64() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    random_bytes(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fills `bytes` with what nobody can guess.
pub(crate) fn random_bytes(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}
