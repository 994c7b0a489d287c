//! Checkpoints.

#![allow(unsafe_code, reason = "functions for C, which lends its memory")]

use super::super::border;
use super::super::memory::{Out, Protected};
use super::super::present::{self, WorldHandle};
use super::operate;
use core::ffi::{c_int, c_void};

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_protect(
    world: *mut WorldHandle,
    id: u64,
    memory: *mut c_void,
    bytes: usize,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller, until it is taken back.
        let memory = unsafe { Protected::new(memory, bytes) }?;
        present::with(world, |program| {
            program.protect(id, memory);
            Ok(())
        })
    })
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_unprotect(world: *mut WorldHandle, id: u64) -> c_int {
    border::call(|| present::with(world, |program| program.unprotect(id)))
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_restored(world: *mut WorldHandle, number: *mut u64) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut out = unsafe { Out::required("number", number) }?;
        out.set(present::with(world, |program| program.restore())?);
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_restored_bytes(
    world: *mut WorldHandle,
    id: u64,
    found: *mut c_int,
    bytes: *mut u64,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut is_there = unsafe { Out::required("found", found) }?;
        // SAFETY: likewise.
        let mut out = unsafe { Out::required("bytes", bytes) }?;
        let length = present::with(world, |program| {
            let restored = program.restored()?;
            Ok(restored.and_then(|restored| restored.length_of(id)))
        })?;
        is_there.set(length.is_some().into());
        out.set(length.unwrap_or(0));
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_checkpoint(world: *mut WorldHandle, number: *mut u64) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut out = unsafe { Out::optional("number", number) }?;
        out.set(present::with(world, |program| program.checkpoint())?);
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_checkpoint_requested(
    world: *mut WorldHandle,
    requested: *mut c_int,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut out = unsafe { Out::required("requested", requested) }?;
        let is_requested = operate(world, |world| world.checkpoint_requested())?;
        out.set(is_requested.into());
        Ok(())
    })
}
