//! The [`Fabric`]: what carries frames between ranks, and its contract.
//!
//! Below the engine lies one fabric, or several behind one (`shm` inside a
//! host, `ofi` between hosts). Everything the engine relies on is written
//! here; `transport/tests/conformance` runs the same checks on every implementation.
//!
//! # Contract
//!
//! **Lanes.** Each ordered pair of ranks has two lanes. The *data lane* carries the frames of the
//! sender's channel log; the *control lane* carries small [`Control`] frames. Each lane is FIFO,
//! loses nothing and duplicates nothing while both incarnations live. There is no order between
//! lanes, nor between pairs. A full data lane never stops a control lane. A rank has no lanes to
//! itself. Frames that are posted before the peer has connected this rank wait.
//!
//! **Where a lane begins.** Both lanes begin when the peer is connected, and begin anew with each
//! of its incarnations: no frame of an earlier connection arrives on a later one. The data lane
//! begins with any record of the log: the first frame that is posted on this connection. That frame
//! may have been posted on an earlier connection, too (REC-3). From there frames arrive in the
//! order of their positions. Two things may be left out: published records of no use to the
//! receiver, and chunks to which no link leads any more. All records that lie in the chunk of the
//! first frame before it must be published. A fabric on which the receiver reads the sender's log
//! may begin with these records, and hand over records that were left out: the engine drops, by
//! their SSN, records that it has.
//!
//! **Sending.** [`Fabric::post`] takes a frame that lies packed in registered log memory. The
//! fabric may read it in place at any time until it reports the position behind it as
//! [`released`](Fabric::released); until then the engine neither changes nor frees it. `released`
//! never decreases while the peer is connected. Before the first post of a connection it lies
//! before all records that the lane may need. For a peer that is not connected it is
//! [`RELEASED_WHOLLY`]: frames that are posted when the peer comes back must still be in the log
//! then. With a fabric on which the receiver reads the sender's log
//! ([`Attributes::reads_in_place`]) a frame is released when the receiver has let go of it; else
//! when it lies in the receiver's memory.
//!
//! **Leaving a chunk.** When all frames on a lane are released, the engine may give back the chunk in
//! which the last one lies. [`Fabric::leave_chunk`] publishes the link to nowhere that ends it. A
//! receiver that reads the sender's log leaves the chunk when it polls, and releases the position of
//! the next record; the next frame is posted in another chunk.
//!
//! **Staging.** A record that is kept is written to memory that no cache holds, which takes longer
//! than the network takes to begin. So a fabric that sends by copying may take a frame before it is
//! in the log ([`Fabric::stage`]): the caller fills the fabric's own memory, and the frame leaves.
//! Then the caller writes the same bytes into its log and reports where they are
//! ([`Fabric::staged`]), before it calls anything else. Only frames with payload of the lengths in
//! [`Attributes::staged_bytes`] are staged. Staged and posted frames together are in the order of
//! their positions.
//!
//! **Receiving.** [`Fabric::poll`] hands each arrived frame to the [`Sink`], per lane in order. A
//! sink that answers [`Disposition::Keep`] leaves the payload where it is; it stays readable
//! through [`Fabric::kept`] until [`Fabric::let_go`]. Kept frames hold memory of the sender: an
//! arrival with `pressed` set means that the sender may soon stall, and that kept frames of this
//! source should be copied out.
//!
//! **Distant frames.** A fabric with remote memory access may hand over a frame whose payload is
//! still in the sender's log ([`Payload::Distant`]): the frame arrives in its turn. The sink
//! answers where the payload lands ([`Disposition::Fetch`]), or keeps the frame and decides later
//! ([`Fabric::fetch`]), or does not need the payload ([`Disposition::Consumed`],
//! [`Fabric::let_go`]). Later frames do not wait for the landing. The sender's log holds the
//! payload until the landing has ended. Each landing ends exactly once, in a `poll`, by
//! [`Sink::landed`]; until that call the memory belongs to the fabric. It ends with
//! [`Landed::Lost`] when the peer is disconnected or lost: nothing is written into the memory after
//! that. [`Fabric::close`] ends all landings at once.
//!
//! **Progress** is manual: nothing moves on this rank unless it calls `poll` (or `wait`). `poll`
//! never blocks and makes a bounded number of calls to the sink. `post` and `post_control` never
//! block; a frame that does not fit is refused with [`Refusal::Busy`], without effect: make
//! progress, then try again.
//!
//! **Waiting.** [`Fabric::wait`] blocks until something for this rank may have happened since its
//! last `poll` (a frame, a released position, room in a lane) or the time is over. It may return
//! early. It never misses a wake-up, not even for an event before the call. It uses no processor
//! time while it blocks.
//!
//! **Death.** A peer may be killed between any two instructions. Frames that it posted completely
//! may still arrive; a frame that it posted partly never arrives; `poll` continues for the other
//! peers. Fabrics that notice a dead peer report [`Sink::peer_lost`]; no fabric has to: the job has
//! its own detector. After [`Fabric::disconnect`] nothing of that incarnation reaches the sink any
//! more, however late it was written (FENCE-1), and its kept frames are gone: letting one of them
//! go has no effect, not even on the next incarnation. The log for the peer may be freed at once:
//! frames that the fabric still sends from there reach at most the fenced incarnation. A peer comes
//! back by [`Fabric::connect`] with a higher incarnation, any number of times; an incarnation that
//! was connected before is refused. The peer may have connected, and posted, before this rank knows
//! of it.
//!
//! **Memory.** The region that a fabric is created over stays mapped and registered as long as the
//! fabric lives, and longer while a peer may read it.

