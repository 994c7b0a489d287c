//! One run: ranks commit, loggers store, and faults occur.

use crate::rank::RankModel;
use core::ops::AddAssign;
use fastrand::Rng;
use refrain_eventlog::Level;
use refrain_ring::Rank;
use refrain_sim::crash_point::CrashPoint;
use refrain_sim::loggers::Loggers;
use refrain_sim::plan::LoggersPlan;
use refrain_sim::planted::Planted;

const RANKS: u32 = 2;
/// Maximum number of steps until everything is stable after the last fault.
const PATIENCE: u64 = 40_000;
/// Number of rounds at the end in which ranks commit a few batches and wait for them.
const QUIET_ROUNDS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    pub plan: LoggersPlan,
    pub bug: Option<Planted>,
    pub steps: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of acknowledged determinants.
    pub acknowledged: u64,
    pub lives: u64,
    pub logger_deaths: u64,
    pub power_losses: u64,
    /// Number of batches that were read back at the end.
    pub read: u64,
    pub steps: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.lives += other.lives;
        self.logger_deaths += other.logger_deaths;
        self.power_losses += other.power_losses;
        self.read += other.read;
        self.steps += other.steps;
    }
}

struct Run {
    setup: Setup,
    rng: Rng,
    loggers: Loggers,
    ranks: Vec<RankModel>,
    totals: Totals,
    now: u64,
    were_alive: Vec<bool>,
}

pub fn run(setup: Setup) -> Result<Totals, String> {
    let mut rng = Rng::with_seed(setup.seed);
    let mut deaths = || (0..3).map(|_| (rng.u64(0..600), rng.bool())).collect();
    let crash_points = (0..setup.plan.replicas).map(|_| CrashPoint::new(deaths()));
    let crash_points = crash_points.collect();
    let loggers = Loggers::new(setup.plan, crash_points, setup.seed, setup.bug);
    let rank = |rank| {
        let deaths = vec![(rng.u64(0..200), rng.bool())];
        RankModel::new(Rank(rank), &loggers, deaths)
    };
    let mut run = Run {
        ranks: (0..RANKS).map(rank).collect(),
        rng,
        loggers,
        totals: Totals::default(),
        now: 0,
        were_alive: vec![true; setup.plan.replicas as usize],
        setup,
    };
    let mut result = Ok(());
    while run.now < setup.steps && result.is_ok() {
        result = run.step(true);
    }
    let result = result.and_then(|()| run.finish());
    result.map_err(|breach| format!("at {}: {breach}; {:?}", run.now, run.loggers.reports()))?;
    Ok(run.totals)
}

impl Run {
    fn step(&mut self, with_faults: bool) -> Result<(), String> {
        self.now += 1;
        if with_faults {
            self.act();
            if self.rng.u8(0..40) == 0 {
                self.fault();
            }
        }
        self.loggers.step(&mut self.rng, self.now);
        self.watch();
        let looks = self.rng.usize(0..self.ranks.len());
        self.totals.acknowledged += self.ranks[looks].look(&self.loggers)?;
        match self.loggers.breach() {
            Some(breach) => Err(breach),
            None => Ok(()),
        }
    }

    /// A random rank takes a step.
    fn act(&mut self) {
        let rank = self.rng.usize(0..self.ranks.len());
        let rank = &mut self.ranks[rank];
        match self.rng.u8(0..100) {
            0..8 => rank.commit(&mut self.rng),
            8 => rank.undead_commit(&mut self.rng),
            9 if self.rng.u8(0..4) == 0 => rank.trim(),
            10 if self.rng.u8(0..8) == 0 || rank.crash_point.is_dead() => {
                self.totals.lives += 1;
                rank.next_life(&self.loggers, self.rng.bool());
            }
            11 if self.rng.u8(0..8) == 0 => rank.end_undead(),
            _ => {}
        }
    }

    /// Counts all deaths of loggers, also those at an effect.
    fn watch(&mut self) {
        for (logger, was_alive) in self.were_alive.iter_mut().enumerate() {
            let lives = self.loggers.logger(logger as u32).lives();
            self.totals.logger_deaths += u64::from(*was_alive && !lives);
            *was_alive = lives;
        }
    }

    fn fault(&mut self) {
        let logger = self.rng.u32(0..self.setup.plan.replicas);
        let rank = self.rng.usize(0..self.ranks.len());
        let is_durable = self.setup.plan.level == Level::Durable;
        match self.rng.u8(0..12) {
            0 => self.loggers.logger(logger).kill(),
            1 if is_durable => {
                self.totals.power_losses += 1;
                self.loggers.logger(logger).lose_power();
            }
            2 | 3 => self.loggers.disconnect(self.ranks[rank].life),
            way @ (4 | 5) => self.loggers.logger(logger).is_paused = way == 4,
            way @ (6 | 7) => self.loggers.logger(logger).set_full(way == 6),
            way @ (8 | 9) => self.loggers.logger(logger).set_slow(way == 8),
            _ => self.loggers.logger(logger).restart(),
        }
    }

    /// No more faults: everything becomes stable and can be read.
    fn finish(&mut self) -> Result<(), String> {
        for rank in &mut self.ranks {
            rank.end_undead();
        }
        self.settle()?;
        for _ in 0..QUIET_ROUNDS {
            self.commit_and_wait()?;
        }
        for rank in 0..self.ranks.len() {
            self.totals.read += self.ranks[rank].check_now(&self.loggers)? as u64;
        }
        let until = self.now + PATIENCE;
        while !self.ranks.iter_mut().all(RankModel::leave) {
            self.loggers.heal();
            self.step(false)?;
            if self.now > until {
                return Err(format!("no rank can leave: {:?}", self.loggers.reports()));
            }
        }
        self.totals.steps = self.now;
        Ok(())
    }

    /// Waits until everything is stable.
    fn settle(&mut self) -> Result<(), String> {
        let until = self.now + PATIENCE;
        let replicas = self.setup.plan.replicas;
        while !(self.ranks.iter()).all(|rank| rank.is_all_stable(replicas)) {
            // A death at an effect may still occur.
            self.loggers.heal();
            for rank in self
                .ranks
                .iter_mut()
                .filter(|rank| rank.crash_point.is_dead())
            {
                rank.next_life(&self.loggers, false);
            }
            self.step(false)?;
            if self.now > until {
                let why: Vec<String> = self.ranks.iter().map(RankModel::explain).collect();
                return Err(format!(
                    "never stable: {why:?}; {:?}",
                    self.loggers.reports()
                ));
            }
        }
        Ok(())
    }

    /// A rank commits a few batches while a logger may be about to sleep, and waits: no later
    /// commit wakes the logger. EL-1
    fn commit_and_wait(&mut self) -> Result<(), String> {
        let rank = self.rng.usize(0..self.ranks.len());
        for _ in 0..self.rng.u8(1..4) {
            self.ranks[rank].commit(&mut self.rng);
            for _ in 0..self.rng.u8(0..12) {
                self.step(false)?;
            }
        }
        self.settle()
    }
}
