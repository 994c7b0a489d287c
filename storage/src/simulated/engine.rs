//! The engine of a simulated disk.

use super::fault::Kind;
use super::state::{DiskState, UnderWay, lock};
use crate::engine::{Bytes, Ended, Engine, Memory, Stage, Transfer};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

/// The engine of a simulated disk: carries out one step of a random transfer at a time, with random
/// delays.
pub struct Simulated<M> {
    state: Arc<Mutex<DiskState>>,
    transfers: BTreeMap<u64, Transfer<M>>,
    under_way_max: usize,
}

impl<M> fmt::Debug for Simulated<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulated({} transfers)", self.transfers.len())
    }
}

impl<M> Simulated<M> {
    pub fn new(state: Arc<Mutex<DiskState>>, under_way_max: usize) -> Self {
        Self {
            state,
            transfers: BTreeMap::new(),
            under_way_max,
        }
    }
}

impl<M: Memory> Simulated<M> {
    /// Carries out one step of a transfer.
    fn advance(&mut self, state: &mut DiskState, number: u64) -> Ended<M> {
        let is_this = |write: &UnderWay| write.number == number;
        let Some(at) = state.under_way.iter().position(is_this) else {
            return self.read(state, number);
        };
        let mut write = state.under_way.swap_remove(at);
        let sync = self.transfers[&number].sync;
        let result = match write.is_written {
            true => state.sync(write.file).map_err(|error| (Stage::Sync, error)),
            false => state
                .write(Kind::Write, write.file, write.place, &write.bytes)
                .map_err(|error| (Stage::Transfer, error)),
        };
        if result.is_ok() && sync && !write.is_written {
            write.is_written = true;
            state.under_way.push(write);
            return Ended::Written;
        }
        match &mut state.witness {
            Some(witness) if result.is_ok() => witness(&write.bytes),
            _ => {}
        }
        if state.has_stopped {
            // The write may continue after this process.
            state.under_way.push(write);
        }
        self.done(number, result)
    }

    fn read(&mut self, state: &mut DiskState, number: u64) -> Ended<M> {
        let result = state.look(Kind::Read);
        let transfer = self.transfers.get_mut(&number).expect("under way");
        let file = transfer.file.simulated().file;
        let (place, rest) = transfer.rest();
        if let (Ok(()), Bytes::Read(into)) = (&result, rest) {
            let moved = state.files[file].cache.get(place, into);
            into[moved..].fill(0);
        }
        self.done(number, result.map_err(|error| (Stage::Transfer, error)))
    }

    fn done(&mut self, number: u64, result: Result<(), (Stage, io::Error)>) -> Ended<M> {
        let transfer = self.transfers.remove(&number).expect("under way");
        let memory = transfer.memory;
        Ended::Done { memory, result }
    }
}

impl<M: Memory + Send> Engine<M> for Simulated<M> {
    fn room(&self) -> usize {
        self.under_way_max - self.transfers.len()
    }

    fn begin(&mut self, mut transfer: Transfer<M>) {
        assert!(
            self.room() > 0,
            "more transfers than the engine has room for"
        );
        let mut state = lock(&self.state);
        let number = state.next_number;
        state.next_number += 1;
        let file = transfer.file.simulated().file;
        if let (place, Bytes::Write(bytes)) = transfer.rest() {
            let bytes = bytes.to_vec();
            state.under_way.push(UnderWay {
                number,
                file,
                place,
                bytes,
                is_written: false,
            });
        }
        drop(state);
        self.transfers.insert(number, transfer);
    }

    fn collect(&mut self, wait: bool, ended: &mut Vec<Ended<M>>) -> io::Result<()> {
        if self.transfers.is_empty() {
            return Ok(());
        }
        let state = self.state.clone();
        let mut state = lock(&state);
        let late = state.late_percent;
        if !wait && (state.is_stalled || state.dice.percent(late)) {
            return Ok(());
        }
        let at = state.dice.below(self.transfers.len());
        let number = self.transfers.keys().nth(at).copied().expect("below");
        ended.push(self.advance(&mut state, number));
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.transfers.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> String {
        "a simulated disk".into()
    }
}

impl<M> Drop for Simulated<M> {
    fn drop(&mut self) {
        let state = &mut *lock(&self.state);
        // Writes in progress end first, unless the process is dead.
        let is_dead = state.has_stopped || state.gate.as_mut().is_some_and(|gate| !gate());
        let mine = |write: &UnderWay| self.transfers.contains_key(&write.number);
        if is_dead {
            return;
        }
        let (mine, others) = core::mem::take(&mut state.under_way)
            .into_iter()
            .partition(mine);
        state.under_way = others;
        let mine: Vec<UnderWay> = mine;
        for write in mine.iter().filter(|write| !write.is_written) {
            state.write_some(write.file, write.place, &write.bytes, 100);
        }
    }
}
