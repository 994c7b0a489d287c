//! The point-to-point engine of one rank.
//!
//! Deterministic given the order of calls and arrivals. Never blocks and reads no clock: the caller
//! loops over [`Engine::progress`] and [`Engine::wait`]. Not for concurrent callers: all methods
//! take `&mut self`, and the raw buffers inside make the type neither `Send` nor `Sync`. Whether it
//! may move to another thread depends on its fabric, its protocol and the lenders of buffers: its
//! owner decides.
//!
//! A message travels in one of three ways. *Eager in one frame*: the call that sends it packs it
//! into the log and posts it. *Eager in fragments*: it is packed frame by frame, and each frame is
//! posted while the next is packed. *Rendezvous*: it is announced first, and packed when the
//! receiver has matched it; used for messages that would fill a log whose memory is reused. A log
//! that keeps its payload takes all messages eagerly, since they must be in it anyway (LOG-1).
//!
//! If the fabric can read the sender's log remotely, long frames arrive *distant*: their payload is
//! read straight into the receive's buffer if the buffer has contiguous room, else into staging
//! memory, from which it is unpacked. A receive is over when all of its message has landed. If
//! senders keep their logs, unexpected messages stay there until a receive needs them; if senders
//! reuse their logs, unexpected messages are staged at once.
//!
//! Beside the program's messages there are those of internal operations, whose steps
//! are issued by progress at any time ([`InternalOperation`], docs/design/internal-operations.md).
//!
//! Peers may die and come back, and the rank itself may be a later life ([`Engine::fence`],
//! [`Engine::connect`], [`Engine::with_beginning`]): each of two ranks reports to the other which
//! messages it misses, and each posts the missing messages again from its log before any others.
//! This needs a protocol that keeps payload.

mod at_once;
mod beginning;
mod buffer;
mod carrying;
mod destination;
mod detaching;
mod error;
mod events;
mod fencing;
mod horizon;
mod inbox;
mod inside;
mod keeping;
mod landing;
mod lane;
mod meeting;
mod operation;
mod outbox;
mod per_rank;
mod publishing;
mod read_back;
mod receiving;
mod replay_matcher;
mod replaying;
mod request;
mod resting;
mod send_to;
mod set;
mod source;
mod spilling;
mod stalling;
mod statistics;
mod stored;
mod telling;
mod to_self;
mod unrecorded;
mod void;
mod waiting;
mod whole;

pub use beginning::{Beginning, NotBetween, Undelivered};
pub use buffer::{Bytes, Data, Incoming, Outgoing, ReceiveBuffer, SendBuffer, Taker};
pub use carrying::CARRIER_CONTEXT;
pub use error::EngineError;
pub use horizon::Horizon;
pub use inside::Inside;
pub use operation::InternalOperation;
pub use publishing::Publication;
pub use read_back::ReadBack;
pub use refrain_ring::read_back::{Progress, ReadBackError};
pub use request::{Outcome, RequestId, Status};
pub use send_to::SendTo;
pub use source::Delivered;
pub use stalling::Stall;
pub use statistics::Statistics;
pub use whole::{ResultName, ResultPart};

use crate::control::Control;
use crate::divergence::Comparison;
use crate::fabric::{Attributes, Fabric, FabricError};
use crate::gate::{Gate, Mark};
use crate::protocol::Protocol;
use crate::recorded::PreviousSends;
use crate::spill::Spill;
use carrying::Carrier;
use destination::{Limits, NewDestination, Sides};
use fencing::{Lives, lives_at_start};
use inbox::{Delivery, Inbox};
use operation::Operations;
use outbox::{LogMeans, Means, Outbox};
use refrain_ring::copy::Target;
use refrain_ring::{Arena, Clock, Incarnation, Rank, SharedPayload, Ssn, Stream};
use request::{RequestState, Requests, Sending};
use set::Set;
use source::NewSource;
use spilling::Spilling;
use std::sync::Arc;
use unrecorded::Unrecorded;
use whole::WholeState;

