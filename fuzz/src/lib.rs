//! Properties that must hold for every input, for `cargo fuzz` and, with random inputs, for ordinary tests.
//!
//! ```text
//! export RUSTC_BOOTSTRAP=1 CARGO_PROFILE_RELEASE_LTO=off
//! cargo fuzz run parse --features libfuzzer        (also: glob, numbers, libraries)
//! ```
//!
//! The first variable allows the sanitizer flags on a stable compiler; the coverage counters do not survive the
//! link-time optimisation of the release profile.

mod libraries;

pub use libraries::libraries;

use resp::{Args, OwnedArgs, ParseLimits, Partial, ProtocolError, parse as parse_request};
use stdx::longdouble::LongDouble;
use stdx::{glob as pattern, num, quote};

/// A pipeline parses to the same commands and the same error whether it arrives in one piece or in many, memory
/// follows the bytes that arrived, and what was parsed parses again. The first byte is the seed of the pieces' sizes.
pub fn parse(data: &[u8]) {
    let Some((&seed, input)) = data.split_first() else { return };
    let limits = ParseLimits { authenticated: seed & 1 == 0, ..ParseLimits::default() };
    let whole = parse_pieces(input, std::iter::once(input.len()), &limits);
    let mut state = u32::from(seed);
    let sizes = std::iter::from_fn(move || {
        // A linear congruential generator; its upper bits are the good ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(1 + (state >> 24) as usize % (1 + seed as usize))
    });
    assert_eq!(parse_pieces(input, sizes, &limits), whole, "whole and in pieces");
    for command in &whole.0 {
        encode_and_parse(command);
    }
}

type Commands = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn parse_pieces(input: &[u8], sizes: impl Iterator<Item = usize>, limits: &ParseLimits) -> Commands {
    let (mut partial, mut spans, mut commands) = (Partial::default(), Vec::new(), Vec::new());
    let (mut at, mut arrived) = (0, 0);
    for size in sizes {
        arrived = input.len().min(arrived + size);
        loop {
            spans.clear();
            match parse_request(&input[at..arrived], &mut partial, &mut spans, limits) {
                Ok(Some(taken)) => {
                    assert!(0 < taken && taken <= arrived - at, "a command takes what has arrived");
                    let unquoted = partial.take_unquoted();
                    let buffer = unquoted.as_deref().unwrap_or(&input[at..at + taken]);
                    let owned = OwnedArgs::from(Args::new(buffer, &spans));
                    commands.push(owned.as_args().iter().map(<[u8]>::to_vec).collect());
                    at += taken;
                }
                Ok(None) => {
                    assert!(partial.bytes_allocated() <= 4 * (arrived - at) + 64, "memory follows the bytes");
                    break;
                }
                Err(error) => return (commands, Some(error)),
            }
        }
        if arrived == input.len() {
            break;
        }
    }
    (commands, None)
}

fn encode_and_parse(command: &[Vec<u8>]) {
    let mut reply = resp::Reply::default();
    reply.array(command.len());
    command.iter().for_each(|word| reply.bulk(word));
    let parsed = parse_pieces(&reply.bytes, std::iter::once(reply.bytes.len()), &ParseLimits::default());
    assert_eq!(parsed, (vec![command.to_vec()], None));
}

/// Matching ends in bounded time and never panics; a text matches its own escaped form; case is only ignored when
/// that is asked for. Pattern and text are divided by the first 0xfe.
pub fn glob(data: &[u8]) {
    let divider = data.iter().position(|&byte| byte == 0xfe).unwrap_or(data.len() / 2);
    let (wanted, text) = (&data[..divider], data.get(divider + 1..).unwrap_or(&[]));
    if pattern::matches(wanted, text, false) && !wanted.contains(&b'[') {
        assert!(pattern::matches(wanted, text, true), "what matches exactly matches in any case");
    }
    let escaped: Vec<u8> = text.iter().flat_map(|&byte| [b'\\', byte]).collect();
    assert!(pattern::matches(&escaped, text, false), "a text matches itself");
}

