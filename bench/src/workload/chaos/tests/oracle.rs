//! The oracle detects planted errors.

use super::epoch;
use super::model::Model;
use crate::workload::chaos::plan::{MessageId, Round};
use crate::workload::chaos::verify::{self, Outcome, Post};

/// A round, and the posts and messages of rank 0 in a legal run.
fn legal(seed: u64) -> (Round, Vec<Post>, Vec<Option<MessageId>>) {
    let rounds = epoch(seed, 3);
    let mut model = Model::new(&rounds, seed);
    model.run().unwrap();
    let (posts, received) = model.posts(0, 0).into_iter().unzip();
    (rounds[0].clone(), posts, received)
}

/// The post with the outcome that another message would give.
fn with_message(round: &Round, post: Post, id: MessageId) -> Post {
    let outcome = Outcome::of(&round.messages[id], &round.slots[post.slot]);
    Post {
        outcome: Some(outcome),
        ..post
    }
}

#[test]
fn a_lost_message_is_noticed() {
    let (round, mut posts, _) = legal(1);
    let at = posts
        .iter()
        .rposition(|post| post.outcome != Some(Outcome::Cancelled))
        .unwrap();
    posts[at].outcome = Some(Outcome::Cancelled);
    assert!(
        verify::assign(&round, 0, &posts)
            .unwrap_err()
            .contains("lost")
    );
    posts[at].outcome = None;
    assert!(
        verify::assign(&round, 0, &posts)
            .unwrap_err()
            .contains("never completed")
    );
}

#[test]
fn a_message_received_twice_is_noticed() {
    let (round, mut posts, _) = legal(2);
    let last = posts
        .iter()
        .rfind(|post| post.outcome != Some(Outcome::Cancelled))
        .copied()
        .unwrap();
    posts.push(last);
    assert!(
        verify::assign(&round, 0, &posts)
            .unwrap_err()
            .contains("more messages")
    );
}

#[test]
fn a_wrong_length_is_noticed() {
    let (round, mut posts, _) = legal(3);
    for at in 0..posts.len() {
        let before = posts[at];
        if let Some(Outcome::Received { bytes, .. }) = &mut posts[at].outcome {
            *bytes += 1;
            assert!(verify::assign(&round, 0, &posts).is_err(), "post {at}");
        }
        posts[at] = before;
    }
}

#[test]
fn overtaking_is_noticed_within_a_tag_and_across_tags() {
    let (mut within, mut across) = (0, 0);
    for seed in 0..120 {
        let (round, posts, received) = legal(seed);
        for first in 0..posts.len() {
            for second in first + 1..posts.len() {
                let (Some(a), Some(b)) = (received[first], received[second]) else {
                    continue;
                };
                let (one, other) = (&round.messages[a], &round.messages[b]);
                let exchangeable =
                    posts[first].pattern.admits(other) && posts[second].pattern.admits(one);
                if one.source != other.source || !exchangeable || one.bytes == other.bytes {
                    continue;
                }
                let mut swapped = posts.clone();
                swapped[first] = with_message(&round, posts[first], b);
                swapped[second] = with_message(&round, posts[second], a);
                let error = verify::assign(&round, 0, &swapped).unwrap_err();
                assert!(error.contains("overt"), "seed {seed}: {error}");
                if one.tag == other.tag {
                    within += 1
                } else {
                    across += 1
                }
            }
        }
    }
    assert!(
        within > 20 && across > 10,
        "{within} within, {across} across"
    );
}
