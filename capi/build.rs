//! Lets the library's heap map memory by `__wrap_mmap` (`src/addresses.rs`): only what
//! is linked into `librefrain.so`, not the program's own calls.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The library, and the same built for the tests.
    for link in ["cdylib-link-arg", "link-arg-examples"] {
        println!("cargo:rustc-{link}=-Wl,--wrap=mmap");
    }
}
