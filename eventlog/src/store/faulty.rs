//! A disk in memory on which everything goes wrong that can, each time in the
//! same way for the same seed.
//!
//! What must survive: after the death of the process, what was told to be
//! written; after a loss of power, what was told to be synced. What may happen
//! to the rest: any of its sectors is there or not, and a sector that was to be
//! written when the power went may hold anything.

use super::disk::{Disk, Ended, ReadFiles, Stage, Write};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What disks write wholly or not at all.
const SECTOR_BYTES: usize = 512;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Making a file.
    Create,
    /// Writing: some of it is there.
    Write,
    /// Syncing: what was not synced may be lost, and no later sync saves it.
    Sync,
    /// Removing a file.
    Remove,
    /// Reading.
    Read,
}

/// With what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The disk is broken (EIO).
    Io,
    /// The disk is full (ENOSPC).
    NoSpace,
}

/// Settings of a disk.
#[derive(Clone, Copy, Debug)]
pub struct FaultyOptions {
    /// What all chance follows from.
    pub seed: u64,
    /// Room for all files together.
    pub room_bytes: u64,
    /// Chance, in percent (below 100), that asking for news is in vain.
    pub late_percent: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// As any process sees it.
    cache: Vec<u8>,
    /// As it is on the disk, if it is there.
    platter: Option<Vec<u8>>,
    /// Sectors that a sync would write.
    dirty: BTreeSet<usize>,
}

#[derive(Debug)]
struct UnderWay {
    write: Write,
    step: u8,
}

#[derive(Debug)]
struct State {
    options: FaultyOptions,
    random: u64,
    files: BTreeMap<u64, File>,
    /// Removed, and perhaps not on the platter.
    ghosts: BTreeMap<u64, File>,
    under_way: Option<UnderWay>,
    /// The last group that was stored, as said.
    watermark: Option<u64>,
    faults: Vec<(Kind, Failure, u32)>,
    steps: u64,
    stop_at: Option<u64>,
    /// That step has come.
    has_stopped: bool,
}

/// The disk; clones are the same one.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

impl File {
    fn write(&mut self, place: usize, bytes: &[u8], mut sector_is_written: impl FnMut() -> bool) {
        let end = place + bytes.len();
        if self.cache.len() < end {
            self.cache.resize(end, 0);
        }
        let mut at = place;
        while at < end {
            let next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
            let next = next.min(end);
            if sector_is_written() {
                self.cache[at..next].copy_from_slice(&bytes[at - place..next - place]);
                self.dirty.insert(at / SECTOR_BYTES);
            }
            at = next;
        }
    }

    /// Brings dirty sectors to the platter, those of which it is said.
    fn flush(&mut self, mut sector_is_flushed: impl FnMut() -> bool) {
        let platter = self.platter.get_or_insert_default();
        platter.resize(self.cache.len(), 0);
        for sector in core::mem::take(&mut self.dirty) {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(self.cache.len());
            if start < end && sector_is_flushed() {
                platter[start..end].copy_from_slice(&self.cache[start..end]);
            }
        }
    }
}

