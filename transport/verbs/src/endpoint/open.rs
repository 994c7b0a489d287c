//! An open endpoint, and its time-dependent parts.

use super::completion::Completion;
use super::connections::Happening;
use super::counters::Counters;
use super::datagrams::Datagrams;
use super::device::Device;
use super::options::EndpointOptions;
use super::pair::{Making, PairState};
use super::pairs::Pairs;
use super::peers::Peers;
use super::port::LocalPort;
use super::random;
use super::receives::Receives;
use super::registration::Registrations;
use super::remote_memory::ReadBack;
use super::sizes::Sizes;
use super::unknown_clients::UnknownClients;
use super::waiting::Waiting;
use super::work_request::PairId;
use crate::greeting::Identity;
use crate::sys::types::ibv_wc;
use crate::{Chosen, Error, Library};
use core::time::Duration;
use std::time::Instant;

/// An open endpoint. Children are declared before their parents, so that they are dropped first.
pub(super) struct Open {
    pub(super) pairs: Pairs,
    pub(super) datagrams: Datagrams,
    pub(super) registrations: Registrations,
    pub(super) read_back: ReadBack,
    pub(super) waiting: Waiting,
    pub(super) device: Device,
    pub(super) peers: Peers,
    pub(super) unknown_clients: UnknownClients,
    pub(super) receives: Receives,
    pub(super) identity: Identity,
    pub(super) port: LocalPort,
    pub(super) sizes: Sizes,
    pub(super) options: EndpointOptions,
    pub(super) inline_bytes: u32,
    pub(super) message_bytes: usize,
    pub(super) clock: Instant,
    /// Number of requests in all send queues, without markers.
    pub(super) in_flight: usize,
    pub(super) progress: Progress,
    pub(super) counters: Counters,
}

/// The state between two polls.
#[derive(Default)]
pub(super) struct Progress {
    /// Completions for the caller at the next poll; never of receives.
    pub(super) ready: Vec<Completion>,
    /// Completions that were read and not handled yet.
    pub(super) read_ahead: Vec<ibv_wc>,
    pub(super) happenings: Vec<Happening>,
    /// A send was refused for lack of room, while some requests may have ended without a
    /// completion.
    pub(super) wants_markers: bool,
    pub(super) polls: u32,
    pub(super) look_at: Duration,
    /// The error of a device that has failed.
    pub(super) fatal: Option<Error>,
}

impl Progress {
    /// Makes the next poll handle everything that depends on time.
    pub(super) fn look_soon(&mut self) {
        self.polls = u32::MAX;
        self.look_at = Duration::ZERO;
    }
}

/// Time between two calls of [`Open::look`].
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Keys with this bit are reserved for the system.
const QKEY_OF_THE_SYSTEM: u32 = 1 << 31;

impl Open {
    pub(super) fn new(
        library: &Library,
        chosen: &Chosen,
        options: &EndpointOptions,
    ) -> Result<Self, Error> {
        let sizes = Sizes::of(options, &chosen.limits)?;
        let qkey = u32::from_le_bytes(random::bytes()?) & !QKEY_OF_THE_SYSTEM;
        let mut port = LocalPort::new(chosen, qkey)?;
        let device = Device::open(library, chosen, &sizes)?;
        let waiting = Waiting::new(&device)?;
        let read_back = ReadBack::new(&device)?;
        let making = Making {
            device: &device,
            port: &port,
            sizes: &sizes,
            inline_bytes: 0,
        };
        let wished = u32::try_from(options.inject_bytes).unwrap_or(u32::MAX);
        let inline_bytes = making.inline_bytes(wished)?;
        let datagrams = Datagrams::open(&making)?;
        port.contact.qpn = datagrams.number();
        let identity = Identity(random::bytes()?);
        Ok(Self {
            pairs: Pairs::new(sizes.pairs),
            datagrams,
            registrations: Registrations::default(),
            read_back,
            waiting,
            device,
            peers: Peers::new(identity),
            unknown_clients: UnknownClients::default(),
            receives: Receives::new(sizes.receives),
            identity,
            port,
            sizes,
            options: options.clone(),
            inline_bytes,
            message_bytes: chosen.message_max_bytes as usize,
            clock: Instant::now(),
            in_flight: 0,
            progress: Progress::default(),
            counters: Counters::default(),
        })
    }

