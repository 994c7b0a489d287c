//! libFuzzer's way into `refrain_fuzz::verbs_greeting`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::verbs_greeting::check(bytes));
