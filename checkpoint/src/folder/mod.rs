//! Checkpoints in a folder: which ones count, which are removed, and in which order.
//!
//! A checkpoint is written under a temporary name, synced, and renamed, and its folder is synced.
//! Then it is stable, and only then are older checkpoints removed (GC-1). A crash between any two
//! of these steps leaves the previous checkpoint or this one.

mod files;
mod names;
mod sink;
mod turn;
mod whole;

use crate::disk::Disk;
use crate::error::{CheckpointError, Damaged};
use crate::format::{Flaw, Header, PAGE_BYTES};
use crate::message::Whole;
use crate::store::contract::{Checkpoints, Found, JobName, Key, Sink};
use files::{Files, all_names};
use refrain_ring::{Incarnation, Rank};
use sink::FileSink;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use turn::Turns;
use whole::{FileSource, check};

/// Checkpoints of one job in a folder.
pub struct Folder {
    disk: Disk,
    job: JobName,
    /// Checkpoints that were checked and cannot be used.
    damaged: Mutex<BTreeSet<(Rank, u64)>>,
    turns: Turns,
}

impl Folder {
    /// Checkpoints of a job on a disk.
    pub fn new(disk: impl Into<Disk>, job: JobName) -> Self {
        Self {
            disk: disk.into(),
            job,
            damaged: Mutex::default(),
            turns: Turns::default(),
        }
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeSet<(Rank, u64)>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> String {
        self.disk.directory.path(name).display().to_string()
    }

    fn files(&self, rank: Rank) -> Result<Files, CheckpointError> {
        Files::look(&self.disk, &self.job, rank)
    }

    /// The life that wrote a checkpoint, from its header. `None`: the checkpoint cannot be used.
    fn incarnation_of(
        &self,
        rank: Rank,
        number: u64,
    ) -> Result<Option<Incarnation>, CheckpointError> {
        let name = names::whole(&self.job, rank, number);
        let mut page = [0; PAGE_BYTES];
        let opened = self.disk.open_file(&name);
        let read = opened.and_then(|mut input| input.read(&mut page));
        match read {
            Ok(bytes) => {
                let header = Header::decode(&page[..bytes]).ok();
                Ok(header.map(|header| header.incarnation))
            }
            Err(error) if is_lost(&error) => Ok(None),
            Err(error) => {
                let attempted = format!("reading {}", self.path(&name));
                Err(CheckpointError::of_system(attempted, error))
            }
        }
    }

    /// FENCE-1: refuses a life that is not the latest.
    fn check_life(
        &self,
        rank: Rank,
        own: Incarnation,
        files: &Files,
    ) -> Result<(), CheckpointError> {
        let mut latest = files.latest_life();
        if let Some(newest) = files.wholes.first() {
            latest = latest.max(self.incarnation_of(rank, *newest)?);
        }
        match latest.filter(|latest| *latest > own) {
            Some(found) => Err(CheckpointError::Fenced { rank, own, found }),
            None => Ok(()),
        }
    }

    fn check_number(&self, key: Key, files: &Files) -> Result<(), CheckpointError> {
        for number in files.wholes.iter().take_while(|it| **it >= key.number) {
            // A damaged checkpoint may be replaced.
            if self.look(key.rank, *number)?.is_ok() {
                return Err(CheckpointError::NotNext {
                    rank: key.rank,
                    asked: key.number,
                    found: *number,
                });
            }
            self.damaged().insert((key.rank, *number));
        }
        Ok(())
    }

    /// Reads all of a checkpoint and checks whether it is whole.
    fn look(&self, rank: Rank, number: u64) -> Result<Result<Whole, Damaged>, CheckpointError> {
        let name = names::whole(&self.job, rank, number);
        let opened = self.disk.open_file(&name);
        let checked = opened.and_then(|mut input| check(&mut input));
        let damaged = |place, flaw| Damaged::new(self.path(&name), number, place, flaw);
        let checked = match checked {
            Ok(Ok(checked)) => checked,
            Ok(Err((place, flaw))) => return Ok(Err(damaged(place, flaw))),
            Err(error) if is_lost(&error) => {
                let mut damaged = damaged(0, Flaw::Short);
                damaged.reason = error.to_string();
                return Ok(Err(damaged));
            }
            Err(error) => {
                let attempted = format!("reading {}", self.path(&name));
                return Err(CheckpointError::of_system(attempted, error));
            }
        };
        let header = &checked.header;
        if (header.job, header.rank, header.number) != (self.job.id, rank, number) {
            let flaw = Flaw::Foreign {
                job: header.job,
                rank: header.rank.0,
                number: header.number,
            };
            return Ok(Err(damaged(0, flaw)));
        }
        Ok(Ok(checked))
    }

    fn remove(&self, name: &str) -> Result<(), CheckpointError> {
        self.disk.directory.remove(name).map_err(|error| {
            CheckpointError::of_system(format!("removing {}", self.path(name)), error)
        })
    }

    /// FENCE-1: from here on, every process sees that `life` has begun, also after a loss of power.
    fn fence(&self, rank: Rank, life: Incarnation, files: &Files) -> Result<(), CheckpointError> {
        if life == Incarnation(0) || files.fences.contains(&life) {
            return Ok(());
        }
        let name = names::fence(&self.job, rank, life);
        let made = self.disk.directory.create(&name).map(drop);
        let synced = made.and_then(|()| self.disk.directory.sync());
        synced.map_err(|error| {
            CheckpointError::of_system(format!("making {}", self.path(&name)), error)
        })?;
        for old in &files.fences {
            self.remove(&names::fence(&self.job, rank, *old))?;
        }
        Ok(())
    }

    fn found(&self, rank: Rank, whole: Whole) -> Result<Found, CheckpointError> {
        let name = names::whole(&self.job, rank, whole.header.number);
        // Its writer may have died between the rename and the sync: make the checkpoint stable
        // before it is returned.
        let synced = self.disk.directory.sync();
        let source = synced.and_then(|()| self.disk.open_file(&name));
        let name = self.path(&name);
        let input =
            source.map_err(|error| CheckpointError::of_system(format!("opening {name}"), error))?;
        let source = Box::new(FileSource { input, name });
        Ok(Found { whole, source })
    }
}

/// Whether the disk reports that it has lost data.
fn is_lost(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lost = [Errno::IO, Errno::BADMSG, Errno::UCLEAN].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| lost.contains(&code))
}

