//! Executes one rank's program of one round.

use super::buffers::{self, Buffers, SendBuffer};
use super::ledger::Ledger;
use super::pending::{Execution, Owner, Pending};
use super::plan::{Message, MessageId, Pattern, ReceiveManner, Round, SendManner, SlotId, Step};
use super::verify::{self, Outcome, Post, outcome};
use crate::workload::error::{WorkloadError, ensure};
use crate::workload::prng::{Prng, combine};
use crate::workload::watchdog::Watchdog;
use refrain::{
    Error, Incoming, Layout, Outgoing, Request, Scope, SendTo, Source, Status, World, from,
    from_any, to,
};
use std::sync::Arc;

/// Runs a round on this rank and verifies everything that it received. Returns a checksum of the
/// received data, which the plan determines.
///
/// # Errors
/// Those of the library, and every violation of the plan or of MPI's rules.
pub fn round(
    world: &mut World,
    round: &Round,
    seed: u64,
    watchdog: &Watchdog,
    ledger: &mut Ledger,
) -> Result<u64, WorkloadError> {
    let rank = world.rank().0;
    let mut buffers = buffers::receive_buffers(round, rank);
    let posts = execute(world, round, seed, &mut buffers, watchdog, ledger)?;
    let received = verify::assign(round, rank, &posts).map_err(WorkloadError::Verification)?;
    buffers::check(&buffers, round, rank, &posts, &received)
        .map_err(WorkloadError::Verification)?;
    let hash =
        |&id: &MessageId| combine(&[round.messages[id].seed, round.messages[id].bytes as u64]);
    let hashes = received.iter().flatten().map(hash);
    Ok(hashes.fold(0, u64::wrapping_add))
}