/// Whatever is accepted as a number is printed and read back unchanged; words survive quoting.
pub fn numbers(data: &[u8]) {
    if let Some(value) = num::parse_i64(data) {
        assert_eq!(num::format_i64(value, &mut [0; num::I64_LEN_MAX]), data, "integers have one form");
    }
    if let Some(value) = num::parse_f64(data) {
        let mut buffer = [0; num::F64_LEN_MAX];
        let text = num::format_f64(value, &mut buffer);
        assert_eq!(num::parse_f64(text).map(f64::to_bits), Some(value.to_bits()), "doubles read back");
        // Longer texts are no extended doubles.
        if data.len() < 5 * 1024 {
            let exact = LongDouble::parse(data).expect("a double is an extended double");
            assert_eq!(exact.is_infinite(), value.is_infinite());
        }
    }
    if let Some(value) = LongDouble::parse(data) {
        let mut text = Vec::new();
        value.format(&mut text);
        assert!(LongDouble::parse(&text).is_some(), "what is printed is a number");
    }
    if let Some(bits) = data.first_chunk() {
        let value = f64::from_le_bytes(*bits);
        let text = num::format_f64(value, &mut [0; num::F64_LEN_MAX]).to_vec();
        assert!(value.is_nan() || num::parse_f64(&text).map(f64::to_bits) == Some(value.to_bits()));
    }
    let mut shown = Vec::new();
    quote::repr(data, &mut shown);
    assert_eq!(quote::split_args(&shown), Ok(vec![data.to_vec()]), "quoting is undone by splitting");
    // Whatever the line is, splitting it ends.
    let _ = quote::split_args(data);
}

#[cfg(test)]
mod tests {
    use stdx::rng::Rng;

    /// Runs `property` on inputs made of `parts` and random bytes.
    fn with_random_inputs(seed: u64, parts: &[&[u8]], property: fn(&[u8])) {
        let mut rng = Rng::new(seed);
        for round in 0..20_000 {
            let mut input = Vec::new();
            for _ in 0..rng.below(12) {
                if rng.one_in(8) {
                    input.push(rng.next_u32() as u8);
                } else {
                    input.extend_from_slice(rng.pick(parts).expect("there are parts"));
                }
            }
            let run = std::panic::catch_unwind(|| property(&input));
            assert!(run.is_ok(), "seed {seed}, round {round}: {}", input.escape_ascii());
        }
    }

    #[test]
    fn parse() {
        const PARTS: &[&[u8]] = &[
            b"*1\r\n",
            b"*2\r\n",
            b"$4\r\nPING\r\n",
            b"$0\r\n\r\n",
            b"$1\r\nx\r\n",
            b"\r\n",
            b"*",
            b"$",
            b"1",
            b"-1",
            b"get \"a\\x41\"",
            b"'q u'",
            b" ",
            b"*12\r\n",
            b"$16385\r\n",
            b"\r",
            b"\n",
            b"\0",
        ];
        with_random_inputs(1, PARTS, super::parse);
    }

    #[test]
    fn glob() {
        const PARTS: &[&[u8]] = &[
            b"*",
            b"?",
            b"[",
            b"]",
            b"^",
            b"-",
            b"\\",
            b"a",
            b"b",
            b"B",
            b"[a-c]",
            b"\xfe",
            b"aaaaaaaa",
            b"*a*b",
        ];
        with_random_inputs(2, PARTS, super::glob);
    }

    #[test]
    fn numbers() {
        const PARTS: &[&[u8]] = &[
            b"0",
            b"1",
            b"9",
            b"25",
            b"-",
            b"+",
            b".",
            b"e",
            b"E-",
            b"inf",
            b"0x",
            b"p",
            b"308",
            b"4932",
            b"123456789",
            b"000000",
            b"nan",
        ];
        with_random_inputs(3, PARTS, super::numbers);
    }

    #[test]
    fn libraries() {
        const PARTS: &[&[u8]] = &[
            b"{",
            b"}",
            b"[",
            b"]",
            b"\"a\"",
            b":",
            b",",
            b"1e5",
            b"null",
            b"\\u12",
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\x00\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\x81",
            b"\x92",
            b"\xc0",
            b"\xcb",
            b"i32",
            b"c0",
            b"c2147483647",
            b"!8",
            b"<>sxbd",
            b"\xfe",
            b"\0",
        ];
        with_random_inputs(4, PARTS, super::libraries);
    }
}
