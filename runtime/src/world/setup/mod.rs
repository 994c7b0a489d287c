//! How a rank joins its job: settings, log memory, fabric, engine.
//!
//! Log memory is always made by the shared-memory fabric; libfabric's registers
//! the same memory, so that a record can leave by either.

mod events;
mod explain;
mod fabric;
mod log_size;
mod neighbours;
mod spill;

use super::World;
use super::waiting::Patience;
use crate::Error;
use crate::choice;
use crate::config::JobConfig;
use crate::control::ControlPlane;
use crate::protocol::SharedEvents;
use refrain_logging::{Member, UnknownProtocol};
use refrain_rank::protocol::Logging;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::{Engine, EngineOptions};
use refrain_transport::fabric::FabricError;
use refrain_transport::fabric::shm::{Shm, ShmOptions};

/// Who this rank is.
struct Membership {
    rank: Rank,
    size: u32,
    incarnation: Incarnation,
    job: u64,
}

impl World {
    /// Joins the job of the launcher that started this process, or makes a job
    /// of one rank if none did.
    ///
    /// # Errors
    /// When the launcher cannot be reached, or the settings cannot be met.
    pub fn init() -> Result<Self, Error> {
        let mut control = ControlPlane::from_environment()?;
        let config = control
            .as_ref()
            .map_or_else(JobConfig::default, |control| control.config().clone());
        let membership = control.as_ref().map_or(
            Membership {
                rank: Rank(0),
                size: 1,
                incarnation: Incarnation(0),
                job: 0,
            },
            |control| Membership {
                rank: control.rank(),
                size: control.size(),
                incarnation: control.incarnation(),
                job: control.job(),
            },
        );
        let (engine, events) = make_engine(&config, &membership, control.as_mut())
            .inspect_err(|error| tell_launcher(error, control.as_mut()))?;
        Ok(Self {
            rank: membership.rank,
            size: membership.size,
            patience: Patience::new(&config),
            engine,
            events,
            tells_statistics: config.events.statistics,
            gates_output: config.events.gate_output,
            control,
            barriers: 0,
            scopes: 0,
            spare_begun: Vec::new(),
            not_shared: core::marker::PhantomData,
        })
    }
}

/// A rank that does not answer is missed by several others at once: the first
/// that says so ends the job, so that it is said once.
fn tell_launcher(error: &Error, control: Option<&mut ControlPlane>) {
    if let (Error::Fabric(FabricError::Silent { .. }), Some(control)) = (error, control) {
        control.abort(&error.to_string());
    }
}

fn make_engine(
    config: &JobConfig,
    membership: &Membership,
    mut control: Option<&mut ControlPlane>,
) -> Result<(Engine, Option<SharedEvents>), Error> {
    choice::check(config)?;
    let member: Member = config
        .protocol
        .parse()
        .map_err(|error: UnknownProtocol| Error::Config(error.to_string()))?;
    let (log_bytes, window_bytes) = log_size::log_size(config, membership, member)?;
    let (shm, mut arena) = Shm::create(ShmOptions {
        job: membership.job,
        rank: membership.rank,
        incarnation: membership.incarnation,
        size: membership.size,
        log_bytes,
        window_bytes,
    })?;
    if config.log_prefault {
        arena
            .commit_all()
            .map_err(|error| Error::Config(format!("--log-prefault: {error}")))?;
    }
    let fabric = match control.as_deref_mut() {
        // A job of one rank has nobody to reach.
        None => Box::new(shm),
        Some(control) => fabric::Making {
            config,
            membership,
            control,
            region: arena.region(),
            window_bytes,
        }
        .make(shm)?,
    };
    let options = EngineOptions {
        rank: membership.rank,
        incarnation: membership.incarnation,
        size: membership.size,
        window_bytes,
    };
    let budget_bytes = arena.budget_bytes();
    let events = events::connect(config, membership, member, control)?;
    let protocol = Logging::new(member, events.clone());
    let engine = Engine::new(options, arena, fabric, Box::new(protocol));
    let engine = match spill::disk(config, membership, member, budget_bytes)? {
        Some(disk) => engine.with_spill(disk),
        None => engine,
    };
    Ok((engine, events))
}
