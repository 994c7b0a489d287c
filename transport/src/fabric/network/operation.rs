//! Operations of the endpoint, by their tokens.

/// A token has the kind of operation in the top byte, and its index below.
const SEND: u64 = 1 << 56;
const RECEIVE: u64 = 2 << 56;
const READ: u64 = 3 << 56;

/// An operation by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A message, by its header slot.
    Send(usize),
    /// A receive, by its slot.
    Receive(usize),
    /// A read, by its fetch.
    Read(usize),
    /// A message that the provider copied at once: it has no index.
    Injected,
}

impl Operation {
    #[inline]
    pub fn token(self) -> u64 {
        match self {
            Self::Send(slot) => SEND | slot as u64,
            Self::Receive(slot) => RECEIVE | slot as u64,
            Self::Read(fetch) => READ | fetch as u64,
            Self::Injected => 0,
        }
    }

    #[inline]
    pub fn of(token: u64) -> Self {
        let index = (token & (SEND - 1)) as usize;
        match token & !(SEND - 1) {
            SEND => Self::Send(index),
            RECEIVE => Self::Receive(index),
            READ => Self::Read(index),
            _ => Self::Injected,
        }
    }
}
