//! What ranks hold of each other's determinants, and what they tell each other about it: the part that
//! the protocols without event loggers share. docs/design/events-at-ranks.md

use super::attachment::{Incoming, Scratch, Writer};
use super::batch::Batch;
use super::collected::{Collected, answer};
use super::counts::HeldCounts;
use super::floor::Floor;
use super::holders::{Holders, bits};
use super::lane::{Lane, Message, Taken};
use super::recent::{Made, Recent};
use super::row::{Place, Row};
use super::tolerance::Tolerance;
use crate::determinant::batch::{BatchHeader, HEADER_BYTES};
use crate::determinant::{EventIndex, Match};
use crate::pessimist::Commits;
use refrain_ring::{Carriage, Clock, Incarnation, Rank};
use std::collections::{BTreeMap, VecDeque};

/// A batch of this rank that was not stable when it was made.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Waiting {
    pub end: EventIndex,
    /// In the row of own batches.
    pub place: Place,
    /// In which places of its holders there are ranks that have confirmed it, as bits.
    pub confirmed: u8,
    /// It was given to other ranks because something waits for it. CAUSAL-3
    pub is_pressed: bool,
}

impl Waiting {
    pub(crate) fn new(batch: &Batch<'_>, place: Place, confirmed: u8) -> Self {
        Self {
            end: batch.end(),
            place,
            confirmed,
            is_pressed: false,
        }
    }

    /// Whether the holder in this place has confirmed it.
    pub(crate) fn is_confirmed(&self, place: usize) -> bool {
        self.confirmed & 1 << place != 0
    }
}

/// What messages carried to a peer and from it, over one connection. CAUSAL-1
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Carried {
    /// Everything unstable before this was carried to it.
    pub until: EventIndex,
    /// The same behind the attachment that is being made.
    pub next: EventIndex,
    /// Length of the attachment that is being made.
    pub bytes: usize,
    /// Writes what is carried to it; made when it is needed.
    pub writer: Option<Box<Writer>>,
    /// What it carries here.
    pub incoming: Option<Box<Incoming>>,
    /// One past the last batch that came from it, if that is not confirmed.
    pub to_confirm: Option<EventIndex>,
    /// Attachments that came from it since the last confirmation.
    pub unconfirmed: u32,
}

/// When a rank gives its batches to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gives {
    /// At once, to the sender of the newest message: `ticket`.
    AtCommit,
    /// With its messages, to their receivers: `causal`.
    WithMessages,
}

/// A peer, as the protocol sees it.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Peer {
    pub is_live: bool,
    /// It still holds what an earlier life of this rank has given it.
    pub has_held: bool,
    lane: Lane,
    /// What it was given and has not confirmed, in this order.
    pub given: VecDeque<Taken>,
    /// Number of these since the start, and of those confirmed or given to another rank since.
    pub counts: (u64, u64),
    /// What messages carried to it and from it over this connection.
    pub carried: Carried,
    /// The newest floor that it was told over this connection.
    pub told: EventIndex,
    /// It was given batches since.
    pub was_given: bool,
    /// What this rank has taken last of it and has not confirmed.
    to_confirm: Option<Taken>,
    /// It is in the queue of those to which there is something to tell.
    is_queued: bool,
}

/// What a dead life held of this rank, on its way to other holders.
#[derive(Clone, Debug, Hash)]
pub(super) struct Restoring {
    pub rank: Rank,
    pub incarnation: Incarnation,
    /// By peer, how many batches have to be confirmed. `None`: too few other ranks live.
    pub until: Option<Vec<u64>>,
}

/// Where the determinants of one rank are, and those that it holds of others.
#[derive(Clone, Debug, Hash)]
pub struct Holdings {
    pub(crate) rank: Rank,
    pub(crate) incarnation: Incarnation,
    pub(crate) gives: Gives,
    pub(crate) tolerance: Tolerance,
    /// There are event loggers, too.
    pub(super) has_loggers: bool,
    /// The sender of the newest message that was matched.
    pub(crate) sender: Option<Rank>,
    pub(crate) peers: Vec<Peer>,
    /// Own batches after the checkpoints.
    pub(crate) own: Row,
    /// Those behind them. They are empty where batches are given at once.
    pub(crate) recent: Recent,
    /// The holders of each in `own`.
    pub(crate) holders: Holders,
    /// The first own determinant that was not trimmed.
    pub(super) floor: EventIndex,
    /// The newest floor of which other ranks were told because loggers have what is before.
    pub(super) told_at: EventIndex,
    /// Those in `own` that are not stable, the last ones.
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) stable: EventIndex,
    /// What this rank holds of others, each with the first determinant that is not trimmed.
    pub(crate) held: BTreeMap<Rank, (Floor, Row)>,
    queue: VecDeque<Rank>,
    /// Peers whose attachments are to be confirmed.
    pub(crate) unconfirmed: Vec<Rank>,
    pub(crate) scratch: Scratch,
    /// It keeps no determinants any more. LOG-7
    pub(crate) has_stopped: bool,
    /// Why an attachment that was taken earlier could not be read, until that is reported.
    pub(crate) unreadable: Option<&'static str>,
    pub(super) restoring: Vec<Restoring>,
    /// One past what holders had of the last life of this rank, until that has enough holders again.
    pub(super) earlier: Option<(EventIndex, Incarnation)>,
    pub(crate) counts: HeldCounts,
}

