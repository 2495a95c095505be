//! See `darter_fuzz::libraries`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| darter_fuzz::libraries(data));
