//! The checkpoint server: sessions with and without sockets; clients that vanish, stall or violate
//! the protocol; servers that are killed, or serve only clients with a secret.

mod bytes;
#[path = "../store/content.rs"]
mod content;
mod conversation;
mod hostile;
mod killed;
mod running;
mod sealed;
mod serving;
