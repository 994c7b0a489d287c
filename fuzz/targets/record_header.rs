//! libFuzzer's way into `refrain_fuzz::record_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::record_header::check(bytes));
