//! The messages between clients and event loggers (docs/design/event-logger.md).

use crate::input::Input;
use refrain_eventlog::framing::{FrameError, FrameReader, encode};
use refrain_eventlog::message::{
    Begins, FRAME_BYTES_MAX, HeldRow, Hello, Holding, RemoteRing, ToClient, ToLogger, Way, Welcome,
};
use refrain_eventlog::{Level, LoggerId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

const LENGTH_BYTES: usize = 4;

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode::<ToLogger>(bytes);
    decode_then_encode::<ToClient>(bytes);
    // Most bytes fail at the length: the same with a good one before them.
    let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
    framed.extend(bytes);
    decode_then_encode::<ToLogger>(&framed);
    decode_then_encode::<ToClient>(&framed);
    let input = &mut Input::new(bytes);
    encode_then_decode(&to_logger(input));
    encode_then_decode(&to_client(input));
}

fn decode_then_encode<M: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let mut reader = FrameReader::default();
    reader.extend(bytes);
    let first = reader.next_message::<M>();
    match &first {
        Ok(Some(message)) => {
            let frame_bytes = bytes.len() - reader.unread_bytes();
            assert!(frame_bytes <= LENGTH_BYTES + FRAME_BYTES_MAX);
            assert_eq!(&decoded::<M>(&encoded(message)), message);
            assert!(encoded(message).len() <= frame_bytes);
            // No part of the frame is a message.
            let mut cut = FrameReader::default();
            cut.extend(&bytes[..frame_bytes - 1]);
            assert_eq!(cut.next_message::<M>(), Ok(None));
        }
        Ok(None) => assert!(bytes.len() < LENGTH_BYTES + FRAME_BYTES_MAX),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    in_pieces_too(bytes, &first);
}

/// However the bytes arrive, the first message is the same.
fn in_pieces_too<M: DeserializeOwned + PartialEq + Debug>(
    bytes: &[u8],
    expected: &Result<Option<M>, FrameError>,
) {
    let mut reader = FrameReader::default();
    for byte in bytes {
        reader.extend(&[*byte]);
        match reader.next_message::<M>() {
            Ok(None) => {}
            decided => return assert_eq!(&decided, expected),
        }
    }
    assert_eq!(&reader.next_message::<M>(), expected);
}

fn encoded(message: &impl Serialize) -> Vec<u8> {
    let mut frame = Vec::new();
    encode(message, &mut frame).expect("within the limits");
    frame
}

fn decoded<M: DeserializeOwned>(frame: &[u8]) -> M {
    let mut reader = FrameReader::default();
    reader.extend(frame);
    let message = reader.next_message().expect("a frame of ours");
    assert_eq!(reader.unread_bytes(), 0);
    message.expect("a whole frame")
}

fn encode_then_decode<M: Serialize + DeserializeOwned + PartialEq + Debug>(message: &M) {
    assert_eq!(&decoded::<M>(&encoded(message)), message);
}

fn to_logger(input: &mut Input<'_>) -> ToLogger {
    match input.u8() % 8 {
        0 => ToLogger::Hello(Hello {
            version: input.u32() as u16,
            job: input.u64(),
            rank: input.u32(),
            incarnation: input.u32(),
            first_kept: input.u64(),
            begins: input.u8().is_multiple_of(2).then(|| Begins {
                start: input.u64(),
                clock_before: input.u64(),
                follows: input.u32(),
            }),
            way: match input.u8() % 3 {
                0 => Way::SharedMemory,
                1 => Way::Libfabric,
                _ => Way::Messages,
            },
        }),
        1 => ToLogger::Commit {
            batch: input.bytes(),
        },
        2 => ToLogger::Drain,
        3 => ToLogger::Trim { clock: input.u64() },
        4 => ToLogger::Read {
            job: input.u64(),
            rank: input.u32(),
            from: input.u64(),
            after_clock: input.u8().is_multiple_of(2).then(|| input.u64()),
        },
        5 => ToLogger::List,
        6 => ToLogger::Row {
            job: input.u64(),
            rank: input.u32(),
        },
        _ => ToLogger::Leave,
    }
}

fn level(input: &mut Input<'_>) -> Level {
    match input.u8() % 2 {
        0 => Level::Placed,
        _ => Level::Durable,
    }
}

fn to_client(input: &mut Input<'_>) -> ToClient {
    match input.u8() % 7 {
        0 => ToClient::Welcome(Welcome {
            version: input.u32() as u16,
            logger: LoggerId(input.u32()),
            end: input.u64(),
            last_clock: input.u64(),
            level: level(input),
            remote: input.u8().is_multiple_of(2).then(|| RemoteRing {
                provider: input.text(),
                address: input.bytes(),
                base: input.u64(),
                key: input.u64(),
            }),
        }),
        1 => ToClient::Stable {
            logger: LoggerId(input.u32()),
            rank: input.u32(),
            incarnation: input.u32(),
            clock: input.u64(),
            end: input.u64(),
            level: level(input),
        },
        2 => ToClient::Consumed {
            position: input.u64(),
        },
        3 => ToClient::Events {
            batches: input.bytes(),
            is_last: input.u8().is_multiple_of(2),
        },
        4 => ToClient::Ranks {
            ranks: (0..input.u8() % 4).map(|_| holding(input)).collect(),
        },
        5 => ToClient::Row(HeldRow {
            incarnation: input.u32(),
            first: input.u64(),
            clock_before: input.u64(),
            end: input.u64(),
            last_clock: input.u64(),
            lives: (0..input.u8() % 4)
                .map(|_| (input.u32(), input.u64()))
                .collect(),
        }),
        _ => ToClient::Refused {
            reason: input.text(),
        },
    }
}

fn holding(input: &mut Input<'_>) -> Holding {
    Holding {
        job: input.u64(),
        rank: input.u32(),
        incarnation: input.u32(),
        first: input.u64(),
        clock_before: input.u64(),
        end: input.u64(),
        last_clock: input.u64(),
    }
}

/// One message of each kind, with numbers on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in 0..8_u8 {
        let bytes: Vec<u8> = [kind]
            .into_iter()
            .chain((1..90_u8).map(|at| at.wrapping_mul(kind)))
            .collect();
        seeds.push(encoded(&to_logger(&mut Input::new(&bytes))));
        if kind < 7 {
            seeds.push(encoded(&to_client(&mut Input::new(&bytes))));
        }
    }
    seeds.push(encoded(&ToLogger::Read {
        job: u64::MAX,
        rank: 1,
        from: (1 << 32) - 1,
        after_clock: Some(1 << 32),
    }));
    seeds
}
