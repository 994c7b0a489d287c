//! Distant frames: where and when their payload lands, and that each landing
//! ends.

use super::inbox::Inbox;
use super::progress::wait_until;
use super::rig::Rig;
use super::seat::{REFUSALS_MAX, pass};
use super::{Harness, Outcome};
use refrain_ring::{ChannelLog, Position, Rank, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::Landed;

const NONE_DISTANT: Outcome = Outcome::Skipped("none of its frames is distant");

/// Ranks from 0 on, connected, and the payload bytes of a frame that is distant for rank 0; `None`
/// if no frame is.
fn distant_rig(h: &mut dyn Harness, ranks: u32) -> Option<(Rig<'_>, usize)> {
    let mut rig = Rig::new(h, ranks);
    let attributes = rig.seats[0].endpoint.fabric.attributes();
    let longest = attributes
        .frame_payload_bytes_max
        .min(ChannelLog::PAYLOAD_BYTES_MAX);
    for bytes in [4096, 16 << 10, 64 << 10, longest].map(|bytes| bytes.min(longest)) {
        rig.seats[0].inbox.keeps = true;
        rig.send(1, 0, bytes);
        rig.flush();
        rig.until_kept(1);
        rig.seats[0].inbox.keeps = false;
        let distant = rig.seats[0].inbox.kept[0].distant;
        let place = rig.seats[0].inbox.kept.remove(0).place;
        rig.seats[0].endpoint.fabric.let_go(place);
        rig.flush();
        if distant {
            return Some((rig, bytes));
        }
    }
    None
}

impl Rig<'_> {
    /// `frames` frames arrive from a rank at rank 0 and are kept there.
    fn keep(&mut self, from: usize, bytes: usize, frames: usize) {
        let kept = self.seats[0].inbox.kept.len() + frames;
        self.seats[0].inbox.keeps = true;
        for _ in 0..frames {
            self.send(from, 0, bytes);
        }
        self.flush();
        self.until_kept(kept);
        self.seats[0].inbox.keeps = false;
    }

    /// Waits until rank 0 has kept that many frames: silence does not show that they have arrived.
    fn until_kept(&mut self, frames: usize) {
        self.until("what is to be kept has come", |rig| {
            rig.seats[0].inbox.kept.len() >= frames
        });
    }

    /// Rank 0 fetches all that it keeps.
    fn fetch_all(&mut self) {
        while !self.seats[0].inbox.kept.is_empty() {
            self.seats[0].fetch(0);
        }
    }

    /// Drives until every landing of rank 0 has ended.
    fn land(&mut self) {
        self.until("every landing ends", |rig| {
            rig.seats[0].inbox.landings.under_way() == 0
        });
    }

    /// The log of rank 1 is not released beyond a distant frame.
    fn assert_held(&mut self, at: Position) {
        let released = self.seats[1].endpoint.fabric.released(Rank(0));
        assert!(
            released <= at,
            "released {released} passed the distant frame at {at}"
        );
    }

    /// Whether rank 1 has nothing more to send.
    fn is_drained(&mut self) -> bool {
        self.seats[1].endpoint.fabric.is_drained()
    }

    /// Frames and control frames that have arrived at rank 0, and at rank 1.
    fn counts(&self) -> [(u64, u64); 2] {
        [(0, Rank(1)), (1, Rank(0))].map(|(at, from)| {
            let inbox: &Inbox = &self.seats[at].inbox;
            (inbox.frames(from, 0), inbox.controls(from, 0))
        })
    }

    /// How the landings of rank 0 ended, from the one with this number on.
    fn ends(&self, first: usize) -> Vec<Option<Landed>> {
        self.seats[0].inbox.landings.ends()[first..].to_vec()
    }
}

fn all_whole(ends: &[Option<Landed>]) -> bool {
    ends.iter().all(|end| *end == Some(Landed::Whole))
}

/// Frames of that length that fit into half of a window.
fn frames_of(rig: &Rig<'_>, bytes: usize) -> usize {
    let window_bytes = rig.seats[0].endpoint.window_bytes as usize;
    (window_bytes / 2 / (bytes + 64)).clamp(1, 12)
}

/// *Distant frames*: frames behind a distant one do not wait for its landing,
/// nor for its own landing to begin.
pub fn check_frames_do_not_wait_for_a_landing(h: &mut dyn Harness) -> Outcome {
    let Some((mut rig, bytes)) = distant_rig(h, 2) else {
        return NONE_DISTANT;
    };
    rig.keep(1, bytes, 1);
    let before = rig.seats[0].inbox.frames(Rank(1), 0);
    for number in 0..40 {
        rig.send(1, 0, number * 3);
    }
    rig.control(1, 0);
    rig.flush();
    let inbox = &rig.seats[0].inbox;
    assert_eq!(
        inbox.frames(Rank(1), 0),
        before + 40,
        "frames wait behind a distant one that is kept"
    );
    assert_eq!(inbox.controls(Rank(1), 0), 1);
    rig.fetch_all();
    rig.land();
    rig.finish();
    Outcome::Holds
}

