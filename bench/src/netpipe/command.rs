//! Messages between the driver and a rank, over two pipes per rank.
//!
//! A frame is a length (u32, little endian) and a postcard value. The pipes
//! connect processes of one executable on one machine, so there is no version.

use super::arguments::{Mode, Receive};
use super::log_budget::LogRoom;
use super::log_use::LogUse;
use crate::error::BenchError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::time::Duration;

/// Longest frame: the samples of one round are bounded well below
/// (`measure::SAMPLES_MAX`).
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Driver to both ranks. The end of the pipe is the end of the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Comes first.
    Prepare {
        /// Buffers must hold this.
        largest_bytes: u64,
        /// The payload log; `None`: the protocol keeps nothing.
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
    /// What the ranks do.
    pub mode: Mode,
    /// How they receive.
    pub receive: Receive,
    /// About how long, with the warm-up.
    pub time: Duration,
    /// Of the pattern in the buffers; another one in each round.
    pub seed: u64,
}

/// Rank to driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The rank has joined its job.
    Ready {
        /// The fabric in use (what `auto` became).
        fabric: String,
        /// The protocol in use.
        protocol: String,
    },
    /// A round is over and its data was verified.
    Measured(Samples),
    /// It cannot go on.
    Failed(String),
}

/// The samples of a rank of one round. The times are empty from rank 1, which has no
/// clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Half round trip (stream: time per message; bidirectional: time of one
    /// exchange) of each batch, in picoseconds.
    pub times_ps: Vec<u64>,
    /// Round trips (messages, exchanges) per batch.
    pub batch: u64,
    /// Of this rank; the driver adds up both.
    pub log: LogUse,
}

/// Writes one frame.
///
/// # Errors
/// When the other side has gone.
pub fn write_frame(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut frame = postcard::to_extend(value, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&frame)
}

/// Reads one frame; `None` at the end of the pipe.
///
/// # Errors
/// When the pipe ends within a frame or the bytes are none.
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

/// Bytes of a pipe on their way to become frames.
#[derive(Debug, Default)]
pub struct Incoming(Vec<u8>);

impl Incoming {
    /// Reads once. `false`: the pipe has ended between two frames.
    ///
    /// # Errors
    /// When the pipe ends within a frame.
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

    /// The next frame, if all of it is here.
    ///
    /// # Errors
    /// When the bytes are no frame.
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
            return Err(io::Error::other("a frame with bytes behind its value"));
        }
        self.0.drain(..4 + length);
        Ok(Some(value))
    }
}

/// This process is a rank, or becomes a peer, and cannot go on.
pub fn rank_failed(reason: String) -> BenchError {
    BenchError::failed(format!("this rank of the sweep cannot go on: {reason}"))
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
        // The reader may take more than one frame at once, so one reader.
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
