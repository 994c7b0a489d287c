//! Connecting, fencing and death.

use super::rig::{Rig, connect};
use super::seat::{Seat, pass};
use super::{Harness, Outcome};
use refrain_ring::{Incarnation, Rank, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::{Address, FabricError, Refusal};

fn is_refused(refused: Result<(), Refusal>, rank: Rank) -> bool {
    matches!(refused, Err(Refusal::NotConnected(named)) if named == rank)
}

/// *Death*: posts to a rank that is not connected are refused: to the rank
/// itself (self-sends stay in the engine), to one outside the job, to one that
/// was disconnected.
pub fn check_unconnected_is_refused(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    rig.send(0, 1, 8);
    rig.flush();
    let waiting = rig.seats[0].spare_frame();
    let fabric = &mut rig.seats[0].endpoint.fabric;
    fabric.disconnect(Rank(1));
    fabric.disconnect(Rank(0));
    fabric.disconnect(Rank(7));
    let control = Control::Horizon { ssn: Ssn(0) };
    for rank in [Rank(0), Rank(1), Rank(7)] {
        assert!(
            is_refused(fabric.post(pass(), rank, &waiting), rank),
            "a frame for rank {rank} was not refused"
        );
        assert!(
            is_refused(fabric.post_control(pass(), rank, control), rank),
            "a control frame for rank {rank} was not refused"
        );
    }
    Outcome::Holds
}

/// [`Fabric::connect`]: an address of another fabric is refused with [`FabricError::Attach`]; so
/// are the rank itself and another incarnation.
pub fn check_unusable_address_is_refused(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    let seat = &mut rig.seats[0].endpoint;
    seat.fabric.disconnect(Rank(1));
    let nonsense = Address {
        bytes: b"nonsense".to_vec(),
        memory: None,
    };
    let own = seat.fabric.address();
    let attempts = [
        (Rank(1), Incarnation(1), &nonsense),
        (Rank(1), Incarnation(1), &own),
        (Rank(0), Incarnation(0), &own),
    ];
    for (rank, incarnation, address) in attempts {
        let refused = seat.fabric.connect(rank, incarnation, address);
        assert!(
            matches!(refused, Err(FabricError::Attach { peer, .. }) if peer == rank),
            "connecting rank {rank} gave {refused:?}"
        );
    }
    Outcome::Holds
}

/// *Death*, FENCE-1: after `disconnect` no frame reaches the sink, neither arrived frames nor
/// frames posted later; other peers continue.
pub fn check_disconnect_fences(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    rig.send(1, 0, 100);
    rig.control(1, 0);
    rig.flush();
    rig.post_alone(1, 0, Some(3000));
    rig.post_alone(1, 0, None);
    rig.let_arrive();
    rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    let before = rig.seats[0].inbox.frames(Rank(1), 0);
    for _ in 0..10 {
        rig.seats[1].try_send(Rank(0), 20);
        rig.seats[1].try_control(Rank(0));
        rig.send(2, 0, 20);
        rig.control(2, 0);
    }
    rig.settle();
    let inbox = &rig.seats[0].inbox;
    assert_eq!(inbox.frames(Rank(1), 0), before, "FENCE-1: frames");
    assert_eq!(inbox.controls(Rank(1), 0), 1, "FENCE-1: control frames");
    rig.seats[1].endpoint.fabric.disconnect(Rank(0));
    rig.seats[1].begin_anew(Rank(0));
    rig.flush();
    assert_eq!(rig.seats[0].inbox.frames(Rank(2), 0), 10);
    assert_eq!(rig.seats[0].inbox.controls(Rank(2), 0), 10);
    rig.finish();
    Outcome::Holds
}

/// *Death*: a kept frame is gone with its peer. Letting it go again has no effect.
pub fn check_disconnect_ends_keeping(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    rig.seats[0].inbox.keeps = true;
    rig.send(1, 0, 100);
    rig.send(2, 0, 100);
    rig.flush();
    rig.seats[0].inbox.keeps = false;
    rig.seats[0].verify_kept();
    rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    let (gone, still): (Vec<_>, Vec<_>) = rig.seats[0]
        .inbox
        .kept
        .drain(..)
        .partition(|kept| kept.place.source == Rank(1));
    rig.seats[0].inbox.kept = still;
    assert_eq!(gone.len(), 1);
    rig.seats[0].endpoint.fabric.let_go(gone[0].place);
    rig.settle();
    rig.seats[0].verify_kept();
    rig.seats[0].let_go(0);
    Outcome::Holds
}

/// *Death*: a peer comes back in a higher incarnation, with lanes that begin
/// anew in both directions: at position 0, with the first record of a new log.
pub fn check_reconnect_begins_anew(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    for incarnation in 1..4 {
        for bytes in 0..60 {
            rig.send(0, 1, bytes * 100);
            rig.send(1, 0, bytes);
            rig.control(1, 0);
            rig.control(0, 1);
        }
        rig.flush();
        rig.seats[0].endpoint.fabric.disconnect(Rank(1));
        rig.seats[0].begin_anew(Rank(1));
        let old = rig.replace(1, incarnation);
        rig.harness.kill(old.endpoint);
        for (seat, peer) in [(0, Rank(1)), (1, Rank(0)), (2, Rank(1))] {
            let released = rig.seats[seat].endpoint.fabric.released(peer);
            assert_eq!(released.0, 0, "a lane of a new incarnation begins at 0");
        }
    }
    for _ in 0..60 {
        rig.send(0, 1, 10);
        rig.send(1, 0, 10);
        rig.send(1, 2, 10);
        rig.control(1, 0);
    }
    rig.flush();
    assert_eq!(rig.seats[0].inbox.frames(Rank(1), 3), 60);
    assert_eq!(rig.seats[0].inbox.controls(Rank(1), 3), 60);
    assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), 60);
    assert_eq!(rig.seats[2].inbox.frames(Rank(1), 3), 60);
    rig.finish();
    Outcome::Holds
}

