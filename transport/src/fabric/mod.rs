//! The [`Fabric`]: what carries frames between ranks, and its contract.
//!
//! Below the engine lies one fabric, or several behind one (`shm` inside a
//! host, `ofi` between hosts). Everything the engine relies on is written
//! here; `transport/tests/conformance` runs the same checks on every implementation.
//!
//! # Contract
//!
//! **Lanes.** Each ordered pair of ranks has two lanes. The *data lane* carries
//! the frames of the sender's channel log; the *control lane* carries small
//! [`Control`] frames. Each lane is FIFO, loses nothing and duplicates nothing
//! while both incarnations live. There is no order between lanes, nor between
//! pairs. A full data lane never stops a control lane. A rank has no lanes to
//! itself. Frames that were posted before the peer has connected back wait.
//!
//! **Where a lane begins.** Both lanes begin when the peer is connected, and anew
//! with each of its incarnations: nothing of an earlier connection comes on a
//! later one. The data lane begins with any record of the log: the first frame
//! that is posted on this connection, perhaps one that was posted on an earlier
//! connection, too (REC-3). From there frames come in the order of their
//! positions; records that are published and of no use to the receiver may be left
//! out, and chunks to which no link leads any more. All records before the first
//! frame that lie in its chunk must be published. A fabric on which the receiver
//! reads the sender's log may begin with them, and hand over what was left out:
//! the engine drops, by their SSN, records that it has.
//!
//! **Sending.** [`Fabric::post`] takes a frame that lies packed in registered
//! log memory. The fabric may read it in place at any time until it reports the
//! position behind it as [`released`](Fabric::released); until then the engine
//! neither changes nor frees it. `released` never goes back while the peer is
//! connected. Before the first post of a connection it lies before all that the
//! lane may need; of a peer that is not connected it is [`RELEASED_WHOLLY`]: what
//! is posted when it comes back must still be there then. With a fabric on
//! which the receiver reads the sender's log ([`Attributes::reads_in_place`])
//! a frame is released when the receiver has let go of it; else when it lies in
//! the receiver's memory.
//!
//! **Staging.** A record that is kept goes to memory that no cache holds, which
//! takes longer than the network does to begin. So a fabric that sends by copying
//! may take a frame before it is in the log ([`Fabric::stage`]): the caller fills
//! the fabric's own memory, the frame leaves, and then the caller writes the same
//! bytes into its log and says where they are ([`Fabric::staged`]), before it
//! calls anything else. Only frames with payload of the lengths in
//! [`Attributes::staged_bytes`], in the order of their positions with those that
//! are posted.
//!
//! **Receiving.** [`Fabric::poll`] hands each arrived frame to the [`Sink`],
//! per lane in order. A sink that answers [`Disposition::Keep`] leaves the
//! payload where it is; it stays readable through [`Fabric::kept`] until
//! [`Fabric::let_go`]. Kept frames hold memory of the sender: an arrival with
//! `pressed` set says that the sender may soon stall, and that kept frames of
//! this source should be copied out.
//!
//! **Distant frames.** A fabric with remote memory access may hand over a frame
//! whose payload is still in the sender's log ([`Payload::Distant`]): it arrives
//! in its turn, and the sink says where the payload shall land
//! ([`Disposition::Fetch`]), or keeps the frame and says so later
//! ([`Fabric::fetch`]), or does not want it ([`Disposition::Consumed`],
//! [`Fabric::let_go`]). Later frames do not wait for the landing. The sender's
//! log holds the payload until then. Each landing ends exactly once, in a `poll`,
//! by [`Sink::landed`]; until that call the memory belongs to the fabric. It ends
//! [`Landed::Lost`] when the peer is disconnected or lost: nothing is written
//! into the memory after that. [`Fabric::close`] ends them all at once.
//!
//! **Progress** is manual: nothing moves on this rank unless it calls `poll`
//! (or `wait`). `poll` never blocks and makes a bounded number of calls to the
//! sink. `post` and `post_control` never block; what does not fit is refused
//! with [`Refusal::Busy`] and has no effect: progress, then try again.
//!
//! **Waiting.** [`Fabric::wait`] blocks until something for this rank may have
//! happened since its last `poll` (a frame, a released position, room in a
//! lane) or the time is over. It may return early; it never misses a wake-up,
//! also not one for what happened before the call.
//! It burns no processor.
//!
//! **Death.** A peer may be killed between any two instructions. What it posted
//! wholly may still arrive, what it posted partly never does, `poll` continues
//! for the others. Fabrics that notice a dead peer report
//! [`Sink::peer_lost`]; none is obliged to: the job brings its own detector.
//! After [`Fabric::disconnect`] nothing of that incarnation reaches the sink
//! any more, however late it was written (FENCE-1), and its kept frames are
//! gone: letting one of them go has no effect, also not on the next incarnation.
//! The log for it may be freed at once: what the fabric still sends from there
//! reaches at most the incarnation that is fenced.
//! A peer comes back by [`Fabric::connect`] with a higher incarnation, any number
//! of times; one that was connected before is refused. It may have
//! connected, and posted, before this rank knows of it.
//!
//! **Memory.** The region given to a fabric at its making stays mapped and
//! registered as long as the fabric lives, and longer while a peer may read it.

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
    Frame, HeaderError, Incarnation, Position, Rank, ReadError, RecordHeader, RecordKind,
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
    /// The receiver reads frames in the sender's log: no copy in between, and
    /// a kept frame costs the receiver nothing.
    pub reads_in_place: bool,
    /// Largest payload of one frame, in bytes.
    pub frame_payload_bytes_max: usize,
    /// Payload bytes per frame at which long messages flow best.
    pub fragment_bytes: usize,
    /// Payload bytes that may be sent to a receiver that has not asked for
    /// them; longer messages go by rendezvous when the log is reused.
    pub eager_bytes_max: u64,
    /// Payload bytes of frames that [`Fabric::stage`] takes; empty: none.
    pub staged_bytes: Range<usize>,
}