    /// Handles everything that depends on time: greetings, stopped queue pairs, sends without a
    /// completion, events of the device.
    pub(super) fn look(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.progress.fatal {
            return Err(error.clone());
        }
        let now = self.clock.elapsed();
        self.happened(now);
        if now < self.progress.look_at {
            return Ok(());
        }
        self.progress.look_at = now + LOOK_EVERY;
        self.read_events()?;
        self.mark_old();
        self.restart_greetings(now)?;
        if self.pairs.draining() > 0 {
            self.destroy_drained(now)?;
        }
        self.probe_clients(now);
        self.tick(now);
        Ok(())
    }

    pub(super) fn has_sent_all(&mut self) -> bool {
        let mut bound = self
            .pairs
            .iter()
            .filter(|pair| pair.state == PairState::Bound);
        let has_sent_all = bound.all(|pair| pair.queue.is_empty());
        self.progress.wants_markers |= !has_sent_all;
        has_sent_all
    }

    /// Restarts the queue pair for greetings, if the device has stopped it. If the device refuses,
    /// the next attempt follows later.
    fn restart_greetings(&mut self, now: Duration) -> Result<(), Error> {
        if self.datagrams.restart_at().is_some_and(|at| at <= now) {
            // The completion queue has room for one completion of each posted request.
            self.read_ahead()?;
            let restarted = self.datagrams.restart(now, &self.device, &self.port);
            self.counters.greeting_restarts += u64::from(restarted.is_ok());
        }
        Ok(())
    }

    /// The time of the next [`Open::look`]; `None` if only the device can wake the endpoint.
    pub(super) fn next_look_at(&self, now: Duration) -> Option<Duration> {
        let is_soon = self.pairs.draining() > 0
            || self.pairs.iter().any(|pair| {
                pair.state == PairState::Bound && pair.queue.needs_marker() && !pair.is_marked
            });
        let ticks = self
            .peers
            .iter()
            .filter_map(|peer| peer.connecting.next_tick_at());
        let soon = is_soon.then(|| now + LOOK_EVERY);
        ticks
            .chain(soon)
            .chain(self.datagrams.restart_at())
            .chain(self.unknown_clients.next_at())
            .min()
    }

    /// Posts a marker after sends that have been the last of their queue pair for some time.
    fn mark_old(&mut self) {
        let wants_all = core::mem::take(&mut self.progress.wants_markers);
        let mut old: Vec<PairId> = Vec::new();
        for pair in self.pairs.iter_mut() {
            let is_wanted =
                pair.queue.needs_marker() || (wants_all && pair.queue.has_unsignalled());
            if pair.state != PairState::Bound || pair.is_marked || !is_wanted {
                continue;
            }
            let next = pair.queue.next();
            if pair.seen == next || wants_all {
                old.push(pair.id);
            }
            pair.seen = next;
        }
        old.into_iter().for_each(|id| self.mark(id));
    }

    pub(super) fn close(mut self) -> Result<(), Error> {
        let ids: Vec<PairId> = self.pairs.iter().map(|pair| pair.id).collect();
        for id in &ids {
            self.give_up(*id);
        }
        // The queue pairs are destroyed even if the device does not drain them.
        let _ = self.wait_for(&ids);
        let mut result = Ok(());
        for pair in self.pairs.take_all() {
            result = result.and(pair.destroy());
        }
        result = result.and(self.datagrams.close());
        if result.is_err() {
            // The device may still use the memory, so it is not freed.
            core::mem::forget((self.registrations, self.read_back, self.device));
            return result;
        }
        self.registrations
            .close()
            .and(self.read_back.close())
            .and(self.device.close())
    }
}