/// *Lanes*: frames that are posted before the peer has connected back wait for it.
pub fn check_frames_wait_for_connect(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    let mut fresh = Seat::new(rig.harness.restart(Rank(1), Incarnation(1)));
    connect(&mut fresh.endpoint, &rig.seats[0].endpoint);
    let sent = (0..5).filter(|_| fresh.try_send(Rank(0), 100)).count();
    let controls = (0..3).filter(|_| fresh.try_control(Rank(0))).count();
    rig.settle();
    assert_eq!(rig.seats[0].inbox.calls, 0, "it is not connected yet");
    connect(&mut rig.seats[0].endpoint, &fresh.endpoint);
    let old = core::mem::replace(&mut rig.seats[1], fresh);
    rig.harness.kill(old.endpoint);
    rig.flush();
    let inbox = &rig.seats[0].inbox;
    assert_eq!(inbox.frames(Rank(1), 1), sent as u64);
    assert_eq!(inbox.controls(Rank(1), 1), controls as u64);
    rig.finish();
    Outcome::Holds
}

/// *Death*: a place kept from an older incarnation does not name a frame of
/// the new one: letting it go has no effect.
pub fn check_old_places_do_not_name_new_frames(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    rig.seats[0].inbox.keeps = true;
    rig.send(1, 0, 100);
    rig.flush();
    let old_place = rig.seats[0].inbox.kept.remove(0).place;
    let old = rig.replace(1, 1);
    rig.harness.kill(old.endpoint);
    // The same place in the new log.
    rig.send(1, 0, 100);
    rig.flush();
    rig.seats[0].endpoint.fabric.let_go(old_place);
    rig.settle();
    rig.seats[0].verify_kept();
    rig.seats[0].let_go(0);
    rig.seats[0].inbox.keeps = false;
    rig.finish();
    Outcome::Holds
}

/// FENCE-1: frames of an old incarnation, posted before or after its successor
/// was connected, are never handed over, and do not disturb the successor.
pub fn check_late_frames_are_fenced(h: &mut dyn Harness) -> Outcome {
    late_frames(h, true)
}

/// FENCE-1: connecting a higher incarnation fences the older one, without a
/// `disconnect` before.
pub fn check_connect_fences(h: &mut dyn Harness) -> Outcome {
    late_frames(h, false)
}

