//! How a rank joins its job: settings, fabric, engine.

use super::World;
use super::waiting::Patience;
use crate::Error;
use crate::choice;
use crate::config::JobConfig;
use crate::control::ControlPlane;
use crate::protocol::Logging;
use refrain_logging::{Member, UnknownProtocol};
use refrain_ring::{CHUNK_BYTES, Incarnation, Rank};
use refrain_transport::engine::{Engine, EngineOptions};
use refrain_transport::fabric::shm::{Shm, ShmOptions};
use refrain_transport::fabric::{Address, Fabric};
use std::os::fd::AsFd;
use std::sync::Arc;

/// A channel's window when its log is reused: small enough to stay in a
/// second-level cache, large enough for the receiver to lag a little.
const REUSED_WINDOW_BYTES: u64 = 1 << 20;
/// Log memory of a rank, unless set or the machine is small.
const LOG_BYTES_DEFAULT: u64 = 512 << 20;
/// The least that a log can work with: two chunks a channel.
const LOG_BYTES_MIN: u64 = 4 * CHUNK_BYTES as u64;

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
        let engine = make_engine(&config, &membership, control.as_mut())?;
        Ok(Self {
            rank: membership.rank,
            size: membership.size,
            patience: Patience::new(&config),
            engine,
            control,
            barriers: 0,
            scopes: 0,
            spare_begun: Vec::new(),
            not_shared: core::marker::PhantomData,
        })
    }
}

fn make_engine(
    config: &JobConfig,
    membership: &Membership,
    control: Option<&mut ControlPlane>,
) -> Result<Engine, Error> {
    choice::check(config)?;
    let member: Member = config
        .protocol
        .parse()
        .map_err(|error: UnknownProtocol| Error::Config(error.to_string()))?;
    let (log_bytes, window_bytes) = log_size(config, membership, member)?;
    let (mut fabric, mut arena) = Shm::create(ShmOptions {
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
    if let Some(control) = control {
        exchange_addresses(&mut fabric, membership, control)?;
    }
    let options = EngineOptions {
        rank: membership.rank,
        incarnation: membership.incarnation,
        size: membership.size,
        window_bytes,
    };
    Ok(Engine::new(
        options,
        arena,
        Box::new(fabric),
        Box::new(Logging::new(member)),
    ))
}

/// Log memory of this rank and the most that one channel may hold of it.
fn log_size(
    config: &JobConfig,
    membership: &Membership,
    member: Member,
) -> Result<(u64, u64), Error> {
    let available = crate::machine::available_memory_bytes();
    let ranks = u64::from(config.ranks_on_host.max(1));
    let share = available.map_or(LOG_BYTES_DEFAULT, |bytes| bytes / 2 / ranks);
    let budget = config
        .log_memory_bytes
        .unwrap_or(LOG_BYTES_DEFAULT.min(share));
    let budget = if config.log_memory_bytes.is_none() {
        budget.max(LOG_BYTES_MIN)
    } else {
        budget
    };
    if budget < LOG_BYTES_MIN {
        return Err(Error::Config(format!(
            "--log-memory {budget}: the least is {LOG_BYTES_MIN} bytes"
        )));
    }
    if let Some(available) = available.filter(|available| budget.saturating_mul(ranks) > *available)
    {
        return Err(Error::Config(format!(
            "--log-memory: {ranks} ranks × {budget} bytes are more than the {available} bytes of memory that are available: lower it"
        )));
    }
    if member.keeps_payload() {
        return Ok((budget, budget));
    }
    let peers = u64::from(membership.size.saturating_sub(1).max(1));
    let window = REUSED_WINDOW_BYTES
        .min(budget / peers)
        .max(2 * CHUNK_BYTES as u64);
    Ok((
        budget
            .min(peers * (window + CHUNK_BYTES as u64))
            .max(peers * 2 * CHUNK_BYTES as u64),
        window,
    ))
}

fn exchange_addresses(
    fabric: &mut impl Fabric,
    membership: &Membership,
    control: &mut ControlPlane,
) -> Result<(), Error> {
    let own = fabric.address();
    let key = |rank: u32| format!("address/{rank}");
    control.put(
        &key(membership.rank.0),
        &own.bytes,
        own.memory.as_deref().map(AsFd::as_fd),
    )?;
    for peer in (0..membership.size).filter(|peer| *peer != membership.rank.0) {
        let (bytes, memory) = control.get(&key(peer))?;
        let address = Address {
            bytes,
            memory: memory.map(Arc::new),
        };
        fabric.connect(Rank(peer), Incarnation(0), &address)?;
    }
    Ok(())
}
