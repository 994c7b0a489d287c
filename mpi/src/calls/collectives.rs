//! Collectives (MPI-5.0, chapters 6 and 8). Each has three functions, which differ in how it starts.
//!
//! Counts are bytes of the dense form, so that members may describe the same data by other types.
//! Where elements are combined they are elements.

#![allow(
    unsafe_code,
    reason = "lends the program's buffers, and reads its lists"
)]

use super::between::Sides;
use super::types::{Form, form, negative};
use crate::abi::{Comm, Datatype, Numbers, Op, Start, list};
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::operator::combination;
use crate::request::{Entry, Persistent, Then};
use crate::state::mpi;
use crate::topology::Topology;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use refrain::collective::{
    Arguments, Blocks, Collective, LaidOutBlocks, Memory, Prefix, Reduction,
};
use refrain::{Group, Layout, World};
use std::sync::Arc;

/// `MPI_IN_PLACE`
fn is_in_place(buffer: *const c_void) -> bool {
    buffer.addr() == 1
}

/// Checks two buffers that have data.
pub fn check_apart(input: *const c_void, output: *const c_void) -> Result {
    check_data(input)?;
    check_data(output)?;
    match core::ptr::eq(input, output) {
        true => Err(Failure::new(
            abi::ERR_BUFFER,
            "the two buffers are one: give MPI_IN_PLACE where the call allows it",
        )),
        false => Ok(()),
    }
}

/// Checks a buffer that has data.
fn check_data(at: *const c_void) -> Result {
    let why = match at.addr() {
        0 => "the buffer is NULL, and the call has data for it",
        1 => "MPI_IN_PLACE is not allowed for this buffer",
        _ => return Ok(()),
    };
    Err(Failure::new(abi::ERR_BUFFER, why))
}

/// One buffer of a collective.
#[derive(Clone, Debug)]
pub struct Side {
    pub at: *mut u8,
    pub layout: Option<Arc<Layout>>,
    /// Bytes of the dense form of what `count` names.
    pub bytes: u64,
    /// Blocks with layouts of their own.
    pub blocks: Option<LaidOutBlocks>,
}

impl Side {
    /// No buffer.
    pub const NONE: Self = Self {
        at: null_mut(),
        layout: None,
        bytes: 0,
        blocks: None,
    };

    /// `count` items of a type.
    fn new(at: *const c_void, count: i64, datatype: Datatype) -> Result<Self> {
        let (layout, bytes) = match form(count, datatype)? {
            Form::Bytes(bytes) => (None, bytes as u64),
            Form::Copies(copies, layout) => {
                let bytes = layout.message_bytes() * copies;
                (Some(layout), bytes)
            }
        };
        Ok(Self {
            at: at.cast_mut().cast(),
            layout,
            bytes,
            blocks: None,
        })
    }

    /// Blocks of a type; displacements are in its extents.
    fn listed(
        at: *const c_void,
        counts: &[i64],
        displacements: &[i64],
        datatype: Datatype,
    ) -> Result<Self> {
        let (extent, layout) = item(datatype)?;
        let of = counts.iter().zip(displacements);
        let of = of.map(|(count, at)| Ok((at.wrapping_mul(extent), copies(*count)?, &layout)));
        Self::of_blocks(at, of.collect::<Result<Vec<_>>>()?)
    }

    /// Blocks of a type each; displacements are in bytes.
    fn each(
        at: *const c_void,
        counts: &[i64],
        displacements: &[i64],
        datatypes: &[Datatype],
    ) -> Result<Self> {
        let items: Result<Vec<_>> = datatypes.iter().map(|it| item(*it)).collect();
        let items = items?;
        let of = counts.iter().zip(displacements).zip(&items);
        let of = of.map(|((count, at), (_, layout))| Ok((*at, copies(*count)?, layout)));
        Self::of_blocks(at, of.collect::<Result<Vec<_>>>()?)
    }

    /// The whole, as each of several blocks.
    pub fn repeated(&self, times: usize) -> Result<Self> {
        let layout = match &self.layout {
            Some(layout) => Arc::clone(layout),
            None => Arc::new(Layout::contiguous(self.bytes as usize)),
        };
        let copies = match layout.message_bytes() {
            0 => 0,
            bytes => self.bytes / bytes,
        };
        Self::of_blocks(self.at.cast(), vec![(0, copies, &layout); times])
    }

    /// Bytes one behind the other, as blocks of one length.
    pub fn of_bytes(at: *const u8, bytes: usize, blocks: usize) -> Result<Self> {
        let layout = Arc::new(Layout::contiguous(bytes));
        let listed = (0..blocks).map(|block| ((block * bytes) as i64, 1, &layout));
        Self::of_blocks(at.cast(), listed.collect())
    }

    pub fn of_blocks(at: *const c_void, blocks: Vec<(i64, u64, &Arc<Layout>)>) -> Result<Self> {
        let blocks = LaidOutBlocks::new(blocks)?;
        Ok(Self {
            at: at.cast_mut().cast(),
            blocks: Some(blocks),
            ..Self::NONE
        })
    }

    pub fn blocks(&self) -> Blocks<'_> {
        match &self.blocks {
            Some(blocks) => blocks.blocks(),
            None => Blocks::Even(self.bytes),
        }
    }

    /// As each of several blocks.
    fn even(&self) -> Blocks<'_> {
        Blocks::Even(self.bytes)
    }
}

