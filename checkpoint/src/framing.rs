//! Messages and strips on a byte stream.
//!
//! A frame is 8 bytes (length of the body as u32, what it is as u8, three zeros)
//! and a body: a message in postcard's encoding, or a strip as it is.

use crate::buffer::Strip;
use crate::format::{STRIP_BYTES, is_zero};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use thiserror::Error;

/// Bytes before a body.
pub const FRAME_HEADER_BYTES: usize = 8;
/// Bytes of a message, at most.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

const KIND_MESSAGE: u8 = 1;
const KIND_STRIP: u8 = 2;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHeader {
    /// A message of so many bytes.
    Message(usize),
    /// A strip of so many bytes.
    Strip(usize),
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Not a frame of this version, or too long.
    #[error("bytes that are no frame of this version")]
    Header,
    /// Not a message of this version.
    #[error("a frame of {0} bytes that is no message of this version")]
    Message(usize),
}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> Self {
        Self::new(ErrorKind::InvalidData, error)
    }
}

impl FrameHeader {
    /// As bytes.
    pub fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let (kind, bytes) = match self {
            Self::Message(bytes) => (KIND_MESSAGE, bytes),
            Self::Strip(bytes) => (KIND_STRIP, bytes),
        };
        let length = (bytes as u32).to_le_bytes();
        [length[0], length[1], length[2], length[3], kind, 0, 0, 0]
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`FrameError::Header`].
    pub fn decode(bytes: [u8; FRAME_HEADER_BYTES]) -> Result<Self, FrameError> {
        let [a, b, c, d, kind, rest @ ..] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        match kind {
            _ if !is_zero(&rest) => Err(FrameError::Header),
            KIND_MESSAGE if length <= MESSAGE_BYTES_MAX => Ok(Self::Message(length)),
            KIND_STRIP if (1..=STRIP_BYTES).contains(&length) => Ok(Self::Strip(length)),
            _ => Err(FrameError::Header),
        }
    }
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<M> {
    /// A message.
    Message(M),
    /// A strip of so many bytes, which lies where it was to be put.
    Strip(usize),
    /// The other side has closed, between two frames.
    End,
}

/// Reads a message.
///
/// # Errors
/// [`FrameError::Message`].
pub fn decode<M: DeserializeOwned>(body: &[u8]) -> Result<M, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Message(body.len())),
    }
}

/// Waits for a frame; a strip is put into `strip`.
///
/// # Errors
/// Of the stream; `UnexpectedEof` in the middle of a frame, `InvalidData` for what
/// is none.
pub fn receive<M: DeserializeOwned>(
    stream: &mut impl Read,
    strip: &mut Strip,
) -> io::Result<Incoming<M>> {
    let mut header = [0; FRAME_HEADER_BYTES];
    let first = loop {
        match stream.read(&mut header) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(Incoming::End);
    }
    stream.read_exact(&mut header[first..])?;
    match FrameHeader::decode(header)? {
        FrameHeader::Strip(bytes) => {
            stream.read_exact(&mut strip.bytes_mut()[..bytes])?;
            Ok(Incoming::Strip(bytes))
        }
        FrameHeader::Message(bytes) => {
            let mut body = Vec::new();
            // Memory follows what comes, not what was promised.
            let got = stream.take(bytes as u64).read_to_end(&mut body)?;
            if got < bytes {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            Ok(Incoming::Message(decode(&body)?))
        }
    }
}

/// Says a message.
///
/// # Errors
/// Of the stream; `InvalidData` when it is too long for a frame.
pub fn say(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    // Writing to memory fails only for types that postcard does not know.
    let frame = postcard::to_extend(message, vec![0; FRAME_HEADER_BYTES]);
    let mut frame = frame.expect("messages are made of what postcard encodes");
    let bytes = frame.len() - FRAME_HEADER_BYTES;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(FrameError::Message(bytes).into());
    }
    frame[..FRAME_HEADER_BYTES].copy_from_slice(&FrameHeader::Message(bytes).encode());
    stream.write_all(&frame)
}

/// Sends a strip.
///
/// # Errors
/// Of the stream.
pub fn send_strip(stream: &mut impl Write, strip: &[u8]) -> io::Result<()> {
    stream.write_all(&FrameHeader::Strip(strip.len()).encode())?;
    stream.write_all(strip)
}
