//! Messages in the frames of a protocol, in both directions.

use crate::generated;
use crate::input::Input;
use bytes::BytesMut;
use refrain_wire::{FRAME_HEADER_BYTES, Frame, FrameError, Protocol};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Checks both directions. Any bytes are a message, an error, or the beginning of a frame. Most
/// fail at the header, so they are also checked after a valid header.
pub fn check<M: Serialize + DeserializeOwned + PartialEq + Debug>(
    protocol: &Protocol,
    bytes: &[u8],
) {
    decode_then_encode::<M>(protocol, bytes);
    let header = protocol.header(Frame::Message(bytes.len()));
    decode_then_encode::<M>(protocol, &[&header[..], bytes].concat());
    if let Some(message) = generated::value::<M>(&mut Input::new(bytes)) {
        encode_then_decode(protocol, &message);
    }
}

fn decode_then_encode<M: Serialize + DeserializeOwned + PartialEq + Debug>(
    protocol: &Protocol,
    bytes: &[u8],
) {
    if let (Ok(Some(frame)), Some(header)) = (protocol.peek(bytes), bytes.first_chunk()) {
        assert_eq!(protocol.header(frame), *header);
    }
    let mut rest = BytesMut::from(bytes);
    let first = protocol.decode::<M>(&mut rest);
    let limit = FRAME_HEADER_BYTES + protocol.message_bytes_max;
    match &first {
        Ok(Some(message)) => {
            let frame_bytes = bytes.len() - rest.len();
            assert!((FRAME_HEADER_BYTES..=limit).contains(&frame_bytes));
            // No encoding is shorter than that of `encode`.
            assert!(encode_then_decode(protocol, message) <= frame_bytes);
            // The decoder ignores bytes after the frame, and no shorter part is a message.
            let decode = |bytes: &[u8]| protocol.decode::<M>(&mut BytesMut::from(bytes));
            assert_eq!(decode(&bytes[..frame_bytes]), first);
            assert_eq!(decode(&bytes[..frame_bytes - 1]), Ok(None));
        }
        Ok(None) => assert!(bytes.len() < limit),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    in_pieces_too(protocol, bytes, &first);
}

/// The first message does not depend on the pieces in which the bytes arrive.
fn in_pieces_too<M: DeserializeOwned + PartialEq + Debug>(
    protocol: &Protocol,
    bytes: &[u8],
    expected: &Result<Option<M>, FrameError>,
) {
    let mut incoming = BytesMut::new();
    for byte in bytes {
        incoming.extend_from_slice(&[*byte]);
        match protocol.decode::<M>(&mut incoming) {
            Ok(None) => {}
            decided => return assert_eq!(&decided, expected),
        }
    }
    assert_eq!(&protocol.decode::<M>(&mut incoming), expected);
}

/// Checks that a message decodes from its frame; returns the length of the frame.
fn encode_then_decode<M: Serialize + DeserializeOwned + PartialEq + Debug>(
    protocol: &Protocol,
    message: &M,
) -> usize {
    let mut frame = BytesMut::from(&encoded(protocol, message)[..]);
    let bytes = frame.len();
    let again: Option<M> = protocol.decode(&mut frame).expect("a frame of ours");
    assert_eq!(again.as_ref(), Some(message));
    assert!(frame.is_empty());
    bytes
}

/// Frames with one message of each kind.
pub fn seeds<M: Serialize + DeserializeOwned>(protocol: &Protocol) -> Vec<Vec<u8>> {
    let messages = generated::one_of_each::<M>();
    messages.iter().map(|it| encoded(protocol, it)).collect()
}

fn encoded(protocol: &Protocol, message: &impl Serialize) -> Vec<u8> {
    let mut frame = BytesMut::new();
    let encoded = protocol.encode(message, &mut frame);
    encoded.expect("within the limits");
    frame.into()
}
