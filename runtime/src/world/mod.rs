//! [`World`]: a rank's view of its job, and MPI's blocking point-to-point operations. Requests live
//! in a [`Scope`], or, if their buffers are given by pointer, in a table of the world.

#![allow(
    unsafe_code,
    reason = "lends the caller's buffers to the engine for the time of a blocking call"
)]

mod barrier;
mod checkpoint;
mod checkpoint_requests;
pub mod collective;
mod envelope;
mod event_memory;
mod forked;
mod group;
mod held;
mod leaving;
mod news;
mod only;
mod peers;
mod read_log;
mod recovering;
mod request;
mod requests;
mod scope;
mod setup;
mod status;
mod time;
mod waiting;

pub use checkpoint::{Checkpointed, Image, Restored};
pub use envelope::{Source, from, from_any, to};
pub use forked::check as check_process;
pub use group::Group;
pub use read_log::Logged;
pub use refrain_rank::calls::Handle;
pub use refrain_transport::engine::Matched as Message;
pub use refrain_transport::engine::{
    Incoming, Outgoing, ReceiveBuffer, SendBuffer, SendTo, Status,
};
pub use request::{Ended, Operation, Request};
pub use requests::MessageHandle;
pub use scope::Scope;

use crate::Error;
use crate::protocol::Engine;
use checkpoint::Checkpoints;
use envelope::CONTEXT_RESERVED_MIN;
use forked::OfThisProcess;
use group::Groups;
use news::Attention;
use only::Only;
use peers::Peers;
use recovering::Recovering;
use refrain_collectives::Schedules;
use refrain_job::JobError;
use refrain_job::control::ControlPlane;
use refrain_job::statistics::{EventStatistics, Statistics};
use refrain_rank::calls;
use refrain_rank::collective::UnderWay;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::{Outcome, RequestId, Started};
use refrain_transport::protocol::Protocol as _;
use request::{Entry, Table};
use time::JobTime;
use waiting::{LogWatch, Patience};

/// A rank's view of its job. It is not for concurrent callers: every operation takes `&mut self`,
/// and the type is not `Sync`. It may move to another thread between two calls.
pub struct World {
    rank: Rank,
    size: u32,
    incarnation: Incarnation,
    engine: OfThisProcess<Engine>,
    tells_statistics: bool,
    /// The rank's output waits until earlier events are stable.
    gates_output: bool,
    control: Option<ControlPlane>,
    patience: Patience,
    log_watch: LogWatch,
    tests_until_look: u32,
    attention: Attention,
    peers: Peers,
    checkpoints: OfThisProcess<Checkpoints>,
    /// `Some` in a later life until it has caught up.
    recovering: Option<Recovering>,
    job_time: JobTime,
    groups: Groups,
    schedules: Schedules,
    /// For the choice of algorithms. COLL-1
    host_of_rank: Vec<u32>,
    /// Members compare their calls before each collective.
    checks_collectives: bool,
    under_way: UnderWay,
    requests: Table<Entry>,
    messages: Table<Message>,
    /// The empty vector of the last scope, for the next one.
    spare_begun: Vec<Request>,
    _only: Only,
}

impl World {
    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of earlier lives of this rank.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The name of the fabric in use.
    pub fn fabric(&self) -> &str {
        self.engine.fabric_name()
    }

    /// For layers above: reports of messages that differ in a replay ask `name` for the call that
    /// the program is in. REC-8
    pub fn name_calls(&mut self, name: fn() -> String) {
        self.engine.name_calls(name);
    }

    /// The name of the protocol in use.
    pub fn protocol(&self) -> &str {
        self.engine.protocol().name()
    }

