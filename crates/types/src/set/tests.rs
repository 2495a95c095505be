//! Sets against a simple model, through all the ways in which they are kept; chance; scans.

use std::collections::BTreeSet;

use memory::{Arena, EntryParts, Heap, Index, Kind};
use stdx::hash::Seed;
use stdx::rng::Rng;

use super::*;
use crate::packed::tests::random_string;

static SEED: Seed = Seed::new(8);

/// A set in an entry of a heap, as a keyspace keeps it.
struct Kept {
    storage: Storage,
    heap: Heap,
    index: Index,
}

impl Kept {
    fn new(storage: Storage, bytes: &[u8]) -> Kept {
        let (mut heap, mut index) = (Heap::new(storage.arena), Index::new(storage.arena));
        let parts =
            EntryParts { key: b"key", kind: Kind::Collection, value: bytes, deadline: None, access: None };
        let handle = heap.insert(&parts);
        index.insert(1, handle, false, |_| 1);
        Kept { storage, heap, index }
    }

    fn of(storage: Storage, members: impl Iterator<Item = Vec<u8>>, limits: &Limits) -> Kept {
        let mut kept = Kept::new(storage, &empty(Form::SetIntset));
        members.for_each(|member| _ = add(&mut kept.slot(), &member, limits));
        kept
    }

    fn slot(&mut self) -> Slot<'_> {
        let (at, handle) = self.index.find(1, |_| true).expect("it is there");
        Slot::new(self.storage, &mut self.heap, &mut self.index, at, handle)
    }

    fn view(&self) -> View<'_> {
        let (_, handle) = self.index.find(1, |_| true).expect("it is there");
        View::of(self.heap.entry(handle)).expect("it is a collection")
    }

    fn set(&self) -> Set<'_> {
        Set::of(self.view())
    }
}

fn storage() -> Storage {
    Storage { arena: Arena::reserve(4 << 30).expect("addresses are free"), seed: &SEED }
}

fn rng(what: &str) -> Rng {
    let seed = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| std::process::id().into());
    println!("{what}: DARTER_SEED={seed}");
    Rng::new(seed)
}

/// What the members of a set may look like.
#[derive(Clone, Copy)]
enum Sort {
    Small,
    Wide,
    Alike,
    Any,
}

fn string(rng: &mut Rng, sort: Sort, of: u64) -> Vec<u8> {
    let number = rng.below(of) as i64;
    match sort {
        Sort::Small => (number - 20).to_string().into_bytes(),
        Sort::Wide => {
            (number * number * number * if number % 2 == 0 { 1 } else { -7 }).to_string().into_bytes()
        }
        Sort::Alike => format!("member{number:04}").into_bytes(),
        Sort::Any => match number % 4 {
            0 => number.to_string().into_bytes(),
            1 => format!("m{number}").into_bytes(),
            2 => vec![0xFD + (number % 3) as u8; (number % 9) as usize],
            _ if rng.one_in(200) => random_string(rng),
            _ => format!("member {number} {}", "x".repeat(number as usize % 70)).into_bytes(),
        },
    }
}

fn contents(set: Set<'_>) -> Vec<Vec<u8>> {
    let mut contents = Vec::new();
    set.for_each(|member| contents.push(member.to_vec()));
    contents.sort();
    contents
}

struct Pair {
    kept: Kept,
    model: BTreeSet<Vec<u8>>,
    limits: Limits,
    sort: Sort,
    of: u64,
    form: Form,
}

impl Pair {
    fn step(&mut self, rng: &mut Rng) {
        let string = string(rng, self.sort, self.of);
        let slot = &mut self.kept.slot();
        match rng.below(20) {
            0..12 => {
                let new = self.model.insert(string.clone());
                assert_eq!(add(slot, &string, &self.limits), new);
                if new {
                    self.form = expected(self.form, &self.model, &string, &self.limits);
                }
            }
            12..18 => assert_eq!(remove(slot, &string), self.model.remove(&string)),
            18 if !self.model.is_empty() => {
                let mut popped = Vec::new();
                pop(slot, rng, |member| popped = member.to_vec());
                assert!(self.model.remove(&popped));
            }
            19 if self.model.len() > 1 && rng.one_in(10) => {
                let count = 1 + rng.below(self.model.len() as u64 - 1) as usize;
                let staying = self.model.len() - count;
                pop_several(slot, rng, count, &self.limits, |member| {
                    assert!(self.model.remove(&member.to_vec()));
                });
                if count >= 5 * staying {
                    // The new set's form depends on the order of chance only where the limits are odd; that is tested elsewhere.
                    self.form = Form::of(slot.tag());
                }
            }
            _ => assert!(!remove(slot, b"nobody has this")),
        }
    }

