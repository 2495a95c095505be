//! Sorted sets against a model: a map of scores and an ordered set, through every conversion, with ties, compaction and copies.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use memory::{Arena, EntryParts, Heap, Index, Kind as EntryKind, Large};
use stdx::hash::{Seed, hash64};
use stdx::rng::Rng;

use super::score::order;
use super::*;
use crate::Storage;

static ARENA: LazyLock<&'static Arena> =
    LazyLock::new(|| Arena::reserve(1 << 34).expect("address space is there"));
static SEED: Seed = Seed::new(1);

/// A keyspace of one key.
struct World {
    storage: Storage,
    heap: Heap,
    index: Index,
}

impl World {
    fn new() -> World {
        let storage = Storage { arena: *ARENA, seed: &SEED };
        let (mut heap, mut index) = (Heap::new(storage.arena), Index::new(storage.arena));
        let parts = EntryParts {
            key: b"key",
            kind: EntryKind::Collection,
            value: &EMPTY,
            deadline: None,
            access: None,
        };
        index.insert(hash64(&SEED, b"key"), heap.insert(&parts), false, |_| unreachable!());
        World { storage, heap, index }
    }

    fn slot(&mut self) -> Slot<'_> {
        let (at, handle) = self.index.find(hash64(&SEED, b"key"), |_| true).expect("the key is there");
        Slot::new(self.storage, &mut self.heap, &mut self.index, at, handle)
    }

    fn view(&self) -> View<'_> {
        let (_, handle) = self.index.find(hash64(&SEED, b"key"), |_| true).expect("the key is there");
        View::of(self.heap.entry(handle)).expect("the key is a set")
    }

    fn set(&self) -> SortedSet<'_> {
        SortedSet::new(self.view())
    }
}

#[derive(Default)]
struct Model {
    scores: HashMap<Vec<u8>, f64>,
    sorted: BTreeSet<(u64, Vec<u8>)>,
}

impl Model {
    fn put(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        self.scores.insert(member.to_vec(), score);
        self.sorted.insert((order(score), member.to_vec()));
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.sorted.remove(&(order(score), member.to_vec()))
    }
}

/// How members and scores of a round look.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Doubles,
    Integers,
    Ties,
    Ascending,
    Descending,
    LongMembers,
}

const MODES: [Mode; 6] =
    [Mode::Doubles, Mode::Integers, Mode::Ties, Mode::Ascending, Mode::Descending, Mode::LongMembers];

fn score(mode: Mode, rng: &mut Rng, step: u64) -> f64 {
    match mode {
        Mode::Doubles => match rng.below(40) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => -0.0,
            3 => 0.5,
            _ => (rng.unit_f64() - 0.3) * 1e6,
        },
        Mode::Integers | Mode::LongMembers => {
            let bits = rng.below(40) + 1;
            rng.below(1 << bits) as f64 - 100.0
        }
        Mode::Ties => rng.below(2) as f64,
        Mode::Ascending => step as f64,
        Mode::Descending => -(step as f64),
    }
}

fn member(mode: Mode, rng: &mut Rng, names: u64) -> Vec<u8> {
    let name = rng.below(names);
    match mode {
        Mode::LongMembers => {
            let mut member = name.to_string().into_bytes();
            let longer = match name % 64 {
                0 => 20_000,
                1..20 => 100,
                _ => 0,
            };
            member.resize(member.len() + longer, b'x');
            member
        }
        _ if name == 7 => Vec::new(),
        _ => format!("{:08x}", name.wrapping_mul(0x9e37_79b9) as u32).into_bytes(),
    }
}

fn check(world: &World, model: &Model) {
    let set = world.set();
    assert_eq!(set.len() as usize, model.scores.len());
    if let Kind::Tree(tree) = set.0 {
        tree.check();
    }
    let found: Vec<(u64, Vec<u8>)> =
        set.walk(0..set.len(), false).map(|(member, score)| (order(score), member.to_vec())).collect();
    assert!(found.iter().eq(model.sorted.iter()));
    let mut reversed: Vec<_> =
        set.walk(0..set.len(), true).map(|(member, score)| (order(score), member.to_vec())).collect();
    reversed.reverse();
    assert_eq!(found, reversed);
    for (rank, (bound, member)) in model.sorted.iter().enumerate() {
        let (found, score) = set.rank(member).expect("it is there");
        assert_eq!((found, order(score)), (rank as u64, *bound));
        assert_eq!(score, model.scores[member]);
    }
}

