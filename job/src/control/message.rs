//! Messages between launcher and ranks.
//!
//! A change of a message or of [`JobConfig`] needs a new [`CONTROL_VERSION`]: the encoding
//! (postcard) does not describe itself.

use crate::config::JobConfig;
use crate::statistics::Statistics;
use core::fmt;
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::divergence::FirstDifference;
use refrain_wire::{Connection, Protocol, WireError};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Version of the control messages.
pub const CONTROL_VERSION: u8 = 24;

/// Maximum number of bytes in one part of the events that a rank holds of another.
pub const HELD_BYTES_MAX: usize = 512 << 10;

/// The protocol of launcher and ranks. Addresses and reasons are short: a message that is longer
/// is damaged.
pub const CONTROL: Protocol = Protocol {
    purpose: "refrain: launcher and rank",
    magic: *b"RJ",
    version: CONTROL_VERSION,
    message_bytes_max: 1 << 20,
    data_bytes_max: 0,
    // Both are on one host.
    unacknowledged_max: Duration::ZERO,
};

/// Messages from a rank to its launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The first message: the process with this id joins the job as the rank that owns the socket
    /// (a wrapper may be between the process and the launcher). Answered with [`ToRank::Welcome`].
    Hello(u32),
    /// Publishes a value under a key; a later one replaces it.
    Put {
        /// The key.
        key: String,
        /// Any bytes.
        value: Vec<u8>,
        /// A descriptor (of shared memory) is passed with this message.
        memory: bool,
    },
    /// Asks for the value under a key. Answered with [`ToRank::Value`] when a rank has put
    /// it.
    Get(String),
    /// The host of this rank, encoded. Answered with [`ToRank::Hosts`] when all ranks have sent
    /// theirs.
    Host(Vec<u8>),
    /// Something is to be sent to this rank for the first time. The two ranks are introduced by
    /// [`ToRank::Up`], to both, as soon as both have put their addresses.
    Meet(u32),
    /// Waits for all ranks. Answered with [`ToRank::FenceDone`]: at once for a fence that an
    /// earlier life of this rank has passed.
    Fence {
        /// Number of fences that this rank has passed.
        generation: u64,
        /// The rank leaves the job with this fence.
        last: bool,
    },
    /// A later life has everything that it needs of its launcher. Its output is not passed on
    /// before. Answered with [`ToRank::Marked`].
    Beginning {
        /// The checkpoint from which it continues; 0: from the beginning of the program.
        checkpoint: u64,
        /// Number of fences that its rank passed before. In a later run of a job the launcher does not
        /// know it. JOB-3
        fences: u64,
    },
    /// All output of this rank up to now comes before the checkpoint with this number, from 1.
    /// Answered with [`ToRank::Marked`].
    Mark(u64),
    /// This rank keeps its messages to the other members of its set, which have seen its tokens, for
    /// the round with this number. SET-2
    Keeping(u64),
    /// This rank's program takes a checkpoint: asks for a round of its set. Answered with
    /// [`ToRank::CheckpointWanted`] or [`ToRank::RoundEnds`]. SET-2
    WantRound,
    /// The log of this rank is full, and it does not keep its messages to members of its set any
    /// more, although the round with this number has not ended. LOG-7
    CannotKeep(u64),
    /// This rank's program takes checkpoints on request: sent at its first question in each life.
    HeedsRequests,
    /// The checkpoint with this number is begun.
    Taking(u64),
    /// A checkpoint is stable.
    Stable {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// Length of the checkpoint in bytes.
        bytes: u64,
        /// Approximate number of these bytes that belong to the rank's own log. LOG-5
        log_bytes: u64,
    },
    /// The answer to [`ToRank::AskStatus`].
    Status(Box<StatusFigures>),
    /// The log of this rank is full of messages to the named rank, or its memory of that rank's events, and a
    /// checkpoint of that rank would free them. LOG-3
    WantCheckpoint(u32),
    /// This rank keeps no messages, or no events, any more, for this reason. LOG-7
    Unprotected(String),
    /// The fabric reports this life of a rank as lost. If the life is not dead, it is killed and
    /// restarted: ranks that took it for dead ignore it. FENCE-1
    Suspect {
        /// The rank.
        rank: u32,
        /// The incarnation.
        incarnation: u32,
    },
    /// The replay progress of a later life.
    Replaying(ReplayFigures),
    /// The replay of a later life has ended.
    Recovered(Box<RecoveryFigures>),
    /// A part of the events that this rank holds of a dead life: of a rank, with its incarnation.
    /// TICKET-2
    Held {
        /// The rank.
        of: u32,
        /// Its incarnation.
        incarnation: u32,
        /// At most [`HELD_BYTES_MAX`] bytes.
        part: Vec<u8>,
        /// No more parts follow.
        is_last: bool,
    },
    /// This life has joined a job in which ranks hold events: from now on it hears of deaths, and answers.
    /// Answered with [`ToRank::JoinedNoted`]: before, it holds nothing. TICKET-2
    Joined,
    /// What a dead life held of this rank has other holders; of the last own life: the events of this
    /// rank have as many holders again. TICKET-4
    Restored {
        /// The rank of that life.
        rank: u32,
        /// Its incarnation.
        incarnation: u32,
    },
    /// A later life asks for its events, which other ranks hold. Answered with [`ToRank::Held`] and
    /// [`ToRank::AllHeld`].
    CollectEvents,
    /// The statistics of this rank before it leaves.
    Statistics(Box<Statistics>),
    /// This rank leaves the job in order; it may exit with status 0 now.
    Finalize,
    /// Asks the launcher to end the job, for this reason.
    Abort(String),
}

