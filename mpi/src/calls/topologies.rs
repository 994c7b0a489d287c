//! Topologies (MPI-5.0, chapter 8).

#![allow(unsafe_code, reason = "reads and writes lists of the program")]

use super::communicators::comm_split;
use crate::abi::{Comm, Info, list, list_mut, put};
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::count;
use crate::state::mpi;
use crate::topology::{Edges, Grid, Topology, divide};
use core::ffi::c_int;
use refrain::collective::{Blocks, allgather, allgatherv};
use std::sync::Arc;

fn get(comm: Comm) -> Result<Communicator> {
    mpi().communicators.borrow().get(comm).cloned()
}

fn none(what: &str) -> Failure {
    Failure::new(
        abi::ERR_TOPOLOGY,
        format_args!("the communicator has no {what} topology"),
    )
}

fn grid(comm: Comm) -> Result<(Arc<Grid>, Communicator)> {
    let communicator = get(comm)?;
    match &communicator.topology {
        Some(Topology::Cartesian(grid)) => Ok((Arc::clone(grid), communicator)),
        _ => Err(none("cartesian")),
    }
}

/// A number of dimensions or places that the program gives.
fn number(of: c_int, what: &str) -> Result<usize> {
    usize::try_from(of)
        .map_err(|_| Failure::argument(format_args!("{what} is {of}: give 0 or more")))
}

pub fn dims_create(places: c_int, dimensions: c_int, sizes: *mut c_int) -> Result {
    // SAFETY: the standard asks the program for a list of this length.
    divide(places, unsafe {
        list_mut(sizes, number(dimensions, "ndims")?)
    })
}

/// # Safety
/// Both lists have this length.
unsafe fn read_grid(dimensions: c_int, sizes: *const c_int, wraps: *const c_int) -> Result<Grid> {
    let dimensions = number(dimensions, "ndims")?;
    // SAFETY: the caller's promise.
    let (sizes, wraps) = unsafe { (list(sizes, dimensions), list(wraps, dimensions)) };
    if let Some(size) = sizes.iter().find(|size| **size < 1) {
        return Err(Failure::new(
            abi::ERR_DIMS,
            format_args!("a dimension has size {size}: give 1 or more"),
        ));
    }
    Ok(Grid {
        sizes: sizes.to_vec(),
        wraps: wraps.iter().map(|wraps| *wraps != 0).collect(),
    })
}

/// Checks that a topology has not more places than the communicator.
fn fits(places: Option<c_int>, comm: &Communicator) -> Result<u32> {
    match places.map(u32::try_from) {
        Some(Ok(places)) if places <= comm.size() => Ok(places),
        _ => Err(Failure::argument(format_args!(
            "the topology has more places than the communicator, which has {}",
            comm.size()
        ))),
    }
}

/// A communicator of the first places, with a topology. Ranks keep their order.
fn first(comm: Comm, places: u32, topology: Topology, place: *mut Comm) -> Result {
    let me = get(comm)?.me;
    let color = if me < places { 0 } else { abi::UNDEFINED };
    comm_split(comm, color, 0, place)?;
    set_topology(place, topology)
}

pub fn cart_create(
    comm: Comm,
    dimensions: c_int,
    sizes: *const c_int,
    wraps: *const c_int,
    _reorder: c_int,
    place: *mut Comm,
) -> Result {
    // SAFETY: the standard asks the program for lists of this length.
    let grid = unsafe { read_grid(dimensions, sizes, wraps)? };
    let places = fits(grid.places(), &get(comm)?)?;
    first(comm, places, Topology::Cartesian(Arc::new(grid)), place)
}

