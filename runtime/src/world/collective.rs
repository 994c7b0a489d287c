//! Collectives: all members of a group call the same ones, in the same order.
//!
//! What each does is that of MPI's collective of this name (MPI-5.0, chapter 6). Which algorithm
//! does it depends on arguments and group alone, so a reduction has the same bits in every run and
//! after each recovery.
//!
//! A function of this module makes a [`Collective`], with its buffers. [`World::collective`] does
//! it, [`Scope::icollective`](super::Scope::icollective) begins it, and
//! [`Scope::collective_init`](super::Scope::collective_init) prepares it to be started
//! many times. Places of a group are numbered from 0, and blocks of a buffer are in the order of
//! places.
//!
//! ```no_run
//! use refrain::collective::{InPlace, Operator, allreduce, bcast};
//! # let mut world = refrain::World::init()?;
//! let all = world.all();
//! let mut sizes = [0u64; 2];
//! world.collective(bcast(all, 0, &mut sizes))?;
//! let mut sum = [1.5f64];
//! world.collective(allreduce(all, Operator::Sum, InPlace, &mut sum))?;
//! # Ok::<(), refrain::Error>(())
//! ```

#![allow(
    unsafe_code,
    reason = "lends the caller's buffers until a collective is complete"
)]

mod layouts;

use super::World;
use super::group::{Group, Kind};
use super::request::{Numbered, Operation, Request, Template};
use crate::Error;
use core::marker::PhantomData;
pub use layouts::{LaidOutBlocks, alltoallw, neighbour_alltoallw};
use refrain_collectives as schedules;
use refrain_collectives::Call;
pub use refrain_collectives::reduction::{Element, Number, Operands, Operator, Reduction};
pub use refrain_collectives::{Algorithm, Arguments, Blocks, Prefix};
pub use refrain_rank::collective::Memory;
use refrain_rank::collective::{CollectiveError, Layouts, Plan};
use std::sync::Arc;

/// A type whose values collectives carry and combine.
pub trait Datum: sealed::Sealed + Copy {
    /// The type, for an operator.
    const ELEMENT: Element;
}

/// A number, for [`Located`].
pub trait Numeric: Datum {
    /// The type.
    const NUMBER: Number;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numeric {
    ($($type:ty: $number:ident),+) => {$(
        impl sealed::Sealed for $type {}
        impl Datum for $type {
            const ELEMENT: Element = Element::Number(Number::$number);
        }
        impl Numeric for $type {
            const NUMBER: Number = Number::$number;
        }
    )+};
}

numeric!(u8: U8, u16: U16, u32: U32, u64: U64, i8: I8, i16: I16, i32: I32, i64: I64, f32: F32, f64: F64);

/// A value and where it is, for [`Operator::MinLoc`] and [`Operator::MaxLoc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Located<V, I> {
    /// The value that is compared.
    pub value: V,
    /// Where it is; of equal values the one with the lower index is chosen.
    pub index: I,
}

impl<V: Numeric, I: Numeric> sealed::Sealed for Located<V, I> {}
impl<V: Numeric, I: Numeric> Datum for Located<V, I> {
    const ELEMENT: Element = Element::Located {
        value: V::NUMBER,
        index: I::NUMBER,
    };
}

/// The contribution of a place is in its output, and is replaced by the result.
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

/// The contribution of a place.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a, T> {
    /// A buffer of its own.
    From(&'a [T]),
    /// As [`InPlace`].
    InPlace,
}

impl<'a, T> From<&'a [T]> for Input<'a, T> {
    fn from(input: &'a [T]) -> Self {
        Self::From(input)
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Input<'a, T> {
    fn from(input: &'a [T; N]) -> Self {
        Self::From(input)
    }
}

impl<'a, T> From<&'a Vec<T>> for Input<'a, T> {
    fn from(input: &'a Vec<T>) -> Self {
        Self::From(input)
    }
}

