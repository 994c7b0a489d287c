//! libFuzzer's way into `refrain_fuzz::checkpoint_engine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::checkpoint_engine::check(bytes));