impl Holdings {
    /// The holdings of a rank of a job with `size` ranks. `collected`: what holders gave to a later
    /// life; a first one begins with nothing, and with its peers connected.
    pub fn new(
        (gives, tolerance): (Gives, Tolerance),
        (rank, incarnation): (Rank, Incarnation),
        size: u32,
        collected: Option<Collected>,
    ) -> Self {
        let is_first = collected.is_none();
        let peer = |of: u32| Peer {
            is_live: is_first && Rank(of) != rank,
            has_held: !is_first && Rank(of) != rank,
            lane: Lane::default(),
            given: VecDeque::new(),
            counts: (0, 0),
            carried: Carried::default(),
            told: EventIndex(0),
            was_given: false,
            to_confirm: None,
            is_queued: false,
        };
        let collected = collected.unwrap_or_default();
        let (mut own, mut holders) = (Row::default(), Holders::new(rank, &tolerance));
        let mut waiting = VecDeque::new();
        let (mut stable, mut held) = (collected.floor, collected.floor);
        for (batch, of_batch) in collected.row.batches().zip(collected.holders) {
            let place = own.end();
            own.push(&batch);
            let confirmed = holders.push(&tolerance, of_batch);
            // What only this rank's own earlier lives had has no holder. CAUSAL-4
            if confirmed != 0 {
                held = batch.end();
            }
            // A batch with too few holders is not stable, nor are those behind it. TICKET-4
            if waiting.is_empty() && confirmed == bits(tolerance.failures()) {
                stable = batch.end();
            } else {
                waiting.push_back(Waiting::new(&batch, place, confirmed));
            }
        }
        let before = incarnation.0.checked_sub(1).filter(|_| !is_first);
        Self {
            rank,
            incarnation,
            gives,
            tolerance,
            has_loggers: false,
            sender: None,
            peers: (0..size).map(peer).collect(),
            own,
            recent: Recent::default(),
            holders,
            floor: collected.floor,
            told_at: collected.floor,
            waiting,
            stable,
            held: BTreeMap::new(),
            queue: VecDeque::new(),
            unconfirmed: Vec::new(),
            scratch: Scratch::default(),
            has_stopped: false,
            unreadable: None,
            restoring: Vec::new(),
            earlier: before.map(|before| (held, Incarnation(before))),
            counts: HeldCounts::default(),
        }
    }

    /// What this rank holds of another, for that rank's next life. Called when the other's present
    /// life is fenced. TICKET-2
    pub fn answer(&self, of: Rank) -> Vec<u8> {
        let floor = self.held.get(&of).map(|(floor, _)| *floor);
        answer(floor.unwrap_or_default(), &self.held_of(of))
    }

    /// [`Holdings::own`], as if another rank gave that answer.
    pub fn own_answer(&self) -> Vec<u8> {
        let (first, life) = (self.floor, Incarnation(0));
        answer(Floor { first, life }, &self.own())
    }

    /// The batches of this rank itself that ranks have to hold, in order.
    pub fn own(&self) -> Row {
        let mut own = self.own.clone();
        for made in self.recent.iter() {
            own.push(&made.batch());
        }
        own
    }

    /// Bytes of memory of the batches of this rank and of those that it holds of others, without the newest.
    pub fn held_bytes(&self) -> u64 {
        self.bytes_by_rank().map(|(_, bytes, _)| bytes).sum()
    }

    /// By rank, this one and others: bytes of memory of its determinants here, and the first one that is not
    /// trimmed.
    pub fn bytes_by_rank(&self) -> impl Iterator<Item = (Rank, u64, EventIndex)> {
        let held = self.held.iter();
        let held = held.map(|(rank, (floor, row))| (*rank, row.as_bytes().len(), floor.first));
        let own = self.own.as_bytes().len() + self.holders.bytes();
        let all = held.chain([(self.rank, own, self.floor)]);
        all.map(|(rank, bytes, floor)| (rank, bytes as u64, floor))
    }

