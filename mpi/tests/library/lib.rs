//! The library again, built where the tests find it.

#![allow(unsafe_code, reason = "names a symbol in assembler")]

#[path = "../../src/lib.rs"]
mod library;

// There the modules are at the root of the crate.
use library::*;

// Cargo does not pass `--wrap=mmap` (`build.rs`) to a library that is an example. A hidden `mmap`
// has the same effect in a shared library: the code that is linked into it calls this one.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
core::arch::global_asm!(
    ".pushsection .text.refrain_mmap,\"ax\",@progbits",
    ".globl mmap",
    ".hidden mmap",
    ".type mmap,@function",
    "mmap:",
    #[cfg(target_arch = "x86_64")]
    "jmp __wrap_mmap",
    #[cfg(target_arch = "aarch64")]
    "b __wrap_mmap",
    ".size mmap, . - mmap",
    ".popsection",
);
