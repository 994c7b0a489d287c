//! Executes one rank's program of one round.

use super::buffers::{ReceiveBuffers, SendBuffer};
use super::ledger::Ledger;
use super::pending::{Owner, Pending};
use super::plan::{Message, MessageId, Pattern, ReceiveManner, Round, SendManner, SlotId, Step};
use super::verify::{self, Outcome, Post};
use crate::workload::collective;
use crate::workload::error::{WorkloadError, ensure};
use crate::workload::prng::{Prng, combine};
use crate::workload::watchdog::Watchdog;
use refrain::{
    Incoming, Layout, Outgoing, Request, Scope, SendTo, Source, Status, World, from, from_any, to,
};
use std::sync::Arc;

/// Runs a round on this rank and verifies all that it received. Returns a
/// checksum of what was received, which the plan determines.
///
/// # Errors
/// Those of the library, and everything that is not as it must be.
pub fn round(
    world: &mut World,
    round: &Round,
    seed: u64,
    watchdog: &Watchdog,
    ledger: &mut Ledger,
) -> Result<u64, WorkloadError> {
    let rank = world.rank().0;
    let mut buffers = ReceiveBuffers::new(round, rank);
    let posts = execute(world, round, seed, &mut buffers, watchdog, ledger)?;
    let received = verify::assign(round, rank, &posts).map_err(WorkloadError::Verification)?;
    buffers
        .check(round, rank, &posts, &received)
        .map_err(WorkloadError::Verification)?;
    let hash =
        |&id: &MessageId| combine(&[round.messages[id].seed, round.messages[id].bytes as u64]);
    Ok(received
        .iter()
        .flatten()
        .map(hash)
        .fold(0, u64::wrapping_add))
}

