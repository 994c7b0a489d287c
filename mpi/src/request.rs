//! Requests of the program: those of the library, and those that have ended when they begin.

use super::abi::{Request, Status};
use super::communicator::Finder;
use super::exports as abi;
use super::failure::{Failure, Result};
use super::general::General;
use super::handles::Table;
use super::parts::Parts;
use super::state::made;
use core::ffi::c_int;
use refrain::{Ended, Handle, Message, World};

/// What a request stands for.
pub enum Operation {
    /// An operation of the library; its handle is null when it has ended.
    Library(refrain::Operation),
    /// It ends as soon as the program asks: a message to or from `MPI_PROC_NULL`, a buffered send.
    Nothing,
    /// A generalized request.
    General(Box<General>),
    /// A message in parts.
    Parts(Box<Parts>),
}

/// Called when an operation has ended; of a persistent request, each time.
pub type Then = Box<dyn FnMut() -> Result>;

/// A request.
pub struct Entry {
    pub operation: Operation,
    /// Finds the source of a receive; `None`: the request is none.
    pub source: Option<Finder>,
    /// A persistent request is active from its start to its end, another one always.
    pub is_active: bool,
    /// Set while [`Requests::check`] runs: the call names this request.
    is_named: bool,
    /// What few requests have. The others are short, and quick to make and to end.
    rare: Option<Box<Rare>>,
}

/// What few requests have.
#[derive(Default)]
pub struct Rare {
    /// How an operation of the library has ended, if the program has asked and not taken the end.
    pub over: Option<Ended>,
    pub persistent: Option<Persistent>,
    /// What the end of the operation makes.
    pub then: Option<Then>,
    /// The program has freed a generalized request that is not complete.
    pub is_freed: bool,
    /// The program has cancelled a send: tests until it is made complete.
    pub tests_left: Option<u32>,
}

/// A send is never cancelled. A wait for it completes it, since it must not depend on the receiver,
/// and so does this number of tests (MPI-5.0, section 3.8.4).
pub const CANCELLED_TESTS: u32 = 1000;

/// How far a request is.
pub enum Progress {
    Over,
    /// The library has to end this.
    Pending(Handle),
    /// The library has to end these, with their numbers.
    InParts(Vec<(u64, Handle)>),
    /// The program has to end it.
    Program,
}

/// How a persistent request is started.
pub enum Persistent {
    /// As a persistent request of the library, or nothing.
    Again,
    /// By calling this: a buffered send.
    By(Box<dyn Fn() -> Result>),
}

/// The status of requests that have none: null, inactive, and sends.
pub fn empty() -> Status {
    Status::new(abi::ANY_SOURCE, abi::ANY_TAG, 0)
}

/// The status of a receive from `MPI_PROC_NULL`.
pub fn from_proc_null() -> Status {
    Status::new(abi::PROC_NULL, abi::ANY_TAG, 0)
}

impl Entry {
    #[inline(always)]
    pub fn new(operation: Operation, source: Option<Finder>) -> Self {
        Self {
            operation,
            source,
            is_active: true,
            is_named: false,
            rare: None,
        }
    }

    #[inline(always)]
    pub fn library(operation: refrain::Operation, source: Option<Finder>) -> Self {
        Self::new(Operation::Library(operation), source)
    }

    pub fn persistent(mut self, how: Persistent) -> Self {
        self.rare_mut().persistent = Some(how);
        self.is_active = false;
        self
    }

    /// What the request has of what few have.
    #[inline]
    pub fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    /// As [`rare`](Self::rare), to change it.
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// How the operation has ended, if the program has asked and not taken the end.
    #[inline]
    pub fn over(&self) -> Option<&Ended> {
        self.rare()?.over.as_ref()
    }

    #[inline]
    pub fn progress(&self) -> Progress {
        match &self.operation {
            _ if self.over().is_some() => Progress::Over,
            Operation::Library(library) => Progress::Pending(library.handle()),
            Operation::Nothing => Progress::Over,
            Operation::General(general) if general.is_complete => Progress::Over,
            Operation::General(_) => Progress::Program,
            Operation::Parts(parts) if parts.is_over() => Progress::Over,
            Operation::Parts(parts) => Progress::InParts(parts.awaited()),
        }
    }

    /// Notes that a call of the library has returned the end of its operation.
    pub fn library_has_ended(&mut self) {
        if let Operation::Library(library) = &mut self.operation {
            library.has_ended();
        }
    }

    /// The status of a request that has ended, unless the program has to tell it.
    pub fn status(&self) -> Status {
        match (self.over(), &self.operation, &self.source) {
            (Some(ended), ..) => self.ended(ended),
            (None, Operation::Parts(parts), _) => parts.status,
            (None, _, Some(_)) => from_proc_null(),
            (None, _, None) => empty(),
        }
    }

    /// The status of an end that the library reports, and its error.
    pub fn ended(&self, ended: &Ended) -> Status {
        let Some(finder) = &self.source else {
            return empty();
        };
        of_receive(finder.place(ended.status.source), ended)
    }
}

/// The status of a receive that has ended, from this source.
#[inline]
pub fn of_receive(source: c_int, ended: &Ended) -> Status {
    let of = &ended.status;
    if of.cancelled {
        let mut status = empty();
        status.cancelled = 1;
        return status;
    }
    let bytes = ended.truncated_to.unwrap_or(of.bytes);
    let mut status = Status::new(source, of.tag, bytes);
    if ended.truncated_to.is_some() {
        status.error = abi::ERR_TRUNCATE;
    }
    status
}

/// All requests.
pub struct Requests {
    table: Table<Entry>,
    /// The request of all sends that are complete when their call returns; null before the first one.
    sent: Request,
    /// Operations whose request the program has freed before their end.
    pub freed: Vec<Handle>,
}

