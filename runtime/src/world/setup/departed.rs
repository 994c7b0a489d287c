//! The fabric of a later life whose peers have all passed the last fence.
//!
//! The peers' processes may have ended, and those that run have closed their fabrics. No log grows
//! any more, and all messages of the job are in the logs. This life takes the messages to it from
//! there; the messages that it sends have already arrived. REC-3, LOG-2

use super::Membership;
use super::kept_results::KeptResults;
use crate::Error;
use crate::world::peers::bare;
use core::time::Duration;
use refrain_job::config::JobConfig;
use refrain_job::control::{ControlPlane, Departed};
use refrain_logging::assembly::Message;
use refrain_logging::image::{LogImage, LogKey, ReadFailure};
use refrain_logging::segment::Channel;
use refrain_rank::dead_rank::{is_carrier, open_log};
use refrain_rank::previous_logs::ReadAhead;
use refrain_ring::{
    Frame, Frontier, Incarnation, Position, Rank, RecordHeader, RecordKind, Region, Ssn, Stream,
};
use refrain_transport::control::{Control, Report};
use refrain_transport::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landing, Payload, Place,
    RELEASED_WHOLLY, Refusal, Sink,
};
use refrain_transport::gate::Pass;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Longest idle time of a rank that has received all messages of its peers; the limit of waits for
/// event loggers is added. After it, the message that the rank waits for does not exist.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A fabric that reads the logs of all peers.
#[derive(Debug)]
pub(super) struct DepartedPeers {
    attributes: Attributes,
    rank: Rank,
    /// This rank's log memory.
    region: Region,
    /// By rank; `None` for this rank and the members of its set.
    peers: Vec<Option<DepartedPeer>>,
    /// Answers in the place of the peers.
    answers: VecDeque<(Rank, Control)>,
    /// Collectives for whose results this rank has asked: the peer, the context and the collective.
    asked: VecDeque<(Rank, u32, u64)>,
    idle: Duration,
    idle_max: Duration,
}

/// The log of a peer.
#[derive(Debug)]
struct DepartedPeer {
    image: LogImage,
    key: LogKey,
    incarnation: Incarnation,
    /// All messages of this rank below have arrived at the peer.
    received_until: Frontier,
    /// The first missing message of each stream that this rank has reported so far.
    asked: Vec<Ssn>,
    /// `Some` once the peer is connected and asked for messages: the next message of each stream to
    /// be read.
    next: Option<Frontier>,
    ahead: ReadAhead,
    /// The results of collectives that it kept, if any are kept.
    results: Option<KeptResults>,
}

/// The logs of the peers, by rank.
pub(super) struct Collected(Vec<Option<DepartedPeer>>);

impl Collected {
    /// Opens the logs that the launcher holds, of all but the other `members` of this rank's set.
    /// `sent_before`: by rank, the first message of each stream that this life sends.
    pub(super) fn of(
        control: &mut ControlPlane,
        config: &JobConfig,
        membership: &Membership,
        sent_before: Option<&[Frontier]>,
        members: &[Rank],
    ) -> Result<Self, Error> {
        let peers = match control.met() {
            Some(met) => met.len(),
            None => membership.size as usize - 1 - members.len(),
        };
        let departed = control.departed(peers)?;
        let folder = config.spill_dir.as_ref().map(Path::new);
        let own = control.remains()?;
        let mut peers: Vec<Option<DepartedPeer>> = (0..membership.size).map(|_| None).collect();
        for Departed {
            rank,
            incarnation,
            memory,
        } in departed
        {
            let keeps_results = config.collectives.whole.is_some();
            let results = keeps_results
                .then(|| {
                    KeptResults::open(
                        &memory,
                        folder,
                        key(membership.job, (rank, incarnation), rank),
                    )
                })
                .transpose()?;
            let image = open_log(memory, folder, Some(membership.rank))?;
            let before = sent_before.map(|all| all[rank.index()].clone());
            let sent = match &own {
                Some((life, memory)) => sent_to(rank, (*life, memory), folder, membership)?,
                None => Frontier::default(),
            };
            peers[rank.index()] = Some(DepartedPeer {
                image,
                key: key(membership.job, (rank, incarnation), membership.rank),
                incarnation,
                received_until: sent.max(&before.unwrap_or_default()),
                asked: Vec::new(),
                next: None,
                ahead: ReadAhead::default(),
                results,
            });
        }
        Ok(Self(peers))
    }

