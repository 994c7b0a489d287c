//! Collectives that move data (MPI-5.0, chapter 6). Each has three functions, which differ in how it
//! starts.

#![allow(unsafe_code, reason = "reads the program's lists")]

use super::described::*;
use crate::abi::{Comm, Datatype, Numbers, Start, list};
use crate::communicator::Communicator;
use crate::failure::Result;
use core::ffi::{c_int, c_void};
use refrain::collective::{Arguments, Blocks, LaidOutBlocks};

// All collectives of the table are here.
pub use super::neighbours::{
    neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv,
    neighbor_alltoallw,
};
pub use super::reductions::{
    allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan,
};

pub fn barrier(comm: Comm, start: Start) -> Result {
    with(
        comm,
        |comm| moved(comm, Arguments::Barrier, false, [&Side::NONE; 2], start),
        |sides| sides.barrier(start),
    )
}

pub fn bcast(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let root = comm.root(root)?;
            let data = Side::new(at, count, datatype)?;
            let count = data.bytes;
            moved(
                comm,
                Arguments::Bcast { root, count },
                true,
                [&Side::NONE, &data],
                start,
            )
        },
        |sides| sides.bcast(&Side::new(at, count, datatype)?, root, start),
    )
}

pub fn gather(
    send: *const c_void,
    send_count: i64,
    send_type: Datatype,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let root = comm.root(root)?;
            let is_root = root == comm.me;
            let in_place = is_root && is_in_place(send);
            let output = match is_root {
                true => Side::new(receive, count, datatype)?,
                false => Side::NONE,
            };
            let input = match in_place {
                true => Side::NONE,
                false => Side::new(send, send_count, send_type)?,
            };
            let of = if in_place { &output } else { &input };
            let blocks = if is_root { output.even() } else { input.even() };
            let count = of.bytes;
            let arguments = Arguments::Gather {
                root,
                count,
                blocks,
            };
            moved(comm, arguments, in_place, [&input, &output], start)
        },
        |sides| {
            let own = || Side::new(send, send_count, send_type);
            sides.gather(
                own,
                || even_blocks(receive, count, datatype, &sides.all()),
                root,
                start,
            )
        },
    )
}

pub fn gatherv(
    send: *const c_void,
    send_count: i64,
    send_type: Datatype,
    receive: *mut c_void,
    counts: Numbers,
    displacements: Numbers,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let root = comm.root(root)?;
            let is_root = root == comm.me;
            let in_place = is_root && is_in_place(send);
            let size = comm.size() as usize;
            let output = match is_root {
                true => {
                    // SAFETY: the standard asks the root for lists of this length.
                    let lists = unsafe { [counts.read(size), displacements.read(size)] };
                    Side::listed(receive, &lists[0], &lists[1], datatype)?
                }
                false => listed_none(),
            };
            let input = match in_place {
                true => Side::NONE,
                false => Side::new(send, send_count, send_type)?,
            };
            let count = match (in_place, output.blocks()) {
                (true, Blocks::Listed { counts, .. }) => counts[root as usize],
                _ => input.bytes,
            };
            let blocks = output.blocks();
            let arguments = Arguments::Gather {
                root,
                count,
                blocks,
            };
            moved(comm, arguments, in_place, [&input, &output], start)
        },
        |sides| {
            let own = || Side::new(send, send_count, send_type);
            let size = sides.all().len();
            let listed = || {
                // SAFETY: the standard asks the root for lists of this length.
                let lists = unsafe { [counts.read(size), displacements.read(size)] };
                Side::listed(receive, &lists[0], &lists[1], datatype)
            };
            sides.gather(own, listed, root, start)
        },
    )
}

/// Blocks that only the root has.
fn listed_none() -> Side {
    Side {
        blocks: LaidOutBlocks::new([]).ok(),
        ..Side::NONE
    }
}

pub fn scatter(
    send: *const c_void,
    send_count: i64,
    send_type: Datatype,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let root = comm.root(root)?;
            let is_root = root == comm.me;
            let in_place = is_root && is_in_place(receive);
            let input = match is_root {
                true => Side::new(send, send_count, send_type)?,
                false => Side::NONE,
            };
            let output = match in_place {
                true => Side::NONE,
                false => Side::new(receive, count, datatype)?,
            };
            let of = if in_place { &input } else { &output };
            let blocks = if is_root { input.even() } else { output.even() };
            let count = of.bytes;
            let arguments = Arguments::Scatter {
                root,
                count,
                blocks,
            };
            moved(comm, arguments, in_place, [&input, &output], start)
        },
        |sides| {
            let own = || Side::new(receive, count, datatype);
            sides.scatter(
                own,
                || even_blocks(send, send_count, send_type, &sides.all()),
                root,
                start,
            )
        },
    )
}

pub fn scatterv(
    send: *const c_void,
    counts: Numbers,
    displacements: Numbers,
    send_type: Datatype,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let root = comm.root(root)?;
            let is_root = root == comm.me;
            let in_place = is_root && is_in_place(receive);
            let size = comm.size() as usize;
            let input = match is_root {
                true => {
                    // SAFETY: the standard asks the root for lists of this length.
                    let lists = unsafe { [counts.read(size), displacements.read(size)] };
                    Side::listed(send, &lists[0], &lists[1], send_type)?
                }
                false => listed_none(),
            };
            let output = match in_place {
                true => Side::NONE,
                false => Side::new(receive, count, datatype)?,
            };
            let count = match (in_place, input.blocks()) {
                (true, Blocks::Listed { counts, .. }) => counts[root as usize],
                _ => output.bytes,
            };
            let blocks = input.blocks();
            let arguments = Arguments::Scatter {
                root,
                count,
                blocks,
            };
            moved(comm, arguments, in_place, [&input, &output], start)
        },
        |sides| {
            let own = || Side::new(receive, count, datatype);
            let size = sides.all().len();
            let listed = || {
                // SAFETY: the standard asks the root for lists of this length.
                let lists = unsafe { [counts.read(size), displacements.read(size)] };
                Side::listed(send, &lists[0], &lists[1], send_type)
            };
            sides.scatter(own, listed, root, start)
        },
    )
}

