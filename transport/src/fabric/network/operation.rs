//! Operations of the endpoint, by their tokens.

/// What the tokens of operations mean: the operation in the top byte, what it is
/// about below.
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
    /// A message that was copied at once: it has no name.
    Injected,
}

/// For a message with that header slot.
#[inline]
pub fn token_of_send(slot: usize) -> u64 {
    SEND | slot as u64
}

/// For a receive into that slot.
#[inline]
pub fn token_of_receive(slot: usize) -> u64 {
    RECEIVE | slot as u64
}

/// For the read of that fetch.
#[inline]
pub fn token_of_read(fetch: usize) -> u64 {
    READ | fetch as u64
}

impl Operation {
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