impl State {
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.random() % 100 < percent
    }

    /// Time goes on, or has ended.
    fn step(&mut self) -> io::Result<()> {
        if self.stop_at == Some(self.steps) {
            self.has_stopped = true;
            return Err(io::Error::other("the machine has stopped"));
        }
        self.steps += 1;
        Ok(())
    }

    fn fault(&mut self, kind: Kind) -> io::Result<()> {
        let fault = self.faults.iter_mut().find(|fault| fault.0 == kind);
        let Some((_, failure, times)) = fault.filter(|fault| fault.2 > 0) else {
            return Ok(());
        };
        *times -= 1;
        Err(match failure {
            Failure::Io => Errno::IO.into(),
            Failure::NoSpace => Errno::NOSPC.into(),
        })
    }

    fn file(&mut self, file: u64) -> io::Result<&mut File> {
        self.files
            .get_mut(&file)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes sectors of what is under way: all, or some.
    fn write(&mut self, percent: u64) -> io::Result<()> {
        let Some(under_way) = self.under_way.take() else {
            return Ok(());
        };
        let write = &under_way.write;
        let mut dice = Vec::new();
        for _ in 0..write.bytes.len() / SECTOR_BYTES + 2 {
            dice.push(self.percent(percent));
        }
        let mut dice = dice.into_iter();
        let written = self.file(write.file).map(|file| {
            let place = write.place as usize;
            file.write(place, &write.bytes, || dice.next().unwrap_or(true));
        });
        self.under_way = Some(under_way);
        written
    }

    fn flush(&mut self, file: u64, percent: u64) -> io::Result<()> {
        let mut dice = Vec::new();
        for _ in 0..self.file(file)?.dirty.len() {
            dice.push(self.percent(percent));
        }
        let mut dice = dice.into_iter();
        self.file(file)?.flush(|| dice.next().unwrap_or(true));
        Ok(())
    }

    /// One step of the write under way, and whether there is news.
    fn advance(&mut self) -> Option<Ended> {
        let under_way = self.under_way.as_mut()?;
        under_way.step += 1;
        let (step, sync, file) = (under_way.step, under_way.write.sync, under_way.write.file);
        let result = match step {
            1 => {
                let result = self.step().and_then(|()| self.write(50));
                result.err().map(|error| (Stage::Write, error))?
            }
            2 => {
                let result = self.step().and_then(|()| self.fault(Kind::Write));
                match result.and_then(|()| self.write(100)) {
                    Ok(()) if sync => return Some(Ended::Written),
                    Ok(()) => return self.done(Ok(())),
                    Err(error) => (Stage::Write, error),
                }
            }
            _ => {
                let result = self.step().and_then(|()| self.fault(Kind::Sync));
                match result {
                    Ok(()) => {
                        let result = self.flush(file, 100);
                        return self.done(result.map_err(|error| (Stage::Sync, error)));
                    }
                    Err(error) => {
                        if !self.has_stopped {
                            let _ = self.flush(file, 50);
                        }
                        (Stage::Sync, error)
                    }
                }
            }
        };
        self.done(Err(result))
    }

    fn done(&mut self, result: Result<(), (Stage, io::Error)>) -> Option<Ended> {
        let bytes = match self.has_stopped {
            // It may go on after this process.
            true => self.under_way.as_ref()?.write.bytes.clone(),
            false => self.under_way.take()?.write.bytes,
        };
        Some(Ended::Done { bytes, result })
    }
}

impl FaultyDisk {
    /// An empty disk.
    pub fn new(options: FaultyOptions) -> Self {
        Self::with_files(options, BTreeMap::new())
    }

    fn with_files(options: FaultyOptions, files: BTreeMap<u64, File>) -> Self {
        let state = State {
            random: options.seed,
            options,
            files,
            ghosts: BTreeMap::new(),
            under_way: None,
            watermark: None,
            faults: Vec::new(),
            steps: 0,
            stop_at: None,
            has_stopped: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next operations of that kind fail, so many.
    pub fn fail(&self, kind: Kind, failure: Failure, times: u32) {
        let mut state = self.state();
        state.faults.retain(|fault| fault.0 != kind);
        state.faults.push((kind, failure, times));
    }

    /// Everything fails from that step on: the process is dead.
    pub fn stop_at(&self, step: u64) {
        self.state().stop_at = Some(step);
    }

    /// Steps so far: each operation is one, or several.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Room for all files together from now on.
    pub fn set_room(&self, room_bytes: u64) {
        self.state().options.room_bytes = room_bytes;
    }

    /// Changes a byte of a file.
    pub fn damage(&self, file: u64, place: usize) {
        if let Some(file) = self.state().files.get_mut(&file) {
            file.cache[place] ^= 0x10;
            if let Some(platter) = &mut file.platter {
                platter[place] ^= 0x10;
            }
        }
    }

    /// The bytes of a file.
    pub fn bytes(&self, file: u64) -> Option<Vec<u8>> {
        self.state().files.get(&file).map(|file| file.cache.clone())
    }

    /// What the next process finds after the death of this one. What was under
    /// way may go on, or not.
    #[must_use]
    pub fn after_death(&self, seed: u64) -> Self {
        let mut state = self.state();
        let options = FaultyOptions {
            seed,
            ..state.options
        };
        let dies = state.under_way.is_some() && state.percent(50);
        let kept = state.files.clone();
        if dies {
            let percent = state.random() % 101;
            let _ = state.write(percent);
        }
        let files = core::mem::replace(&mut state.files, kept);
        let watermark = state.watermark;
        drop(state);
        let after = Self::with_files(options, files);
        after.state().watermark = watermark;
        after
    }

    /// What is found after a loss of power.
    #[must_use]
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let after = self.after_death(seed);
        let ghosts = self.state().ghosts.clone();
        let mut state = after.state();
        // It is never synced: it may name an earlier group, or be as it was begun.
        state.watermark = None;
        let files = core::mem::take(&mut state.files);
        // What was removed may be there again.
        let ghosts = ghosts
            .into_iter()
            .filter(|(_, file)| file.platter.is_some());
        let all: Vec<_> = files.into_iter().chain(ghosts).collect();
        for (number, mut file) in all {
            // A file whose name was not synced may be gone.
            if file.platter.is_none() && state.percent(50) {
                continue;
            }
            let percent = state.random() % 101;
            let mut dice = Vec::new();
            let mut spoiled = Vec::new();
            for sector in &file.dirty {
                dice.push(state.percent(percent));
                if state.percent(5) {
                    spoiled.push(sector * SECTOR_BYTES);
                }
            }
            let mut dice = dice.into_iter();
            // Where it was shortened, the platter need not know yet.
            let before = file.platter.clone().unwrap_or_default();
            file.flush(|| dice.next().unwrap_or(true));
            let mut found = file.platter.take().unwrap_or_default();
            for start in spoiled {
                let end = (start + SECTOR_BYTES).min(found.len());
                if let Some(sector) = found.get_mut(start..end) {
                    sector.fill(0x5a);
                }
            }
            if before.len() > found.len() && state.percent(50) {
                found.extend(&before[found.len()..]);
            }
            let file = File {
                cache: found.clone(),
                platter: Some(found),
                dirty: BTreeSet::new(),
            };
            state.files.insert(number, file);
        }
        drop(state);
        after
    }
}

impl ReadFiles for FaultyDisk {
    fn files(&self) -> io::Result<Vec<u64>> {
        Ok(self.state().files.keys().copied().collect())
    }

