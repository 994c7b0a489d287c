//! Messages between the driver and a rank, over two pipes per rank.
//!
//! A frame is a length (u32, little endian) and a postcard value. The pipes
//! connect processes of one executable on one machine, so frames have no version.

use super::arguments::{Mode, Receive};
use super::log_budget::LogRoom;
use super::log_use::LogUse;
use crate::error::BenchError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::time::Duration;

/// Maximum length of a frame: the samples of one round are far shorter (`measure::SAMPLES_MAX`).
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Commands of the driver to both ranks. The end of the pipe ends the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The first command.
    Prepare {
        /// Length of the buffers.
        largest_bytes: u64,
        /// The payload log; `None`: the protocol keeps no payload.
        log_room: Option<LogRoom>,
    },
    /// Measure one round.
    Measure(Round),
    /// The round is over for both ranks: sleep until the next command.
    Rest,
}

/// One round of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Bytes of one message.
    pub bytes: u64,
    /// Exchange of the ranks.
    pub mode: Mode,
    /// Receive operation of the ranks.
    pub receive: Receive,
    /// Approximate duration, with the warm-up.
    pub time: Duration,
    /// Seed of the pattern in the buffers; differs in each round.
    pub seed: u64,
}

/// Answers of a rank to the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The rank has joined its job.
    Ready {
        /// The fabric in use: the one that `auto` has chosen.
        fabric: String,
        /// The protocol in use.
        protocol: String,
    },
    /// A round is over and its data was verified.
    Measured(Samples),
    /// The rank failed, for this reason.
    Failed(String),
}

/// The samples of a rank of one round. Rank 1 has no clock: its times are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Half round trip (stream: time per message; bidirectional: time of one exchange) of each
    /// batch, in picoseconds.
    pub times_ps: Vec<u64>,
    /// Round trips (messages, exchanges) per batch.
    pub batch: u64,
    /// Log use of this rank; the driver adds that of both ranks.
    pub log: LogUse,
}

/// Writes one frame.
///
/// # Errors
/// The other side has closed the pipe.
pub fn write_frame(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut frame = postcard::to_extend(value, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&frame)
}

/// Reads one frame; `None` at the end of the pipe.
///
/// # Errors
/// The pipe ends within a frame, or the bytes are not a frame.
#[cfg(test)]
pub fn read_frame<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut incoming = Incoming::default();
    loop {
        if let Some(value) = incoming.take()? {
            return Ok(Some(value));
        }
        if !incoming.read_from(from)? {
            return Ok(None);
        }
    }
}

/// Bytes that were read from a pipe and not yet decoded.
#[derive(Debug, Default)]
pub struct Incoming(Vec<u8>);

impl Incoming {
    /// Reads once. `false`: the pipe has ended between two frames.
    ///
    /// # Errors
    /// The pipe ends within a frame.
    pub fn read_from(&mut self, pipe: &mut impl Read) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        let bytes = loop {
            match pipe.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        if bytes == 0 && !self.0.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0.extend_from_slice(&chunk[..bytes]);
        Ok(bytes > 0)
    }

    /// The next frame, if it is complete.
    ///
    /// # Errors
    /// The bytes are not a frame.
    pub fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((length, rest)) = self.0.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(io::Error::other("a frame longer than any"));
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        let (value, left) = postcard::take_from_bytes(frame).map_err(io::Error::other)?;
        if !left.is_empty() {
            return Err(io::Error::other("a frame with bytes after its value"));
        }
        self.0.drain(..4 + length);
        Ok(Some(value))
    }
}

/// The error of a process that is a rank, or starts a peer, and failed.
pub fn rank_failed(reason: String) -> BenchError {
    BenchError::failed(format!("this rank of the sweep cannot continue: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round() -> Command {
        Command::Measure(Round {
            bytes: 4_194_307,
            mode: Mode::Bidirectional,
            receive: Receive::Any,
            time: Duration::from_millis(50),
            seed: u64::MAX,
        })
    }

    fn samples(count: u64) -> Answer {
        Answer::Measured(Samples {
            times_ps: (0..count).map(|n| n * 1_000_003).collect(),
            batch: 40,
            log: LogUse {
                appended_bytes: 7,
                ..LogUse::default()
            },
        })
    }

    #[test]
    fn frames_come_back_one_by_one() {
        let prepare = Command::Prepare {
            largest_bytes: 1,
            log_room: Some(LogRoom::new(1 << 20, 4.0)),
        };
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &prepare).unwrap();
        write_frame(&mut pipe, &round()).unwrap();
        write_frame(&mut pipe, &Command::Rest).unwrap();
        let mut pipe = pipe.as_slice();
        // A read may take more than one frame, so both use the same buffer.
        let mut incoming = Incoming::default();
        assert!(incoming.read_from(&mut pipe).unwrap());
        assert_eq!(incoming.take().unwrap(), Some(prepare));
        assert_eq!(incoming.take().unwrap(), Some(round()));
        assert_eq!(incoming.take().unwrap(), Some(Command::Rest));
        assert_eq!(incoming.take::<Command>().unwrap(), None);
        assert!(!incoming.read_from(&mut pipe).unwrap());
    }

    #[test]
    fn a_frame_larger_than_a_pipe_arrives_in_pieces() {
        let answer = samples(50_000);
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &answer).unwrap();
        assert!(pipe.len() > 1 << 16);
        assert_eq!(read_frame(&mut pipe.as_slice()).unwrap(), Some(answer));
    }

    #[test]
    fn what_is_no_frame_is_an_error_and_no_panic() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &samples(3)).unwrap();
        let cut = &pipe[..pipe.len() - 1];
        assert!(read_frame::<Answer>(&mut &*cut).is_err());
        assert!(read_frame::<Answer>(&mut &[0xff; 64][..]).is_err());
        assert!(read_frame::<Answer>(&mut &[1, 0, 0, 0, 9][..]).is_err());
        assert!(
            read_frame::<Answer>(&mut &[3, 0, 0, 0, 2, 0, 7][..]).is_err(),
            "bytes left"
        );
        assert_eq!(read_frame::<Answer>(&mut &[][..]).unwrap(), None);
    }
}
