//! Conversations over TCP between processes that share a secret: the launcher
//! and its agents on other hosts; and where servers listen, for those who know a
//! secret or are of the same user.
//!
//! A stranger who connects is told nothing and can do nothing. Both sides prove
//! that they know the secret, freshly, before anything is said; from then on
//! everything is encrypted, and what was changed, left out in the middle, played
//! again or made up ends the conversation. Noise does all of it
//! (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`, by the crate `snow`); no cipher is
//! implemented here. What it does not do: it cannot hide how much is said and
//! when, nor keep somebody on the way from cutting the connection.
//!
//! | file | subject |
//! |---|---|
//! | `secret` | what both sides know |
//! | `address` | where a server listens, perhaps with the secret |
//! | `listener` | its listening socket |
//! | `unix` | Unix sockets at paths of any length |
//! | `session` | one conversation; bytes in, bytes out, no sockets |
//! | `blocking` | one over a socket that blocks |
//! | `door` | a server's listeners, and the connections in front of them: bounded in number and time |
//!
//! Docs: `docs/guide/hosts.md`.

mod address;
mod blocking;
mod door;
mod listener;
mod secret;
mod session;
pub mod unix;

pub use address::{NotAnAddress, ServerAddress};
pub use blocking::SealedStream;
pub use door::{Door, Guest, Notices, STRANGER_WAIT, STRANGERS_MAX};
pub use listener::{Accepted, Listener};
pub use secret::{NotASecret, Secret};
pub use session::{SecureError, Session};