fn check_ranges(world: &World, model: &Model, mode: Mode, rng: &mut Rng) {
    let set = world.set();
    let (a, b) = (score(mode, rng, 500), score(mode, rng, 900));
    let range =
        ScoreRange { min: a.min(b), max: a.max(b), min_excluded: rng.one_in(2), max_excluded: rng.one_in(2) };
    let ranks = set.ranks_by_score(&range);
    for (rank, (_, member)) in model.sorted.iter().enumerate() {
        assert_eq!(ranks.contains(&(rank as u64)), range.contains(model.scores[member]), "{range:?}");
    }
    let start = rng.below(set.len() + 1);
    let ranks = start..start + rng.below(set.len() - start + 1);
    let wanted = model.sorted.iter().skip(start as usize).take((ranks.end - ranks.start) as usize);
    let found: Vec<_> = set.walk(ranks, false).map(|(member, _)| member).collect();
    assert!(found.iter().copied().eq(wanted.map(|(_, member)| member.as_slice())));
    let mut seen = BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 10, |member, _| _ = seen.insert(member.to_vec()));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), model.scores.len());
}

/// One change of the set and of the model.
fn change(world: &mut World, model: &mut Model, mode: Mode, rng: &mut Rng, step: u64, growing: bool) {
    let limits = Limits::default();
    let member = member(mode, rng, 6000);
    if rng.below(10) < if growing { 8 } else { 2 } {
        let score = score(mode, rng, step);
        let increment = rng.one_in(5);
        let when = When { increment, ..When::default() };
        let old = model.scores.get(&member).copied();
        let sum = if increment { old.unwrap_or(0.0) + score } else { score };
        match add(&mut world.slot(), &limits, &member, score, when) {
            Err(NotANumber) => return assert!(sum.is_nan()),
            Ok(Added::New(_)) => assert!(old.is_none()),
            Ok(Added::Changed(new)) => assert!(old.is_some_and(|old| old != new)),
            Ok(Added::Same(new)) => return assert_eq!(old, Some(new)),
            Ok(Added::Refused) => panic!("nothing was asked"),
        }
        model.put(&member, sum);
    } else if rng.one_in(30) && !model.sorted.is_empty() {
        let start = rng.below(model.sorted.len() as u64);
        let end = (start + rng.below(200)).min(model.sorted.len() as u64);
        let gone: Vec<Vec<u8>> = model
            .sorted
            .iter()
            .skip(start as usize)
            .take((end - start) as usize)
            .map(|(_, member)| member.clone())
            .collect();
        remove_ranks(&mut world.slot(), start..end);
        gone.iter().for_each(|member| assert!(model.remove(member)));
    } else {
        let found = remove(&mut world.slot(), &member).is_some();
        assert_eq!(found, model.remove(&member));
    }
}

#[test]
fn a_set_is_what_the_model_is() {
    for round in 0..12 {
        let seed = stdx::hash::hash64(&SEED, format!("{:?}{round}", std::time::SystemTime::now()).as_bytes());
        let mode = MODES[round % MODES.len()];
        println!("seed {seed} mode {mode:?}");
        let mut rng = Rng::new(seed);
        let (mut world, mut model) = (World::new(), Model::default());
        let steps = 500 + rng.below(5000);
        for phase in 0..4 {
            for step in 0..steps {
                change(&mut world, &mut model, mode, &mut rng, step, phase % 2 == 0);
                if rng.one_in(1000) {
                    check(&world, &model);
                    check_ranges(&world, &model, mode, &mut rng);
                }
            }
            check(&world, &model);
            check_ranges(&world, &model, mode, &mut rng);
        }
        let copied = world.view().large::<Tree>().map(|tree| tree.duplicate());
        if let Some(copy) = copied {
            let tag = world.slot().tag();
            world.slot().set_large(tag, copy);
            check(&world, &model);
        }
        let len = world.set().len();
        remove_ranks(&mut world.slot(), 0..len);
        assert!(world.set().is_empty() && !world.slot().is_large());
    }
}

