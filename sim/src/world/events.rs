//! The protocol of a simulated rank and the store of its events: the real ones, wrapped in order to
//! report events and to plant bugs.

use super::stage::Stage;
use crate::choices::determinant;
use crate::happening::{Happening, Life};
use crate::held::HeldLedger;
use crate::loggers::{JOB, LoggerClient};
use crate::planted::Planted;
use refrain_logging::Stores;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::{Determinant, EventIndex, Match};
use refrain_logging::held::{AtRanks, Collected, Gives, Holdings, Tolerance};
use refrain_logging::pessimist::Commits;
use refrain_rank::protocol::Watch;
use refrain_ring::{Carriage, Clock, Incarnation, Rank};
use refrain_transport::control::Piece;
use refrain_transport::protocol::{Event, Protocol};
use std::cell::RefCell;
use std::rc::Rc;

/// Reports an event to the stage before the protocol gets it.
#[derive(Debug)]
pub struct Watched<P> {
    /// The real protocol.
    pub inner: P,
    /// The life whose protocol it is.
    pub life: Life,
    /// Where events are reported.
    pub stage: Rc<Stage>,
    /// The planted bug, if any.
    pub planted: Option<Planted>,
}

impl<P: Protocol> Watched<P> {
    /// Records matches again, for [`Planted::ReplayedRecorded`].
    pub fn record_again(&mut self, events: &[Determinant]) {
        for event in events {
            if let Determinant::Match(it) = event
                && !it.is_completed
            {
                self.inner.event(Event::Match {
                    at: it.at,
                    request: it.matched.request,
                    source: it.matched.source,
                    ssn: it.matched.ssn,
                    is_named: it.is_named,
                });
            }
        }
    }

    fn bent(&mut self, planted: Planted, mut event: Event<'_>) -> bool {
        match (planted, &mut event) {
            (Planted::MatchesAroundGate, Event::Match { .. })
            | (Planted::ProbesAroundGate, Event::Probe { .. })
            | (Planted::NumbersAroundGate, Event::Number { .. }) => {
                self.inner.event(event);
                return false;
            }
            (Planted::NothingForgotten, Event::Nothing { .. })
            | (Planted::NumberForgotten, Event::Number { .. }) => return false,
            (Planted::ProbeInverted, Event::Probe { clock, .. }) => {
                event = Event::Nothing { clock: *clock };
            }
            (Planted::CompletionCut, Event::Completion { requests, .. }) => {
                *requests = &requests[..requests.len().min(1)];
            }
            (Planted::ClockOf32Bits, event) => cut(event),
            _ => {}
        }
        self.inner.event(event)
    }
}

fn cut(event: &mut Event<'_>) {
    let cut = |clock: &mut Clock| clock.0 &= 0xffff_ffff;
    match event {
        Event::Match { at, request, .. } | Event::Cancelled { clock: at, request } => {
            cut(at);
            cut(request);
        }
        Event::Probe { clock, .. }
        | Event::Completion { clock, .. }
        | Event::Number { clock, .. }
        | Event::Bytes { clock, .. }
        | Event::Nothing { clock } => cut(clock),
    }
}

impl<P: Protocol> Protocol for Watched<P> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn keeps_payload(&self) -> bool {
        self.inner.keeps_payload()
    }

    fn logs_every_reception(&self) -> bool {
        self.inner.logs_every_reception()
    }

    fn event(&mut self, event: Event<'_>) -> bool {
        self.stage
            .tell(&Happening::Event(self.life, determinant(&event)));
        match self.planted {
            None => self.inner.event(event),
            Some(planted) => self.bent(planted, event),
        }
    }

    fn idle(&mut self) {
        self.inner.idle();
    }

    fn advance(&mut self, wanted: u64) -> u64 {
        let stable = self.inner.advance(wanted);
        match self.planted {
            Some(Planted::GateOpen) => u64::MAX,
            Some(Planted::GateOpenLater) if self.life.incarnation > Incarnation(0) => u64::MAX,
            _ => stable,
        }
    }

    fn commits_early(&self) -> bool {
        self.inner.commits_early()
    }

    fn operation_ended(&mut self) {
        self.inner.operation_ended();
    }

    fn checkpoint_published(&mut self, clock: Clock) {
        self.inner.checkpoint_published(clock);
    }

    fn wants_checkpoint(&mut self) {
        self.inner.wants_checkpoint();
    }

    fn leave(&mut self) -> bool {
        self.inner.leave()
    }

    fn next_piece(&mut self) -> Option<(Rank, Piece)> {
        self.inner.next_piece()
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        self.inner.hear(from, piece)
    }

    fn carries(&self) -> bool {
        self.inner.carries()
    }

    fn may_carry(&self, to: Rank) -> bool {
        self.inner.may_carry(to)
    }

    fn unstable_at_start(&self) -> u64 {
        self.inner.unstable_at_start()
    }

    fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        self.inner.carry(carriage, out)
    }

    fn carried(&mut self, to: Rank) {
        self.inner.carried(to);
    }

    fn take_carried(&mut self, from: Rank, attachment: &[u8]) -> Result<(), &'static str> {
        self.inner.take_carried(from, attachment)
    }

    fn fenced(&mut self, peer: Rank) {
        self.inner.fenced(peer);
    }

    fn connected(&mut self, peer: Rank) {
        self.inner.connected(peer);
    }

    fn explain(&self) -> Option<String> {
        self.inner.explain()
    }
}

