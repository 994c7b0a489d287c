//! A later life of a rank whose peers have all passed the last fence.
//!
//! Their processes may have ended, and those that run have closed their fabrics. No
//! log grows any more, and all messages of the job are in the logs: this life takes
//! what was sent to it from there, and what it sends has arrived. REC-3, LOG-2

use super::Membership;
use crate::Error;
use core::time::Duration;
use refrain_job::config::JobConfig;
use refrain_job::control::{ControlPlane, Departed};
use refrain_logging::assembly::Message;
use refrain_logging::image::{LogImage, LogKey, ReadFailure};
use refrain_logging::segment::Channel;
use refrain_rank::dead_rank::open_log;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, RecordKind, Region, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landing, Payload, Place,
    RELEASED_WHOLLY, Refusal, Sink,
};
use refrain_transport::gate::Pass;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Payload that is read ahead from each log, roughly.
const AHEAD_BYTES: usize = 1 << 20;
/// A rank that has got all messages of its peers, and waits for this time and the limit for
/// event loggers together, waits for a message that does not exist.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The logs of all peers, as a fabric.
#[derive(Debug)]
pub(super) struct DepartedPeers {
    attributes: Attributes,
    rank: Rank,
    /// The own log memory.
    region: Region,
    /// By rank; `None`: this one.
    peers: Vec<Option<Peer>>,
    /// The answers that peers would have sent.
    answers: VecDeque<(Rank, Control)>,
    idle: Duration,
    idle_max: Duration,
}

/// A peer, as its log shows it.
#[derive(Debug)]
struct Peer {
    image: LogImage,
    key: LogKey,
    incarnation: Incarnation,
    /// All messages of this rank before this one have arrived there.
    received_until: Ssn,
    /// Connected, and asked for messages: the next that is to be read.
    next: Option<Ssn>,
    /// Where a message begins that was read: nothing before it is read again.
    begun: Position,
    ahead: VecDeque<Message>,
    has_ended: bool,
}

/// The logs that the fabric reads.
pub(super) struct Collected {
    peers: Vec<Option<Peer>>,
}

impl Collected {
    /// Opens the logs that the launcher holds. `sent_before`: by rank, the number of
    /// the first message that this life sends.
    pub(super) fn of(
        control: &mut ControlPlane,
        config: &JobConfig,
        membership: &Membership,
        sent_before: Option<&[Ssn]>,
    ) -> Result<Self, Error> {
        let departed = control.departed()?;
        let folder = config.spill_dir.as_ref().map(Path::new);
        let own = control.remains();
        let mut peers: Vec<Option<Peer>> = (0..membership.size).map(|_| None).collect();
        for Departed {
            rank,
            incarnation,
            memory,
        } in departed
        {
            let image = open_log(memory, folder, Some(membership.rank))?;
            let before = sent_before.map_or(Ssn(0), |all| all[rank.index()]);
            let sent = match &own {
                Some((life, memory)) => sent_to(rank, (*life, memory), folder, membership)?,
                None => Ssn(0),
            };
            peers[rank.index()] = Some(Peer {
                image,
                key: key(membership.job, (rank, incarnation), membership.rank),
                incarnation,
                received_until: before.max(sent),
                next: None,
                begun: Position(0),
                ahead: VecDeque::new(),
                has_ended: false,
            });
        }
        Ok(Self { peers })
    }

    /// The fabric of this life; `attributes`: as if the peers were there.
    pub(super) fn fabric(
        self,
        membership: &Membership,
        attributes: Attributes,
        region: Region,
        events_wait: Duration,
    ) -> (DepartedPeers, Vec<(Rank, Incarnation, Address)>) {
        let address = Address {
            bytes: Vec::new(),
            memory: None,
        };
        let ranks = (0..).map(Rank).zip(&self.peers);
        let to_connect = ranks
            .filter_map(|(rank, peer)| Some((rank, peer.as_ref()?.incarnation, address.clone())))
            .collect();
        let fabric = DepartedPeers {
            attributes: Attributes {
                reads_in_place: false,
                staged_bytes: 0..0,
                ..attributes
            },
            rank: membership.rank,
            region,
            peers: self.peers,
            answers: VecDeque::new(),
            idle: Duration::ZERO,
            idle_max: IDLE_MAX.saturating_add(events_wait),
        };
        (fabric, to_connect)
    }
}

