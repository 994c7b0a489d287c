//! Internal operations: the state that their steps do not change, their matches, and their streams.

use crate::lives::scenes::Pair;
use crate::memory::{receive_buffer, send_buffer};
use crate::networks;
use crate::recorder::found;
use crate::rig::{Receipt, Rig, Sent, Setup, UNTOUCHED, all_from, from, from_any, payload, to};
use refrain_ring::{Rank, Ssn, Stream};
use refrain_transport::engine::{
    EngineError, InternalOperation, NotBetween, RequestId, SendTo, Started,
};
use refrain_transport::matching::{Envelope, Pattern};

const ANY: Pattern = Pattern {
    context: 0,
    source: None,
    tag: None,
};

fn envelope(source: u32, tag: i32) -> Envelope {
    Envelope {
        context: 0,
        source: Rank(source),
        tag,
    }
}

fn request(operation: &InternalOperation) -> RequestId {
    operation.request().expect("the program waits for it")
}

/// Over each network, with a log that is reused and one that keeps its payload.
fn rigs() -> impl Iterator<Item = Rig> {
    let setups = networks::all().into_iter().flat_map(|network| {
        let reused = Setup::new(network.clone());
        [reused, Setup::new(network).keeping(8 << 20)]
    });
    setups.map(Setup::build)
}

impl Rig {
    fn begin_internal(&mut self, rank: usize) -> InternalOperation {
        let begun = self.engines[rank].begin_internal();
        begun.expect("a stream is free").0
    }

    fn send_internal(
        &mut self,
        from: usize,
        operation: &InternalOperation,
        to: SendTo,
        bytes: &[u8],
    ) -> Sent {
        let room = self.room(bytes);
        let buffer = send_buffer(&room);
        let started = self.engines[from].send_internal(operation, buffer, to);
        Sent {
            from,
            room,
            started: started.expect("the log can hold it"),
        }
    }

    fn receive_internal(
        &mut self,
        at: usize,
        operation: &InternalOperation,
        from: Envelope,
        bytes: usize,
    ) -> Receipt {
        let room = self.room(&vec![UNTOUCHED; bytes]);
        let buffer = receive_buffer(&room, bytes);
        let id = self.engines[at].receive_internal(operation, buffer, from);
        Receipt { at, id, room }
    }

    /// Ends the operation, and lets the program see its end.
    fn end_operation(&mut self, rank: usize, operation: InternalOperation) {
        let id = request(&operation);
        self.engines[rank].finish_internal(operation);
        assert!(self.engines[rank].outcome(id).is_some());
        self.engines[rank].retire(id);
    }
}

/// Steps of all lengths, with the receive first or not, synchronous or not: the clock stays where
/// the operation began, and no step is an event.
// STREAM-4
#[test]
fn steps_count_nothing_and_make_no_events() {
    for mut rig in rigs() {
        let operations = [0, 1].map(|rank| rig.begin_internal(rank));
        let begun = [0, 1].map(|rank: usize| rig.engines[rank].now());
        for (tag, bytes) in (0..).zip([0, 1, 100, 20_000, 100_000]) {
            for (posted_first, synchronous) in [(true, false), (false, false), (false, true)] {
                let data = payload(tag as u64, bytes);
                let to = SendTo {
                    synchronous,
                    ..to(1, tag)
                };
                let (sent, receipt) = if posted_first {
                    let from = envelope(0, tag);
                    let receipt = rig.receive_internal(1, &operations[1], from, bytes);
                    (rig.send_internal(0, &operations[0], to, &data), receipt)
                } else {
                    let sent = rig.send_internal(0, &operations[0], to, &data);
                    rig.settle();
                    let from = envelope(0, tag);
                    (sent, rig.receive_internal(1, &operations[1], from, bytes))
                };
                let (outcome, received) = rig.finish_receive(&receipt);
                assert!(received == data);
                assert_eq!(outcome.status.source, Rank(0));
                rig.finish_send(&sent);
            }
        }
        for (rank, operation) in operations.into_iter().enumerate() {
            assert_eq!(rig.engines[rank].now(), begun[rank]);
            rig.end_operation(rank, operation);
            assert!(rig.protocols[rank].events().is_empty());
        }
        rig.end();
    }
}

