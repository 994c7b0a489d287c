//! The end of a job.

use super::super::ending::Ending;
use super::*;

fn stage() -> Stage<Ending> {
    Stage::new(Ending::new(2))
}

/// A program that is over has every message once.
#[test]
fn a_rank_that_ended_has_all_that_was_sent_to_it() {
    for times in 0..3 {
        let mut stage = stage();
        for number in [0, 1] {
            stage.called(0, 1, &isend(0, number, 24)).unwrap();
        }
        let other = received(0, 0, payload(0, 0, 24));
        stage.answered(1, 1, &other).unwrap();
        for _ in 0..times {
            let last = received(0, 0, payload(0, 1, 24));
            stage.answered(1, 1, &last).unwrap();
        }
        // Whoever is not over may still lack something.
        stage.at_end().unwrap();
        stage.called(1, 1, &Call::Finish).unwrap();
        let end = stage.at_end();
        match times {
            1 => end.unwrap(),
            _ => assert_breach(end, "ending", "message 1 of 0 was delivered to 1"),
        }
    }
}

/// Where nothing stops them, programs end.
#[test]
fn programs_end_where_nothing_stops_them() {
    let mut stage = stage();
    stage.called(1, 1, &Call::Finish).unwrap();
    stage.world.must_finish = true;
    assert_breach(stage.at_end(), "ending", "the program of 0 never ends");
    stage.called(0, 1, &Call::Finish).unwrap();
    stage.at_end().unwrap();
    stage.see(Happening::Began(next_life())).unwrap();
    assert_breach(stage.at_end(), "ending", "the program of 0 never ends");
}
