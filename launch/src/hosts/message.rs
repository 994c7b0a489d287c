//! Messages between launcher and agents.

use super::lease::LeaseLength;
use super::tree::Branch;
use crate::program::Program;
use crate::sink::Stream;
use crate::verdict::End;
use bytes::{Bytes, BytesMut};
use refrain_job::config::JobConfig;
use refrain_job::control::message::{CONTROL, ToLauncher, ToRank};
use refrain_wire::{FrameError, Protocol};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The sealed protocol of launcher and agents. Its messages contain messages of ranks, so the
/// version is the same. The longest message is a [`PASSED`] frame in its envelope.
pub const AGENT: Protocol = Protocol {
    message_bytes_max: PASSED.message_bytes_max + (64 << 10),
    ..PASSED
};
/// Frames that agents pass on. The longest message is one of a rank in its envelope; a job's settings
/// with arguments are shorter.
pub const PASSED: Protocol = Protocol {
    purpose: "refrain: launcher and agent",
    magic: *b"RA",
    message_bytes_max: CONTROL.message_bytes_max + (64 << 10),
    unacknowledged_max: Duration::from_secs(30),
    ..CONTROL
};
/// Maximum number of agents that one [`ToAgent::Pass`] names.
pub const ADDRESSED_MAX: usize = 2048;
/// Maximum number of bytes of one output stream that an agent sends before the launcher
/// acknowledges them.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// A life: rank and incarnation.
pub type Life = (u32, u32);

/// Processes of a rank that get a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recipient {
    /// The started process, and the one that has joined.
    Own,
    /// The started process and its group, unless the process has ended.
    Group,
    /// All processes that are left in the group.
    Rest,
}

/// The part of a job for one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Number of the job.
    pub job: u64,
    /// Number of ranks of the whole job.
    pub size: u32,
    /// The ranks of this host.
    pub ranks: Vec<u32>,
    /// All programs of the job, as given to the launcher.
    pub programs: Vec<Program>,
    /// Variables to add to the agent's own environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The launcher's working folder; the agent changes to it if it exists here.
    pub folder: Option<PathBuf>,
    /// Pin each rank to a core, if there are enough cores.
    pub pin: bool,
    /// The host gets services; those without ranks have checkpoint servers, too.
    pub services: Option<ServicesSetup>,
    /// Ranks run only while the agent has a lease of this length; `None`: they need none, since no
    /// rank is restarted.
    pub lease: Option<LeaseLength>,
    /// The agent's place in the tree of agents; `None`: the launcher is connected with each agent.
    pub branch: Option<Branch>,
    /// The job's settings, as given to the launcher.
    pub config: Box<JobConfig>,
}

/// What a host of services prepares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicesSetup {
    /// Number of ports to choose.
    pub ports: u32,
    /// Folder of the loggers' files, which is kept. `None`: a temporary one.
    pub events: Option<PathBuf>,
    /// `--event-rings`.
    pub rings: Option<PathBuf>,
}

/// What a host of services has prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicesReady {
    /// Free ports; the addresses to listen at.
    pub ports: Vec<SocketAddr>,
    /// Folder of the loggers' files.
    pub events: PathBuf,
    /// Folder of their rings; `None`: with the files.
    pub rings: Option<PathBuf>,
    /// Folder of a checkpoint server, which is removed with the job; `None`: the host has ranks.
    pub checkpoints: Option<PathBuf>,
}

/// Where an agent awaits the agents below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDoor {
    /// Addresses of the host, the best first.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
}

/// An agent that gets a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addressed {
    /// Number of the agent in the tree.
    pub agent: u32,
    /// Number of the frame.
    pub number: u64,
    /// Number of the agent's frames that the launcher has received.
    pub received: u64,
}

