//! Makes the program's part of the address space begin at the same address in each life.
//!
//! The kernel places a mapping without an address in the highest hole below the stack that it fits
//! (with an unlimited stack: the lowest above the loader). The size of the call that joins the job's mappings
//! differs from life to life, so large blocks that the program allocates afterwards would have
//! other addresses. Therefore all holes from the loader up to a line at a fixed distance are filled
//! with inaccessible mappings, which take addresses but no memory. Later mappings of the library
//! have a region of their own. So do those of its heap, which maps its tables at any time; in
//! `librefrain.a`, the heap is linked to the `mmap` below.

#![allow(unsafe_code, reason = "maps memory for the heap, and without access")]

use super::same_memory::{Means, uses};
use core::ptr;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use core::{
    arch::global_asm,
    ffi::{c_int, c_long, c_void},
};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

/// More bytes than the call that joins the job maps where the kernel chooses: libraries, threads' stacks.
const SPAN_BYTES: usize = 4 << 30;
const LARGEST_BYTES: usize = 1 << 30;
const PAGE_BYTES: usize = 4096;
/// Limit of the mappings that fill holes; far more than there are holes.
const FILLED_MAX: usize = 4096;

/// Runs before the library maps anything. Without `addresses`, the kernel places the library's
/// mappings among those of the program.
pub fn begin_elsewhere() {
    if !uses(Means::Addresses) {
        refrain_ring::placement::let_kernel_choose();
    }
}

// `mmap` of the code that is linked into the library (`build.rs`). The name is not exported; a
// program that links `librefrain.a` may define the same name.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
global_asm!(
    ".pushsection .text.refrain_wrap_mmap,\"ax\",@progbits",
    ".weak __wrap_mmap",
    ".hidden __wrap_mmap",
    ".type __wrap_mmap,@function",
    "__wrap_mmap:",
    #[cfg(target_arch = "x86_64")]
    "jmp {map}",
    #[cfg(target_arch = "aarch64")]
    "b {map}",
    ".size __wrap_mmap, . - __wrap_mmap",
    ".popsection",
    map = sym map,
);

/// `mmap` for the library's heap.
///
/// # Safety
/// As for `mmap`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" fn map(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: c_long,
) -> *mut c_void {
    // Rings of io_uring cannot be mapped at a given address.
    let is_anonymous = flags & libc::MAP_ANONYMOUS != 0;
    let is_free = address.is_null() && flags & libc::MAP_FIXED == 0;
    let address = match is_anonymous && is_free && uses(Means::Addresses) {
        true => ptr::without_provenance_mut(refrain_ring::placement::next_address(bytes)),
        false => address,
    };
    // SAFETY: as the caller promises; a hint replaces no existing mapping.
    let place =
        unsafe { libc::syscall(libc::SYS_mmap, address, bytes, access, flags, file, offset) };
    ptr::with_exposed_provenance_mut(place as usize)
}

/// Fills the holes. Does nothing if addresses are limited (`ulimit -v`) or the program has
/// no loader; stops early if the kernel refuses a mapping.
pub fn begin_at_line() {
    // SAFETY: `getauxval` only reads.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    let is_limited = getrlimit(Resource::As).current.is_some();
    if !uses(Means::Addresses) || is_limited || loader == 0 {
        return;
    }
    // With an unlimited stack, the kernel places mappings upwards.
    let is_before_line = match getrlimit(Resource::Stack).current {
        Some(_) => |place: usize, _, loader: usize| place >= loader - SPAN_BYTES,
        None => |place, bytes, loader| place + bytes <= loader + SPAN_BYTES,
    };
    let mut bytes = LARGEST_BYTES;
    let mut left = FILLED_MAX;
    while bytes >= PAGE_BYTES && left > 0 {
        let Some(place) = fill(bytes) else { return };
        if is_before_line(place, bytes, loader) {
            left -= 1;
        } else {
            // SAFETY: it was mapped here, and is not used.
            let _ = unsafe { munmap(ptr::without_provenance_mut(place), bytes) };
            bytes /= 2;
        }
    }
}

fn fill(bytes: usize) -> Option<usize> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping.
    let place = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), flags) };
    Some(place.ok()?.addr())
}