fn execute(
    world: &mut World,
    round: &Round,
    seed: u64,
    buffers: &mut ReceiveBuffers,
    watchdog: &Watchdog,
    ledger: &mut Ledger,
) -> Result<Vec<Post>, WorkloadError> {
    let rank = world.rank().0;
    let outgoing = round
        .messages
        .iter()
        .map(|message| {
            if message.source == rank {
                SendBuffer::new(message)
            } else {
                Ok(SendBuffer::default())
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let layouts = round
        .slots
        .iter()
        .map(|slot| slot.shape.layout())
        .collect::<Result<Vec<_>, _>>()?;
    // The scope speaks only of the library's errors.
    let mut failure = None;
    let result = world.scope(|scope| {
        let mut execution = Execution {
            scope,
            round,
            rank,
            prng: Prng::new(combine(&[seed, round.number, u64::from(rank), 0x72756e])),
            outgoing: &outgoing,
            layouts: &layouts,
            first: buffers
                .first
                .iter_mut()
                .map(|buffer| Some(buffer.room()))
                .collect(),
            second: buffers
                .second
                .iter_mut()
                .map(|buffer| Some(buffer.room()))
                .collect(),
            posts: Vec::new(),
            pending: Vec::new(),
            ledger,
        };
        execution.program(watchdog).map_err(|error| match error {
            WorkloadError::World(error) => error,
            other => {
                failure = Some(other);
                refrain::Error::Aborted("a workload failed".into())
            }
        })?;
        Ok(execution.posts)
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(result?),
    }
}

/// A rank in the middle of a round.
pub(super) struct Execution<'x, 's, 'env> {
    pub(super) scope: &'x mut Scope<'s, 'env>,
    pub(super) round: &'x Round,
    rank: u32,
    pub(super) prng: Prng,
    outgoing: &'env [SendBuffer],
    layouts: &'env [Option<Arc<Layout>>],
    first: Vec<Option<&'env mut [u8]>>,
    second: Vec<Option<&'env mut [u8]>>,
    /// In the order of posting.
    pub(super) posts: Vec<Post>,
    pub(super) pending: Vec<Pending>,
    ledger: &'x mut Ledger,
}

impl<'env> Execution<'_, '_, 'env> {
    fn program(&mut self, watchdog: &Watchdog) -> Result<(), WorkloadError> {
        let round = self.round;
        for (place, step) in round.programs[self.rank as usize].iter().enumerate() {
            let (number, rank) = (round.number, self.rank);
            watchdog.place(format!(
                "round {number}, rank {rank}, step {place} ({})",
                self.explain(step)
            ));
            self.step(step)
                .map_err(|error| error.at(&format!("step {place} ({})", self.explain(step))))?;
        }
        self.finish(watchdog)
            .map_err(|error| error.at("the end of the round"))
    }

    /// What is pending, for people.
    pub(super) fn whereabouts(&self) -> String {
        let (number, rank) = (self.round.number, self.rank);
        let mut place = format!("round {number}, rank {rank}, its end, still pending:");
        for pending in self.pending.iter().take(10) {
            let what = match pending.owner {
                Owner::Send(id) => format!(" send {id} {:?};", self.round.messages[id]),
                Owner::Receive { post, .. } | Owner::Never { post } => {
                    let slot = self.posts[post].slot;
                    format!(" receive {slot} {:?};", self.round.slots[slot])
                }
            };
            place.push_str(&what);
        }
        place
    }

    /// A step with the plan's words for what it handles.
    fn explain(&self, step: &Step) -> String {
        match step {
            Step::Post(slot) | Step::Receive(slot) | Step::ReceiveRepeatedly(slot, _) => {
                format!("{step:?}: {:?}", self.round.slots[*slot])
            }
            Step::Exchange(message, slot) => {
                format!(
                    "{step:?}: {:?}, {:?}",
                    self.round.messages[*message], self.round.slots[*slot]
                )
            }
            _ => match step.sends() {
                [] => format!("{step:?}"),
                [message, ..] => format!("{step:?}: {:?}", self.round.messages[*message]),
            },
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), WorkloadError> {
        match step {
            Step::Post(slot) => self.post(*slot),
            Step::Receive(slot)
                if ReceiveManner::IMMEDIATE.contains(&self.round.slots[*slot].manner) =>
            {
                let pending = self.pending.len();
                self.post(*slot)?;
                self.complete_from(pending)
            }
            Step::Receive(slot) => self.receive(*slot),
            Step::Send(message) => self.send(*message),
            Step::SendAndWait(message) => {
                let pending = self.pending.len();
                self.send(*message)?;
                self.complete_from(pending)
            }
            Step::Exchange(message, slot) => self.exchange(*message, *slot),
            Step::SendRepeatedly(messages) => self.send_repeatedly(messages),
            Step::ReceiveRepeatedly(slot, times) => self.receive_repeatedly(*slot, *times),
            Step::Poke(completion) => self.poke(*completion),
            Step::Iprobe(pattern) => {
                if let Some(status) = self.scope.world().iprobe(source(*pattern))? {
                    self.check_probed(*pattern, status)?;
                }
                Ok(())
            }
            Step::Await(completion) => self.await_receives(*completion),
            Step::Barrier => collective::barrier(self.scope.world()),
        }
    }

    fn data(&self, message: MessageId) -> Result<Outgoing<'env>, WorkloadError> {
        let outgoing: &'env [SendBuffer] = self.outgoing;
        let buffer = &outgoing[message];
        Ok(match &buffer.layout {
            Some(layout) => {
                Outgoing::with_layout(&buffer.data, layout).map_err(refrain::Error::from)?
            }
            None => Outgoing::from(&buffer.data),
        })
    }

    fn room(&mut self, slot: SlotId, second: bool) -> Result<Incoming<'env>, WorkloadError> {
        let rooms = if second {
            &mut self.second
        } else {
            &mut self.first
        };
        let room = rooms[slot].take().expect("the plan uses each buffer once");
        let layouts: &'env [Option<Arc<Layout>>] = self.layouts;
        Ok(match &layouts[slot] {
            Some(layout) => Incoming::with_layout(room, layout).map_err(refrain::Error::from)?,
            None => Incoming::from(room),
        })
    }

    fn note_post(&mut self, slot: SlotId, pattern: Pattern, second_buffer: bool) -> usize {
        self.posts.push(Post {
            slot,
            pattern,
            second_buffer,
            outcome: None,
        });
        self.posts.len() - 1
    }

    fn push_receive(&mut self, request: Request, post: usize) {
        let may_truncate = self.round.slots[self.posts[post].slot].may_truncate;
        self.pending.push(Pending {
            request,
            owner: Owner::Receive { post, may_truncate },
        });
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
                self.scope.start(&mut request)?;
                request
            }
            SendManner::Sendrecv => unreachable!("the plan has these only in exchanges"),
        };
        self.pending.push(Pending {
            request,
            owner: Owner::Send(id),
        });
        Ok(())
    }

    fn persistent_send(&mut self, id: MessageId) -> Result<Request, WorkloadError> {
        let data = self.data(id)?;
        let message = &self.round.messages[id];
        let request = if message.manner == SendManner::PersistentSynchronous {
            self.scope.ssend_init(data, destination(message))?
        } else {
            self.scope.send_init(data, destination(message))?
        };
        ensure!(
            !self.scope.is_active(&request),
            "a persistent request is active before it was started"
        );
        Ok(request)
    }

    fn post(&mut self, slot: SlotId) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        match self.round.slots[slot].manner {
            ReceiveManner::Persistent => {
                let room = self.room(slot, false)?;
                let mut request = self.scope.recv_init(room, source(pattern))?;
                ensure!(
                    !self.scope.is_active(&request),
                    "a persistent request is active before it was started"
                );
                let post = self.note_post(slot, pattern, false);
                self.scope.start(&mut request)?;
                self.push_receive(request, post);
            }
            ReceiveManner::ImprobeElseIrecv => match self.scope.world().improbe(source(pattern))? {
                None => self.irecv(slot, false)?,
                Some(message) => self.imrecv(slot, message)?,
            },
            ReceiveManner::CancelRace => self.cancel_race(slot)?,
            ReceiveManner::CancelNever => {
                self.irecv(slot, false)?;
                if let Some(Pending { owner, .. }) = self.pending.last_mut() {
                    *owner = Owner::Never {
                        post: self.posts.len() - 1,
                    };
                }
            }
            _ => self.irecv(slot, false)?,
        }
        Ok(())
    }

    fn irecv(&mut self, slot: SlotId, second: bool) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let room = self.room(slot, second)?;
        let post = self.note_post(slot, pattern, second);
        let request = self.scope.irecv(room, source(pattern))?;
        self.push_receive(request, post);
        Ok(())
    }

    fn imrecv(&mut self, slot: SlotId, message: refrain::Message) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        self.check_probed(pattern, message.status)?;
        let room = self.room(slot, false)?;
        let post = self.note_post(slot, pattern, false);
        let request = self.scope.imrecv(room, message)?;
        self.push_receive(request, post);
        Ok(())
    }

    fn cancel_race(&mut self, slot: SlotId) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let room = self.room(slot, false)?;
        let post = self.note_post(slot, pattern, false);
        let mut request = self.scope.irecv(room, source(pattern))?;
        for _ in 0..self.prng.below(4) {
            // Something may arrive, or not.
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
        if outcome == Outcome::Cancelled {
            self.irecv(slot, true)?;
        }
        Ok(())
    }

    fn receive(&mut self, slot: SlotId) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        match self.round.slots[slot].manner {
            ReceiveManner::ProbeRecv => {
                let probed = self.scope.world().probe(source(pattern))?;
                self.receive_probed(slot, probed)
            }
            ReceiveManner::IprobeRecv => {
                let probed = self.repeat(|world| world.iprobe(source(pattern)))?;
                self.receive_probed(slot, probed)
            }
            ReceiveManner::MprobeMrecv => {
                let message = self.scope.world().mprobe(source(pattern))?;
                self.mrecv(slot, message)
            }
            ReceiveManner::MprobeImrecv => {
                let message = self.scope.world().mprobe(source(pattern))?;
                self.imrecv(slot, message)?;
                self.complete_from(self.pending.len() - 1)
            }
            ReceiveManner::ImprobeMrecv => {
                let message = self.repeat(|world| world.improbe(source(pattern)))?;
                self.mrecv(slot, message)
            }
            ReceiveManner::ImprobeImrecv => {
                let message = self.repeat(|world| world.improbe(source(pattern)))?;
                self.imrecv(slot, message)?;
                self.complete_from(self.pending.len() - 1)
            }
            _ => self.recv(slot, pattern).map(|_| ()),
        }
    }

    /// Until there is something.
    fn repeat<T>(
        &mut self,
        mut look: impl FnMut(&mut World) -> Result<Option<T>, refrain::Error>,
    ) -> Result<T, WorkloadError> {
        loop {
            if let Some(found) = look(self.scope.world())? {
                return Ok(found);
            }
            std::thread::yield_now();
        }
    }

    fn recv(&mut self, slot: SlotId, pattern: Pattern) -> Result<Outcome, WorkloadError> {
        let room = self.room(slot, false)?;
        let post = self.note_post(slot, pattern, false);
        let outcome = outcome(self.scope.world().recv(room, source(pattern)))?;
        self.posts[post].outcome = Some(outcome);
        Ok(outcome)
    }

    /// A receive after a probe gets the message that the probe has seen.
    fn receive_probed(&mut self, slot: SlotId, probed: Status) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        self.check_probed(pattern, probed)?;
        let exact = Pattern {
            source: Some(probed.source.0),
            tag: Some(probed.tag),
            ..pattern
        };
        let outcome = self.recv(slot, exact)?;
        let bytes = match outcome {
            Outcome::Received { bytes, .. } | Outcome::Truncated { bytes, .. } => bytes,
            Outcome::Cancelled => {
                return Err(WorkloadError::Verification("a recv was cancelled".into()));
            }
        };
        ensure!(
            bytes == probed.bytes,
            "a probe found {probed:?}, the receive after it got {outcome:?}"
        );
        Ok(())
    }

    fn mrecv(&mut self, slot: SlotId, message: refrain::Message) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let probed = message.status;
        self.check_probed(pattern, probed)?;
        let room = self.room(slot, false)?;
        let post = self.note_post(slot, pattern, false);
        let outcome = outcome(self.scope.world().mrecv(room, message))?;
        self.posts[post].outcome = Some(outcome);
        Ok(())
    }

    fn exchange(&mut self, message: MessageId, slot: SlotId) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let data = self.data(message)?;
        let room = self.room(slot, false)?;
        let post = self.note_post(slot, pattern, false);
        let to = destination(&self.round.messages[message]);
        self.ledger.note(&self.round.messages[message]);
        let result = self.scope.world().sendrecv(data, to, room, source(pattern));
        self.posts[post].outcome = Some(outcome(result)?);
        Ok(())
    }

    fn send_repeatedly(&mut self, messages: &[MessageId]) -> Result<(), WorkloadError> {
        let mut request = self.persistent_send(messages[0])?;
        for _ in messages {
            // The same message each time.
            self.ledger.note(&self.round.messages[messages[0]]);
            self.scope.start(&mut request)?;
            ensure!(
                self.scope.is_active(&request),
                "a persistent request is inactive after it was started"
            );
            self.wait_somehow(&mut request)??;
        }
        Ok(())
    }

    fn receive_repeatedly(&mut self, slot: SlotId, times: usize) -> Result<(), WorkloadError> {
        let pattern = self.round.slots[slot].pattern;
        let room = self.room(slot, false)?;
        let mut request = self.scope.recv_init(room, source(pattern))?;
        for _ in 0..times {
            let post = self.note_post(slot, pattern, false);
            self.scope.start(&mut request)?;
            ensure!(
                self.scope.is_active(&request),
                "a persistent request is inactive after it was started"
            );
            let result = self.wait_somehow(&mut request)?;
            self.posts[post].outcome = Some(outcome(result)?);
        }
        Ok(())
    }

    /// By a wait, or by tests.
    fn wait_somehow(
        &mut self,
        request: &mut Request,
    ) -> Result<Result<Status, refrain::Error>, WorkloadError> {
        let result = if self.prng.chance(2) {
            self.scope.wait(request)
        } else {
            loop {
                if let Some(result) = self.scope.test(request).transpose() {
                    break result;
                }
                std::thread::yield_now();
            }
        };
        ensure!(
            !self.scope.is_active(request),
            "a request is active after it was completed"
        );
        Ok(result)
    }

    /// Whether a probe found something that may be there.
    fn check_probed(&self, pattern: Pattern, status: Status) -> Result<(), WorkloadError> {
        let possible = self.round.messages.iter().any(|message| {
            message.destination == self.rank
                && pattern.admits(message)
                && message.source == status.source.0
                && message.tag == status.tag
                && message.bytes as u64 == status.bytes
        });
        ensure!(
            possible,
            "a probe for {pattern:?} found {status:?}, which nobody sends"
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
    let source = pattern
        .source
        .map_or_else(from_any, from)
        .context(pattern.context);
    match pattern.tag {
        Some(tag) => source.tag(tag),
        None => source.any_tag(),
    }
}

/// What became of a receive, as the library says.
pub(super) fn outcome(result: Result<Status, refrain::Error>) -> Result<Outcome, WorkloadError> {
    match result {
        Ok(status) if status.cancelled => Ok(Outcome::Cancelled),
        Ok(status) => Ok(Outcome::Received {
            source: status.source.0,
            tag: status.tag,
            bytes: status.bytes,
        }),
        Err(refrain::Error::Truncated {
            source_rank,
            tag,
            message_bytes,
            buffer_bytes,
        }) => Ok(Outcome::Truncated {
            source: source_rank.0,
            tag,
            bytes: message_bytes,
            room_bytes: buffer_bytes,
        }),
        Err(error) => Err(error.into()),
    }
}
