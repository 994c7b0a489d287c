//! One rank: its fabric, and a replacement for its engine.

use crate::inbox::Inbox;
use crate::name::Name;
use crate::setting::{Setting, WINDOW_BYTES};
use refrain_ring::{Arena, ChannelLog, Frame, Incarnation, Position, Rank};
use refrain_transport::fabric::ofi::Ofi;
use refrain_transport::fabric::{Address, Fabric, Refusal};
use refrain_transport::gate::Gate;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum time for anything that must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of calls to the sink in one poll: the arrivals that the provider hands out at
/// once, and landings and losses.
const CALLS_MAX: usize = 600;
/// Maximum number of kept frames.
const KEPT_MAX: usize = 6;
/// Number of frames from one control frame to the next.
const FRAMES_PER_CONTROL: u64 = 3;

/// The frames to one peer.
pub struct Flow {
    log: ChannelLog,
    to_incarnation: Incarnation,
    pub frames: u64,
    pub controls: u64,
    /// Number of frames to be sent.
    pub goal: u64,
    waiting: Option<Frame>,
    pub released: Position,
}

impl Flow {
    /// Whether all frames to be sent were posted.
    pub fn is_done(&self) -> bool {
        self.waiting.is_none()
            && self.frames >= self.goal
            && self.controls >= self.goal / FRAMES_PER_CONTROL
    }

    /// Whether the peer has taken and let go all frames.
    pub fn is_released(&self) -> bool {
        self.is_done() && self.released == self.log.tail()
    }
}

/// The fabric is dropped before the memory that it may write to.
pub struct Station {
    pub fabric: Ofi,
    pub inbox: Inbox,
    pub flows: BTreeMap<Rank, Flow>,
    arena: Arena,
    rank: Rank,
    incarnation: Incarnation,
    sizes: Vec<usize>,
}

impl Station {
    pub fn open(setting: &Setting, rank: Rank, incarnation: Incarnation) -> Self {
        let arena = Arena::heap(4 * WINDOW_BYTES as usize);
        let options = setting.options(rank, incarnation);
        let fabric = Ofi::create(options, arena.region()).expect("the provider works here");
        let longest = fabric.attributes().frame_payload_bytes_max;
        let sizes: Vec<usize> = setting
            .sizes
            .iter()
            .map(|size| *size.min(&longest))
            .collect();
        Self {
            inbox: Inbox::new(rank, incarnation, sizes.clone()),
            fabric,
            flows: BTreeMap::new(),
            arena,
            rank,
            incarnation,
            sizes,
        }
    }

    pub fn address(&self) -> Vec<u8> {
        self.fabric.address().bytes
    }

    /// Connects a peer. Nothing is sent to it before its goal is set.
    pub fn connect(&mut self, peer: Rank, incarnation: Incarnation, address: &[u8]) {
        let address = Address {
            bytes: address.to_vec(),
            memory: None,
        };
        let connected = self.fabric.connect(peer, incarnation, &address);
        connected.expect("the address is good");
        self.inbox.connected(peer, incarnation);
        let log = ChannelLog::new(self.rank, self.incarnation, peer, WINDOW_BYTES);
        let flow = Flow {
            log,
            to_incarnation: incarnation,
            frames: 0,
            controls: 0,
            goal: 0,
            waiting: None,
            released: Position(0),
        };
        self.flows.insert(peer, flow);
    }

    /// Fences a peer, and frees its log at once. Its kept frames are gone: letting them go or
    /// fetching them has no effect.
    pub fn disconnect(&mut self, peer: Rank) {
        self.inbox.lives.remove(&peer);
        self.fabric.disconnect(peer);
        if let Some(mut flow) = self.flows.remove(&peer) {
            let tail = flow.log.tail();
            flow.log.trim_released(&mut self.arena, tail);
        }
        let (gone, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut self.inbox.kept)
            .into_iter()
            .partition(|kept| kept.place.source == peer);
        self.inbox.kept = kept.into();
        self.end_keeping(gone);
    }

    fn end_keeping(&mut self, kept: Vec<crate::inbox::Kept>) {
        for kept in kept {
            if kept.is_distant && kept.name.number.is_multiple_of(2) {
                let landing = self.inbox.lend(kept.name, kept.payload_bytes);
                self.fabric.fetch(kept.place, landing);
                continue;
            }
            if !kept.is_distant && self.inbox.lives.contains_key(&kept.place.source) {
                let payload = self.fabric.kept(kept.place, kept.payload_bytes);
                let is_there = payload.len() == kept.payload_bytes && kept.name.is_filled(payload);
                assert!(is_there, "{:?} changed while it was kept", kept.name);
            }
            self.fabric.let_go(kept.place);
        }
    }