fn key(job: u64, (source, incarnation): (Rank, Incarnation), destination: Rank) -> LogKey {
    LogKey {
        job,
        channel: Channel {
            source,
            incarnation,
            destination,
        },
    }
}

/// One past the last message that an earlier life of this rank has sent to a peer,
/// as far as its log says. All were received: it has passed the last fence.
fn sent_to(
    peer: Rank,
    (life, memory): (Incarnation, &OwnedFd),
    folder: Option<&Path>,
    membership: &Membership,
) -> Result<Ssn, Error> {
    let broken = |error: &dyn core::fmt::Display| {
        Error::Config(format!(
            "rank {} cannot replay, since its own log cannot be read: {error}",
            membership.rank
        ))
    };
    let memory = memory.try_clone().map_err(|error| broken(&error))?;
    let image = open_log(memory, folder, Some(peer))?;
    let key = key(membership.job, (membership.rank, life), peer);
    let Some((_, summary)) = image.logs().find(|(of, _)| *of == key) else {
        return Ok(Ssn(0));
    };
    let sealed = summary.ssns.map_or(Ssn(0), |ssns| Ssn(ssns.end));
    let mut records = image
        .records(&key, sealed)
        .map_err(|error| broken(&error))?;
    let mut end = sealed;
    while let Some(record) = records.next().map_err(|error| broken(&error))? {
        end = end.max(record.header.ssn.next());
    }
    Ok(end)
}

impl Peer {
    /// Reads messages ahead, if none is left.
    fn read(&mut self) -> Result<(), ReadFailure> {
        let Some(from) = self
            .next
            .filter(|_| self.ahead.is_empty() && !self.has_ended)
        else {
            return Ok(());
        };
        let mut messages = match self.image.messages_behind(&self.key, from, self.begun) {
            // It has sent nothing, or nothing that is left.
            Err(ReadFailure::NoLog(_)) => {
                self.has_ended = true;
                return Ok(());
            }
            messages => messages?,
        };
        let mut bytes = 0;
        while bytes < AHEAD_BYTES {
            let Some(message) = messages.next()? else {
                self.has_ended = true;
                break;
            };
            bytes += message.bytes.len() + size_of::<Message>();
            self.next = Some(message.ssn.next());
            self.begun = message.position;
            self.ahead.push_back(message);
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.next.is_some() && !(self.ahead.is_empty() && self.has_ended)
    }
}

/// Hands a message to the engine in frames; returns how many there were.
fn hand_over(message: &Message, peer: &Peer, bytes_max: usize, sink: &mut dyn Sink) -> usize {
    let source = peer.key.channel.source;
    let (mut offset, mut frames) = (0, 0);
    loop {
        let payload = &message.bytes[offset..message.bytes.len().min(offset + bytes_max)];
        let is_first = offset == 0;
        let header = RecordHeader {
            payload_bytes: payload.len() as u32,
            kind: match is_first {
                true => RecordKind::Eager,
                false => RecordKind::Fragment,
            },
            flags: if is_first { message.flags } else { 0 },
            incarnation: peer.incarnation,
            source,
            ssn: message.ssn,
            context: message.context,
            tag: message.tag,
            extent: match is_first {
                true => message.bytes.len() as u64,
                false => offset as u64,
            },
        };
        // Nothing is kept here: this fabric is not read in place.
        let _: Disposition = sink.frame(Arrival {
            header: &header,
            payload: Payload::Here(payload),
            place: Place {
                source,
                position: message.position,
                locator: offset as u64,
            },
            pressed: false,
        });
        offset += payload.len();
        frames += 1;
        if offset >= message.bytes.len() {
            return frames;
        }
    }
}

impl DepartedPeers {
    fn peer(&mut self, rank: Rank) -> Option<&mut Peer> {
        self.peers.get_mut(rank.index())?.as_mut()
    }

