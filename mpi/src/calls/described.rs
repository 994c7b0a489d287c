//! Collectives as the library gets them: buffers, blocks, and how a call starts.
//!
//! Counts are bytes of the dense form, so that members may describe the same data by other types.
//! Where elements are combined they are elements.

#![allow(unsafe_code, reason = "lends the program's buffers")]

use super::between::Sides;
use super::types::{Form, form, negative};
use crate::abi::{Comm, Datatype, Start};
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::{Entry, Persistent, Then};
use crate::state::mpi;
use core::ffi::c_void;
use core::ptr::null_mut;
use refrain::collective::{Arguments, Blocks, Collective, LaidOutBlocks, Memory, Reduction};
use refrain::{Group, Layout, World};
use std::sync::Arc;

/// `MPI_IN_PLACE`
pub const IN_PLACE: *const c_void = core::ptr::without_provenance(1);

pub fn is_in_place(buffer: *const c_void) -> bool {
    buffer == IN_PLACE
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
pub fn check_data(at: *const c_void) -> Result {
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
    pub fn new(at: *const c_void, count: i64, datatype: Datatype) -> Result<Self> {
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
    pub fn listed(
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
    pub fn each(
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
    pub fn even(&self) -> Blocks<'_> {
        Blocks::Even(self.bytes)
    }
}

pub fn copies(count: i64) -> Result<u64> {
    u64::try_from(count).map_err(|_| negative(count))
}

/// Extent and layout of a type.
pub fn item(datatype: Datatype) -> Result<(i64, Arc<Layout>)> {
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

    pub fn start(&self, start: Start) -> Result {
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
                return then.map_or(Ok(()), |mut then| then());
            }
            // SAFETY: the standard asks the program to leave the buffers alone until the end.
            Start::Begun(place) => (unsafe { world.begin_collective(collective)? }, place, None),
            Start::Prepared(place) => (
                // SAFETY: likewise.
                unsafe { world.prepare_collective_in_order(collective)? },
                place,
                Some(Persistent::Again),
            ),
        };
        drop(borrowed);
        let mut entry = Entry::library(request, None);
        if then.is_some() {
            entry.rare_mut().then = then;
        }
        let entry = match how {
            Some(how) => entry.persistent(how),
            None => entry,
        };
        mpi().give(place, entry)
    }
}

/// A collective that combines nothing.
pub fn moved(
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
pub fn get(comm: Comm) -> Result<Communicator> {
    mpi().communicators.borrow().get(comm).cloned()
}

/// Does a collective on a communicator, or its like on an intercommunicator.
pub fn with(
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
pub fn not_between(_: &Sides<'_>) -> Result {
    Err(Failure::new(
        abi::ERR_COMM,
        "this collective is not for intercommunicators",
    ))
}

/// Blocks of one length, one for each edge; those of edges that lead nowhere are left out.
pub fn even_blocks(
    at: *const c_void,
    count: i64,
    datatype: Datatype,
    edges: &[usize],
) -> Result<Side> {
    let starts: Vec<i64> = edges.iter().map(|edge| *edge as i64 * count).collect();
    Side::listed(at, &vec![count; edges.len()], &starts, datatype)
}
