//! Collectives that block: all members of a group call the same one, in the same order.
//!
//! What each does is that of MPI's collective of this name (MPI-5.0, chapter 6). Which algorithm
//! does it depends on arguments and group alone, so a reduction has the same bits in every run and
//! after each recovery.

#![allow(
    unsafe_code,
    reason = "lends the caller's buffers for the time of a blocking call"
)]

use super::World;
use super::group::Group;
use crate::Error;
use refrain_collectives::reduction::{Element, Number};
pub use refrain_collectives::reduction::{Operator, Reduction};
use refrain_collectives::{self as collectives, Arguments, Blocks, Call, Prefix, Schedule};
use refrain_rank::collective::{Collective, CollectiveError, Memory, Name};
use std::sync::Arc;

/// A type whose values collectives carry and combine.
pub trait Numeric: sealed::Sealed + Copy {
    /// The type, for an operator.
    const ELEMENT: Element;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numeric {
    ($($type:ty: $number:ident),+) => {$(
        impl sealed::Sealed for $type {}
        impl Numeric for $type {
            const ELEMENT: Element = Element::Number(Number::$number);
        }
    )+};
}

numeric!(u8: U8, u16: U16, u32: U32, u64: U64, i8: I8, i16: I16, i32: I32, i64: I64, f32: F32, f64: F64);

/// The buffers of a call, in elements of one type.
struct Buffers {
    memory: Memory,
    in_place: bool,
    reduction: Option<Reduction>,
}

impl Buffers {
    /// `None` for `input`: the contribution is in `output`.
    fn new<T: Numeric>(input: Option<&[T]>, output: &mut [T]) -> Self {
        Self {
            in_place: input.is_none(),
            memory: Memory {
                input: input.map_or(core::ptr::null(), |input| input.as_ptr().cast()),
                output: output.as_mut_ptr().cast(),
                element_bytes: size_of::<T>() as u64,
            },
            reduction: None,
        }
    }

    fn combined_by<T: Numeric>(self, operator: Operator) -> Result<Self, Error> {
        let reduction = Reduction::new(operator, T::ELEMENT);
        let reduction = reduction.map_err(|error| Error::Argument(error.to_string()))?;
        Ok(Self {
            reduction: Some(reduction),
            ..self
        })
    }
}

/// A buffer must have as many elements as the call says.
fn check_count(name: &str, has: usize, wants: u64) -> Result<(), Error> {
    match has as u64 == wants {
        true => Ok(()),
        false => Err(Error::Argument(format!(
            "the {name} has {has} elements, this collective of this group needs {wants}"
        ))),
    }
}

impl World {
    /// Returns when every member of `group` has called it.
    ///
    /// # Errors
    /// As [`World::send`]; when the members call different collectives.
    pub fn barrier_of(&mut self, group: Group) -> Result<(), Error> {
        let buffers = Buffers::new::<u8>(Some(&[]), &mut []);
        // SAFETY: a barrier uses no memory.
        unsafe { self.run(group, Arguments::Barrier, buffers) }
    }

    /// `data` of the member at the place `root` goes to all members.
    ///
    /// # Errors
    /// As [`World::barrier_of`].
    pub fn bcast<T: Numeric>(
        &mut self,
        group: Group,
        root: u32,
        data: &mut [T],
    ) -> Result<(), Error> {
        self.member(group, root)?;
        let count = data.len() as u64;
        // SAFETY: borrowed for the call, and has this many elements.
        unsafe {
            self.run(
                group,
                Arguments::Bcast { root, count },
                Buffers::new(None, data),
            )
        }
    }

