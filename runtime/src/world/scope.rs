//! [`Scope`]: non-blocking operations whose buffers are borrowed.
//!
//! As with scoped threads, a request may borrow what outlives the scope's
//! closure, because the scope does not return before every request is done
//! with its buffer.

#![allow(
    unsafe_code,
    reason = "lends buffers to the engine for the time of the scope"
)]

use super::request::State;
use super::{
    Destination, Incoming, Message, Outgoing, Request, Source, Status, World, receive_buffer,
    send_buffer, status_of,
};
use crate::Error;
use core::marker::PhantomData;
use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{Outcome, RequestId, Started};
use refrain_transport::layout::Layout;

/// Non-blocking operations on buffers that live as long as `'env`.
#[derive(Debug)]
pub struct Scope<'s, 'env> {
    world: &'s mut World,
    /// Requests begun here; those that are over are swept out now and then.
    begun: Vec<RequestId>,
    sweep_at: usize,
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
        base: *mut u8,
        bytes: usize,
        layout: Option<&'env Layout>,
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
        self.scopes += 1;
        let begun = core::mem::take(&mut self.spare_begun);
        let mut scope = Scope {
            serial: self.scopes,
            world: self,
            begun,
            sweep_at: SWEEP_MIN,
            templates: Vec::new(),
            env: PhantomData,
        };
        let result = f(&mut scope)?;
        scope.finish_rest()?;
        Ok(result)
    }
}