impl<T> From<InPlace> for Input<'_, T> {
    fn from(InPlace: InPlace) -> Self {
        Self::InPlace
    }
}

/// How operands are combined.
#[derive(Clone, Debug)]
pub enum By {
    /// An operator of the library.
    Operator(Operator),
    /// The caller's own: see [`Reduction::own`].
    Own(Reduction),
}

impl From<Operator> for By {
    fn from(operator: Operator) -> Self {
        Self::Operator(operator)
    }
}

impl From<Reduction> for By {
    fn from(reduction: Reduction) -> Self {
        Self::Own(reduction)
    }
}

/// A collective at one member of a group, with its buffers.
#[derive(Debug)]
pub struct Collective<'a> {
    group: Group,
    arguments: Arguments<'a>,
    in_place: bool,
    memory: Memory,
    /// Elements of input and output: of a slice all that it has, of a pointer any number.
    elements: [u64; 2],
    layouts: Option<Arc<Layouts>>,
    reduction: Option<Reduction>,
    /// Why it cannot be done.
    refused: Option<String>,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> Collective<'a> {
    /// A collective by its arguments; the functions of this module make most of them from the
    /// lengths of the buffers. One that combines is made by them or by pointer.
    pub fn new<T: Datum>(
        group: Group,
        input: impl Into<Input<'a, T>>,
        output: &'a mut [T],
        arguments: Arguments<'a>,
    ) -> Self {
        let (input, in_place) = match input.into() {
            Input::From(input) => (input, false),
            Input::InPlace => (&[] as &[T], true),
        };
        Self {
            group,
            arguments,
            in_place,
            memory: Memory {
                input: input.as_ptr().cast(),
                output: output.as_mut_ptr().cast(),
                element_bytes: size_of::<T>() as u64,
            },
            elements: [input.len() as u64, output.len() as u64],
            layouts: None,
            reduction: None,
            refused: None,
            buffers: PhantomData,
        }
    }

    fn combined<T: Datum>(mut self, by: impl Into<By>) -> Self {
        match by.into() {
            By::Own(own) => self.reduction = Some(own),
            By::Operator(operator) => match Reduction::new(operator, T::ELEMENT) {
                Ok(reduction) => self.reduction = Some(reduction),
                Err(why) => self.refused = Some(why.to_string()),
            },
        }
        self
    }

    /// Refuses a buffer that does not divide into one block for each of `blocks`.
    fn divides(mut self, name: &str, elements: usize, blocks: usize) -> Self {
        if !elements.is_multiple_of(blocks.max(1)) {
            self.refused = Some(format!(
                "the {name} has {elements} elements, which do not divide into {blocks} blocks"
            ));
        }
        self
    }

    /// A collective whose buffers are given by pointer, for layers above. A null pointer is an
    /// empty buffer. `reduction` combines operands; it decides whether an allreduce may change
    /// their order.
    ///
    /// # Safety
    /// All elements that the operation reads are valid and unchanged, and those that it writes are
    /// valid and untouched by others, until the collective is complete or given up: in the layouts
    /// that it has when it is begun.
    pub unsafe fn by_pointer(
        group: Group,
        arguments: Arguments<'a>,
        in_place: bool,
        memory: Memory,
        reduction: Option<Reduction>,
    ) -> Self {
        let are_null = [memory.input.is_null(), memory.output.is_null()];
        Self {
            group,
            arguments,
            in_place,
            memory,
            elements: are_null.map(|is_null| if is_null { 0 } else { u64::MAX }),
            layouts: None,
            reduction,
            refused: None,
            buffers: PhantomData,
        }
    }
}

/// Returns at each member when all members have called it.
pub fn barrier<'a>(group: Group) -> Collective<'a> {
    Collective::new::<u8>(group, &[], &mut [], Arguments::Barrier)
}

