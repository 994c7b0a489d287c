//! The core of a client: decides which batches are kept, which go to which replica, and
//! which are stable. Pure: no I/O, no clock.
//!
//! A replica is lost, joining or live. A joining replica knows the first determinant that
//! this client can still send, and gets earlier ones from the other replicas before it
//! answers; batches committed meanwhile are kept for it. A live replica gets batches in order,
//! and confirms them at the level that the job chose. A determinant is stable when a quorum
//! has confirmed it. A replica that is lost later still has what it confirmed (EL-1), so
//! its confirmation counts.
//!
//! A batch leaves memory when it is stable and every replica that is not lost
//! has it (EL-3). The stable batches kept for replicas that lag behind a quorum are limited
//! to [`KEPT_BYTES_MAX`]: beyond it, the slowest replica is lost, joins again with a higher
//! `first_kept`, and gets the rest from the others. Batches that no quorum has confirmed are
//! kept without a limit: the gate is closed meanwhile.
//!
//! The first answers decide where a life of a rank begins ([`Committer::start`]). They must
//! contain one of every quorum of the earlier life, and be a quorum, which fences
//! that life (FENCE-1). Of the logs that have admitted the latest life, the new life continues
//! the longest. Every other replica must make its log like that one before
//! it counts ([`RankLog::admit`](crate::acceptor::RankLog::admit)), so that nothing else of an
//! earlier life stays in the logs.

use super::fault::Fault;
use super::kept::Kept;
use crate::LoggerId;
use crate::acceptor::Beginning;
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};

/// Bytes of stable batches that are kept for replicas that lag behind.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// An acknowledgement, or the durable end that a ring shows. GATE-3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Acknowledgement {
    /// The logger that acknowledges.
    pub logger: LoggerId,
    /// The rank whose determinants are acknowledged.
    pub rank: Rank,
    /// The incarnation that wrote them.
    pub incarnation: Incarnation,
    /// Clock of the last determinant acknowledged.
    pub clock: Clock,
    /// One past the number of the last determinant acknowledged.
    pub end: EventIndex,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum ReplicaState {
    #[default]
    Lost,
    /// Determinants from `needs` on must be kept.
    Joining {
        needs: EventIndex,
    },
    /// The replica answered before it was known where this life begins.
    Answered(LogEnd),
    Live,
}

/// The end of a replica's log when a life begins. The life continues at the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogEnd {
    /// The latest life that was admitted there.
    pub life: Incarnation,
    /// One past the last determinant.
    pub end: EventIndex,
    /// Clock of the last determinant.
    pub clock: Clock,
    /// Incarnation that wrote the last determinant; 0 if there is none.
    pub writer: Incarnation,
    /// Incarnation that made it; the writer, if it was trimmed. CAUSAL-5
    pub made_by: Incarnation,
}

#[derive(Clone, Debug, Default)]
struct Replica {
    state: ReplicaState,
    /// The logger's number, once it has answered.
    logger: Option<LoggerId>,
    /// The replica was live in this life of the rank.
    was_live: bool,
    /// End of the determinants sent to it since it joined.
    sent: EventIndex,
    /// End of the determinants that it has confirmed at the requested level.
    confirmed: EventIndex,
    /// Clock of the last determinant confirmed.
    confirmed_clock: Clock,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Committer {
    rank: Rank,
    incarnation: Incarnation,
    quorum: usize,
    start: Option<EventIndex>,
    /// Clock of the determinant before `start`, and the incarnation that wrote it.
    start_clock: Clock,
    follows: Incarnation,
    /// The incarnation that made it.
    made_by: Incarnation,
    end: EventIndex,
    end_clock: Clock,
    stable: EventIndex,
    kept: Kept,
    /// Clock of the last determinant that was freed.
    freed_clock: Clock,
    replicas: Vec<Replica>,
}

impl Committer {
    /// Commits for one life of a rank to `replicas` loggers; `quorum` of them
    /// make a determinant stable.
    pub fn new(rank: Rank, incarnation: Incarnation, replicas: usize, quorum: usize) -> Self {
        Self {
            rank,
            incarnation,
            quorum: quorum.clamp(1, replicas.max(1)),
            start: None,
            start_clock: Clock(0),
            follows: Incarnation(0),
            made_by: Incarnation(0),
            end: EventIndex(0),
            end_clock: Clock(0),
            stable: EventIndex(0),
            kept: Kept::default(),
            freed_clock: Clock(0),
            replicas: vec![Replica::default(); replicas],
        }
    }