/// Where the events of a life become stable.
#[derive(Debug)]
pub enum EventStore {
    /// At simulated loggers, by the real client.
    Loggers(Box<LoggerClient>),
    /// At other ranks.
    Ranks(Box<HeldStore>),
    /// When the explorer decides it.
    Explored(ExploredEvents),
}

/// The events of a life at other ranks.
#[derive(Debug)]
pub struct HeldStore {
    /// `None`: it has not begun.
    pub stores: Option<Stores<LoggerClient>>,
    /// The client of event loggers beside them, until it has begun.
    pub loggers: Option<Box<LoggerClient>>,
    /// When it gives its batches to others.
    pub gives: Gives,
    /// To how many.
    pub tolerance: Tolerance,
    /// What a later life has collected.
    pub collected: Option<Collected>,
    /// The oracle's account.
    pub ledger: HeldLedger,
    /// The life.
    pub life: Life,
}

impl HeldStore {
    fn begun(&self) -> &Stores<LoggerClient> {
        self.stores.as_ref().expect("it has begun")
    }

    fn begun_mut(&mut self) -> &mut Stores<LoggerClient> {
        self.stores.as_mut().expect("it has begun")
    }

    fn holdings(&self) -> &Holdings {
        self.begun().holdings().expect("ranks hold its events")
    }

    fn holdings_mut(&mut self) -> &mut Holdings {
        self.begun_mut()
            .holdings_mut()
            .expect("ranks hold its events")
    }
}

/// Batches of a life that become stable when the explorer decides it. Quorums, fences and replicas
/// are explored in [`model`](crate::model). Clones share the batches.
#[derive(Clone, Debug, Default)]
pub struct ExploredEvents(pub Rc<RefCell<ExploredBatches>>);

/// See [`ExploredEvents`].
#[derive(Debug, Default, Hash)]
pub struct ExploredBatches {
    /// One past the last determinant of earlier lives.
    pub start: EventIndex,
    /// Batches that are committed and not stable, each with one past its last determinant.
    pub pending: Vec<(EventIndex, Rc<[u8]>)>,
    /// One past the last stable determinant.
    pub stable: EventIndex,
    /// Determinants up to this clock were trimmed.
    pub trimmed: Clock,
}

impl EventStore {
    /// Number of the first determinant of this life; `None` until a quorum has answered.
    pub fn start(&mut self) -> Option<EventIndex> {
        match self {
            Self::Loggers(client) => client.start(),
            Self::Ranks(store) => {
                // Polls.
                let logged = store.loggers.as_mut().map(|loggers| loggers.start());
                match store.life.incarnation {
                    Incarnation(0) => logged.unwrap_or(Some(EventIndex(0))),
                    _ => store.collected.as_ref().map(|collected| collected.end),
                }
            }
            Self::Explored(events) => Some(events.0.borrow().start),
        }
    }

    /// The events at other ranks, if they are there.
    pub fn held(&mut self) -> Option<&mut HeldStore> {
        match self {
            Self::Ranks(store) => Some(store),
            Self::Loggers(_) | Self::Explored(_) => None,
        }
    }

