//! Takes a checkpoint: its contents, their order, and when earlier messages and events may be
//! freed.

use super::rounds::Unpublished;
use super::{Checkpointed, Traffic, World};
use crate::Error;
use crate::world::group::Groups;
use core::fmt;
use refrain_checkpoint::{SectionKind, Writing};
use refrain_job::control::message::ToLauncher;
use refrain_job::stderr::report;
use refrain_rank::checkpoint::{LogSaving, Transfer, encode_engine};
use refrain_rank::collective::WholePart;
use refrain_ring::Rank;
use refrain_transport::engine::{Beginning, NotBetween};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Instant;

/// Sections of the kind [`SectionKind::Engine`].
pub(in crate::world) const ENGINE_SECTION: u64 = 0;
pub(in crate::world) const WORLD_SECTION: u64 = 1;

/// The state of the `World` itself in a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::world) struct WorldPart {
    pub(in crate::world) groups: Groups,
    /// Results of collectives that are kept, if any are.
    pub(in crate::world) whole: WholePart,
    /// Number of requests made so far.
    pub(in crate::world) requests: u64,
    /// Number of fences passed.
    pub(in crate::world) fences: u64,
    /// The last result of `World::time`, in nanoseconds since the job began.
    pub(in crate::world) time_ns: i64,
}

impl WorldPart {
    /// State at the start of a program.
    pub(in crate::world) fn at_the_beginning(rank: Rank, size: u32) -> Self {
        Self {
            groups: Groups::new(rank, size),
            whole: WholePart::default(),
            requests: 0,
            fences: 0,
            time_ns: 0,
        }
    }
}

/// Receives the state that a program needs to continue.
#[derive(Debug)]
pub struct Image<'a> {
    writing: &'a mut Writing,
}

impl Image<'_> {
    /// Saves memory under an id. An id is used once in each checkpoint.
    ///
    /// # Errors
    /// [`Error::Config`] when the id was used already, or the store fails.
    pub fn protect(&mut self, id: u64, memory: &[u8]) -> Result<(), Error> {
        let section = self.writing.section(SectionKind::Memory, id);
        let written = section.and_then(|()| self.writing.write(memory));
        written.map_err(broken)
    }

    /// Saves a value, serialized by serde.
    ///
    /// # Errors
    /// [`Error::Argument`] when the value cannot be serialized; else as [`Image::protect`].
    pub fn protect_value<T: Serialize + ?Sized>(
        &mut self,
        id: u64,
        value: &T,
    ) -> Result<(), Error> {
        let bytes = postcard::to_stdvec(value)
            .map_err(|error| Error::Argument(format!("section {id} of a checkpoint: {error}")))?;
        self.protect(id, &bytes)
    }
}

