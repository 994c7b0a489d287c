//! Payload that is read out of the senders' logs.

#![allow(
    unsafe_code,
    reason = "lets the provider write into memory that a sink has lent for a landing"
)]

use super::operation::Operation;
use super::peer::{Connection, FabricPeer, peer_of};
use super::slots::Slots;
use crate::fabric::{Landed, Landing};
use refrain_libfabric::native::{MessageEndpoint, Refused, RemoteMemory};
use slab::Slab;
use std::collections::VecDeque;
use std::time::Instant;

/// Maximum number of reads in flight.
pub const READS_MAX: usize = 64;

/// A landing that has not ended.
#[derive(Debug)]
struct Fetch {
    connection: Connection,
    sequence: u64,
    landing: Landing,
    /// Where the payload lies, in the peer's address space.
    remote: RemoteMemory,
    bytes: usize,
    /// The slot into which the payload is read first, if landings cannot be registered.
    bounce: Option<usize>,
}

/// All landings of this rank.
#[derive(Debug)]
pub struct Fetching {
    fetches: Slab<Fetch>,
    /// Reads that are not begun, oldest first.
    queue: VecDeque<usize>,
    /// Reads in flight, oldest first.
    under_way: VecDeque<usize>,
    /// The peer of the read that the provider refused last.
    refused: Option<Connection>,
    /// Whether reads end within the call that begins them, and an error is reported without the
    /// token of the read (`shm`, 1.17 and 2.5).
    fails_namelessly: bool,
    /// Registered memory to read into, if the provider requires it (`FI_MR_LOCAL`): the memory of
    /// programs is not registered.
    bounce: Option<(Slots, Vec<usize>)>,
    /// Landings that have ended and are not yet reported to the sink.
    ended: Vec<(u64, Landed)>,
}

impl Fetching {
    /// `bounce`: slots for the longest payload, if the provider requires registered memory.
    /// `fails_namelessly`: errors of reads come without a token.
    pub fn new(bounce: Option<Slots>, fails_namelessly: bool) -> Self {
        Self {
            fetches: Slab::new(),
            queue: VecDeque::new(),
            under_way: VecDeque::new(),
            refused: None,
            fails_namelessly,
            bounce: bounce.map(|slots| {
                let free = (0..slots.count()).collect();
                (slots, free)
            }),
            ended: Vec::new(),
        }
    }

    /// Queues the read of a payload that `peer` holds.
    pub fn begin<E: MessageEndpoint>(
        &mut self,
        peer: &FabricPeer<E>,
        sequence: u64,
        landing: Landing,
    ) {
        let held = peer.receiving.held(sequence);
        let Some(held) = held.filter(|held| held.bytes <= landing.bytes()) else {
            self.ended.push((landing.token(), Landed::Lost));
            return;
        };
        let index = self.fetches.insert(Fetch {
            connection: peer.connection,
            sequence,
            remote: RemoteMemory {
                key: peer.published.key,
                base: peer.published.base.wrapping_add(held.offset),
            },
            bytes: held.bytes,
            landing,
            bounce: None,
        });
        self.queue.push_back(index);
    }

    /// Ends a landing as lost, because its frame is gone.
    pub fn lose(&mut self, landing: &Landing) {
        self.ended.push((landing.token(), Landed::Lost));
    }

    /// Begins queued reads.
    #[inline]
    pub fn pump<E: MessageEndpoint>(
        &mut self,
        endpoint: &mut E,
        peers: &mut [Option<Box<FabricPeer<E>>>],
        started: Instant,
    ) {
        if !self.queue.is_empty() {
            self.pump_queue(endpoint, peers, started);
        }
    }

    fn pump_queue<E: MessageEndpoint>(
        &mut self,
        endpoint: &mut E,
        peers: &mut [Option<Box<FabricPeer<E>>>],
        started: Instant,
    ) {
        // After a refusal the later reads of that peer wait, too; reads of other peers do not.
        let mut refused = None;
        for _ in 0..self.queue.len() {
            let Some(index) = self.queue.pop_front() else {
                return;
            };
            let peer = peer_of(peers, self.fetches[index].connection);
            let Some(peer) = peer.filter(|peer| !peer.is_lost) else {
                self.end(index, Landed::Lost);
                continue;
            };
            if refused == Some(peer.connection) || !peer.can_be_sent_to() {
                self.queue.push_back(index);
                continue;
            }
            match self.start(endpoint, peer, index) {
                Ok(()) => peer.patience.begun(),
                Err(Refused::Full) => {
                    self.queue.push_front(index);
                    return;
                }
                Err(Refused::Again) => {
                    refused = Some(peer.connection);
                    self.refused = refused;
                    self.queue.push_back(index);
                }
                Err(Refused::Failed(error)) => {
                    peer.failed(&error, started.elapsed());
                    self.queue.push_back(index);
                }
            }
        }
    }