    /// The life begins, in a job with this many ranks.
    pub fn begin(&mut self, ranks: u32) {
        if let Self::Ranks(store) = self {
            let Life { rank, incarnation } = store.life;
            let collected = store.collected.take();
            let holdings = Holdings::new(
                (store.gives, store.tolerance.clone()),
                (rank, incarnation),
                ranks,
                collected,
            );
            let ranks = match store.loggers.take() {
                Some(loggers) => AtRanks::beside(holdings, *loggers, JOB),
                None => AtRanks::new(holdings),
            };
            store.stores = Some(Stores::Ranks(Box::new(ranks)));
        }
    }

    /// The batches that the explorer decides about.
    pub fn explored(&self) -> ExploredEvents {
        match self {
            Self::Explored(events) => events.clone(),
            Self::Loggers(_) | Self::Ranks(_) => unreachable!("a seed decides in this job"),
        }
    }

    /// Number of loggers that have admitted the life.
    pub fn live(&self) -> usize {
        match self {
            Self::Loggers(client) => client.live(),
            Self::Ranks(store) if let Some(loggers) = &store.loggers => loggers.live(),
            Self::Ranks(_) | Self::Explored(_) => usize::MAX,
        }
    }

    fn stable_end(&self) -> EventIndex {
        match self {
            Self::Loggers(client) => client.stable_end(),
            Self::Ranks(store) => store.begun().stable_end(),
            Self::Explored(events) => events.0.borrow().stable,
        }
    }
}

/// The commits of a life, with a planted bug if there is one.
#[derive(Debug)]
pub struct SimCommitments {
    store: EventStore,
    /// One past the last committed determinant.
    begun: EventIndex,
    planted: Option<Planted>,
    /// The batch that was prepared as the next one.
    prepared: Option<Vec<u8>>,
}

/// The output of a life.
#[derive(Debug, Default)]
pub struct SimOutput {
    /// Number of events that must be stable before waiting output may leave.
    pub wanted: u64,
}

impl Watch for SimOutput {
    fn wanted(&self) -> u64 {
        self.wanted
    }
}

impl SimCommitments {
    /// Commits to a store whose life has begun.
    pub fn new(store: EventStore, start: EventIndex, planted: Option<Planted>) -> Self {
        Self {
            store,
            begun: start,
            planted,
            prepared: None,
        }
    }

    /// The events at other ranks, if they are there.
    pub fn held(&mut self) -> Option<&mut Holdings> {
        self.store.held()?.stores.as_mut()?.holdings_mut()
    }

    fn waits_behind_gate(&self) -> bool {
        self.planted == Some(Planted::CommitBehindGate) && self.store.stable_end() < self.begun
    }
}

