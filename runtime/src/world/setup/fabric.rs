//! Makes a rank's fabric: chooses the fabrics, and exchanges addresses.
//!
//! Each rank publishes a [`BusinessCard`] under `address/RANK`: its host, and the address of the
//! fabric that it has made so far. With `auto` that is shared memory, and only a job on several
//! hosts also makes a fabric between hosts. Rank 0 chooses that one and publishes it under
//! `provider`. For the choice, each rank publishes under `port/RANK` why it has no RDMA port (empty
//! if it has one). The address of the fabric between hosts is published under `far/RANK`.

use super::Membership;
use super::departed::DepartedPeers;
use super::explain::explain;
use super::neighbours::{Greetings, Neighbours, greetings};
use crate::Error;
use crate::world::peers::{Peers, Published, Reach, STRANGER};
use core::time::Duration;
use refrain_job::choice::{self, FabricChoice, provider};
use refrain_job::config::JobConfig;
use refrain_job::control::ControlPlane;
use refrain_job::control::business_card::BusinessCard;
use refrain_job::control::host::HostIdentity;
use refrain_job::stderr::report;
use refrain_ring::{Incarnation, Rank, Region};
use refrain_transport::fabric::mixed::{self, Mixed, Side};
use refrain_transport::fabric::network::{MessageEndpoint, Network, NetworkOptions, Overrides};
use refrain_transport::fabric::ofi::{Ofi, OfiOptions};
use refrain_transport::fabric::shm::Shm;
use refrain_transport::fabric::verbs::{Verbs, VerbsOptions};
use refrain_transport::fabric::{Address, Fabric, FabricError};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// A rank that has started and has no fabric yet.
pub(super) struct Making<'a> {
    pub(super) config: &'a JobConfig,
    pub(super) membership: &'a Membership,
    pub(super) control: &'a mut ControlPlane,
    /// The rank's log memory.
    pub(super) region: &'a Region,
    pub(super) window_bytes: u64,
}

/// A rank's fabric.
pub(super) struct Made {
    pub(super) fabric: Box<dyn Fabric + Send>,
    pub(super) peers: Peers,
    /// Ranks that the engine must connect later, since this life or theirs is a later one. REC-3
    pub(super) to_connect: Vec<(Rank, Incarnation, Address)>,
}

impl Made {
    /// The fabric of a rank that reaches no other ranks.
    pub(super) fn alone(
        fabric: impl Fabric + Send + 'static,
        to_connect: Vec<(Rank, Incarnation, Address)>,
    ) -> Result<Self, Error> {
        let host = HostIdentity::of_this_process()?;
        let reach = Reach::None;
        Ok(Self {
            fabric: Box::new(fabric),
            peers: Peers { host, reach },
            to_connect,
        })
    }
}

/// The hosts and business cards of all ranks.
struct Met {
    host: HostIdentity,
    /// This rank's address for ranks on its host.
    near: Address,
    published: Vec<(Rank, Published)>,
    neighbours: Neighbours,
}

