//! Messages on a byte stream: frames of a length and a message in postcard's
//! encoding (see [`crate::message`]).

use crate::message::FRAME_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

const LENGTH_BYTES: usize = size_of::<u32>();

/// Why bytes are no frames, or a message cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Longer than any frame may be.
    #[error("a frame of {bytes} bytes; at most {FRAME_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length, as far as known.
        bytes: usize,
    },
    /// Not a message of this version.
    #[error("a frame of {bytes} bytes that is no message of this version")]
    Unreadable {
        /// Its length.
        bytes: usize,
    },
}

/// Appends `message` to `out` as a frame.
///
/// # Errors
/// [`FrameError::TooLong`]; `out` is as before then.
pub fn encode(message: &impl Serialize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend([0; LENGTH_BYTES]);
    // Writing to memory fails only for types that postcard does not know.
    let mut whole = postcard::to_extend(message, std::mem::take(out))
        .expect("messages are made of what postcard encodes");
    let bytes = whole.len() - start - LENGTH_BYTES;
    if bytes > FRAME_BYTES_MAX {
        whole.truncate(start);
        *out = whole;
        return Err(FrameError::TooLong { bytes });
    }
    whole[start..start + LENGTH_BYTES].copy_from_slice(&(bytes as u32).to_le_bytes());
    *out = whole;
    Ok(())
}

/// Cuts a stream into messages. Holds at most one frame and what was appended
/// behind it.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// What is before this was read.
    start: usize,
}

impl FrameReader {
    /// Takes in what came.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, once all of it is there.
    ///
    /// # Errors
    /// See [`FrameError`]; the stream cannot be read on then.
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        let unread = &self.bytes[self.start..];
        let Some((length, rest)) = unread.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong { bytes });
        }
        let Some(frame) = rest.get(..bytes) else {
            return Ok(None);
        };
        match postcard::take_from_bytes(frame) {
            Ok((message, [])) => {
                self.start += LENGTH_BYTES + bytes;
                Ok(Some(message))
            }
            _ => Err(FrameError::Unreadable { bytes }),
        }
    }

    /// Bytes that came and were not read.
    pub fn unread_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Begins, Hello, PROTOCOL_VERSION, ToLogger, Way};

    fn messages() -> Vec<ToLogger> {
        vec![
            ToLogger::Hello(Hello {
                version: PROTOCOL_VERSION,
                job: u64::MAX,
                rank: 3,
                incarnation: 1,
                first_kept: 1 << 32,
                begins: Some(Begins {
                    start: u64::MAX,
                    clock_before: 5,
                    follows: u32::MAX,
                }),
                way: Way::SharedMemory,
            }),
            ToLogger::Row { job: 1, rank: 2 },
            ToLogger::Commit {
                batch: (0..=255).collect(),
            },
            ToLogger::Leave,
            ToLogger::Read {
                job: 1,
                rank: 2,
                from: 3,
                after_clock: Some(u64::MAX),
            },
        ]
    }

    fn stream() -> Vec<u8> {
        let mut stream = Vec::new();
        for message in messages() {
            encode(&message, &mut stream).expect("short");
        }
        stream
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_is_cut() {
        let stream = stream();
        for piece_bytes in 1..stream.len() {
            let mut reader = FrameReader::default();
            let mut read: Vec<ToLogger> = Vec::new();
            for piece in stream.chunks(piece_bytes) {
                reader.extend(piece);
                while let Some(message) = reader.next_message().expect("well-formed") {
                    read.push(message);
                }
            }
            assert_eq!(read, messages(), "in pieces of {piece_bytes} bytes");
            assert_eq!(reader.unread_bytes(), 0);
        }
    }

    #[test]
    fn a_frame_cut_short_is_no_message_yet() {
        let stream = stream();
        for bytes in 0..4 {
            let mut reader = FrameReader::default();
            reader.extend(&stream[..bytes]);
            assert_eq!(reader.next_message::<ToLogger>(), Ok(None));
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_there() {
        let mut reader = FrameReader::default();
        reader.extend(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
        let bytes = FRAME_BYTES_MAX + 1;
        let refused = Err(FrameError::TooLong { bytes });
        assert_eq!(reader.next_message::<ToLogger>(), refused);
    }

    #[test]
    fn a_message_that_is_too_long_is_not_written() {
        let mut out = vec![7];
        let batch = vec![0; FRAME_BYTES_MAX];
        let error = encode(&ToLogger::Commit { batch }, &mut out).expect_err("too long");
        assert!(matches!(error, FrameError::TooLong { .. }));
        assert_eq!(out, [7]);
    }

    #[test]
    fn bytes_behind_a_message_in_its_frame_are_refused() {
        let mut stream = Vec::new();
        encode(&ToLogger::Leave, &mut stream).expect("short");
        stream[0] += 1;
        stream.push(0);
        let mut reader = FrameReader::default();
        reader.extend(&stream);
        let refused = Err(FrameError::Unreadable { bytes: 2 });
        assert_eq!(reader.next_message::<ToLogger>(), refused);
    }
}
