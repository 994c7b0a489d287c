//! COLL-1, COLL-3, STREAM-1 to STREAM-4, LOG-1

use super::super::collective::Collectives;
use super::*;
use crate::collective::{Collective, Part, Shape};
use refrain_collectives::{Algorithm, Operation};
use refrain_ring::Stream;
use std::collections::BTreeMap;
use std::rc::Rc;

const CONTEXT: u32 = 1 << 31;

/// An allgather of one element of each of two ranks.
fn call(id: u32, rank: u32, word: u64) -> Collective {
    let shape = Shape {
        operation: Operation::Allgather,
        algorithm: Algorithm::Ring,
        root: 0,
        count: 1,
        is_ragged: false,
        in_place: false,
    };
    Collective {
        id,
        part: Part {
            shape,
            size: 2,
            me: rank,
        },
        members: [Rank(0), Rank(1)].into(),
        context: CONTEXT,
        number: id as i32,
        input: word.to_le_bytes().to_vec(),
    }
}

fn begin(id: u32, rank: u32, word: u64) -> Call {
    Call::Collective(Rc::new(call(id, rank, word)))
}

fn result(id: u32, words: &[u64]) -> Answer {
    Answer::Ended(vec![Ended {
        request: RequestNumber(0),
        collective: Some(id),
        peer: Rank(0),
        tag: 0,
        bytes: 0,
        cancelled: false,
        payload: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
    }])
}

/// The step `count` of a stream, of a collective with this number.
fn step(stream: u16, count: u64, number: i32) -> RecordHeader {
    RecordHeader {
        payload_bytes: 8,
        kind: RecordKind::Eager,
        flags: 0,
        incarnation: Incarnation(0),
        source: Rank(0),
        ssn: Ssn(Ssn::first(Stream(Stream::RESULTS.0 + stream)).0 + count),
        context: CONTEXT,
        tag: number,
        extent: 8,
    }
}

/// Both ranks have begun collective 0.
fn stage() -> Stage<Collectives> {
    let mut stage = Stage::new(Collectives::default());
    stage.called(0, 1, &begin(0, 0, 7)).unwrap();
    stage.called(1, 1, &begin(0, 1, 8)).unwrap();
    stage
}

impl Stage<Collectives> {
    fn begin_next_life(&mut self, word: u64) -> Result<(), Breach> {
        self.see(Happening::Began(next_life())).unwrap();
        let call = begin(0, 0, word);
        self.see(Happening::Called(next_life(), Clock(1), &call))
    }

    fn post_in_next_life(&mut self, header: &RecordHeader, payload: u64) -> Result<(), Breach> {
        let payload = payload.to_le_bytes();
        self.see(Happening::Posted(next_life(), Rank(1), header, &payload))
    }
}

#[test]
fn the_result_is_that_of_the_reference() {
    let mut stage = stage();
    stage.answered(0, 2, &result(0, &[7, 8])).unwrap();
    let wrong = stage.answered(1, 2, &result(0, &[8, 7]));
    assert_breach(wrong, "collective", "instead of");
    stage.called(0, 3, &begin(1, 0, 7)).unwrap();
    let early = stage.answered(0, 4, &result(1, &[7, 8]));
    assert_breach(early, "collective", "before all have given");
}

#[test]
fn groups_have_contexts_of_their_own() {
    let mut stage = stage();
    let other = Collective {
        members: [Rank(1), Rank(0)].into(),
        ..call(1, 0, 0)
    };
    let called = stage.called(0, 2, &Call::Collective(Rc::new(other)));
    assert_breach(called, "collective", "two groups");
}

#[test]
fn a_later_life_gives_what_has_left() {
    let mut stage = stage();
    // No message of the collective has left the first life.
    stage.begin_next_life(9).unwrap();
    stage.post_in_next_life(&step(1, 0, 0), 9).unwrap();
    assert_breach(stage.begin_next_life(7), "collective", "something else");
}

#[test]
fn steps_are_sent_again_as_they_were() {
    let mut stage = stage();
    stage
        .posted(0, &step(1, 0, 0), &7u64.to_le_bytes())
        .unwrap();
    stage.begin_next_life(7).unwrap();
    stage.post_in_next_life(&step(1, 0, 0), 7).unwrap();
    for (header, payload, what) in [
        (step(1, 0, 0), 9, "other bytes"),
        (step(2, 0, 0), 7, "another SSN"),
        (step(1, 0, 3), 7, "no collective"),
    ] {
        let posted = stage.post_in_next_life(&header, payload);
        assert_breach(posted, "collective", what);
    }
    let longer = RecordHeader {
        extent: 9,
        ..step(1, 0, 0)
    };
    let posted = stage.post_in_next_life(&longer, 7);
    assert_breach(posted, "collective", "another length");
}

#[test]
fn a_stream_has_one_collective_at_a_time() {
    let mut stage = stage();
    let bytes = 7u64.to_le_bytes();
    stage.posted(0, &step(1, 0, 0), &bytes).unwrap();
    stage.called(0, 2, &begin(1, 0, 7)).unwrap();
    let posted = stage.posted(0, &step(1, 1, 1), &bytes);
    assert_breach(posted, "collective", "at the same time");
    stage.answered(0, 3, &result(0, &[7, 8])).unwrap();
    stage.called(0, 4, &begin(2, 0, 7)).unwrap();
    stage.posted(0, &step(2, 0, 2), &bytes).unwrap();
}

#[test]
fn steps_can_be_read_back() {
    let mut stage = stage();
    let bytes = 7u64.to_le_bytes();
    stage.posted(0, &step(1, 0, 0), &bytes).unwrap();
    let read = |messages: BTreeMap<Ssn, Vec<u8>>, is_needed| {
        let pair = (Rank(0), Rank(1));
        stage.oracle.read_back(pair, |_| is_needed, &messages)
    };
    let ssn = step(1, 0, 0).ssn;
    read([(ssn, bytes.to_vec())].into(), true).unwrap();
    read(BTreeMap::new(), false).unwrap();
    let missing = read(BTreeMap::new(), true);
    assert!(missing.is_err_and(|what| what.contains("cannot be read back")));
    let other = read([(ssn, vec![1])].into(), false);
    assert!(other.is_err_and(|what| what.contains("not what was sent")));
}
