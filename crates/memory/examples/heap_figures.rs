//! The memory figures of the heap and the index, as README and DESIGN state them: load, then churn, with the default number of
//! shards. Not a load generator: one thread, no protocol.
//!
//! `cargo run --release -p memory --example heap_figures -- [shards] [entries] [sizes] [churn] [helper]`
//! sizes: `lo-hi` value bytes, or one number; the entries of the churn phase have the same distribution, so that overwrites change
//! sizes. `lo-hi/lo-hi` churns towards a second distribution.

use std::fs;
use std::time::Instant;

use memory::{Arena, EntryParts, Heap, Index, Kind, Meta, Step};
use stdx::hash::{Seed, hash64};
use stdx::rng::Rng;

struct Shard {
    heap: Heap,
    index: Index,
}

struct World {
    shards: Vec<Shard>,
    seed: Seed,
    rng: Rng,
    /// Bytes of keys and values.
    payload: u64,
    moves: u64,
    steps: u64,
}

fn resident_bytes() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("Linux has it");
    let line = rollup.lines().find(|line| line.starts_with("Rss:")).expect("Linux has it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number of KiB") * 1024
}

fn write_key(key: &mut [u8; 16], mut number: u64) {
    *key = *b"key:000000000000";
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl World {
    fn set(&mut self, number: u64, value: &[u8]) {
        let mut key = [0; 16];
        write_key(&mut key, number);
        let hash = hash64(&self.seed, &key);
        let shard_number = (hash >> 52) as usize % self.shards.len();
        let Shard { heap, index } = &mut self.shards[shard_number];
        let seed = &self.seed;
        if let Some((at, handle)) = index.find(hash, |handle| heap.entry(handle).key() == key) {
            self.payload -= heap.entry(handle).value().len() as u64;
            let new = heap.replace(handle, &Meta { kind: Kind::Bytes, deadline: None, access: None }, value);
            if new != handle {
                index.set(at, new, false);
            }
        } else {
            self.payload += key.len() as u64;
            let parts = EntryParts { key: &key, kind: Kind::Bytes, value, deadline: None, access: None };
            let handle = heap.insert(&parts);
            index.insert(hash, handle, false, |handle| hash64(seed, heap.entry(handle).key()));
        }
        self.payload += value.len() as u64;
        if heap.wants_compaction() {
            self.steps += 1;
            let step = heap.compact_step(|entry, old, new| {
                let at =
                    index.position_of(hash64(seed, entry.key()), old).expect("every entry is in the index");
                index.set(at, new, false);
            });
            self.moves += u64::from(step == Step::Moved);
        }
    }

    fn report(&self, what: &str, arena: &Arena, base: u64, started: Instant, operations: u64) {
        let elapsed = started.elapsed();
        let entries: u64 = self.shards.iter().map(|shard| shard.index.count()).sum();
        let live = self.payload as f64 + 3.0 * entries as f64;
        let index: u64 = self.shards.iter().map(|shard| shard.index.bytes() as u64).sum();
        let resident = (resident_bytes() - base) as f64;
        let pages: u64 = self.shards.iter().map(|shard| shard.heap.page_bytes()).sum();
        println!(
            "{what:5} {:7.0} ns/op | entries {entries} live {:.1} B/entry | rss/live {:.3}, without index {:.3} | pages/live {:.3} | used {:.2} B/entry index {:.2} | dirty {:.1} MiB | moves/write {:.3} steps {:.3}",
            elapsed.as_nanos() as f64 / operations.max(1) as f64,
            live / entries as f64,
            resident / live,
            (resident - index as f64) / live,
            pages as f64 / live,
            arena.bytes_used() as f64 / entries as f64,
            index as f64 / entries as f64,
            arena.bytes_dirty() as f64 / f64::from(1 << 20),
            self.moves as f64 / operations.max(1) as f64,
            self.steps as f64 / operations.max(1) as f64,
        );
    }
}

fn range(text: &str) -> (u64, u64) {
    let number = |text: &str| text.parse().expect("sizes are numbers");
    text.split_once('-')
        .map_or_else(|| (number(text), number(text)), |(low, high)| (number(low), number(high)))
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let arg = |index: usize, default: &str| args.get(index).cloned().unwrap_or_else(|| default.into());
    let shards: usize = arg(1, "64").parse().expect("shards is a number");
    let entries: u64 = arg(2, "1000000").parse().expect("entries is a number");
    let sizes = arg(3, "20-200");
    let (load, churn) = sizes.split_once('/').unwrap_or((&sizes, &sizes));
    let writes: u64 = arg(4, "6000000").parse().expect("churn is a number");
    let arena = Arena::reserve(memory::ARENA_BYTES_MAX).expect("address space");
    if arg(5, "") == "helper" {
        let options = memory::GrowthOptions { huge_pages: true, populate: true };
        arena.start_helper(options).expect("a thread");
    }
    let value = vec![b'v'; 1 << 20];
    let base = resident_bytes();
    let mut world = World {
        shards: (0..shards).map(|_| Shard { heap: Heap::new(arena), index: Index::new(arena) }).collect(),
        seed: Seed::new(1),
        rng: Rng::new(1),
        payload: 0,
        moves: 0,
        steps: 0,
    };
    println!("empty {:.3} MiB", (resident_bytes() - base) as f64 / f64::from(1 << 20));
    let (low, high) = range(load);
    let started = Instant::now();
    for number in 0..entries {
        let bytes = low + world.rng.below(high - low + 1);
        world.set(number, &value[..bytes as usize]);
    }
    world.report("load", arena, base, started, entries);
    let (low, high) = range(churn);
    for round in 1..=2 {
        (world.moves, world.steps) = (0, 0);
        let started = Instant::now();
        for step in 0..writes {
            let bytes = low + world.rng.below(high - low + 1);
            let number = world.rng.below(entries);
            world.set(number, &value[..bytes as usize]);
            // Stands for the background slice.
            if step % 10_000 == 0 {
                arena.trim(arena.bytes_used() / 50 + (1 << 20), 4 << 20);
            }
        }
        world.report(&format!("churn{round}")[..], arena, base, started, writes);
    }
    let started = Instant::now();
    let map = arena.map();
    drop(world);
    println!("dropped in {:.1} ms; {map:?}", started.elapsed().as_secs_f64() * 1e3);
    assert!(arena.bytes_used() < 1 << 20, "heaps give everything back, the index its chunks");
}
