//! A rank's side: commits to a quorum of loggers, keeps batches that are not stable, and
//! reconnects to loggers that were away.
//!
//! Blocks only in [`Client::connect`] and has no thread: its owner calls
//! [`Client::poll`] while something is not stable.

pub mod committer;
mod fault;
mod kept;
mod link;
pub mod network;
mod options;
pub mod read;
mod survey;
mod trouble;

pub use fault::Fault;
pub use options::ClientOptions;
pub use refrain_wire::{NotAnAddress, ServerAddress};

use crate::Level;
use crate::message::CommitPath;
use crate::ring::Placement;
use committer::Committer;
use core::time::Duration;
use link::{Environment, Link};
use network::{Network, Sockets};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation};
use rustix::event::{PollFd, Timespec, poll};
use thiserror::Error;
use trouble::Trouble;

/// Maximum sleep of [`Client::connect`] between attempts to reach missing
/// loggers.
const RETRY_WHILE_CONNECTING: Duration = Duration::from_millis(5);
/// Maximum wait of [`Client::connect`] for ports to connect, and interval of its polls.
const PORTS_WAIT: Duration = Duration::from_secs(1);
const PORTS_LOOK: Duration = Duration::from_millis(1);
/// Commits between two checks of lost loggers.
const COMMITS_PER_LOOK: u32 = 256;

/// Why a client cannot connect.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No quorum answered in time.
    #[error("{answered} of {quorum} event loggers answered within {waited_ms} ms: {why}")]
    NoQuorum {
        /// Number of loggers that answered.
        answered: usize,
        /// Number that is needed.
        quorum: usize,
        /// Time of waiting in milliseconds.
        waited_ms: u64,
        /// The problems of the other loggers.
        why: String,
    },
    /// A logger refuses this client for good.
    #[error("event logger {address}: {reason}")]
    Refused {
        /// The logger's address.
        address: String,
        /// The reason.
        reason: String,
    },
}

/// Commits the batches of one rank. See the [module](self).
#[derive(Debug)]
pub struct Client<N: Network = Sockets> {
    options: ClientOptions,
    network: N,
    committer: Committer,
    links: Vec<Link<N>>,
    /// A commit consists only of stores into every ring.
    places_directly: bool,
    /// Commits until lost loggers are checked again. The check is needed even while a quorum of
    /// the other loggers makes all events stable.
    until_look: u32,
    trimmed: Option<Clock>,
    is_leaving: bool,
    is_instant: bool,
    /// The latest time known.
    now: Duration,
}

impl Client<Sockets> {
    /// Connects to a quorum of the loggers. Determinants are numbered from the end of their
    /// logs ([`Client::next`]).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn connect(options: ClientOptions) -> Result<Self, ClientError> {
        let mut client = Self::over(Sockets::default(), options)?;
        while !client.has_quorum() {
            client.poll();
            let waited = client.network.now();
            let left = client.options.connect_wait.saturating_sub(waited);
            if client.has_quorum() {
                break;
            }
            client.check_refusals()?;
            if left.is_zero() {
                return Err(ClientError::NoQuorum {
                    answered: client.committer.answers(),
                    quorum: client.committer.answers_needed(),
                    waited_ms: client.options.connect_wait.as_millis() as u64,
                    why: client.troubles(),
                });
            }
            client.wait_for_answers(left);
        }
        client.connect_ports();
        Ok(client)
    }

    /// Polls until the ports for writes are connected: afterwards the program may
    /// compute for a long time without polling. If a port does not answer, commits fail
    /// later.
    fn connect_ports(&mut self) {
        let until = self.network.now() + PORTS_WAIT;
        while self.is_connecting() && self.network.now() < until {
            self.wait_for_answers(PORTS_LOOK);
            self.poll();
        }
    }

    fn wait_for_answers(&self, left: Duration) {
        let connections: Vec<_> = self.links.iter().filter_map(Link::connection).collect();
        // Lost replicas are tried again.
        let mut replicas = 0..self.links.len();
        let wait = match replicas.any(|index| self.committer.is_lost(index)) {
            true => left.min(RETRY_WHILE_CONNECTING),
            false => left,
        };
        // The next round notices errors of sockets.
        let mut waiting: Vec<_> = connections
            .iter()
            .map(|it| PollFd::new(*it, it.interest()))
            .collect();
        let _ = poll(&mut waiting, Timespec::try_from(wait).ok().as_ref());
    }
}

