//! Keyspaces as a process has them: 64 shards over one arena. Bytes per entry, the tail of inserts, lookups one by one and in windows,
//! expiry of a tenth of all keys.
//!
//! `cargo bench -p shard --bench keyspace [-- ENTRIES ...]`; 1,000,000 by default.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use memory::{Arena, BigRef, IndexHint};
use shard::expiry::{Pace, SLICE_US, expire_slice};
use shard::keyspace::{Deadline, Key, Keyspace, Storage};
use stdx::hash::{Seed, hash64};
use stdx::slot::slot_of;

const SHARDS: u16 = 64;
const NOW_MS: u64 = 1_800_000_000_000;
static SEED: Seed = Seed::new(0x5EED);

struct Store {
    keyspaces: Vec<Keyspace>,
    hints: Vec<Arc<IndexHint>>,
    arena: &'static Arena,
}

fn key(bytes: &[u8]) -> Key<'_> {
    Key { bytes, hash: hash64(&SEED, bytes), shard: slot_of(bytes) & (SHARDS - 1) }
}

/// The name of the `n`th key, 16 bytes, in an order without pattern.
fn name(n: u64) -> [u8; 16] {
    let mut text = *b"key:000000000000";
    let mut rest = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 25;
    for digit in text[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

impl Store {
    fn new() -> Store {
        let arena = Arena::reserve(256 << 30).expect("address space");
        let hints: Vec<_> = (0..SHARDS).map(|_| Arc::new(IndexHint::new(arena))).collect();
        let keyspaces = hints.iter().map(|hint| {
            let mut keyspace = Keyspace::new(Storage { arena, seed: &SEED });
            keyspace.set_hint(Some(hint.clone()));
            keyspace
        });
        Store { keyspaces: keyspaces.collect(), hints, arena }
    }

    fn put(&mut self, n: u64, value: &[u8], deadline: Deadline) {
        let name = name(n);
        let key = key(&name);
        self.keyspaces[usize::from(key.shard)].put_string(key, value, deadline, None);
    }

    fn len(&self) -> u64 {
        self.keyspaces.iter().map(Keyspace::len).sum()
    }
}

fn rss_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn percentile(sorted: &[u32], part: f64) -> u32 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn load(store: &mut Store, entries: u64, deadline: impl Fn(u64) -> Deadline) {
    let before = rss_bytes();
    let mut value = [b'v'; 64];
    let mut times = Vec::with_capacity(entries as usize);
    let started = Instant::now();
    for n in 0..entries {
        value[..8].copy_from_slice(&n.to_le_bytes());
        let at = Instant::now();
        store.put(n, &value, deadline(n));
        times.push(at.elapsed().as_nanos() as u32);
    }
    let total = started.elapsed();
    let rss = rss_bytes().saturating_sub(before + times.len() as u64 * 4);
    times.sort_unstable();
    let count = store.len();
    let (mut live, mut pages, mut index) = (0, 0, 0);
    for keyspace in &store.keyspaces {
        let bytes = keyspace.bytes();
        (live, pages, index) = (live + bytes.live, pages + bytes.pages, index + bytes.index);
    }
    let per = |bytes: u64| bytes as f64 / count as f64;
    println!(
        "  bytes/entry: {:.1} used (arena), {:.1} rss, {:.1} live, {:.1} pages, {:.2} index",
        per(store.arena.bytes_used()),
        per(rss),
        per(live),
        per(pages),
        per(index)
    );
    println!(
        "  put ns: mean {:.0}, p50 {}, p99 {}, p99.9 {}, p99.99 {}, max {}",
        total.as_nanos() as f64 / entries as f64,
        percentile(&times, 0.5),
        percentile(&times, 0.99),
        percentile(&times, 0.999),
        percentile(&times, 0.9999),
        percentile(&times, 1.0)
    );
}

/// Lookups of random keys that exist: each after the one before, and in windows of `WINDOW` with prefetching through the hints.
fn get(store: &Store, entries: u64) {
    const WINDOW: usize = 16;
    let rounds = 1_000_000;
    let mut state = 1u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % entries
    };
    let started = Instant::now();
    let mut sum = 0u64;
    for _ in 0..rounds {
        let name = name(draw() ^ (sum & 1) >> 1);
        let key = key(&name);
        let entry = store.keyspaces[usize::from(key.shard)].find(key).expect("loaded");
        sum += u64::from(entry.string().expect("a string").to_bytes(&mut Default::default())[63]);
        black_box(sum);
    }
    let single = started.elapsed().as_nanos() as f64 / f64::from(rounds);
    let started = Instant::now();
    for _ in 0..rounds as usize / WINDOW {
        let names: [_; WINDOW] = std::array::from_fn(|_| name(draw()));
        let keys = names.each_ref().map(|name| key(name));
        keys.iter().for_each(|key| store.hints[usize::from(key.shard)].prefetch_bucket(key.hash));
        let mut behind = 0u32;
        for (at, key) in keys.iter().enumerate() {
            behind |= u32::from(store.hints[usize::from(key.shard)].prefetch_entry(key.hash)) << at;
        }
        for (_, key) in keys.iter().enumerate().filter(|(at, _)| behind & 1 << at != 0) {
            store.hints[usize::from(key.shard)].prefetch_overflow(key.hash);
        }
        for key in keys {
            let entry = store.keyspaces[usize::from(key.shard)].find(key).expect("loaded");
            sum += u64::from(entry.string().expect("a string").to_bytes(&mut Default::default())[63]);
        }
        black_box(sum);
    }
    let windows = started.elapsed().as_nanos() as f64 / f64::from(rounds);
    println!("  get ns, with hashing: {single:.0} one by one, {windows:.0} in windows of {WINDOW}");
}

/// One in ten entries has expired: how long one thread takes that gives them a quarter of its time.
fn expire(store: &mut Store) {
    let origin = Instant::now();
    let (mut pace, mut busy_us, mut rest_us, mut expired, mut longest_us, mut slices) =
        (Pace::default(), 0, 0, 0, 0, 0);
    let before = store.len();
    for keyspace in &mut store.keyspaces {
        while keyspace.expiry_due_ms() < NOW_MS {
            let at = Instant::now();
            let outcome =
                expire_slice(keyspace, NOW_MS, SLICE_US, || origin.elapsed().as_micros() as u64, |_| ());
            let spent_us = at.elapsed().as_micros() as u64;
            busy_us += spent_us;
            longest_us = longest_us.max(spent_us);
            rest_us += pace.rest_us(&outcome, spent_us);
            expired += u64::from(outcome.expired);
            slices += 1;
        }
    }
    println!(
        "  expired {expired} of {before}: {:.2} s of work in {slices} slices (longest {longest_us} us), {:.1} s with rests",
        busy_us as f64 / 1e6,
        (busy_us + rest_us) as f64 / 1e6
    );
}

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    for entries in if sizes.is_empty() { vec![1_000_000] } else { sizes } {
        println!("{entries} entries, 16 B keys, 64 B values, no deadline");
        let mut store = Store::new();
        load(&mut store, entries, |_| Deadline::Clear);
        get(&store, entries);
        println!(
            "{entries} entries, no deadline, memory touched before: what inserts cost without the kernel's part"
        );
        let mut store = Store::new();
        BigRef::with_capacity(store.arena, entries as usize * 100).make_mut(entries as usize * 100);
        load(&mut store, entries, |_| Deadline::Clear);
        println!("{entries} entries, all with a deadline");
        let mut store = Store::new();
        load(&mut store, entries, |n| {
            Deadline::At(if n % 10 == 0 { NOW_MS - 1 } else { NOW_MS + 3_600_000 + n })
        });
        get(&store, entries);
        expire(&mut store);
    }
}
