//! Whether what a rank received is what the plan and MPI's rules allow.

use super::plan::{MessageId, Pattern, Round, SlotId};
use std::collections::HashMap;

/// What became of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A message came.
    Received {
        /// Whose.
        source: u32,
        /// Its tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// A message came that was longer than the room.
    Truncated {
        /// Whose.
        source: u32,
        /// Its tag.
        tag: i32,
        /// Its length.
        bytes: u64,
        /// The room.
        room_bytes: u64,
    },
    /// It was cancelled before a message came.
    Cancelled,
}

/// A receive that was posted; a matched probe counts from when it matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Which of the plan's receives.
    pub slot: SlotId,
    /// What it accepted: for a receive after a probe, what the probe found.
    pub pattern: Pattern,
    /// Whether it has the slot's second buffer.
    pub second_buffer: bool,
    /// What came of it; `None` while it is pending.
    pub outcome: Option<Outcome>,
}

/// Finds out which message each of a rank's posts received. `posts` are in the
/// order of posting.
///
/// Messages of one sender with one context and tag fit the same receives, so
/// they must be received in the order of sending: status and order together
/// say which message it was, whatever it contains.
///
/// # Errors
/// What is wrong, for people.
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
            Some(
                Outcome::Received { source, tag, .. } | Outcome::Truncated { source, tag, .. },
            ) => (source, tag),
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
    let mut streams: HashMap<_, Vec<MessageId>> = HashMap::new();
    for (id, message) in round
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| message.destination == rank)
    {
        streams
            .entry((message.source, message.context, message.tag))
            .or_default()
            .push(id);
    }
    streams
        .into_iter()
        .map(|(key, mut ids)| {
            ids.sort_by_key(|&id| order[id]);
            (key, ids.into_iter())
        })
        .collect()
}

fn check_status(round: &Round, post: &Post, id: MessageId) -> Result<(), String> {
    let message = &round.messages[id];
    let room = round.slots[post.slot].room_bytes;
    if !post.pattern.admits(message) {
        return Err(format!(
            "receive {post:?} does not accept message {id}: {message:?}"
        ));
    }
    let (source, tag, bytes) = (message.source, message.tag, message.bytes as u64);
    let expected = if message.bytes > room {
        Outcome::Truncated {
            source,
            tag,
            bytes,
            room_bytes: room as u64,
        }
    } else {
        Outcome::Received { source, tag, bytes }
    };
    if post.outcome != Some(expected) {
        return Err(format!(
            "receive {} got {:?} for message {id}, expected {expected:?} (or messages overtook each other)",
            post.slot, post.outcome
        ));
    }
    Ok(())
}

/// MPI's order, also across tags: when two messages of one sender fit one
/// receive, it must not get the later one while an earlier goes to a receive
/// that was posted after it.
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
            if mine.source == other.source && post.pattern.admits(other) && order[id] > order[later]
            {
                return Err(format!(
                    "message {id} overtook message {later}: receive {post:?} was posted before {after:?}; \
                     {mine:?}; {other:?}"
                ));
            }
        }
    }
    Ok(())
}