/// `data` of the member at the place `root` goes to all members.
pub fn bcast<T: Datum>(group: Group, root: u32, data: &mut [T]) -> Collective<'_> {
    let count = data.len() as u64;
    Collective::new(group, InPlace, data, Arguments::Bcast { root, count })
}

/// `input` of all members goes to `output` of the member at the place `root`. Other members may
/// give an empty output. In place at the root: its block is in its output.
pub fn gather<'a, T: Datum>(
    group: Group,
    root: u32,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
) -> Collective<'a> {
    let input = input.into();
    let count = count_of(&input, output.len() / group.size() as usize);
    let arguments = Arguments::Gather {
        root,
        count,
        blocks: Blocks::Even(count),
    };
    Collective::new(group, input, output, arguments)
}

/// As [`gather`], with a block of its own length for each member. `blocks` says where they are in
/// the output; only the root reads it.
pub fn gatherv<'a, T: Datum>(
    group: Group,
    root: u32,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
    blocks: Blocks<'a>,
) -> Collective<'a> {
    let input = input.into();
    let arguments = Arguments::Gather {
        root,
        count: count_of(&input, 0),
        blocks,
    };
    Collective::new(group, input, output, arguments)
}

/// `input` of the member at the place `root` goes to `output` of all members, a block each. Other
/// members may give an empty input.
pub fn scatter<'a, T: Datum>(
    group: Group,
    root: u32,
    input: &'a [T],
    output: &'a mut [T],
) -> Collective<'a> {
    let blocks = Blocks::Even(output.len() as u64);
    scatterv(group, root, input, blocks, output)
}

/// As [`scatter`], with a block of its own length for each member. `blocks` says where they are in
/// the input; only the root reads it.
pub fn scatterv<'a, T: Datum>(
    group: Group,
    root: u32,
    input: &'a [T],
    blocks: Blocks<'a>,
    output: &'a mut [T],
) -> Collective<'a> {
    let arguments = Arguments::Scatter {
        root,
        count: output.len() as u64,
        blocks,
    };
    Collective::new(group, input, output, arguments)
}

/// `input` of all members goes to `output` of all members.
pub fn allgather<'a, T: Datum>(
    group: Group,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
) -> Collective<'a> {
    let (input, places, elements) = (input.into(), group.size() as usize, output.len());
    let count = count_of(&input, elements / places);
    allgatherv(group, input, output, Blocks::Even(count)).divides("output", elements, places)
}

/// As [`allgather`], with a block of its own length for each member. `blocks` says where they are
/// in the output; their lengths are the same at all members.
pub fn allgatherv<'a, T: Datum>(
    group: Group,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
    blocks: Blocks<'a>,
) -> Collective<'a> {
    Collective::new(group, input, output, Arguments::Allgather { blocks })
}

/// Block `b` of `input` of the member at place `a` goes to block `a` of `output` of the member at
/// place `b`.
pub fn alltoall<'a, T: Datum>(
    group: Group,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
) -> Collective<'a> {
    let (elements, places) = (output.len(), group.size() as usize);
    let blocks = Blocks::Even((elements / places) as u64);
    alltoallv(group, input, blocks, output, blocks).divides("output", elements, places)
}

/// As [`alltoall`], with blocks of any lengths: block `b` of `send` at place `a` has the length of
/// block `a` of `receive` at place `b`. `send` is not read in place.
pub fn alltoallv<'a, T: Datum>(
    group: Group,
    input: impl Into<Input<'a, T>>,
    send: Blocks<'a>,
    output: &'a mut [T],
    receive: Blocks<'a>,
) -> Collective<'a> {
    let arguments = Arguments::Alltoall { send, receive };
    Collective::new(group, input, output, arguments)
}

/// `input` of all members, combined, goes to `output` of the member at the place `root`. Other
/// members may give an empty output. In place at the root: its contribution is in its output.
pub fn reduce<'a, T: Datum>(
    group: Group,
    root: u32,
    by: impl Into<By>,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
) -> Collective<'a> {
    let input = input.into();
    let count = count_of(&input, output.len());
    let arguments = Arguments::Reduce { root, count };
    Collective::new(group, input, output, arguments).combined::<T>(by)
}

