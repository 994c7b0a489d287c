//! Operations that their caller holds, for layers above that have a table of requests of their own;
//! and the calls on several operations, whoever holds them.
//!
//! A call on a [`Handle`] makes it null when it returns its end: the holder [notes
//! that](Operation::has_ended) at the operation. Whoever drops an operation that is under way frees it
//! first. Else all is as for [requests](super::requests).

use super::group::{Kind, next_start};
use super::request::{Ended, Numbered, Operation, Several, Template};
use super::{Message, ReceiveBuffer, SendBuffer, SendTo, Source, Status, World};
use crate::Error;
use refrain_rank::calls::{self, Handle, Handles};
use refrain_transport::engine::Outcome;

impl World {
    /// As [`World::start_send`].
    ///
    /// # Errors
    /// As [`World::send`].
    #[inline]
    pub fn begin_send(&mut self, data: SendBuffer, to: SendTo) -> Result<Operation, Error> {
        self.check(to.rank, to.context)?;
        let handle = calls::post_send(&mut self.engine, data, to)?;
        self.meet_peers()?;
        Ok(Operation::once(handle))
    }

    /// As [`World::start_receive`].
    ///
    /// # Errors
    /// For a rank that does not exist.
    #[inline]
    pub fn begin_receive(&mut self, room: ReceiveBuffer, from: Source) -> Result<Operation, Error> {
        self.begin_receive_into(|| room, from)
    }

    /// As [`World::begin_receive`], with room that is made in the place of its request.
    ///
    /// # Errors
    /// For a rank that does not exist.
    // Inlined always: the operation is built in the caller's place.
    #[inline(always)]
    pub fn begin_receive_into(
        &mut self,
        room: impl FnOnce() -> ReceiveBuffer,
        from: Source,
    ) -> Result<Operation, Error> {
        let pattern = self.pattern(from)?;
        let handle = calls::post_receive_into(&mut self.engine, room, pattern);
        Ok(Operation::once(handle))
    }

    /// As [`World::start_matched_receive`].
    pub fn begin_matched_receive(&mut self, room: ReceiveBuffer, message: Message) -> Operation {
        Operation::once(calls::post_matched(&mut self.engine, room, message))
    }

    /// As [`World::prepare_send`].
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn hold_send(&mut self, data: SendBuffer, to: SendTo) -> Result<Operation, Error> {
        self.check(to.rank, to.context)?;
        Ok(Operation::persistent(Template::Send { data, to }))
    }

    /// As [`World::prepare_receive`].
    ///
    /// # Errors
    /// For a rank that does not exist.
    pub fn hold_receive(&mut self, room: ReceiveBuffer, from: Source) -> Result<Operation, Error> {
        let from = self.pattern(from)?;
        Ok(Operation::persistent(Template::Receive { room, from }))
    }

