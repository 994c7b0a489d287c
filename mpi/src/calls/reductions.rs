//! Collectives that combine elements (MPI-5.0, sections 6.9 to 6.11).

#![allow(unsafe_code, reason = "reads the program's lists")]

use super::described::{
    Described, IN_PLACE, Side, check_apart, check_data, copies, is_in_place, not_between, with,
};
use crate::abi::{Comm, Datatype, Numbers, Op, Start};
use crate::communicator::Communicator;
use crate::failure::Result;
use crate::operator::combination;
use crate::state::mpi;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use refrain::collective::{Arguments, Blocks, Prefix};

/// Whether a reduction with one count for all has elements.
fn has_data(arguments: &Arguments<'_>) -> bool {
    match arguments {
        Arguments::Reduce { count, .. }
        | Arguments::Allreduce { count, .. }
        | Arguments::Scan { count, .. } => *count > 0,
        _ => false,
    }
}

/// A collective that combines elements.
fn combined(
    comm: &Communicator,
    arguments: Arguments<'_>,
    buffers: [*const c_void; 2],
    (datatype, op): (Datatype, Op),
    start: Start,
) -> Result {
    let of = combination(op, datatype)?;
    let [mut send, receive] = buffers;
    if core::ptr::eq(send, receive) && !mpi().checks.get() {
        send = IN_PLACE;
    }
    let in_place = is_in_place(send);
    let is_root = !matches!(arguments, Arguments::Reduce { root, .. } if root != comm.me);
    if of.offset_bytes == 0 && has_data(&arguments) {
        match (in_place, is_root) {
            (false, true) => check_apart(send, receive)?,
            (false, false) => check_data(send)?,
            (true, _) => check_data(receive)?,
        }
    }
    let side = |at: *const c_void| match at.is_null() || is_in_place(at) {
        true => Side::NONE,
        false => Side {
            at: at.cast::<u8>().cast_mut().wrapping_offset(of.offset_bytes),
            ..Side::NONE
        },
    };
    let (input, output) = (side(send), side(receive));
    let element_bytes = of.reduction.element_bytes() as u64;
    let described = Described {
        group: comm.group,
        arguments,
        in_place,
        input: &input,
        output: &output,
        reduction: Some(of.reduction),
        element_bytes,
    };
    described.start(start)
}

pub fn reduce(
    send: *const c_void,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: Op,
    root: c_int,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let root = comm.root(root)?;
            let count = copies(count)?;
            let receive = if root == comm.me { receive } else { null_mut() };
            let arguments = Arguments::Reduce { root, count };
            combined(comm, arguments, [send, receive], (datatype, op), start)
        },
        |sides| sides.reduce([send, receive], count, (datatype, op), root, start),
    )
}

pub fn allreduce(
    send: *const c_void,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: Op,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let arguments = Arguments::Allreduce {
                count: copies(count)?,
                // The library knows from the reduction.
                commutative: false,
            };
            combined(comm, arguments, [send, receive], (datatype, op), start)
        },
        |sides| {
            sides.allreduce(
                [send, receive],
                count,
                0..copies(count)?,
                (datatype, op),
                start,
            )
        },
    )
}

pub fn reduce_scatter_block(
    send: *const c_void,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: Op,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let blocks = Blocks::Even(copies(count)?);
            let arguments = Arguments::ReduceScatter { blocks };
            combined(comm, arguments, [send, receive], (datatype, op), start)
        },
        |sides| {
            let (me, count) = (u64::from(sides.me()), copies(count)?);
            let total = count * u64::from(sides.size());
            let own = me * count..(me + 1) * count;
            sides.allreduce([send, receive], total as i64, own, (datatype, op), start)
        },
    )
}

pub fn reduce_scatter(
    send: *const c_void,
    receive: *mut c_void,
    counts: Numbers,
    datatype: Datatype,
    op: Op,
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            // SAFETY: the standard asks the program for a list of this length.
            let counts = unsafe { counts.read(comm.size() as usize) };
            let counts: Result<Vec<u64>> = counts.into_iter().map(copies).collect();
            let counts = counts?;
            let ends = counts.iter().scan(0, |end, count| {
                *end += count;
                Some(*end)
            });
            let starts: Vec<u64> = ends.zip(&counts).map(|(end, count)| end - count).collect();
            let blocks = Blocks::Listed {
                counts: &counts,
                starts: &starts,
            };
            let arguments = Arguments::ReduceScatter { blocks };
            combined(comm, arguments, [send, receive], (datatype, op), start)
        },
        |sides| {
            // SAFETY: the standard asks the program for a list of this length.
            let counts = unsafe { counts.read(sides.size() as usize) };
            let me = sides.me() as usize;
            let begin: i64 = counts[..me].iter().sum();
            let own = copies(begin)?..copies(begin + counts[me])?;
            sides.allreduce(
                [send, receive],
                counts.iter().sum(),
                own,
                (datatype, op),
                start,
            )
        },
    )
}

fn prefix(
    prefix: Prefix,
    buffers: [*const c_void; 2],
    count: i64,
    of: (Datatype, Op),
    comm: Comm,
    start: Start,
) -> Result {
    with(
        comm,
        |comm| {
            let count = copies(count)?;
            combined(comm, Arguments::Scan { count, prefix }, buffers, of, start)
        },
        not_between,
    )
}

pub fn scan(
    send: *const c_void,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: Op,
    comm: Comm,
    start: Start,
) -> Result {
    prefix(
        Prefix::Inclusive,
        [send, receive],
        count,
        (datatype, op),
        comm,
        start,
    )
}

pub fn exscan(
    send: *const c_void,
    receive: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: Op,
    comm: Comm,
    start: Start,
) -> Result {
    prefix(
        Prefix::Exclusive,
        [send, receive],
        count,
        (datatype, op),
        comm,
        start,
    )
}