impl Making<'_> {
    /// Makes the fabric that the job's settings require, and connects the ranks that begin together
    /// with this one.
    pub(super) fn make(self, shm: Shm) -> Result<Made, Error> {
        match FabricChoice::parse(&self.config.fabric)? {
            FabricChoice::Auto => self.make_auto(shm),
            FabricChoice::Shm => self.make_shm(shm),
            FabricChoice::Verbs => {
                let verbs = self.create_verbs()?;
                self.make_far(&shm, verbs)
            }
            FabricChoice::Ofi(Some(provider)) => {
                let ofi = self.create_ofi(&provider)?;
                self.make_far(&shm, ofi)
            }
            FabricChoice::Ofi(None) => Err(Error::Config(
                "--fabric ofi: the launcher has chosen no provider".into(),
            )),
        }
    }

    fn make_shm(mut self, shm: Shm) -> Result<Made, Error> {
        let (host, published) = self.introduce_to_all(&shm.address(), Vec::new())?;
        let neighbours = self.neighbours(host, &published);
        if let Some(stranger) = neighbours.stranger_to(self.membership.rank) {
            let reason = STRANGER.into();
            return Err(FabricError::Attach {
                peer: stranger,
                reason,
            }
            .into());
        }
        self.explain(&neighbours, None);
        let reach = Reach::Near;
        self.connect(Box::new(shm), Peers { host, reach }, &published)
    }

    /// One network fabric between all ranks, also within a host.
    fn make_far<E: MessageEndpoint<Peer: Send, Error: Send> + Send + 'static>(
        mut self,
        shm: &Shm,
        mut network: Network<E>,
    ) -> Result<Made, Error> {
        let socket = self.control.as_fd().try_clone_to_owned();
        network.wake_by(socket.map_err(|error| Error::Control {
            attempted: "copying the control socket's descriptor".into(),
            error,
        })?);
        // The shared memory stays: the arena holds the region, and the launcher keeps it for a
        // later life.
        let log = Address {
            bytes: Vec::new(),
            memory: shm.address().memory,
        };
        let (host, published) = self.introduce_to_all(&log, network.address().bytes)?;
        let reach = Reach::Far;
        let peers = Peers { host, reach };
        self.explain(&self.neighbours(host, &published), None);
        let to_connect = self.connect_first_lives(&mut network, peers, &published)?;
        self.greet(&mut network, |one, other| one != other)?;
        Ok(Made {
            fabric: Box::new(network),
            peers,
            to_connect,
        })
    }

    fn make_auto(mut self, shm: Shm) -> Result<Made, Error> {
        let near = shm.address();
        let (host, published) = self.introduce_to_all(&near, Vec::new())?;
        let neighbours = self.neighbours(host, &published);
        // All ranks see the same hosts, so all take the same branch here.
        if neighbours.stranger_to(self.membership.rank).is_none() {
            self.explain(&neighbours, None);
            let reach = Reach::Near;
            return self.connect(Box::new(shm), Peers { host, reach }, &published);
        }
        let (far, reason) = self.agree_on_far(&published)?;
        self.explain(&neighbours, Some((&far, &reason)));
        let met = Met {
            host,
            near,
            published,
            neighbours,
        };
        match FabricChoice::parse(&far)? {
            FabricChoice::Ofi(Some(provider)) => {
                let ofi = self.create_ofi(&provider)?;
                self.make_mixed(shm, ofi, met)
            }
            FabricChoice::Verbs => {
                let verbs = self.create_verbs()?;
                self.make_mixed(shm, verbs, met)
            }
            other => Err(Error::Config(format!(
                "rank 0 has chosen the fabric {other} between hosts: run the same refrain on every rank"
            ))),
        }
    }

    /// Shared memory within each host, a network fabric between hosts.
    fn make_mixed<E: MessageEndpoint<Peer: Send, Error: Send> + Send + 'static>(
        mut self,
        shm: Shm,
        network: Network<E>,
        mut met: Met,
    ) -> Result<Made, Error> {
        let own = self.membership.rank;
        let sides = met.neighbours.sides(own);
        self.put(&far_key(own), &network.address().bytes, None)?;
        if self.membership.incarnation > Incarnation(0) {
            // For peers that already know this life without its far address.
            self.publish(met.host, &met.near, network.address().bytes)?;
        }
        let mut mixed = Mixed::new(shm, network, sides.clone());
        for (rank, published) in &mut met.published {
            if sides[rank.index()] == Side::Far {
                let far = self.control.get(&far_key(*rank))?.0;
                published.has_far(far);
            }
        }
        let reach = Reach::Mixed;
        let peers = Peers {
            host: met.host,
            reach,
        };
        let to_connect = self.connect_first_lives(&mut mixed, peers, &met.published)?;
        let all_sides: Vec<Vec<Side>> = (0..self.membership.size)
            .map(|rank| met.neighbours.sides(Rank(rank)))
            .collect();
        self.greet(mixed.far_mut(), |one, other| {
            all_sides[one.index()][other.index()] == Side::Far
        })?;
        Ok(Made {
            fabric: Box::new(mixed),
            peers,
            to_connect,
        })
    }

    /// Shared memory to the other members of this rank's set, the logs of all other ranks. SET-5
    pub(super) fn make_with_set(
        mut self,
        shm: Shm,
        (departed, to_connect): (DepartedPeers, Vec<(Rank, Incarnation, Address)>),
        members: &[Rank],
    ) -> Result<Made, Error> {
        let (host, published) = self.introduce(&shm.address(), Vec::new(), members)?;
        let reach = Reach::Set;
        let peers = Peers { host, reach };
        let side = |rank| match members.contains(&Rank(rank)) {
            true => Side::Near,
            false => Side::Far,
        };
        let sides = (0..self.membership.size).map(side).collect();
        let name = departed.attributes().name.clone();
        let mut made = self.connect(
            Box::new(Mixed::new(shm, departed, sides).with_name(name)),
            peers,
            &published,
        )?;
        let departed = to_connect.into_iter().map(|(rank, incarnation, address)| {
            let address = mixed::join(None, Some(address));
            (rank, incarnation, address)
        });
        made.to_connect.extend(departed);
        Ok(made)
    }

    fn connect(
        &self,
        mut fabric: Box<dyn Fabric + Send>,
        peers: Peers,
        published: &[(Rank, Published)],
    ) -> Result<Made, Error> {
        let to_connect = self.connect_first_lives(&mut *fabric, peers, published)?;
        Ok(Made {
            fabric,
            peers,
            to_connect,
        })
    }

    /// Connects a peer if both lives are first ones. Returns the other peers: the two ranks must
    /// first exchange which messages they have. REC-3
    fn connect_first_lives(
        &self,
        fabric: &mut dyn Fabric,
        peers: Peers,
        published: &[(Rank, Published)],
    ) -> Result<Vec<(Rank, Incarnation, Address)>, Error> {
        let mut later = Vec::new();
        for (rank, published) in published {
            let Some(address) = peers.address_of(*rank, published)? else {
                continue;
            };
            let incarnation = published.incarnation();
            if incarnation.max(self.membership.incarnation) > Incarnation(0) {
                later.push((*rank, incarnation, address));
            } else {
                fabric.connect(*rank, incarnation, &address)?;
            }
        }
        Ok(later)
    }

    /// Agrees on the fabric between hosts: rank 0 chooses it, so that all ranks use the same. It is
    /// verbs if every rank has published that it has a port.
    fn agree_on_far(&mut self, others: &[(Rank, Published)]) -> Result<(String, String), Error> {
        const KEY: &str = "provider";
        let own = choice::verbs::usable(&self.config.verbs);
        let obstacle = own.as_ref().err().map(ToString::to_string);
        let obstacle = obstacle.unwrap_or_default();
        self.put(&port_key(self.membership.rank), obstacle.as_bytes(), None)?;
        if self.membership.rank == Rank(0) {
            let mut obstacle = Some((Rank(0), obstacle)).filter(|(_, words)| !words.is_empty());
            for (rank, _) in others {
                let (words, _) = self.control.get(&port_key(*rank))?;
                let words = String::from_utf8_lossy(&words).into_owned();
                obstacle = obstacle.or((!words.is_empty()).then_some((*rank, words)));
            }
            let (name, reason) = self.far_without(obstacle)?;
            self.put(KEY, format!("{name}\n{reason}").as_bytes(), None)?;
        }
        let (bytes, _) = self.control.get(KEY)?;
        let text = String::from_utf8_lossy(&bytes);
        let (name, reason) = text.split_once('\n').unwrap_or((&text, ""));
        Ok((name.to_owned(), reason.to_owned()))
    }

    /// The fabric between hosts, and the reason: libfabric's if a rank has no RDMA port.
    fn far_without(&self, obstacle: Option<(Rank, String)>) -> Result<(String, String), Error> {
        let Some((rank, words)) = obstacle else {
            return Ok(("verbs".into(), "every rank has an RDMA port".into()));
        };
        let found = provider::installed(self.library())?;
        let (provider, reason) = provider::best_name(&found)?;
        let name = FabricChoice::Ofi(Some(provider)).to_string();
        let words = words.replace('\n', " ");
        Ok((name, format!("{reason}; rank {rank}: {words}")))
    }

    fn library(&self) -> Option<&Path> {
        self.config.libfabric.as_ref().map(Path::new)
    }

    fn create_ofi(&self, provider: &str) -> Result<Ofi, Error> {
        // A provider that needs the memory present would call `Arena::commit_all` here, before it
        // registers the region. No provider needs it yet: those that pin pages allocate them.
        let options = OfiOptions {
            network: self.network(),
            provider: provider.to_owned(),
            library: self.library().map(Path::to_owned),
            overrides: Overrides::default(),
        };
        Ok(Ofi::create(options, self.region)?)
    }

    fn create_verbs(&self) -> Result<Verbs, Error> {
        let options = VerbsOptions {
            network: self.network(),
            library: choice::verbs::library(&self.config.verbs).map(Path::to_owned),
            port: choice::verbs::port(&self.config.verbs),
            overrides: Overrides::default(),
        };
        Ok(Verbs::create(options, self.region)?)
    }

    fn network(&self) -> NetworkOptions {
        NetworkOptions {
            job: self.membership.job,
            rank: self.membership.rank,
            incarnation: self.membership.incarnation,
            size: self.membership.size,
            window_bytes: self.window_bytes,
            lost_after: self.peer_timeout(),
            suspect_after: self.config.suspect_after_ms.map(Duration::from_millis),
        }
    }

    fn peer_timeout(&self) -> Duration {
        Duration::from_millis(self.config.peer_timeout_ms)
    }

    /// Publishes this rank's card, and reads the cards of all other ranks.
    fn introduce_to_all(
        &mut self,
        near: &Address,
        far: Vec<u8>,
    ) -> Result<(HostIdentity, Vec<(Rank, Published)>), Error> {
        let own = self.membership.rank;
        let ranks = (0..self.membership.size).map(Rank);
        let others: Vec<_> = ranks.filter(|rank| *rank != own).collect();
        self.introduce(near, far, &others)
    }

    /// Publishes this rank's card, and reads the cards of these ranks.
    fn introduce(
        &mut self,
        near: &Address,
        far: Vec<u8>,
        others: &[Rank],
    ) -> Result<(HostIdentity, Vec<(Rank, Published)>), Error> {
        let host = HostIdentity::of_this_process()?;
        self.publish(host, near, far)?;
        let mut published = Vec::with_capacity(others.len());
        for rank in others {
            // For a dead rank, this is the card of its next life.
            let (bytes, memory) = self.control.get(&address_key(*rank))?;
            published.push((*rank, Published::read(*rank, &bytes, memory)?));
        }
        Ok((host, published))
    }

    fn publish(&mut self, host: HostIdentity, near: &Address, far: Vec<u8>) -> Result<(), Error> {
        let card = BusinessCard {
            incarnation: self.membership.incarnation,
            host,
            near: near.bytes.clone(),
            far,
        };
        let key = address_key(self.membership.rank);
        self.put(&key, &card.encode(), near.memory.as_ref())
    }

    fn put(
        &mut self,
        key: &str,
        value: &[u8],
        memory: Option<&Arc<std::os::fd::OwnedFd>>,
    ) -> Result<(), Error> {
        let memory = memory.map(|memory| memory.as_fd());
        Ok(self.control.put(key, value, memory)?)
    }

    fn neighbours(&self, own: HostIdentity, published: &[(Rank, Published)]) -> Neighbours {
        let mut hosts = vec![own; self.membership.size as usize];
        for (rank, published) in published {
            hosts[rank.index()] = published.card.host;
        }
        Neighbours::new(hosts)
    }

    fn explain(&self, neighbours: &Neighbours, far: Option<(&str, &str)>) {
        if self.config.verbose && self.membership.rank == Rank(0) {
            let line = explain(&self.config.fabric, neighbours.pairs(), far);
            report(line);
        }
    }

    /// Greets a peer to detect addresses that do not answer. It follows a fence, so that a rank
    /// that still registers its memory is not timed.
    fn greet<E: MessageEndpoint>(
        self,
        network: &mut Network<E>,
        is_far: impl Fn(Rank, Rank) -> bool,
    ) -> Result<(), Error> {
        let is_later = self.membership.incarnation > Incarnation(0);
        if is_later && self.control.fences_passed() > 0 {
            // The checkpoint lies after the fence.
            return Ok(());
        }
        self.control.fence()?;
        if is_later {
            return Ok(());
        }
        let Greetings { to, from } = greetings(self.membership.rank, self.membership.size, is_far);
        let timeout = self.peer_timeout();
        let mut checked = Ok(());
        let greeted = network.greet(to, &from, timeout, &mut || {
            checked = self.control.check();
            // A rank that dies now is restarted, and connected when it has joined. REC-3
            checked.is_err() || self.control.has_news_of_lives()
        });
        checked?;
        Ok(greeted?)
    }
}

fn address_key(rank: Rank) -> String {
    format!("address/{rank}")
}

fn port_key(rank: Rank) -> String {
    format!("port/{rank}")
}

fn far_key(rank: Rank) -> String {
    format!("far/{rank}")
}