/// Maximum number of events that are not stable before commits are polled, while messages arrive
/// and none leaves.
const UNSTABLE_MAX: u64 = 64;

/// The rank of an engine, and the limit of its channel logs.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// This rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Ranks of the job.
    pub size: u32,
    /// Bytes that one channel's log may hold before its receiver has consumed them; with a protocol
    /// that keeps payload, before a horizon frees them or they are on disk.
    pub window_bytes: u64,
}

/// A send that has begun.
#[derive(Clone, Copy, Debug)]
pub enum Started {
    /// It has ended. Whether a send ends at once depends on the room in the log.
    Done(Outcome),
    /// It is in progress.
    Pending(RequestId),
}

/// A message taken by a matched probe.
#[derive(Debug)]
pub struct Matched {
    index: usize,
    /// Its status.
    pub status: Status,
}

/// The engine of one rank; see the [module](self).
pub struct Engine<P: Protocol> {
    options: EngineOptions,
    fabric: Box<dyn Fabric>,
    protocol: P,
    /// See [`Protocol::commits_early`].
    commits_early: bool,
    /// See [`Protocol::carries`].
    carries: bool,
    /// Whether commits were advanced, or a message carried events, since the protocol was last idle.
    protocol_worked: bool,
    arena: Arena,
    shared: SharedPayload,
    /// Lengths from which on the payload of a published message is shared.
    shared_bytes_min: u64,
    gate: Gate,
    clock: Clock,
    requests: Requests,
    inbox: Inbox,
    outbox: Outbox,
    statistics: Statistics,
    spilling: Spilling,
    /// Whether a checkpoint was requested and memory is still short.
    has_asked: bool,
    /// The log keeps no messages any more. LOG-7
    has_stopped_keeping: bool,
    /// The peer that did not end a landing, so that the fabric was closed.
    closed_for: Option<Rank>,
    /// The clock of the newest checkpoint that was published.
    published: Clock,
    /// By rank.
    lives: Vec<Lives>,
    /// Whether operations take the slow path: records are replayed, or sends are compared with
    /// earlier ones, or a peer may have more messages than were sent, or a halt is set.
    plays_again: bool,
    previous_sends: Option<Box<dyn PreviousSends>>,
    /// Present in a later life. REC-9
    unrecorded: Option<Unrecorded>,
    /// The result of the comparison with previous sends so far.
    comparison: Comparison,
    /// Names the call that the program is in, for reports.
    name_call: Option<fn() -> String>,
    /// The message that is compared. The memory is reused.
    packed_again: Vec<u8>,
    halt: Option<Halt>,
    /// Events for which emissions wait that do not pass the outbox.
    settling: Mark,
    /// Whether a part of a log was read and its reader continues.
    has_read: bool,
    operations: Operations,
    /// Of collectives whose results are kept.
    whole: WholeState,
    set: Set,
    /// Requests of one completion. The memory is reused.
    completed: Vec<Clock>,
}

/// An action that runs when an operation is about to be counted.
struct Halt {
    at: Clock,
    act: Box<dyn FnMut()>,
}

