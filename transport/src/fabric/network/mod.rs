//! A fabric over reliable message endpoints without connections: libfabric's ([`ofi`](super::ofi))
//! and any other [`MessageEndpoint`].
//!
//! - A frame is sent as [wire header | record] from the registered log, and received into posted
//!   slots. A peer sends no more frames than it has credits, so that no receiver is overrun.
//!   (Messages beyond the receives that a provider takes wait at the provider.) Matching is done by
//!   the engine: the matching of providers is not reliable (1.17 `shm` swallows peeked messages).
//! - Payload above a length is *distant* where the provider can read remote
//!   memory well: only the record's header is sent, and the receiver reads the
//!   payload out of the sender's log into the memory of the receive.
//! - No rank writes into another's memory one-sided, so a fenced peer does not either (FENCE-1).
//! - Frames are released when the receiving fabric, not the provider, has acknowledged them. Frames
//!   that are not acknowledged are sent again from the log when a connection broke (see [`lane`]).
//!
//! *Provider* means the layer below the endpoint: a provider of libfabric, or a device.

pub mod address;
mod arrivals;
mod attention;
mod choices;
mod contract;
mod fetching;
pub mod lane;
mod operation;
mod peer;
mod slots;
mod taking;
#[cfg(test)]
mod tests;
mod transmit;
mod waiting;
pub mod wire;

pub use choices::{Choices, Limits, Overrides, PayloadPath};
pub use refrain_libfabric::native::MessageEndpoint;

use super::{Acceptable, Attributes, FabricError};
use address::NetworkAddress;
use core::time::Duration;
use fetching::{Fetching, READS_MAX};
use lane::Sent;
use peer::FabricPeer;
use refrain_libfabric::native::{Access, CompletionOf, EndpointError, LoadError, MemoryId};
use refrain_ring::{Frame, Incarnation, Position, Rank, Region};
use slots::Slots;
use std::borrow::Cow;
use std::os::fd::OwnedFd;
use transmit::{Body, Outgoing, STAGES, Transmitter};
use wire::{Kind, WIRE_BYTES};

/// Idle polls after which counters are reported even to a peer that has credits left.
const IDLE_POLLS: u32 = 64;
/// Number of polls between two checks of the timers.
const POLLS_PER_LOOK: u32 = 1024;
/// Bytes of a record before its payload, when that is longer than a few bytes.
const RECORD_HEAD_BYTES: usize = refrain_ring::payload_offset(usize::MAX >> 1);
/// Maximum number of messages that the provider reads from the log at a time. This includes
/// messages that it never completes because their peer died.
const MESSAGES_MAX: usize = 1024;

/// The identity of a rank, and how long its peers may be in trouble.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// The job; frames of other jobs are dropped.
    pub job: u64,
    /// This rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Ranks of the job.
    pub size: u32,
    /// Bytes that one channel's log may hold before its receiver has consumed them.
    pub window_bytes: u64,
    /// How long an error of the provider about a peer may last until the peer
    /// counts as lost.
    pub lost_after: Duration,
    /// How long a peer may leave frames unanswered until it is reported as lost;
    /// `None`: without limit. A rank that computes answers nothing meanwhile.
    pub suspect_after: Option<Duration>,
}

/// The fabric of one rank over a message endpoint.
#[derive(Debug)]
pub struct Network<E: MessageEndpoint> {
    // Dropped first: it is closed before the memory that its operations use.
    endpoint: E,
    attributes: Attributes,
    options: NetworkOptions,
    choices: Choices,
    region: Region,
    own: NetworkAddress,
    slots: Slots,
    transmitter: Transmitter,
    fetching: Fetching,
    peers: Vec<Option<Box<FabricPeer<E>>>>,
    acceptable: Acceptable,
    /// By rank: a life of which messages came before it was connected.
    early: Vec<Option<Incarnation>>,
    connections: u32,
    /// Peers that are owed an acknowledgement, or for which frames wait.
    attention: Vec<Rank>,
    /// Completions that were read and not handled.
    batch: Vec<CompletionOf<E>>,
    /// Empty receive slots that are to be given to the provider.
    to_post: Vec<usize>,
    /// From this number on, empty slots are posted even in a poll with arrivals.
    repost_from: usize,
    failures: Option<FabricError>,
    /// Whether the provider refused a post. It does not report when it has room again.
    was_refused: bool,
    lost: Vec<Rank>,
    idle_polls: u32,
    polls: u32,
    is_closed: bool,
    /// A wait ends when this descriptor is readable.
    alarm: Option<OwnedFd>,
}

impl<E: MessageEndpoint> Network<E> {
    /// Maximum number of operations in flight, besides receives, in a job of `size` ranks: the
    /// endpoint is opened for that number.
    pub(super) fn operations_max(size: u32) -> usize {
        Self::messages_max(size) + STAGES + READS_MAX
    }

    /// Maximum number of messages in flight that are not injected.
    fn messages_max(size: u32) -> usize {
        MESSAGES_MAX + E::LATE_COMPLETIONS * size as usize
    }

