//! libFuzzer's way into `refrain_fuzz::launcher_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::launcher_message::check(bytes));
