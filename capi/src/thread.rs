//! The library's state of each calling thread. Each call uses it three times, so access takes two
//! instructions.
//!
//! On x86_64, the stable compiler makes a shared library call `__tls_get_addr` for a thread-local
//! variable, which takes 2 to 3 ns. So the address of the variable is kept in another one of the
//! initial-exec model, whose distance from the thread pointer is fixed when the library is loaded.
//! If a program loads the library by `dlopen`, the 8 bytes come from the reserve of the C library
//! (glibc: more than 500).

#![allow(unsafe_code, reason = "reads a thread's variable in assembler")]

use super::own_stack::Stack;
use super::present::State;
use core::cell::Cell;

/// The state of a thread. It is not dropped at the thread's end: registering a destructor would
/// leave bytes on the caller's stack.
pub struct Thread {
    pub stack: Cell<Option<Stack>>,
    /// A call that does not run on `stack` is in progress.
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

/// Runs `body` with the state of this thread.
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

    // A thread-local variable: the address of the thread's `THREAD`, or null before the first use.
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

    /// The reference lives as long as the thread; it cannot be passed to another thread.
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
        // SAFETY: null, or the address that `first` has written in this thread.
        unsafe { place.as_ref() }.unwrap_or_else(first)
    }

    #[cold]
    #[inline(never)]
    fn first<'a>() -> &'a Thread {
        let thread = THREAD.with(ptr::from_ref);
        // SAFETY: writes the variable. `THREAD` keeps its address until the thread ends, since it
        // is not dropped.
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
