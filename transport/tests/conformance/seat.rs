//! A [`Seat`]: one rank's endpoint, and a replacement for its engine.

use super::Endpoint;
use super::inbox::{Inbox, Kept};
use super::pattern::Name;
use refrain_ring::read_back::DiskChunks;
use refrain_ring::resend::{Lane, Resend, Resent};
use refrain_ring::{
    CHUNK_BYTES, ChannelLog, Frame, Frontier, Position, Rank, RecordHeader, Ssn, record_bytes,
};
use refrain_transport::fabric::{FabricError, RELEASED_WHOLLY, Refusal};
use refrain_transport::gate::{Gate, Pass};
use std::collections::BTreeMap;

/// Number of consecutive refusals after which a lane counts as full: more than chance produces.
pub const REFUSALS_MAX: usize = 200;

pub fn pass() -> Pass {
    Gate::default().pass_unseen()
}

/// The messages from one rank to another.
#[derive(Debug)]
pub struct Outbox {
    pub log: ChannelLog,
    pub frames: u64,
    pub controls: u64,
    /// A frame that was packed and refused so far.
    pub waiting: Option<Frame>,
    /// The position of each frame in a log that is kept for later lives.
    pub kept: Option<Vec<Position>>,
    /// The log that is sent again: the reader of its frames, and a frame that was refused.
    again: Option<(Resend, Option<Frame>)>,
    released: Position,
}

/// Number of chunks of a kept log: more than any window holds.
const KEPT_CHUNKS: u64 = 12;

/// The disk of ranks without one.
struct NoDisk;

impl DiskChunks for NoDisk {
    fn find(&self, _from: &Frontier) -> Option<u64> {
        None
    }

    fn begin_read(&mut self, _sequence: u64) -> Option<u64> {
        None
    }
}

/// One rank: its endpoint, and a replacement for its engine. The fabric is dropped before the
/// memory that it may write to.
#[derive(Debug)]
pub struct Seat {
    pub endpoint: Endpoint,
    pub inbox: Inbox,
    pub errors: Vec<FabricError>,
    pub outboxes: BTreeMap<Rank, Outbox>,
}