    /// Frees all determinants, and keeps none from now on: those of this rank count as stable, and those of
    /// others as held. No rank can be restarted any more. LOG-7
    pub fn stop_keeping(&mut self) {
        self.store_recent(true);
        for peer in (0..self.peers.len() as u32).map(Rank) {
            self.read_carried_by(peer);
        }
        self.has_stopped = true;
        self.held.clear();
        self.stable = self.waiting.back().map_or(self.stable, |last| last.end);
        self.waiting.clear();
        (self.own, self.holders) = (Row::default(), Holders::new(self.rank, &self.tolerance));
        self.floor = self.stable;
        self.tell_floor_to_all();
    }

    /// Whether [`Holdings::stop_keeping`] was called.
    pub fn has_stopped_keeping(&self) -> bool {
        self.has_stopped
    }

    /// Number of determinants of this rank, and of those that it holds of others.
    pub fn held_events(&self) -> (u64, u64) {
        let events = |row: &Row| row.batches().map(|it| u64::from(it.count)).sum::<u64>();
        let held = self.held.values().map(|(_, row)| events(row));
        (events(&self.own), held.sum())
    }

    /// What this life has given to others.
    pub fn counts(&self) -> HeldCounts {
        self.counts
    }

    pub(crate) fn say(&mut self, to: Rank, message: Message<'_>) {
        let peer = &mut self.peers[to.index()];
        peer.lane.say(message);
        if !peer.is_queued {
            peer.is_queued = true;
            self.queue.push_back(to);
        }
    }

    /// A peer has confirmed what it was given up to this. GATE-3: of which life, and which batch.
    /// The connection says by whom.
    fn confirmed(&mut self, by: Rank, taken: Taken) {
        self.store_recent(true);
        let peer = &mut self.peers[by.index()];
        let Some(last) = peer.given.iter().position(|given| *given == taken) else {
            return;
        };
        peer.counts.1 += last as u64 + 1;
        for _ in 0..=last {
            let given = self.peers[by.index()].given.pop_front();
            if let Some(Taken::Batch { end, .. }) = given
                && let Ok(place) = self.waiting.binary_search_by_key(&end, |it| it.end)
            {
                self.is_held_by(place, by);
            }
        }
        self.settle();
    }

    /// Batches become stable in their order. TICKET-1
    pub(crate) fn settle(&mut self) {
        while let Some(first) = self.waiting.front()
            && first.confirmed == bits(self.tolerance.failures())
        {
            self.stable = first.end;
            self.waiting.pop_front();
        }
        if self.waiting.is_empty() {
            self.stable = self.recent.settle().unwrap_or(self.stable);
        }
    }

    fn heard(&mut self, from: Rank, message: Message<'_>) {
        match message {
            Message::Hold(batch) => {
                if !self.has_stopped {
                    let (_, row) = self.held.entry(from).or_default();
                    row.push(&batch);
                }
                let (incarnation, end) = (batch.incarnation, batch.end());
                self.took(from, Taken::Batch { incarnation, end });
            }
            Message::Took(taken) => self.confirmed(from, taken),
            Message::TookCarried { end } => self.carried_confirmed(from, end),
            Message::Trim(floor) => {
                self.read_carried_by(from);
                let (its_floor, row) = self.held.entry(from).or_default();
                *its_floor = floor.max(*its_floor);
                row.trim(floor.first);
                self.took(from, Taken::Floor(floor.first));
            }
        }
    }

    /// Confirms this, and all before it, with the next piece.
    fn took(&mut self, from: Rank, taken: Taken) {
        let peer = &mut self.peers[from.index()];
        peer.to_confirm = Some(taken);
        if !peer.is_queued {
            peer.is_queued = true;
            self.queue.push_back(from);
        }
    }
}