    /// Number of the first determinant of this life; `None` until enough
    /// replicas have answered.
    pub fn start(&self) -> Option<EventIndex> {
        self.start
    }

    /// Incarnation that wrote the last determinant before [`Committer::start`]; 0
    /// if there is none.
    pub fn follows(&self) -> Incarnation {
        self.follows
    }

    /// Incarnation that made the last determinant before [`Committer::start`]: a later one may have taken it
    /// over, and written it. CAUSAL-5
    pub fn made_by(&self) -> Incarnation {
        self.made_by
    }

    /// Where this life begins, for the replicas that admit it; `None` until enough
    /// replicas have answered.
    pub fn beginning(&self) -> Option<Beginning> {
        self.start.map(|start| Beginning {
            incarnation: self.incarnation,
            start,
            clock_before: self.start_clock,
            follows: self.follows,
            first_kept: self.first_kept(),
        })
    }

    /// Number of replicas that must answer before a life begins.
    pub fn answers_needed(&self) -> usize {
        self.quorum.max(self.replicas.len() + 1 - self.quorum)
    }

    /// Number of replicas that are joined or have answered.
    pub fn answers(&self) -> usize {
        let answered = |replica: &&Replica| {
            matches!(
                replica.state,
                ReplicaState::Live | ReplicaState::Answered(_)
            )
        };
        self.replicas.iter().filter(answered).count()
    }

    /// One past the last determinant committed.
    #[inline]
    pub fn end(&self) -> EventIndex {
        self.end
    }

    /// One past the last stable determinant; never decreases.
    #[inline]
    pub fn stable_end(&self) -> EventIndex {
        self.stable
    }

    /// Number of confirmations that make a determinant stable.
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// Bytes of the batches that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept.bytes()
    }

    /// Number of the first determinant that can still be sent. EL-3
    pub fn first_kept(&self) -> EventIndex {
        self.kept.first().unwrap_or(self.end)
    }

    /// Hashes the state except that of the replicas, each of which has its own
    /// [hash](Committer::hash_replica): for explorers, for which replicas that change
    /// places are equal.
    pub fn hash_shared(&self, hasher: &mut impl Hasher) {
        (self.rank, self.incarnation, self.quorum).hash(hasher);
        (self.start, self.start_clock, self.follows, self.made_by).hash(hasher);
        (self.end, self.end_clock, self.stable).hash(hasher);
        (&self.kept, self.freed_clock).hash(hasher);
    }

    /// Hashes the state of a replica without its identity.
    pub fn hash_replica(&self, replica: usize, hasher: &mut impl Hasher) {
        let it = &self.replicas[replica];
        (it.state, it.logger.is_some(), it.was_live).hash(hasher);
        (it.sent, it.confirmed, it.confirmed_clock).hash(hasher);
    }

    /// Whether this replica gets nothing until it joins again.
    pub fn is_lost(&self, replica: usize) -> bool {
        self.replicas[replica].state == ReplicaState::Lost
    }

    /// Whether this replica gets batches.
    pub fn is_live(&self, replica: usize) -> bool {
        self.replicas[replica].state == ReplicaState::Live
    }

    /// Whether all committed batches were sent to this replica.
    pub fn is_sent_all(&self, replica: usize) -> bool {
        self.is_live(replica) && self.replicas[replica].sent == self.end
    }

    /// The replica's logger, once it has answered.
    pub fn logger(&self, replica: usize) -> Option<LoggerId> {
        self.replicas[replica].logger
    }

    /// One past the last determinant that this replica has confirmed.
    pub fn confirmed(&self, replica: usize) -> EventIndex {
        self.replicas[replica].confirmed
    }

    /// Registers that a hello is sent to a replica. Returns the number of the first determinant
    /// that can still be sent, and keeps determinants from there on for it.
    pub fn joins(&mut self, replica: usize) -> EventIndex {
        let needs = self.first_kept();
        self.replicas[replica].state = ReplicaState::Joining { needs };
        needs
    }

    /// Marks a replica as lost.
    pub fn lose(&mut self, replica: usize) {
        self.replicas[replica].state = ReplicaState::Lost;
        self.free();
    }