/// *Distant frames*: each landing ends exactly once and, while both live, whole;
/// in any order, among other frames, fetched at arrival or later.
pub fn check_landings_end_once(h: &mut dyn Harness) -> Outcome {
    let Some((mut rig, bytes)) = distant_rig(h, 3) else {
        return NONE_DISTANT;
    };
    for round in 0..10 {
        let fetched_later = round % 2 == 1;
        rig.seats[0].inbox.keeps = fetched_later;
        for number in 0..frames_of(&rig, bytes) {
            rig.send(1, 0, bytes - number);
            rig.send(2, 0, bytes);
            rig.send(1, 0, number);
        }
        rig.flush();
        rig.seats[0].inbox.keeps = false;
        while let Some(last) = rig.seats[0].inbox.kept.len().checked_sub(1) {
            match rig.seats[0].inbox.kept[last].distant {
                true => rig.seats[0].fetch(last),
                false => rig.seats[0].let_go(last),
            }
        }
        rig.land();
    }
    let ends = rig.ends(0);
    assert!(!ends.is_empty() && all_whole(&ends), "{ends:?}");
    rig.finish();
    Outcome::Holds
}

/// *Sending*, *Distant frames*: `released` does not pass a distant frame before
/// it has landed or was let go; then it advances.
pub fn check_released_stops_at_distant(h: &mut dyn Harness) -> Outcome {
    let Some((mut rig, bytes)) = distant_rig(h, 2) else {
        return NONE_DISTANT;
    };
    for fetched in [true, false, true] {
        rig.keep(1, bytes, 1);
        let kept_at = rig.last_begins_at(1, 0, bytes);
        for _ in 0..20 {
            rig.send(1, 0, 64);
        }
        rig.flush();
        rig.assert_held(kept_at);
        if fetched {
            rig.fetch_all();
            rig.assert_held(kept_at);
        } else {
            let place = rig.seats[0].inbox.kept.remove(0).place;
            rig.seats[0].endpoint.fabric.let_go(place);
        }
        rig.until_released(1, 0);
        rig.land();
    }
    rig.finish();
    Outcome::Holds
}

/// *Waiting*: the end of a landing wakes.
pub fn check_wait_sees_a_landing(h: &mut dyn Harness) -> Outcome {
    let Some((mut rig, bytes)) = distant_rig(h, 2) else {
        return NONE_DISTANT;
    };
    for _ in 0..10 {
        rig.keep(1, bytes, 1);
        rig.settle();
        rig.fetch_all();
        wait_until(&mut rig, 0, "the end of a landing", |rig| {
            rig.seats[0].poll();
            rig.seats[0].inbox.landings.under_way() == 0
        });
    }
    rig.finish();
    Outcome::Holds
}

/// *Death*, FENCE-1: `disconnect` ends the landings of that peer, lost or (if
/// they had landed) whole; nothing is written afterwards; what is fetched later
/// is lost. Those of others end whole.
pub fn check_disconnect_ends_landings(h: &mut dyn Harness) -> Outcome {
    let Some((mut rig, bytes)) = distant_rig(h, 3) else {
        return NONE_DISTANT;
    };
    let frames = frames_of(&rig, bytes);
    rig.keep(1, bytes, frames + 1);
    let late = rig.seats[0].inbox.kept.remove(frames);
    rig.keep(2, bytes, frames);
    let first = rig.ends(0).len();
    rig.fetch_all();
    rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    rig.seats[0].inbox.kept.push(late);
    rig.fetch_all();
    rig.land();
    let ends = rig.ends(first);
    let (fenced, rest) = ends.split_at(frames);
    let (others, late) = rest.split_at(frames);
    assert!(fenced.iter().all(Option::is_some));
    assert!(all_whole(others), "landings of another peer: {others:?}");
    assert_eq!(late, [Some(Landed::Lost)], "fetched after the fence");
    rig.settle();
    rig.seats[0].verify_kept();
    rig.seats[1].endpoint.fabric.disconnect(Rank(0));
    rig.seats[1].begin_anew(Rank(0));
    rig.seats[0].inbox.lost.clear();
    rig.send(2, 0, bytes);
    rig.finish();
    Outcome::Holds
}

