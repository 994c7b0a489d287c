//! Opens the store of a rank's checkpoints, and loads the newest one. REC-1

use super::Membership;
use crate::Error;
use crate::protocol::Engine;
use crate::world::checkpoint::{ENGINE_SECTION, Restored, WORLD_SECTION, WorldPart, broken};
use refrain_checkpoint::{CheckpointStoreSpec, JobName, Reading, Section, SectionKind, Store};
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use refrain_rank::checkpoint::{LogLoading, Transfer, decode_engine};
use refrain_ring::{Frontier, Incarnation, Rank};
use refrain_transport::engine::Beginning;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Time between two checks for room.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// Opens the checkpoint store, if the job has one.
pub(super) fn open(config: &JobConfig, membership: &Membership) -> Result<Option<Store>, Error> {
    let recovery = &config.recovery;
    let Some(place) = recovery.checkpoint_dir.as_ref() else {
        return Ok(None);
    };
    let place: CheckpointStoreSpec = place
        .parse()
        .map_err(|error| Error::Config(format!("--checkpoint-dir: {error}")))?;
    let job = JobName::new(membership.job, recovery.checkpoint_prefix.clone());
    let store = job.and_then(|job| Store::open(&place, job));
    let store = store.map_err(broken)?;
    // A later life asks the store for a checkpoint anyway.
    if membership.incarnation == Incarnation(0) {
        store.reach().map_err(broken)?;
    }
    Ok(Some(store))
}

/// A checkpoint that is being read; its engine and world parts are read already.
pub(super) struct Opened {
    reading: Reading,
    pub(super) number: u64,
    pub(super) next: u64,
    pub(super) engine: Beginning,
    pub(super) world: WorldPart,
}

/// Opens the newest checkpoint, if there is one; `begins_with`: that checkpoint, 0 for none. SET-4
pub(super) fn newest(
    store: &Store,
    membership: &Membership,
    begins_with: Option<u64>,
) -> Result<Option<Opened>, Error> {
    // FENCE-1: checkpoints that earlier lives still write do not count any more.
    let newest = store.recover(membership.rank, membership.incarnation, begins_with);
    let Some(mut reading) = newest.map_err(broken)? else {
        return Ok(None);
    };
    for damaged in reading.passed_over() {
        report(format_args!("rank {}: {damaged}", membership.rank));
    }
    let number = reading.number();
    if begins_with.is_some_and(|with| with != number) {
        return Err(Error::Config(format!(
            "checkpoint {} of rank {} cannot be used, and the other members of its set continue from theirs, which go with it",
            begins_with.unwrap_or(0),
            membership.rank
        )));
    }
    if !reading.passed_over().is_empty() {
        report(format_args!(
            "rank {} continues from the older checkpoint {number}: the job ends if another rank has already freed messages that this one needs",
            membership.rank
        ));
    }
    let bytes = section(&mut reading, SectionKind::Engine, ENGINE_SECTION)?;
    let (rank, engine) = decode_engine(&bytes)
        .map_err(|error| Error::Config(format!("checkpoint {number}: {error}")))?;
    let size = membership.size as usize;
    if rank != membership.rank || engine.next.len() != size {
        return Err(Error::Config(format!(
            "checkpoint {number} is of rank {rank} of {} ranks, this is rank {} of {size}",
            engine.next.len(),
            membership.rank
        )));
    }
    let bytes = section(&mut reading, SectionKind::Engine, WORLD_SECTION)?;
    let world = postcard::from_bytes(&bytes)
        .map_err(|error| Error::Config(format!("checkpoint {number}: {error}")))?;
    Ok(Some(Opened {
        number,
        next: reading.next_number(),
        engine,
        world,
        reading,
    }))
}

/// Reads the next section, which must have this kind and id.
fn section(reading: &mut Reading, kind: SectionKind, id: u64) -> Result<Vec<u8>, Error> {
    let number = reading.number();
    let next = reading.next_section().map_err(broken)?;
    match next {
        Some(mut section) if (section.kind(), section.id()) == (kind, id) => {
            section.read_to_end().map_err(broken)
        }
        _ => Err(Error::Config(format!(
            "checkpoint {number} has no {} section {id} where it should: run the same refrain that wrote it",
            kind.name()
        ))),
    }
}

impl Opened {
    /// Puts the log into the engine, and returns the program's sections. `longest`: longest wait
    /// for room while the disk makes no progress. LOG-5
    pub(super) fn load(
        mut self,
        engine: &mut Engine,
        membership: &Membership,
        next: &[Frontier],
        longest: Duration,
    ) -> Result<(WorldPart, Restored), Error> {
        let mut memory = BTreeMap::new();
        while let Some(mut section) = self.reading.next_section().map_err(broken)? {
            let id = section.id();
            match section.kind() {
                SectionKind::Memory => {
                    let bytes = section.read_to_end().map_err(broken)?;
                    memory.insert(id, bytes);
                }
                SectionKind::Log if id < u64::from(membership.size) => {
                    let pair = (membership.rank, Rank(id as u32));
                    load_log(engine, pair, &next[id as usize], section, longest)?;
                }
                kind => {
                    return Err(Error::Config(format!(
                        "checkpoint {} has a {} section {id} that this program does not expect: run the same refrain that wrote it",
                        self.number,
                        kind.name()
                    )));
                }
            }
        }
        Ok((self.world, Restored::new(self.number, memory)))
    }
}

fn load_log(
    engine: &mut Engine,
    pair: (Rank, Rank),
    until: &Frontier,
    section: Section<'_>,
    longest: Duration,
) -> Result<(), Error> {
    let mut seen = (Instant::now(), engine.disk_progress());
    let mut from = Bytes(section);
    let mut loading = LogLoading::begin(&mut from, pair, until).map_err(broken)?;
    loop {
        match loading.step(engine, &mut from).map_err(broken)? {
            Transfer::More => {}
            Transfer::Done => return Ok(()),
            // No peer is connected, so only the disk can make room.
            Transfer::Waiting => {
                engine.progress()?;
                engine.wait(LOOK_AGAIN);
                let progress = engine.disk_progress();
                if progress != seen.1 {
                    seen = (Instant::now(), progress);
                } else if seen.0.elapsed() >= longest {
                    let (used_bytes, budget_bytes) = engine.log_bytes();
                    let disk = engine.explain_disk().map(|it| format!(" ({it})"));
                    return Err(Error::Config(format!(
                        "the log of the checkpoint does not fit: {used_bytes} of {budget_bytes} bytes of memory are in use, and nothing comes free: raise --log-memory, or check --spill-dir{}",
                        disk.unwrap_or_default()
                    )));
                }
            }
        }
    }
}

struct Bytes<'a>(Section<'a>);

impl io::Read for Bytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(io::Error::other)
    }
}
