//! libfabric: every provider with reliable endpoints without connections
//! (`FI_EP_RDM`) behind one fabric.
//!
//! - A frame is sent as [wire header | record] from the registered log, and
//!   received into posted slots; a peer sends at most as many as it has credits,
//!   so that no receiver is overrun. (What all peers together may send beyond the
//!   receives that a provider takes, it holds back itself.) Matching is the
//!   engine's: providers' own is not to be trusted (1.17 `shm` swallows peeked
//!   messages).
//! - Payload above a length is *distant* where the provider can read remote
//!   memory well: only the record's header is sent, and the receiver reads the
//!   payload out of the sender's log into the memory of the receive.
//! - Nobody writes into a rank's memory one-sided: a fenced peer cannot either
//!   (FENCE-1).
//! - What is acknowledged, by the receiving fabric and not by the provider, is
//!   released. What is not is sent again from the log when a connection broke
//!   (see [`lane`]).

pub mod address;
mod arrivals;
mod attention;
mod choices;
mod fetching;
pub mod lane;
mod peer;
mod providers;
mod slots;
mod transmit;
mod waiting;
pub mod wire;

pub use choices::Overrides;
pub use providers::{Provider, library_version, providers};

use super::{
    Address, Attributes, Fabric, FabricError, Landing, Place, RELEASED_WHOLLY, Refusal, Sink,
};
use crate::control::Control;
use crate::gate::Pass;
use address::OfiAddress;
use choices::{CONTROL_CREDITS, Choices};
use core::time::Duration;
use fetching::Fetching;
use lane::{Owed, Patience, PatienceOptions, Receiving, Sending, Sent};
use peer::Peer;
use refrain_libfabric::constants::FI_MR_LOCAL;
use refrain_libfabric::{Access, Completion, Endpoint, EndpointOptions, RemoteMemory};
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, RecordKind, Region};
use slots::Slots;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use transmit::{Body, Operation, Outgoing, Transmitter};
use waiting::Greetings;
use wire::{Kind, WIRE_BYTES};

/// Polls without anything after which even a peer that has credits left is told
/// what was taken.
const IDLE_POLLS: u32 = 64;
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 1024;
/// Bytes of a record before its payload, when that is longer than a few bytes.
const RECORD_HEAD_BYTES: usize = refrain_ring::payload_offset(usize::MAX >> 1);
/// Messages that the provider reads from the log at a time. There is room for
/// those, too, that it never completes after their peer died (`sockets`).
const MESSAGES_MAX: usize = 1024;

/// What a rank brings to the fabric.
#[derive(Clone, Debug)]
pub struct OfiOptions {
    /// The job; frames of other jobs are dropped.
    pub job: u64,
    /// This rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Ranks of the job.
    pub size: u32,
    /// Bytes that one channel's log may hold before its receiver has let go.
    pub window_bytes: u64,
    /// libfabric's name of the provider: `tcp`, `shm`, `tcp;ofi_rxm` …
    pub provider: String,
    /// The library file; `None`: `libfabric.so.1` as the loader finds it.
    pub library: Option<PathBuf>,
    /// How long an error of the provider about a peer may last until the peer
    /// counts as lost.
    pub lost_after: Duration,
    /// How long a peer may leave frames unanswered until it is reported as lost;
    /// `None`: for ever. A rank that computes answers nothing meanwhile.
    pub suspect_after: Option<Duration>,
    /// For tests and measurements.
    pub overrides: Overrides,
}

/// The libfabric fabric of one rank.
#[derive(Debug)]
pub struct Ofi {
    // Closed before the memory that operations use: first.
    endpoint: Endpoint,
    attributes: Attributes,
    options: OfiOptions,
    choices: Choices,
    region: Region,
    own: OfiAddress,
    slots: Slots,
    transmitter: Transmitter,
    fetching: Fetching,
    peers: Vec<Option<Peer>>,
    /// The lowest incarnation of each peer that was never connected. FENCE-1
    acceptable: Vec<u64>,
    /// A life of each peer of which something came before it was connected.
    early: Vec<Option<Incarnation>>,
    connections: u32,
    /// Peers to whom something is owed, or for whom something waits.
    attention: Vec<Rank>,
    greetings: Greetings,
    /// Read from the provider and not looked at.
    batch: Vec<Completion>,
    /// Empty receive slots that the provider has to be given.
    to_post: Vec<usize>,
    /// With so many empty slots they are posted before anything else.
    repost_from: usize,
    failures: Option<FabricError>,
    /// The provider refused a post: nothing will say when it has room again.
    was_refused: bool,
    lost: Vec<Rank>,
    started: Instant,
    idle_polls: u32,
    polls: u32,
    is_closed: bool,
}

