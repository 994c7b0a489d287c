//! Connecting, fencing and killing lives.

use super::state::{Link, NetworkState};
use super::trace::{Event, Life, Route};
use crate::fabric::{Address, FabricError};
use refrain_ring::{Rank, Region};

/// The first bytes of a simulated address.
const ADDRESS_MAGIC: &[u8; 4] = b"sim\x01";

pub(super) fn address_of(life: Life) -> Address {
    let (rank, incarnation) = (life.rank.0, life.incarnation.0);
    let bytes = [
        *ADDRESS_MAGIC,
        rank.to_le_bytes(),
        incarnation.to_le_bytes(),
    ]
    .concat();
    Address {
        bytes,
        ..Address::default()
    }
}

impl NetworkState {
    pub(super) fn connect(
        &mut self,
        life: Life,
        peer: Life,
        address: &Address,
        region: Region,
    ) -> Result<(), FabricError> {
        self.check_connect(life, peer, address)?;
        self.disconnect(life, peer.rank);
        let entry = self.port(life).peers.entry(peer.rank).or_default();
        entry.connected = Some(peer.incarnation);
        entry.accepts_from = u64::from(peer.incarnation.0);
        let route = Route::new(life, peer);
        self.links
            .insert(route, Link::new(route, region, &self.options));
        self.add_event(Event::Connected(route));
        Ok(())
    }

    fn check_connect(&self, life: Life, peer: Life, address: &Address) -> Result<(), FabricError> {
        let port = &self.ports[&life];
        let reason = if peer.rank == life.rank {
            "a rank is not connected to itself: its engine delivers its messages to itself"
        } else if address.bytes != address_of(peer).bytes {
            "the address is not that of this rank and incarnation"
        } else if !self.ports.contains_key(&peer) {
            "this incarnation was never started in this network"
        } else if port.fences(peer) || port.connected(peer.rank) == Some(peer.incarnation) {
            "this incarnation was connected before: start the rank again"
        } else {
            return Ok(());
        };
        let (peer, reason) = (peer.rank, reason.into());
        Err(FabricError::Attach { peer, reason })
    }

    /// Fences a peer. FENCE-1: frames of its incarnation that have arrived are forgotten, later
    /// ones are dropped.
    pub(super) fn disconnect(&mut self, life: Life, peer: Rank) {
        let Some(entry) = self.port(life).peers.get_mut(&peer) else {
            return;
        };
        let Some(incarnation) = entry.connected.take() else {
            return;
        };
        entry.accepts_from = u64::from(incarnation.0) + 1;
        let from = Life::new(peer, incarnation);
        let (inward, outward) = (Route::new(from, life), Route::new(life, from));
        if let Some(link) = self.links.get_mut(&outward) {
            link.ledger.close();
        }
        if !self.options.faults.fence_off
            && let Some(link) = self.links.get_mut(&inward)
        {
            link.data.clear_arrivals();
            link.control.clear_arrivals();
        }
        self.lose_landings(life, Some(peer));
        self.add_event(Event::Fenced(inward));
    }

    pub(super) fn kill(&mut self, life: Life) {
        if core::mem::replace(&mut self.port(life).dead, true) {
            return;
        }
        let later_max = self.options.faults.late_ticks_max;
        for (route, link) in &mut self.links {
            if route.from == life {
                for lane in [&mut link.data, &mut link.control] {
                    let survivors = self.random.up_to(lane.in_flight.len() as u64);
                    lane.cut(survivors as usize, self.random.up_to(later_max));
                }
                link.ledger.close();
            }
        }
        self.kill_landings(life);
        let now = self.now();
        if let Some(ticks_max) = self.options.faults.loss_notice_ticks_max {
            for port in self.ports.values_mut().filter(|port| !port.dead) {
                if port.connected(life.rank) == Some(life.incarnation) {
                    let due = now + 1 + self.random.up_to(ticks_max);
                    port.losses.push((due, life));
                }
            }
        }
        self.add_event(Event::Killed(life));
    }
}
