//! libFuzzer's way into `refrain_fuzz::brief_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::brief_header::check(bytes));