impl Ofi {
    /// Opens an endpoint and registers the log memory in `region`.
    ///
    /// # Errors
    /// When library or provider are missing or refuse: in the provider's words.
    pub fn create(options: OfiOptions, region: &Region) -> Result<Self, FabricError> {
        let (library, info) = providers::open(&options)?;
        let choices = Choices::new(&info, options.size, options.overrides);
        let operations_max =
            choices.receives + MESSAGES_MAX + Transmitter::stages_max() + Fetching::reads_max();
        let mut endpoint = Endpoint::open(
            &library,
            &info,
            &EndpointOptions {
                // Injected messages may leave entries too, when they fail.
                cq_depth: 2 * operations_max,
                av_count: options.size as usize,
                wants_fd: true,
                operations_max,
            },
        )
        .map_err(|error| native(&error))?;
        let made = Self::make_memory(&mut endpoint, &options, &choices, region);
        let (log, slots, transmitter, bounce) = made.map_err(|error| native(&error))?;
        let remote = choices
            .distant_bytes_min
            .map(|_| endpoint.remote_key(log))
            .unwrap_or(RemoteMemory { key: 0, base: 0 });
        let own = OfiAddress {
            rank: options.rank,
            incarnation: options.incarnation,
            job: options.job,
            provider: info.provider(),
            name: endpoint.name().map_err(|error| native(&error))?,
            message_bytes_max: slot_bytes(&choices) as u32,
            credits: choices.credits as u32,
            window_bytes: options.window_bytes,
            key: remote.key,
            base: remote.base,
        };
        let size = options.size as usize;
        let mut fabric = Self {
            attributes: Attributes {
                name: format!("ofi:{}", options.provider).into(),
                reads_in_place: false,
                frame_payload_bytes_max: choices.payload_bytes_max(),
                fragment_bytes: choices.fragment_bytes_in(options.window_bytes),
                eager_bytes_max: options.window_bytes / 4,
                staged_bytes: choices.staged_bytes.clone(),
            },
            choices,
            region: region.clone(),
            own,
            to_post: (0..slots.count()).collect(),
            repost_from: slots.count().div_ceil(4),
            slots,
            transmitter,
            fetching: Fetching::new(bounce, info.provider() == "shm"),
            peers: (0..size).map(|_| None).collect(),
            acceptable: vec![0; size],
            early: vec![None; size],
            connections: 0,
            attention: Vec::with_capacity(size),
            greetings: Greetings::default(),
            batch: Vec::with_capacity(512),
            failures: None,
            was_refused: false,
            lost: Vec::new(),
            started: Instant::now(),
            idle_polls: 0,
            polls: 0,
            is_closed: false,
            options,
            endpoint,
        };
        fabric.post_receives();
        fabric.failures.take().map_or(Ok(fabric), Err)
    }

    fn make_memory(
        endpoint: &mut Endpoint,
        options: &OfiOptions,
        choices: &Choices,
        region: &Region,
    ) -> Result<
        (
            refrain_libfabric::MemoryId,
            Slots,
            Transmitter,
            Option<Slots>,
        ),
        refrain_libfabric::Error,
    > {
        let access = if choices.distant_bytes_min.is_some() {
            Access::LOCAL | Access::REMOTE_READ
        } else {
            Access::LOCAL
        };
        let log = endpoint.register(region, 0, region.bytes(), access)?;
        let slots = Slots::new(endpoint, slot_bytes(choices), choices.receives)?;
        let identity = (options.job, options.rank, options.incarnation);
        let transmitter = Transmitter::new(
            endpoint,
            identity,
            log,
            MESSAGES_MAX,
            choices.staged_bytes.end,
        )?;
        let must_register = endpoint.info().mr_mode() & FI_MR_LOCAL != 0;
        let bounce = (must_register && choices.distant_bytes_min.is_some())
            .then(|| Slots::new(endpoint, choices.payload_bytes_max(), Fetching::reads_max()));
        Ok((log, slots, transmitter, bounce.transpose()?))
    }

