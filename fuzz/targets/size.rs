//! libFuzzer's way into `refrain_fuzz::size`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::size::check(bytes));
