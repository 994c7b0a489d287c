//! Making a rank's fabric: which ones are needed, and how they find each other.
//!
//! Each rank publishes a [`Card`] under `address/RANK`: its host, and the address
//! of the fabric that it has made already. With `auto` that is shared memory;
//! only a job on several hosts goes on and makes the far fabric too, with the
//! provider that rank 0 has chosen (`provider`), published under `far/RANK`.

use super::Membership;
use super::explain::explain;
use super::neighbours::{Greetings, Neighbours, greetings};
use crate::Error;
use crate::choice::{FabricChoice, provider};
use crate::config::JobConfig;
use crate::control::ControlPlane;
use crate::control::card::Card;
use crate::control::host::HostIdentity;
use core::time::Duration;
use refrain_ring::{Incarnation, Rank, Region};
use refrain_transport::fabric::mixed::{self, Mixed, Side};
use refrain_transport::fabric::ofi::{Ofi, OfiOptions, Overrides};
use refrain_transport::fabric::shm::Shm;
use refrain_transport::fabric::{Address, Fabric, FabricError};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// A rank that has started and has no fabric yet.
pub(super) struct Making<'a> {
    pub(super) config: &'a JobConfig,
    pub(super) membership: &'a Membership,
    pub(super) control: &'a mut ControlPlane,
    /// The log memory.
    pub(super) region: &'a Region,
    pub(super) window_bytes: u64,
}

/// What another rank has published.
struct Peer {
    card: Card,
    /// Its address for ranks on its host, with the memory.
    near: Address,
}

