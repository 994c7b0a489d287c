//! Lanes that begin again, in the middle of a log: peers that come back. REC-3

use super::rig::{Rig, connect};
use super::seat::Seat;
use super::{Harness, Outcome};
use refrain_ring::{CHUNK_BYTES, Incarnation, Position, Rank};
use refrain_transport::fabric::{FabricError, RELEASED_WHOLLY};

/// Frames that fill some chunks, if the fabric takes long ones.
const FRAMES: u64 = 120;

impl Rig<'_> {
    /// The payload of frames of several lengths: some go inline, some are distant.
    fn bytes_of(&self, number: u64) -> usize {
        let attributes = self.seats[0].endpoint.fabric.attributes();
        let bytes_max = attributes.frame_payload_bytes_max.min(16_000);
        [0, 8, 300, 3000, bytes_max, bytes_max][number as usize % 6]
    }

    /// Sends `frames` frames of all lengths.
    fn send_some(&mut self, from: usize, to: u32, frames: u64) {
        for _ in 0..frames {
            let bytes = self.bytes_of(self.sent_or_waiting(from, to));
            self.send(from, to, bytes);
        }
    }

    fn sent_or_waiting(&self, from: usize, to: u32) -> u64 {
        self.seats[from].outboxes[&Rank(to)].frames
    }

    /// The position of a kept frame in its log.
    fn position_of(&self, from: usize, to: u32, number: u64) -> Position {
        let kept = self.seats[from].outboxes[&Rank(to)].kept.as_ref();
        kept.expect("its log is kept")[number as usize]
    }

    /// Frames that arrived before the first frame that `to` misses had to be readable: the fabric
    /// reads logs in place, and they lie in that frame's chunk.
    fn verify_before(&self, from: usize, to: u32, begin: u64) {
        let before = self.seats[to as usize].inbox.before.get(&Rank(from as u32));
        let Some(first) = before.and_then(|before| before.first()) else {
            return;
        };
        let attributes = self.seats[from].endpoint.fabric.attributes_to(Rank(to));
        assert!(
            attributes.reads_in_place,
            "frames came that were not posted"
        );
        let chunk = |number| self.position_of(from, to, number).0 / CHUNK_BYTES as u64;
        assert_eq!(
            chunk(*first),
            chunk(begin),
            "frames of an earlier chunk came"
        );
    }

    /// Verifies that each rank has all frames that every other rank has sent in this life.
    fn verify_all_has_come(&mut self) {
        for from in 0..self.seats.len() {
            let incarnation = self.seats[from].endpoint.incarnation.0;
            for to in (0..self.seats.len()).filter(|to| *to != from) {
                let sent = self.sent(from, to as u32);
                let inbox = &self.seats[to].inbox;
                assert_eq!(inbox.frames(Rank(from as u32), incarnation), sent);
                let outbox = self.seats[from].outbox(Rank(to as u32));
                let controls = outbox.controls;
                let inbox = &self.seats[to].inbox;
                assert_eq!(inbox.controls(Rank(from as u32), incarnation), controls);
            }
        }
    }
}

/// *Where a lane begins*: with any record of the log, also in the middle of a chunk, in the first
/// or the last one, or behind all records; it continues from there.
pub fn check_lane_begins_in_the_middle(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 2);
    rig.keep_logs();
    rig.send_some(0, 1, FRAMES);
    rig.flush();
    let begins = [FRAMES / 2, 0, FRAMES - 1, FRAMES, 3, FRAMES - 20];
    for (life, begin) in (1..).zip(begins) {
        rig.revive(1, life, &[begin, 0]);
        for _ in 0..3 {
            rig.drive();
        }
        assert_eq!(rig.seats[1].inbox.calls, 0, "nothing is posted yet");
        rig.flush();
        rig.verify_before(0, 1, begin);
        rig.verify_all_has_come();
        for _ in 0..5 {
            rig.send_some(0, 1, 1);
            rig.send_some(1, 0, 1);
            rig.control(0, 1);
            rig.control(1, 0);
        }
        rig.flush();
        rig.verify_all_has_come();
        rig.until_released(0, 1);
        rig.until_released(1, 0);
    }
    rig.finish();
    Outcome::Holds
}