/// The replay progress of a later life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayFigures {
    /// The rank's clock at the beginning of the life: that of its checkpoint, or 0.
    pub begin: u64,
    /// The rank's clock now.
    pub clock: u64,
    /// The clock of the last recorded event, which the earlier life has reached. `begin` or less:
    /// there are no events.
    pub events_until: u64,
}

/// Figures of a later life until it had caught up; times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryFigures {
    /// The checkpoint with which the life began; 0: the beginning of the program.
    pub checkpoint: u64,
    /// From the start of the process until the checkpoint was read.
    pub restore_us: u64,
    /// From then until the events were read and the life was announced to its peers.
    pub collect_us: u64,
    /// From the start of the process until the first message of a peer arrived.
    pub first_message_us: Option<u64>,
    /// From the announcement until the last event was replayed.
    pub replay_us: u64,
    /// Number of events replayed.
    pub events: u64,
    /// Number of messages that peers sent again.
    pub messages: u64,
    /// Number of suppressed sends: their receivers had the messages.
    pub suppressed: u64,
    /// Number of messages compared with those of the earlier life.
    pub compared: u64,
    /// Bytes of the compared messages.
    pub compared_bytes: u64,
    /// Number of compared messages that had other bytes. REC-8
    pub differing: u64,
    /// Number of differing bytes in these messages.
    pub differing_bytes: u64,
    /// The first differing message.
    pub first_difference: Option<DifferenceFigures>,
}

/// A message that had other bytes than in the earlier life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferenceFigures {
    /// The clock of the operation that sent it.
    pub operation: u64,
    /// Its receiver.
    pub receiver: u32,
    /// Its number among the messages to that receiver.
    pub message: u64,
    /// Its context.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes.
    pub bytes: u64,
    /// The call of the program that sent it, or empty.
    pub call: String,
    /// The first ranges of differing bytes, at most four: offset of the first byte, and offset
    /// after the last byte.
    pub ranges: Vec<(u64, u64)>,
    /// Bytes after these ranges differ, too.
    pub has_more: bool,
}

impl From<&FirstDifference> for DifferenceFigures {
    fn from(first: &FirstDifference) -> Self {
        Self {
            operation: first.clock.0,
            receiver: first.to.0,
            message: first.ssn.0,
            context: first.context,
            tag: first.tag,
            bytes: first.bytes,
            call: first.call.clone(),
            ranges: first.ranges.clone(),
            has_more: first.has_more,
        }
    }
}