/// Takes a checkpoint, unless the rank's set takes none now. The world must have a store and must not
/// be in replay.
pub(super) fn take(
    world: &mut World,
    save: impl FnOnce(&mut Image<'_>) -> Result<(), Error>,
) -> Result<Option<Checkpointed>, Error> {
    let began = Instant::now();
    let is_in_set = world.checkpoints.rounds.is_in_set;
    if is_in_set && !world.enter_round()? {
        return Ok(None);
    }
    let taken = take_now(world, began, save);
    if let Some(whole) = world.under_way.whole() {
        whole.saved(&mut world.engine);
    }
    let checkpointed = match is_in_set {
        true => world.leave_round(taken)?,
        false => {
            let (checkpointed, unpublished) = taken?;
            world.publish_checkpoint(unpublished);
            checkpointed
        }
    };
    world.make_progress()?;
    Ok(Some(checkpointed))
}

fn take_now(
    world: &mut World,
    began: Instant,
    save: impl FnOnce(&mut Image<'_>) -> Result<(), Error>,
) -> Result<(Checkpointed, Unpublished), Error> {
    if let Some(whole) = world.under_way.whole() {
        whole.tidy(&mut world.engine);
    }
    let state = state_of(world)?;
    let horizon = world.engine.horizon();
    let covers = world.under_way.whole().map(|it| it.covers());
    let statistics = world.engine.statistics();
    let traffic = Traffic {
        received_bytes: statistics.bytes_received,
        sent_bytes: statistics.bytes_sent,
    };
    // Roughly the length of the rank's log in the checkpoint.
    let log_bytes = world.engine.log_bytes().0 + world.engine.log_bytes_on_disk().unwrap_or(0);
    let number = world.checkpoints.next;
    // Counts also after an error: a number is used once.
    world.checkpoints.next += 1;
    let Some(store) = &world.checkpoints.store else {
        return Err(Error::Config("the job has no place for checkpoints".into()));
    };
    if let Some(control) = &mut world.control {
        control.report(&ToLauncher::Taking(number))?;
    }
    let mut writing = store
        .begin(world.rank, world.incarnation, number)
        .map_err(broken)?;
    write_own(world, &state, &mut writing)?;
    save(&mut Image {
        writing: &mut writing,
    })?;
    // Output so far belongs before the checkpoint: a later life that continues from the checkpoint
    // prints only later output.
    crate::stdio::flush();
    world.tell(|control| control.mark_output(number))?;
    let stable = writing.commit().map_err(broken)?;
    for left in &stable.left {
        report(format_args!("rank {}: {left}", world.rank));
    }
    let is_stable = ToLauncher::Stable {
        checkpoint: number,
        bytes: stable.bytes,
        log_bytes,
    };
    world.tell(|control| control.report(&is_stable))?;
    world.checkpoints.traffic_before = traffic;
    let checkpointed = Checkpointed {
        number,
        bytes: stable.bytes,
        took: began.elapsed(),
    };
    let unpublished = Unpublished {
        number,
        horizon,
        covers,
    };
    Ok((checkpointed, unpublished))
}

/// Waits until all sends are in the log, and returns the engine's state.
fn state_of(world: &mut World) -> Result<Beginning, Error> {
    world.block_until(|world| {
        world.engine.gather_from_members();
        match world.engine.state() {
            _ if world.under_way.is_sharing() => None,
            Err(error) if NotBetween::ends_by_progress(error) => None,
            Err(error) => Some(Err(Error::Argument(format!("checkpoint: {error}")))),
            Ok(state) => Some(Ok(state)),
        }
    })?
}

/// Writes the sections of the library. LOG-5
fn write_own(world: &mut World, state: &Beginning, writing: &mut Writing) -> Result<(), Error> {
    let part = WorldPart {
        groups: world.groups.clone(),
        whole: world
            .under_way
            .whole()
            .map(|it| it.part())
            .unwrap_or_default(),
        requests: world.requests.made(),
        fences: world.control.as_ref().map_or(0, |it| it.fences_passed()),
        time_ns: world.job_time.last_ns(),
    };
    let part = postcard::to_stdvec(&part).map_err(broken)?;
    let engine = encode_engine(world.rank, state);
    for (id, bytes) in [(ENGINE_SECTION, &engine), (WORLD_SECTION, &part)] {
        let section = writing.section(SectionKind::Engine, id);
        let written = section.and_then(|()| writing.write(bytes));
        written.map_err(broken)?;
    }
    // A rank's log to itself holds results of collectives, if any are kept.
    let (own, has_own) = (world.rank, world.engine.keeps_results());
    for to in (0..world.size).map(Rank).filter(|to| has_own || *to != own) {
        let section = writing.section(SectionKind::Log, to.0.into());
        section.map_err(broken)?;
        write_log(world, state, to, writing)?;
    }
    Ok(())
}

fn write_log(
    world: &mut World,
    state: &Beginning,
    to: Rank,
    writing: &mut Writing,
) -> Result<(), Error> {
    let mut out = Section(writing);
    let pair = (world.rank, to);
    let mut saving = LogSaving::begin(&world.engine, pair, state, &mut out).map_err(broken)?;
    world.block_until(|world| match saving.step(&mut world.engine, &mut out) {
        Ok(Transfer::More | Transfer::Waiting) => None,
        Ok(Transfer::Done) => Some(Ok(())),
        Err(error) => Some(Err(broken(error))),
    })?
}

/// Writes into the present section of a checkpoint.
struct Section<'a>(&'a mut Writing);

impl io::Write for Section<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(in crate::world) fn broken(error: impl fmt::Display) -> Error {
    Error::Config(format!("checkpoint: {error}"))
}
