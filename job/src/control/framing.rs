//! Framing of control messages: pure functions over bytes.
//!
//! A frame is a header of 12 bytes (little endian) and a postcard body:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic, `RFRN` |
//! | 4..6 | version ([`CONTROL_VERSION`]) |
//! | 6..8 | 0 |
//! | 8..12 | length of the body, at most [`BODY_BYTES_MAX`] |
//!
//! Magic and version stand in every frame, so that a stranger on the socket is
//! told apart at its first bytes, not by a length that makes no sense.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Version of the control messages. Both sides refuse every other.
pub const CONTROL_VERSION: u16 = 9;
/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"RFRN";
/// Bytes before the body.
pub const HEADER_BYTES: usize = 12;
/// Largest body: addresses and reasons are small, so a longer one is garbage.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// Why bytes are not a control message of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Not written by Refrain.
    #[error("bytes that are no control message: the descriptor leads to another program")]
    Magic,
    /// Written by another version.
    #[error(
        "control messages of version {0}, this program speaks version {CONTROL_VERSION}: \
         build the program and the launcher from the same refrain"
    )]
    Version(u16),
    /// Reserved bytes are not 0.
    #[error("a control message whose reserved bytes are not zero")]
    Reserved,
    /// Longer than any message may be.
    #[error("a control message of {0} bytes; the limit is {BODY_BYTES_MAX}")]
    TooLong(usize),
    /// The body is not one whole message.
    #[error("a control message whose body cannot be read")]
    Body,
}

/// Encodes one message as a frame.
///
/// # Errors
/// [`FrameError::TooLong`].
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let body = postcard::to_allocvec(message).map_err(|_| FrameError::Body)?;
    if body.len() > BODY_BYTES_MAX {
        return Err(FrameError::TooLong(body.len()));
    }
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&CONTROL_VERSION.to_le_bytes());
    frame.extend_from_slice(&[0; 2]);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Decodes the frame at the start of `bytes`: the message and the length of its
/// frame, or `None` while it is not whole. Never asks for more bytes than the
/// limits allow.
///
/// # Errors
/// As soon as the bytes cannot become a frame of this version.
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(M, usize)>, FrameError> {
    let magic = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(magic) {
        return Err(FrameError::Magic);
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != CONTROL_VERSION {
        return Err(FrameError::Version(version));
    }
    if header[6..8] != [0; 2] {
        return Err(FrameError::Reserved);
    }
    let body_bytes = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if body_bytes > BODY_BYTES_MAX {
        return Err(FrameError::TooLong(body_bytes));
    }
    let Some(body) = bytes[HEADER_BYTES..].get(..body_bytes) else {
        return Ok(None);
    };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(Some((message, HEADER_BYTES + body_bytes))),
        _ => Err(FrameError::Body),
    }
}

/// Puts frames together from what a stream socket delivers.
#[derive(Debug, Default)]
pub struct Reassembly {
    bytes: Vec<u8>,
    taken: usize,
}

