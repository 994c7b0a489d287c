//! Attachments behind messages: what the header permits, and who gets them.

#![cfg(not(loom))]

use refrain_ring::read_back::{DiskChunks, Progress, ReadBack, Writer};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, ChannelReader, Frontier, HeaderError, Incarnation, Rank,
    RecordHeader, RecordKind, Reference, Ssn,
};

fn header(payload_bytes: u32, extent: u64, flags: u16) -> RecordHeader {
    RecordHeader {
        payload_bytes,
        kind: RecordKind::Eager,
        flags,
        incarnation: Incarnation(3),
        source: Rank(7),
        ssn: Ssn(0),
        context: 1,
        tag: 2,
        extent,
    }
}

#[test]
fn only_a_whole_message_has_one_of_1_to_255_bytes() {
    let attached = RecordHeader::ATTACHED | RecordHeader::WANT_ACK;
    for (payload_bytes, extent) in [(1, 0), (9, 8), (8 + 255, 8)] {
        let header = header(payload_bytes, extent, attached);
        assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
        assert!(header.is_whole());
    }
    let fragment = RecordHeader {
        kind: RecordKind::Fragment,
        ..header(9, 8, attached)
    };
    let reference = header(
        Reference::BYTES as u32,
        8,
        attached | RecordHeader::REFERENCE,
    );
    for refused in [
        header(8, 8, attached),
        header(7, 8, attached),
        header(8 + 256, 8, attached),
        header(8, u64::MAX, attached),
        fragment,
        reference,
    ] {
        let error = HeaderError::Flags(refused.flags);
        assert_eq!(RecordHeader::decode(&refused.encode()), Err(error));
    }
}

#[test]
fn a_record_without_one_stays_as_it_is() {
    let header = header(5, 9, RecordHeader::WANT_ACK);
    assert_eq!(header.detach(b"hello"), (header, &b"hello"[..], &b""[..]));
    assert_eq!((header.attached_bytes(), header.is_whole()), (0, false));
}

struct NoDisk;

impl DiskChunks for NoDisk {
    fn find(&self, _from: &Frontier) -> Option<u64> {
        None
    }
    fn begin_read(&mut self, _sequence: u64) -> Option<u64> {
        None
    }
    fn place(&self, _sequence: u64) -> Option<String> {
        None
    }
}

// CAUSAL-1 LOG-2
#[test]
fn a_receiver_gets_it_and_who_reads_back_gets_the_message_alone() {
    let mut arena = Arena::heap(2 * CHUNK_BYTES);
    let mut log = ChannelLog::new(Rank(7), Incarnation(3), Rank(1), 2 * CHUNK_BYTES as u64);
    let fill = |place: &mut [u8]| place.copy_from_slice(b"messageabc");
    let attached = header(0, 7, RecordHeader::ATTACHED);
    let frame = log.append(&mut arena, 10, true, attached, fill);
    frame.expect("room").publish(arena.region());

    let first = log.first_chunk().expect("it has begun");
    let mut reader = ChannelReader::new(arena.region().clone(), 0, first).expect("a chunk");
    let record = reader.read().expect("sound").expect("published");
    assert_eq!(record.header, header(10, 7, RecordHeader::ATTACHED));
    let alone = header(7, 7, 0);
    assert_eq!(
        record.header.detach(record.payload),
        (alone, &b"message"[..], &b"abc"[..])
    );

    let writer = Writer {
        log: &log,
        arena: &arena,
        posted: log.tail(),
        horizon: &Frontier::default(),
    };
    let mut found = Vec::new();
    let mut give = |header: &RecordHeader, payload: &[u8]| found.push((*header, payload.to_vec()));
    let progress = ReadBack::new(&log, Ssn(0)).step(writer, &mut NoDisk, &mut give);
    assert_eq!(progress, Ok(Progress::Records(1)));
    assert_eq!(found, [(alone, b"message".to_vec())]);
}