    /// Creates the fabric over an open endpoint, and registers the log memory in `region`. `name`
    /// is as given to `--fabric`. `provider` is part of the address: peers must have the same.
    ///
    /// # Errors
    /// When memory cannot be registered.
    pub(super) fn over(
        mut endpoint: E,
        options: NetworkOptions,
        choices: Choices,
        name: Cow<'static, str>,
        provider: String,
        region: &Region,
    ) -> Result<Self, FabricError> {
        let made = Self::make_memory(&mut endpoint, &options, &choices, region);
        let (log, slots, transmitter, bounce) = made.map_err(|error| native(&error))?;
        let remote = choices
            .distant_bytes_min
            .map(|_| endpoint.remote_key(log))
            .unwrap_or_default();
        let own = NetworkAddress {
            rank: options.rank,
            incarnation: options.incarnation,
            job: options.job,
            provider,
            name: endpoint.name().map_err(|error| native(&error))?,
            message_bytes_max: slot_bytes(&choices) as u32,
            credits: choices.credits as u32,
            window_bytes: options.window_bytes,
            key: remote.key,
            base: remote.base,
        };
        let size = options.size as usize;
        let mut fabric = Self {
            attributes: Attributes {
                name,
                reads_in_place: false,
                follows_references: false,
                frame_payload_bytes_max: choices.payload_bytes_max(),
                attached_bytes_max: choices.attached_bytes_max(),
                fragment_bytes: choices.fragment_bytes_in(options.window_bytes),
                eager_bytes_max: options.window_bytes / 4,
                staged_bytes: choices.staged_bytes.clone(),
            },
            choices,
            region: region.clone(),
            own,
            to_post: (0..slots.count()).collect(),
            repost_from: slots.count().div_ceil(4),
            slots,
            transmitter,
            fetching: Fetching::new(bounce, endpoint.fails_namelessly()),
            peers: (0..size).map(|_| None).collect(),
            acceptable: Acceptable::new(options.rank, options.size),
            early: vec![None; size],
            connections: 0,
            attention: Vec::with_capacity(size),
            batch: Vec::with_capacity(512),
            failures: None,
            was_refused: false,
            lost: Vec::new(),
            idle_polls: 0,
            polls: 0,
            is_closed: false,
            alarm: None,
            options,
            endpoint,
        };
        fabric.post_receives();
        fabric.failures.take().map_or(Ok(fabric), Err)
    }

    /// Registers the log and allocates the fabric's own memory: for arrivals, for departures, and
    /// for reads if landings cannot be registered.
    fn make_memory(
        endpoint: &mut E,
        options: &NetworkOptions,
        choices: &Choices,
        region: &Region,
    ) -> Result<(MemoryId, Slots, Transmitter, Option<Slots>), E::Error> {
        let is_read = choices.distant_bytes_min.is_some();
        let access = match is_read {
            true => Access::LOCAL | Access::REMOTE_READ,
            false => Access::LOCAL,
        };
        let log = endpoint.register(region, access)?;
        let slots = Slots::new(endpoint, slot_bytes(choices), choices.receives)?;
        let identity = (options.job, options.rank, options.incarnation);
        let transmitter = Transmitter::new(
            endpoint,
            identity,
            log,
            Self::messages_max(options.size),
            choices.staged_bytes.end,
        )?;
        let must_register = endpoint.reads_into_registered_only();
        let bounce = (must_register && is_read)
            .then(|| Slots::new(endpoint, choices.payload_bytes_max(), READS_MAX));
        Ok((log, slots, transmitter, bounce.transpose()?))
    }

    /// The endpoint below.
    pub(super) fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn now(&self) -> Duration {
        self.transmitter.started.elapsed()
    }
}

/// Length of the longest message that arrives.
fn slot_bytes(choices: &Choices) -> usize {
    WIRE_BYTES + RECORD_HEAD_BYTES + choices.slot_payload_bytes()
}

/// The properties of a frame that are kept until it is released.
#[inline]
fn sent(frame: &Frame, distant: bool) -> Sent {
    Sent {
        offset: frame.offset,
        bytes: frame.bytes,
        distant,
        end: Position(frame.position.0 + frame.bytes.next_multiple_of(64) as u64),
        under_way: 0,
    }
}

/// The message for a frame of the data lane, for its first transmission or a later one.
#[inline]
fn data(sequence: u64, sent: &Sent) -> Outgoing {
    let (kind, bytes, offset) = if sent.distant {
        let payload = (sent.offset + RECORD_HEAD_BYTES) as u64;
        (Kind::Distant, refrain_ring::RecordHeader::BYTES, payload)
    } else {
        (Kind::Frame, sent.bytes, 0)
    };
    Outgoing {
        kind,
        sequence,
        offset,
        body: Body::Log {
            offset: sent.offset,
            bytes,
        },
    }
}

/// The body of a frame that is a whole message and can follow a short header.
#[inline]
fn whole(
    frame: &Frame,
    region: &Region,
    receiving: &lane::Receiving,
    own: (Rank, Incarnation),
    distant: bool,
) -> Option<Body> {
    let record = frame.header(region).ok()?;
    let is_whole = !distant
        && (record.source, record.incarnation) == own
        && record.is_whole()
        && receiving.counters().held <= u32::from(u16::MAX);
    is_whole.then(|| Body::Whole {
        offset: frame.offset + refrain_ring::payload_offset(record.payload_bytes as usize),
        record,
    })
}

impl From<LoadError> for FabricError {
    fn from(error: LoadError) -> Self {
        Self::refused(error.attempted(), &error.words())
    }
}

/// Converts an error of the provider into an error of the fabric.
pub(super) fn native(error: &impl EndpointError) -> FabricError {
    FabricError::refused(error.attempted(), &error.words())
}
