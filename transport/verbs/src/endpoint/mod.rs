//! Everything that one rank opens of a device: messages to many peers, by one
//! reliable queue pair each.
//!
//! One shared receive queue and one completion queue serve all queue pairs. They
//! are connected, and mended when they break, by greetings over one queue pair
//! for datagrams (`greeting`).

mod address;
mod completion;
mod connections;
mod counters;
mod datagrams;
mod device;
mod drains;
mod events;
mod message;
mod objects;
mod options;
mod pair;
mod pairs;
mod peers;
mod port;
mod posting;
mod random;
mod receives;
mod registration;
mod remote_memory;
mod send_queue;
mod sizes;
mod waiting;
mod work_request;

pub use address::{ADDRESS_BYTES, readable};
pub use completion::{Completion, Kind, TOKEN_OF_INJECTED};
pub use counters::Counters;
pub use message::PARTS_MAX;
pub use options::{EndpointOptions, Retry};
pub use peers::PeerAddress;

use crate::greeting::Identity;
use crate::sys::types::ibv_wc;
use crate::{Chosen, Error, Library};
use connections::Happening;
use core::time::Duration;
use datagrams::Datagrams;
use device::Device;
use pair::{Making, State};
use pairs::Pairs;
use peers::Peers;
use port::LocalPort;
use receives::Receives;
use registration::Registrations;
use remote_memory::ReadBack;
use sizes::Sizes;
use std::time::Instant;
use waiting::Waiting;
use work_request::PairId;

/// A reliable endpoint for messages, and for reading and writing the memory of
/// peers, without connections to care for.
///
/// Completions of sends and of writes that are not placed only say that the
/// operation is over and its memory free again: the peer's device has the data.
/// Those of sends come some together, at the latest some milliseconds after.
///
/// A connection that breaks is made anew, by itself. What was under way completes
/// with an error, messages that arrived and were not polled yet may be lost.
///
/// Nothing but the device is needed for peers to read and write memory of this
/// endpoint; greetings need [`Endpoint::poll`].
///
/// It can move to another thread, but not be shared between threads.
pub struct Endpoint {
    // None after `close`.
    open: Option<Box<Open>>,
    counters: Counters,
    inject_bytes: usize,
    message_bytes: usize,
    receives_max: usize,
}

/// What is open. Children stand before their parents, so that they are dropped
/// first.
struct Open {
    pairs: Pairs,
    datagrams: Datagrams,
    registrations: Registrations,
    read_back: ReadBack,
    waiting: Waiting,
    device: Device,
    peers: Peers,
    receives: Receives,
    identity: Identity,
    port: LocalPort,
    sizes: Sizes,
    retry: Retry,
    peers_max: usize,
    inline_bytes: u32,
    message_bytes: usize,
    accepts_unknown: bool,
    /// Requests in all send queues, without markers.
    in_flight: usize,
    /// Told to the caller at the next poll: never receives.
    ready: Vec<Completion>,
    /// Completions that were read and are still to be dealt with.
    read_ahead: Vec<ibv_wc>,
    happenings: Vec<Happening>,
    wants_markers: bool,
    polls: u32,
    clock: Instant,
    look_at: Duration,
    fatal: Option<Error>,
    counters: Counters,
}

// SAFETY-free: every field is `Send`, completions that were read hold numbers only.

/// Time between two looks at what takes time.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Endpoint {
    /// Opens everything.
    ///
    /// # Errors
    /// The device's, or it cannot have as many entries of queues as asked for.
    pub fn open(
        library: &Library,
        chosen: &Chosen,
        options: &EndpointOptions,
    ) -> Result<Self, Error> {
        let open = Open::open(library, chosen, options)?;
        Ok(Self {
            counters: Counters::default(),
            inject_bytes: open.inline_bytes as usize,
            message_bytes: open.message_bytes,
            receives_max: open.sizes.receives,
            open: Some(Box::new(open)),
        })
    }

    /// Bytes of the longest message that can be injected.
    pub fn inject_bytes(&self) -> usize {
        self.inject_bytes
    }

    /// Bytes of the longest message, read or write.
    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes
    }

    /// Receives that can be posted at the same time.
    pub fn receives_max(&self) -> usize {
        self.receives_max
    }

    /// Operations in flight, posted receives included.
    pub fn operations_in_flight(&self) -> usize {
        let open = self.open.as_ref();
        open.map_or(0, |open| open.in_flight + open.receives.in_flight())
    }

    /// What has been done so far.
    pub fn counters(&self) -> &Counters {
        self.open
            .as_ref()
            .map_or(&self.counters, |open| &open.counters)
    }

    /// Whether the devices of the peers have everything that was sent, as far as
    /// those are connected. Asked for, the device says so by and by: poll, and ask
    /// again.
    pub fn has_sent_all(&mut self) -> bool {
        self.open.as_mut().is_none_or(|open| open.has_sent_all())
    }

    /// Whether messages can be sent to a peer at this moment.
    pub fn is_connected(&self, peer: PeerAddress) -> bool {
        let open = self.open.as_ref();
        let peer = open.and_then(|open| open.peers.get(peer));
        peer.is_some_and(|peer| peer.is_established)
    }

    /// Closes everything, children first. Operations in flight are given up,
    /// their completions lost; the device touches no memory any more. Later calls
    /// find the endpoint closed; closing again does nothing.
    ///
    /// Waits some milliseconds for the device.
    ///
    /// # Errors
    /// The first that the device has. What could not be closed is leaked, with
    /// all memory that operations in flight might still use.
    pub fn close(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.counters = open.counters;
        open.close()
    }
}