/// Messages from the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The first message. Answered with [`FromAgent::Ready`] or
    /// [`FromAgent::Refused`].
    Setup(Box<Setup>),
    /// Ranks of other agents use the same cores: pin no rank.
    Unpin,
    /// Start this life of a rank. Answered with [`FromAgent::Started`] or
    /// [`FromAgent::CannotStart`].
    Start(Life),
    /// A message for a rank.
    Say {
        /// The life that gets it.
        life: Life,
        /// The message.
        message: Box<ToRank>,
        /// Number of the memory that goes with it, if it is on this host.
        memory: Option<u64>,
    },
    /// A signal for a rank's processes.
    Signal {
        /// The life to signal.
        life: Life,
        /// The processes to signal.
        recipient: Recipient,
        /// Signal number.
        signal: i32,
    },
    /// Releases the memory with this number.
    LetGo(u64),
    /// The launcher has taken output of a rank.
    Took {
        /// The life that printed it.
        life: Life,
        /// The output stream.
        stream: Stream,
        /// Number of bytes.
        bytes: u32,
    },
    /// Grants a lease: the answer to [`FromAgent::Ready`] and to [`FromAgent::AskLease`]. FENCE-2
    Lease,
    /// Start a service. Answered with [`FromAgent::ServiceEnded`] when it has ended, or cannot be
    /// started.
    StartService {
        /// Number of the service in the job.
        number: u32,
        /// The folder of a logger at its first start in this run; `true`: it is new. EL-3
        folder: Option<(PathBuf, bool)>,
        /// Arguments of `refrain`.
        arguments: Vec<OsString>,
        /// The secret for its standard input.
        secret: String,
    },
    /// A signal for a service.
    SignalService {
        /// Number of the service.
        number: u32,
        /// Signal number.
        signal: i32,
    },
    /// The job is over.
    End,
    /// The next bytes of a rank's standard input, when it has read all earlier ones; none: its
    /// end. Answered with [`FromAgent::InputLeft`].
    Input {
        /// The life that gets them.
        life: Life,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A message for each rank of the host that runs.
    SayAll(Box<ToRank>),
    /// Connect with this agent, and send all further messages through it. Answered there with
    /// [`FromAgent::Attach`], or with [`FromAgent::CannotAttach`].
    Attach(AgentDoor),
    /// A message for the receiver, or agents below it: a frame of [`PASSED`].
    Pass {
        /// The agents.
        to: Vec<Addressed>,
        /// The frame.
        frame: Bytes,
    },
    /// Send again what the launcher lacks. Answered with [`FromAgent::Resume`].
    Resume {
        /// Number of the agent in the tree.
        agent: u32,
        /// Number of its frames that the launcher has received.
        received: u64,
    },
    /// The launcher has received frames.
    Received {
        /// Number of the agent in the tree.
        agent: u32,
        /// Number of its frames that the launcher has received.
        received: u64,
    },
    /// An agent is given up: its parent closes its connection.
    Cut(u32),
}

/// Why an agent cannot prepare its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The settings are invalid.
    Config,
    /// The program does not exist.
    ProgramMissing,
    /// The program cannot be executed.
    ProgramUnusable,
    /// A system call failed.
    System,
}

/// Messages from an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The first message: number of the agent's host, from the invitation.
    Hello(u32),
    /// The host is prepared. Also asks for the first lease.
    Ready {
        /// The settings of this host's ranks.
        config: Box<JobConfig>,
        /// Boot id of the host's kernel: agents with the same one may share cores.
        boot: u128,
        /// Why addresses differ in each life although they were to be the same; for people.
        differing_addresses: Option<String>,
        /// Of a host with services.
        services: Option<ServicesReady>,
        /// Of an agent with others below it.
        door: Option<AgentDoor>,
    },
    /// The host cannot be prepared.
    Refused {
        /// The kind of reason.
        refusal: Refusal,
        /// The reason, for people.
        reason: String,
    },
    /// Asks for the next lease. Answered with [`ToAgent::Lease`].
    AskLease,
    /// A life was started.
    Started {
        /// The life.
        life: Life,
        /// Process id.
        process: u32,
    },
    /// A life was not started.
    CannotStart {
        /// The life.
        life: Life,
        /// The reason, for people.
        reason: String,
    },
    /// A rank has sent a message.
    Heard {
        /// The life that sent it.
        life: Life,
        /// The message.
        message: Box<ToLauncher>,
        /// The memory that came with it, by a number that is used once.
        memory: Option<u64>,
    },
    /// A rank has sent bytes that are not a message.
    Misunderstood {
        /// The life that sent them.
        life: Life,
        /// What is wrong, for people.
        reason: String,
    },
    /// A rank has printed output.
    Output {
        /// The life that printed it.
        life: Life,
        /// The output stream.
        stream: Stream,
        /// The output.
        bytes: Vec<u8>,
    },
    /// A life has ended; all its messages and output were sent before. If it was killed, no
    /// process of it runs any more. FENCE-1
    Ended {
        /// The life.
        life: Life,
        /// How the started process ended.
        end: End,
        /// How the process behind a wrapper ended.
        true_end: End,
        /// Processes that do not end, for people.
        unfenced: Option<String>,
    },
    /// A life has read all of [`ToAgent::Input`], or has ended.
    InputLeft {
        /// The life.
        life: Life,
        /// Number of bytes that it has not read.
        bytes: usize,
    },
    /// A service has ended.
    ServiceEnded {
        /// Number of the service in the job.
        number: u32,
        /// How it ended.
        end: End,
        /// Why it could not be started, for people.
        reason: Option<String>,
    },
    /// The agent has got SIGUSR1, as `sbatch --signal` sends it to all processes of a step.
    Signalled,
    /// The first message of an agent in the tree on each further connection, with its number there. The
    /// launcher answers with [`ToAgent::Resume`], or has given up the agent and closes the connection.
    Attach(u32),
    /// The agent cannot connect with the one of [`ToAgent::Attach`]: the reason, for people.
    CannotAttach(String),
    /// A message of an agent: a frame of [`PASSED`].
    Pass {
        /// Number of the agent in the tree.
        from: u32,
        /// Number of the frame.
        number: u64,
        /// Number of the launcher's frames that the agent has received.
        received: u64,
        /// The frame.
        frame: Bytes,
    },
    /// Send again what the agent lacks.
    Resume {
        /// Number of the agent in the tree.
        agent: u32,
        /// Number of the launcher's frames that it has received.
        received: u64,
    },
    /// The agent has received frames.
    Received {
        /// Number of the agent in the tree.
        agent: u32,
        /// Number of the launcher's frames that it has received.
        received: u64,
    },
    /// An agent lost its connection to this one below it.
    Detached(u32),
}

