//! [`Scope`]: non-blocking operations whose buffers are borrowed.
//!
//! As with scoped threads, a request may borrow data that outlives the scope's closure, because the
//! scope does not return before every request has stopped using its buffer.

#![allow(
    unsafe_code,
    reason = "lends buffers to the engine for the time of the scope"
)]

use super::collective::Collective;
use super::{Ended, Incoming, Message, Outgoing, Request, SendTo, Source, Status, World};
use crate::Error;
use core::marker::PhantomData;

/// Non-blocking operations on buffers that live as long as `'env`. Its requests end with the scope;
/// their handles are invalid afterwards.
#[derive(Debug)]
pub struct Scope<'s, 'env> {
    world: &'s mut World,
    /// Requests begun in this scope; ended ones are removed now and then.
    begun: Vec<Request>,
    sweep_at: usize,
    /// Persistent requests.
    prepared: Vec<Request>,
    env: PhantomData<core::cell::Cell<&'env mut ()>>,
}

/// Number of requests at which ended ones are removed first.
const SWEEP_MIN: usize = 64;

impl World {
    /// Runs `f` with a [`Scope`] in which requests may borrow buffers. Returns when all of them are
    /// complete. When `f` fails, the remaining requests are detached: receives are cancelled, sends
    /// continue from a copy.
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
    /// Errors of `f`, and of the requests that `f` left open.
    pub fn scope<'env, R>(
        &mut self,
        f: impl FnOnce(&mut Scope<'_, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let begun = core::mem::take(&mut self.spare_begun);
        let mut scope = Scope {
            world: self,
            begun,
            sweep_at: SWEEP_MIN,
            prepared: Vec::new(),
            env: PhantomData,
        };
        let result = f(&mut scope)?;
        scope.finish_rest()?;
        Ok(result)
    }
}

impl Drop for Scope<'_, '_> {
    /// Runs also after a panic: no request keeps a buffer beyond the scope.
    fn drop(&mut self) {
        for mut request in self.begun.drain(..).chain(self.prepared.drain(..)) {
            // The request may have ended already.
            let _ = self.world.free(&mut request);
        }
        // The next scope reuses the memory: only the first scopes allocate.
        self.world.spare_begun = core::mem::take(&mut self.begun);
    }
}

