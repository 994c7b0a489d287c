//! Requests by handle, for layers above that keep requests and buffers beyond a call, such as
//! collectives and libraries for other languages.
//!
//! Buffers are given by pointer: the caller that makes a [`SendBuffer`] or [`ReceiveBuffer`]
//! promises that the memory stays valid until the request has ended. The calls on several requests
//! write results into the caller's memory, and allocate nothing. A receive whose message was too
//! long has [`Ended::truncated_to`] set; other requests of the call are not affected.

use super::held::{by_index, check_places};
use super::request::{Ended, Key, Operation, Request, Several};
use super::{Message, ReceiveBuffer, SendBuffer, SendTo, Source, World};
use crate::Error;
use refrain_rank::calls::{self, Handle};
use refrain_transport::engine::{Data, Started};

/// A [`Message`] that the world keeps. It becomes null once the message is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct MessageHandle(Key);

impl World {
    /// Begins a send. It ends when `data` may be changed again; a synchronous send ends when the
    /// receiver has matched it.
    ///
    /// # Errors
    /// As [`World::send`].
    #[inline]
    pub fn start_send(&mut self, data: SendBuffer, to: SendTo) -> Result<Request, Error> {
        let operation = self.begin_send(data, to)?;
        Ok(self.add_request(operation))
    }

    /// Sends a message without waiting. If the log has no room, the engine copies the data and sends
    /// the copy later, so the data may be changed when this returns. Meant for short messages.
    ///
    /// # Errors
    /// As [`World::send`].
    #[inline(always)]
    pub fn send_or_copy(&mut self, data: impl Data, to: SendTo) -> Result<(), Error> {
        self.check(to.rank, to.context)?;
        if let Started::Pending(id) = self.engine.start_send(data, to)? {
            self.engine.detach(id);
            self.meet_peers()?;
        }
        Ok(())
    }

    /// Begins a receive.
    ///
    /// # Errors
    /// For a rank that does not exist.
    #[inline(always)]
    pub fn start_receive(&mut self, room: ReceiveBuffer, from: Source) -> Result<Request, Error> {
        let operation = self.begin_receive(room, from)?;
        Ok(self.add_request(operation))
    }

    /// Begins the receive of a message that a matched probe took.
    pub fn start_matched_receive(&mut self, room: ReceiveBuffer, message: Message) -> Request {
        let operation = self.begin_matched_receive(room, message);
        self.add_request(operation)
    }

    /// Prepares a persistent send. `data` is lent until the request is [freed](World::free).
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn prepare_send(&mut self, data: SendBuffer, to: SendTo) -> Result<Request, Error> {
        let operation = self.hold_send(data, to)?;
        Ok(self.add_request(operation))
    }

    /// Prepares a persistent receive. `room` is lent until the request is [freed](World::free).
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn prepare_receive(&mut self, room: ReceiveBuffer, from: Source) -> Result<Request, Error> {
        let operation = self.hold_receive(room, from)?;
        Ok(self.add_request(operation))
    }

    /// Starts a persistent request.
    ///
    /// # Errors
    /// When the request is not persistent, or still active; as [`World::send`].
    pub fn start(&mut self, request: Request) -> Result<(), Error> {
        let mut operation = Operation::once(Handle::NULL);
        if let Some(entry) = self.requests.get_mut(request.0) {
            core::mem::swap(&mut operation, &mut entry.operation);
        }
        let started = self.start_held(&mut operation);
        if let Some(entry) = self.requests.get_mut(request.0) {
            entry.operation = operation;
        }
        started
    }