/// With the same context, tag and source, whatever the pattern of the program.
// STREAM-4
#[test]
fn the_program_and_operations_never_get_each_other_s_messages() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        let operations = [0, 1].map(|rank| rig.begin_internal(rank));
        // Receives of any source and tag wait before an internal message arrives,
        let first = rig.receive(1, ANY, 8);
        rig.send_internal(0, &operations[0], to(1, 1), &payload(1, 8));
        rig.settle();
        assert!(!rig.is_received(&first));
        // and none finds it when it has arrived.
        for pattern in [ANY, from(0, 1), all_from(0), from_any(1)] {
            assert!(rig.engines[1].find(&pattern).is_none());
            assert!(rig.engines[1].take_matched(&pattern).is_none());
        }
        // A receive of an operation waits, and one of the program gets the message.
        let early = rig.receive_internal(1, &operations[1], envelope(0, 2), 8);
        rig.send(0, to(1, 2), &payload(2, 8));
        assert!(rig.finish_receive(&first).1 == payload(2, 8));
        rig.send(0, to(1, 1), &payload(3, 8));
        rig.settle();
        assert!(!rig.is_received(&early));
        let late = rig.receive_internal(1, &operations[1], envelope(0, 1), 8);
        assert!(rig.finish_receive(&late).1 == payload(1, 8));
        rig.expect(1, from(0, 1), &payload(3, 8));
        rig.send_internal(0, &operations[0], to(1, 2), &payload(4, 8));
        assert!(rig.finish_receive(&early).1 == payload(4, 8));
        // The same for messages of a rank to itself.
        rig.send_internal(1, &operations[1], to(1, 5), &payload(5, 8));
        assert!(rig.engines[1].find(&ANY).is_none());
        let own = rig.receive_internal(1, &operations[1], envelope(1, 5), 8);
        assert!(rig.finish_receive(&own).1 == payload(5, 8));
        let [zero, one] = operations;
        rig.end_operation(0, zero);
        rig.end_operation(1, one);
        rig.end();
    }
}

/// An operation has the lowest free stream. A complete operation keeps its stream until the program
/// sees its end.
// STREAM-2
#[test]
fn an_operation_has_the_lowest_free_stream_until_the_program_sees_its_end() {
    let mut rig = Setup::new(networks::calm()).build();
    let clock = rig.engines[0].now().0;
    let stream = |index: u16| Stream(Stream::FIRST_OPERATION.0 + index);
    let [one, two, three] = [0, 1, 2].map(|index| {
        let operation = rig.begin_internal(0);
        assert_eq!(operation.stream(), stream(index));
        assert_eq!(rig.engines[0].now().0, clock + 1 + u64::from(index));
        operation
    });
    let id = request(&two);
    let begun_at = rig.engines[0].posted_at(id);
    assert_eq!(begun_at.map(|it| it.0), Some(clock + 2), "its id in events");
    rig.engines[0].finish_internal(two);
    let four = rig.begin_internal(0);
    assert_eq!(
        four.stream(),
        stream(3),
        "the program has not seen the end of two"
    );
    rig.engines[0].retire(id);
    rig.end_operation(0, one);
    let again = [0, 1, 4].map(|index| {
        let operation = rig.begin_internal(0);
        assert_eq!(operation.stream(), stream(index));
        operation
    });
    let all = again.into_iter().chain([three, four]);
    all.for_each(|operation| rig.end_operation(0, operation));
    rig.end();
}

/// An operation whose call waits for its end has no request, and frees its stream when it is
/// complete.
// STREAM-2
#[test]
fn an_awaited_operation_frees_its_stream_when_it_is_complete() {
    let mut rig = Setup::new(networks::calm()).build();
    let one = rig.begin_internal(0);
    let clock = rig.engines[0].now().0;
    for count in 1..3 {
        let awaited = rig.engines[0].begin_awaited().expect("a stream is free");
        assert_eq!(awaited.stream(), Stream(Stream::FIRST_OPERATION.0 + 1));
        assert_eq!(awaited.request(), None);
        assert_eq!(rig.engines[0].now().0, clock + count);
        assert!(rig.engines[0].state().is_err(), "it is open");
        rig.engines[0].finish_internal(awaited);
    }
    assert!(rig.engines[0].state().is_err(), "the first one is open");
    rig.end_operation(0, one);
    assert!(rig.engines[0].state().is_ok());
    rig.end();
}

