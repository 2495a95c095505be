//! See `darter_fuzz::numbers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| darter_fuzz::numbers(data));
