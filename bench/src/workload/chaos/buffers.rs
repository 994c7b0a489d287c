//! The buffers of one rank's messages in one round, and the check that only receives have changed
//! them.

use super::plan::{Message, MessageId, Round, Slot};
use super::verify::Post;
use crate::workload::payload;
use crate::workload::prng::combine;
use crate::workload::shape::Piece;
use refrain::Layout;
use std::sync::Arc;

/// Bytes on either side of a receive's room that must not change.
const GUARD_BYTES: usize = 64;

/// The buffer of one message; empty for messages of other ranks.
#[derive(Debug, Default)]
pub struct SendBuffer {
    /// The message in the pieces of its shape, with other bytes between them.
    pub data: Vec<u8>,
    /// The layout; `None` for a plain slice.
    pub layout: Option<Arc<Layout>>,
}

impl SendBuffer {
    /// The buffer of a message.
    ///
    /// # Errors
    /// The library refuses the layout.
    pub fn new(message: &Message) -> Result<Self, refrain::Error> {
        let mut data = payload::make(!message.seed, message.shape.span_bytes());
        message
            .shape
            .scatter(&payload::make(message.seed, message.bytes), &mut data);
        Ok(Self {
            data,
            layout: message.shape.layout()?,
        })
    }
}

/// The buffer of one receive.
#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    data: Vec<u8>,
    seed: u64,
}

impl ReceiveBuffer {
    /// A buffer for a slot, filled with bytes that are in no message.
    #[must_use]
    pub fn new(slot: &Slot, seed: u64) -> Self {
        let data = payload::make(seed, slot.shape.span_bytes() + 2 * GUARD_BYTES);
        Self { data, seed }
    }

    /// The part that is passed to the library.
    pub fn room(&mut self) -> &mut [u8] {
        let end = self.data.len().saturating_sub(GUARD_BYTES);
        self.data.get_mut(GUARD_BYTES..end).unwrap_or_default()
    }

    /// Compares the buffer with its expected content after the receive of a message, or of none.
    ///
    /// # Errors
    /// A description of the difference.
    fn check(&self, slot: &Slot, message: Option<&Message>) -> Result<(), String> {
        let mut expected = payload::make(self.seed, self.data.len());
        if let Some(message) = message {
            let payload = payload::make(message.seed, message.bytes.min(slot.room_bytes));
            slot.shape.scatter(&payload, &mut expected[GUARD_BYTES..]);
        }
        let Some(at) = payload::first_difference(&self.data, &expected) else {
            return Ok(());
        };
        let pairs = self.data.iter().zip(&expected);
        let wrong = pairs.filter(|(found, expected)| found != expected).count();
        let pieces: Vec<Piece> = slot.shape.pieces().into_iter().take(3).collect();
        Err(format!(
            "byte {} of the buffer (its message bytes lie at {pieces:?}…) is {:#04x}, expected {:#04x}; {wrong} bytes are wrong",
            at as i64 - GUARD_BYTES as i64,
            self.data[at],
            expected[at]
        ))
    }
}

/// The buffers of one receive; the second one is empty unless the receive may be posted again.
pub type Buffers = [ReceiveBuffer; 2];

/// All receive buffers of `rank`, by slot; buffers of slots of other ranks are empty.
#[must_use]
pub fn receive_buffers(round: &Round, rank: u32) -> Vec<Buffers> {
    let buffers = |(id, slot): (usize, &Slot)| {
        [false, true].map(|second| {
            if slot.receiver != rank || second && !slot.needs_second_buffer() {
                return ReceiveBuffer::default();
            }
            let parts = [round.number, u64::from(rank), id as u64, second.into()];
            ReceiveBuffer::new(slot, combine(&[&[0x6775_6172_6473], &parts[..]].concat()))
        })
    };
    round.slots.iter().enumerate().map(buffers).collect()
}

