//! Barriers.

use crate::group::Group;
use crate::schedule::{Action, Buffer, Schedule};
use crate::tree;

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

/// A binomial tree: each place receives from its children, sends to its parent, and receives from the
/// parent when all places have begun. Twice the rounds of dissemination, but 2 (p - 1) messages
/// instead of p log2 p, and a place communicates with two others on average, at most with log2 p: for
/// many places that share processors and memory.
pub fn binomial(schedule: &mut Schedule, group: Group) {
    let signal = Buffer::Input.first(0);
    for child in tree::children(group.me, group.size).rev() {
        schedule.push(Action::Receive {
            source: child,
            into: signal,
        });
    }
    schedule.fence();
    if let Some(parent) = tree::parent(group.me) {
        schedule.push(Action::Send {
            to: parent,
            from: signal,
        });
        schedule.push(Action::Receive {
            source: parent,
            into: signal,
        });
        schedule.fence();
    }
    for child in tree::children(group.me, group.size) {
        schedule.push(Action::Send {
            to: child,
            from: signal,
        });
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