impl Checkpoints for Folder {
    fn begin(&self, key: Key) -> Result<Box<dyn Sink>, CheckpointError> {
        let turn = self.turns.of(key.rank);
        // One writer at a time: a checkpoint that was begun before is given up.
        let mut begun = turn.begin();
        let files = self.files(key.rank)?;
        self.check_life(key.rank, key.incarnation, &files)?;
        self.check_number(key, &files)?;
        // Unfinished checkpoints take room that is needed.
        for (number, incarnation) in files.parts {
            let dead = Key {
                number,
                incarnation,
                ..key
            };
            self.remove(&names::part(&self.job, dead))?;
        }
        let mine = begun.take();
        drop(begun);
        let mut sink = FileSink::begin(self.disk.clone(), self.job.clone(), key, mine)?;
        let damaged = self.damaged();
        let of_rank = damaged.iter().filter(|(rank, _)| *rank == key.rank);
        sink.pass_over(of_rank.map(|found| found.1));
        Ok(Box::new(sink))
    }

    fn newest(
        &self,
        rank: Rank,
        recovers: Option<(Incarnation, u64)>,
    ) -> Result<Option<Found>, CheckpointError> {
        let turn = self.turns.of(rank);
        let mut begun = turn.begin();
        let mut files = self.files(rank)?;
        if let Some((life, last)) = recovers {
            self.check_life(rank, life, &files)?;
            self.fence(rank, life, &files)?;
            drop(begun.take());
            // Another process may have committed one before it saw the fence.
            files = self.files(rank)?;
            for number in files.wholes.extract_if(.., |number| *number > last) {
                self.remove(&names::whole(&self.job, rank, number))?;
                self.damaged().remove(&(rank, number));
            }
        }
        drop(begun);
        if files.wholes.is_empty() {
            return Ok(None);
        }
        let mut passed_over = Vec::new();
        for number in files.wholes {
            match self.look(rank, number)? {
                Ok(whole) => {
                    let whole = Whole {
                        passed_over,
                        ..whole
                    };
                    return self.found(rank, whole).map(Some);
                }
                Err(damaged) => {
                    self.damaged().insert((rank, number));
                    passed_over.push(damaged);
                }
            }
        }
        Err(CheckpointError::NoneWhole {
            rank,
            damaged: passed_over,
        })
    }

    fn remove_all(&self) -> Result<(), CheckpointError> {
        let mut failed = None;
        for name in all_names(&self.disk)? {
            if names::is_of_job(&self.job, &name) {
                failed = self.remove(&name).err().or(failed);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn describe(&self) -> String {
        let path = self.disk.directory.path("");
        format!("{}: {}", path.display(), self.disk.describe())
    }
}
