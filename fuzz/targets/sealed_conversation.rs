//! libFuzzer's way into `refrain_fuzz::sealed_conversation`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::sealed_conversation::check(bytes));