pub mod mixed;
pub mod network;
pub mod ofi;
pub mod shm;
#[cfg(any(test, feature = "test-doubles"))]
pub mod sim;
pub mod verbs;

use crate::control::Control;
use crate::gate::Pass;
use core::ops::Range;
use core::time::Duration;
use refrain_ring::{
    Frame, HeaderError, Incarnation, Position, Rank, ReadError, RecordHeader, RecordKind, Region,
};
use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;

/// The result of [`Fabric::released`] for a peer that is not connected: no transmission
/// to it needs the log.
pub const RELEASED_WHOLLY: Position = Position(u64::MAX);

/// Properties of a fabric, constant while it exists.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// Its name as given to `--fabric`.
    pub name: Cow<'static, str>,
    /// Whether the receiver reads frames in the sender's log: without a copy in between, and a kept
    /// frame costs the receiver nothing.
    pub reads_in_place: bool,
    /// Whether the receiver finds payload to which a record refers, elsewhere in the sender's log
    /// memory. LOG-6
    pub follows_references: bool,
    /// Largest payload of one frame, in bytes.
    pub frame_payload_bytes_max: usize,
    /// Longest payload that arrives with its frame: it never has to be fetched.
    pub attached_bytes_max: usize,
    /// Payload bytes per frame that give the best throughput for long messages; a multiple of 16.
    pub fragment_bytes: usize,
    /// Payload bytes that may be sent without the receiver's clear-to-send; longer messages go by
    /// rendezvous when the log's memory is reused.
    pub eager_bytes_max: u64,
    /// Payload lengths, in bytes, of frames that [`Fabric::stage`] takes; empty: none.
    pub staged_bytes: Range<usize>,
}

/// The address of a rank, which it publishes through the job's control plane.
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// Opaque bytes of the fabric.
    pub bytes: Vec<u8>,
    /// Shared memory that belongs to the address, on one host.
    pub memory: Option<Arc<OwnedFd>>,
}

/// Why a frame was not taken. The call had no effect.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The lane is full: make progress and try again.
    #[error("the lane is full")]
    Busy,
    /// The peer is not connected.
    #[error("rank {0} is not connected")]
    NotConnected(Rank),
}