#[test]
fn a_set_becomes_large_and_packed_again() {
    let (mut world, mut model) = (World::new(), Model::default());
    let limits = Limits::default();
    for number in 0..2000_u64 {
        let member = (number * 7 % 2000).to_string().into_bytes();
        add(&mut world.slot(), &limits, &member, number as f64, When::default()).expect("a number");
        model.put(&member, number as f64);
        assert_eq!(world.slot().is_large(), number >= 512);
        assert_eq!(world.slot().form() == Form::SortedSetSkiplist, number >= 128);
    }
    check(&world, &model);
    for number in 0..2000_u64 {
        let member = (number * 3 % 2000).to_string().into_bytes();
        assert!(remove(&mut world.slot(), &member).is_some());
        model.remove(&member);
        assert_eq!(world.slot().is_large(), 1999 - number > 256);
        if number % 100 == 0 {
            check(&world, &model);
        }
    }
    assert_eq!(world.slot().form(), Form::SortedSetSkiplist);
}

#[test]
fn the_form_follows_limits_above_the_defaults() {
    let limits =
        Limits { zset_max_listpack_entries: 1000, zset_max_listpack_value: 30_000, ..Limits::default() };
    let mut world = World::new();
    let mut put = |member: &[u8]| {
        add(&mut world.slot(), &limits, member, -0.0, When::default()).expect("a number");
        assert!(world.set().score(member).is_some_and(|score| score.is_sign_positive()));
        let slot = world.slot();
        (slot.is_large(), slot.form())
    };
    assert_eq!(put(&[b'x'; 20_000]), (true, Form::SortedSetListpack));
    for number in 1..1000_u32 {
        assert_eq!(put(&number.to_le_bytes()), (true, Form::SortedSetListpack));
    }
    add(&mut world.slot(), &limits, b"one more", -0.0, When::default()).expect("a number");
    assert_eq!(world.slot().form(), Form::SortedSetSkiplist);
    assert!(world.set().score(b"one more").is_some_and(|score| score.is_sign_negative()));
    let mut world = World::new();
    for member in [vec![b'x'; 20_000], vec![b'x'; 30_001]] {
        add(&mut world.slot(), &limits, &member, 1.0, When::default()).expect("a number");
    }
    assert_eq!(world.slot().form(), Form::SortedSetSkiplist);
}

