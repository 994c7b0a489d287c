//! libFuzzer's way into `refrain_fuzz::event_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::event_message::check(bytes));
