//! A simulated checkpoint store: one process, one disk.
//!
//! **Contract.** A rank hands over a checkpoint and continues when the store answers that the
//! checkpoint is *stable*: from then on it can be read back, whatever happens to the store's
//! process and to the power of its host. A checkpoint is complete or does not exist; the two newest
//! stable checkpoints of a rank are kept (GC-1). Until a checkpoint is stable, the rank's side of
//! the store holds it and hands it over again to a restarted store; if the rank dies before, the
//! checkpoint is dropped. The store does not interpret the contents of a checkpoint.
//!
//! How: a file is created under a temporary name, written in pieces, synced and renamed to its own
//! name; then the folder is synced. A starting store syncs the files that it finds before it uses
//! them: a complete file of a dead process may be in memory only.
//!
//! The work is a sequence of effects, each of which can be the last one of the process
//! ([`CrashPoint`]).

mod disk;
#[cfg(test)]
mod tests;

use crate::crash_point::CrashPoint;
use crate::plan::Plan;
use crate::planted::Planted;
use crate::saved::Saved;
use core::ops::Range;
use disk::Disk;
use refrain_ring::{Clock, Rank};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Number of stable checkpoints that are kept of each rank. GC-1
pub const GENERATIONS: usize = 2;
/// Maximum number of pieces in which a file is written.
const PIECES_MAX: usize = 4;

/// A checkpoint of a rank between two operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint<C = Saved> {
    /// Its number, from 1.
    pub number: u32,
    /// The clock of the latest operation: events up to this clock are in the checkpoint.
    pub clock: Clock,
    /// The state with which a life begins.
    pub contents: C,
}

/// The next step of the write of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteStep {
    Create,
    Write(usize),
    Sync,
    Rename,
    SyncFolder,
    /// Remove the oldest checkpoint, if there are more than are kept.
    Remove,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Checkpoints<C = Saved> {
    crash_point: CrashPoint,
    /// Decides what remains of unsynced data.
    chance: fastrand::Rng,
    planted: Option<Planted>,
    disk: Disk<Checkpoint<C>>,
    /// By rank, on the rank's side: the checkpoint that is not known to be stable.
    asked: BTreeMap<Rank, Rc<Checkpoint<C>>>,
    /// By rank, in the store's process: the next step.
    doing: BTreeMap<Rank, WriteStep>,
    /// By rank, oldest first: stable checkpoints, as far as the process knows.
    stable: BTreeMap<Rank, Vec<u32>>,
    /// By rank: ranges of numbers that do not count. FENCE-1
    void: BTreeMap<Rank, Vec<Range<u32>>>,
    is_full: bool,
    is_slow: bool,
}

impl<C> Checkpoints<C> {
    /// An empty running store.
    pub fn new(plan: &Plan, seed: u64, crash_point: CrashPoint) -> Self {
        Self {
            crash_point,
            chance: fastrand::Rng::with_seed(seed),
            planted: plan.planted,
            disk: Disk::default(),
            asked: BTreeMap::new(),
            doing: BTreeMap::new(),
            stable: BTreeMap::new(),
            void: BTreeMap::new(),
            is_full: false,
            is_slow: false,
        }
    }

    /// A later life begins with checkpoint `from` and numbers its own from `next` on: checkpoints
    /// of earlier lives in between no longer count. FENCE-1
    pub fn fence(&mut self, rank: Rank, from: u32, next: u32) {
        let void = from + 1..next;
        if let Some(stable) = self.stable.get_mut(&rank) {
            stable.retain(|number| !void.contains(number));
        }
        self.void.entry(rank).or_default().push(void);
    }

    fn is_void(&self, rank: Rank, number: u32) -> bool {
        let void = self.void.get(&rank);
        void.is_some_and(|void| void.iter().any(|void| void.contains(&number)))
    }

    /// A rank takes a checkpoint; an unfinished one is dropped.
    pub fn begin(&mut self, rank: Rank, checkpoint: Checkpoint<C>) {
        self.give_up(rank);
        self.asked.insert(rank, Rc::new(checkpoint));
    }

    /// A rank has died: its unfinished checkpoint is dropped.
    pub fn give_up(&mut self, rank: Rank) {
        self.asked.remove(&rank);
        self.doing.remove(&rank);
    }

