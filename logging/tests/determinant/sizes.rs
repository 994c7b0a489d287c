//! The size of a determinant in typical patterns of programs.

use crate::batches::{matched, recorder, take};
use refrain_logging::determinant::recorder::Recorder;
use refrain_ring::{Clock, Rank, Ssn};

/// Payload bytes of the one batch that is pending.
fn payload_bytes(recorder: &mut Recorder) -> f64 {
    let (header, _) = take(recorder, true).expect("something is pending");
    assert!(!recorder.has_pending(true), "it is one batch");
    header.payload_bytes.into()
}

/// Bytes per receive of 64 receives; `receive` gets the number of each.
fn per_receive(mut receive: impl FnMut(&mut Recorder, u64)) -> f64 {
    let mut recorder = recorder();
    for n in 0..64 {
        receive(&mut recorder, n);
    }
    let bytes = payload_bytes(&mut recorder) / 64.0;
    println!("{bytes:.2} bytes per receive");
    bytes
}

const CLOCK: u64 = 5_000_000_000;
const SSN: u64 = 700_000;

#[test]
fn a_blocking_receive_from_any_source_in_a_loop_takes_one_byte() {
    for (sources, step) in [(1, 1), (4, 1), (8, 2), (12, 7)] {
        let bytes = per_receive(|recorder, n| {
            let at = CLOCK + step * n;
            let (source, ssn) = ((n % sources) as u32, SSN + n / sources);
            recorder.matched(Clock(at), matched(at, source, ssn), false);
        });
        assert!(
            bytes <= 1.0 + 0.1 * sources as f64,
            "{sources} sources: {bytes}"
        );
        assert!(bytes <= 2.0, "{sources} sources: {bytes}");
    }
}

#[test]
fn a_receive_from_any_source_and_a_wait_for_it_take_one_byte() {
    let bytes = per_receive(|recorder, n| {
        let at = CLOCK + 2 * n;
        recorder.matched(Clock(at + 1), matched(at, 3, SSN + n), false);
        recorder.completed(Clock(at + 1), &[Clock(at)]);
    });
    assert!(bytes <= 1.2, "{bytes}");
}

/// Eight receives are posted; each is posted again when it has completed, in an
/// unpredictable order; the clock's steps vary, too.
#[test]
fn a_window_of_receives_takes_two_bytes() {
    let mut clock = CLOCK + 8;
    let mut posted: Vec<u64> = (CLOCK..CLOCK + 8).collect();
    let bytes = per_receive(|recorder, n| {
        let which = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize;
        let request = posted[which];
        recorder.matched(
            Clock(clock),
            matched(request, (n % 4) as u32, SSN + n / 4),
            false,
        );
        recorder.completed(Clock(clock), &[Clock(request)]);
        posted[which] = clock + 1;
        clock += 2;
    });
    assert!(bytes <= 2.0, "{bytes}");
}

/// All receives are posted, matched in the order of posting, and waited for
/// together.
#[test]
fn many_receives_posted_together_take_one_byte() {
    let bytes = per_receive(|recorder, n| {
        let source = (n % 4) as u32;
        recorder.matched(
            Clock(CLOCK + 64),
            matched(CLOCK + n, source, SSN + n / 4),
            false,
        );
    });
    assert!(bytes <= 1.4, "{bytes}");
}

/// Every second message of a source goes to a named receive.
#[test]
fn numbers_that_grow_by_two_cost_no_more() {
    let bytes = per_receive(|recorder, n| {
        let at = CLOCK + 3 * n;
        let (source, ssn) = ((n % 4) as u32, SSN + n / 4 * 2);
        recorder.matched(Clock(at), matched(at, source, ssn), false);
    });
    assert!(bytes <= 1.5, "{bytes}");
}

#[test]
fn more_sources_than_fit_a_byte_take_two() {
    let bytes = per_receive(|recorder, n| {
        let at = CLOCK + 3 * n;
        let (source, ssn) = ((n % 20) as u32, SSN + n / 20);
        recorder.matched(Clock(at), matched(at, source, ssn), false);
    });
    assert!(bytes <= 2.0, "{bytes}");
}

/// `pessimist-classic` on named receives.
#[test]
fn named_receives_take_one_byte() {
    let bytes = per_receive(|recorder, n| {
        let at = CLOCK + n;
        recorder.matched(Clock(at), matched(at, (n % 4) as u32, SSN + n / 4), true);
    });
    assert!(bytes <= 1.5, "{bytes}");
}

#[test]
fn probes_that_find_take_two_bytes() {
    let bytes = per_receive(|recorder, n| {
        let at = Clock(CLOCK + 2 * n);
        recorder.probed(at, Rank((n % 4) as u32), Ssn(SSN + n / 4), 17, 4096);
    });
    assert!(bytes <= 2.4, "{bytes}");
}

/// The time before and behind each of a few operations, in nanoseconds.
#[test]
fn a_time_takes_four_or_five_bytes() {
    for (ns, most) in [(60, 4.0), (1_000, 4.1), (900_000, 5.1)] {
        let bytes = per_receive(|recorder, n| {
            let value = (n * ns) as i64 + (n % 7) as i64;
            recorder.number(Clock(CLOCK + 4 * n), 0, value);
        });
        assert!(bytes <= most, "{ns} ns: {bytes}");
    }
    // Series do not disturb each other.
    let bytes = per_receive(|recorder, n| {
        let series = (n % 16) as u8;
        let value = (i64::from(series) << 20) + (n as i64 / 16);
        recorder.number(Clock(CLOCK + n), series, value);
    });
    assert!(bytes <= 3.8, "{bytes}");
}

#[test]
fn one_alone_takes_eight_bytes() {
    let alone = |event: &dyn Fn(&mut Recorder)| {
        let mut recorder = recorder();
        event(&mut recorder);
        payload_bytes(&mut recorder)
    };
    let blocking = alone(&|recorder| {
        recorder.matched(Clock(CLOCK), matched(CLOCK, 100, SSN), false);
    });
    assert!(blocking <= 5.0, "{blocking}");
    let waited = alone(&|recorder| {
        recorder.matched(Clock(CLOCK), matched(CLOCK - 40, 10_000, SSN), false);
        recorder.completed(Clock(CLOCK + 1), &[Clock(CLOCK - 40)]);
    });
    assert!(waited <= 8.0, "{waited}");
    let set = alone(&|recorder| {
        recorder.completed(Clock(CLOCK), &[1, 2, 3].map(|back| Clock(CLOCK - back)));
    });
    assert!(set <= 5.0, "{set}");
    let run = alone(&|recorder| {
        (0..1000).for_each(|n| recorder.nothing(Clock(CLOCK + n)));
    });
    assert!(run <= 4.0, "{run}");
    let time = alone(&|recorder| recorder.number(Clock(CLOCK), 0, 100_000_000_000));
    assert!(time <= 8.0, "{time}");
    let bytes = alone(&|recorder| recorder.bytes(Clock(CLOCK), &[7; 16]));
    assert!(bytes <= 19.0, "{bytes}");
}