    /// `input` of all members goes to `output` of the member at the place `root`, in the order of
    /// places; `output` of the others is empty.
    ///
    /// # Errors
    /// As [`World::barrier_of`]; when the output does not fit.
    pub fn gather<T: Numeric>(
        &mut self,
        group: Group,
        root: u32,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let (count, blocks) = (input.len() as u64, Blocks::Even(input.len() as u64));
        check_count("output", output.len(), count * self.places_at(group, root)?)?;
        let arguments = Arguments::Gather {
            root,
            count,
            blocks,
        };
        // SAFETY: borrowed for the call, and the lengths fit.
        unsafe { self.run(group, arguments, Buffers::new(Some(input), output)) }
    }

    /// `input` of the member at the place `root` goes to `output` of all members, a block each, in
    /// the order of places; `input` of the others is empty.
    ///
    /// # Errors
    /// As [`World::gather`].
    pub fn scatter<T: Numeric>(
        &mut self,
        group: Group,
        root: u32,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let (count, blocks) = (output.len() as u64, Blocks::Even(output.len() as u64));
        check_count("input", input.len(), count * self.places_at(group, root)?)?;
        let arguments = Arguments::Scatter {
            root,
            count,
            blocks,
        };
        // SAFETY: as in `gather`.
        unsafe { self.run(group, arguments, Buffers::new(Some(input), output)) }
    }

    /// `input` of all members goes to `output` of all members, in the order of places.
    ///
    /// # Errors
    /// As [`World::gather`].
    pub fn allgather<T: Numeric>(
        &mut self,
        group: Group,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let count = input.len() as u64;
        check_count("output", output.len(), count * self.places(group)?)?;
        let blocks = Blocks::Even(count);
        // SAFETY: as in `gather`.
        unsafe {
            self.run(
                group,
                Arguments::Allgather { blocks },
                Buffers::new(Some(input), output),
            )
        }
    }

    /// Block `b` of `input` of the member at place `a` goes to block `a` of `output` of the member
    /// at place `b`.
    ///
    /// # Errors
    /// As [`World::gather`]; when the buffers do not divide into one block for each member.
    pub fn alltoall<T: Numeric>(
        &mut self,
        group: Group,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let places = self.places(group)?;
        let count = input.len() as u64 / places;
        check_count("input", input.len(), count * places)?;
        check_count("output", output.len(), count * places)?;
        let blocks = Blocks::Even(count);
        let arguments = Arguments::Alltoall {
            send: blocks,
            receive: blocks,
        };
        // SAFETY: as in `gather`.
        unsafe { self.run(group, arguments, Buffers::new(Some(input), output)) }
    }

    /// `input` of all members, combined by `operator`, goes to `output` of the member at the place
    /// `root`; `output` of the others is empty.
    ///
    /// # Errors
    /// As [`World::gather`]; when the operator does not exist for the type.
    pub fn reduce<T: Numeric>(
        &mut self,
        group: Group,
        root: u32,
        operator: Operator,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let count = input.len() as u64;
        let is_root = self.places_at(group, root)? > 0;
        check_count("output", output.len(), count * u64::from(is_root))?;
        let buffers = Buffers::new(Some(input), output).combined_by::<T>(operator)?;
        // SAFETY: as in `gather`.
        unsafe { self.run(group, Arguments::Reduce { root, count }, buffers) }
    }

    /// `input` of all members, combined by `operator`, goes to `output` of all members.
    ///
    /// # Errors
    /// As [`World::reduce`].
    pub fn allreduce<T: Numeric>(
        &mut self,
        group: Group,
        operator: Operator,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        check_count("output", output.len(), input.len() as u64)?;
        let buffers = Buffers::new(Some(input), output).combined_by::<T>(operator)?;
        let count = input.len() as u64;
        // SAFETY: as in `gather`.
        unsafe {
            self.run(
                group,
                Arguments::Allreduce {
                    count,
                    commutative: true,
                },
                buffers,
            )
        }
    }