/// Checks every byte of every buffer, given the message that each post received.
///
/// # Errors
/// A description of the first wrong buffer.
pub fn check(
    buffers: &[Buffers],
    round: &Round,
    rank: u32,
    posts: &[Post],
    received: &[Option<MessageId>],
) -> Result<(), String> {
    // The buffer of a persistent request has its last message; all its messages are equal. A
    // buffer without a receive must not have changed.
    let mut contents = vec![[None; 2]; buffers.len()];
    for (post, id) in posts.iter().zip(received) {
        let content = &mut contents[post.slot][usize::from(post.second_buffer)];
        *content = id.or(*content);
    }
    for (id, slot) in round.slots.iter().enumerate() {
        for (buffer, content) in buffers[id].iter().zip(contents[id]) {
            if buffer.data.is_empty() {
                continue;
            }
            let message = content.map(|id| &round.messages[id]);
            buffer.check(slot, message).map_err(|wrong| {
                let found = resembling(round, rank, slot, &buffer.data[GUARD_BYTES..]);
                format!("receive {id} {slot:?} of message {content:?} {message:?}: {wrong}{found}")
            })?;
        }
    }
    Ok(())
}

/// The message that is in a buffer instead of the expected one.
fn resembling(round: &Round, rank: u32, slot: &Slot, room: &[u8]) -> String {
    let begins_with = |message: &Message| {
        let bytes = message.bytes.min(slot.room_bytes).min(64);
        let mut pieces = slot
            .shape
            .pieces()
            .into_iter()
            .flat_map(|(offset, length)| offset..offset + length);
        let expected = payload::make(message.seed, bytes);
        bytes >= 4
            && expected
                .iter()
                .all(|byte| pieces.next().is_some_and(|at| room[at] == *byte))
    };
    let messages = || {
        round
            .messages
            .iter()
            .enumerate()
            .filter(|it| begins_with(it.1))
    };
    let found = messages().find(|(_, message)| message.destination == rank);
    match found.or_else(|| messages().next()) {
        Some((id, message)) => format!("; it begins like message {id} {message:?}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::generate::{self, Parameters};
    use super::super::plan::ReceiveManner;
    use super::*;

    /// A receive with gaps in its buffer, and a message for it.
    fn slot_and_message() -> (Slot, Message) {
        let parameters = Parameters {
            seed: 3,
            ranks: 2,
            bytes_max: 4096,
        };
        for number in 0.. {
            let round = generate::round(parameters, number);
            let with_gaps = |slot: &&Slot| {
                slot.shape.span_bytes() > slot.room_bytes
                    && slot.room_bytes > 8
                    && !slot.may_truncate
            };
            if let Some(slot) = round.slots.iter().find(with_gaps)
                && let Some(message) = round
                    .messages
                    .iter()
                    .find(|message| message.bytes > slot.room_bytes)
            {
                return (slot.clone(), message.clone());
            }
        }
        unreachable!("rounds do not end")
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let (slot, message) = slot_and_message();
        let mut buffer = ReceiveBuffer::new(&slot, 99);
        assert_eq!(buffer.check(&slot, None), Ok(()));
        // The beginning of a truncated message.
        let payload = payload::make(message.seed, slot.room_bytes);
        slot.shape.scatter(&payload, buffer.room());
        assert_eq!(buffer.check(&slot, Some(&message)), Ok(()));
        assert!(buffer.check(&slot, None).is_err());
        for at in 0..buffer.data.len() {
            buffer.data[at] ^= 1;
            assert!(buffer.check(&slot, Some(&message)).is_err(), "byte {at}");
            buffer.data[at] ^= 1;
        }
    }

    #[test]
    fn second_buffers_are_for_races() {
        let parameters = Parameters {
            seed: 3,
            ranks: 2,
            bytes_max: 100,
        };
        let rounds = (0..20).map(|number| generate::round(parameters, number));
        let slots: Vec<_> = rounds.flat_map(|round| round.slots).collect();
        assert!(slots.iter().any(Slot::needs_second_buffer));
        assert!(
            slots.iter().all(
                |slot| slot.needs_second_buffer() == (slot.manner == ReceiveManner::CancelRace)
            )
        );
    }
}