pub fn allgather(
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
            let in_place = is_in_place(send);
            let input = match in_place {
                true => Side::NONE,
                false => Side::new(send, send_count, send_type)?,
            };
            let output = Side::new(receive, count, datatype)?;
            let blocks = output.even();
            moved(
                comm,
                Arguments::Allgather { blocks },
                in_place,
                [&input, &output],
                start,
            )
        },
        |sides| {
            let output = even_blocks(receive, count, datatype, &sides.all())?;
            sides.allgather(&Side::new(send, send_count, send_type)?, &output, start)
        },
    )
}

pub fn allgatherv(
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
            let in_place = is_in_place(send);
            let size = comm.size() as usize;
            // SAFETY: the standard asks the program for lists of this length.
            let lists = unsafe { [counts.read(size), displacements.read(size)] };
            let output = Side::listed(receive, &lists[0], &lists[1], datatype)?;
            let input = match in_place {
                true => Side::NONE,
                false => Side::new(send, send_count, send_type)?,
            };
            let blocks = output.blocks();
            moved(
                comm,
                Arguments::Allgather { blocks },
                in_place,
                [&input, &output],
                start,
            )
        },
        |sides| {
            let size = sides.all().len();
            // SAFETY: the standard asks the program for lists of this length.
            let lists = unsafe { [counts.read(size), displacements.read(size)] };
            let output = Side::listed(receive, &lists[0], &lists[1], datatype)?;
            sides.allgather(&Side::new(send, send_count, send_type)?, &output, start)
        },
    )
}

pub fn alltoall(
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
            let in_place = is_in_place(send);
            let output = Side::new(receive, count, datatype)?;
            let input = match in_place {
                true => Side::NONE,
                false => Side::new(send, send_count, send_type)?,
            };
            let of = if in_place { &output } else { &input };
            let arguments = Arguments::Alltoall {
                send: of.even(),
                receive: output.even(),
            };
            moved(comm, arguments, in_place, [&input, &output], start)
        },
        |sides| {
            let input = even_blocks(send, send_count, send_type, &sides.all())?;
            let output = even_blocks(receive, count, datatype, &sides.all())?;
            sides.alltoall(&input, &output, start)
        },
    )
}

pub fn alltoallv(
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
            let in_place = is_in_place(send);
            let size = comm.size() as usize;
            // SAFETY: the standard asks the program for lists of this length.
            let lists = unsafe { [counts.read(size), displacements.read(size)] };
            let output = Side::listed(receive, &lists[0], &lists[1], datatype)?;
            let input = match in_place {
                true => listed_none(),
                false => {
                    // SAFETY: likewise.
                    let lists = unsafe { [send_counts.read(size), send_displacements.read(size)] };
                    Side::listed(send, &lists[0], &lists[1], send_type)?
                }
            };
            all_to_all(comm, in_place, [&input, &output], start)
        },
        |sides| {
            let size = sides.all().len();
            // SAFETY: the standard asks the program for lists of this length.
            let (sent, received) = unsafe {
                (
                    [send_counts.read(size), send_displacements.read(size)],
                    [counts.read(size), displacements.read(size)],
                )
            };
            let input = Side::listed(send, &sent[0], &sent[1], send_type)?;
            let output = Side::listed(receive, &received[0], &received[1], datatype)?;
            sides.alltoall(&input, &output, start)
        },
    )
}

fn all_to_all(comm: &Communicator, in_place: bool, sides: [&Side; 2], start: Start) -> Result {
    let arguments = Arguments::Alltoall {
        send: sides[0].blocks(),
        receive: sides[1].blocks(),
    };
    moved(comm, arguments, in_place, sides, start)
}

pub fn alltoallw(
    send: *const c_void,
    send_counts: Numbers,
    send_displacements: Numbers,
    send_types: *const Datatype,
    receive: *mut c_void,
    counts: Numbers,
    displacements: Numbers,
    datatypes: *const Datatype,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let in_place = is_in_place(send);
            let size = comm.size() as usize;
            // SAFETY: the standard asks the program for lists of this length.
            let (lists, types) = unsafe {
                (
                    [counts.read(size), displacements.read(size)],
                    list(datatypes, size),
                )
            };
            let output = Side::each(receive, &lists[0], &lists[1], types)?;
            let input = match in_place {
                true => listed_none(),
                false => {
                    // SAFETY: likewise.
                    let (lists, types) = unsafe {
                        (
                            [send_counts.read(size), send_displacements.read(size)],
                            list(send_types, size),
                        )
                    };
                    Side::each(send, &lists[0], &lists[1], types)?
                }
            };
            all_to_all(comm, in_place, [&input, &output], start)
        },
        |sides| {
            let size = sides.all().len();
            // SAFETY: the standard asks the program for lists of this length.
            let (sent, received, send_types, types) = unsafe {
                (
                    [send_counts.read(size), send_displacements.read(size)],
                    [counts.read(size), displacements.read(size)],
                    list(send_types, size),
                    list(datatypes, size),
                )
            };
            let input = Side::each(send, &sent[0], &sent[1], send_types)?;
            let output = Side::each(receive, &received[0], &received[1], types)?;
            sides.alltoall(&input, &output, start)
        },
    )
}