impl<P: Protocol> core::fmt::Debug for Engine<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.options)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl<P: Protocol> Engine<P> {
    /// Creates an engine over a fabric whose log memory is `arena`. In a first life that fabric is
    /// connected with the first lives of all peers; in a later one it is not yet connected with any
    /// peer ([`Engine::connect`]).
    pub fn new(options: EngineOptions, arena: Arena, fabric: Box<dyn Fabric>, protocol: P) -> Self {
        let keeps_payload = protocol.keeps_payload();
        let is_first = options.incarnation == Incarnation(0);
        let attributes_to = |peer| fabric.attributes_to(peer);
        let (sides, mut attributes) = Sides::of(options.size, options.rank, attributes_to);
        if attributes.is_empty() {
            attributes.push(fabric.attributes());
        }
        let sides = Arc::new(sides);
        let kept_bytes = keeps_payload.then(|| arena.budget_bytes().min(options.window_bytes));
        let limits = |of: &&Attributes| Limits::new(of, kept_bytes);
        let new_destination = NewDestination {
            rank: options.rank,
            incarnation: options.incarnation,
            window_bytes: options.window_bytes,
            sides: Arc::clone(&sides),
            limits: attributes.iter().map(limits).collect(),
            meets_later: false,
        };
        let new_source = NewSource {
            sides,
            reads_in_place: attributes.iter().map(|of| of.reads_in_place).collect(),
            skips: false,
        };
        let mut gate = Gate::default();
        gate.note_events(protocol.unstable_at_start());
        Self {
            clock: Clock(0),
            gate,
            requests: Requests::default(),
            inbox: Inbox::new(
                new_source,
                options.size,
                keeps_payload,
                protocol.logs_every_reception(),
                options.incarnation,
            ),
            outbox: Outbox::new(new_destination, options.size),
            statistics: Statistics::default(),
            spilling: Spilling::default(),
            has_asked: false,
            has_stopped_keeping: false,
            closed_for: None,
            published: Clock(0),
            lives: lives_at_start(options.size, options.rank, is_first),
            plays_again: !is_first,
            previous_sends: None,
            unrecorded: (!is_first).then(|| {
                let peers = (0..options.size).map(Rank);
                Unrecorded::new(peers.filter(|peer| *peer != options.rank))
            }),
            comparison: Comparison::default(),
            name_call: None,
            packed_again: Vec::new(),
            halt: None,
            settling: Mark::default(),
            has_read: false,
            operations: Operations::default(),
            whole: WholeState::default(),
            set: Set::default(),
            completed: Vec::new(),
            options,
            fabric,
            commits_early: protocol.commits_early(),
            carries: protocol.carries(),
            protocol,
            protocol_worked: false,
            shared: SharedPayload::new(options.rank, options.incarnation, 0),
            shared_bytes_min: u64::MAX,
            arena,
        }
    }

    /// Adds a disk to which full chunks of the log go when memory is short. It is useful only with
    /// a protocol that keeps payload.
    #[must_use]
    pub fn with_spill(mut self, disk: Box<dyn Spill>) -> Self {
        // The log to itself is a channel, too, if results are kept.
        let channels = self.options.size - 1 + u32::from(self.keeps_results());
        self.spilling = Spilling::new(disk, channels);
        // Messages of any length fit: the log is freed while they pass through it.
        self.outbox.change_limits(|limits| {
            limits.message_bytes_max = u64::MAX;
            limits.target = Target::Streaming;
        });
        // Senders reuse their memory: messages that stay in their logs stall them.
        self.inbox.senders_keep = false;
        self
    }