    /// `data` of all members, combined by `operator`, replaces `data` of all members.
    ///
    /// # Errors
    /// As [`World::reduce`].
    pub fn allreduce_in_place<T: Numeric>(
        &mut self,
        group: Group,
        operator: Operator,
        data: &mut [T],
    ) -> Result<(), Error> {
        let count = data.len() as u64;
        let buffers = Buffers::new(None, data).combined_by::<T>(operator)?;
        // SAFETY: as in `gather`.
        unsafe {
            self.run(
                group,
                Arguments::Allreduce {
                    count,
                    commutative: true,
                },
                buffers,
            )
        }
    }

    /// Block `i` of `input` of all members, combined by `operator`, goes to `output` of the member at
    /// place `i`.
    ///
    /// # Errors
    /// As [`World::reduce`].
    pub fn reduce_scatter<T: Numeric>(
        &mut self,
        group: Group,
        operator: Operator,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let count = output.len() as u64;
        check_count("input", input.len(), count * self.places(group)?)?;
        let buffers = Buffers::new(Some(input), output).combined_by::<T>(operator)?;
        let blocks = Blocks::Even(count);
        // SAFETY: as in `gather`.
        unsafe { self.run(group, Arguments::ReduceScatter { blocks }, buffers) }
    }

    /// `input` of all members up to this one, in the order of places, combined by `operator`.
    /// [`Prefix::Exclusive`] leaves this one out; `output` of place 0 is not changed then.
    ///
    /// # Errors
    /// As [`World::reduce`].
    pub fn scan<T: Numeric>(
        &mut self,
        group: Group,
        operator: Operator,
        prefix: Prefix,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        check_count("output", output.len(), input.len() as u64)?;
        let buffers = Buffers::new(Some(input), output).combined_by::<T>(operator)?;
        let count = input.len() as u64;
        // SAFETY: as in `gather`.
        unsafe { self.run(group, Arguments::Scan { count, prefix }, buffers) }
    }

    fn places(&mut self, group: Group) -> Result<u64, Error> {
        Ok(self.groups.get(group)?.ranks.len() as u64)
    }

    /// Blocks of the large buffer of an operation with a root: none where this is not the root.
    fn places_at(&mut self, group: Group, root: u32) -> Result<u64, Error> {
        self.member(group, root)?;
        let members = self.groups.get(group)?;
        Ok(if members.me == root {
            members.ranks.len() as u64
        } else {
            0
        })
    }

    /// Does a collective.
    ///
    /// # Safety
    /// The buffers have the elements that the arguments name.
    unsafe fn run(
        &mut self,
        group: Group,
        arguments: Arguments<'_>,
        buffers: Buffers,
    ) -> Result<(), Error> {
        super::forked::check()?;
        let members = self.groups.get(group)?;
        let name = Name {
            members: Arc::clone(&members.ranks),
            me: members.me,
            context: members.context,
            number: (members.collectives % (1 << 31)) as i32,
        };
        members.collectives += 1;
        let call = Call {
            group: collectives::Group {
                size: name.members.len() as u32,
                me: name.me,
            },
            arguments,
            in_place: buffers.in_place,
            element_bytes: buffers.memory.element_bytes,
        };
        let mut schedule = Schedule::default();
        let algorithm = self.algorithms.choose(&call, false);
        algorithm.schedule(&call, &self.algorithms.parameters, &mut schedule);
        let operation = self.engine.begin_internal()?;
        let id = operation.id();
        let Buffers {
            memory, reduction, ..
        } = buffers;
        // SAFETY: the buffers are borrowed until this call returns; by then the collective is
        // complete or abandoned.
        let mut collective =
            unsafe { Collective::new(operation, name, schedule, memory, reduction) };
        let ended = self.block_until(|world| match collective.advance(&mut world.engine) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        match ended {
            Ok(Ok(())) => collective.finish(&mut self.engine),
            Ok(Err(error)) => {
                collective.abandon(&mut self.engine);
                return Err(error.into());
            }
            Err(error) => {
                collective.abandon(&mut self.engine);
                return Err(error);
            }
        }
        self.finish(id).map(|_| ())
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