impl fmt::Display for DifferenceFigures {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "operation {}: {}",
            self.operation,
            FirstDifference::from(self)
        )
    }
}

impl From<&DifferenceFigures> for FirstDifference {
    fn from(figures: &DifferenceFigures) -> Self {
        Self {
            clock: Clock(figures.operation),
            to: Rank(figures.receiver),
            ssn: Ssn(figures.message),
            context: figures.context,
            tag: figures.tag,
            bytes: figures.bytes,
            call: figures.call.clone(),
            ranges: figures.ranges.clone(),
            has_more: figures.has_more,
        }
    }
}

/// State of a rank's log and gate, and its traffic since its last checkpoint or the beginning of
/// this life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusFigures {
    /// Bytes of messages from other ranks since the rank's last checkpoint, which the logs of
    /// these ranks hold.
    pub received_bytes: u64,
    /// Bytes sent since then.
    pub sent_bytes: u64,
    /// Bytes of log memory in use.
    pub log_bytes: u64,
    /// Bytes of log memory that may be used.
    pub log_bytes_max: u64,
    /// Bytes of the log on disk.
    pub disk_bytes: u64,
    /// Number of emissions that have waited for events.
    pub gate_waits: u64,
    /// Total time of these waits, in microseconds.
    pub gate_wait_us: u64,
    /// The rank's program takes checkpoints on request.
    pub heeds_requests: bool,
}

/// Messages from the launcher to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRank {
    /// The answer to [`ToLauncher::Hello`].
    Welcome {
        /// Number of the job, unique on this host.
        job: u64,
        /// The rank of this process.
        rank: u32,
        /// Number of ranks.
        size: u32,
        /// The incarnation of the rank.
        incarnation: u32,
        /// The job's settings.
        config: Box<JobConfig>,
        /// The checkpoint with which this life begins; 0: the beginning of the program. Later ones are
        /// void, since not all members of the set have theirs. `None`: its newest. SET-4
        begins_with: Option<u64>,
        /// The ranks that were introduced to earlier lives of this rank. `None`: all ranks are
        /// introduced to each other at the start.
        met: Option<Vec<u32>>,
        /// All ranks have passed the last fence. This later life connects to no peer outside of its
        /// set: it reads their messages to it from their logs ([`ToRank::Departed`]).
        alone: bool,
    },
    /// The log memory of a rank that has passed the last fence is passed with this message: one
    /// message for each peer that was introduced, after the welcome of a life that is `alone`.
    Departed {
        /// The rank.
        rank: u32,
        /// The incarnation that passed the last fence.
        incarnation: u32,
    },
    /// The answer to [`ToLauncher::Get`].
    Value {
        /// The key that was asked for.
        key: String,
        /// The value, as it was put.
        value: Vec<u8>,
        /// The descriptor that was put with the value is passed with this message.
        memory: bool,
    },
    /// The answer to [`ToLauncher::Host`].
    Hosts {
        /// All hosts of the job, each once.
        hosts: Vec<Vec<u8>>,
        /// The hosts of the ranks in their order: index in `hosts`, and the number of ranks in a row
        /// that are there.
        rows: Vec<(u32, u32)>,
    },
    /// The log memory of the earlier life with this number is passed with this message: right
    /// after the welcome, if at all; twice if the newest life died during replay.
    Remains(u32),
    /// A rank is dead and fenced: this life sends nothing any more. FENCE-1
    Down {
        /// The rank.
        rank: u32,
        /// The incarnation; earlier ones are dead as well.
        incarnation: u32,
    },
    /// A life of a rank is reachable. Sent to both of two ranks that are to be introduced, and again
    /// when a later life of one of them has put its address.
    Up {
        /// The rank.
        rank: u32,
        /// The incarnation.
        incarnation: u32,
        /// The value under the rank's address key.
        card: Vec<u8>,
        /// The descriptor that was put with the value is passed with this message.
        memory: bool,
    },
    /// The answer to [`ToLauncher::Mark`] and [`ToLauncher::Beginning`], with the number of
    /// the checkpoint.
    Marked(u64),
    /// A part of the answer to [`ToLauncher::CollectEvents`]: what `holder` holds.
    Held {
        /// The rank that holds it. The addressee: one that has died since.
        holder: u32,
        /// The part, behind those before it.
        part: Vec<u8>,
        /// The next part is of another holder.
        is_last: bool,
    },
    /// The end of the answer to [`ToLauncher::CollectEvents`].
    AllHeld,
    /// The answer to [`ToLauncher::Joined`].
    JoinedNoted,
    /// Checkpoint request to this rank. In a set, all members keep their messages. SET-2
    CheckpointWanted,
    /// A round of checkpoints of this rank's set begins: answered with [`ToLauncher::Keeping`]. SET-2
    RoundBegins(u64),
    /// The round has ended. SET-4
    RoundEnds {
        /// Its number.
        round: u64,
        /// All members have a stable checkpoint: it may be published. Otherwise none counts.
        is_complete: bool,
    },
    /// Asks for [`ToLauncher::Status`]; not sent again before the answer.
    AskStatus,
    /// All ranks have reached the fence with this number.
    FenceDone(u64),
    /// The launcher ends the job, for this reason.
    Stop(String),
}