    /// The fabric of this life; `attributes`: those of the fabric to live peers.
    pub(super) fn fabric(
        self,
        membership: &Membership,
        attributes: Attributes,
        region: Region,
        events_wait: Duration,
    ) -> (DepartedPeers, Vec<(Rank, Incarnation, Address)>) {
        let address = bare(&[]);
        let ranks = (0..).map(Rank).zip(&self.0);
        let to_connect = ranks
            .filter_map(|(rank, peer)| Some((rank, peer.as_ref()?.incarnation, address.clone())))
            .collect();
        let fabric = DepartedPeers {
            attributes: Attributes {
                reads_in_place: false,
                follows_references: false,
                staged_bytes: 0..0,
                ..attributes
            },
            rank: membership.rank,
            region,
            peers: self.0,
            answers: VecDeque::new(),
            asked: VecDeque::new(),
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

/// Of each stream, one past the last message that an earlier life of this rank has sent to a peer,
/// as far as its log shows. The peer has received all of them: it has passed the last fence.
fn sent_to(
    peer: Rank,
    (life, memory): (Incarnation, &OwnedFd),
    folder: Option<&Path>,
    membership: &Membership,
) -> Result<Frontier, Error> {
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
        return Ok(Frontier::default());
    };
    let sealed = summary.ssns.map_or(Ssn(0), |ssns| Ssn(ssns.end));
    let mut records = image
        .records(&key, Frontier::from(sealed))
        .map_err(|error| broken(&error))?;
    let mut end = Frontier::from(sealed);
    while let Some(record) = records.next().map_err(|error| broken(&error))? {
        end.raise_to(record.header.ssn.next());
    }
    Ok(end)
}

impl DepartedPeer {
    /// Reads messages ahead, if none is left.
    fn read(&mut self) -> Result<(), ReadFailure> {
        let Some(next) = &mut self.next else {
            return Ok(());
        };
        match self.ahead.read(&self.image, &self.key, next.clone()) {
            // The log of the peer has no messages, or none that are left.
            Err(ReadFailure::NoLog(_)) => self.ahead.has_ended = true,
            read => read?,
        }
        for message in &self.ahead.messages {
            next.raise_to(message.ssn.next());
        }
        // Each rank has left its own events with the launcher. TICKET-2
        let messages = &mut self.ahead.messages;
        messages.retain(|message| !is_carrier(message.context, message.ssn));
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.next.is_some() && !(self.ahead.messages.is_empty() && self.ahead.has_ended)
    }
}

/// Passes a message to the engine in frames; returns their number.
fn hand_over(
    message: &Message,
    peer: &DepartedPeer,
    bytes_max: usize,
    sink: &mut dyn Sink,
) -> usize {
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
        // No payload is kept: this fabric is not read in place.
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
    fn peer(&mut self, rank: Rank) -> Option<&mut DepartedPeer> {
        self.peers.get_mut(rank.index())?.as_mut()
    }

    /// Gives the results of a collective that a peer kept; returns their number.
    fn give_results(
        &mut self,
        rank: Rank,
        context: u32,
        collective: u64,
        sink: &mut dyn Sink,
    ) -> Result<usize, FabricError> {
        let Some(peer) = self.peer(rank) else {
            return Ok(0);
        };
        let Some(results) = &mut peer.results else {
            return Ok(0);
        };
        let parts = results.of(context, collective);
        let parts = parts.map_err(|error| FabricError::Native {
            attempted: format!("reading the results that rank {rank} has kept"),
            words: error.to_string(),
        })?;
        for (owner, bytes) in &parts {
            let part = Message {
                ssn: Ssn::first(Stream::RESULTS),
                context,
                tag: *owner,
                flags: 0,
                kind: RecordKind::Eager,
                position: Position(0),
                bytes: bytes.clone(),
            };
            hand_over(&part, peer, bytes.len(), sink);
        }
        Ok(parts.len())
    }

    fn has_more(&self) -> bool {
        !self.answers.is_empty()
            || !self.asked.is_empty()
            || self.peers.iter().flatten().any(DepartedPeer::has_more)
    }

    fn no_such_message(&mut self) -> FabricError {
        // The error is reported once.
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
        bare(&[])
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
            peer.next = None;
            peer.asked.clear();
            peer.ahead.messages.clear();
            peer.ahead.has_ended = true;
        }
    }

    /// Answers a send: the message has already arrived, from an earlier life.
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
        match control {
            Control::Restart { ssn, others } => {
                peer.asked.push(ssn);
                if peer.asked.len() > others as usize {
                    let next = peer.next.insert(Frontier::default());
                    peer.asked.drain(..).for_each(|ssn| next.raise_to(ssn));
                    let until: Vec<Ssn> = peer.received_until.all().collect();
                    let others = until.len() as u32 - 1;
                    let answers = until
                        .into_iter()
                        .map(|ssn| Control::Restart { ssn, others });
                    self.answers.extend(answers.map(|answer| (to, answer)));
                }
            }
            Control::AskMatched { ssn } => {
                self.answers.push_back((to, Control::Matched { ssn }));
            }
            Control::ClearToSend { .. }
            | Control::Matched { .. }
            | Control::Horizon { .. }
            | Control::Freed { .. }
            | Control::Token { .. }
            | Control::TokenSeen { .. }
            | Control::Protocol(_) => {}
            Control::Collective {
                report,
                context,
                name,
            } => {
                if report == Report::Ask {
                    self.asked.push_back((to, context, name));
                }
            }
        }
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
        while let Some((rank, context, collective)) = self.asked.pop_front() {
            calls += self.give_results(rank, context, collective, sink)?;
        }
        // One message of each peer at a time, so that a program that receives slowly holds few.
        for peer in self.peers.iter_mut().flatten() {
            peer.read().map_err(|error| FabricError::Native {
                attempted: format!("reading what rank {} has sent", peer.key.channel.source),
                words: error.to_string(),
            })?;
            if let Some(message) = peer.ahead.messages.pop_front() {
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
