//! Refrain for programs in C: `librefrain`, whose functions `include/refrain.h`
//! declares and describes. Nothing is decided here; every function calls what
//! crate `refrain` has.
//!
//! What it promises: no argument that the header calls wrong is followed, and no
//! panic leaves it ([`border`]). Handles are numbers that are looked up
//! (in the world, and in [`present`]), so one that is over is an error and not a dangling
//! pointer. Memory is the caller's; everything that trusts a pointer is in
//! [`memory`]. It leaves no trace in what the program has never written, which would
//! differ in the program's next life: it has a heap ([`heap`]) and stacks
//! ([`own_stack`]) of its own ([`same_memory`]).
//!
//! It must never know launchers, fabrics and protocols.

mod addresses;
mod border;
mod calls;
mod clocks;
mod failure;
mod heap;
mod memory;
mod own_stack;
mod present;
mod program;
mod protected;
mod same_memory;
mod status;
mod thread;
