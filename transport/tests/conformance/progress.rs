//! Progress and waiting.

use super::rig::Rig;
use super::{Harness, Outcome};
use core::time::Duration;
use refrain_ring::Rank;

/// Longer than any wake-up takes; a check lasts this long if a wake-up is missed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait if other ranks must be driven in between.
const SLICE: Duration = Duration::from_millis(1);

/// *Lanes*, GATE-4: a full data lane never stops a control lane, neither sending nor, while no data
/// frame is let go, arriving.
pub fn check_control_passes_a_full_data_lane(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    rig.fill(0, 1, 4096, 4096);
    let taken = (0..1000).any(|_| {
        rig.harness.progress();
        rig.seats[0].poll();
        rig.seats[0].try_control(Rank(1))
    });
    assert!(taken, "a control frame waits behind a full data lane");
    rig.seats[1].inbox.keeps = true;
    rig.settle();
    assert_eq!(
        rig.seats[1].inbox.controls(Rank(0), 0),
        1,
        "a control frame waits behind kept data"
    );
    while !rig.seats[1].inbox.kept.is_empty() {
        rig.seats[1].let_go(0);
    }
    rig.seats[1].inbox.keeps = false;
    rig.finish();
    Outcome::Holds
}

/// *Progress*: one poll makes a bounded number of calls to the sink, however
/// much has arrived, and never blocks.
pub fn check_poll_is_bounded(h: &mut dyn Harness) -> Outcome {
    let calls_max = h.poll_calls_max();
    let mut rig = Rig::new(h, 2);
    assert_eq!(rig.seats[1].poll(), 0, "nothing was sent");
    let posted = rig.fill(0, 1, 0, 4 * calls_max as u64);
    rig.let_arrive();
    let mut deadline = rig.deadline();
    while rig.seats[1].inbox.frames(Rank(0), 0) < posted {
        let calls = rig.seats[1].poll();
        assert!(calls <= calls_max, "{calls} calls in one poll");
        deadline.next_round(rig.harness.now(), "what was posted comes");
        if calls == 0 {
            rig.harness.progress();
            rig.seats[0].poll();
        }
    }
    rig.finish();
    if posted > calls_max as u64 {
        Outcome::Holds
    } else {
        Outcome::Skipped("its lane holds no more frames than one poll may take")
    }
}

/// *Waiting*: a wake-up is not missed, whether its cause lies before the wait or was left over by a
/// poll that ended at its limit.
pub fn check_wait_sees_what_was_posted_before(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    for round in 0..200 {
        // All earlier frames were handed over: only the next post can wake.
        rig.settle();
        rig.post_alone(0, 1, (round % 2 == 0).then_some(round));
        wait_for_a_call(&mut rig, 1);
    }
    let posted = rig.sent(0, 1);
    let posted = rig.fill(0, 1, 0, posted + 300);
    while rig.seats[1].inbox.frames(Rank(0), 0) < posted {
        wait_for_a_call(&mut rig, 1);
    }
    rig.finish();
    Outcome::Holds
}

/// Waits and polls until a frame is handed over.
fn wait_for_a_call(rig: &mut Rig<'_>, rank: usize) {
    wait_until(rig, rank, "a frame", |rig| rig.seats[rank].poll() > 0);
}

/// Waits until a condition holds; `holds` makes progress.
pub fn wait_until(
    rig: &mut Rig<'_>,
    rank: usize,
    what: &str,
    mut holds: impl FnMut(&mut Rig<'_>) -> bool,
) {
    let begin = rig.harness.now();
    loop {
        wait(rig, rank, what);
        if holds(rig) {
            return;
        }
        let waited = rig.harness.now() - begin;
        assert!(waited < rig.harness.patience(), "{what} never came");
    }
}

/// Waits for something that happens unless a wake-up is missed. If all ranks must be driven, no
/// rank can sleep for long, and a missed wake-up does not show here.
fn wait(rig: &mut Rig<'_>, rank: usize, what: &str) {
    if rig.harness.drives_all() {
        rig.poll_others(rank);
        return rig.seats[rank].endpoint.fabric.wait(SLICE);
    }
    let before = rig.harness.now();
    rig.seats[rank].endpoint.fabric.wait(TIMEOUT);
    assert!(
        rig.harness.now() - before < TIMEOUT,
        "wait missed {what} and lasted until its time-out"
    );
}

/// *Waiting*: a release since the last poll wakes the sender, also if it happened before the wait.
pub fn check_wait_sees_released(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    for _ in 0..20 {
        rig.settle();
        rig.post_alone(0, 1, Some(100));
        rig.seats[0].poll();
        rig.settle_one(1);
        let tail = rig.seats[0].outbox(Rank(1)).log.tail();
        wait_until(&mut rig, 0, "that the log was released", |rig| {
            let released = rig.seats[0].endpoint.fabric.released(Rank(1));
            rig.seats[0].poll();
            rig.seats[1].poll();
            released == tail
        });
    }
    rig.finish();
    Outcome::Holds
}

/// *Waiting*: room made in a full control lane since the last poll wakes the sender, also if that
/// happened before the wait.
pub fn check_wait_sees_room_for_control(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    if !rig.fill_control(0, 1) {
        rig.finish();
        return Outcome::Skipped("its control lane has no end");
    }
    rig.seats[0].poll();
    rig.settle_one(1);
    wait_until(&mut rig, 0, "that the control lane has room", |rig| {
        let taken = rig.seats[0].try_control(Rank(1));
        if !taken {
            rig.seats[0].poll();
            rig.seats[1].poll();
        }
        taken
    });
    rig.finish();
    Outcome::Holds
}

/// *Waiting*: a wait ends with its time-out when nothing happens.
pub fn check_wait_ends(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    for seat in &mut rig.seats {
        seat.endpoint.fabric.wait(Duration::from_millis(1));
        assert_eq!(seat.poll(), 0, "nothing was sent");
    }
    rig.finish();
    Outcome::Holds
}
