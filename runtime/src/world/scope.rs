//! [`Scope`]: non-blocking operations whose buffers are borrowed.
//!
//! As with scoped threads, a request may borrow what outlives the scope's
//! closure, because the scope does not return before every request is done
//! with its buffer.

#![allow(
    unsafe_code,
    reason = "lends buffers to the engine for the time of the scope"
)]

use super::request::{Held, forget};
use super::{
    Destination, Incoming, Message, Outgoing, Request, Source, Status, World, receive_buffer,
    send_buffer, status_of,
};
use crate::Error;
use core::marker::PhantomData;
use refrain_rank::calls::{self, Handle};
use refrain_transport::engine::{Outcome, RequestId};

/// Non-blocking operations on buffers that live as long as `'env`.
#[derive(Debug)]
pub struct Scope<'s, 'env> {
    world: &'s mut World,
    /// Requests begun here; those that are over are swept out now and then.
    begun: Vec<RequestId>,
    sweep_at: usize,
    /// Its requests outlive it.
    lasts: bool,
    /// Tells this scope's persistent requests from those of others.
    serial: u64,
    templates: Vec<Template<'env>>,
    env: PhantomData<core::cell::Cell<&'env mut ()>>,
}

/// What a persistent request does at each start.
#[derive(Debug)]
enum Template<'env> {
    Send {
        data: Outgoing<'env>,
        to: Destination,
        synchronous: bool,
    },
    Receive {
        room: Incoming<'env>,
        from: Source,
    },
}

/// Requests begun before the first sweep.
const SWEEP_MIN: usize = 64;

impl World {
    /// Runs `f` with a [`Scope`] in which requests may borrow buffers. Returns
    /// when all of them are complete; when `f` fails, those that remain are
    /// given up: receives are cancelled, sends go on from a copy.
    ///
    /// ```no_run
    /// # use refrain::{World, from, to};
    /// # fn exchange(world: &mut World, peer: u32) -> Result<(), refrain::Error> {
    /// let (out, mut into) = ([1u8; 1024], [0u8; 1024]);
    /// world.scope(|scope| {
    ///     let mut requests = [scope.irecv(&mut into, from(peer))?, scope.isend(&out, to(peer))?];
    ///     scope.wait_all(&mut requests)
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `f`, and those of the requests that it left.
    pub fn scope<'env, R>(
        &mut self,
        f: impl FnOnce(&mut Scope<'_, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut scope = self.begin_scope(false);
        let result = f(&mut scope)?;
        scope.finish_rest()?;
        Ok(result)
    }

    /// A scope whose requests go on when it ends: they can be given to any later
    /// scope of this world. For programs that keep requests from one call to the
    /// next, which is why the buffers live for ever; a program in another language
    /// answers for its own ([`Incoming::raw`]). Persistent requests end with the
    /// scope.
    pub fn lasting_scope(&mut self) -> Scope<'_, 'static> {
        self.begin_scope(true)
    }

    #[inline]
    fn begin_scope<'env>(&mut self, lasts: bool) -> Scope<'_, 'env> {
        self.scopes += 1;
        let begun = core::mem::take(&mut self.spare_begun);
        Scope {
            serial: self.scopes,
            world: self,
            begun,
            sweep_at: SWEEP_MIN,
            lasts,
            templates: Vec::new(),
            env: PhantomData,
        }
    }
}

impl Drop for Scope<'_, '_> {
    /// Also after a panic: no request keeps a buffer beyond the scope.
    fn drop(&mut self) {
        for id in self.begun.drain(..) {
            if !self.lasts {
                self.world.engine.detach(id);
            }
        }
        // Its memory serves the next scope: a warm scope allocates nothing.
        self.world.spare_begun = core::mem::take(&mut self.begun);
    }
}