/// A message that has arrived whole is received without a request, once; others are left for a
/// request.
// STREAM-4
#[test]
fn a_message_that_has_arrived_is_received_at_once() {
    for mut rig in rigs() {
        let operations = [0, 1].map(|rank| rig.begin_internal(rank));
        let mut at_once = 0;
        for (tag, bytes) in (0..).zip([0, 1, 8, 100, 20_000, 100_000]) {
            for synchronous in [false, true] {
                let data = payload(tag as u64, bytes);
                let to = SendTo {
                    synchronous,
                    ..to(1, tag)
                };
                let sent = rig.send_internal(0, &operations[0], to, &data);
                let room = rig.room(&vec![UNTOUCHED; bytes]);
                let buffer = receive_buffer(&room, bytes);
                rig.settle();
                let other = rig.engines[1].receive_arrived(&buffer, envelope(0, tag + 1));
                assert_eq!(other, None);
                let got = rig.engines[1].receive_arrived(&buffer, envelope(0, tag));
                if let Some(outcome) = got {
                    assert!(!synchronous, "its sender waits");
                    assert_eq!(outcome.status.source, Rank(0));
                    assert_eq!(outcome.status.bytes, bytes as u64);
                    assert!(room.read() == data);
                    let again = rig.engines[1].receive_arrived(&buffer, envelope(0, tag));
                    assert_eq!(again, None);
                    at_once += 1;
                } else {
                    let from = envelope(0, tag);
                    let receipt = rig.receive_internal(1, &operations[1], from, bytes);
                    assert!(rig.finish_receive(&receipt).1 == data);
                }
                rig.finish_send(&sent);
            }
        }
        assert!(at_once > 0);
        for (rank, operation) in operations.into_iter().enumerate() {
            rig.end_operation(rank, operation);
        }
        rig.end();
    }
}

// STREAM-2
#[test]
fn more_operations_than_streams_are_an_error() {
    let mut rig = Setup::new(networks::calm()).build();
    let streams = Stream::FIRST_OPERATION.0..=Stream::MAX.0;
    let mut operations: Vec<_> = streams.map(|_| rig.begin_internal(0)).collect();
    let refused = rig.engines[0].begin_internal();
    assert!(matches!(refused, Err(EngineError::NoStream { open: 4094 })));
    let last = operations.pop().expect("many");
    rig.end_operation(0, last);
    operations.push(rig.begin_internal(0));
    for operation in operations {
        rig.end_operation(0, operation);
    }
    rig.end();
}

/// The program's messages have the same SSNs, whenever steps are issued.
// STREAM-1
#[test]
fn numbers_of_the_program_s_messages_do_not_depend_on_steps() {
    let matches = |steps_before: [usize; 4]| {
        let mut rig = Setup::new(networks::calm()).build();
        let operation = rig.begin_internal(0);
        for (tag, steps) in (0..).zip(steps_before) {
            for _ in 0..steps {
                rig.send_internal(0, &operation, to(1, 9), &payload(9, 8));
            }
            rig.send(0, to(1, tag), &payload(tag as u64, 8));
        }
        for tag in 0..4 {
            let receipt = rig.receive(1, from_any(tag), 8);
            rig.finish_receive(&receipt);
        }
        rig.protocols[1].matches()
    };
    let numbers: Vec<Ssn> = matches([0; 4]).into_iter().map(|(_, _, ssn)| ssn).collect();
    assert_eq!(numbers, [0, 1, 2, 3].map(Ssn));
    for steps_before in [[3, 0, 0, 1], [0, 2, 2, 2], [1, 0, 7, 0]] {
        assert_eq!(matches(steps_before), matches([0; 4]));
    }
}

