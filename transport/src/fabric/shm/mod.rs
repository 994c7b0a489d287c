//! Shared memory between the processes of one host: the receiver reads the
//! sender's log where it lies.
//!
//! - A post is one release store; the receiver finds it by polling the place where the next record
//!   will begin. A receiver polls the lanes that are busy ([`HOT_LANES_MAX`]); senders on other
//!   lanes ring its doorbell.
//! - A killed process leaves complete records or none. No process waits for a lock of a killed
//!   process: there are no locks.
//! - FENCE-1: each incarnation has a memory of its own; after
//!   [`Fabric::disconnect`](super::Fabric::disconnect) the memory of the old one is not read any
//!   more. A dead receiver could still store its positions into *this rank's* segment; the launcher
//!   reaps a process before it announces the next incarnation, and a reaped process stores nothing.
//! - The lane of this rank to a peer begins anew with each life of the peer, and names the life
//!   that it is for: a new life that connects before this rank knows of it neither reads nor stores
//!   anything there.
//! - A lane begins with the chunk of its first frame, wherever in the log that is;
//!   the receiver finds the rest over the links. At a link to nowhere it leaves the log's memory, and
//!   goes on as a lane that begins.

mod calling;
mod contract;
mod dead;
mod incoming;
mod ringing;
mod segment;
mod wake;

pub use calling::Caller;
pub use dead::{DeadLog, DeadLogError, open_dead_log};
pub use segment::RANKS_MAX;

use super::{Acceptable, Attributes, FabricError, RELEASED_WHOLLY};
use core::sync::atomic::Ordering::{Relaxed, Release};
use incoming::Incoming;
use refrain_ring::{Arena, CHUNK_BYTES, ChannelLog, Incarnation, Rank, Region};
use segment::{Lane, SEGMENT_MAGIC, Segment, arena_offset};

/// Maximum number of lanes that a rank polls without being rung.
pub const HOT_LANES_MAX: usize = 32;
/// Number of polls without a frame after which a lane may be dropped for another.
const COLD_AFTER_POLLS: u32 = 4096;
/// Payload bytes of a fragment. A fragment of a long message should pass through the first-level
/// cache while the other side copies the previous one (docs/design/performance.md).
const FRAGMENT_BYTES: usize = 16 << 10;

/// In jobs with more ranks, log memory is taken from the system by chunks, and not by huge pages:
/// each rank sends to few others, and short messages mostly.
const CHUNKWISE_ABOVE: u32 = 256;

/// Options of the fabric.
#[derive(Clone, Copy, Debug)]
pub struct ShmOptions {
    /// The job; segments of other jobs are refused.
    pub job: u64,
    /// This rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Ranks of the job, at most [`RANKS_MAX`].
    pub size: u32,
    /// Log memory of this rank in bytes.
    pub log_bytes: u64,
    /// Bytes that one channel's log may hold before its receiver has consumed them.
    pub window_bytes: u64,
}

/// The shared-memory fabric of one rank.
#[derive(Debug)]
pub struct Shm {
    attributes: Attributes,
    options: ShmOptions,
    own: Segment,
    region: Region,
    registered: bool,
    /// By rank.
    peers: Vec<Option<Box<Peer>>>,
    connected: Vec<Rank>,
    acceptable: Acceptable,
    hot: Vec<Rank>,
}

/// One connected peer.
#[derive(Debug)]
struct Peer {
    rank: Rank,
    segment: Segment,
    both_answer_barriers: bool,
    incoming: Incoming,
    control_posted: u64,
    /// Lower bound of the control frames that the peer has taken.
    control_taken: u64,
    /// The released position and the number of control frames taken, as last seen.
    seen: (u64, u64),
    /// Whether a frame was posted.
    has_begun: bool,
    /// Whether the lane names the chunk in which the peer reads, or one before it.
    is_named: bool,
}

impl Shm {
    /// Creates this rank's segment and the log arena in it.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn create(options: ShmOptions) -> Result<(Self, Arena), FabricError> {
        if options.size > RANKS_MAX || options.rank.0 >= options.size {
            return Err(FabricError::Attach {
                peer: options.rank,
                reason: format!(
                    "shared memory serves ranks below {RANKS_MAX}, the job has {}",
                    options.size
                ),
            });
        }
        let log_bytes = (options.log_bytes as usize).next_multiple_of(CHUNK_BYTES);
        let own = Segment::create(options.rank, options.size, log_bytes)?;
        let registered = wake::register();
        let arena_offset = arena_offset(options.size);
        describe(&own, &options, registered);
        let region = own.region();
        let commit = {
            let own = own.clone();
            Box::new(move |offset, bytes| own.commit(offset, bytes))
        };
        let arena = Arena::new(region.clone(), arena_offset, commit);
        let arena = match options.size > CHUNKWISE_ABOVE {
            true => arena.by_chunks(),
            false => arena,
        };
        let fabric = Self {
            attributes: Attributes {
                name: "shm".into(),
                reads_in_place: true,
                follows_references: true,
                frame_payload_bytes_max: ChannelLog::PAYLOAD_BYTES_MAX,
                attached_bytes_max: ChannelLog::PAYLOAD_BYTES_MAX,
                fragment_bytes: FRAGMENT_BYTES,
                eager_bytes_max: options.window_bytes / 4,
                staged_bytes: 0..0,
            },
            options,
            own,
            region,
            registered,
            peers: (0..options.size).map(|_| None).collect(),
            connected: Vec::new(),
            acceptable: Acceptable::new(options.rank, options.size),
            hot: Vec::with_capacity(HOT_LANES_MAX),
        };
        Ok((fabric, arena))
    }

    fn peer(&self, rank: Rank) -> Option<&Peer> {
        self.peers.get(rank.index())?.as_deref()
    }
}

/// This rank reads no log any more: peers need not wait until it leaves their memory.
impl Drop for Shm {
    fn drop(&mut self) {
        for peer in self.connected.iter().filter_map(|rank| self.peer(*rank)) {
            let lane = peer.lane();
            // FENCE-1: a lane for another life is not touched.
            if peer.incoming.is_for_this_life(lane) {
                lane.released.store(RELEASED_WHOLLY.0, Release);
                peer.ring_if_waiting(lane, self.options.rank);
            }
        }
    }
}

impl Peer {
    /// Its lane to this rank.
    #[inline]
    fn lane(&self) -> &Lane {
        self.segment.lane(self.incoming.destination)
    }

    /// Whether a poll of its lane would find something.
    fn is_ready(&self) -> bool {
        self.incoming.ready(self.lane())
    }

    fn has_sent(&self) -> bool {
        self.has_begun || self.control_posted > 0
    }
}

/// Writes the identity of its rank into a new segment. The magic number is written last.
fn describe(own: &Segment, options: &ShmOptions, registered: bool) {
    let head = own.head();
    head.job.store(options.job, Relaxed);
    head.rank.store(options.rank.0, Relaxed);
    head.incarnation.store(options.incarnation.0, Relaxed);
    head.size.store(options.size, Relaxed);
    head.answers_barriers.store(registered.into(), Relaxed);
    let arena_offset = arena_offset(options.size);
    head.arena_offset.store(arena_offset as u64, Relaxed);
    head.segment_bytes.store(own.bytes() as u64, Relaxed);
    head.window_bytes.store(options.window_bytes, Relaxed);
    head.magic.store(SEGMENT_MAGIC, Release);
}