impl<N: Network> Client<N> {
    /// A client that is not connected: [`Client::poll`] connects it, and commits are
    /// possible once [`Client::start`] is known.
    ///
    /// # Errors
    /// [`ClientError::Refused`], for invalid options.
    pub fn over(network: N, options: ClientOptions) -> Result<Self, ClientError> {
        let replicas = options.loggers.len();
        if options.quorum == 0 || options.quorum > replicas {
            return Err(ClientError::Refused {
                address: "(all)".to_owned(),
                reason: format!(
                    "the quorum is {}, but must be 1 to {replicas}",
                    options.quorum
                ),
            });
        }
        let mut links = Vec::new();
        for (replica, address) in options.loggers.iter().enumerate() {
            let is_unix = matches!(address, ServerAddress::Unix(_));
            let way = match options.way {
                None if is_unix => CommitPath::SharedMemory,
                None => CommitPath::Messages,
                Some(CommitPath::SharedMemory) if !is_unix => {
                    return Err(ClientError::Refused {
                        address: address.to_string(),
                        reason: "shared memory needs a Unix socket: use unix:PATH".to_owned(),
                    });
                }
                Some(way) => way,
            };
            links.push(Link::new(replica, address.clone(), way));
        }
        let quorum = options.quorum;
        let is_instant =
            options.level == Level::Placed && links.iter().all(Link::is_over_shared_memory);
        Ok(Self {
            committer: Committer::new(options.rank, options.incarnation, replicas, quorum),
            options,
            network,
            links,
            places_directly: false,
            until_look: COMMITS_PER_LOOK,
            trimmed: None,
            is_leaving: false,
            is_instant,
            now: Duration::ZERO,
        })
    }

    fn has_quorum(&self) -> bool {
        self.live() >= self.committer.quorum()
    }

