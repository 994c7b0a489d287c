//! Collectives between neighbours in a topology (MPI-5.0, section 8.6).

#![allow(unsafe_code, reason = "reads the program's lists")]

use super::described::{Side, even_blocks, moved, not_between, with};
use crate::abi::{Comm, Datatype, Numbers, Start, list};
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::topology::Topology;
use core::ffi::{c_int, c_void};
use refrain::collective::Arguments;

/// The neighbours of this rank: places of sources and destinations that exist, and which edges of
/// the topology they are.
struct Neighbours {
    sources: Vec<u32>,
    destinations: Vec<u32>,
    /// Indices of the edges that lead somewhere.
    receives: Vec<usize>,
    sends: Vec<usize>,
    /// Number of all edges.
    edges: [usize; 2],
}

fn neighbours(comm: &Communicator) -> Result<Neighbours> {
    let Some(topology) = &comm.topology else {
        return Err(Failure::new(
            abi::ERR_TOPOLOGY,
            "the communicator has no topology: neighbours are those of a topology",
        ));
    };
    let (sources, destinations) = topology.edges(comm.me as c_int);
    let existing = |places: &[c_int]| -> (Vec<usize>, Vec<u32>) {
        let numbered = places.iter().enumerate();
        let existing =
            numbered.filter_map(|(edge, place)| Some((edge, u32::try_from(*place).ok()?)));
        existing.unzip()
    };
    let (receives, from) = existing(&sources);
    let (mut sends, mut to) = existing(&destinations);
    if matches!(topology, Topology::Cartesian(_)) {
        // What goes along a dimension arrives from the other direction: where both neighbours are
        // one rank, the order of messages must be that of the receives.
        let mut order: Vec<usize> = (0..sends.len()).collect();
        order.sort_by_key(|index| sends[*index] ^ 1);
        sends = order.iter().map(|index| sends[*index]).collect();
        to = order.iter().map(|index| to[*index]).collect();
    }
    Ok(Neighbours {
        sources: from,
        destinations: to,
        receives,
        sends,
        edges: [destinations.len(), sources.len()],
    })
}

/// Those of a list that belong to edges which lead somewhere.
fn of_edges<T: Copy>(all: &[T], edges: &[usize]) -> Vec<T> {
    edges.iter().map(|edge| all[*edge]).collect()
}

pub fn neighbor_allgather(
    send: *const c_void,
    send_count: i64,
    send_type: Datatype,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let of = neighbours(comm)?;
            let output = even_blocks(receive, count, datatype, &of.receives)?;
            gather_from(
                comm,
                &of,
                Side::new(send, send_count, send_type)?,
                &output,
                start,
            )
        },
        not_between,
    )
}

fn gather_from(
    comm: &Communicator,
    of: &Neighbours,
    input: Side,
    output: &Side,
    start: Start,
) -> Result {
    let arguments = Arguments::NeighbourAllgather {
        sources: &of.sources,
        destinations: &of.destinations,
        count: input.bytes,
        receive: output.blocks(),
    };
    moved(comm, arguments, false, [&input, output], start)
}

pub fn neighbor_allgatherv(
    send: *const c_void,
    send_count: i64,
    send_type: Datatype,
    receive: *mut c_void,
    counts: Numbers,
    displacements: Numbers,
    datatype: Datatype,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let of = neighbours(comm)?;
            // SAFETY: the standard asks the program for lists of this length.
            let lists = unsafe { [counts.read(of.edges[1]), displacements.read(of.edges[1])] };
            let [counts, starts] = lists.map(|list| of_edges(&list, &of.receives));
            let output = Side::listed(receive, &counts, &starts, datatype)?;
            gather_from(
                comm,
                &of,
                Side::new(send, send_count, send_type)?,
                &output,
                start,
            )
        },
        not_between,
    )
}

fn to_all_neighbours(
    comm: &Communicator,
    of: &Neighbours,
    sides: [&Side; 2],
    start: Start,
) -> Result {
    let arguments = Arguments::NeighbourAlltoall {
        sources: &of.sources,
        destinations: &of.destinations,
        send: sides[0].blocks(),
        receive: sides[1].blocks(),
    };
    moved(comm, arguments, false, sides, start)
}

pub fn neighbor_alltoall(
    send: *const c_void,
    send_count: i64,
    send_type: Datatype,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let of = neighbours(comm)?;
            let input = even_blocks(send, send_count, send_type, &of.sends)?;
            let output = even_blocks(receive, count, datatype, &of.receives)?;
            to_all_neighbours(comm, &of, [&input, &output], start)
        },
        not_between,
    )
}

pub fn neighbor_alltoallv(
    send: *const c_void,
    send_counts: Numbers,
    send_displacements: Numbers,
    send_type: Datatype,
    receive: *mut c_void,
    counts: Numbers,
    displacements: Numbers,
    datatype: Datatype,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let of = neighbours(comm)?;
            let [out, into] = of.edges;
            // SAFETY: the standard asks the program for lists of these lengths.
            let (sent, received) = unsafe {
                (
                    [send_counts.read(out), send_displacements.read(out)],
                    [counts.read(into), displacements.read(into)],
                )
            };
            let sent = sent.map(|list| of_edges(&list, &of.sends));
            let received = received.map(|list| of_edges(&list, &of.receives));
            let input = Side::listed(send, &sent[0], &sent[1], send_type)?;
            let output = Side::listed(receive, &received[0], &received[1], datatype)?;
            to_all_neighbours(comm, &of, [&input, &output], start)
        },
        not_between,
    )
}

pub fn neighbor_alltoallw(
    send: *const c_void,
    send_counts: Numbers,
    send_displacements: *const i64,
    send_types: *const Datatype,
    receive: *mut c_void,
    counts: Numbers,
    displacements: *const i64,
    datatypes: *const Datatype,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let of = neighbours(comm)?;
            let [out, into] = of.edges;
            // SAFETY: the standard asks the program for lists of these lengths.
            let (sent, received, send_types, types) = unsafe {
                (
                    [
                        send_counts.read(out),
                        list(send_displacements, out).to_vec(),
                    ],
                    [counts.read(into), list(displacements, into).to_vec()],
                    of_edges(list(send_types, out), &of.sends),
                    of_edges(list(datatypes, into), &of.receives),
                )
            };
            let sent = sent.map(|list| of_edges(&list, &of.sends));
            let received = received.map(|list| of_edges(&list, &of.receives));
            let input = Side::each(send, &sent[0], &sent[1], &send_types)?;
            let output = Side::each(receive, &received[0], &received[1], &types)?;
            to_all_neighbours(comm, &of, [&input, &output], start)
        },
        not_between,
    )
}