    /// Posts what can be posted, and polls once. Returns true if anything moved.
    pub fn turn(&mut self) -> bool {
        let mut moved = false;
        let peers: Vec<Rank> = self.flows.keys().copied().collect();
        for peer in peers {
            moved |= self.send(peer);
        }
        let before = self.inbox.calls;
        let calls = self
            .fabric
            .poll(&mut self.inbox)
            .expect("no rule was broken");
        assert_eq!(calls, self.inbox.calls - before, "poll counts its calls");
        self.inbox.verify_losses();
        assert!(calls <= CALLS_MAX, "{calls} calls in one poll");
        let keeps = if calls == 0 || core::mem::take(&mut self.inbox.is_pressed) {
            0
        } else {
            KEPT_MAX
        };
        if self.inbox.kept.len() > keeps {
            let excess = self.inbox.kept.len() - keeps;
            let gone = self.inbox.kept.drain(..excess).collect();
            self.end_keeping(gone);
        }
        moved || calls > 0
    }

    /// Takes a turn; if nothing moved, sleeps until something arrives.
    pub fn turn_or_wait(&mut self) {
        if !self.turn() {
            self.fabric.wait(Duration::from_millis(1));
        }
    }

    fn send(&mut self, peer: Rank) -> bool {
        let released = self.fabric.released(peer);
        let flow = self.flows.get_mut(&peer).expect("connected");
        assert!(released >= flow.released, "released went back");
        assert!(released <= flow.log.tail(), "released beyond the tail");
        flow.released = released;
        flow.log.trim_released(&mut self.arena, released);
        let mut moved = false;
        for _ in 0..8 {
            moved |= self.send_control(peer);
            if !self.pack(peer) {
                break;
            }
            let flow = self.flows.get_mut(&peer).expect("connected");
            let frame = flow.waiting.expect("packed");
            match self
                .fabric
                .post(Gate::default().pass_unseen(), peer, &frame)
            {
                Ok(()) => flow.waiting = None,
                Err(Refusal::Busy) => break,
                Err(refusal) => panic!("{refusal}"),
            }
            moved = true;
        }
        moved
    }

    /// Packs a frame if none waits. Returns whether a frame waits to be posted.
    fn pack(&mut self, peer: Rank) -> bool {
        let flow = self.flows.get_mut(&peer).expect("connected");
        if flow.waiting.is_some() {
            return true;
        }
        if flow.frames >= flow.goal {
            return false;
        }
        let name = Name {
            source: self.rank,
            incarnation: self.incarnation,
            destination: peer,
            to_incarnation: flow.to_incarnation,
            number: flow.frames,
        };
        let bytes = name.payload_bytes(&self.sizes);
        let (arena, header) = (&mut self.arena, name.header(bytes));
        let Ok(frame) = (flow.log).append(arena, bytes, true, header, |it| name.fill(it)) else {
            return false;
        };
        flow.waiting = Some(frame);
        flow.frames += 1;
        true
    }

    fn send_control(&mut self, peer: Rank) -> bool {
        let flow = self.flows.get_mut(&peer).expect("connected");
        if flow.controls >= flow.frames / FRAMES_PER_CONTROL {
            return false;
        }
        let name = Name {
            source: self.rank,
            incarnation: self.incarnation,
            destination: peer,
            to_incarnation: flow.to_incarnation,
            number: flow.controls,
        };
        let pass = Gate::default().pass_unseen();
        let is_posted = self.fabric.post_control(pass, peer, name.control()).is_ok();
        flow.controls += u64::from(is_posted);
        is_posted
    }

    /// Takes turns until a condition holds that must hold.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "rank {}: it never is so that {what}; {}",
                self.rank,
                self.state()
            );
            self.turn_or_wait();
        }
    }

    /// Describes the state, for messages about a hanging test.
    pub fn state(&self) -> String {
        let flows = self.flows.iter().map(|(peer, flow)| {
            format!(
                "to {peer}: {} of {} frames, {} controls, released {} of {}",
                flow.frames,
                flow.goal,
                flow.controls,
                flow.released,
                flow.log.tail()
            )
        });
        let flows: Vec<String> = flows.collect();
        format!("{}; {:?}", flows.join("; "), self.inbox.lives)
    }

    pub fn set_goal(&mut self, peer: Rank, goal: u64) {
        self.flows.get_mut(&peer).expect("connected").goal = goal;
    }

    /// Sends no more frames than those packed. Returns their number.
    pub fn stop(&mut self, peer: Rank) -> u64 {
        let flow = self.flows.get_mut(&peer).expect("connected");
        flow.goal = flow.frames;
        flow.goal
    }

    /// Number of control frames that are sent with that many frames.
    pub fn controls_of(frames: u64) -> u64 {
        frames / FRAMES_PER_CONTROL
    }
}