    fn length(&self, file: u64) -> io::Result<u64> {
        Ok(self.state().file(file)?.cache.len() as u64)
    }

    fn read_at(&self, file: u64, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        state.fault(Kind::Read)?;
        let cache = &state.file(file)?.cache;
        let rest = cache.get(place as usize..).unwrap_or_default();
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn watermark(&self) -> io::Result<Option<u64>> {
        Ok(self.state().watermark)
    }

    fn path(&self, file: u64) -> PathBuf {
        format!("faulty/events-{file:012}").into()
    }

    fn folder(&self) -> PathBuf {
        "faulty".into()
    }
}

impl Disk for FaultyDisk {
    fn create(&mut self, file: u64, bytes: u64, header: &[u8], sync: bool) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.fault(Kind::Create)?;
        let used: usize = state.files.values().map(|file| file.cache.len()).sum();
        if used as u64 + bytes > state.options.room_bytes {
            return Err(Errno::NOSPC.into());
        }
        if state.files.contains_key(&file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut made = File {
            cache: vec![0; bytes as usize],
            ..File::default()
        };
        state.files.insert(file, made.clone());
        // It may end between the steps.
        state.step()?;
        made.write(0, header, || true);
        state.files.insert(file, made.clone());
        if sync {
            state.step()?;
            made.flush(|| true);
            state.files.insert(file, made);
        }
        Ok(())
    }

    fn sync(&mut self, file: u64) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        match state.fault(Kind::Sync) {
            Ok(()) => state.flush(file, 100),
            Err(error) => {
                let _ = state.flush(file, 50);
                Err(error)
            }
        }
    }

    fn overwrite(&mut self, file: u64, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.file(file)?.write(place as usize, bytes, || true);
        Ok(())
    }

    fn shorten(&mut self, file: u64, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.file(file)?.cache.truncate(bytes as usize);
        Ok(())
    }

    fn remove(&mut self, file: u64, sync: bool) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.fault(Kind::Remove)?;
        let removed = state.files.remove(&file);
        let removed = removed.ok_or(io::ErrorKind::NotFound)?;
        if !sync {
            state.ghosts.insert(file, removed);
        }
        Ok(())
    }

    fn set_watermark(&mut self, group: u64) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.watermark = Some(group);
        Ok(())
    }

    fn begin(&mut self, write: Write) {
        let mut state = self.state();
        assert!(state.under_way.is_none(), "one write at a time");
        state.under_way = Some(UnderWay { write, step: 0 });
    }

    fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended>> {
        let mut state = self.state();
        let late = state.options.late_percent;
        while state.under_way.is_some() {
            if !wait && state.percent(late) {
                return Ok(None);
            }
            let ended = state.advance();
            if ended.is_some() {
                return Ok(ended);
            }
        }
        Ok(None)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> String {
        "a disk in memory".into()
    }
}
