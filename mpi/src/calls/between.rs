//! Collectives on intercommunicators (MPI-5.0, section 6.3): each is an exchange between the sides, as
//! one of neighbours in the group of both. Reductions combine at the receiver.

#![allow(unsafe_code, reason = "combines into the program's buffers")]

use super::described::{Described, Side};
use super::types::negative;
use crate::abi::{Datatype, Op, Start};
use crate::communicator::{Communicator, Union};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::operator::combination;
use crate::request::Then;
use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::slice;
use refrain::collective::{Arguments, Operands};

/// Both sides of an intercommunicator.
pub struct Sides<'a> {
    comm: &'a Communicator,
    union: Union,
}

impl<'a> Sides<'a> {
    /// `None`: the communicator has one side.
    pub fn of(comm: &'a Communicator) -> Option<Self> {
        comm.union.map(|union| Self { comm, union })
    }

    /// The place of this rank on its side.
    pub fn me(&self) -> u32 {
        self.comm.me
    }

    /// Number of ranks on this side.
    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    /// All places of the other side.
    pub fn all(&self) -> Vec<usize> {
        (0..self.comm.peers().len()).collect()
    }

    /// Exchanges blocks with places of the other side.
    fn exchange(
        &self,
        (sources, output): (&[usize], &Side),
        (destinations, input): (&[usize], &Side),
        start: Start,
        then: Option<Then>,
    ) -> Result {
        let in_union = |places: &[usize]| -> Vec<u32> {
            places
                .iter()
                .map(|place| self.union.remote + *place as u32)
                .collect()
        };
        let (sources, destinations) = (in_union(sources), in_union(destinations));
        let described = Described {
            group: self.union.group,
            arguments: Arguments::NeighbourAlltoall {
                sources: &sources,
                destinations: &destinations,
                send: input.blocks(),
                receive: output.blocks(),
            },
            in_place: false,
            input,
            output,
            reduction: None,
            element_bytes: 1,
        };
        described.start_and(start, then)
    }

    /// Of one rank of a side and all of the other one: what this rank is.
    fn role(&self, root: c_int) -> Result<Role> {
        match root {
            abi::ROOT => Ok(Role::Root),
            abi::PROC_NULL => Ok(Role::BesideRoot),
            place => match usize::try_from(place) {
                Ok(place) if place < self.comm.peers().len() => Ok(Role::Other(place)),
                _ => Err(Failure::new(
                    abi::ERR_ROOT,
                    format_args!(
                        "root {place} does not exist: the other group has {} ranks",
                        self.comm.peers().len()
                    ),
                )),
            },
        }
    }

    pub fn barrier(&self, start: Start) -> Result {
        let described = Described {
            group: self.union.group,
            arguments: Arguments::Barrier,
            in_place: false,
            input: &Side::NONE,
            output: &Side::NONE,
            reduction: None,
            element_bytes: 1,
        };
        described.start_and(start, None)
    }

    pub fn bcast(&self, data: &Side, root: c_int, start: Start) -> Result {
        let nobody = nothing()?;
        match self.role(root)? {
            Role::Root => {
                let all = self.all();
                let input = data.repeated(all.len())?;
                self.exchange((&[], &nobody), (&all, &input), start, None)
            }
            Role::BesideRoot => self.exchange((&[], &nobody), (&[], &nobody), start, None),
            Role::Other(root) => {
                self.exchange((&[root], &data.repeated(1)?), (&[], &nobody), start, None)
            }
        }
    }

    pub fn gather(
        &self,
        own: impl FnOnce() -> Result<Side>,
        all: impl FnOnce() -> Result<Side>,
        root: c_int,
        start: Start,
    ) -> Result {
        let nobody = nothing()?;
        match self.role(root)? {
            Role::Root => self.exchange((&self.all(), &all()?), (&[], &nobody), start, None),
            Role::BesideRoot => self.exchange((&[], &nobody), (&[], &nobody), start, None),
            Role::Other(root) => {
                self.exchange((&[], &nobody), (&[root], &own()?.repeated(1)?), start, None)
            }
        }
    }

    pub fn scatter(
        &self,
        own: impl FnOnce() -> Result<Side>,
        all: impl FnOnce() -> Result<Side>,
        root: c_int,
        start: Start,
    ) -> Result {
        let nobody = nothing()?;
        match self.role(root)? {
            Role::Root => self.exchange((&[], &nobody), (&self.all(), &all()?), start, None),
            Role::BesideRoot => self.exchange((&[], &nobody), (&[], &nobody), start, None),
            Role::Other(root) => {
                self.exchange((&[root], &own()?.repeated(1)?), (&[], &nobody), start, None)
            }
        }
    }

