//! Tests of workloads and streams.

use super::*;
use crate::data::{Data, Kind, Sizes};
use crate::keys::{Distribution, Sampler};

fn context() -> Context {
    Context {
        keys: Sampler::new(Distribution::Uniform, 0, 99).unwrap(),
        key_prefix: b"key:".to_vec(),
        ints: true,
        tags: false,
        data: Data::new(Sizes::Fixed(3), Kind::Constant, 1),
        verify: false,
        expiry: None,
    }
}

fn stream(test: Test, context: Context, seed: u64) -> Stream {
    let work = Arc::new(Work::new(test, context));
    Stream::new(work, seed, 0, &Sequences::Own { index: 0, count: 1 })
}

fn text(stream: &mut Stream, count: usize) -> String {
    let mut out = Vec::new();
    for _ in 0..count {
        stream.write(&mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn named_tests_are_those_of_valkey_benchmark() {
    let all = by_name(&default_names(), &context()).unwrap();
    assert_eq!(all.len(), 22);
    let sent =
        |name: &str| text(&mut stream(by_name(&[name], &context()).unwrap().remove(0), context(), 1), 1);
    assert_eq!(sent("ping_inline"), "PING\r\n");
    assert_eq!(sent("ping_mbulk"), "*1\r\n$4\r\nPING\r\n");
    assert!(sent("set").starts_with("*3\r\n$3\r\nSET\r\n$16\r\nkey:0000000000"));
    assert!(sent("mset").starts_with("*21\r\n$4\r\nMSET\r\n$16\r\nkey:0000000000"));
    assert!(sent("xadd").ends_with("$8\r\nmystream\r\n$1\r\n*\r\n$7\r\nmyfield\r\n$3\r\nxxx\r\n"));
    let lists = by_name(&["lrange_600"], &context()).unwrap();
    assert_eq!(lists.len(), 2, "the list is filled first");
    assert!(by_name(&["st"], &context()).unwrap_err().to_string().contains("no test st"));
}

#[test]
fn weights_are_kept() {
    let mut stream = stream(Test::ratio(1, 3, &context()).unwrap(), context(), 7);
    let mut out = Vec::new();
    let sets = (0..40_000).filter(|_| stream.write(&mut out).unwrap().command == 0).count();
    // 10,000 expected, a deviation is 87.
    assert!((9_600..10_400).contains(&sets), "{sets}");
    assert!(Test::ratio(0, 0, &context()).is_err());
    assert_eq!(Test::ratio(1, 0, &context()).unwrap().commands.len(), 1);
}

#[test]
fn rounds_keep_their_order() {
    let command = |line| Command::from_line(line, &context()).unwrap();
    let parts = vec![(command("INCR a"), 1), (command("set b 'x y'"), 2), (command("SET c d"), 1)];
    let test = Test::rounds("x", parts).unwrap();
    assert_eq!(test.round(), 4);
    let names: Vec<&str> = test.commands.iter().map(|command| command.name.as_str()).collect();
    assert_eq!(names, ["INCR", "SET", "SET#2"]);
    let mut stream = stream(test, context(), 1);
    let mut out = Vec::new();
    let order: Vec<u16> = (0..6).map(|_| stream.write(&mut out).unwrap().command).collect();
    assert_eq!(order, [0, 1, 1, 2, 0, 1]);
    assert!(
        Command::from_line("SET a 'b", &context()).is_err() && Command::from_line("", &context()).is_err()
    );
}

#[test]
fn a_seed_decides_the_stream() {
    let stream = |seed, index| {
        let work = Arc::new(Work::new(Test::ratio(1, 1, &context()).unwrap(), context()));
        let mut stream = Stream::new(work, seed, index, &Sequences::Own { index, count: 2 });
        text(&mut stream, 1000)
    };
    assert_eq!(stream(1, 0), stream(1, 0));
    assert_ne!(stream(1, 0), stream(1, 1));
    assert_ne!(stream(1, 0), stream(2, 0));
}

#[test]
fn keys_of_a_node_only() {
    let slots: Vec<u16> = (0..5000).collect();
    let slots = Arc::new(Slots::new(slots).unwrap());
    let mut stream = stream(Test::ratio(1, 1, &context()).unwrap(), context(), 3);
    stream.bind(Some(Arc::clone(&slots)));
    let mut out = Vec::new();
    for _ in 0..200 {
        out.clear();
        stream.write(&mut out).unwrap();
        assert!(slot_of(first_key(&out).unwrap()) < 5000);
    }
    let none = (0..SLOTS).find(|slot| (0..100).all(|key| slot_of(format!("key:{key}").as_bytes()) != *slot));
    stream.bind(Some(Arc::new(Slots::new(vec![none.unwrap()]).unwrap())));
    assert_eq!(stream.write(&mut out), Err(Dry::NoKey));
}

#[test]
fn tags_lead_to_their_slots() {
    let tags = Tags::new();
    assert!((0..SLOTS).all(|slot| slot_of(&tags.of(slot)) == slot));
    let context = Context { tags: true, ..context() };
    let mut stream = stream(by_name(&["mset"], &context).unwrap().remove(0), context, 3);
    stream.bind(Slots::new(vec![77, 78]).map(Arc::new));
    let mut out = Vec::new();
    for _ in 0..20 {
        out.clear();
        stream.write(&mut out).unwrap();
        assert!((77..79).contains(&slot_of(first_key(&out).unwrap())));
    }
}

#[test]
fn populating_writes_each_key_once() {
    let mut context = context();
    context.keys = Sampler::new(Distribution::Sequential, 5, 14).unwrap();
    let mut work = Work::new(Test::ratio(1, 0, &context).unwrap(), context);
    work.keys_max = Some(10);
    let (work, sequences) = (Arc::new(work), Sequences::shared());
    let mut streams = [0, 1].map(|index| Stream::new(Arc::clone(&work), 1, index, &sequences));
    let mut keys = Vec::new();
    let mut out = Vec::new();
    while let Ok(made) = streams[keys.len() % 2].write(&mut out) {
        keys.push(made.key);
    }
    assert_eq!(keys, (5..15).collect::<Vec<u64>>());
}

#[test]
fn reads_are_sorted() {
    assert!(READS.is_sorted());
}
