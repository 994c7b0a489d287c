//! Executes collectives at one rank: begins the steps of their schedules as messages arrive.
//!
//! The steps are those of an [internal operation](Engine::begin_internal). Messages between two
//! members of a group are matched by the group's context and the number of the collective in the
//! group, and among these in the order of the schedule (COLL-2, STREAM-4), so any number of collectives
//! may be under way, also on one group.
//!
//! Nothing here blocks: a caller that waits makes progress and calls [`UnderWay::advance`].

#![allow(
    unsafe_code,
    reason = "works on the caller's memory while the collective is under way"
)]

mod combining;
mod comparing;
mod error;
mod layouts;
mod leaving;
mod sharing;
mod spare;
mod whole;

use crate::calls::{Handle, begin_internal};
use combining::{Combining, combine, not_in};
use comparing::Check;
pub use error::CollectiveError;
pub use layouts::{Layouts, Stretch};
use leaving::Leaving;
use refrain_collectives::reduction::Reduction;
use refrain_collectives::{Action, Buffer, Chosen, Part, Side};
use refrain_ring::Rank;
use refrain_transport::engine::{
    Engine, EngineError, InternalOperation, Outcome, Publication, ReceiveBuffer, RequestId, SendTo,
    Started, Taker,
};
use refrain_transport::matching::Envelope;
use refrain_transport::protocol::Protocol;
use sharing::Sharing;
use spare::Spare;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use whole::Taking;
pub use whole::{Covers, Name, Whole, WholePart};

/// What a collective does at this rank. Each start of a persistent collective has the same one.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The members of the group, by place.
    pub members: Arc<[Rank]>,
    /// The place of this rank.
    pub me: u32,
    /// The context of the group.
    pub context: u32,
    /// The steps.
    pub chosen: Arc<Chosen>,
    /// The buffers of the call.
    pub memory: Memory,
    /// Where the elements of the buffers are, if not all lie one behind the other. A schedule that
    /// combines has none.
    pub layouts: Option<Arc<Layouts>>,
    /// The operator, if the schedule combines.
    pub reduction: Option<Reduction>,
    /// The call, if it is to be compared with that of the member below before the first step.
    pub check: Option<Arc<str>>,
}

impl Plan {
    /// Changes members and steps. Those that are the same already are not touched: to count a
    /// reference waits until the last message has left the processor's store buffer.
    #[inline]
    pub fn set(&mut self, members: &Arc<[Rank]>, chosen: &Arc<Chosen>) {
        if !Arc::ptr_eq(&self.members, members) {
            self.members = Arc::clone(members);
        }
        if !Arc::ptr_eq(&self.chosen, chosen) {
            self.chosen = Arc::clone(chosen);
        }
    }
}

/// The caller's memory, by pointer.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Where the input begins; any address if the schedule does not use it. With a layout it may
    /// be null, with the provenance of what the layout picks: offsets are addresses then.
    pub input: *const u8,
    /// Where the output begins; as the input.
    pub output: *mut u8,
    /// Bytes of an element.
    pub element_bytes: u64,
}

// SAFETY: the caller lends the memory to the collective, in whichever thread it is advanced.
unsafe impl Send for Memory {}
// SAFETY: a shared `Memory` gives addresses only.
unsafe impl Sync for Memory {}

/// The collectives that are under way at this rank.
#[derive(Debug, Default)]
pub struct UnderWay {
    running: Vec<Collective>,
    /// Those whose calls are over, and whose neighbours' results are not kept yet.
    sharing: VecDeque<Sharing>,
    spare: Spare,
    /// If results are kept instead of messages.
    whole: Option<Box<Whole>>,
}

/// The number of a collective in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// As its messages carry it: collectives began in the group before, modulo 2^31. COLL-2
    pub tag: i32,
    /// As its result is named; `None`: its messages are kept whatever the setting.
    pub name: Option<Name>,
}

impl From<i32> for Number {
    fn from(tag: i32) -> Self {
        Self { tag, name: None }
    }
}

impl UnderWay {
    /// The memory of a plan whose collective is complete, for the next one: see
    /// [`Plan::set`].
    #[inline]
    pub fn spare_plan(&mut self) -> Option<Box<Plan>> {
        self.spare.plans.pop()
    }

