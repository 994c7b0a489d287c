//! The simulated fabric: a job's ranks in one process, in virtual time.
//!
//! A [`Network`] joins the [`SimFabric`] endpoints of one simulated job. It has
//! one seed, and no clock, thread or other randomness: the same calls with the same
//! seed give the same run ([`Network::digest`]). Virtual time advances only by
//! [`Network::step`], [`Network::advance`] and [`Fabric::wait`](super::Fabric).
//!
//! # Faults, and what must survive each
//!
//! | fault | what must survive |
//! |---|---|
//! | each frame and each release is delayed at random; lanes and pairs overtake each other, never two frames of one lane | every result: no order is promised between lanes |
//! | a lane has room for few frames; posts are refused although there is room | every frame: a refused post has no effect |
//! | distant frames land late and in any order, or (with their sender gone) in part, or never | every message that is delivered is whole; no message waits for another's landing |
//! | waking without a reason | every result, and idle ranks stay idle |
//! | [`Network::kill`]: a random prefix of its frames arrives per lane, the others never; frames to it vanish | all other ranks, and the frames that arrive are whole and in order |
//! | late writes of a dead incarnation: the prefix surfaces long after the kill, also after the rank was started again | everything: nothing of a fenced incarnation reaches a sink (FENCE-1) |
//! | the loss of a peer is reported soon, late, or never | the other ranks; none may rely on the report |
//! | [`Network::inject`]: garbage on a lane | all other lanes; the reader gets a typed error |
//! | planted bug [`Faults::fence_off`]: the fence lets everything through | nothing: a check proves with it that it finds the bug |
//!
//! A post takes effect completely or not at all: a kill in the middle of a post counts as a kill
//! before it.
//!
//! The network also watches the engine above: a frame must lie unchanged in the log until it is
//! released, and frames are posted in the log's order. Breaking either rule is a panic.
//!
//! With an explorer no time passes: the explorer chooses which frame arrives next
//! ([`Network::deliver_first`]).

mod arrivals;
mod choosing;
mod endpoint;
mod landings;
mod lane;
mod ledger;
mod lives;
mod random;
mod state;
mod trace;

pub use arrivals::POLL_CALLS_MAX;
pub use choosing::OnItsWay;
pub use endpoint::SimFabric;
pub use trace::{Event, Life, Route};

use crate::fabric::Attributes;
use refrain_ring::{Arena, ChannelLog, Incarnation, Rank, Region};
use state::NetworkState;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;

/// Nanoseconds that a tick of virtual time stands for in
/// [`Fabric::wait`](super::Fabric::wait).
pub const TICK_NS: u64 = 1000;

/// Which lane of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// Frames of the sender's log.
    Data,
    /// Control frames.
    Control,
}

/// The faults of a network.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Maximum number of ticks by which a frame or release is delayed.
    pub delay_ticks_max: u64,
    /// Maximum number of ticks by which the posted frames of a killed rank are late.
    pub late_ticks_max: u64,
    /// How many of 1000 posts are refused although there is room.
    pub busy_per_mille: u32,
    /// How many of 1000 waits return without a reason.
    pub spurious_wake_per_mille: u32,
    /// Maximum number of ticks until the peers of a killed rank get a report of its loss; `None`:
    /// they get no report.
    pub loss_notice_ticks_max: Option<u64>,
    /// Planted bug: frames of fenced incarnations are handed over.
    pub fence_off: bool,
}

/// Options of a network.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// The attributes of the endpoints. With
    /// [`reads_in_place`](Attributes::reads_in_place) a frame is released when
    /// the receiver has let go of it; else when it has arrived.
    pub attributes: Attributes,
    /// The window that the engines give each channel's log, in bytes. Arrivals are `pressed` while
    /// kept frames pin more than a quarter of it.
    pub window_bytes: u64,
    /// Minimum payload bytes of frames that arrive distant (frames without payload never do);
    /// `None`: no frame does.
    pub distant_bytes_min: Option<usize>,
    /// Room of a data lane, in frames. Frames in flight and arrived frames take room, and kept ones
    /// unless they are read in place or distant.
    pub data_lane_frames: usize,
    /// Room of a control lane, in frames.
    pub control_lane_frames: usize,
    /// Its faults.
    pub faults: Faults,
    /// Whether [`Network::events`] are kept beside their digest.
    pub keeps_trace: bool,
}