impl Commits for SimCommitments {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.begun = header.end();
        self.prepared = None;
        match &mut self.store {
            EventStore::Loggers(client) => client.commit(header, batch),
            EventStore::Ranks(store) => {
                store.ledger.committed(header);
                store.begun_mut().commit(header, batch);
            }
            EventStore::Explored(events) => {
                let pending = &mut events.0.borrow_mut().pending;
                pending.push((header.end(), batch.into()));
            }
        }
    }

    fn takes_matches(&self) -> bool {
        match &self.store {
            EventStore::Ranks(store) => store.begun().takes_matches(),
            EventStore::Loggers(_) | EventStore::Explored(_) => false,
        }
    }

    fn commit_match(&mut self, header: &BatchHeader, payload: &[u8], alone: Match) {
        self.begun = header.end();
        if let Some(store) = self.store.held() {
            store.ledger.committed(header);
            store.begun_mut().commit_match(header, payload, alone);
        }
    }

    fn prepare(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(header.first, self.begun, "it may be the next");
        self.prepared = Some(batch.to_vec());
    }

    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(self.prepared.as_deref(), Some(batch), "the very one");
        self.commit(header, batch);
    }

    fn stable_end(&self) -> EventIndex {
        self.store.stable_end()
    }

    fn poll(&mut self) -> EventIndex {
        let waits = self.waits_behind_gate();
        match &mut self.store {
            EventStore::Loggers(client) if !waits => client.poll(),
            EventStore::Ranks(store) => store.begun_mut().poll(),
            store => store.stable_end(),
        }
    }

    fn is_instant(&self) -> bool {
        false
    }

    fn trim(&mut self, before: Clock) {
        match &mut self.store {
            EventStore::Loggers(client) => client.trim(before),
            EventStore::Ranks(store) => {
                store.ledger.trimmed(store.life.rank, before);
                store.begun_mut().trim(before);
            }
            EventStore::Explored(events) => events.0.borrow_mut().trimmed = before,
        }
    }

    fn leave(&mut self) -> bool {
        match &mut self.store {
            EventStore::Loggers(client) => client.leave(),
            EventStore::Ranks(store) => store.begun_mut().leave(),
            EventStore::Explored(_) => true,
        }
    }

    fn press(&mut self) {
        if let Some(store) = self.store.held() {
            store.begun_mut().press();
        }
    }

    fn idle(&mut self) {
        if let Some(store) = self.store.held() {
            store.begun_mut().idle();
        }
    }

    fn may_carry(&self, to: Rank, has_pending: impl FnOnce() -> bool) -> bool {
        match &self.store {
            EventStore::Ranks(store) => store.begun().may_carry(to, has_pending),
            EventStore::Loggers(_) | EventStore::Explored(_) => true,
        }
    }

    fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        match self.store.held() {
            Some(store) => store.begun_mut().carry(carriage, out),
            None => true,
        }
    }

    fn carry_alone(
        &mut self,
        carriage: Carriage,
        first: EventIndex,
        alone: &Match,
        out: &mut Vec<u8>,
    ) -> bool {
        // Which then is committed too late for what `carried` does.
        if self.planted == Some(Planted::CarriedOnce) {
            return false;
        }
        let store = self.store.held();
        store.is_some_and(|store| store.begun_mut().carry_alone(carriage, first, alone, out))
    }

    fn carried(&mut self, to: Rank) {
        let once = self.planted == Some(Planted::CarriedOnce);
        let Some(store) = self.store.held() else {
            return;
        };
        let holdings = store.holdings_mut();
        let ranks = if once { holdings.size() } else { 0 };
        holdings.carried(to);
        for other in (0..ranks).map(Rank) {
            let carriage = Carriage {
                to: other,
                life: Incarnation(0),
                may_be_first: true,
                bytes_max: usize::MAX,
            };
            holdings.carry(carriage, &mut Vec::new());
            holdings.carried(other);
        }
    }

    fn take_carried(&mut self, from: Rank, attachment: &[u8]) -> Result<(), &'static str> {
        let Some(store) = self.store.held() else {
            return Err("its events are at loggers");
        };
        store.begun_mut().take_carried(from, attachment)?;
        if self.planted == Some(Planted::CarriedForgotten) {
            store.holdings_mut().forget_held(from);
        }
        let held = store.holdings().held_of(from);
        store.ledger.holds(store.life.rank, from, held.batches());
        Ok(())
    }

    fn matched(&mut self, source: Rank) {
        if let Some(store) = self.store.held() {
            store.begun_mut().matched(source);
        }
    }

    fn tell(&mut self, piece: &mut [u8]) -> Option<(Rank, usize)> {
        self.store.held()?.begun_mut().tell(piece)
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        let Some(store) = self.store.held() else {
            return Err("its events are at loggers");
        };
        store.begun_mut().hear(from, piece)?;
        let held = store.holdings().held_of(from);
        store.ledger.holds(store.life.rank, from, held.batches());
        Ok(())
    }

    fn fenced(&mut self, peer: Rank) {
        let forgets = self.planted == Some(Planted::HoldersForgotten);
        let keeps_coder = self.planted == Some(Planted::CoderKept);
        let Some(store) = self.store.held().filter(|_| !forgets) else {
            return;
        };
        let holdings = store.holdings_mut();
        match keeps_coder {
            true => holdings.fence_with_coder(peer, |holdings| holdings.fenced(peer)),
            false => holdings.fenced(peer),
        }
    }

    fn connected(&mut self, peer: Rank) {
        let forgets = self.planted == Some(Planted::HoldersForgotten);
        if let Some(store) = self.store.held() {
            if forgets {
                store.begun_mut().fenced(peer);
            }
            store.begun_mut().connected(peer);
        }
    }

    fn explain(&self) -> Option<String> {
        match &self.store {
            EventStore::Loggers(client) => client.explain(),
            EventStore::Ranks(store) => store.begun().explain(),
            EventStore::Explored(_) => None,
        }
    }
}
