//! Sums recorded from valkey-server, and the limits of the format.

use super::*;

fn text(value: LongDouble) -> String {
    let mut out = Vec::new();
    value.format(&mut out);
    String::from_utf8(out).unwrap()
}

fn parse(text: &str) -> Option<LongDouble> {
    LongDouble::parse(text.as_bytes())
}

fn sum(a: &str, b: &str) -> Option<String> {
    parse(a)?.checked_add(parse(b)?).map(text)
}

#[test]
fn sums_a_client_expects() {
    assert_eq!(sum("10.50", "0.1").unwrap(), "10.6");
    assert_eq!(sum("5.0e3", "2.0e2").unwrap(), "5200");
    assert_eq!(sum("0.1", "0.2").unwrap(), "0.3");
    assert_eq!(sum("1", "-1").unwrap(), "0");
    assert_eq!(sum("-0", "-0").unwrap(), "0");
    assert_eq!(sum("0x10", "0x1.8p3").unwrap(), "28");
    assert_eq!(sum("inf", "1"), None);
    assert_eq!(sum("1e4932", "1e4932"), None);
}

/// Recorded from INCRBYFLOAT of valkey-server 9.1.2 on x86-64: stored value, increment, answer.
#[test]
fn recorded_sums() {
    let mut checked = 0;
    for line in include_str!("vectors.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [a, b, answer] = words[..] else { panic!("three words expected: {line}") };
        let ours = match (parse(a), parse(b)) {
            (Some(a), Some(b)) => a.checked_add(b).map_or("not-finite".into(), text),
            _ => "invalid".into(),
        };
        assert_eq!(ours, answer, "{a} + {b}");
        checked += 1;
    }
    assert!(checked > 1000);
}

#[test]
fn limits_of_the_format() {
    assert_eq!(parse("1.18973149535723176506e4932"), None);
    assert!(parse("1.18973149535723176502e4932").is_some());
    assert_eq!(text(parse("1.18973149535723176502e4932").unwrap()).len(), 4933);
    assert_eq!(parse("1.8e-4951"), None);
    assert!(parse("1.9e-4951").is_some());
    assert_eq!(parse("0x1p-16446"), None);
    assert!(parse("0x1.8p-16446").is_some());
    assert_eq!(parse("0x1p16384"), None);
    assert_eq!(parse("nan"), None);
    assert!(parse("-Infinity").unwrap().is_infinite());
    assert!(parse(&"0".repeat(5119)).is_some());
    assert_eq!(parse(&"0".repeat(5120)), None);
}

#[test]
fn integers_and_doubles_convert_exactly() {
    let mut rng = crate::rng::Rng::new(0x10d);
    for _ in 0..10_000 {
        let integer = (rng.next_u64() as i64) >> rng.below(64);
        assert_eq!(LongDouble::from(integer), parse(&integer.to_string()).unwrap());
        let double = f64::from_bits(rng.next_u64());
        if double.is_finite() {
            // Rust prints every digit of a double, so reading them rounds nothing.
            assert_eq!(LongDouble::from(double), parse(&format!("{double:.1080}")).unwrap(), "{double}");
        }
    }
    assert_eq!(text(LongDouble::from(i64::MIN)), i64::MIN.to_string());
    assert_eq!(text(LongDouble::from(13.361389338970184)), "13.36138933897018433");
    assert_eq!(text(LongDouble::from(f64::NEG_INFINITY)), "-inf");
}

#[test]
fn seconds_become_whole_milliseconds() {
    let ms = |text: &str| LongDouble::parse(text.as_bytes()).expect("a number").times_rounded_up(1000);
    for (text, expected) in [
        ("0", 0),
        ("-0", 0),
        ("0.1", 100),
        ("0.001", 1),
        ("0.0001", 1),
        ("1e-400", 1),
        ("-0.0001", 0),
        ("-0.001", 0),
        ("-0.002", -1),
        ("-1.5", -1500),
        ("1.1", 1100),
        ("4.35", 4350),
        ("1.0005", 1001),
        ("0x10", 16_000),
        ("9223372036854775", 9_223_372_036_854_775_000),
    ] {
        assert_eq!(ms(text), Some(expected), "{text}");
    }
    for text in ["9223372036854776", "1e300", "1e4930", "inf"] {
        assert_eq!(ms(text), None, "{text}");
    }
    for text in ["-9223372036854776", "-1e300", "-inf"] {
        assert_eq!(ms(text), Some(i64::MIN), "{text}");
    }
}
