//! See `darter_fuzz::glob`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| darter_fuzz::glob(data));
