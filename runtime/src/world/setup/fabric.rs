//! Makes a rank's fabric: chooses the fabrics, and exchanges addresses.
//!
//! Each rank first asks for the hosts of all ranks. With `auto`, ranks of one host use shared memory,
//! and a job on several hosts also makes a fabric between hosts. Rank 0 chooses that one and publishes it
//! under `provider`. For the choice, each rank publishes under `port/RANK` why it has no RDMA port (empty
//! if it has one). Then each rank publishes a [`BusinessCard`] under `address/RANK`: its host, and the
//! addresses of its fabrics. It gets the cards of others when they are
//! [introduced](refrain_transport::engine::Engine::with_introductions).

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

/// The peers that were introduced before the engine is made.
#[derive(Default)]
struct Met {
    /// See [`Made::met`].
    before: Option<Vec<Rank>>,
    connected: Vec<Rank>,
    to_connect: Vec<(Rank, Incarnation, Address)>,
}

impl Met {
    fn with(self, fabric: Box<dyn Fabric + Send>, peers: Peers) -> Made {
        Made {
            fabric,
            peers,
            met: self.before,
            connected: self.connected,
            to_connect: self.to_connect,
        }
    }
}

/// A rank's fabric.
pub(super) struct Made {
    pub(super) fabric: Box<dyn Fabric + Send>,
    pub(super) peers: Peers,
    /// The ranks that were introduced to earlier lives; `None`: all ranks are introduced at the
    /// start.
    pub(super) met: Option<Vec<Rank>>,
    /// Ranks that the fabric has connected.
    pub(super) connected: Vec<Rank>,
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
            met: None,
            connected: Vec::new(),
            to_connect,
        })
    }
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
        let (host, neighbours) = self.meet_hosts()?;
        if let Some(stranger) = neighbours.stranger_to(self.membership.rank) {
            let reason = STRANGER.into();
            return Err(FabricError::Attach {
                peer: stranger,
                reason,
            }
            .into());
        }
        self.explain(&neighbours, None);
        self.make_near(shm, host)
    }

    fn make_near(mut self, mut shm: Shm, host: HostIdentity) -> Result<Made, Error> {
        self.publish(host, &shm.address(), Vec::new())?;
        let reach = Reach::Near;
        let peers = Peers { host, reach };
        let met = self.introduce(&mut shm, peers, &[])?;
        Ok(met.with(Box::new(shm), peers))
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
        let (host, neighbours) = self.meet_hosts()?;
        self.explain(&neighbours, None);
        // The shared memory stays: the arena holds the region, and the launcher keeps it for a
        // later life.
        let log = Address {
            bytes: Vec::new(),
            memory: shm.address().memory,
        };
        self.publish(host, &log, network.address().bytes)?;
        let reach = Reach::Far;
        let peers = Peers { host, reach };
        let greetings = self.greetings(|one, other| one != other);
        let met = self.introduce(&mut network, peers, &greetings.ranks())?;
        self.greet(&mut network, greetings, &met)?;
        Ok(met.with(Box::new(network), peers))
    }

    fn make_auto(mut self, shm: Shm) -> Result<Made, Error> {
        let (host, neighbours) = self.meet_hosts()?;
        // All ranks see the same hosts, so all take the same branch here.
        if neighbours.stranger_to(self.membership.rank).is_none() {
            self.explain(&neighbours, None);
            return self.make_near(shm, host);
        }
        let (far, reason) = self.agree_on_far()?;
        self.explain(&neighbours, Some((&far, &reason)));
        match FabricChoice::parse(&far)? {
            FabricChoice::Ofi(Some(provider)) => {
                let ofi = self.create_ofi(&provider)?;
                self.make_mixed(shm, ofi, (host, &neighbours))
            }
            FabricChoice::Verbs => {
                let verbs = self.create_verbs()?;
                self.make_mixed(shm, verbs, (host, &neighbours))
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
        (host, neighbours): (HostIdentity, &Neighbours),
    ) -> Result<Made, Error> {
        self.publish(host, &shm.address(), network.address().bytes)?;
        let mut mixed = Mixed::new(shm, network, neighbours.sides(self.membership.rank));
        let reach = Reach::Mixed;
        let peers = Peers { host, reach };
        let greetings = self.greetings(|one, other| neighbours.are_apart(one, other));
        let met = self.introduce(&mut mixed, peers, &greetings.ranks())?;
        self.greet(mixed.far_mut(), greetings, &met)?;
        Ok(met.with(Box::new(mixed), peers))
    }

    /// Shared memory to the other members of this rank's set, the logs of all other ranks. SET-5
    pub(super) fn make_with_set(
        mut self,
        shm: Shm,
        (departed, to_connect): (DepartedPeers, Vec<(Rank, Incarnation, Address)>),
        members: &[Rank],
    ) -> Result<Made, Error> {
        let host = HostIdentity::of_this_process()?;
        self.publish(host, &shm.address(), Vec::new())?;
        let reach = Reach::Set;
        let peers = Peers { host, reach };
        let side = |rank| match members.contains(&Rank(rank)) {
            true => Side::Near,
            false => Side::Far,
        };
        let sides = (0..self.membership.size).map(side).collect();
        let name = departed.attributes().name.clone();
        let mut mixed = Mixed::new(shm, departed, sides).with_name(name);
        let met = self.introduce(&mut mixed, peers, members)?;
        let mut made = met.with(Box::new(mixed), peers);
        let departed = to_connect.into_iter().map(|(rank, incarnation, address)| {
            let address = mixed::join(None, Some(address));
            (rank, incarnation, address)
        });
        made.to_connect.extend(departed);
        Ok(made)
    }

    /// Waits for the introduction of `others`, and, in jobs in which all ranks are introduced at the
    /// start, of all ranks. Connects a peer if both lives are first ones; in the other cases the two
    /// ranks must first exchange which messages they have. REC-3
    fn introduce(
        &mut self,
        fabric: &mut dyn Fabric,
        peers: Peers,
        others: &[Rank],
    ) -> Result<Met, Error> {
        let own = self.membership.rank;
        let ranks = (0..self.membership.size).map(Rank);
        let all: Vec<Rank> = ranks.filter(|rank| *rank != own).collect();
        let before = self.control.met().map(<[Rank]>::to_vec);
        let introduced: &[Rank] = match (&before, peers.reach) {
            (None, Reach::Near | Reach::Far | Reach::Mixed) => &all,
            _ => others,
        };
        // Of two ranks either one may have died before it has asked.
        for rank in introduced.iter().filter(|_| before.is_some()) {
            self.control.meet(*rank)?;
        }
        let mut met = Met {
            before,
            ..Met::default()
        };
        for rank in introduced {
            let published = Published::read(self.control.introduced(*rank)?)?;
            let Some(address) = peers.address_of(*rank, &published)? else {
                continue;
            };
            let incarnation = published.incarnation();
            if incarnation.max(self.membership.incarnation) > Incarnation(0) {
                met.to_connect.push((*rank, incarnation, address));
            } else {
                fabric.connect(*rank, incarnation, &address)?;
                met.connected.push(*rank);
            }
        }
        Ok(met)
    }

    /// Agrees on the fabric between hosts: rank 0 chooses it, so that all ranks use the same. It is
    /// verbs if every rank has published that it has a port.
    fn agree_on_far(&mut self) -> Result<(String, String), Error> {
        const KEY: &str = "provider";
        let own = choice::verbs::usable(&self.config.verbs);
        let obstacle = own.as_ref().err().map(ToString::to_string);
        let obstacle = obstacle.unwrap_or_default();
        self.put(&port_key(self.membership.rank), obstacle.as_bytes(), None)?;
        if self.membership.rank == Rank(0) {
            let mut obstacle = Some((Rank(0), obstacle)).filter(|(_, words)| !words.is_empty());
            for rank in (1..self.membership.size).map(Rank) {
                let (words, _) = self.control.get(&port_key(rank))?;
                let words = String::from_utf8_lossy(&words).into_owned();
                obstacle = obstacle.or((!words.is_empty()).then_some((rank, words)));
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

    /// Asks for the hosts of all ranks.
    fn meet_hosts(&mut self) -> Result<(HostIdentity, Neighbours), Error> {
        let own = HostIdentity::of_this_process()?;
        let hosts = self.control.hosts(own)?;
        Ok((own, Neighbours::new(hosts)))
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

    fn explain(&self, neighbours: &Neighbours, far: Option<(&str, &str)>) {
        if self.config.verbose && self.membership.rank == Rank(0) {
            let line = explain(&self.config.fabric, neighbours.pairs(), far);
            report(line);
        }
    }

    /// The ranks that greet each other at the start; a later life greets none.
    fn greetings(&self, is_far: impl Fn(Rank, Rank) -> bool) -> Greetings {
        match self.membership.incarnation > Incarnation(0) {
            true => Greetings::default(),
            false => greetings(self.membership.rank, self.membership.size, is_far),
        }
    }

    /// Greets a peer to detect addresses that do not answer. It follows a fence, so that a rank
    /// that still registers its memory is not timed.
    fn greet<E: MessageEndpoint>(
        self,
        network: &mut Network<E>,
        Greetings { to, mut from }: Greetings,
        met: &Met,
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
        // A rank that has died is restarted, and connected when it has joined. REC-3
        let is_there = |rank: &Rank| met.connected.contains(rank);
        from.retain(is_there);
        let timeout = self.peer_timeout();
        let mut checked = Ok(());
        // Not that another rank has died: who greets this one may have no news of that.
        let greeted = network.greet(to.filter(is_there), &from, timeout, &mut |rank| {
            if checked.is_ok() {
                checked = self.control.check();
            }
            checked.is_err() || self.control.has_news_of_lives(rank)
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