impl Commits for Holdings {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        if self.has_stopped {
            self.stable = header.end();
            return;
        }
        if self.takes_matches() {
            let payload = &batch[HEADER_BYTES..header.batch_bytes()];
            return self.push_recent(Made::new(header, payload, None));
        }
        let batch = Batch::of(header, batch);
        let waiting = Waiting::new(&batch, self.own.end(), 0);
        self.own.push(&batch);
        let at = self.holders.len();
        self.holders.push(&self.tolerance, []);
        self.waiting.push_back(waiting);
        // With one failure, the next messages carry it.
        if self.gives == Gives::AtCommit || self.tolerance.failures() > 1 {
            self.give_to_missing(at, batch, self.ticket_holder());
        }
    }

    fn takes_matches(&self) -> bool {
        // Above one failure batches need holders before a message leaves; loggers take whole batches.
        self.gives == Gives::WithMessages && self.tolerance.failures() == 1 && !self.has_loggers
    }

    fn commit_match(&mut self, header: &BatchHeader, payload: &[u8], alone: Match) {
        if self.has_stopped {
            self.stable = header.end();
            return;
        }
        self.push_recent(Made::new(header, payload, Some(alone)));
    }

    fn stable_end(&self) -> EventIndex {
        self.stable
    }

    fn poll(&mut self) -> EventIndex {
        self.stable
    }

    fn is_instant(&self) -> bool {
        // An early commit gains nothing where messages carry the batches.
        self.takes_matches()
    }

    fn press(&mut self) {
        if self.gives == Gives::WithMessages {
            self.give_unstable();
        }
    }

    fn idle(&mut self) {
        self.confirm_carried();
        self.store_recent(false);
    }

    fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        self.carry_to(carriage, out)
    }

    #[inline]
    fn may_carry(&self, to: Rank, has_pending: impl FnOnce() -> bool) -> bool {
        self.may_carry_to(to, has_pending)
    }

    #[inline]
    fn carry_alone(
        &mut self,
        carriage: Carriage,
        first: EventIndex,
        alone: &Match,
        out: &mut Vec<u8>,
    ) -> bool {
        // Loggers take whole batches.
        !self.has_loggers && self.carry_alone_to(carriage, first, alone, out)
    }

    #[inline]
    fn carried(&mut self, to: Rank) {
        self.carried_to(to);
    }

    #[inline]
    fn take_carried(&mut self, from: Rank, attachment: &[u8]) -> Result<(), &'static str> {
        self.take_carried_from(from, attachment)
    }

    fn trim(&mut self, before: Clock) {
        self.store_recent(true);
        let stable = self.holders.len() - self.waiting.len();
        let mut stable = self.own.batches().take(stable);
        let kept = stable.find(|batch| batch.last_clock > before);
        let first = kept.map(|batch| batch.first);
        drop(stable);
        self.drop_before(first.unwrap_or(self.stable));
        self.tell_floor_to_all();
    }

    fn matched(&mut self, source: Rank) {
        self.sender = Some(source);
    }

    fn tell(&mut self, piece: &mut [u8]) -> Option<(Rank, usize)> {
        let to = *self.queue.front()?;
        let peer = &mut self.peers[to.index()];
        if let Some(taken) = peer.to_confirm.take() {
            peer.lane.say(Message::Took(taken));
        }
        // A queued peer has a piece or a confirmation to come.
        let bytes = peer.lane.next_piece(piece);
        self.counts.told_bytes += bytes as u64;
        if !peer.lane.has_piece() {
            peer.is_queued = false;
            self.queue.pop_front();
        }
        Some((to, bytes))
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        // FENCE-1
        if !self.peers[from.index()].is_live {
            return Ok(());
        }
        self.report_unreadable()?;
        let mut lane = core::mem::take(&mut self.peers[from.index()].lane);
        let heard = lane.hear(piece, |message| self.heard(from, message));
        self.peers[from.index()].lane = lane;
        heard
    }

    fn fenced(&mut self, peer: Rank) {
        self.store_recent(true);
        self.read_carried_by(peer);
        let dead = &mut self.peers[peer.index()];
        (dead.is_live, dead.has_held) = (false, false);
        dead.lane = Lane::default();
        dead.given.clear();
        dead.counts.1 = dead.counts.0;
        dead.carried = Carried::default();
        dead.told = EventIndex(0);
        dead.to_confirm = None;
        dead.is_queued = false;
        self.queue.retain(|queued| *queued != peer);
        // TICKET-4
        self.give_lost(peer, None);
    }

    fn connected(&mut self, peer: Rank) {
        if self.peers[peer.index()].is_live {
            return;
        }
        self.store_recent(true);
        self.peers[peer.index()].is_live = true;
        self.give_to_connected(peer);
    }

    fn explain(&self) -> Option<String> {
        let waits = |peer: &Peer| !peer.given.is_empty();
        let holder = self.peers.iter().position(waits);
        Some(match holder {
            Some(rank) => format!("rank {rank} has not confirmed that it holds them"),
            None => "too few other ranks are there to hold them".into(),
        })
    }
}
