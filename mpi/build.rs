//! Writes the exported functions from the table of the ABI, and links them.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = PathBuf::from(env::var("OUT_DIR").unwrap_or_default());
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        if let Err(error) = fs::write(&path, text) {
            println!("cargo:error={}: {error}", path.display());
        }
        path
    };
    write("exports.rs", &refrain_mpi_abi::exports());
    write("mpi.h", &refrain_mpi_abi::header());
    let script = write("exports.map", refrain_mpi_abi::version_script());
    let script = format!("-Wl,--version-script={}", script.display());
    // For the example that is a library, too, which has no kind of its own here.
    println!("cargo:rustc-link-arg={script}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if matches!(&architecture[..], "x86_64" | "aarch64") {
        // The library's heap maps memory elsewhere (`border/src/addresses.rs`).
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap=mmap");
    }
}
