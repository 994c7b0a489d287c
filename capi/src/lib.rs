//! Refrain for programs in C: `librefrain`, whose functions `include/refrain.h` declares and
//! describes. Every function calls crate `refrain`; no decision is made here.
//!
//! Promises: the library follows no argument that the header calls wrong, and no panic leaves it
//! ([`border`]). Handles are numbers that are looked up (in the world, and in [`present`]), so
//! using an ended one is an error and no access to a dangling pointer. Buffers belong to the
//! caller; all code that trusts a pointer is in [`memory`]. The library leaves no bytes in memory
//! that the program has never written, since they would differ in the program's next life: it has a
//! heap ([`heap`]) and stacks ([`own_stack`]) of its own ([`same_memory`]).
//!
//! This crate must not know launchers, fabrics and protocols.

mod addresses;
mod border;
mod calls;
mod clocks;
mod collective;
mod failure;
mod heap;
mod layout;
mod memory;
mod operator;
mod own_stack;
mod present;
mod program;
mod protected;
mod same_memory;
mod status;
mod thread;