fn copies(count: i64) -> Result<u64> {
    u64::try_from(count).map_err(|_| negative(count))
}

/// Extent and layout of a type.
fn item(datatype: Datatype) -> Result<(i64, Arc<Layout>)> {
    let types = mpi().types.borrow();
    let of = types.committed(datatype)?;
    Ok((of.extent(), of.layout()?))
}

/// A collective that is described.
pub struct Described<'a> {
    pub group: Group,
    pub arguments: Arguments<'a>,
    pub in_place: bool,
    pub input: &'a Side,
    pub output: &'a Side,
    pub reduction: Option<Reduction>,
    pub element_bytes: u64,
}

impl Described<'_> {
    fn collective(&self) -> Collective<'_> {
        let memory = Memory {
            input: self.input.at,
            output: self.output.at,
            element_bytes: self.element_bytes,
        };
        let reduction = self.reduction.clone();
        // SAFETY: the standard asks the program to leave the buffers alone until the end.
        let collective = unsafe {
            Collective::by_pointer(self.group, self.arguments, self.in_place, memory, reduction)
        };
        let sides = [self.input, self.output];
        if sides.iter().any(|side| side.blocks.is_some()) {
            let [input, output] = sides.map(|side| match (&side.blocks, &side.layout) {
                (Some(blocks), _) => Some(blocks.clone()),
                // One block, of the whole dense form.
                (None, Some(layout)) if side.bytes > 0 => {
                    let copies = side.bytes / layout.message_bytes();
                    LaidOutBlocks::new([(0, copies, layout)]).ok()
                }
                _ => None,
            });
            // SAFETY: the arguments have these blocks.
            return unsafe { collective.with_blocks(input.as_ref(), output.as_ref()) };
        }
        let [input, output] = sides.map(|side| side.layout.as_ref());
        match (input, output) {
            (None, None) => collective,
            _ => collective.with_layouts(input, output),
        }
    }

    fn start(&self, start: Start) -> Result {
        self.start_and(start, None)
    }

    /// Checks buffers that are dense: addresses of others may be in their layouts.
    fn check_buffers(&self) -> Result {
        let [input, output] = [self.input, self.output].map(|side| {
            let is_dense = side.bytes > 0 && side.layout.is_none() && side.blocks.is_none();
            is_dense.then_some(side.at.cast_const().cast::<c_void>())
        });
        match (input.filter(|_| !self.in_place), output) {
            (Some(input), Some(output)) => check_apart(input, output),
            (one, other) => one.or(other).map_or(Ok(()), check_data),
        }
    }

    /// Calls `then` when it is complete.
    pub fn start_and(&self, start: Start, then: Option<Then>) -> Result {
        self.check_buffers()?;
        let mut borrowed = mpi().world()?;
        let world: &mut World = &mut borrowed;
        let collective = self.collective();
        let (request, place, how) = match start {
            Start::Blocking => {
                world.collective(collective)?;
                drop(borrowed);
                return then.map_or(Ok(()), |then| then());
            }
            // SAFETY: the standard asks the program to leave the buffers alone until the end.
            Start::Begun(place) => (unsafe { world.start_collective(collective)? }, place, None),
            Start::Prepared(place) => (
                // SAFETY: likewise.
                unsafe { world.prepare_collective_in_order(collective)? },
                place,
                Some(Persistent::Again),
            ),
        };
        drop(borrowed);
        let mut entry = Entry::library(request, None);
        entry.then = then;
        let entry = match how {
            Some(how) => entry.persistent(how),
            None => entry,
        };
        mpi().give(place, entry)
    }
}

/// A collective that combines nothing.
fn moved(
    comm: &Communicator,
    arguments: Arguments<'_>,
    in_place: bool,
    sides: [&Side; 2],
    start: Start,
) -> Result {
    let [input, output] = sides;
    let described = Described {
        group: comm.group,
        arguments,
        in_place,
        input,
        output,
        reduction: None,
        element_bytes: 1,
    };
    described.start(start)
}

/// The communicator of a collective.
fn get(comm: Comm) -> Result<Communicator> {
    mpi().communicators.borrow().get(comm).cloned()
}

/// Does a collective on a communicator, or its like on an intercommunicator.
fn with(
    comm: Comm,
    intra: impl FnOnce(&Communicator) -> Result,
    inter: impl FnOnce(&Sides<'_>) -> Result,
) -> Result {
    let communicator = get(comm)?;
    match Sides::of(&communicator) {
        None => intra(&communicator),
        Some(sides) => inter(&sides),
    }
}

/// For collectives that intercommunicators do not have.
fn not_between(_: &Sides<'_>) -> Result {
    Err(Failure::new(
        abi::ERR_COMM,
        "this collective is not for intercommunicators",
    ))
}

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
    let [send, receive] = buffers;
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

/// Blocks of one length, one for each edge; those of edges that lead nowhere are left out.
fn even_blocks(at: *const c_void, count: i64, datatype: Datatype, edges: &[usize]) -> Result<Side> {
    let starts: Vec<i64> = edges.iter().map(|edge| *edge as i64 * count).collect();
    Side::listed(at, &vec![count; edges.len()], &starts, datatype)
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