    /// Fails when a quorum has become impossible.
    fn check_refusals(&self) -> Result<(), ClientError> {
        let refused = || self.links.iter().filter(|link| link.is_refused);
        let possible = self.links.len() - refused().count();
        match refused().next() {
            Some(link) if possible < self.committer.answers_needed() => Err(ClientError::Refused {
                address: link.address.to_string(),
                reason: link.trouble.clone().unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// Number of the first determinant that this client commits; `None` until
    /// enough loggers have answered.
    pub fn start(&self) -> Option<EventIndex> {
        self.committer.start()
    }

    /// Incarnation that wrote the last determinant before [`Client::start`]; 0
    /// if there is none.
    pub fn follows(&self) -> Incarnation {
        self.committer.follows()
    }

    /// Incarnation that made that determinant: a later one may have taken it over, and written it. If it was
    /// trimmed, all that were taken over were committed before, and it counts as made by the one that wrote
    /// it. CAUSAL-5
    pub fn made_by(&self) -> Incarnation {
        self.committer.made_by()
    }

    /// Number of the first determinant that this client commits.
    pub fn next(&self) -> EventIndex {
        self.committer.start().unwrap_or_default()
    }

    /// Number of the first determinant of the next batch.
    pub fn end(&self) -> EventIndex {
        self.committer.end()
    }

    #[inline(always)]
    fn commit_as(&mut self, header: &BatchHeader, batch: &[u8], is_prepared: bool) {
        if self.places_directly {
            self.place_everywhere(header, batch, is_prepared);
        } else {
            self.committer.commit(header, batch);
            self.send_kept();
        }
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look_after_lost();
        }
    }

    #[cold]
    fn look_after_lost(&mut self) {
        self.until_look = COMMITS_PER_LOOK;
        if self.needs_poll() {
            self.poll();
        }
    }

    /// Places a batch while nothing is under way: it is stable at once, and never kept.
    #[inline(always)]
    fn place_everywhere(&mut self, header: &BatchHeader, batch: &[u8], is_prepared: bool) {
        let mut wants_emptying = false;
        for index in 0..self.links.len() {
            let Some(ring) = self.links[index].placing_ring() else {
                continue;
            };
            if ring.place(batch, is_prepared) != Placement::Placed {
                return self.keep_after(index, header, batch);
            }
            wants_emptying |= ring.wants_emptying();
        }
        self.committer.placed_everywhere(header);
        if wants_emptying {
            self.have_emptied();
        }
    }

    /// Keeps a batch that was placed in the rings before `failed`, but not in that one.
    #[cold]
    fn keep_after(&mut self, failed: usize, header: &BatchHeader, batch: &[u8]) {
        self.committer.commit(header, batch);
        for index in 0..failed {
            if self.links[index].is_joined() {
                self.committer.placed(index);
            }
        }
        self.send_kept();
    }

    fn send_kept(&mut self) {
        self.for_each_link(|link, with| link.send_batches(with));
    }

    /// Wakes the servers whose rings are filling, and checks whether they live: rarely
    /// enough that the cost of the system calls does not matter.
    #[cold]
    fn have_emptied(&mut self) {
        self.for_each_link(|link, with| {
            if let Some(ring) = link.placing_ring().filter(|ring| ring.wants_emptying()) {
                ring.ring_bell();
            }
            link.hear(with)
        });
    }

    fn for_each_link(
        &mut self,
        mut work: impl FnMut(&mut Link<N>, &mut Environment<'_, N>) -> Result<(), Trouble>,
    ) {
        let mut with = Environment {
            options: &self.options,
            network: &mut self.network,
            committer: &mut self.committer,
            trimmed: self.trimmed,
            is_leaving: self.is_leaving,
        };
        for link in &mut self.links {
            if let Err(trouble) = work(link, &mut with) {
                link.lose(with.committer, self.now, trouble);
            }
        }
        self.refresh_path();
    }

    fn refresh_path(&mut self) {
        let mut links = self.links.iter_mut().enumerate();
        let committer = &self.committer;
        self.places_directly = self.options.level == Level::Placed
            && committer.keeps_nothing()
            && links.all(|(index, link)| {
                // A link whose replica the core has marked as lost gets no writes.
                link.placing_ring().is_some() == committer.is_live(index)
            });
    }

    /// As [`Client::poll`], at this time.
    pub fn poll_at(&mut self, now: Duration) -> EventIndex {
        self.now = now;
        self.for_each_link(|link, with| link.advance(with, now));
        self.stable_end()
    }

    /// Whether [`Client::poll`] has work: something is not
    /// stable, or a logger is to be joined again, or a port is to be connected.
    pub fn needs_poll(&self) -> bool {
        self.stable_end() < self.committer.end()
            || self.is_leaving && !self.has_left()
            || self.is_connecting()
            || self.live() < self.links.len()
    }

    /// Whether a port for writes is not yet connected.
    fn is_connecting(&self) -> bool {
        self.links.iter().any(Link::is_connecting)
    }

    /// Checks now whether the loggers live; takes a system call for each.
    pub fn check(&mut self) {
        self.for_each_link(|link, with| link.hear(with));
    }

    /// Number of joined loggers.
    pub fn live(&self) -> usize {
        let replicas = 0..self.links.len();
        replicas
            .filter(|index| self.committer.is_live(*index))
            .count()
    }

    fn troubles(&self) -> String {
        let tell = |(index, link): (usize, &Link<N>)| {
            let state = match &link.trouble {
                Some(trouble) => trouble.as_str(),
                None if self.committer.is_live(index) => "has not confirmed them yet",
                None => "has not answered yet",
            };
            format!("{}: {state}", link.address)
        };
        let troubles: Vec<String> = self.links.iter().enumerate().map(tell).collect();
        troubles.join("; ")
    }

    /// Whether, after [`Client::leave`], everything is stable and every joined logger has stored
    /// everything.
    pub fn has_left(&self) -> bool {
        self.is_leaving
            && self.stable_end() >= self.committer.end()
            && !self.links.iter().any(Link::is_joined)
    }
}

impl<N: Network> Commits for Client<N> {
    /// Writes the batch to every logger that can take it now, and keeps it until it is stable.
    /// EL-3, GATE-2
    ///
    /// # Panics
    /// When `header` does not continue where the batch before ended.
    #[inline]
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.commit_as(header, batch, false);
    }

    /// Stores the batch in every ring, except the word that makes it valid.
    fn prepare(&mut self, _header: &BatchHeader, batch: &[u8]) {
        let rings = self.links.iter_mut().filter_map(Link::placing_ring);
        // A ring without room is not prepared.
        rings.for_each(|ring| {
            let _ = ring.prepare(batch);
        });
    }

    // EL-1, GATE-2
    #[inline(always)]
    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.commit_as(header, batch, true);
    }

    #[inline]
    fn stable_end(&self) -> EventIndex {
        self.committer.stable_end()
    }

    /// Handles acknowledgements, sends batches that wait for room, reconnects to lost loggers.
    fn poll(&mut self) -> EventIndex {
        self.poll_at(self.network.now())
    }

    /// Whether every commit consists only of stores into rings that count at once.
    #[inline]
    fn is_instant(&self) -> bool {
        self.is_instant
    }

    // GC-1
    fn trim(&mut self, clock: Clock) {
        // Loggers that join later get the clock too.
        self.trimmed = self.trimmed.max(Some(clock));
        for link in &mut self.links {
            link.say_trim(clock);
        }
    }

    fn leave(&mut self) -> bool {
        self.is_leaving = true;
        self.poll();
        self.has_left()
    }

    fn explain(&self) -> Option<String> {
        if self.stable_end() >= self.committer.end() {
            return None;
        }
        Some(format!(
            "determinants from {} to {} are not stable: {} of {} event loggers are connected, {} are needed: {}",
            self.stable_end(),
            self.committer.end().0 - 1,
            self.live(),
            self.links.len(),
            self.committer.quorum(),
            self.troubles(),
        ))
    }
}
