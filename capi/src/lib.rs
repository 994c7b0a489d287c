//! Refrain for programs in C: `librefrain`, whose functions `include/refrain.h` declares and
//! describes. Every function calls crate `refrain`; no decision is made here.
//!
//! Promises: the library follows no argument that the header calls wrong, and no panic leaves it
//! ([`border`]). Handles are numbers that are looked up (in the world, and in [`present`]), so
//! using an ended one is an error and no access to a dangling pointer. Buffers belong to the
//! caller; all code that trusts a pointer is in [`memory`]. What crate `refrain-border` promises
//! holds here.
//!
//! This crate must not know launchers, fabrics and protocols.

mod border;
mod calls;
mod collective;
mod failure;
mod layout;
mod memory;
mod operator;
mod present;
mod program;
mod protected;
mod status;
