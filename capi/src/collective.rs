//! A collective as C describes it: checked, and turned into that of crate `refrain`.

#![allow(unsafe_code, reason = "reads lists of C, and calls operators of C")]

use super::failure::Failure;
use super::layout::{self, BlockOfC, LayoutOfC};
use super::memory::list;
use super::operator::{OperatorOfC, element_bytes};
use core::ffi::{c_int, c_void};
use refrain::collective::{Arguments, Blocks, Collective, LaidOutBlocks, Memory, Prefix};
use refrain::{Error, Group, World};

/// `refrain_neighbours` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Neighbours {
    sources: *const c_int,
    destinations: *const c_int,
    source_count: u32,
    destination_count: u32,
}

/// Blocks of a buffer: two fields of `refrain_collective`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct List {
    counts: *const u64,
    starts: *const u64,
}

/// `refrain_collective` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Description {
    group: Group,
    element: u64,
    by: OperatorOfC,
    input: *const c_void,
    output: *mut c_void,
    count: u64,
    input_list: List,
    output_list: List,
    neighbours: Neighbours,
    input_layout: *const LayoutOfC,
    output_layout: *const LayoutOfC,
    input_blocks: *const BlockOfC,
    output_blocks: *const BlockOfC,
    operation: i32,
    root: i32,
}

const _: () = assert!(size_of::<Group>() == 24 && size_of::<Description>() == 176);

/// `enum refrain_operation` of the header.
mod operation {
    pub const BARRIER: i32 = 1;
    pub const BCAST: i32 = 2;
    pub const GATHER: i32 = 3;
    pub const GATHERV: i32 = 4;
    pub const SCATTER: i32 = 5;
    pub const SCATTERV: i32 = 6;
    pub const ALLGATHER: i32 = 7;
    pub const ALLGATHERV: i32 = 8;
    pub const ALLTOALL: i32 = 9;
    pub const ALLTOALLV: i32 = 10;
    pub const REDUCE: i32 = 11;
    pub const ALLREDUCE: i32 = 12;
    pub const REDUCE_SCATTER_BLOCK: i32 = 13;
    pub const REDUCE_SCATTER: i32 = 14;
    pub const SCAN: i32 = 15;
    pub const EXSCAN: i32 = 16;
    pub const NEIGHBOUR_ALLGATHER: i32 = 17;
    pub const NEIGHBOUR_ALLGATHERV: i32 = 18;
    pub const NEIGHBOUR_ALLTOALL: i32 = 19;
    pub const NEIGHBOUR_ALLTOALLV: i32 = 20;
    pub const ALLTOALLW: i32 = 21;
    pub const NEIGHBOUR_ALLTOALLW: i32 = 22;
}

/// The size of a group and the place of this rank. Checks that the fields of the handle, which C
/// can change, are those of the group.
pub fn size_and_place(world: &World, group: Group) -> Result<(u32, u32), Failure> {
    let (ranks, size, place) = (world.members(group)?, group.size(), group.place());
    let is_own = ranks.get(place as usize) == Some(&world.rank());
    match is_own && ranks.len() == size as usize {
        true => Ok((size, place)),
        false => Err(Failure::argument("the fields of the group were changed")),
    }
}

