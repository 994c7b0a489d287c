//! A later life that sees an event without a record, though an earlier life sent
//! messages after it. REC-9

use super::scenes::Pair;
use crate::networks;
use crate::recorder::found;
use crate::rig::{from, payload, to};
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::divergence::DivergencePolicy;
use refrain_transport::engine::{EngineError, RequestId};
use refrain_transport::matching::Pattern;
use refrain_transport::recorded::{Compared, PreviousSends, SentAgain};

const ANY: Pattern = Pattern {
    context: 0,
    source: None,
    tag: None,
};
const TURNS: usize = 200;

/// A log with three messages to rank 1.
#[derive(Debug)]
struct LogOfThree;

impl PreviousSends for LogOfThree {
    fn has(&mut self, to: Rank, ssn: Ssn) -> bool {
        self.has_from(to, ssn)
    }

    fn has_from(&mut self, to: Rank, ssn: Ssn) -> bool {
        to == Rank(1) && ssn < Ssn(3)
    }

    fn compare(&mut self, _: &SentAgain<'_>) -> Result<Compared, String> {
        Ok(Compared::Same)
    }
}

fn pair() -> Pair {
    let network = networks::all().into_iter().next();
    Pair::new(network.expect("one"))
}

/// Rank 0 has sent three messages that no peer got, and has died; its next life has begun.
fn begun_again_with_log() -> Pair {
    let mut pair = pair();
    pair.lay_down(0);
    pair.raise(0, 1);
    let mut life = pair.lives[0].take().expect("it lives");
    let past = Box::new(LogOfThree);
    life.engine = life
        .engine
        .with_previous_sends(past, DivergencePolicy::Auto);
    pair.lives[0] = Some(life);
    pair.settle();
    pair
}

/// Rank 1 has sent a message; rank 0 has sent three, and has died; its next life has begun.
fn begun_again(is_heard: bool) -> Pair {
    let mut pair = pair();
    for message in 0..3 {
        pair.send(0, to(1, 1), &payload(message, 8));
    }
    pair.send(1, to(0, 2), &payload(9, 8));
    pair.settle();
    pair.lay_down(0);
    pair.raise(0, 1);
    if is_heard {
        pair.settle();
    }
    pair
}

/// The error of rank 0, within some turns; `None`: it continues.
fn stop(pair: &mut Pair) -> Option<EngineError> {
    for _ in 0..TURNS {
        pair.network.step();
        pair.lives[1].as_mut().expect("it lives").progress();
        if let Err(error) = pair.engine(0).progress() {
            return Some(error);
        }
    }
    None
}

/// Holds commits, and makes a probe: it is logged and not stable.
fn probe(pair: &mut Pair) {
    hold_commits(pair);
    let clock = pair.engine(0).tick();
    pair.engine(0).note_probe(clock, &found(Rank(1)), Ssn(0));
}

fn hold_commits(pair: &Pair) {
    pair.hold_commits(0);
}

fn receive_any(pair: &mut Pair) -> RequestId {
    pair.receive(0, ANY, 8).0
}

/// The event comes before, between or after the messages that the peer has; the peer's report comes
/// before or after the event.
// REC-9
#[test]
fn an_event_without_a_record_comes_behind_all_that_peers_have() {
    for is_heard in [true, false] {
        for sends in 0..=4 {
            let mut pair = begun_again(is_heard);
            for message in 0..sends {
                pair.send(0, to(1, 1), &payload(message, 8));
            }
            probe(&mut pair);
            let stopped = stop(&mut pair);
            let what = format!("{sends} sends, heard {is_heard}: {stopped:?}");
            match stopped {
                None => assert!(sends >= 3, "{what}"),
                Some(EngineError::RecordMissing {
                    clock, peer, first, ..
                }) => {
                    assert_eq!((clock, peer), (Clock(sends + 1), Rank(1)), "{what}");
                    assert!(sends < 3 && first == Ssn(sends), "{what}");
                }
                Some(_) => panic!("{what}"),
            }
        }
    }
}

