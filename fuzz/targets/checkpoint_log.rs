//! libFuzzer's way into `refrain_fuzz::checkpoint_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::checkpoint_log::check(bytes));
