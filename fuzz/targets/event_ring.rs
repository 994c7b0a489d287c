//! libFuzzer's way into `refrain_fuzz::event_ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::event_ring::check(bytes));