/// *Sending*: everything is released for a peer that is not connected. After it has come back,
/// nothing from its first frame on is released before the peer has taken it.
pub fn check_released_of_a_peer_that_is_gone(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 2);
    rig.keep_logs();
    rig.send_some(0, 1, FRAMES);
    rig.flush();
    rig.until_released(0, 1);
    let fresh = rig.harness.restart(Rank(1), Incarnation(1));
    let mut fresh = Seat::new(fresh);
    let fabric = &mut fresh.endpoint.fabric;
    assert_eq!(fabric.released(Rank(0)), RELEASED_WHOLLY, "never connected");
    let fabric = &mut rig.seats[0].endpoint.fabric;
    fabric.disconnect(Rank(1));
    assert_eq!(fabric.released(Rank(1)), RELEASED_WHOLLY, "disconnected");
    let begin = FRAMES - 10;
    rig.revive(1, 2, &[begin, 0]);
    let first = rig.position_of(0, 1, begin);
    let released = rig.seats[0].endpoint.fabric.released(Rank(1));
    assert!(released <= first, "{released} is released, nothing posted");
    rig.until("the first frame is posted", |rig| {
        rig.seats[0].post_again(Rank(1)) == Some(true)
    });
    rig.flush();
    rig.verify_all_has_come();
    rig.until_released(0, 1);
    rig.finish();
    Outcome::Holds
}

/// *Where a lane begins*: frames that were published while the peer was gone, and never posted, are
/// found behind those that were posted to the earlier life.
pub fn check_published_while_gone_comes_later(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 2);
    rig.keep_logs();
    rig.send_some(0, 1, FRAMES / 2);
    rig.flush();
    rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    for _ in 0..FRAMES / 2 {
        let bytes = rig.bytes_of(rig.sent_or_waiting(0, 1));
        rig.seats[0].publish_alone(Rank(1), bytes);
    }
    for (life, begin) in [(1, FRAMES / 2 - 5), (2, FRAMES / 2 + 5)] {
        rig.revive(1, life, &[begin, 0]);
        rig.flush();
        rig.verify_before(0, 1, begin);
        rig.verify_all_has_come();
    }
    rig.finish();
    Outcome::Holds
}

/// *Receiving*, *Sending*: kept frames hold the log on a lane that began in the middle, as on any
/// other lane.
pub fn check_kept_frames_hold_a_lane_that_began_again(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 2);
    rig.keep_logs();
    rig.send_some(0, 1, FRAMES);
    rig.flush();
    let begin = FRAMES / 2;
    rig.revive(1, 1, &[begin, 0]);
    rig.seats[1].inbox.keeps = true;
    let to_come = FRAMES - begin;
    rig.until("some frames come", |rig| {
        rig.seats[0].post_waiting(Rank(1));
        rig.seats[1].inbox.kept.len() as u64 >= to_come.min(8)
    });
    rig.seats[1].inbox.keeps = false;
    rig.flush();
    rig.seats[1].verify_kept();
    let holds = |kept: &super::inbox::Kept, in_place| kept.distant || in_place;
    let attributes = rig.seats[0].endpoint.fabric.attributes_to(Rank(1));
    let in_place = attributes.reads_in_place;
    let mut kept = rig.seats[1].inbox.kept.iter();
    let held = kept.find(|kept| holds(kept, in_place));
    if let Some(number) = held.map(|kept| kept.name.number) {
        let held = rig.position_of(0, 1, number);
        let released = rig.seats[0].endpoint.fabric.released(Rank(1));
        assert!(released <= held, "{released} is released, {held} is kept");
    }
    while !rig.seats[1].inbox.kept.is_empty() {
        rig.seats[1].let_go(0);
    }
    rig.until_released(0, 1);
    rig.verify_all_has_come();
    rig.finish();
    Outcome::Holds
}

/// *Where a lane begins*: both lanes of a pair begin anew, whichever side died:
/// the survivor sends its old log again, the new life a new one.
pub fn check_both_sides_begin_again(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 3);
    rig.keep_logs();
    for (life, dies) in [(1, 1), (1, 0), (2, 1), (1, 2), (2, 0)] {
        for from in 0..3 {
            for to in (0..3).filter(|to| *to != from as u32) {
                rig.send_some(from, to, 20);
                rig.control(from, to);
            }
        }
        rig.flush();
        rig.verify_all_has_come();
        let sent = |rig: &mut Rig<'_>, from| match from == dies {
            true => 0,
            false => rig.sent(from, dies as u32),
        };
        let begins = [0, 1, 2].map(|from| sent(&mut rig, from) / (from as u64 + 1));
        rig.revive(dies, life, &begins);
        // A control lane has the same room as before, and not more.
        rig.fill_control((dies + 1) % 3, dies as u32);
        rig.flush();
        rig.verify_all_has_come();
    }
    rig.finish();
    Outcome::Holds
}

