//! What the library keeps for each thread that calls it, found in two instructions:
//! each call asks for it three times.
//!
//! On x86_64 the stable compiler makes a shared library call `__tls_get_addr` for a
//! thread's variable, which takes 2 to 3 ns. So the place of the variable is kept in
//! another one, which is in the initial-exec model: its distance from the thread's
//! pointer is fixed when the library is loaded. Where a program loads the library by
//! `dlopen`, its 8 bytes come from those that the C library keeps for this (glibc: more
//! than 500).

#![allow(unsafe_code, reason = "reads a thread's variable in assembler")]

use super::own_stack::Stack;
use super::present::State;
use core::cell::Cell;

/// Nothing of it is dropped at the thread's end: to be registered for that would leave
/// traces on the caller's stack.
pub struct Thread {
    pub stack: Cell<Option<Stack>>,
    /// A call that does not run on `stack` is under way.
    pub is_on_caller_stack: Cell<bool>,
    pub world: Cell<State>,
}

const _: () = assert!(!core::mem::needs_drop::<Thread>());

thread_local! {
    static THREAD: Thread = const {
        Thread {
            stack: Cell::new(None),
            is_on_caller_stack: Cell::new(false),
            world: Cell::new(State::Absent),
        }
    };
}

/// Lends what is kept for this thread.
#[inline]
pub fn with<T>(body: impl FnOnce(&Thread) -> T) -> T {
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    return body(quick::thread());
    #[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
    THREAD.with(body)
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod quick {
    use super::{THREAD, Thread};
    use core::arch::{asm, global_asm};
    use core::ptr;

    // A thread's variable: where its `THREAD` is, or null before it was asked for.
    global_asm!(
        ".pushsection .tbss.refrain_place_of_thread, \"awT\", @nobits",
        ".globl refrain_place_of_thread",
        ".hidden refrain_place_of_thread",
        ".type refrain_place_of_thread, @object",
        ".size refrain_place_of_thread, 8",
        ".p2align 3",
        "refrain_place_of_thread: .zero 8",
        ".popsection",
    );

    /// It lives as long as the thread, which cannot hand it to another.
    #[inline]
    pub fn thread<'a>() -> &'a Thread {
        let place: *const Thread;
        // SAFETY: reads the variable.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + refrain_place_of_thread@gottpoff]",
                "mov {place}, qword ptr fs:[{place}]",
                place = out(reg) place,
                options(nostack, preserves_flags, readonly),
            );
        }
        // SAFETY: null, or what `first` has written in this thread.
        unsafe { place.as_ref() }.unwrap_or_else(first)
    }

    #[cold]
    #[inline(never)]
    fn first<'a>() -> &'a Thread {
        let thread = THREAD.with(ptr::from_ref);
        // SAFETY: writes the variable. `THREAD` stays where it is until the thread
        // ends, since nothing of it is dropped.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + refrain_place_of_thread@gottpoff]",
                "mov qword ptr fs:[{offset}], {thread}",
                offset = out(reg) _,
                thread = in(reg) thread,
                options(nostack, preserves_flags),
            );
            &*thread
        }
    }
}