/// A match that the program has not seen proves nothing: its message may have arrived after the
/// sends in the earlier life, and before them in this one.
// REC-9
#[test]
fn a_match_counts_when_the_program_is_told_of_it() {
    for is_told_first in [true, false] {
        let mut pair = begun_again(true);
        hold_commits(&pair);
        let request = receive_any(&mut pair);
        assert!(pair.engine(0).outcome(request).is_some(), "it was there");
        assert_eq!(pair.engine(0).statistics().events, 1);
        if is_told_first {
            pair.engine(0).retire(request);
        }
        assert_eq!(stop(&mut pair).is_some(), is_told_first);
        if !is_told_first {
            for message in 0..3 {
                pair.send(0, to(1, 1), &payload(message, 8));
            }
            pair.engine(0).retire(request);
            let stopped = stop(&mut pair);
            assert!(stopped.is_none(), "{stopped:?}");
        }
    }
}

/// A record in a log passed the gate, also if no peer got it.
// REC-9 GATE-1
#[test]
fn an_event_without_a_record_comes_behind_all_that_logs_have() {
    for sends in 0..=4 {
        let mut pair = begun_again_with_log();
        for message in 0..sends {
            pair.send(0, to(1, 1), &payload(message, 8));
        }
        probe(&mut pair);
        assert_eq!(pair.engine(0).is_comparing(), sends < 3);
        let stopped = stop(&mut pair);
        let what = format!("{sends} sends: {stopped:?}");
        match stopped {
            None => assert!(sends >= 3, "{what}"),
            Some(EngineError::RecordMissing {
                clock, peer, first, ..
            }) => {
                assert_eq!((clock, peer), (Clock(sends + 1), Rank(1)), "{what}");
                assert!(sends < 3 && first == Ssn(sends), "{what}");
            }
            Some(_) => panic!("{what}"),
        }
    }
}

/// A channel is matched in order: a receive that got a later message shows that an
/// earlier one was matched.
// REC-9
#[test]
fn a_later_message_of_its_sender_shows_a_match() {
    for any_is_first in [true, false] {
        let mut pair = begun_again(true);
        pair.send(1, to(0, 2), &payload(10, 8));
        pair.settle();
        hold_commits(&pair);
        let posts = [ANY, from(1, 2)];
        let [one, other] = match any_is_first {
            true => posts,
            false => [posts[1], posts[0]],
        }
        .map(|pattern| pair.receive(0, pattern, 8).0);
        let named = if any_is_first { other } else { one };
        assert!(pair.engine(0).outcome(named).is_some(), "it was there");
        pair.engine(0).retire(named);
        assert_eq!(stop(&mut pair).is_some(), any_is_first);
    }
}

/// The messages that a peer has after its own death include those of this life.
// REC-9
#[test]
fn only_the_first_word_of_a_peer_counts() {
    let mut pair = begun_again(true);
    for message in 0..3 {
        pair.send(0, to(1, 1), &payload(message, 8));
    }
    probe(&mut pair);
    let life = pair.lives[0].as_ref().expect("it lives");
    life.protocol.commit();
    pair.send(0, to(1, 1), &payload(3, 8));
    pair.settle();
    assert_eq!(pair.engine(1).first_missing(Rank(0)), Ssn(4), "it has left");
    pair.lay_down(1);
    pair.raise(1, 1);
    let stopped = stop(&mut pair);
    assert!(stopped.is_none(), "{stopped:?}");
}

/// Nothing is sent after the contradiction, also not to other ranks.
// REC-9 GATE-1
#[test]
fn a_send_behind_the_contradiction_is_refused() {
    let mut pair = begun_again(true);
    probe(&mut pair);
    let room = crate::memory::Room::holding(&[0; 8]);
    let sent = pair
        .engine(0)
        .start_send(crate::memory::send_buffer(&room), to(1, 1));
    let refused = sent.expect_err("a contradiction");
    let said = refused.to_string();
    for words in [
        "operation 1 (a probe that found a message)",
        "sent message 0 to rank 1 after it",
        "--event-dir",
    ] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
}