impl Requests {
    pub const fn new() -> Self {
        Self {
            table: Table::new(),
            sent: abi::REQUEST_NULL,
            freed: Vec::new(),
        }
    }

    pub fn add(&mut self, entry: Entry) -> Result<Request> {
        self.add_with(|| entry)
    }

    /// As [`add`](Self::add), of a request that is made in its place.
    #[inline(always)]
    pub fn add_with(&mut self, entry: impl FnOnce() -> Entry) -> Result<Request> {
        Ok(Request(made(self.table.add_with(entry), "requests")?))
    }

    /// The request of a send that is complete when its call returns.
    #[inline]
    pub fn sent(&mut self) -> Result<Request> {
        if self.sent == abi::REQUEST_NULL {
            self.sent = self.add(Entry::new(Operation::Nothing, None))?;
        }
        Ok(self.sent)
    }

    #[inline]
    pub fn get(&self, request: Request) -> Result<&Entry> {
        self.table.get(request.0).ok_or_else(|| unknown(request))
    }

    #[inline]
    pub fn get_mut(&mut self, request: Request) -> Result<&mut Entry> {
        self.table
            .get_mut(request.0)
            .ok_or_else(|| unknown(request))
    }

    pub fn remove(&mut self, request: Request) -> Result<Entry> {
        if request == self.sent && request != abi::REQUEST_NULL {
            return Ok(Entry::new(Operation::Nothing, None));
        }
        self.table.remove(request.0).ok_or_else(|| unknown(request))
    }

    /// The active operation of a request; `None`: it is null or inactive.
    #[inline]
    pub fn active(&self, request: Request) -> Result<Option<&Entry>> {
        if request == abi::REQUEST_NULL {
            return Ok(None);
        }
        let entry = self.get(request)?;
        Ok(entry.is_active.then_some(entry))
    }

    /// A request has ended: it becomes null, or inactive if it is persistent.
    #[inline]
    pub fn end(&mut self, request: &mut Request) {
        if let Some(entry) = self.table.get_mut(request.0)
            && let Some(rare) = entry.rare.as_deref_mut()
            && rare.persistent.is_some()
        {
            rare.over = None;
            entry.is_active = false;
            entry.library_has_ended();
            return;
        }
        if *request != self.sent {
            self.table.discard(request.0);
        }
        *request = abi::REQUEST_NULL;
    }

    /// Whether this is the request of sends that are complete.
    #[inline]
    pub fn is_sent(&self, request: Request) -> bool {
        request == self.sent
    }

    /// Ends a receive whose message is here, as most are, and that has nothing rare. `see` gets it and
    /// its end. Returns false, and does nothing, with another request.
    #[inline(always)]
    pub fn end_received(
        &mut self,
        request: &mut Request,
        world: &mut World,
        see: impl FnOnce(&Entry, &Ended),
    ) -> bool {
        let has_ended = self.table.discard_emptied(request.0, |entry| {
            let Operation::Library(library) = &entry.operation else {
                return false;
            };
            // A persistent one has something rare.
            let has_ended =
                entry.rare.is_none() && world.end_received(library, |ended| see(entry, &ended));
            if has_ended {
                entry.source = None;
            }
            has_ended
        });
        if has_ended {
            *request = abi::REQUEST_NULL;
        }
        has_ended
    }

    /// Checks that a call names each of the requests at these places once. A request in parts has
    /// several places behind each other.
    pub fn check(&mut self, requests: &[Request], places: &[(usize, u64)]) -> Result {
        let (mut last, mut twice) = (None, None);
        for &(place, _) in places {
            let is_named = &mut self.get_mut(requests[place])?.is_named;
            if last.replace(place) != Some(place) && core::mem::replace(is_named, true) {
                twice = Some(place);
            }
        }
        for &(place, _) in places {
            self.get_mut(requests[place])?.is_named = false;
        }
        twice.map_or(Ok(()), |place| Err(named_twice(place)))
    }
}

#[cold]
fn named_twice(place: usize) -> Failure {
    Failure::new(
        abi::ERR_REQUEST,
        format_args!("request {place} of the call is named twice"),
    )
}

#[cold]
fn unknown(request: Request) -> Failure {
    Failure::new(
        abi::ERR_REQUEST,
        match request {
            abi::REQUEST_NULL => "the request is MPI_REQUEST_NULL".to_owned(),
            Request(handle) => {
                format!("request {handle} does not exist: it has ended, or was never made")
            }
        },
    )
}

/// A message that a matched probe took.
#[derive(Debug)]
pub struct Matched {
    pub message: Message,
    pub source: Finder,
}

/// The failure of a message that was longer than its buffer.
#[inline]
pub fn truncated(ended: &Ended) -> Option<Failure> {
    let error = ended.status().err()?;
    Some(Failure::new(abi::ERR_TRUNCATE, error))
}

/// The length of a list of the program, which is an `int`.
pub fn count(count: c_int) -> Result<usize> {
    usize::try_from(count).map_err(|_| {
        Failure::new(
            abi::ERR_COUNT,
            format_args!("the length of the list is {count}: give 0 or more"),
        )
    })
}

/// As [`count`], of this list, which may be null if it is empty.
pub fn count_of<T>(number: c_int, list: *const T) -> Result<usize> {
    match count(number)? {
        0 => Ok(0),
        _ if list.is_null() => Err(no_list()),
        number => Ok(number),
    }
}

/// The failure of a call whose list is null.
#[cold]
pub fn no_list() -> Failure {
    Failure::argument("a list is NULL, but its length is not 0")
}