/// Errors of a fabric or of a peer's frames.
#[derive(Debug, Error)]
pub enum FabricError {
    /// A peer sent bytes that are not a frame.
    #[error("rank {source_rank} sent bytes that are no frame: {error}")]
    Garbage {
        /// The peer.
        source_rank: Rank,
        /// The error.
        error: HeaderError,
    },
    /// A frame of an incarnation that is not the connected one.
    #[error(
        "a frame of rank {source_rank} carries incarnation {found}, but incarnation {connected} is connected: the frame was dropped"
    )]
    WrongIncarnation {
        /// The peer.
        source_rank: Rank,
        /// The incarnation in the frame.
        found: Incarnation,
        /// The incarnation that is connected.
        connected: Incarnation,
    },
    /// A frame names a rank that its lane does not belong to.
    #[error("a frame on the lane of rank {lane} claims to come from rank {claimed}")]
    WrongSource {
        /// The rank of the lane.
        lane: Rank,
        /// The rank in the frame.
        claimed: Rank,
    },
    /// A control frame that does not decode.
    #[error("rank {source_rank} sent a damaged control frame: {error}")]
    BadControl {
        /// The peer.
        source_rank: Rank,
        /// The error.
        error: crate::control::ControlError,
    },
    /// A link in a log leads to a chunk that does not exist.
    #[error("the log of rank {source_rank} links to chunk {chunk}, outside its memory")]
    BrokenLog {
        /// The peer.
        source_rank: Rank,
        /// The chunk to which the link leads.
        chunk: u64,
    },
    /// A record refers to payload in a chunk that does not exist.
    #[error("the log of rank {source_rank} refers to payload in chunk {chunk}, outside its memory")]
    BrokenReference {
        /// The peer.
        source_rank: Rank,
        /// The chunk to which the record refers.
        chunk: u32,
    },
    /// A peer broke the rules of its lane.
    #[error("rank {source_rank} breaks the rules of its lane: {rule}")]
    RuleBroken {
        /// The peer.
        source_rank: Rank,
        /// The rule, and how it was broken.
        rule: String,
    },
    /// The peer's address cannot be used.
    #[error("cannot attach to rank {peer}: {reason}")]
    Attach {
        /// The peer.
        peer: Rank,
        /// What was tried and what to do.
        reason: String,
    },
    /// A peer does not answer at its address.
    #[error(
        "rank {peer} at {address} does not answer after {waited_s} s: is there a route to it, and no firewall in between?"
    )]
    Silent {
        /// The peer.
        peer: Rank,
        /// Its address, readable.
        address: String,
        /// The time waited, in seconds.
        waited_s: u64,
    },
    /// A native library, its provider or the operating system refused something.
    #[error("{attempted}: {words}")]
    Native {
        /// What was attempted, and what to do about it.
        attempted: String,
        /// The words of the library or the system.
        words: String,
    },
}

impl FabricError {
    pub(crate) fn refused(attempted: impl Into<String>, by: &impl core::fmt::Display) -> Self {
        Self::Native {
            attempted: attempted.into(),
            words: by.to_string(),
        }
    }

    /// The error for a log of `source_rank` that cannot be read.
    #[cold]
    pub(crate) fn of_log(source_rank: Rank, error: ReadError) -> Self {
        let error = match error {
            ReadError::Link(chunk) => return Self::BrokenLog { source_rank, chunk },
            ReadError::Reference(chunk) => return Self::BrokenReference { source_rank, chunk },
            // Handled where the log is read.
            ReadError::Resting(_) => {
                let chunk = u64::MAX;
                return Self::BrokenLog { source_rank, chunk };
            }
            ReadError::Header(error) => error,
            ReadError::Overrun(payload_bytes) => HeaderError::Extent {
                payload_bytes,
                offset: 0,
            },
        };
        Self::Garbage { source_rank, error }
    }
}

/// Decodes the header of a record that a fabric carries. Links lead through memory and are never
/// carried.
#[inline]
pub(crate) fn decode_record(source_rank: Rank, bytes: &[u8]) -> Result<RecordHeader, FabricError> {
    match RecordHeader::decode(bytes) {
        Err(error) => Err(FabricError::Garbage { source_rank, error }),
        Ok(header) if header.flags & RecordHeader::REFERENCE != 0 => {
            let error = HeaderError::Flags(header.flags);
            Err(FabricError::Garbage { source_rank, error })
        }
        Ok(link) if link.kind == RecordKind::Link => {
            let chunk = link.extent;
            Err(FabricError::BrokenLog { source_rank, chunk })
        }
        Ok(header) => Ok(header),
    }
}

/// Checks that a frame names the rank and the incarnation that are connected on its lane. FENCE-1
#[inline]
pub(crate) fn check_sender(
    connected: (Rank, Incarnation),
    found: (Rank, Incarnation),
) -> Result<(), FabricError> {
    if found.0 != connected.0 {
        return Err(FabricError::WrongSource {
            lane: connected.0,
            claimed: found.0,
        });
    }
    if found.1 != connected.1 {
        return Err(FabricError::WrongIncarnation {
            source_rank: found.0,
            found: found.1,
            connected: connected.1,
        });
    }
    Ok(())
}

