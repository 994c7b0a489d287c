//! The messages between launcher and ranks (docs/formats/wire-format.md).

use crate::input::Input;
use refrain_job::config::{JobConfig, VerbsConfig};
use refrain_job::control::framing::{
    BODY_BYTES_MAX, FrameError, HEADER_BYTES, MAGIC, Reassembly, decode, encode,
};
use refrain_job::control::message::{StatusFigures, ToLauncher, ToRank};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Checks both directions of both kinds of messages.
pub fn check(bytes: &[u8]) {
    decode_then_encode::<ToLauncher>(bytes);
    decode_then_encode::<ToRank>(bytes);
    // Most bytes fail at the header: the same with a good header before them.
    let framed = with_header(bytes);
    decode_then_encode::<ToLauncher>(&framed);
    decode_then_encode::<ToRank>(&framed);
    let input = &mut Input::new(bytes);
    encode_then_decode(&to_launcher(input));
    encode_then_decode(&to_rank(input));
}

fn decode_then_encode<M: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let whole = decode::<M>(bytes);
    match &whole {
        Ok(Some((message, frame_bytes))) => {
            assert!((HEADER_BYTES..=bytes.len()).contains(frame_bytes));
            assert!(bytes.starts_with(&MAGIC));
            let again = encode(message).expect("a decoded message is within the limits");
            assert!(
                again.len() <= *frame_bytes,
                "nothing is encoded shorter than by encode"
            );
            assert_eq!(
                decode::<M>(&again).as_ref(),
                Ok(&Some((decoded::<M>(&again), again.len())))
            );
            assert_eq!(&decoded::<M>(&again), message);
            // What follows the frame is not looked at, and no part of it is a message.
            assert_eq!(decode::<M>(&bytes[..*frame_bytes]), whole);
            assert_eq!(decode::<M>(&bytes[..frame_bytes - 1]), Ok(None));
        }
        Ok(None) => assert!(bytes.len() < HEADER_BYTES + BODY_BYTES_MAX),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    in_pieces_too(bytes, whole.map(|found| found.map(|(message, _)| message)));
}

fn decoded<M: DeserializeOwned>(frame: &[u8]) -> M {
    decode(frame)
        .expect("a frame of ours")
        .expect("a whole frame")
        .0
}

/// However the bytes arrive, the first message is the same.
fn in_pieces_too<M: DeserializeOwned + PartialEq + Debug>(
    bytes: &[u8],
    expected: Result<Option<M>, FrameError>,
) {
    let middle = bytes
        .first()
        .map_or(0, |&first| usize::from(first) % (bytes.len() + 1));
    let mut reassembly = Reassembly::default();
    reassembly.push(&bytes[..middle]);
    let first = reassembly.next_message::<M>();
    reassembly.push(&bytes[middle..]);
    match first {
        Ok(None) => assert_eq!(reassembly.next_message::<M>(), expected),
        decided => assert_eq!(decided, expected),
    }
}

fn encode_then_decode<M: Serialize + DeserializeOwned + PartialEq + Debug>(message: &M) {
    let frame = encode(message).expect("a small message");
    assert_eq!(&decoded::<M>(&frame), message);
}

fn with_header(body: &[u8]) -> Vec<u8> {
    let mut frame = encode(&ToLauncher::Finalize).expect("a small message");
    frame.truncate(HEADER_BYTES - 4);
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    frame
}