impl<'env> Scope<'_, 'env> {
    /// The world, for blocking operations within the scope.
    pub fn world(&mut self) -> &mut World {
        self.world
    }

    /// Begins a send.
    ///
    /// # Errors
    /// As [`World::send`].
    #[inline]
    pub fn isend(&mut self, data: impl Into<Outgoing<'env>>, to: SendTo) -> Result<Request, Error> {
        // SAFETY: the data outlives the scope, and the scope the request.
        let data = unsafe { data.into().lent() };
        let request = self.world.start_send(data, to)?;
        Ok(self.remember(request))
    }

    /// Begins a send that completes when the receiver has matched it.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn issend(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: SendTo,
    ) -> Result<Request, Error> {
        self.isend(data, to.synchronous())
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
        // SAFETY: the buffer outlives the scope, and the scope the request.
        let room = unsafe { buffer.into().lent() };
        let request = self.world.start_receive(room, from)?;
        Ok(self.remember(request))
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
        let room = unsafe { buffer.into().lent() };
        let request = self.world.start_matched_receive(room, message);
        Ok(self.remember(request))
    }

    /// Prepares a persistent send.
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn send_init(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: SendTo,
    ) -> Result<Request, Error> {
        // SAFETY: the data outlives the scope, and the scope the request.
        let data = unsafe { data.into().lent() };
        let request = self.world.prepare_send(data, to)?;
        self.prepared.push(request);
        Ok(request)
    }

    /// Prepares a persistent synchronous send.
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn ssend_init(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: SendTo,
    ) -> Result<Request, Error> {
        self.send_init(data, to.synchronous())
    }

    /// Prepares a persistent receive.
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn recv_init(
        &mut self,
        buffer: impl Into<Incoming<'env>>,
        from: Source,
    ) -> Result<Request, Error> {
        // SAFETY: the buffer outlives the scope, and the scope the request.
        let room = unsafe { buffer.into().lent() };
        let request = self.world.prepare_receive(room, from)?;
        self.prepared.push(request);
        Ok(request)
    }

    /// Begins a collective.
    ///
    /// # Errors
    /// As [`World::collective`].
    pub fn icollective(&mut self, collective: Collective<'env>) -> Result<Request, Error> {
        // SAFETY: the buffers outlive the scope, and the scope the request.
        let request = unsafe { self.world.start_collective(collective)? };
        Ok(self.remember(request))
    }

    /// Prepares a persistent collective.
    ///
    /// # Errors
    /// As [`World::collective`].
    pub fn collective_init(&mut self, collective: Collective<'env>) -> Result<Request, Error> {
        // SAFETY: the buffers outlive the scope, and the scope the request.
        let request = unsafe { self.world.prepare_collective(collective)? };
        self.prepared.push(request);
        Ok(request)
    }

    /// Starts a persistent request.
    ///
    /// # Errors
    /// When the request is not persistent, or still active.
    pub fn start(&mut self, request: &mut Request) -> Result<(), Error> {
        self.world.start(*request)?;
        self.remember(*request);
        Ok(())
    }

    /// As [`World::cancel`].
    ///
    /// # Errors
    /// As [`World::cancel`].
    pub fn cancel(&mut self, request: &mut Request) -> Result<(), Error> {
        self.world.cancel(*request)
    }

    /// Whether the request has an operation to wait for; false for null requests and inactive
    /// persistent ones.
    pub fn is_active(&self, request: &Request) -> bool {
        self.world.is_active(*request)
    }

    #[inline]
    fn remember(&mut self, request: Request) -> Request {
        if self.begun.len() >= self.sweep_at {
            let world = &self.world;
            self.begun.retain(|request| world.is_active(*request));
            self.sweep_at = SWEEP_MIN.max(2 * self.begun.len());
        }
        self.begun.push(request);
        request
    }

    /// Removes ended requests from the end of the list, where most of them are: the scope need not
    /// wait for them.
    #[inline]
    fn forget_ended(&mut self) {
        while let Some(last) = self.begun.last()
            && !self.world.is_active(*last)
        {
            self.begun.pop();
        }
    }

    fn finish_rest(&mut self) -> Result<(), Error> {
        let mut first_error = None;
        while let Some(mut request) = self.begun.pop() {
            let operation = self.world.requests.operation(request);
            if let Ok(operation) = operation
                && let Some(id) = operation.id()
                && let Err(error) = self
                    .world
                    .finish(id, |outcome| Ended::new(0, outcome).status())
            {
                first_error.get_or_insert(error);
            }
            self.world.requests.end(&mut request);
        }
        first_error.map_or(Ok(()), Err)
    }

    // ---- completion ----

    /// Waits for one request. A null request is complete.
    ///
    /// # Errors
    /// [`Error::Truncated`] as [`World::recv`]; else as [`World::wait`].
    #[inline]
    pub fn wait(&mut self, request: &mut Request) -> Result<Status, Error> {
        let ended = self.world.wait(request)?;
        self.forget_ended();
        ended.status()
    }

    /// Checks whether one request is complete; a null request is. The call is an event, for sends
    /// and receives, except for a null request.
    ///
    /// # Errors
    /// As [`Scope::wait`].
    pub fn test(&mut self, request: &mut Request) -> Result<Option<Status>, Error> {
        let ended = self.world.test(request)?;
        self.forget_ended();
        ended.map(|ended| ended.status()).transpose()
    }

    /// Waits for one of several requests and returns its index. `None` when all
    /// are null.
    ///
    /// # Errors
    /// [`Error::TooLong`]; else as [`World::wait`].
    #[inline]
    pub fn wait_any(&mut self, requests: &mut [Request]) -> Result<Option<(usize, Status)>, Error> {
        let ended = self.world.wait_any(requests)?;
        self.forget_ended();
        ended.map(one_status).transpose()
    }

    /// Checks whether one of several requests is complete. `None` when none is complete, or all are
    /// null.
    ///
    /// # Errors
    /// As [`Scope::wait_any`].
    pub fn test_any(&mut self, requests: &mut [Request]) -> Result<Option<(usize, Status)>, Error> {
        let ended = self.world.test_any(requests)?;
        self.forget_ended();
        ended.map(one_status).transpose()
    }

    /// Waits until at least one request is complete, and returns all complete ones with their
    /// indices. Empty only when all are null.
    ///
    /// # Errors
    /// As [`Scope::wait_any`], after all complete requests have been taken.
    pub fn wait_some(&mut self, requests: &mut [Request]) -> Result<Vec<(usize, Status)>, Error> {
        self.some(requests, World::wait_some)
    }

    /// Takes all complete requests, with their indices.
    ///
    /// # Errors
    /// As [`Scope::wait_some`].
    pub fn test_some(&mut self, requests: &mut [Request]) -> Result<Vec<(usize, Status)>, Error> {
        self.some(requests, World::test_some)
    }

    fn some(
        &mut self,
        requests: &mut [Request],
        call: impl FnOnce(&mut World, &mut [Request], &mut [Ended]) -> Result<usize, Error>,
    ) -> Result<Vec<(usize, Status)>, Error> {
        let mut ended = vec![Ended::default(); requests.len()];
        let count = call(self.world, requests, &mut ended)?;
        ended.truncate(count);
        self.forget_ended();
        whole(ended, |ended| (ended.index, ended.status))
    }

    /// Waits for all requests. Returns their statuses in their order; that of a null request is
    /// empty.
    ///
    /// # Errors
    /// As [`Scope::wait_any`], after all requests are complete.
    pub fn wait_all(&mut self, requests: &mut [Request]) -> Result<Vec<Status>, Error> {
        let mut ended = vec![Ended::default(); requests.len()];
        self.world.wait_all(requests, &mut ended)?;
        self.forget_ended();
        whole(ended, |ended| ended.status)
    }

    /// Checks whether all requests are complete, and takes all of them or none.
    ///
    /// # Errors
    /// As [`Scope::wait_all`].
    pub fn test_all(&mut self, requests: &mut [Request]) -> Result<Option<Vec<Status>>, Error> {
        let mut ended = vec![Ended::default(); requests.len()];
        let have_ended = self.world.test_all(requests, &mut ended)?;
        self.forget_ended();
        have_ended
            .then(|| whole(ended, |ended| ended.status))
            .transpose()
    }
}

#[inline]
fn one_status(ended: Ended) -> Result<(usize, Status), Error> {
    match ended.truncated_to {
        None => Ok((ended.index, ended.status)),
        Some(_) => Err(Error::TooLong(vec![ended])),
    }
}

/// The statuses if no message was truncated; otherwise an error with all results.
fn whole<T>(ended: Vec<Ended>, status: impl Fn(&Ended) -> T) -> Result<Vec<T>, Error> {
    match ended.iter().any(|ended| ended.truncated_to.is_some()) {
        false => Ok(ended.iter().map(status).collect()),
        true => Err(Error::TooLong(ended)),
    }
}
