//! `librefrain_clocks.so`: preloaded into the processes of a rank that may be started
//! again, it answers what the program asks the machine (the time, processor time, its
//! process id, random bytes) as the rank's first life was answered, so that what the
//! program sends is the same in each life.
//!
//! The dynamic linker loads it into every process that a rank starts. So it promises:
//! it allocates nothing, starts no thread, opens nothing that stays open, never fails,
//! and hands every call on to the C library until it knows better: in processes that
//! are no rank, in children after `fork`, in all threads but one, and while that thread
//! is within a call of `librefrain`. It uses nothing of `std`.
//!
//! | file | subject |
//! |---|---|
//! | `next` | the functions that the C library has of these names |
//! | `state` | what this process is, and whose question it is |
//! | `early` | answers before the program joins the job |
//! | `section` | what the launcher keeps of a rank from life to life |
//! | `attach` | the joint with `librefrain` |
//! | `time`, `usage`, `random`, `process` | the functions that are answered |
//!
//! `docs/recording-clocks.md` says what is answered, how, and what is not. It must
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
