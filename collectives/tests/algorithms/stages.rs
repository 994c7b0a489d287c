//! Hierarchical algorithms: who speaks between hosts.

use crate::{SIZES, call, hosts};
use refrain_collectives::choice::Table;
use refrain_collectives::{Action, Algorithm, Arguments, Blocks, Schedule};
use std::collections::BTreeSet;

/// The places to which `me` sends.
fn receivers(size: u32, me: u32, arguments: Arguments, table: &Table) -> BTreeSet<u32> {
    let mut schedule = Schedule::default();
    let call = call(size, me, false, arguments);
    table.schedule(Algorithm::Hierarchical, &call, &mut schedule);
    let steps = schedule.steps().iter();
    let receivers = steps.flat_map(|step| match step.action {
        Action::Send { to, .. } => to..to + 1,
        Action::Publish { first, number, .. } => first..first + number,
        _ => 0..0,
    });
    receivers.filter(|to| *to != me).collect()
}

#[test]
fn one_place_of_each_host_speaks_to_other_hosts() {
    let count = 3000;
    // Also where all write to all, which is no range of places between hosts.
    let flat: Table = "barrier flat\nbcast flat\nallreduce flat\nallgather flat"
        .parse()
        .unwrap();
    let several = |size: &u32| hosts(*size).are_several();
    for (size, table) in SIZES
        .filter(several)
        .flat_map(|size| [(size, Table::default()), (size, flat.clone())])
    {
        let host = |place: u32| hosts(size).host(place);
        for root in 0..size {
            for arguments in [
                Arguments::Barrier,
                Arguments::Bcast { root, count },
                Arguments::Reduce { root, count },
                Arguments::Allreduce {
                    count,
                    commutative: false,
                },
                Arguments::Allgather {
                    blocks: Blocks::Even(count),
                },
            ] {
                let mut speakers = BTreeSet::new();
                for me in 0..size {
                    for to in receivers(size, me, arguments, &table) {
                        if host(me) != host(to) {
                            speakers.extend([me, to]);
                        }
                    }
                }
                let of_hosts: BTreeSet<_> = speakers.iter().map(|place| host(*place)).collect();
                let all = host(size - 1) + 1;
                assert_eq!(
                    (speakers.len(), of_hosts.len()),
                    (all, all),
                    "{arguments:?}"
                );
            }
        }
    }
}
