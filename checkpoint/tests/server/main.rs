//! The checkpoint server: conversations, with sockets and without; clients that
//! vanish, dawdle or lie; servers that are killed, or
//! talk to friends alone.

mod bytes;
#[path = "../store/content.rs"]
mod content;
mod conversation;
mod hostile;
mod killed;
mod running;
mod sealed;
mod serving;