/// Which lives of each peer may still be connected. FENCE-1
#[derive(Debug)]
pub(crate) struct Acceptable {
    own: Rank,
    /// By rank: one above the highest incarnation that was connected. After the highest of all, none
    /// may follow.
    lowest: Vec<u32>,
    /// Ranks whose highest incarnation of all was connected.
    over: Vec<Rank>,
}

impl Acceptable {
    pub(crate) fn new(own: Rank, size: u32) -> Self {
        let lowest = vec![0; size as usize];
        let over = Vec::new();
        Self { own, lowest, over }
    }

    /// Whether a life of `peer`, which is a rank of the job, was not connected before.
    pub(crate) fn allows(&self, peer: Rank, incarnation: Incarnation) -> bool {
        incarnation.0 >= self.lowest[peer.index()] && !self.over.contains(&peer)
    }

    /// Refuses a life that may not be connected.
    pub(crate) fn check(&self, peer: Rank, incarnation: Incarnation) -> Result<(), FabricError> {
        let reason = if peer == self.own || peer.index() >= self.lowest.len() {
            "only other ranks of the job can be connected"
        } else if !self.allows(peer, incarnation) {
            "this incarnation was connected before: only a later one may come"
        } else {
            return Ok(());
        };
        let reason = reason.into();
        Err(FabricError::Attach { peer, reason })
    }

    /// Notes that a life is connected: only later ones may follow.
    pub(crate) fn connected(&mut self, peer: Rank, incarnation: Incarnation) {
        match incarnation.0.checked_add(1) {
            Some(next) => self.lowest[peer.index()] = next,
            None => self.over.push(peer),
        }
    }
}

/// Where a kept frame lies. Meaningful only to the fabric that handed it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The sender.
    pub source: Rank,
    /// Its position in that rank's log (or count of arrival).
    pub position: Position,
    /// Chosen by the fabric.
    pub locator: u64,
}

/// A frame that has arrived.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// Its header; source and incarnation are checked by the fabric.
    pub header: &'a RecordHeader,
    /// Its payload.
    pub payload: Payload<'a>,
    /// The place by which the frame is found if it is kept.
    pub place: Place,
    /// Whether the sender may soon stall because kept frames of this source hold its memory.
    pub pressed: bool,
}

/// The payload of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Readable during the call (or longer, if kept).
    Here(&'a [u8]),
    /// Its length in bytes; it is still in the sender's log.
    Distant(usize),
}

impl Payload<'_> {
    /// Its length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Here(payload) => payload.len(),
            Self::Distant(bytes) => *bytes,
        }
    }
}

/// Where the payload of a distant frame shall land.
#[derive(Debug)]
pub struct Landing {
    to: core::ptr::NonNull<u8>,
    bytes: usize,
    token: u64,
}

// SAFETY: its memory is the landing's alone until it has ended, in any thread.
#[expect(unsafe_code, reason = "moves with its fabric")]
unsafe impl Send for Landing {}

impl Landing {
    /// Memory for the whole payload of a frame. [`Sink::landed`] receives `token`.
    ///
    /// # Safety
    /// `to .. to + bytes` must be writable, and neither read nor written by other code,
    /// until [`Sink::landed`] was called with the token or the fabric was closed or dropped.
    #[expect(unsafe_code, reason = "declares what callers must promise")]
    #[inline]
    pub unsafe fn new(to: core::ptr::NonNull<u8>, bytes: usize, token: u64) -> Self {
        Self { to, bytes, token }
    }

    /// Where the payload goes. Writing there is sound until the landing ended.
    #[inline]
    pub fn to(&self) -> core::ptr::NonNull<u8> {
        self.to
    }

    /// The length of the memory in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The token by which the sink recognises the landing.
    #[inline]
    pub fn token(&self) -> u64 {
        self.token
    }
}

/// How a landing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// All bytes are there.
    Whole,
    /// The frame is lost with its peer; some bytes may have been written.
    Lost,
}

/// The sink's decision about a frame.
#[derive(Debug)]
pub enum Disposition {
    /// The payload is copied out or not wanted.
    Consumed,
    /// The payload stays where it is until it is let go.
    Keep,
    /// The distant payload goes to this landing; the frame is let go when it has landed. Only for
    /// distant frames.
    Fetch(Landing),
}

