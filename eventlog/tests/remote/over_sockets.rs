//! The provider `sockets`, which libfabric has given up. Its threads lose
//! completions under load (ci/nextest.toml), one reason not to believe it.

use crate::harness::{Setup, with_providers};
use crate::{ending, hostile, placing};

fn over_sockets(test: impl Fn(&Setup)) {
    with_providers(&["sockets"], |setup| {
        assert!(!setup.is_believed());
        test(setup);
    });
}

#[test]
fn what_is_acknowledged_lies_in_the_ring_bit_by_bit() {
    over_sockets(placing::place_lap_after_lap);
}

#[test]
fn a_fenced_client_changes_nothing() {
    over_sockets(ending::fence_a_client);
}

#[test]
fn a_killed_logger_has_what_it_acknowledged() {
    over_sockets(ending::kill_a_logger);
}

#[test]
fn other_memory_is_out_of_reach() {
    over_sockets(hostile::reach_for_other_memory);
}
