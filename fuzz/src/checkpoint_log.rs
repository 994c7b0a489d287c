//! The log part of a checkpoint (docs/formats/checkpoint-parts.md).

use crate::input::Input;
use refrain_rank::checkpoint::{LogPartError, LogReader, LogWriter};
use refrain_ring::{Frontier, Incarnation, Rank, RecordHeader, RecordKind, Ssn, Stream};

/// A decoded log part.
#[derive(Debug, PartialEq, Eq)]
struct Log {
    source: Rank,
    destination: Rank,
    until: Frontier,
    kept_from: Frontier,
    records: Vec<(RecordHeader, Vec<u8>)>,
}

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes);
    let log = from_input(&mut Input::new(bytes));
    let found = decode(&encode(&log)).expect("what was written can be read");
    assert_eq!(found.0.records, log.records);
}

fn decode_then_encode(bytes: &[u8]) {
    let Ok((log, read_bytes)) = decode(bytes) else {
        return;
    };
    // The end mark contains the frontier of kept messages; the decoder does not return it.
    let mut again = encode(&log);
    let mark_bytes = |streams| RecordHeader::BYTES + 8 + 8 * streams + 4;
    let end = again.len() - mark_bytes(log.kept_from.all().count());
    again.truncate(end);
    assert_eq!(again, bytes[..end], "{log:?}");
    assert!(end + mark_bytes(1) <= read_bytes);
}

fn decode(mut bytes: &[u8]) -> Result<(Log, usize), LogPartError> {
    let all = bytes.len();
    let from: &mut &[u8] = &mut bytes;
    let mut reader = LogReader::begin(from)?;
    let (source, until) = (reader.source(), reader.until().clone());
    let mut records = Vec::new();
    while let Some((header, payload)) = reader.next(from)? {
        assert_eq!(header.payload_bytes as usize, payload.len());
        assert!(until.is_beyond(header.ssn) && header.source == source);
        records.push((header, payload.to_vec()));
    }
    let log = Log {
        source: reader.source(),
        destination: reader.destination(),
        kept_from: until.clone(),
        until,
        records,
    };
    let left = bytes.len();
    Ok((log, all - left))
}

fn encode(log: &Log) -> Vec<u8> {
    let mut bytes = Vec::new();
    let out = &mut bytes;
    let begun = LogWriter::begin(out, log.source, log.destination, &log.until);
    let mut writer = begun.expect("memory takes it");
    for (header, payload) in &log.records {
        writer
            .record(out, header, payload)
            .expect("memory takes it");
    }
    writer.end(out, &log.kept_from).expect("memory takes it");
    bytes
}

fn from_input(input: &mut Input<'_>) -> Log {
    let source = Rank(input.u32());
    let destination = Rank(input.u32());
    let first = input.u64() >> 13;
    let mut records = Vec::new();
    let messages = u64::from(input.u8() % 5);
    let mut next = Frontier::from(Ssn(first));
    next.raise_to(Ssn(Ssn::first(Stream(2)).0 + first));
    let kept_from = match messages {
        0 => next.clone(),
        _ => Frontier::default().with_internal_of(&next),
    };
    for _ in 0..messages {
        let is_internal = input.u8().is_multiple_of(3) && messages > 4;
        let ssn = next.take_next(Stream(if is_internal { 2 } else { 0 }));
        let parts: Vec<Vec<u8>> = (0..1 + input.u8() % 3)
            .map(|_| [input.bytes(), vec![input.u8()]].concat())
            .collect();
        let message_bytes: usize = parts.iter().map(Vec::len).sum();
        let mut offset = 0;
        for part in parts {
            let is_first = offset == 0;
            let header = RecordHeader {
                payload_bytes: part.len() as u32,
                kind: match is_first {
                    true => RecordKind::Eager,
                    false => RecordKind::Fragment,
                },
                flags: u16::from(input.u8() % 2),
                incarnation: Incarnation(input.u32()),
                source,
                ssn,
                context: input.u32(),
                tag: input.u32().cast_signed(),
                extent: if is_first { message_bytes } else { offset } as u64,
            };
            offset += part.len();
            records.push((header, part));
        }
    }
    Log {
        source,
        destination,
        until: next,
        kept_from,
        records,
    }
}

/// An empty log, one record, and several messages of several records.
pub fn seeds() -> Vec<Vec<u8>> {
    let inputs: [Vec<u8>; 3] = [vec![], vec![1; 40], (0..120).collect()];
    inputs
        .map(|input| encode(&from_input(&mut Input::new(&input))))
        .to_vec()
}
