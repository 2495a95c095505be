//! Patterns as valkey-server matches them, patterns made to take long, and random ones against the plain definition.

use super::*;
use crate::rng::Rng;

#[track_caller]
fn check(pattern: &[u8], yes: &[&[u8]], no: &[&[u8]]) {
    for text in yes {
        assert!(matches(pattern, text, false), "{} {}", pattern.escape_ascii(), text.escape_ascii());
    }
    for text in no {
        assert!(!matches(pattern, text, false), "{} {}", pattern.escape_ascii(), text.escape_ascii());
    }
}

// All answers in this file were compared with valkey-server 9.1.2 (KEYS, COMMAND LIST FILTERBY PATTERN).

#[test]
fn documented_forms() {
    check(b"h?llo", &[b"hello", b"hallo"], &[b"hllo", b"heello"]);
    check(b"h*llo", &[b"hllo", b"heeeello"], &[b"hell", b"ahllo"]);
    check(b"h[ae]llo", &[b"hello", b"hallo"], &[b"hillo", b"hllo"]);
    check(b"h[^e]llo", &[b"hallo", b"h^llo"], &[b"hello"]);
    check(b"h[a-c]llo", &[b"hallo", b"hbllo"], &[b"hdllo", b"h-llo"]);
    check(b"h[c-a]llo", &[b"hallo", b"hbllo"], &[b"hdllo"]);
    check(b"a\\*b", &[b"a*b"], &[b"axb", b"a\\*b"]);
    check(b"*a*b*", &[b"ab", b"xaxbx", b"aab"], &[b"ba", b"a", b"b"]);
}

#[test]
fn odd_corners() {
    check(b"", &[b""], &[b"a"]);
    check(b"*", &[b"a", b"\0"], &[b""]);
    check(b"**", &[b"a"], &[b""]);
    check(b"a**", &[b"a", b"ab"], &[b"", b"b"]);
    check(b"*?", &[b"a", b"ab"], &[b""]);
    // An unclosed class ends with the pattern; a `]` closes it even as its first member.
    check(b"[", &[], &[b"", b"[", b"a"]);
    check(b"[^", &[b"a", b"^"], &[b"", b"ab"]);
    check(b"[a", &[b"a"], &[b"[", b"aa"]);
    check(b"[]a]", &[], &[b"]", b"a", b"a]", b"]a]"]);
    check(b"[^]a]", &[b"xa]"], &[b"x", b"a]"]);
    check(b"[a-]", &[b"a", b"]", b"`", b"^", b"_"], &[b"-", b"b", b"\\"]);
    check(b"[\\]]", &[b"]"], &[b"\\"]);
    check(b"[\\", &[b"\\"], &[b"["]);
    check(b"\\", &[b"\\"], &[b""]);
    check(b"a\\", &[b"a\\"], &[b"a"]);
    // Bounds are signed bytes: 0xff is -1, so this is the range of two values.
    check(b"[\x00-\xff]", &[b"\x00", b"\xff"], &[b"\x01", b"\x80", b"a"]);
    check(b"[\xff-a]", &[b"\xff", b"\x00", b"a"], &[b"b", b"\xfe"]);
}

#[test]
fn case_is_folded_but_not_behind_a_backslash_in_a_class() {
    assert!(matches(b"G[e-E]T*", b"getrange", true));
    assert!(!matches(b"G*", b"get", false));
    assert!(matches(b"\\GET", b"get", true));
    assert!(matches(b"[h-G]et", b"GET", true));
    assert!(!matches(b"[\\G]et", b"get", true));
    assert!(matches(b"[\\g]ET", b"get", true));
}

#[test]
fn at_most_a_thousand_stars_wait() {
    let text = vec![b'a'; 2000];
    let pattern = |stars: usize| [b"a*".repeat(stars), b"a".to_vec()].concat();
    assert!(matches(&pattern(1000), &text, false));
    assert!(!matches(&pattern(1001), &text, false));
}

/// The story: `KEYS a*a*a*a*a*a*...b` against a long key of `a`s once kept a server busy for minutes.
#[test]
fn abusive_patterns_take_bounded_work() {
    let text = vec![b'a'; 100_000];
    let pattern = [b"a*".repeat(500), b"b".to_vec()].concat();
    assert!(!matches(&pattern, &text, false));
    let pattern = [b"*?".repeat(500), b"b".to_vec()].concat();
    assert!(!matches(&pattern, &text, false));
}

/// The plain definition, for patterns of `*`, `?`, classes without ranges, and literals.
fn model(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| model(rest, &text[skip..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, text @ ..]) => model(rest, text),
        ([b'[', a, b, b']', rest @ ..], [byte, text @ ..]) => [a, b].contains(&byte) && model(rest, text),
        ([literal, rest @ ..], [byte, text @ ..]) => literal == byte && model(rest, text),
    }
}

#[test]
fn agrees_with_the_plain_definition() {
    let seed = 0x610b;
    let mut rng = Rng::new(seed);
    let parts: [&[u8]; 7] = [b"a", b"b", b"c", b"*", b"*", b"?", b"[ab]"];
    let mut matched = 0;
    for _ in 0..50_000 {
        let pattern: Vec<u8> =
            (0..rng.below(8)).flat_map(|_| rng.pick(&parts).unwrap().iter().copied()).collect();
        let text: Vec<u8> = (0..1 + rng.below(8)).map(|_| b"abc"[rng.below(3) as usize]).collect();
        let expected = model(&pattern, &text);
        assert_eq!(
            matches(&pattern, &text, false),
            expected,
            "seed {seed}: {} {}",
            pattern.escape_ascii(),
            text.escape_ascii()
        );
        matched += usize::from(expected);
    }
    assert!(matched > 5_000, "only {matched} pairs matched");
}
