//! The protocol by which two endpoints agree on a pair of queue pairs, over datagrams that may be
//! lost, repeated and reordered. See docs/design/verbs-connections.md.
//!
//! A reliable queue pair is bound once, to one queue pair of the other side, and works only if that
//! one is bound to it. When one of them breaks, both sides need new ones: the next *generation*. A
//! [`Greeting`] contains the generation of its sender, with the queue pair and its stage.
//! [`Pairing`] has the rules, [`Connecting`] adds time, and [`Directory`] has the known senders of
//! greetings.
//!
//! Pure: no clock, no socket, no verbs. Time and greetings are arguments, [`Effect`]s are results.

mod connecting;
mod directory;
mod pace;
mod pairing;
mod wire;

pub use connecting::{Connecting, Effect};
pub use directory::{Directory, Gone, Standing};
pub use pace::{CALM, REPEAT_MAX, REPEAT_MIN, SILENT_AFTER};
pub use pairing::{Pairing, Step};
pub use wire::{
    Contact, GREETING_BYTES, GREETING_VERSION, Greeting, GreetingError, Identity, NUMBER_MAX,
    Offer, Stage,
};
