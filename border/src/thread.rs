//! State of each calling thread. Each call uses it several times, so access takes two
//! instructions.
//!
//! On x86_64, the stable compiler makes a shared library call `__tls_get_addr` for a thread-local
//! variable, which takes 2 to 3 ns. So the address of the variable is kept in another one of the
//! initial-exec model, whose distance from the thread pointer is fixed when the library is loaded.
//! If a program loads the library by `dlopen`, the 8 bytes come from the reserve of the C library
//! (glibc: more than 500).

/// Defines a function that runs a closure with the state of this thread. The state is not dropped at
/// the thread's end: registering a destructor would leave bytes on the caller's stack. `$symbol`
/// names the variable; it must be unique in a library.
///
/// The module must allow unsafe code: it reads a thread's variable in assembler.
#[macro_export]
macro_rules! thread_state {
    ($visibility:vis fn $with:ident(&$type:ty) = $first:expr, $symbol:literal) => {
        const _: () = assert!(!::core::mem::needs_drop::<$type>());

        ::std::thread_local! {
            static STATE: $type = const { $first };
        }

        /// Runs `body` with the state of this thread.
        #[inline]
        $visibility fn $with<T>(body: impl FnOnce(&$type) -> T) -> T {
            #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
            return body(quick::state());
            #[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
            STATE.with(body)
        }

        #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
        mod quick {
            use super::*;
            use ::core::arch::{asm, global_asm};

            // A thread-local variable: the address of the thread's `STATE`, or null before the
            // first use.
            global_asm!(
                concat!(".pushsection .tbss.", $symbol, ", \"awT\", @nobits"),
                concat!(".globl ", $symbol),
                concat!(".hidden ", $symbol),
                concat!(".type ", $symbol, ", @object"),
                concat!(".size ", $symbol, ", 8"),
                ".p2align 3",
                concat!($symbol, ": .zero 8"),
                ".popsection",
            );

            /// The reference lives as long as the thread; it cannot be passed to another thread.
            #[inline]
            pub fn state<'a>() -> &'a $type {
                let place: *const $type;
                // SAFETY: reads the variable.
                unsafe {
                    asm!(
                        concat!("mov {place}, qword ptr [rip + ", $symbol, "@gottpoff]"),
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
            fn first<'a>() -> &'a $type {
                let state = STATE.with(::core::ptr::from_ref);
                // SAFETY: writes the variable. `STATE` keeps its address until the thread ends,
                // since it is not dropped.
                unsafe {
                    asm!(
                        concat!("mov {offset}, qword ptr [rip + ", $symbol, "@gottpoff]"),
                        "mov qword ptr fs:[{offset}], {state}",
                        offset = out(reg) _,
                        state = in(reg) state,
                        options(nostack, preserves_flags),
                    );
                    &*state
                }
            }
        }
    };
}
