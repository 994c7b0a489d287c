//! libFuzzer's way into `refrain_fuzz::log_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::log_image::check(bytes));
