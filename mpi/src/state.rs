//! The state of the library. Each part is a cell of its own, so that functions of the program which
//! the library calls (operators, error handlers, functions for attributes) may call MPI again.

#![allow(
    unsafe_code,
    reason = "shares the state between threads that take turns"
)]

use super::abi::{Errhandler, Request, Subject};
use super::attribute::Keys;
use super::calls::active::SpareLists;
use super::calls::buffering::Attached;
use super::calls::errors::Errors;
use super::calls::tools::Handle;
use super::communicator::Communicators;
use super::datatype::Types;
use super::exports as abi;
use super::failure::{Failure, Result};
use super::group::Groups;
use super::handles::Table;
use super::info::Infos;
use super::operator::Operators;
use super::request::{Matched, Requests};
use core::cell::{Cell, RefCell, RefMut};
use core::ffi::c_int;
use refrain::World;

/// Where the program is between its first call and its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Before,
    Running,
    After,
}

pub struct Mpi {
    pub phase: Cell<Phase>,
    pub thread_level: Cell<c_int>,
    /// Whether one buffer for input and output of a reduction is an error, or `MPI_IN_PLACE`.
    pub checks: Cell<bool>,
    world: RefCell<Option<World>>,
    pub communicators: RefCell<Communicators>,
    pub requests: RefCell<Requests>,
    pub messages: RefCell<Table<Matched>>,
    pub operators: RefCell<Operators>,
    pub types: RefCell<Types>,
    pub errors: RefCell<Errors>,
    pub groups: RefCell<Groups>,
    pub infos: RefCell<Infos>,
    pub keys: RefCell<Keys>,
    /// The error handler of each session.
    pub sessions: RefCell<Table<Errhandler>>,
    /// The data of `MPI_Sendrecv_replace`.
    pub copy: RefCell<Vec<u8>>,
    pub spare_lists: Cell<SpareLists>,
    /// Whether a send was ever cancelled.
    pub cancels_sends: Cell<bool>,
    /// Sessions and handles of tools.
    pub tool_sessions: RefCell<Table<()>>,
    pub tool_handles: RefCell<Table<Handle>>,
    pub attached: RefCell<Vec<Attached>>,
    /// The last error, for `MPI_Error_string`.
    pub last_error: RefCell<(c_int, String)>,
    /// What `MPI_Wtime` has returned last.
    pub last_time: Cell<f64>,
    /// The function that the program has called last, and its object.
    pub called: Cell<(&'static str, Subject)>,
}

struct Shared(Mpi);

// SAFETY: the library has thread level `MPI_THREAD_SERIALIZED`: the program makes one call at a
// time, and calls of different threads are ordered by it.
unsafe impl Sync for Shared {}

static MPI: Shared = Shared(Mpi {
    phase: Cell::new(Phase::Before),
    thread_level: Cell::new(abi::THREAD_SINGLE),
    checks: Cell::new(true),
    world: RefCell::new(None),
    communicators: RefCell::new(Communicators::new()),
    requests: RefCell::new(Requests::new()),
    messages: RefCell::new(Table::new()),
    operators: RefCell::new(Operators::new()),
    types: RefCell::new(Types::new()),
    errors: RefCell::new(Errors::new()),
    groups: RefCell::new(Groups::new()),
    infos: RefCell::new(Infos::new()),
    keys: RefCell::new(Keys::new()),
    sessions: RefCell::new(Table::new()),
    copy: RefCell::new(Vec::new()),
    spare_lists: Cell::new(SpareLists::new()),
    cancels_sends: Cell::new(false),
    tool_sessions: RefCell::new(Table::new()),
    tool_handles: RefCell::new(Table::new()),
    attached: RefCell::new(Vec::new()),
    last_error: RefCell::new((0, String::new())),
    last_time: Cell::new(0.0),
    called: Cell::new(("", Subject::None)),
});

#[inline]
pub fn mpi() -> &'static Mpi {
    &MPI.0
}

impl Mpi {
    /// The world, for an operation.
    #[inline]
    pub fn world(&self) -> Result<RefMut<'_, World>> {
        if let Ok(world) = self.world.try_borrow_mut()
            && let Ok(world) = RefMut::filter_map(world, Option::as_mut)
        {
            return Ok(world);
        }
        Err(self.no_world())
    }

    /// The world, if there is one and no call uses it.
    pub fn idle_world(&self) -> Option<RefMut<'_, World>> {
        let world = self.world.try_borrow_mut().ok()?;
        RefMut::filter_map(world, Option::as_mut).ok()
    }

    #[cold]
    #[inline(never)]
    fn no_world(&self) -> Failure {
        Failure::new(
            abi::ERR_OTHER,
            match self.phase.get() {
                Phase::Before => "MPI is not initialized: call MPI_Init first",
                Phase::Running => {
                    "the library is in another call: an operator, another thread or a signal handler must not communicate"
                }
                Phase::After => "MPI is finalized: nothing can be done after MPI_Finalize",
            },
        )
    }

    pub fn set_world(&self, world: Option<World>) -> Option<World> {
        self.world.replace(world)
    }

    /// Gives the program the request of a send that is complete when its call returns.
    #[inline]
    pub fn give_sent(&self, place: *mut Request) -> Result {
        super::abi::put(place, self.requests.borrow_mut().sent()?);
        Ok(())
    }

    /// Adds a request and gives its handle to the program.
    pub fn give(&self, place: *mut Request, entry: super::request::Entry) -> Result {
        self.give_made(place, || entry)
    }

    /// As [`give`](Self::give), of a request that is made in its place.
    #[inline(always)]
    pub fn give_made(
        &self,
        place: *mut Request,
        entry: impl FnOnce() -> super::request::Entry,
    ) -> Result {
        let handle = self.requests.borrow_mut().add_with(entry)?;
        super::abi::put(place, handle);
        Ok(())
    }
}

/// The handle that a table has made, or the error that it is full.
#[inline]
pub fn made(handle: Option<usize>, what: &str) -> Result<usize> {
    handle.ok_or_else(|| full(what))
}

#[cold]
#[inline(never)]
fn full(what: &str) -> Failure {
    Failure::new(
        abi::ERR_NO_MEM,
        format_args!("a million {what} exist: free some"),
    )
}