    fn check(&self, rng: &mut Rng) {
        let set = self.kept.set();
        assert_eq!(set.len(), self.model.len());
        assert_eq!(self.kept.view().form(), self.form);
        assert!(contents(set).iter().eq(&self.model));
        let wanted: Vec<_> = (0..40).map(|_| string(rng, self.sort, self.of)).collect();
        let mut there = Vec::new();
        set.contains_each(wanted.iter().map(Vec::as_slice), |member| there.push(member));
        assert!(wanted.iter().map(|string| self.model.contains(string)).eq(there));
        assert!(wanted.iter().all(|string| set.contains(string) == self.model.contains(string)));
        let mut drawn = BTreeSet::new();
        let count = rng.below(self.model.len() as u64 + 3) as usize;
        set.random_distinct(rng, count, |member| assert!(drawn.insert(member.to_vec())));
        assert!(drawn.len() == count.min(self.model.len()) && drawn.is_subset(&self.model));
    }
}

/// The form after the last member came.
fn expected(form: Form, model: &BTreeSet<Vec<u8>>, new: &[u8], limits: &Limits) -> Form {
    let count = model.len() as u64;
    let integer = matches!(piece(new), Piece::Int(_));
    let short = |string: &Vec<u8>| string.len() as u64 <= limits.set_max_listpack_value;
    let listpack = count <= limits.set_max_listpack_entries;
    match form {
        Form::SetIntset if integer && count <= limits.set_max_intset_entries => Form::SetIntset,
        Form::SetIntset if integer => Form::SetHashtable,
        Form::SetIntset | Form::SetListpack if listpack && model.iter().all(short) => Form::SetListpack,
        _ => Form::SetHashtable,
    }
}

#[test]
fn random_changes_give_what_a_model_gives() {
    let mut rng = rng("random changes");
    let storage = storage();
    for round in 0..60 {
        let sort = [Sort::Small, Sort::Wide, Sort::Alike, Sort::Any][round % 4];
        let of = [30, 200, 700, 3_000][round / 4 % 4];
        let mut limits = Limits::default();
        if rng.one_in(3) {
            limits.set_max_intset_entries = rng.below(600);
            limits.set_max_listpack_entries = rng.below(300);
            limits.set_max_listpack_value = 30;
        }
        let kept = Kept::new(storage, &empty(Form::SetIntset));
        let mut pair = Pair { kept, model: BTreeSet::new(), limits, sort, of, form: Form::SetIntset };
        for _ in 0..20 {
            for _ in 0..rng.below(of / 4 + 20) {
                pair.step(&mut rng);
            }
            pair.check(&mut rng);
        }
    }
}

#[test]
fn small_sets_take_little_more_than_their_members() {
    let storage = storage();
    let limits = Limits::default();
    let bytes = |members: &mut dyn Iterator<Item = Vec<u8>>| {
        Kept::of(storage, members, &limits).slot().packed().len()
    };
    assert_eq!(bytes(&mut (0..20).map(|number| format!("memb{number:04}").into_bytes())), 1 + 20 * 8);
    assert_eq!(bytes(&mut (0..20).map(|number| format!("member {number:04}").into_bytes())), 2 + 20 * 11);
    assert_eq!(bytes(&mut (0..20).map(|number| number.to_string().into_bytes())), 1 + 20 * 2);
    assert_eq!(bytes(&mut (0..20).map(|number| (number * 9_000).to_string().into_bytes())), 1 + 20 * 4);
    assert_eq!(bytes(&mut (7..12).map(|number| format!("m{number}").into_bytes())), 3 + 3 * 3 + 2 * 4 + 1);
}

