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
