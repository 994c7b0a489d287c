//! Connections for everything that is not a message of the program: ranks and their launcher,
//! launcher and agents, ranks and event loggers, ranks and checkpoint servers.
//!
//! All protocols use one framing; each has its magic, version and limits. One type of connection
//! serves Unix sockets and TCP, and blocks only in calls that wait. The door of a server bounds the
//! connections that have not proved the secret.
//!
//! A connection over TCP can be sealed. A process that does not know the secret receives nothing
//! and can do nothing. Both sides prove in each session that they know the secret, before any
//! message. After that everything is encrypted, and bytes that were changed, omitted, replayed or
//! forged end the connection. Noise implements all this (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`,
//! by the crate `snow`); this crate implements no cipher. A sealed connection hides neither the
//! amount nor the time of traffic, and can still be cut.
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
pub use connection::{Connection, HELD_BACK_RETRY, Incoming, WireError};
pub use door::{Door, Notices, STRANGER_WAIT, STRANGERS_MAX};
pub use framing::{FRAME_HEADER_BYTES, Frame, FrameError, Protocol};
pub use listener::Listener;
pub use rustix::net::Shutdown;
pub use secret::{NotASecret, Secret};
pub use session::{SecureError, Session};