/// `input` of all members, combined, goes to `output` of all members.
pub fn allreduce<'a, T: Datum>(
    group: Group,
    by: impl Into<By>,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
) -> Collective<'a> {
    let arguments = Arguments::Allreduce {
        count: output.len() as u64,
        commutative: false,
    };
    Collective::new(group, input, output, arguments).combined::<T>(by)
}

/// Block `i` of `input` of all members, combined, goes to `output` of the member at place `i`. In
/// place, the contribution is the whole output, and the result is at its beginning.
pub fn reduce_scatter_block<'a, T: Datum>(
    group: Group,
    by: impl Into<By>,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
) -> Collective<'a> {
    let (input, places) = (input.into(), group.size() as usize);
    let elements = match input {
        Input::From(input) => input.len(),
        Input::InPlace => output.len(),
    };
    let blocks = Blocks::Even((elements / places) as u64);
    reduce_scatter(group, by, input, output, blocks).divides("input", elements, places)
}

/// As [`reduce_scatter_block`], with a block of its own length for each member: the same `blocks`
/// at all members, each beginning where the one before it ends.
pub fn reduce_scatter<'a, T: Datum>(
    group: Group,
    by: impl Into<By>,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
    blocks: Blocks<'a>,
) -> Collective<'a> {
    let arguments = Arguments::ReduceScatter { blocks };
    Collective::new(group, input, output, arguments).combined::<T>(by)
}

/// `input` of all members up to this one, combined in the order of places, goes to `output`.
/// [`Prefix::Exclusive`] leaves this member out; `output` of place 0 is not changed then.
pub fn scan<'a, T: Datum>(
    group: Group,
    by: impl Into<By>,
    prefix: Prefix,
    input: impl Into<Input<'a, T>>,
    output: &'a mut [T],
) -> Collective<'a> {
    let count = output.len() as u64;
    let arguments = Arguments::Scan { count, prefix };
    Collective::new(group, input, output, arguments).combined::<T>(by)
}

/// The edges of a graph at one member of a group: a member may have several edges to another one,
/// or to itself. Block `i` of a buffer belongs to edge `i`.
#[derive(Clone, Copy, Debug)]
pub struct Neighbours<'a> {
    /// The places from which edges come.
    pub sources: &'a [u32],
    /// The places to which edges go.
    pub destinations: &'a [u32],
}

/// `input` goes along all edges: `output` has a block for each source.
pub fn neighbour_allgather<'a, T: Datum>(
    group: Group,
    neighbours: Neighbours<'a>,
    input: &'a [T],
    output: &'a mut [T],
) -> Collective<'a> {
    let (elements, edges) = (output.len(), neighbours.sources.len());
    let blocks = Blocks::Even((elements / edges.max(1)) as u64);
    neighbour_allgatherv(group, neighbours, input, output, blocks)
        .divides("output", elements, edges)
}

/// As [`neighbour_allgather`], with a block of its own length for each source.
pub fn neighbour_allgatherv<'a, T: Datum>(
    group: Group,
    neighbours: Neighbours<'a>,
    input: &'a [T],
    output: &'a mut [T],
    receive: Blocks<'a>,
) -> Collective<'a> {
    let arguments = Arguments::NeighbourAllgather {
        sources: neighbours.sources,
        destinations: neighbours.destinations,
        count: input.len() as u64,
        receive,
    };
    Collective::new(group, input, output, arguments)
}

