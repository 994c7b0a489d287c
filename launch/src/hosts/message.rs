//! What launcher and agents say to each other, and how it is cut out of a stream.
//!
//! A message is its length (4 bytes, little endian) and so many bytes of postcard.
//! Both sides are of one version: the [invitation](super::invitation) says which.

use crate::sink::Stream;
use crate::verdict::End;
use refrain_job::config::JobConfig;
use refrain_job::control::framing::BODY_BYTES_MAX;
use refrain_job::control::message::{ToLauncher, ToRank};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use thiserror::Error;

/// Largest message: one of a rank's, and what is around it; settings of a job with
/// its arguments are smaller.
pub const MESSAGE_BYTES_MAX: usize = BODY_BYTES_MAX + (64 << 10);
/// Bytes of one output stream that an agent sends before they are taken.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// A life: the rank, and how often it was started before.
pub type Life = (u32, u32);

/// Who of a rank's processes gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whom {
    /// The process that was started, and the one that has joined.
    Own,
    /// It and its group, unless it has ended.
    Group,
    /// Whatever is left of the group.
    Rest,
}

/// What an agent is to do for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Names the job.
    pub job: u64,
    /// Ranks of the whole job.
    pub size: u32,
    /// Those of this host.
    pub ranks: Vec<u32>,
    /// As given to the launcher.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Added to the agent's own environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The launcher's folder; the agent goes there if it is here too.
    pub folder: Option<PathBuf>,
    /// Each rank gets a core, if there are enough.
    pub pin: bool,
    /// As given to the launcher.
    pub config: Box<JobConfig>,
}

/// From the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The first message. Answered with [`FromAgent::Ready`] or
    /// [`FromAgent::Refused`].
    Setup(Box<Setup>),
    /// Other agents' ranks run on the same cores: none is pinned.
    Unpin,
    /// Starts a life of a rank. Answered with [`FromAgent::Started`] or
    /// [`FromAgent::CannotStart`].
    Start {
        /// Which.
        life: Life,
    },
    /// For a rank.
    Say {
        /// Which.
        life: Life,
        /// What.
        message: Box<ToRank>,
        /// The memory that goes with it, if it is on this host.
        memory: Option<u64>,
    },
    /// A signal for a rank's processes.
    Signal {
        /// Which rank's.
        life: Life,
        /// Which of them.
        whom: Whom,
        /// Its number.
        signal: i32,
    },
    /// Nobody needs this memory any more.
    LetGo {
        /// Its number.
        number: u64,
    },
    /// So much of a rank's output was taken.
    Took {
        /// Whose.
        life: Life,
        /// Which.
        stream: Stream,
        /// How much.
        bytes: u32,
    },
    /// The job is over.
    End,
}

/// Why an agent cannot do what the launcher wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The settings.
    Config,
    /// There is no such program.
    ProgramMissing,
    /// The program cannot be executed.
    ProgramUnusable,
    /// The system.
    System,
}

/// From an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The first message: which host it is on, as the invitation says.
    Hello {
        /// Its number.
        host: u32,
    },
    /// It can do what the setup says.
    Ready {
        /// The settings of this host's ranks.
        config: Box<JobConfig>,
        /// The boot of its kernel: agents that share it share cores.
        boot: u128,
        /// Why addresses differ from life to life, if they were to be the same; for
        /// people.
        differing_addresses: Option<String>,
    },
    /// It cannot.
    Refused {
        /// The kind of reason.
        refusal: Refusal,
        /// For people.
        reason: String,
    },
    /// A life was started.
    Started {
        /// Which.
        life: Life,
        /// Its process id.
        process: u32,
    },
    /// It was not.
    CannotStart {
        /// Which.
        life: Life,
        /// For people.
        reason: String,
    },
    /// A rank says something.
    Heard {
        /// Which.
        life: Life,
        /// What.
        message: Box<ToLauncher>,
        /// The memory that came with it, by a number that is used once.
        memory: Option<u64>,
    },
    /// What a rank says is no message.
    Misunderstood {
        /// Which.
        life: Life,
        /// For people.
        reason: String,
    },
    /// A rank has printed something.
    Output {
        /// Which.
        life: Life,
        /// Where.
        stream: Stream,
        /// What.
        bytes: Vec<u8>,
    },
    /// A life has ended; all that it has said and printed came before. If it was
    /// killed nothing of it runs any more. FENCE-1
    Ended {
        /// Which.
        life: Life,
        /// How.
        end: End,
        /// How behind a wrapper.
        true_end: End,
        /// What of it does not end, for people.
        unfenced: Option<String>,
    },
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Longer than any may be.
    #[error("a message of {0} bytes; the limit is {MESSAGE_BYTES_MAX}")]
    TooLong(usize),
    /// Not one whole message.
    #[error("a message that cannot be read")]
    Body,
}