impl<'env> Scope<'_, 'env> {
    /// The world, for blocking operations in between.
    pub fn world(&mut self) -> &mut World {
        self.world
    }

    /// Begins a send.
    ///
    /// # Errors
    /// As [`World::send`].
    #[inline]
    pub fn isend(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        let handle = self.begin_send(&data.into(), to, false)?;
        Ok(Request {
            handle,
            template: None,
        })
    }

    /// Begins a send that completes when the receiver has matched it.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn issend(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        let handle = self.begin_send(&data.into(), to, true)?;
        Ok(Request {
            handle,
            template: None,
        })
    }

    /// Begins a receive.
    ///
    /// # Errors
    /// For a rank that does not exist.
    #[inline]
    pub fn irecv(
        &mut self,
        buffer: impl Into<Incoming<'env>>,
        from: Source,
    ) -> Result<Request, Error> {
        let handle = self.begin_receive(buffer.into(), from)?;
        Ok(Request {
            handle,
            template: None,
        })
    }

    /// Begins the receive of a message that a matched probe took.
    ///
    /// # Errors
    /// None today.
    pub fn imrecv(
        &mut self,
        buffer: impl Into<Incoming<'env>>,
        message: Message,
    ) -> Result<Request, Error> {
        // SAFETY: the buffer outlives the scope, and the scope the request.
        let buffer = unsafe { receive_buffer(&buffer.into()) };
        let handle = calls::post_matched(&mut self.world.engine, buffer, message.matched);
        Ok(Request {
            handle: self.remember(handle),
            template: None,
        })
    }

    /// Prepares a send that can be started again and again.
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn send_init(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        self.world.send_to(to, false)?;
        Ok(self.prepare(Template::Send {
            data: data.into(),
            to,
            synchronous: false,
        }))
    }

    /// Prepares a synchronous send that can be started again and again.
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn ssend_init(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        self.world.send_to(to, true)?;
        Ok(self.prepare(Template::Send {
            data: data.into(),
            to,
            synchronous: true,
        }))
    }

    /// Prepares a receive that can be started again and again.
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn recv_init(
        &mut self,
        buffer: impl Into<Incoming<'env>>,
        from: Source,
    ) -> Result<Request, Error> {
        self.world.pattern(from)?;
        let room = buffer.into();
        Ok(self.prepare(Template::Receive { room, from }))
    }

    fn prepare(&mut self, template: Template<'env>) -> Request {
        self.templates.push(template);
        Request {
            handle: Handle::NULL,
            template: Some((self.serial, self.templates.len() - 1)),
        }
    }

    /// Starts a persistent request.
    ///
    /// # Errors
    /// When the request is not persistent, or still active.
    pub fn start(&mut self, request: &mut Request) -> Result<(), Error> {
        let template = request
            .template
            .filter(|(serial, _)| *serial == self.serial);
        let template = template.and_then(|(_, index)| self.templates.get(index));
        let Some(template) = template else {
            return Err(Error::Argument(
                "start: the request is not a persistent one of this scope".into(),
            ));
        };
        if !request.is_null() {
            return Err(Error::Argument(
                "start: the persistent request is still active: wait for it first".into(),
            ));
        }
        request.handle = match *template {
            Template::Send {
                data,
                to,
                synchronous,
            } => self.begin_send(&data, to, synchronous)?,
            Template::Receive { ref room, from } => {
                // SAFETY: the one request that may use it is idle.
                let room = unsafe { room.again() };
                self.begin_receive(room, from)?
            }
        };
        Ok(())
    }

    /// Cancels a receive, unless it has matched already. It still must be
    /// waited for; its status tells what came of it. Of a send, or of a null
    /// request, it does nothing. One operation of the rank's clock in any case.
    ///
    /// # Errors
    /// None today.
    pub fn cancel(&mut self, request: &mut Request) -> Result<(), Error> {
        calls::cancel(&mut self.world.engine, &request.handle);
        Ok(())
    }

    #[inline]
    fn begin_send(
        &mut self,
        data: &Outgoing<'env>,
        to: Destination,
        synchronous: bool,
    ) -> Result<Handle, Error> {
        let to = self.world.send_to(to, synchronous)?;
        // SAFETY: the data outlives the scope, and the scope the request.
        let buffer = unsafe { send_buffer(data) };
        let handle = calls::post_send(&mut self.world.engine, buffer, to)?;
        Ok(self.remember(handle))
    }

    #[inline]
    fn begin_receive(&mut self, buffer: Incoming<'env>, from: Source) -> Result<Handle, Error> {
        let pattern = self.world.pattern(from)?;
        // SAFETY: the buffer outlives the scope, and the scope the request.
        let room = unsafe { receive_buffer(&buffer) };
        let handle = calls::post_receive(&mut self.world.engine, room, pattern);
        Ok(self.remember(handle))
    }

    #[inline]
    fn remember(&mut self, handle: Handle) -> Handle {
        if let Some(id) = handle.id() {
            if self.begun.len() >= self.sweep_at {
                let engine = &self.world.engine;
                self.begun.retain(|id| engine.posted_at(*id).is_some());
                self.sweep_at = SWEEP_MIN.max(2 * self.begun.len());
            }
            self.begun.push(id);
        }
        handle
    }

    fn finish_rest(&mut self) -> Result<(), Error> {
        let mut first_error = None;
        while let Some(id) = self.begun.pop() {
            if self.world.engine.posted_at(id).is_some()
                && let Err(error) = self.world.finish(id)
            {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    // ---- completion ----

    /// Waits for one request. A null one is complete.
    ///
    /// # Errors
    /// [`Error::Truncated`] as [`World::recv`]; else as [`World::send`].
    #[inline]
    pub fn wait(&mut self, request: &mut Request) -> Result<Status, Error> {
        self.world.engine.tick();
        if request.is_null() {
            return Ok(self.empty());
        }
        let (id, handle) = (request.handle.id(), &mut request.handle);
        let outcome = self
            .world
            .block_until(|world| calls::try_wait(&mut world.engine, handle))?;
        if let Some(id) = id {
            forget(&mut self.begun, id);
        }
        status_of(outcome)
    }

    /// Asks whether one request is complete. A null one is. An event, of sends as
    /// of receives, but for null ones.
    ///
    /// # Errors
    /// As [`Scope::wait`].
    pub fn test(&mut self, request: &mut Request) -> Result<Option<Status>, Error> {
        let clock = self.world.engine.tick();
        if request.is_null() {
            return Ok(Some(self.empty()));
        }
        self.world.make_progress()?;
        let (id, handle) = (request.handle.id(), &mut request.handle);
        let told = self
            .world
            .until_told(|world| calls::test(&mut world.engine, clock, handle))?;
        let Some(outcome) = told else {
            self.world.found_nothing(clock)?;
            return Ok(None);
        };
        if let Some(id) = id {
            forget(&mut self.begun, id);
        }
        status_of(outcome).map(Some)
    }

    /// Waits for one of several requests and returns its index. `None` when all
    /// are null.
    ///
    /// # Errors
    /// As [`Scope::wait`].
    #[inline]
    pub fn wait_any(&mut self, requests: &mut [Request]) -> Result<Option<(usize, Status)>, Error> {
        let clock = self.world.engine.tick();
        if requests.iter().all(Request::is_null) {
            return Ok(None);
        }
        let (world, mut held) = self.held(requests);
        let (index, outcome) =
            world.block_until(|world| calls::try_any(&mut world.engine, clock, &mut held))?;
        Ok(Some((index, status_of(outcome)?)))
    }

    /// Asks whether one of several requests is complete. `None` when none is,
    /// or all are null.
    ///
    /// # Errors
    /// As [`Scope::wait`].
    pub fn test_any(&mut self, requests: &mut [Request]) -> Result<Option<(usize, Status)>, Error> {
        let clock = self.world.engine.tick();
        if requests.iter().all(Request::is_null) {
            return Ok(None);
        }
        self.world.make_progress()?;
        let (world, mut held) = self.held(requests);
        let told =
            world.until_told(|world| calls::test_any(&mut world.engine, clock, &mut held))?;
        let Some((index, outcome)) = told else {
            world.found_nothing(clock)?;
            return Ok(None);
        };
        Ok(Some((index, status_of(outcome)?)))
    }

    /// Waits until at least one request is complete and returns all that are,
    /// by index. Empty only when all are null.
    ///
    /// # Errors
    /// As [`Scope::wait`], after all that are complete have been taken.
    pub fn wait_some(&mut self, requests: &mut [Request]) -> Result<Vec<(usize, Status)>, Error> {
        let clock = self.world.engine.tick();
        if requests.iter().all(Request::is_null) {
            return Ok(Vec::new());
        }
        let (world, mut held) = self.held(requests);
        let ended =
            world.block_until(|world| calls::try_some(&mut world.engine, clock, &mut held))?;
        statuses_of(ended)
    }

    /// Takes all requests that are complete, by index.
    ///
    /// # Errors
    /// As [`Scope::wait_some`].
    pub fn test_some(&mut self, requests: &mut [Request]) -> Result<Vec<(usize, Status)>, Error> {
        let clock = self.world.engine.tick();
        if requests.iter().all(Request::is_null) {
            return Ok(Vec::new());
        }
        self.world.make_progress()?;
        let (world, mut held) = self.held(requests);
        let told =
            world.until_told(|world| calls::test_some(&mut world.engine, clock, &mut held))?;
        let Some(ended) = told else {
            world.found_nothing(clock)?;
            return Ok(Vec::new());
        };
        statuses_of(ended)
    }

    /// Waits for all requests; statuses come in their order, that of a null
    /// request is empty.
    ///
    /// # Errors
    /// As [`Scope::wait`], after all are complete.
    pub fn wait_all(&mut self, requests: &mut [Request]) -> Result<Vec<Status>, Error> {
        self.world.engine.tick();
        let (world, mut held) = self.held(requests);
        let ended = world.block_until(|world| calls::try_all(&mut world.engine, &mut held))?;
        self.all_statuses_of(ended)
    }

    /// Asks whether all requests are complete, and takes all of them or none.
    ///
    /// # Errors
    /// As [`Scope::wait_all`].
    pub fn test_all(&mut self, requests: &mut [Request]) -> Result<Option<Vec<Status>>, Error> {
        let clock = self.world.engine.tick();
        self.world.make_progress()?;
        let (world, mut held) = self.held(requests);
        let told =
            world.until_told(|world| calls::test_all(&mut world.engine, clock, &mut held))?;
        let Some(ended) = told else {
            world.found_nothing(clock)?;
            return Ok(None);
        };
        self.all_statuses_of(ended).map(Some)
    }

    fn empty(&self) -> Status {
        Status {
            source: self.world.rank,
            tag: 0,
            bytes: 0,
            cancelled: false,
        }
    }

    #[inline]
    fn held<'a>(&'a mut self, requests: &'a mut [Request]) -> (&'a mut World, Held<'a>) {
        let begun = &mut self.begun;
        (self.world, Held { requests, begun })
    }

    fn all_statuses_of(&self, ended: Vec<Option<Outcome>>) -> Result<Vec<Status>, Error> {
        let empty = self.empty();
        ended
            .into_iter()
            .map(|outcome| outcome.map_or(Ok(empty), status_of))
            .collect()
    }
}

fn statuses_of(ended: Vec<(usize, Outcome)>) -> Result<Vec<(usize, Status)>, Error> {
    ended
        .into_iter()
        .map(|(index, outcome)| Ok((index, status_of(outcome)?)))
        .collect()
}
