//! Everything that is: lives, the network between them, what is stable, and what
//! the launcher has still to tell. Cannot be copied: a state is what a sequence of
//! actions leads to.

use super::action::Action;
use super::ghost::Ghost;
use super::life::{FRAGMENT_BYTES, Image, JOB, Life, Start};
use super::memories::Memories;
use super::rules::match_of;
use super::size::{Bug, Size};
use refrain_logging::determinant::row::determinants;
use refrain_ring::{Arena, Incarnation, Rank};
use refrain_transport::fabric::sim::{LaneKind, Life as Place, Network, Options, Route, SimFabric};
use refrain_transport::fabric::{Address, Fabric};
use std::cell::RefCell;
use std::rc::Rc;

/// What the launcher tells of a life.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// It is over.
    Down(Incarnation),
    /// It can be reached.
    Up(Incarnation, Address),
}

/// See the [module](self).
pub(super) struct World {
    pub size: Size,
    pub network: Network,
    /// By rank; none: it is dead.
    pub lives: Vec<Option<Life>>,
    /// The newest life of each, living or not.
    pub newest: Vec<Incarnation>,
    /// Stable batches, by rank.
    pub rows: Vec<Vec<Rc<[u8]>>>,
    /// The newest stable checkpoints.
    pub images: Vec<Option<Image>>,
    /// What was not told, by rank and by whom it is of.
    pub news: Vec<Vec<Vec<News>>>,
    /// Deaths that may come yet.
    pub deaths: u8,
    pub ghost: Rc<RefCell<Ghost>>,
    /// Last, so that nobody uses any of it when it goes back.
    memories: Memories,
}

fn options(size: &Size) -> Options {
    let mut options = Options::calm(1).reading_in_place(size.reads_in_place);
    options.attributes.fragment_bytes = FRAGMENT_BYTES;
    options.keeps_trace = false;
    options.faults.fence_off = size.bug == Some(Bug::StaleRestart);
    options
}

impl World {
    /// All ranks in their first lives, as far as they come by themselves.
    pub fn first(size: &Size) -> Result<Self, String> {
        let ranks = size.programs.len();
        let mut world = Self {
            network: Network::new(options(size)),
            lives: (0..ranks).map(|_| None).collect(),
            newest: vec![Incarnation(0); ranks],
            rows: vec![Vec::new(); ranks],
            images: vec![None; ranks],
            news: vec![vec![Vec::new(); ranks]; ranks],
            deaths: size.deaths,
            ghost: Rc::default(),
            memories: Memories::default(),
            size: size.clone(),
        };
        world.begin_all()?;
        Ok(world)
    }

    fn begin_all(&mut self) -> Result<(), String> {
        let ranks = 0..self.lives.len();
        let places: Vec<_> = ranks.clone().map(|rank| self.place(rank)).collect();
        let addresses: Vec<Address> = places.iter().map(|(fabric, _)| fabric.address()).collect();
        for (rank, place) in places.into_iter().enumerate() {
            let peer = |(peer, address): (usize, &Address)| {
                (peer != rank).then(|| (Incarnation(0), address.clone()))
            };
            let peers = addresses.iter().enumerate().map(peer).collect();
            let life = self.start(rank, peers).begin(place)?;
            self.lives[rank] = Some(life);
        }
        for rank in ranks {
            self.flow(rank)?;
        }
        Ok(())
    }