impl ToAgent {
    /// The message as a frame that agents pass on.
    ///
    /// # Errors
    /// It is too long.
    pub fn to_frame(&self) -> Result<Bytes, FrameError> {
        to_frame(self)
    }
}

impl FromAgent {
    /// As [`ToAgent::to_frame`].
    ///
    /// # Errors
    /// It is too long.
    pub fn to_frame(&self) -> Result<Bytes, FrameError> {
        to_frame(self)
    }
}

fn to_frame(message: &impl Serialize) -> Result<Bytes, FrameError> {
    let mut frame = BytesMut::new();
    PASSED.encode(message, &mut frame)?;
    Ok(frame.freeze())
}

/// The message of a frame that was passed on.
///
/// # Errors
/// The frame is no message.
pub fn of_frame<M: DeserializeOwned>(frame: Bytes) -> Result<M, FrameError> {
    let bytes = frame.len();
    let mut frame = BytesMut::from(frame);
    let message = PASSED.decode(&mut frame)?;
    let message = message.filter(|_| frame.is_empty());
    message.ok_or(FrameError::Unreadable(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use refrain_wire::{FRAME_HEADER_BYTES, Frame};

    fn output(bytes: usize) -> FromAgent {
        FromAgent::Output {
            life: (3, 1),
            stream: Stream::Err,
            bytes: vec![7; bytes],
        }
    }

    /// The longest message of a rank fits into a message of the agent.
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
        assert_eq!(AGENT.decode(&mut frame), Ok(Some(message.clone())));
        let passed = FromAgent::Pass {
            from: u32::MAX,
            number: u64::MAX,
            received: u64::MAX,
            frame: message.to_frame().expect("it fits"),
        };
        AGENT.encode(&passed, &mut frame).expect("it fits");
        assert_eq!(AGENT.decode(&mut frame), Ok(Some(passed)));
        let long = output(AGENT.message_bytes_max);
        let error = AGENT.encode(&long, &mut frame).expect_err("it does not");
        assert!(matches!(error, FrameError::Length { .. }));
    }

    /// The longest frame for as many agents as one message names.
    #[test]
    fn the_longest_frame_for_many_agents_can_be_passed_on() {
        let to = Addressed {
            agent: u32::MAX,
            number: u64::MAX,
            received: u64::MAX,
        };
        let pass = ToAgent::Pass {
            to: vec![to; ADDRESSED_MAX],
            frame: vec![7; PASSED.message_bytes_max + FRAME_HEADER_BYTES].into(),
        };
        AGENT.encode(&pass, &mut BytesMut::new()).expect("it fits");
    }

    #[test]
    fn a_frame_is_one_message() {
        let frame = ToAgent::End.to_frame().expect("short");
        assert_eq!(of_frame(frame.clone()), Ok(ToAgent::End));
        assert!(of_frame::<ToAgent>(frame.slice(1..)).is_err());
        assert!(of_frame::<ToAgent>(frame.slice(..frame.len() - 1)).is_err());
        assert!(of_frame::<ToAgent>([&frame[..], &frame].concat().into()).is_err());
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