/// A block of `input` goes along each edge: `output` has a block for each source.
pub fn neighbour_alltoall<'a, T: Datum>(
    group: Group,
    neighbours: Neighbours<'a>,
    input: &'a [T],
    output: &'a mut [T],
) -> Collective<'a> {
    let edges = [neighbours.destinations.len(), neighbours.sources.len()];
    let elements = [input.len(), output.len()];
    let even = |index: usize| Blocks::Even((elements[index] / edges[index].max(1)) as u64);
    neighbour_alltoallv(group, neighbours, input, even(0), output, even(1))
        .divides("input", elements[0], edges[0])
        .divides("output", elements[1], edges[1])
}

/// As [`neighbour_alltoall`], with a block of its own length for each edge.
pub fn neighbour_alltoallv<'a, T: Datum>(
    group: Group,
    neighbours: Neighbours<'a>,
    input: &'a [T],
    send: Blocks<'a>,
    output: &'a mut [T],
    receive: Blocks<'a>,
) -> Collective<'a> {
    let arguments = Arguments::NeighbourAlltoall {
        sources: neighbours.sources,
        destinations: neighbours.destinations,
        send,
        receive,
    };
    Collective::new(group, input, output, arguments)
}

/// The elements of a contribution, which has `in_place` elements in the output.
fn count_of<T>(input: &Input<'_, T>, in_place: usize) -> u64 {
    match input {
        Input::From(input) => input.len() as u64,
        Input::InPlace => in_place as u64,
    }
}

impl World {
    /// Does a collective: returns when this member's part is complete.
    ///
    /// # Errors
    /// [`Error::Argument`] when the arguments do not fit each other, the group was released, or a
    /// message shows that another member called with other arguments; else as [`World::send`].
    pub fn collective(&mut self, collective: Collective<'_>) -> Result<(), Error> {
        let group = collective.group;
        let plan = self.plan(collective)?;
        let number = self.groups.count_collective(group, Kind::Blocking)?;
        // SAFETY: the buffers are borrowed until this call returns, and by then the collective is
        // complete or given up.
        unsafe { (self.under_way).begin_awaited(plan, number, &mut self.engine)? };
        if !self.under_way.is_awaited() {
            return Ok(());
        }
        let ended = self.block_until(|world| (!world.under_way.is_awaited()).then_some(()));
        if ended.is_err() {
            self.under_way.give_up(None, &mut self.engine);
        }
        ended
    }

    /// Begins a collective. Its steps are done by all calls that make progress.
    ///
    /// # Errors
    /// As [`World::collective`].
    ///
    /// # Safety
    /// Until the request has ended or is [freed](World::free), all elements that the operation
    /// reads stay valid and unchanged, and those that it writes stay valid and untouched.
    pub unsafe fn start_collective(
        &mut self,
        collective: Collective<'_>,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let operation = unsafe { self.begin_collective(collective)? };
        Ok(self.add_request(operation))
    }

    /// As [`World::start_collective`], for a caller that holds the operation.
    ///
    /// # Errors
    /// As [`World::collective`].
    ///
    /// # Safety
    /// As [`World::start_collective`].
    pub unsafe fn begin_collective(
        &mut self,
        collective: Collective<'_>,
    ) -> Result<Operation, Error> {
        let group = collective.group;
        let plan = self.plan(collective)?;
        let number = self.groups.count_collective(group, Kind::Begun)?;
        // SAFETY: the caller's promise.
        let handle = unsafe { self.under_way.begin(plan, number, &mut self.engine)? };
        Ok(Operation::once(handle))
    }

    /// Prepares a persistent collective. All members of the group prepare it, and
    /// [start](World::start) it in the same order as their non-blocking collectives.
    ///
    /// # Errors
    /// As [`World::collective`].
    ///
    /// # Safety
    /// As [`World::start_collective`], until the request is freed.
    pub unsafe fn prepare_collective(
        &mut self,
        collective: Collective<'_>,
    ) -> Result<Request, Error> {
        let numbered = Numbered::ByStarts(collective.group);
        let operation = self.prepare(collective, numbered)?;
        Ok(self.add_request(operation))
    }