fn to_launcher(input: &mut Input<'_>) -> ToLauncher {
    match input.u8() % 10 {
        0 => ToLauncher::Hello {
            process: input.u32(),
        },
        1 => ToLauncher::Put {
            key: input.text(),
            value: input.bytes(),
            memory: input.u8().is_multiple_of(2),
        },
        2 => ToLauncher::Get { key: input.text() },
        3 => ToLauncher::Fence {
            last: input.u8().is_multiple_of(2),
            generation: input.u64(),
        },
        4 => ToLauncher::Finalize,
        5 => ToLauncher::Taking {
            checkpoint: input.u64(),
        },
        6 => ToLauncher::Stable {
            checkpoint: input.u64(),
            bytes: input.u64(),
            log_bytes: input.u64(),
        },
        7 => ToLauncher::Status {
            figures: Box::new(StatusFigures {
                received_bytes: input.u64(),
                sent_bytes: input.u64(),
                log_bytes: input.u64(),
                log_bytes_max: input.u64(),
                disk_bytes: input.u64(),
                gate_waits: input.u64(),
                gate_wait_us: input.u64(),
                heeds_requests: input.u8().is_multiple_of(2),
            }),
        },
        8 => ToLauncher::WantCheckpoint { of: input.u32() },
        _ => ToLauncher::Abort {
            message: input.text(),
        },
    }
}

fn to_rank(input: &mut Input<'_>) -> ToRank {
    match input.u8() % 6 {
        0 => ToRank::Welcome {
            job: input.u64(),
            rank: input.u32(),
            size: input.u32(),
            incarnation: input.u32(),
            alone: input.u8().is_multiple_of(2),
            config: Box::new(JobConfig {
                fabric: input.text(),
                log_memory_bytes: input.u8().is_multiple_of(2).then(|| input.u64()),
                verbs: VerbsConfig {
                    library: input.u8().is_multiple_of(2).then(|| input.text()),
                    device: input.u8().is_multiple_of(2).then(|| input.text()),
                    port: input.u8().is_multiple_of(2).then(|| input.u8()),
                    gid_index: input.u8().is_multiple_of(2).then(|| input.u8()),
                    mtu_bytes: input.u8().is_multiple_of(2).then(|| input.u32()),
                },
                ..JobConfig::default()
            }),
        },
        1 => ToRank::Value {
            key: input.text(),
            value: input.bytes(),
            memory: input.u8().is_multiple_of(2),
        },
        2 => ToRank::FenceDone {
            generation: input.u64(),
        },
        3 => ToRank::CheckpointWanted,
        4 => ToRank::AskStatus,
        _ => ToRank::Stop {
            reason: input.text(),
        },
    }
}

/// One message of each kind, with counters on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let (key, value) = ("address-0".to_owned(), vec![1, 2, 3]);
    let from_ranks = [
        ToLauncher::Hello { process: 4711 },
        ToLauncher::Put {
            key: key.clone(),
            value: value.clone(),
            memory: true,
        },
        ToLauncher::Get { key: key.clone() },
        ToLauncher::Fence {
            last: false,
            generation: (1 << 32) + 5,
        },
        ToLauncher::Statistics {
            figures: Box::default(),
        },
        ToLauncher::Taking {
            checkpoint: (1 << 32) + 6,
        },
        ToLauncher::Stable {
            checkpoint: (1 << 32) + 6,
            bytes: 1 << 40,
            log_bytes: 4096,
        },
        ToLauncher::Status {
            figures: Box::new(StatusFigures {
                received_bytes: 1 << 33,
                heeds_requests: true,
                ..StatusFigures::default()
            }),
        },
        ToLauncher::WantCheckpoint { of: 3 },
        ToLauncher::Finalize,
        ToLauncher::Abort {
            message: "no room".into(),
        },
    ];
    let to_ranks = [
        ToRank::Welcome {
            job: u64::MAX,
            rank: 1,
            size: 2,
            incarnation: 0,
            config: Box::default(),
            alone: false,
        },
        ToRank::Value {
            key,
            value,
            memory: false,
        },
        ToRank::FenceDone { generation: 0 },
        ToRank::CheckpointWanted,
        ToRank::AskStatus,
        ToRank::Stop {
            reason: "rank 1 failed".into(),
        },
    ];
    let from_ranks = from_ranks.iter().map(encode);
    from_ranks
        .chain(to_ranks.iter().map(encode))
        .map(|frame| frame.expect("a small message"))
        .collect()
}
