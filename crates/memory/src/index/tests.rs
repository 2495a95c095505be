//! The index against simple models. Handles stand for themselves here: the key of handle `h` is `h`.

use super::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// An arena of its own, so that `bytes_used` is what the index holds. Its first pages are filled with 0xA5, as used pages may be.
fn arena(pages: usize) -> &'static Arena {
    let arena = Arena::reserve(64 << 20).unwrap();
    let taken: Vec<Handle> = (0..pages).map(|_| arena.alloc_page(CHUNK_BYTES)).collect();
    for page in taken {
        // SAFETY: the page is ours until it is given back.
        unsafe { arena.pointer(page).write_bytes(0xA5, CHUNK_BYTES) };
        arena.free_page(page);
    }
    assert_eq!(arena.bytes_used(), 0);
    arena
}

fn held(arena: &Arena) -> usize {
    arena.bytes_used() as usize / CHUNK_BYTES
}

struct Random(u64);

impl Random {
    /// Seeded by the clock unless DARTER_SEED is set; printed, so that a failure can be repeated.
    fn new(test: &str) -> Random {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now);
        println!("{test}: DARTER_SEED={seed}");
        Random(seed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

/// splitmix64's finalizer: the hash of the tests.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// An index beside the map it must equal. Key -> (handle, deadline); the handle's low 20 bits are the key, the rest is chance.
struct Pair<H> {
    arena: &'static Arena,
    index: Index,
    model: HashMap<u64, (Handle, bool)>,
    hash: H,
}

fn key_of(handle: Handle) -> u64 {
    handle.raw() & 0xF_FFFF
}

fn handle_for(key: u64, random: &mut Random) -> Handle {
    Handle::from_raw(random.draw() << 20 & ((1 << Handle::BITS) - 1) | key).unwrap()
}

impl<H: Fn(u64) -> u64 + Copy> Pair<H> {
    fn new(pages: usize, hash: H) -> Pair<H> {
        let arena = arena(pages);
        Pair { arena, index: Index::new(arena), model: HashMap::new(), hash }
    }

    fn insert(&mut self, key: u64, deadline: bool, random: &mut Random) {
        let handle = handle_for(key, random);
        let hash = self.hash;
        self.index.insert(hash(key), handle, deadline, |handle| hash(key_of(handle)));
        assert_eq!(self.model.insert(key, (handle, deadline)), None);
    }

    fn remove(&mut self, key: u64) {
        let at = self.find(key).unwrap().0;
        self.index.remove((self.hash)(key), at);
        self.model.remove(&key);
    }

    fn find(&self, key: u64) -> Option<(Position, Handle)> {
        self.index.find((self.hash)(key), |handle| key_of(handle) == key)
    }

    /// One random operation on one of `keys` keys; `grow` of 100 times a missing key is added.
    fn step(&mut self, keys: u64, grow: u64, random: &mut Random) {
        let key = 1 + random.below(keys);
        let deadline = random.below(4) == 0;
        let found = self.find(key);
        assert_eq!(
            found.map(|(at, handle)| (handle, self.index.get(at).1)),
            self.model.get(&key).copied(),
            "key {key}"
        );
        match found {
            None if random.below(100) < grow => self.insert(key, deadline, random),
            None => {}
            Some((at, handle)) if random.below(3) == 0 => {
                assert_eq!(self.index.position_of((self.hash)(key), handle), Some(at));
                let handle = handle_for(key, random);
                self.index.set(at, handle, deadline);
                self.model.insert(key, (handle, deadline));
            }
            Some(_) if random.below(100) >= grow => self.remove(key),
            Some(_) => {}
        }
    }

    /// Everything at once: each entry once in the right bucket, no gaps, counts, and no page more than needed.
    fn check(&self) {
        let index = &self.index;
        let mut seen = HashMap::new();
        let mut lines = HashSet::new();
        for number in 0..index.bucket_count {
            let bucket = index.bucket(number);
            assert_eq!(
                index.bucket(number).matches(0).trailing_zeros().min(10) as usize,
                bucket.len(),
                "a gap in bucket {number}"
            );
            assert!(bucket.link() == 0 || bucket.len() == BUCKET_SLOTS);
            let mut link = bucket.link();
            while link != 0 {
                assert!(lines.insert(link), "line {link} is in two chains");
                assert!(index.line(link).len() >= if index.line(link).next() == 0 { 1 } else { 4 });
                link = index.line(link).next();
            }
            index.for_each(number, |item| {
                assert_eq!(bucket_of((self.hash)(key_of(item.handle())), index.bucket_count), number);
                assert_eq!(seen.insert(key_of(item.handle()), (item.handle(), item.has_deadline())), None);
            });
        }
        assert_eq!(seen, self.model);
        assert_eq!(index.count(), self.model.len() as u64);
        assert_eq!(
            index.count_with_deadline(),
            self.model.values().filter(|(_, deadline)| *deadline).count() as u64
        );
        assert_eq!(index.chunk_bytes(), held(self.arena) * CHUNK_BYTES);
        assert_eq!(index.buckets.chunks(), index.bucket_count.div_ceil(BUCKETS_PER_CHUNK));
    }
}

#[test]
fn an_empty_index_owns_nothing_and_the_first_insert_one_chunk() {
    let mut random = Random::new("first chunk");
    let mut pair = Pair::new(8, mix);
    assert_eq!(
        (held(pair.arena), pair.index.bytes(), pair.find(1), pair.index.scan(0, |_, _| panic!())),
        (0, 0, None, 0)
    );
    assert_eq!((pair.index.sample(|| 5), pair.index.sample_with_deadline(|| 5)), (None, None));
    for key in 1..=200 {
        pair.insert(key, key % 2 == 0, &mut random);
        pair.check();
    }
    // 50 buckets of the first chunk are in use; chance may already have overfilled one of them.
    assert_eq!(pair.index.buckets.chunks(), 1);
    for key in 1..=200 {
        pair.remove(key);
        pair.check();
    }
    assert_eq!((pair.index.buckets.chunks(), pair.index.bucket_count()), (1, 1));
    assert!(held(pair.arena) <= 2);
    pair.index.trim();
    assert_eq!((held(pair.arena), pair.index.bytes()), (0, 0));
    pair.insert(1, true, &mut random);
    pair.check();
    drop(pair.index);
    assert_eq!(held(pair.arena), 0);
}

#[test]
fn random_operations_equal_a_map() {
    let mut random = Random::new("model");
    let mut pair = Pair::new(1024, mix);
    // Grows to 60,000 keys, shrinks, churns, empties, grows again.
    for (grow, steps, keys) in [
        (95, 150_000, 90_000),
        (20, 150_000, 90_000),
        (50, 100_000, 90_000),
        (0, 600_000, 90_000),
        (90, 20_000, 700),
    ] {
        for step in 0..steps {
            pair.step(keys, grow, &mut random);
            if step % 20_000 == 0 {
                pair.check();
            }
        }
        pair.check();
    }
}

#[test]
fn a_bad_hash_costs_time_but_loses_nothing() {
    let mut random = Random::new("bad hash");
    // 16 different hashes: chains of many overflow lines, and more entries in a bucket than fit on the stack.
    let mut pair = Pair::new(64, |key| mix(key % 16));
    for (grow, steps) in [(100, 6_000), (50, 6_000), (0, 12_000)] {
        for step in 0..steps {
            pair.step(3_000, grow, &mut random);
            if step % 500 == 0 {
                pair.check();
            }
        }
    }
    pair.check();
}

#[test]
fn a_scan_sees_what_stays_while_the_index_grows_and_shrinks() {
    let mut random = Random::new("scan");
    for round in 0..30 {
        let mut pair = Pair::new(512, mix);
        let stay = random.below(3_000);
        for key in 1..=stay {
            pair.insert(key, key % 3 == 0, &mut random);
        }
        let mut others: Vec<u64> = Vec::new();
        let mut next_key = 100_000;
        // Starts full or empty, so that it shrinks or grows first.
        for _ in 0..random.below(2) * 20_000 {
            pair.insert(next_key, false, &mut random);
            others.push(next_key);
            next_key += 1;
        }
        let (mut seen, mut seen_with_deadline) = (HashSet::new(), HashSet::new());
        let (mut cursor, mut cursor_of_deadlines, mut steps) = (0, 0, 0);
        let mut ended = (false, false);
        while ended != (true, true) {
            if !ended.0 {
                cursor = pair.index.scan(cursor, |handle, _| _ = seen.insert(key_of(handle)));
                ended.0 = cursor == 0;
            }
            if !ended.1 {
                cursor_of_deadlines = pair.index.scan_deadlines(cursor_of_deadlines, |handle| {
                    _ = seen_with_deadline.insert(key_of(handle))
                });
                ended.1 = cursor_of_deadlines == 0;
            }
            assert!(cursor < 1 << 32);
            steps += 1;
            let phase = steps / 150 % 2 == round % 2;
            for _ in 0..random.below(60) {
                if phase && others.len() < 25_000 {
                    pair.insert(next_key, false, &mut random);
                    others.push(next_key);
                    next_key += 1;
                } else if let Some(key) = others.pop() {
                    pair.remove(key);
                }
            }
        }
        assert!((1..=stay).all(|key| seen.contains(&key)), "round {round}: a key that stayed was not seen");
        assert!((1..=stay).filter(|key| key % 3 == 0).all(|key| seen_with_deadline.contains(&key)));
        assert!(seen_with_deadline.iter().all(|key| key % 3 == 0));
        pair.check();
    }
}

#[test]
fn a_scan_at_rest_sees_each_entry_once() {
    let mut random = Random::new("scan at rest");
    let mut pair = Pair::new(512, mix);
    for key in 1..=5_000 {
        pair.insert(key, false, &mut random);
        if key % 97 != 0 {
            continue;
        }
        let (mut cursor, mut seen) = (0, 0);
        loop {
            cursor = pair.index.scan(cursor, |_, _| seen += 1);
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, key);
    }
}

/// Chi square over 1,000 entries with 200,000 draws; 5 standard deviations above its mean is one failure in millions.
fn chi_square_fits(draws: &HashMap<u64, u64>, entries: u64, total: u64) {
    let expected = total as f64 / entries as f64;
    let unseen = (entries - draws.len() as u64) as f64 * expected;
    let chi: f64 = draws.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum::<f64>() + unseen;
    let freedom = (entries - 1) as f64;
    assert!(
        chi < freedom + 6.0 * (2.0 * freedom).sqrt(),
        "chi square {chi} for {freedom} degrees of freedom"
    );
}

#[test]
fn samples_are_uniform() {
    let mut random = Random::new("sample");
    // Sizes around a power of two of buckets and between, where half of the buckets are twice as full as the others.
    for entries in [1_000, 1_153, 1_600, 2_100] {
        let mut pair = Pair::new(64, mix);
        for key in 1..=entries {
            pair.insert(key, key % 10 == 0, &mut random);
        }
        let total = 200 * entries;
        let (mut all, mut volatile) = (HashMap::new(), HashMap::new());
        for _ in 0..total {
            *all.entry(key_of(pair.index.sample(|| random.draw()).unwrap())).or_insert(0) += 1;
            *volatile
                .entry(key_of(pair.index.sample_with_deadline(|| random.draw()).unwrap()))
                .or_insert(0) += 1;
        }
        chi_square_fits(&all, entries, total);
        assert!(volatile.keys().all(|key| key % 10 == 0) && volatile.len() as u64 == entries / 10);
        let expected = total / (entries / 10);
        assert!(volatile.values().all(|&n| n > expected / 4 && n < expected * 4), "{volatile:?}");
    }
}

#[test]
fn a_sample_is_found_where_entries_are_few() {
    let mut random = Random::new("rare");
    let mut pair = Pair::new(512, mix);
    for key in 1..=40_000 {
        pair.insert(key, key == 77, &mut random);
    }
    // One of 40,000: a bounded number of looks finds it now and then, never something else.
    assert!(
        (0..2_000)
            .filter_map(|_| pair.index.sample_with_deadline(|| random.draw()))
            .all(|handle| key_of(handle) == 77)
    );
    for key in (1..=40_000).filter(|key| *key != 77) {
        pair.remove(key);
        if pair.index.count() < 40 {
            assert!(pair.index.sample(|| random.draw()).is_some());
            assert_eq!(pair.index.sample_with_deadline(|| random.draw()).map(key_of), Some(77));
        }
    }
}

#[test]
fn memory_per_entry_stays_low_at_every_size_and_comes_back() {
    let mut random = Random::new("memory");
    let mut pair = Pair::new(4096, mix);
    for key in 1..=400_000 {
        pair.insert(key, false, &mut random);
        if key >= 100_000 && key % 10_000 == 0 {
            let per_entry = pair.index.bytes() as f64 / key as f64;
            assert!(per_entry < 9.0, "{per_entry} bytes per entry at {key}");
        }
    }
    let mut keys: Vec<u64> = (1..=400_000).collect();
    for left in (0..400_000).rev() {
        let key = keys.swap_remove(random.below(left + 1) as usize);
        pair.remove(key);
        if left >= 50_000 && left % 10_000 == 0 {
            let per_entry = pair.index.bytes() as f64 / left as f64;
            assert!(per_entry < 11.5, "{per_entry} bytes per entry after shrinking to {left}");
        }
    }
    assert!(held(pair.arena) <= 2);
}

#[test]
fn a_split_hands_on_the_epoch() {
    let mut random = Random::new("epoch");
    let mut pair = Pair::new(64, mix);
    pair.insert(1, false, &mut random);
    pair.index.bucket(0).set_epoch(11);
    for key in 2..=1_000 {
        pair.insert(key, false, &mut random);
    }
    assert!((0..pair.index.bucket_count()).all(|number| pair.index.bucket(number).epoch() == 11));
}

#[test]
fn a_release_in_steps_gives_back_every_page() {
    let mut random = Random::new("release");
    let mut pair = Pair::new(512, mix);
    for key in 1..=20_000 {
        pair.insert(key, false, &mut random);
    }
    let (mut before, mut steps) = (held(pair.arena), 0);
    while !pair.index.release(3) {
        assert!(before - held(pair.arena) <= 6);
        before = held(pair.arena);
        steps += 1;
    }
    assert!(steps > 10 && held(pair.arena) == 0);
    pair.model.clear();
    pair.insert(5, true, &mut random);
    pair.check();
}

/// Other threads look ahead while the index grows, shrinks and is replaced. What they do has no result, so this can fail only by
/// a crash, or under ThreadSanitizer.
#[test]
fn hints_may_be_asked_for_at_any_time() {
    let mut random = Random::new("hint");
    let mut pair = Pair::new(512, mix);
    let hint = Arc::new(IndexHint::new(pair.arena));
    hint.prefetch_bucket(1);
    hint.prefetch_entry(1);
    pair.index.set_hint(Some(hint.clone()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (hint, stop) = (hint.clone(), &stop);
            scope.spawn(move || {
                let mut random = Random(thread);
                while !stop.load(Relaxed) {
                    let hash = random.draw();
                    hint.prefetch_bucket(hash);
                    if hint.prefetch_entry(hash) {
                        hint.prefetch_overflow(hash);
                    }
                }
            });
        }
        for round in 0..6 {
            for _ in 0..40_000 {
                pair.step(20_000, if round % 2 == 0 { 95 } else { 5 }, &mut random);
            }
            if round == 3 {
                let hint = pair.index.set_hint(None);
                pair.index = Index::new(pair.arena);
                pair.model.clear();
                pair.index.set_hint(hint);
            }
        }
        stop.store(true, Relaxed);
    });
    pair.check();
}