    /// Begins a collective. The handle is for the program, which waits for it as for a send. STREAM-2
    ///
    /// # Errors
    /// [`CollectiveError`]; nothing is under way then.
    ///
    /// # Panics
    /// When the schedule combines, and the plan has no reduction.
    ///
    /// # Safety
    /// The memory of `plan` must have all elements that the schedule uses, where its layouts say:
    /// those of the input readable and unchanged, those of the output writable and untouched by
    /// others, until the handle's request has ended, or is [given up](UnderWay::give_up). Layouts
    /// of the output pick no byte twice.
    pub unsafe fn begin<P: Protocol>(
        &mut self,
        plan: Box<Plan>,
        number: impl Into<Number>,
        engine: &mut Engine<P>,
    ) -> Result<Handle, CollectiveError> {
        let (operation, handle) = begin_internal(engine)?;
        match self.run(operation, plan, number.into(), engine) {
            Ok(()) => Ok(handle),
            Err(error) => {
                handle.id().into_iter().for_each(|id| engine.detach(id));
                Err(error)
            }
        }
    }

    /// Begins a collective in a call that returns when it is complete: when none [is
    /// awaited](UnderWay::is_awaited) any more. Else as [`UnderWay::begin`].
    ///
    /// # Errors
    /// As [`UnderWay::begin`].
    ///
    /// # Panics
    /// As [`UnderWay::begin`].
    ///
    /// # Safety
    /// As [`UnderWay::begin`], until the collective is complete or given up.
    pub unsafe fn begin_awaited<P: Protocol>(
        &mut self,
        plan: Box<Plan>,
        number: impl Into<Number>,
        engine: &mut Engine<P>,
    ) -> Result<(), CollectiveError> {
        let operation = engine.begin_awaited()?;
        self.run(operation, plan, number.into(), engine)
    }