pub fn cart_map(
    comm: Comm,
    dimensions: c_int,
    sizes: *const c_int,
    wraps: *const c_int,
    rank: *mut c_int,
) -> Result {
    let communicator = get(comm)?;
    // SAFETY: as above.
    let grid = unsafe { read_grid(dimensions, sizes, wraps)? };
    let places = fits(grid.places(), &communicator)?;
    let is_in = communicator.me < places;
    put(
        rank,
        if is_in {
            communicator.me as c_int
        } else {
            abi::UNDEFINED
        },
    );
    Ok(())
}

pub fn cartdim_get(comm: Comm, dimensions: *mut c_int) -> Result {
    put(dimensions, grid(comm)?.0.sizes.len() as c_int);
    Ok(())
}

/// Writes as many numbers as there is room for.
///
/// # Safety
/// The list has this length.
unsafe fn write(numbers: impl IntoIterator<Item = c_int>, room: usize, at: *mut c_int) {
    // SAFETY: the caller's promise.
    for (place, number) in unsafe { list_mut(at, room) }.iter_mut().zip(numbers) {
        *place = number;
    }
}

pub fn cart_get(
    comm: Comm,
    room: c_int,
    sizes: *mut c_int,
    wraps: *mut c_int,
    coordinates: *mut c_int,
) -> Result {
    let (grid, communicator) = grid(comm)?;
    let room = number(room, "maxdims")?;
    let here = grid.coordinates(communicator.me as c_int);
    // SAFETY: the standard asks the program for lists of this length.
    unsafe {
        write(grid.sizes.iter().copied(), room, sizes);
        write(grid.wraps.iter().map(|wraps| (*wraps).into()), room, wraps);
        write(here, room, coordinates);
    }
    Ok(())
}

pub fn cart_rank(comm: Comm, coordinates: *const c_int, rank: *mut c_int) -> Result {
    let (grid, _) = grid(comm)?;
    // SAFETY: the standard asks the program for a list of this length.
    let coordinates = unsafe { list(coordinates, grid.sizes.len()) };
    let place = grid.place(coordinates).ok_or_else(|| {
        Failure::argument(format_args!(
            "coordinates {coordinates:?} are outside of a grid of {:?}",
            grid.sizes
        ))
    })?;
    put(rank, place);
    Ok(())
}

pub fn cart_coords(comm: Comm, rank: c_int, room: c_int, coordinates: *mut c_int) -> Result {
    let (grid, communicator) = grid(comm)?;
    let place = communicator.root(rank).map_err(|failure| Failure {
        code: abi::ERR_RANK,
        ..failure
    })?;
    let room = number(room, "maxdims")?;
    // SAFETY: as above.
    unsafe { write(grid.coordinates(place as c_int), room, coordinates) };
    Ok(())
}

pub fn cart_shift(
    comm: Comm,
    dimension: c_int,
    by: c_int,
    source: *mut c_int,
    destination: *mut c_int,
) -> Result {
    let (grid, communicator) = grid(comm)?;
    let index = usize::try_from(dimension)
        .ok()
        .filter(|it| *it < grid.sizes.len());
    let index = index.ok_or_else(|| {
        Failure::argument(format_args!(
            "direction {dimension}: the grid has {} dimensions",
            grid.sizes.len()
        ))
    })?;
    let (from, to) = grid.shift(communicator.me as c_int, index, by);
    put(source, from);
    put(destination, to);
    Ok(())
}

pub fn cart_sub(comm: Comm, remains: *const c_int, place: *mut Comm) -> Result {
    let (grid, communicator) = grid(comm)?;
    // SAFETY: the standard asks the program for a list of this length.
    let remains = unsafe { list(remains, grid.sizes.len()) };
    let remains: Vec<bool> = remains.iter().map(|remains| *remains != 0).collect();
    let (part, color, key) = grid.part(communicator.me as c_int, &remains);
    comm_split(comm, color, key, place)?;
    set_topology(place, Topology::Cartesian(Arc::new(part)))
}

