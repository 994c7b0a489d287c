//! The exported functions and the constants of the ABI, made by `build.rs`.

#![allow(
    unsafe_code,
    reason = "functions for C; their symbols are defined in assembler"
)]
#![allow(dead_code, reason = "not each constant is used")]
#![allow(
    non_snake_case,
    unused_variables,
    reason = "names are MPI's, and some functions are missing"
)]
#![allow(
    clippy::too_many_arguments,
    clippy::redundant_closure,
    reason = "the functions are MPI's"
)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each function relies on what MPI asks of programs"
)]

use super::abi::*;
use super::border;
use super::calls;
use core::ffi::{c_char, c_int, c_void};

/// Exports a function as `PMPI_` and, weak, as `MPI_`. Both are symbols of their own, so that a tool
/// that defines one of them reaches the other.
macro_rules! export {
    ($name:literal, $inner:ident) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.mpi_", $name, ",\"ax\",@progbits"),
            concat!(".globl PMPI_", $name),
            concat!(".type PMPI_", $name, ",@function"),
            concat!("PMPI_", $name, ":"),
            #[cfg(target_arch = "x86_64")]
            "jmp {inner}",
            #[cfg(target_arch = "aarch64")]
            "b {inner}",
            concat!(".size PMPI_", $name, ", . - PMPI_", $name),
            concat!(".weak MPI_", $name),
            concat!(".type MPI_", $name, ",@function"),
            concat!("MPI_", $name, ":"),
            #[cfg(target_arch = "x86_64")]
            "jmp {inner}",
            #[cfg(target_arch = "aarch64")]
            "b {inner}",
            concat!(".size MPI_", $name, ", . - MPI_", $name),
            ".popsection",
            inner = sym $inner,
        );
    };
}

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
