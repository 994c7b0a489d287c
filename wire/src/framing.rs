//! Frames: the encoding of messages on a byte stream. Pure.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | magic of the protocol |
//! | 2 | version of the protocol |
//! | 3 | kind: 1, a message; 2, data |
//! | 4..8 | length of the body, little endian |
//! | 8.. | body: a message in postcard's encoding, or data as it is |
//!
//! Magic and version are in each frame, at the same place in all versions: another protocol or
//! version is recognised by its first bytes. A length above the limit of the protocol is refused
//! before the body arrives.

use bytes::{Buf as _, BufMut as _, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use thiserror::Error;

/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 8;
const KIND_MESSAGE: u8 = 1;
const KIND_DATA: u8 = 2;

/// A protocol between two processes. The encoding does not describe itself: a change of a message
/// requires a new version.
#[derive(Debug)]
pub struct Protocol {
    /// The purpose of the protocol, for errors and for the handshake of sealed connections: a
    /// secret of one protocol cannot be used in another.
    pub purpose: &'static str,
    /// The first bytes of each frame.
    pub magic: [u8; 2],
    /// Version of the protocol; both sides refuse every other version.
    pub version: u8,
    /// Bytes of the longest encoded message.
    pub message_bytes_max: usize,
    /// Bytes of the longest data frame; 0: the protocol has no data.
    pub data_bytes_max: usize,
    /// A host that acknowledges nothing for this time is gone: connections over TCP end then.
    pub unacknowledged_max: Duration,
}

/// Bytes are no frame, or a message cannot be encoded as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The magic is not that of this protocol.
    #[error("the bytes are not a frame of the protocol \"{0}\"")]
    Magic(&'static str),
    /// The frame has another version of the protocol.
    #[error(
        "the other side uses version {found} of the protocol \"{purpose}\", this program version {own}: use the same refrain on both sides"
    )]
    Version {
        /// The protocol.
        purpose: &'static str,
        /// The version of the frame.
        found: u8,
        /// The version of this program.
        own: u8,
    },
    /// The protocol has no such kind of frame.
    #[error("a frame of kind {0}, which does not exist")]
    Kind(u8),
    /// The frame is longer than allowed, or has no data.
    #[error("a frame of {bytes} bytes; at most {bytes_max} are allowed")]
    Length {
        /// The length of the body.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The body is not one complete message.
    #[error("a frame of {0} bytes that is no message of this version")]
    Unreadable(usize),
    /// A value has no encoding, such as a path that is not UTF-8.
    #[error("a value of the message cannot be encoded")]
    Unencodable,
}

/// The kind of a frame, with the length of its body in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(usize),
    /// Data.
    Data(usize),
}

impl Frame {
    /// The length of the body in bytes.
    pub fn body_bytes(self) -> usize {
        let (Self::Message(bytes) | Self::Data(bytes)) = self;
        bytes
    }
}

impl Protocol {
    /// Encodes a header.
    pub fn header(&self, frame: Frame) -> [u8; FRAME_HEADER_BYTES] {
        let kind = match frame {
            Frame::Message(_) => KIND_MESSAGE,
            Frame::Data(_) => KIND_DATA,
        };
        let [first, second] = self.magic;
        let [a, b, c, d] = (frame.body_bytes() as u32).to_le_bytes();
        [first, second, self.version, kind, a, b, c, d]
    }

    /// Decodes the header at the start of `bytes`; `None` while it is incomplete.
    ///
    /// # Errors
    /// As soon as the bytes cannot become a header of this protocol and version.
    pub fn peek(&self, bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
        let begin = &bytes[..bytes.len().min(self.magic.len())];
        if !self.magic.starts_with(begin) {
            return Err(FrameError::Magic(self.purpose));
        }
        if let Some(&found) = bytes.get(2).filter(|it| **it != self.version) {
            let (purpose, own) = (self.purpose, self.version);
            return Err(FrameError::Version {
                purpose,
                found,
                own,
            });
        }
        let Some([_, _, _, kind, length @ ..]) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let bytes = u32::from_le_bytes(*length) as usize;
        let (frame, bytes_max, is_empty) = match *kind {
            KIND_MESSAGE => (Frame::Message(bytes), self.message_bytes_max, false),
            KIND_DATA if self.data_bytes_max > 0 => {
                (Frame::Data(bytes), self.data_bytes_max, bytes == 0)
            }
            kind => return Err(FrameError::Kind(kind)),
        };
        match bytes > bytes_max || is_empty {
            true => Err(FrameError::Length { bytes, bytes_max }),
            false => Ok(Some(frame)),
        }
    }

    /// Appends a message to `out` as a frame.
    ///
    /// # Errors
    /// When the message is too long, or has no encoding; `out` is unchanged then.
    pub fn encode(&self, message: &impl Serialize, out: &mut BytesMut) -> Result<(), FrameError> {
        let start = out.len();
        out.put_bytes(0, FRAME_HEADER_BYTES);
        let body = start + FRAME_HEADER_BYTES;
        let encoded = postcard::to_io(message, (&mut *out).writer()).map(drop);
        let (bytes, bytes_max) = (out.len() - body, self.message_bytes_max);
        let error = match encoded {
            Err(_) => FrameError::Unencodable,
            Ok(()) if bytes > bytes_max => FrameError::Length { bytes, bytes_max },
            Ok(()) => {
                out[start..body].copy_from_slice(&self.header(Frame::Message(bytes)));
                return Ok(());
            }
        };
        out.truncate(start);
        Err(error)
    }