/// *Death*: the death of a peer ends its landings, too, at the latest when the peer is fenced.
pub fn check_death_ends_landings(h: &mut dyn Harness) -> Outcome {
    let Some((mut rig, bytes)) = distant_rig(h, 3) else {
        return NONE_DISTANT;
    };
    let frames = frames_of(&rig, bytes);
    rig.keep(1, bytes, frames);
    rig.keep(2, bytes, frames);
    let first = rig.ends(0).len();
    rig.fetch_all();
    let killed = rig.seats.remove(1);
    rig.harness.kill(killed.endpoint);
    rig.settle();
    rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    rig.seats[0].begin_anew(Rank(1));
    rig.land();
    let ends = rig.ends(first);
    assert!(ends[..frames].iter().all(Option::is_some));
    assert!(all_whole(&ends[frames..]), "landings of another peer");
    // The seat of rank 2 is now the second one.
    rig.send(1, 0, bytes);
    rig.finish();
    Outcome::Holds
}

/// *Death*: the place of a distant frame of an older incarnation names no frame of the new one: a
/// landing fetched from there is lost.
pub fn check_old_distant_places_are_lost(h: &mut dyn Harness) -> Outcome {
    let Some((mut rig, bytes)) = distant_rig(h, 2) else {
        return NONE_DISTANT;
    };
    let old = rig.replace(1, 1);
    rig.harness.kill(old.endpoint);
    rig.keep(1, bytes, 1);
    let old_frame = rig.seats[0].inbox.kept.remove(0);
    let old = rig.replace(1, 2);
    rig.harness.kill(old.endpoint);
    // The same place in the new log.
    rig.keep(1, bytes, 1);
    rig.seats[0].inbox.kept.insert(0, old_frame);
    let first = rig.ends(0).len();
    rig.seats[0].fetch(0);
    rig.land();
    assert_eq!(rig.ends(first), [Some(Landed::Lost)]);
    rig.fetch_all();
    rig.land();
    assert!(all_whole(&rig.ends(first + 1)));
    rig.finish();
    Outcome::Holds
}

/// [`Fabric::close`]: all landings end, and no frame is sent or arrives any more.
pub fn check_close_ends_everything(h: &mut dyn Harness) -> Outcome {
    let mut rig = match distant_rig(h, 2) {
        Some((mut rig, bytes)) => {
            let frames = frames_of(&rig, bytes);
            rig.keep(1, bytes, frames);
            rig
        }
        None => Rig::new(h, 2),
    };
    rig.fetch_all();
    rig.seats[0].endpoint.fabric.close();
    let before = rig.counts();
    // Taken or refused, the control frame does not leave.
    let fabric = &mut rig.seats[0].endpoint.fabric;
    let control = Control::Horizon { ssn: Ssn(0) };
    drop(fabric.post_control(pass(), Rank(1), control));
    let posting = &mut rig.seats[1];
    for _ in 0..REFUSALS_MAX {
        posting.poll();
        posting.try_send(Rank(0), 64);
        posting.try_control(Rank(0));
    }
    rig.land();
    rig.settle();
    assert_eq!(rig.counts(), before, "a closed fabric still carries frames");
    rig.seats[0].inbox.landings.verify_ended();
    Outcome::Holds
}

/// [`Fabric::is_drained`]: true when all posted frames have arrived; false while a payload is still
/// to be fetched from this rank, unless its peer is gone.
pub fn check_drained_when_all_has_come(h: &mut dyn Harness) -> Outcome {
    let (mut rig, bytes) = match distant_rig(h, 2) {
        Some((rig, bytes)) => (rig, Some(bytes)),
        None => (Rig::new(h, 2), None),
    };
    rig.until("nothing has to leave", Rig::is_drained);
    let mut shown = false;
    for _ in 0..20 {
        rig.post_alone(1, 0, Some(1000));
        rig.post_alone(1, 0, None);
        shown |= !rig.is_drained();
        rig.until("what was posted has left", Rig::is_drained);
        shown |= !rig.is_drained();
    }
    if let Some(bytes) = bytes {
        for fetched in [true, false] {
            rig.keep(1, bytes, 1);
            assert!(!rig.is_drained(), "a payload is still to be fetched");
            if fetched {
                rig.fetch_all();
            } else {
                let place = rig.seats[0].inbox.kept.remove(0).place;
                rig.seats[0].endpoint.fabric.let_go(place);
            }
            rig.until("the payload has left", Rig::is_drained);
            assert_eq!(rig.seats[0].inbox.landings.under_way(), 0);
        }
        rig.keep(1, bytes, 1);
        rig.seats[0].inbox.kept.clear();
        rig.seats[1].endpoint.fabric.disconnect(Rank(0));
        rig.until("peers that are gone do not count", Rig::is_drained);
        shown = true;
    } else {
        rig.finish();
    }
    match shown {
        true => Outcome::Holds,
        false => Outcome::Skipped("it never has anything under way"),
    }
}
