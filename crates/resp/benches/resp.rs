//! Nanoseconds per request parsed and per reply written. `cargo bench -p resp`

use std::hint::black_box;
use std::time::Instant;

use resp::{ParseLimits, Partial, Proto, Reply, Span, parse};

/// Prints the best of ten rounds: the one that was disturbed least.
fn measure(name: &str, units: usize, mut round: impl FnMut()) {
    const ROUNDS: usize = 200;
    let best = (0..10)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| round());
            start.elapsed()
        })
        .min()
        .expect("ten rounds were run");
    println!("{name:44} {:8.1} ns", best.as_secs_f64() * 1e9 / (ROUNDS * units) as f64);
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn parse_pipeline(name: &str, one: &[u8]) {
    const COMMANDS: usize = 256;
    let input = one.repeat(COMMANDS);
    let (mut partial, limits) = (Partial::default(), ParseLimits::default());
    let mut spans: Vec<Span> = Vec::with_capacity(64);
    measure(name, COMMANDS, || {
        let mut rest = black_box(&input[..]);
        while let Some(taken) = parse(rest, &mut partial, &mut spans, &limits).expect("valid requests") {
            black_box(&spans);
            spans.clear();
            rest = &rest[taken..];
        }
        assert!(rest.is_empty(), "every request was complete");
    });
}

fn write_pipeline(name: &str, write: impl Fn(&mut Reply)) {
    const REPLIES: usize = 256;
    let mut reply = Reply::new(Proto::Resp3);
    measure(name, REPLIES, || {
        reply.bytes.clear();
        for _ in 0..REPLIES {
            write(&mut reply);
        }
        black_box(&reply.bytes);
    });
}

fn main() {
    let key = &b"key:000000012345"[..];
    let value = &[b'v'; 64][..];
    parse_pipeline("parse PING", &command(&[b"PING"]));
    parse_pipeline("parse GET, 16-byte key", &command(&[b"GET", key]));
    parse_pipeline("parse SET, 16-byte key, 64-byte value", &command(&[b"SET", key, value]));
    parse_pipeline("parse SET .. EX 100", &command(&[b"SET", key, value, b"EX", b"100"]));
    let pairs: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain([key, value].repeat(10)).collect();
    parse_pipeline("parse MSET of 10 pairs", &command(&pairs));
    parse_pipeline("parse inline GET", b"GET key:000000012345\r\n");
    write_pipeline("write OK", Reply::ok);
    write_pipeline("write null", Reply::null);
    write_pipeline("write :1", |reply| reply.int(black_box(1)));
    write_pipeline("write :123456", |reply| reply.int(black_box(123_456)));
    write_pipeline("write 64-byte string", |reply| reply.bulk(black_box(value)));
    write_pipeline("write 1000-byte string", |reply| reply.bulk(black_box(&[b'v'; 1000])));
    write_pipeline("write error", |reply| reply.error(black_box("ERR syntax error")));
    write_pipeline("write double 12.5", |reply| reply.double(black_box(12.5)));
}
