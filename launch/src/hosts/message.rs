//! Messages between launcher and agents.

use crate::sink::Stream;
use crate::verdict::End;
use refrain_job::config::JobConfig;
use refrain_job::control::message::{CONTROL, ToLauncher, ToRank};
use refrain_wire::Protocol;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The protocol of launcher and agents, sealed. Their messages contain those of ranks: the
/// version is the same. A message is at most one of a rank's, and what is around it; settings
/// of a job with its arguments are smaller.
pub const AGENT: Protocol = Protocol {
    purpose: "refrain: launcher and agent",
    magic: *b"RA",
    message_bytes_max: CONTROL.message_bytes_max + (64 << 10),
    unacknowledged_max: Duration::from_secs(30),
    ..CONTROL
};
/// Bytes of one output stream that an agent sends before they are taken.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// A life: the rank, and how often it was started before.
pub type Life = (u32, u32);

/// Which of a rank's processes get a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recipient {
    /// The process that was started, and the one that has joined.
    Own,
    /// It and its group, unless it has ended.
    Group,
    /// Whatever is left of the group.
    Rest,
}

/// The part of a job for one agent.
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
    /// Starts this life of a rank. Answered with [`FromAgent::Started`] or
    /// [`FromAgent::CannotStart`].
    Start(Life),
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
        recipient: Recipient,
        /// Its number.
        signal: i32,
    },
    /// Releases the memory with this number.
    LetGo(u64),
    /// An amount of a rank's output was taken.
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
    /// The first message: the number of its host, from the invitation.
    Hello(u32),
    /// It is prepared.
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
    /// A rank has sent a message.
    Heard {
        /// Which.
        life: Life,
        /// What.
        message: Box<ToLauncher>,
        /// The memory that came with it, by a number that is used once.
        memory: Option<u64>,
    },
    /// A rank has sent bytes that are no message.
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
    /// A life has ended; all its messages and output came before. If it was
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use proptest::prelude::*;
    use refrain_wire::{Frame, FrameError};

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
        let mut bytes = CONTROL.message_bytes_max;
        while CONTROL.encode(&put(bytes), &mut BytesMut::new()).is_err() {
            bytes -= 1;
        }
        let message = FromAgent::Heard {
            life: (u32::MAX, u32::MAX),
            message: Box::new(put(bytes)),
            memory: Some(u64::MAX),
        };
        let mut frame = BytesMut::new();
        AGENT.encode(&message, &mut frame).expect("it fits");
        assert_eq!(AGENT.decode(&mut frame), Ok(Some(message)));
        let long = output(AGENT.message_bytes_max);
        let error = AGENT.encode(&long, &mut frame).expect_err("it does not");
        assert!(matches!(error, FrameError::Length { .. }));
    }

    proptest! {
        #[test]
        fn messages_come_back_whatever_the_pieces(
            lengths in prop::collection::vec(0usize..300, 1..6),
            cut in 1usize..50,
        ) {
            let messages: Vec<FromAgent> = lengths.into_iter().map(output).collect();
            let mut stream = BytesMut::new();
            for message in &messages {
                AGENT.encode(message, &mut stream).expect("short");
            }
            let (mut incoming, mut got) = (BytesMut::new(), Vec::<FromAgent>::new());
            for piece in stream.chunks(cut) {
                incoming.extend_from_slice(piece);
                while let Some(message) = AGENT.decode(&mut incoming).expect("whole") {
                    got.push(message);
                }
            }
            prop_assert_eq!(got, messages);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let header = AGENT.header(Frame::Message(bytes.len()));
            for bytes in [bytes.clone(), [&header[..], &bytes].concat()] {
                let _ = AGENT.decode::<ToAgent>(&mut BytesMut::from(&bytes[..]));
                let _ = AGENT.decode::<FromAgent>(&mut BytesMut::from(&bytes[..]));
            }
        }
    }
}