#[test]
fn members_between_two_others_are_found_in_both_forms() {
    let limits = Limits::default();
    for count in [100_u32, 400, 3000] {
        let mut world = World::new();
        let members: Vec<String> = (0..count).map(|number| format!("{:06}", number * 2)).collect();
        for member in members.iter().rev() {
            add(&mut world.slot(), &limits, member.as_bytes(), 3.0, When::default()).expect("a number");
        }
        for (min, max) in [(0, 10), (1, 11), (7, 7), (8, 8), (count, 2 * count), (9, 3)] {
            let (min, max) = (format!("{min:06}"), format!("{max:06}"));
            for excluded in [false, true] {
                let range = if excluded {
                    LexRange {
                        min: LexBound::Excluded(min.as_bytes()),
                        max: LexBound::Excluded(max.as_bytes()),
                    }
                } else {
                    LexRange {
                        min: LexBound::Included(min.as_bytes()),
                        max: LexBound::Included(max.as_bytes()),
                    }
                };
                let wanted: Vec<&String> = members
                    .iter()
                    .filter(|member| range.reaches(member.as_bytes()) && range.stays(member.as_bytes()))
                    .collect();
                for reverse in [false, true] {
                    let ranks = world.set().ranks_by_lex(&range, reverse);
                    let found: Vec<&[u8]> =
                        world.set().walk(ranks, false).map(|(member, _)| member).collect();
                    assert!(
                        found.iter().copied().eq(wanted.iter().map(|member| member.as_bytes())),
                        "{range:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_filled_set_is_the_one_that_was_added_to() {
    let limits = Limits::default();
    for count in [0_usize, 1, 128, 129, 512, 513, 20_000] {
        let names: Vec<String> = (0..count).map(|number| format!("m{number:05}")).collect();
        let sorted: Vec<(&[u8], f64)> =
            names.iter().enumerate().map(|(at, name)| (name.as_bytes(), (at / 3) as f64)).collect();
        let mut world = World::new();
        fill(&mut world.slot(), &limits, &sorted);
        assert_eq!(world.slot().is_large(), count > 512);
        assert_eq!(world.slot().form() == Form::SortedSetListpack, count <= 128);
        let mut model = Model::default();
        sorted.iter().for_each(|(member, score)| model.put(member, *score));
        check(&world, &model);
    }
}

/// Enough for three levels of nodes, split and merged at all of them.
#[test]
fn a_deep_tree_grows_and_shrinks() {
    let seed = 11;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let storage = Storage { arena: *ARENA, seed: &SEED };
    for mode in [Mode::Doubles, Mode::Ties, Mode::Ascending, Mode::Descending] {
        let mut tree = Tree::new(storage);
        let mut members: Vec<Vec<u8>> = Vec::new();
        for step in 0..40_000_u64 {
            let member = hash64(&SEED, &step.to_le_bytes()).to_le_bytes().to_vec();
            tree.insert(&member, score(mode, &mut rng, step));
            members.push(member);
        }
        tree.check();
        while let Some(member) =
            (!members.is_empty()).then(|| members.swap_remove(rng.range(0..members.len())))
        {
            let (handle, old) = tree.find(&member).expect("it is there");
            if rng.one_in(4) {
                let new = if rng.one_in(2) { old + 0.001 } else { score(mode, &mut rng, 7) };
                tree.set_score(handle, &member, old, if new.is_nan() { 0.0 } else { new });
            }
            let (handle, _) = tree.find(&member).expect("it is there");
            tree.remove(handle);
            if members.len().is_multiple_of(8000) {
                tree.check();
            }
        }
        assert_eq!((tree.len(), tree.member_bytes()), (0, 0));
    }
}

#[test]
fn a_large_set_is_released_page_by_page() {
    let sorted: Vec<String> = (0..50_000).map(|number| format!("{number:08}")).collect();
    let storage = Storage { arena: *ARENA, seed: &SEED };
    let mut tree = Tree::build(storage, sorted.iter().map(|member| (member.as_bytes(), 1.0)));
    let mut calls = 0;
    while !Large::release(&mut tree, 4) {
        calls += 1;
    }
    assert!(calls > 10);
    assert_eq!(Large::bytes(&tree), 0);
}

#[test]
fn any_member_is_drawn_as_often_as_any_other() {
    for count in [100_u64, 2000] {
        let names: Vec<String> = (0..count).map(|number| format!("{number:05}")).collect();
        let sorted: Vec<(&[u8], f64)> = names.iter().map(|name| (name.as_bytes(), 0.0)).collect();
        let mut world = World::new();
        fill(&mut world.slot(), &Limits::default(), &sorted);
        let mut rng = Rng::new(5);
        let mut drawn = vec![0_u64; count as usize];
        for _ in 0..count * 100 {
            let (member, _) = world.set().random(&mut rng);
            drawn[std::str::from_utf8(member).unwrap().parse::<usize>().unwrap()] += 1;
        }
        // Each is expected 100 times. Of the sum over n - 1 degrees of freedom, 5 deviations of sqrt(2n) are once in a million.
        let chi: f64 = drawn.iter().map(|times| (*times as f64 - 100.0).powi(2) / 100.0).sum();
        assert!(chi < count as f64 + 5.0 * (2.0 * count as f64).sqrt(), "{chi} of {count}");
    }
}

/// Figures of a large set: `cargo test --release -p types zset -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn figures() {
    let storage = Storage { arena: *ARENA, seed: &SEED };
    for (name, count) in [("random", 1_000_000_u64), ("random", 3_000_000)] {
        let mut tree = Tree::new(storage);
        let mut rng = Rng::new(1);
        let start = std::time::Instant::now();
        for _ in 0..count {
            tree.insert(&rng.next_u64().to_le_bytes(), rng.unit_f64());
        }
        let elapsed = start.elapsed().as_nanos() as f64 / count as f64;
        println!(
            "{name} {count}: {:.2} B/item (table {:.2} live {:.2} nodes {:.2}), insert {elapsed:.0} ns",
            Large::bytes(&tree) as f64 / count as f64,
            tree.bytes_of().0 as f64 / count as f64,
            tree.bytes_of().1 as f64 / count as f64,
            tree.bytes_of().2 as f64 / count as f64,
        );
    }
}