    /// Sets the clock to that of an earlier life or its checkpoint. The engine must not have done
    /// anything yet.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self.inbox.now = clock;
        self
    }

    /// Adds an action that runs when the operation with this clock begins: to stop or kill a rank
    /// at one point of its execution.
    #[must_use]
    pub fn with_halt(mut self, at: Clock, act: Box<dyn FnMut()>) -> Self {
        self.halt = Some(Halt { at, act });
        self.plays_again = true;
        self
    }

    /// Counts a library operation and returns its clock.
    #[inline]
    pub fn tick(&mut self) -> Clock {
        if self.plays_again {
            return self.tick_again();
        }
        self.count()
    }

    #[inline]
    fn count(&mut self) -> Clock {
        self.clock = Clock(self.clock.0 + 1);
        // Events of matches during this operation carry its clock.
        self.inbox.now = self.clock;
        self.clock
    }

    /// The clock of the last operation.
    #[inline]
    pub fn now(&self) -> Clock {
        self.clock
    }

    /// Begins a send.
    ///
    /// # Errors
    /// When the log can never hold the message, or the system has no memory.
    ///
    /// # Panics
    /// When the job has no such rank.
    // Inlined always, so that the description of the message stays in registers: see `Requests`.
    #[inline(always)]
    pub fn start_send(&mut self, data: impl Data, to: SendTo) -> Result<Started, EngineError> {
        if self.plays_again {
            return self.start_send_again(data.into(), to);
        }
        let clock = self.count();
        self.send_on(Stream::PROGRAM, clock, data, to)
    }

    #[cold]
    fn start_send_again(
        &mut self,
        mut buffer: SendBuffer,
        to: SendTo,
    ) -> Result<Started, EngineError> {
        let clock = self.tick_to_send(&mut buffer, to)?;
        self.send_on(Stream::PROGRAM, clock, buffer, to)
    }

    /// The outbox, and the parts of the engine that it needs to send.
    #[inline(always)]
    fn sending(&mut self) -> (&mut Outbox, Means<'_>) {
        let log = LogMeans {
            fabric: &mut *self.fabric,
            arena: &mut self.arena,
            shared: &mut self.shared,
            gate: &self.gate,
            spilling: &mut self.spilling,
        };
        let means = Means {
            log,
            requests: &mut self.requests,
            statistics: &mut self.statistics,
            carrier: match self.carries {
                true => Some(Carrier(&mut self.protocol)),
                false => None,
            },
        };
        (&mut self.outbox, means)
    }

    /// The inbox with the parts of the engine that it needs for matches, and the fabric.
    #[inline(always)]
    fn delivery(&mut self) -> (Delivery<'_, P>, &mut dyn Fabric) {
        let delivery = Delivery {
            inbox: &mut self.inbox,
            requests: &mut self.requests,
            protocol: &mut self.protocol,
            statistics: &mut self.statistics,
        };
        (delivery, &mut *self.fabric)
    }

    /// Begins a send on a stream. If the send is an operation, it is already counted.
    #[inline(always)]
    fn send_on(
        &mut self,
        stream: Stream,
        clock: Clock,
        data: impl Data,
        to: SendTo,
    ) -> Result<Started, EngineError> {
        let bytes = data.message_bytes();
        if self.gate.is_closed() && !self.carries {
            self.advance_protocol(self.gate.mark());
        }
        self.statistics.messages_sent += 1;
        self.statistics.bytes_sent += bytes;
        if to.rank == self.options.rank {
            let ssn = self.next_ssn(to.rank, stream);
            return Ok(self.send_to_self(clock, Sending::new(data.into(), to, ssn)));
        }
        let destination = &mut self.outbox.destinations[to.rank.index()];
        if bytes > destination.limits.message_bytes_max {
            return Err(self.longer_than_log(bytes));
        }
        if bytes > destination.limits.at_once_bytes_max || !destination.is_clear() {
            return self.send_in_turn(stream, clock, data.into(), to, None);
        }
        match self.gate.pass() {
            // A fabric that takes the message before the log does needs the buffer.
            Some(pass) if destination.limits.stages(bytes as usize) => {
                let (gate, buffer) = ((pass, self.gate.mark()), data.into());
                self.send_staged(gate, (stream, clock), buffer, to)
            }
            Some(pass) => {
                let gate = (pass, self.gate.mark());
                self.send_at_once::<false, _>(gate, &[], (stream, clock), data, to)
            }
            None if self.carries => self.send_attached((stream, clock), data.into(), to),
            None => self.send_in_turn(stream, clock, data.into(), to, None),
        }
    }

    /// Takes the SSN of the next message of a stream.
    fn next_ssn(&mut self, to: Rank, stream: Stream) -> Ssn {
        self.outbox.destinations[to.index()].next.take_next(stream)
    }

    /// Begins a send that takes more than one record, or has others before it.
    fn send_in_turn(
        &mut self,
        stream: Stream,
        clock: Clock,
        buffer: SendBuffer,
        to: SendTo,
        publication: Option<Publication>,
    ) -> Result<Started, EngineError> {
        let ssn = self.next_ssn(to.rank, stream);
        let sending = Sending {
            publication,
            ..Sending::new(buffer, to, ssn)
        };
        let id = self.requests.add_send(clock, sending);
        self.outbox.enqueue(to.rank, id);
        let (outbox, mut means) = self.sending();
        if let Err(error) = outbox.pump(to.rank, &mut means) {
            // The caller has no id for the request; its SSN stays used.
            self.detach(id);
            return Err(error);
        }
        Ok(match self.requests.outcome(id) {
            Some(outcome) => {
                self.requests.remove(id);
                Started::Done(outcome)
            }
            None => Started::Pending(id),
        })
    }

    #[cold]
    fn longer_than_log(&self, message_bytes: u64) -> EngineError {
        EngineError::LongerThanLog {
            message_bytes,
            budget_bytes: self.arena.budget_bytes().min(self.options.window_bytes),
        }
    }

    /// The outcome of a request, if it has ended.
    #[inline]
    pub fn outcome(&self, id: RequestId) -> Option<Outcome> {
        self.requests.outcome(id)
    }

    /// Whether a request has ended.
    #[inline]
    pub fn has_ended(&self, id: RequestId) -> bool {
        let state = self.requests.get(id).map(|request| &request.state);
        matches!(state, Some(RequestState::Done(_)))
    }

    /// A request's id in events: the clock at which it was posted.
    pub fn posted_at(&self, id: RequestId) -> Option<Clock> {
        self.requests.get(id).map(|request| request.posted_at)
    }

    /// Removes a request that has ended.
    #[inline]
    pub fn retire(&mut self, id: RequestId) {
        // One branch: `|`.
        if self.plays_again | self.operations.is_any_open() {
            self.note_end(id);
        }
        self.requests.remove(id);
    }

    /// The outcome of a request, if it has ended. The request is retired then.
    #[inline]
    pub fn take(&mut self, id: RequestId) -> Option<Outcome> {
        // One branch: `|`.
        if self.plays_again | self.operations.is_any_open() {
            let outcome = self.requests.outcome(id)?;
            self.retire(id);
            return Some(outcome);
        }
        self.requests.take(id)
    }

    /// Retires a request that has ended, after a look at its outcome. Returns false, and does nothing,
    /// if it has not ended, or if more is to be done at its end: then [take](Self::take) it.
    #[inline(always)]
    pub fn take_with(&mut self, id: RequestId, look: impl FnOnce(&Outcome)) -> bool {
        // One branch: `|`.
        !(self.plays_again | self.operations.is_any_open()) && self.requests.take_with(id, look)
    }

    /// Makes progress wherever possible; returns whether anything arrived.
    ///
    /// # Errors
    /// When a peer, the fabric or the log is broken.
    #[inline]
    pub fn progress(&mut self) -> Result<bool, EngineError> {
        let (mut delivery, fabric) = self.delivery();
        let polled = fabric.poll(&mut delivery);
        let arrived = !matches!(polled, Ok(0));
        if arrived {
            self.after_arrivals(polled)?;
        } else if self.inbox.violation.is_some()
            || !self.inbox.lost.is_empty()
            || self.closed_for.is_some()
        {
            self.fault()?;
        }
        // If no emission waits, the program first gets what has arrived.
        let can_wait = arrived && !self.outbox.has_work() && self.gate.unstable() < UNSTABLE_MAX;
        if self.gate.is_closed() && !can_wait {
            self.advance_protocol(self.wanted());
        }
        if self.spilling.is_under_way() {
            self.outbox.after_disk(&mut self.spilling);
        }
        if self.outbox.has_work() {
            let (outbox, mut means) = self.sending();
            outbox.progress(&mut means)?;
            self.ask_for_checkpoint();
        }
        if (self.protocol_worked | self.inbox.has_carried) && !arrived {
            self.inbox.has_carried = false;
            self.protocol_worked = false;
            self.protocol.idle();
            self.tell_protocols();
        }
        Ok(arrived)
    }

    /// Opens the gate as far as events are stable. GATE-1, GATE-2
    fn advance_protocol(&mut self, wanted: Mark) {
        let stable = self.protocol.advance(wanted.0);
        self.gate.note_stable(stable);
        // Where messages carry events, only messages change anything.
        self.protocol_worked |= !self.carries;
        self.tell_protocols();
    }

    /// The outcome of a blocking call's request, if it has ended. The request is retired then, and
    /// the call returns.
    #[inline(always)]
    pub fn finish(&mut self, id: RequestId) -> Option<Outcome> {
        let outcome = self.requests.outcome(id)?;
        self.end_call(id);
        Some(outcome)
    }

    // A function of its own: a waiting rank calls `finish` at each poll, and only a short function
    // is inlined there.
    #[inline(never)]
    fn end_call(&mut self, id: RequestId) {
        self.retire(id);
        self.operation_ended();
    }

    /// Called when an operation whose outcome may be an event returns to the program.
    #[inline]
    pub fn operation_ended(&mut self) {
        if self.commits_early && self.gate.is_closed() {
            self.protocol.operation_ended();
            self.tell_protocols();
        }
    }

    /// Requests one checkpoint while the sender waits for memory. LOG-3
    fn ask_for_checkpoint(&mut self) {
        let is_short = self.outbox.stall.is_some_and(Stall::is_of_memory);
        if is_short && !self.has_asked {
            self.protocol.wants_checkpoint();
        }
        self.has_asked = is_short;
    }

    /// Handles arrivals, also after a fault: earlier arrivals count, and their matches close the
    /// gate (GATE-1).
    fn after_arrivals(&mut self, polled: Result<usize, FabricError>) -> Result<(), EngineError> {
        let mut controls = core::mem::take(&mut self.inbox.controls_in);
        for (from, control) in controls.drain(..) {
            match control {
                Control::ClearToSend { ssn } => self.outbox.clear_to_send(from, ssn),
                Control::Matched { ssn } => self.outbox.matched(from, ssn, &mut self.requests),
                Control::Horizon { ssn } => {
                    let (outbox, mut means) = self.sending();
                    outbox.horizon(from, ssn, &mut means);
                }
                Control::Restart { ssn, others } => self.peer_misses(from, ssn, others),
                Control::AskMatched { ssn } => self.inbox.answer_again(from, ssn),
                Control::Collective {
                    report,
                    context,
                    name,
                } => self.whole.reports.push((from, report, context, name)),
                Control::Freed { ssn } => self.inbox.sources[from.index()].pass_gap(ssn),
                Control::Protocol(piece) => self.protocol_hears(from, &piece),
                Control::Token { round } => self.token_comes(from, round),
                Control::TokenSeen { round } => self.set.token_seen(from, round),
            }
        }
        // The memory is reused.
        self.inbox.controls_in = controls;
        while let Some(source) = self.inbox.pressed.pop() {
            self.inbox.copy_out(source, &mut *self.fabric);
        }
        self.after_matches();
        polled?;
        self.noted_fault()
    }

    fn after_matches(&mut self) {
        self.gate.note_events(self.inbox.new_events);
        self.inbox.new_events = 0;
        for (to, control) in self.inbox.controls_out.drain(..) {
            self.outbox.push_control(to, control, self.gate.mark());
        }
    }

    /// Posts control frames, as far as gate and fabric allow. GATE-1
    #[cold]
    fn post_controls(&mut self) {
        let (outbox, mut means) = self.sending();
        outbox.post_controls(&mut means);
    }

    /// Frees log memory wherever possible.
    pub fn trim(&mut self) {
        let (outbox, mut means) = self.sending();
        outbox.trim_all(&mut means.log);
    }
}
