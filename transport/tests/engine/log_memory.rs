//! Scarce log memory: messages that are refused, messages that wait, memory that is shared.

use crate::memory::send_buffer;
use crate::networks;
use crate::rig::{Setup, from, payload, to};
use refrain_ring::CHUNK_BYTES;
use refrain_transport::engine::{EngineError, Started};

/// A message that a kept log can never hold is refused, with the length of the log; the channel
/// continues without it.
// LOG-3
#[test]
fn a_message_longer_than_the_log_is_refused() {
    let mut rig = Setup::new(networks::calm()).keeping(1 << 20).build();
    let before = rig.send(0, to(1, 1), &[1; 10]);
    let room = rig.room(&vec![0; (1 << 20) + 1]);
    let refused = rig.engines[0].start_send(send_buffer(&room), to(1, 1));
    match refused {
        Err(EngineError::LongerThanLog {
            message_bytes,
            budget_bytes,
        }) => assert_eq!((message_bytes, budget_bytes), ((1 << 20) + 1, 1 << 20)),
        other => panic!("{other:?}"),
    }
    let after = rig.send(0, to(1, 1), &[2; 10]);
    rig.expect(1, from(0, 1), &[1; 10]);
    rig.expect(1, from(0, 1), &[2; 10]);
    rig.finish_send(&before);
    rig.finish_send(&after);
    rig.end();
}

/// A message that is not refused arrives, if its receiver publishes horizons: headers, the ends of
/// chunks and earlier records count as well.
// LOG-3
#[test]
fn a_message_is_refused_or_arrives() {
    for chunks in [2, 3, 4] {
        let log_bytes = chunks * CHUNK_BYTES;
        let mut accepted = 0;
        for less in [0, 1, 100, 4096, 20_000, 100_000, 262_144, 300_000] {
            let mut rig = Setup::new(networks::calm()).keeping(log_bytes).build();
            for _ in 0..3 {
                let first = rig.send(0, to(1, 1), &[3; 8000]);
                rig.expect(1, from(0, 1), &[3; 8000]);
                rig.finish_send(&first);
            }
            let data = payload(1, log_bytes - less);
            let room = rig.room(&data);
            let id = match rig.engines[0].start_send(send_buffer(&room), to(1, 1)) {
                Err(EngineError::LongerThanLog { .. }) => continue,
                Ok(Started::Pending(id)) => Some(id),
                Ok(Started::Done(_)) => None,
                Err(error) => panic!("{error}"),
            };
            accepted += 1;
            let receipt = rig.receive(1, from(0, 1), data.len());
            rig.until("the message arrives", |rig| {
                rig.engines[1].publish_horizon();
                rig.is_received(&receipt)
            });
            assert!(rig.finish_receive(&receipt).1 == data);
            if let Some(id) = id {
                rig.engines[0].retire(id);
            }
            rig.end();
        }
        assert!(accepted > 0, "everything is refused");
    }
}

/// Memory that one channel holds and does not need goes to a channel that needs it.
// LOG-3
#[test]
fn a_channel_gets_memory_that_another_does_not_need() {
    for network in networks::all() {
        for keeps_payload in [false, true] {
            let log_bytes = 4 * CHUNK_BYTES;
            let mut setup = Setup::new(network.clone()).ranks(3).keeping(log_bytes);
            setup.keeps_payload = keeps_payload;
            let mut rig = setup.build();
            for receiver in [1, 2, 1] {
                // All messages are packed before any is received.
                let sends: Vec<_> = (0..30)
                    .map(|message| rig.send(0, to(receiver, 1), &payload(message, 25_000)))
                    .collect();
                for message in 0..30 {
                    rig.expect(receiver as usize, from(0, 1), &payload(message, 25_000));
                    if keeps_payload {
                        rig.engines[receiver as usize].publish_horizon();
                    }
                }
                for sent in &sends {
                    rig.finish_send(sent);
                }
                rig.settle();
            }
            rig.end();
        }
    }
}

/// A log that is full, and that no horizon frees: the rank stops keeping messages and goes on, also
/// with messages that are longer than its log and receives in another order.
// LOG-3 LOG-7
#[test]
fn a_rank_whose_log_is_full_may_stop_keeping_messages() {
    let log_bytes = 2 * CHUNK_BYTES;
    for network in networks::all() {
        let mut rig = Setup::new(network).keeping(log_bytes).build();
        rig.engines.iter_mut().for_each(|it| it.limit_keeping());
        let long = payload(99, 3 * log_bytes);
        let mut sends: Vec<_> = (0..40)
            .map(|message| rig.send(0, to(1, 1), &payload(message, 25_000)))
            .collect();
        sends.push(rig.send(0, to(1, 2), &long));
        rig.settle();
        for message in 0..10 {
            rig.expect(1, from(0, 1), &payload(message, 25_000));
        }
        rig.settle();
        assert!(rig.engines[0].stall().is_some_and(|it| it.is_of_memory()));
        assert!(!rig.engines[0].was_freed_by_checkpoints());
        assert!(rig.engines[0].stop_keeping() && rig.engines[0].has_stopped_keeping());
        let receipt = rig.receive(1, from(0, 2), long.len());
        rig.until("the long message arrives", |rig| rig.is_received(&receipt));
        assert!(rig.finish_receive(&receipt).1 == long);
        for message in 10..40 {
            rig.expect(1, from(0, 1), &payload(message, 25_000));
        }
        for sent in &sends {
            rig.finish_send(sent);
        }
        rig.end();
    }
}

/// When the system gives no memory for the log the send fails, and its buffer
/// is the program's again.
// LOG-3
#[test]
fn a_send_without_memory_gives_its_buffer_back() {
    let mut rig = crate::rig::Setup::new(networks::calm())
        .without_memory()
        .build();
    let room = rig.room(&[1; 100]);
    let failed = rig.engines[0].start_send(send_buffer(&room), to(1, 1));
    assert!(matches!(failed, Err(EngineError::Log(_))), "{failed:?}");
    room.fill(9);
    rig.give_memory();
    rig.expect(1, from(0, 1), &[1; 100]);
    rig.end();
}
