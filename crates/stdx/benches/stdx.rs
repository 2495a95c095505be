//! Nanoseconds per call of what every command uses. `cargo bench -p stdx`

use std::hint::black_box;
use std::time::Instant;

use stdx::{glob, hash, longdouble::LongDouble, num, slot};

/// Prints the best of ten rounds: the one that was disturbed least.
fn measure<T>(name: &str, mut call: impl FnMut() -> T) {
    const CALLS: u32 = 200_000;
    let best = (0..10)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                black_box(call());
            }
            start.elapsed()
        })
        .min()
        .expect("ten rounds were run");
    println!("{name:40} {:8.1} ns", best.as_secs_f64() * 1e9 / f64::from(CALLS));
}

fn main() {
    let seed = hash::Seed::new(1);
    for len in [3, 8, 16, 24, 32, 100, 1000] {
        let key = vec![b'k'; len];
        measure(&format!("slot_of, {len} bytes"), || slot::slot_of(black_box(&key)));
        measure(&format!("hash64, {len} bytes"), || hash::hash64(&seed, black_box(&key)));
    }
    measure("slot_of, {16 bytes}", || slot::slot_of(black_box(b"{abcdefghijklmn}")));
    measure("parse_i64, 5 digits", || num::parse_i64(black_box(b"12345")));
    measure("parse_i64, 19 digits", || num::parse_i64(black_box(b"1234567890123456789")));
    measure("format_i64, 5 digits", || num::format_i64(black_box(12345), &mut [0; num::I64_LEN_MAX]).len());
    measure("format_i64, 19 digits", || num::format_i64(black_box(1234567890123456789), &mut [0; 20]).len());
    measure("parse_f64, 12.5", || num::parse_f64(black_box(b"12.5")));
    measure("parse_f64, 17 digits", || num::parse_f64(black_box(b"0.12345678901234567")));
    measure("format_f64, 12.5", || num::format_f64(black_box(12.5), &mut [0; num::F64_LEN_MAX]).len());
    measure("format_f64, 1/3", || num::format_f64(black_box(1.0 / 3.0), &mut [0; 32]).len());
    let (a, b) = (LongDouble::from(10.5), LongDouble::from(0.1));
    measure("long double, parse 10.5", || LongDouble::parse(black_box(b"10.5")));
    measure("long double, parse 1e300", || LongDouble::parse(black_box(b"1e300")));
    measure("long double, add", || black_box(a).checked_add(black_box(b)));
    let mut out = Vec::new();
    measure("long double, format", || {
        out.clear();
        black_box(b).format(&mut out);
    });
    let key = b"user:1000:profile";
    measure("glob user:*", || glob::matches(black_box(b"user:*"), key, false));
    measure("glob *:profile", || glob::matches(black_box(b"*:profile"), key, false));
    measure("glob order:*, no match", || glob::matches(black_box(b"order:*"), key, false));
}
