//! Barriers.

use crate::group::Group;
use crate::schedule::{Action, Buffer, Schedule};

/// Dissemination (Hensgen, Finkel and Manber 1988): in round `k` each place signals the place
/// 2^k above.
pub fn dissemination(schedule: &mut Schedule, group: Group) {
    for round in 0..group.doublings() {
        let (to, source) = (group.above(1 << round), group.below(1 << round));
        let from = Buffer::Input.first(0);
        schedule.push(Action::Send { to, from });
        schedule.push(Action::Receive { source, into: from });
        schedule.fence();
    }
}

/// Each place tells all others at once.
pub fn flat(schedule: &mut Schedule, group: Group) {
    let into = Buffer::Input.first(0);
    if group.size > 1 {
        schedule.push(Action::Publish {
            first: 0,
            number: group.size,
            from: into,
        });
    }
    for distance in 1..group.size {
        let source = group.below(distance);
        schedule.push(Action::Receive { source, into });
    }
}