impl Making<'_> {
    /// Makes the fabric that the job's settings ask for, and connects all ranks.
    pub(super) fn make(self, shm: Shm) -> Result<Box<dyn Fabric>, Error> {
        match FabricChoice::parse(&self.config.fabric)? {
            FabricChoice::Auto => self.make_auto(shm),
            FabricChoice::Shm => self.make_shm(shm),
            FabricChoice::Ofi(Some(provider)) => {
                // Its memory stays: the arena holds the region.
                drop(shm);
                self.make_ofi(&provider)
            }
            FabricChoice::Ofi(None) => Err(Error::Config(
                "--fabric ofi: the launcher has put no provider in its place".into(),
            )),
        }
    }

    fn make_shm(mut self, mut shm: Shm) -> Result<Box<dyn Fabric>, Error> {
        let (host, peers) = self.introduce(&shm.address(), Vec::new())?;
        let neighbours = self.neighbours(host, &peers);
        if let Some(stranger) = neighbours.stranger_to(self.membership.rank) {
            return Err(Error::Fabric(FabricError::Attach {
                peer: stranger,
                reason: "it runs on another host (or in another network namespace), where shared memory does not reach: use --fabric auto"
                    .into(),
            }));
        }
        for (rank, peer) in &peers {
            shm.connect(*rank, Incarnation(0), &peer.near)?;
        }
        self.explain(&neighbours, None);
        Ok(Box::new(shm))
    }

    fn make_ofi(mut self, provider: &str) -> Result<Box<dyn Fabric>, Error> {
        let mut ofi = self.create_ofi(provider)?;
        let nothing = Address {
            bytes: Vec::new(),
            memory: None,
        };
        let (host, peers) = self.introduce(&nothing, ofi.address().bytes)?;
        for (rank, peer) in &peers {
            ofi.connect(*rank, Incarnation(0), &bare(&peer.card.far))?;
        }
        self.explain(&self.neighbours(host, &peers), None);
        self.greet(&mut ofi, |one, other| one != other)?;
        Ok(Box::new(ofi))
    }

    fn make_auto(mut self, mut shm: Shm) -> Result<Box<dyn Fabric>, Error> {
        let (host, peers) = self.introduce(&shm.address(), Vec::new())?;
        let neighbours = self.neighbours(host, &peers);
        let sides = neighbours.sides(self.membership.rank);
        // All ranks see the same hosts, so all take the same way here.
        if neighbours.stranger_to(self.membership.rank).is_none() {
            for (rank, peer) in &peers {
                shm.connect(*rank, Incarnation(0), &peer.near)?;
            }
            self.explain(&neighbours, None);
            return Ok(Box::new(shm));
        }
        let (provider, reason) = self.agree_on_provider()?;
        let ofi = self.create_ofi(&provider)?;
        self.put(&far_key(self.membership.rank), &ofi.address().bytes, None)?;
        let mut mixed = Mixed::new(shm, ofi, sides.clone());
        for (rank, peer) in peers {
            let address = match sides[rank.index()] {
                Side::Near => mixed::join(Some(peer.near), None),
                Side::Far => mixed::join(None, Some(bare(&self.control.get(&far_key(rank))?.0))),
            };
            mixed.connect(rank, Incarnation(0), &address)?;
        }
        self.explain(&neighbours, Some((&provider, &reason)));
        let all_sides: Vec<Vec<Side>> = (0..self.membership.size)
            .map(|rank| neighbours.sides(Rank(rank)))
            .collect();
        self.greet(mixed.far_mut(), |one, other| {
            all_sides[one.index()][other.index()] == Side::Far
        })?;
        Ok(Box::new(mixed))
    }

    /// Rank 0 chooses, so that all ranks take the same.
    fn agree_on_provider(&mut self) -> Result<(String, String), Error> {
        const KEY: &str = "provider";
        if self.membership.rank == Rank(0) {
            let found = provider::installed(self.library())?;
            let (name, reason) = provider::best_name(&found)?;
            self.put(KEY, format!("{name}\n{reason}").as_bytes(), None)?;
        }
        let (bytes, _) = self.control.get(KEY)?;
        let text = String::from_utf8_lossy(&bytes);
        let (name, reason) = text.split_once('\n').unwrap_or((&text, ""));
        Ok((name.to_owned(), reason.to_owned()))
    }

    fn library(&self) -> Option<&Path> {
        self.config.libfabric.as_ref().map(Path::new)
    }

    fn create_ofi(&self, provider: &str) -> Result<Ofi, Error> {
        // A provider that needs its memory present would ask for it here, by
        // `Arena::commit_all`, before it registers the region; none does yet:
        // those that pin pages fetch them.
        let options = OfiOptions {
            job: self.membership.job,
            rank: self.membership.rank,
            incarnation: self.membership.incarnation,
            size: self.membership.size,
            window_bytes: self.window_bytes,
            provider: provider.to_owned(),
            library: self.library().map(Path::to_owned),
            lost_after: self.peer_timeout(),
            suspect_after: self.config.suspect_after_ms.map(Duration::from_millis),
            overrides: Overrides::default(),
        };
        Ok(Ofi::create(options, self.region)?)
    }

    fn peer_timeout(&self) -> Duration {
        Duration::from_millis(self.config.peer_timeout_ms)
    }

    /// Publishes this rank's card, and reads those of all others.
    fn introduce(
        &mut self,
        near: &Address,
        far: Vec<u8>,
    ) -> Result<(HostIdentity, Vec<(Rank, Peer)>), Error> {
        let key = |rank: Rank| format!("address/{rank}");
        let own = self.membership.rank;
        let host = HostIdentity::of_this_process()?;
        let card = Card {
            host,
            near: near.bytes.clone(),
            far,
        };
        self.put(&key(own), &card.encode(), near.memory.as_ref())?;
        let mut peers = Vec::with_capacity(self.membership.size as usize);
        for rank in (0..self.membership.size)
            .map(Rank)
            .filter(|rank| *rank != own)
        {
            let (bytes, memory) = self.control.get(&key(rank))?;
            let card = Card::decode(&bytes).map_err(|error| FabricError::Attach {
                peer: rank,
                reason: format!("what it has published cannot be read: {error}"),
            })?;
            let near = Address {
                bytes: card.near.clone(),
                memory: memory.map(Arc::new),
            };
            peers.push((rank, Peer { card, near }));
        }
        Ok((host, peers))
    }

    fn put(
        &mut self,
        key: &str,
        value: &[u8],
        memory: Option<&Arc<std::os::fd::OwnedFd>>,
    ) -> Result<(), Error> {
        self.control
            .put(key, value, memory.map(|memory| memory.as_fd()))
    }

    fn neighbours(&self, own: HostIdentity, peers: &[(Rank, Peer)]) -> Neighbours {
        let mut hosts = vec![own; self.membership.size as usize];
        for (rank, peer) in peers {
            hosts[rank.index()] = peer.card.host;
        }
        Neighbours::new(hosts)
    }

    fn explain(&self, neighbours: &Neighbours, far: Option<(&str, &str)>) {
        if self.config.verbose && self.membership.rank == Rank(0) {
            let line = explain(&self.config.fabric, neighbours.pairs(), far);
            eprintln!("refrain: {line}");
        }
    }

    /// Finds addresses that do not answer. Behind a fence: nobody's time runs
    /// while another rank still registers its memory.
    fn greet(self, ofi: &mut Ofi, is_far: impl Fn(Rank, Rank) -> bool) -> Result<(), Error> {
        self.control.fence()?;
        let Greetings { to, from } = greetings(self.membership.rank, self.membership.size, is_far);
        Ok(ofi.greet(to, &from, self.peer_timeout())?)
    }
}

fn far_key(rank: Rank) -> String {
    format!("far/{rank}")
}

/// An address without memory.
fn bare(bytes: &[u8]) -> Address {
    Address {
        bytes: bytes.to_vec(),
        memory: None,
    }
}