impl Open {
    fn open(library: &Library, chosen: &Chosen, options: &EndpointOptions) -> Result<Self, Error> {
        let sizes = Sizes::of(options, &chosen.limits)?;
        let qkey = u32::from_le_bytes(random::bytes()?) & !QKEY_OF_THE_SYSTEM;
        let mut port = LocalPort::new(chosen, qkey)?;
        let device = Device::open(library, chosen, &sizes)?;
        let waiting = Waiting::new(&device)?;
        let read_back = ReadBack::new(&device)?;
        let mut making = Making {
            device: &device,
            port: &port,
            sizes: &sizes,
            inline_bytes: 0,
        };
        let wished = u32::try_from(options.inject_bytes).unwrap_or(u32::MAX);
        making.inline_bytes = making.inline_bytes(wished)?;
        let inline_bytes = making.inline_bytes;
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
            receives: Receives::new(sizes.receives),
            identity,
            port,
            sizes,
            retry: options.retry,
            peers_max: options.peers_max,
            inline_bytes,
            message_bytes: chosen.message_max_bytes as usize,
            accepts_unknown: options.accepts_unknown,
            in_flight: 0,
            ready: Vec::new(),
            read_ahead: Vec::new(),
            happenings: Vec::new(),
            wants_markers: false,
            polls: 0,
            clock: Instant::now(),
            look_at: Duration::ZERO,
            fatal: None,
            counters: Counters::default(),
        })
    }

    /// Looks at all that takes time: greetings, queue pairs that are given up, sends
    /// that nobody will tell of, events of the device.
    fn look(&mut self) -> Result<(), Error> {
        let now = self.clock.elapsed();
        self.happened(now);
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + LOOK_EVERY;
        self.read_events()?;
        self.mark_old();
        if self.pairs.draining() > 0 {
            self.destroy_drained(now)?;
        }
        self.tick(now);
        Ok(())
    }

    fn has_sent_all(&mut self) -> bool {
        let mut bound = self.pairs.iter().filter(|pair| pair.state == State::Bound);
        let has_sent_all = bound.all(|pair| pair.queue.is_empty());
        self.wants_markers |= !has_sent_all;
        has_sent_all
    }

    /// When to look next; `None` while only the device can bring news.
    fn next_look_at(&self, now: Duration) -> Option<Duration> {
        let is_soon = self.pairs.draining() > 0
            || self.pairs.iter().any(|pair| {
                pair.state == State::Bound && pair.queue.needs_marker() && !pair.is_marked
            });
        let ticks = self
            .peers
            .iter()
            .filter_map(|peer| peer.connecting.next_tick_at());
        ticks.chain(is_soon.then(|| now + LOOK_EVERY)).min()
    }

    /// Sends that have been the last of their queue pair for a while: a marker goes
    /// behind them.
    fn mark_old(&mut self) {
        let wants_all = core::mem::take(&mut self.wants_markers);
        let mut old: Vec<PairId> = Vec::new();
        for pair in self.pairs.iter_mut() {
            let is_wanted =
                pair.queue.needs_marker() || (wants_all && pair.queue.has_unsignalled());
            if pair.state != State::Bound || pair.is_marked || !is_wanted {
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

    fn close(mut self) -> Result<(), Error> {
        let ids: Vec<PairId> = self.pairs.iter().map(|pair| pair.id).collect();
        for id in &ids {
            self.give_up(*id);
        }
        // Whatever the device says, it is asked to destroy them.
        let _ = self.wait_for(&ids);
        let mut result = Ok(());
        for pair in self.pairs.take_all() {
            result = result.and(pair.destroy());
        }
        result = result.and(self.datagrams.close());
        if result.is_err() {
            // Nothing is freed under the device.
            core::mem::forget((self.registrations, self.read_back, self.device));
            return result;
        }
        self.registrations
            .close()
            .and(self.read_back.close())
            .and(self.device.close())
    }
}

/// Keys with this bit are for the system itself.
const QKEY_OF_THE_SYSTEM: u32 = 1 << 31;

#[cold]
fn closed() -> Error {
    Error::invalid("use an endpoint", "it is closed")
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint")
            .field("port", &self.open.as_ref().map(|open| &open.port.words))
            .field("operations_in_flight", &self.operations_in_flight())
            .finish_non_exhaustive()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // What could not be closed is leaked; there is nobody to tell.
        let _ = self.close();
    }
}
