//! libFuzzer's way into `refrain_fuzz::mixed_address`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::mixed_address::check(bytes));