/// Sets the topology of a new communicator, if this rank is in it.
fn set_topology(place: *mut Comm, topology: Topology) -> Result {
    // SAFETY: a call has written the handle.
    let new = unsafe { *place };
    if new != abi::COMM_NULL {
        mpi().communicators.borrow_mut().get_mut(new)?.topology = Some(topology);
    }
    Ok(())
}

/// # Safety
/// The list of ends has this length, and the other one that of the last end.
unsafe fn read_graph(places: c_int, ends: *const c_int, all: *const c_int) -> Result<Topology> {
    let places = number(places, "nnodes")?;
    // SAFETY: the caller's promise.
    let ends = unsafe { list(ends, places) }.to_vec();
    let length = number(ends.last().copied().unwrap_or(0), "the last index")?;
    // SAFETY: likewise.
    let all = unsafe { list(all, length) }.to_vec();
    let is_rising = ends.is_sorted() && ends.first().is_none_or(|end| *end >= 0);
    let wrong = all
        .iter()
        .find(|place| usize::try_from(**place).is_ok_and(|it| it >= places) || **place < 0);
    match (is_rising, wrong) {
        (true, None) => Ok(Topology::Graph(Arc::new((ends, all)))),
        (false, _) => Err(Failure::argument(format_args!(
            "the index {ends:?} does not rise"
        ))),
        (_, Some(wrong)) => Err(Failure::argument(format_args!(
            "an edge leads to {wrong}: the graph has {places} nodes"
        ))),
    }
}

pub fn graph_create(
    comm: Comm,
    places: c_int,
    ends: *const c_int,
    all: *const c_int,
    _reorder: c_int,
    place: *mut Comm,
) -> Result {
    // SAFETY: the standard asks the program for such lists.
    let graph = unsafe { read_graph(places, ends, all)? };
    let places = fits(Some(places), &get(comm)?)?;
    first(comm, places, graph, place)
}

pub fn graph_map(
    comm: Comm,
    places: c_int,
    ends: *const c_int,
    all: *const c_int,
    rank: *mut c_int,
) -> Result {
    // SAFETY: as above.
    unsafe { read_graph(places, ends, all)? };
    let communicator = get(comm)?;
    let is_in = communicator.me < fits(Some(places), &communicator)?;
    put(
        rank,
        if is_in {
            communicator.me as c_int
        } else {
            abi::UNDEFINED
        },
    );
    Ok(())
}

fn graph(comm: Comm) -> Result<Topology> {
    match get(comm)?.topology {
        Some(graph @ Topology::Graph(_)) => Ok(graph),
        _ => Err(none("graph")),
    }
}

fn lists(comm: Comm) -> Result<Arc<(Vec<c_int>, Vec<c_int>)>> {
    match graph(comm)? {
        Topology::Graph(lists) => Ok(lists),
        _ => Err(none("graph")),
    }
}

pub fn graphdims_get(comm: Comm, places: *mut c_int, edges: *mut c_int) -> Result {
    let lists = lists(comm)?;
    put(places, lists.0.len() as c_int);
    put(edges, lists.1.len() as c_int);
    Ok(())
}

pub fn graph_get(
    comm: Comm,
    ends_room: c_int,
    edges_room: c_int,
    ends: *mut c_int,
    edges: *mut c_int,
) -> Result {
    let lists = lists(comm)?;
    let rooms = (
        number(ends_room, "maxindex")?,
        number(edges_room, "maxedges")?,
    );
    // SAFETY: the standard asks the program for lists of this length.
    unsafe {
        write(lists.0.iter().copied(), rooms.0, ends);
        write(lists.1.iter().copied(), rooms.1, edges);
    }
    Ok(())
}

fn of_graph(comm: Comm, rank: c_int) -> Result<Vec<c_int>> {
    let graph = graph(comm)?;
    let found = graph.of_graph(rank).map(<[c_int]>::to_vec);
    found.ok_or_else(|| {
        Failure::new(
            abi::ERR_RANK,
            format_args!("rank {rank} is not in the graph"),
        )
    })
}

