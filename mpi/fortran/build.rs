//! Writes the functions that Fortran calls from the table of the ABI, and a library with the names
//! of MPI's functions and no code, which makes `libmpi_abi.so.1` a library that this one needs.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

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
    write("declarations.rs", &refrain_mpi_abi::declarations());
    write("entries.rs", &refrain_mpi_abi::entries());
    let script = write("exports.map", "{ global: mpi*; pmpi*; MPI*; PMPI*; };\n");
    println!(
        "cargo:rustc-link-arg=-Wl,--version-script={}",
        script.display()
    );
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpifort_abi.so.1");
    // The library of C is found beside this one, also if a program is not linked to it.
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN,--enable-new-dtags");
    // A library of C may lack functions that no program calls.
    println!("cargo:rustc-link-arg=-Wl,-z,lazy");

    let mut stub = String::new();
    for function in refrain_mpi_abi::functions() {
        let name = &function.name;
        stub += &format!("void MPI_{name}(void) {{}}\nvoid PMPI_{name}(void) {{}}\n");
    }
    let stub = write("stub.c", &stub);
    // As other build scripts do it, the compiler can be chosen.
    println!("cargo:rerun-if-env-changed=CC");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let library = folder.join("libmpi_abi.so.1");
    let built = Command::new(&compiler)
        .args([
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-Wl,-soname,libmpi_abi.so.1",
        ])
        .arg(&stub)
        .arg("-o")
        .arg(&library)
        .status();
    match built {
        Ok(status) if status.success() => {}
        Ok(status) => println!("cargo:error={compiler} cannot build a shared library: {status}"),
        Err(error) => println!("cargo:error={compiler}: {error}: install a C compiler"),
    }
    println!("cargo:rustc-link-arg={}", library.display());
}