impl Drop for Scope<'_, '_> {
    /// Also after a panic: no request keeps a buffer beyond the scope.
    fn drop(&mut self) {
        for id in self.begun.drain(..) {
            self.world.engine.detach(id);
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
        let state = self.begin_send(&data.into(), to, false)?;
        Ok(Request {
            state,
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
        let state = self.begin_send(&data.into(), to, true)?;
        Ok(Request {
            state,
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
        let state = self.begin_receive(buffer.into(), from)?;
        Ok(Request {
            state,
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
        let buffer = unsafe { receive_buffer(&mut buffer.into()) };
        let id = self
            .world
            .engine
            .start_matched_receive(buffer, message.matched);
        Ok(Request {
            state: self.live(id),
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
        let Incoming { bytes, layout } = buffer.into();
        let (base, bytes) = (bytes.as_mut_ptr(), bytes.len());
        Ok(self.prepare(Template::Receive {
            base,
            bytes,
            layout,
            from,
        }))
    }

    fn prepare(&mut self, template: Template<'env>) -> Request {
        self.templates.push(template);
        Request {
            state: State::Idle,
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
        request.state = match *template {
            Template::Send {
                data,
                to,
                synchronous,
            } => self.begin_send(&data, to, synchronous)?,
            Template::Receive {
                base,
                bytes,
                layout,
                from,
            } => {
                // SAFETY: `recv_init` took the exclusive borrow of these bytes
                // for 'env, and the one request that may use them is idle.
                let bytes = unsafe { core::slice::from_raw_parts_mut(base, bytes) };
                self.begin_receive(Incoming { bytes, layout }, from)?
            }
        };
        Ok(())
    }

    /// Cancels a receive, unless it has matched already. It still must be
    /// waited for; its status tells what came of it.
    ///
    /// # Errors
    /// None today.
    pub fn cancel(&mut self, request: &mut Request) -> Result<(), Error> {
        if let State::Live(id) = request.state {
            self.world.engine.cancel(id);
        }
        Ok(())
    }

    #[inline]
    fn begin_send(
        &mut self,
        data: &Outgoing<'env>,
        to: Destination,
        synchronous: bool,
    ) -> Result<State, Error> {
        let to = self.world.send_to(to, synchronous)?;
        // SAFETY: the data outlives the scope, and the scope the request.
        let buffer = unsafe { send_buffer(data) };
        let started = self.world.engine.start_send(buffer, to)?;
        Ok(match started {
            Started::Done(outcome) => State::Done {
                outcome,
                posted_at: self.world.engine.now(),
            },
            Started::Pending(id) => self.live(id),
        })
    }

    #[inline]
    fn begin_receive(&mut self, mut buffer: Incoming<'env>, from: Source) -> Result<State, Error> {
        let pattern = self.world.pattern(from)?;
        // SAFETY: the buffer outlives the scope, and the scope the request.
        let room = unsafe { receive_buffer(&mut buffer) };
        let id = self.world.engine.start_receive(room, pattern);
        Ok(self.live(id))
    }

    #[inline]
    fn live(&mut self, id: RequestId) -> State {
        if self.begun.len() >= self.sweep_at {
            let engine = &self.world.engine;
            self.begun.retain(|id| engine.posted_at(*id).is_some());
            self.sweep_at = SWEEP_MIN.max(2 * self.begun.len());
        }
        self.begun.push(id);
        State::Live(id)
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
        let outcome = self.world.block_until(|world| world.outcome_of(request))?;
        self.complete(request);
        status_of(outcome)
    }

    /// Asks whether one request is complete. A null one is.
    ///
    /// # Errors
    /// As [`Scope::wait`].
    pub fn test(&mut self, request: &mut Request) -> Result<Option<Status>, Error> {
        let clock = self.world.engine.tick();
        if request.is_null() {
            return Ok(Some(self.empty()));
        }
        self.world.engine.progress()?;
        let Some(outcome) = self.world.outcome_of(request) else {
            self.world.found_nothing(clock)?;
            return Ok(None);
        };
        // A send that was done when its call returned is done in every replay.
        if !outcome.at_once {
            self.note(clock, core::slice::from_ref(request), &[0]);
        }
        self.complete(request);
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
        let (index, outcome) = self.world.block_until(|world| world.first_done(requests))?;
        self.one_done(clock, requests, index, outcome).map(Some)
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
        self.world.engine.progress()?;
        let Some((index, outcome)) = self.world.first_done(requests) else {
            self.world.found_nothing(clock)?;
            return Ok(None);
        };
        self.one_done(clock, requests, index, outcome).map(Some)
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
        self.world.block_until(|world| world.first_done(requests))?;
        self.all_done(clock, requests)
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
        self.world.engine.progress()?;
        if self.world.first_done(requests).is_none() {
            self.world.found_nothing(clock)?;
            return Ok(Vec::new());
        }
        self.all_done(clock, requests)
    }

    /// Waits for all requests; statuses come in their order, that of a null
    /// request is empty.
    ///
    /// # Errors
    /// As [`Scope::wait`], after all are complete.
    pub fn wait_all(&mut self, requests: &mut [Request]) -> Result<Vec<Status>, Error> {
        self.world.engine.tick();
        self.world
            .block_until(|world| world.whether_all_done(requests))?;
        self.take_all(requests)
    }

    /// Asks whether all requests are complete, and takes all of them or none.
    ///
    /// # Errors
    /// As [`Scope::wait_all`].
    pub fn test_all(&mut self, requests: &mut [Request]) -> Result<Option<Vec<Status>>, Error> {
        let clock = self.world.engine.tick();
        self.world.engine.progress()?;
        if self.world.whether_all_done(requests).is_none() {
            self.world.found_nothing(clock)?;
            return Ok(None);
        }
        let indices: Vec<usize> = (0..requests.len())
            .filter(|index| !requests[*index].is_null())
            .collect();
        // Of null requests only: deterministic.
        if !indices.is_empty() {
            self.note(clock, requests, &indices);
        }
        self.take_all(requests).map(Some)
    }

    fn empty(&self) -> Status {
        Status {
            source: self.world.rank,
            tag: 0,
            bytes: 0,
            cancelled: false,
        }
    }

    fn one_done(
        &mut self,
        clock: Clock,
        requests: &mut [Request],
        index: usize,
        outcome: Outcome,
    ) -> Result<(usize, Status), Error> {
        self.note(clock, requests, &[index]);
        self.complete(&mut requests[index]);
        Ok((index, status_of(outcome)?))
    }

    fn all_done(
        &mut self,
        clock: Clock,
        requests: &mut [Request],
    ) -> Result<Vec<(usize, Status)>, Error> {
        let done: Vec<(usize, Outcome)> = requests
            .iter()
            .enumerate()
            .filter_map(|(index, request)| Some((index, self.world.outcome_of(request)?)))
            .collect();
        let indices: Vec<usize> = done.iter().map(|(index, _)| *index).collect();
        self.note(clock, requests, &indices);
        indices
            .iter()
            .for_each(|index| self.complete(&mut requests[*index]));
        done.into_iter()
            .map(|(index, outcome)| Ok((index, status_of(outcome)?)))
            .collect()
    }

    fn take_all(&mut self, requests: &mut [Request]) -> Result<Vec<Status>, Error> {
        let outcomes: Vec<Option<Outcome>> = requests
            .iter()
            .map(|request| self.world.outcome_of(request))
            .collect();
        requests
            .iter_mut()
            .for_each(|request| self.complete(request));
        let empty = self.empty();
        outcomes
            .into_iter()
            .map(|outcome| outcome.map_or(Ok(empty), status_of))
            .collect()
    }

    /// Tells the protocol which requests a timing-dependent call completed.
    fn note(&mut self, clock: Clock, requests: &[Request], indices: &[usize]) {
        let posted_at = |index: &usize| match requests[*index].state {
            State::Done { posted_at, .. } => Some(posted_at),
            State::Live(id) => self.world.engine.posted_at(id),
            State::Idle => None,
        };
        if let [index] = indices {
            let posted = posted_at(index).unwrap_or_default();
            self.world.engine.note_completion(clock, &[posted]);
        } else {
            let posted: Vec<Clock> = indices.iter().filter_map(posted_at).collect();
            self.world.engine.note_completion(clock, &posted);
        }
        self.world.engine.operation_ended();
    }

    /// The request's completion is told: it is null (or inactive) now.
    #[inline]
    fn complete(&mut self, request: &mut Request) {
        if let State::Live(id) = request.state {
            self.world.engine.retire(id);
            if self.begun.last() == Some(&id) {
                self.begun.pop();
            }
        }
        request.state = State::Idle;
    }
}

impl World {
    #[inline]
    fn outcome_of(&self, request: &Request) -> Option<Outcome> {
        match request.state {
            State::Idle => None,
            State::Done { outcome, .. } => Some(outcome),
            State::Live(id) => self.engine.outcome(id).or_else(|| self.stale(id)),
        }
    }

    /// A request of a scope that is over stands for nothing any more.
    fn stale(&self, id: RequestId) -> Option<Outcome> {
        let gone = self.engine.posted_at(id).is_none();
        let status = refrain_transport::engine::Status {
            source: Rank(0),
            tag: 0,
            bytes: 0,
            cancelled: true,
        };
        gone.then_some(Outcome {
            status,
            truncated_to: None,
            at_once: true,
        })
    }

    #[inline]
    fn first_done(&self, requests: &[Request]) -> Option<(usize, Outcome)> {
        requests
            .iter()
            .enumerate()
            .find_map(|(index, request)| Some((index, self.outcome_of(request)?)))
    }

    fn whether_all_done(&self, requests: &[Request]) -> Option<()> {
        requests
            .iter()
            .all(|request| request.is_null() || self.outcome_of(request).is_some())
            .then_some(())
    }
}
