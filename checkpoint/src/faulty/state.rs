//! What is on the disk, and what goes wrong.

use super::file::{File, SECTOR_BYTES};
use super::{Failure, Kind, Names};
use rustix::io::Errno;
use std::io;

/// A change of names that was not synced.
#[derive(Clone, Debug)]
enum Renaming {
    Link(String, usize),
    Rename(String, String, usize),
    Unlink(String),
}

/// A strip that is being written.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    pub file: usize,
    pub place: usize,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct State {
    random: u64,
    pub files: Vec<File>,
    pub names: Names,
    synced_names: Names,
    unsynced: Vec<Renaming>,
    pub under_way: Vec<UnderWay>,
    pub faults: Vec<(Kind, Failure, u32)>,
    pub room_bytes: usize,
    pub steps: u64,
    pub stop_at: Option<u64>,
}

impl State {
    pub fn new(seed: u64) -> Self {
        Self {
            random: seed,
            files: Vec::new(),
            names: Names::new(),
            synced_names: Names::new(),
            unsynced: Vec::new(),
            under_way: Vec::new(),
            faults: Vec::new(),
            room_bytes: usize::MAX,
            steps: 0,
            stop_at: None,
        }
    }

    pub fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.random() % 100 < percent
    }

    /// Looks at something: fails after the end, and when it was to fail.
    pub fn look(&mut self, kind: Kind) -> io::Result<()> {
        if self.stop_at.is_some_and(|stop| self.steps >= stop) {
            return Err(io::Error::other("the machine has stopped"));
        }
        let Some(at) = self.faults.iter().position(|fault| fault.0 == kind) else {
            return Ok(());
        };
        let (_, failure, times) = &mut self.faults[at];
        let error = match failure {
            Failure::Io => Errno::IO,
            Failure::NoSpace => Errno::NOSPC,
            Failure::ReadOnly => Errno::ROFS,
            Failure::Forbidden => Errno::ACCESS,
        };
        *times -= 1;
        if *times == 0 {
            self.faults.remove(at);
        }
        Err(error.into())
    }

    /// Changes something: the next step.
    pub fn step(&mut self, kind: Kind) -> io::Result<()> {
        self.look(kind)?;
        self.steps += 1;
        Ok(())
    }

    pub fn create(&mut self, name: &str) -> io::Result<usize> {
        self.step(Kind::Create)?;
        if self.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = self.files.len();
        self.files.push(File::default());
        self.names.insert(name.into(), file);
        self.unsynced.push(Renaming::Link(name.into(), file));
        Ok(file)
    }

    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.step(Kind::Rename)?;
        let file = self.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.names.insert(to.into(), file);
        let renaming = Renaming::Rename(from.into(), to.into(), file);
        self.unsynced.push(renaming);
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step(Kind::Remove)?;
        if self.names.remove(name).is_some() {
            self.unsynced.push(Renaming::Unlink(name.into()));
        }
        Ok(())
    }

    pub fn sync_names(&mut self) -> io::Result<()> {
        self.step(Kind::SyncNames)?;
        self.synced_names = self.names.clone();
        self.unsynced.clear();
        Ok(())
    }

    pub fn change(&mut self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let file = &mut self.files[self.names[name]];
        change(&mut file.cache);
        file.platter = file.cache.clone();
        file.dirty.clear();
    }

    fn used_bytes(&self) -> usize {
        let files = self.names.values().map(|file| &self.files[*file]);
        files.map(|file| file.cache.len()).sum()
    }

    /// Ends one of the writes that are under way, any of them.
    pub fn end_one(&mut self) -> io::Result<()> {
        let failed = self.step(Kind::Write);
        if failed.is_err() && self.stop_at.is_some() {
            // It may still go on after this process.
            return failed;
        }
        let at = self.random() as usize % self.under_way.len();
        let write = self.under_way.swap_remove(at);
        let grows =
            (write.place + write.bytes.len()).saturating_sub(self.files[write.file].cache.len());
        let fits = self.used_bytes() + grows <= self.room_bytes;
        let percent = match failed.is_ok() && fits {
            true => 100,
            false => self.random() % 100,
        };
        self.write(&write, percent);
        failed?;
        fits.then_some(()).ok_or_else(|| Errno::NOSPC.into())
    }

    fn write(&mut self, write: &UnderWay, percent: u64) {
        let sectors = write.bytes.len().div_ceil(SECTOR_BYTES);
        let mut dice: Vec<bool> = Vec::with_capacity(sectors);
        dice.extend((0..sectors).map(|_| percent == 100 || self.percent(percent)));
        let mut dice = dice.into_iter();
        let file = &mut self.files[write.file];
        file.write(write.place, &write.bytes, || dice.next().unwrap_or(true));
    }

    /// As the next process finds it.
    pub fn after_death(&mut self, seed: u64) -> Self {
        let mut after = Self::new(seed ^ self.random());
        after.files = self.files.clone();
        after.names = self.names.clone();
        after.synced_names = self.synced_names.clone();
        after.unsynced = self.unsynced.clone();
        for write in &self.under_way {
            let percent = after.random() % 101;
            after.write(write, percent);
        }
        after
    }

    /// As it is found when the power is back.
    pub fn after_power_loss(mut self) -> Self {
        let mut names = self.synced_names.clone();
        for renaming in core::mem::take(&mut self.unsynced) {
            if self.percent(50) {
                continue;
            }
            match renaming {
                Renaming::Link(name, file) => drop(names.insert(name, file)),
                Renaming::Unlink(name) => drop(names.remove(&name)),
                Renaming::Rename(from, to, file) => {
                    names.remove(&from);
                    names.insert(to, file);
                }
            }
        }
        for number in 0..self.files.len() {
            let mut file = core::mem::take(&mut self.files[number]);
            let percent = self.random() % 101;
            let spoiled: Vec<usize> = file
                .dirty
                .iter()
                .copied()
                .filter(|_| self.percent(5))
                .collect();
            if !file.dirty.is_empty() || file.platter.len() != file.cache.len() {
                file.flush(|| self.percent(percent));
            }
            for sector in spoiled {
                let start = sector * SECTOR_BYTES;
                let end = (start + SECTOR_BYTES).min(file.platter.len());
                if let Some(sector) = file.platter.get_mut(start..end) {
                    sector.fill(0x5a);
                }
            }
            file.cache = file.platter.clone();
            self.files[number] = file;
        }
        self.synced_names = names.clone();
        self.names = names;
        self
    }
}