    /// Whether a collective is under way whose call waits for its end.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        let mut operations = self.running.iter().map(|it| &it.operation);
        operations.any(|it| it.request().is_none())
    }

    #[inline]
    fn run<P: Protocol>(
        &mut self,
        operation: InternalOperation,
        plan: Box<Plan>,
        number: Number,
        engine: &mut Engine<P>,
    ) -> Result<(), CollectiveError> {
        let taking = match &mut self.whole {
            Some(whole) => whole.enter(&plan, number.name, &operation, engine),
            None => None,
        };
        let scratch_bytes = plan.chosen.schedule.scratch() * plan.memory.element_bytes;
        self.running.push(Collective {
            operation,
            number: number.tag,
            name: number.name,
            taking,
            kept_bytes: None,
            leaving: None,
            scratch: self.spare.take(scratch_bytes as usize),
            plan,
            next: 0,
            waiting: self.spare.queues.pop().unwrap_or_default(),
            check: Check::NotBegun,
            mismatch: None,
        });
        let index = self.running.len() - 1;
        if let Some(whole) = &self.whole {
            self.running[index].take_results_if_whole(whole, engine);
        }
        self.advance_at(index, engine)
    }

    /// Keeps the results of collectives instead of their messages, on every rank of a job, with
    /// engines that [keep them](Engine::keep_results).
    #[must_use]
    pub fn with_whole(mut self, whole: Whole) -> Self {
        self.whole = Some(Box::new(whole));
        self
    }

    /// What is known of results that are kept, if they are.
    pub fn whole(&mut self) -> Option<&mut Whole> {
        self.whole.as_deref_mut()
    }

    /// Whether progress has steps to begin, or may have to give results.
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.running.is_empty() || self.whole.is_some()
    }

    /// Begins all steps that can begin, and ends the requests of collectives that are complete.
    ///
    /// # Errors
    /// [`CollectiveError`] of one collective, which has ended or is given up.
    pub fn advance<P: Protocol>(&mut self, engine: &mut Engine<P>) -> Result<(), CollectiveError> {
        if self.whole.is_some() {
            self.attend(engine)?;
            self.share(engine)?;
        }
        for index in (0..self.running.len()).rev() {
            if !self.running[index].waits(engine) {
                self.advance_at(index, engine)?;
            }
        }
        Ok(())
    }

    fn advance_at<P: Protocol>(
        &mut self,
        index: usize,
        engine: &mut Engine<P>,
    ) -> Result<(), CollectiveError> {
        let shares_most = self.shares_most();
        let collective = &mut self.running[index];
        let advanced = match &mut self.whole {
            None => collective.advance(&mut self.spare, engine),
            Some(whole) => match collective.advance(&mut self.spare, engine) {
                Ok(true) if shares_most => Ok(false),
                Ok(true) => collective.leaves_results(whole, engine),
                still => still,
            },
        };
        match advanced {
            Ok(false) => Ok(()),
            Ok(true) => {
                let mut ended = self.running.swap_remove(index);
                if let Some(whole) = &mut self.whole {
                    whole.end(&ended, engine);
                    match (Sharing::of(&mut ended), ended.name) {
                        (Some(sharing), _) => self.sharing.push_back(sharing),
                        (None, Some(name)) => {
                            let of = (ended.plan.context, name);
                            whole.finish(of, ended.plan.result_bytes(), engine);
                        }
                        (None, None) => {}
                    }
                }
                engine.finish_internal(ended.operation);
                self.spare.give_back(ended.scratch);
                self.spare.queues.push(ended.waiting);
                self.spare.give_back_plan(ended.plan);
                ended.mismatch.map_or(Ok(()), Err)
            }
            Err(error) => {
                let ended = self.running.swap_remove(index);
                ended.give_up(self.whole.as_deref_mut(), engine);
                Err(error)
            }
        }
    }

    /// Whether a request is that of a collective.
    pub fn has(&self, request: RequestId) -> bool {
        let mut operations = self.running.iter().map(|it| &it.operation);
        operations.any(|it| it.request() == Some(request))
    }

    /// Gives the memory of a collective back before it is complete: receives are cancelled, and
    /// sends continue from copies. Its request has ended then; its stream stays taken, since
    /// which of its messages were sent depends on timing. Does nothing to other requests. `None`:
    /// the collective for which its call waits. STREAM-2
    pub fn give_up<P: Protocol>(&mut self, request: Option<RequestId>, engine: &mut Engine<P>) {
        let index = (self.running.iter()).position(|it| it.operation.request() == request);
        if let Some(index) = index {
            let ended = self.running.swap_remove(index);
            ended.give_up(self.whole.as_deref_mut(), engine);
        }
    }
}

#[derive(Debug)]
struct Collective {
    operation: InternalOperation,
    number: i32,
    name: Option<Name>,
    plan: Box<Plan>,
    /// In a later life, if results are kept: what may replace its messages.
    taking: Option<Box<Taking>>,
    /// Bytes of the result that are kept, if it is the same at all places and in one piece.
    kept_bytes: Option<u64>,
    /// Other results, once all steps are complete, if they are kept.
    leaving: Option<Box<Leaving>>,
    scratch: Vec<u8>,
    /// The step that begins next.
    next: usize,
    /// Begun and not complete, in the order of steps.
    waiting: VecDeque<Waiting>,
    check: Check,
    /// The first message of a wrong length. The steps go on, as other members wait for them.
    mismatch: Option<CollectiveError>,
}

/// Length from which a message is combined where it arrives.
const TAKEN_BYTES_MIN: usize = 2048;

#[derive(Debug)]
struct Waiting {
    step: usize,
    started: Started,
    /// What arrives for [`Action::ReceiveReduce`], unless it is combined as it arrives.
    operand: Option<Vec<u8>>,
}

impl Collective {
    /// Whether the oldest step that was begun is not complete: then nothing else can begin.
    #[inline]
    fn waits(&self, engine: &Engine<impl Protocol>) -> bool {
        let oldest = self.waiting.front().map(|waiting| &waiting.started);
        matches!(oldest, Some(Started::Pending(request)) if !engine.has_ended(*request))
    }

