//! The log of a checkpoint: loaded into the engine of a later life, and saved again.

use crate::pair::Ledger;
use refrain_logging::Member;
use refrain_rank::checkpoint::{
    LoadError, LogLoading, LogPartError, LogReader, LogSaving, LogWriter, Transfer,
};
use refrain_rank::protocol::Logging;
use refrain_ring::{Frontier, Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::engine::{Beginning, Delivered, Engine, EngineOptions};
use refrain_transport::fabric::sim::{Network, Options};

const CHANNEL: (Rank, Rank) = (Rank(1), Rank(0));
const FIRST: u64 = (1 << 32) - 2;
const ROUNDS_MAX: usize = 1000;

fn header(kind: RecordKind, ssn: u64, extent: u64, payload: &[u8]) -> RecordHeader {
    RecordHeader {
        payload_bytes: payload.len() as u32,
        kind,
        flags: (ssn % 2) as u16,
        incarnation: Incarnation(2),
        source: CHANNEL.0,
        ssn: Ssn(ssn),
        context: 5,
        tag: -7,
        extent,
    }
}

/// Messages of one record without bytes, of one record, and of three.
fn records(messages: u64) -> Vec<(RecordHeader, Vec<u8>)> {
    (FIRST..FIRST + messages)
        .flat_map(|ssn| {
            let part = |at: u64| vec![(ssn + at) as u8; 10_000];
            match ssn % 3 {
                0 => vec![(header(RecordKind::Eager, ssn, 0, &[]), vec![])],
                1 => vec![(header(RecordKind::Eager, ssn, 10_000, &part(0)), part(0))],
                _ => vec![
                    (header(RecordKind::Eager, ssn, 30_000, &part(0)), part(0)),
                    (header(RecordKind::Fragment, ssn, 10_000, &part(1)), part(1)),
                    (header(RecordKind::Fragment, ssn, 20_000, &part(2)), part(2)),
                ],
            }
        })
        .collect()
}

fn written(records: &[(RecordHeader, Vec<u8>)], until: u64, kept_from: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let begun = LogWriter::begin(&mut out, CHANNEL.0, CHANNEL.1, &Ssn(until).into());
    let mut writer = begun.expect("memory takes it");
    for (header, payload) in records {
        let put = writer.record(&mut out, header, payload);
        put.expect("memory takes it");
    }
    writer
        .end(&mut out, &Ssn(kept_from).into())
        .expect("memory takes it");
    out
}

fn beginning(until: u64) -> Beginning {
    Beginning {
        next: vec![Ssn(until).into(), Frontier::default()],
        delivered: vec![Delivered::default(); 2],
        ..Beginning::default()
    }
}

fn later_life(beginning: &Beginning, log_bytes: usize) -> Engine<Logging<Ledger>> {
    let network = Network::new(Options::calm(1));
    let (fabric, arena) = network.start(CHANNEL.0, Incarnation(3), log_bytes);
    let options = EngineOptions {
        rank: CHANNEL.0,
        incarnation: Incarnation(3),
        size: 2,
        window_bytes: log_bytes as u64,
    };
    let protocol = Logging::new(Member::Pessimist, None, ());
    Engine::new(options, arena, Box::new(fabric), protocol).with_beginning(beginning.clone())
}

/// A loaded log is saved again with the same bits, except for the life that it belongs to; also a
/// log without messages.
// LOG-5
// LOG-2
#[test]
fn what_is_loaded_is_saved_again() {
    for messages in [0, 1, 2, 40] {
        let until = FIRST + messages;
        let saved = records(messages);
        let bytes = written(&saved, until, FIRST);
        let state = beginning(until);
        let mut engine = later_life(&state, 4 << 20);
        let mut from = &bytes[..];
        let mut loading =
            LogLoading::begin(&mut from, CHANNEL, &Ssn(until).into()).expect("its log");
        let mut rounds = 0..ROUNDS_MAX;
        while loading.step(&mut engine, &mut from).expect("it is whole") != Transfer::Done {
            rounds.next().expect("it comes to an end");
        }
        assert_eq!(engine.state().as_ref(), Ok(&state));
        let mut out = Vec::new();
        let begun = LogSaving::begin(&engine, CHANNEL, &state, &mut out);
        let mut saving = begun.expect("memory takes it");
        let mut rounds = 0..ROUNDS_MAX;
        while saving.step(&mut engine, &mut out).expect("it can be read") != Transfer::Done {
            rounds.next().expect("it comes to an end");
        }
        let in_life = |(header, payload): &(RecordHeader, Vec<u8>)| {
            let incarnation = Incarnation(3);
            (
                RecordHeader {
                    incarnation,
                    ..*header
                },
                payload.clone(),
            )
        };
        let again: Vec<_> = saved.iter().map(in_life).collect();
        assert!(out == written(&again, until, FIRST.max(until - messages)));
    }
}

/// Without room the record waits, and no byte of it is lost.
// LOG-3
#[test]
fn a_log_without_room_says_so() {
    let until = FIRST + 60;
    let bytes = written(&records(60), until, FIRST);
    let mut engine = later_life(&beginning(until), 512 << 10);
    let mut from = &bytes[..];
    let mut loading = LogLoading::begin(&mut from, CHANNEL, &Ssn(until).into()).expect("its log");
    let mut steps = (0..ROUNDS_MAX).map(|_| loading.step(&mut engine, &mut from));
    let waits = |step: &Result<Transfer, LoadError>| matches!(step, Ok(Transfer::Waiting));
    assert!(steps.any(|step| waits(&step)));
    assert!(steps.all(|step| waits(&step)), "there is no room yet");
}

/// A record that does not follow, or a log that ends too early, is refused.
#[test]
fn a_log_that_contradicts_itself_is_refused() {
    let all = records(9);
    let without = |at: usize| {
        let mut some = all.clone();
        some.remove(at);
        some
    };
    // Message FIRST + 1 has no bytes, FIRST + 3 has three records.
    let is_fragment = |(header, _): &&(RecordHeader, _)| header.kind == RecordKind::Fragment;
    let fragment = all.iter().position(|it| is_fragment(&it)).expect("one");
    let mut twice = all.clone();
    twice.insert(fragment, all[fragment].clone());
    // LOG-6
    let mut elsewhere = all.clone();
    elsewhere[fragment].0.flags |= RecordHeader::REFERENCE;
    elsewhere[fragment].0.payload_bytes = 16;
    elsewhere[fragment].1.truncate(16);
    // CAUSAL-1
    let mut attached = all.clone();
    let whole = all
        .iter()
        .position(|(header, _)| header.is_whole())
        .expect("one");
    attached[whole].0.flags |= RecordHeader::ATTACHED;
    attached[whole].0.payload_bytes += 1;
    attached[whole].1.push(1);
    let until = FIRST + 9;
    for (bad, until) in [
        (elsewhere, until),
        (attached, until),
        (without(fragment), until),
        (without(fragment - 1), until),
        (without(all.len() - 1), until),
        (twice, until),
        (all.clone(), until - 1),
        (all.clone(), until + 1),
        (all.iter().rev().cloned().collect(), until),
    ] {
        let bytes = written(&bad, until, FIRST);
        let mut from = &bytes[..];
        let mut reader = LogReader::begin(&mut from).expect("its head is right");
        let error = loop {
            match reader.next(&mut from) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a bad log was read to its end"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LogPartError::Contradiction(_)), "{error}");
    }
}

/// The log of another channel, or of another checkpoint.
#[test]
fn another_log_is_refused() {
    let bytes = written(&records(3), FIRST + 3, FIRST);
    for (channel, until) in [
        ((Rank(1), Rank(2)), FIRST + 3),
        ((Rank(0), Rank(0)), FIRST + 3),
        (CHANNEL, FIRST + 4),
    ] {
        let refused = LogLoading::begin(&mut &bytes[..], channel, &Ssn(until).into());
        assert!(matches!(refused, Err(LoadError::Another { .. })));
    }
}
