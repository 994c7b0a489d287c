//! Connections for everything that is not a message of the program: ranks and their launcher,
//! launcher and agents, ranks and event loggers, ranks and checkpoint servers.
//!
//! One framing for all protocols, each with its magic, version and limits; one connection
//! over Unix sockets and TCP, which never blocks unless it is asked to wait; and the door of a
//! server, which bounds the connections that have not proved anything.
//!
//! A connection over TCP can be sealed. A process that does not know the secret is told
//! nothing and can do nothing. Both sides prove that they know the secret, freshly, before any
//! message; from then on everything is encrypted, and what was changed, left out in the
//! middle, played again or made up ends the connection. Noise does all of it
//! (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`, by the crate `snow`); no cipher is implemented
//! here. What it does not do: it cannot hide how much is said and when, nor prevent that the
//! connection is cut on its way.
//!
//! | file | subject |
//! |---|---|
//! | `framing` | a [`Protocol`] and its frames: pure |
//! | `connection` | messages, data and descriptors over a socket, sealed or plain |
//! | `door` | a server's listeners, and the connections in front of them: bounded in number and time |
//! | `listener` | a listening socket |
//! | `address` | where a server listens, perhaps with the secret |
//! | `unix` | Unix sockets at paths of any length |
//! | `secret` | what both sides of a sealed connection know |
//! | `session` | one sealed conversation; bytes in, bytes out, no sockets |
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
