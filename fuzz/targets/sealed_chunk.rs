//! libFuzzer's way into `refrain_fuzz::sealed_chunk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::sealed_chunk::check(bytes));