    fn start<E: MessageEndpoint>(
        &mut self,
        endpoint: &mut E,
        peer: &FabricPeer<E>,
        index: usize,
    ) -> Result<(), Refused<E::Error>> {
        if self.under_way.len() == READS_MAX {
            return Err(Refused::Full);
        }
        let fetch = &mut self.fetches[index];
        let (to, local) = match &mut self.bounce {
            None => (fetch.landing.to(), None),
            Some((slots, free)) => {
                let slot = fetch.bounce.or_else(|| free.pop()).ok_or(Refused::Full)?;
                fetch.bounce = Some(slot);
                (slots.at(slot), Some(slots.memory()))
            }
        };
        // SAFETY: the landing's maker promised that its memory is the fabric's
        // until the landing ended, and it ends after this read's completion or
        // after the endpoint was closed; a bounce slot is taken for this fetch.
        unsafe {
            endpoint.read(
                peer.address,
                (to, local),
                fetch.bytes,
                fetch.remote,
                Operation::Read(index).token(),
            )?;
        }
        self.under_way.push_back(index);
        Ok(())
    }

    /// The read that failed when the provider reports an error without a token, if such an error
    /// can mean a read. Reads complete in the order in which they were begun.
    pub fn failed_namelessly(&self) -> Option<usize> {
        let oldest = self.under_way.front().copied();
        oldest.filter(|_| self.fails_namelessly)
    }

    /// As `failed_namelessly`, for a read that failed before it was begun: its connection.
    pub fn refused_namelessly(&mut self) -> Option<Connection> {
        self.refused.take().filter(|_| self.fails_namelessly)
    }

    /// Handles the completion of a read, successful or not. Returns the peer and the number of the
    /// frame, if that peer is still connected.
    pub fn completed<'p, E: MessageEndpoint>(
        &mut self,
        index: usize,
        is_whole: bool,
        peers: &'p mut [Option<Box<FabricPeer<E>>>],
    ) -> Option<(&'p mut FabricPeer<E>, u64)> {
        let fetch = self.fetches.get(index)?;
        let sequence = fetch.sequence;
        // It is the oldest, as a rule.
        let place = self.under_way.iter().position(|begun| *begun == index)?;
        self.under_way.remove(place);
        let Some(peer) = peer_of(peers, fetch.connection).filter(|peer| !peer.is_lost) else {
            self.end(index, Landed::Lost);
            return None;
        };
        if !is_whole {
            // The payload is read again when the errors of the peer are over; else the peer is
            // lost.
            self.queue.push_back(index);
            return Some((peer, sequence));
        }
        if let (Some((slots, _)), Some(slot)) = (&self.bounce, fetch.bounce) {
            let payload = slots.arrived(slot, fetch.bytes);
            // SAFETY: the landing has room for the payload (checked when it
            // began) and is the fabric's until it ended.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    payload.as_ptr(),
                    fetch.landing.to().as_ptr(),
                    payload.len(),
                );
            }
        }
        self.end(index, Landed::Whole);
        Some((peer, sequence))
    }

    fn end(&mut self, index: usize, landed: Landed) {
        let fetch = self.fetches.remove(index);
        if let (Some((_, free)), Some(slot)) = (&mut self.bounce, fetch.bounce) {
            free.push(slot);
        }
        self.ended.push((fetch.landing.token(), landed));
    }

    /// Handles the disconnection of a peer. Reads that are not begun are lost now; reads in flight
    /// are lost when the provider has completed them.
    pub fn disconnected(&mut self, connection: Connection) {
        self.lose_of(connection, |fetching| &mut fetching.queue);
    }

    /// Ends the reads of a connection of which no operation is in flight any more.
    pub fn removed(&mut self, connection: Connection) {
        self.lose_of(connection, |fetching| &mut fetching.under_way);
    }

    fn lose_of(&mut self, of: Connection, list: fn(&mut Self) -> &mut VecDeque<usize>) {
        for index in core::mem::take(list(self)) {
            if self.fetches[index].connection == of {
                self.end(index, Landed::Lost);
            } else {
                list(self).push_back(index);
            }
        }
    }

    /// Ends all landings. The endpoint must be closed: nothing is written any more.
    pub fn closed(&mut self) {
        self.queue.clear();
        self.under_way.clear();
        for fetch in self.fetches.drain() {
            self.ended.push((fetch.landing.token(), Landed::Lost));
        }
    }

    /// Takes the outcome of a landing that has ended, if there is one.
    #[inline]
    pub fn take_ended(&mut self) -> Option<(u64, Landed)> {
        self.ended.pop()
    }

    /// Whether a read waits to be begun.
    #[inline]
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a landing has ended that is not yet reported to the sink.
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }
}
