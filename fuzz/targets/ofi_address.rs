//! libFuzzer's way into `refrain_fuzz::ofi_address`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| refrain_fuzz::ofi_address::check(bytes));
