//! libFuzzer's way into `refrain_fuzz::control_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::control_frame::check(bytes));