impl Reassembly {
    /// Adds what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next whole message.
    ///
    /// # Errors
    /// As [`decode`]; every later call fails alike.
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        let Some((message, frame_bytes)) = decode(&self.bytes[self.taken..])? else {
            return Ok(None);
        };
        self.taken += frame_bytes;
        Ok(Some(message))
    }

    /// No part of a message is held.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{JobConfig, VerbsConfig};
    use crate::control::message::{StatusFigures, ToLauncher, ToRank};
    use proptest::prelude::*;

    fn to_launcher() -> impl Strategy<Value = ToLauncher> {
        prop_oneof![
            any::<u32>().prop_map(|process| ToLauncher::Hello { process }),
            (any::<String>(), any::<Vec<u8>>(), any::<bool>())
                .prop_map(|(key, value, memory)| { ToLauncher::Put { key, value, memory } }),
            any::<String>().prop_map(|key| ToLauncher::Get { key }),
            (any::<u64>(), any::<bool>())
                .prop_map(|(generation, last)| ToLauncher::Fence { generation, last }),
            any::<u64>().prop_map(|checkpoint| ToLauncher::Mark { checkpoint }),
            any::<u64>().prop_map(|checkpoint| ToLauncher::Taking { checkpoint }),
            any::<[u64; 3]>().prop_map(|[checkpoint, bytes, log_bytes]| ToLauncher::Stable {
                checkpoint,
                bytes,
                log_bytes
            }),
            (any::<[u64; 7]>(), any::<bool>()).prop_map(status),
            any::<u32>().prop_map(|of| ToLauncher::WantCheckpoint { of }),
            Just(ToLauncher::Finalize),
            any::<String>().prop_map(|message| ToLauncher::Abort { message }),
        ]
    }

    fn status((figures, heeds_requests): ([u64; 7], bool)) -> ToLauncher {
        let [
            received_bytes,
            sent_bytes,
            log_bytes,
            log_bytes_max,
            disk_bytes,
            gate_waits,
            gate_wait_us,
        ] = figures;
        ToLauncher::Status {
            figures: Box::new(StatusFigures {
                received_bytes,
                sent_bytes,
                log_bytes,
                log_bytes_max,
                disk_bytes,
                gate_waits,
                gate_wait_us,
                heeds_requests,
            }),
        }
    }

    fn config() -> impl Strategy<Value = JobConfig> {
        (
            any::<String>(),
            any::<Option<u64>>(),
            any::<bool>(),
            any::<u32>(),
            any::<Option<String>>(),
            any::<Option<u64>>(),
            any::<(Option<String>, Option<u8>)>(),
        )
            .prop_map(
                |(
                    fabric,
                    log_memory_bytes,
                    log_prefault,
                    ranks,
                    libfabric,
                    suspect_after_ms,
                    (verbs_device, verbs_port),
                )| {
                    JobConfig {
                        fabric,
                        log_memory_bytes,
                        log_prefault,
                        ranks_on_host: ranks,
                        cores: vec![ranks; 3],
                        spill_dir: libfabric.clone(),
                        libfabric,
                        suspect_after_ms,
                        verbs: VerbsConfig {
                            library: verbs_device.clone(),
                            device: verbs_device,
                            port: verbs_port,
                            gid_index: verbs_port.map(|port| !port),
                            mtu_bytes: Some(ranks),
                        },
                        ..JobConfig::default()
                    }
                },
            )
    }

    fn to_rank() -> impl Strategy<Value = ToRank> {
        prop_oneof![
            (
                any::<u64>(),
                any::<u32>(),
                any::<u32>(),
                any::<u32>(),
                config(),
                any::<bool>()
            )
                .prop_map(|(job, rank, size, incarnation, config, alone)| {
                    ToRank::Welcome {
                        job,
                        rank,
                        size,
                        incarnation,
                        config: Box::new(config),
                        alone,
                    }
                }),
            (any::<String>(), any::<Vec<u8>>(), any::<bool>())
                .prop_map(|(key, value, memory)| { ToRank::Value { key, value, memory } }),
            any::<u64>().prop_map(|generation| ToRank::FenceDone { generation }),
            Just(ToRank::CheckpointWanted),
            Just(ToRank::AskStatus),
            any::<String>().prop_map(|reason| ToRank::Stop { reason }),
        ]
    }

    /// All messages out of `stream`, delivered in pieces of the given lengths.
    fn reassemble<M: DeserializeOwned>(stream: &[u8], pieces: &[usize]) -> Vec<M> {
        let (mut reassembly, mut messages, mut rest) = (Reassembly::default(), Vec::new(), stream);
        let mut lengths = pieces.iter().copied().cycle();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(lengths.next().unwrap_or(1).min(rest.len()));
            reassembly.push(piece);
            while let Some(message) = reassembly.next_message().unwrap() {
                messages.push(message);
            }
            rest = behind;
        }
        assert!(reassembly.is_empty());
        messages
    }

    proptest! {
        #[test]
        fn messages_survive_any_cutting(
            sent in prop::collection::vec(to_launcher(), 0..8),
            answers in prop::collection::vec(to_rank(), 0..8),
            pieces in prop::collection::vec(1usize..40, 1..8),
        ) {
            let stream: Vec<u8> = sent.iter().flat_map(|m| encode(m).unwrap()).collect();
            prop_assert_eq!(reassemble::<ToLauncher>(&stream, &pieces), sent);
            let stream: Vec<u8> = answers.iter().flat_map(|m| encode(m).unwrap()).collect();
            prop_assert_eq!(reassemble::<ToRank>(&stream, &pieces), answers);
        }

        #[test]
        fn a_frame_cut_short_is_never_a_message(message in to_rank(), cut in any::<prop::sample::Index>()) {
            let frame = encode(&message).unwrap();
            let part = &frame[..cut.index(frame.len())];
            prop_assert_eq!(decode::<ToRank>(part), Ok(None));
        }

        #[test]
        fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 4..200)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert_eq!(decode::<ToLauncher>(&bytes), Err(FrameError::Magic));
        }

        /// A good header with a random body: a message or an error, no panic,
        /// and a message only if it encodes to the same number of bytes or
        /// less (postcard's varints have more than one spelling).
        #[test]
        fn a_random_body_is_harmless(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frame = encode(&ToLauncher::Finalize).unwrap()[..8].to_vec();
            frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
            frame.extend_from_slice(&body);
            if let Ok(decoded) = decode::<ToLauncher>(&frame) {
                let (message, frame_bytes) = decoded.expect("the frame is whole");
                prop_assert_eq!(frame_bytes, frame.len());
                prop_assert!(encode(&message).unwrap().len() <= frame.len());
            }
        }
    }

    fn tampered(at: usize, value: u8) -> Result<Option<(ToLauncher, usize)>, FrameError> {
        let mut frame = encode(&ToLauncher::Fence {
            last: false,
            generation: 1 << 40,
        })
        .unwrap();
        frame[at] = value;
        decode(&frame)
    }

    #[test]
    fn each_field_of_the_header_is_checked() {
        assert_eq!(tampered(0, b'X'), Err(FrameError::Magic));
        assert_eq!(tampered(4, 200), Err(FrameError::Version(200)));
        assert_eq!(tampered(6, 1), Err(FrameError::Reserved));
        assert_eq!(tampered(11, 1), Err(FrameError::TooLong((1 << 24) + 8)));
        assert_eq!(
            tampered(8, 3),
            Err(FrameError::Body),
            "a body cut by its length"
        );
        assert_eq!(
            tampered(12, 99),
            Err(FrameError::Body),
            "a kind that does not exist"
        );
    }

    #[test]
    fn a_body_with_something_behind_the_message_is_refused() {
        let mut frame = encode(&ToLauncher::Finalize).unwrap();
        frame[8] += 1;
        frame.push(0);
        assert_eq!(decode::<ToLauncher>(&frame), Err(FrameError::Body));
    }

    #[test]
    fn what_is_too_long_to_be_read_is_not_written() {
        let message = ToLauncher::Abort {
            message: "x".repeat(BODY_BYTES_MAX),
        };
        assert!(matches!(encode(&message), Err(FrameError::TooLong(_))));
    }

    /// The encoding as bytes: when this fails, raise [`CONTROL_VERSION`].
    #[test]
    fn the_encoding_is_the_one_of_this_version() {
        let welcome = ToRank::Welcome {
            job: 1,
            rank: 2,
            size: 3,
            incarnation: 4,
            config: Box::new(JobConfig::default()),
            alone: false,
        };
        let expected = [
            b"RFRN\x09\0\0\0\x4b\0\0\0".as_slice(),
            b"\0\x01\x02\x03\x04\x04auto\x04none\0\0\x90\x4e".as_slice(),
            b"\0\0\0\x04auto\0\0\0\x01\x01\0".as_slice(),
            b"\0\0\0\0\0\0\xb0\xea\x01\0".as_slice(),
            b"\0\0\0\x04auto\xe0\xd4\x03\0\0\0\0\0".as_slice(),
            b"\x04none\xe8\x07\0\x01\x01\x01\x01\x02\0\0",
            b"\0",
        ]
        .concat();
        assert_eq!(encode(&welcome).unwrap(), expected);
    }
}
