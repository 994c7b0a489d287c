//! Checks that the plan and MPI's rules allow what a rank received.

use super::plan::{Message, MessageId, Pattern, Round, Slot, SlotId};
use crate::workload::error::WorkloadError;
use refrain::{Error, Status};
use std::collections::HashMap;

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A message was received.
    Received {
        source: u32,
        tag: i32,
        bytes: u64,
        /// Length of the room, if the message was longer.
        truncated_to: Option<u64>,
    },
    /// The receive was cancelled before a message matched.
    Cancelled,
}

impl Outcome {
    /// The outcome of a receive that gets this message.
    #[must_use]
    pub fn of(message: &Message, slot: &Slot) -> Self {
        let truncates = message.bytes > slot.room_bytes;
        Self::Received {
            source: message.source,
            tag: message.tag,
            bytes: message.bytes as u64,
            truncated_to: truncates.then_some(slot.room_bytes as u64),
        }
    }
}

/// The outcome of a receive, as the library reports it.
///
/// # Errors
/// Those of the library, except truncation.
pub fn outcome(result: Result<Status, Error>) -> Result<Outcome, WorkloadError> {
    match result {
        Ok(status) if status.cancelled => Ok(Outcome::Cancelled),
        Ok(status) => Ok(Outcome::Received {
            source: status.source.0,
            tag: status.tag,
            bytes: status.bytes,
            truncated_to: None,
        }),
        Err(Error::Truncated {
            source_rank,
            tag,
            message_bytes,
            buffer_bytes,
        }) => Ok(Outcome::Received {
            source: source_rank.0,
            tag,
            bytes: message_bytes,
            truncated_to: Some(buffer_bytes),
        }),
        Err(error) => Err(error.into()),
    }
}

/// A receive that was posted; a matched probe counts from its match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// The slot in the plan.
    pub slot: SlotId,
    /// The pattern that it accepts; for a receive after a probe, that of the probed message.
    pub pattern: Pattern,
    /// Whether it uses the slot's second buffer.
    pub second_buffer: bool,
    /// Its outcome; `None` while it is pending.
    pub outcome: Option<Outcome>,
}

/// Finds the message that each of a rank's posts received. `posts` are in the order of posting.
///
/// Messages of one sender with one context and tag match the same receives, so they must be
/// received in the order of sending: status and order together identify the message, without its
/// content.
///
/// # Errors
/// A description of the first violation.
pub fn assign(round: &Round, rank: u32, posts: &[Post]) -> Result<Vec<Option<MessageId>>, String> {
    let order = round.send_order();
    let mut streams = streams_to(round, rank, &order);
    let mut received = Vec::with_capacity(posts.len());
    for post in posts {
        let (source, tag) = match post.outcome {
            None => return Err(format!("receive {} never completed", post.slot)),
            Some(Outcome::Cancelled) => {
                received.push(None);
                continue;
            }
            Some(Outcome::Received { source, tag, .. }) => (source, tag),
        };
        let stream = streams.get_mut(&(source, post.pattern.context, tag));
        let id = stream.and_then(Iterator::next).ok_or_else(|| {
            format!(
                "receive {} got more messages than were sent: {post:?}",
                post.slot
            )
        })?;
        check_status(round, post, id)?;
        received.push(Some(id));
    }
    for mut stream in streams.into_values() {
        if let Some(id) = stream.next() {
            return Err(format!("message {id} was lost: {:?}", round.messages[id]));
        }
    }
    check_overtaking(round, posts, &received, &order)?;
    Ok(received)
}

/// The messages to a rank by source, context and tag, in the order of sending.
fn streams_to(
    round: &Round,
    rank: u32,
    order: &[usize],
) -> HashMap<(u32, u32, i32), std::vec::IntoIter<MessageId>> {
    let mut ids: Vec<MessageId> = (0..round.messages.len()).collect();
    ids.retain(|&id| round.messages[id].destination == rank);
    ids.sort_by_key(|&id| order[id]);
    let mut streams: HashMap<_, Vec<MessageId>> = HashMap::new();
    for id in ids {
        let message = &round.messages[id];
        let key = (message.source, message.context, message.tag);
        streams.entry(key).or_default().push(id);
    }
    let streams = streams.into_iter();
    streams.map(|(key, ids)| (key, ids.into_iter())).collect()
}

fn check_status(round: &Round, post: &Post, id: MessageId) -> Result<(), String> {
    let message = &round.messages[id];
    if !post.pattern.admits(message) {
        return Err(format!(
            "receive {post:?} does not accept message {id}: {message:?}"
        ));
    }
    let expected = Outcome::of(message, &round.slots[post.slot]);
    if post.outcome != Some(expected) {
        return Err(format!(
            "receive {} got {:?} for message {id}, expected {expected:?} (or messages overtook each other)",
            post.slot, post.outcome
        ));
    }
    Ok(())
}

/// Checks MPI's order, also across tags: if two messages of one sender match one receive, it must
/// not get the later message while the earlier one goes to a receive that was posted after it.
fn check_overtaking(
    round: &Round,
    posts: &[Post],
    received: &[Option<MessageId>],
    order: &[usize],
) -> Result<(), String> {
    for (place, (post, id)) in posts.iter().zip(received).enumerate() {
        let Some(id) = *id else { continue };
        for (after, later) in posts[place + 1..].iter().zip(&received[place + 1..]) {
            let Some(later) = *later else { continue };
            let (mine, other) = (&round.messages[id], &round.messages[later]);
            let both_fit = mine.source == other.source && post.pattern.admits(other);
            if both_fit && order[id] > order[later] {
                return Err(format!(
                    "message {id} overtook message {later}: receive {post:?} was posted before {after:?}; \
                     {mine:?}; {other:?}"
                ));
            }
        }
    }
    Ok(())
}