/// *Death*: any number of lives, each killed while frames of both sides are under way, some before
/// any frame has arrived at them.
pub fn check_lives_in_a_row(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 3);
    rig.keep_logs();
    for life in 1..=6 {
        for round in 0..20 {
            let bytes = rig.bytes_of(round);
            for (from, to) in [(0, 1), (1, 0), (2, 1), (1, 2), (0, 2)] {
                rig.seats[from].try_send(Rank(to), bytes);
                rig.seats[from].try_control(Rank(to));
            }
            if round < 3 * u64::from(life) {
                rig.drive();
            }
        }
        let begins = [rig.sent(0, 1) * 2 / 3, 0, rig.sent(2, 1) / 3];
        rig.revive(1, life, &begins);
    }
    rig.flush();
    for (from, to) in [(0, 1), (1, 0), (2, 1), (1, 2)] {
        rig.send_some(from, to, 5);
        rig.control(from, to);
    }
    rig.flush();
    rig.verify_all_has_come();
    rig.finish();
    Outcome::Holds
}

/// FENCE-1: a life that has connected before its peer knows of it gets no frame that was for the
/// earlier life. Frames that it posts meanwhile arrive when it is known.
pub fn check_early_life_gets_nothing_of_the_old(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 2);
    rig.keep_logs();
    rig.send_some(0, 1, 30);
    rig.control(0, 1);
    rig.flush();
    let mut fresh = Seat::new(rig.harness.restart(Rank(1), Incarnation(1)));
    fresh.keep_log(Rank(0));
    connect(&mut fresh.endpoint, &rig.seats[0].endpoint);
    for _ in 0..5 {
        rig.seats[0].try_send(Rank(1), 100);
        rig.seats[0].try_control(Rank(1));
        fresh.try_send(Rank(0), 100);
        fresh.try_control(Rank(0));
    }
    for _ in 0..3 {
        fresh.poll();
        rig.settle();
    }
    assert_eq!(fresh.inbox.calls, 0, "FENCE-1: it got what was not for it");
    let old = core::mem::replace(&mut rig.seats[1], fresh);
    rig.harness.kill(old.endpoint);
    rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    let [zero, one] = &mut rig.seats[..] else {
        unreachable!("two ranks");
    };
    connect(&mut zero.endpoint, &one.endpoint);
    zero.begin_anew(Rank(1));
    rig.begin_again(0, 1, 20);
    rig.control(0, 1);
    rig.flush();
    rig.verify_all_has_come();
    rig.until_released(0, 1);
    rig.until_released(1, 0);
    rig.finish();
    Outcome::Holds
}

/// *Death*: kept frames and landings of an earlier life neither hold nor end those of the next
/// life, which lie in the same places.
pub fn check_kept_of_an_earlier_life(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 2);
    rig.keep_logs();
    for life in 1..4 {
        rig.seats[0].inbox.keeps = true;
        rig.send_some(1, 0, 12);
        rig.flush();
        rig.seats[0].verify_kept();
        let mut old = core::mem::take(&mut rig.seats[0].inbox.kept);
        // Some landings are in progress when their sender dies.
        if let Some(distant) = old.iter().position(|kept| kept.distant) {
            rig.seats[0].inbox.kept.push(old.remove(distant));
            rig.seats[0].fetch(0);
        }
        let begin = rig.sent(0, 1);
        rig.revive(1, life, &[begin, 0]);
        rig.send_some(1, 0, 12);
        rig.flush();
        for kept in old {
            rig.seats[0].endpoint.fabric.let_go(kept.place);
        }
        rig.flush();
        assert_eq!(rig.seats[0].inbox.kept.len(), 12);
        rig.seats[0].verify_kept();
        while !rig.seats[0].inbox.kept.is_empty() {
            rig.seats[0].let_go(0);
        }
        rig.seats[0].inbox.keeps = false;
        rig.until_released(1, 0);
        rig.verify_all_has_come();
    }
    rig.finish();
    Outcome::Holds
}

/// [`Fabric::connect`]: an incarnation that is connected, or a lower one, is refused without
/// effect.
pub fn check_connected_incarnation_is_refused(h: &mut dyn Harness) -> Outcome {
    if let Some(why) = h.cannot_begin_again() {
        return Outcome::Skipped(why);
    }
    let mut rig = Rig::new(h, 2);
    rig.keep_logs();
    rig.revive(1, 3, &[0, 0]);
    rig.send_some(0, 1, 10);
    rig.send_some(1, 0, 10);
    rig.flush();
    let address = rig.seats[1].endpoint.fabric.address();
    for incarnation in [3, 2, 0] {
        let fabric = &mut rig.seats[0].endpoint.fabric;
        let refused = fabric.connect(Rank(1), Incarnation(incarnation), &address);
        assert!(
            matches!(refused, Err(FabricError::Attach { peer: Rank(1), .. })),
            "incarnation {incarnation} beside 3 gave {refused:?}"
        );
    }
    for _ in 0..5 {
        rig.send_some(0, 1, 1);
        rig.send_some(1, 0, 1);
        rig.control(0, 1);
        rig.control(1, 0);
    }
    rig.flush();
    rig.verify_all_has_come();
    rig.finish();
    Outcome::Holds
}