    fn start(&self, rank: usize, peers: Vec<Option<(Incarnation, Address)>>) -> Start<'_> {
        Start {
            size: &self.size,
            rank,
            incarnation: self.newest[rank],
            image: self.images[rank].as_ref(),
            row: &self.rows[rank],
            ghost: &self.ghost,
            peers,
        }
    }

    /// A place in the network for the newest life of a rank.
    fn place(&mut self, rank: usize) -> (SimFabric, Arena) {
        let region = self.memories.lend();
        let own = (Rank(rank as u32), self.newest[rank]);
        let fabric = self.network.start_in(own.0, own.1, region.clone());
        (fabric, Arena::new(region, 0, Box::new(|_, _| Ok(()))))
    }

    fn flow(&mut self, rank: usize) -> Result<(), String> {
        let life = self.lives[rank].as_mut();
        life.map_or(Ok(()), |life| life.flow(&self.size))
    }

    /// Does what an action says.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn act(&mut self, action: Action) -> Result<(), String> {
        let rank = match action {
            Action::Deliver {
                from,
                life,
                to,
                is_data,
            } => {
                self.deliver((from, life), to, is_data);
                to
            }
            Action::Tell { rank, peer, nth } => {
                let news = self.news[rank as usize][peer as usize].remove(nth as usize);
                self.tell(rank as usize, peer as usize, news)?;
                rank
            }
            Action::Stable { rank } => {
                self.stabilize(rank as usize, usize::MAX)?;
                rank
            }
            Action::Saved { rank } => {
                let life = self.lives[rank as usize].as_mut();
                if let Some(image) = life.and_then(Life::saved) {
                    self.images[rank as usize] = Some(image);
                }
                rank
            }
            Action::Die { rank, stable } => {
                self.die(rank as usize, stable as usize)?;
                rank
            }
            Action::Begin { rank } => {
                self.begin(rank as usize)?;
                rank
            }
        };
        self.flow(rank as usize)
    }

    fn deliver(&mut self, (from, life): (u8, u8), to: u8, is_data: bool) {
        let place = |rank: u8, incarnation| Place {
            rank: Rank(rank.into()),
            incarnation,
        };
        let route = Route {
            to: place(to, self.newest[to as usize]),
            from: place(from, Incarnation(life.into())),
        };
        let lane = match is_data {
            true => LaneKind::Data,
            false => LaneKind::Control,
        };
        self.network.deliver_first(route, lane);
    }

    /// Batches become stable that a rank has begun to commit, the first `batches`.
    fn stabilize(&mut self, rank: usize, batches: usize) -> Result<(), String> {
        let Some(life) = &self.lives[rank] else {
            return Ok(());
        };
        let mut row = life.desk.0.borrow_mut();
        let batches = batches.min(row.pending.len());
        for (end, batch) in row.pending.drain(..batches).collect::<Vec<_>>() {
            row.stable = row.stable.max(end);
            self.rows[rank].push(batch);
        }
        let all = self.rows[rank].iter().map(|batch| &**batch);
        let all = determinants(Rank(rank as u32), JOB, all, None);
        let all = all.map_err(|error| format!("EL-5: {error}"))?;
        let name = |matched: refrain_logging::determinant::Matched| {
            (matched.source.index(), rank, matched.ssn.0)
        };
        let matched = all.iter().filter_map(match_of).map(name);
        self.ghost.borrow_mut().matched.extend(matched);
        Ok(())
    }

    fn die(&mut self, rank: usize, stable: usize) -> Result<(), String> {
        self.deaths -= 1;
        self.stabilize(rank, stable)?;
        self.lives[rank] = None;
        let of = self.newest[rank];
        for (other, news) in self.news.iter_mut().enumerate() {
            if self.lives[other].is_some() {
                news[rank].push(News::Down(of));
            }
        }
        // Nobody is there to be told.
        self.news[rank].iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// The next life begins, and is told at once who is there.
    fn begin(&mut self, rank: usize) -> Result<(), String> {
        self.newest[rank].0 += 1;
        let own = self.newest[rank];
        let place = self.place(rank);
        let peer = |life: &Option<Life>| {
            let life = life.as_ref()?;
            Some((life.incarnation, life.address.clone()))
        };
        let peers = self.lives.iter().map(peer).collect();
        let life = self.start(rank, peers).begin(place)?;
        for (other, news) in self.news.iter_mut().enumerate() {
            if self.lives[other].is_some() {
                news[rank].push(News::Up(own, life.address.clone()));
            }
        }
        self.lives[rank] = Some(life);
        Ok(())
    }

    /// News of a life that is over, or known, change nothing. REC-6
    fn tell(&mut self, rank: usize, peer: usize, news: News) -> Result<(), String> {
        let print = |world: &Self| world.lives[rank].as_ref().map(Life::fingerprint);
        let life = self.lives[rank].as_ref();
        let connected = life.and_then(|life| life.engine.connected(Rank(peer as u32)));
        let is_stale = connected.is_some_and(|connected| match &news {
            News::Down(over) => *over < connected,
            News::Up(of, _) => *of <= connected,
        });
        let before = is_stale.then(|| print(self));
        let what = format!("{news:?}");
        self.heed(rank, peer, news)?;
        match before.is_none_or(|before| before == print(self)) {
            true => Ok(()),
            false => Err(format!("REC-6: {what} of rank {peer} changes rank {rank}")),
        }
    }

    /// As the runtime heeds news.
    fn heed(&mut self, rank: usize, peer: usize, news: News) -> Result<(), String> {
        let bug = self.size.bug;
        let Some(life) = &mut self.lives[rank] else {
            return Ok(());
        };
        let engine = &mut life.engine;
        let of = Rank(peer as u32);
        let connected = engine.connected(of);
        match news {
            News::Down(over) => {
                let is_its = connected.is_none_or(|life| life <= over);
                if is_its || bug == Some(Bug::StaleDown) {
                    engine.fence(of);
                }
            }
            News::Up(incarnation, address) => {
                if bug == Some(Bug::UpWithoutDown) && connected.is_some() {
                    return Ok(());
                }
                let met = engine.connect(of, incarnation, &address);
                met.map_err(|error| format!("rank {rank}: {error}"))?;
            }
        }
        Ok(())
    }

    /// What must be true where nothing but a fault could go on.
    pub fn check_end(&self) -> Result<(), String> {
        let ranks = self.lives.len();
        for (rank, life) in self.lives.iter().enumerate() {
            let Some(life) = life else { continue };
            let dead_end = |why: &str| Err(format!("no dead end: rank {rank} {why}"));
            if !life.is_through(&self.size) {
                return dead_end("waits for something that never comes");
            }
            if life.engine.request_count() > 0 || life.engine.has_unposted() {
                return dead_end("has something left to send");
            }
            let mut peers = (0..ranks).filter(|peer| *peer != rank);
            if !peers.all(|peer| life.engine.is_live(Rank(peer as u32))) {
                return dead_end("has a peer that is away");
            }
        }
        Ok(())
    }
}