fn execute(
    world: &mut World,
    round: &Round,
    seed: u64,
    buffers: &mut [Buffers],
    watchdog: &Watchdog,
    ledger: &mut Ledger,
) -> Result<Vec<Post>, WorkloadError> {
    let rank = world.rank().0;
    let outgoing = |message: &Message| match message.source == rank {
        true => SendBuffer::new(message),
        false => Ok(SendBuffer::default()),
    };
    let outgoing: Result<Vec<_>, _> = round.messages.iter().map(outgoing).collect();
    let layouts: Result<Vec<_>, _> = round.slots.iter().map(|slot| slot.shape.layout()).collect();
    let (outgoing, layouts) = (outgoing?, layouts?);
    let rooms = buffers.iter_mut();
    let rooms = rooms.map(|pair| pair.each_mut().map(|buffer| Some(buffer.room())));
    let rooms = rooms.collect();
    // A scope passes on only errors of the library.
    let mut failure = None;
    let result = world.scope(|scope| {
        let mut execution = Execution {
            scope,
            round,
            rank,
            prng: Prng::new(combine(&[seed, round.number, u64::from(rank), 0x72756e])),
            outgoing: &outgoing,
            layouts: &layouts,
            rooms,
            posts: Vec::new(),
            pending: Vec::new(),
            ledger,
        };
        execution.program(watchdog).map_err(|error| match error {
            WorkloadError::World(error) => error,
            other => {
                failure = Some(other);
                Error::Aborted("a workload failed".into())
            }
        })?;
        Ok(execution.posts)
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(result?),
    }
}

impl<'env> Execution<'_, '_, 'env> {
    fn program(&mut self, watchdog: &Watchdog) -> Result<(), WorkloadError> {
        let round = self.round;
        for (place, step) in round.programs[self.rank as usize].iter().enumerate() {
            let (number, rank) = (round.number, self.rank);
            let name = format!("step {place} ({})", self.explain(step));
            watchdog.place(format!("round {number}, rank {rank}, {name}"));
            self.step(step).map_err(|error| error.at(&name))?;
        }
        self.finish(watchdog)
            .map_err(|error| error.at("the end of the round"))
    }

    /// Description of a step, with its messages and slots.
    fn explain(&self, step: &Step) -> String {
        let slot = match step {
            Step::Post(slot) | Step::Receive(slot) => Some(slot),
            Step::ReceiveRepeatedly(slot, _) | Step::Exchange(_, slot) => Some(slot),
            _ => None,
        };
        let slot = slot.map(|slot| format!(": {:?}", self.round.slots[*slot]));
        let message = step.sends().first();
        let message = message.map(|id| format!(": {:?}", self.round.messages[*id]));
        format!(
            "{step:?}{}{}",
            message.unwrap_or_default(),
            slot.unwrap_or_default()
        )
    }

    fn step(&mut self, step: &Step) -> Result<(), WorkloadError> {
        let pending = self.pending.len();
        match step {
            Step::Post(slot) => self.post(*slot),
            Step::Receive(slot) => {
                self.receive(*slot)?;
                self.complete_from(pending)
            }
            Step::Send(message) => self.send(*message),
            Step::SendAndWait(message) => {
                self.send(*message)?;
                self.complete_from(pending)
            }
            Step::Exchange(message, slot) => self.exchange(*message, *slot),
            Step::SendRepeatedly(messages) => self.send_repeatedly(messages),
            Step::ReceiveRepeatedly(slot, times) => self.receive_repeatedly(*slot, *times),
            Step::Poke(completion) => self.poke(*completion),
            Step::Iprobe(pattern) => match self.scope.world().iprobe(source(*pattern))? {
                Some(status) => self.check_probed(*pattern, status),
                None => Ok(()),
            },
            Step::Await(completion) => self.await_receives(*completion),
            Step::Barrier => Ok(self.scope.world().barrier()?),
        }
    }

    fn data(&self, message: MessageId) -> Result<Outgoing<'env>, WorkloadError> {
        let outgoing: &'env [SendBuffer] = self.outgoing;
        let SendBuffer { data, layout } = &outgoing[message];
        Ok(match layout {
            Some(layout) => Outgoing::with_layout(data, layout).map_err(Error::from)?,
            None => Outgoing::from(data),
        })
    }

    /// Takes a buffer of a slot, and notes the post that uses it.
    fn open(
        &mut self,
        slot: SlotId,
        pattern: Pattern,
        second_buffer: bool,
    ) -> Result<(Incoming<'env>, usize), WorkloadError> {
        self.posts.push(Post {
            slot,
            pattern,
            second_buffer,
            outcome: None,
        });
        let room = self.rooms[slot][usize::from(second_buffer)].take();
        let room = room.expect("the plan uses each buffer once");
        let layouts: &'env [Option<Arc<Layout>>] = self.layouts;
        let room = match &layouts[slot] {
            Some(layout) => Incoming::with_layout(room, layout).map_err(Error::from)?,
            None => Incoming::from(room),
        };
        Ok((room, self.posts.len() - 1))
    }

    /// Receives with a call that returns after the message has arrived.
    fn receive_by(
        &mut self,
        slot: SlotId,
        pattern: Pattern,
        call: impl FnOnce(&mut World, Incoming<'env>) -> Result<Status, Error>,
    ) -> Result<Outcome, WorkloadError> {
        let (room, post) = self.open(slot, pattern, false)?;
        let outcome = outcome(call(self.scope.world(), room))?;
        self.posts[post].outcome = Some(outcome);
        Ok(outcome)
    }

    /// Receives with a call that returns a request.
    fn begin_by(
        &mut self,
        slot: SlotId,
        second_buffer: bool,
        call: impl FnOnce(&mut Scope<'_, 'env>, Incoming<'env>) -> Result<Request, Error>,
    ) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let (room, post) = self.open(slot, pattern, second_buffer)?;
        let request = call(self.scope, room)?;
        let owner = Owner::Receive(post);
        self.pending.push(Pending { request, owner });
        Ok(())
    }

    fn start(&mut self, request: &mut Request) -> Result<(), WorkloadError> {
        ensure!(
            !self.scope.is_active(request),
            "a persistent request is active before it was started"
        );
        self.scope.start(request)?;
        Ok(())
    }

    fn send(&mut self, id: MessageId) -> Result<(), WorkloadError> {
        let message = &self.round.messages[id];
        self.ledger.note(message);
        let data = self.data(id)?;
        let to = destination(message);
        let request = match message.manner {
            SendManner::Send => return Ok(self.scope.world().send(data, to)?),
            SendManner::Ssend => return Ok(self.scope.world().ssend(data, to)?),
            SendManner::Isend => self.scope.isend(data, to)?,
            SendManner::Issend => self.scope.issend(data, to)?,
            SendManner::Persistent | SendManner::PersistentSynchronous => {
                let mut request = self.persistent_send(id)?;
                self.start(&mut request)?;
                request
            }
            SendManner::Sendrecv => unreachable!("the plan has these only in exchanges"),
        };
        let owner = Owner::Send(id);
        self.pending.push(Pending { request, owner });
        Ok(())
    }

    fn persistent_send(&mut self, id: MessageId) -> Result<Request, WorkloadError> {
        let data = self.data(id)?;
        let message = &self.round.messages[id];
        Ok(match message.manner {
            SendManner::PersistentSynchronous => {
                self.scope.ssend_init(data, destination(message))?
            }
            _ => self.scope.send_init(data, destination(message))?,
        })
    }

    fn post(&mut self, slot: SlotId) -> Result<(), WorkloadError> {
        let from = source(self.round.slots[slot].pattern);
        match self.round.slots[slot].manner {
            ReceiveManner::Persistent => {
                self.begin_by(slot, false, |scope, room| scope.recv_init(room, from))?;
                let at = self.pending.len() - 1;
                let mut request = self.pending[at].request;
                self.start(&mut request)?;
                self.pending[at].request = request;
                Ok(())
            }
            ReceiveManner::ImprobeElseIrecv => match self.scope.world().improbe(from)? {
                None => self.irecv(slot, false),
                Some(message) => self.imrecv(slot, message),
            },
            ReceiveManner::CancelRace => self.cancel_race(slot),
            _ => self.irecv(slot, false),
        }
    }

    fn irecv(&mut self, slot: SlotId, second_buffer: bool) -> Result<(), WorkloadError> {
        let from = source(self.round.slots[slot].pattern);
        self.begin_by(slot, second_buffer, |scope, room| scope.irecv(room, from))
    }

    fn imrecv(&mut self, slot: SlotId, message: refrain::Message) -> Result<(), WorkloadError> {
        self.check_probed(self.round.slots[slot].pattern, message.status)?;
        self.begin_by(slot, false, |scope, room| scope.imrecv(room, message))
    }

    fn cancel_race(&mut self, slot: SlotId) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let (room, post) = self.open(slot, pattern, false)?;
        let mut request = self.scope.irecv(room, source(pattern))?;
        for _ in 0..self.prng.below(4) {
            // A message may or may not have arrived.
            self.scope.world().iprobe(source(pattern))?;
        }
        self.scope.cancel(&mut request)?;
        let result = self.scope.wait(&mut request);
        ensure!(
            request.is_null(),
            "a cancelled request is not null after it was waited for"
        );
        let outcome = outcome(result)?;
        self.posts[post].outcome = Some(outcome);
        match outcome {
            Outcome::Cancelled => self.irecv(slot, true),
            Outcome::Received { .. } => Ok(()),
        }
    }

    fn receive(&mut self, slot: SlotId) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let from = source(pattern);
        match self.round.slots[slot].manner {
            ReceiveManner::Recv => {
                self.receive_by(slot, pattern, |world, room| world.recv(room, from))?;
                Ok(())
            }
            ReceiveManner::ProbeRecv => {
                let probed = self.scope.world().probe(from)?;
                self.receive_probed(slot, probed)
            }
            ReceiveManner::IprobeRecv => {
                let probed = self.repeat(|world| world.iprobe(from))?;
                self.receive_probed(slot, probed)
            }
            ReceiveManner::MprobeMrecv => {
                let message = self.scope.world().mprobe(from)?;
                self.mrecv(slot, message)
            }
            ReceiveManner::MprobeImrecv => {
                let message = self.scope.world().mprobe(from)?;
                self.imrecv(slot, message)
            }
            ReceiveManner::ImprobeMrecv => {
                let message = self.repeat(|world| world.improbe(from))?;
                self.mrecv(slot, message)
            }
            ReceiveManner::ImprobeImrecv => {
                let message = self.repeat(|world| world.improbe(from))?;
                self.imrecv(slot, message)
            }
            _ => self.post(slot),
        }
    }

    /// Repeats a call until it finds a message.
    fn repeat<T>(
        &mut self,
        mut look: impl FnMut(&mut World) -> Result<Option<T>, Error>,
    ) -> Result<T, WorkloadError> {
        loop {
            if let Some(found) = look(self.scope.world())? {
                return Ok(found);
            }
            std::thread::yield_now();
        }
    }

    /// Receives after a probe, and checks that the message is that of the probe.
    fn receive_probed(&mut self, slot: SlotId, probed: Status) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        self.check_probed(pattern, probed)?;
        let exact = Pattern {
            source: Some(probed.source.0),
            tag: Some(probed.tag),
            ..pattern
        };
        let outcome =
            self.receive_by(slot, exact, |world, room| world.recv(room, source(exact)))?;
        ensure!(
            matches!(outcome, Outcome::Received { bytes, .. } if bytes == probed.bytes),
            "a probe found {probed:?}, the receive after it got {outcome:?}"
        );
        Ok(())
    }

    fn mrecv(&mut self, slot: SlotId, message: refrain::Message) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        self.check_probed(pattern, message.status)?;
        self.receive_by(slot, pattern, |world, room| world.mrecv(room, message))?;
        Ok(())
    }

    fn exchange(&mut self, message: MessageId, slot: SlotId) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let data = self.data(message)?;
        let to = destination(&self.round.messages[message]);
        self.ledger.note(&self.round.messages[message]);
        self.receive_by(slot, pattern, |world, room| {
            world.sendrecv(data, to, room, source(pattern))
        })?;
        Ok(())
    }

    fn send_repeatedly(&mut self, messages: &[MessageId]) -> Result<(), WorkloadError> {
        let mut request = self.persistent_send(messages[0])?;
        for _ in messages {
            // All messages are equal.
            self.ledger.note(&self.round.messages[messages[0]]);
            self.start_and_wait(&mut request)??;
        }
        Ok(())
    }

    fn receive_repeatedly(&mut self, slot: SlotId, times: usize) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let (room, first) = self.open(slot, pattern, false)?;
        let mut request = self.scope.recv_init(room, source(pattern))?;
        for post in first..first + times {
            if post > first {
                self.posts.push(Post {
                    outcome: None,
                    ..self.posts[first]
                });
            }
            let result = self.start_and_wait(&mut request)?;
            self.posts[post].outcome = Some(outcome(result)?);
        }
        Ok(())
    }

    /// Starts a request, and waits by a wait or by tests.
    fn start_and_wait(
        &mut self,
        request: &mut Request,
    ) -> Result<Result<Status, Error>, WorkloadError> {
        self.start(request)?;
        ensure!(
            self.scope.is_active(request),
            "a persistent request is inactive after it was started"
        );
        let result = match self.prng.chance(2) {
            true => self.scope.wait(request),
            false => loop {
                if let Some(result) = self.scope.test(request).transpose() {
                    break result;
                }
                std::thread::yield_now();
            },
        };
        ensure!(
            !self.scope.is_active(request),
            "a request is active after it was completed"
        );
        Ok(result)
    }

    /// Checks that a probe has found a message of the plan.
    fn check_probed(&self, pattern: Pattern, status: Status) -> Result<(), WorkloadError> {
        let found = (self.rank, status.source.0, status.tag, status.bytes);
        let is_found = |it: &&Message| {
            (it.destination, it.source, it.tag, it.bytes as u64) == found && pattern.admits(it)
        };
        ensure!(
            self.round.messages.iter().any(|it| is_found(&it)),
            "a probe for {pattern:?} found {status:?}, which is never sent"
        );
        Ok(())
    }
}

fn destination(message: &Message) -> SendTo {
    to(message.destination)
        .tag(message.tag)
        .context(message.context)
}

fn source(pattern: Pattern) -> Source {
    let source = pattern.source.map_or_else(from_any, from);
    let source = source.context(pattern.context);
    match pattern.tag {
        Some(tag) => source.tag(tag),
        None => source.any_tag(),
    }
}