    /// Removes the message at the start of `bytes`, once it is complete.
    ///
    /// # Errors
    /// When the bytes are no message; every later call fails in the same way.
    pub fn decode<M: DeserializeOwned>(
        &self,
        bytes: &mut BytesMut,
    ) -> Result<Option<M>, FrameError> {
        let length = match self.peek(bytes)? {
            None => return Ok(None),
            Some(Frame::Message(length)) => length,
            // Data instead of a message.
            Some(Frame::Data(_)) => return Err(FrameError::Kind(KIND_DATA)),
        };
        let Some(body) = bytes[FRAME_HEADER_BYTES..].get(..length) else {
            return Ok(None);
        };
        match postcard::take_from_bytes(body) {
            Ok((message, [])) => {
                bytes.advance(FRAME_HEADER_BYTES + length);
                Ok(Some(message))
            }
            _ => Err(FrameError::Unreadable(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PROTOCOL: Protocol = Protocol {
        purpose: "test",
        magic: *b"RT",
        version: 3,
        message_bytes_max: 1000,
        data_bytes_max: 100,
        unacknowledged_max: Duration::from_secs(1),
    };

    type Message = (u64, String, Vec<u8>);

    fn encoded(message: &Message) -> BytesMut {
        let mut frame = BytesMut::new();
        PROTOCOL.encode(message, &mut frame).expect("short");
        frame
    }

    fn decoded(bytes: &[u8]) -> Result<Option<Message>, FrameError> {
        PROTOCOL.decode(&mut BytesMut::from(bytes))
    }

    fn message() -> impl Strategy<Value = Message> {
        let bytes = prop::collection::vec(any::<u8>(), 0..200);
        (any::<u64>(), "[a-z]{0,30}", bytes)
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in_however_the_stream_is_cut(
            sent in prop::collection::vec(message(), 0..8),
            pieces in prop::collection::vec(1usize..40, 1..8),
        ) {
            let stream: Vec<u8> = sent.iter().flat_map(encoded).collect();
            let (mut buffer, mut got, mut rest) = (BytesMut::new(), Vec::new(), stream.as_slice());
            for piece in pieces.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, behind) = rest.split_at(piece.min(rest.len()));
                buffer.extend_from_slice(piece);
                while let Some(message) = PROTOCOL.decode::<Message>(&mut buffer).unwrap() {
                    got.push(message);
                }
                rest = behind;
            }
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn a_frame_cut_short_is_never_a_message(message in message(), cut in any::<prop::sample::Index>()) {
            let frame = encoded(&message);
            prop_assert_eq!(decoded(&frame[..cut.index(frame.len())]), Ok(None));
        }

        #[test]
        fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 2..200)) {
            prop_assume!(!bytes.starts_with(&PROTOCOL.magic));
            prop_assert_eq!(decoded(&bytes), Err(FrameError::Magic("test")));
        }

        /// A message or an error, no panic, and a message only if it encodes to the same number
        /// of bytes or less (postcard's varints have more than one spelling).
        #[test]
        fn a_random_body_is_harmless(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let header = PROTOCOL.header(Frame::Message(body.len()));
            let frame = [&header[..], &body].concat();
            if let Ok(message) = decoded(&frame) {
                let message = message.expect("the frame is whole");
                prop_assert!(encoded(&message).len() <= frame.len());
            }
        }
    }

    fn tampered(at: usize, value: u8) -> Result<Option<Message>, FrameError> {
        let mut frame = encoded(&(1 << 40, "x".into(), vec![1]));
        frame[at] = value;
        decoded(&frame)
    }

    #[test]
    fn each_field_of_the_header_is_checked() {
        assert_eq!(tampered(0, b'X'), Err(FrameError::Magic("test")));
        let error = tampered(2, 200).expect_err("another version");
        let text = error.to_string();
        assert!(
            text.contains("version 200") && text.contains("version 3"),
            "{text}"
        );
        assert_eq!(tampered(3, 0), Err(FrameError::Kind(0)));
        assert_eq!(tampered(3, KIND_DATA), Err(FrameError::Kind(KIND_DATA)));
        let bytes = (1 << 24) + 10;
        let too_long = FrameError::Length {
            bytes,
            bytes_max: 1000,
        };
        assert_eq!(tampered(7, 1), Err(too_long));
        assert_eq!(
            tampered(4, 3),
            Err(FrameError::Unreadable(3)),
            "cut by its length"
        );
        assert_eq!(tampered(14, 99), Err(FrameError::Unreadable(10)));
    }

    #[test]
    fn a_body_with_something_behind_the_message_is_refused() {
        let mut frame = encoded(&(1, String::new(), Vec::new()));
        frame[4] += 1;
        frame.put_u8(0);
        assert_eq!(decoded(&frame), Err(FrameError::Unreadable(4)));
    }

    #[test]
    fn data_is_announced_within_its_limits() {
        for (bytes, is_allowed) in [(0, false), (1, true), (100, true), (101, false)] {
            let header = PROTOCOL.header(Frame::Data(bytes));
            let frame = PROTOCOL.peek(&header);
            assert_eq!(frame.is_ok(), is_allowed, "{frame:?}");
        }
        let other = Protocol {
            data_bytes_max: 0,
            ..PROTOCOL
        };
        let header = other.header(Frame::Data(1));
        assert_eq!(other.peek(&header), Err(FrameError::Kind(KIND_DATA)));
    }

    #[test]
    fn a_message_that_is_too_long_is_not_written() {
        let mut out = BytesMut::from(&[7][..]);
        let error = PROTOCOL
            .encode(&vec![0_u8; 999], &mut out)
            .expect_err("too long");
        assert!(matches!(error, FrameError::Length { bytes: 1001, .. }));
        assert_eq!(out[..], [7]);
    }
}
