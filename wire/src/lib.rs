//! Connections for everything that is not a message of the program: ranks and their launcher,
//! launcher and agents, ranks and event loggers, ranks and checkpoint servers.
//!
//! One framing for all protocols, each with its magic, version and limits; one connection
//! over Unix sockets and TCP, which never blocks unless it is asked to wait; and the door of a
//! server, which bounds the connections that have not proved anything.
//!
//! A connection over TCP can be sealed. A process that does not know the secret receives
//! nothing and can do nothing. Both sides prove that they know the secret, freshly, before any
//! message; from then on everything is encrypted, and bytes that were changed, left out in the
//! middle, replayed or made up end the connection. Noise does all of it
//! (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`, by the crate `snow`); no cipher is implemented
//! here. It cannot hide how much is sent and when, nor prevent that the connection is cut.
//!
//! | file | subject |
//! |---|---|
//! | `framing` | a [`Protocol`] and its frames: pure |
//! | `connection` | messages, data and descriptors over a socket, sealed or plain |
//! | `door` | a server's listeners, and the connections in front of them: bounded in number and time |
//! | `listener` | a listening socket |
//! | `address` | the address of a server, with the secret if there is one |
//! | `unix` | Unix sockets at paths of any length |
//! | `secret` | the secret of both sides of a sealed connection |
//! | `session` | one sealed session; bytes in, bytes out, no sockets |
//!
//! Docs: `docs/guide/hosts.md`.

mod address;
mod connection;
mod door;
mod framing;
mod listener;
mod secret;
mod session;
pub mod unix;

pub use address::{NotAnAddress, ServerAddress};
pub use connection::{Connection, Incoming, WireError};
pub use door::{Door, Notices, STRANGER_WAIT, STRANGERS_MAX};
pub use framing::{FRAME_HEADER_BYTES, Frame, FrameError, Protocol};
pub use listener::Listener;
pub use rustix::net::Shutdown;
pub use secret::{NotASecret, Secret};
pub use session::{SecureError, Session};
