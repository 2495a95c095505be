//! See `darter_fuzz::parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| darter_fuzz::parse(data));
