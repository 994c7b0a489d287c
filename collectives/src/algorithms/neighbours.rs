//! Neighbourhood collectives: each place sends along its edges of a directed graph. Edges may be
//! repeated, and may lead to the place itself.

use crate::blocks::Blocks;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule};

/// Sends `send(i)` to `destinations[i]` and receives block `j` from `sources[j]`, all at once. The
/// `k`-th edge in one place's list of destinations to another one is the `k`-th in that one's
/// list of sources.
pub fn linear(
    schedule: &mut Schedule,
    group: Group,
    (sources, destinations): (&[u32], &[u32]),
    send: impl Fn(u32) -> Part,
    receive: &Blocks,
) {
    let mut to_me = Vec::new();
    for (index, to) in (0..).zip(destinations) {
        match *to == group.me {
            true => to_me.push(send(index)),
            false => schedule.send(*to, send(index)),
        }
    }
    let mut to_me = to_me.into_iter();
    for (index, source) in (0..).zip(sources) {
        let into = receive.part(Buffer::Output, index);
        match *source == group.me {
            true => to_me
                .by_ref()
                .take(1)
                .for_each(|from| schedule.copy(from, into)),
            false => schedule.receive(*source, into),
        }
    }
}
