//! Groups against maps of the standard library: deliveries, claims, acknowledgements, consumers that come and go, copies.

use std::collections::BTreeMap;

use stdx::rng::Rng;

use super::super::tests::{Key, Pair};
use super::*;
use crate::{Limits, View};

#[derive(Default)]
struct ModelGroup {
    last: Id,
    /// Id to consumer, time and count.
    pending: BTreeMap<Id, (String, i64, i64)>,
    consumers: BTreeMap<String, i64>,
}

type Model = BTreeMap<String, ModelGroup>;

fn compare(stream: Stream<'_>, model: &Model, seed: u64) {
    let groups = stream.groups();
    assert_eq!(groups.len() as u64, stream.groups_len());
    let names = groups.iter().map(|group| String::from_utf8(group.name().to_vec()).unwrap());
    assert!(names.eq(model.keys().cloned()), "seed {seed}");
    for (group, model) in groups.iter().zip(model.values()) {
        assert_eq!(group.last(), model.last, "seed {seed}");
        group.group.pending.check(&group.stream.heap);
        let name = |consumer: &ConsumerRef<'_>| String::from_utf8(consumer.name().to_vec()).unwrap();
        let pending = group.pending(Id::ZERO).map(|(id, pending)| {
            (id, (name(&group.consumer_at(pending.consumer)), pending.delivered_ms, pending.count))
        });
        assert!(pending.eq(model.pending.clone()), "seed {seed}");
        let ends = model.pending.keys().next().copied().zip(model.pending.keys().next_back().copied());
        assert_eq!(group.pending_ends(), ends, "seed {seed}");
        let consumers = group.consumers();
        assert!(consumers.iter().map(name).eq(model.consumers.keys().cloned()), "seed {seed}");
        for consumer in &consumers {
            consumer.consumer.pending.check(consumer.heap);
            let own = model.pending.iter().filter(|(_, (of, ..))| *of == name(consumer)).map(|(id, _)| *id);
            assert!(consumer.pending(Id::ZERO).eq(own), "seed {seed}");
            assert_eq!(consumer.seen_ms(), model.consumers[&name(consumer)], "seed {seed}");
        }
    }
}

fn step(group: &mut GroupMut<'_>, model: &mut ModelGroup, rng: &mut Rng, now_ms: i64) {
    // Few names, and now and then one of many.
    let name = format!("c{}", if rng.one_in(10) { rng.below(300) } else { rng.below(4) });
    let ids: Vec<Id> = group.stream().range(Id::ZERO, Id::MAX, false).map(|entry| entry.id).collect();
    let some = |rng: &mut Rng| ids[rng.below(ids.len() as u64) as usize];
    match rng.below(10) {
        0 => {
            let removed = group.remove_consumer(name.as_bytes());
            let own = model.pending.values().filter(|(of, ..)| *of == name).count() as u64;
            assert_eq!(removed, model.consumers.remove(&name).map(|_| own));
            model.pending.retain(|_, (of, ..)| *of != name);
        }
        1..4 => {
            let id = some(rng);
            assert_eq!(group.acknowledge(id), model.pending.remove(&id).is_some());
        }
        what => {
            let (to, created) = group.consumer(name.as_bytes(), now_ms);
            assert_eq!(created, model.consumers.insert(name.clone(), now_ms).is_none());
            if what < 7 {
                let from = some(rng);
                let given: Vec<Id> = ids.iter().copied().filter(|id| *id > from).take(20).collect();
                group.advance(given.iter().copied());
                model.last = model.last.max(given.last().copied().unwrap_or_default());
                group.deliver(to, &given, now_ms);
                model.pending.extend(given.into_iter().map(|id| (id, (name.clone(), now_ms, 1))));
            } else if what < 9 {
                let (id, count) = (some(rng), rng.below(100) as i64);
                group.claim(id, Pending { consumer: to, delivered_ms: now_ms - 5, count }, now_ms);
                model.pending.insert(id, (name, now_ms - 5, count));
            } else {
                let id = some(rng);
                group.redeliver(id, now_ms);
                if let Some((_, at, count)) = model.pending.get_mut(&id) {
                    (*at, *count) = (now_ms, *count + 1);
                }
                assert_eq!(
                    group.pending_at(id).map(|pending| pending.count),
                    model.pending.get(&id).map(|p| p.2)
                );
            }
        }
    }
}

#[test]
fn groups_behave_like_maps() {
    for seed in 1..=8 {
        let mut rng = Rng::new(seed);
        let (mut key, mut model) = (Key::new(), Model::new());
        let pairs: [Pair; 1] = [(b"field".to_vec(), b"value".to_vec())];
        for n in 1..=300 {
            key.with(|stream| stream.append(&Limits::default(), Id { ms: n, seq: n % 3 }, &pairs.as_slice()));
        }
        for now_ms in 1..2500 {
            let name = format!("g{}", rng.below(3));
            key.with(|stream| {
                if rng.one_in(60) {
                    assert_eq!(stream.destroy_group(name.as_bytes()), model.remove(&name).is_some());
                } else if let Some(group) = model.get_mut(&name) {
                    let mut own = stream.group_mut(name.as_bytes()).expect("the group is there");
                    step(&mut own, group, &mut rng, now_ms);
                } else {
                    assert!(stream.group_mut(name.as_bytes()).is_none());
                    assert!(stream.create_group(name.as_bytes(), Id::ZERO, 0));
                    assert!(!stream.create_group(name.as_bytes(), Id::ZERO, 0));
                    model.insert(name, ModelGroup::default());
                }
                if now_ms % 100 == 0 {
                    compare(stream.read(), &model, seed);
                }
            });
        }
        let slot = key.slot();
        let View::Large(tag, large) = slot.view() else { panic!("a stream with groups is large") };
        compare(Stream::new(slot.view()), &model, seed);
        let copy = large.duplicate();
        compare(Stream::new(View::Large(tag, &*copy)), &model, seed);
    }
}

/// What a removed group held is freed by the changes that come after it.
#[test]
fn a_removed_group_leaves_nothing_behind() {
    let mut key = Key::new();
    let pairs: [Pair; 1] = [(b"field".to_vec(), b"value".to_vec())];
    for n in 1..=20_000 {
        key.with(|stream| stream.append(&Limits::default(), Id { ms: n, seq: 0 }, &pairs.as_slice()));
    }
    let live = |key: &mut Key| key.with(|stream| stream.make_large().heap.live_bytes());
    let before = live(&mut key);
    key.with(|stream| {
        assert!(stream.create_group(b"g", Id::ZERO, 0));
        let mut group = stream.group_mut(b"g").unwrap();
        for consumer in 0..100_u64 {
            let (to, _) = group.consumer(consumer.to_string().as_bytes(), 1);
            let ids: Vec<Id> = (1..=200).map(|n| Id { ms: consumer * 200 + n, seq: 0 }).collect();
            group.deliver(to, &ids, 1);
        }
    });
    assert!(live(&mut key) > before + 20_000 * 40);
    // As if it had been larger than what is freed at once.
    key.with(|stream| {
        let large = stream.make_large();
        let (name, at) = large.group_at(b"g").unwrap();
        let group = Group::load(large.heap.block(at));
        large.groups.remove(&mut large.heap, name);
        large.heap.free(at);
        large.doomed.push(Doomed { pending: group.pending, consumers: group.consumers });
    });
    for _ in 0..100 {
        key.with(|stream| stream.make_large().release_doomed());
    }
    assert_eq!(live(&mut key), before);
}