impl Options {
    /// A network without faults.
    pub fn calm(seed: u64) -> Self {
        Self {
            seed,
            attributes: Attributes {
                name: "sim".into(),
                reads_in_place: false,
                follows_references: true,
                frame_payload_bytes_max: ChannelLog::PAYLOAD_BYTES_MAX,
                attached_bytes_max: ChannelLog::PAYLOAD_BYTES_MAX,
                fragment_bytes: 8 << 10,
                eager_bytes_max: 64 << 10,
                staged_bytes: 0..0,
            },
            window_bytes: 512 << 10,
            distant_bytes_min: None,
            data_lane_frames: 4096,
            control_lane_frames: 64,
            faults: Faults::default(),
            keeps_trace: false,
        }
    }

    /// A network with every fault that a correct engine survives.
    pub fn rough(seed: u64) -> Self {
        let calm = Self::calm(seed);
        Self {
            data_lane_frames: 24,
            control_lane_frames: 3,
            faults: Faults {
                delay_ticks_max: 50,
                late_ticks_max: 5000,
                busy_per_mille: 200,
                spurious_wake_per_mille: 100,
                loss_notice_ticks_max: Some(3000),
                fence_off: false,
            },
            ..calm
        }
    }

    /// Sets whether receivers read in the sender's log.
    #[must_use]
    pub fn reading_in_place(mut self, reads_in_place: bool) -> Self {
        self.attributes.reads_in_place = reads_in_place;
        self
    }

    /// Makes frames distant, from `bytes_min` payload bytes on.
    #[must_use]
    pub fn distant_from(mut self, bytes_min: usize) -> Self {
        self.distant_bytes_min = Some(bytes_min);
        self.attributes.attached_bytes_max = bytes_min - 1;
        self
    }

    /// Whether a frame with this payload arrives distant.
    fn is_distant(&self, payload_bytes: usize) -> bool {
        self.distant_bytes_min
            .is_some_and(|bytes_min| payload_bytes >= bytes_min.max(1))
    }
}

/// The simulated network of one job. Clones are handles to the same network.
#[derive(Clone, Debug)]
pub struct Network {
    state: Rc<RefCell<NetworkState>>,
}

impl Network {
    /// A network without ranks.
    pub fn new(options: Options) -> Self {
        Self {
            state: Rc::new(RefCell::new(NetworkState::new(options))),
        }
    }

    /// Starts a rank: its endpoint, and an arena of `log_bytes` for its log.
    ///
    /// # Panics
    /// When the rank had this incarnation or a higher one before.
    pub fn start(
        &self,
        rank: Rank,
        incarnation: Incarnation,
        log_bytes: usize,
    ) -> (SimFabric, Arena) {
        let arena = Arena::heap(log_bytes);
        let fabric = self.start_in(rank, incarnation, arena.region().clone());
        (fabric, arena)
    }

    /// Starts a rank whose log is in this memory.
    ///
    /// # Panics
    /// As [`Network::start`].
    pub fn start_in(&self, rank: Rank, incarnation: Incarnation, region: Region) -> SimFabric {
        let life = Life::new(rank, incarnation);
        self.state().start(life);
        SimFabric::new(self.clone(), life, region)
    }

    fn state(&self) -> RefMut<'_, NetworkState> {
        self.state.borrow_mut()
    }

    /// Kills the newest life of a rank. Its endpoint has no effect any more.
    pub fn kill(&self, rank: Rank) {
        let mut state = self.state();
        if let Some(life) = state.newest(rank) {
            state.kill(life);
        }
    }

    /// Kills a life of a rank, which need not be its newest.
    pub fn kill_life(&self, rank: Rank, incarnation: Incarnation) {
        self.state().kill(Life::new(rank, incarnation));
    }

    /// Advances to the next tick at which a delivery is due, and delivers. Returns false if nothing
    /// is in flight.
    pub fn step(&self) -> bool {
        self.state().step()
    }

    /// Advances time and makes the deliveries that are due.
    pub fn advance(&self, ticks: u64) {
        self.state().advance(ticks);
    }

    /// Ticks since the beginning.
    pub fn now(&self) -> u64 {
        self.state().now()
    }

    /// Puts bytes on the lane from one rank's newest life to another's, behind the frames that were
    /// posted there. Returns false if there is no such lane.
    pub fn inject(&self, from: Rank, to: Rank, lane: LaneKind, bytes: &[u8]) -> bool {
        self.state().inject(from, to, lane, bytes)
    }

    /// The frame that was posted last in the network: encoded header and payload.
    pub fn last_posted(&self) -> Option<Rc<[u8]>> {
        self.state().last_posted.clone()
    }

    /// A hash of all events so far and their ticks.
    pub fn digest(&self) -> u64 {
        self.state().trace.digest()
    }

    /// All events so far with their ticks, if the options keep them.
    pub fn events(&self) -> Vec<(u64, Event)> {
        self.state().trace.events().to_vec()
    }
}
