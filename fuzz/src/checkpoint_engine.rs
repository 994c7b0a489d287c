//! The engine part of a checkpoint (docs/formats/checkpoint-parts.md).

use crate::input::Input;
use refrain_rank::checkpoint::{EnginePartError, decode_engine, encode_engine};
use refrain_ring::{Clock, Frontier, Rank, Ssn, Stream};
use refrain_transport::engine::{Beginning, Delivered, Undelivered};

const LENGTH: core::ops::Range<usize> = 8..16;
const CHECKSUM_BYTES: usize = 4;

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    // The decoder may accept or refuse, but must not panic.
    let _ = decode_then_encode(bytes);
    if let Some(proved) = with_checksum(bytes) {
        let result = decode_then_encode(&proved);
        assert_ne!(result, Err(EnginePartError::Checksum));
    }
    encode_then_decode(&mut Input::new(bytes));
}

fn decode_then_encode(bytes: &[u8]) -> Result<(), EnginePartError> {
    let (rank, beginning) = decode_engine(bytes)?;
    assert_eq!(encode_engine(rank, &beginning), bytes, "{beginning:?}");
    Ok(())
}

/// The bytes with a valid length and checksum, so that the code after these tests runs.
fn with_checksum(bytes: &[u8]) -> Option<Vec<u8>> {
    let body_bytes = bytes.len().checked_sub(CHECKSUM_BYTES)?;
    let mut body = bytes[..body_bytes].to_vec();
    let length = bytes.len() as u64;
    body.get_mut(LENGTH)?.copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    Some(body)
}

fn encode_then_decode(input: &mut Input<'_>) {
    let (rank, beginning) = from_input(input);
    let bytes = encode_engine(rank, &beginning);
    assert_eq!(decode_engine(&bytes), Ok((rank, beginning)));
}

fn from_input(input: &mut Input<'_>) -> (Rank, Beginning) {
    let size = u32::from(input.u8() % 5) + 1;
    let rank = Rank(input.u32() % size);
    let mut beginning = Beginning {
        clock: Clock(input.u64()),
        ..Beginning::default()
    };
    for _ in 0..size {
        beginning.next.push(frontier(input));
        let mut except: Vec<_> = (0..input.u8() % 4).map(|_| ssn(input)).collect();
        except.sort_unstable();
        except.dedup();
        let mut until = frontier(input);
        except.iter().for_each(|ssn| until.raise_to(ssn.next()));
        beginning.delivered.push(Delivered { until, except });
    }
    let own_next = beginning.next[rank.index()].program.0;
    let count = u64::from(input.u8() % 4).min(own_next);
    for ssn in own_next - count..own_next {
        beginning
            .undelivered
            .push(undelivered(input, rank, Ssn(ssn)));
    }
    // A message of another rank, as members of a set have it.
    let other = Rank((rank.0 + 1) % size);
    let of = &beginning.delivered[other.index()];
    let last = of.until.program.0.checked_sub(1).map(Ssn);
    if let Some(ssn) = last.filter(|ssn| other != rank && !of.except.contains(ssn)) {
        let message = undelivered(input, other, ssn);
        beginning.undelivered.push(message);
        beginning.undelivered.sort_by_key(|it| (it.source, it.ssn));
    }
    (rank, beginning)
}

fn undelivered(input: &mut Input<'_>, source: Rank, ssn: Ssn) -> Undelivered {
    Undelivered {
        source,
        ssn,
        context: input.u32(),
        tag: input.u32().cast_signed(),
        payload: input.bytes().into(),
    }
}

/// A message of one of four streams.
fn ssn(input: &mut Input<'_>) -> Ssn {
    let stream = Stream(u16::from(input.u8() % 4));
    Ssn(Ssn::first(stream).0 + (input.u64() >> 13))
}

fn frontier(input: &mut Input<'_>) -> Frontier {
    Frontier::from(ssn(input)).max(&ssn(input).into())
}

/// A single rank; one of several ranks with counters beyond 2^32 and missing messages; a rank with
/// messages to itself.
pub fn seeds() -> Vec<Vec<u8>> {
    let input: Vec<u8> = (0..200).collect();
    let plain = Beginning {
        next: vec![Frontier::default()],
        delivered: vec![Delivered::default()],
        ..Beginning::default()
    };
    let far = (1 << 32) + 5;
    let internal = Ssn(Ssn::first(Stream(2)).0 + far);
    let delivered = Delivered {
        until: Frontier::from(Ssn(far)).max(&internal.next().into()),
        except: vec![Ssn(3), Ssn(far - 1), internal],
    };
    let to_self = Undelivered {
        source: Rank(1),
        ssn: Ssn(far),
        context: 7,
        tag: -1,
        payload: [1, 2, 3].into(),
    };
    let full = Beginning {
        clock: Clock(far),
        next: vec![internal.into(), Ssn(far + 1).into()],
        delivered: vec![delivered, Delivered::default()],
        undelivered: vec![to_self],
    };
    let (rank, some) = from_input(&mut Input::new(&input));
    [(Rank(0), plain), (Rank(1), full), (rank, some)]
        .map(|(rank, beginning)| encode_engine(rank, &beginning))
        .to_vec()
}
