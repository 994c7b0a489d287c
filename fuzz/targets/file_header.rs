//! libFuzzer's way into `refrain_fuzz::file_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::file_header::check(bytes));