    /// Begins what can begin. Returns whether all steps are complete.
    fn advance(
        &mut self,
        spare: &mut Spare,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<bool, CollectiveError> {
        if self.plan.check.is_some() && !self.is_checked(engine)? {
            return Ok(false);
        }
        loop {
            while let Some(waiting) = self.waiting.front()
                && let Some(outcome) = match waiting.started {
                    Started::Done(outcome) => Some(outcome),
                    Started::Pending(request) => engine.end_step(request),
                }
            {
                self.complete_first(outcome, spare);
            }
            let complete = self.waiting.front().map_or(self.next, |first| first.step);
            match self.plan.chosen.schedule.steps().get(self.next) {
                Some(step) if step.after as usize <= complete => {
                    self.begin(step.action, spare, engine)?;
                    self.next += 1;
                }
                step => return Ok(step.is_none() && self.waiting.is_empty()),
            }
        }
    }

    fn give_up(self, whole: Option<&mut Whole>, engine: &mut Engine<impl Protocol>) {
        if let (Some(whole), Some(name)) = (whole, self.name) {
            whole.give_up((self.plan.context, name));
        }
        (self.under_way()).for_each(|request| engine.detach(request));
        if self.keeps_in_part() {
            engine.leave_result_incomplete();
        }
        engine.abandon_internal(self.operation);
    }

    /// The requests of its steps.
    fn under_way(&self) -> impl Iterator<Item = RequestId> {
        let compared = match &self.check {
            Check::UnderWay(exchange) => &exchange.requests[..],
            Check::NotBegun | Check::Done => &[],
        };
        let shared = self.leaving.iter().flat_map(|leaving| leaving.requests());
        let steps = self
            .waiting
            .iter()
            .filter_map(|waiting| match waiting.started {
                Started::Pending(request) => Some(request),
                Started::Done(_) => None,
            });
        compared.iter().chain(shared).copied().chain(steps)
    }

    /// The member at the place `distance` below this one, around the ring.
    fn member_below(&self, distance: usize) -> Rank {
        let size = self.plan.members.len();
        self.plan.members[(self.plan.me as usize + size - distance) % size]
    }

    fn begin(
        &mut self,
        action: Action,
        spare: &mut Spare,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<(), EngineError> {
        match action {
            Action::Send { to, from } => self.send(to, from, None, engine)?,
            Action::Publish {
                first,
                number,
                from,
            } => {
                let (me, end) = (self.plan.me, first + number);
                let publication = (number > 2)
                    .then(|| engine.publication(self.bytes(from) as u64))
                    .flatten();
                for place in (first..me).chain(me + 1..end) {
                    self.send(place, from, publication.as_ref(), engine)?;
                }
            }
            Action::Receive { source, into } => {
                // SAFETY: inside of the output or the scratch, which stay until the collective is
                // complete; the schedule uses nothing of it before.
                let room = unsafe { self.room(into) };
                self.receive(source, room, None, engine);
            }
            Action::ReceiveReduce {
                source,
                message,
                with,
                into,
            } => {
                let bytes = self.bytes(into);
                if let Some(taker) = self.taker(message, with, into) {
                    let room = ReceiveBuffer::taken(bytes as u64, taker);
                    self.receive(source, room, None, engine);
                } else {
                    let mut operand = spare.take(bytes);
                    // SAFETY: the operand stays until this step is complete.
                    let room = unsafe { ReceiveBuffer::bytes(operand.as_mut_ptr(), bytes) };
                    self.receive(source, room, Some(operand), engine);
                }
            }
            Action::Reduce { left, right, into } => {
                let [left, right] = [left, right].map(|part| self.address(part).cast_const());
                self.combine(left, right, into);
            }
            Action::Copy { from, into } => {
                // SAFETY: the schedule keeps both apart, and inside of the buffers.
                unsafe { self.copy(from, into) };
            }
        }
        Ok(())
    }

    /// `publication`: of a message that goes to several members.
    fn send(
        &mut self,
        to: u32,
        from: Part,
        publication: Option<&Publication>,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<(), EngineError> {
        // SAFETY: readable until the collective is complete, which waits for this send; the
        // schedule changes nothing of it before.
        let data = unsafe { self.data(from) };
        let to = SendTo {
            rank: self.plan.members[to as usize],
            context: self.plan.context,
            tag: self.number,
            synchronous: false,
        };
        let operation = &self.operation;
        let started = engine.publish_internal(operation, publication, data, to)?;
        if let Started::Pending(_) = started {
            self.wait_for(started, None);
        }
        Ok(())
    }

    fn receive(
        &mut self,
        source: u32,
        room: ReceiveBuffer,
        operand: Option<Vec<u8>>,
        engine: &mut Engine<impl Protocol>,
    ) {
        let from = Envelope {
            source: self.plan.members[source as usize],
            context: self.plan.context,
            tag: self.number,
        };
        let started = match engine.receive_arrived(&room, from) {
            Some(outcome) => Started::Done(outcome),
            None => Started::Pending(engine.receive_internal(&self.operation, room, from)),
        };
        self.wait_for(started, operand);
    }

    /// What combines a long message where it arrives. Short ones are copied first, and the caller's
    /// own operator gets operands in memory of the executor.
    fn taker(&mut self, message: Side, with: Part, into: Part) -> Option<Taker> {
        let element_bytes = self.plan.memory.element_bytes;
        let is_cut_between_elements = || Taker::ALIGNMENT_BYTES.is_multiple_of(element_bytes);
        if self.bytes(into) < TAKEN_BYTES_MIN || !is_cut_between_elements() {
            return None;
        }
        let reduction = self.plan.reduction.as_ref();
        let reduction = reduction.filter(|it| it.is_of_library())?.clone();
        let at = Combining {
            reduction,
            message,
            with: self.address(with),
            into: self.address(into),
        };
        let done = Mutex::new(Vec::new());
        Some(Taker::new(move |offset, data| {
            let end = offset + data.len() as u64;
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            for part in not_in(&done, offset..end) {
                let bytes = (part.start - offset) as usize..(part.end - offset) as usize;
                // SAFETY: the engine clips parts to the room, which is that of `into`.
                unsafe { at.combine(part.start as usize, &data[bytes]) };
            }
            done.push(offset..end);
        }))
    }

    fn wait_for(&mut self, started: Started, operand: Option<Vec<u8>>) {
        self.waiting.push_back(Waiting {
            step: self.next,
            started,
            operand,
        });
    }

    /// The oldest step that was waited for has its outcome.
    fn complete_first(&mut self, outcome: Outcome, spare: &mut Spare) {
        let Some(Waiting { step, operand, .. }) = self.waiting.pop_front() else {
            return;
        };
        let action = self.plan.chosen.schedule.steps()[step].action;
        if let Action::Receive { into, .. } | Action::ReceiveReduce { into, .. } = action {
            let expected_bytes = self.bytes(into) as u64;
            if outcome.status.bytes != expected_bytes {
                self.mismatch.get_or_insert(CollectiveError::Mismatch {
                    number: self.number,
                    context: self.plan.context,
                    source_rank: outcome.status.source,
                    sent_bytes: outcome.status.bytes,
                    expected_bytes,
                });
            }
        }
        if let Action::ReceiveReduce {
            message,
            with,
            into,
            ..
        } = action
            && let Some(operand) = operand
        {
            let (message_at, with_at) = (operand.as_ptr(), self.address(with).cast_const());
            match message {
                Side::Left => self.combine(message_at, with_at, into),
                Side::Right => self.combine(with_at, message_at, into),
            }
            spare.give_back(operand);
        }
    }

    /// `into` = `left` ∘ `right`.
    fn combine(&mut self, left: *const u8, right: *const u8, into: Part) {
        let (result, bytes) = (self.address(into), self.bytes(into));
        let reduction = self.plan.reduction.as_ref();
        let reduction = reduction.expect("a schedule that combines has an operator");
        // SAFETY: inside of the buffers; the schedule keeps operands apart from the result, unless
        // they are the result.
        unsafe { combine(reduction, left, right, result, bytes) };
    }

    fn bytes(&self, part: Part) -> usize {
        (part.count * self.plan.memory.element_bytes) as usize
    }

    fn address(&mut self, part: Part) -> *mut u8 {
        let offset = (part.start * self.plan.memory.element_bytes) as usize;
        match part.buffer {
            Buffer::Input => self.plan.memory.input.cast_mut().wrapping_add(offset),
            Buffer::Output => self.plan.memory.output.wrapping_add(offset),
            Buffer::Scratch => self.scratch.as_mut_ptr().wrapping_add(offset),
        }
    }
}
