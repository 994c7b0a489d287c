//! Opens the disk under a rank's log.

use super::Membership;
use super::log_size::spills;
use crate::Error;
use core::time::Duration;
use refrain_job::choice;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use refrain_logging::Member;
use refrain_logging::spill::{SpillLog, SpillOptions};
use refrain_logging::store::Store;
use refrain_logging::store::disk::DiskOptions;
use refrain_logging::store::late::LateStore;
use refrain_rank::spilling::{Environment, Spilling};
use refrain_ring::Rank;
use refrain_transport::spill::Spill;
use rustix::thread::CpuSet;
use std::time::Instant;

/// Most writes in progress: enough for disks with a long queue, few enough that a small log memory
/// is not all being written.
const WRITES_MAX: u64 = 16;

/// Opens the spill folder, if the job has one and the protocol keeps payload.
pub(super) fn disk(
    config: &JobConfig,
    membership: &Membership,
    member: Member,
    budget_bytes: u64,
) -> Result<Option<Box<dyn Spill + Send>>, Error> {
    let is_used = member.keeps_payload() && spills(config, membership, budget_bytes);
    let Some(directory) = config.spill_dir.as_ref().filter(|_| is_used) else {
        return Ok(None);
    };
    let chunks = budget_bytes / refrain_ring::CHUNK_BYTES as u64;
    let options = SpillOptions {
        job: membership.job,
        rank: membership.rank,
        incarnation: membership.incarnation,
        size: membership.size,
        disk_bytes: config.log_disk_bytes.unwrap_or(u64::MAX),
        writes_max: WRITES_MAX.min(chunks / 2).max(1) as usize,
    };
    let mut store = LateStore::new(DiskOptions {
        engine: choice::disk_engine("--spill-io", &config.spill_io)?,
        under_way_max: 2 * options.writes_max,
        cores: cores(config),
        ..DiskOptions::new(directory, &*config.spill_prefix, membership.job)
    });
    // What is wrong with a folder that was asked for is said at the start.
    if !config.spill_dir_is_default {
        let begun = store.begin();
        begun.map_err(|error| Error::Config(format!("--spill-dir {directory}: {error}")))?;
    }
    if config.verbose && membership.rank == Rank(0) {
        let store = store.describe();
        report(format_args!("the log goes to {directory}: {store}"));
    }
    let after_bytes = config.spill_after_bytes.unwrap_or(budget_bytes / 2);
    let log = SpillLog::new(options, store);
    let begin = Instant::now();
    let environment = ProcessEnvironment { begin };
    let spilling = Spilling::new(log, directory.clone(), after_bytes, environment);
    Ok(Some(Box::new(spilling)))
}

/// All cores of the job: the writing thread must not share the core of its rank.
fn cores(config: &JobConfig) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    config.cores.iter().for_each(|core| set.set(*core as usize));
    (!config.cores.is_empty()).then_some(set)
}

/// The environment of spilling in a process: its clock and stderr.
#[derive(Debug)]
struct ProcessEnvironment {
    begin: Instant,
}

impl Environment for ProcessEnvironment {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn report(&mut self, text: &str) {
        report(text);
    }
}
