//! A job whose ranks are killed and begin again, by chance or as a test says.

use super::life::{Checkpoint, Life, Means};
use super::program::{Dice, Program};
use crate::memory::Room;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::sim::{Network, Options};
use refrain_transport::fabric::{Address, Fabric};

/// More turns than any job needs.
const TURNS_MAX: usize = 2_000_000;

pub struct Job {
    pub network: Network,
    pub program: Program,
    pub means: Means,
    /// By rank; none: it is dead.
    pub lives: Vec<Option<Life>>,
    /// The newest life of each rank, living or not.
    pub incarnations: Vec<Incarnation>,
    checkpoints: Vec<Option<Checkpoint>>,
    /// Dropped after the engines that hold their addresses.
    rooms: Vec<Room>,
    pub duplicates: u64,
    pub restarted_from_checkpoint: usize,
}

/// How a job goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    pub kills: usize,
    /// A rank is killed once in so many turns.
    pub kill_once_in: usize,
}

impl Job {
    pub fn new(options: Options, means: Means, program: Program) -> Self {
        let network = Network::new(options);
        let ranks = || (0..means.ranks as u32).map(Rank);
        let places: Vec<_> = ranks()
            .map(|rank| network.start(rank, Incarnation(0), means.log_bytes))
            .collect();
        let addresses: Vec<Address> = places.iter().map(|(fabric, _)| fabric.address()).collect();
        let lives = ranks().zip(places).map(|(rank, (fabric, arena))| {
            let life = (rank, Incarnation(0));
            Some(Life::over(
                Box::new(fabric),
                arena,
                means,
                life,
                None,
                &addresses,
            ))
        });
        Self {
            lives: lives.collect(),
            incarnations: vec![Incarnation(0); means.ranks],
            checkpoints: vec![None; means.ranks],
            rooms: Vec::new(),
            duplicates: 0,
            restarted_from_checkpoint: 0,
            network,
            program,
            means,
        }
    }

    pub fn kill(&mut self, rank: usize) {
        if let Some(life) = self.lives[rank].take() {
            self.network.kill(Rank(rank as u32));
            self.duplicates += life.engine.statistics().duplicates;
        }
    }

    /// Starts the next life of a dead rank.
    pub fn start(&mut self, rank: usize) {
        assert!(self.lives[rank].is_none(), "it lives");
        let incarnation = Incarnation(self.incarnations[rank].0 + 1);
        self.incarnations[rank] = incarnation;
        let from = self.checkpoints[rank].as_ref();
        self.restarted_from_checkpoint += usize::from(from.is_some());
        let life = (Rank(rank as u32), incarnation);
        let life = Life::begin(&self.network, self.means, life, from, &[]);
        self.lives[rank] = Some(life);
    }

    /// A rank is told what became of a peer.
    pub fn tell(&mut self, rank: usize, peer: usize, may_only_fence: bool) {
        let newest = self.incarnations[peer];
        let living = self.lives[peer].as_ref().map(|life| life.address.clone());
        let Some(life) = self.lives[rank].as_mut().filter(|_| rank != peer) else {
            return;
        };
        let of = Rank(peer as u32);
        let known = life.engine.connected(of);
        let is_over = known.is_some_and(|known| known < newest || living.is_none());
        match living {
            Some(address) if !(is_over && may_only_fence) => {
                let connected = life.engine.connect(of, newest, &address);
                connected.expect("the newest life of a peer");
            }
            _ if is_over => life.engine.fence(of),
            _ => {}
        }
    }

    /// Every living rank is told of every other one.
    pub fn tell_all(&mut self) {
        for rank in 0..self.means.ranks {
            for peer in (0..self.means.ranks).filter(|peer| *peer != rank) {
                self.tell(rank, peer, false);
            }
        }
    }

    pub fn step(&mut self, rank: usize) -> bool {
        let Some(life) = &mut self.lives[rank] else {
            return false;
        };
        life.step(&self.program, &mut self.rooms)
    }

    pub fn progress(&mut self, rank: usize) -> bool {
        let Some(life) = &mut self.lives[rank] else {
            return false;
        };
        let moved = life.progress();
        if let Some(checkpoint) = life.save() {
            self.checkpoints[rank] = Some(checkpoint);
        }
        moved
    }

    /// One thing after another, by chance.
    pub fn turn(&mut self, dice: &mut Dice, trouble: &mut Trouble) {
        let rank = dice.below(self.means.ranks);
        match dice.below(12) {
            0..4 => {
                self.step(rank);
            }
            4..8 => {
                self.progress(rank);
            }
            8 | 9 => {
                self.network.step();
            }
            10 => self.tell(rank, dice.below(self.means.ranks), dice.once_in(2)),
            _ => {
                if let Some(life) = &mut self.lives[rank] {
                    life.publish();
                } else if dice.once_in(10) {
                    self.start(rank);
                }
            }
        }
        if trouble.kills > 0 && dice.once_in(trouble.kill_once_in) {
            trouble.kills -= usize::from(self.lives[rank].is_some());
            self.kill(rank);
        }
    }

    pub fn is_over(&mut self) -> bool {
        let program = &self.program;
        self.lives.iter_mut().enumerate().all(|(rank, life)| {
            life.as_mut().is_some_and(|life| {
                let mut peers = (0..self.means.ranks).filter(|peer| *peer != rank);
                life.is_through(program)
                    && peers.all(|peer| life.engine.is_live(Rank(peer as u32)))
                    && !life.engine.has_unsent()
            })
        })
    }

    /// Until every program is through, and every rank has what it was sent.
    pub fn run(&mut self, dice: &mut Dice, mut trouble: Trouble) {
        for turn in 0..TURNS_MAX {
            if turn % 64 == 0 && self.is_over() {
                return self.end();
            }
            self.turn(dice, &mut trouble);
        }
        panic!("it does not come to an end\n{}", self.dump());
    }

    /// Nothing dies any more: until it is over.
    pub fn finish(&mut self) {
        for rank in 0..self.means.ranks {
            if self.lives[rank].is_none() {
                self.start(rank);
            }
        }
        self.tell_all();
        for _ in 0..TURNS_MAX {
            if self.is_over() {
                return self.end();
            }
            self.network.step();
            for rank in 0..self.means.ranks {
                self.progress(rank);
                self.step(rank);
            }
        }
        panic!("it does not come to an end\n{}", self.dump());
    }

    /// Nothing is left of any operation.
    fn end(&mut self) {
        for life in self.lives.iter().flatten() {
            self.duplicates += life.engine.statistics().duplicates;
            assert_eq!(life.engine.request_count(), 0, "{:?}", life.rank);
            assert!(life.engine.state().is_ok());
        }
    }

    pub fn dump(&self) -> String {
        let lives = self.lives.iter().map(|life| match life {
            Some(life) => life.place(&self.program) + "\n",
            None => "dead\n".to_owned(),
        });
        lives.collect()
    }
}
