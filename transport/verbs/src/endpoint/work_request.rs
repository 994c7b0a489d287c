//! Numbers of work requests (`wr_id`), which identify completions.
//!
//! A completion that was in flight while its queue pair was replaced must not be taken for one of
//! the next queue pair. Slot and epoch name the queue pair; an epoch is reused only after 2^14
//! queue pairs of the same slot.

/// Most queue pairs at a time.
pub(super) const SLOTS_MAX: usize = 1 << 16;

const EPOCH_MASK: u16 = (1 << 14) - 1;

/// Names one queue pair of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PairId {
    pub(super) slot: u16,
    epoch: u16,
}

impl PairId {
    /// The id of the first queue pair of a slot.
    pub(super) fn first(slot: u16) -> Self {
        Self { slot, epoch: 0 }
    }

    /// The id of the next queue pair of the same slot.
    pub(super) fn next(self) -> Self {
        Self {
            slot: self.slot,
            epoch: self.epoch.wrapping_add(1) & EPOCH_MASK,
        }
    }
}

/// The kind of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkRequest {
    /// A request in the send queue of a pair, by its sequence number.
    Send(PairId, u32),
    /// A posted receive, by its index.
    Receive(u32),
    /// A greeting that was sent, by the number of its buffer.
    GreetingSent(u32),
    /// A buffer for a received greeting, by its number.
    GreetingHeard(u32),
}

const SEND: u64 = 0;
const RECEIVE: u64 = 1;
const GREETING_SENT: u64 = 2;
const GREETING_HEARD: u64 = 3;

impl WorkRequest {
    #[inline]
    pub(super) fn encode(self) -> u64 {
        let (class, high, low) = match self {
            Self::Send(pair, sequence) => (
                SEND,
                u64::from(pair.epoch) << 16 | u64::from(pair.slot),
                sequence,
            ),
            Self::Receive(index) => (RECEIVE, 0, index),
            Self::GreetingSent(index) => (GREETING_SENT, 0, index),
            Self::GreetingHeard(index) => (GREETING_HEARD, 0, index),
        };
        class << 62 | high << 32 | u64::from(low)
    }

    #[inline]
    pub(super) fn decode(number: u64) -> Self {
        let low = number as u32;
        match number >> 62 {
            SEND => {
                let pair = PairId {
                    slot: (number >> 32) as u16,
                    epoch: (number >> 48) as u16 & EPOCH_MASK,
                };
                Self::Send(pair, low)
            }
            RECEIVE => Self::Receive(low),
            GREETING_SENT => Self::GreetingSent(low),
            _ => Self::GreetingHeard(low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_what_they_were_made_of() {
        let mut pair = PairId::first(u16::MAX);
        for _ in 0..=EPOCH_MASK {
            for sequence in [0, 1, 77, u32::MAX] {
                let request = WorkRequest::Send(pair, sequence);
                assert_eq!(WorkRequest::decode(request.encode()), request);
            }
            pair = pair.next();
        }
        assert_eq!(pair, PairId::first(u16::MAX));
        for index in [0, 5, u32::MAX] {
            for request in [
                WorkRequest::Receive(index),
                WorkRequest::GreetingSent(index),
                WorkRequest::GreetingHeard(index),
            ] {
                assert_eq!(WorkRequest::decode(request.encode()), request);
            }
        }
    }

    #[test]
    fn a_completion_of_the_pair_before_is_not_one_of_the_next() {
        let old = PairId::first(3);
        let number = WorkRequest::Send(old, 9).encode();
        assert_ne!(
            WorkRequest::decode(number),
            WorkRequest::Send(old.next(), 9)
        );
    }
}