    /// Handles a replica's welcome: the replica has the determinants before `end`, the last of
    /// them with this clock. Without a fault, the replica may still be lost afterwards: it must
    /// join again if it has less than this life begins with. Before
    /// [`Committer::start`] is known, valid only in a first life.
    ///
    /// # Errors
    /// When the answer is wrong; the replica is then lost.
    pub fn welcomed(
        &mut self,
        replica: usize,
        logger: LoggerId,
        end: EventIndex,
        clock: Clock,
    ) -> Result<(), Fault> {
        let ReplicaState::Joining { needs } = self.replicas[replica].state else {
            return Ok(());
        };
        if self.start.is_some() && (needs..self.first_kept()).contains(&end) {
            // The hello was sent before it was known where this life begins.
            self.lose(replica);
            return Ok(());
        }
        if self.start.is_none() {
            let said = LogEnd {
                end,
                clock,
                ..LogEnd::default()
            };
            return self.answered(replica, logger, said);
        }
        let checked = self
            .check_identity(replica, logger)
            .and_then(|()| self.check_end(end, clock));
        self.or_lose(replica, checked)?;
        self.go_live(replica, logger, end, clock);
        Ok(())
    }

    /// Marks the replica as lost if its answer is wrong.
    fn or_lose(&mut self, replica: usize, checked: Result<(), Fault>) -> Result<(), Fault> {
        checked.inspect_err(|_| self.lose(replica))
    }

    /// Takes the end of a replica's log before it is known where this life begins. Enough
    /// such answers decide it; replicas that must join again are then lost.
    ///
    /// # Errors
    /// When the answer is wrong; the replica is then lost.
    pub fn answered(
        &mut self,
        replica: usize,
        logger: LoggerId,
        said: LogEnd,
    ) -> Result<(), Fault> {
        if self.start.is_some() {
            // Too late for a survey; the replica must join.
            self.lose(replica);
            return Ok(());
        }
        let checked = self.check_identity(replica, logger);
        self.or_lose(replica, checked)?;
        self.replicas[replica].logger = Some(logger);
        self.replicas[replica].state = ReplicaState::Answered(said);
        self.begin_life();
        Ok(())
    }

    fn check_identity(&self, replica: usize, logger: LoggerId) -> Result<(), Fault> {
        if let Some(expected) = self.replicas[replica].logger {
            Fault::check_logger(expected, logger)?;
        }
        let mut others = self.replicas.iter().enumerate();
        match others.any(|(other, it)| other != replica && it.logger == Some(logger)) {
            true => Err(Fault::Twice { id: logger.0 }),
            false => Ok(()),
        }
    }

    fn check_end(&self, end: EventIndex, clock: Clock) -> Result<(), Fault> {
        if end > self.end {
            let written = self.end;
            return Err(Fault::SomebodyElse { end, written });
        }
        let first_kept = self.first_kept();
        if end < first_kept {
            return Err(Fault::LostEvents { end, first_kept });
        }
        self.check_clock(end, clock)
    }

    /// Checks a clock against the kept batches. EL-5 depends on it: batches are the same on every
    /// replica.
    fn check_clock(&self, end: EventIndex, found: Clock) -> Result<(), Fault> {
        let expected = match end == self.first_kept() {
            true => self.freed_clock,
            false => self.kept.clock_at_end(end).ok_or(Fault::End {
                end,
                sent: self.end,
            })?,
        };
        if found == expected {
            return Ok(());
        }
        Err(Fault::Clock {
            end,
            expected,
            found,
        })
    }

    fn go_live(&mut self, replica: usize, logger: LoggerId, end: EventIndex, clock: Clock) {
        let replica = &mut self.replicas[replica];
        replica.logger = Some(logger);
        replica.state = ReplicaState::Live;
        replica.was_live = true;
        replica.sent = end;
        replica.confirmed = end;
        replica.confirmed_clock = clock;
        self.settle();
    }