/// Encodes one message.
///
/// # Errors
/// [`MessageError::TooLong`].
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, MessageError> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).map_err(|_| MessageError::Body)?;
    let length = bytes.len() - 4;
    if length > MESSAGE_BYTES_MAX {
        return Err(MessageError::TooLong(length));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// Cuts messages out of a stream.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    taken: usize,
}

impl Reader {
    /// Adds what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next whole message.
    ///
    /// # Errors
    /// What came is none; every later call fails alike.
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, MessageError> {
        let bytes = &self.bytes[self.taken..];
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        match postcard::take_from_bytes(body) {
            Ok((message, [])) => {
                self.taken += 4 + length;
                Ok(Some(message))
            }
            _ => Err(MessageError::Body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn output(bytes: usize) -> FromAgent {
        FromAgent::Output {
            life: (3, 1),
            stream: Stream::Err,
            bytes: vec![7; bytes],
        }
    }

    /// The longest message of a rank fits with what is around it.
    #[test]
    fn the_longest_message_of_a_rank_can_be_passed_on() {
        let put = |bytes| ToLauncher::Put {
            key: "k".into(),
            value: vec![7; bytes],
            memory: true,
        };
        let mut bytes = BODY_BYTES_MAX;
        while refrain_job::control::framing::encode(&put(bytes)).is_err() {
            bytes -= 1;
        }
        let message = FromAgent::Heard {
            life: (u32::MAX, u32::MAX),
            message: Box::new(put(bytes)),
            memory: Some(u64::MAX),
        };
        let mut reader = Reader::default();
        reader.push(&encode(&message).expect("it fits"));
        assert_eq!(reader.next_message(), Ok(Some(message)));
        let long = output(MESSAGE_BYTES_MAX);
        assert!(matches!(encode(&long), Err(MessageError::TooLong(_))));
    }

    #[test]
    fn a_length_above_the_limit_is_refused_before_it_has_come() {
        let mut reader = Reader::default();
        reader.push(&(MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes());
        let error = reader.next_message::<FromAgent>();
        assert_eq!(error, Err(MessageError::TooLong(MESSAGE_BYTES_MAX + 1)));
    }

    proptest! {
        #[test]
        fn messages_come_back_whatever_the_pieces(
            lengths in prop::collection::vec(0usize..300, 1..6),
            cut in 1usize..50,
        ) {
            let messages: Vec<FromAgent> = lengths.into_iter().map(output).collect();
            let stream: Vec<u8> = messages
                .iter()
                .flat_map(|message| encode(message).expect("short"))
                .collect();
            let (mut reader, mut got) = (Reader::default(), Vec::new());
            for piece in stream.chunks(cut) {
                reader.push(piece);
                while let Some(message) = reader.next_message::<FromAgent>().expect("whole") {
                    got.push(message);
                }
            }
            prop_assert_eq!(got, messages);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::default();
            reader.push(&bytes);
            let _ = reader.next_message::<ToAgent>();
            let _ = reader.next_message::<FromAgent>();
        }
    }
}