    /// Sends a message. Returns when the data may be changed again, which is as soon as the log
    /// holds it. A message that is longer than a log that is reused waits for its receiver.
    ///
    /// # Errors
    /// When the rank does not exist, the log is full, the fabric fails, or the job ends.
    #[inline]
    pub fn send<'a>(&mut self, data: impl Into<Outgoing<'a>>, to: SendTo) -> Result<(), Error> {
        self.check(to.rank, to.context)?;
        // SAFETY: `data` is borrowed until this call returns, and by then the
        // send is done or detached.
        let buffer = unsafe { data.into().lent() };
        match self.engine.start_send(buffer, to)? {
            Started::Done(_) => Ok(()),
            Started::Pending(id) => self.finish(id, |_| Ok(())),
        }
    }

    /// Sends a message and returns when the receiver has matched it.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn ssend<'a>(&mut self, data: impl Into<Outgoing<'a>>, to: SendTo) -> Result<(), Error> {
        self.send(data, to.synchronous())
    }

    /// Checks that messages to or from `rank` may be sent or received in this context.
    #[inline]
    fn check(&self, rank: Rank, context: u32) -> Result<(), Error> {
        if (rank.0 < self.size) & (context < CONTEXT_RESERVED_MIN) & !forked::is_child() {
            return Ok(());
        }
        Err(self.refused(rank, context))
    }

    #[cold]
    fn refused(&self, rank: Rank, context: u32) -> Error {
        if forked::is_child() {
            return Error::Forked;
        }
        if rank.0 >= self.size {
            let last = self.size - 1;
            return Error::NoSuchRank { rank, last };
        }
        Error::Argument(format!(
            "context {context:#x} is the library's: use one below {CONTEXT_RESERVED_MIN:#x}"
        ))
    }

    /// Waits for the earliest message that matches, and receives it.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the message is longer than the buffer; else as
    /// [`World::send`].
    #[inline]
    pub fn recv<'a>(
        &mut self,
        buffer: impl Into<Incoming<'a>>,
        from: Source,
    ) -> Result<Status, Error> {
        let id = self.post(buffer, from)?;
        self.finish(id, |outcome| Ended::new(0, outcome).status())
    }

    /// As [`World::recv`], but a message that is longer than the buffer is no error: the result
    /// says so.
    ///
    /// # Errors
    /// As [`World::send`].
    // Inlined: `from` is written in parts, and to read it as a whole waits for the last message to
    // leave the processor.
    #[inline(always)]
    pub fn receive<'a>(
        &mut self,
        buffer: impl Into<Incoming<'a>>,
        from: Source,
    ) -> Result<Ended, Error> {
        let id = self.post(buffer, from)?;
        self.finish(id, |outcome| Ok(Ended::new(0, outcome)))
    }

    /// Begins the receive of a blocking call.
    #[inline(always)]
    fn post<'a>(
        &mut self,
        buffer: impl Into<Incoming<'a>>,
        from: Source,
    ) -> Result<RequestId, Error> {
        let pattern = self.pattern(from)?;
        // SAFETY: the buffer is borrowed until the call returns, and by then
        // the receive is done or detached.
        let buffer = unsafe { buffer.into().lent() };
        Ok(self.engine.start_receive(buffer, pattern))
    }

    /// Sends and receives concurrently; neither operation waits for the other.
    ///
    /// # Errors
    /// As [`World::recv`].
    pub fn sendrecv<'a, 'b>(
        &mut self,
        data: impl Into<Outgoing<'a>>,
        to: SendTo,
        buffer: impl Into<Incoming<'b>>,
        from: Source,
    ) -> Result<Status, Error> {
        self.check(to.rank, to.context)?;
        let pattern = self.pattern(from)?;
        // SAFETY: as in `recv`.
        let room = unsafe { buffer.into().lent() };
        let receive = self.engine.start_receive(room, pattern);
        // SAFETY: as in `send`.
        let data = unsafe { data.into().lent() };
        let sent = match self.engine.start_send(data, to) {
            Ok(Started::Done(_)) => Ok(()),
            Ok(Started::Pending(id)) => self.finish(id, |_| Ok(())),
            Err(error) => Err(error.into()),
        };
        match sent {
            Ok(()) => self.finish(receive, |outcome| Ended::new(0, outcome).status()),
            Err(error) => {
                self.engine.detach(receive);
                Err(error)
            }
        }
    }

    /// Waits until there is a message that matches, and does not take it.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn probe(&mut self, from: Source) -> Result<Status, Error> {
        let (pattern, clock) = (self.pattern(from)?, self.engine.tick());
        self.block_until(|world| calls::look(&mut world.engine, clock, &pattern))
    }

    /// Checks whether there is a message that matches, and does not take it.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn iprobe(&mut self, from: Source) -> Result<Option<Status>, Error> {
        let (pattern, clock) = (self.pattern(from)?, self.engine.tick());
        self.test_now(clock, |world| {
            calls::look_now(&mut world.engine, clock, &pattern)
        })
    }

    /// Waits until there is a message that matches, and takes it: only [`World::mrecv`] or
    /// [`Scope::imrecv`] can receive it then.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn mprobe(&mut self, from: Source) -> Result<Message, Error> {
        let (pattern, clock) = (self.pattern(from)?, self.engine.tick());
        self.block_until(|world| calls::take(&mut world.engine, clock, &pattern))
    }

    /// Checks whether there is a message that matches, and takes it.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn improbe(&mut self, from: Source) -> Result<Option<Message>, Error> {
        let (pattern, clock) = (self.pattern(from)?, self.engine.tick());
        self.test_now(clock, |world| {
            calls::take_now(&mut world.engine, clock, &pattern)
        })
    }

    /// Receives a message that a matched probe took.
    ///
    /// # Errors
    /// As [`World::recv`].
    pub fn mrecv<'a>(
        &mut self,
        buffer: impl Into<Incoming<'a>>,
        message: Message,
    ) -> Result<Status, Error> {
        // SAFETY: as in `recv`.
        let buffer = unsafe { buffer.into().lent() };
        let id = self.engine.start_matched_receive(buffer, message);
        self.finish(id, |outcome| Ended::new(0, outcome).status())
    }

    /// States that everything delivered so far lies before a stable, published checkpoint of this
    /// rank. Senders may then free those messages (LOG-4). A message is delivered when its receive
    /// has completed.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn publish_horizon(&mut self) -> Result<(), Error> {
        self.engine.publish_horizon();
        if let Some(whole) = self.under_way.whole() {
            let covers = whole.covers();
            whole.publish(&covers, &mut self.engine);
        }
        self.make_progress()?;
        Ok(())
    }

    /// Lets messages arrive and leave without receiving one. Unlike a probe, it is deterministic.
    /// Meant for programs that compute for a long time.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn progress(&mut self) -> Result<(), Error> {
        self.make_progress()?;
        Ok(())
    }

    /// The counters of this rank.
    pub fn statistics(&self) -> Statistics {
        let engine = self.engine.statistics();
        let (log_bytes, log_bytes_max) = self.engine.log_bytes();
        Statistics {
            messages_sent: engine.messages_sent,
            bytes_sent: engine.bytes_sent,
            receives: engine.receives,
            unexpected: engine.unexpected,
            rendezvous: engine.rendezvous,
            log_bytes,
            log_bytes_max,
            log_bytes_peak: self.engine.log_bytes_peak(),
            log_bytes_appended: self.engine.log_bytes_appended(),
            log_bytes_spilled: self.engine.disk_progress() * refrain_ring::CHUNK_BYTES as u64,
            events: engine.events,
            logged: self.logged(),
        }
    }

    fn logged(&self) -> EventStatistics {
        let protocol = self.engine.protocol();
        let Some(events) = protocol.events() else {
            return EventStatistics::default();
        };
        let counts = events.counts();
        EventStatistics {
            matches: counts.matches,
            merged: counts.merged,
            probes: counts.probes,
            completions: counts.completions,
            cancelled: counts.cancelled,
            given: counts.given,
            nothing: counts.nothing,
            nothing_found: counts.nothing_found,
            named: counts.named,
            payload_bytes: counts.payload_bytes,
            batch_bytes: counts.batch_bytes,
            commits: counts.batches.iter().sum(),
            batches: counts.batches,
            waits: protocol.watch().waits.clone(),
            at_ranks: event_memory::at_ranks(events.commits().holdings()),
        }
    }

    /// Calls `tell` with the control socket, if there is a launcher.
    fn tell(
        &mut self,
        tell: impl FnOnce(&mut ControlPlane) -> Result<(), JobError>,
    ) -> Result<(), Error> {
        match &mut self.control {
            Some(control) => Ok(tell(control)?),
            None => Ok(()),
        }
    }

    /// Waits for the request of a blocking call, and makes its result of the outcome. Afterwards the
    /// request no longer uses its buffer, also after an error.
    #[inline]
    fn finish<T>(
        &mut self,
        id: RequestId,
        result: impl Fn(Outcome) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // Most requests have ended by now; in this path the compiler builds the result in place.
        if let Some(outcome) = self.engine.finish(id) {
            return result(outcome);
        }
        match self.block_until(|world| world.engine.finish(id)) {
            Ok(outcome) => result(outcome),
            Err(error) => {
                self.under_way.give_up(Some(id), &mut self.engine);
                self.engine.detach(id);
                Err(error)
            }
        }
    }
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("World")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