/// A message with which a descriptor may be passed.
pub trait Accompanied {
    /// Whether a descriptor is passed with this message.
    fn has_memory(&self) -> bool;

    /// The descriptor that was received with this message, if it has one.
    ///
    /// # Errors
    /// [`WireError::DescriptorMissing`].
    fn take_memory(&self, from: &mut Connection) -> Result<Option<OwnedFd>, WireError> {
        match self.has_memory() {
            true => from
                .take_descriptor()
                .map(Some)
                .ok_or(WireError::DescriptorMissing),
            false => Ok(None),
        }
    }
}

impl Accompanied for ToLauncher {
    fn has_memory(&self) -> bool {
        matches!(self, ToLauncher::Put { memory: true, .. })
    }
}

impl Accompanied for ToRank {
    fn has_memory(&self) -> bool {
        matches!(
            self,
            ToRank::Value { memory: true, .. }
                | ToRank::Up { memory: true, .. }
                | ToRank::Remains(_)
                | ToRank::Departed { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VerbsConfig;
    use bytes::BytesMut;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;

    fn to_launcher() -> impl Strategy<Value = ToLauncher> {
        prop_oneof![
            any::<u32>().prop_map(ToLauncher::Hello),
            (any::<String>(), any::<Vec<u8>>(), any::<bool>())
                .prop_map(|(key, value, memory)| { ToLauncher::Put { key, value, memory } }),
            any::<String>().prop_map(ToLauncher::Get),
            any::<Vec<u8>>().prop_map(ToLauncher::Host),
            any::<u32>().prop_map(ToLauncher::Meet),
            (any::<u64>(), any::<bool>())
                .prop_map(|(generation, last)| ToLauncher::Fence { generation, last }),
            any::<[u64; 2]>()
                .prop_map(|[checkpoint, fences]| ToLauncher::Beginning { checkpoint, fences }),
            any::<u64>().prop_map(ToLauncher::Mark),
            any::<u64>().prop_map(ToLauncher::Taking),
            any::<u64>().prop_map(ToLauncher::Keeping),
            any::<u64>().prop_map(ToLauncher::CannotKeep),
            Just(ToLauncher::WantRound),
            Just(ToLauncher::HeedsRequests),
            any::<[u64; 3]>().prop_map(|[checkpoint, bytes, log_bytes]| ToLauncher::Stable {
                checkpoint,
                bytes,
                log_bytes
            }),
            (any::<[u64; 7]>(), any::<bool>()).prop_map(status),
            any::<u32>().prop_map(ToLauncher::WantCheckpoint),
            any::<String>().prop_map(ToLauncher::Unprotected),
            Just(ToLauncher::Finalize),
            any::<String>().prop_map(ToLauncher::Abort),
        ]
    }

    fn status((figures, heeds_requests): ([u64; 7], bool)) -> ToLauncher {
        ToLauncher::Status(Box::new(StatusFigures {
            received_bytes: figures[0],
            sent_bytes: figures[1],
            log_bytes: figures[2],
            log_bytes_max: figures[3],
            disk_bytes: figures[4],
            gate_waits: figures[5],
            gate_wait_us: figures[6],
            heeds_requests,
        }))
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
                any::<Option<u64>>(),
                (any::<bool>(), any::<Option<Vec<u32>>>())
            )
                .prop_map(
                    |(job, rank, size, incarnation, config, begins_with, (alone, met))| {
                        ToRank::Welcome {
                            job,
                            rank,
                            size,
                            incarnation,
                            config: Box::new(config),
                            begins_with,
                            met,
                            alone,
                        }
                    }
                ),
            (any::<Vec<Vec<u8>>>(), any::<Vec<(u32, u32)>>())
                .prop_map(|(hosts, rows)| ToRank::Hosts { hosts, rows }),
            (any::<String>(), any::<Vec<u8>>(), any::<bool>())
                .prop_map(|(key, value, memory)| { ToRank::Value { key, value, memory } }),
            any::<u64>().prop_map(ToRank::FenceDone),
            Just(ToRank::CheckpointWanted),
            any::<u64>().prop_map(ToRank::RoundBegins),
            (any::<u64>(), any::<bool>())
                .prop_map(|(round, is_complete)| ToRank::RoundEnds { round, is_complete }),
            Just(ToRank::AskStatus),
            (any::<u32>(), any::<Vec<u8>>(), any::<bool>()).prop_map(|(holder, part, is_last)| {
                ToRank::Held {
                    holder,
                    part,
                    is_last,
                }
            }),
            Just(ToRank::AllHeld),
            Just(ToRank::JoinedNoted),
            any::<String>().prop_map(ToRank::Stop),
        ]
    }

    /// Decodes all messages of a stream that arrives in parts of the given lengths.
    fn reassembled<M: Serialize + DeserializeOwned>(sent: &[M], pieces: &[usize]) -> Vec<M> {
        let mut stream = BytesMut::new();
        for message in sent {
            CONTROL.encode(message, &mut stream).unwrap();
        }
        let (mut incoming, mut messages) = (BytesMut::new(), Vec::new());
        for piece in pieces.iter().copied().cycle() {
            if stream.is_empty() {
                break;
            }
            incoming.unsplit(stream.split_to(piece.min(stream.len())));
            while let Some(message) = CONTROL.decode(&mut incoming).unwrap() {
                messages.push(message);
            }
        }
        assert!(incoming.is_empty());
        messages
    }

    proptest! {
        #[test]
        fn messages_survive_any_cutting(
            sent in prop::collection::vec(to_launcher(), 0..8),
            answers in prop::collection::vec(to_rank(), 0..8),
            pieces in prop::collection::vec(1usize..40, 1..8),
        ) {
            prop_assert_eq!(reassembled(&sent, &pieces), sent);
            prop_assert_eq!(reassembled(&answers, &pieces), answers);
        }
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
            begins_with: None,
            met: None,
            alone: false,
        };
        let expected = [
            b"RJ\x18\x01\x57\0\0\0".as_slice(),
            b"\0\x01\x02\x03\x04\x04auto\x04none\0\0\0\x01\x90\x4e".as_slice(),
            b"\0\0\0\0\x04auto\0\0\0\x01\x01\0".as_slice(),
            b"\0\0\0\0\0\0\xb0\xea\x01\0".as_slice(),
            b"\0\0\0\x04auto\xe0\xd4\x03\0\0\0\0\0\0".as_slice(),
            b"\x04none\xe8\x07\0\x01\x01\x01\x01\x02\0\0\0\0",
            b"\0\0\0\0\0\0\0",
        ]
        .concat();
        let mut frame = BytesMut::new();
        CONTROL.encode(&welcome, &mut frame).unwrap();
        assert_eq!(frame, expected);
    }
}
