//! libFuzzer's way into `refrain_fuzz::address_card`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::address_card::check(bytes));