    /// Cancels a receive that has not matched yet. The caller must still wait for the request; its
    /// status tells whether it was cancelled. A send is not cancelled, but completes without its
    /// receiver: it continues from a copy. A null request and a collective are not affected. One
    /// operation of the rank's clock in any case.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn cancel(&mut self, request: Request) -> Result<(), Error> {
        let mut handle = self.requests.operation(request)?;
        self.cancel_handle(&mut handle);
        if let Some(entry) = self.requests.get_mut(request.0) {
            entry.operation.handle = handle;
        }
        Ok(())
    }

    /// Detaches a request, active or not, and gives its buffer back: a receive is
    /// cancelled and its message dropped; a send continues from a copy. An active collective is
    /// given up: other members may then wait for ever, and no checkpoint can be taken any more.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn free(&mut self, request: &mut Request) -> Result<(), Error> {
        let handle = self.requests.operation(*request)?;
        self.free_held(handle);
        self.requests.remove(request.0);
        *request = Request::NULL;
        Ok(())
    }

    /// Whether the request has an operation to wait for; false for null requests and inactive
    /// persistent ones.
    #[inline]
    pub fn is_active(&self, request: Request) -> bool {
        self.requests.is_active(request)
    }

    /// Number of requests that are neither null nor freed.
    pub fn request_count(&self) -> usize {
        self.requests.count()
    }

    /// Number of requests that have an operation to wait for: all but inactive persistent ones.
    pub fn active_request_count(&self) -> usize {
        self.requests.active_count()
    }

    /// Waits for one request. A null or inactive request has ended.
    ///
    /// # Errors
    /// [`Error::Request`]; else as [`World::send`].
    // Inlined always, as far as the message of a receive has arrived, which is frequent in a wait for
    // several: its result is made in the caller's place.
    #[inline(always)]
    pub fn wait(&mut self, request: &mut Request) -> Result<Ended, Error> {
        self.engine.tick();
        let received = (self.requests.get_mut(request.0))
            .and_then(|it| it.operation.handle.take_received(&mut self.engine));
        let outcome = match received {
            Some(outcome) => outcome,
            None => match self.wait_for(self.requests.operation(*request)?)? {
                Some(outcome) => outcome,
                None => return Ok(self.empty(0)),
            },
        };
        self.requests.end(request);
        Ok(Ended::new(0, outcome))
    }

    /// Checks whether one request has ended. The call is an event, for sends and receives. A null
    /// or inactive request has ended, and is no event.
    ///
    /// # Errors
    /// As [`World::wait`].
    pub fn test(&mut self, request: &mut Request) -> Result<Option<Ended>, Error> {
        let mut handle = self.requests.operation(*request)?;
        let ended = self.test_held(&mut handle)?;
        if ended.is_some() {
            self.requests.end(request);
        }
        Ok(ended)
    }

    /// Waits for one of several requests. `None` when none is active.
    ///
    /// # Errors
    /// As [`World::wait`].
    #[inline]
    pub fn wait_any(&mut self, requests: &mut [Request]) -> Result<Option<Ended>, Error> {
        self.requests.check(requests)?;
        self.any(requests)
    }

    /// Checks whether one of several requests has ended. `None` when none has ended, or none is
    /// active.
    ///
    /// # Errors
    /// As [`World::wait`].
    pub fn test_any(&mut self, requests: &mut [Request]) -> Result<Option<Ended>, Error> {
        self.requests.check(requests)?;
        self.any_now(requests)
    }

    /// Waits until at least one request has ended, and writes the results of all that have ended
    /// into `ended`. Returns their number; 0 only when none is active.
    ///
    /// # Errors
    /// [`Error::Argument`] when `ended` is shorter than `requests`; else as [`World::wait`].
    pub fn wait_some(
        &mut self,
        requests: &mut [Request],
        ended: &mut [Ended],
    ) -> Result<usize, Error> {
        self.check_several(requests, ended)?;
        self.some(requests, ended)
    }

    /// Takes all requests that have ended, perhaps none; else as [`World::wait_some`].
    ///
    /// # Errors
    /// As [`World::wait_some`].
    pub fn test_some(
        &mut self,
        requests: &mut [Request],
        ended: &mut [Ended],
    ) -> Result<usize, Error> {
        self.check_several(requests, ended)?;
        self.some_now(requests, ended)
    }

    /// Waits for all requests, and writes their results into `ended`, in their order. Null and
    /// inactive requests have an empty status.
    ///
    /// # Errors
    /// As [`World::wait_some`].
    pub fn wait_all(&mut self, requests: &mut [Request], ended: &mut [Ended]) -> Result<(), Error> {
        self.check_several(requests, ended)?;
        self.engine.tick();
        self.empty_all(requests.len(), ended);
        self.block_until(|world| {
            let mut chosen = requests.handles(&mut world.requests);
            calls::try_all(&mut world.engine, &mut chosen, by_index(ended))
        })
    }

    /// Checks whether all requests have ended; takes all of them or none. Else as
    /// [`World::wait_all`].
    ///
    /// # Errors
    /// As [`World::wait_some`].
    pub fn test_all(
        &mut self,
        requests: &mut [Request],
        ended: &mut [Ended],
    ) -> Result<bool, Error> {
        self.check_several(requests, ended)?;
        self.all_now(requests, ended)
    }

    /// Keeps a message that a matched probe took.
    pub fn keep(&mut self, message: Message) -> MessageHandle {
        MessageHandle(self.messages.insert(message))
    }

    /// Removes and returns a kept message. `None` if it was taken already.
    pub fn take(&mut self, handle: MessageHandle) -> Option<Message> {
        self.messages.remove(handle.0)
    }

    /// Number of kept messages.
    pub fn message_count(&self) -> usize {
        self.messages.count()
    }

    #[inline(always)]
    pub(super) fn add_request(&mut self, operation: Operation) -> Request {
        Request(self.requests.insert(operation.into()))
    }

    fn check_several(&mut self, requests: &[Request], ended: &[Ended]) -> Result<(), Error> {
        check_places(requests.len(), ended)?;
        self.requests.check(requests)
    }
}