impl Description {
    /// Calls `act` with the collective.
    ///
    /// # Safety
    /// As the header asks of the caller: lists have their lengths, an operator can be called, and
    /// the buffers are lent to the collective.
    pub unsafe fn with<T>(
        &self,
        world: &mut World,
        act: impl FnOnce(&mut World, Collective<'_>) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        use operation::*;
        let (size, me) = size_and_place(world, self.group)?;
        let root = place(self.root)?;
        let is_root = root == me;
        // SAFETY: the caller's promise.
        let edges = unsafe { self.neighbours.read() }?;
        let listed = self.listed(size as usize, is_root, edges);
        // SAFETY: likewise.
        let own = unsafe { self.own_layouts(listed) }?;
        let mut dense = [Vec::new(), Vec::new()];
        let [of_send, of_receive] = &mut dense;
        let (send, receive) = match &own {
            Some([input, output]) => (input.blocks(), output.blocks()),
            // SAFETY: likewise.
            None => unsafe {
                (
                    self.input_list.blocks(listed[0], self.count, of_send)?,
                    self.output_list.blocks(listed[1], self.count, of_receive)?,
                )
            },
        };
        let arguments = self.arguments(root, (send, receive), edges)?;
        let (memory, in_place) = self.memory(is_root)?;
        let reduction = match self.operation {
            // SAFETY: likewise.
            REDUCE..=EXSCAN => Some(unsafe { self.by.reduction(self.element) }?),
            _ => None,
        };
        // SAFETY: the caller lends its buffers until the collective is complete.
        let collective =
            unsafe { Collective::by_pointer(self.group, arguments, in_place, memory, reduction) };
        let collective = match &own {
            // SAFETY: the arguments have these blocks.
            Some([input, output]) => unsafe { collective.with_blocks(Some(input), Some(output)) },
            // SAFETY: the caller's promise.
            None => unsafe { self.with_layouts(collective) }?,
        };
        Ok(act(world, collective)?)
    }

    /// How many blocks of input and output the caller lists, unless all have one length.
    fn listed(
        &self,
        places: usize,
        is_root: bool,
        (sources, destinations): (&[u32], &[u32]),
    ) -> [Option<usize>; 2] {
        use operation::*;
        let at_root = if is_root { places } else { 0 };
        let sent = if is_in_place(self.input) { 0 } else { places };
        match self.operation {
            GATHERV => [None, Some(at_root)],
            SCATTERV => [Some(at_root), None],
            ALLGATHERV => [None, Some(places)],
            ALLTOALLV | ALLTOALLW => [Some(sent), Some(places)],
            REDUCE_SCATTER => [Some(places), None],
            NEIGHBOUR_ALLGATHERV => [None, Some(sources.len())],
            NEIGHBOUR_ALLTOALLV | NEIGHBOUR_ALLTOALLW => {
                [Some(destinations.len()), Some(sources.len())]
            }
            _ => [None, None],
        }
    }

    /// The blocks of both sides, if they have layouts of their own.
    ///
    /// # Safety
    /// As [`layout::blocks`].
    unsafe fn own_layouts(
        &self,
        listed: [Option<usize>; 2],
    ) -> Result<Option<[LaidOutBlocks; 2]>, Failure> {
        use operation::*;
        let ([Some(sent), Some(received)], ALLTOALLW | NEIGHBOUR_ALLTOALLW) =
            (listed, self.operation)
        else {
            return Ok(None);
        };
        // SAFETY: the caller's promise.
        let [input, output] = unsafe {
            [
                layout::blocks(self.input_blocks, sent)?,
                layout::blocks(self.output_blocks, received)?,
            ]
        };
        match self.has_layouts() {
            false => Ok(Some([input, output])),
            true => Err(Failure::argument(
                "refrain_with_layouts: the blocks of this collective have layouts of their own",
            )),
        }
    }

    fn has_layouts(&self) -> bool {
        !self.input_layout.is_null() || !self.output_layout.is_null()
    }

    /// # Safety
    /// As [`layout::optional`], for both.
    unsafe fn with_layouts<'a>(
        &self,
        collective: Collective<'a>,
    ) -> Result<Collective<'a>, Failure> {
        if !self.has_layouts() {
            return Ok(collective);
        }
        // SAFETY: the caller's promise.
        let [input, output] = unsafe {
            [
                layout::optional(self.input_layout)?,
                layout::optional(self.output_layout)?,
            ]
        };
        Ok(collective.with_layouts(input.as_ref(), output.as_ref()))
    }

    fn arguments<'a>(
        &self,
        root: u32,
        (send, receive): (Blocks<'a>, Blocks<'a>),
        (sources, destinations): (&'a [u32], &'a [u32]),
    ) -> Result<Arguments<'a>, Failure> {
        use operation::*;
        let count = self.count;
        Ok(match self.operation {
            BARRIER => Arguments::Barrier,
            BCAST => Arguments::Bcast { root, count },
            GATHER | GATHERV => Arguments::Gather {
                root,
                count,
                blocks: receive,
            },
            SCATTER | SCATTERV => Arguments::Scatter {
                root,
                count,
                blocks: send,
            },
            ALLGATHER | ALLGATHERV => Arguments::Allgather { blocks: receive },
            ALLTOALL | ALLTOALLV | ALLTOALLW => Arguments::Alltoall { send, receive },
            REDUCE => Arguments::Reduce { root, count },
            ALLREDUCE => Arguments::Allreduce {
                count,
                // `World::collective` knows from the reduction.
                commutative: false,
            },
            REDUCE_SCATTER_BLOCK | REDUCE_SCATTER => Arguments::ReduceScatter { blocks: send },
            SCAN => Arguments::Scan {
                count,
                prefix: Prefix::Inclusive,
            },
            EXSCAN => Arguments::Scan {
                count,
                prefix: Prefix::Exclusive,
            },
            NEIGHBOUR_ALLGATHER | NEIGHBOUR_ALLGATHERV => Arguments::NeighbourAllgather {
                sources,
                destinations,
                count,
                receive,
            },
            NEIGHBOUR_ALLTOALL | NEIGHBOUR_ALLTOALLV | NEIGHBOUR_ALLTOALLW => {
                Arguments::NeighbourAlltoall {
                    sources,
                    destinations,
                    send,
                    receive,
                }
            }
            unknown => {
                return Err(Failure::argument(format_args!(
                    "collective {unknown} does not exist: see enum refrain_operation"
                )));
            }
        })
    }

    /// The buffers, and whether the contribution of this member is in its output.
    fn memory(&self, is_root: bool) -> Result<(Memory, bool), Failure> {
        use operation::*;
        let [input, output] = [self.input, self.output.cast_const()];
        let is_scatter = matches!(self.operation, SCATTER | SCATTERV);
        let in_place = match is_scatter {
            true => is_in_place(output),
            false => is_in_place(input),
        };
        let may_be = match self.operation {
            GATHER | GATHERV | SCATTER | SCATTERV | REDUCE => is_root,
            ALLGATHER..=ALLTOALLV | ALLTOALLW | ALLREDUCE..=EXSCAN => true,
            _ => false,
        };
        let other = if is_scatter { input } else { output };
        if (in_place && !may_be) || is_in_place(other) {
            return Err(Failure::argument(
                "REFRAIN_IN_PLACE is not for this buffer of this collective and member",
            ));
        }
        // Blocks and layouts of one buffer may lie between those of the other one.
        let may_alternate = self.has_layouts()
            || matches!(
                self.operation,
                GATHERV | SCATTERV | ALLGATHERV | ALLTOALLV | ALLTOALLW
            );
        if may_be && !may_alternate && input == output && !input.is_null() && self.count > 0 {
            return Err(Failure::argument(
                "input and output are the same memory: use REFRAIN_IN_PLACE",
            ));
        }
        let own = |buffer| match is_in_place(buffer) {
            true => core::ptr::null(),
            false => buffer,
        };
        let memory = Memory {
            input: own(input).cast(),
            output: own(output).cast_mut().cast(),
            element_bytes: element_bytes(self.element)?,
        };
        Ok((memory, in_place))
    }
}

