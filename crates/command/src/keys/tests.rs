//! Tests of key specifications.

use resp::OwnedArgs;

use super::*;

fn positions(spec: KeySpec, line: &str) -> Result<Vec<usize>, InvalidKeys> {
    let args = OwnedArgs::from_words(line.split_ascii_whitespace());
    let mut found = Vec::new();
    key_positions(&[spec], args.as_args(), |index, _| found.push(index)).map(|()| found)
}

#[test]
fn ranges_end_at_the_last_word_or_before_it() {
    assert_eq!(positions(KeySpec::first(KeyFlags::RO), "GET a"), Ok(vec![1]));
    assert_eq!(positions(KeySpec::first(KeyFlags::RO), "GET"), Ok(vec![]));
    assert_eq!(positions(KeySpec::all_from_first(1, KeyFlags::RO), "MGET a b c"), Ok(vec![1, 2, 3]));
    assert_eq!(positions(KeySpec::all_from_first(2, KeyFlags::OW), "MSET a 1 b 2"), Ok(vec![1, 3]));
    let but_last = KeySpec {
        begin: Begin::Index(1),
        find: Find::Range { last: -2, step: 1, limit: 0 },
        flags: KeyFlags::RW,
        notes: "",
    };
    assert_eq!(positions(but_last, "BLPOP a b 0"), Ok(vec![1, 2]));
    assert_eq!(positions(but_last, "BLPOP 0"), Ok(vec![]));
}

#[test]
fn counted_keys_never_reach_past_the_words() {
    let counted = KeySpec {
        begin: Begin::Index(1),
        find: Find::Count { count_at: 0, first: 1, step: 2 },
        flags: KeyFlags::OW,
        notes: "",
    };
    assert_eq!(positions(counted, "MSETEX 2 a 1 b 2 EX 5"), Ok(vec![2, 4]));
    assert_eq!(positions(counted, "MSETEX 2 a 1"), Err(InvalidKeys));
    assert_eq!(positions(counted, "MSETEX -1 a 1"), Err(InvalidKeys));
    assert_eq!(positions(counted, "MSETEX x a 1"), Err(InvalidKeys));
    assert_eq!(positions(counted, "MSETEX 9223372036854775807 a 1"), Err(InvalidKeys));
    assert_eq!(positions(counted, "MSETEX"), Err(InvalidKeys));
}

#[test]
fn keywords_are_found_from_either_end() {
    let streams = KeySpec {
        begin: Begin::Keyword { word: "STREAMS", start: 1 },
        find: Find::Range { last: -1, step: 1, limit: 2 },
        flags: KeyFlags::RO,
        notes: "",
    };
    assert_eq!(positions(streams, "XREAD COUNT 2 streams a b 0 0"), Ok(vec![4, 5]));
    assert_eq!(positions(streams, "XREAD COUNT 2"), Ok(vec![]));
    let keys = KeySpec {
        begin: Begin::Keyword { word: "KEYS", start: -2 },
        find: Find::Range { last: -1, step: 1, limit: 0 },
        flags: KeyFlags::RW,
        notes: "",
    };
    assert_eq!(positions(keys, "MIGRATE h p k 0 5 KEYS a b"), Ok(vec![7, 8]));
}