    /// Decides where this life begins, once enough replicas have answered.
    fn begin_life(&mut self) {
        let answers: Vec<Option<LogEnd>> = self.replicas.iter().map(Replica::answer).collect();
        if answers.iter().flatten().count() < self.answers_needed() {
            return;
        }
        let greatest = answers.iter().copied().flatten().max();
        let LogEnd {
            end: start,
            clock,
            writer,
            made_by,
            ..
        } = greatest.unwrap_or_default();
        self.start = Some(start);
        self.start_clock = clock;
        (self.follows, self.made_by) = (writer, made_by);
        (self.end, self.end_clock) = (start, clock);
        self.freed_clock = clock;
        // A first life follows no other: replicas that answered have joined.
        let is_first_life = self.incarnation == Incarnation(0);
        for (replica, answer) in answers.into_iter().enumerate() {
            match (answer, self.replicas[replica].logger) {
                (None, _) | (_, None) => {}
                (Some(_), Some(logger)) if is_first_life && answer == greatest => {
                    self.go_live(replica, logger, start, clock);
                }
                _ => self.replicas[replica].state = ReplicaState::Lost,
            }
        }
    }

    /// Takes a batch, which must continue where the previous one ended.
    ///
    /// # Panics
    /// When it does not continue there, or no life has begun.
    pub fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.check_order(header);
        self.kept.push(header, batch);
        (self.end, self.end_clock) = (header.end(), header.last_clock);
        if self.kept.bytes() > KEPT_BYTES_MAX {
            self.free();
        }
    }

    #[inline]
    fn check_order(&self, header: &BatchHeader) {
        assert!(
            self.start.is_some() && header.first == self.end,
            "batches come in order, without gaps"
        );
    }

    /// Whether a batch that every live replica confirms at once need not be kept:
    /// nothing is under way.
    pub fn keeps_nothing(&self) -> bool {
        // Batches that a live replica lacks are kept: while none is kept, live replicas lack none.
        let mut live = 0;
        let none_joins = self.replicas.iter().all(|replica| {
            live += usize::from(replica.state == ReplicaState::Live);
            matches!(replica.state, ReplicaState::Live | ReplicaState::Lost)
        });
        self.start.is_some() && self.kept.is_empty() && none_joins && live >= self.quorum
    }

    /// Commits a batch that every live replica has confirmed at once; valid while
    /// [`Committer::keeps_nothing`].
    ///
    /// # Panics
    /// When the batch does not continue where the previous one ended.
    #[inline]
    pub fn placed_everywhere(&mut self, header: &BatchHeader) {
        self.check_order(header);
        let (end, clock) = (header.end(), header.last_clock);
        for replica in &mut self.replicas {
            if replica.state == ReplicaState::Live {
                replica.sent = end;
                replica.confirmed = end;
                replica.confirmed_clock = clock;
            }
        }
        (self.end, self.end_clock) = (end, clock);
        self.freed_clock = clock;
        self.stable = end;
    }

    /// The batch that a replica gets next.
    pub fn next_for(&self, replica: usize) -> Option<&[u8]> {
        let replica = &self.replicas[replica];
        if replica.state != ReplicaState::Live {
            return None;
        }
        let (_, batch) = self.kept.starting_at(replica.sent)?;
        Some(batch)
    }

    /// Notes that the batch of [`Committer::next_for`] was sent.
    pub fn sent(&mut self, replica: usize) {
        let replica = &mut self.replicas[replica];
        if let Some((end, _)) = self.kept.starting_at(replica.sent) {
            replica.sent = end;
        }
    }

    /// The batch of [`Committer::next_for`] is placed at the replica: this client stored it
    /// there itself.
    pub fn placed(&mut self, replica: usize) {
        self.sent(replica);
        let replica = &mut self.replicas[replica];
        let end = replica.sent;
        if let Some(clock) = self.kept.clock_at_end(end) {
            replica.confirmed = end;
            replica.confirmed_clock = clock;
        }
        self.settle();
    }

    /// Handles an acknowledgement. A repeated one changes nothing.
    ///
    /// # Errors
    /// When one of its fields is wrong: the acknowledgement does not count, and the replica is
    /// lost. GATE-3
    pub fn acknowledged(&mut self, replica: usize, ack: &Acknowledgement) -> Result<(), Fault> {
        if self.replicas[replica].state != ReplicaState::Live {
            return Ok(());
        }
        let checked = self.check_acknowledgement(replica, ack);
        self.or_lose(replica, checked)?;
        let replica = &mut self.replicas[replica];
        if ack.end > replica.confirmed {
            replica.confirmed = ack.end;
            replica.confirmed_clock = ack.clock;
            self.settle();
        }
        Ok(())
    }

    fn check_acknowledgement(&self, replica: usize, ack: &Acknowledgement) -> Result<(), Fault> {
        let replica = &self.replicas[replica];
        if let Some(expected) = replica.logger {
            Fault::check_logger(expected, ack.logger)?;
        }
        let whose = [
            ("rank", self.rank.0, ack.rank.0),
            ("incarnation", self.incarnation.0, ack.incarnation.0),
        ];
        for (what, expected, found) in whose {
            if expected != found {
                return Err(Fault::Whose {
                    what,
                    expected,
                    found,
                });
            }
        }
        let (end, sent) = (ack.end, replica.sent);
        let confirmed = replica.confirmed_clock;
        let expected = match end.cmp(&replica.confirmed) {
            // An earlier acknowledgement, whose batch may be freed already.
            Ordering::Less => confirmed.min(ack.clock),
            Ordering::Equal => confirmed,
            Ordering::Greater => {
                let clock = self.kept.clock_at_end(end).filter(|_| end <= sent);
                clock.ok_or(Fault::End { end, sent })?
            }
        };
        match ack.clock == expected {
            true => Ok(()),
            false => Err(Fault::Clock {
                end,
                expected,
                found: ack.clock,
            }),
        }
    }

    /// Handles the durable end that a replica's ring shows. The end is read before the clock,
    /// which may be that of a later batch; they count once both are of the same batch.
    ///
    /// # Errors
    /// As with [`Committer::acknowledged`].
    pub fn ring_says(
        &mut self,
        replica: usize,
        end: EventIndex,
        clock: Clock,
    ) -> Result<(), Fault> {
        let it = &self.replicas[replica];
        let Some(logger) = it.logger.filter(|_| end > it.confirmed) else {
            return Ok(());
        };
        let is_of_later = |expected| clock > expected && clock <= self.end_clock;
        if end <= it.sent && self.kept.clock_at_end(end).is_some_and(is_of_later) {
            return Ok(());
        }
        let ack = Acknowledgement {
            logger,
            rank: self.rank,
            incarnation: self.incarnation,
            clock,
            end,
        };
        self.acknowledged(replica, &ack)
    }

    /// Recomputes the stable end, and frees what no replica needs.
    fn settle(&mut self) {
        let at_least = |end: EventIndex| {
            let has = |replica: &&Replica| replica.was_live && replica.confirmed >= end;
            self.replicas.iter().filter(has).count() >= self.quorum
        };
        let ends = self.replicas.iter().map(|replica| replica.confirmed);
        let quorum_end = ends.filter(|end| at_least(*end)).max();
        self.stable = self.stable.max(quorum_end.unwrap_or_default());
        self.free();
    }

    /// Frees stable batches that no replica needs. EL-3: only stable ones.
    fn free(&mut self) {
        self.free_up_to_slowest();
        while self.kept.bytes() > KEPT_BYTES_MAX {
            let Some(slowest) = self.slowest() else {
                return;
            };
            self.replicas[slowest].state = ReplicaState::Lost;
            self.free_up_to_slowest();
        }
    }

    fn free_up_to_slowest(&mut self) {
        let needs = self.replicas.iter().filter_map(Replica::needs).min();
        let floor = needs.map_or(self.stable, |needs| needs.min(self.stable));
        if let Some(clock) = self.kept.free_before(floor) {
            self.freed_clock = clock;
        }
    }

    /// The replica that keeps the most stable batches from being freed.
    fn slowest(&self) -> Option<usize> {
        let needs = self.replicas.iter().enumerate();
        let needs = needs.filter_map(|(index, replica)| Some((replica.needs()?, index)));
        let (needs, index) = needs.min()?;
        (needs < self.stable).then_some(index)
    }
}

impl Replica {
    fn answer(&self) -> Option<LogEnd> {
        match self.state {
            ReplicaState::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// Number from which on determinants must be kept.
    fn needs(&self) -> Option<EventIndex> {
        match self.state {
            ReplicaState::Lost => None,
            ReplicaState::Joining { needs } => Some(needs),
            ReplicaState::Answered(said) => Some(said.end),
            ReplicaState::Live => Some(self.confirmed),
        }
    }
}