    fn has_more(&self) -> bool {
        !self.answers.is_empty() || self.peers.iter().flatten().any(Peer::has_more)
    }

    fn no_such_message(&mut self) -> FabricError {
        // Reported once.
        self.idle = Duration::ZERO;
        FabricError::Native {
            attempted: format!(
                "rank {} replays, has received all messages that its peers sent to it, and waits for another",
                self.rank
            ),
            words: "its program behaves differently than before".into(),
        }
    }
}

impl Fabric for DepartedPeers {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn address(&self) -> Address {
        Address {
            bytes: Vec::new(),
            memory: None,
        }
    }

    fn connect(
        &mut self,
        peer: Rank,
        _incarnation: Incarnation,
        _address: &Address,
    ) -> Result<(), FabricError> {
        match self.peer(peer) {
            Some(_) => Ok(()),
            None => Err(FabricError::Attach {
                peer,
                reason: "the launcher has not handed over its log".into(),
            }),
        }
    }

    fn disconnect(&mut self, peer: Rank) {
        if let Some(peer) = self.peer(peer) {
            (peer.next, peer.has_ended) = (None, true);
            peer.ahead.clear();
        }
    }

    /// The message has arrived already, in an earlier life.
    fn post(&mut self, _pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        frame.publish(&self.region);
        if let Ok(header) = frame.header(&self.region)
            && header.kind == RecordKind::Eager
            && header.flags & RecordHeader::WANT_ACK != 0
        {
            let matched = Control::Matched { ssn: header.ssn };
            self.answers.push_back((peer, matched));
        }
        Ok(())
    }

    fn post_control(&mut self, _pass: Pass, to: Rank, control: Control) -> Result<(), Refusal> {
        let Some(peer) = self.peer(to) else {
            return Err(Refusal::NotConnected(to));
        };
        let answer = match control {
            Control::Restart { ssn } => {
                peer.next = Some(ssn);
                let ssn = peer.received_until;
                Some(Control::Restart { ssn })
            }
            Control::AskMatched { ssn } => Some(Control::Matched { ssn }),
            Control::ClearToSend { .. } | Control::Matched { .. } | Control::Horizon { .. } => None,
        };
        self.answers.extend(answer.map(|answer| (to, answer)));
        Ok(())
    }

    fn released(&mut self, _peer: Rank) -> Position {
        RELEASED_WHOLLY
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        if self.idle >= self.idle_max {
            return Err(self.no_such_message());
        }
        let mut calls = 0;
        for (rank, control) in self.answers.drain(..) {
            sink.control(rank, control);
            calls += 1;
        }
        // One message of each: a program that receives slowly holds few.
        for peer in self.peers.iter_mut().flatten() {
            peer.read().map_err(|error| FabricError::Native {
                attempted: format!("reading what rank {} has sent", peer.key.channel.source),
                words: error.to_string(),
            })?;
            if let Some(message) = peer.ahead.pop_front() {
                let bytes_max = self.attributes.fragment_bytes;
                calls += hand_over(&message, peer, bytes_max, sink);
            }
        }
        if calls > 0 {
            self.idle = Duration::ZERO;
        }
        Ok(calls)
    }

    fn kept(&self, _place: Place, _payload_bytes: usize) -> &[u8] {
        &[]
    }

    fn is_drained(&mut self) -> bool {
        true
    }

    fn let_go(&mut self, _place: Place) {}

    fn fetch(&mut self, _place: Place, _landing: Landing) {}

    fn close(&mut self) {
        self.answers.clear();
        for rank in (0..self.peers.len() as u32).map(Rank) {
            self.disconnect(rank);
        }
    }

    fn wait(&mut self, timeout: Duration) {
        if !self.has_more() {
            std::thread::sleep(timeout);
            self.idle = self.idle.saturating_add(timeout);
        }
    }
}
