//! Requests by handle, for layers above that keep requests and buffers beyond a call, such as
//! collectives and libraries for other languages.
//!
//! Buffers are given by pointer: the caller that makes a [`SendBuffer`] or [`ReceiveBuffer`]
//! promises that the memory stays valid until the request has ended. The calls on several requests
//! write results into the caller's memory, and allocate nothing. A receive whose message was too
//! long has [`Ended::truncated_to`] set; other requests of the call are not affected.

use super::group::{Kind, next_start};
use super::request::{Chosen, Ended, Entry, Key, Numbered, Request, Template};
use super::{Message, ReceiveBuffer, SendBuffer, SendTo, Source, Status, World};
use crate::Error;
use refrain_rank::calls;
use refrain_transport::engine::{Outcome, Started};

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
        self.check(to.rank, to.context)?;
        let handle = calls::post_send(&mut self.engine, data, to)?;
        self.meet_peers()?;
        Ok(self.add_request(Entry::once(handle)))
    }

    /// Sends a message without waiting. If the log has no room, the engine copies the data and sends
    /// the copy later, so the data may be changed when this returns. Meant for short messages.
    ///
    /// # Errors
    /// As [`World::send`].
    #[inline(always)]
    pub fn send_or_copy(&mut self, data: SendBuffer, to: SendTo) -> Result<(), Error> {
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
        let pattern = self.pattern(from)?;
        let handle = calls::post_receive(&mut self.engine, room, pattern);
        Ok(self.add_request(Entry::once(handle)))
    }

    /// Begins the receive of a message that a matched probe took.
    pub fn start_matched_receive(&mut self, room: ReceiveBuffer, message: Message) -> Request {
        let handle = calls::post_matched(&mut self.engine, room, message);
        self.add_request(Entry::once(handle))
    }

    /// Prepares a persistent send. `data` is lent until the request is [freed](World::free).
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn prepare_send(&mut self, data: SendBuffer, to: SendTo) -> Result<Request, Error> {
        self.check(to.rank, to.context)?;
        let template = Template::Send { data, to };
        Ok(self.add_request(Entry::persistent(template)))
    }

    /// Prepares a persistent receive. `room` is lent until the request is [freed](World::free).
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn prepare_receive(&mut self, room: ReceiveBuffer, from: Source) -> Result<Request, Error> {
        let from = self.pattern(from)?;
        let template = Template::Receive { room, from };
        Ok(self.add_request(Entry::persistent(template)))
    }

    /// Starts a persistent request.
    ///
    /// # Errors
    /// When the request is not persistent, or still active; as [`World::send`].
    #[expect(unsafe_code, reason = "lends the buffers once more")]
    pub fn start(&mut self, request: Request) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::Argument(format!("start: {why}")));
        let entry = self.requests.get_mut(request.0);
        let Some((handle, template)) =
            entry.and_then(|it| Some((it.handle, it.template.as_deref_mut()?)))
        else {
            return refused("the request is not persistent, or was freed");
        };
        if !handle.is_null() {
            return refused("the persistent request is still active: wait for it first");
        }
        super::forked::check()?;
        let handle = match template {
            Template::Send { data, to } => {
                // SAFETY: lent until the request is freed.
                let data = unsafe { data.again() };
                calls::post_send(&mut self.engine, data, *to)?
            }
            Template::Receive { room, from } => {
                calls::post_receive(&mut self.engine, room.clone(), *from)
            }
            Template::Collective { plan, numbered } => {
                let number = match numbered {
                    Numbered::ByStarts(group) => {
                        self.groups.count_collective(*group, Kind::Begun)?
                    }
                    Numbered::ByPreparation(next) => {
                        let number = *next;
                        *next = next_start(number);
                        number.into()
                    }
                };
                let again = match self.under_way.spare_plan() {
                    Some(mut again) => {
                        again.clone_from(plan);
                        again
                    }
                    None => plan.clone(),
                };
                // SAFETY: the buffers are lent until the request is freed.
                unsafe { self.under_way.begin(again, number, &mut self.engine)? }
            }
        };
        if let Some(entry) = self.requests.get_mut(request.0) {
            entry.handle = handle;
        }
        Ok(())
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
        calls::cancel(&mut self.engine, &handle);
        if !handle.id().is_some_and(|id| self.under_way.has(id)) {
            calls::complete_send(&mut self.engine, &mut handle);
        }
        if let Some(entry) = self.requests.get_mut(request.0) {
            entry.handle = handle;
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
        if let Some(id) = handle.id() {
            self.under_way.give_up(Some(id), &mut self.engine);
            self.engine.detach(id);
        }
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
            .and_then(|it| it.handle.take_received(&mut self.engine));
        let outcome = match received {
            Some(outcome) => outcome,
            None => match self.wait_for(*request)? {
                Some(outcome) => outcome,
                None => return Ok(self.empty(0)),
            },
        };
        self.requests.end(request);
        Ok(Ended::new(0, outcome))
    }

    /// The outcome of a request that may take time; `None`: it is null or inactive.
    #[inline(never)]
    fn wait_for(&mut self, request: Request) -> Result<Option<Outcome>, Error> {
        let mut handle = self.requests.operation(request)?;
        if handle.is_null() {
            return Ok(None);
        }
        self.block_until(|world| calls::try_wait(&mut world.engine, &mut handle))
            .map(Some)
    }

    /// Checks whether one request has ended. The call is an event, for sends and receives. A null
    /// or inactive request has ended, and is no event.
    ///
    /// # Errors
    /// As [`World::wait`].
    pub fn test(&mut self, request: &mut Request) -> Result<Option<Ended>, Error> {
        let mut handle = self.requests.operation(*request)?;
        let clock = self.engine.tick();
        if handle.is_null() {
            return Ok(Some(self.empty(0)));
        }
        let test = |world: &mut Self| calls::test(&mut world.engine, clock, &mut handle);
        let ended = self.test_now(clock, test)?;
        if ended.is_some() {
            self.requests.end(request);
        }
        Ok(ended.map(|outcome| Ended::new(0, outcome)))
    }

    /// Waits for one of several requests. `None` when none is active.
    ///
    /// # Errors
    /// As [`World::wait`].
    #[inline]
    pub fn wait_any(&mut self, requests: &mut [Request]) -> Result<Option<Ended>, Error> {
        self.requests.check(requests)?;
        let clock = self.engine.tick();
        if self.are_inactive(requests) {
            return Ok(None);
        }
        let (index, outcome) = self.block_until(|world| {
            let table = &mut world.requests;
            calls::try_any(&mut world.engine, clock, &mut Chosen { table, requests })
        })?;
        Ok(Some(Ended::new(index, outcome)))
    }

    /// Checks whether one of several requests has ended. `None` when none has ended, or none is
    /// active.
    ///
    /// # Errors
    /// As [`World::wait`].
    pub fn test_any(&mut self, requests: &mut [Request]) -> Result<Option<Ended>, Error> {
        self.requests.check(requests)?;
        let clock = self.engine.tick();
        if self.are_inactive(requests) {
            return Ok(None);
        }
        let ended = self.test_now(clock, |world| {
            let table = &mut world.requests;
            calls::test_any(&mut world.engine, clock, &mut Chosen { table, requests })
        })?;
        Ok(ended.map(|(index, outcome)| Ended::new(index, outcome)))
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
        let clock = self.engine.tick();
        if self.are_inactive(requests) {
            return Ok(0);
        }
        self.block_until(|world| {
            let table = &mut world.requests;
            let mut chosen = Chosen { table, requests };
            calls::try_some(&mut world.engine, clock, &mut chosen, appending(ended))
        })
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
        let clock = self.engine.tick();
        if self.are_inactive(requests) {
            return Ok(0);
        }
        let count = self.test_now(clock, |world| {
            let table = &mut world.requests;
            let mut chosen = Chosen { table, requests };
            calls::test_some(&mut world.engine, clock, &mut chosen, appending(ended))
        })?;
        Ok(count.unwrap_or(0))
    }

    /// Waits for all requests, and writes their results into `ended`, in their order. Null and
    /// inactive requests have an empty status.
    ///
    /// # Errors
    /// As [`World::wait_some`].
    pub fn wait_all(&mut self, requests: &mut [Request], ended: &mut [Ended]) -> Result<(), Error> {
        self.check_several(requests, ended)?;
        self.engine.tick();
        self.empty_all(requests, ended);
        self.block_until(|world| {
            let table = &mut world.requests;
            let mut chosen = Chosen { table, requests };
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
        let clock = self.engine.tick();
        self.empty_all(requests, ended);
        let have_ended = self.test_now(clock, |world| {
            let table = &mut world.requests;
            let mut chosen = Chosen { table, requests };
            calls::test_all(&mut world.engine, clock, &mut chosen, by_index(ended))
        })?;
        Ok(have_ended.is_some())
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
    pub(super) fn add_request(&mut self, entry: Entry) -> Request {
        Request(self.requests.insert(entry))
    }

    #[inline]
    fn are_inactive(&self, requests: &[Request]) -> bool {
        let mut requests = requests.iter();
        requests.all(|request| !self.requests.is_active(*request))
    }

    fn check_several(&mut self, requests: &[Request], ended: &[Ended]) -> Result<(), Error> {
        if ended.len() < requests.len() {
            return Err(Error::Argument(format!(
                "{} requests need a place for each status: only {} were given",
                requests.len(),
                ended.len()
            )));
        }
        self.requests.check(requests)
    }

    fn empty_all(&self, requests: &[Request], ended: &mut [Ended]) {
        for (index, ended) in ended.iter_mut().enumerate().take(requests.len()) {
            *ended = self.empty(index);
        }
    }

    /// The result of a null or inactive request.
    fn empty(&self, index: usize) -> Ended {
        let status = Status {
            source: self.rank,
            ..Status::default()
        };
        Ended::new(index, status.into())
    }
}

fn appending(ended: &mut [Ended]) -> impl FnMut(usize, Outcome) {
    let mut places = ended.iter_mut();
    move |index, outcome| {
        if let Some(place) = places.next() {
            *place = Ended::new(index, outcome);
        }
    }
}

fn by_index(ended: &mut [Ended]) -> impl FnMut(usize, Outcome) {
    |index, outcome| ended[index] = Ended::new(index, outcome)
}
