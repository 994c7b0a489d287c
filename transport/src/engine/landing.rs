//! Payload on its way from a sender's log: where it lands, and its target.
//!
//! Payload lands in the receive's own buffer if the buffer has contiguous room for it, else in
//! staging memory, from which it is unpacked.

use super::buffer::{Lent, Staging};
use super::request::{Receiving, RequestId};
use super::source::Target;
use crate::fabric::{Disposition, Landing};
use refrain_ring::{Rank, Ssn};
use slab::Slab;

/// Maximum length of all unused staging memory, in bytes; more goes back to the system.
const FREE_BYTES_MAX: usize = 64 << 20;
/// Minimum length of staging memory, in bytes. Lengths are powers of two.
const STAGING_BYTES_MIN: usize = 4096;

/// A part of a message's payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    pub source: Rank,
    pub ssn: Ssn,
    pub offset: u64,
    pub bytes: usize,
}

/// A landing in progress.
#[derive(Debug)]
pub(super) struct Flight {
    pub portion: Portion,
    /// The receive or message that gets the payload when it has landed.
    pub target: Target,
    /// `None`: the payload lands in the buffer of the receive.
    pub lent: Option<Lent>,
}

#[derive(Debug, Default)]
pub(super) struct Landings {
    flights: Slab<Flight>,
    /// Unused staging memory, by the logarithm of its length.
    free: Vec<Vec<Staging>>,
    free_bytes: usize,
}

impl Landings {
    /// Chooses where the payload of a distant frame lands for a receive.
    #[cold]
    pub fn fetch(
        &mut self,
        portion: Portion,
        id: RequestId,
        receiving: &mut Receiving,
    ) -> Disposition {
        let bytes = portion.bytes as u64;
        if portion.offset >= receiving.buffer.room_bytes() {
            // No byte of the payload fits: it is not fetched.
            receiving.arrived_bytes += bytes;
            return Disposition::Consumed;
        }
        let target = Target::Request(id);
        let entry = self.flights.vacant_entry();
        let token = entry.key() as u64;
        let lent = receiving.buffer.lend(portion.offset, portion.bytes, token);
        let Some(landing) = lent else {
            return Disposition::Fetch(self.stage(portion, target).1);
        };
        receiving.landings += 1;
        entry.insert(Flight {
            portion,
            target,
            lent: None,
        });
        Disposition::Fetch(landing)
    }

    /// Lets a payload land in staging memory. Also returns the token of the landing.
    pub fn stage(&mut self, portion: Portion, target: Target) -> (u64, Landing) {
        let staging = self.take_staging(portion.bytes);
        let entry = self.flights.vacant_entry();
        let token = entry.key() as u64;
        let (lent, landing) = staging.lend(portion.bytes, token);
        entry.insert(Flight {
            portion,
            target,
            lent: Some(lent),
        });
        (token, landing)
    }

    /// Lets a receive have a staged payload when it has landed.
    pub fn retarget(&mut self, token: u64, id: RequestId) {
        if let Some(flight) = self.flights.get_mut(token as usize) {
            flight.target = Target::Request(id);
        }
    }

    /// Removes a landing that the fabric has reported as ended.
    pub fn end(&mut self, token: u64) -> Option<Flight> {
        self.flights.try_remove(token as usize)
    }

    /// Whether no landing is in progress.
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Whether a landing from `peer` is in progress.
    pub fn any_from(&self, peer: Rank) -> bool {
        let mut flights = self.flights.iter();
        flights.any(|(_, flight)| flight.portion.source == peer)
    }

    /// The peer whose payload is landing in the receive's own buffer, if any.
    pub fn source_of(&self, id: RequestId) -> Option<Rank> {
        let to_request = |flight: &&Flight| {
            flight.lent.is_none() && matches!(flight.target, Target::Request(of) if of == id)
        };
        let mut flights = self.flights.iter().map(|(_, flight)| flight);
        flights.find(to_request).map(|flight| flight.portion.source)
    }

    /// Frees all staging memory in use. The fabric must be closed: it no longer writes to that
    /// memory.
    pub fn abandon(&mut self) {
        for flight in self.flights.drain() {
            drop(flight.lent.map(Lent::end));
        }
    }

    /// A copy of `payload` in staging memory; `None` if it is too short for that. Page faults of
    /// fresh memory would take longer than the copy of a long payload.
    pub fn copy(&mut self, payload: &[u8]) -> Option<Staging> {
        (payload.len() >= STAGING_BYTES_MIN).then(|| {
            let mut staging = self.take_staging(payload.len());
            staging.fill(payload);
            staging
        })
    }

    fn take_staging(&mut self, bytes: usize) -> Staging {
        let capacity = bytes.next_power_of_two().max(STAGING_BYTES_MIN);
        let class = self.free.get_mut(capacity.ilog2() as usize);
        match class.and_then(Vec::pop) {
            Some(staging) => {
                self.free_bytes -= capacity;
                staging
            }
            None => Staging::new(capacity),
        }
    }

    /// Takes staging memory back that is no longer needed.
    pub fn recycle(&mut self, staging: Staging) {
        let capacity = staging.capacity();
        if self.free_bytes + capacity > FREE_BYTES_MAX {
            return;
        }
        let class = capacity.ilog2() as usize;
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(staging);
        self.free_bytes += capacity;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(landings: &mut Landings, bytes: usize) -> (u64, *mut u8) {
        let portion = Portion {
            source: Rank(0),
            ssn: Ssn(0),
            offset: 0,
            bytes,
        };
        let (token, landing) = landings.stage(portion, Target::Message(0));
        (token, landing.to().as_ptr())
    }

    fn end(landings: &mut Landings, token: u64) {
        let flight = landings.end(token).expect("it was begun");
        let staging = flight.lent.map(Lent::end);
        landings.recycle(staging.expect("it was staged"));
    }

    /// Staging memory is used again without allocation, also for shorter payloads, and never for
    /// two landings at once.
    #[test]
    fn warm_staging_memory_is_used_again() {
        let mut landings = Landings::default();
        let first = stage(&mut landings, 60_000);
        let second = stage(&mut landings, 60_000);
        assert_ne!(first.1, second.1);
        end(&mut landings, first.0);
        let third = stage(&mut landings, 40_000);
        assert_eq!(third.1, first.1);
        end(&mut landings, second.0);
        end(&mut landings, third.0);
        let longer = stage(&mut landings, 70_000);
        assert!(longer.1 != first.1 && longer.1 != second.1);
        assert!(!landings.is_empty());
        end(&mut landings, longer.0);
        assert!(landings.is_empty());
    }

    /// Unused staging memory does not grow without limit.
    #[test]
    fn unused_staging_memory_is_bounded() {
        let mut landings = Landings::default();
        let bytes = FREE_BYTES_MAX / 4;
        let begun: Vec<_> = (0..6).map(|_| stage(&mut landings, bytes).0).collect();
        begun.iter().for_each(|token| end(&mut landings, *token));
        assert_eq!(landings.free_bytes, FREE_BYTES_MAX);
    }
}