/// The layer above a fabric: takes what arrives.
pub trait Sink {
    /// A frame of the data lane.
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition;
    /// A frame of the control lane.
    fn control(&mut self, source: Rank, control: Control);
    /// A landing has ended; its memory is the sink's again.
    fn landed(&mut self, token: u64, landed: Landed);
    /// The fabric noticed the death of a peer. A fabric need not notice it.
    fn peer_lost(&mut self, peer: Rank);
}

/// Carries frames between ranks; see the contract in the [module](self).
pub trait Fabric {
    /// Its properties.
    fn attributes(&self) -> &Attributes;

    /// Its properties towards one peer, constant as well. They differ from [`Fabric::attributes`]
    /// only if several fabrics are behind one.
    fn attributes_to(&self, peer: Rank) -> &Attributes {
        let _ = peer;
        self.attributes()
    }

    /// The address at which peers reach this rank.
    fn address(&self) -> Address;

    /// Makes `peer` reachable in `incarnation`. Connecting a peer that is
    /// connected disconnects the older incarnation first.
    ///
    /// # Errors
    /// When the address is not one of this fabric or cannot be attached, or the incarnation is not
    /// higher than every one that was connected before. Then the call has no effect.
    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError>;

    /// Fences a peer: no frame of its present incarnation arrives any more.
    fn disconnect(&mut self, peer: Rank);

    /// Sends the next frame of the data lane to `peer`. Frames are posted in
    /// the order of their positions. GATE-1: takes a [`Pass`].
    ///
    /// # Errors
    /// [`Refusal`]; without effect.
    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal>;

    /// Sends the next frame of the data lane before it is in the log. `header`
    /// is its record's, with the identity of this rank; `fill` writes its payload.
    /// GATE-1: takes a [`Pass`].
    ///
    /// # Errors
    /// [`Refusal`]; without effect, except that `fill` may have been called: post the frame
    /// then.
    fn stage(
        &mut self,
        pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        let _ = (pass, peer, header, fill);
        Err(Refusal::Busy)
    }

    /// Notes that the staged frame lies in the log now.
    fn staged(&mut self, peer: Rank, frame: &Frame) {
        let _ = (peer, frame);
    }

    /// Publishes the link that ends the chunk of the last frame to `peer`; all frames are released.
    /// `region` holds the log. Returns whether nothing on this lane reads the chunk any more; if not,
    /// it is free when the position of the next record is released.
    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        let _ = peer;
        region.publish(link);
        true
    }

    /// Sends a control frame to `peer`. GATE-1: takes a [`Pass`].
    ///
    /// # Errors
    /// [`Refusal`]; without effect.
    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal>;

    /// The position in the log for `peer` before which no frame is needed for its
    /// transmission any more; [`RELEASED_WHOLLY`] while it is not
    /// connected.
    fn released(&mut self, peer: Rank) -> Position;

    /// Hands arrivals to `sink`; returns the number of calls.
    ///
    /// # Errors
    /// When a peer broke the rules, or a device is broken. Each error is reported once. The
    /// offending lane is not read again (a fabric may also stop reading the other lane of that
    /// peer); other peers continue.
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError>;

    /// Why a peer was reported as lost, if the fabric knows a reason.
    fn why_lost(&self, peer: Rank) -> Option<String> {
        let _ = peer;
        None
    }

    /// The payload of a kept frame.
    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8];

    /// Whether the rank may end: all posted frames lie in the memory of their receivers,
    /// and all acknowledgements to peers were sent. Frames to peers that are gone do not
    /// count.
    fn is_drained(&mut self) -> bool;

    /// Ends the keeping of a frame.
    fn let_go(&mut self, place: Place);

    /// Fetches the payload of a distant frame that was kept, and lets the frame go when it has
    /// landed. Never refused: a landing for which there is no room yet begins later. The landing is
    /// lost if the peer was disconnected meanwhile.
    fn fetch(&mut self, place: Place, landing: Landing);

    /// Ends all transmission: nothing is sent, handed over or written into a landing any more.
    /// `poll` only calls [`Sink::landed`] for landings that had not ended. For the end of a program
    /// while a landing does not end by itself.
    fn close(&mut self);

    /// Blocks until there may be something to poll, or `timeout` is over.
    fn wait(&mut self, timeout: Duration);
}
