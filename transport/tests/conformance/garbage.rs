//! Garbage on a lane: a typed error, and the other lanes continue.

use super::rig::Rig;
use super::seat::Seat;
use super::{Harness, Outcome};
use refrain_ring::{ChannelLog, HeaderError, Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::{CONTROL_BYTES, Control};
use refrain_transport::fabric::FabricError;
use refrain_transport::fabric::sim::LaneKind;

const OFFENDER: usize = 1;

fn header(kind: RecordKind, extent: u64) -> RecordHeader {
    RecordHeader {
        payload_bytes: 0,
        kind,
        flags: 0,
        incarnation: Incarnation(0),
        source: Rank(OFFENDER as u32),
        ssn: Ssn(0),
        context: 0,
        tag: 0,
        extent,
    }
}

/// After rank 1 has sent garbage to rank 0: exactly one error of the right kind, and nothing more
/// on that lane. The other pairs continue, and so does the lane to rank 1.
fn expect(rig: &mut Rig<'_>, right: impl Fn(&FabricError) -> bool) {
    let good = rig.seats[0].inbox.frames(Rank(1), 0);
    for _ in 0..20 {
        rig.send(2, 0, 50);
        rig.control(2, 0);
        rig.send(0, 1, 50);
        rig.send(2, 1, 50);
    }
    rig.flush();
    let errors = core::mem::take(&mut rig.seats[0].errors);
    assert!(
        errors.len() == 1 && right(&errors[0]),
        "exactly one error of another kind was due, not {errors:?}"
    );
    let inbox = &rig.seats[0].inbox;
    assert_eq!(inbox.frames(Rank(1), 0), good, "the lane was read on");
    assert_eq!(inbox.frames(Rank(2), 0), 20);
    assert_eq!(inbox.controls(Rank(2), 0), 20);
    assert_eq!(rig.seats[1].inbox.frames(Rank(0), 0), 20);
    assert_eq!(rig.seats[1].inbox.frames(Rank(2), 0), 20);
    assert!(rig.seats[1].errors.is_empty() && rig.seats[2].errors.is_empty());
}

/// Posts two records as rank 1, from a log that names another rank.
fn post_as(seat: &mut Seat, source: Rank, incarnation: Incarnation) {
    let mut log = ChannelLog::new(source, incarnation, Rank(0), seat.endpoint.window_bytes);
    for _ in 0..2 {
        assert!(seat.post_record(&mut log, Rank(0), 40, header(RecordKind::Eager, 40)));
    }
}

/// [`Fabric::poll`], FENCE-1: a frame of another incarnation than the connected
/// one gives [`FabricError::WrongIncarnation`].
pub fn check_wrong_incarnation_is_refused(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    post_as(&mut rig.seats[OFFENDER], Rank(1), Incarnation(9));
    expect(&mut rig, |error| {
        matches!(
            error,
            FabricError::WrongIncarnation {
                source_rank: Rank(1),
                found: Incarnation(9),
                connected: Incarnation(0),
            }
        )
    });
    Outcome::Holds
}

/// [`Fabric::poll`]: a frame that names another rank than its lane's gives
/// [`FabricError::WrongSource`].
pub fn check_wrong_source_is_refused(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    post_as(&mut rig.seats[OFFENDER], Rank(2), Incarnation(0));
    expect(&mut rig, |error| {
        matches!(
            error,
            FabricError::WrongSource {
                lane: Rank(1),
                claimed: Rank(2)
            }
        )
    });
    Outcome::Holds
}

/// Posts a bad record between good ones, in one log. The good one before it
/// must arrive.
fn post_bad(rig: &mut Rig<'_>, payload_bytes: usize, bad: RecordHeader) {
    rig.send(OFFENDER, 0, 40);
    rig.flush();
    let seat = &mut rig.seats[OFFENDER];
    let window_bytes = seat.endpoint.window_bytes;
    let placeholder = ChannelLog::new(Rank(1), Incarnation(0), Rank(0), window_bytes);
    let mut log = core::mem::replace(&mut seat.outbox(Rank(0)).log, placeholder);
    assert!(seat.post_record(&mut log, Rank(0), payload_bytes, bad));
    let behind = header(RecordKind::Eager, 40);
    assert!(seat.post_record(&mut log, Rank(0), 40, behind));
    seat.outbox(Rank(0)).log = log;
}

/// [`Fabric::poll`]: a header that contradicts itself gives
/// [`FabricError::Garbage`]; frames before it arrive.
pub fn check_broken_header_is_refused(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    // More payload than its message has.
    post_bad(&mut rig, 40, header(RecordKind::Eager, 0));
    assert_eq!(rig.seats[0].inbox.frames(Rank(1), 0), 1);
    expect(&mut rig, |error| {
        matches!(
            error,
            FabricError::Garbage {
                source_rank: Rank(1),
                error: HeaderError::Extent { .. },
            }
        )
    });
    Outcome::Holds
}

/// [`Fabric::poll`]: a link that leads out of the log gives
/// [`FabricError::BrokenLog`] (or [`FabricError::Garbage`] where no log is
/// read).
pub fn check_broken_link_is_refused(h: &mut dyn Harness) -> Outcome {
    let mut rig = Rig::new(h, 3);
    post_bad(&mut rig, 0, header(RecordKind::Link, 1 << 40));
    expect(&mut rig, |error| {
        matches!(
            error,
            FabricError::BrokenLog {
                source_rank: Rank(1),
                chunk: 0x100_0000_0000,
            } | FabricError::Garbage {
                source_rank: Rank(1),
                ..
            }
        )
    });
    Outcome::Holds
}

/// [`Fabric::poll`]: bytes that are no header of this version give
/// [`FabricError::Garbage`].
pub fn check_garbage_header_is_refused(h: &mut dyn Harness) -> Outcome {
    let good = header(RecordKind::Eager, 0).encode();
    let with = |index: usize, value: u8| {
        let mut bytes = good;
        bytes[index] = value;
        bytes
    };
    let wrong = [
        (with(4, 77), HeaderError::Kind(77)),
        (with(5, 200), HeaderError::Version(200)),
        (with(7, 0x40), HeaderError::Flags(0x4000)),
        ([0xff; RecordHeader::BYTES], HeaderError::Version(0xff)),
    ];
    for (bytes, right) in wrong {
        let mut rig = Rig::new(h, 3);
        if !plant(&mut rig, &bytes) {
            return Outcome::Skipped("no way to put garbage on a data lane");
        }
        expect(&mut rig, |error| {
            matches!(
                error,
                FabricError::Garbage { source_rank: Rank(1), error } if *error == right
            )
        });
    }
    Outcome::Holds
}

/// Puts bytes where rank 0 looks for the next frame of rank 1: by the harness, or in the log if
/// rank 0 reads the log.
fn plant(rig: &mut Rig<'_>, bytes: &[u8]) -> bool {
    let injected = rig.harness.inject(Rank(1), Rank(0), LaneKind::Data, bytes);
    let seat = &mut rig.seats[OFFENDER];
    let planted = injected
        || (seat.endpoint.fabric.attributes().reads_in_place
            && seat.send_with_garbage_behind(Rank(0), bytes));
    rig.settle();
    planted
}

/// [`Fabric::poll`]: a control frame that does not decode gives
/// [`FabricError::BadControl`].
pub fn check_garbage_control_is_refused(h: &mut dyn Harness) -> Outcome {
    let words = Control::Horizon { ssn: Ssn(0) }.encode(Rank(1), Incarnation(0));
    let good: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (index, value) in [(0, 99), (1, 99), (CONTROL_BYTES - 1, 1)] {
        let mut rig = Rig::new(h, 3);
        let mut bytes = good.clone();
        bytes[index] = value;
        let injected = rig
            .harness
            .inject(Rank(1), Rank(0), LaneKind::Control, &bytes);
        if !injected {
            return Outcome::Skipped("no way to put garbage on a control lane");
        }
        expect(&mut rig, |error| {
            matches!(
                error,
                FabricError::BadControl {
                    source_rank: Rank(1),
                    ..
                }
            )
        });
    }
    Outcome::Holds
}