    /// Exchanges a greeting with other ranks, so that an address that does not
    /// answer is found at the start: sends one to `to`, waits for its answer, and
    /// answers those of `from`. To be called by all ranks of the job at about the
    /// same time, after they connected; a rank is in `from` of the one that it
    /// greets.
    ///
    /// # Errors
    /// [`FabricError::Silent`] after `timeout`.
    pub fn greet(
        &mut self,
        to: Option<Rank>,
        from: &[Rank],
        timeout: Duration,
    ) -> Result<(), FabricError> {
        self.greet_and_answer(to, from, timeout)
    }

    fn silent(&self, peer: Rank, waited: Duration) -> FabricError {
        let state = self.peers[peer.index()].as_ref();
        let address = state.map_or_else(String::new, |state| state.published.readable());
        let words = state.and_then(|state| state.last_error.clone());
        FabricError::Silent {
            peer,
            address: words.map_or(address.clone(), |words| format!("{address} ({words})")),
            waited_s: waited.as_secs(),
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn connected(&self, place: Place) -> Option<&Peer> {
        self.peers
            .get(place.source.index())?
            .as_ref()
            .filter(|peer| u64::from(peer.incarnation.0) == place.locator)
    }

    fn connected_mut(&mut self, place: Place) -> Option<&mut Peer> {
        self.peers
            .get_mut(place.source.index())?
            .as_mut()
            .filter(|peer| u64::from(peer.incarnation.0) == place.locator)
    }
}

/// The longest message that arrives.
fn slot_bytes(choices: &Choices) -> usize {
    WIRE_BYTES + RECORD_HEAD_BYTES + choices.slot_payload_bytes()
}

/// What has to be known of a frame until it is released.
#[inline]
fn sent(frame: &Frame, distant: bool) -> Sent {
    Sent {
        offset: frame.offset,
        bytes: frame.bytes,
        distant,
        end: Position(frame.position.0 + frame.bytes.next_multiple_of(64) as u64),
        under_way: 0,
    }
}

/// A frame of the data lane, first time or again.
#[inline]
fn data(sequence: u64, sent: &Sent) -> Outgoing {
    let (kind, bytes, offset) = if sent.distant {
        let payload = (sent.offset + RECORD_HEAD_BYTES) as u64;
        (Kind::Distant, refrain_ring::RecordHeader::BYTES, payload)
    } else {
        (Kind::Frame, sent.bytes, 0)
    };
    Outgoing {
        kind,
        sequence,
        offset,
        body: Body::Log {
            offset: sent.offset,
            bytes,
        },
    }
}

/// The body of a frame that is a whole message and can go behind a short header.
#[inline]
fn whole(
    frame: &Frame,
    region: &Region,
    receiving: &Receiving,
    own: (Rank, Incarnation),
    distant: bool,
) -> Option<Body> {
    let record = frame.header(region).ok()?;
    let is_whole = !distant
        && (record.source, record.incarnation) == own
        && record.kind == RecordKind::Eager
        && u64::from(record.payload_bytes) == record.extent
        && receiving.counters().held <= u32::from(u16::MAX);
    is_whole.then(|| Body::Whole {
        offset: frame.offset + refrain_ring::payload_offset(record.payload_bytes as usize),
        record,
    })
}

/// The provider's words as the fabric's error.
fn native(error: &refrain_libfabric::Error) -> FabricError {
    FabricError::Native {
        attempted: error.attempted().to_owned(),
        words: error.words().to_owned(),
    }
}

impl Fabric for Ofi {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn address(&self) -> Address {
        Address {
            bytes: self.own.encode(),
            memory: None,
        }
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        let refuse = |reason: String| Err(FabricError::Attach { peer, reason });
        if peer == self.options.rank || peer.0 >= self.options.size {
            return refuse("only other ranks of the job can be connected".into());
        }
        if u64::from(incarnation.0) < self.acceptable[peer.index()] {
            return refuse(
                "this incarnation was connected before: only a later one may come".into(),
            );
        }
        let published = match OfiAddress::decode(&address.bytes) {
            Ok(published) => published,
            Err(error) => return refuse(error.to_string()),
        };
        let life = (published.rank, published.incarnation, published.job);
        if life != (peer, incarnation, self.own.job) {
            return refuse(format!(
                "the address is of rank {} in incarnation {} of job {:x}",
                published.rank, published.incarnation, published.job
            ));
        }
        if published.provider != self.own.provider {
            return refuse(format!(
                "it uses libfabric's provider {}, this rank {}: are the libraries of the hosts of different versions?",
                published.provider, self.own.provider
            ));
        }
        // Both follow from provider and size of the job, unless libraries differ.
        let room = |of: &OfiAddress| (of.message_bytes_max, of.credits);
        if room(&published) != room(&self.own) {
            return refuse(format!(
                "it receives {} messages of up to {} bytes from a peer, this rank {} of up to {}: are the libraries of the hosts of different versions?",
                published.credits,
                published.message_bytes_max,
                self.own.credits,
                self.own.message_bytes_max
            ));
        }
        self.disconnect(peer);
        let address = match self.endpoint.insert(&published.name) {
            Ok(address) => address,
            Err(error) => return refuse(format!("{} ({})", error, published.readable())),
        };
        self.acceptable[peer.index()] = u64::from(incarnation.0) + 1;
        self.connections = self.connections.wrapping_add(1);
        let credits = self.choices.credits as u64;
        let tell_bytes = (published.window_bytes / 4).max(1);
        let mut receiving = Receiving::new(credits, CONTROL_CREDITS as u64, tell_bytes);
        if self.early[peer.index()].take() >= Some(incarnation) {
            receiving.missed_the_beginning();
        }
        self.peers[peer.index()] = Some(Peer {
            rank: peer,
            incarnation,
            address,
            published,
            connection: self.connections,
            sending: Sending::new(credits, CONTROL_CREDITS as u64),
            receiving,
            patience: Patience::new(PatienceOptions {
                lost_after: self.options.lost_after,
                suspect_after: self.options.suspect_after,
            }),
            is_broken: false,
            is_lost: false,
            has_attention: false,
            last_error: None,
            kept: BTreeMap::new(),
        });
        self.note_attention(peer);
        Ok(())
    }

    fn disconnect(&mut self, peer: Rank) {
        if let Some(Some(fenced)) = self.peers.get_mut(peer.index()).map(Option::take) {
            // FENCE-1: what it had under way belongs to a connection that is over.
            self.attention.retain(|rank| *rank != peer);
            self.lost.retain(|rank| *rank != peer);
            self.greetings.forget(peer);
            self.fetching.disconnected(peer, fenced.connection);
            // What a provider cannot forget is never used again.
            let _ = self.endpoint.remove(fenced.address);
        }
    }

    #[inline]
    fn post(&mut self, _pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        if !state.sending.may_post() || !state.can_be_sent_to() {
            return Err(Refusal::Busy);
        }
        frame.publish(&self.region);
        let payload_bytes = frame.bytes.saturating_sub(RECORD_HEAD_BYTES);
        debug_assert!(
            payload_bytes <= self.attributes.frame_payload_bytes_max,
            "a frame of {payload_bytes} bytes of payload: no slot has room for it"
        );
        let distant = self
            .choices
            .distant_bytes_min
            .is_some_and(|bytes_min| payload_bytes >= bytes_min);
        let mut sent = sent(frame, distant);
        let mut outgoing = data(state.sending.next(), &sent);
        let own = (self.options.rank, self.options.incarnation);
        if let Some(whole) = whole(frame, &self.region, &state.receiving, own, sent.distant) {
            outgoing.body = whole;
        }
        let started = self.started;
        let transmitted = self
            .transmitter
            .transmit(&mut self.endpoint, state, &outgoing, || started.elapsed());
        let Ok(under_way) = transmitted else {
            self.was_refused = true;
            return Err(Refusal::Busy);
        };
        sent.under_way = under_way;
        state.sending.posted(sent);
        Ok(())
    }

    fn stage(
        &mut self,
        _pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        let is_short = state.receiving.counters().held <= u32::from(u16::MAX);
        if !state.sending.may_post() || !state.can_be_sent_to() || !is_short {
            return Err(Refusal::Busy);
        }
        let started = self.started;
        self.transmitter
            .stage(&mut self.endpoint, state, header, fill, || {
                started.elapsed()
            })
            .map_err(|_| Refusal::Busy)
    }

    fn staged(&mut self, peer: Rank, frame: &Frame) {
        if let Some(Some(state)) = self.peers.get_mut(peer.index()) {
            frame.publish(&self.region);
            state.sending.posted(sent(frame, false));
        }
    }

    fn post_control(&mut self, _pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        let words = control.encode(self.options.rank, self.options.incarnation);
        if !state.sending.push_control(words) {
            return Err(Refusal::Busy);
        }
        // Behind those that wait, if any do.
        if state.can_be_sent_to() {
            self.pump_backlog(peer);
        }
        self.note_attention(peer);
        Ok(())
    }

    #[inline]
    fn released(&mut self, peer: Rank) -> Position {
        let peer = self.peers.get(peer.index()).and_then(Option::as_ref);
        peer.map_or(RELEASED_WHOLLY, |peer| peer.sending.released())
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let mut calls = 0;
        if !self.is_closed {
            if self.batch.is_empty() {
                let polled = self.endpoint.poll(&mut self.batch);
                polled.map_err(|error| native(&error))?;
            }
            if !self.batch.is_empty() {
                calls += self.take_batch(sink);
            }
            // What came is answered first: slots can wait, unless many do.
            if !self.to_post.is_empty() && (calls == 0 || self.to_post.len() >= self.repost_from) {
                self.post_receives();
            }
            self.pump_fetches();
            self.polls = self.polls.wrapping_add(1);
            if self.polls.is_multiple_of(POLLS_PER_LOOK) {
                self.look_at_clocks();
            }
            self.idle_polls = if calls == 0 {
                self.idle_polls.saturating_add(1)
            } else {
                0
            };
            if !self.attention.is_empty() {
                let is_idle = self.idle_polls >= IDLE_POLLS;
                self.attend(if is_idle { Owed::WhenIdle } else { Owed::Now });
            }
        }
        while let Some((token, landed)) = self.fetching.take_ended() {
            sink.landed(token, landed);
            calls += 1;
        }
        while let Some(peer) = self.lost.pop() {
            sink.peer_lost(peer);
            calls += 1;
        }
        self.failures.take().map_or(Ok(calls), Err)
    }

    fn why_lost(&self, peer: Rank) -> Option<String> {
        let peer = self.peers.get(peer.index())?.as_ref()?;
        let why = peer.last_error.as_deref().filter(|_| peer.is_lost)?;
        Some(format!("{}: {why}", peer.published.readable()))
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        self.connected(place)
            .and_then(|peer| peer.kept.get(&place.position.0))
            .and_then(|payload| payload.get(..payload_bytes))
            .unwrap_or(&[])
    }

    fn let_go(&mut self, place: Place) {
        if let Some(peer) = self.connected_mut(place)
            && peer.kept.remove(&place.position.0).is_none()
        {
            peer.receiving.let_go(place.position.0);
            self.note_attention(place.source);
        }
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        let peer = self.peers.get(place.source.index());
        let peer = peer.and_then(Option::as_ref);
        match peer.filter(|peer| u64::from(peer.incarnation.0) == place.locator) {
            Some(peer) if !peer.is_lost => {
                self.fetching.begin(peer, place.position.0, landing);
                self.pump_fetches();
            }
            _ => self.fetching.lose(&landing),
        }
    }

    fn is_drained(&mut self) -> bool {
        self.attend(Owed::WhenIdle);
        let is_owed = |rank: &Rank| {
            self.peers[rank.index()]
                .as_ref()
                .is_some_and(|peer| peer.can_be_sent_to())
        };
        let is_connected = |rank: Rank, connection: u32| {
            self.peers[rank.index()]
                .as_ref()
                .is_some_and(|peer| peer.connection == connection && !peer.is_lost)
        };
        self.is_closed
            || !self.transmitter.is_busy(is_connected)
                && !self.attention.iter().any(is_owed)
                && self.peers.iter().flatten().all(Peer::is_drained)
    }

    fn close(&mut self) {
        self.is_closed = true;
        // An error leaks what could not be closed: nothing is freed under it.
        let _ = self.endpoint.close();
        self.fetching.closed();
        self.batch.clear();
    }

    fn wait(&mut self, timeout: Duration) {
        self.sleep(timeout);
    }
}

impl Ofi {
    fn take_batch(&mut self, sink: &mut dyn Sink) -> usize {
        let mut calls = 0;
        let mut batch = core::mem::take(&mut self.batch);
        for completion in batch.drain(..) {
            calls += self.complete(completion, Some(sink));
        }
        self.batch = batch;
        calls
    }
}