/// The address of a rank, which it publishes through the job's control plane.
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// Opaque bytes of the fabric.
    pub bytes: Vec<u8>,
    /// Shared memory that goes with them, on one host.
    pub memory: Option<Arc<OwnedFd>>,
}

/// Why a frame was not taken. It had no effect.
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
        "a frame of rank {source_rank} carries incarnation {found}, connected is {connected}: it was dropped"
    )]
    WrongIncarnation {
        /// The peer.
        source_rank: Rank,
        /// In the frame.
        found: Incarnation,
        /// As connected.
        connected: Incarnation,
    },
    /// A frame names a rank that its lane does not belong to.
    #[error("a frame on the lane of rank {lane} claims to come from rank {claimed}")]
    WrongSource {
        /// The rank of the lane.
        lane: Rank,
        /// In the frame.
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
    #[error("the log of rank {source_rank} leads outside its memory (chunk {chunk})")]
    BrokenLog {
        /// The peer.
        source_rank: Rank,
        /// Where it leads.
        chunk: u64,
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

    /// A log of `source_rank` that cannot be read.
    #[cold]
    pub(crate) fn of_log(source_rank: Rank, error: ReadError) -> Self {
        let error = match error {
            ReadError::Link(chunk) => return Self::BrokenLog { source_rank, chunk },
            ReadError::Header(error) => error,
            ReadError::Overrun(payload_bytes) => HeaderError::Extent {
                payload_bytes,
                offset: 0,
            },
        };
        Self::Garbage { source_rank, error }
    }
}

/// The header of a record that a fabric carries. Links lead through memory and are never
/// carried.
#[inline]
pub(crate) fn decode_record(source_rank: Rank, bytes: &[u8]) -> Result<RecordHeader, FabricError> {
    match RecordHeader::decode(bytes) {
        Err(error) => Err(FabricError::Garbage { source_rank, error }),
        Ok(link) if link.kind == RecordKind::Link => {
            let chunk = link.extent;
            Err(FabricError::BrokenLog { source_rank, chunk })
        }
        Ok(header) => Ok(header),
    }
}

/// FENCE-1: a frame names the rank and the incarnation that are connected on its lane.
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
    /// The lowest incarnation of each rank of the job that was never connected.
    lowest: Vec<u64>,
}

impl Acceptable {
    pub(crate) fn new(own: Rank, size: u32) -> Self {
        let lowest = vec![0; size as usize];
        Self { own, lowest }
    }

    /// Whether a life of `peer`, which is a rank of the job, was not connected before.
    pub(crate) fn allows(&self, peer: Rank, incarnation: Incarnation) -> bool {
        u64::from(incarnation.0) >= self.lowest[peer.index()]
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

    /// A life is connected: only later ones may come.
    pub(crate) fn connected(&mut self, peer: Rank, incarnation: Incarnation) {
        self.lowest[peer.index()] = u64::from(incarnation.0) + 1;
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
    /// Names the frame if it is kept.
    pub place: Place,
    /// The sender may stall soon for memory held by kept frames of this source.
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
    /// Memory for the whole payload of a frame; `token` comes back with
    /// [`Sink::landed`].
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

    /// The sink's name for it.
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
    /// A distant payload is to be brought there; the frame is let go when it
    /// has landed. An answer to distant frames only.
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
    /// The fabric noticed the death of a peer; it need not notice.
    fn peer_lost(&mut self, peer: Rank);
}

/// Carries frames between ranks; see the contract in the [module](self).
pub trait Fabric {
    /// Its properties.
    fn attributes(&self) -> &Attributes;

    /// Its properties towards one peer; they differ from [`Fabric::attributes`] only where
    /// several fabrics are behind one. Constant as well.
    fn attributes_to(&self, peer: Rank) -> &Attributes {
        let _ = peer;
        self.attributes()
    }

    /// How peers reach this rank.
    fn address(&self) -> Address;

    /// Makes `peer` reachable in `incarnation`. Connecting a peer that is
    /// connected disconnects the older incarnation first.
    ///
    /// # Errors
    /// When the address is not one of this fabric or cannot be attached, or the
    /// incarnation is not higher than every one that was connected before: that
    /// changes nothing.
    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError>;

    /// Fences a peer: nothing of its present incarnation arrives any more.
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

    /// The staged frame lies in the log now.
    fn staged(&mut self, peer: Rank, frame: &Frame) {
        let _ = (peer, frame);
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
    /// A peer that broke the rules, or a broken device: reported once. The
    /// offending lane is not read again (a fabric may also stop reading the other
    /// lane of that peer); other peers continue.
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

    /// Brings the payload of a distant frame that was kept, and lets the frame go
    /// when it has landed. Never refused: a landing that does not fit yet begins later. The
    /// landing is lost if the peer was disconnected meanwhile.
    fn fetch(&mut self, place: Place, landing: Landing);

    /// Ends everything: nothing is sent, handed over or written into a landing
    /// any more. `poll` only calls [`Sink::landed`] for landings that had not ended. For the
    /// end of a program while a landing does not end by itself.
    fn close(&mut self);

    /// Blocks until there may be something to poll, or `timeout` is over.
    fn wait(&mut self, timeout: Duration);
}
