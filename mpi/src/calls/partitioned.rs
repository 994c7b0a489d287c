//! Partitioned communication (MPI-5.0, section 4.2).

#![allow(unsafe_code, reason = "lends the program's buffers to the library")]

use super::types::{Form, form, outgoing};
use crate::abi::{Comm, Datatype, Info, Request, Status, list, put};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::parts::{Greeting, Parts, Side, greeting_context};
use crate::request::{Entry, Operation, Persistent, count_of, empty, from_proc_null};
use crate::state::mpi;
use core::ffi::{c_int, c_void};
use core::ops::Range;
use refrain::ReceiveBuffer;

pub use {precv_init as precv_init_c, psend_init as psend_init_c};

/// Partitions of a buffer: how many, and the extent and bytes of each.
struct Cut {
    partitions: u64,
    extent_bytes: i64,
    bytes: u64,
}

fn cut(partitions: c_int, count: i64, datatype: Datatype) -> Result<Cut> {
    let number = u64::try_from(partitions).ok().filter(|it| *it > 0);
    let partitions = number.ok_or_else(|| {
        Failure::argument(format_args!(
            "the number of partitions is {partitions}: give 1 or more"
        ))
    })?;
    let types = mpi().types.borrow();
    let of = types.committed(datatype)?;
    let too_long = || Failure::new(abi::ERR_COUNT, "the partitions are longer than a memory");
    let times = |bytes: i64| count.checked_mul(bytes).ok_or_else(too_long);
    if count < 0 {
        return Err(super::types::negative(count));
    }
    let cut = Cut {
        partitions,
        extent_bytes: times(of.extent())?,
        bytes: times(of.size())? as u64,
    };
    let total = cut.bytes.checked_mul(partitions);
    total
        .filter(|total| *total < 1 << 62)
        .ok_or_else(too_long)?;
    Ok(cut)
}

fn give(parts: Parts, place: *mut Request) -> Result {
    let entry = Entry::new(Operation::Parts(Box::new(parts)), None);
    mpi().give(place, entry.persistent(Persistent::Again))
}

pub fn psend_init(
    at: *const c_void,
    partitions: c_int,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    tag: c_int,
    comm: Comm,
    _info: Info,
    place: *mut Request,
) -> Result {
    let cut = cut(partitions, count, datatype)?;
    let to = mpi().communicators.borrow().get(comm)?.to(dest, tag)?;
    let side = match to {
        None => Side::ProcNull,
        Some(to) => {
            let mut world = mpi().world()?;
            let context = world.take_context()?;
            let greeting = Greeting::encode(context, cut.partitions, cut.bytes);
            world.send(
                &greeting,
                to.tag(!tag).context(greeting_context(to.context)),
            )?;
            let extent = cut.extent_bytes as isize;
            let data = move |partition: u64| {
                outgoing(
                    at.wrapping_byte_offset(partition as isize * extent),
                    count,
                    datatype,
                )
            };
            // Wrong arguments are found now.
            data(0)?;
            Side::Send {
                data: Box::new(data),
                to: to.context(context),
                is_ready: vec![false; cut.partitions as usize],
            }
        }
    };
    give(Parts::new(side, cut.partitions, cut.bytes, empty()), place)
}

pub fn precv_init(
    at: *mut c_void,
    partitions: c_int,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
    comm: Comm,
    _info: Info,
    place: *mut Request,
) -> Result {
    if source == abi::ANY_SOURCE || tag == abi::ANY_TAG {
        return Err(Failure::argument(
            "a partitioned receive names its source and its tag",
        ));
    }
    let cut = cut(partitions, count, datatype)?;
    let (from, context) = {
        let communicators = mpi().communicators.borrow();
        let comm = communicators.get(comm)?;
        (comm.from(source, tag)?, comm.context)
    };
    let (side, status) = match from {
        None => (Side::ProcNull, from_proc_null()),
        Some(from) => {
            let total = cut.partitions as i64 * count;
            let room = move |part: Range<u64>| part_of(at, total, datatype, part);
            room(0..0)?;
            let mut world = mpi().world()?;
            let side = Side::Receive {
                room: Box::new(room),
                sender: Parts::expect(
                    &mut world,
                    from.tag(!tag).context(greeting_context(context)),
                )?,
                has_arrived: Vec::new(),
                is_posted: false,
            };
            (side, Status::new(source, tag, cut.partitions * cut.bytes))
        }
    };
    give(Parts::new(side, cut.partitions, cut.bytes, status), place)
}

/// Room for these bytes of the message in a buffer of `count` items.
fn part_of(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    part: Range<u64>,
) -> Result<ReceiveBuffer> {
    let bytes = part.end - part.start;
    match form(count, datatype)? {
        Form::Bytes(all) if at.is_null() && all > 0 => Err(Failure::new(
            abi::ERR_BUFFER,
            "the buffer of the partitions is NULL",
        )),
        // SAFETY: the standard asks the program to leave the buffer alone until the receive is complete.
        Form::Bytes(_) => Ok(unsafe {
            ReceiveBuffer::bytes(
                at.cast::<u8>().wrapping_add(part.start as usize),
                bytes as usize,
            )
        }),
        Form::Copies(_, layout) => {
            if layout.overlaps() {
                return Err(Failure::new(
                    abi::ERR_TYPE,
                    "the items of the datatype overlap: nothing can be received into them",
                ));
            }
            // SAFETY: likewise.
            Ok(unsafe { ReceiveBuffer::within(at.cast(), &layout, part.start, bytes) })
        }
    }
}

/// Acts on a partitioned request.
fn with_parts<T>(request: Request, act: impl FnOnce(&mut Parts, bool) -> Result<T>) -> Result<T> {
    let mut requests = mpi().requests.borrow_mut();
    let entry = requests.get_mut(request)?;
    let is_active = entry.is_active;
    match &mut entry.operation {
        Operation::Parts(parts) => act(parts, is_active),
        _ => Err(Failure::new(
            abi::ERR_REQUEST,
            "the request is no partitioned one",
        )),
    }
}

fn make_ready(request: Request, partitions: impl Iterator<Item = c_int>) -> Result {
    with_parts(request, |parts, is_active| {
        if !is_active {
            return Err(Failure::new(
                abi::ERR_REQUEST,
                "the partitioned send is not started",
            ));
        }
        let mut world = mpi().world()?;
        for partition in partitions {
            let number = u64::try_from(partition).map_err(|_| {
                Failure::argument(format_args!("partition {partition} does not exist"))
            })?;
            parts.make_ready(number, &mut world)?;
        }
        Ok(())
    })
}

pub fn pready(partition: c_int, request: Request) -> Result {
    make_ready(request, core::iter::once(partition))
}

pub fn pready_range(low: c_int, high: c_int, request: Request) -> Result {
    make_ready(request, low..=high)
}

pub fn pready_list(length: c_int, partitions: *const c_int, request: Request) -> Result {
    let length = count_of(length, partitions)?;
    // SAFETY: the standard asks the program for a list of this length.
    let partitions = unsafe { list(partitions, length) };
    make_ready(request, partitions.iter().copied())
}

pub fn parrived(request: Request, partition: c_int, flag: *mut c_int) -> Result {
    let partition = u64::try_from(partition)
        .map_err(|_| Failure::argument(format_args!("partition {partition} does not exist")))?;
    if request == abi::REQUEST_NULL {
        put(flag, 1);
        return Ok(());
    }
    super::requests::take_ended(request)?;
    let arrived = with_parts(request, |parts, is_active| match is_active {
        true => parts.has_arrived(partition),
        false => Ok(true),
    })?;
    put(flag, arrived.into());
    Ok(())
}