fn late_frames(h: &mut dyn Harness, disconnects: bool) -> Outcome {
    let mut rig = Rig::new(h, 3);
    for _ in 0..5 {
        rig.send(1, 0, 300);
        rig.control(1, 0);
    }
    rig.flush();
    for _ in 0..5 {
        rig.seats[1].try_send(Rank(0), 300);
        rig.seats[1].try_control(Rank(0));
    }
    if disconnects {
        rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    }
    let mut zombie = rig.replace(1, 1);
    for _ in 0..20 {
        zombie.try_send(Rank(0), 300);
        zombie.try_control(Rank(0));
        rig.send(1, 0, 300);
        rig.control(1, 0);
        rig.drive();
    }
    rig.flush();
    let inbox = &rig.seats[0].inbox;
    assert_eq!(inbox.frames(Rank(1), 0), 5, "FENCE-1: late frames");
    assert_eq!(
        inbox.controls(Rank(1), 0),
        5,
        "FENCE-1: late control frames"
    );
    assert_eq!(inbox.frames(Rank(1), 1), 20);
    assert_eq!(inbox.controls(Rank(1), 1), 20);
    // A fabric may report what it fenced.
    rig.seats[0]
        .errors
        .retain(|error| !matches!(error, FabricError::WrongIncarnation { .. }));
    rig.finish();
    Outcome::Holds
}

/// FENCE-1: the first frames of an old incarnation have the numbers with which the new one is
/// expected to begin. They are not taken for frames of the new one.
pub fn check_first_frames_of_the_old_are_fenced(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    let mut zombie = rig.replace(1, 1);
    for bytes in [0, 8, 300] {
        zombie.try_send(Rank(0), bytes);
        zombie.try_control(Rank(0));
        zombie.poll();
        rig.settle();
    }
    let inbox = &rig.seats[0].inbox;
    assert_eq!(
        inbox.calls, 0,
        "FENCE-1: something of the old life was taken"
    );
    for bytes in [0, 8, 300] {
        rig.send(1, 0, bytes);
        rig.control(1, 0);
    }
    rig.flush();
    let inbox = &rig.seats[0].inbox;
    assert_eq!(
        (inbox.frames(Rank(1), 1), inbox.controls(Rank(1), 1)),
        (3, 3)
    );
    // A fabric may report what it fenced.
    rig.seats[0]
        .errors
        .retain(|error| !matches!(error, FabricError::WrongIncarnation { .. }));
    rig.finish();
    Outcome::Holds
}

/// FENCE-1: an incarnation that was disconnected cannot be connected again.
pub fn check_fenced_incarnation_stays_out(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 2);
    let [zero, one] = &mut rig.seats[..] else {
        unreachable!("two ranks");
    };
    let address = one.endpoint.fabric.address();
    zero.endpoint.fabric.disconnect(Rank(1));
    let fabric = &mut zero.endpoint.fabric;
    let refused = fabric.connect(Rank(1), Incarnation(0), &address);
    assert!(
        matches!(refused, Err(FabricError::Attach { .. })),
        "connecting a fenced incarnation gave {refused:?}"
    );
    let fresh = rig.harness.restart(Rank(1), Incarnation(1));
    connect(&mut rig.seats[0].endpoint, &fresh);
    Outcome::Holds
}

/// *Death*: of the frames that a killed peer posted, a prefix arrives on each lane, and every frame
/// of the prefix is whole; other peers continue, whether the killed one is fenced or not.
pub fn check_killed_peer_leaves_a_prefix(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    rig.send(0, 1, 10);
    rig.send(1, 0, 10);
    rig.flush();
    for bytes in 0..15 {
        rig.seats[1].try_send(Rank(0), bytes * 200);
        rig.seats[1].try_control(Rank(0));
    }
    let posted = rig.sent(1, 0);
    let killed = rig.seats.remove(1);
    rig.harness.kill(killed.endpoint);
    // The seat of rank 2 is now the second one.
    for _ in 0..20 {
        rig.send(1, 0, 700);
        rig.send(0, 2, 700);
    }
    rig.flush();
    assert!(rig.seats[0].inbox.frames(Rank(1), 0) <= posted);
    rig.seats[0].endpoint.fabric.disconnect(Rank(1));
    rig.seats[0].begin_anew(Rank(1));
    rig.send(1, 0, 700);
    rig.flush();
    assert_eq!(rig.seats[0].inbox.frames(Rank(2), 0), 21);
    assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), 20);
    rig.finish();
    Outcome::Holds
}
