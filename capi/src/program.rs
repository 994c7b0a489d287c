//! A program in C: its world, and what it holds of it.

use super::failure::{Code, Failure};
use super::memory::Protected;
use super::protected::{Found, Sections};
use super::status::Status;
use super::table::{Handle, Table};
use core::time::Duration;
use refrain::{Error, Message, Request, Scope, World};

/// What `refrain_init` makes.
#[derive(Debug)]
pub struct Program {
    world: World,
    requests: Table<Request>,
    messages: Table<Message>,
    protected: Sections,
    /// What this life goes on from, while the program has not loaded it.
    found: Option<Found>,
    /// Requests of one call.
    lent: Vec<Request>,
}

/// How a call ended that may have met a message longer than its buffer: then both
/// are there.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<Status>,
    pub result: Result<(), Failure>,
}

impl From<Result<refrain::Status, Error>> for Ended {
    fn from(result: Result<refrain::Status, Error>) -> Self {
        Self {
            status: match &result {
                Ok(status) => Some((*status).into()),
                Err(error) => Status::of_truncated(error),
            },
            result: result.map(drop).map_err(Failure::from),
        }
    }
}

impl Program {
    pub fn new(world: World) -> Self {
        Self {
            world,
            requests: Table::new(),
            messages: Table::new(),
            protected: Sections::default(),
            found: None,
            lent: Vec::new(),
        }
    }

    /// For questions that are no operations.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// For operations.
    pub fn ready(&mut self) -> Result<&mut World, Failure> {
        match &self.found {
            None => Ok(&mut self.world),
            Some(found) => Err(Failure::new(
                Code::Checkpoint,
                format_args!(
                    "this process goes on from checkpoint {}: call refrain_restored before any other operation",
                    found.number()
                ),
            )),
        }
    }

    /// What the program asks the machine for a number. Before it has loaded its
    /// checkpoint it is no operation.
    pub fn answer_number(&mut self, lane: u8, fresh: i64) -> Result<i64, Error> {
        match self.found {
            None => self.world.answer_number(lane, fresh),
            Some(_) => Ok(fresh),
        }
    }

    /// The same for bytes.
    pub fn answer_bytes(&mut self, fresh: &mut [u8]) -> Result<(), Error> {
        match self.found {
            None => self.world.answer_bytes(fresh),
            Some(_) => Ok(()),
        }
    }

    /// The time since the job began: also before the checkpoint is loaded that this
    /// life goes on from. It is no operation then.
    pub fn time(&mut self) -> Result<Duration, Failure> {
        match self.found {
            None => Ok(self.world.time()?),
            Some(_) => Ok(self.world.unrecorded_time()),
        }
    }

    /// For operations with requests: they outlive the call.
    fn scope(&mut self) -> Result<Scope<'_, 'static>, Failure> {
        Ok(self.ready()?.lasting_scope())
    }

    /// Ends the job's part that is C's: nothing may be open.
    pub fn end_is_near(&mut self) -> Result<(), Failure> {
        self.nothing_is_open("refrain_finalize")
    }

    pub fn finalize(self) -> Result<(), Failure> {
        Ok(self.world.finalize()?)
    }

    fn nothing_is_open(&self, call: &str) -> Result<(), Failure> {
        let (requests, messages) = (self.requests.count(), self.messages.count());
        if requests == 0 && messages == 0 {
            return Ok(());
        }
        Err(Failure::new(
            Code::Open,
            format_args!(
                "{call}: {requests} requests were not waited for and {messages} messages of matched probes not received: end them before"
            ),
        ))
    }

    // ---- requests ----

    /// Begins a request.
    pub fn begin(
        &mut self,
        begin: impl FnOnce(&mut Scope<'_, 'static>) -> Result<Request, Error>,
    ) -> Result<Handle, Failure> {
        let request = begin(&mut self.scope()?)?;
        Ok(self.requests.insert(request))
    }

    /// Runs a call on some requests and returns their handles as they are then:
    /// null where the call has ended them. A null handle stands for a null request.
    pub fn on_requests<T>(
        &mut self,
        handles: impl Iterator<Item = Handle>,
        call: impl FnOnce(&mut Scope<'_, 'static>, &mut [Request]) -> T,
    ) -> Result<(T, Vec<Handle>), Failure> {
        self.ready()?;
        let mut requests = core::mem::take(&mut self.lent);
        let mut handles: Vec<Handle> = handles.collect();
        let lent = self.lend(&handles, &mut requests);
        let result = lent.and_then(|()| Ok(call(&mut self.scope()?, &mut requests)));
        for (request, handle) in requests.drain(..).zip(&mut handles) {
            if handle.is_null() {
                continue;
            }
            if request.is_null() {
                self.requests.end(*handle);
                *handle = Handle::NULL;
            } else {
                self.requests.give_back(*handle, request);
            }
        }
        self.lent = requests;
        Ok((result?, handles))
    }

    /// As far as the first that is not good.
    fn lend(&mut self, handles: &[Handle], to: &mut Vec<Request>) -> Result<(), Failure> {
        for (index, handle) in handles.iter().enumerate() {
            let request = match handle.is_null() {
                true => Some(Request::null()),
                false => self.requests.lend(*handle),
            };
            to.push(request.ok_or_else(|| {
                Failure::new(
                    Code::Request,
                    format_args!("request {index} of the call has ended already, is named twice, or is of another world"),
                )
            })?);
        }
        Ok(())
    }

    // ---- messages of matched probes ----

    pub fn keep(&mut self, message: Message) -> Handle {
        self.messages.insert(message)
    }

    /// Takes a message for its receive.
    pub fn take(&mut self, handle: Handle) -> Result<Message, Failure> {
        self.ready()?;
        let message = self.messages.lend(handle).ok_or_else(|| {
            Failure::new(
                Code::Request,
                "the message is null, was received already, or is of another world",
            )
        })?;
        self.messages.end(handle);
        Ok(message)
    }

    // ---- checkpoints ----

    pub fn protect(&mut self, id: u64, memory: Protected) {
        self.protected.protect(id, memory);
    }

    pub fn unprotect(&mut self, id: u64) -> Result<(), Failure> {
        self.protected.unprotect(id)
    }

    /// The number of the checkpoint; 0 for none.
    pub fn checkpoint(&mut self) -> Result<u64, Failure> {
        self.ready()?;
        // Also where none is taken: it must not depend on that. REC-4
        self.nothing_is_open("refrain_checkpoint")?;
        let protected = &self.protected;
        let taken = self.world.checkpoint(|image| protected.save(image));
        let taken = taken.map_err(checkpoint_failed)?;
        Ok(taken.map_or(0, |taken| taken.number))
    }

    /// The checkpoint that this life goes on from, before it is loaded.
    pub fn found(&mut self) -> Result<Option<&Found>, Failure> {
        if self.found.is_none()
            && let Some(restored) = self.world.restored()?
        {
            self.found = Some(Found::new(restored).map_err(checkpoint_failed)?);
        }
        Ok(self.found.as_ref())
    }

    /// Loads it: its number, 0 for none.
    pub fn restore(&mut self) -> Result<u64, Failure> {
        self.found()?;
        let Some(found) = &self.found else {
            return Ok(0);
        };
        found.load(&self.protected)?;
        let number = found.number();
        self.found = None;
        Ok(number)
    }
}

/// A store that fails is no wrong setting.
fn checkpoint_failed(error: Error) -> Failure {
    match error {
        Error::Config(text) => Failure::new(Code::Checkpoint, text),
        other => other.into(),
    }
}