    /// As [`World::start`].
    ///
    /// # Errors
    /// As [`World::start`].
    #[expect(unsafe_code, reason = "lends the buffers once more")]
    pub fn start_held(&mut self, operation: &mut Operation) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::Argument(format!("start: {why}")));
        let Some(template) = operation.template.as_deref_mut() else {
            return refused("the request is not persistent, or was freed");
        };
        if !operation.handle.is_null() {
            return refused("the persistent request is still active: wait for it first");
        }
        super::forked::check()?;
        operation.handle = match template {
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
        Ok(())
    }

    /// As [`World::cancel`].
    pub fn cancel_held(&mut self, operation: &mut Operation) {
        self.cancel_handle(&mut operation.handle);
    }

    pub(super) fn cancel_handle(&mut self, handle: &mut Handle) {
        calls::cancel(&mut self.engine, handle);
        if !handle.id().is_some_and(|id| self.under_way.has(id)) {
            calls::complete_send(&mut self.engine, handle);
        }
    }

    /// As [`World::free`], for the operation of this handle.
    pub fn free_held(&mut self, handle: Handle) {
        if let Some(id) = handle.id() {
            self.under_way.give_up(Some(id), &mut self.engine);
            self.engine.detach(id);
        }
    }

    /// As [`World::wait`].
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn wait_held(&mut self, handle: &mut Handle) -> Result<Ended, Error> {
        self.engine.tick();
        let outcome = self.wait_for(*handle)?;
        *handle = Handle::NULL;
        Ok(outcome.map_or_else(|| self.empty(0), |outcome| Ended::new(0, outcome)))
    }

    /// Waits for a receive whose message is here, which is frequent in a wait for several, and shows its
    /// end in place. Returns false, and does nothing, for all others: then [wait](Self::wait_held).
    #[inline(always)]
    pub fn end_received(&mut self, operation: &Operation, see: impl FnOnce(Ended)) -> bool {
        let look = |outcome: &Outcome| see(Ended::new(0, *outcome));
        let has_ended = operation.handle.end_received(&mut self.engine, look);
        if has_ended {
            self.engine.tick();
        }
        has_ended
    }

    /// The outcome of an operation that may take time; `None`: the handle is null.
    #[inline(never)]
    pub(super) fn wait_for(&mut self, mut handle: Handle) -> Result<Option<Outcome>, Error> {
        if handle.is_null() {
            return Ok(None);
        }
        self.block_until(|world| calls::try_wait(&mut world.engine, &mut handle))
            .map(Some)
    }

    /// As [`World::test`].
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn test_held(&mut self, handle: &mut Handle) -> Result<Option<Ended>, Error> {
        let clock = self.engine.tick();
        if handle.is_null() {
            return Ok(Some(self.empty(0)));
        }
        let test = |world: &mut Self| calls::test(&mut world.engine, clock, handle);
        let ended = self.test_now(clock, test)?;
        Ok(ended.map(|outcome| Ended::new(0, outcome)))
    }

    /// As [`World::wait_any`].
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn wait_any_held(&mut self, handles: &mut [Handle]) -> Result<Option<Ended>, Error> {
        self.any(handles)
    }

    /// As [`World::test_any`].
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn test_any_held(&mut self, handles: &mut [Handle]) -> Result<Option<Ended>, Error> {
        self.any_now(handles)
    }

    /// As [`World::wait_some`].
    ///
    /// # Errors
    /// [`Error::Argument`] when `ended` is shorter than `handles`; else as [`World::send`].
    pub fn wait_some_held(
        &mut self,
        handles: &mut [Handle],
        ended: &mut [Ended],
    ) -> Result<usize, Error> {
        check_places(handles.len(), ended)?;
        self.some(handles, ended)
    }

    /// As [`World::test_some`].
    ///
    /// # Errors
    /// As [`World::wait_some_held`].
    pub fn test_some_held(
        &mut self,
        handles: &mut [Handle],
        ended: &mut [Ended],
    ) -> Result<usize, Error> {
        check_places(handles.len(), ended)?;
        self.some_now(handles, ended)
    }

    /// As [`World::test_all`].
    ///
    /// # Errors
    /// As [`World::wait_some_held`].
    pub fn test_all_held(
        &mut self,
        handles: &mut [Handle],
        ended: &mut [Ended],
    ) -> Result<bool, Error> {
        check_places(handles.len(), ended)?;
        self.all_now(handles, ended)
    }

    #[inline]
    pub(super) fn any(
        &mut self,
        several: &mut (impl Several + ?Sized),
    ) -> Result<Option<Ended>, Error> {
        let clock = self.engine.tick();
        if self.are_null(several) {
            return Ok(None);
        }
        let (index, outcome) = self.block_until(|world| {
            let mut handles = several.handles(&mut world.requests);
            calls::try_any(&mut world.engine, clock, &mut handles)
        })?;
        Ok(Some(Ended::new(index, outcome)))
    }

    pub(super) fn any_now(
        &mut self,
        several: &mut (impl Several + ?Sized),
    ) -> Result<Option<Ended>, Error> {
        let clock = self.engine.tick();
        if self.are_null(several) {
            return Ok(None);
        }
        let ended = self.test_now(clock, |world| {
            let mut handles = several.handles(&mut world.requests);
            calls::test_any(&mut world.engine, clock, &mut handles)
        })?;
        Ok(ended.map(|(index, outcome)| Ended::new(index, outcome)))
    }

    pub(super) fn some(
        &mut self,
        several: &mut (impl Several + ?Sized),
        ended: &mut [Ended],
    ) -> Result<usize, Error> {
        let clock = self.engine.tick();
        if self.are_null(several) {
            return Ok(0);
        }
        self.block_until(|world| {
            let mut handles = several.handles(&mut world.requests);
            calls::try_some(&mut world.engine, clock, &mut handles, appending(ended))
        })
    }

    pub(super) fn some_now(
        &mut self,
        several: &mut (impl Several + ?Sized),
        ended: &mut [Ended],
    ) -> Result<usize, Error> {
        let clock = self.engine.tick();
        if self.are_null(several) {
            return Ok(0);
        }
        let count = self.test_now(clock, |world| {
            let mut handles = several.handles(&mut world.requests);
            calls::test_some(&mut world.engine, clock, &mut handles, appending(ended))
        })?;
        Ok(count.unwrap_or(0))
    }

    pub(super) fn all_now(
        &mut self,
        several: &mut (impl Several + ?Sized),
        ended: &mut [Ended],
    ) -> Result<bool, Error> {
        let clock = self.engine.tick();
        let count = several.handles(&mut self.requests).count();
        self.empty_all(count, ended);
        let have_ended = self.test_now(clock, |world| {
            let mut handles = several.handles(&mut world.requests);
            calls::test_all(&mut world.engine, clock, &mut handles, by_index(ended))
        })?;
        Ok(have_ended.is_some())
    }

    #[inline]
    fn are_null(&mut self, several: &mut (impl Several + ?Sized)) -> bool {
        calls::are_null(&several.handles(&mut self.requests))
    }

    pub(super) fn empty_all(&self, count: usize, ended: &mut [Ended]) {
        for (index, ended) in ended.iter_mut().enumerate().take(count) {
            *ended = self.empty(index);
        }
    }

    /// The result of a null or inactive request.
    pub(super) fn empty(&self, index: usize) -> Ended {
        let status = Status {
            source: self.rank,
            ..Status::default()
        };
        Ended::new(index, status.into())
    }
}

/// Checks that there is a place for each result.
pub(super) fn check_places(operations: usize, ended: &[Ended]) -> Result<(), Error> {
    match ended.len() < operations {
        false => Ok(()),
        true => Err(Error::Argument(format!(
            "{operations} requests need a place for each status: only {} were given",
            ended.len()
        ))),
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

pub(super) fn by_index(ended: &mut [Ended]) -> impl FnMut(usize, Outcome) {
    |index, outcome| ended[index] = Ended::new(index, outcome)
}
