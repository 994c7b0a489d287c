//! Links the library's heap to `__wrap_mmap` (`src/addresses.rs`). It affects only code that is
//! linked into `librefrain.so`, not the program's own calls.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if !matches!(architecture.as_str(), "x86_64" | "aarch64") {
        return;
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap=mmap");
}