/// Whether a buffer is `REFRAIN_IN_PLACE`.
fn is_in_place(buffer: *const c_void) -> bool {
    buffer.addr() == usize::MAX
}

fn place(place: i32) -> Result<u32, Failure> {
    let refused = |_| {
        Failure::argument(format_args!(
            "place {place} does not exist: the first one is 0"
        ))
    };
    u32::try_from(place).map_err(refused)
}

impl Neighbours {
    /// Sources and destinations.
    ///
    /// # Safety
    /// As [`list`], for both.
    unsafe fn read<'a>(&self) -> Result<(&'a [u32], &'a [u32]), Failure> {
        let (sources, destinations) = (self.sources.cast(), self.destinations.cast());
        // SAFETY: the caller's promise; `c_int` and `u32` have the same size.
        let sources = unsafe { list("sources", sources, self.source_count as usize) }?;
        // SAFETY: likewise.
        let destinations = unsafe {
            list(
                "destinations",
                destinations,
                self.destination_count as usize,
            )
        }?;
        let mut places = sources.iter().chain(destinations);
        places.try_for_each(|it: &u32| place(it.cast_signed()).map(drop))?;
        Ok((sources, destinations))
    }
}

impl List {
    /// `listed` blocks. Without `starts`, these are computed into `dense`. `None`: each block has
    /// `count` elements.
    ///
    /// # Safety
    /// As [`list`], for both.
    unsafe fn blocks<'a>(
        &self,
        listed: Option<usize>,
        count: u64,
        dense: &'a mut Vec<u64>,
    ) -> Result<Blocks<'a>, Failure> {
        let Some(number) = listed else {
            return Ok(Blocks::Even(count));
        };
        // SAFETY: the caller's promise.
        let counts: &[u64] = unsafe { list("counts", self.counts, number) }?;
        let starts = match self.starts.is_null() {
            // SAFETY: likewise.
            false => unsafe { list("starts", self.starts, number) }?,
            true => {
                let mut end = 0u64;
                dense.extend(counts.iter().map(|count| {
                    let start = end;
                    end = end.saturating_add(*count);
                    start
                }));
                dense
            }
        };
        Ok(Blocks::Listed { counts, starts })
    }
}
