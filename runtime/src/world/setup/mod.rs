//! Joins a rank to its job: settings, log memory, fabric, engine.
//!
//! Log memory is always made by the shared-memory fabric. Network fabrics register the same memory,
//! so that a record can leave by either.

mod checkpoints;
mod departed;
mod events;
mod explain;
mod fabric;
mod joining;
mod kept_results;
mod log_size;
mod low_numbers;
mod neighbours;
mod recorded;
mod spill;

use super::World;
use super::forked::{self, OfThisProcess};
use super::news::Attention;
use super::only::Only;
use super::request::Table;
use super::time::JobTime;
use super::waiting::{LogWatch, Patience, TESTS_PER_LOOK};
use crate::Error;
use joining::{Joined, Joining};
use low_numbers::LowNumbers;
use refrain_collectives::Schedules;
use refrain_collectives::choice::Table as Algorithms;
use refrain_job::config::JobConfig;
use refrain_job::control::ControlPlane;
use refrain_rank::collective::{UnderWay, Whole};
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::FabricError;
use std::time::Instant;

/// The place of this rank in its job.
struct Membership {
    rank: Rank,
    size: u32,
    incarnation: Incarnation,
    job: u64,
}

impl World {
    /// Joins the job of the launcher that started this process; without a launcher, makes a job of
    /// one rank.
    ///
    /// In a later life this returns a world that replays the earlier life: the program runs
    /// as before, from its beginning or from the checkpoint that [`World::restored`] returns.
    ///
    /// # Errors
    /// When this process has a world already; when the launcher cannot be reached, or the settings
    /// cannot be met; when the checkpoint or events that a later life needs are damaged or
    /// incomplete.
    pub fn init() -> Result<Self, Error> {
        forked::watch()?;
        let only = Only::claim()?;
        let began = Instant::now();
        let mut control = ControlPlane::from_environment()?;
        // After the control socket is opened: its number differs, and becomes free.
        let _low_numbers = LowNumbers::hold();
        let config = control
            .as_ref()
            .map_or_else(JobConfig::default, |control| control.config().clone());
        let mut algorithms = Algorithms::default();
        algorithms
            .override_with(&config.collectives.table)
            .map_err(|error| Error::Config(error.to_string()))?;
        let membership = Membership::of(control.as_ref());
        let joined = Joining {
            config: &config,
            membership: &membership,
            began,
        }
        .join(control.as_mut())
        .inspect_err(|error| tell_launcher(error, control.as_mut()))?;
        let Joined {
            engine,
            peers,
            checkpoints,
            world,
            recovering,
        } = joined;
        let mut under_way = UnderWay::default();
        if let Some(failures) = config.collectives.whole {
            let is_later_life = membership.incarnation > Incarnation(0);
            let mut whole = Whole::new(membership.rank, failures, is_later_life, world.whole);
            if control.as_ref().is_some_and(ControlPlane::is_alone) {
                whole = whole.with_all_closed();
            }
            under_way = under_way.with_whole(whole);
        }
        let mut world = Self {
            rank: membership.rank,
            size: membership.size,
            incarnation: membership.incarnation,
            patience: Patience::new(&config),
            log_watch: LogWatch::default(),
            tests_until_look: TESTS_PER_LOOK,
            attention: Attention::new(config.recovery.max_restarts > 0),
            peers,
            checkpoints: OfThisProcess::new(checkpoints),
            recovering,
            engine: OfThisProcess::new(engine),
            tells_statistics: config.events.statistics,
            gates_output: config.events.gate_output,
            control,
            job_time: JobTime::new(&config, world.time_ns),
            groups: world.groups,
            schedules: Schedules::new(algorithms),
            host_of_rank: config.collectives.host_of_rank,
            checks_collectives: config.collectives.check,
            under_way,
            requests: Table::after(world.requests),
            messages: Table::after(0),
            spare_begun: Vec::new(),
            _only: only,
        };
        world.meet_holders()?;
        world.heed_news()?;
        Ok(world)
    }
}

impl Membership {
    /// Without a launcher: a job of one rank.
    fn of(control: Option<&ControlPlane>) -> Self {
        control.map_or(
            Self {
                rank: Rank(0),
                size: 1,
                incarnation: Incarnation(0),
                job: 0,
            },
            |control| Self {
                rank: control.rank(),
                size: control.size(),
                incarnation: control.incarnation(),
                job: control.job(),
            },
        )
    }
}

/// Ends the job because of a rank that does not answer. Several ranks may miss it; the first report
/// ends the job, so that it is reported once.
fn tell_launcher(error: &Error, control: Option<&mut ControlPlane>) {
    if let (Error::Fabric(fabric), Some(control)) = (error, control)
        && let FabricError::Silent { .. } = **fabric
    {
        control.abort(&error.to_string());
    }
}
