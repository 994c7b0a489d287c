//! `librefrain_clocks.so`: preloaded into the processes of a rank that may be restarted, it
//! records values that the program gets from the C library (times, processor times, its process
//! id, random bytes), and returns the same values in later lives, so that the program sends the
//! same messages in each life.
//!
//! The dynamic linker loads it into every process that a rank starts, so it allocates nothing,
//! starts no thread, keeps no file open, and never fails. It passes calls to the C library
//! unchanged in processes that are not ranks, in children after `fork`, in all threads but one,
//! and while that thread is within a call of `librefrain`. It does not use `std`.
//!
//! | file | subject |
//! |---|---|
//! | `next` | the C library's functions of the same names |
//! | `state` | whether this process is a rank, and which calls are answered |
//! | `early` | answers before the program joins the job |
//! | `section` | the file in memory that all lives of a rank share |
//! | `attach` | the interface to `librefrain` |
//! | `time`, `usage`, `random`, `process` | the functions that are answered |
//!
//! `docs/design/recording-clocks.md` lists what is answered, how, and what is not. It must
//! never know engines, protocols, launchers.
#![no_std]

// Its panic handler; nothing here panics.
extern crate std as _;

mod attach;
mod early;
mod next;
mod process;
mod random;
mod section;
mod state;
mod time;
mod usage;