impl Seat {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            inbox: Inbox::new(endpoint.rank),
            endpoint,
            errors: Vec::new(),
            outboxes: BTreeMap::new(),
        }
    }

    pub fn outbox(&mut self, to: Rank) -> &mut Outbox {
        let endpoint = &self.endpoint;
        self.outboxes.entry(to).or_insert_with(|| Outbox {
            log: ChannelLog::new(
                endpoint.rank,
                endpoint.incarnation,
                to,
                endpoint.window_bytes,
            ),
            frames: 0,
            controls: 0,
            waiting: None,
            kept: None,
            again: None,
            released: Position(0),
        })
    }

    /// Keeps the log to `to`, which is empty, for later lives.
    pub fn keep_log(&mut self, to: Rank) {
        let (rank, incarnation) = (self.endpoint.rank, self.endpoint.incarnation);
        let window_bytes = KEPT_CHUNKS * CHUNK_BYTES as u64;
        let outbox = self.outbox(to);
        outbox.log = ChannelLog::new(rank, incarnation, to, window_bytes);
        outbox.kept = Some(Vec::new());
    }

    /// Sends kept frames again from frame `from` on, to a life of `to` that has just been
    /// connected. REC-3
    pub fn send_again(&mut self, to: Rank, from: u64) {
        let outbox = self.outbox(to);
        outbox.again = Some((Resend::new(&outbox.log, Ssn(from).into()), None));
    }

    /// Sends one more kept frame; `None` when all published frames are sent.
    pub fn post_again(&mut self, to: Rank) -> Option<bool> {
        let released = self.endpoint.fabric.released(to);
        let outbox = self.outboxes.get_mut(&to)?;
        let (resend, refused) = outbox.again.as_mut()?;
        let frame = match refused.take() {
            Some(frame) => frame,
            None => {
                let posted = outbox.waiting.map_or(outbox.log.tail(), |it| it.position);
                let lane = Lane {
                    log: &outbox.log,
                    arena: &mut self.endpoint.arena,
                    posted,
                    horizon: &Frontier::default(),
                    released,
                };
                match resend.step(lane, &mut NoDisk).expect("all is in memory") {
                    Resent::Frame(frame) => frame,
                    Resent::Waiting => unreachable!("nothing is on disk"),
                    Resent::End => {
                        outbox.again = None;
                        return None;
                    }
                }
            }
        };
        match self.endpoint.fabric.post(pass(), to, &frame) {
            Ok(()) => Some(true),
            Err(Refusal::Busy) => {
                *refused = Some(frame);
                Some(false)
            }
            Err(refusal) => panic!("a post to a connected peer: {refusal}"),
        }
    }

    /// Sends frames to a new life of `to` from now on.
    pub fn begin_anew(&mut self, to: Rank) {
        if let Some(outbox) = self.outboxes.get_mut(&to).filter(|it| it.kept.is_some()) {
            outbox.controls = 0;
            outbox.released = Position(0);
            outbox.again = None;
        } else if let Some(outbox) = self.outboxes.remove(&to) {
            // The old log is not read any more.
            let mut log = outbox.log;
            let tail = log.tail();
            log.trim_released(&mut self.endpoint.arena, tail);
        }
    }

    /// Packs a frame for `to`, if the log has room. It is posted next.
    fn pack(&mut self, to: Rank, payload_bytes: usize) -> bool {
        self.trim(to);
        let (source, incarnation) = (self.endpoint.rank, self.endpoint.incarnation);
        self.outbox(to);
        let outbox = self.outboxes.get_mut(&to).expect("just made");
        let arena = &mut self.endpoint.arena;
        let name = Name {
            source,
            incarnation,
            destination: to,
            number: outbox.frames,
        };
        let header = name.header(payload_bytes);
        let fill = |payload: &mut [u8]| name.fill(payload);
        let Ok(frame) = (outbox.log).append(arena, payload_bytes, true, header, fill) else {
            return false;
        };
        outbox
            .kept
            .iter_mut()
            .for_each(|kept| kept.push(frame.position));
        outbox.waiting = Some(frame);
        outbox.frames += 1;
        true
    }

    /// Frees what is released; `released` never goes back.
    fn trim(&mut self, to: Rank) {
        let released = self.endpoint.fabric.released(to);
        let outbox = self.outbox(to);
        if released == RELEASED_WHOLLY || outbox.kept.is_some() {
            return;
        }
        assert!(
            released >= outbox.released,
            "released went back from {} to {released}",
            outbox.released
        );
        assert!(
            released <= outbox.log.tail(),
            "released {released} is beyond the tail {}",
            outbox.log.tail()
        );
        outbox.released = released;
        let outbox = self.outboxes.get_mut(&to).expect("just made");
        outbox.log.trim_released(&mut self.endpoint.arena, released);
    }

    /// Gives back the chunk that the log fills, if all is released. Returns whether the log holds no
    /// memory any more.
    pub fn leave_chunk(&mut self, to: Rank) -> bool {
        self.trim(to);
        let Endpoint { fabric, arena, .. } = &mut self.endpoint;
        let log = &mut self.outboxes.get_mut(&to).expect("it has sent").log;
        if fabric.released(to) >= log.tail()
            && let Some(link) = log.rest(arena, None)
            && fabric.leave_chunk(arena.region(), to, &link)
        {
            log.trim_released(arena, log.tail());
        }
        self.trim(to);
        self.outbox(to).log.held_bytes() == 0
    }

    /// Posts the waiting frame, if any. Returns whether no frame waits any more.
    pub fn post_waiting(&mut self, to: Rank) -> bool {
        while let Some(is_taken) = self.post_again(to) {
            if !is_taken {
                return false;
            }
        }
        let Some(frame) = self.outbox(to).waiting else {
            return true;
        };
        match self.endpoint.fabric.post(pass(), to, &frame) {
            Ok(()) => {
                self.outbox(to).waiting = None;
                true
            }
            Err(Refusal::Busy) => false,
            Err(refusal) => panic!("a post to a connected peer: {refusal}"),
        }
    }

    /// Tries to send one frame; returns false if log or lane is full. A frame that was packed and
    /// refused counts as sent only when it is posted.
    pub fn try_send(&mut self, to: Rank, payload_bytes: usize) -> bool {
        self.post_waiting(to) && self.pack(to, payload_bytes) && {
            self.post_waiting(to);
            true
        }
    }

    /// Packs a frame and publishes it, as for a receiver that is gone.
    pub fn publish_alone(&mut self, to: Rank, payload_bytes: usize) {
        assert!(self.pack(to, payload_bytes), "a log that is kept has room");
        let waiting = self.outbox(to).waiting.take();
        let region = self.endpoint.arena.region().clone();
        waiting.expect("just packed").publish(&region);
    }

    /// Appends and posts a given record.
    pub fn post_record(
        &mut self,
        log: &mut ChannelLog,
        to: Rank,
        payload_bytes: usize,
        header: RecordHeader,
    ) -> bool {
        let arena = &mut self.endpoint.arena;
        let frame = log
            .append(arena, payload_bytes, true, header, |_| {})
            .expect("an empty log has room");
        (0..REFUSALS_MAX).any(|_| {
            let is_posted = self.endpoint.fabric.post(pass(), to, &frame).is_ok();
            if !is_posted {
                self.poll();
            }
            is_posted
        })
    }

    /// Tries to send one control frame; returns false if the lane is full.
    pub fn try_control(&mut self, to: Rank) -> bool {
        let (source, incarnation) = (self.endpoint.rank, self.endpoint.incarnation);
        let name = Name {
            source,
            incarnation,
            destination: to,
            number: self.outbox(to).controls,
        };
        match self
            .endpoint
            .fabric
            .post_control(pass(), to, name.control())
        {
            Ok(()) => {
                self.outbox(to).controls += 1;
                true
            }
            Err(Refusal::Busy) => false,
            Err(refusal) => panic!("a control frame to a connected peer: {refusal}"),
        }
    }

    /// A packed frame that belongs to no lane.
    pub fn spare_frame(&mut self) -> Frame {
        let endpoint = &mut self.endpoint;
        let (rank, incarnation) = (endpoint.rank, endpoint.incarnation);
        let mut log = ChannelLog::new(rank, incarnation, Rank(9), endpoint.window_bytes);
        let number = 0;
        let name = Name {
            source: rank,
            incarnation,
            destination: Rank(9),
            number,
        };
        log.append(&mut endpoint.arena, 0, true, name.header(0), |_| {})
            .expect("an empty log has room")
    }

    /// Sends an empty frame, and writes bytes into the log where the frame
    /// behind it would begin.
    pub fn send_with_garbage_behind(&mut self, to: Rank, bytes: &[u8]) -> bool {
        if !self.post_waiting(to) || !self.pack(to, 0) {
            return false;
        }
        let frame = self.outbox(to).waiting.expect("just packed");
        let behind = frame.offset + record_bytes(0);
        let is_sent = self.post_waiting(to);
        let region = self.endpoint.arena.region();
        // The first word is written last: it is the word that the reader polls.
        for (index, word) in bytes.chunks(8).enumerate().rev() {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            region.store_word(behind + index * 8, u64::from_le_bytes(padded));
        }
        is_sent
    }

    pub fn poll(&mut self) -> usize {
        let before = self.inbox.calls;
        match self.endpoint.fabric.poll(&mut self.inbox) {
            Ok(calls) => {
                let made = self.inbox.calls - before;
                assert_eq!(calls, made, "poll counts its calls to the sink");
                calls
            }
            Err(error) => {
                self.errors.push(error);
                1
            }
        }
    }

    /// Verifies all kept frames where they lie, and all that landed.
    pub fn verify_kept(&self) {
        for kept in self.inbox.kept.iter().filter(|kept| !kept.distant) {
            self.verify_in_place(kept);
        }
        self.inbox.landings.verify_ended();
    }

    fn verify_in_place(&self, kept: &Kept) {
        let payload = self.endpoint.fabric.kept(kept.place, kept.payload_bytes);
        assert!(
            payload.len() == kept.payload_bytes && kept.name.is_filled(payload),
            "{:?} changed while it was kept",
            kept.name
        );
    }

    /// Lets the kept frame at `index` go after a last check. Every second distant frame is fetched:
    /// that lets it go when it has landed.
    pub fn let_go(&mut self, index: usize) {
        let kept = self.inbox.kept[index];
        if kept.distant && kept.name.number.is_multiple_of(2) {
            return self.fetch(index);
        }
        self.inbox.kept.remove(index);
        if !kept.distant {
            self.verify_in_place(&kept);
        }
        self.endpoint.fabric.let_go(kept.place);
    }

    /// Fetches the kept distant frame at `index`.
    pub fn fetch(&mut self, index: usize) {
        let kept = self.inbox.kept.remove(index);
        assert!(kept.distant, "{:?} is here", kept.name);
        let landing = self.inbox.landings.lend(kept.name, kept.payload_bytes);
        self.endpoint.fabric.fetch(kept.place, landing);
    }
}