    /// As [`World::prepare_collective`], held by the caller, and as MPI has it: the members prepare their persistent
    /// collectives in the same order, and may start several in different orders. A program that
    /// continues from a checkpoint cannot prepare them again.
    ///
    /// # Errors
    /// As [`World::collective`].
    ///
    /// # Safety
    /// As [`World::prepare_collective`].
    pub unsafe fn prepare_collective_in_order(
        &mut self,
        collective: Collective<'_>,
    ) -> Result<Operation, Error> {
        let number = (self.groups).count_collective(collective.group, Kind::Prepared)?;
        self.prepare(collective, Numbered::ByPreparation(number.tag))
    }

    fn prepare(
        &mut self,
        collective: Collective<'_>,
        numbered: Numbered,
    ) -> Result<Operation, Error> {
        let plan = self.plan(collective)?;
        Ok(Operation::persistent(Template::Collective {
            plan,
            numbered,
        }))
    }

    /// The algorithm that does a collective.
    ///
    /// # Errors
    /// As [`World::collective`].
    pub fn algorithm(&mut self, collective: Collective<'_>) -> Result<Algorithm, Error> {
        Ok(self.plan(collective)?.chosen.algorithm)
    }

    /// Checks a collective and makes its schedule.
    fn plan(&mut self, collective: Collective<'_>) -> Result<Box<Plan>, Error> {
        super::forked::check()?;
        if let Some(why) = collective.refused {
            return Err(Error::Argument(why));
        }
        let members = self.groups.get(collective.group)?;
        let mut call = Call {
            group: schedules::Group {
                size: members.ranks.len() as u32,
                me: members.me,
            },
            hosts: members.hosts(&self.host_of_rank),
            arguments: collective.arguments,
            in_place: collective.in_place,
            element_bytes: collective.memory.element_bytes,
        };
        if call.operation().combines() {
            if collective.layouts.is_some() {
                return Err(Error::Argument(format!(
                    "{}: elements that are combined lie one behind the other: give no layouts",
                    call.operation()
                )));
            }
            let reduction = collective.reduction.as_ref();
            let operator_bytes = reduction.map_or(0, |it| it.element_bytes() as u64);
            if operator_bytes != call.element_bytes {
                return Err(Error::Argument(format!(
                    "{}: the operator combines elements of {operator_bytes} bytes, and the buffers have elements of {}",
                    call.operation(),
                    call.element_bytes
                )));
            }
            if let Arguments::Allreduce { commutative, .. } = &mut call.arguments {
                *commutative = reduction.is_some_and(Reduction::commutative);
            }
        }
        let chosen = (self.schedules.of(&call))
            .map_err(|wrong| Error::Argument(format!("{}: {wrong}", call.operation())))?;
        (collective.check_buffers(chosen))
            .map_err(|why| Error::Argument(format!("{}: {why}", call.operation())))?;
        let check = self
            .checks_collectives
            .then(|| match &collective.reduction {
                Some(reduction) => format!("{call}, {reduction}").into(),
                None => call.to_string().into(),
            });
        let Some(mut plan) = self.under_way.spare_plan() else {
            return Ok(Box::new(Plan {
                members: Arc::clone(&members.ranks),
                me: members.me,
                context: members.context,
                chosen: Arc::clone(chosen),
                memory: collective.memory,
                layouts: collective.layouts,
                reduction: collective.reduction,
                check,
            }));
        };
        plan.set(&members.ranks, chosen);
        (plan.me, plan.context) = (members.me, members.context);
        (plan.memory, plan.layouts) = (collective.memory, collective.layouts);
        (plan.reduction, plan.check) = (collective.reduction, check);
        Ok(plan)
    }
}

impl From<CollectiveError> for Error {
    fn from(error: CollectiveError) -> Self {
        match error {
            CollectiveError::Engine(error) => error.into(),
            mismatch => Self::Argument(mismatch.to_string()),
        }
    }
}
