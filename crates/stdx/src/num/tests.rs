//! Numbers as clients write them and as valkey-server answers them.

use super::*;
use crate::rng::Rng;

fn f64_text(value: f64) -> String {
    String::from_utf8(format_f64(value, &mut [0; F64_LEN_MAX]).to_vec()).unwrap()
}

#[test]
fn integers_in_their_one_form() {
    for (text, value) in [
        ("0", 0),
        ("7", 7),
        ("-1", -1),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
        ("-9223372036854775807", -i64::MAX),
    ] {
        assert_eq!(parse_i64(text.as_bytes()), Some(value), "{text}");
        assert_eq!(format_i64(value, &mut [0; I64_LEN_MAX]), text.as_bytes());
    }
    for text in [
        "",
        "-",
        "-0",
        "+1",
        " 1",
        "1 ",
        "01",
        "-01",
        "00",
        "1.0",
        "1e3",
        "0x1",
        "a",
        "--1",
        "1-",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "18446744073709551616",
        "10000000000000000000",
        "9999999999999999999",
    ] {
        assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn integers_round_trip() {
    let mut rng = Rng::new(0x1234);
    for _ in 0..100_000 {
        let value = (rng.next_u64() as i64) >> rng.below(64);
        let text = value.to_string();
        assert_eq!(format_i64(value, &mut [0; I64_LEN_MAX]), text.as_bytes());
        assert_eq!(parse_i64(text.as_bytes()), Some(value));
        let unsigned = value as u64;
        assert_eq!(format_u64(unsigned, &mut [0; I64_LEN_MAX]), unsigned.to_string().as_bytes());
        assert_eq!(digits_u64(unsigned), unsigned.to_string().len());
    }
}

#[test]
fn doubles_round_trip() {
    let mut rng = Rng::new(0x4321);
    for _ in 0..200_000 {
        let value = f64::from_bits(rng.next_u64());
        if value.is_nan() {
            continue;
        }
        let text = f64_text(value);
        assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{text}");
    }
}

/// Recorded from valkey-server 9.1.2: the bits of a double, and RESP3's text of it.
#[test]
fn recorded_doubles() {
    let mut checked = 0;
    for line in include_str!("vectors.txt").lines() {
        let (bits, text) = line.split_once(' ').unwrap();
        assert_eq!(f64_text(f64::from_bits(u64::from_str_radix(bits, 16).unwrap())), text, "{bits}");
        checked += 1;
    }
    assert!(checked >= 300);
}

#[test]
fn doubles_where_the_form_changes() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (f64::NAN, "nan"),
        (-f64::NAN, "nan"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (0.1, "0.1"),
        (1.0 / 3.0, "0.3333333333333333"),
        (0.0376908, "0.037690800000000003"),
        (1e-4, "0.0001"),
        (1e-5, "0.00001"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-5, "0.000015"),
        (1.234e-6, "1.234e-6"),
        (1e17, "100000000000000000"),
        (1e18, "1000000000000000000"),
        (1e19, "1e+19"),
        (4611686018427387904.0, "4611686018427387904"),
        (-4611686018427387904.0, "-4611686018427387904"),
        (9223372036854775808.0, "9223372036854776000"),
        (18446744073709551616.0, "18446744073709552000"),
        (1.234567e21, "1.234567e+21"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
    ] {
        assert_eq!(f64_text(value), text);
    }
}

#[test]
fn doubles_as_clients_write_them() {
    // Each compared with ZADD of valkey-server 9.1.2.
    for (text, value) in [
        ("+5", 5.0),
        ("-5", -5.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1E+5", 1e5),
        ("00012", 12.0),
        ("-0", -0.0),
        ("0e9999999999999", 0.0),
        ("-00.00e5", -0.0),
        ("4.9e-324", 5e-324),
        ("2.5e-324", 5e-324),
        ("1.7976931348623158e308", f64::MAX),
        ("9007199254740993", 9007199254740992.0),
        ("123456789012345678", 123456789012345680.0),
        ("+inf", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        ("INF", f64::INFINITY),
    ] {
        assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{text}");
    }
    for text in [
        "",
        " 1",
        "1 ",
        "\t1",
        "1\0",
        "nan",
        "-nan",
        "infinit",
        "infinity1",
        "0x10",
        "0x1p-1",
        "1e",
        ".",
        "-",
        "+-1",
        "++1",
        "1_0",
        "1,0",
        "1d",
        "1e5.0",
        "1e400",
        "-1e400",
        "1.8e308",
        "1e-400",
        "2e-324",
        "1e9999999999999999999",
        "\u{661}",
    ] {
        assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(parse_f64(b"\xff"), None);
}

#[test]
fn bounds_of_score_ranges() {
    // Each compared with ZRANGEBYSCORE of valkey-server 9.1.2.
    for (text, value) in
        [("", 0.0), ("1\0", 1.0), ("1e400", f64::INFINITY), ("-1e400", f64::NEG_INFINITY), ("1e-400", 0.0)]
    {
        assert_eq!(parse_score_bound(text.as_bytes()), Some(value), "{text:?}");
    }
    for text in ["nan", "0x10", " 1", "1\n", "1e", "."] {
        assert_eq!(parse_score_bound(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn seventeen_digits_are_those_of_c() {
    // Printed by C's printf("%.17g").
    let printed = [
        (0.1, "0.10000000000000001"),
        (1e-5, "1.0000000000000001e-05"),
        (0.0001, "0.0001"),
        (1.5, "1.5"),
        (-0.25, "-0.25"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (123_456_789.123, "123456789.123"),
        (1e300, "1.0000000000000001e+300"),
        (5e-324, "4.9406564584124654e-324"),
        (0.0, "0"),
        (-0.0, "-0"),
        (f64::INFINITY, "inf"),
        (3.0, "3"),
    ];
    for (value, text) in printed {
        assert_eq!(format_f64_17(value), text);
    }
}
