//! The host of a simulated logger's service.

use super::ledger::Ledger;
use super::network::{Network, SessionId};
use crate::crash_point::CrashPoint;
use crate::planted::Planted;
use core::fmt::Display;
use core::time::Duration;
use refrain_eventlog::message::{CommitPath, RemoteRing, ToClient, ToLogger};
use refrain_eventlog::ring::{RingIdentity, RingMemory};
use refrain_eventlog::server::host::{
    AllAsked, Channel, Fetch, Fetched, Host, MadeRing, RankKey, Wanted,
};
use refrain_eventlog::server::ring_name::RingName;
use refrain_wire::{FrameError, WireError};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

/// The size that a short message counts for, in bytes.
const MESSAGE_BYTES: usize = 64;

/// The rings in the memory of a logger's host; they survive the process.
pub(super) type Rings = Rc<RefCell<BTreeMap<RingName, RingMemory>>>;

/// A logger's end of a session.
#[derive(Debug)]
pub(super) struct LoggerChannel {
    pub(super) session: SessionId,
    pub(super) network: Rc<RefCell<Network>>,
    pub(super) process: CrashPoint,
    pub(super) out: VecDeque<ToClient>,
}

impl Channel for LoggerChannel {
    type Handle = ();

    fn is_local(&self) -> bool {
        false
    }

    fn next_message(&mut self) -> Result<Option<ToLogger>, WireError> {
        let mut network = self.network.borrow_mut();
        let session = network.sessions.get_mut(&self.session);
        Ok(session.and_then(|session| session.at_logger.pop_front()))
    }

    fn say(&mut self, message: &ToClient, _handle: Option<()>) -> Result<(), FrameError> {
        self.out.push_back(message.clone());
        Ok(())
    }

    fn unsent_bytes(&self) -> usize {
        let bytes = |message: &ToClient| match message {
            ToClient::Events { batches, .. } => MESSAGE_BYTES + batches.len(),
            _ => MESSAGE_BYTES,
        };
        self.out.iter().map(bytes).sum()
    }

    fn send(&mut self, _bytes_max: usize) -> bool {
        for message in self.out.drain(..) {
            let mut network = self.network.borrow_mut();
            self.process.act(|| network.answer(self.session, message));
        }
        true
    }
}

impl Drop for LoggerChannel {
    fn drop(&mut self) {
        if let Ok(mut network) = self.network.try_borrow_mut() {
            network.close(self.session);
        }
    }
}

/// The state of a fetch under way; [`super::asking`] advances it.
#[derive(Debug, Default)]
pub(super) struct FetchState {
    pub(super) said: VecDeque<Fetched>,
    pub(super) is_over: bool,
}

/// See [`FetchState`].
#[derive(Debug)]
pub(super) struct PeerFetch(pub(super) Rc<RefCell<FetchState>>);

impl Fetch for PeerFetch {
    fn next(&mut self) -> Result<Option<Fetched>, AllAsked> {
        let mut state = self.0.borrow_mut();
        match state.said.pop_front() {
            Some(said) => Ok(Some(said)),
            None if state.is_over => Err(AllAsked),
            None => Ok(None),
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LoggerHost {
    pub(super) logger: usize,
    pub(super) network: Rc<RefCell<Network>>,
    pub(super) process: CrashPoint,
    pub(super) rings: Rings,
    pub(super) ledger: Ledger,
    /// Keys of the rings that are written one-sidedly.
    pub(super) keys: BTreeMap<RankKey, u64>,
    /// Fetches to begin.
    pub(super) wanted: Vec<(Wanted, Rc<RefCell<FetchState>>)>,
    /// Reports of loggers.
    pub(super) reports: Rc<RefCell<Vec<String>>>,
}

impl LoggerHost {
    /// The provider is asked whether the logger may sleep.
    pub(super) fn take_in_unseen(&self) {
        let network = &self.network;
        self.process
            .act(|| network.borrow_mut().take_in_unseen(self.logger));
    }
}

impl Host for LoggerHost {
    type Channel = LoggerChannel;
    type Handle = ();
    type Fetch = PeerFetch;

    fn report(&mut self, text: &str) {
        let told = format!("logger {}: {text}", self.logger);
        self.reports.borrow_mut().push(told);
    }

    fn progress(&mut self) {}

    fn sleep_max(&mut self) -> Option<Duration> {
        if self.network.borrow().bug != Some(Planted::LoggerSleepsOnWrites) {
            self.take_in_unseen();
        }
        None
    }

    fn begin_listening(&mut self, _channel: &mut LoggerChannel, _id: u64) -> bool {
        true
    }

    fn set_listening(&mut self, _channel: &mut LoggerChannel, _id: u64, _listens: bool) -> bool {
        true
    }

    fn is_remote_offered(&self) -> bool {
        true
    }

    fn make_ring(
        &mut self,
        _id: u64,
        identity: &RingIdentity,
        _way: CommitPath,
    ) -> Result<MadeRing<()>, String> {
        let memory = RingMemory::anonymous(identity).map_err(|error| error.to_string())?;
        let (rings, network) = (&self.rings, &self.network);
        let made = self.process.act(|| {
            let name = RingName::of(identity);
            rings.borrow_mut().insert(name, memory.clone());
            network
                .borrow_mut()
                .register(self.logger, memory.clone(), *identity)
        });
        let key = made.ok_or("the process is dead")?;
        self.keys.insert((identity.job, identity.rank), key);
        Ok(MadeRing {
            memory,
            handle: None,
            remote: Some(RemoteRing {
                provider: "sim".to_owned(),
                address: Vec::new(),
                base: 0,
                key,
            }),
        })
    }

    fn release_ring(&mut self, key: RankKey) {
        if let Some(key) = self.keys.remove(&key) {
            let network = &self.network;
            self.process.act(|| network.borrow_mut().revoke(key));
        }
    }

    fn find_rings(&mut self) -> io::Result<Vec<RingName>> {
        if self.network.borrow().bug == Some(Planted::RingsForgotten) {
            self.rings.borrow_mut().clear();
        }
        Ok(self.rings.borrow().keys().copied().collect())
    }

    fn open_ring(&mut self, name: RingName) -> io::Result<(RingMemory, RingIdentity)> {
        let rings = self.rings.borrow();
        let memory = rings.get(&name).ok_or(io::ErrorKind::NotFound)?;
        Ok((memory.clone(), memory.identity()))
    }

    fn remove_ring(&mut self, name: RingName) {
        let (rings, ledger) = (&self.rings, &self.ledger);
        self.process.act(|| {
            rings.borrow_mut().remove(&name);
            ledger.ring_is_gone(self.logger, name.rank, name.incarnation);
        });
    }

    fn set_aside(&mut self, name: RingName, why: &dyn Display) {
        self.report(&format!("the ring {name} is damaged: {why}"));
        self.remove_ring(name);
    }

    fn fetch(&mut self, wanted: Wanted) -> Result<PeerFetch, String> {
        let state = Rc::new(RefCell::new(FetchState::default()));
        self.wanted.push((wanted, state.clone()));
        Ok(PeerFetch(state))
    }
}