    /// Whether no write is under way.
    pub fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.doing.is_empty()
    }

    /// Takes one step for one of the ranks; returns the checkpoint that it makes stable, if any. A
    /// dead process or a slow disk takes none.
    pub fn step(&mut self, chance: &mut fastrand::Rng) -> Option<(Rank, u32)> {
        if self.is_slow || self.crash_point.is_dead() {
            return None;
        }
        for rank in self.asked.keys() {
            self.doing.entry(*rank).or_insert(WriteStep::Create);
        }
        let nth = chance.usize(..self.doing.len().max(1));
        let (rank, doing) = self.doing.iter().nth(nth)?;
        let (rank, doing) = (*rank, *doing);
        let told = self.go_on(rank, doing, chance);
        if self.crash_point.is_dead() {
            self.forget();
        }
        told
    }

    fn go_on(
        &mut self,
        rank: Rank,
        doing: WriteStep,
        chance: &mut fastrand::Rng,
    ) -> Option<(Rank, u32)> {
        if doing == WriteStep::Remove {
            self.remove_oldest(rank);
            return None;
        }
        let needs_room = matches!(doing, WriteStep::Create | WriteStep::Write(_));
        let asked = Rc::clone(self.asked.get(&rank)?);
        if self.has(rank, asked.number) {
            // The checkpoint is stable; only the report of it was lost.
            return Some(self.is_stable(rank, asked.number));
        }
        if self.is_full && needs_room {
            return None;
        }
        let file = (rank, asked.number);
        let disk = &mut self.disk;
        let unsynced = self.planted == Some(Planted::CheckpointUnsynced);
        let next = self.crash_point.act(|| match doing {
            WriteStep::Create => {
                disk.create(file, Rc::clone(&asked), chance.usize(1..=PIECES_MAX));
                Some(WriteStep::Write(0))
            }
            WriteStep::Write(piece) if disk.write(file, piece) => Some(WriteStep::Write(piece + 1)),
            WriteStep::Write(_) if unsynced => Some(WriteStep::Rename),
            WriteStep::Write(_) => Some(WriteStep::Sync),
            WriteStep::Sync => {
                disk.sync(file);
                Some(WriteStep::Rename)
            }
            WriteStep::Rename => {
                disk.rename(file);
                (!unsynced).then_some(WriteStep::SyncFolder)
            }
            WriteStep::SyncFolder => {
                disk.sync_folder();
                None
            }
            WriteStep::Remove => None,
        })?;
        match next {
            Some(next) => {
                self.doing.insert(rank, next);
                None
            }
            None => Some(self.is_stable(rank, asked.number)),
        }
    }

    fn has(&self, rank: Rank, number: u32) -> bool {
        self.stable
            .get(&rank)
            .is_some_and(|stable| stable.contains(&number))
    }

    fn is_stable(&mut self, rank: Rank, number: u32) -> (Rank, u32) {
        self.asked.remove(&rank);
        self.doing.remove(&rank);
        let stable = self.stable.entry(rank).or_default();
        stable.retain(|other| *other != number);
        stable.push(number);
        if stable.len() > GENERATIONS {
            self.doing.insert(rank, WriteStep::Remove);
        }
        (rank, number)
    }

    fn remove_oldest(&mut self, rank: Rank) {
        let (disk, stable) = (&mut self.disk, self.stable.entry(rank).or_default());
        if stable.len() > GENERATIONS {
            let oldest = (rank, stable.remove(0));
            self.crash_point.act(|| disk.remove(oldest));
        }
        if stable.len() <= GENERATIONS {
            self.doing.remove(&rank);
        }
    }

    /// Drops the memory of the process.
    fn forget(&mut self) {
        self.doing.clear();
        self.stable.clear();
    }

    /// The process dies; its files remain, synced or not.
    pub fn kill(&mut self) {
        self.crash_point.kill();
        self.forget();
    }

    /// The host loses its power: unsynced data is kept, lost or torn.
    pub fn power_loss(&mut self) {
        self.kill();
        self.disk.lose_power(&mut self.chance);
    }

    /// Restarts the process: it syncs the files that it finds and uses the complete ones.
    pub fn restart(&mut self) {
        self.crash_point = self.crash_point.restarted();
        self.forget();
        let found = self.disk.recover();
        for (rank, number) in found {
            if self.is_void(rank, number) {
                continue;
            }
            self.stable.entry(rank).or_default().push(number);
        }
    }

    /// Sets whether the disk is full.
    pub fn disk_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Sets whether the disk does not answer.
    pub fn disk_slow(&mut self, is_slow: bool) {
        self.is_slow = is_slow;
    }

    /// Reads back the newest stable checkpoint of a rank, if there is one. The store must be alive
    /// ([`Checkpoints::is_dead`]).
    pub fn newest(&self, rank: Rank) -> Option<Rc<Checkpoint<C>>> {
        self.read(rank, 0)
    }

    /// Reads back a stable checkpoint of a rank.
    pub fn at(&self, rank: Rank, number: u32) -> Option<Rc<Checkpoint<C>>> {
        self.disk.read((rank, number))
    }

    /// The stable checkpoint before the newest one. GC-1
    #[cfg(test)]
    pub fn generation_before(&self, rank: Rank) -> Option<Rc<Checkpoint<C>>> {
        self.read(rank, 1)
    }

    /// Whether the process is dead; then nothing can be read back.
    pub fn is_dead(&self) -> bool {
        self.crash_point.is_dead()
    }

    fn read(&self, rank: Rank, before: usize) -> Option<Rc<Checkpoint<C>>> {
        let stable = self.stable.get(&rank)?.iter().rev();
        let mut whole = stable.filter_map(|number| self.disk.read((rank, *number)));
        whole.nth(before)
    }
}
