//! The library's own heap. On the program's heap, blocks of the library would leave their bytes in
//! blocks that the program allocates later, and would shift their addresses.
//!
//! Loaded libraries (libfabric, libibverbs), the loader and the C library itself still allocate
//! from the program's heap.

#![allow(unsafe_code, reason = "passes allocations on")]

use super::same_memory::{Means, uses};
use core::alloc::{GlobalAlloc, Layout};
use mimalloc::MiMalloc;
use std::alloc::System;

#[global_allocator]
static HEAP: Heap = Heap;

struct Heap;

// SAFETY: `uses` returns the same for the whole life of the process, so each block returns to the
// allocator that it came from; both allocators keep the contract.
unsafe impl GlobalAlloc for Heap {
    // SAFETY: the contract of the trait, which callers keep.
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match uses(Means::Heap) {
            // SAFETY: the caller's promise.
            true => unsafe { MiMalloc.alloc(layout) },
            // SAFETY: likewise.
            false => unsafe { System.alloc(layout) },
        }
    }

    // SAFETY: the contract of the trait, which callers keep.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match uses(Means::Heap) {
            // SAFETY: the caller's promise.
            true => unsafe { MiMalloc.alloc_zeroed(layout) },
            // SAFETY: likewise.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    // SAFETY: the contract of the trait, which callers keep.
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match uses(Means::Heap) {
            // SAFETY: the caller's promise.
            true => unsafe { MiMalloc.dealloc(block, layout) },
            // SAFETY: likewise.
            false => unsafe { System.dealloc(block, layout) },
        }
    }

    // SAFETY: the contract of the trait, which callers keep.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match uses(Means::Heap) {
            // SAFETY: the caller's promise.
            true => unsafe { MiMalloc.realloc(block, layout, bytes) },
            // SAFETY: likewise.
            false => unsafe { System.realloc(block, layout, bytes) },
        }
    }
}
