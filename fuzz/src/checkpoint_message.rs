//! What clients and checkpoint servers say to each other
//! (docs/design/checkpoint-server.md).

use crate::input::Input;
use refrain_checkpoint::buffer::Strip;
use refrain_checkpoint::faulty::FaultyDisk;
use refrain_checkpoint::format::STRIP_BYTES;
use refrain_checkpoint::framing::{
    FRAME_HEADER_BYTES, FrameHeader, Incoming, MESSAGE_BYTES_MAX, receive, say, send_strip,
};
use refrain_checkpoint::message::{FoundHere, PROTOCOL_VERSION, Refusal, ToClient, ToServer};
use refrain_checkpoint::server::Desk;
use refrain_checkpoint::server::session::{Answer, Session};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

thread_local! {
    /// A megabyte that need not be made anew each time.
    static STRIP: RefCell<Strip> = RefCell::new(Strip::new());
}

/// Checks both directions, and that a server stands whatever is said to it.
pub fn check(bytes: &[u8]) {
    if let Some(first) = bytes.first_chunk::<FRAME_HEADER_BYTES>() {
        match FrameHeader::decode(*first) {
            Ok(header) => assert_eq!(header.encode(), *first),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    decode_then_encode::<ToServer>(bytes);
    decode_then_encode::<ToClient>(bytes);
    // Most bytes fail at the header: the same with a good one before them.
    let mut framed = FrameHeader::Message(bytes.len()).encode().to_vec();
    framed.extend(bytes);
    decode_then_encode::<ToServer>(&framed);
    decode_then_encode::<ToClient>(&framed);
    let input = &mut Input::new(bytes);
    encode_then_decode(&to_server(input));
    encode_then_decode(&to_client(input));
    conversation(bytes);
}

fn received<M: DeserializeOwned>(mut bytes: &[u8]) -> Option<(Incoming<M>, usize)> {
    let before = bytes.len();
    let incoming = STRIP.with_borrow_mut(|strip| receive(&mut bytes, strip));
    incoming
        .ok()
        .map(|incoming| (incoming, before - bytes.len()))
}

fn decode_then_encode<M: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    match received::<M>(bytes) {
        None => {}
        Some((Incoming::End, _)) => assert!(bytes.is_empty()),
        Some((Incoming::Strip(length), used)) => {
            assert!((1..=STRIP_BYTES).contains(&length));
            assert_eq!(used, FRAME_HEADER_BYTES + length);
            let mut again = Vec::new();
            send_strip(&mut again, &bytes[FRAME_HEADER_BYTES..used]).expect("memory");
            assert_eq!(again, bytes[..used]);
        }
        Some((Incoming::Message(message), used)) => {
            assert!(used <= FRAME_HEADER_BYTES + MESSAGE_BYTES_MAX);
            assert!(encoded(&message).len() <= used);
            encode_then_decode(&message);
            // No part of the frame is a message.
            assert!(received::<M>(&bytes[..used - 1]).is_none_or(|it| it.0 == Incoming::End));
        }
    }
}

fn encoded(message: &impl Serialize) -> Vec<u8> {
    let mut frame = Vec::new();
    say(&mut frame, message).expect("within the limits");
    frame
}

fn encode_then_decode<M: Serialize + DeserializeOwned + PartialEq + Debug>(message: &M) {
    let frame = encoded(message);
    let (incoming, used) = received::<M>(&frame).expect("a frame of ours");
    assert_eq!(used, frame.len());
    let Incoming::Message(again) = incoming else {
        panic!("a message, and not {incoming:?}");
    };
    assert_eq!(&again, message);
}

/// Says anything in any order; it is answered, or was nothing.
fn conversation(bytes: &[u8]) {
    let disk = FaultyDisk::new(1);
    let mut session = Session::new(Arc::new(Desk::new(Arc::new(disk))));
    let input = &mut Input::new(bytes);
    session.message(ToServer::Hello {
        version: PROTOCOL_VERSION,
        job: 1,
        prefix: "a-".into(),
    });
    for _ in 0..4 {
        let answer = match input.u8() % 3 {
            0 => {
                let part = input.bytes();
                STRIP.with_borrow_mut(|strip| {
                    strip.bytes_mut()[..part.len()].copy_from_slice(&part);
                    session.strip(strip, part.len())
                })
            }
            _ => session.message(to_server(input)),
        };
        if let Answer::Send(found) = answer {
            panic!("nothing was ever whole: {found:?}");
        }
    }
}

fn to_server(input: &mut Input<'_>) -> ToServer {
    match input.u8() % 5 {
        0 => ToServer::Hello {
            version: input.u32(),
            job: input.u64(),
            prefix: input.text(),
        },
        1 => ToServer::Begin {
            rank: input.u32(),
            incarnation: input.u32(),
            number: input.u64(),
        },
        2 => ToServer::Commit { bytes: input.u64() },
        3 => ToServer::Newest {
            rank: input.u32(),
            life: input.u8().is_multiple_of(2).then(|| input.u32()),
        },
        _ => ToServer::RemoveAll,
    }
}

fn to_client(input: &mut Input<'_>) -> ToClient {
    match input.u8() % 6 {
        0 => ToClient::Begun,
        1 => ToClient::Stable {
            bytes: input.u64(),
            left: (0..input.u8() % 3).map(|_| input.text()).collect(),
        },
        2 => ToClient::Found(Box::new(FoundHere {
            job: input.u64(),
            rank: input.u32(),
            incarnation: input.u32(),
            number: input.u64(),
            salt: input.u64(),
            bytes: input.u64(),
            sections: (0..input.u8() % 4)
                .map(|_| (input.u16(), input.u64(), input.u64()))
                .collect(),
            passed_over: damaged(input),
        })),
        3 => ToClient::Nothing,
        4 => ToClient::Removed,
        _ => ToClient::Refused(refusal(input)),
    }
}

fn damaged(input: &mut Input<'_>) -> Vec<(String, u64, u64, String)> {
    let one = |input: &mut Input<'_>| (input.text(), input.u64(), input.u64(), input.text());
    (0..input.u8() % 3).map(|_| one(input)).collect()
}

fn refusal(input: &mut Input<'_>) -> Refusal {
    match input.u8() % 6 {
        0 => Refusal::Fenced {
            rank: input.u32(),
            own: input.u32(),
            found: input.u32(),
        },
        1 => Refusal::NotNext {
            rank: input.u32(),
            asked: input.u64(),
            found: input.u64(),
        },
        2 => Refusal::GivenUp {
            rank: input.u32(),
            number: input.u64(),
        },
        3 => Refusal::NoneWhole {
            rank: input.u32(),
            damaged: damaged(input),
        },
        4 => Refusal::System {
            attempted: input.text(),
            code: input.u8().is_multiple_of(2).then(|| input.u32() as i32),
            error: input.text(),
        },
        _ => Refusal::Other(input.text()),
    }
}

/// One message of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![FrameHeader::Strip(3).encode().to_vec()];
    seeds[0].extend([1, 2, 3]);
    for kind in 0..6_u8 {
        let bytes: Vec<u8> = [kind]
            .into_iter()
            .chain((1..60_u8).map(|at| at.wrapping_mul(kind)))
            .collect();
        seeds.push(encoded(&to_server(&mut Input::new(&bytes))));
        seeds.push(encoded(&to_client(&mut Input::new(&bytes))));
    }
    seeds
}