pub fn graph_neighbors_count(comm: Comm, rank: c_int, number: *mut c_int) -> Result {
    put(number, of_graph(comm, rank)?.len() as c_int);
    Ok(())
}

pub fn graph_neighbors(comm: Comm, rank: c_int, room: c_int, places: *mut c_int) -> Result {
    let neighbours = of_graph(comm, rank)?;
    // SAFETY: the standard asks the program for a list of this length.
    unsafe { write(neighbours, number(room, "maxneighbors")?, places) };
    Ok(())
}

pub fn topo_test(comm: Comm, status: *mut c_int) -> Result {
    put(
        status,
        match get(comm)?.topology {
            Some(Topology::Cartesian(_)) => abi::CART,
            Some(Topology::Graph(_)) => abi::GRAPH,
            Some(Topology::Distributed(_)) => abi::DIST_GRAPH,
            None => abi::UNDEFINED,
        },
    );
    Ok(())
}

/// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY`
const UNWEIGHTED: usize = 10;
const WEIGHTS_EMPTY: usize = 11;

/// Weights of a list; `None`: `MPI_UNWEIGHTED`.
///
/// # Safety
/// The list has this length.
unsafe fn weights(at: *const c_int, length: usize) -> Option<Vec<c_int>> {
    match at.addr() {
        UNWEIGHTED => None,
        WEIGHTS_EMPTY => Some(Vec::new()),
        // SAFETY: the caller's promise.
        _ => Some(unsafe { list(at, length) }.to_vec()),
    }
}

fn check_places(places: &[c_int], of: &Communicator) -> Result {
    let is_place = |place: &&c_int| u32::try_from(**place).is_ok_and(|place| place < of.size());
    match places.iter().find(|place| !is_place(place)) {
        None => Ok(()),
        Some(wrong) => Err(Failure::argument(format_args!(
            "an edge leads to or from {wrong}: ranks are 0 to {}",
            of.size() - 1
        ))),
    }
}

fn give(comm: Comm, edges: Edges, hints: Info, place: *mut Comm) -> Result {
    let hints = mpi().infos.borrow().hints(hints)?;
    let mut new = abi::COMM_NULL;
    comm_split(comm, 0, 0, &raw mut new)?;
    let mut communicators = mpi().communicators.borrow_mut();
    let communicator = communicators.get_mut(new)?;
    communicator.topology = Some(Topology::Distributed(Arc::new(edges)));
    communicator.hints = hints;
    put(place, new);
    Ok(())
}

pub fn dist_graph_create_adjacent(
    comm: Comm,
    in_number: c_int,
    sources: *const c_int,
    source_weights: *const c_int,
    out_number: c_int,
    destinations: *const c_int,
    destination_weights: *const c_int,
    info: Info,
    _reorder: c_int,
    place: *mut Comm,
) -> Result {
    let (sources_number, destinations_number) = (
        number(in_number, "indegree")?,
        number(out_number, "outdegree")?,
    );
    // SAFETY: the standard asks the program for lists of this length.
    let (sources, destinations, weights) = unsafe {
        (
            list(sources, sources_number).to_vec(),
            list(destinations, destinations_number).to_vec(),
            [
                weights(source_weights, sources_number),
                weights(destination_weights, destinations_number),
            ],
        )
    };
    let communicator = get(comm)?;
    check_places(&sources, &communicator)?;
    check_places(&destinations, &communicator)?;
    let is_weighted = weights.iter().all(Option::is_some);
    let [source_weights, destination_weights] = weights.map(Option::unwrap_or_default);
    let edges = Edges {
        sources,
        source_weights,
        destinations,
        destination_weights,
        is_weighted,
    };
    give(comm, edges, info, place)
}

