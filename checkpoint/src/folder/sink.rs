//! A checkpoint that is written into a folder.

use super::files::Files;
use super::names;
use super::turn::Mine;
use crate::disk::{Disk, Output};
use crate::error::CheckpointError;
use crate::packing::{Strip, Strips};
use crate::store::contract::{JobName, Key, Sink, Stable};
use std::collections::BTreeSet;
use std::io;

/// The file that is written.
pub(super) struct FileSink {
    disk: Disk,
    job: JobName,
    key: Key,
    turn: Mine,
    part: String,
    /// `Some` until the file has its final name.
    output: Option<Output>,
    /// Older checkpoints that cannot be used.
    damaged: BTreeSet<u64>,
}

impl FileSink {
    pub fn begin(disk: Disk, job: JobName, key: Key, turn: Mine) -> Result<Self, CheckpointError> {
        let part = names::part(&job, key);
        let mut sink = Self {
            disk,
            job,
            key,
            turn,
            part,
            output: None,
            damaged: BTreeSet::new(),
        };
        let made = sink.turn.while_it_lasts(|| sink.disk.create(&sink.part));
        let made = made.ok_or_else(|| sink.given_up())?;
        sink.output = Some(made.map_err(|error| sink.failed("making", error))?);
        Ok(sink)
    }

    /// Sets the damaged checkpoints, which need not be kept.
    pub fn pass_over(&mut self, damaged: impl Iterator<Item = u64>) {
        self.damaged = damaged.collect();
    }

    fn given_up(&self) -> CheckpointError {
        CheckpointError::GivenUp {
            rank: self.key.rank,
            number: self.key.number,
        }
    }

    fn failed(&self, doing: &str, error: io::Error) -> CheckpointError {
        let path = self.disk.directory.path(&self.part);
        CheckpointError::of_system(format!("{doing} {}", path.display()), error)
    }

    /// FENCE-1: another process may run a later life.
    fn check_fence(&self) -> Result<(), CheckpointError> {
        let files = Files::look(&self.disk, &self.job, self.key.rank)?;
        let own = self.key.incarnation;
        match files.latest_life().filter(|latest| *latest > own) {
            None => Ok(()),
            Some(found) => Err(CheckpointError::Fenced {
                rank: self.key.rank,
                own,
                found,
            }),
        }
    }

    /// Renames the file to its final name, and syncs the folder.
    fn give_name(&self) -> Result<(), CheckpointError> {
        self.check_fence()?;
        let name = names::whole(&self.job, self.key.rank, self.key.number);
        let renamed = self.disk.directory.rename(&self.part, &name);
        renamed.map_err(|error| self.failed("renaming", error))?;
        let synced = self.disk.directory.sync();
        synced.map_err(|error| self.failed("syncing the new name of", error))?;
        Ok(())
    }

    /// Removes checkpoints that are not needed any more; returns failures.
    fn remove_older(&self) -> Vec<String> {
        let key = self.key;
        let files = match Files::look(&self.disk, &self.job, key.rank) {
            Ok(files) => files,
            Err(error) => return vec![error.to_string()],
        };
        let is_damaged = |number| self.damaged.contains(&number);
        let mut left = Vec::new();
        for number in names::not_needed(&files.wholes, key.number, is_damaged) {
            let name = names::whole(&self.job, key.rank, number);
            if let Err(error) = self.disk.directory.remove(&name) {
                let path = self.disk.directory.path(&name);
                left.push(format!("removing {}: {error}", path.display()));
            }
        }
        left
    }
}

impl Strips for FileSink {
    type Error = CheckpointError;

    fn exchange(
        &mut self,
        place: u64,
        strip: &mut Strip,
        bytes: usize,
    ) -> Result<(), CheckpointError> {
        let output = self.output.as_mut().expect("there until it is committed");
        let result = output.exchange(place, strip, bytes);
        result.map_err(|error| self.failed("writing", error))
    }
}

impl Sink for FileSink {
    fn commit(mut self: Box<Self>, bytes: u64) -> Result<Stable, CheckpointError> {
        let output = self.output.as_mut().expect("there until it is committed");
        let finished = output.finish(bytes);
        finished.map_err(|error| self.failed("syncing", error))?;
        let named = self.turn.while_it_lasts(|| {
            self.give_name()?;
            // GC-1: removes older ones only after this one is stable.
            Ok::<_, CheckpointError>(self.remove_older())
        });
        let left = named.ok_or_else(|| self.given_up())??;
        self.output = None;
        Ok(Stable { bytes, left })
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        if self.output.take().is_some() {
            // The file would take room. If it stays, the next checkpoint removes it. A file of
            // another writer under this name is left alone.
            let removed = self
                .turn
                .while_it_lasts(|| self.disk.directory.remove(&self.part));
            drop(removed);
        }
    }
}