/// No checkpoint is taken with an open operation, and none frees messages that the operation has
/// received.
// STREAM-5
#[test]
fn an_open_operation_keeps_what_it_has_got() {
    let mut rig = Setup::new(networks::calm()).keeping(1 << 20).build();
    let operations = [0, 1].map(|rank| rig.begin_internal(rank));
    for message in 0..3 {
        rig.send_internal(0, &operations[0], to(1, 1), &payload(message, 8));
        rig.send(0, to(1, 1), &payload(message, 8));
        let receipt = rig.receive_internal(1, &operations[1], envelope(0, 1), 8);
        assert!(rig.finish_receive(&receipt).1 == payload(message, 8));
        rig.expect(1, from(0, 1), &payload(message, 8));
    }
    let open = rig.engines[1].state();
    let begun_at = rig.engines[1].posted_at(request(&operations[1]));
    let begun_at = begun_at.expect("it is open");
    assert_eq!(open, Err(NotBetween::OpenOperation { begun_at }));
    rig.engines[1].publish_horizon();
    rig.settle();
    let kept = rig.engines[0].log_kept_from(Rank(1));
    assert_eq!(kept.of(Stream::PROGRAM), Ssn(3));
    assert_eq!(kept.of(Stream::FIRST_OPERATION).count(), 0);
    let [zero, one] = operations;
    rig.end_operation(1, one);
    assert!(rig.engines[1].state().is_ok());
    rig.engines[1].publish_horizon();
    rig.settle();
    let kept = rig.engines[0].log_kept_from(Rank(1));
    assert_eq!(kept.of(Stream::FIRST_OPERATION).count(), 3);
    rig.end_operation(0, zero);
    rig.end();
}

/// Rank 0 has sent two steps and died. In its next life the program sees an event without a record
/// after `before` steps were sent again; `behind` steps follow.
fn later_life(before: usize, behind: usize) -> Option<EngineError> {
    let network = networks::all().into_iter().next();
    let mut pair = Pair::new(network.expect("one"));
    let step = |pair: &mut Pair, operation: &InternalOperation, message| {
        let room = pair.room(&payload(message, 8));
        let sent = pair
            .engine(0)
            .send_internal(operation, send_buffer(&room), to(1, 1));
        sent.map(|started| assert!(matches!(started, Started::Done(_) | Started::Pending(_))))
    };
    let (operation, _) = pair.engine(0).begin_internal().expect("a free stream");
    for message in 0..2 {
        step(&mut pair, &operation, message).expect("nothing is wrong yet");
    }
    pair.settle();
    pair.lay_down(0);
    pair.raise(0, 1);
    pair.settle();
    let (operation, _) = pair.engine(0).begin_internal().expect("a free stream");
    for message in 0..before {
        step(&mut pair, &operation, message as u64).expect("nothing is wrong yet");
    }
    pair.hold_commits(0);
    let clock = pair.engine(0).tick();
    pair.engine(0).note_probe(clock, &found(Rank(1)), Ssn(0));
    for message in before..before + behind {
        let sent = step(&mut pair, &operation, message as u64);
        sent.expect("it may still come to all of them");
    }
    pair.settle();
    let id = request(&operation);
    pair.engine(0).finish_internal(operation);
    pair.engine(0).retire(id);
    pair.engine(0).progress().err()
}

/// An operation may have advanced further in the earlier life, but not when it is over.
// STREAM-6
// REC-9
#[test]
fn an_open_stream_is_compared_when_its_operation_is_over() {
    for (before, behind) in [(0, 2), (1, 1), (2, 0), (2, 1), (0, 3)] {
        let error = later_life(before, behind);
        assert!(error.is_none(), "{before}, {behind}: {error:?}");
    }
    for (before, behind) in [(0, 0), (1, 0), (0, 1)] {
        let error = later_life(before, behind);
        let Some(EngineError::RecordMissing { peer, first, .. }) = error else {
            panic!("{before}, {behind}: {error:?}");
        };
        assert_eq!((peer, first.stream()), (Rank(1), Stream::FIRST_OPERATION));
        assert_eq!(first.count(), (before + behind) as u64);
    }
}