pub fn dist_graph_create(
    comm: Comm,
    nodes: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    all_weights: *const c_int,
    info: Info,
    _reorder: c_int,
    place: *mut Comm,
) -> Result {
    let nodes = number(nodes, "n")?;
    // SAFETY: the standard asks the program for lists of this length.
    let (sources, degrees) = unsafe { (list(sources, nodes), list(degrees, nodes)) };
    let edges: usize = degrees.iter().map(|degree| (*degree).max(0) as usize).sum();
    // SAFETY: likewise.
    let (destinations, weights) =
        unsafe { (list(destinations, edges), weights(all_weights, edges)) };
    let communicator = get(comm)?;
    check_places(sources, &communicator)?;
    check_places(destinations, &communicator)?;
    let is_weighted = weights.is_some();
    let weights = weights.unwrap_or_else(|| vec![1; edges]);
    let from = sources.iter().zip(degrees);
    let from = from.flat_map(|(source, degree)| core::iter::repeat_n(*source, *degree as usize));
    let own: Vec<c_int> = (from.zip(destinations).zip(&weights))
        .flat_map(|((from, to), weight)| [from, *to, *weight])
        .collect();
    // Each member tells all edges that it knows to all.
    let all = {
        let mut world = mpi().world()?;
        let size = communicator.ranks.len();
        let mut counts = vec![0u64; size];
        let length = [own.len() as u64];
        world.collective(allgather(communicator.group, &length, &mut counts[..]))?;
        let ends = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        let starts: Vec<u64> = ends.zip(&counts).map(|(end, count)| end - count).collect();
        let mut all = vec![0; counts.iter().sum::<u64>() as usize];
        let blocks = Blocks::Listed {
            counts: &counts,
            starts: &starts,
        };
        world.collective(allgatherv(
            communicator.group,
            &own[..],
            &mut all[..],
            blocks,
        ))?;
        all
    };
    let me = communicator.me as c_int;
    let mut edges = Edges {
        is_weighted,
        ..Edges::default()
    };
    for edge in all.chunks_exact(3) {
        if edge[0] == me {
            edges.destinations.push(edge[1]);
            edges.destination_weights.push(edge[2]);
        }
        if edge[1] == me {
            edges.sources.push(edge[0]);
            edges.source_weights.push(edge[2]);
        }
    }
    give(comm, edges, info, place)
}

fn edges(comm: Comm) -> Result<Arc<Edges>> {
    match get(comm)?.topology {
        Some(Topology::Distributed(edges)) => Ok(edges),
        _ => Err(none("distributed graph")),
    }
}

pub fn dist_graph_neighbors_count(
    comm: Comm,
    in_number: *mut c_int,
    out_number: *mut c_int,
    is_weighted: *mut c_int,
) -> Result {
    let edges = edges(comm)?;
    put(in_number, edges.sources.len() as c_int);
    put(out_number, edges.destinations.len() as c_int);
    put(is_weighted, edges.is_weighted.into());
    Ok(())
}

pub fn dist_graph_neighbors(
    comm: Comm,
    in_room: c_int,
    sources: *mut c_int,
    source_weights: *mut c_int,
    out_room: c_int,
    destinations: *mut c_int,
    destination_weights: *mut c_int,
) -> Result {
    let edges = edges(comm)?;
    let rooms = (count(in_room)?, count(out_room)?);
    let of = |at: *mut c_int| match at.addr() {
        UNWEIGHTED | WEIGHTS_EMPTY => core::ptr::null_mut(),
        _ if !edges.is_weighted => core::ptr::null_mut(),
        _ => at,
    };
    // SAFETY: the standard asks the program for lists of this length.
    unsafe {
        write(edges.sources.iter().copied(), rooms.0, sources);
        write(
            edges.source_weights.iter().copied(),
            rooms.0,
            of(source_weights),
        );
        write(edges.destinations.iter().copied(), rooms.1, destinations);
        write(
            edges.destination_weights.iter().copied(),
            rooms.1,
            of(destination_weights),
        );
    }
    Ok(())
}