    pub fn allgather(&self, own: &Side, output: &Side, start: Start) -> Result {
        let all = self.all();
        self.exchange(
            (&all, output),
            (&all, &own.repeated(all.len())?),
            start,
            None,
        )
    }

    pub fn alltoall(&self, input: &Side, output: &Side, start: Start) -> Result {
        let all = self.all();
        self.exchange((&all, output), (&all, input), start, None)
    }

    pub fn reduce(
        &self,
        [send, receive]: [*const c_void; 2],
        count: i64,
        of: (Datatype, Op),
        root: c_int,
        start: Start,
    ) -> Result {
        let nobody = nothing()?;
        let whole = 0..u64::try_from(count).map_err(|_| negative(count))?;
        match self.role(root)? {
            Role::Root => {
                let mut reduced = self.reduced(receive, count, whole, of)?;
                let output = reduced.room()?;
                let then = Self::combining(reduced);
                self.exchange((&self.all(), &output), (&[], &nobody), start, Some(then))
            }
            Role::BesideRoot => self.exchange((&[], &nobody), (&[], &nobody), start, None),
            Role::Other(root) => {
                let input = self.contribution(send, count, of)?.repeated(1)?;
                self.exchange((&[], &nobody), (&[root], &input), start, None)
            }
        }
    }

    /// Combines what the other side sends; `own` are the elements that this rank gets.
    pub fn allreduce(
        &self,
        [send, receive]: [*const c_void; 2],
        count: i64,
        own: Range<u64>,
        of: (Datatype, Op),
        start: Start,
    ) -> Result {
        let all = self.all();
        let mut reduced = self.reduced(receive, count, own, of)?;
        let output = reduced.room()?;
        let input = self.contribution(send, count, of)?.repeated(all.len())?;
        let then = Self::combining(reduced);
        self.exchange((&all, &output), (&all, &input), start, Some(then))
    }

    /// Elements of this rank, as bytes.
    fn contribution(&self, at: *const c_void, count: i64, of: (Datatype, Op)) -> Result<Side> {
        let combination = combination(of.1, of.0)?;
        let count = usize::try_from(count).map_err(|_| negative(count))?;
        Ok(Side {
            at: at
                .cast::<u8>()
                .cast_mut()
                .wrapping_offset(combination.offset_bytes),
            bytes: (count * combination.reduction.element_bytes()) as u64,
            ..Side::NONE
        })
    }

    fn reduced(
        &self,
        receive: *const c_void,
        count: i64,
        own: Range<u64>,
        of: (Datatype, Op),
    ) -> Result<Reduced> {
        let combination = combination(of.1, of.0)?;
        let count = usize::try_from(count).map_err(|_| negative(count))?;
        let element_bytes = combination.reduction.element_bytes();
        let bytes = |elements: u64| elements as usize * element_bytes;
        Ok(Reduced {
            operands: vec![0; count * element_bytes * self.all().len()],
            number: self.all().len(),
            bytes: count * element_bytes,
            own: bytes(own.start)..bytes(own.end),
            to: receive
                .cast::<u8>()
                .cast_mut()
                .wrapping_offset(combination.offset_bytes),
            combination,
        })
    }

    /// What combines the operands when they are there.
    fn combining(mut reduced: Reduced) -> Then {
        Box::new(move || {
            reduced.combine();
            Ok(())
        })
    }
}

/// What a rank is in a collective with a root.
enum Role {
    Root,
    /// On the root's side.
    BesideRoot,
    /// On the other side; the root's place.
    Other(usize),
}

fn nothing() -> Result<Side> {
    Side::of_blocks(core::ptr::null(), Vec::new())
}

/// Operands of all ranks of the other side, and where their combination goes.
struct Reduced {
    /// One behind the other, by place.
    operands: Vec<u8>,
    /// Number of operands.
    number: usize,
    /// Of an operand.
    bytes: usize,
    /// The bytes of the result that go to this rank.
    own: Range<usize>,
    to: *mut u8,
    combination: crate::operator::Combination,
}

impl Reduced {
    /// Room for the operands.
    fn room(&mut self) -> Result<Side> {
        Side::of_bytes(self.operands.as_mut_ptr(), self.bytes, self.number)
    }

    /// Combines the operands, in the order of places.
    fn combine(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let mut rest: &mut [u8] = &mut self.operands;
        let mut operands = Vec::new();
        while !rest.is_empty() {
            let (operand, others) = rest.split_at_mut(self.bytes);
            operands.push(&mut operand[self.own.clone()]);
            rest = others;
        }
        let Some(result) = operands.pop() else { return };
        for left in operands.into_iter().rev() {
            let operands = Operands::IntoRight { left, into: result };
            self.combination.reduction.apply(operands);
        }
        // SAFETY: the standard asks the program for this room.
        unsafe { slice::from_raw_parts_mut(self.to, result.len()) }.copy_from_slice(result);
    }
}