#[test]
fn what_sets_have_in_common_and_what_only_one_has() {
    let mut rng = rng("several sets");
    let storage = storage();
    let limits = Limits::default();
    for round in 0..40 {
        let sort = [Sort::Small, Sort::Alike, Sort::Any][round % 3];
        let of = [40, 400, 4_000][rng.below(3) as usize];
        let models: Vec<BTreeSet<Vec<u8>>> = (0..1 + rng.below(4))
            .map(|_| {
                let count = 1 + rng.below(of);
                (0..count).map(|_| string(&mut rng, sort, of)).collect()
            })
            .collect();
        let kept: Vec<Kept> =
            models.iter().map(|model| Kept::of(storage, model.iter().cloned(), &limits)).collect();
        let others: Vec<Set<'_>> = kept[1..].iter().map(Kept::set).collect();
        let (mut common, mut only) = (Vec::new(), Vec::new());
        intersection(storage, kept[0].set(), &others, |member| {
            common.push(member.to_vec());
            ControlFlow::Continue(())
        });
        difference(storage, kept[0].set(), &others, |member| only.push(member.to_vec()));
        common.sort();
        only.sort();
        let of_first = |wanted: bool, all: bool| {
            let has = move |member: &&Vec<u8>, models: &[BTreeSet<Vec<u8>>]| {
                if all {
                    models.iter().all(|model| model.contains(*member)) == wanted
                } else {
                    models.iter().any(|model| model.contains(*member)) == wanted
                }
            };
            models[0].iter().filter(|member| has(member, &models[1..])).cloned().collect::<Vec<_>>()
        };
        assert_eq!(common, of_first(true, true));
        assert_eq!(only, of_first(false, false));
        let mut seen = 0;
        intersection(storage, kept[0].set(), &others, |_| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(seen, common.len().min(2));
    }
}

/// Each member is drawn about as often as another, in each of the ways in which a set is kept.
#[test]
fn chance_is_fair() {
    let mut rng = rng("chance");
    let storage = storage();
    let limits = Limits::default();
    let kinds: [&dyn Fn(usize) -> String; 4] = [
        &|number| number.to_string(),
        &|number| format!("m{number:05}"),
        &|number| "x".repeat(number + 1),
        &|number| format!("member of a large set {number}"),
    ];
    for (kind, members) in kinds.iter().zip([100, 100, 40, 1_000]) {
        let kept = Kept::of(storage, (0..members).map(|number| kind(number).into_bytes()), &limits);
        let all = contents(kept.set());
        for way in 0..4 {
            let mut counts = vec![0_u32; members];
            let mut count = |member: Piece<'_>| {
                counts[all.binary_search(&member.to_vec()).expect("it is a member")] += 1;
            };
            let draws = 40 * members;
            match way {
                0 => (0..draws).for_each(|_| count(kept.set().random(&mut rng).expect("there are members"))),
                1 => kept.set().random_repeating(&mut rng, draws, count),
                2 => (0..draws / (members / 5))
                    .for_each(|_| kept.set().random_distinct(&mut rng, members / 5, &mut count)),
                _ => (0..draws / (members / 2))
                    .for_each(|_| kept.set().random_distinct(&mut rng, members / 2, &mut count)),
            }
            let mean = f64::from(counts.iter().sum::<u32>()) / members as f64;
            let chi = counts.iter().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum::<f64>();
            // Six standard deviations of a chi-square of that many degrees of freedom.
            let most = members as f64 + 6.0 * (2.0 * members as f64).sqrt();
            assert!(chi < most, "way {way} of {members} members: {chi} above {most}");
        }
    }
}

/// A scan sees what is there all the time, however the set grows and shrinks meanwhile.
#[test]
fn a_scan_sees_what_stays() {
    let mut rng = rng("scan");
    let storage = storage();
    let limits = Limits::default();
    for round in 0..6 {
        let staying: BTreeSet<_> = (0..500).map(|number| format!("stays {number}").into_bytes()).collect();
        let mut kept = Kept::of(storage, staying.iter().cloned(), &limits);
        let mut seen = BTreeSet::new();
        let (mut cursor, mut last) = (0, 0);
        loop {
            cursor = kept.set().scan(cursor, 10, |member| _ = seen.insert(member.to_vec()));
            if cursor == 0 {
                break;
            }
            for _ in 0..rng.below(60) {
                let string = format!("goes {}", rng.below(if round % 2 == 0 { 20_000 } else { 300 }));
                if rng.one_in(2) {
                    last += u64::from(add(&mut kept.slot(), string.as_bytes(), &limits));
                } else {
                    remove(&mut kept.slot(), string.as_bytes());
                }
            }
        }
        assert!(last > 0 && staying.is_subset(&seen));
    }
}

#[test]
fn names_in_a_table_are_members_again() {
    let mut rng = rng("names");
    for _ in 0..20_000 {
        let string = random_string(&mut rng);
        let new = piece(&string);
        assert_eq!(member(Name::of(new).bytes()), new);
    }
    for string in [&b"\xff"[..], b"\xfe", b"\xff\x01", b"\xfe\xff", b"\xfd", b""] {
        assert_eq!(member(Name::of(piece(string)).bytes()), Piece::Bytes(string));
    }
}
